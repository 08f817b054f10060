"""What the command decides before it can simulate: base, feet, what is merged, and which shapes collide."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.assets import mesh
from flashnerd_ext.robots.assets.description import CollisionPolicy, Drive, UrdfRobot
from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.assets.urdf import Link, Shape, Tree
from flashnerd_ext.robots.assets.urdf_robot import points_of
from flashnerd_ext.robots.intake.check import hull_points
from flashnerd_ext.robots.intake.findings import Finding, note, warning
from flashnerd_ext.robots.intake.options import Options
from flashnerd_ext.robots.intake.source import Intake, local_file

FOOT = re.compile(r"foot|feet|toe(?!r)|sole|paw|hoof", re.IGNORECASE)
"""Words for feet in the names of links."""
ROUND = 1.7
"""Longest edge of a foot's mesh over its shortest, up to which it counts as a ball."""
SOLE_FROM = 5
"""Joints of a leg that can keep its sole level."""
LONG = 2.0
"""Longest edge of a leg's mesh over the middle one, from which on it counts as a rod."""
CORNERS = 32
"""Corners of a collision hull; what touches has few points to touch with."""


SHAKE = 5e-4
"""How far a hull's corners are moved [m]."""
MESHES = ("mesh", "points")
GRID = 4
"""Digits after the point of a hull's corners [m]."""


@dataclass
class Choices:
    """Decisions, and the description that the asset is written by.

    Attributes:
        fixed_base: Whether the world holds the base.
        feet: Links that are meant to touch the ground.
        robot: Edits of the tree, and policies of the converter.
        findings: What was guessed.
    """

    fixed_base: bool
    feet: tuple[str, ...]
    robot: UrdfRobot
    findings: list[Finding] = field(default_factory=list)


def choose(intake: Intake, options: Options) -> Choices:
    """Decide what the file does not say.

    Raises:
        FlashNerdError: When an option names a link or a joint that is not there.
    """
    tree = intake.tree
    assert tree is not None
    found: list[Finding] = []
    rename = _rename(tree, found)
    # From here on, names are those of the asset.
    lock = _named(options.lock, [rename.get(joint.name, joint.name) for joint in tree.joints], "--lock")
    for joint in tree.joints:
        if joint.mimic is not None and joint.kind != "fixed":
            text = f"it follows {joint.mimic[0]}, and joints that follow are not supported: it is locked at 0"
            found.append(warning(joint.name, text, f"give --lock {joint.mimic[0]} too if that leaves half a gripper"))
            lock.append(rename.get(joint.name, joint.name))
    moving = [j for j in tree.joints if j.kind != "fixed" and rename.get(j.name, j.name) not in lock]
    clusters = _clusters(tree, {joint.child for joint in moving})
    feet, by_name = _feet(tree, clusters, [joint.parent for joint in moving])
    fixed = _fixed_base(intake, options, len(feet) if by_name else 0, found)
    if options.feet:
        feet = _named(options.feet, [rename.get(name, name) for name in tree.links], "--feet")
    else:
        feet = [rename.get(name, name) for name in feet] if not fixed else []
        if feet:
            how = "by their names" if by_name else "as the lowest ends of chains"
            found.append(note("feet", f"{', '.join(feet)} are taken for feet, {how}", "give --feet for others"))
    if not fixed and not feet:
        raise FlashNerdError("no link looks like a foot: give --feet LINK [LINK ...], or --base fixed.")
    held = {rename.get(joint.child, joint.child) for joint in tree.joints if joint not in moving}
    robot = UrdfRobot(
        name=options.name,
        source=local_file(intake.path),
        outputs=(f"{options.name}.usda",),
        root=options.name,
        joints=(),
        rename={re.escape(old): new for old, new in rename.items()},
        lock=tuple(re.escape(name) for name in lock),
        keep=tuple(re.escape(name) for name in feet if name in held),
        fixed_base=fixed,
        hull_corners=CORNERS,
        visual=options.visual,
        drives={re.escape(rename.get(name, name)): drive for name, drive in intake.drives.items()} | {".*": Drive()},
        inertia_lift=1e-3,
    )
    return Choices(fixed, tuple(feet), robot, found)


def collision_policies(
    tree: Tree, feet: tuple[str, ...], options: Options
) -> tuple[dict[str, CollisionPolicy], list[Finding]]:
    """Which simple shape stands for a body's meshes, by its form; what the user says comes first. Hulls are made here.

    Args:
        tree: The edited tree.
        feet: Its feet.
        options: Policies of the user's.

    Raises:
        FlashNerdError: When an option's pattern matches no link.
    """
    policies: dict[str, CollisionPolicy] = dict(options.collision)
    found: list[Finding] = []
    for pattern in policies:
        _named([pattern], list(tree.links), "--collision")
    for name, link in tree.links.items():
        if any(re.fullmatch(pattern, name) for pattern in options.collision):
            continue
        meshes = [shape for shape in link.collisions if shape.kind in MESHES]
        if not meshes:
            continue
        # A trunk may be long without being a rod, and beside simple shapes a mesh is a part of something.
        alone = name != tree.root and len(meshes) == len(link.collisions)
        policy = _policy(hull_points(link), name in feet, _joints_above(tree, name)) if alone else "shape"
        if policy != "shape":
            policies[re.escape(name)] = policy
        else:
            link.collisions = [_hull(shape) if shape.kind in MESHES else shape for shape in link.collisions]
        text = {"shape": f"hulls of at most {CORNERS} corners"}.get(policy, f"a {policy}")
        found.append(note(name, f"its meshes collide as {text}", "give --collision LINK=POLICY for another shape"))
    return policies, found


