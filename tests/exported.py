"""Engine models of robots, exported once in a test process: Newton reads the asset for each, which takes a second."""

from __future__ import annotations

from functools import cache

from flashnerd_ext.data.engines.export import export_model
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.robots.registry import get_robot


@cache
def exported(name: str) -> ExportedModel:
    """Model of a known robot, for all tests to share: change a copy."""
    return export_model(get_robot(name))
