"""Learned robot and ghost in a running environment: what both are told, how far they are apart, what the guard says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.view.ghost import GhostStepper

LENGTH = 5000
"""Control steps that are kept for plots."""
INSIDE, OUTSIDE, HELD = 0, 1, 2
"""The guard's verdict: within the training data, outside of it but let through, held at the last good state."""
VERDICTS = ("inside the training data", "outside the training data", "held by the guard")


@dataclass(frozen=True)
class Moment:
    """One control step of all pairs.

    Attributes:
        time: Since the comparison began [s].
        errors: Distance of the two robots by kind (see :func:`differences`), each [P].
        verdict: :data:`INSIDE`, :data:`OUTSIDE` or :data:`HELD`, int [P]; ``None`` where no guard watched.
        contacts: Contacts of the learned robot within the detector's gap, int [P].
        restarted: Pairs that began with this step, boolean [P].
    """

    time: float
    errors: dict[str, np.ndarray]
    verdict: np.ndarray | None
    contacts: np.ndarray
    restarted: np.ndarray


class Comparison:
    """Puts a ghost beside each learned robot of a running environment.

    The environment has 2 P worlds: P learned ones, then their ghosts, which get the same commands, and at each start
    the same state and the same action.

    Args:
        env: Isaac Lab's environment (unwrapped), under learned physics.
        mode: See :data:`flashnerd_ext.view.ghost.MODES`.
        engine: What steps the ghosts.

    Attributes:
        ghost: Steps both.
        history: The last :data:`LENGTH` moments.

    Raises:
        FlashNerdError: Where the environment does not run learned physics of the learned mode.
    """

    _latest: tuple[np.ndarray, np.ndarray]

    def __init__(self, env: Any, mode: str = "policy", engine: str = "mujoco_c") -> None:
        from flashnerd_ext.physics.environment import running_robot
        from flashnerd_ext.robots.registry import get_robot
        from flashnerd_ext.solver.engine_stepper import EngineStepper
        from flashnerd_ext.solver.guard import card_bounds

        solver: Any = running_robot()
        if solver is None or isinstance(solver.stream.stepper, EngineStepper):
            raise FlashNerdError(
                "--compare puts the simulator beside a learned robot, but this run has no learned physics of one "
                "robot a world: type physics=flashnerd."
            )
        self.env, self.solver, self.engine = env, solver, engine
        self.card, self.layout, self.dt = solver.bundle.card, solver.bundle.card.layout, float(env.step_dt)
        stage = solver.contact_stage
        self.ghost = GhostStepper(
            solver.stream.stepper, get_robot(self.card.robot.name), mode, engine, solver.torch_device,
            stage.friction if stage.capacity else None,
        )  # fmt: skip
        self.pairs = self.ghost.pairs
        self.history: deque[Moment] = deque(maxlen=LENGTH)
        self._steps = 0
        bounds, device = card_bounds(self.card, 0.0), solver.torch_device
        self._low, self._high = (torch.tensor(side, device=device) for side in (bounds.lower, bounds.upper))
        solver.stream.stepper = self.ghost
        # The envelope says what a model knows; the simulator itself knows everything.
        solver.guard.exempt(torch.arange(2 * self.pairs, device=solver.torch_device) >= self.pairs)
        self._attach()

    def _attach(self) -> None:
        env, count = self.env, self.pairs
        step, advance = env.step, self.ghost.step

        def stepped(action: Tensor) -> Any:
            action = action.clone()
            young = env.episode_length_buf == 0
            same = (young[:count] | young[count:])[:, None] | (self.ghost.mode == "actions")
            action[count:] = torch.where(same, action[:count], action[count:])
            result = step(action)
            self._keep()
            return result

        def advanced(*arguments: Any) -> tuple[Tensor, Tensor]:
            fresh = self.ghost.fresh.clone()
            joint_q, joint_qd = advance(*arguments)
            self._latest = (joint_q.detach().cpu().numpy(), fresh.cpu().numpy())
            return joint_q, joint_qd

        env.step = stepped
        self.ghost.step = advanced  # pyright: ignore[reportAttributeAccessIssue]
        manager = getattr(env, "command_manager", None)
        if manager is not None:
            manager.compute = self._same_commands(manager, manager.compute)

    def _same_commands(self, manager: Any, compute: Callable[..., None]) -> Callable[..., None]:
        count, total = self.pairs, 2 * self.pairs

        def computed(dt: float) -> None:
            compute(dt)
            for name in manager.active_terms:
                for value in vars(manager.get_term(name)).values():
                    if isinstance(value, Tensor) and value.dim() and len(value) == total:
                        value[count:] = value[:count]

        return computed

    def _keep(self) -> None:
        """Remember the control step that ended."""
        self._steps += 1
        joint_q, restarted = self._latest
        self.history.append(
            Moment(
                self._steps * self.dt,
                differences(self.layout, joint_q[: self.pairs], joint_q[self.pairs :]),
                self.verdict(),
                self.contacts(),
                restarted,
            )
        )

    def positions(self) -> np.ndarray:
        """joint_q of all worlds after the last control step, before any reset, [2 P, nq]; the learned ones first."""
        return self._latest[0]

    def verdict(self) -> np.ndarray:
        """The guard's verdict on each learned robot, int [P]."""
        frame, guard = self.solver.frame, self.solver.guard
        state = frame.state[: self.pairs]
        outside = ((state < self._low) | (state > self._high)).any(1)
        held = guard.failed[: self.pairs] | guard.pending[: self.pairs]
        return (outside.long() * OUTSIDE).masked_fill(held, HELD).cpu().numpy()

    def contacts(self) -> np.ndarray:
        """Contacts of each learned robot within the detector's gap, int [P]; 0 for a model that takes none."""
        if self.ghost.rows is None:
            return np.zeros(self.pairs, dtype=np.int64)
        return self.ghost.rows.used[: self.pairs].sum(1).cpu().numpy()

    def summary(self) -> list[tuple[str, str]]:
        """What a table says of the run so far: (what, value)."""
        found = [("robots", f"{self.pairs}"), ("control steps", f"{self._steps} ({self._steps * self.dt:.1f} s)")]
        for name in self.history[-1].errors:
            values = np.array([moment.errors[name] for moment in self.history])
            found.append((f"{name}: median, largest", f"{np.nanmedian(values):.2g}, {np.nanmax(values):.2g}"))
        verdicts = np.array([moment.verdict for moment in self.history])
        found += [(f"steps {text}", f"{int((verdicts == i).sum())}") for i, text in enumerate(VERDICTS)]
        found.append(("starts of a pair", f"{int(self.ghost.restarts.sum())}"))
        return found


