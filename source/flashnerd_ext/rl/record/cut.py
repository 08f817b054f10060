"""From control steps of all worlds to trajectories of one length: a jump of the state always begins a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from flashnerd_ext.data.writer import valid_steps
from flashnerd_ext.rl.record.moment import Moment
from flashnerd_ext.robots.description import RobotDescription


@dataclass(frozen=True)
class Pieces:
    """Trajectories of ``length`` steps, padded where they end earlier.

    Attributes:
        columns: joint_q, joint_qd, actuation, valid, condition, friction, torque and force, as
            :mod:`flashnerd_ext.data.dataset` has them; all [n, ...].
        world: World of each trajectory, [n].
        dropped: Control steps that went into no trajectory: with external forces, or alone between two jumps.
        jumps: Places where a world's state was written between two control steps (resets, pushes).
    """

    columns: dict[str, np.ndarray]
    world: np.ndarray
    dropped: int
    jumps: int


def cut(robot: RobotDescription, moments: Sequence[Moment], length: int, shortest: int = 2) -> Pieces:
    """Cut the recorded control steps of every world into trajectories.

    A step belongs to the trajectory of the step before it only if its state is, to the last bit, the one that the step
    before ended with, and the world's conditions are the same.

    Args:
        moments: Successive control steps.
        length: Most steps in a trajectory.
        shortest: Steps below which a piece is dropped.
    """
    table = {field.name: np.stack([getattr(m, field.name) for m in moments]) for field in fields(Moment)}
    steps, worlds = table["pushed"].shape
    joined = np.zeros((steps, worlds), bool)
    for before, after in (("q1", "q0"), ("qd1", "qd0"), ("condition", "condition"), ("friction", "friction")):
        # NaN equals nothing, so that a broken state cuts as well.
        same = table[before][:-1].reshape(steps - 1, worlds, -1) == table[after][1:].reshape(steps - 1, worlds, -1)
        joined[1:] = same.all(-1) & (joined[1:] if before != "q1" else True)
    clean = ~table["pushed"]
    joined[1:] &= clean[:-1] & clean[1:]
    places: list[tuple[int, int, int]] = []
    for world in range(worlds):
        begins = np.flatnonzero(~joined[:, world])
        for begin, end in zip(begins, [*begins[1:], steps], strict=True):
            places += [
                (world, t, min(t + length, int(end))) for t in range(int(begin), int(end), length) if clean[t, world]
            ]
    places = [(world, a, b) for world, a, b in places if b - a >= shortest]
    columns = _fill(robot, table, places, length)
    return Pieces(
        columns,
        np.array([world for world, _, _ in places], np.int64),
        steps * worlds - sum(b - a for _, a, b in places),
        int((~joined[1:]).sum()),
    )


def _fill(
    robot: RobotDescription, table: dict[str, np.ndarray], places: list[tuple[int, int, int]], length: int
) -> dict[str, np.ndarray]:
    layout, count, links = robot.layout, len(places), table["force"].shape[2]
    q = np.zeros((count, length + 1, layout.nq))
    qd = np.zeros((count, length + 1, layout.nv))
    actuation = np.zeros((count, length, layout.nu), np.float32)
    torque, force = np.zeros_like(actuation), np.zeros((count, length, links, 3), np.float32)
    inside = np.zeros((count, length), bool)
    condition = np.zeros((count, len(layout.conditions)), np.float32)
    friction = np.ones(count, np.float32)
    for i, (world, a, b) in enumerate(places):
        size = b - a
        for whole, start, end in ((q, "q0", "q1"), (qd, "qd0", "qd1")):
            whole[i, :size] = table[start][a:b, world]
            # What lies beyond the end is not valid; it repeats the last state, so that it is finite at least.
            whole[i, size:] = table[end][b - 1, world]
        actuation[i, :size] = table["action"][a:b, world]
        torque[i, :size], force[i, :size] = table["torque"][a:b, world], table["force"][a:b, world]
        condition[i], friction[i] = table["condition"][a, world], table["friction"][a, world]
        inside[i, :size] = True
    columns = {"joint_q": q, "joint_qd": qd, "actuation": actuation, "valid": valid_steps(robot, q, qd) & inside}
    if robot.contacts is not None:
        columns |= {"condition": condition, "friction": friction, "torque": torque, "force": force}
    return columns
