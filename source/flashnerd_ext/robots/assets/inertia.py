"""Mass, centre and inertia of simple solids and their sums (kg, m), in one frame at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Inertia:
    """Rigid-body inertia in some frame.

    Args:
        mass: kg.
        com: Centre of mass [3], m.
        tensor: Inertia about the centre of mass [3, 3], kg m^2, axes of the same frame.
    """

    mass: float
    com: Array
    tensor: Array

    def moved(self, transform: Array) -> Inertia:
        """The same body seen from the frame that ``transform`` [4, 4] (rotation and translation) leads to."""
        rotation = transform[:3, :3]
        return Inertia(self.mass, rotation @ self.com + transform[:3, 3], rotation @ self.tensor @ rotation.T)

    def scaled(self, mass: float) -> Inertia:
        """The same distribution with another total mass."""
        return Inertia(mass, self.com, self.tensor * (mass / self.mass))

    def about(self, point: Array) -> Array:
        """Inertia tensor [3, 3] about ``point`` [3]."""
        return self.tensor + self.mass * _parallel(self.com - point)


ZERO = Inertia(0.0, np.zeros(3), np.zeros((3, 3)))


def _parallel(offset: Array) -> Array:
    return float(offset @ offset) * np.eye(3) - np.outer(offset, offset)


def combine(parts: list[Inertia]) -> Inertia:
    """Sum of bodies that move as one."""
    mass = sum(part.mass for part in parts)
    if mass <= 0.0:
        return ZERO
    com = sum((part.mass * part.com for part in parts), np.zeros(3)) / mass
    return Inertia(mass, com, sum((part.about(com) for part in parts), np.zeros((3, 3))))


def box(size: Array, density: float = 1000.0) -> Inertia:
    """Solid box of full edge lengths ``size`` [3], centred."""
    mass = density * float(np.prod(size))
    x, y, z = np.asarray(size, dtype=np.float64) ** 2
    return Inertia(mass, np.zeros(3), mass / 12.0 * np.diag([y + z, x + z, x + y]))


def sphere(radius: float, density: float = 1000.0) -> Inertia:
    """Solid sphere, centred."""
    mass = density * 4.0 / 3.0 * np.pi * radius**3
    return Inertia(mass, np.zeros(3), 0.4 * mass * radius**2 * np.eye(3))


def cylinder(radius: float, length: float, density: float = 1000.0) -> Inertia:
    """Solid cylinder along z, centred."""
    mass = density * np.pi * radius**2 * length
    across = mass * (3.0 * radius**2 + length**2) / 12.0
    return Inertia(mass, np.zeros(3), np.diag([across, across, 0.5 * mass * radius**2]))


def capsule(radius: float, length: float, density: float = 1000.0) -> Inertia:
    """Solid capsule along z, centred; ``length`` is that of the cylinder between the caps."""
    rod = cylinder(radius, length, density)
    half = density * 2.0 / 3.0 * np.pi * radius**3
    centre = 3.0 / 8.0 * radius
    own = half * radius**2 * np.array([83.0 / 320.0, 83.0 / 320.0, 0.4])
    caps = [Inertia(half, np.array([0.0, 0.0, side * (length / 2.0 + centre)]), np.diag(own)) for side in (-1.0, 1.0)]
    return combine([rod, *caps])


def principal(tensor: Array) -> tuple[Array, Array]:
    """Principal moments [3] and a proper rotation [3, 3] whose columns are the principal axes.

    The tensor's own axes are kept where it is already diagonal, and signs and order are fixed otherwise, so that
    equal tensors give equal bytes.
    """
    tensor = 0.5 * (tensor + tensor.T)
    diagonal = np.diag(tensor)
    if np.abs(tensor - np.diag(diagonal)).max() <= 1e-9 * max(np.abs(diagonal).max(), 1e-300):
        return diagonal.copy(), np.eye(3)
    moments, axes = np.linalg.eigh(tensor)
    for column in range(3):
        if axes[np.abs(axes[:, column]).argmax(), column] < 0.0:
            axes[:, column] *= -1.0
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] *= -1.0
    return moments, axes


def lifted(tensor: Array, limit: float) -> tuple[Array, float]:
    """A tensor whose moments obey the triangle inequality with a margin, and the largest relative rise.

    Engines refuse or silently "balance" moments with ``A + B <= C``; here the two smaller ones are raised just
    enough, and the caller refuses more than ``limit``.

    Raises:
        ValueError: When a moment is not positive or more than ``limit`` would be needed.
    """
    moments, axes = principal(tensor)
    if moments.min() <= 0.0:
        raise ValueError(f"moments of inertia {moments.tolist()} are not all positive")
    order = moments.argsort()
    missing = moments[order[2]] * (1.0 + 1e-6) - moments[order[0]] - moments[order[1]]
    if missing <= 0.0:
        return tensor, 0.0
    raised = moments.copy()
    raised[order[:2]] *= 1.0 + missing / (moments[order[0]] + moments[order[1]])
    rise = float((raised / moments - 1.0).max())
    if rise > limit:
        raise ValueError(f"moments of inertia {moments.tolist()} violate A + B >= C by {rise:.2%}")
    return axes @ np.diag(raised) @ axes.T, rise
