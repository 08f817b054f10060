"""Coupled mode is MuJoCo Warp where the model gives the analytical value, to the last bit.

The known model is an arm of its own with nothing around it: like a learned one it gets joint positions, velocities and
torques and gives accelerations. Contacts of arm, cube and ground, joint limits, joint friction and PD drives are the
running simulation's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

from coupled_world import DT, Analytic, Run, arm_and_cube, arm_robot, coupled, coupled_bundle, plain

pytestmark = pytest.mark.kitless

LIMIT, CONTACT = 3, 5
"""Kinds of constraints in MuJoCo from which on they are joint limits and contacts."""


def pair(folder: Path, worlds: int, integrator: str, substeps: int = 1) -> tuple[Run, Run]:
    """The same start for a plain and for a coupled solver with the known model."""
    bundle = coupled_bundle(folder, arm_robot(substeps))
    stock = Run(arm_and_cube, worlds, plain(integrator=integrator)).start()
    learned = Run(arm_and_cube, worlds, coupled(bundle, Analytic(worlds), integrator=integrator)).start()
    assert torch.equal(stock.states(), learned.states())
    return stock, learned


@pytest.mark.parametrize(
    ("integrator", "worlds", "substeps"),
    [
        ("euler", 4, 1),
        ("implicitfast", 4, 1),
        pytest.param("euler", 4, 2, marks=pytest.mark.slow),
        pytest.param("implicitfast", 4, 2, marks=pytest.mark.slow),
        pytest.param("euler", 64, 1, marks=pytest.mark.slow),
        pytest.param("implicitfast", 64, 1, marks=pytest.mark.slow),
    ],
)
def test_a_known_model_is_mujoco_warp_to_the_bit(tmp_path: Path, integrator: str, worlds: int, substeps: int) -> None:
    """150 steps of ``substeps`` solver steps, through contacts with cube and ground and through joint limits."""
    stock, learned = pair(tmp_path / "b", worlds, integrator, substeps)
    started, kinds = stock.states(), set[int]()
    for i in range(150):
        for run in (stock, learned):
            run.command(i)
            for _ in range(substeps):
                run.solver.step(run.state, run.state, run.control, None, DT)
        assert torch.equal(stock.states(), learned.states()), i
        data = stock.solver.mjw_data
        kinds |= {
            int(kind) for row, n in zip(data.efc.type.numpy(), data.nefc.numpy(), strict=True) for kind in row[:n]
        }
    assert torch.isfinite(stock.states()).all()
    assert int(learned.solver.guard.total.sum()) == 0
    # Otherwise little would have been compared.
    assert {1, LIMIT} <= kinds and max(kinds) >= CONTACT
    assert ((stock.states() - started)[:, 3:6].norm(dim=1) > 0.02).all(), "a cube lies where it lay"
    # Gains act, so that torques are not zero; the model sees them after their limit.
    assert learned.solver.coupled.torque.abs().max() > 5.0
    assert torch.equal(stock.view("body_q"), learned.view("body_q"))


class Recomputed:
    """What the route is not: the prediction put in place, and all smooth forces made anew of it."""

    def override(self, m: Any, d: Any, buffers: Any) -> None:
        import mujoco_warp as mjw

        buffers.differ(d.qacc_smooth)
        buffers.add(buffers.change, d.qacc_smooth)
        mjw.mul_m(m, d, d.qfrc_smooth, d.qacc_smooth)


def test_the_difference_is_what_makes_it_exact(tmp_path: Path) -> None:
    """With the delta form undone the same comparison fails at once, and by far later on."""
    stock, learned = pair(tmp_path / "b", 4, "euler")
    learned.solver.coupled._route.override = Recomputed().override
    differences = []
    for i in range(100):
        for run in (stock, learned):
            run.command(i)
            run.solver.step(run.state, run.state, run.control, None, DT)
        differences.append(float((stock.states() - learned.states()).abs().max()))
    assert 0.0 < differences[0] < 1e-4
    assert differences[-1] > 10 * differences[0]


@pytest.mark.parametrize("label", ["dv_implicitfast", "qacc_smooth"])
def test_the_scenes_own_value_is_exact_on_every_route(tmp_path: Path, label: str) -> None:
    """Commanded efforts beside drives: what the scene itself computes, given back as the prediction."""
    from coupled_world import coupling_of
    from mujoco_warp import deriv_smooth_vel
    from mujoco_warp._src.smooth import factor_solve_i

    bundle = coupled_bundle(tmp_path / "b", coupling=coupling_of(label=label))
    holder: dict[str, Any] = {}

    def own(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        import warp as wp

        m, d = holder["solver"].mjw_model, holder["solver"].mjw_data
        if label == "qacc_smooth":
            return wp.to_torch(d.qacc_smooth)[:, :3].clone()
        matrix, factor, value = (wp.zeros_like(x) for x in (d.M, d.qLD, d.qacc))
        deriv_smooth_vel(m, d, matrix)
        factor_solve_i(m, d, matrix, factor, wp.zeros_like(d.qacc), value, d.qfrc_smooth)
        return wp.to_torch(value)[:, :3].clone()

    stock = Run(arm_and_cube, 4, plain(integrator="implicitfast"))
    learned = Run(arm_and_cube, 4, coupled(bundle, own, integrator="implicitfast"))
    holder["solver"] = learned.solver
    for run in (stock, learned):
        run.effort = 3.0
        run.start()
        run.steps(60)
    assert torch.equal(stock.states(), learned.states())
    assert int(learned.solver.guard.total.sum()) == 0
