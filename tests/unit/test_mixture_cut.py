"""Long trajectories behind short base data are cut, so that the base is not padded to their length."""

import numpy as np
import pytest

from flashnerd_ext.data.dataset import Trajectories
from flashnerd_ext.training.mixture import cut, joined


def _part(count: int, steps: int, first: float) -> Trajectories:
    """Trajectories whose joint_q and actuation say which trajectory and step they are of."""
    q = first + np.arange(count)[:, None, None] + np.arange(steps + 1)[None, :, None] / 1000.0
    valid = np.ones((count, steps), bool)
    valid[-1, -3:] = False  # one episode ends early
    extra = {
        "condition": first + np.arange(count, dtype=np.float32)[:, None],
        "friction": np.full(count, 0.7, np.float32),
        "row_link": np.arange(steps)[None, :, None].repeat(count, 0).astype(np.int8),
    }
    return Trajectories(q, q.copy(), q[:, :-1].copy(), valid, np.arange(count), extra, {"samplers": ["a", "b", "c"]})


@pytest.mark.parametrize("steps", [6, 7, 20])
def test_every_transition_is_kept_once_with_its_own_trajectory(steps: int) -> None:
    whole = _part(3, 20, 0.0)
    pieces = cut(whole, steps)
    assert pieces.valid.shape[1] == min(steps, 20) and pieces.valid.sum() == whole.valid.sum()
    took = sorted(map(tuple, np.stack([pieces.joint_q[:, :-1], pieces.joint_q[:, 1:]], -1)[pieces.valid][:, 0]))
    want = sorted(map(tuple, np.stack([whole.joint_q[:, :-1], whole.joint_q[:, 1:]], -1)[whole.valid][:, 0]))
    np.testing.assert_array_equal(took, want)
    owner = np.floor(pieces.actuation[:, 0, 0]).astype(int)
    has = pieces.valid.any(1)
    np.testing.assert_array_equal(pieces.sampler[has], owner[has])
    np.testing.assert_array_equal(pieces.extra["condition"][has, 0], owner[has])
    step = np.round((pieces.actuation[..., 0] - pieces.sampler[:, None]) * 1000).astype(int)
    np.testing.assert_array_equal(pieces.extra["row_link"][..., 0][pieces.valid], step[pieces.valid])


def test_the_base_is_not_padded_to_the_longest() -> None:
    base, long = _part(50, 6, 0.0), _part(3, 20, 100.0)
    transitions = base.valid.sum() + long.valid.sum()
    both = joined([base, cut(long, 6)])
    assert both.valid.shape == (50 + 4 * 3, 6) and both.valid.sum() == transitions
    assert both.extra["friction"].shape == (62,) and np.isfinite(both.joint_q).all()
