"""A long run of learned physics: does memory stay flat, and does the guard catch every state that is none.

The environment is stepped with random actions under whatever its task does (resets, pushes, randomisation). After each
step the state that Isaac Lab reads is looked at, not the guard's own: a value that is not finite, or further outside of
the training data than the guard allows, is a world that got past it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED
from flashnerd_ext.files import atomic_save

if TYPE_CHECKING:
    import torch

    from flashnerd_ext.solver.guard import Bounds

MIB = 2**20


def resident() -> float:
    """Memory of this process that is in RAM [MiB]."""
    import psutil

    return psutil.Process().memory_info().rss / MIB


def run_soak(env: Any, count: int, seed: int) -> dict[str, Any]:
    """Step an environment under learned physics.

    Args:
        env: The environment.
        count: Steps.
        seed: Of the actions.

    Returns:
        ``memory`` [MiB] before and after, ``held``: world steps that the guard held, ``passed``: world steps with a
        state that it should have held, ``resets``: episodes that ended, ``world_steps``.

    Raises:
        FlashNerdError: Where no learned physics runs.
    """
    import torch

    from flashnerd_ext.errors import FlashNerdError
    from flashnerd_ext.physics.environment import running_robot

    solver = running_robot()
    if solver is None:
        raise FlashNerdError(
            "soak looks at learned physics, which does not run here: type physics=[flashnerd], with a bundle of "
            "learned mode."
        )
    base = env.unwrapped
    generator = torch.Generator().manual_seed(seed)
    shape = (base.num_envs, base.action_space.shape[-1])
    before = int(solver.guard.total.sum())
    memory, resets = [resident()], 0
    with torch.inference_mode(), Watch(solver) as watch:
        for _ in range(count):
            action = 2 * torch.rand(*shape, generator=generator) - 1
            _, _, terminated, timed_out, _ = env.step(action.to(base.device))
            resets += int((terminated | timed_out).sum())
    memory.append(resident())
    return {
        "memory": memory,
        "steps": count,
        "held": int(solver.guard.total.sum()) - before,
        "passed": watch.passed,
        "resets": resets,
        "world_steps": count * base.num_envs,
    }


class Watch:
    """Looks at what the solver writes, between its step and all that the environment does to the state afterwards.

    Attributes:
        passed: World steps with a state that the guard should have held.
    """

    def __init__(self, solver: Any) -> None:
        import torch
        import warp as wp

        from flashnerd_ext.solver.mapping import map_state

        model, card = solver.model, solver.bundle.card
        self._solver, self._original, self.passed = solver, solver.step, 0
        self._map = map_state(model, card.layout, card.name, torch.device(wp.device_to_torch(model.device)))

    def __enter__(self) -> Watch:
        self._solver.step = self._step
        return self

    def __exit__(self, *_: object) -> None:
        self._solver.step = self._original

    def _step(self, state_in: Any, state_out: Any, *rest: Any) -> None:
        import warp as wp

        self._original(state_in, state_out, *rest)
        joint_q, joint_qd = (
            wp.to_torch(array, requires_grad=False).view(self._map.worlds, -1).index_select(1, columns)
            for array, columns in ((state_out.joint_q, self._map.q), (state_out.joint_qd, self._map.v))
        )
        guard = self._solver.guard
        # A held world stands still where it was, which is where something else may have put it.
        self.passed += int((outside(joint_q, joint_qd, guard.bounds) & ~guard.failed).sum())


def outside(joint_q: torch.Tensor, joint_qd: torch.Tensor, bounds: Bounds) -> torch.Tensor:
    """Worlds with a value that is not finite or out of bounds, boolean [N]; a thousandth of rounding is allowed."""
    import torch

    state = torch.cat((joint_q, joint_qd), 1).double()
    lower, upper = (state.new_tensor(side) for side in (bounds.lower, bounds.upper))
    slack = 1e-3 * (upper - lower).clamp_max(1.0)
    inside = torch.isfinite(state) & (state >= lower - slack) & (state <= upper + slack)
    return ~inside.all(1)


def joined(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parts of one run, each with its first reading where the one before it ended."""
    sums = {name: sum(run[name] for run in runs) for name in ("steps", "held", "passed", "resets", "world_steps")}
    memory = [runs[0]["memory"][0], *(value for run in runs for value in run["memory"][1:])]
    return {**sums, "memory": memory, "every": runs[0]["steps"]}


def growth(result: Mapping[str, Any]) -> float:
    """Memory that came in the second half of the run [MiB]; what is made once is made in the first."""
    memory = result["memory"]
    return memory[-1] - memory[len(memory) // 2]


def table(results: Mapping[int, Mapping[str, Any]]) -> str:
    """Text table, one row a number of environments."""
    head = f"{'environments':>12} {'steps':>7} {'resets':>9} {'held by the guard':>20} {'got past it':>12}"
    lines = [f"{head} {'memory at start, middle, end [MiB]':>36}", "-" * 101]
    for count, found in results.items():
        memory = found["memory"]
        share = found["held"] / max(found["world_steps"], 1)
        mib = f"{memory[0]:.0f}, {memory[len(memory) // 2]:.0f}, {memory[-1]:.0f} ({growth(found):+.1f})"
        held = f"{found['held']:,} ({100 * share:.3f} %)"
        lines.append(
            f"{count:>12,} {found['steps']:>7,} {found['resets']:>9,} {held:>20} {found['passed']:>12,} {mib:>36}"
        )
    return "\n".join(lines)


def plot(path: Path, results: Mapping[int, Mapping[str, Any]], title: str) -> Path:
    """Memory over the run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), dpi=100, layout="constrained", facecolor="white")
    axis: Any = figure.subplots()
    for count, found in results.items():
        steps = [min(k * found["every"], found["steps"]) for k in range(len(found["memory"]))]
        axis.plot(steps, found["memory"], label=f"{count:,} environments")
    axis.set_ylim(0)
    axis.set_xlabel("control steps", color=MUTED)
    axis.set_ylabel("memory of the process [MiB]", color=MUTED)
    axis.grid(color=GRID)
    axis.legend(frameon=False)
    axis.set_title(title, color=INK, fontsize=10)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return atomic_save(path, lambda temporary: figure.savefig(temporary, format="png"))
