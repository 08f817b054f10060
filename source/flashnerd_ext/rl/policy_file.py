"""A policy as two small files that run no code: weights (safetensors) and a card (JSON) that says what they mean.

For feed-forward policies with one observation group, no normaliser and actions that are the network's output.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save, write_json

WEIGHTS, CARD = "policy.safetensors", "policy.json"
SCHEMA = 1
_ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class PolicyCard:
    """What a policy's weights mean and how they were made.

    Attributes:
        task: Task that it was trained in.
        observations: Terms of the observation in their order, (name, size).
        actions: Joints in the order of the actions.
        activation: Of the hidden layers.
        made: How it was made: command, iterations, physics and the like, in words.
    """

    task: str
    observations: list[tuple[str, int]]
    actions: list[str]
    activation: str = "elu"
    made: dict[str, str] = field(default_factory=dict)


class Policy(nn.Module):
    """A multilayer perceptron from observations [N, F] to actions [N, A].

    Args:
        weights: ``mlp.I.weight`` and ``mlp.I.bias`` of its linear layers.
        card: What they mean.

    Raises:
        FlashNerdError: Where weights and card do not fit.
    """

    def __init__(self, weights: Mapping[str, Tensor], card: PolicyCard) -> None:
        super().__init__()
        self.card = card
        if card.activation not in _ACTIVATIONS:
            raise FlashNerdError(f"the policy's activation is '{card.activation}', needed is one of {[*_ACTIVATIONS]}.")
        places = sorted(int(name.split(".")[1]) for name in weights if name.endswith(".weight"))
        layers: list[nn.Module] = []
        for place in places:
            matrix, bias = weights[f"mlp.{place}.weight"], weights[f"mlp.{place}.bias"]
            linear = nn.Linear(matrix.shape[1], matrix.shape[0])
            linear.load_state_dict({"weight": matrix, "bias": bias})
            layers += [linear, _ACTIVATIONS[card.activation]()]
        self.mlp = nn.Sequential(*layers[:-1]).requires_grad_(False)
        ends = (sum(size for _, size in card.observations), len(card.actions))
        shapes = tuple(weights[f"mlp.{place}.weight"].shape[side] for place, side in ((places[0], 1), (places[-1], 0)))
        if ends != shapes:
            raise FlashNerdError(
                f"the policy's weights map {shapes[0]} numbers to {shapes[1]}, but its card names {ends[0]} and "
                f"{ends[1]}: they do not belong together."
            )

    def forward(self, observation: Tensor) -> Tensor:
        """Actions [N, A] of observations [N, F]."""
        return self.mlp(observation)

    def check(self, env: Any) -> None:
        """Refuse an environment that observes or acts otherwise.

        Args:
            env: Isaac Lab's manager-based environment.

        Raises:
            FlashNerdError: Names what differs.
        """
        manager = env.observation_manager
        terms = [
            (name, int(shape[0]))
            for name, shape in zip(
                manager.active_terms["policy"], manager.group_obs_term_dim["policy"], strict=True
            )
        ]  # fmt: skip
        wanted = [tuple(term) for term in self.card.observations]
        if terms != wanted:
            raise FlashNerdError(f"the policy observes {wanted}, but the environment shows {terms}: play its own task.")
        joints = [
            joint
            for name in env.action_manager.active_terms
            for joint in env.action_manager.get_term(name)._joint_names
        ]
        if joints != self.card.actions:
            raise FlashNerdError(
                f"the policy moves the joints {self.card.actions}, but the environment takes {joints}: play its own "
                "task."
            )


def save_policy(folder: str | Path, weights: Mapping[str, Tensor], card: PolicyCard) -> Path:
    """Write both files; each appears whole."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    Policy(weights, card)
    tensors = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    atomic_save(folder / WEIGHTS, lambda temporary: save_file(tensors, temporary))
    write_json(folder / CARD, {"schema": SCHEMA, **dataclasses.asdict(card)})
    return folder


def load_policy(folder: str | Path) -> Policy:
    """The policy in a folder.

    Raises:
        FlashNerdError: Where a file is missing or is not what it should be.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    try:
        content = json.loads((folder / CARD).read_text(encoding="utf-8"))
        weights = load_file(folder / WEIGHTS)
    except FileNotFoundError as error:
        raise FlashNerdError(f"there is no policy in {folder}: {Path(error.filename).name} is missing.") from None
    except (ValueError, SafetensorError) as error:
        raise FlashNerdError(f"the policy in {folder} cannot be read: {error}; fetch it again.") from None
    if content.pop("schema", None) != SCHEMA:
        raise FlashNerdError(f"the policy in {folder} is not of schema {SCHEMA}: make it again.")
    return Policy(weights, PolicyCard(**content))


def checkpoint_weights(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """The linear layers of an rsl_rl checkpoint's actor.

    Raises:
        FlashNerdError: Where the actor has more than a perceptron and the spread of its actions.
    """
    actor: Mapping[str, Tensor] = checkpoint.get("actor_state_dict") or {}
    weights = {name: value for name, value in actor.items() if name.startswith("mlp.")}
    others: Sequence[str] = [name for name in actor if not name.startswith(("mlp.", "distribution."))]
    if not weights or others:
        raise FlashNerdError(
            f"the checkpoint's actor holds {[*others] or 'no perceptron'}, but only a plain perceptron without "
            "normaliser can be exported so: use play.py's ONNX file."
        )
    return weights
