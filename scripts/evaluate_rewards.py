"""Compare each reward term on the same motion: what learned physics supplies to it against the simulator.

    python scripts/evaluate_rewards.py task=FlashNeRD-Velocity-Flat-AnymalC json=outputs/rewards.json
    python scripts/evaluate_rewards.py task=FlashNeRD-Velocity-Flat-AnymalC policy=logs/rsl_rl/RUN json=OUT

The motion is recorded in the simulator and replayed in learned physics with the recorded states, forces and torques in
place of a model's, so that no error of a model is in it. docs/rewards.md has the results.
"""

from __future__ import annotations

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.rewards.program import RewardsConfig, run


def main() -> None:
    """Read the options and run."""
    run(parse(RewardsConfig, doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
