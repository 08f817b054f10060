"""Read a robot's file, whichever of the three formats it is in, into one tree of links and joints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.description import Drive, Source
from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.assets.urdf import Tree
from flashnerd_ext.robots.intake.findings import Finding

USD = (".usd", ".usda", ".usdc")
WORLD = ("world", "world_link", "universe")
"""Names of a root link that stands for the world."""


@dataclass
class Intake:
    """What a file says, before anything is decided.

    Attributes:
        path: The file.
        kind: ``urdf``, ``mjcf`` or ``usd``.
        tree: Links and joints as they are written; ``None`` where what is wrong leaves none.
        fixed_base: Whether the world holds the root link; ``None`` where the file does not say.
        mount: Pose of the root link in the world that the file says [4, 4].
        drives: Gains and armature of joints that the file gives.
        findings: What was found while reading.
    """

    path: Path
    kind: str
    tree: Tree | None = None
    fixed_base: bool | None = None
    mount: Array = field(default_factory=lambda: np.eye(4))
    drives: dict[str, Drive] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def drop_world(self) -> None:
        """Leave out root links that have neither mass nor shape and hold one link: the world, or a frame."""
        tree = self.tree
        while tree is not None:
            root, below = tree.links[tree.root], [joint for joint in tree.joints if joint.parent == tree.root]
            bare = root.inertia.mass <= 0.0 and not root.visuals and not root.collisions
            if not bare or len(below) != 1 or below[0].kind != "fixed":
                return
            if tree.root.lower() in WORLD and self.fixed_base is None:
                self.fixed_base = True
            if tree.root.lower() in WORLD:
                self.mount = self.mount @ below[0].pose
            del tree.links[tree.root]
            tree.joints.remove(below[0])
            tree.root = below[0].child


@dataclass(frozen=True)
class LocalFile(Source):
    """A source that is a file of the user's."""

    def path(self) -> Path:
        """The file."""
        return Path(self.file)


def local_file(path: Path) -> LocalFile:
    """The user's file as a source of the converter; its licence is what it says itself."""
    return LocalFile("the user's files", str(path), "licence of the source")


def read(path: Path, packages: dict[str, str] | None = None, root: str = "") -> Intake:
    """Read a robot.

    Args:
        path: A URDF, an MJCF or a USD file.
        packages: ``package://NAME`` of a URDF -> folder.
        root: Link that the robot begins at, where an MJCF holds several; empty takes the one with the most joints.

    Raises:
        FlashNerdError: For a file that is none of the three. What is wrong inside of it is among the findings.
    """
    if not path.is_file():
        raise FlashNerdError(f"the robot is {path}, but there is no such file: give a .urdf, .xml or .usd file.")
    if path.suffix.lower() in USD:
        from flashnerd_ext.robots.intake.from_usd import read_usd

        return read_usd(path)
    if path.suffix.lower() not in (".urdf", ".xml", ".mjcf"):
        hint = ": expand it first (xacro FILE > robot.urdf)" if path.suffix.lower() == ".xacro" else ""
        raise FlashNerdError(f"{path} ends in '{path.suffix}', but a .urdf, .xml or .usd file is needed{hint}.")
    try:
        element = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise FlashNerdError(f"{path} is not XML ({error}): give a URDF or an MJCF.") from None
    if element.tag == "robot":
        from flashnerd_ext.robots.intake.from_urdf import read_urdf

        return read_urdf(path, element, packages or {})
    if element.tag == "mujoco":
        from flashnerd_ext.robots.intake.from_mjcf import read_mjcf

        return read_mjcf(path, root)
    raise FlashNerdError(
        f"{path} begins with <{element.tag}>, but <robot> (a URDF) or <mujoco> (an MJCF) is needed: give another file."
    )


def reframed(tree: Tree, name: str, offset: Array) -> None:
    """Move a link's own frame by ``offset`` [4, 4], without moving anything: its joint's anchor becomes its origin."""
    back, link = np.linalg.inv(offset), tree.links[name]
    link.inertia = link.inertia.moved(back)
    link.visuals = [replace(shape, pose=back @ shape.pose) for shape in link.visuals]
    link.collisions = [replace(shape, pose=back @ shape.pose) for shape in link.collisions]
    tree.joints = [
        replace(joint, pose=back @ joint.pose)
        if joint.parent == name
        else replace(joint, pose=joint.pose @ offset)
        if joint.child == name
        else joint
        for joint in tree.joints
    ]
