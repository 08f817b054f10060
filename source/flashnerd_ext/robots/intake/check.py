"""Check links, joints and shapes of a robot: what engines would refuse, mend in silence, or take at its word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import inertia, mesh
from flashnerd_ext.robots.assets.inertia import Array, Inertia
from flashnerd_ext.robots.assets.urdf import Link, Tree
from flashnerd_ext.robots.assets.urdf_robot import points_of
from flashnerd_ext.robots.intake.findings import Finding, error, note, warning

LIFT = 1e-3
"""Relative rise of a moment of inertia that is written without asking, so that A + B >= C holds with a margin."""
DENSITY = (50.0, 20_000.0)
"""Densities of a body's hull that make sense, from hollow plastic to dense metal [kg/m^3]."""
SMALL = 1e-9
"""Hulls below this are no bodies [m^3]."""
MEND = "correct it, or give --repair LINK for the inertia of the box around its shapes"
TURNS = 4.0 * np.pi
"""A revolute joint with a wider range than this has no limits worth the name [rad]."""
ABSURD_EFFORT = 30.0
"""An effort limit of so many times what carries the robot limits nothing."""


def check_inertia(tree: Tree, repair: Sequence[str] = (), masses: Mapping[str, float] | None = None) -> list[Finding]:
    """Mass and inertia of every link as it is written; those that may be mended are, in place.

    Args:
        tree: Links as they are written, nothing merged yet.
        repair: Links that get the inertia of the box around their shapes; ``*`` is all whose own cannot be one.
        masses: Link -> mass that it is given, with the inertia of the box around its shapes [kg].

    Raises:
        FlashNerdError: For a link in ``masses`` or ``repair`` that is not there.
    """
    for name in (*(masses or {}), *repair):
        if name not in tree.links and name != "*":
            raise FlashNerdError(f"the link '{name}' of --mass or --repair is not in the file.")
    found = []
    welded = {name for joint in tree.joints if joint.kind == "fixed" for name in (joint.parent, joint.child)}
    for name, link in tree.links.items():
        if masses and name in masses:
            link.inertia = box_inertia(link, masses[name])
            found.append(
                note(name, f"it gets a mass of {masses[name]:g} kg and the inertia of the box around its shapes")
            )
        if link.inertia.mass <= 0.0:
            continue
        wrong = wrong_inertia(link.inertia)
        if name in repair or (wrong and "*" in repair):
            link.inertia = box_inertia(link, link.inertia.mass)
            found.append(note(name, "it gets the inertia of the box around its shapes, at its own mass", wrong))
        elif wrong and name in welded:
            found.append(warning(name, wrong, "it is added to the body that it is fixed to; correct it"))
        elif wrong:
            found.append(error(name, wrong, MEND))
    return found


def wrong_inertia(body: Inertia) -> str:
    """Why no rigid body has this inertia; empty where one may have."""
    if not np.isfinite(body.tensor).all() or not np.isfinite(body.com).all():
        return "its inertia is not finite"
    moments = np.linalg.eigvalsh(body.tensor)
    shown = ", ".join(f"{value:.3g}" for value in moments)
    if moments[0] <= 0.0:
        return f"its inertia is not positive definite (principal moments {shown} kg m^2)"
    try:
        inertia.lifted(body.tensor, LIFT)
    except ValueError:
        return f"its principal moments {shown} kg m^2 violate A + B >= C"
    return ""


def box_inertia(link: Link, mass: float) -> Inertia:
    """Inertia of a box of ``mass`` around the link's shapes; 2 cm wide at least, and alone where there are none."""
    points = hull_points(link)
    low, high = (points.min(0), points.max(0)) if len(points) else (np.zeros(3), np.zeros(3))
    solid = inertia.box(np.maximum(high - low, 0.02)).scaled(mass)
    return replace(solid, com=(low + high) / 2.0)


def hull_points(link: Link) -> Array:
    """Points [V, 3] of a link's collision shapes, else of its visual ones, in its frame; none where it has neither."""
    shapes = link.collisions or link.visuals
    return np.concatenate([points_of(shape) for shape in shapes]) if shapes else np.zeros((0, 3))


def check_bodies(tree: Tree, fixed_base: bool) -> list[Finding]:
    """Masses and inertias of merged bodies, and against the shapes that they have."""
    found = []
    moving = {joint.child for joint in tree.joints if joint.kind != "fixed"}
    for name, link in tree.links.items():
        mass = link.inertia.mass
        if mass <= 0.0:
            if name in moving or not fixed_base:
                mend = "write an inertial, give --mass LINK=KG, or lock the joint that moves it with --lock"
                found.append(error(name, "a moving link has no mass", mend))
            elif name == tree.root:
                link.inertia = box_inertia(link, 1.0)
                found.append(note(name, "the base has no mass: it gets 1 kg, which nothing depends on"))
            continue
        if wrong := wrong_inertia(link.inertia):
            found.append(error(name, wrong, MEND))
            continue
        points = hull_points(link)
        if len(points) < 4:
            continue
        found += _density(name, link, points)
    return found


