"""Training configurations of the velocity tasks."""
