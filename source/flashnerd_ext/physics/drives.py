"""The drives that run in the simulation against those that the bundle was trained with.

A model of position targets has learned what its drives do with them. Gains, limits and kind of motor must be the same;
where they are not, the robot would move as if they were. Events write the gains of Newton's actuators in place and tell
nobody, so that they are looked at again after resets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.mapping import joint_name

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.solver.notices import Notices

TOLERANCE = 1e-3
"""Relative difference of a gain or limit that is accepted."""
FIELDS = ("stiffness", "damping", "effort_limit", "saturation", "velocity_limit")

Motor = dict[str, float]
"""Field of a drive -> value; ``saturation`` and ``velocity_limit`` only of a DC motor."""


def check_drives(card: Card, model: Any, adapter: Any) -> None:
    """Compare every actuated joint of world 0.

    Args:
        card: The bundle's card.
        model: Finalised Newton model.
        adapter: Isaac Lab's adapter of Newton actuators, ``None`` where the task runs none.

    Raises:
        FlashNerdError: For the first joint whose drive differs, with what to type.
    """
    drive = card.actuation.drive
    if drive is None:
        return
    running = running_drives(model, adapter)
    for place, name in enumerate(card.robot.actuated):
        wanted = {field: getattr(drive, field)[place] for field in FIELDS if getattr(drive, field)}
        found = running.get(name, {})
        if set(found) != set(wanted):
            kinds = {True: "a DC motor", False: "a PD drive"}
            have = kinds["saturation" in found] if found.get("stiffness") else "no drive that Newton knows of"
            raise FlashNerdError(
                f"the joint {name} has {have}, but the bundle '{card.name}' was trained with "
                f"{kinds['saturation' in wanted]}: give the task that actuator, and env.sim.use_newton_actuators=true "
                "for explicit ones."
            )
        for field, value in wanted.items():
            if not math.isclose(found[field], value, rel_tol=TOLERANCE, abs_tol=1e-6):
                raise FlashNerdError(
                    f"the drive of joint {name} has {field} {found[field]:.6g}, but the bundle '{card.name}' was "
                    f"trained with {value:.6g}: set it so in the actuator configuration of the robot."
                )


def running_drives(model: Any, adapter: Any) -> dict[str, Motor]:
    """Drive of each joint of world 0, by joint name: Newton's actuators where there are some, else the solver's own."""
    start, world = model.joint_qd_start.numpy(), model.joint_world.numpy()
    joints = [j for j in range(len(model.joint_label)) if int(world[j]) <= 0 and start[j + 1] - start[j] == 1]
    of_dof = {int(start[j]): joint_name(model.joint_label[j]) for j in joints}
    stiffness, damping = model.joint_target_ke.numpy(), model.joint_target_kd.numpy()
    limit = model.joint_effort_limit.numpy()
    found: dict[str, Motor] = {
        name: {"stiffness": float(stiffness[d]), "damping": float(damping[d]), "effort_limit": float(limit[d])}
        for d, name in of_dof.items()
    }
    for actuator in adapter.actuators if adapter is not None else ():
        values = {field: np.asarray(array.numpy()) for field, array in _arrays(actuator).items()}
        for row, dof in enumerate(np.asarray(actuator.indices.numpy()).tolist()):
            if int(dof) in of_dof:
                found[of_dof[int(dof)]] = {field: float(column[row]) for field, column in values.items()}
    return found


class DriveWatch:
    """Notices drives that an event changed although the model has learned them as they were.

    Args:
        card: The bundle's card; a bundle of efforts has learned no drives, and there is nothing to watch.
        adapter: Isaac Lab's adapter of Newton actuators, ``None`` where the task runs none.
    """

    def __init__(self, card: Card, adapter: Any) -> None:
        self._name = card.name
        self._actuators = [] if adapter is None or card.actuation.drive is None else list(adapter.actuators)
        self._kept = [(i, field, now.clone()) for i, field, now in self._now()]
        self._look = True

    def look_again(self) -> None:
        """Environments were reset, which is when events randomise."""
        self._look = True

    def report(self, notices: Notices) -> None:
        """Say once that a drive is another than it was.

        Raises:
            FlashNerdError: Where that is refused.
        """
        if not self._look or notices.said("drives"):
            return
        for (_, field, now), (_, _, kept) in zip(self._now(), self._kept, strict=True):
            if not torch.equal(now, kept):
                notices.say(
                    "drives",
                    f"An event changed the {field.replace('_', ' ')} of a motor, but the bundle '{self._name}' has "
                    "learned the motors as they were: the learned dynamics go on as trained. Remove the event.",
                )
        self._look = False

    def _now(self) -> list[tuple[int, str, torch.Tensor]]:
        return [
            (i, field, wp.to_torch(array, requires_grad=False))
            for i, actuator in enumerate(self._actuators)
            for field, array in _arrays(actuator).items()
        ]


def _arrays(actuator: Any) -> dict[str, Any]:
    """Parameters of one of Newton's actuators, Warp arrays over its joints; unknown parts give none."""
    values: dict[str, Any] = {}
    drive = actuator.drive
    if type(drive).__name__ == "DrivePD":
        values = {"stiffness": drive.kp, "damping": drive.kd}
    for clamp in actuator.clamping:
        if type(clamp).__name__ == "ClampingDCMotor":
            values["saturation"] = clamp.saturation_effort
            values["velocity_limit"] = clamp.velocity_limit
            values["effort_limit"] = clamp.max_motor_effort
        elif hasattr(clamp, "max_effort"):
            values["effort_limit"] = clamp.max_effort
    return values
