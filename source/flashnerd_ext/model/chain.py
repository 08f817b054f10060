"""The geometry of a robot on a fixed base: a tree of links, each moved by one joint. No masses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flashnerd_ext.errors import FlashNerdError


@dataclass(frozen=True)
class Chain:
    """Joints in the order of a layout; what is welded to a link is part of it.

    Attributes:
        parents: Joint before each joint on the way to the base, -1 at the base, [J].
        offset: Pose of a joint's frame in the frame of the link before, with the joint at zero, [J, 4, 4].
        axis: Direction of each joint in its frame, unit vectors [J, 3].
        hinge: 1.0 for a joint that turns, 0.0 for one that slides, [J].
        gravity: Acceleration of free fall in the root frame [m/s^2], [3].
    """

    parents: tuple[int, ...]
    offset: tuple[Any, ...]
    axis: tuple[Any, ...]
    hinge: tuple[float, ...]
    gravity: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form; :meth:`from_dict` reads it back."""
        return {
            "parents": list(self.parents),
            "offset": [[list(row) for row in pose] for pose in self.offset],
            "axis": [list(axis) for axis in self.axis],
            "hinge": list(self.hinge),
            "gravity": list(self.gravity),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], joints: int) -> Chain:
        """The inverse of :meth:`to_dict`.

        Args:
            content: As a data set's ``dataset.json`` has it.
            joints: Joints J that it must have.

        Raises:
            FlashNerdError: For another size, or a parent that is no other joint.
        """
        try:
            chain = cls(
                parents=tuple(int(parent) for parent in content["parents"]),
                offset=tuple(tuple(tuple(float(x) for x in row) for row in pose) for pose in content["offset"]),
                axis=tuple(tuple(float(x) for x in axis) for axis in content["axis"]),
                hinge=tuple(float(x) for x in content["hinge"]),
                gravity=tuple(float(x) for x in content["gravity"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FlashNerdError(
                f"the data set's chain is damaged ({type(error).__name__}: {error}): make the data set anew."
            ) from None
        sizes = {len(chain.parents), len(chain.offset), len(chain.axis), len(chain.hinge)}
        if sizes != {joints} or len(chain.gravity) != 3:
            raise FlashNerdError(
                f"the data set's chain has {sorted(sizes)} joints, but the robot has {joints}: make the data set anew."
            )
        for joint in range(joints):
            seen, parent = {joint}, chain.parents[joint]
            while parent >= 0:
                if parent >= joints or parent in seen:
                    raise FlashNerdError(
                        f"the data set's chain has the parents {list(chain.parents)}, which are no tree: "
                        "make the data set anew."
                    )
                seen.add(parent)
                parent = chain.parents[parent]
        return chain
