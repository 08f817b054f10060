"""Compares each reward term on one motion: what learned physics supplies to it against what the simulator supplies."""