def prepare(env_cfg: Any) -> list[str]:
    """Leave out of an environment's configuration what would treat the two robots of a pair differently.

    Returns:
        What was left out, in words.
    """
    out: list[str] = []
    events = getattr(env_cfg, "events", None)
    for name, term in list(vars(events).items()) if events is not None else []:
        if getattr(term, "mode", None) == "interval":
            setattr(events, name, None)
            out.append(f"event {name}")
    for name, group in vars(getattr(env_cfg, "observations", None) or object).items():
        if getattr(group, "enable_corruption", False):
            group.enable_corruption = False
            out.append(f"noise of the observations {name}")
    return out


def differences(layout: StateLayout, one: np.ndarray, other: np.ndarray) -> dict[str, np.ndarray]:
    """How far two robots are apart, by kind.

    Args:
        layout: Their coordinates.
        one, other: joint_q, shape [P, nq].

    Returns:
        Of what applies, each [P]: ``base [m]``, distance of the bases; ``turn [rad]``, angle between them;
        ``joints [rad]``, root mean square over revolute and continuous joints; ``slides [m]``, over prismatic ones.
    """
    found: dict[str, np.ndarray] = {}
    if layout.floating_base:
        found["base [m]"] = np.linalg.norm(one[:, :3] - other[:, :3], axis=1)
        turn = np.abs((one[:, 3:7] * other[:, 3:7]).sum(1))
        found["turn [rad]"] = 2.0 * np.arccos(np.clip(turn, 0.0, 1.0))
    apart = (one - other)[:, layout.q0 :]
    kinds = np.array(layout.joint_kinds)
    wrapped = np.where(kinds == "continuous", (apart + np.pi) % (2 * np.pi) - np.pi, apart)
    for name, mine in (("joints [rad]", kinds != "prismatic"), ("slides [m]", kinds == "prismatic")):
        if mine.any():
            found[name] = np.sqrt((wrapped[:, mine] ** 2).mean(1))
    return found
