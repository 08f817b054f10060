"""Which bundle a simulation gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.bundle.card import Card, parse_card
from flashnerd_ext.bundle.facts import numbers
from flashnerd_ext.bundle.folder import CARD_FILE
from flashnerd_ext.bundle.store import Bundle, load_bundle, shipped, shipped_root
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.own import own_robots
from flashnerd_ext.robots.registry import all_robots
from flashnerd_ext.solver.coupled_map import moving_names
from flashnerd_ext.solver.mapping import joint_name


@dataclass(frozen=True)
class SceneJoints:
    """Names of the joints that move in a scene.

    Attributes:
        joints: Of all robots of all worlds.
        robots: Of each articulation of world 0.
        alone: Whether each world holds one articulation at most.
        armature: Of each moving joint, of copies the last one's; empty where it is not known, as before actuators have
            written theirs.
    """

    joints: set[str]
    robots: tuple[frozenset[str], ...]
    alone: bool
    armature: Mapping[str, float] = field(default_factory=dict)


def newton_joints(model: Any) -> SceneJoints:
    """Names in a Newton model or builder."""
    worlds = numbers(model.articulation_world)
    count = int(model.articulation_count)
    return SceneJoints(
        moving_joints(model),
        tuple(frozenset(moving_names(model, a)) for a in range(count) if worlds[a] <= 0),
        count <= max(int(model.world_count), 1),
        _armature(model),
    )


def choose_bundle(name_or_path: str, model: Any) -> Bundle:
    """Load the bundle that the configuration names; ``auto`` picks the shipped one for the robot in a Newton scene.

    Raises:
        FlashNerdError: When it cannot be loaded, or no shipped bundle has the robot's joints.
    """
    return load_bundle(name_or_path) if name_or_path != "auto" else choose_for(newton_joints(model))


def choose_for(scene: SceneJoints, coupled_only: bool = False, instead: str = "newton_mjwarp") -> Bundle:
    """Load the shipped bundle for the robot of a scene, or one that lies with a robot of the user's own.

    Args:
        scene: The joints in it.
        coupled_only: Whether bundles of learned mode are of no use.
        instead: The analytical preset to advise where there is none.

    Raises:
        FlashNerdError: When no shipped bundle has the robot's joints, or in coupled mode its armature.
    """
    # Several bundles may fit one robot (other models of it); the one named after the robot comes first.
    folders = _own(scene) | {name: shipped_root() / name for name in shipped()}
    cards = {name: parse_card((folder / CARD_FILE).read_bytes()) for name, folder in folders.items()}
    names = [name for name in cards if cards[name].coupling is not None or not coupled_only]
    fitting = [name for name in names if _fits(cards[name], scene)]

    def order(name: str) -> tuple[bool, bool, bool, str]:
        card = cards[name]
        other = card.coupling is not None and _differ(card.coupling.armature, scene.armature)
        # Where a robot is alone in its world, learned mode; coupled mode where there is something to touch.
        return (card.coupling is None) != scene.alone, other, name != card.robot.name, name

    fitting.sort(key=order)
    if fitting:
        _refuse_other_armature([cards[name] for name in fitting], scene, instead)
        best = fitting[0]
        return load_bundle(best if best in shipped() else folders[best])
    available = f"available are {', '.join(names) or 'none'}"
    kind = " of coupled mode" if coupled_only else ""
    joints = scene.robots if coupled_only else (scene.joints,)
    # The same arm is several robots where free motion contains another armature, which a task may write later.
    known = [robot.name for robot in all_robots().values() if set(robot.layout.joint_names) in joints]
    if known:
        either = " or ".join(known)
        raise FlashNerdError(
            f"no shipped bundle{kind} fits the robot in the scene, which is {either}; {available}: make data and "
            f"train one (python scripts/dataset.py robot={known[0]}, then scripts/train_dynamics.py) and give it with "
            f"env.sim.physics.solver_cfg.bundle=PATH, or type physics={instead}."
        )
    listed = ", ".join(sorted(scene.joints)[:6]) + (", ..." if len(scene.joints) > 6 else "")
    raise FlashNerdError(
        f"no shipped bundle{kind} fits the robot in the scene (its joints: {listed or 'none'}); {available}: choose a "
        "task of one of these robots, or give your own with env.sim.physics.solver_cfg.bundle=PATH."
    )


def _own(scene: SceneJoints) -> dict[str, Path]:
    """Bundles that lie with robots of the user's own which have the joints of a robot in the scene."""
    there = (scene.joints, *scene.robots)
    return {
        name: robot.bundle
        for name, robot in own_robots().items()
        if robot.has_bundle and set(robot.description.layout.joint_names) in there
    }


def _fits(card: Card, scene: SceneJoints) -> bool:
    """Whether the card's robot is the scene's, or one of the scene's for a bundle of coupled mode."""
    if set(card.robot.joint_names) == scene.joints:
        return True
    return card.coupling is not None and set(card.robot.joint_names) in scene.robots


def _armature(model: Any) -> dict[str, float]:
    """Armature of each moving joint of a model; of copies in other worlds, the last one's.

    Of a builder none: there it is the asset's, before actuators have written what a task says.
    """
    if isinstance(model.joint_armature, list):
        return {}
    start, values = numbers(model.joint_qd_start), numbers(model.joint_armature)
    return {
        joint_name(label): float(values[int(start[i])])
        for i, label in enumerate(model.joint_label)
        if int(start[i]) < len(values)
    }


def _differ(wanted: Mapping[str, float], found: Mapping[str, float]) -> bool:
    """Whether an armature is another than wanted, by more than rounding."""
    return bool(_different(wanted, found))


def _different(wanted: Mapping[str, float], found: Mapping[str, float]) -> list[str]:
    """Joints whose armature is another than wanted, by more than rounding."""
    return [n for n, value in wanted.items() if abs(found.get(n, value) - value) > 1e-4 + 1e-3 * abs(value)]


def _refuse_other_armature(fitting: list[Card], scene: SceneJoints, instead: str) -> None:
    """Refuse the best of the cards that have the robot's joints where its labels contain another armature.

    Raises:
        FlashNerdError: With what each of the cards of coupled mode has.
    """
    best = fitting[0].coupling
    if best is None or not _differ(best.armature, scene.armature):
        return
    coupled = [(card.name, card.coupling) for card in fitting if card.coupling is not None]
    apart = {name: (coupling, _different(coupling.armature, scene.armature)) for name, coupling in coupled}
    told = "; ".join(
        f"{name} knows {coupling.armature[joints[0]]:.4g} of {joints[0]}, which has {scene.armature[joints[0]]:.4g}"
        for name, (coupling, joints) in apart.items()
    )
    raise FlashNerdError(
        f"no shipped bundle fits the robot in the scene, which has the joints of {' or '.join(apart)} but another "
        f"armature ({told}): set the actuators' armature to that of one, or describe this robot, make data, train and "
        f"give its bundle with env.sim.physics.solver_cfg.bundle=PATH, or type physics={instead}."
    )


def wants_coupling(name_or_path: str, builder: Any) -> bool:
    """Whether the bundle that :func:`choose_bundle` would load is of coupled mode; of ``builder`` only names and
    armatures are read.

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

    start, types = numbers(model.joint_qd_start), numbers(model.joint_type)
    # A builder's starts end with the last joint.
    ends = [*start[1 : len(model.joint_label)], model.joint_dof_count]
    return {
        joint_name(label)
        for i, label in enumerate(model.joint_label)
        if ends[i] > start[i] and types[i] != int(JointType.FREE)
    }
