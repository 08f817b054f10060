"""Keeps a learned world honest while a policy trains in it: roll out in the simulator, fine-tune, swap, go on."""
