"""What an installed wheel must do away from any checkout; run by ``scripts/setup/wheel.sh`` in an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def command(*words: str) -> str:
    """Run a command of the environment; its output, stderr included."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]], capture_output=True, text=True, timeout=1800
    )
    output = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(words)} ended with code {done.returncode}:\n{output[-3000:]}")
    return output


def need(fact: object, text: str) -> None:
    """Stop where a fact does not hold; an assert would go with -O."""
    if not fact:
        sys.exit(f"error: {text}")


def main() -> None:
    import flashnerd_ext
    from flashnerd_ext import load_bundle, rollout
    from flashnerd_ext.bundle.store import self_test, shipped

    need(Path(flashnerd_ext.__file__).is_relative_to(sys.prefix), f"flashnerd_ext is {flashnerd_ext.__file__}")
    need(shipped(), "no bundle came with the wheel")
    for name in shipped():
        self_test(load_bundle(name))
    print(f"wheel: flashnerd-ext {flashnerd_ext.__version__}, bundles {', '.join(shipped())}")

    bundle = load_bundle("cartpole")
    card = bundle.card
    q, qd = rollout(bundle, np.zeros((4, card.nq)), np.zeros((4, card.nv)), np.ones((50, 4, card.nu)))
    need(np.isfinite(q).all() and np.isfinite(qd).all() and float(abs(q[-1]).max()) > 1e-3, "the cart did not move")
    print(f"wheel: a rollout of 50 steps, the cart went {float(q[-1, 0, 0]):.4f} m")

    listed = command("isaaclab", "list_envs")
    need("FlashNeRD-Cartpole" in listed, "isaaclab list_envs does not show FlashNeRD-Cartpole")
    print(f"wheel: isaaclab list_envs shows {listed.count('FlashNeRD-')} lines of ours")

    command("python", "-m", "flashnerd_ext.robots.assets.build")
    command(
        *("isaaclab", "train", "--rl_library", "rsl_rl", "--task", "FlashNeRD-Cartpole", "--num_envs", "16"),
        *("--max_iterations", "2", "--device", "cpu", "agent.device=cpu"),
    )
    [run] = Path("logs").glob("rsl_rl/*/*/run.json")
    need(json.loads(run.read_text())["task"] == "FlashNeRD-Cartpole", f"{run} is of another task")
    need((run.parent / "model_1.pt").is_file(), f"{run.parent} has no model_1.pt")
    print("wheel: isaaclab train made two iterations in learned physics")
    print("wheel: ok")


if __name__ == "__main__":
    main()
