"""Learned robots under Isaac Sim's PhysX, through its tensor views.

Untested: it was written from the sources of isaaclab_physx and has never run, since Isaac Sim cannot be had from PyPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp
from torch import Tensor

_READ = {
    "dof_position": "get_dof_positions",
    "dof_velocity": "get_dof_velocities",
    "dof_actuation_force": "get_dof_actuation_forces",
    "dof_position_target": "get_dof_position_targets",
    "dof_velocity_target": "get_dof_velocity_targets",
    "dof_stiffness": "get_dof_stiffnesses",
    "dof_damping": "get_dof_dampings",
    "dof_max_force": "get_dof_max_forces",
    "dof_max_velocity": "get_dof_max_velocities",
    "dof_armature": "get_dof_armatures",
    "dof_friction_properties": "get_dof_friction_properties",
    "dof_drive_type": "get_drive_types",
    "dof_drive_model": "get_dof_drive_model_properties",
    "dof_limit": "get_dof_limits",
    "body_mass": "get_masses",
    "body_inertia": "get_inertias",
    "body_com_pose": "get_coms",
    "body_disable_gravity": "get_disable_gravities",
    "link_pose": "get_link_transforms",
    "mass_matrix": "get_generalized_mass_matrices",
    "coriolis_and_centrifugal_force": "get_coriolis_and_centrifugal_compensation_forces",
    "gravity_force": "get_gravity_compensation_forces",
    "jacobian": "get_jacobians",
}
_WRITE = {
    "dof_actuation_force": "set_dof_actuation_forces",
    "dof_stiffness": "set_dof_stiffnesses",
    "dof_damping": "set_dof_dampings",
    "dof_friction_properties": "set_dof_friction_properties",
}


class KitRobots:
    """A :class:`flashnerd_ext.solver.physx_robots.PhysxRobots` of Isaac Sim's PhysX. Untested.

    Args:
        simulation_view: An ``omni.physics.tensors`` view with Warp arrays.
        paths: Prim path of each articulation.
        device: The simulation's device.
    """

    def __init__(self, simulation_view: Any, paths: Sequence[str], device: str) -> None:
        self._view = simulation_view.create_articulation_view(list(paths))
        kind = self._view.shared_metatype
        self.paths = list(self._view.prim_paths)
        self.dof_names, self.body_names = list(kind.dof_names), list(kind.link_names)
        self.fixed_base = bool(kind.fixed_base)
        self.device = torch.device(device)
        self._rows = wp.array(list(range(len(self.paths))), dtype=wp.int32, device=device)
        self._cpu_rows = wp.array(list(range(len(self.paths))), dtype=wp.int32, device="cpu")

    def read(self, what: str) -> Tensor:
        values = wp.to_torch(getattr(self._view, _READ[what])(), requires_grad=False).to(self.device)
        return values.view(len(self.paths), -1, 9) if what == "body_inertia" else values

    def write(self, what: str, values: Tensor) -> None:
        if what == "link_wrench":
            force, torque, place = (values[..., i : i + 3].reshape(-1, 3).contiguous() for i in (0, 3, 6))
            self._view.apply_forces_and_torques_at_position(
                wp.from_torch(force), wp.from_torch(torque), wp.from_torch(place), self._rows, True
            )
            return
        state = what == "dof_actuation_force"
        array = wp.from_torch((values if state else values.cpu()).contiguous(), requires_grad=False)
        getattr(self._view, _WRITE[what])(array, self._rows if state else self._cpu_rows)
