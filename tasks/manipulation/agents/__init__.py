"""Training configurations of the manipulation tasks."""
