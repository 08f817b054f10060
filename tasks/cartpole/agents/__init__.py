"""Training configurations of the CartPole task."""
