"""URDF to a tree of bodies: parse, rename, lock, merge. No pxr here, so that it can be tested on its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.assets.description import Color, UrdfRobot
from flashnerd_ext.robots.assets.inertia import ZERO, Array, Inertia, combine

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """A visual or collision shape in its body's frame.

    Args:
        kind: ``box``, ``sphere``, ``cylinder``, ``capsule``, ``mesh``, or ``points`` for their hull.
        size: Edge lengths, ``(radius,)``, ``(radius, length)``, the mesh's scale, or coordinates point by point.
        pose: Shape frame in the body [4, 4].
        file: The mesh.
        color: Linear RGB from the URDF's material.
        link: The link that it was written under, before merging.
    """

    kind: str
    size: tuple[float, ...]
    pose: Array
    file: Path | None = None
    color: Color | None = None
    link: str = ""


@dataclass
class Link:
    """One body with what was merged into it."""

    name: str
    inertia: Inertia = ZERO
    visuals: list[Shape] = field(default_factory=list)
    collisions: list[Shape] = field(default_factory=list)


@dataclass(frozen=True)
class UrdfJoint:
    """A joint between two bodies; ``pose`` is the child body's (and the joint's) frame in the parent [4, 4]."""

    name: str
    kind: str
    parent: str
    child: str
    pose: Array
    axis: Array
    limits: tuple[float, float] = (-np.inf, np.inf)
    effort: float = np.inf
    velocity: float = np.inf
    mimic: tuple[str, float, float] | None = None


@dataclass
class Tree:
    """Bodies and joints, breadth-first from the root."""

    root: str
    links: dict[str, Link]
    joints: list[UrdfJoint]

    def world_poses(self) -> dict[str, Array]:
        """Pose of every body in the root body at joint positions zero."""
        poses = {self.root: np.eye(4)}
        for joint in self.joints:
            poses[joint.child] = poses[joint.parent] @ joint.pose
        return poses


def load(robot: UrdfRobot) -> Tree:
    """Parse the robot's URDF and apply the edits of its description.

    Raises:
        FlashNerdError: When the file cannot be parsed, an edit matches nothing, or a moving body has no mass.
    """
    return edit(parse(robot.source.path(), robot.packages), robot)


def edit(tree: Tree, robot: UrdfRobot, massless: bool = False) -> Tree:
    """Apply the edits of a description to a tree, wherever it comes from; the tree is changed.

    Args:
        tree: Links and joints as they are written.
        robot: The edits.
        massless: Let bodies without mass pass.

    Raises:
        FlashNerdError: When an edit matches nothing, a name cannot be one in USD, or a moving body has no mass.
    """
    _rename(tree, robot)
    _lock(tree, robot)
    _merge(tree, robot)
    _rebase(tree, robot)
    for name in [*tree.links, *(joint.name for joint in tree.joints)]:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise FlashNerdError(
                f"'{name}' of robot '{robot.name}' cannot be a name in USD (letters, digits and _ only): give it "
                "another one in rename."
            )
    for link in tree.links.values():
        if link.inertia.mass <= 0.0 and not massless:
            raise FlashNerdError(
                f"body '{link.name}' of robot '{robot.name}' has no mass: merge it (take it out of keep), or correct "
                f"{Path(robot.source.file).name}."
            )
    return tree


def pick(patterns: dict[str, T], name: str) -> T | None:
    """Value of the first pattern that matches the whole name."""
    return next((value for pattern, value in patterns.items() if re.fullmatch(pattern, name)), None)


def _numbers(text: str | None, default: tuple[float, ...]) -> Array:
    return np.array([float(word) for word in text.split()] if text else default, dtype=np.float64)


def pose_of(xyz: Array, rpy: Array) -> Array:
    """Transform [4, 4] of a URDF origin: m, and rad about fixed x, y, z axes."""
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_euler("xyz", rpy).as_matrix()
    pose[:3, 3] = xyz
    return pose


def _origin(element: ElementTree.Element | None) -> Array:
    found = element.find("origin") if element is not None else None
    if found is None:
        return np.eye(4)
    return pose_of(_numbers(found.get("xyz"), (0, 0, 0)), _numbers(found.get("rpy"), (0, 0, 0)))


def parse(path: Path, packages: dict[str, str]) -> Tree:
    """Read a URDF as it is written.

    Args:
        path: The file.
        packages: ``package://NAME`` -> folder, relative to the file's own folder; without an entry the nearest folder
            above the file that is called NAME is taken.

    Raises:
        FlashNerdError: When it cannot be parsed, or its links and joints are no tree.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise FlashNerdError(f"{path} cannot be read as a URDF: {error}.") from None
    return parse_element(root, path, packages)


