"""Which bundle a simulation gets."""

from __future__ import annotations

from typing import Any

from flashnerd_ext.bundle.card import parse_card
from flashnerd_ext.bundle.folder import CARD_FILE
from flashnerd_ext.bundle.store import Bundle, load_bundle, shipped, shipped_root
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import ROBOTS
from flashnerd_ext.solver.mapping import joint_name


def choose_bundle(name_or_path: str, model: Any) -> Bundle:
    """Load the bundle that the configuration names; ``auto`` picks the shipped one for the robot in the scene.

    Raises:
        FlashNerdError: When it cannot be loaded, or no shipped bundle has the robot's joints.
    """
    if name_or_path != "auto":
        return load_bundle(name_or_path)
    joints = moving_joints(model)
    names = shipped()
    # Several bundles may fit one robot (other models of it); the one named after the robot comes first.
    cards = {name: parse_card((shipped_root() / name / CARD_FILE).read_bytes()) for name in names}
    fitting = [name for name in names if set(cards[name].robot.joint_names) == joints]
    fitting.sort(key=lambda name: (name != cards[name].robot.name, name))
    if fitting:
        return load_bundle(fitting[0])
    available = f"available are {', '.join(names) or 'none'}"
    known = [robot.name for robot in ROBOTS.values() if set(robot.layout.joint_names) == joints]
    if known:
        raise FlashNerdError(
            f"no shipped bundle fits the robot in the scene, which is {known[0]}; {available}: make data and train one "
            f"(python scripts/dataset.py robot={known[0]}, then scripts/train_dynamics.py) and give it with "
            "env.sim.physics.solver_cfg.bundle=PATH, or type physics=newton_mjwarp."
        )
    listed = ", ".join(sorted(joints)[:6]) + (", ..." if len(joints) > 6 else "")
    raise FlashNerdError(
        f"no shipped bundle fits the robot in the scene (its joints: {listed or 'none'}); {available}: choose a task "
        "of one of these robots, or give your own with env.sim.physics.solver_cfg.bundle=PATH."
    )


def moving_joints(model: Any) -> set[str]:
    """Names of the joints that have a degree of freedom, without free joints."""
    from newton import JointType

    start, types = model.joint_qd_start.numpy(), model.joint_type.numpy()
    return {
        joint_name(label)
        for i, label in enumerate(model.joint_label)
        if start[i + 1] > start[i] and types[i] != int(JointType.FREE)
    }
