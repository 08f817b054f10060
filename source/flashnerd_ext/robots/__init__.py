"""Robots: what each one is, where its tasks and models meet it, and its offline assets."""
