"""How much time one model step integrates, and how that fits into the simulation's own steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

_RELATIVE_TOLERANCE = 1e-5
"""Time steps are written as 1/120 or 0.00833333 by different people; a frequency never differs by so little."""


@dataclass(frozen=True)
class ModelClock:
    """The relation of model steps to simulation steps.

    Attributes:
        dt: Time that one model step covers [s].
        sim_steps: Simulation steps that one model step covers: the decimation, or 1.
    """

    dt: float
    sim_steps: int

    @property
    def spans_decimation(self) -> bool:
        """Whether a model step covers more than one simulation step."""
        return self.sim_steps > 1


def fit_clock(card: Card, physics_dt: float, decimation: int) -> ModelClock:
    """The clock of a bundle in a running simulation.

    Args:
        card: The bundle's card.
        physics_dt: Step of the simulation, ``sim.dt`` [s].
        decimation: Simulation steps in one control step.

    Raises:
        FlashNerdError: When the model's step is neither one control step nor one simulation step.
    """
    if math.isclose(card.dt, physics_dt * decimation, rel_tol=_RELATIVE_TOLERANCE):
        return ModelClock(card.dt, decimation)
    if math.isclose(card.dt, physics_dt, rel_tol=_RELATIVE_TOLERANCE):
        return ModelClock(card.dt, 1)
    simulation = card.simulation
    raise FlashNerdError(
        f"sim.dt is {physics_dt:.6g} s with decimation {decimation}, a control step of "
        f"{physics_dt * decimation:.6g} s, but the bundle '{card.name}' steps {card.dt:.6g} s: "
        f"type env.sim.dt={simulation.sim_dt:.9g} "
        f"env.decimation={simulation.decimation}, or give a bundle trained at this step."
    )
