"""A bundle with which the backend starts and nothing is predicted: the oracle answers in its model's place."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flashnerd_ext.robots.description import RobotDescription

REACH = 1.0e3
"""States up to this far are inside the envelope [m, rad, m/s or rad/s], so that the guard holds no world."""
OPTIONS = {"width": 8, "hidden": 8, "heads": 2}


def known_bundle(path: Path, robot: RobotDescription) -> Path:
    """Save an untrained bundle of a robot that takes what its models take: contact rows, sensed forces and torques."""
    import torch

    from flashnerd_ext.bundle.make import envelope, make_card
    from flashnerd_ext.bundle.store import save_bundle
    from flashnerd_ext.model.registry import build_model
    from flashnerd_ext.model.sensed import Sensed

    layout, options = robot.layout, dict(OPTIONS)
    if robot.contacts is not None:
        options |= {
            "rows_capacity": robot.contacts.capacity,
            "links": len(robot.links),
            "sensed": Sensed(layout, len(robot.links)).size,
        }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("flashnerd", layout, options)
    rng, count = np.random.default_rng(0), 256
    q, qd = rng.uniform(-REACH, REACH, (count, layout.nq)), rng.uniform(-REACH, REACH, (count, layout.nv))
    if layout.floating_base:
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    action = rng.uniform(-REACH, REACH, (count, layout.nu))
    ranges = [robot.condition_range[name] for name in layout.conditions]
    condition = np.stack([rng.uniform(low, high, count) for low, high in ranges], 1) if ranges else None
    reach = envelope(layout, q, qd, action, condition)
    card = make_card(robot=robot, model=model, envelope=reach, engine="mujoco", seed=0, name=f"{robot.name}_oracle")
    return save_bundle(path, model, card).path
