"""Building a card from what the training command knows."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.bundle.card import (
    QUANTILES,
    ActuationCard,
    Card,
    ContactCard,
    DataCard,
    DriveCard,
    EnvelopeCard,
    ModelCard,
    PhysicalCard,
    Ranges,
    RobotCard,
    SimulationCard,
    TrainingCard,
)
from flashnerd_ext.bundle.coupling import CouplingCard
from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.model.base import DynamicsModel
    from flashnerd_ext.model.layout import StateLayout
    from flashnerd_ext.robots.description import RobotDescription

PACKAGES = (
    "flashnerd-ext",
    "torch",
    "numpy",
    "safetensors",
    "newton",
    "warp-lang",
    "mujoco",
    "mujoco-warp",
    "isaaclab",
)
"""Distributions whose versions stand in the card."""
UNKNOWN_PHYSICAL = PhysicalCard(masses={}, inertias={}, limit_lower={}, limit_upper={})
"""For data whose simulation did not say: the backend then reports these as unchecked."""


def stack() -> dict[str, str]:
    """Versions of the installed stack, by distribution name; what is not installed is left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def state_names(layout: StateLayout) -> list[str]:
    """Name of each dimension of ``joint_q`` and then ``joint_qd``, length nq + nv."""
    positions = [f"root.{axis}" for axis in ("px", "py", "pz", "qx", "qy", "qz", "qw")] if layout.floating_base else []
    velocities = [f"root.{axis}" for axis in ("vx", "vy", "vz", "wx", "wy", "wz")] if layout.floating_base else []
    positions += [f"{name}.pos" for name in layout.joint_names]
    velocities += [f"{name}.vel" for name in layout.joint_names]
    return positions + velocities


