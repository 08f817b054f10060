"""Sees every solver step of a running Newton simulation: states before any reset, forces, torques, conditions.

Isaac Lab resets environments inside ``env.step``, after the physics. The solver's own ``step`` is therefore watched:
its first call within a control step has the state that the policy's command met, its last one what came of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.record.moment import Moment
from flashnerd_ext.robots.description import RobotDescription, inertial_condition
from flashnerd_ext.solver.engine_stepper import EngineStepper
from flashnerd_ext.solver.mapping import joint_name, map_state, root_bodies

UNEVEN = 1e-3
"""Difference of friction between the shapes of one robot that one number a world cannot stand for."""


class Tap:
    """Watches the solver of the running simulation until :meth:`remove`.

    Args:
        robot: Whose coordinates are read.
        nominal: The engine model of the robot: conditions are deviations from it. ``None`` reads no conditions, forces
            and torques, for scoring alone.

    Raises:
        FlashNerdError: Where the simulation does not show what a data set needs.
    """

    def __init__(self, robot: RobotDescription, nominal: ExportedModel | None) -> None:
        from isaaclab_newton.physics import NewtonManager

        # The manager's attributes are typed as those of any solver.
        solver: Any = NewtonManager._solver
        model: Any = NewtonManager.get_model()
        self.robot, self._solver, self._model = robot, solver, model
        if solver is None or model is None:
            raise FlashNerdError("the simulation does not run on Newton, but recording needs it: type newton_mjwarp.")
        self._device = torch.device(wp.device_to_torch(self._model.device))
        self._map = map_state(self._model, robot.layout, robot.name, self._device)
        self._targets = robot.actuation == "target"
        nu = robot.layout.nu
        inputs = (nominal.target_inputs if nominal is not None else ()) or ((-1,) * nu if self._targets else ())
        # Motors outside of the solver make torque of targets; the solver's own drives are asked for theirs.
        self._explicit = torch.tensor([i for i, place in enumerate(inputs) if place < 0], dtype=torch.int64)
        self._implicit = torch.tensor([i for i, place in enumerate(inputs) if place >= 0], dtype=torch.int64)
        if nominal is not None and len(self._explicit) and NewtonManager._adapter is None:
            raise FlashNerdError(
                f"robot={robot.name} has explicit motors, whose targets the simulation shows only with "
                "sim.use_newton_actuators on: type env.sim.use_newton_actuators=true."
            )
        self._details = nominal is not None
        self._links = _LinkForces(robot, self._model, self._solver) if nominal is not None and robot.contacts else None
        if nominal is not None:
            self._nominal(nominal)
        # MuJoCo C behind the learned backend makes a whole control step in one call, and says what it felt.
        stepper = getattr(getattr(solver, "stream", None), "stepper", None)
        self._engine = stepper.engine if isinstance(stepper, EngineStepper) else None
        self.calls = 0
        self._original = self._solver.step
        self._solver.step = self._step

    def _nominal(self, exported: ExportedModel) -> None:
        self._bodies = torch.arange(self._model.body_count, device=self._device).view(self._map.worlds, -1)
        self._dofs = torch.tensor(exported.actuated_dofs, dtype=torch.int64, device=self._device)
        found, needed = int(self._solver.mjw_model.nv), self.robot.layout.nv
        if len(self._implicit) and found != needed:
            raise FlashNerdError(
                f"the simulation has {found} degrees of freedom a world, but robot={self.robot.name} {needed}, and the "
                "torque of its drives is read by their number: record the robot alone."
            )
        compiled = exported.compile()
        # Condition -> what of which bodies, and its nominal value.
        self._inertial: dict[int, tuple[str, Tensor, float]] = {}
        for column, name in enumerate(self.robot.layout.conditions):
            described = inertial_condition(name)
            if described is None:
                continue
            what, link = described
            body = compiled.body(exported.links[link] if link else exported.base_body).id
            value = compiled.body_mass[body] if what == "mass" else compiled.body_ipos[body]["xyz".index(what[-1])]
            self._inertial[column] = (what, self._bodies_of(link), float(value))

    def _bodies_of(self, link: str) -> Tensor:
        """Index of a link's body in every world, in the order of the worlds; the base's for an empty name."""
        if not link:
            return torch.from_numpy(root_bodies(self._model)).to(self._device)
        found = np.array([i for i, label in enumerate(self._model.body_label) if joint_name(label) == link])
        order = np.argsort(self._model.body_world.numpy()[found], kind="stable")
        return torch.from_numpy(found[order]).to(self._device)

    def remove(self) -> None:
        """Give the solver its own step back."""
        self._solver.step = self._original

    def begin(self) -> None:
        """Call before each ``env.step``."""
        self.calls = 0

    def _view(self, array: Any) -> Tensor:
        return wp.to_torch(array, requires_grad=False).view(self._map.worlds, -1)

    def _state(self, state: Any) -> tuple[Tensor, Tensor]:
        return (
            self._view(state.joint_q).index_select(1, self._map.q),
            self._view(state.joint_qd).index_select(1, self._map.v),
        )

    def _action(self, control: Any) -> Tensor:
        if not self._targets:
            return self._view(control.joint_f).index_select(1, self._map.u)
        target = self._view(control.joint_target_q)
        # Newton keeps targets in coordinates from 1.6 on; with a free base these are one more than the dofs.
        return target.index_select(1, self._map.u_coord if target.shape[1] == self._map.coords else self._map.u)

    def _step(self, state_in: Any, state_out: Any, control: Any, contacts: Any, dt: float) -> None:
        first = self.calls == 0
        if first:
            self._q0, self._qd0 = self._state(state_in)
            self._first_action = self._action(control)
            self._torque = torch.zeros_like(self._first_action)
            self._steady = True
            if self._details:
                wrench = wp.to_torch(state_in.body_f, requires_grad=False)
                self._pushed = (wrench[self._bodies] != 0).flatten(1).any(1)
            if self._links is not None:
                self._links.clear()
        elif self._details and not self._targets:
            self._steady = self._steady and bool((self._action(control) == self._first_action).all())
        self._original(state_in, state_out, control, contacts, dt)
        self.calls += 1
        self._q1, self._qd1 = self._state(state_out)
        if self._engine is not None:
            self._torque = torch.from_numpy(self._engine.torque).float()
            self._force = torch.from_numpy(self._engine.force).float()
            return
        if self._details and len(self._explicit):
            effort = self._view(control.joint_f).index_select(1, self._map.u)
            self._torque[:, self._explicit] += effort[:, self._explicit]
        if self._details and len(self._implicit):
            drives = wp.to_torch(self._solver.mjw_data.qfrc_actuator, requires_grad=False).index_select(1, self._dofs)
            self._torque[:, self._implicit] += drives[:, self._implicit]
        if self._links is not None:
            self._links.add()

    def end_state(self) -> tuple[np.ndarray, np.ndarray]:
        """State after the control step's physics and before any reset, [N, nq] and [N, nv]."""
        if not self.calls:
            raise FlashNerdError("the physics did not step within the control step: this task cannot be recorded.")
        return self._q1.cpu().numpy(), self._qd1.cpu().numpy()

    def moment(self) -> Moment:
        """The control step that just ended; call after ``env.step``.

        Raises:
            FlashNerdError: Where the number of solver steps is not the robot's, or efforts change within the step.
        """
        if self.calls != (1 if self._engine is not None else self.robot.inner_steps):
            raise FlashNerdError(
                f"the control step had {self.calls} solver steps, but robot={self.robot.name} has "
                f"{self.robot.inner_steps}: record under the decimation and substeps of its task."
            )
        if not self._steady:
            raise FlashNerdError(
                f"the efforts changed within a control step, but robot={self.robot.name} holds them: record its task."
            )
        force = torch.zeros((self._map.worlds, 0, 3))
        if self._links is not None:
            force = self._links.mean(self.calls) if self._engine is None else self._force
        parts = (
            self._q0, self._qd0, self._q1, self._qd1, self._first_action, self._torque / self.calls, force,
            self._condition(), self._friction(), self._pushed,
        )  # fmt: skip
        return Moment(*(part.detach().cpu().numpy() for part in parts))

    def _condition(self) -> Tensor:
        names = self.robot.layout.conditions
        if not names:
            return torch.zeros((self._map.worlds, 0))
        mass = wp.to_torch(self._model.body_mass, requires_grad=False)
        com = wp.to_torch(self._model.body_com, requires_grad=False)
        # Gains are nominal in every task so far; what else a condition may name is recorded as 0.
        values = torch.zeros((self._map.worlds, len(names)), device=self._device)
        for column, (what, bodies, nominal) in self._inertial.items():
            if what == "mass":
                values[:, column] = mass[bodies] / nominal - 1.0
            else:
                values[:, column] = com[bodies, "xyz".index(what[-1])] - nominal
        return values

    def _friction(self) -> Tensor:
        if self._links is None:
            return torch.ones(self._map.worlds)
        return self._links.friction()


