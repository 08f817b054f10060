"""Last stage: put the new state into the simulation so that everything Isaac Lab reads agrees with it.

What follows from joint_q and joint_qd is recomputed (body poses and velocities by forward kinematics; Isaac Lab takes
accelerations as finite differences itself). What the model does not predict reads 0 and never stale: body_parent_f
(joint reaction wrenches) and body_qdd (IMU accelerations from the solver), and MuJoCo's qfrc_actuator.
"""

from __future__ import annotations

import logging
from typing import Any

from torch import Tensor

from flashnerd_ext.solver.frame import FrameStage

logger = logging.getLogger(__name__)

_UNPREDICTED = {
    "body_parent_f": "joint reaction wrenches (JointWrenchSensor) read 0",
    "body_qdd": "accelerations of the IMU sensor read 0; Isaac Lab's body_com_acc is right, being a finite difference",
}


class WriteStage:
    """Writes into the simulation's own buffers."""

    def __init__(self, model: Any, frame: FrameStage) -> None:
        from newton import eval_fk

        self._model, self._frame, self._eval_fk = model, frame, eval_fk
        self._warned: set[str] = set()

    def write(self, state: Any, joint_q: Tensor, joint_qd: Tensor) -> None:
        """Put joint_q [N, nq] and joint_qd [N, nv] (card's order) into ``state`` and bring its bodies along."""
        views, columns = self._frame.views(state), self._frame.map
        if columns.straight:
            views.joint_q.copy_(joint_q)
            views.joint_qd.copy_(joint_qd)
        else:
            views.joint_q.index_copy_(1, columns.q, joint_q)
            views.joint_qd.index_copy_(1, columns.v, joint_qd)
        self._eval_fk(self._model, state.joint_q, state.joint_qd, state)
        self._clear_unpredicted(state)

    def _clear_unpredicted(self, state: Any) -> None:
        for name, effect in _UNPREDICTED.items():
            values = getattr(state, name, None)
            if values is None:
                continue
            values.zero_()
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("FlashNeRD predicts no %s: %s.", name, effect)
        forces = getattr(getattr(state, "mujoco", None), "qfrc_actuator", None)
        if forces is not None:
            forces.zero_()
