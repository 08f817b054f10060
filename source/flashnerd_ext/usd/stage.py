"""A copy of the scene's stage that stands alone: clones written out, physics taken off, files beside it.

Without Kit, Isaac Lab clones environments in the physics backend only: on the stage the other environments are empty
frames. Here they get what the first one has, by Isaac Lab's own clone plan.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.pxr_api import Layer, Prim, Sdf, Stage, Usd, UsdGeom, UsdPhysics

PHYSICS = ("Physics", "Physx", "Newton", "Mjc")
"""How names of schemas begin that a physics engine reads."""
PROPERTIES = ("physics", "newton", "mjc", "drive", "limit", "state")
"""Namespaces of their properties; those of PhysX begin with ``physx``."""


def standalone(scene: Any, plan: Any, paths: tuple[str, ...]) -> Stage:
    """A flattened copy of the scene's stage with every environment in it, in memory.

    Args:
        scene: Isaac Lab's interactive scene.
        plan: Its clone plan (``SimulationContext.get_clone_plan()``), or None.
        paths: Prims that are going to move; no instance lies on the way to them in the copy.
    """
    # The same layers with a session of its own: what is changed there does not reach the running scene.
    session = Sdf.Layer.CreateAnonymous()
    session.TransferContent(scene.stage.GetSessionLayer())
    copy = Usd.Stage.Open(scene.stage.GetRootLayer(), session)
    copy.SetEditTarget(session)
    make_editable(copy, paths)
    stage = Usd.Stage.Open(copy.Flatten(addSourceFileComment=False))
    clone(stage, plan)
    empty = [path for path in scene.env_prim_paths if not _filled(stage, path)]
    if empty and len(empty) < len(scene.env_prim_paths):
        raise FlashNerdError(
            f"{len(empty)} environments have no prims on the stage ({empty[0]} is the first), and the scene has no "
            "clone plan that says what they hold: type --num_envs 1."
        )
    return stage


def _filled(stage: Stage, path: str) -> bool:
    prim = stage.GetPrimAtPath(path)
    return bool(prim) and bool(prim.GetChildren())


def clone(stage: Stage, plan: Any) -> None:
    """Write the clones that a plan names; what the stage has already stays the same."""
    if plan is None:
        return
    import isaaclab.sim as sim_utils
    from isaaclab.cloner import UsdReplicateContext

    spawned = [
        index
        for index, cfg in enumerate(plan.asset_cfgs)
        if isinstance(getattr(cfg, "spawn", None), sim_utils.SpawnerCfg)
    ]
    context: Any = SimpleNamespace(stage=stage)
    UsdReplicateContext(context).replicate(plan, tuple(spawned))


def keep_environments(stage: Stage, scene: Any, count: int) -> list[str]:
    """Remove all environments but the first ``count``; returns the paths of those that went."""
    gone = [path for path in scene.env_prim_paths[count:] if stage.GetPrimAtPath(path)]
    for path in gone:
        stage.RemovePrim(path)
    return gone


def make_editable(stage: Stage, paths: tuple[str, ...]) -> None:
    """Turn instances on the way to ``paths`` into plain prims, since what lies in an instance cannot be moved."""
    for path in paths:
        for prefix in Sdf.Path(path).GetPrefixes():
            prim = stage.GetPrimAtPath(prefix)
            if prim and prim.IsInstance():
                prim.SetInstanceable(False)


def take_physics_off(stage: Stage) -> int:
    """Remove joints, scenes and all schemas and properties that a physics engine reads, everywhere on the stage.

    A body that carries time samples and is simulated too would be pulled by both.

    Returns:
        The number of rigid bodies that were there.
    """
    layer = stage.GetRootLayer()
    bodies, prims = 0, []
    for prim in stage.TraverseAll():
        bodies += bool(prim.HasAPI(UsdPhysics.RigidBodyAPI))
        if str(prim.GetTypeName()).startswith(PHYSICS):
            prims.append(prim.GetPath())
    with Sdf.ChangeBlock():
        for spec in _specs(layer):
            _strip(spec)
    for path in sorted(prims, key=lambda path: path.pathElementCount, reverse=True):
        stage.RemovePrim(path)
    left = [str(p.GetPath()) for p in stage.TraverseAll() if _simulated(p)]
    if left:
        raise FlashNerdError(f"physics is still on at {left[0]} and {len(left) - 1} other prims of the exported stage.")
    return bodies


def _simulated(prim: Prim) -> bool:
    names = [str(prim.GetTypeName()), *(str(name) for name in prim.GetAppliedSchemas())]
    return any(name.startswith(PHYSICS) for name in names)


def _specs(layer: Layer) -> list[Any]:
    found: list[Any] = []

    def visit(path: Any) -> None:
        if path.IsPrimPath():
            found.append(layer.GetPrimAtPath(path))

    layer.Traverse(Sdf.Path.absoluteRootPath, visit)
    return [spec for spec in found if spec is not None]


def _strip(spec: Any) -> None:
    schemas = spec.GetInfo("apiSchemas") if spec.HasInfo("apiSchemas") else None
    if schemas is not None:
        kept = [name for name in schemas.GetAddedOrExplicitItems() if not str(name).startswith(PHYSICS)]
        if kept:
            spec.SetInfo("apiSchemas", Sdf.TokenListOp.CreateExplicit(kept))
        else:
            spec.ClearInfo("apiSchemas")
    for item in list(spec.properties):
        first = item.name.split(":")[0]
        if first in PROPERTIES or first.startswith("physx") or item.name == "material:binding:physics":
            spec.RemoveProperty(item)


def describe(stage: Stage, dt: float, frames: int, facts: dict[str, str]) -> None:
    """Units, up axis, time range and what the recording is of."""
    up, metres = UsdGeom.GetStageUpAxis(stage), UsdGeom.GetStageMetersPerUnit(stage)
    if up != UsdGeom.Tokens.z or abs(metres - 1.0) > 1e-9:
        raise FlashNerdError(f"the scene's stage is {up}-up with {metres} m per unit, but z-up and 1 are Isaac Lab's.")
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    rate = 1.0 / dt
    stage.SetTimeCodesPerSecond(rate)
    stage.SetFramesPerSecond(rate)
    stage.SetStartTimeCode(0)
    stage.SetEndTimeCode(frames - 1)
    world = stage.GetPrimAtPath("/World")
    if not stage.HasDefaultPrim() and world:
        stage.SetDefaultPrim(world)
    layer = stage.GetRootLayer()
    layer.customLayerData = {**layer.customLayerData, "flashnerd": dict(facts)}
