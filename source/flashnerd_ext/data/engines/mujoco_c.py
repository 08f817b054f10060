"""MuJoCo C over an exported model, all worlds of a batch on a pool of threads (``mujoco.rollout``)."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import numpy as np
import torch

from flashnerd_ext.data.engines.coordinates import from_mujoco, to_mujoco
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import drive_torque
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import inertial_condition


class MujocoC:
    """Steps in float64; the result does not depend on the number of threads or on the batch.

    Each model step starts the constraint solver cold (MuJoCo's warm start is not part of the state that data
    sets hold), which shifts contacts by no more than the solver's own tolerance.

    Attributes:
        torque: Mean torque of each actuated joint's drive over the last step [N m], shape [N, nu]; for targets only.
        force: Mean contact force on each link over the last step in the world frame [N], shape [N, L, 3]; for robots
            that touch something.
    """

    name = "mujoco_c"

    def __init__(self, model: ExportedModel, workers: int = 1) -> None:
        # The package's type stubs lack most of it.
        mujoco: Any = import_module("mujoco")
        rollout: Any = import_module("mujoco.rollout")
        self.model = model
        self.version = mujoco.__version__
        self._mujoco = mujoco
        self._mj: Any = model.compile(forces=bool(model.capacity or model.target_inputs))
        # MuJoCo would quietly reset a diverged world to its start pose; NaN stays NaN here, and is marked invalid.
        self._mj.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        mujoco.set_mju_user_warning(lambda text: None)
        # A gap makes MuJoCo find contacts that do not push yet. Nothing here reads them, and a robot whose links are
        # close together has a hundred: finding them took nine tenths of a step. The motion is the same to the bit.
        self._mj.geom_gap[:] = 0.0
        if self._mj.nq != len(model.joint_names) + (7 if model.floating_base else 0) or self._mj.na:
            raise FlashNerdError(
                f"robot={model.robot} has joints of several degrees of freedom or stateful actuators, "
                "which the data engines do not take."
            )
        self.layout = StateLayout.from_dict(model.layout) if model.layout else None
        self._data = [mujoco.MjData(self._mj) for _ in range(workers)]
        self._dof = np.asarray(model.dof_index)
        self._input = np.asarray(model.actuated_dofs)
        # MuJoCo actuator of each target; -1 where an explicit motor turns it into torque, outside of the solver.
        targets = model.target_inputs or ((-1,) * len(self._input) if model.actuation == "target" else ())
        self._target_input = np.asarray(targets, dtype=np.int64)
        self._implicit = np.flatnonzero(self._target_input >= 0)
        self._explicit = np.flatnonzero(self._target_input < 0)
        self._links = {name: self._mj.body(body).id for name, body in model.links.items()}
        self._nu = self._mj.nu
        self._spec = int(mujoco.mjtState.mjSTATE_CTRL | mujoco.mjtState.mjSTATE_QFRC_APPLIED)
        self._pool = rollout.Rollout(nthread=workers)
        self._worlds: list[Any] | None = None
        self._condition: np.ndarray | None = None
        self._base = self._mj.body(model.base_body).id if model.base_body else -1
        self.torque = np.zeros((0, len(model.actuated_dofs)))
        self.force = np.zeros((0, len(model.links), 3))

    @property
    def models(self) -> list[Any] | None:
        """The ``MjModel`` of each world after :meth:`set_worlds`; ``None`` where all worlds are nominal."""
        return self._worlds

    def set_worlds(self, condition: np.ndarray | None, friction: np.ndarray | None) -> None:
        """Give each world of the next batches its own physics.

        Args:
            condition: Deviations in the order of the layout's conditions, shape [N, C]; ``None`` is nominal.
            friction: Sliding friction of every contact, shape [N]; ``None`` leaves the model's.
        """
        self._condition = condition
        if condition is None and friction is None:
            self._worlds = None
            return
        names = self.layout.conditions if self.layout is not None else ()
        self._worlds = []
        for i in range(len(condition if condition is not None else friction)):  # type: ignore[arg-type]
            values = dict(zip(names, condition[i], strict=True)) if condition is not None else {}
            self._worlds.append(self._world(values, None if friction is None else float(friction[i])))

    def _world(self, values: dict[str, float], friction: float | None) -> Any:
        world = copy.copy(self._mj)
        if friction is not None:
            world.geom_friction[:, 0] = friction
        for name, value in values.items():
            found = inertial_condition(name)
            if found is None:
                continue
            what, link = found
            body = self._links[link] if link else self._base
            if what == "mass":
                world.body_mass[body] *= 1.0 + value
                world.body_inertia[body] *= 1.0 + value
            else:
                world.body_ipos[body]["xyz".index(what[-1])] += value
        # Inverse weights at the reference pose shape the contacts' softness; Newton keeps them up to date too.
        self._mujoco.mj_setConst(world, self._data[0])
        stiffness, damping = (1.0 + values.get(name, 0.0) for name in ("stiffness", "damping"))
        for i in range(self._mj.nu):
            # Position and velocity actuators share the form; a bias term in velocity is the damping's.
            position = world.actuator_biasprm[i, 1] != 0.0
            world.actuator_gainprm[i, 0] *= stiffness if position else damping
            world.actuator_biasprm[i, 1] *= stiffness
            world.actuator_biasprm[i, 2] *= damping
        return world

    def base_com(self, condition: np.ndarray | None) -> np.ndarray:
        """Centre of mass of the base in its own frame [m], shape [N or 1, 3], under conditions [N, C]."""
        com = self._mj.body_ipos[self._base][None].copy()
        if condition is None or self.layout is None:
            return com
        com = np.repeat(com, len(condition), 0)
        root = next((name for name, body in self._links.items() if body == self._base), "")
        for column, name in enumerate(self.layout.conditions):
            what, link = inertial_condition(name) or ("", "")
            if what.startswith("com_") and link in ("", root):
                com[:, "xyz".index(what[-1])] += condition[:, column]
        return com

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`flashnerd_ext.data.engines.Engine`."""
        model, count = self.model, len(joint_q)
        nq, nv, nu = self._mj.nq, self._mj.nv, self._nu
        if self._worlds is not None and len(self._worlds) != count:
            raise FlashNerdError(
                f"the batch has {count} worlds, but set_worlds was given {len(self._worlds)}: give as many, or None."
            )
        com = self.base_com(self._condition)
        qpos, qvel = to_mujoco(model, joint_q, joint_qd, com)
        state = np.concatenate([np.zeros((count, 1)), qpos, qvel], 1)
        control = np.zeros((count, nu + nv))
        links = 3 * len(model.links)
        if model.actuation == "target":
            control[:, self._target_input[self._implicit]] = actuation[:, self._implicit]
        else:
            control[:, nu + self._input] = actuation
        self.torque = np.zeros((count, len(self._input)))
        if not len(self._explicit):
            state, sensed = self._roll(state, control, model.inner_steps)
        else:
            sensed = np.zeros((count, self._mj.nsensordata))
            for _ in range(model.decimation):
                # Isaac Lab's explicit motors see the state once a simulation step and hold their torque over it.
                torque = self._motor(state[:, 1 : 1 + nq], state[:, 1 + nq :], actuation)[:, self._explicit]
                control[:, nu + self._input[self._explicit]] = torque
                self.torque[:, self._explicit] += torque / model.decimation
                state, part = self._roll(state, control, model.substeps)
                sensed = sensed + part / model.decimation
        force, self.torque[:, self._implicit] = sensed[:, :links], sensed[:, links:]
        # MuJoCo reports the force that the link exerts.
        self.force = -force.reshape(count, -1, 3)
        return from_mujoco(model, state[:, 1 : 1 + nq], state[:, 1 + nq :], com)

    def _roll(self, state: np.ndarray, control: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Next state [N, .] and the mean of all sensors over the steps [N, nsensordata]."""
        controls = np.broadcast_to(control[:, None], (len(state), steps, control.shape[1])).copy()
        worlds = self._worlds if self._worlds is not None else self._mj
        states, sensors = self._pool.rollout(worlds, self._data, state, controls, control_spec=self._spec)
        return np.asarray(states)[:, -1], np.asarray(sensors).reshape(len(state), steps, -1).mean(1)

    def _motor(self, qpos: np.ndarray, qvel: np.ndarray, target: np.ndarray) -> np.ndarray:
        layout = self.layout
        assert layout is not None
        places = np.asarray(self.model.qpos_index)[list(layout.actuated_joints)]
        error = torch.from_numpy(np.asarray(target, np.float64) - qpos[:, places])
        condition = None if self._condition is None else torch.from_numpy(self._condition)
        return drive_torque(layout, error, torch.from_numpy(qvel[:, self._input]), condition).numpy()
