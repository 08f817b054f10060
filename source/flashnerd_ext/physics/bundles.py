"""Which bundle a simulation gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashnerd_ext.bundle.card import Card, parse_card
from flashnerd_ext.bundle.folder import CARD_FILE
from flashnerd_ext.bundle.store import Bundle, load_bundle, shipped, shipped_root
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import ROBOTS
from flashnerd_ext.solver.coupled_map import learned_articulations
from flashnerd_ext.solver.mapping import joint_name


def choose_bundle(name_or_path: str, model: Any) -> Bundle:
    """Load the bundle that the configuration names; ``auto`` picks the shipped one for the robot in the scene.

    Raises:
        FlashNerdError: When it cannot be loaded, or no shipped bundle has the robot's joints.
    """
    if name_or_path != "auto":
        return load_bundle(name_or_path)
    joints = moving_joints(model)
    alone = int(model.articulation_count) <= max(int(model.world_count), 1)
    names = shipped()
    # Several bundles may fit one robot (other models of it); the one named after the robot comes first.
    cards = {name: parse_card((shipped_root() / name / CARD_FILE).read_bytes()) for name in names}
    fitting = [name for name in names if _fits(cards[name], model, joints)]
    armature = _armature(model)

    def order(name: str) -> tuple[bool, bool, bool, str]:
        card = cards[name]
        other = card.coupling is not None and _differ(card.coupling.armature, armature)
        # Where a robot is alone in its world, learned mode; coupled mode where there is something to touch.
        return (card.coupling is None) != alone, other, name != card.robot.name, name

    fitting.sort(key=order)
    if fitting:
        return load_bundle(fitting[0])
    available = f"available are {', '.join(names) or 'none'}"
    known = [robot for robot in ROBOTS.values() if set(robot.layout.joint_names) == joints]
    # The same arm is several robots where free motion contains another armature.
    known.sort(key=lambda robot: _differ(robot.armature, armature))
    if known:
        name = known[0].name
        raise FlashNerdError(
            f"no shipped bundle fits the robot in the scene, which is {name}; {available}: make data and train one "
            f"(python scripts/dataset.py robot={name}, then scripts/train_dynamics.py) and give it with "
            "env.sim.physics.solver_cfg.bundle=PATH, or type physics=newton_mjwarp."
        )
    listed = ", ".join(sorted(joints)[:6]) + (", ..." if len(joints) > 6 else "")
    raise FlashNerdError(
        f"no shipped bundle fits the robot in the scene (its joints: {listed or 'none'}); {available}: choose a task "
        "of one of these robots, or give your own with env.sim.physics.solver_cfg.bundle=PATH."
    )


def _fits(card: Card, model: Any, joints: set[str]) -> bool:
    """Whether the card's robot is the scene's, or one of the scene's for a bundle of coupled mode."""
    if set(card.robot.joint_names) == joints:
        return True
    return card.coupling is not None and bool(learned_articulations(model, card.robot.joint_names)[0])


def _armature(model: Any) -> dict[str, float]:
    """Armature of each moving joint of the model or builder; of copies in other worlds, the last one's."""
    start, values = (x.numpy() if hasattr(x, "numpy") else x for x in (model.joint_qd_start, model.joint_armature))
    return {
        joint_name(label): float(values[int(start[i])])
        for i, label in enumerate(model.joint_label)
        if int(start[i]) < len(values)
    }


def _differ(wanted: Mapping[str, float], found: Mapping[str, float]) -> bool:
    """Whether an armature is another than wanted, by more than rounding."""
    return any(abs(found.get(name, value) - value) > 1e-4 + 1e-3 * abs(value) for name, value in wanted.items())


def wants_coupling(name_or_path: str, builder: Any) -> bool:
    """Whether the bundle that :func:`choose_bundle` would load is of coupled mode, of a model or a builder.

    Where that cannot be said, False: whatever is wrong with the bundle is said when it is loaded.
    """
    try:
        if name_or_path == "auto":
            return choose_bundle("auto", builder).card.coupling is not None
        folder = Path(shipped_root() / name_or_path if name_or_path in shipped() else name_or_path).expanduser()
        return parse_card((folder / CARD_FILE).read_bytes()).coupling is not None
    except (FlashNerdError, OSError):
        return False


def moving_joints(model: Any) -> set[str]:
    """Names of the joints that have a degree of freedom, without free joints."""
    from newton import JointType

    # A builder has lists, and its starts end with the last joint.
    start, types = (x.numpy() if hasattr(x, "numpy") else x for x in (model.joint_qd_start, model.joint_type))
    ends = [*start[1 : len(model.joint_label)], model.joint_dof_count]
    return {
        joint_name(label)
        for i, label in enumerate(model.joint_label)
        if ends[i] > start[i] and types[i] != int(JointType.FREE)
    }
