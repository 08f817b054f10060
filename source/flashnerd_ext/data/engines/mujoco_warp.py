"""MuJoCo Warp over the same exported model: the solver that Isaac Lab's ``newton_mjwarp`` preset runs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError, nearest


class MujocoWarp:
    """Steps in float32.

    Agrees with :class:`MujocoC` to 1e-5 of (1 + the fastest velocity) after one model step (tested).
    ``device="cuda:0"`` is written with care and has not been run on a GPU.
    """

    name = "mujoco_warp"

    def __init__(self, model: ExportedModel, device: str = "cpu") -> None:
        import mujoco_warp as mjw
        import warp as wp

        wp.config.quiet = True
        if model.floating_base or model.actuation != "effort":
            raise FlashNerdError(
                f"robot={model.robot} has a floating base or position targets, which engine=mujoco_warp does not take "
                "so far: type engine=mujoco_c."
            )
        if model.layout.get("conditions"):
            raise FlashNerdError(
                f"robot={model.robot} has conditions that differ from world to world, which engine=mujoco_warp does "
                "not take so far: type engine=mujoco_c."
            )
        self.model = model
        self.version = version("mujoco-warp")
        known = {str(item) for item in wp.get_devices()}
        if device not in known:
            raise FlashNerdError(f"device is '{device}', which this machine does not have: {nearest(device, known)}")
        self._device = device
        self._mj = model.compile()
        self._mj_data: Any = import_module("mujoco").MjData(self._mj)
        with wp.ScopedDevice(device):
            self._model = mjw.put_model(self._mj)
        self._data: dict[int, Any] = {}
        self._qpos = np.asarray(model.qpos_index)
        self._dof = np.asarray(model.dof_index)
        self._input = np.asarray(model.actuated_dofs)

    def _batch(self, count: int) -> Any:
        import mujoco_warp as mjw
        import warp as wp

        if count not in self._data:
            with wp.ScopedDevice(self._device):
                self._data = {count: mjw.put_data(self._mj, self._mj_data, nworld=count, nconmax=8, njmax=16)}
        return self._data[count]

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`flashnerd_ext.data.engines.Engine`."""
        import mujoco_warp as mjw
        import warp as wp

        data = self._batch(len(joint_q))
        qpos = np.zeros((len(joint_q), self._mj.nq), np.float32)
        qvel = np.zeros((len(joint_q), self._mj.nv), np.float32)
        force = np.zeros((len(joint_q), self._mj.nv), np.float32)
        qpos[:, self._qpos], qvel[:, self._dof], force[:, self._input] = joint_q, joint_qd, actuation
        with wp.ScopedDevice(self._device):
            data.qpos.assign(qpos)
            data.qvel.assign(qvel)
            data.qfrc_applied.assign(force)
            # A cold start, as the C engine has; else a step would depend on the one before.
            data.qacc_warmstart.zero_()
            for _ in range(self.model.inner_steps):
                mjw.step(self._model, data)
            q, qd = data.qpos.numpy(), data.qvel.numpy()
        return q[:, self._qpos].astype(np.float64), qd[:, self._dof].astype(np.float64)
