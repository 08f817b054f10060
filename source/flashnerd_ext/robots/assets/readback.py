"""Read a written asset back: bodies, joints and shapes as numbers, and the hash of what physics sees of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import stage as tools
from flashnerd_ext.robots.assets.inertia import Array, Inertia
from flashnerd_ext.robots.assets.pxr_api import Prim, Usd, UsdGeom, UsdPhysics


@dataclass(frozen=True)
class Joint:
    """One joint of a written asset.

    Args:
        kind: ``revolute``, ``prismatic`` or ``fixed``.
        parent: Body name; ``None`` is the world.
        parent_frame: Joint frame in the parent body [4, 4].
        child_frame: Joint frame in the child body [4, 4].
        axis: Unit vector in the joint frame [3].
        limits: rad or m; infinite when free.
        armature: kg m^2 or kg.
    """

    name: str
    kind: str
    parent: str | None
    child: str
    parent_frame: Array
    child_frame: Array
    axis: Array
    limits: tuple[float, float]
    effort_limit: float
    velocity_limit: float
    armature: float
    stiffness: float
    damping: float
    mimic: tuple[str, float, float] | None


@dataclass(frozen=True)
class Asset:
    """What physics sees of a written asset; bodies and joints in the order of the file."""

    bodies: dict[str, Inertia]
    joints: list[Joint]
    shapes: dict[str, list[dict[str, object]]]

    @property
    def movable(self) -> list[Joint]:
        """Joints with a degree of freedom."""
        return [joint for joint in self.joints if joint.kind != "fixed"]

    @property
    def fixed_base(self) -> bool:
        """Whether the root body is held by the world."""
        return any(joint.parent is None for joint in self.joints)

    @property
    def mass(self) -> float:
        """kg of all bodies together."""
        return float(sum(body.mass for body in self.bodies.values()))

    def breadth_first(self) -> list[Joint]:
        """Movable joints, level by level from the root, in file order within a level.

        This is the order of PhysX; Newton's USD importer goes depth-first, so map joints by name.
        """
        children = {joint.child for joint in self.joints if joint.parent is not None}
        level = [name for name in self.bodies if name not in children]
        ordered: list[Joint] = []
        while level:
            found = [joint for joint in self.joints if joint.parent in level]
            ordered += [joint for joint in found if joint.kind != "fixed"]
            level = [joint.child for joint in found]
        return ordered

    def fingerprint(self) -> str:
        """Eight hex digits of everything that moves: masses, joints and collision shapes, to six digits; no visuals."""
        facts = {
            "bodies": {name: [b.mass, b.com.tolist(), b.tensor.tolist()] for name, b in self.bodies.items()},
            "joints": [
                [j.name, j.kind, j.parent, j.child, j.parent_frame.tolist(), j.child_frame.tolist(), j.axis.tolist()]
                + [list(j.limits), j.effort_limit, j.velocity_limit, j.armature, j.stiffness, j.damping, j.mimic]
                for j in self.joints
            ],
            "shapes": self.shapes,
        }
        return hashlib.sha256(json.dumps(_rounded(facts), sort_keys=True).encode()).hexdigest()[:8]


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return "0" if abs(number) < 1e-9 else f"{number:.6g}"
    return value


def read_asset(path: Path) -> Asset:
    """Parse a written asset.

    Raises:
        FlashNerdError: When it cannot be opened, has no articulation root on its default prim, or nests bodies
            elsewhere than below a scope of the default prim.
    """
    opened = Usd.Stage.Open(str(path)) if path.is_file() else None
    root = opened.GetDefaultPrim() if opened else None
    if not opened or not root:
        raise FlashNerdError(f"{path} is not a USD file with a default prim: type python scripts/assets.py build.")
    if not root.HasAPI(UsdPhysics.ArticulationRootAPI):
        raise FlashNerdError(f"{path} has no articulation root on its default prim '{root.GetName()}'.")
    prims = [prim for prim in Usd.PrimRange(root) if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    # Stock configs look for bodies beside each other below the default prim, or in each other below one scope of it.
    tops = [prim for prim in root.GetChildren() if not prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    scoped = any(prims and prims[0].GetParent() == top for top in tops)
    nested = [] if scoped else [prim.GetName() for prim in prims if prim.GetParent() != root]
    if nested:
        raise FlashNerdError(f"{path} nests bodies ({', '.join(nested[:3])}), which stock sensor patterns do not find.")
    joints = [joint_of(UsdPhysics.Joint(prim)) for prim in Usd.PrimRange(root) if prim.IsA(UsdPhysics.Joint)]
    return Asset(
        bodies={prim.GetName(): inertia_of(prim) for prim in prims},
        joints=joints,
        shapes={prim.GetName(): shapes_of(prim) for prim in prims},
    )


def inertia_of(prim: Prim) -> Inertia:
    """Mass, centre and inertia that are written to a body, in its frame."""
    api = UsdPhysics.MassAPI(prim)
    axes = _rotation(api.GetPrincipalAxesAttr().Get())
    moments = np.array(api.GetDiagonalInertiaAttr().Get(), dtype=np.float64)
    com = np.array(api.GetCenterOfMassAttr().Get(), dtype=np.float64)
    if not np.isfinite(com).all():
        com = np.zeros(3)
    if np.linalg.norm(axes) == 0.0:
        axes = np.eye(3)
    return Inertia(float(api.GetMassAttr().Get()), com, axes @ np.diag(moments) @ axes.T)


def _rotation(quat: Any) -> Array:
    values = [*quat.GetImaginary(), quat.GetReal()]
    return Rotation.from_quat(values).as_matrix() if any(values) else np.eye(3)


def _frame(position: object, quat: object) -> Array:
    frame = np.eye(4)
    frame[:3, :3] = _rotation(quat)
    frame[:3, 3] = np.array(position, dtype=np.float64)
    return frame


def joint_of(joint: Any) -> Joint:
    """One joint prim as numbers."""
    prim = joint.GetPrim()
    parents, children = joint.GetBody0Rel().GetTargets(), joint.GetBody1Rel().GetTargets()
    kind = {"PhysicsRevoluteJoint": "revolute", "PhysicsPrismaticJoint": "prismatic"}.get(prim.GetTypeName(), "fixed")
    axis, limits, angular = np.zeros(3), (-np.inf, np.inf), 1.0
    stiffness = damping = 0.0
    effort = np.inf
    if kind != "fixed":
        typed = UsdPhysics.RevoluteJoint(prim) if kind == "revolute" else UsdPhysics.PrismaticJoint(prim)
        axis["XYZ".index(str(typed.GetAxisAttr().Get()))] = 1.0
        angular = np.pi / 180.0 if kind == "revolute" else 1.0
        low, high = (float(item.Get()) for item in (typed.GetLowerLimitAttr(), typed.GetUpperLimitAttr()))
        limits = (low * angular, high * angular)
        name = "angular" if kind == "revolute" else "linear"
        if prim.HasAPI(UsdPhysics.DriveAPI, name):
            drive = UsdPhysics.DriveAPI(prim, name)
            stiffness = float(drive.GetStiffnessAttr().Get() or 0.0) / angular
            damping = float(drive.GetDampingAttr().Get() or 0.0) / angular
            effort = float(drive.GetMaxForceAttr().Get())
    mimic = None
    if prim.HasRelationship("newton:mimicJoint") and prim.GetRelationship("newton:mimicJoint").GetTargets():
        leader = prim.GetRelationship("newton:mimicJoint").GetTargets()[0].name
        offset, ratio = (float(_get(prim, f"newton:mimicCoef{index}", float(index))) for index in (0, 1))
        mimic = (leader, ratio, offset * angular)
    return Joint(
        name=prim.GetName(),
        kind=kind,
        parent=parents[0].name if parents else None,
        child=children[0].name,
        parent_frame=_frame(joint.GetLocalPos0Attr().Get(), joint.GetLocalRot0Attr().Get()),
        child_frame=_frame(joint.GetLocalPos1Attr().Get(), joint.GetLocalRot1Attr().Get()),
        axis=axis,
        limits=limits,
        effort_limit=effort,
        velocity_limit=float(_get(prim, "newton:velocityLimit", np.inf)) * angular,
        armature=float(_get(prim, "newton:armature", 0.0)),
        stiffness=stiffness,
        damping=damping,
        mimic=mimic,
    )


def _get(prim: Prim, name: str, default: float) -> float:
    value = prim.GetAttribute(name).Get() if prim.HasAttribute(name) else None
    return default if value is None else float(value)


def shapes_of(body: Prim) -> list[dict[str, object]]:
    """Collision shapes of a body, those of bodies inside of it left out."""
    found: list[dict[str, object]] = []
    inside = iter(Usd.PrimRange(body))
    for prim in inside:
        if prim != body and prim.HasAPI(UsdPhysics.RigidBodyAPI):
            inside.PruneChildren()
            continue
        if not prim.HasAPI(UsdPhysics.CollisionAPI):
            continue
        facts: dict[str, object] = {"type": str(prim.GetTypeName()), "pose": tools.matrix_of(prim, body).tolist()}
        for name in ("size", "radius", "height", "axis"):
            if prim.HasAttribute(name):
                value = prim.GetAttribute(name).Get()
                facts[name] = value if isinstance(value, str) else float(value)
        if prim.IsA(UsdGeom.Mesh):
            facts["points"] = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(), dtype=np.float64).tolist()
        found.append(facts)
    return found
