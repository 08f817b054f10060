"""Checks of what a rollout is given: shapes, finite numbers, unit quaternions, each refusal one sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout


def check_inputs(layout: StateLayout, tensors: dict[str, Tensor], see: str) -> None:
    """Refuse initial states and commands that do not fit a robot.

    Args:
        layout: The robot's coordinates.
        tensors: ``joint_q`` [N, nq], ``joint_qd`` [N, nv], ``actuation`` [T, N, nu] and perhaps ``condition`` [N, C].
        see: Where joint names and the like can be read, for the sentence.

    Raises:
        FlashNerdError: Names the first input that does not fit.
    """
    q = tensors["joint_q"]
    worlds = q.shape[0] if q.ndim == 2 else "N"
    needed: dict[str, tuple[int | str, ...]] = {
        "joint_q": (worlds, layout.nq),
        "joint_qd": (worlds, layout.nv),
        "actuation": ("T", worlds, layout.nu),
    }
    if "condition" in tensors:
        needed["condition"] = (worlds, len(layout.conditions))
    for name, shape in needed.items():
        value = tensors[name]
        fits = value.ndim == len(shape) and all(
            isinstance(want, str) or want == have for want, have in zip(shape, value.shape, strict=True)
        )
        if not fits:
            text = ", ".join(str(size) for size in shape)
            what = "conditions" if name == "condition" else "joint_names and actuated"
            raise FlashNerdError(f"{name} has shape {list(value.shape)}, but [{text}] is needed: see {what} in {see}.")
        if not torch.isfinite(value).all():
            count = int((~torch.isfinite(value)).sum())
            raise FlashNerdError(
                f"{name} has {count} numbers that are NaN or infinite, but all must be finite: mend the input."
            )
        if value.device != q.device:
            raise FlashNerdError(f"{name} is on {value.device}, but joint_q is on {q.device}: move both to one device.")
    if q.shape[0] == 0:
        raise FlashNerdError("joint_q has 0 worlds, but at least 1 is needed: pass joint_q of shape [N, nq].")
    if layout.floating_base:
        norms = q[:, 3:7].norm(dim=-1)
        if ((norms - 1).abs() > 1e-3).any():
            worst = float(norms[(norms - 1).abs().argmax()])
            raise FlashNerdError(
                f"joint_q[:, 3:7] holds a quaternion of length {worst:.4g}, but unit ones (x, y, z, w) are needed: "
                "normalise them."
            )
