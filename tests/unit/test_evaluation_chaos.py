"""The disturbed simulator: no disturbance is the simulator, and a disturbance has the size that it was given."""

from __future__ import annotations

import numpy as np

from flashnerd_ext.evaluation.chaos import disturbed_predictor
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.metric import state_difference

LAYOUT = StateLayout(("hip", "knee"), ("revolute", "revolute"), floating_base=True, actuated=("hip",))


class Drifting:
    """A simulator in which everything goes on at its velocity."""

    name, version = "drifting", "1"

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = joint_q.copy()
        moved[:, :3] += 0.01 * joint_qd[:, :3]
        moved[:, 7:] += 0.01 * joint_qd[:, 6:]
        return moved, joint_qd.copy()


def start(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    q, qd = rng.normal(size=(count, LAYOUT.nq)), rng.normal(size=(count, LAYOUT.nv))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    return q, qd


def test_no_disturbance_is_the_simulator() -> None:
    q, qd = start(5)
    actuation = np.zeros((4, 5, 1))
    found_q, found_qd = disturbed_predictor(Drifting(), LAYOUT, np.zeros(2 * LAYOUT.nv))(q, qd, actuation)
    for t in range(4):
        q, qd = Drifting().step(q, qd, actuation[t])
    np.testing.assert_allclose(found_q[-1], q, atol=1e-12)
    np.testing.assert_allclose(found_qd[-1], qd, atol=1e-12)


def test_the_disturbance_has_the_spread_that_was_asked_for() -> None:
    q, qd = start(4000)
    spread = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.01, 0.02, 0.03, 0.0, 0.0, 0.0, 0.04, 0.05])
    found_q, found_qd = disturbed_predictor(Drifting(), LAYOUT, spread)(q, qd, np.zeros((1, 4000, 1)))
    still_q, still_qd = Drifting().step(q, qd, np.zeros((4000, 1)))
    difference = state_difference(LAYOUT, found_q[1], found_qd[1], still_q, still_qd)
    # Gravity, height, linear and angular velocity, joints: the rotation was not disturbed.
    np.testing.assert_allclose(difference[:, :3], 0.0, atol=1e-12)
    np.testing.assert_allclose(difference[:, 4:10].std(0), spread[:6], rtol=0.05)
    np.testing.assert_allclose(difference[:, 10:].std(0), [0.04, 0.05, 0.7, 0.8], rtol=0.05)
    # The same seed, the same disturbance.
    again = disturbed_predictor(Drifting(), LAYOUT, spread)(q, qd, np.zeros((1, 4000, 1)))
    np.testing.assert_array_equal(again[0], found_q)
