"""Read an MJCF: MuJoCo compiles it, and one tree of its bodies is taken."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.errors import FlashNerdError, nearest, one_line
from flashnerd_ext.robots.assets import mesh
from flashnerd_ext.robots.assets.description import Drive
from flashnerd_ext.robots.assets.inertia import ZERO, Array, Inertia
from flashnerd_ext.robots.assets.urdf import Link, Shape, Tree, UrdfJoint
from flashnerd_ext.robots.intake.findings import error, note, warning
from flashnerd_ext.robots.intake.source import Intake, reframed

BALL = "write three hinge joints on three bodies in its place"


def read_mjcf(path: Path, root: str = "") -> Intake:
    """Read an MJCF file; see :func:`flashnerd_ext.robots.intake.source.read`."""
    mujoco: Any = import_module("mujoco")
    intake = Intake(path, "mjcf")
    try:
        model = mujoco.MjSpec.from_file(str(path)).compile()
    except (ValueError, mujoco.FatalError) as failed:
        said = one_line(str(failed), 200).rstrip(".")
        intake.findings.append(error("file", f"MuJoCo refuses it ({said})", "correct the file"))
        return intake
    reader = _Reader(mujoco, model, intake)
    chosen = reader.choose(root)
    if chosen is not None:
        reader.build(chosen)
    return intake


class _Reader:
    """One compiled model."""

    def __init__(self, mujoco: Any, model: Any, intake: Intake) -> None:
        self.mujoco, self.model, self.intake = mujoco, model, intake
        self.names = [model.body(i).name or f"body_{i}" for i in range(model.nbody)]

    def choose(self, root: str) -> int | None:
        """Top body of the robot: the one that is asked for, or the one with the most degrees of freedom below it."""
        model = self.model
        tops = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
        dofs = {top: sum(int(model.body_dofnum[i]) for i in self.below(top)) for top in tops}
        if root:
            if root not in self.names[1:]:
                raise FlashNerdError(f"--root is '{root}', but no body has this name: {nearest(root, self.names[1:])}")
            chosen = self.names.index(root)
        elif not tops or not max(dofs.values()):
            self.intake.findings.append(error("file", "no body of it moves", "give the file of a robot"))
            return None
        else:
            chosen = max(tops, key=lambda top: dofs[top])
        others = [self.names[top] for top in tops if top != chosen and chosen not in self.below(top)]
        if others:
            mend = f"they are left out; --root takes another one than {self.names[chosen]}"
            self.intake.findings.append(warning(", ".join(others[:4]), "the file has further bodies", mend))
        return chosen

    def below(self, top: int) -> list[int]:
        """The body and everything that hangs on it, parents first."""
        found = [top]
        for i in range(top + 1, self.model.nbody):
            if int(self.model.body_parentid[i]) in found:
                found.append(i)
        return found

    def build(self, top: int) -> None:
        """The tree below ``top``, its drives, and what is wrong with it."""
        model, found = self.model, self.intake.findings
        bodies = self.below(top)
        links = {self.names[i]: self._link(i) for i in bodies}
        joints: list[UrdfJoint] = []
        offsets: dict[str, Array] = {}
        self.intake.fixed_base = True
        self.intake.mount = _pose(model.body_pos[top], model.body_quat[top])
        for i in bodies:
            own = [int(model.body_jntadr[i]) + k for k in range(int(model.body_jntnum[i]))]
            kinds = [int(model.jnt_type[j]) for j in own]
            if i == top and kinds == [int(self.mujoco.mjtJoint.mjJNT_FREE)]:
                self.intake.fixed_base, self.intake.mount = False, np.eye(4)
                continue
            if int(self.mujoco.mjtJoint.mjJNT_BALL) in kinds:
                found.append(error(self.names[i], "a ball joint is not supported", BALL))
                continue
            if len(own) > 1:
                mend = "give each joint a body of its own, with a small mass on those between"
                found.append(error(self.names[i], f"it has {len(own)} joints", mend))
                continue
            pose = _pose(model.body_pos[i], model.body_quat[i])
            if i == top and not own:
                continue
            # A top body with a joint hangs on the world: that becomes a link of its own.
            parent = "world_base" if i == top else self.names[int(model.body_parentid[i])]
            if i == top:
                links = {parent: Link(parent, Inertia(1.0, np.zeros(3), 0.01 * np.eye(3))), **links}
                found.append(note(parent, "the first joint hangs on the world: a base link of 1 kg was added"))
            joints.append(self._joint(own[0] if own else None, i, parent, np.eye(4) if i == top else pose))
            if own and np.abs(model.jnt_pos[own[0]]).max() > 1e-12:
                offsets[self.names[i]] = _pose(model.jnt_pos[own[0]], np.array([1.0, 0.0, 0.0, 0.0]))
        tree = Tree(next(iter(links)), links, joints)
        for name, offset in offsets.items():
            reframed(tree, name, offset)
        self._constraints(tree)
        self.intake.tree = tree

    def _link(self, i: int) -> Link:
        model, name = self.model, self.names[i]
        link = Link(name)
        if model.body_mass[i] > 0.0:
            turn = _rotation(model.body_iquat[i])
            tensor = turn @ np.diag(model.body_inertia[i]) @ turn.T
            link.inertia = Inertia(float(model.body_mass[i]), np.array(model.body_ipos[i]), tensor)
        else:
            link.inertia = ZERO
        for geom in range(int(model.body_geomadr[i]), int(model.body_geomadr[i]) + int(model.body_geomnum[i])):
            shape = self._shape(geom, name)
            if shape is None:
                continue
            collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
            (link.collisions if collides else link.visuals).append(shape)
        if not link.visuals:
            link.visuals = list(link.collisions)
        return link

    def _shape(self, geom: int, link: str) -> Shape | None:
        model, kinds = self.model, self.mujoco.mjtGeom
        size, kind = [float(x) for x in model.geom_size[geom]], int(model.geom_type[geom])
        pose = _pose(model.geom_pos[geom], model.geom_quat[geom])
        red, green, blue = (float(x) for x in model.geom_rgba[geom][:3])
        if kind == kinds.mjGEOM_SPHERE:
            what, numbers = "sphere", (size[0],)
        elif kind in (kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER):
            what = "capsule" if kind == kinds.mjGEOM_CAPSULE else "cylinder"
            numbers = (size[0], 2.0 * size[1])
        elif kind == kinds.mjGEOM_BOX:
            what, numbers = "box", tuple(2.0 * x for x in size)
        elif kind == kinds.mjGEOM_ELLIPSOID:
            what, numbers = "points", tuple((mesh.outline("sphere", (1.0,)) * np.array(size)).ravel().tolist())
        elif kind == kinds.mjGEOM_MESH:
            data = int(model.geom_dataid[geom])
            first = int(model.mesh_vertadr[data])
            points = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[data])], dtype=np.float64)
            what, numbers = "points", tuple(points.ravel().tolist())
        else:
            self.intake.findings.append(warning(link, "a plane or height field is part of it", "it is left out"))
            return None
        return Shape(what, numbers, pose, color=(red, green, blue), link=link)

    def _joint(self, j: int | None, i: int, parent: str, pose: Array) -> UrdfJoint:
        model, child = self.model, self.names[i]
        if j is None:
            return UrdfJoint(f"{child}_fixed", "fixed", parent, child, pose, np.array([1.0, 0.0, 0.0]))
        name = model.joint(j).name or f"{child}_joint"
        hinge = int(model.jnt_type[j]) == int(self.mujoco.mjtJoint.mjJNT_HINGE)
        dof, start = int(model.jnt_dofadr[j]), float(model.qpos0[int(model.jnt_qposadr[j])])
        limits = (-np.inf, np.inf)
        if model.jnt_limited[j]:
            limits = (float(model.jnt_range[j, 0]) - start, float(model.jnt_range[j, 1]) - start)
        if start:
            self.intake.findings.append(note(name, f"its reference is {start:g}", "positions count from there"))
        if model.dof_frictionloss[dof]:
            loss = f"joint friction of {float(model.dof_frictionloss[dof]):g} is left out"
            self.intake.findings.append(warning(name, loss, "the asset has none; write it to the USD if it matters"))
        stiffness, damping, effort = self._drive(j)
        passive = float(model.dof_damping[dof])
        if passive:
            text = f"joint damping of {passive:g} N m s/rad becomes damping of the drive"
            self.intake.findings.append(note(name, text, "which acts against the commanded motion in the same way"))
        self.intake.drives[name] = Drive(stiffness, damping + passive, float(model.dof_armature[dof]))
        return UrdfJoint(
            name, ("revolute" if model.jnt_limited[j] else "continuous") if hinge else "prismatic", parent, child, pose,
            np.array(model.jnt_axis[j]), limits, effort,
        )  # fmt: skip

    def _drive(self, j: int) -> tuple[float, float, float]:
        """Stiffness, damping and effort limit that the actuators of a joint give it."""
        model, stiffness, damping = self.model, 0.0, 0.0
        effort = float(np.abs(model.jnt_actfrcrange[j]).max()) if model.jnt_actfrclimited[j] else np.inf
        for a in range(model.nu):
            if int(model.actuator_trntype[a]) != int(self.mujoco.mjtTrn.mjTRN_JOINT) or model.actuator_trnid[a, 0] != j:
                continue
            gear, gain, bias = (
                abs(float(model.actuator_gear[a, 0])),
                model.actuator_gainprm[a],
                model.actuator_biasprm[a],
            )
            if model.actuator_forcelimited[a]:
                effort = min(effort, gear * float(np.abs(model.actuator_forcerange[a]).max()))
            if bias[1] or bias[2]:
                stiffness, damping = stiffness - gear**2 * float(bias[1]), damping - gear**2 * float(bias[2])
            elif model.actuator_ctrllimited[a]:
                effort = min(effort, gear * abs(float(gain[0])) * float(np.abs(model.actuator_ctrlrange[a]).max()))
        return stiffness, damping, effort

    def _constraints(self, tree: Tree) -> None:
        model, found = self.model, self.intake.findings
        for equality in range(model.neq):
            kind, name = int(model.eq_type[equality]), model.equality(equality).name or f"equality {equality}"
            if kind == int(self.mujoco.mjtEq.mjEQ_JOINT):
                text, mend = (
                    "it makes one joint follow another",
                    "it is left out: lock a joint with --lock, or drive both",
                )
                found.append(warning(name, text, mend))
            else:
                found.append(error(name, "it closes a loop", "open the loop: a tree of bodies is needed"))
        if model.ntendon:
            found.append(warning("tendons", f"the file has {model.ntendon}", "they are left out"))
        if model.nexclude and tree.joints:
            found.append(note("contact", "excluded pairs", "links of the robot do not collide with each other at all"))


def _rotation(quat: Array) -> Array:
    return Rotation.from_quat([*quat[1:], quat[0]]).as_matrix()


def _pose(position: Array, quat: Array) -> Array:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = _rotation(quat), position
    return pose
