"""Options of ``scripts/new_robot.py``, parsed: what the user says in place of a guess."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.assets.description import CollisionPolicy
from flashnerd_ext.robots.own.schema import NAME

Visual = Literal["hull", "mesh", "collision"]
Value = dict[str, float]
"""Regular expression of joints -> number; the first that matches counts."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says.

    Attributes:
        path: The robot's file.
        name: Name of the robot.
        out: Folder that the robot's folder is made in.
        force: Replace the robot's folder.
        check: Only check, write nothing.
        base: ``auto``, ``fixed`` or ``floating``.
        feet, lock: Regular expressions of links and joints.
        default, effort, stiffness, damping, armature: Numbers for joints.
        range: Limits for joints.
        collision: Shape policy for links.
        mass: Masses for links [kg].
        repair: Links whose impossible inertia is replaced.
        package: ``package://NAME`` -> folder.
        root: Top body of an MJCF.
        visual: What is shown of visual meshes.
        tip: Link that a reach task moves.
    """

    path: Path
    name: str
    out: Path = Path("robots")
    force: bool = False
    check: bool = False
    base: str = "auto"
    feet: tuple[str, ...] = ()
    lock: tuple[str, ...] = ()
    default: Value = field(default_factory=dict)
    effort: Value = field(default_factory=dict)
    stiffness: Value = field(default_factory=dict)
    damping: Value = field(default_factory=dict)
    armature: Value = field(default_factory=dict)
    range: dict[str, tuple[float, float]] = field(default_factory=dict)
    collision: dict[str, CollisionPolicy] = field(default_factory=dict)
    mass: Value = field(default_factory=dict)
    repair: tuple[str, ...] = ()
    package: dict[str, str] = field(default_factory=dict)
    root: str = ""
    visual: Visual = "hull"
    tip: str = ""


def parse(argv: Sequence[str] | None = None, doc: str | None = None) -> Options:
    """Read the command line.

    Raises:
        FlashNerdError: For a name that cannot be one, or a value that is no number.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("path", type=Path, help="the robot: a .urdf, .xml (MJCF) or .usd file")
    add("--name", required=True, help="name that commands take: small letters, digits and _")
    add("--out", type=Path, default=Path("robots"), help="folder to make the robot's folder in (robots)")
    add("--force", action="store_true", help="replace the robot's folder; a bundle in it is kept")
    add("--check", action="store_true", help="only check the file; write nothing")
    add("--base", choices=("auto", "fixed", "floating"), default="auto", help="whether the world holds the base")
    joints = "JOINT=VALUE, or VALUE for all; JOINT is a regular expression"
    add("--feet", nargs="+", default=[], metavar="LINK", help="links that stand on the ground")
    add("--lock", nargs="+", default=[], metavar="JOINT", help="joints to fix at 0")
    add("--default", nargs="+", default=[], metavar="Q", help=f"default pose [rad or m]: {joints}")
    add("--effort", nargs="+", default=[], metavar="E", help=f"effort limits [N m or N]: {joints}")
    add("--stiffness", nargs="+", default=[], metavar="KP", help=f"stiffness of drives [N m/rad or N/m]: {joints}")
    add("--damping", nargs="+", default=[], metavar="KD", help=f"damping of drives: {joints}")
    add("--armature", nargs="+", default=[], metavar="I", help=f"rotor inertia at the joint [kg m^2 or kg]: {joints}")
    add("--range", nargs="+", default=[], metavar="R", help="limits in place of the file's: JOINT=LOW,HIGH")
    add("--collision", nargs="+", default=[], metavar="C", help="LINK=shape|hull|box|sphere|capsule|none")
    add("--mass", nargs="+", default=[], metavar="M", help="LINK=KG, with the inertia of the box around its shapes")
    add("--repair", nargs="*", default=[], metavar="LINK", help="replace impossible inertias; without a link all")
    add("--package", nargs="+", default=[], metavar="P", help="NAME=FOLDER of package:// addresses")
    add("--root", default="", metavar="BODY", help="top body of the robot in an MJCF of several")
    add("--visual", choices=get_args(Visual), default="hull", help="what to show of visual meshes (hull)")
    add("--tip", default="", metavar="LINK", help="link that a reach task moves (the last of the longest chain)")
    words = parser.parse_args(argv)
    check_name(words.name)
    values = {key: _values(f"--{key}", getattr(words, key)) for key in _NUMBERS}
    collision = _pairs("--collision", words.collision)
    for policy in collision.values():
        if policy not in get_args(CollisionPolicy):
            raise FlashNerdError(
                f"--collision is '{policy}', which is unknown: {nearest(policy, get_args(CollisionPolicy))}"
            )
    given = words.repair if words.repair or "--repair" not in (argv or _argv()) else ["*"]
    return Options(
        path=words.path, name=words.name, out=words.out, force=words.force, check=words.check, base=words.base,
        feet=tuple(words.feet), lock=tuple(words.lock), range=_ranges(words.range),
        collision=cast(dict[str, CollisionPolicy], collision), repair=tuple(given),
        package=_pairs("--package", words.package), root=words.root, visual=words.visual, tip=words.tip, **values,
    )  # fmt: skip


_NUMBERS = ("default", "effort", "stiffness", "damping", "armature", "mass")


def _argv() -> list[str]:
    import sys

    return sys.argv[1:]


def check_name(name: str) -> None:
    """Refuse a name that cannot be one, or is one of the package's.

    Raises:
        FlashNerdError: With what is needed.
    """
    from flashnerd_ext.robots.registry import ROBOTS

    if not NAME.fullmatch(name):
        raise FlashNerdError(
            f"--name is '{name}', but a small letter, then small letters, digits and _ are needed, such as "
            f"{re.sub(r'[^a-z0-9_]', '_', name.lower()).lstrip('0123456789_') or 'my_robot'}."
        )
    if name in ROBOTS:
        raise FlashNerdError(
            f"--name is '{name}', which is a robot of the package: give another name, such as my_{name}."
        )


def pick(values: Value, joint: str) -> float | None:
    """The number that the first matching expression gives a joint."""
    return next((value for pattern, value in values.items() if re.fullmatch(pattern, joint)), None)


def check_patterns(options: Options, joints: Sequence[str]) -> None:
    """Refuse expressions that match no joint.

    Raises:
        FlashNerdError: With the nearest names.
    """
    for option in ("default", "effort", "stiffness", "damping", "armature", "range"):
        for pattern in getattr(options, option):
            if not any(re.fullmatch(pattern, joint) for joint in joints):
                raise FlashNerdError(f"--{option} names '{pattern}', which is no joint: {nearest(pattern, joints)}")


def _pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise FlashNerdError(f"{option} has '{word}', but NAME=VALUE is needed.")
        found[name] = value
    return found


def _values(option: str, words: Sequence[str]) -> Value:
    found: Value = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        try:
            found[name if equals else ".*"] = float(text)
            re.compile(name)
        except (ValueError, re.error):
            raise FlashNerdError(f"{option} has '{word}', but JOINT=NUMBER is needed.") from None
    return found


def _ranges(words: Sequence[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for name, text in _pairs("--range", words).items():
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            raise FlashNerdError(f"--range has '{name}={text}', but JOINT=LOW,HIGH is needed.") from None
        if not low < high:
            raise FlashNerdError(f"--range has '{name}={text}', but the lower number comes first.")
        found[name] = (low, high)
    return found