def ranges(names: Sequence[str], values: Any) -> Ranges:
    """Ranges of each column of ``values`` [samples, features], finite, in float64.

    Raises:
        FlashNerdError: When shapes do not fit or a value is not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 2 or data.shape[1] != len(names) or not len(data):
        raise FlashNerdError(
            f"the envelope got values of shape {list(data.shape)}, but [samples, {len(names)}] is needed: "
            "give one column a name."
        )
    if not np.isfinite(data).all():
        raise FlashNerdError(
            f"the envelope got {int((~np.isfinite(data)).sum())} numbers that are not finite, but all must be: "
            "leave invalid steps out."
        )

    def listed(row: np.ndarray) -> tuple[float, ...]:
        return tuple(float(value) for value in row)

    quantiles = np.quantile(data, [float(q) for q in QUANTILES], axis=0)
    return Ranges(
        names=tuple(names),
        min=listed(data.min(0)),
        max=listed(data.max(0)),
        mean=listed(data.mean(0)),
        std=listed(data.std(0)),
        quantiles={key: listed(row) for key, row in zip(QUANTILES, quantiles, strict=True)},
    )


def envelope(
    layout: StateLayout, joint_q: Any, joint_qd: Any, actuation: Any, condition: Any = None, reached: Any = None
) -> EnvelopeCard:
    """Envelope of training data: ``joint_q`` [n, nq], ``joint_qd`` [n, nv], ``actuation`` [n, nu], numpy or torch;
    ``condition`` [n, C] where the layout has conditions.

    ``reached`` are states [m, nq + nv] that labels lead to and nobody starts from. They belong to what may be
    predicted: in coupled mode the solver has the last word, and where free motion under a stiff drive would lead is
    never seen.

    A large data set may be thinned first; minimum and maximum then are those of the sample.
    """
    import torch

    from flashnerd_ext.model.frame import encode_frame, frame_names

    q, qd, u = (torch.as_tensor(value, dtype=torch.float64) for value in (joint_q, joint_qd, actuation))
    given = None if condition is None else torch.as_tensor(np.ascontiguousarray(condition), dtype=torch.float64)
    frames = encode_frame(layout, q, qd, u, given)
    states = torch.cat((q, qd), -1)
    if reached is not None:
        states = torch.cat((states, torch.as_tensor(reached, dtype=torch.float64)))
    return EnvelopeCard(
        frame=ranges(frame_names(layout), frames.numpy()),
        state=ranges(state_names(layout), states.numpy()),
    )


def data_card(folder: str | Path, seeds: Sequence[int], trajectories: int, transitions: int) -> DataCard:
    """Record of a data set folder; its hash is that of ``dataset.json``."""
    manifest = Path(folder) / "dataset.json"
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest() if manifest.is_file() else ""
    return DataCard(
        path=str(folder),
        sha256=digest,
        seeds=tuple(int(seed) for seed in seeds),
        trajectories=int(trajectories),
        transitions=int(transitions),
    )


def make_card(
    *,
    robot: RobotDescription,
    model: DynamicsModel,
    envelope: EnvelopeCard,
    engine: str,
    seed: int,
    data: Sequence[DataCard] = (),
    name: str | None = None,
    asset_key: str | None = None,
    physical: PhysicalCard | None = None,
    detector: str = "",
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81),
    measured: Mapping[str, float] | None = None,
    lineage: Sequence[str] = (),
    command: str | None = None,
    inner_steps: int | None = None,
    fixed: Sequence[str] = (),
    coupling: CouplingCard | None = None,
) -> Card:
    """The card of a freshly trained model; :func:`~flashnerd_ext.bundle.store.save_bundle` seals it.

    Args:
        robot: Description that data and training used.
        model: The trained network; its name and configuration are recorded.
        envelope: From :func:`envelope`.
        engine: Engine of the data, e.g. ``mujoco``.
        seed: Seed of the training run.
        data: From :func:`data_card`.
        name: Name of the bundle; the robot's by default.
        asset_key: The robot's by default.
        physical: From :func:`flashnerd_ext.bundle.facts.physical_card`; unknown by default.
        detector: Contact detector of the data, where the model takes rows; the robot's by default.
        gravity: Gravity of the data [m/s²].
        measured: Measured errors, e.g. ``{"E1": 4e-5}``.
        lineage: Hashes of the bundles that this one was fine-tuned from.
        command: Training command; this process's by default.
        inner_steps: ``robot.substeps`` for a model at the simulation's own step; a control step's by default.
        fixed: Links of the data's fixed contact rows; empty where the data have variable ones.
        coupling: For a model of free motion, made of :func:`~flashnerd_ext.model.free.free_motion_layout`: what its
            labels are. Its step is then the solver's.
    """
    from flashnerd_ext.runtime import git_revision

    layout = robot.layout if coupling is None else model.layout
    inner = robot.inner_steps if inner_steps is None else inner_steps
    if coupling is not None:
        inner = 1
    contacts = robot.contacts if model.rows_capacity else None
    config = {key: list(value) if isinstance(value, tuple) else value for key, value in model.config.items()}
    return Card(
        name=name or robot.name,
        robot=RobotCard(
            name=robot.name,
            asset_key=asset_key or f"{robot.name}@local",
            joint_names=tuple(layout.joint_names),
            joint_kinds=tuple(layout.joint_kinds),
            floating_base=layout.floating_base,
            actuated=tuple(layout.actuated),
            position_free=tuple(layout.position_free),
            conditions=tuple(layout.conditions),
            stop_joints=layout.stops.joints if layout.stops else (),
            stop_lower=layout.stops.lower if layout.stops else (),
            stop_upper=layout.stops.upper if layout.stops else (),
        ),
        actuation=ActuationCard(
            kind="effort" if coupling is not None else robot.actuation,
            effort_limit={key: float(value) for key, value in robot.effort_limit.items()},
            stiffness={key: float(value) for key, value in robot.joint_stiffness.items()},
            damping={key: float(value) for key, value in robot.joint_damping.items()},
            drive=None if layout.drive is None else DriveCard(**dataclasses.asdict(layout.drive)),
        ),
        simulation=SimulationCard(
            engine=engine,
            sim_dt=robot.sim_dt,
            decimation=robot.decimation,
            dt=robot.sim_dt * inner / robot.substeps,
            inner_steps=inner,
            substeps=robot.substeps,
            quaternion_order="xyzw",
            gravity=tuple(float(value) for value in gravity),
        ),
        contacts=ContactCard(
            detector=(detector or (contacts.DETECTOR if contacts else "none")) if model.rows_capacity else "none",
            capacity=model.rows_capacity,
            gap=contacts.gap if contacts is not None else 0.0,
            links=robot.links if contacts is not None else (),
            kind="fixed" if fixed and model.rows_capacity else "variable",
            fixed=tuple(fixed) if model.rows_capacity else (),
        ),
        physical=physical or UNKNOWN_PHYSICAL,
        model=ModelCard(name=model.name, config=config),
        training=TrainingCard(
            command=command if command is not None else shlex.join(sys.argv),
            git_revision=git_revision(),
            seed=int(seed),
            data=tuple(data),
        ),
        envelope=envelope,
        versions=stack(),
        measured={key: float(value) for key, value in (measured or {}).items()},
        lineage=tuple(lineage),
        coupling=coupling,
    )
