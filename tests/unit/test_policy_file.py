"""A policy's two files: what was saved acts the same, and what does not fit is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.policy_file import CARD, WEIGHTS, PolicyCard, checkpoint_weights, load_policy, save_policy

CARD_OF = PolicyCard(task="T", observations=[("speed", 3), ("joints", 2)], actions=["a", "b"], made={"iterations": "5"})


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ELU(), nn.Linear(8, 2))


def weights() -> dict[str, torch.Tensor]:
    return {f"mlp.{name}": value for name, value in network().state_dict().items()}


def env(observations: dict[str, int], joints: list[str]) -> SimpleNamespace:
    shapes = [(size,) for size in observations.values()]
    return SimpleNamespace(
        observation_manager=SimpleNamespace(
            active_terms={"policy": list(observations)}, group_obs_term_dim={"policy": shapes}
        ),
        action_manager=SimpleNamespace(
            active_terms=["effort"], get_term=lambda name: SimpleNamespace(_joint_names=joints)
        ),
    )


def test_it_acts_as_the_network_did(tmp_path: Path) -> None:
    policy = load_policy(save_policy(tmp_path / "policy", weights(), CARD_OF))
    observation = torch.randn((7, 5))
    assert torch.equal(policy(observation), network()(observation))
    assert policy.card.made == {"iterations": "5"}
    policy.check(env({"speed": 3, "joints": 2}, ["a", "b"]))


def test_another_task_is_refused(tmp_path: Path) -> None:
    policy = load_policy(save_policy(tmp_path, weights(), CARD_OF))
    with pytest.raises(FlashNerdError, match="observes"):
        policy.check(env({"joints": 2, "speed": 3}, ["a", "b"]))
    with pytest.raises(FlashNerdError, match="moves the joints"):
        policy.check(env({"speed": 3, "joints": 2}, ["b", "a"]))


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FlashNerdError, match="do not belong together"):
        save_policy(tmp_path / "wrong", weights(), dataclasses.replace(CARD_OF, actions=["a"]))
    with pytest.raises(FlashNerdError, match=r"policy\.json is missing"):
        load_policy(tmp_path / "nowhere")
    folder = save_policy(tmp_path / "policy", weights(), CARD_OF)
    (folder / WEIGHTS).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FlashNerdError, match="cannot be read"):
        load_policy(folder)
    save_policy(folder, weights(), CARD_OF)
    (folder / CARD).write_text(json.dumps({**json.loads((folder / CARD).read_text()), "schema": 99}))
    with pytest.raises(FlashNerdError, match="schema"):
        load_policy(folder)


def test_only_plain_perceptrons_leave_a_checkpoint() -> None:
    actor = {**weights(), "distribution.std_param": torch.ones(2)}
    assert set(checkpoint_weights({"actor_state_dict": actor})) == set(weights())
    with pytest.raises(FlashNerdError, match="obs_normalizer"):
        checkpoint_weights({"actor_state_dict": {**actor, "obs_normalizer.mean": torch.zeros(5)}})


def test_the_shipped_policy_is_small_and_says_how_it_was_made(repo: Path) -> None:
    folder = repo / "scripts" / "demos" / "anymal_c_policy"
    policy = load_policy(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    assert policy.card.task == "FlashNeRD-Velocity-Flat-AnymalC" and len(policy.card.actions) == 12
    assert {"command", "iterations", "bundle_hash", "figures"} <= set(policy.card.made)
    assert torch.isfinite(policy(torch.zeros((1, 48)))).all()
