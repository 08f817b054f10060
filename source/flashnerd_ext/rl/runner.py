"""The rsl_rl runner with safe checkpoints, a full resume, and exports that are checked before they are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.models import MLPModel
from rsl_rl.runners import DistillationRunner, OnPolicyRunner

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl import checkpoint as checkpoints
from flashnerd_ext.rl.best import best_line
from flashnerd_ext.rl.export import check_export, export_policy
from flashnerd_ext.rl.manifest import compare, read_manifest
from flashnerd_ext.rl.selectors import BEST
from flashnerd_ext.rl.symmetry import log_less

if TYPE_CHECKING:
    from flashnerd_ext.rl.best import BestByReturn
    from flashnerd_ext.rl.live_log import LiveLog
    from flashnerd_ext.rl.refresh.loop import Refresh


class _Safe:
    """Mixed into both rsl_rl runners. ``trust`` lets a checkpoint's Python objects be loaded (see checkpoint.py)."""

    trust = False
    training = False
    refresh: Refresh | None = None
    best: BestByReturn | None = None  # where no refresh decides what is best
    live: LiveLog | None = None
    facts: Mapping[str, str] = MappingProxyType({})  # what this run's physics is (manifest.physics_facts)

    def save(self: Any, path: str, infos: dict | None = None) -> None:
        """Write models, optimiser, normaliser, statistics and random state; the file appears whole, and the run's
        ``latest.pt`` points to it."""
        self.write(path, infos)
        checkpoints.point_latest(Path(path))
        self.logger.save_model(path, self.current_learning_iteration)

    def write(self: Any, path: str | Path, infos: dict | None = None) -> None:
        """Write the checkpoint alone."""
        content = self.alg.save()
        content["iter"] = self.current_learning_iteration
        content["infos"] = {**(infos or {}), checkpoints.STATE_KEY: self._state()}
        checkpoints.write_checkpoint(path, content)

    def load(
        self: Any, path: str, load_cfg: dict | None = None, strict: bool = True, map_location: str | None = None
    ) -> dict:
        """Load a checkpoint; while training, also what a resumed run goes on from.

        Returns:
            The checkpoint's ``infos``.
        """
        loaded = checkpoints.read_checkpoint(path, map_location or self.device, self.trust)
        for name in ("actor", "critic", "student", "teacher"):
            model = getattr(self.alg, f"_raw_{name}", None) or getattr(self.alg, name, None)
            stored = loaded.get(f"{name}_state_dict")
            if model is not None and stored is not None:
                checkpoints.check_weights(name, stored, model.state_dict(), path)
        if self.facts:
            for line in compare(read_manifest(Path(path).parent), self.facts):
                print(line)
        if Path(path).name == BEST and (line := best_line(Path(path).parent)):
            print(line)
        infos = loaded.get("infos") or {}
        if self.alg.load(loaded, load_cfg, strict):
            self.current_learning_iteration = loaded["iter"]
            if self.training:
                if self.refresh is not None:
                    self.refresh.resume(Path(path).parent, loaded["iter"])
                self._resume(path, loaded["iter"], infos.get(checkpoints.STATE_KEY))
        return infos

    def _state(self: Any) -> dict[str, Any]:
        logger = self.logger
        return {
            "random": checkpoints.random_state(),
            "total_steps": int(logger.tot_timesteps),
            "total_time": float(logger.tot_time),
            "returns": [float(value) for value in logger.rewbuffer],
            "lengths": [float(value) for value in logger.lenbuffer],
        }

    def _resume(self: Any, path: str, iteration: int, state: dict[str, Any] | None) -> None:
        # rsl_rl would repeat the iteration that the file was saved after.
        self.current_learning_iteration = iteration + 1
        if state is None:
            print(f"resuming from {path} at iteration {iteration + 1}; it has no random state or statistics.")
            return
        checkpoints.restore_random_state(state["random"])
        self.logger.tot_timesteps, self.logger.tot_time = state["total_steps"], state["total_time"]
        self.logger.rewbuffer.extend(state["returns"])
        self.logger.lenbuffer.extend(state["lengths"])
        print(f"resuming from {path} at iteration {iteration + 1}, {state['total_steps']} steps so far.")

    def learn(self: Any, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train; Ctrl-C keeps the last whole iteration in a checkpoint."""
        try:
            super().learn(num_learning_iterations, init_at_random_ep_len)  # type: ignore[misc]
            if self.refresh is not None:
                self.refresh.finish(self.current_learning_iteration)
            elif self.best is not None and self.best.iteration is not None:
                print(best_line(Path(self.logger.log_dir)))
        except KeyboardInterrupt:
            if self.logger.writer is not None:
                path = os.path.join(self.logger.log_dir, f"model_{self.current_learning_iteration}.pt")
                self.save(path)
                print(f"stopped; resume with --checkpoint {path}")
            raise
        finally:
            if self.refresh is not None:
                self.refresh.stop()
            if self.live is not None:
                self.live.close()

    def export_policy_to_jit(self: Any, path: str, filename: str = "policy.pt") -> None:
        """Export TorchScript, checked against this policy on the environment's observations."""
        self._export(Path(path) / filename, "jit")

    def export_policy_to_onnx(self: Any, path: str, filename: str = "policy.onnx", verbose: bool = False) -> None:
        """Export ONNX, checked against this policy on the environment's observations."""
        self._export(Path(path) / filename, "onnx")

    def _export(self: Any, target: Path, kind: str) -> None:
        policy = self.alg.get_policy()
        export_policy(policy, target, kind)
        if type(policy) is not MLPModel:
            print(f"exported {target}; a {type(policy).__name__} is not compared with the runner's actions.")
            return
        with torch.inference_mode():
            error = check_export(policy, target, self.env.get_observations())
        print(f"exported {target}; largest difference to the runner's actions {error:.1e}")


class SafeOnPolicyRunner(_Safe, OnPolicyRunner):
    """PPO."""


class SafeDistillationRunner(_Safe, DistillationRunner):
    """Student and teacher."""


def create_runner(env: Any, agent_cfg: Any, log_dir: str | None, training: bool, trust: bool) -> Any:
    """Build the runner that ``agent_cfg.class_name`` names.

    Raises:
        FlashNerdError: For a class that is not one of rsl_rl's two.
    """
    from isaaclab.utils import to_dict

    classes = {"OnPolicyRunner": SafeOnPolicyRunner, "DistillationRunner": SafeDistillationRunner}
    if agent_cfg.class_name not in classes:
        raise FlashNerdError(f"agent.class_name is '{agent_cfg.class_name}', needed is one of {', '.join(classes)}.")
    runner = classes[agent_cfg.class_name](env, to_dict(agent_cfg), log_dir=log_dir, device=agent_cfg.device)
    log_less(runner.alg)
    runner.training, runner.trust = training, trust
    return runner
