"""Whether a robot is its own mirror image, left and right exchanged: measured, not taken from names alone."""

from __future__ import annotations

import numpy as np

from flashnerd_ext.robots.description import Mirror
from flashnerd_ext.robots.intake.probe import Probe

SIDES = (
    ("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"), ("L_", "R_"), ("_L", "_R"), ("l_", "r_"), ("_l", "_r"),
    ("L", "R"), ("l", "r"),
)  # fmt: skip
"""What says left and right in names; the first pair that makes every name another known one is taken."""
POSITION, MASS, ANGLE = 2e-3, 0.02, 1e-3
"""How far an image may be off [m, share, 1 - cosine]."""


def find_mirror(probe: Probe) -> Mirror | None:
    """The robot's symmetry, if positions, axes, masses and limits at the zero pose agree with it; else ``None``."""
    probe.place(np.zeros(len(probe.joints)))
    for sides in SIDES:
        mirror = Mirror(sides, ())
        names = [*probe.joints, *probe.bodies]
        images = [mirror.image(name) for name in names]
        known = set(names)
        if images != names and all(
            image in known and mirror.image(image) == name for name, image in zip(names, images, strict=True)
        ):
            turned = _turned(probe, mirror)
            if turned is not None:
                return Mirror(sides, turned)
    return None


def _turned(probe: Probe, mirror: Mirror) -> tuple[str, ...] | None:
    """Joints whose angle changes its sign in the mirror; ``None`` where the robot is no image of itself."""
    flip = np.array([1.0, -1.0, 1.0])
    for link, body in probe.bodies.items():
        other = probe.bodies[mirror.image(link)]
        mass, image = float(probe.model.body_mass[body]), float(probe.model.body_mass[other])
        com, mirrored = probe.data.xipos[body], probe.data.xipos[other]
        if abs(mass - image) > MASS * max(mass, image) or np.abs(com * flip - mirrored).max() > POSITION:
            return None
    turned = []
    for index, joint in enumerate(probe.joints):
        other = mirror.image(joint)
        slides = probe.robot.layout.joint_kinds[index] == "prismatic"
        # A rotation's axis is a pseudo-vector: in the mirror it keeps its part along y and changes the rest.
        image = probe.axis(joint) * (flip if slides else -flip)
        along = float(image @ probe.axis(other))
        if abs(abs(along) - 1.0) > ANGLE or np.abs(probe.anchor(joint) * flip - probe.anchor(other)).max() > POSITION:
            return None
        low, high = probe.robot.position_limit[joint]
        wanted = (low, high) if along > 0.0 else (-high, -low)
        if not np.allclose(wanted, probe.robot.position_limit[other], atol=1e-2):
            return None
        if along < 0.0:
            turned.append(joint)
    return tuple(turned)
