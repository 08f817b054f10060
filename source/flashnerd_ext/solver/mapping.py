"""Where the card's joints stand in the simulation's flat arrays: by name, whatever order the importer chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.layout import StateLayout

CLONE_REMEDY = (
    "clone it by declaring the robot in the scene config (cfg.scene), or by spawning it inside a with block of "
    "isaaclab.cloner.ReplicateSession(...)"
)
"""What an environment that forgot to clone has to call."""


@dataclass(frozen=True)
class StateMap:
    """Columns of one world's coordinates, in the order of a :class:`StateLayout`.

    Attributes:
        worlds: Worlds N.
        coords: Coordinates of a world in ``State.joint_q``.
        dofs: Degrees of freedom of a world in ``State.joint_qd`` and ``Control.joint_f``.
        q: Column of each entry of the layout's ``joint_q``, int64 [nq].
        v: Column of each entry of the layout's ``joint_qd``, int64 [nv].
        u: Degree of freedom of each actuation input, int64 [nu].
        u_coord: Coordinate of each actuation input, int64 [nu]; where position targets stand.
        straight: Whether both orders are the same, so that no column has to move.
        copies: Robots in a world; ``q`` and ``v`` then hold the columns of one after the other.
    """

    worlds: int
    coords: int
    dofs: int
    q: Tensor
    v: Tensor
    u: Tensor
    u_coord: Tensor
    straight: bool
    copies: int = 1


def joint_name(label: str) -> str:
    """Last part of a prim path: ``/World/envs/env_0/Robot/cart/cart_to_pole`` is ``cart_to_pole``."""
    return label.rsplit("/", 1)[-1]


def map_state(model: Any, layout: StateLayout, bundle: str, device: torch.device | str) -> StateMap:
    """Find the layout's joints in a finalised Newton model.

    Raises:
        FlashNerdError: When worlds and robots do not pair up, or a joint is missing, is too many or of another kind.
    """
    worlds, joints = _worlds(model)
    if joints == 0:
        raise FlashNerdError("the scene has no joints, but a robot a world is needed: add the articulation to it.")
    labels = [joint_name(label) for label in model.joint_label[:joints]]
    types = model.joint_type.numpy()[:joints].tolist()
    q_start = model.joint_q_start.numpy()[: joints + 1].tolist()
    v_start = model.joint_qd_start.numpy()[: joints + 1].tolist()
    _same_in_every_world(model, worlds, joints, labels)
    free, named = _split(labels, types, v_start)
    _compare_joints(layout, [name for name, _ in named], free is not None, bundle)
    place = dict(named)
    q, v = [], []
    if free is not None:
        q += range(q_start[free], q_start[free] + 7)
        v += range(v_start[free], v_start[free] + 6)
    for name, kind in zip(layout.joint_names, layout.joint_kinds, strict=True):
        joint = place[name]
        check_kind(name, kind, int(types[joint]), bundle)
        q.append(q_start[joint])
        v.append(v_start[joint])
    u = [v_start[place[name]] for name in layout.actuated]
    u_coord = [q_start[place[name]] for name in layout.actuated]
    coords, dofs = model.joint_coord_count // worlds, model.joint_dof_count // worlds
    straight = q == list(range(coords)) and v == list(range(dofs))
    columns = (torch.tensor(places, dtype=torch.int64, device=device) for places in (q, v, u, u_coord))
    return StateMap(worlds, coords, dofs, *columns, straight=straight)


def root_bodies(model: Any) -> np.ndarray:
    """Index of each world's root body, that is the child of its first joint, int64 [N]."""
    worlds, joints = _worlds(model)
    return model.joint_child.numpy().reshape(worlds, joints)[:, 0].astype(np.int64)


def _worlds(model: Any) -> tuple[int, int]:
    worlds, articulations = max(int(model.world_count), 1), int(model.articulation_count)
    if articulations != worlds or model.joint_count % worlds:
        raise FlashNerdError(
            f"the simulation has {articulations} articulations in {worlds} worlds, but the learned backend steps one "
            f"robot a world: {CLONE_REMEDY}, and leave other articulations out."
        )
    return worlds, model.joint_count // worlds


def _same_in_every_world(model: Any, worlds: int, joints: int, labels: list[str]) -> None:
    """Names are compared in every world, since each is read with world 0's columns."""
    for world in range(1, worlds):
        for place, label in enumerate(model.joint_label[world * joints : (world + 1) * joints]):
            if joint_name(label) != labels[place]:
                raise FlashNerdError(
                    f"joint {place} of world {world} is '{joint_name(label)}', but '{labels[place]}' in world 0: "
                    "every world needs the same robot."
                )


def _split(labels: list[str], types: list[int], v_start: list[int]) -> tuple[int | None, list[tuple[str, int]]]:
    """The free joint of the base, if any, and (name, joint) of every joint that moves."""
    from newton import JointType

    free = next((i for i, kind in enumerate(types) if kind == int(JointType.FREE)), None)
    moving = [(labels[i], i) for i in range(len(labels)) if v_start[i + 1] > v_start[i] and i != free]
    return free, moving


def _compare_joints(layout: StateLayout, found: list[str], floating: bool, bundle: str) -> None:
    wanted = layout.joint_names
    missing, extra = [n for n in wanted if n not in found], [n for n in found if n not in wanted]
    if missing:
        raise FlashNerdError(
            f"the bundle '{bundle}' moves the joint '{missing[0]}', which the robot in the scene does not have "
            f"({nearest(missing[0], found)[:-1]}): give another robot, or a bundle that was trained on this one."
        )
    if extra:
        raise FlashNerdError(
            f"the robot in the scene has the joint '{extra[0]}', which the bundle '{bundle}' does not know (it knows "
            f"{', '.join(wanted)}): give another robot, or a bundle that was trained on this one."
        )
    if floating != layout.floating_base:
        have, need = ("a free", "a fixed") if floating else ("a fixed", "a free")
        raise FlashNerdError(
            f"the robot in the scene has {have} base, but the bundle '{bundle}' was trained with {need} one: give a "
            "bundle that was trained on this robot."
        )


def check_kind(name: str, kind: str, found: int, bundle: str) -> None:
    """Refuse a joint of the scene whose type, a ``newton.JointType``, is not the layout's kind."""
    from newton import JointType

    needed = JointType.PRISMATIC if kind == "prismatic" else JointType.REVOLUTE
    if found != int(needed):
        raise FlashNerdError(
            f"the joint '{name}' is {JointType(found).name.lower()} in the scene, but {kind} in the bundle '{bundle}': "
            "give a bundle that was trained on this robot."
        )
