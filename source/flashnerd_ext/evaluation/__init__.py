"""How good and how fast a learned dynamics model is: rollout error, throughput, pictures."""