def parse_element(robot: ElementTree.Element, path: Path, packages: dict[str, str]) -> Tree:
    """:func:`parse` of the root element; ``path`` is where meshes are looked for from."""
    try:
        colors = {m.get("name", ""): _color(m) for m in robot.iterfind("material")}
        for material in robot.iterfind("link/visual/material"):  # a first use may define it for all others
            colors.setdefault(material.get("name", ""), _color(material))
        links = [_link(element, colors, path, packages) for element in robot.iterfind("link")]
        joints = [_joint(element) for element in robot.iterfind("joint")]
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise FlashNerdError(f"{path} cannot be read as a URDF: {error}.") from None
    children = {joint.child for joint in joints}
    unknown = sorted({name for joint in joints for name in (joint.parent, joint.child)} - {link.name for link in links})
    if unknown:
        raise FlashNerdError(f"{path} has joints at links that it does not define: {', '.join(unknown[:3])}.")
    if len(children) != len(joints):
        raise FlashNerdError(f"{path} hangs one link on two joints, but a tree is needed.")
    roots = [link.name for link in links if link.name not in children]
    if len(roots) != 1:
        raise FlashNerdError(f"{path} has {len(roots)} root links ({', '.join(roots[:3])}), but exactly 1 is needed.")
    return Tree(roots[0], {link.name: link for link in links}, joints)


