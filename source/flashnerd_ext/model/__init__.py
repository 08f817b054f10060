"""The streaming dynamics model, its baselines, and the arithmetic around them; needs torch only."""
