"""Trains one task in several physics with the same seeds, and compares what their policies cost and are worth."""
