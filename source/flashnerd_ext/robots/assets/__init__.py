"""The local asset root: robots and props that stock Isaac Lab tasks load, built from pinned PyPI packages.

Call :func:`activate` before any ``import isaaclab*``; it decides where the ``ISAACSIM_ASSET_ROOT`` of this process
points. Importing this package loads neither pxr nor Isaac Lab.
"""

from flashnerd_ext.robots.assets.root import AssetRoot, activate, asset_key, joint_order

__all__ = ["AssetRoot", "activate", "asset_key", "joint_order"]
