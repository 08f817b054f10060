"""Runs policies in one simulator and reports their episodes; a process of its own, since a process has one simulation.

``python -m flashnerd_ext.rl.rollouts SPEC.json``: the parent (transfer.py) writes the specification and reads the
result file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.children import PROGRESS

CLIP_SECONDS = 8.0
NETWORK_FIELDS = ("class_name", "hidden_dims", "activation", "obs_normalization")


def main() -> int:
    """Evaluate what the specification names; see :func:`evaluate`."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    write_json(spec["result"], evaluate(spec))
    return 0


def evaluate(spec: dict[str, Any]) -> dict[str, Any]:
    """Run every policy, evaluation seed and mode in one simulator.

    Args:
        spec: ``task``, ``agent``, ``physics`` (preset), ``bundle`` (of learned physics, or
            empty), ``overrides`` (words), ``num_envs``, ``episodes``, ``seeds``,
            ``modes``, ``device``, ``policies`` (list of checkpoint paths); ``clip`` (mp4 of the first seconds) and
            ``viz`` (live viewer) may be missing.

    Returns:
        ``facts`` of the physics, ``dt`` [s], ``max_steps`` of an episode, and ``runs``: for each policy, seed and mode
        the returns, lengths [steps] and survival (reached the time limit) of its episodes, in the order of the
        environments.
    """
    from flashnerd_ext.rl.simulation import open_specified

    clip, viz = spec.get("clip", ""), spec.get("viz", "none")

    def adjust(env_cfg: Any) -> None:
        from flashnerd_ext.view.viewers import add_viewers

        add_viewers(env_cfg, viz, bool(clip))

    shown = {"adjust": adjust} if clip or viz != "none" else {}
    simulation = open_specified(spec, seed=spec["seeds"][0], **shown)
    wrapped, agent_cfg, facts = simulation.env, simulation.agent_cfg, simulation.facts
    runs = []
    if clip:
        from flashnerd_ext.view.viewers import film

        film(simulation.unwrapped, clip, CLIP_SECONDS)
    try:
        for path in spec["policies"]:
            policy = load_policy(wrapped, agent_cfg, Path(path))
            for seed in spec["seeds"]:
                for mode in spec["modes"]:
                    episodes = run_episodes(wrapped, policy, seed, mode == "sampled", spec["episodes"])
                    runs.append({"policy": path, "seed": seed, "mode": mode, **episodes})
                    print(PROGRESS, path, seed, mode, flush=True)
        return {
            "facts": facts,
            "dt": float(simulation.unwrapped.step_dt),
            "max_steps": simulation.max_steps,
            "runs": runs,
        }
    finally:
        simulation.close()


def load_policy(env: Any, agent_cfg: Any, path: Path) -> Any:
    """The policy of a checkpoint, with the network that its run's ``params/agent.yaml`` describes."""
    from isaaclab_rl.rsl_rl import check_rsl_rl_version, handle_deprecated_rsl_rl_cfg

    from flashnerd_ext.rl.runner import create_runner

    fitted = apply_network(agent_cfg, path.parent)
    fitted = handle_deprecated_rsl_rl_cfg(fitted, check_rsl_rl_version())
    runner = create_runner(env, fitted, None, training=False, trust=False)
    runner.load(str(path))
    return runner.get_inference_policy(device=env.unwrapped.device)


def apply_network(agent_cfg: Any, run: Path) -> Any:
    """A copy of ``agent_cfg`` whose networks are those of the run, where the run says so.

    Raises:
        FlashNerdError: Where ``params/agent.yaml`` cannot be read.
    """
    import copy

    import yaml

    fitted = copy.deepcopy(agent_cfg)
    path = run / "params" / "agent.yaml"
    if not path.is_file():
        return fitted

    class Loader(yaml.SafeLoader):
        """Safe, and knows the one tag that Isaac Lab's own files use."""

    def sequence(loader: Any, node: Any) -> list[Any]:
        return loader.construct_sequence(node)

    Loader.add_constructor("tag:yaml.org,2002:python/tuple", sequence)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
        for name in ("actor", "critic", "student", "teacher"):
            network, target = content.get(name), getattr(fitted, name, None)
            if isinstance(network, dict) and target is not None:
                for field in NETWORK_FIELDS:
                    if field in network and hasattr(target, field):
                        setattr(target, field, network[field])
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError):
        raise FlashNerdError(f"{path} is not the agent file of a run: restore it, or train the policy again.") from None
    return fitted


def run_episodes(env: Any, policy: Any, seed: int, sampled: bool, episodes: int) -> dict[str, list[float]]:
    """The first whole episodes of every environment, from a reset with ``seed``.

    Every environment gives the same number of episodes, so that short ones are not counted more often than long ones.

    Args:
        env: Isaac Lab's rsl_rl wrapper around N environments.
        policy: rsl_rl model.
        seed: Of the resets and of sampled actions.
        sampled: Draw actions from the policy's distribution instead of taking its mean.
        episodes: Wanted in all; ceil(episodes / N) from each environment.

    Returns:
        ``returns``, ``lengths`` and ``survived`` (1.0 or 0.0), each of ceil(episodes / N) * N values.
    """
    import torch

    from flashnerd_ext.runtime import seed_everything

    unwrapped = env.unwrapped
    count = -(-episodes // env.num_envs)
    total = torch.zeros(env.num_envs, device=env.device)
    length = torch.zeros_like(total)
    done_before = torch.zeros(env.num_envs, dtype=torch.long, device=env.device)
    table = torch.full((3, count, env.num_envs), float("nan"), device=env.device)
    with torch.inference_mode():
        unwrapped.seed(seed)
        seed_everything(seed)
        observations, _ = env.reset()
        policy.reset()
        # One step more than an episode can last: a reset may take a step of its own.
        for _ in range(count * (int(unwrapped.max_episode_length) + 1)):
            actions = policy(observations, stochastic_output=True) if sampled else policy(observations)
            observations, rewards, dones, _ = env.step(actions)
            policy.reset(dones)
            total += rewards
            length += 1
            ended = (dones > 0).nonzero().squeeze(-1)
            counted = ended[done_before[ended] < count]
            rows = done_before[counted]
            survived = unwrapped.reset_time_outs[counted] & ~unwrapped.reset_terminated[counted]
            table[0, rows, counted], table[1, rows, counted] = total[counted], length[counted]
            table[2, rows, counted] = survived.float()
            done_before[ended] += 1
            total[ended], length[ended] = 0.0, 0.0
            if bool((done_before >= count).all()):
                break
    if bool(table.isnan().any()):
        raise FlashNerdError(
            f"an episode did not end within {int(unwrapped.max_episode_length) + 1} steps, or its return is not finite."
        )
    names = ("returns", "lengths", "survived")
    return {name: [float(value) for value in table[i].flatten().cpu()] for i, name in enumerate(names)}


if __name__ == "__main__":
    cli_main(main)
