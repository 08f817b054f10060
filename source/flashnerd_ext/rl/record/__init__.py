"""Rolls policies in a simulator, scores their episodes, and keeps what was visited as a data set."""
