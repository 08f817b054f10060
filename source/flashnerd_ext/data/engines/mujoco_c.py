"""MuJoCo C over an exported model, all worlds of a batch on a pool of threads (``mujoco.rollout``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError


class MujocoC:
    """Steps in float64; the result does not depend on the number of threads or on the batch.

    Each model step starts the constraint solver cold (MuJoCo's warm start is not part of the state that data
    sets hold), which shifts contacts by no more than the solver's own tolerance.
    """

    name = "mujoco_c"

    def __init__(self, model: ExportedModel, workers: int = 1) -> None:
        # The package's type stubs lack most of it.
        mujoco: Any = import_module("mujoco")
        rollout: Any = import_module("mujoco.rollout")
        self.model = model
        self.version = mujoco.__version__
        self._mj: Any = model.compile()
        # MuJoCo would quietly reset a diverged world to its start pose; NaN stays NaN here, and is marked invalid.
        self._mj.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        mujoco.set_mju_user_warning(lambda text: None)
        if self._mj.nq != len(model.joint_names) or self._mj.na:
            raise FlashNerdError(
                f"robot={model.robot} has a floating base or stateful actuators, "
                "which the data engines do not take so far."
            )
        self._data = [mujoco.MjData(self._mj) for _ in range(workers)]
        self._qpos = np.asarray(model.qpos_index)
        self._dof = np.asarray(model.dof_index)
        self._input = np.asarray(model.actuated_dofs)
        self._nu = self._mj.nu
        self._spec = int(mujoco.mjtState.mjSTATE_CTRL | mujoco.mjtState.mjSTATE_QFRC_APPLIED)
        self._pool = rollout.Rollout(nthread=workers)

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`flashnerd_ext.data.engines.Engine`."""
        nq, nv = self._mj.nq, self._mj.nv
        count = len(joint_q)
        state = np.zeros((count, 1 + nq + nv))
        state[:, 1 + self._qpos] = joint_q
        state[:, 1 + nq + self._dof] = joint_qd
        control = np.zeros((count, 1, self._nu + nv))
        control[:, 0, self._nu + self._input] = actuation
        states, _ = self._pool.rollout(
            self._mj,
            self._data,
            state,
            np.broadcast_to(control, (count, self.model.decimation, self._nu + nv)).copy(),
            control_spec=self._spec,
        )
        last = np.asarray(states)[:, -1]
        return last[:, 1 + self._qpos], last[:, 1 + nq + self._dof]
