"""Forces from accelerations, on a simulator of numbers: what each part adds, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.inverse_dynamics import InverseDynamics

YES, NO = torch.tensor([True]), torch.tensor([False])


class Numbers:
    """One robot of a fixed base and one joint about the vertical; its link's mass is 1 m away."""

    def __init__(self, **changes: Any) -> None:
        self.paths, self.dof_names, self.body_names = ["/Arm"], ["joint"], ["base", "link"]
        self.fixed_base, self.device = True, torch.device("cpu")
        self.values: dict[str, torch.Tensor] = {
            "dof_position": torch.tensor([[0.5]]),
            "dof_velocity": torch.tensor([[2.0]]),
            "dof_actuation_force": torch.tensor([[7.0]]),
            "dof_position_target": torch.tensor([[0.75]]),
            "dof_velocity_target": torch.tensor([[0.0]]),
            "dof_stiffness": torch.tensor([[40.0]]),
            "dof_damping": torch.tensor([[3.0]]),
            "dof_max_force": torch.tensor([[100.0]]),
            "dof_drive_type": torch.tensor([[1]], dtype=torch.uint8),
            "dof_drive_model": torch.zeros(1, 1, 3),
            "dof_friction_properties": torch.tensor([[[0.0, 0.0, 0.5]]]),
            "dof_armature": torch.tensor([[0.25]]),
            "body_mass": torch.tensor([[1.0, 2.0]]),
            "body_com_pose": torch.tensor([[[0.0, 0, 0, 0, 0, 0, 1], [1.0, 0, 0, 0, 0, 0, 1]]]),
            "body_disable_gravity": torch.zeros(1, 2, dtype=torch.uint8),
            "link_pose": torch.tensor([[[0.0, 0, 0, 0, 0, 0, 1], [0.0, 0, 0, 0, 0, 0, 1]]]),
            "mass_matrix": torch.tensor([[[2.0]]]),
            "coriolis_and_centrifugal_force": torch.tensor([[0.3]]),
            "gravity_force": torch.tensor([[-1.0]]),
            # Linear along y at the link's centre of mass, angular about z.
            "jacobian": torch.tensor([[[0.0], [1.0], [0.0], [0.0], [0.0], [1.0]]]),
            **changes,
        }

    def read(self, what: str) -> torch.Tensor:
        return self.values[what]

    def write(self, what: str, values: torch.Tensor) -> None:
        self.values[what] = values.clone()


def dynamics(replaces: bool = False, gravity: tuple[float, float, float] = (0, 0, -9.81), **changes: Any) -> Any:
    robots = Numbers(**changes)
    return robots, InverseDynamics(robots, lambda: gravity, replaces)


def force(robots: Numbers) -> float:
    return float(robots.values["dof_actuation_force"])


def test_the_model_sees_efforts_and_drives_but_no_passive_forces() -> None:
    _, found = dynamics()
    found.read()
    assert float(found.torque) == pytest.approx(7.0 + 40.0 * 0.25 - 3.0 * 2.0)


def test_a_drive_is_seen_within_its_limit() -> None:
    _, found = dynamics(dof_max_force=torch.tensor([[1.5]]))
    found.read()
    assert float(found.torque) == pytest.approx(7.0 + 1.5)


def test_what_physx_adds_itself_is_left_to_it() -> None:
    robots, found = dynamics()
    found.read()
    found.apply(torch.tensor([[10.0]]), YES)
    drive, viscous = 40.0 * 0.25 - 3.0 * 2.0, -0.5 * 2.0
    assert force(robots) == pytest.approx((2.0 + 0.25) * 10.0 + 0.3 - 1.0 - drive - viscous)
    found.restore()
    assert force(robots) == 7.0


def test_the_analytical_value_is_the_commanded_effort() -> None:
    robots, found = dynamics()
    found.read()
    found.apply(found.free(), YES)
    assert force(robots) == pytest.approx(7.0, abs=1e-5)


def test_an_untrusted_robot_is_left_alone_whatever_was_predicted() -> None:
    robots, found = dynamics()
    found.read()
    found.apply(torch.tensor([[float("nan")]]), NO)
    assert force(robots) == 7.0


def test_labels_that_are_damped_already_take_drives_and_damping_out_of_physx() -> None:
    robots, found = dynamics(replaces=True)
    left = [robots.values[name].abs().max().item() for name in ("dof_stiffness", "dof_damping")]
    assert left == [0.0, 0.0] and float(robots.values["dof_friction_properties"][..., 2]) == 0.0
    found.read()
    drive, viscous = 40.0 * 0.25 - 3.0 * 2.0, -0.5 * 2.0
    assert float(found.torque) == pytest.approx(7.0 + drive)
    found.apply(torch.tensor([[10.0]]), YES)
    assert force(robots) == pytest.approx((2.0 + 0.25) * 10.0 + 0.3 - 1.0)
    found.restore()
    found.read()
    found.apply(torch.tensor([[0.0]]), NO)
    assert force(robots) == pytest.approx(7.0 + drive + viscous)
    # What is 0 since it was taken out is remembered; what an event wrote is taken out again.
    found.refresh()
    assert float(found.stiffness) == 40.0
    robots.write("dof_stiffness", torch.tensor([[20.0]]))
    found.refresh()
    assert float(found.stiffness) == 20.0 and float(robots.values["dof_stiffness"]) == 0.0


def test_dry_friction_is_left_to_physx() -> None:
    robots, _ = dynamics(replaces=True, dof_friction_properties=torch.tensor([[[0.4, 0.3, 0.5]]]))
    assert robots.values["dof_friction_properties"].flatten().tolist() == pytest.approx([0.4, 0.3, 0.0])


def test_a_link_without_weight_is_taken_out_of_the_gravity_force() -> None:
    off = torch.tensor([[0, 1]], dtype=torch.uint8)
    robots, found = dynamics(gravity=(0.0, -9.81, 0.0), body_disable_gravity=off, gravity_force=torch.tensor([[19.62]]))
    found.read()
    found.apply(torch.tensor([[0.0]]), YES)
    drive, viscous = 40.0 * 0.25 - 3.0 * 2.0, -0.5 * 2.0
    assert force(robots) == pytest.approx(0.3 - drive - viscous, abs=1e-5)


def test_a_wrench_on_a_link_is_seen_and_acts_once() -> None:
    robots, found = dynamics()
    wrench = torch.zeros(1, 2, 9)
    # 3 N along y at 1.5 m: 3 at the centre of mass and 1.5 N m about it; 0.5 N m more.
    wrench[0, 1] = torch.tensor([0.0, 3.0, 0.0, 0.0, 0.0, 0.5, 1.5, 0.0, 0.0])
    found.pull(torch.tensor([0]), wrench)
    found.read()
    assert float(found.torque) == pytest.approx(7.0 + 4.0 + 3.0 + 1.5 + 0.5)
    found.apply(found.free(), YES)
    assert force(robots) == pytest.approx(7.0, abs=1e-5)
    found.restore()
    found.read()
    assert float(found.torque) == pytest.approx(7.0 + 4.0)


def test_drives_whose_force_is_not_known_are_refused() -> None:
    with pytest.raises(FlashNerdError, match="joint joint is of the type acceleration"):
        dynamics(dof_drive_type=torch.tensor([[2]], dtype=torch.uint8))
    with pytest.raises(FlashNerdError, match="joint joint has a performance envelope"):
        dynamics(dof_drive_model=torch.ones(1, 1, 3))
    none = torch.zeros(1, 1)
    dynamics(dof_drive_type=torch.tensor([[2]], dtype=torch.uint8), dof_stiffness=none, dof_damping=none)
