"""What Isaac Lab sees: configuration, manager and presets of the ``flashnerd`` physics backend.

Importing this package imports neither Isaac Lab nor Newton; the names below are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashnerd_ext.physics.flashnerd_manager import NewtonFlashNerdManager
    from flashnerd_ext.physics.flashnerd_manager_cfg import FlashNerdSolverCfg, flashnerd_physics

__all__ = ["FlashNerdSolverCfg", "NewtonFlashNerdManager", "flashnerd_physics"]

_LAZY = {
    "FlashNerdSolverCfg": "flashnerd_ext.physics.flashnerd_manager_cfg",
    "flashnerd_physics": "flashnerd_ext.physics.flashnerd_manager_cfg",
    "NewtonFlashNerdManager": "flashnerd_ext.physics.flashnerd_manager",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
