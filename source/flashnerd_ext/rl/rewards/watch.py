"""Reads, at the moment rewards are computed and before any environment is reset, what they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.rewards.motion import Seen

SIGNALS = ("joint_acc", "applied_torque")
"""Attributes of the robot that terms read and that are not functions of the state."""


class Watch:
    """Watches an environment's reward manager until :meth:`remove`.

    Args:
        env: Isaac Lab's own manager-based environment.

    Raises:
        FlashNerdError: For an environment without managers.
    """

    def __init__(self, env: Any) -> None:
        if not hasattr(env, "reward_manager") or not hasattr(env, "termination_manager"):
            raise FlashNerdError(
                f"the task's environment is {type(env).__name__}, which has no reward terms to compare: give a "
                "manager-based task such as task=FlashNeRD-Velocity-Flat-AnymalC."
            )
        self._env, self._rewards = env, env.reward_manager
        self._steps: list[dict[str, np.ndarray]] = []
        self._original = self._rewards.compute
        self._rewards.compute = self._compute

    def remove(self) -> None:
        """Give the manager its own function back."""
        self._rewards.compute = self._original

    def _compute(self, dt: float) -> Any:
        value = self._original(dt)
        self._steps.append(self._read())
        return value

    def _read(self) -> dict[str, np.ndarray]:
        env = self._env
        # Terminations as the terms found them, whatever was made of them afterwards.
        found = {"rewards": self._rewards._step_reward, "ended": env.termination_manager._term_dones}
        manager = getattr(env, "command_manager", None)
        if manager is not None and manager.active_terms:
            found["command"] = manager.get_command(manager.active_terms[0])
        robot = next(iter(env.scene.articulations.values()), None)
        if robot is not None:
            found |= {f"signal.{name}": getattr(robot.data, name).torch for name in SIGNALS}
        for name, sensor in env.scene.sensors.items():
            if hasattr(sensor, "compute_first_contact"):
                found |= {f"signal.{name}.{key}": value for key, value in _contact(sensor).items()}
        return {name: value.detach().cpu().numpy().copy() for name, value in found.items()}

    def seen(self) -> Seen:
        """Everything that was read so far."""
        table = {name: np.stack([step[name] for step in self._steps]) for name in self._steps[0]}
        terms = tuple(self._rewards.active_terms)
        weights = np.array([self._rewards.get_term_cfg(name).weight for name in terms], float)
        return Seen(
            terms=terms,
            weights=weights,
            rewards=table["rewards"],
            ends=tuple(self._env.termination_manager.active_terms),
            ended=table["ended"],
            command=table.get("command", np.zeros((*table["rewards"].shape[:2], 0), np.float32)),
            signals={key.removeprefix("signal."): value for key, value in table.items() if key.startswith("signal.")},
        )


def _contact(sensor: Any) -> dict[str, Any]:
    """Force and times of a contact sensor's bodies."""
    data = sensor.data
    found = {"force": data.net_forces_w.torch}
    for name in ("current_air_time", "last_air_time") if sensor.cfg.track_air_time else ():
        found[name] = getattr(data, name).torch
    return found
