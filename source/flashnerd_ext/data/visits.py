"""States that a model itself visits, with what the simulator makes of them: training data against runaway rollouts.

A model that was trained on the simulator's states alone meets its own after a few steps: a foot a little too deep, a
joint a little too fast. Nothing in the data says what comes of those, and errors grow. Here the model is rolled from
the starts of its training data, and from its states the simulator takes some steps (DAgger: Ross et al. 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.data.dataset import Trajectories
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.writer import rollout_policy, valid_steps
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import RobotDescription

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashnerd_ext.evaluation.rollout_error import Predictor

HARDEST = 5.0e3
"""Mean contact force on a link over a step above which a label is dropped [N]: ten times the weight of the robots."""


@dataclass(frozen=True)
class VisitPlan:
    """How the model is rolled.

    Attributes:
        rollouts: Rollouts of the model.
        horizon: Steps of each.
        every: Steps between two states of a rollout that are labelled.
        length: Steps that the simulator takes from each.
        widest: States with a velocity above this many times the largest of the data are dropped: the simulator makes
            nothing sensible of them.
        batch: Rollouts at a time.
        seed: Of the choice of starts and commands.
    """

    rollouts: int = 1024
    horizon: int = 150
    every: int = 7
    length: int = 4
    widest: float = 2.0
    batch: int = 256
    seed: int = 0

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            FlashNerdError: Names the option.
        """
        for name in ("rollouts", "horizon", "every", "length", "batch"):
            if getattr(self, name) < 1:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but at least 1 is needed.")
        if not self.widest > 0:
            raise FlashNerdError(f"widest is {self.widest}, but a number above 0 is needed.")


def spliced(data: Trajectories, chosen: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Commands [steps, n, nu] for rollouts that start as the trajectories ``chosen`` [n].

    Beyond a trajectory's end it goes on as other trajectories of its sampler begin.
    """
    per = data.actuation.shape[1]
    pieces = [data.actuation[chosen]]
    for _ in range(-(-steps // per) - 1):
        other = np.empty_like(chosen)
        for kind in np.unique(data.sampler[chosen]):
            mine = data.sampler[chosen] == kind
            other[mine] = rng.choice(np.flatnonzero(data.sampler == kind), int(mine.sum()))
        pieces.append(data.actuation[other])
    return np.concatenate(pieces, 1)[:, :steps].transpose(1, 0, 2)


def visit(
    robot: RobotDescription,
    engine: MujocoC,
    predict: Predictor,
    data: Trajectories,
    plan: VisitPlan,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Label what a model visits.

    Args:
        robot: Robot of the data.
        engine: The data's simulator.
        predict: The model.
        data: Its training data, whose starts, commands and worlds are taken.
        plan: How.
        progress: Called with the number of rollouts that are done.

    Returns:
        Columns of trajectories of ``plan.length`` steps as :mod:`flashnerd_ext.data.dataset` has them, and the rollout
        of each, [n].

    Raises:
        FlashNerdError: Where no state is left.
    """
    rng = np.random.default_rng(plan.seed)
    # The largest speed in the data: what lies far beyond is no state of a robot.
    fastest = plan.widest * float(np.abs(data.joint_qd[:, :-1][data.valid]).max())
    chosen = rng.choice(len(data.valid), plan.rollouts, replace=plan.rollouts > len(data.valid))
    parts: list[dict[str, np.ndarray]] = []
    owners: list[np.ndarray] = []
    for begin in range(0, plan.rollouts, plan.batch):
        mine = chosen[begin : begin + plan.batch]
        worlds = {name: data.extra[name][mine] for name in ("condition", "friction")}
        commands = spliced(data, mine, plan.horizon + plan.length, rng)
        with np.errstate(all="ignore"):
            q, qd = predict(data.joint_q[mine, 0], data.joint_qd[mine, 0], commands[: plan.horizon], worlds)
            places = [
                (t, i)
                for t in range(plan.every, plan.horizon + 1, plan.every)
                for i in np.flatnonzero(np.isfinite(q[t]).all(1) & (np.abs(qd[t]).max(1) < fastest))
            ]
        if places:
            parts.append(_labelled(robot, engine, q, qd, commands, worlds, places, plan.length, fastest))
            owners.append(begin + np.array([i for _, i in places]))
        progress(len(mine))
    if not parts:
        raise FlashNerdError(
            f"none of {plan.rollouts} rollouts has a state below {fastest:.3g} rad/s after {plan.every} steps: this "
            "model cannot be rolled; train it longer first."
        )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return columns, np.concatenate(owners)


def _labelled(
    robot: RobotDescription,
    engine: MujocoC,
    q: np.ndarray,
    qd: np.ndarray,
    commands: np.ndarray,
    worlds: dict[str, np.ndarray],
    places: list[tuple[int, Any]],
    length: int,
    fastest: float,
) -> dict[str, np.ndarray]:
    times, owners = (np.array(x) for x in zip(*places, strict=True))
    start_q, start_qd = q[times, owners].copy(), qd[times, owners]
    start_q[:, 3:7] /= np.linalg.norm(start_q[:, 3:7], axis=1, keepdims=True)
    here = {name: value[owners] for name, value in worlds.items()}
    engine.set_worlds(here["condition"], here["friction"])
    found = rollout_policy(engine, start_q, start_qd, lambda t, _q, _qd: commands[times + t, owners], length)
    names = ("joint_q", "joint_qd", "actuation", "torque", "force")
    columns = dict(zip(names, found, strict=True))
    valid = valid_steps(robot, columns["joint_q"], columns["joint_qd"])
    # Where the simulator itself is thrown apart (a leg deep in the ground), there is nothing to learn from.
    calm = (np.abs(columns["force"]).max((2, 3)) < HARDEST) & (np.abs(columns["joint_qd"][:, 1:]).max(2) < fastest)
    return columns | {"valid": valid & np.logical_and.accumulate(calm, axis=1), **here}
