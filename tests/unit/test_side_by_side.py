"""Frames of several runs in one."""

from __future__ import annotations

import numpy as np

from flashnerd_ext.view.side_by_side import DIMMED, HEADER, STRIP, Chart, Curve, Panel, compose

STEPS, SIZE = 4, 160


def frames(level: int) -> np.ndarray:
    """Each step is one brighter than the one before."""
    return np.full((STEPS, SIZE, SIZE, 3), level, np.uint8) + np.arange(STEPS, dtype=np.uint8)[:, None, None, None]


def test_runs_stand_side_by_side_and_one_that_is_over_stays_as_it_was() -> None:
    values = np.array([1.0, 10.0, np.nan, 100.0])
    panels = [Panel("one", "#000000", frames(100)), Panel("two", "#ff0000", frames(200), 2, "dropped")]
    charts = (
        Chart("apart", [Curve("one", "#ff0000", "-", values)], 1e-3),
        Chart("force", [Curve("two", "#0000ff", "-", values)]),
    )
    whole = compose(panels, charts, 0.1)
    assert len(whole) == STEPS and all(frame.shape == (HEADER + SIZE + STRIP, 2 * SIZE, 3) for frame in whole)
    scenes = [frame[HEADER : HEADER + SIZE] for frame in whole]
    assert [scene[0, 0, 0] for scene in scenes] == [100, 101, 102, 103]
    assert [scene[0, -1, 0] for scene in scenes] == [200, 201, int(DIMMED * 201), int(DIMMED * 201)]
    heads, strips = [frame[:HEADER] for frame in whole], [frame[HEADER + SIZE :] for frame in whole]
    assert (heads[0] == heads[1]).all() and (heads[1] != heads[2]).any() and (heads[2] == heads[3]).all()
    # The curves grow, but not where there is a gap.
    assert (strips[0] != strips[1]).any() and (strips[1] == strips[2]).all()


def test_a_chart_without_any_value_is_drawn() -> None:
    nothing = np.full(STEPS, np.nan)
    charts = [Chart("apart", [Curve("one", "#ff0000", "-", nothing)], floor) for floor in (0.0, 1e-3)]
    assert len(compose([Panel("one", "#000000", frames(1))], charts, 0.1)) == STEPS
