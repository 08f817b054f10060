"""A run as a USD stage: time samples on the scene's own prims, for usdview and Omniverse."""
