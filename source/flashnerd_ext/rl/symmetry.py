"""PPO sees each sample again as its mirror images: left and right exchanged, and where a robot has it, front and back.

For rsl_rl's symmetry augmentation (``symmetry_cfg.data_augmentation_func``), for every robot whose description has a
mirror. Isaac Lab ships such functions for ANYmal; these take the mirror that the dynamics are learned with, and find
the columns of an observation group by the names of its terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import Mirror
from flashnerd_ext.robots.registry import ROBOTS

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Plane:
    """A plane of symmetry of the root frame.

    Attributes:
        field: Where a robot's description has the mirror of this plane.
        polar, axial, command: Signs of a vector, of an axial vector, and of a command (a velocity forward, to the left
            and about z).
    """

    field: str
    polar: tuple[float, float, float]
    axial: tuple[float, float, float]
    command: tuple[float, float, float]


SIDES = Plane("mirror", (1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, -1.0, -1.0))
ENDS = Plane("fore_aft", (-1.0, 1.0, 1.0), (1.0, -1.0, -1.0), (-1.0, 1.0, -1.0))
VECTORS = {
    "base_lin_vel": "polar",
    "base_ang_vel": "axial",
    "projected_gravity": "polar",
    "velocity_commands": "command",
}
"""Terms that are vectors in the root frame, and their kind."""
JOINTS = ("joint_pos", "joint_vel", "actions")
"""Terms with a number a joint, in the order of the articulation."""

INSTEAD = "agent.algorithm.symmetry_cfg=null"
LOGGED = 512
"""Samples of a batch behind the logged symmetry error, where it is no part of the loss."""

Columns = tuple[list[int], list[float]]


def left_right(env: Any, obs: Any | None = None, actions: Tensor | None = None) -> tuple[Any | None, Tensor | None]:
    """Observations [N] and actions [N, nu], and behind them their mirror images: [2 N] and [2 N, nu].

    Args:
        env: The environment, or rsl_rl's wrapper of it.
        obs: Observation groups, a TensorDict; each is mirrored.
        actions: In the articulation's joint order.

    Raises:
        FlashNerdError: Where the robot has no mirror, or an observation term is of a kind that is not known here.
    """
    return _doubled(env.unwrapped, obs, actions, SIDES)


def four_ways(env: Any, obs: Any | None = None, actions: Tensor | None = None) -> tuple[Any | None, Tensor | None]:
    """As :func:`left_right`, for robots whose front and back are alike too: [4 N] and [4 N, nu].

    Behind the originals come left-right, fore-aft and diagonal images. The masses of front and back may differ a
    little: this is for policies, which must cope with that, and not for the dynamics.
    """
    base = env.unwrapped
    return _doubled(base, *_doubled(base, obs, actions, SIDES), ENDS)


def log_less(algorithm: Any) -> None:
    """Let the symmetry error, where it is logged only, be that of some samples of a batch.

    rsl_rl runs the actor on every augmented batch once more for it, with a graph: an eighth of an update's time.

    Args:
        algorithm: rsl_rl's PPO; left as it is without symmetry, or with the mirror loss.
    """
    symmetry = getattr(algorithm, "symmetry", None)
    if symmetry is None or symmetry.use_mirror_loss or not symmetry.use_data_augmentation:
        return
    whole = symmetry.compute_loss

    def some(actor: Any, batch: Any, count: int) -> Tensor:
        used = min(LOGGED, count)
        parts = [
            batch.observations[begin : begin + used] for begin in range(0, batch.observations.batch_size[0], count)
        ]
        with torch.no_grad():
            return whole(actor, SimpleNamespace(observations=torch.cat(parts)), used)

    symmetry.compute_loss = some


def _doubled(base: Any, obs: Any | None, actions: Tensor | None, plane: Plane) -> tuple[Any | None, Tensor | None]:
    both = None
    if obs is not None:
        count = obs.batch_size[0]
        both = obs.repeat(2)
        for group in obs.keys():  # noqa: SIM118  (a TensorDict iterates over its rows)
            both[group][count:] = _image(obs[group], *_columns(base, plane, str(group)))
    return both, None if actions is None else torch.cat((actions, _image(actions, *_columns(base, plane, ""))))


def _image(values: Tensor, index: Tensor, sign: Tensor) -> Tensor:
    return values[:, index] * sign


def _columns(base: Any, plane: Plane, group: str) -> tuple[Tensor, Tensor]:
    """Columns of a group of observations, or of actions for an empty name; found once an environment."""
    known: dict[tuple[str, str], tuple[Tensor, Tensor]] = base.__dict__.setdefault("_flashnerd_mirror", {})
    key = (plane.field, group)
    if key not in known:
        names = tuple(base.scene["robot"].joint_names)
        joints = joint_columns(names, mirror_of(names, plane))
        if group:
            manager = base.observation_manager
            terms = list(zip(manager.active_terms[group], manager.group_obs_term_dim[group], strict=True))
            joints = observation_columns(terms, joints, lambda: _scan(base, plane), plane)
        index, sign = joints
        known[key] = torch.tensor(index, device=base.device), torch.tensor(sign, device=base.device)
    return known[key]


def mirror_of(joints: tuple[str, ...], plane: Plane = SIDES) -> Mirror:
    """Mirror of the robot that has these joints.

    Raises:
        FlashNerdError: Where no known robot has both.
    """
    for robot in ROBOTS.values():
        mirror = getattr(robot, plane.field)
        if mirror is not None and set(robot.layout.joint_names) == set(joints):
            return mirror
    raise FlashNerdError(
        f"no robot with the joints {', '.join(joints[:3])}, ... has a {plane.field}, which the augmentation needs: "
        f"give its description one, or type {INSTEAD}."
    )


def joint_columns(names: tuple[str, ...], mirror: Mirror) -> Columns:
    """Which joint each joint's image is, and its sign.

    Raises:
        FlashNerdError: Where an image is not among the joints.
    """
    return mirror.images(names, "joint", INSTEAD), mirror.signs(names)


def observation_columns(
    terms: list[tuple[str, tuple[int, ...]]], joints: Columns, scan: Callable[[], list[int]], plane: Plane = SIDES
) -> Columns:
    """Which column of a group each column of its image is, and its sign.

    Args:
        terms: Name and shape of each term, in the order of the group.
        joints: Columns of a term with a number a joint.
        scan: Gives the columns of a height scan.
        plane: What the image is made by.

    Raises:
        FlashNerdError: For a term of a kind that is not known here.
    """
    index: list[int] = []
    sign: list[float] = []
    for name, shape in terms:
        size, place = int(torch.Size(shape).numel()), len(index)
        if name in VECTORS and size == 3:
            columns, signs = [0, 1, 2], list(getattr(plane, VECTORS[name]))
        elif name in JOINTS and size == len(joints[0]):
            columns, signs = joints
        elif name == "height_scan" and len(scan()) == size:
            columns, signs = scan(), [1.0] * size
        else:
            raise FlashNerdError(
                f"the observation '{name}' with {size} numbers has no mirror image here: known are "
                f"{', '.join([*VECTORS, *JOINTS, 'height_scan'])}; or type {INSTEAD}."
            )
        index += [place + column for column in columns]
        sign += signs
    return index, sign


def _scan(base: Any, plane: Plane) -> list[int]:
    """Column of the ray that is the image of each ray of the height scanner."""
    pattern = base.scene["height_scanner"].cfg.pattern_cfg
    starts = pattern.func(pattern, base.device)[0][:, :2]
    other = starts * starts.new_tensor(plane.polar[:2])
    gap = (other[:, None] - starts).abs().amax(-1)
    distance, index = gap.min(1)
    if float(distance.max()) > 1e-4:
        raise FlashNerdError(
            "the height scanner's rays are not their own mirror image: centre its pattern on the robot."
        )
    return index.tolist()
