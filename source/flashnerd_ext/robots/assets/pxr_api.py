"""pxr, typed as ``Any``: the stubs that come with it say that nearly every call returns ``None``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

Gf: Any = import_module("pxr.Gf")
Sdf: Any = import_module("pxr.Sdf")
Usd: Any = import_module("pxr.Usd")
UsdGeom: Any = import_module("pxr.UsdGeom")
UsdPhysics: Any = import_module("pxr.UsdPhysics")
UsdShade: Any = import_module("pxr.UsdShade")
Vt: Any = import_module("pxr.Vt")

type Stage = Any
type Prim = Any
type Layer = Any