def _color(material: ElementTree.Element | None) -> Color | None:
    """Linear RGB of a material: URDF says what a screen shows (sRGB), USD what reflects."""
    found = material.find("color") if material is not None else None
    if found is None:
        return None
    red, green, blue, *_ = _numbers(found.get("rgba"), (0.5, 0.5, 0.5, 1.0)).tolist()
    return (_linear(red), _linear(green), _linear(blue))


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _link(element: ElementTree.Element, colors: dict[str, Color | None], path: Path, packages: dict[str, str]) -> Link:
    link = Link(element.attrib["name"])
    inertial = element.find("inertial")
    if inertial is not None:
        mass = float(inertial.find("mass").attrib["value"])  # type: ignore[union-attr]
        given = inertial.find("inertia").attrib  # type: ignore[union-attr]
        xx, xy, xz, yy, yz, zz = (float(given.get(key, 0.0)) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
        own = Inertia(mass, np.zeros(3), np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        link.inertia = own.moved(_origin(inertial)) if mass > 0.0 else ZERO
    for tag, shapes in (("visual", link.visuals), ("collision", link.collisions)):
        for item in element.iterfind(tag):
            material = item.find("material")
            color = _color(material) or (colors.get(material.get("name", "")) if material is not None else None)
            shapes.append(replace(_shape(item, path, packages), color=color, link=link.name))
    return link


def _shape(item: ElementTree.Element, path: Path, packages: dict[str, str]) -> Shape:
    geometry = item.find("geometry")
    shape = geometry[0] if geometry is not None and len(geometry) else None
    if shape is None:
        raise ValueError("a shape has no geometry")
    pose, get = _origin(item), shape.attrib
    if shape.tag == "mesh":
        scale = tuple(_numbers(get.get("scale"), (1, 1, 1)).tolist())
        return Shape("mesh", scale, pose, mesh_file(get["filename"], path, packages))
    if shape.tag == "box":
        return Shape("box", tuple(_numbers(get["size"], ()).tolist()), pose)
    if shape.tag == "sphere":
        return Shape("sphere", (float(get["radius"]),), pose)
    if shape.tag in ("cylinder", "capsule"):
        return Shape(shape.tag, (float(get["radius"]), float(get["length"])), pose)
    raise ValueError(f"geometry <{shape.tag}> is not known")


def mesh_file(name: str, path: Path, packages: dict[str, str]) -> Path:
    """The file that a URDF at ``path`` calls ``name``; ``ValueError`` for a package that is not found."""
    if not name.startswith("package://"):
        return (path.parent / name.removeprefix("file://")).resolve()
    package, _, rest = name.removeprefix("package://").partition("/")
    if package in packages:
        return (path.parent / packages[package] / rest).resolve()
    for folder in path.parents:
        if folder.name == package:
            return folder / rest
    raise ValueError(f"no folder above the file is called '{package}', and packages does not name it")


def _joint(element: ElementTree.Element) -> UrdfJoint:
    kind = element.attrib["type"]
    if kind not in ("revolute", "continuous", "prismatic", "fixed"):
        raise ValueError(f"joint type '{kind}' is not supported")
    axis = _numbers(getattr(element.find("axis"), "attrib", {}).get("xyz"), (1, 0, 0))
    if not axis.any():
        if kind != "fixed":
            raise ValueError(f"the axis of joint '{element.get('name')}' is zero")
        axis = np.array([1.0, 0.0, 0.0])  # exporters write a zero axis for joints that have none
    limit = getattr(element.find("limit"), "attrib", {})
    free = kind in ("continuous", "fixed") or not limit
    mimic = element.find("mimic")
    return UrdfJoint(
        name=element.attrib["name"],
        kind=kind,
        parent=element.find("parent").attrib["link"],  # type: ignore[union-attr]
        child=element.find("child").attrib["link"],  # type: ignore[union-attr]
        pose=_origin(element),
        axis=axis / np.linalg.norm(axis),
        limits=(-np.inf, np.inf) if free else (float(limit.get("lower", 0.0)), float(limit.get("upper", 0.0))),
        effort=float(limit.get("effort", 0.0)) or np.inf,
        velocity=float(limit.get("velocity", 0.0)) or np.inf,
        mimic=None
        if mimic is None
        else (mimic.attrib["joint"], float(mimic.get("multiplier", 1.0)), float(mimic.get("offset", 0.0))),
    )


def renamed(name: str, patterns: dict[str, str]) -> str:
    """``name`` after the first pattern that matches the whole of it."""
    for pattern, replacement in patterns.items():
        if re.fullmatch(pattern, name):
            return re.sub(pattern, replacement, name, count=1)
    return name


def _rename(tree: Tree, robot: UrdfRobot) -> None:
    def new(name: str) -> str:
        return renamed(name, robot.rename)

    names = [*tree.links, *(joint.name for joint in tree.joints)]
    for pattern in robot.rename:
        if not any(re.fullmatch(pattern, name) for name in names):
            raise FlashNerdError(f"rename pattern '{pattern}' of robot '{robot.name}' matches no link or joint.")
    links = {}
    for link in tree.links.values():
        link.name = new(link.name)
        link.visuals = [replace(shape, link=new(shape.link)) for shape in link.visuals]
        link.collisions = [replace(shape, link=new(shape.link)) for shape in link.collisions]
        links[link.name] = link
    joints = [
        replace(
            joint,
            name=new(joint.name),
            parent=new(joint.parent),
            child=new(joint.child),
            mimic=joint.mimic and (new(joint.mimic[0]), *joint.mimic[1:]),
        )
        for joint in tree.joints
    ]
    if len(links) != len(tree.links) or len({joint.name for joint in joints}) != len(joints):
        raise FlashNerdError(f"the rename patterns of robot '{robot.name}' give two links or joints one name.")
    tree.root, tree.links, tree.joints = new(tree.root), links, joints


def _lock(tree: Tree, robot: UrdfRobot) -> None:
    for pattern in robot.lock:
        if not any(re.fullmatch(pattern, joint.name) for joint in tree.joints):
            raise FlashNerdError(
                f"lock pattern '{pattern}' of robot '{robot.name}' matches no joint: "
                f"{nearest(pattern, [joint.name for joint in tree.joints])}"
            )
    locked = dict.fromkeys(robot.lock, "fixed")
    tree.joints = [replace(joint, kind=pick(locked, joint.name) or joint.kind) for joint in tree.joints]


def _merge(tree: Tree, robot: UrdfRobot) -> None:
    """Melt links that hang on fixed joints into their parents and order the rest breadth-first."""
    for pattern in robot.keep:
        if not any(re.fullmatch(pattern, name) for name in tree.links):
            raise FlashNerdError(
                f"keep pattern '{pattern}' of robot '{robot.name}' matches no link: {nearest(pattern, tree.links)}"
            )
    for pattern in robot.drop_collision:
        if not any(re.fullmatch(pattern, link.name) and link.collisions for link in tree.links.values()):
            raise FlashNerdError(
                f"drop_collision pattern '{pattern}' of robot '{robot.name}' matches no link with collision geometry: "
                f"{nearest(pattern, [name for name, link in tree.links.items() if link.collisions])}"
            )
    bare = dict.fromkeys(robot.drop_collision, True)
    kept = dict.fromkeys(robot.keep, True)
    below: dict[str, list[UrdfJoint]] = {}
    for joint in tree.joints:
        below.setdefault(joint.parent, []).append(joint)
    links: dict[str, Link] = {}
    joints: list[UrdfJoint] = []

    def absorb(body: Link, name: str, pose: Array) -> list[UrdfJoint]:
        """Add link ``name`` at ``pose`` and what is fixed to it to ``body``; returns the joints that remain."""
        link = tree.links[name]
        body.inertia = combine([body.inertia, link.inertia.moved(pose)])
        body.visuals += [replace(shape, pose=pose @ shape.pose) for shape in link.visuals]
        if not pick(bare, name):
            body.collisions += [replace(shape, pose=pose @ shape.pose) for shape in link.collisions]
        remaining = []
        for joint in below.get(name, []):
            if joint.kind == "fixed" and not pick(kept, joint.child):
                remaining += absorb(body, joint.child, pose @ joint.pose)
            else:
                remaining.append(replace(joint, parent=body.name, pose=pose @ joint.pose))
        return remaining

    level = [tree.root]
    while level:
        found: list[UrdfJoint] = []
        for name in level:
            body = links[name] = Link(name)
            found += absorb(body, name, np.eye(4))
        joints += found
        level = [joint.child for joint in found]
    tree.links, tree.joints = links, joints


def _rebase(tree: Tree, robot: UrdfRobot) -> None:
    if robot.base is None:
        return
    back = np.linalg.inv(pose_of(np.array(robot.base.xyz), np.array(robot.base.rpy)))
    root = tree.links.pop(tree.root)
    root.name, root.inertia = robot.base.name, root.inertia.moved(back)
    root.visuals = [replace(shape, pose=back @ shape.pose) for shape in root.visuals]
    root.collisions = [replace(shape, pose=back @ shape.pose) for shape in root.collisions]
    tree.joints = [
        replace(joint, parent=root.name, pose=back @ joint.pose) if joint.parent == tree.root else joint
        for joint in tree.joints
    ]
    tree.links = {root.name: root, **tree.links}
    tree.root = root.name
