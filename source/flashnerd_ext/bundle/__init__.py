"""Bundles: the weights of a model, the card that says what they mean, and the checks that refuse a mismatch."""
