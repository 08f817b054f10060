"""A running task, what evaluation, recording and refreshing start with; a process has one simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Simulation:
    """A running task.

    Attributes:
        env: Isaac Lab's rsl_rl wrapper around N environments.
        agent_cfg: Resolved agent configuration.
        facts: What the physics is, see :func:`flashnerd_ext.rl.manifest.physics_facts`.
    """

    env: Any
    agent_cfg: Any
    facts: dict[str, str]

    @property
    def unwrapped(self) -> Any:
        """Isaac Lab's own environment."""
        return self.env.unwrapped

    @property
    def max_steps(self) -> int:
        """Control steps of the longest episode."""
        return int(self.unwrapped.max_episode_length)

    def close(self) -> None:
        """End the simulation."""
        self.env.close()


def open_specified(spec: Mapping[str, Any], **changes: Any) -> Simulation:
    """:func:`open_simulation` for a child process, whose specification names everything.

    Args:
        spec: ``task``, ``physics``, ``agent``, ``bundle``, ``overrides``, ``num_envs``, ``device`` and ``seed``.
        changes: What is not as in the specification, or not in it.
    """
    names = ("task", "physics", "agent", "bundle", "overrides", "num_envs", "device", "seed")
    values = {name: spec[name] for name in names if name not in changes} | changes
    return open_simulation(values.pop("task"), values.pop("physics"), **values)


def open_simulation(
    task: str,
    physics: str,
    *,
    agent: str = "rsl_rl_cfg_entry_point",
    bundle: str = "",
    overrides: Sequence[str] = (),
    num_envs: int,
    device: str,
    seed: int,
    graphs: bool = True,
    adjust: Callable[[Any], None] | None = None,
    play: bool = False,
) -> Simulation:
    """Build the environments of a task in one physics.

    Args:
        task: Registered task id.
        physics: Preset; the one in ``overrides``, else the task's default, when empty.
        agent: Agent configuration of the task.
        bundle: Of learned physics; the task's when empty.
        overrides: ``env.`` and ``agent.`` words.
        num_envs: Environments N.
        device: ``cpu`` or ``cuda:0``.
        seed: Of the environments' first reset.
        graphs: Whether the step may be replayed as a CUDA graph, in which Python sees nothing of it.
        adjust: Changes the environment's configuration before it is built, such as its viewers.
        play: Whether the task's own changes for playing are made (fewer disturbances, no noise).

    Raises:
        FlashNerdError: For words that the task does not know.
    """
    from flashnerd_ext.rl.command import prepare_process

    prepare_process()
    import gymnasium as gym
    import isaaclab_tasks  # noqa: F401
    from isaaclab.cli import load_external_tasks
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from isaaclab_tasks.utils import resolve_task_config

    from flashnerd_ext.rl import manifest
    from flashnerd_ext.rl.overrides import check_applied, check_overrides, check_task, check_values

    load_external_tasks()
    name = check_task(task, agent)
    words = check_overrides(name, agent, [*([f"physics={physics}"] if physics else []), *overrides])
    resolved: tuple[Any, Any] = resolve_task_config(name, agent, play_mode=play, overrides=words)
    env_cfg, agent_cfg = resolved
    check_applied(name, agent, words, {"env": env_cfg, "agent": agent_cfg})
    check_values(env_cfg)
    solver = getattr(env_cfg.sim.physics, "solver_cfg", None)
    if bundle and solver is not None and hasattr(solver, "bundle"):
        solver.bundle = bundle
    if not graphs and hasattr(env_cfg.sim.physics, "use_cuda_graph"):
        env_cfg.sim.physics.use_cuda_graph = False
    env_cfg.scene.num_envs, env_cfg.sim.device, agent_cfg.device = num_envs, device, device
    env_cfg.seed = seed
    if adjust is not None:
        adjust(env_cfg)
    facts = manifest.physics_facts(name, env_cfg, words)
    env = gym.make(name, cfg=env_cfg)
    facts.update(manifest.running_bundle())
    wrapped = RslRlVecEnvWrapper(env, clip_actions=agent_cfg.clip_actions)  # type: ignore[arg-type]
    return Simulation(wrapped, agent_cfg, facts)
