"""What is recorded of a run: the pose of every body, a frame a control step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flashnerd_ext.errors import FlashNerdError


@dataclass
class Track:
    """Poses of bodies over time.

    Attributes:
        paths: Prim path of each of the B bodies, on the scene's own stage.
        dt: Time between frames [s].
        frames: World poses, float64 [B, 7] each: position [m], quaternion x, y, z, w.
    """

    paths: tuple[str, ...]
    dt: float
    frames: list[np.ndarray] = field(default_factory=list)

    def add(self, poses: np.ndarray) -> None:
        """Take a frame [B, 7].

        Raises:
            FlashNerdError: For a pose that is not finite, since no viewer could show it.
        """
        poses = np.array(poses, dtype=np.float64)
        if poses.shape != (len(self.paths), 7):
            raise ValueError(f"a frame of {len(self.paths)} bodies is [{len(self.paths)}, 7], not {poses.shape}")
        bad = np.flatnonzero(~np.isfinite(poses).all(axis=1))
        if len(bad):
            raise FlashNerdError(
                f"the pose of {self.paths[bad[0]]} at frame {len(self.frames)} is not finite ({len(bad)} of "
                f"{len(self.paths)} bodies), but a finite one is needed: record fewer --steps, or other physics."
            )
        self.frames.append(poses)

    def array(self) -> np.ndarray:
        """All frames, [T, B, 7]; quaternions have unit length and no sign flip from one frame to the next."""
        poses = np.stack(self.frames)
        poses[..., 3:] /= np.linalg.norm(poses[..., 3:], axis=-1, keepdims=True)
        # q and -q are one rotation, but a viewer that interpolates between them would spin the body.
        turned = (poses[1:, :, 3:] * poses[:-1, :, 3:]).sum(-1) < 0
        sign = np.where(np.cumsum(turned, axis=0) % 2, -1.0, 1.0)
        poses[1:, :, 3:] *= sign[..., None]
        return poses

    def only(self, roots: Sequence[str]) -> np.ndarray:
        """Which bodies lie below one of ``roots``, boolean [B]."""
        return np.array([any(path == root or path.startswith(f"{root}/") for root in roots) for path in self.paths])
