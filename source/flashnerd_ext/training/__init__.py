"""Training of dynamics models: windows, loss, optimisers, the loop, checkpoints. Needs torch only."""
