"""Another bundle of the same kind takes over in a running simulation.

Weights are copied into the tensors that stand, so that compiled code and buffers stay valid; what was cached of the
past belongs to the old weights and is dropped.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

from flashnerd_ext.bundle.same_kind import check_model_config
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.engine_stepper import EngineStepper
from flashnerd_ext.solver.guard import card_bounds

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd


def swap_bundle(solver: SolverFlashNerd, bundle: Bundle, guard_margin: float) -> None:
    """Let ``solver`` step with ``bundle`` from the next step on.

    Args:
        solver: The running learned solver; the weights of the bundle that it was built with are overwritten.
        bundle: Fine-tuned from the one in force, or from an ancestor of it: robot, simulation, contacts and network are
            the same.
        guard_margin: Share of the envelope's width by which states may leave it.

    Raises:
        FlashNerdError: Where the bundle is of another kind; nothing has changed then.
    """
    check_same_kind(solver.bundle.card, bundle.card)
    stepper = solver.stream.stepper
    if isinstance(stepper, EngineStepper):
        raise FlashNerdError(
            "the simulation steps MuJoCo C (solver_cfg.model=mujoco_c), which has no weights to replace: type "
            "physics=flashnerd for learned ones."
        )
    bounds = card_bounds(bundle.card, guard_margin)
    with torch.inference_mode(False), torch.no_grad():
        stepper.model.load_state_dict(bundle.model.state_dict())
        solver.guard.take(bounds)
        solver.conditions.take_ranges(bundle.card)
        solver.stream.forget_worlds(None)
    solver.bundle = dataclasses.replace(bundle, model=stepper.model)
    if solver.dump is not None:
        solver.dump.facts["hash"] = bundle.hash


def check_same_kind(old: Card, new: Card) -> None:
    """Refuse a bundle that cannot take the place of another while a simulation runs.

    Raises:
        FlashNerdError: Names the section of the card that differs.
    """
    check_model_config(old, new.model.name, new.model.config)
    pairs = {
        "robot": (dataclasses.replace(old.robot, asset_key=""), dataclasses.replace(new.robot, asset_key="")),
        "actuation": (old.actuation, new.actuation),
        "simulation": (dataclasses.replace(old.simulation, engine=""), dataclasses.replace(new.simulation, engine="")),
        "contacts": (old.contacts, new.contacts),
    }
    for name, (before, after) in pairs.items():
        if before != after:
            raise FlashNerdError(
                f"the bundle '{new.name}' cannot take over from '{old.name}' in a running simulation, since the {name} "
                "in their cards differs: fine-tune the one that runs, with init= on data of its robot."
            )
