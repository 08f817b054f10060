"""A policy's checkpoint as two small files that run no code, for the demos.

    python scripts/export_policy.py checkpoint=logs/rsl_rl/EXPERIMENT/RUN/model_199.pt out=FOLDER \\
        notes={command: 'python scripts/rsl_rl/train.py ...'}

The run's manifest and configuration beside the checkpoint say what it observes and how it was made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main


@dataclass
class ExportConfig:
    """Options of the command."""

    checkpoint: str = field(default="", metadata={"help": "model_N.pt of a run"})
    out: str = field(default="", metadata={"help": "folder for policy.safetensors and policy.json"})
    notes: Any = field(default=None, metadata={"help": "more lines for the card: {NAME: TEXT}"})


def main() -> int:
    config = parse(ExportConfig, doc=__doc__)
    if not config.checkpoint or not config.out:
        raise FlashNerdError("checkpoint and out are needed: type checkpoint=.../model_199.pt out=FOLDER.")

    from flashnerd_ext.rl.checkpoint import read_checkpoint
    from flashnerd_ext.rl.policy_file import PolicyCard, checkpoint_weights, save_policy
    from flashnerd_ext.rl.simulation import open_simulation

    path = Path(config.checkpoint)
    checkpoint = read_checkpoint(path, map_location="cpu")
    try:
        run = json.loads((path.parent / "run.json").read_text(encoding="utf-8"))
    except OSError:
        raise FlashNerdError(
            f"there is no run.json beside {path}: give a checkpoint of scripts/rsl_rl/train.py."
        ) from None
    facts = run["metadata"]
    simulation = open_simulation(run["task"], facts["physics"], num_envs=1, device="cpu", seed=0)
    env, settings = simulation.unwrapped, simulation.agent_cfg
    manager = env.observation_manager
    card = PolicyCard(
        task=run["task"],
        observations=[
            (name, int(shape[0]))
            for name, shape in zip(manager.active_terms["policy"], manager.group_obs_term_dim["policy"], strict=True)
        ],
        actions=[
            joint
            for name in env.action_manager.active_terms
            for joint in env.action_manager.get_term(name)._joint_names
        ],
        activation=str(settings.actor.activation),
        made={
            "checkpoint": f"{path.parent.name}/{path.name}",
            "iterations": str(int(checkpoint["iter"]) + 1),
            **{name: str(facts[name]) for name in ("physics", "bundle", "bundle_hash") if name in facts},
            "created_at": str(run["created_at"]),
            **{str(name): str(text) for name, text in (config.notes or {}).items()},
        },
    )
    print(f"policy: {save_policy(config.out, checkpoint_weights(checkpoint), card)}")
    simulation.close()
    return 0


if __name__ == "__main__":
    cli_main(main)
