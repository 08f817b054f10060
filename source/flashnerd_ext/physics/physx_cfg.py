"""Configurations of coupled mode under PhysX; importing it imports neither a manager nor a model."""

from __future__ import annotations

import copy
from typing import Any

from isaaclab.sim import SimulationCfg
from isaaclab.utils import configclass
from isaaclab_ov.physics import OvPhysxCfg
from isaaclab_physx.physics import PhysxCfg

from flashnerd_ext.physics.flashnerd_manager_cfg import LearnedCfg


@configclass
class OvPhysxFlashNerdCfg(OvPhysxCfg):
    """PhysX without Kit, with learned free motion for the robots of a bundle of coupled mode."""

    class_type = "{DIR}.ovphysx_manager:OvPhysxFlashNerdManager"

    solver_cfg: LearnedCfg = LearnedCfg()
    """The bundle, and how its model runs; named as under Newton, so that the same words are typed."""


@configclass
class PhysxFlashNerdCfg(PhysxCfg):
    """The same under Isaac Sim's PhysX. Untested, and no preset offers it."""

    class_type = "{DIR}.physx_manager:PhysxFlashNerdManager"

    solver_cfg: LearnedCfg = LearnedCfg()
    """The bundle, and how its model runs."""


def coupled_physics(value: Any, **changes: Any) -> Any:
    """A preset's ``ovphysx`` alternative with learned free motion; never modifies it.

    Args:
        value: An ``OvPhysxCfg``, or a ``SimulationCfg`` that holds one; anything else (a robot's USD variant, a weight)
            is the same with a learned robot, and is given back.
        changes: Fields of :class:`LearnedCfg` that differ from their defaults.
    """
    if isinstance(value, OvPhysxCfg):
        kept = {key: field for key, field in vars(value).items() if key != "class_type"}
        kept["solver_cfg"] = LearnedCfg(**changes)
        return OvPhysxFlashNerdCfg(**kept)
    if isinstance(value, SimulationCfg) and isinstance(value.physics, OvPhysxCfg):
        value = copy.copy(value)
        value.physics = coupled_physics(value.physics, **changes)
    return value
