"""The main job behind ``make demo``: stages that run the project's own scripts, and the page that shows the result."""
