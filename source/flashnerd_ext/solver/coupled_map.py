"""Where the learned robots of a scene stand: articulations found by the joint names of the card, several a world.

A world may hold other articulations and any number of objects; they stay the simulator's. Each robot found is one *row*
of the stream, rows ordered by world and then by place in the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flashnerd_ext.bundle.facts import numbers
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.mapping import StateMap, check_kind, joint_name

if TYPE_CHECKING:
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.model.layout import StateLayout


@dataclass(frozen=True)
class CoupledMap:
    """The learned robots of a model; C of them in each of W worlds, N = W x C rows.

    Attributes:
        worlds: Worlds W.
        copies: Robots of the card in each world, C.
        dofs: MuJoCo degree of freedom of each entry of the layout's ``joint_qd``, int32 [C, nv].
        qpos: MuJoCo coordinate of each entry of ``joint_q``, int32 [C, nq].
        newton_dofs: Newton degree of freedom in the whole model, int64 [N, nv].
        state: Columns of the flat arrays of one world, for :class:`flashnerd_ext.solver.frame.FrameStage`.
        joints: Newton joints of each row, one array a row.
        bodies: Newton bodies of each row, one array a row.
    """

    worlds: int
    copies: int
    dofs: np.ndarray
    qpos: np.ndarray
    newton_dofs: np.ndarray
    state: StateMap
    joints: tuple[np.ndarray, ...]
    bodies: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        """Learned robots in the whole simulation."""
        return self.worlds * self.copies


def learned_articulations(model: Any, names: tuple[str, ...]) -> list[list[int]]:
    """Articulations whose moving joints are exactly ``names``, for each world, in the model's order.

    ``model`` may also be a builder: only labels and starts are read.
    """
    worlds = max(int(model.world_count), 1)
    found: list[list[int]] = [[] for _ in range(worlds)]
    of_world = numbers(model.articulation_world)
    for articulation in range(int(model.articulation_count)):
        if set(moving_names(model, articulation)) == set(names):
            found[max(int(of_world[articulation]), 0)].append(articulation)
    return found


def moving_names(model: Any, articulation: int) -> list[str]:
    """Names of an articulation's joints that have a degree of freedom; a free joint is named ``free joint``."""
    from newton import JointType

    starts, types = numbers(model.joint_qd_start), numbers(model.joint_type)
    ends = np.append(starts, int(model.joint_dof_count))
    return [
        "free joint" if int(types[j]) == int(JointType.FREE) else joint_name(model.joint_label[j])
        for j in articulation_joints(model, articulation)
        if ends[j + 1] > starts[j]
    ]


def articulation_joints(model: Any, articulation: int) -> range:
    """Joints of an articulation; they stand together."""
    starts = [int(start) for start in numbers(model.articulation_start)]
    last = starts[articulation + 1] if articulation + 1 < len(starts) else int(model.joint_count)
    return range(starts[articulation], last)


def map_coupled(solver: SolverMuJoCo, layout: StateLayout, bundle: str, device: torch.device | str) -> CoupledMap:
    """Find the learned robots.

    Args:
        solver: The built MuJoCo Warp solver of the model.
        layout: The card's coordinates, of a fixed base.
        bundle: The card's name, for messages.
        device: The simulation's device.

    Raises:
        FlashNerdError: When no articulation has the card's joints, worlds differ, or a joint is of another kind.
    """
    model: Any = solver.model
    found = learned_articulations(model, layout.joint_names)
    worlds, copies = len(found), len(found[0])
    if not copies:
        raise FlashNerdError(
            f"no articulation of the scene has the joints of the bundle '{bundle}' ({_some(layout.joint_names)}); they "
            f"have {_others(model)}: give the bundle of one of them."
        )
    for world, articulations in enumerate(found):
        if len(articulations) != copies:
            raise FlashNerdError(
                f"world {world} holds {len(articulations)} robots of the bundle '{bundle}', but world 0 holds "
                f"{copies}: put the same into every world."
            )
    places = [[_Robot(model, articulation, layout, bundle) for articulation in row] for row in found]
    coords, dofs = model.joint_coord_count // worlds, model.joint_dof_count // worlds
    of_joint = model.joint_count // worlds
    for world, row in enumerate(places):
        for robot, first in zip(row, places[0], strict=True):
            if not np.array_equal(robot.joints - world * of_joint, first.joints):
                raise FlashNerdError(
                    f"the joints of world {world} stand in another order than those of world 0: put the same into "
                    "every world."
                )
    first = places[0]
    qpos, qvel = numbers(solver.mj_q_start), numbers(solver.mj_qd_start)
    q, v = np.concatenate([robot.q for robot in first]), np.concatenate([robot.v for robot in first])
    straight = copies == 1 and q.tolist() == list(range(coords)) and v.tolist() == list(range(dofs))

    def columns(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(device)

    none = columns(np.zeros(0))
    return CoupledMap(
        worlds=worlds,
        copies=copies,
        dofs=np.stack([qvel[robot.moving] for robot in first]).astype(np.int32),
        qpos=np.stack([qpos[robot.moving] for robot in first]).astype(np.int32),
        newton_dofs=np.stack([robot.v for row in places for robot in row]),
        state=StateMap(worlds, coords, dofs, columns(q), columns(v), none, none, straight, copies),
        joints=tuple(robot.joints for row in places for robot in row),
        bodies=tuple(robot.bodies for row in places for robot in row),
    )


class _Robot:
    """One articulation: its joints in the order of the layout."""

    def __init__(self, model: Any, articulation: int, layout: StateLayout, bundle: str) -> None:
        joints = list(articulation_joints(model, articulation))
        starts, types = model.joint_qd_start.numpy(), model.joint_type.numpy()
        place = {joint_name(model.joint_label[j]): j for j in joints if starts[j + 1] > starts[j]}
        for name, kind in zip(layout.joint_names, layout.joint_kinds, strict=True):
            check_kind(name, kind, int(types[place[name]]), bundle)
        self.joints = np.array(joints)
        self.moving = np.array([place[name] for name in layout.joint_names])
        self.q, self.v = model.joint_q_start.numpy()[self.moving], starts[self.moving]
        self.bodies = np.unique(model.joint_child.numpy()[self.joints])


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _others(model: Any) -> str:
    """What the articulations of world 0 have, for a message."""
    of_world = numbers(model.articulation_world)
    first = [a for a in range(int(model.articulation_count)) if of_world[a] <= 0]
    return "; ".join(_some(moving_names(model, a)) or "no joint that moves" for a in first[:4]) or "none"
