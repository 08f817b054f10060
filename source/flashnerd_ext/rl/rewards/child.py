"""Records a motion in the simulator, or replays it in learned physics; a process has one simulation.

``python -m flashnerd_ext.rl.rewards.child SPEC.json``. Lines that begin with ``PROGRESS`` are for the parent.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.rl.children import PROGRESS
from flashnerd_ext.rl.rewards.motion import Motion, Seen
from flashnerd_ext.rl.rewards.watch import Watch
from flashnerd_ext.rl.simulation import Simulation, open_specified

MOTION = "motion.npz"


def main() -> int:
    """Do what the specification says: ``kind`` is ``record`` or ``replay``."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    simulation = open_specified(spec, graphs=False)
    try:
        seen = {"record": record, "replay": replay}[spec["kind"]](simulation, spec)
        seen.save(Path(spec["result"]))
    finally:
        simulation.close()
    return 0


def record(simulation: Simulation, spec: dict[str, Any]) -> Seen:
    """Roll the task in the simulator, and write the motion into ``spec["folder"]``."""
    import torch

    from flashnerd_ext.data.engines.export import export_model
    from flashnerd_ext.rl.record.program import robot_of
    from flashnerd_ext.rl.record.tap import Tap
    from flashnerd_ext.rl.rewards.actions import policy_actions, sampled_actions

    robot, unwrapped, steps = robot_of(spec["task"]), simulation.unwrapped, spec["steps"]
    tap, watch = Tap(robot, export_model(robot)), Watch(unwrapped)
    actions, moments, ends = [], [], []
    with torch.inference_mode():
        choose = (
            policy_actions(simulation, Path(spec["policy"]), spec["noise"])
            if spec["policy"]
            else sampled_actions(simulation, robot, spec["motions"], steps, spec["seed"])
        )
        observations = _begin(simulation, spec["seed"])
        for t in range(steps):
            action = choose(t, observations)
            tap.begin()
            observations = simulation.env.step(action)[0]
            moments.append(tap.moment())
            actions.append(action.cpu().numpy().copy())
            ends.append(tuple(_flags(part) for part in (unwrapped.reset_terminated, unwrapped.reset_time_outs)))
            _progress(t)
    Motion.of(actions, moments, ends).save(Path(spec["folder"]) / MOTION)
    return watch.seen()


def replay(simulation: Simulation, spec: dict[str, Any]) -> Seen:
    """Run the recorded motion through the learned backend, with an oracle in the model's place."""
    import torch

    from flashnerd_ext.physics.environment import running_solver
    from flashnerd_ext.rl.rewards.oracle import Oracle

    solver: Any = running_solver()
    if solver is None:
        raise FlashNerdError(f"learned is '{spec['physics']}', but learned physics is needed: type learned=flashnerd.")
    motion = Motion.load(Path(spec["folder"]) / MOTION)
    stepper = solver.stream.stepper
    oracle = Oracle(stepper, motion, len(solver.contact_stage.links))
    stepper.step = oracle.step
    watch, ends = Watch(simulation.unwrapped), Ends(simulation.unwrapped, motion)
    with torch.inference_mode():
        _begin(simulation, spec["seed"])
        for t in range(motion.steps):
            ends.step_number = t
            simulation.env.step(torch.from_numpy(motion.action[t]).to(simulation.unwrapped.device))
            if oracle.step_number != t + 1:
                raise FlashNerdError(
                    f"the model stepped {oracle.step_number} times in {t + 1} control steps, but one step each is "
                    "compared: give a bundle of the control rate."
                )
            _progress(t)
    return watch.seen()


class Ends:
    """Ends the episodes that ended in the recording, whatever the terms say, so that both go on alike.

    Args:
        env: Isaac Lab's own environment.
        motion: The recording.
    """

    def __init__(self, env: Any, motion: Motion) -> None:
        self._manager, self._motion, self.step_number = env.termination_manager, motion, 0
        self._original = self._manager.compute
        self._manager.compute = self._compute

    def _compute(self) -> Any:
        import torch

        manager, motion = self._manager, self._motion
        self._original()
        for buffer, flags in (
            (manager._terminated_buf, motion.terminated),
            (manager._truncated_buf, motion.timed_out),
        ):
            buffer.copy_(torch.from_numpy(flags[self.step_number]))
        return manager.dones


def _begin(simulation: Simulation, seed: int) -> Any:
    """Reset all environments from a seed; returns their observations."""
    from flashnerd_ext.runtime import seed_everything

    simulation.unwrapped.seed(seed)
    seed_everything(seed)
    return simulation.env.reset()[0]


def _flags(tensor: Any) -> np.ndarray:
    return tensor.cpu().numpy().astype(bool).copy()


def _progress(step: int) -> None:
    if (step + 1) % 10 == 0:
        print(PROGRESS, step + 1, flush=True)


if __name__ == "__main__":
    cli_main(main)
