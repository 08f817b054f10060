"""``physics=flashnerd`` on tasks that know nothing of it.

A preset class lists its alternatives as attributes; there is no global registry. :func:`install` adds one attribute to
the preset classes of stock tasks whose robots have a description. The attribute is a descriptor that builds a new
configuration each time it is read: a plain attribute would be one object shared by all tasks, and an override for one
task would show in the next.

``physics=flashnerd_ovphysx`` has no list: whatever a task says for ``ovphysx`` (its physics, the variant of a robot's
USD for PhysX, a weight) holds for it too, so that each task that runs under PhysX without Kit offers it.
"""

from __future__ import annotations

import importlib
import logging
from dataclasses import MISSING
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest

logger = logging.getLogger(__name__)

PRESET = "flashnerd"
"""Name that ``physics=`` takes."""
ENGINE_PRESET = "mujoco_c"
"""The same backend with MuJoCo C in place of the learned model, for robots with contacts."""

OVPHYSX_PRESET = "flashnerd_ovphysx"
"""PhysX without Kit, with learned free motion: coupled mode."""

STOCK: dict[str, str] = {
    "isaaclab_tasks.core.cartpole.cartpole_common:CartpolePhysicsCfg": "cartpole",
    "isaaclab_tasks.core.locomotion.ant.ant_common:AntPhysicsCfg": "auto",
    # Shared by every robot that walks: the bundle is chosen by the joints in the scene.
    "isaaclab_tasks.core.velocity.velocity_env_cfg:RoughPhysicsCfg": "auto",
}
"""Preset class of stock tasks -> bundle of their robot, or ``auto``."""
COUPLED: tuple[str, ...] = (
    "isaaclab_tasks.core.reorient.config.allegro_hand.allegro_hand_common:PhysicsCfg",
    "isaaclab_tasks.core.lift.lift_env_cfg:PhysicsCfg",
    "isaaclab_tasks.core.reach.reach_env_cfg:ReachPhysicsCfg",
)
"""Preset classes of stock tasks for robots of coupled mode; the bundle is chosen by the joints in the scene."""


class FlashNerdPreset:
    """Class attribute whose value is a new ``NewtonCfg``, made from the class's own ``newton_mjwarp``.

    Args:
        bundle: Shipped name or path, or ``auto``.
        model: ``solver_cfg.model``; empty for the bundle's own.
    """

    def __init__(self, bundle: str, model: str = "") -> None:
        self.bundle, self.model = bundle, model

    def __get__(self, instance: object | None, owner: type) -> Any:
        from flashnerd_ext.physics.flashnerd_manager_cfg import flashnerd_physics

        return flashnerd_physics(_analytical(owner), bundle=self.bundle, model=self.model)


def _analytical(owner: type) -> Any:
    """The class's MuJoCo Warp preset as the resolver would read it, else its default factory's product."""
    value = getattr(owner, "newton_mjwarp", None)
    if value is not None:
        return value
    field = getattr(owner, "__dataclass_fields__", {}).get("newton_mjwarp")
    if field is None:
        return None
    return field.default_factory() if field.default_factory is not MISSING else field.default


def offer(preset_class: type, bundle: str = "auto", coupled: bool = False) -> None:
    """Add the alternative ``flashnerd`` to a preset class, e.g. of your own task.

    Args:
        preset_class: A ``PresetCfg`` subclass; its ``newton_mjwarp`` settings are the base.
        bundle: Shipped name or path; ``auto`` chooses by the robot's joints when the simulation is built.
        coupled: For robots among objects: ``mujoco_c``, which steps one robot a world, is not offered.
    """
    setattr(preset_class, PRESET, FlashNerdPreset(bundle))
    if bundle == "auto" and not coupled:
        setattr(preset_class, ENGINE_PRESET, FlashNerdPreset(bundle, ENGINE_PRESET))


def offer_ovphysx() -> None:
    """Let ``flashnerd_ovphysx`` stand in every preset that has ``ovphysx``. Safe to call again.

    Isaac Lab lists the alternatives of a preset in one function; ones made by ``preset(...)`` belong to no class that
    could be given an attribute.
    """
    from isaaclab_tasks.utils import hydra

    stock = getattr(hydra, "_preset_fields", None)
    if stock is None:
        logger.warning("physics=%s is not offered: this Isaac Lab lists presets in another way.", OVPHYSX_PRESET)
        return
    if getattr(stock, "_flashnerd", False):
        return

    def preset_fields(preset_obj: Any) -> dict[str, Any]:
        found = stock(preset_obj)
        if "ovphysx" in found and OVPHYSX_PRESET not in found:
            from flashnerd_ext.physics.physx_cfg import coupled_physics

            found[OVPHYSX_PRESET] = coupled_physics(found["ovphysx"])
        return found

    preset_fields._flashnerd = True  # type: ignore[attr-defined]
    hydra._preset_fields = preset_fields


def install() -> list[str]:
    """Offer ``flashnerd`` on the stock preset classes; returns those that were reached. Safe to call again."""
    offer_ovphysx()
    reached = []
    for path, bundle in [*STOCK.items(), *((path, "auto") for path in COUPLED)]:
        module_name, _, class_name = path.partition(":")
        try:
            preset_class = getattr(importlib.import_module(module_name), class_name)
        except (ImportError, AttributeError) as error:
            logger.warning("physics=flashnerd is not offered on the tasks of %s: %s.", path, error)
            continue
        offer(preset_class, bundle, coupled=path in COUPLED)
        reached.append(path)
    return reached


def bundle_of_task(task: str) -> str:
    """Shipped bundle's name for a gym id, from the robot descriptions.

    Raises:
        FlashNerdError: For a task whose robot has no description.
    """
    from flashnerd_ext.robots.registry import all_robots

    found = {name: robot.name for robot in all_robots().values() for name in robot.tasks}
    if task not in found:
        raise FlashNerdError(f"no robot description names the task '{task}': {nearest(task, found)}")
    return found[task]
