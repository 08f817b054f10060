"""One Isaac Lab environment in a process of its own, stepped on request; see ``env_throughput``.

Isaac Lab holds one simulation context a process, so two physics backends are two processes that take turns. A request
is one line of JSON on stdin, an answer is one line on the stdout that this process was given; what Isaac Lab prints
goes to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from flashnerd_ext.evaluation.soak import run_soak
from flashnerd_ext.physics.clock import timed_physics, wait

BASELINES = ("nerd", "nerd_optimized")
"""Names of a physics that is learned, with a bundle of that architecture."""


def main() -> int:
    """Build the environment, say so, then answer ``steps`` requests until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--physics", required=True)
    parser.add_argument("--num_envs", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bundle", default="")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.argv = sys.argv[:1]

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")

    try:
        with _environment(options) as env:
            answer(ready=_facts(env, options))
            for line in sys.stdin:
                request = json.loads(line)
                answer(**(run_soak if request.pop("soak", False) else run_steps)(env, **request))
    except BaseException as error:
        answer(error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        raise
    return 0


def run_steps(env: Any, count: int, seed: int, split: bool = True, stages: bool = False) -> dict[str, Any]:
    """Take ``count`` environment steps with uniform random actions in [-1, 1].

    Args:
        env: The environment.
        count: Environment steps.
        seed: Of the actions; equal seeds give equal actions whatever the backend.
        split: Time the physics manager as well; on a GPU that waits for the device at each of its calls.
        stages: Time the stages of the learned solver too (:mod:`flashnerd_ext.evaluation.stages`).

    Returns:
        ``wall`` and ``physics`` [s], ``steps``, ``resets``: episodes that ended, and ``stages`` [s] where asked for.
    """
    import torch

    base = env.unwrapped
    generator = torch.Generator().manual_seed(seed)
    shape = (base.num_envs, base.action_space.shape[-1])
    actions = (2 * torch.rand(count, *shape, generator=generator) - 1).to(base.device)
    resets = 0
    physics: Any = timed_physics(base) if split else nullcontext()
    with physics as clock, torch.inference_mode(), _stage_clock(base, stages) as clocks:
        wait(base.device)
        start = time.perf_counter()
        for action in actions:
            _, _, terminated, timed_out, _ = env.step(action)
            resets = resets + (terminated | timed_out).sum()
        wait(base.device)
        wall = time.perf_counter() - start
    return {
        "wall": wall,
        "physics": clock.total if clock is not None else 0.0,
        "calls": clock.calls if clock is not None else 0,
        "steps": count,
        "resets": int(resets),
        "stages": clocks.seconds if clocks is not None else {},
    }


def _stage_clock(base: Any, wanted: bool) -> AbstractContextManager[Any]:
    if not wanted:
        return nullcontext()
    from flashnerd_ext.errors import FlashNerdError
    from flashnerd_ext.evaluation.stages import StageClock
    from flashnerd_ext.physics.environment import running_robot

    solver = running_robot()
    if solver is None:
        raise FlashNerdError(
            "stages are those of learned mode, which does not run here: type physics=[flashnerd], with a bundle of it."
        )
    return StageClock(solver, lambda: wait(base.device)).active()


def _environment(options: argparse.Namespace) -> Any:
    from contextlib import contextmanager

    from flashnerd_ext.robots.assets import activate

    activate()
    import gymnasium
    import isaaclab_tasks  # noqa: F401
    from isaaclab.app import launch_simulation
    from isaaclab_tasks.utils import resolve_task_config

    importlib.import_module("flashnerd_tasks")  # registers our tasks, and physics=flashnerd on stock ones

    baseline = options.physics in BASELINES
    physics = "flashnerd" if baseline else options.physics
    env_cfg: Any = resolve_task_config(options.task, "", overrides=[f"physics={physics}"])[0]
    if options.bundle:
        env_cfg.sim.physics.solver_cfg.bundle = options.bundle
    if baseline:
        env_cfg.sim.physics.solver_cfg.model = options.physics
    env_cfg.scene.num_envs = options.num_envs
    env_cfg.sim.device = options.device
    env_cfg.seed = options.seed

    @contextmanager
    def opened() -> Any:
        with launch_simulation(env_cfg, {"device": options.device}):
            env = gymnasium.make(options.task, cfg=env_cfg)
            try:
                env.reset(seed=options.seed)
                yield env
            finally:
                env.close()

    return opened()


def _facts(env: Any, options: argparse.Namespace) -> dict[str, Any]:
    base = env.unwrapped
    return {
        "physics": options.physics,
        "manager": base.sim.physics_manager.step.__self__.__name__,
        "num_envs": base.num_envs,
        "decimation": base.cfg.decimation,
        "sim_dt": base.cfg.sim.dt,
        "device": str(base.device),
    }


if __name__ == "__main__":
    sys.exit(main())