def _density(name: str, link: Link, points: Array) -> list[Finding]:
    from scipy.spatial import ConvexHull, QhullError

    found, mass = [], link.inertia.mass
    try:
        volume = float(ConvexHull(points).volume)
    except QhullError:
        volume = 0.0
    if volume > SMALL and not DENSITY[0] <= mass / volume <= DENSITY[1]:
        text = f"{mass:.3g} kg in a hull of {volume * 1e3:.3g} l is a density of {mass / volume:.3g} kg/m^3"
        found.append(warning(name, text, "check mass and shapes (units?)"))
    low, high = points.min(0), points.max(0)
    reach = float(np.linalg.norm(high - low)) / 2.0
    gyration = float(np.sqrt(np.linalg.eigvalsh(link.inertia.tensor)[-1] / mass))
    if gyration > 1.2 * reach + 1e-3:
        text = f"its inertia needs its mass {gyration:.2g} m from the centre, but its shapes reach {reach:.2g} m"
        found.append(warning(name, text, "check the inertia, or give --repair LINK"))
    outside = np.maximum(np.maximum(low - link.inertia.com, link.inertia.com - high), 0.0).max()
    if outside > 0.5 * reach + 0.01:
        found.append(
            warning(name, f"its centre of mass lies {outside:.2g} m outside of its shapes", "check the origin")
        )
    return found


def check_joints(tree: Tree) -> list[Finding]:
    """Limits of every movable joint, as far as the file alone tells."""
    found = []
    for joint in tree.joints:
        if joint.kind == "fixed":
            continue
        low, high = joint.limits
        unit = "m" if joint.kind == "prismatic" else "rad"
        if joint.kind == "continuous":
            found.append(note(joint.name, "it turns without limits", "data have it within a turn: see robot.toml"))
        elif low > high:
            found.append(error(joint.name, f"its limits are inverted ({low:g} to {high:g} {unit})", "exchange them"))
        elif low == high:
            mend = "correct them, or give --lock JOINT"
            found.append(error(joint.name, f"its limits leave no range ({low:g} {unit})", mend))
        elif not np.isfinite([low, high]).all():
            found.append(error(joint.name, f"a limit is not finite ({low:g} to {high:g} {unit})", "write both limits"))
        elif joint.kind == "revolute" and high - low > TURNS + 0.1:
            text = f"its range of {high - low:.3g} rad is several turns"
            found.append(warning(joint.name, text, "give --range JOINT=LOW,HIGH for what it really has"))
        if not np.isfinite(joint.velocity):
            found.append(note(joint.name, "it has no velocity limit", "nothing here needs one"))
    return found


def check_shapes(tree: Tree, feet: Sequence[str], floating: bool) -> list[Finding]:
    """Collision shapes: those of feet are needed, meshes become hulls."""
    found = []
    if not any(link.collisions for link in tree.links.values()):
        if floating:
            found.append(error("file", "no link has a collision shape, so that nothing stands", "write <collision>"))
        else:
            found.append(note("file", "no link has a collision shape", "the arm touches nothing"))
        return found
    for name in feet:
        if name in tree.links and not tree.links[name].collisions:
            found.append(error(name, "a foot has no collision shape", "write <collision>, or give other --feet"))
    for name, link in tree.links.items():
        files = [shape for shape in link.collisions if shape.kind in ("mesh", "points")]
        if files:
            found.append(note(name, "a mesh collides", "a convex shape takes its place, as said below"))
    return found


def check_meshes(tree: Tree) -> list[Finding]:
    """Mesh files that cannot be read; everything that follows looks into them."""
    found = []
    for name, link in tree.links.items():
        for file in dict.fromkeys(shape.file for shape in (*link.collisions, *link.visuals)):
            try:
                if file is not None:
                    mesh.load_mesh(file)
            except FlashNerdError as failed:
                found.append(error(name, str(failed).rstrip("."), "correct the file, or leave the shape out"))
    return found


def check_efforts(
    joints: Mapping[str, tuple[float, float]], given: Sequence[str], effort_of: Mapping[str, float]
) -> tuple[dict[str, float], list[Finding]]:
    """Effort limits against what carries the robot; those that say nothing are guessed.

    Args:
        joints: Joint -> limit that the file has, infinite where it has none, and what carries the robot [N m or N].
        given: Joints whose limit the user gave.
        effort_of: Joint -> what is guessed where the limit says nothing.

    Returns:
        The limits to use, and what was found.
    """
    limits, found = {}, []
    for name, (limit, load) in joints.items():
        limits[name] = limit
        if name in given:
            continue
        if not np.isfinite(limit):
            limits[name] = effort_of[name]
            text = f"it has no effort limit: {limits[name]:.3g} is guessed"
            found.append(warning(name, text, "give --effort JOINT=LIMIT"))
        elif load > 0.0 and limit > ABSURD_EFFORT * load:
            limits[name] = effort_of[name]
            text = (
                f"its effort limit of {limit:g} is {limit / load:.0f} times what carries the robot: "
                f"{limits[name]:.3g} is guessed in its place"
            )
            found.append(warning(name, text, "give --effort JOINT=LIMIT"))
        elif limit < load / 10.0:
            text = f"its effort limit of {limit:g} is a tenth or less of what carries the robot ({load:.2g})"
            found.append(warning(name, text, "check it (units?), or give --effort JOINT=LIMIT"))
    return limits, found
