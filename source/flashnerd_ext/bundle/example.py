"""A tiny untrained bundle: for tests, documentation and dry runs, never for physics."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from flashnerd_ext.bundle.card import Card, PhysicalCard
from flashnerd_ext.bundle.coupling import CouplingCard
from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import Bundle, save_bundle
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot

TINY: dict[str, dict[str, Any]] = {
    "flashnerd": {"width": 8, "blocks": 2, "span": 3, "heads": 2, "hidden": 8},
    "nerd": {"width": 8, "layers": 2, "heads": 2, "window": 4, "head_hidden": 8},
    "nerd_optimized": {"width": 8, "layers": 2, "heads": 2, "window": 4, "head_hidden": 8},
}
"""Configurations of a few hundred parameters."""

WALKER = RobotDescription(
    name="example_walker",
    layout=StateLayout(
        joint_names=("left_hip", "right_hip", "left_knee", "right_knee"),
        joint_kinds=("revolute", "revolute", "revolute", "revolute"),
        floating_base=True,
        actuated=("left_hip", "right_hip", "left_knee", "right_knee"),
        drive=Drive((25.0,) * 4, (0.5,) * 4, (23.5,) * 4),
    ),
    asset_path="Example/walker.usd",
    sim_dt=0.005,
    decimation=4,
    actuation="target",
    joint_stiffness=dict.fromkeys(("left_hip", "right_hip", "left_knee", "right_knee"), 25.0),
    joint_damping=dict.fromkeys(("left_hip", "right_hip", "left_knee", "right_knee"), 0.5),
    effort_limit=dict.fromkeys(("left_hip", "right_hip", "left_knee", "right_knee"), 23.5),
)
"""A floating-base robot that exists nowhere, for what CartPole cannot show (quaternions, joint order)."""


def example_model_and_card(
    robot: str | RobotDescription = "cartpole",
    model: str = "flashnerd",
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    coupled: bool = False,
) -> tuple[DynamicsModel, Card]:
    """An untrained network with outputs near zero, and a card with made-up measurements.

    Args:
        robot: Name in the registry, or a description such as :data:`WALKER`.
        model: Name in the model registry.
        config: Model options; :data:`TINY` by default.
        seed: Decides the weights.
        coupled: A bundle of coupled mode.
    """
    import torch

    from flashnerd_ext.model.free import free_motion_layout
    from flashnerd_ext.model.registry import build_model

    description = get_robot(robot) if isinstance(robot, str) else robot
    layout = free_motion_layout(description.layout) if coupled else description.layout
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_model(model, layout, dict(TINY[model] if config is None else config))
        network.out_norm.fit(torch.zeros(network.out_size), torch.full((network.out_size,), 0.01))
    rng = np.random.default_rng(seed)
    joint_q = rng.uniform(-1, 1, (64, layout.nq))
    if layout.floating_base:
        joint_q[:, 3:7] /= np.linalg.norm(joint_q[:, 3:7], axis=1, keepdims=True)
    joint_qd = rng.uniform(-1, 1, (64, layout.nv))
    bodies = [f"{name}_link" for name in layout.joint_names]
    physical = PhysicalCard(
        masses={name: 1.0 + i for i, name in enumerate(bodies)},
        inertias=dict.fromkeys(bodies, (0.1, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.3)),
        limit_lower=dict.fromkeys(layout.joint_names, -4.0),
        limit_upper=dict.fromkeys(layout.joint_names, 4.0),
    )
    card = make_card(
        robot=description,
        model=network,
        envelope=envelope(layout, joint_q, joint_qd, rng.uniform(-1, 1, (64, layout.nu))),
        engine="example",
        seed=seed,
        physical=physical,
        measured={"E1": 1.0},
        command="python scripts/train_dynamics.py robot=example",
        coupling=None
        if not coupled
        else CouplingCard(
            label="qacc_smooth",
            integrator="euler",
            damping=dict.fromkeys(layout.joint_names, 0.1),
            armature=dict.fromkeys(layout.joint_names, 0.01),
        ),
    )
    # The same text on every machine and at every commit, so that a test of damaged bytes repeats.
    training = dataclasses.replace(card.training, git_revision="example")
    card = dataclasses.replace(card, training=training, versions={"torch": "2.11.0", "newton": "1.6.1"})
    return network, dataclasses.replace(
        card, name=f"example-{description.name}".replace("example-example_", "example-")
    )


def example_bundle(
    folder: str | os.PathLike[str],
    robot: str | RobotDescription = "cartpole",
    model: str = "flashnerd",
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    coupled: bool = False,
) -> Bundle:
    """Save :func:`example_model_and_card` at ``folder`` and return the loaded bundle."""
    network, card = example_model_and_card(robot, model, config, seed, coupled)
    return save_bundle(folder, network, card)
