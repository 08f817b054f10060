"""Settings that must stand before torch or a simulator is imported, and the folder of the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Two threads on a busy machine were seen to make small tensor work up to 100 times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout, absolute."""
    return Path(__file__).resolve().parent.parent


LINK = """<link name="{name}"><inertial><origin xyz="0 0 {z}"/><mass value="{mass}"/>
  <inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 {z}"/><geometry>{shape}</geometry></collision></link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>
  <axis xyz="{axis}"/>{limit}</joint>"""


def link_text(name: str, mass: float, z: float, shape: str, moments: tuple[float, float, float]) -> str:
    """A link of a URDF with one shape at ``z`` [m] and its principal moments [kg m^2]."""
    ixx, iyy, izz = moments
    return LINK.format(name=name, mass=mass, z=z, shape=shape, ixx=ixx, iyy=iyy, izz=izz)


def joint_text(name: str, parent: str, child: str, xyz: str, axis: str, limit: str, kind: str = "revolute") -> str:
    """A joint of a URDF."""
    return JOINT.format(name=name, kind=kind, parent=parent, child=child, xyz=xyz, axis=axis, limit=limit)


LIMIT = '<limit lower="-2" upper="2" effort="20" velocity="20"/>'


def dog_text() -> str:
    """A URDF of nobody's: a trunk on four legs of two joints, with balls for feet on fixed joints."""
    parts = [link_text("trunk", 6.0, 0.0, '<box size="0.4 0.2 0.1"/>', (0.03, 0.09, 0.1))]
    for leg in ("FL", "FR", "RL", "RR"):
        x, y = (0.18 if leg[0] == "F" else -0.18), (0.12 if leg[1] == "L" else -0.12)
        rod = '<capsule radius="0.02" length="0.14"/>'
        parts += [
            link_text(f"{leg}_thigh", 0.6, -0.1, rod, (0.003, 0.003, 0.0002)),
            link_text(f"{leg}_calf", 0.3, -0.1, rod, (0.0015, 0.0015, 0.0001)),
            link_text(f"{leg}_foot", 0.05, 0.0, '<sphere radius="0.025"/>', (2e-5, 2e-5, 2e-5)),
            joint_text(f"{leg}_hip", "trunk", f"{leg}_thigh", f"{x} {y} 0", "0 1 0", LIMIT),
            joint_text(f"{leg}_knee", f"{leg}_thigh", f"{leg}_calf", "0 0 -0.2", "0 1 0", LIMIT),
            joint_text(f"{leg}_ankle", f"{leg}_calf", f"{leg}_foot", "0 0 -0.2", "0 1 0", "", "fixed"),
        ]
    return f'<robot name="dog">{"".join(parts)}</robot>'


def arm_text() -> str:
    """A URDF of nobody's: three links on a fixed base."""
    rod = '<cylinder radius="0.03" length="0.3"/>'
    parts = [link_text("base", 3.0, 0.0, '<box size="0.2 0.2 0.1"/>', (0.02, 0.02, 0.03))]
    parent, height = "base", 0.05
    for number, axis in ((1, "0 0 1"), (2, "0 1 0"), (3, "0 1 0")):
        parts += [
            link_text(f"link{number}", 1.0, 0.15, rod, (0.01, 0.01, 0.001)),
            joint_text(f"joint{number}", parent, f"link{number}", f"0 0 {height}", axis, LIMIT),
        ]
        parent, height = f"link{number}", 0.3
    return f'<robot name="arm">{"".join(parts)}</robot>'


@pytest.fixture(scope="session")
def dog() -> str:
    """:func:`dog_text`."""
    return dog_text()


@pytest.fixture(scope="session")
def arm() -> str:
    """:func:`arm_text`."""
    return arm_text()