class _LinkForces:
    """Sums contact forces on links over solver steps, and reads the friction of their shapes."""

    def __init__(self, robot: RobotDescription, model: Any, solver: Any) -> None:
        from newton import Contacts, ShapeFlags

        self._model, self._solver, self._robot = model, solver, robot
        self._worlds, count = max(int(model.world_count), 1), len(robot.links)
        device = torch.device(wp.device_to_torch(model.device))
        bodies, worlds = model.shape_body.numpy(), model.body_world.numpy()
        names = [joint_name(label) for label in model.body_label]
        collide = (model.shape_flags.numpy() & int(ShapeFlags.COLLIDE_SHAPES)) != 0
        place = np.full(len(bodies) + 1, self._worlds * count)
        shapes: list[list[int]] = [[] for _ in range(self._worlds)]
        for shape in np.flatnonzero(bodies >= 0):
            name, world = names[bodies[shape]], max(int(worlds[bodies[shape]]), 0)
            if name in robot.links:
                place[shape] = world * count + robot.links.index(name)
                if collide[shape]:
                    shapes[world].append(int(shape))
        ground = np.flatnonzero(collide & (bodies < 0))
        if not len(ground) or len({len(row) for row in shapes}) != 1 or not shapes[0]:
            raise FlashNerdError(
                f"the scene has {len(ground)} static shapes and {len(shapes[0])} shapes of robot={robot.name} in "
                "world 0, but a ground and the same robot in every world are needed to record contacts."
            )
        self._place = torch.from_numpy(place).to(device)
        self._shapes = torch.tensor(shapes, device=device)
        self._ground = torch.from_numpy(ground).to(device)
        self._sum = torch.zeros((self._worlds * count + 1, 3), device=device)
        self._contacts = Contacts(
            rigid_contact_max=int(solver.mjw_data.naconmax),
            soft_contact_max=0,
            device=model.device,
            requested_attributes={"force"},
        )
        self._index = torch.arange(int(solver.mjw_data.naconmax), device=device)

    def clear(self) -> None:
        """Begin a control step."""
        self._sum.zero_()

    def add(self) -> None:
        """Add the forces of the solver step that just ended."""
        self._solver.update_contacts(self._contacts)
        contacts: Any = self._contacts
        live = self._index < wp.to_torch(contacts.rigid_contact_count)[0]
        force = wp.to_torch(contacts.force, requires_grad=False)[:, :3]
        force = torch.where(live[:, None], force, torch.zeros_like(force))
        for shapes, sign in ((contacts.rigid_contact_shape0, 1.0), (contacts.rigid_contact_shape1, -1.0)):
            index = torch.where(live, wp.to_torch(shapes).long(), torch.full_like(self._index, -1))
            self._sum.index_add_(0, self._place[index], sign * force)

    def mean(self, steps: int) -> Tensor:
        """Mean force on each link over ``steps`` solver steps [N], shape [N, L, 3]."""
        return (self._sum[:-1] / steps).view(self._worlds, -1, 3)

    def friction(self) -> Tensor:
        """Sliding friction of the robot's shapes on the ground, one number a world, [N].

        Raises:
            FlashNerdError: Where the shapes of one robot differ.
        """
        mu = wp.to_torch(self._model.shape_material_mu, requires_grad=False)
        both = torch.maximum(mu[self._shapes], mu[self._ground].max())
        if bool((both.amax(1) - both.amin(1) > UNEVEN).any()):
            raise FlashNerdError(
                f"the shapes of robot={self._robot.name} differ in friction by up to "
                f"{float((both.amax(1) - both.amin(1)).max()):.3g} within a world, but data sets hold one number "
                "a world: give the task's material event one bucket a robot."
            )
        return both[:, 0]
