"""Robots on the USD stage, before PhysX parses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.physics.bundles import SceneJoints

_ENVIRONMENT = re.compile(r"/env_(\d+)(?=/|$)")
"""Isaac Lab's names of environments."""


@dataclass(frozen=True)
class StageRobot:
    """An articulation on the stage: where its links hang together, and the names of its joints that move."""

    prim: Any
    path: str
    joints: frozenset[str]

    @property
    def world(self) -> int:
        return world_of(self.path)


def world_of(path: str) -> int:
    """Number of the environment that a prim belongs to; 0 outside of environments."""
    found = _ENVIRONMENT.search(path)
    return int(found.group(1)) if found else 0


def stage_robots(stage: Any) -> list[StageRobot]:
    """Every articulation of the stage with joints that move."""
    from pxr import Usd, UsdPhysics

    found = []
    for prim in stage.Traverse(Usd.TraverseInstanceProxies()):
        if not prim.HasAPI(UsdPhysics.ArticulationRootAPI):
            continue
        # A root that is a link has its joints beside it.
        top = prim.GetParent() if prim.HasAPI(UsdPhysics.RigidBodyAPI) or prim.IsA(UsdPhysics.Joint) else prim
        joints = {
            part.GetName()
            for part in Usd.PrimRange(top, Usd.TraverseInstanceProxies())
            if part.IsA(UsdPhysics.RevoluteJoint) or part.IsA(UsdPhysics.PrismaticJoint)
        }
        if joints:
            found.append(StageRobot(top, prim.GetPath().pathString, frozenset(joints)))
    return found


def scene_joints(robots: Sequence[StageRobot]) -> SceneJoints:
    """Their names, to choose a bundle by."""
    first = tuple(robot.joints for robot in robots if robot.world == 0)
    return SceneJoints(set().union(*(robot.joints for robot in robots)), first, len(first) <= 1)


def without_link_damping(robots: Sequence[StageRobot], joints: Sequence[str]) -> int:
    """Take PhysX's damping of links out of robots with these joints, since no label knows it; returns links changed.

    PhysX damps angular velocities of a link by 0.05 per second where nothing else is said.
    """
    from pxr import Sdf, Usd, UsdPhysics

    changed = 0
    for robot in robots:
        if robot.joints != frozenset(joints):
            continue
        for prim in Usd.PrimRange(robot.prim):
            if not prim.HasAPI(UsdPhysics.RigidBodyAPI) or prim.IsInstanceProxy():
                continue
            damped = False
            prim.AddAppliedSchema("PhysxRigidBodyAPI")
            for name, usual in (("linearDamping", 0.0), ("angularDamping", 0.05)):
                attribute = prim.CreateAttribute(f"physxRigidBody:{name}", Sdf.ValueTypeNames.Float)
                value = attribute.Get()
                damped |= (usual if value is None else value) != 0.0
                attribute.Set(0.0)
            changed += damped
    return changed


def ordered_paths(paths: Sequence[str], worlds: int, bundle: str, joints: Sequence[str]) -> list[str]:
    """Paths of the learned robots, by world and then by name.

    Raises:
        FlashNerdError: When worlds hold different numbers of them.
    """
    if not paths:
        return []
    counts = [0] * worlds
    for path in paths:
        counts[min(world_of(path), worlds - 1)] += 1
    for world, count in enumerate(counts):
        if count != counts[0]:
            raise FlashNerdError(
                f"world {world} holds {count} robots of the bundle '{bundle}' ({', '.join(joints[:4])}), but world 0 "
                f"holds {counts[0]}: put the same into every world."
            )
    return sorted(paths, key=lambda path: (world_of(path), path))


def pattern_of(path: str) -> str:
    """The path of a robot in one environment as a pattern of it in all."""
    return _ENVIRONMENT.sub("/env_*", path)
