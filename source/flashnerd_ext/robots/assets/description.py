"""What one description file says: where a robot comes from and how it becomes the asset that stock configs expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

from flashnerd_ext.errors import FlashNerdError

Color = tuple[float, float, float]
CollisionPolicy = Literal["shape", "hull", "box", "sphere", "capsule", "none"]
"""``shape`` keeps primitives and turns meshes into their hull; ``hull``, ``box`` (bounding), ``sphere`` and ``capsule``
(least squares) replace all shapes of a body by one; ``none`` drops them."""


@dataclass(frozen=True)
class Source:
    """A file inside an installed distribution.

    Args:
        distribution: Name on PyPI, for example ``newton``.
        file: Path as the distribution's record lists it (relative to site-packages).
        licence: SPDX expression, or the words of the file's own README.
    """

    distribution: str
    file: str
    licence: str

    def path(self) -> Path:
        """The file on this machine.

        Raises:
            FlashNerdError: When the distribution or the file is missing, with the command that installs it.
        """
        try:
            found = Path(str(metadata.distribution(self.distribution).locate_file(self.file))).resolve()
        except metadata.PackageNotFoundError:
            raise FlashNerdError(
                f"package '{self.distribution}' is not installed, but {Path(self.file).name} comes from it: "
                f"type pip install {self.distribution}."
            ) from None
        if not found.is_file():
            raise FlashNerdError(
                f"{self.file} is not in the installed '{self.distribution}' "
                f"{metadata.version(self.distribution)}: install the version that pyproject.toml asks for."
            )
        return found


@dataclass(frozen=True)
class Drive:
    """A joint drive as it is written to the asset; stock configs replace gains through their actuators.

    Args:
        stiffness: N m/rad or N/m.
        damping: N m s/rad or N s/m.
        armature: Rotor inertia, kg m^2 or kg.
    """

    stiffness: float = 0.0
    damping: float = 0.0
    armature: float = 0.0


@dataclass(frozen=True)
class BaseFrame:
    """The root body's frame, where a stock config expects another one than the URDF's root link.

    Args:
        name: Name of the root body.
        xyz: Its origin in the URDF's root link, m.
        rpy: Its orientation there, rad, as URDF writes it.
    """

    name: str
    xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class UsdRobot:
    """A robot that a package carries as USD: flattened, re-rooted, given masses, visuals and colours.

    Args:
        name: Robot name, as commands take it.
        source: The USD file.
        outputs: Paths below the asset root that stock configs load.
        root: Prim that becomes the default prim; every other root prim is dropped.
        joints: Joint names in the order of the written asset (recorded in bundles and checkpoints).
        colors: Body name -> linear RGB; ``default`` for the rest.
        tolerance: Error allowed by ``verify``, relative to the largest entry of the mass matrix.
    """

    name: str
    source: Source
    outputs: tuple[str, ...]
    root: str
    joints: tuple[str, ...]
    colors: dict[str, Color] = field(default_factory=dict)
    tolerance: float = 1e-6


@dataclass(frozen=True)
class UrdfRobot:
    """A robot that a package carries as URDF, and the edits that turn it into what stock configs expect.

    Name patterns are regular expressions that must match a whole name; names are those after ``rename``.

    Args:
        name: Robot name, as commands take it.
        source: The URDF file.
        outputs: Paths below the asset root that stock configs load.
        root: Name of the default prim.
        joints: Movable joints, breadth-first, as written; the build fails when the URDF gives others.
        packages: ``package://NAME`` -> folder, relative to the URDF's own folder; without an entry the nearest
            folder above the URDF that is called NAME is taken.
        rename: Pattern -> replacement (``re.sub`` on whole names), for links and joints alike.
        lock: Patterns of joints that are fixed at their zero position.
        keep: Patterns of links that stay bodies although a fixed joint holds them.
        base: Another frame for the root body; ``None`` keeps the URDF's root link.
        fixed_base: Write a fixed joint from the world to the root body.
        collision: Pattern -> policy for the body's collision geometry; first match wins, else ``shape``.
        drop_collision: Patterns of links, merged ones too, whose collision geometry is left out.
        drives: Pattern -> drive; first match wins.
        variants: Empty variant sets that a stock config selects from: set -> names (the first is selected).
        colliders: Variants of the set ``Colliders``: name -> patterns of the bodies that collide in it, the others do
            not (the first is selected); empty for an asset without that set.
        nested: Scope below the default prim under which every body is written inside its parent, as the sensor paths
            of some stock configs ask; empty writes all bodies beside each other, as those of the others ask.
        hull_corners: Largest number of corners of a collision hull; ``None`` keeps the exact hull.
        visual: What to show of a visual mesh: a coarse ``hull``, the ``mesh`` itself, or the ``collision`` shapes.
        colors: Pattern of link names -> linear RGB; first match wins over the URDF's materials.
        self_collision: Whether links of this robot may touch each other.
        inertia_lift: Largest relative rise of a moment of inertia allowed to repair ``A + B < C`` or ``A + B = C``.
        tolerance: Error allowed by ``verify``, relative to the largest entry of the mass matrix.
    """

    name: str
    source: Source
    outputs: tuple[str, ...]
    root: str
    joints: tuple[str, ...]
    packages: dict[str, str] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    lock: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    base: BaseFrame | None = None
    fixed_base: bool = False
    collision: dict[str, CollisionPolicy] = field(default_factory=dict)
    drop_collision: tuple[str, ...] = ()
    drives: dict[str, Drive] = field(default_factory=dict)
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    colliders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nested: str = ""
    hull_corners: int | None = None
    visual: Literal["hull", "mesh", "collision"] = "hull"
    colors: dict[str, Color] = field(default_factory=dict)
    self_collision: bool = False
    inertia_lift: float = 1e-3
    tolerance: float = 1e-6


AssetDescription = UsdRobot | UrdfRobot
