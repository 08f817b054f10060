"""Things that roll a state forward, in the form that the rollout error takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.rollout_error import Predictor
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.registry import MODELS, build_model
from flashnerd_ext.model.stepper import Stepper

if TYPE_CHECKING:
    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.data.engines import Engine
    from flashnerd_ext.data.engines.rows import RowDetector

Array = NDArray[Any]


def model_predictor(
    model: DynamicsModel,
    dt: float,
    inner_steps: int,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    detector: RowDetector | None = None,
) -> Predictor:
    """A model that starts from one frame with an empty cache and feeds on its own predictions.

    Args:
        model: The model; moved to ``device``.
        dt: Model step [s].
        inner_steps: Simulator steps in a model step.
        device: Where it runs.
        dtype: Of states and frames; float32 is what a simulator gives it.
        detector: Finds the contacts of predicted states, for models that take rows.

    Raises:
        FlashNerdError: For a model with contact rows and no detector.
    """
    if model.rows_capacity and detector is None:
        raise FlashNerdError(
            f"the model takes {model.rows_capacity} contact rows a robot, but there is no detector: "
            "give the data set's folder, whose engine_model.json makes one."
        )

    def predict(
        joint_q: Array, joint_qd: Array, actuation: Array, extra: Mapping[str, Array] | None = None
    ) -> tuple[Array, Array]:
        extra = extra or {}
        stepper = Stepper(model, dt, inner_steps, len(joint_q), device, dtype=dtype)
        if "condition" in extra and stepper.condition.shape[1]:
            stepper.condition.copy_(torch.as_tensor(np.ascontiguousarray(extra["condition"])))
        q, qd, u = (torch.as_tensor(np.ascontiguousarray(x)).to(device, dtype) for x in (joint_q, joint_qd, actuation))
        past_q, past_qd = [q], [qd]
        for step in range(len(u)):
            rows = None
            if detector is not None and model.rows_capacity:
                rows = detect(detector, q, qd, extra, model.rows_capacity)
            q, qd = stepper.step(q, qd, u[step], rows)
            past_q.append(q)
            past_qd.append(qd)
        return torch.stack(past_q).double().cpu().numpy(), torch.stack(past_qd).double().cpu().numpy()

    return predict


def detect(
    detector: RowDetector, joint_q: torch.Tensor, joint_qd: torch.Tensor, extra: Mapping[str, Array], capacity: int
) -> ContactRows:
    """Contact rows of states [N, nq], [N, nv] as tensors on their device."""
    arrays = [np.asarray(x.double().cpu()) for x in (joint_q, joint_qd)]
    norm = np.linalg.norm(arrays[0][:, 3:7], axis=1, keepdims=True)
    arrays[0][:, 3:7] = np.where(norm > 0, arrays[0][:, 3:7] / np.where(norm > 0, norm, 1.0), arrays[0][:, 3:7])
    found = detector.rows(arrays[0], arrays[1], extra.get("friction"), extra.get("condition"))
    link = torch.from_numpy(found.link[:, :capacity]).long()
    features = torch.from_numpy(found.features[:, :capacity])
    return ContactRows(*(x.to(joint_q.device) for x in (features, link, link >= 0)))


def make_detector(folder: Path, fixed: tuple[str, ...] | None = None, blind: bool | None = None) -> RowDetector:
    """A contact detector over a data set's own engine model, which needs mujoco and no Newton.

    Args:
        folder: The data set.
        fixed: Links of fixed rows, empty for variable rows; ``None`` takes the kind of the data set.
        blind: Whether fixed rows know the ground planes only; ``None`` takes what the data set says.
    """
    from flashnerd_ext.data.engines.exported import ExportedModel
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.data.engines.rows import RowDetector

    return RowDetector(MujocoC(ExportedModel.load(folder)), fixed, blind)


def detector_of(bundles: Sequence[Bundle], folder: Path) -> RowDetector | None:
    """The detector whose rows these bundles of one model take, over a data set's engine model; ``None`` without rows.

    The kind is the cards', not the data's: states are detected anew, so that either encoding can be judged on the
    same trajectories.

    Raises:
        FlashNerdError: Where the bundles differ in it.
    """
    from flashnerd_ext.data.engines.exported import FIXED_BLIND

    contacts = [bundle.card.contacts for bundle in bundles if bundle.model.rows_capacity]
    wanted = [(card.fixed, card.detector) for card in contacts]
    if not wanted:
        return None
    if len(set(wanted)) > 1:
        kinds = ", ".join(f"{bundle.path} {bundle.card.contacts.kind}" for bundle in bundles)
        raise FlashNerdError(
            f"bundles of one model differ in their contacts ({kinds}), but one kind is needed: give each kind a name "
            "of its own in models= and bundles=."
        )
    return make_detector(folder, contacts[0].fixed, contacts[0].detector == FIXED_BLIND)


def engine_predictor(engine: Engine, rounding: type[np.floating[Any]] | None = None) -> Predictor:
    """An analytical simulator as a predictor.

    Args:
        engine: Simulator that makes one model step.
        rounding: Round the state to this precision before each step, as a float32 simulator's memory would.
    """

    def predict(
        joint_q: Array, joint_qd: Array, actuation: Array, extra: Mapping[str, Array] | None = None
    ) -> tuple[Array, Array]:
        if extra:
            engine.set_worlds(extra["condition"], extra["friction"])  # type: ignore[attr-defined]
        q, qd = np.asarray(joint_q, dtype=np.float64), np.asarray(joint_qd, dtype=np.float64)
        past_q, past_qd = [q], [qd]
        for step in range(len(actuation)):
            if rounding is not None:
                q, qd = q.astype(rounding).astype(np.float64), qd.astype(rounding).astype(np.float64)
            q, qd = engine.step(q, qd, np.asarray(actuation[step]))
            past_q.append(q)
            past_qd.append(qd)
        return np.stack(past_q), np.stack(past_qd)

    return predict


def reference_noise(
    robot: Any, folder: Path, kind: str = "rounding", device: str = "cpu", workers: int = 1
) -> tuple[Predictor, str]:
    """The reference simulator against itself at float32: the floor below which an error means nothing.

    Args:
        robot: A RobotDescription.
        folder: Data set folder, whose engine model made the reference.
        kind: ``rounding`` rounds the state to float32 before each step of MuJoCo C (fast); ``mujoco_warp`` runs
            MuJoCo Warp, the float32 solver that Isaac Lab runs.
        device: Device of MuJoCo Warp.
        workers: Threads of MuJoCo C.

    Returns:
        The predictor, and what to call it in a picture.
    """
    from flashnerd_ext.data.engines import build_engine, load_or_export

    names = {"rounding": "MuJoCo itself, state rounded to float32", "mujoco_warp": "MuJoCo Warp (float32)"}
    if kind not in names:
        raise FlashNerdError(f"noise is '{kind}', but one of {', '.join([*names, 'none'])} is needed.")
    model = load_or_export(robot, folder)
    if kind == "rounding":
        return engine_predictor(build_engine("mujoco_c", model, workers), np.float32), names[kind]
    return engine_predictor(build_engine("mujoco_warp", model, device=device)), names[kind]


def load_models(name: str, paths: list[str], robot: str, loader: Callable[[str], Bundle]) -> list[Bundle]:
    """Bundles of one model, one a seed; a ``nerd`` bundle also serves ``nerd_optimized``, and the other way round.

    Raises:
        FlashNerdError: When a bundle is of another robot or model, with what to type.
    """
    from dataclasses import replace

    bundles = []
    for path in paths:
        bundle = loader(path)
        card, stored = bundle.card, bundle.card.model.name
        if card.robot.name != robot:
            raise FlashNerdError(f"bundle {path} is of robot '{card.robot.name}', but robot={robot} is evaluated.")
        if name in MODELS and stored != name:
            if {stored, name} != {"nerd", "nerd_optimized"}:
                raise FlashNerdError(
                    f"bundle {path} holds a '{stored}' model, but stands for '{name}': "
                    f"type bundles={{{stored}:{path}}} models=[{stored}]."
                )
            # One set of weights, one function, two ways to compute it.
            model = build_model(name, bundle.model.layout, bundle.model.config)
            model.load_state_dict(bundle.model.state_dict())
            bundle = replace(bundle, model=model.eval())
        bundles.append(bundle)
    return bundles
