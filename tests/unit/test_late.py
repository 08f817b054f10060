"""The torque of the last simulation step, against a joint whose motion is known."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from flashnerd_ext.model.frame import drive_torque
from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.late import last_torque

DT, STEPS = 0.02, 4
NAMES = ("hip", "wheel", "knee")
LAYOUT = StateLayout(
    joint_names=NAMES,
    joint_kinds=("revolute",) * 3,
    floating_base=True,
    actuated=("knee", "hip"),  # not in the order of the joints, and not all of them
    drive=Drive((40.0, 25.0), (5.0, 0.5), (80.0, 30.0)),
)


def moving(times: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """joint_q [S, N, nq] and joint_qd [S, N, nv] of joints on cubics of time, at ``times`` [S]."""
    generator = torch.Generator().manual_seed(seed)
    c = (
        torch.randn((4, 5, 3), generator=generator, dtype=torch.float64)
        * torch.tensor([0.3, 2.0, 60.0, 900.0])[:, None, None]
    )
    t = times[:, None, None]
    q, v = c[0] + t * (c[1] + t * (c[2] + t * c[3])), c[1] + t * (2 * c[2] + t * 3 * c[3])
    base = torch.zeros((len(times), 5, 7), dtype=torch.float64)
    return torch.cat((base, q), -1), torch.cat((base[..., :6], v), -1)


def drives(layout: StateLayout, q: torch.Tensor, qd: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    joints = list(layout.actuated_joints)
    assert layout.drive is not None
    return drive_torque(layout, target - q[..., 7:][..., joints], qd[..., 6:][..., joints])


def test_torque_is_that_of_the_last_simulation_step() -> None:
    starts = torch.arange(STEPS + 1, dtype=torch.float64) * DT / STEPS
    q, qd = moving(starts)
    target = torch.randn((5, 2), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    true = drives(LAYOUT, q[:-1], qd[:-1], target)  # at the start of each simulation step
    none = torch.zeros((5, 0), dtype=torch.float64)
    found = last_torque(LAYOUT, (q[0], qd[0]), (q[-1], qd[-1]), target, none, true.mean(0), DT, STEPS)
    torch.testing.assert_close(found, true[-1])
    assert (true[-1] - true.mean(0)).abs().max() > 1.0  # the mean alone would not do
    # What the prediction knows beyond the ends of the step moves it.
    more = last_torque(LAYOUT, (q[0], qd[0]), (q[-1], qd[-1]), target, none, true.mean(0) + 0.7, DT, STEPS)
    torch.testing.assert_close(more, true[-1] + 0.7)


def test_where_nothing_moves_the_mean_is_the_last() -> None:
    q, qd = moving(torch.zeros(1, dtype=torch.float64))
    qd = torch.zeros_like(qd)
    mean = torch.full((5, 2), 3.0, dtype=torch.float64)
    none = torch.zeros((5, 0), dtype=torch.float64)
    found = last_torque(LAYOUT, (q[0], qd[0]), (q[0], qd[0]), torch.zeros_like(mean), none, mean, DT, STEPS)
    torch.testing.assert_close(found, mean)


@pytest.mark.parametrize("steps", [1, STEPS])
def test_robots_without_drives_and_models_of_the_simulation_rate_keep_the_mean(steps: int) -> None:
    layout = LAYOUT if steps == 1 else dataclasses.replace(LAYOUT, drive=None)
    q, qd = moving(torch.tensor([0.0, DT], dtype=torch.float64))
    mean = torch.ones((5, 2), dtype=torch.float64)
    none = torch.zeros((5, 0), dtype=torch.float64)
    assert last_torque(layout, (q[0], qd[0]), (q[1], qd[1]), mean, none, mean, DT, steps) is mean


def test_conditions_scale_the_gains() -> None:
    layout = dataclasses.replace(get_robot("anymal_c").layout, conditions=("stiffness", "damping"))
    generator = torch.Generator().manual_seed(2)
    q = torch.zeros((3, 19), dtype=torch.float64)
    qd = torch.zeros((3, 18), dtype=torch.float64)
    after = q.clone()
    after[:, 7:] = 0.01 * torch.randn((3, 12), generator=generator, dtype=torch.float64)
    target, mean = 0.05 * torch.ones((3, 12), dtype=torch.float64), torch.zeros((3, 12), dtype=torch.float64)
    softer, same = (torch.full((3, 2), value, dtype=torch.float64) for value in (-0.5, 0.0))
    one, two = (last_torque(layout, (q, qd), (after, qd), target, c, mean, DT, STEPS) for c in (softer, same))
    torch.testing.assert_close(one, 0.5 * two)
