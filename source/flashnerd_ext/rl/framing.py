"""Which worlds a clip shows, and where its camera stands."""

from __future__ import annotations

import math

import numpy as np


def middle_block(num_envs: int, side: int = 3) -> list[int]:
    """Indices of the middle ``side x side`` worlds of Isaac Lab's grid; all of them where there are fewer.

    The grid has ceil(sqrt(N)) rows along -x and fills each row along +y.
    """
    rows = math.ceil(num_envs / math.sqrt(num_envs))
    columns = math.ceil(num_envs / rows)
    first_row, first_column = max(0, (rows - side) // 2), max(0, (columns - side) // 2)
    block = [
        row * columns + column
        for row in range(first_row, min(rows, first_row + side))
        for column in range(first_column, min(columns, first_column + side))
    ]
    return [index for index in block if index < num_envs]


def frame_box(
    low: np.ndarray, high: np.ndarray, direction: np.ndarray, vertical_fov: float, aspect: float, fill: float = 0.94
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Camera pose that shows a whole box.

    Args:
        low: Smallest corner [m], world frame, z up.
        high: Largest corner [m].
        direction: From the box towards the camera; any length, not vertical.
        vertical_fov: Vertical field of view [rad].
        aspect: Width / height of the frame.
        fill: Share of the frame that the box may take.

    Returns:
        Eye and target [m], world frame.
    """
    towards = direction / np.linalg.norm(direction)
    right = np.cross([0.0, 0.0, 1.0], towards)
    right /= np.linalg.norm(right)
    up = np.cross(towards, right)
    tan_up = math.tan(vertical_fov / 2.0) * fill
    tan_right = tan_up * aspect
    centre = (low + high) / 2.0
    corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T - centre
    across, above, depth = corners @ right, corners @ up, corners @ towards
    distance = float(np.max(depth + np.maximum(np.abs(across) / tan_right, np.abs(above) / tan_up)))
    # The near corners look larger than the far ones: slide the camera until top and bottom margins agree.
    for _ in range(8):
        slopes = above / (distance - depth)
        shift = float((slopes.max() + slopes.min()) / 2.0 * distance)
        above = above - shift
        centre = centre + up * shift
        distance = float(np.max(depth + np.maximum(np.abs(across) / tan_right, np.abs(above) / tan_up)))
    eye = centre + towards * distance
    return (float(eye[0]), float(eye[1]), float(eye[2])), (float(centre[0]), float(centre[1]), float(centre[2]))
