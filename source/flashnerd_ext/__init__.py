"""FlashNeRD: streaming neural dynamics as an Isaac Lab physics backend.

Importing this package starts neither Isaac Lab, Warp nor CUDA: the public names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashnerd_ext.bundle.rollout import rollout
    from flashnerd_ext.bundle.store import Bundle, load_bundle
    from flashnerd_ext.model.differentiable import differentiable_rollout

    __version__: str

__all__ = ["Bundle", "__version__", "differentiable_rollout", "load_bundle", "rollout"]

_LAZY = {
    "load_bundle": "flashnerd_ext.bundle.store",
    "Bundle": "flashnerd_ext.bundle.store",
    "differentiable_rollout": "flashnerd_ext.model.differentiable",
    "rollout": "flashnerd_ext.bundle.rollout",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("flashnerd-ext")
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