def _hull(shape: Shape) -> Shape:
    """A mesh as the corners of its hull: few, on a grid, and no four of them in one plane.

    MuJoCo merges facets that lie in one plane. Whether it does hung on digits of their corners that its text form does
    not keep, so that the exported model could not be read back; a shake of half a millimetre decides it.
    """
    corners, _ = mesh.hull_of(points_of(shape), CORNERS)
    corners = corners + np.random.default_rng(0).uniform(-SHAKE, SHAKE, corners.shape)
    return replace(shape, kind="points", size=tuple(corners.round(GRID).ravel().tolist()), pose=np.eye(4), file=None)


def _joints_above(tree: Tree, link: str) -> int:
    """How many movable joints lie between the root and a link."""
    parents, count = {joint.child: joint for joint in tree.joints}, 0
    while link in parents:
        count += parents[link].kind != "fixed"
        link = parents[link].parent
    return count


def _policy(points: Array, foot: bool, joints: int) -> CollisionPolicy:
    corners, _ = mesh.hull_of(points)
    # Edges along the hull's own axes, so that a slanted rod is a rod.
    axes = np.linalg.svd(corners - corners.mean(0), full_matrices=False)[2]
    edges = np.sort(np.ptp(corners @ axes.T, axis=0))
    if foot:
        # A leg without an ankle cannot keep a sole level: its foot rolls, whatever its mesh looks like.
        ankle = joints >= SOLE_FROM and edges[2] > ROUND * edges[0]
        return "box" if ankle else "sphere"
    return "capsule" if edges[2] >= LONG * edges[1] else "shape"


def _rename(tree: Tree, found: list[Finding]) -> dict[str, str]:
    """Names that USD does not take, and what they become."""
    renamed: dict[str, str] = {}
    taken = {*tree.links, *(joint.name for joint in tree.joints)}
    for name in [*tree.links, *(joint.name for joint in tree.joints if joint.kind != "fixed")]:
        if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            continue
        new = re.sub(r"\W", "_", name, flags=re.ASCII)
        new = new if re.match(r"[A-Za-z_]", new) else f"_{new}"
        while new in taken:
            new += "_"
        taken.add(new)
        renamed[name] = new
        found.append(note(name, f"USD takes letters, digits and _ only: it becomes {new}"))
    return renamed


def _named(wanted: tuple[str, ...] | list[str], known: list[str], option: str) -> list[str]:
    """Names that the user's expressions match, in the file's order.

    Raises:
        FlashNerdError: When one matches none.
    """
    found: list[str] = []
    for pattern in wanted:
        fitting = [name for name in known if re.fullmatch(pattern, name)]
        if not fitting:
            raise FlashNerdError(f"{option} is '{pattern}', which matches nothing: {nearest(pattern, known)}")
        found += [name for name in fitting if name not in found]
    return found


def _clusters(tree: Tree, moved: set[str]) -> dict[str, list[str]]:
    """Moved link -> links that move as one with it, itself first."""
    body, clusters = {}, {name: [name] for name in tree.links if name in moved}
    level = [tree.root]
    body[tree.root] = tree.root
    clusters[tree.root] = [tree.root]
    while level:
        below = [joint for joint in tree.joints if joint.parent in level]
        for joint in below:
            body[joint.child] = joint.child if joint.child in moved else body[joint.parent]
            if joint.child not in moved:
                clusters[body[joint.child]].append(joint.child)
        level = [joint.child for joint in below]
    return clusters


def _feet(tree: Tree, clusters: dict[str, list[str]], parents: list[str]) -> tuple[list[str], bool]:
    """Links at the ends of chains that are called feet; else those whose ends are the lowest. Whether by name."""
    inner = {body for body, links in clusters.items() for link in links if link in parents}
    ends = [body for body in clusters if body not in inner and body != tree.root]
    named = {body: [name for name in clusters[body] if FOOT.search(name)] for body in ends}
    if any(named.values()):
        return [_solid(tree, body, named[body]) for body in ends if named[body]], True
    poses, lowest = _poses(tree), {}
    for body in ends:
        heights = [_lowest(tree.links[name], poses[name]) for name in clusters[body]]
        lowest[body] = min((height for height in heights if height is not None), default=np.inf)
    everything = [_lowest(link, poses[name]) for name, link in tree.links.items()]
    known = [height for height in everything if height is not None]
    if not known or not lowest:
        return [], False
    low, high = min(known), max(known)
    return [body for body in ends if lowest[body] <= low + 0.1 * (high - low)], False


def _solid(tree: Tree, body: str, names: list[str]) -> str:
    """The named link that can be a body of its own (mass and shape), else the body that moves it."""
    for name in names:
        link = tree.links[name]
        if link.inertia.mass > 0.0 and link.collisions:
            return name
    return body


def _poses(tree: Tree) -> dict[str, Array]:
    poses, level = {tree.root: np.eye(4)}, [tree.root]
    while level:
        below = [joint for joint in tree.joints if joint.parent in level]
        poses |= {joint.child: poses[joint.parent] @ joint.pose for joint in below}
        level = [joint.child for joint in below]
    return poses


def _lowest(link: Link, pose: Array) -> float | None:
    points = hull_points(link)
    return float((points @ pose[2, :3] + pose[2, 3]).min()) if len(points) else None


def _fixed_base(intake: Intake, options: Options, named_feet: int, found: list[Finding]) -> bool:
    if options.base in ("fixed", "floating"):
        return options.base == "fixed"
    if intake.fixed_base is not None:
        text = "the world holds the base" if intake.fixed_base else "the base floats"
        found.append(note("base", f"{text}, as the file says", "give --base fixed|floating for the other"))
        return intake.fixed_base
    fixed = named_feet < 2
    text = "fewer than two links are called feet: the base is fixed" if fixed else "it has feet: the base floats"
    found.append(note("base", text, "the file does not say; give --base fixed|floating"))
    return fixed
