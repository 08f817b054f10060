"""Train one task in several physics with the same seeds: reward against time, and what each policy is worth.

    python scripts/compare_training.py task=FlashNeRD-Cartpole physics=[newton_mjwarp,flashnerd] json=outputs/c.json
    python scripts/compare_training.py task=FlashNeRD-Velocity-Flat-AnymalC max_iterations=500 \\
        bundles='{flashnerd: runs/anymal_c, nerd_optimized: runs/anymal_c-nerd}' refresh=150 json=outputs/anymal.json
    python scripts/compare_training.py runs='{newton_mjwarp: [RUN, RUN], flashnerd: RUN}' \\
        physics=[newton_mjwarp,flashnerd] json=outputs/given.json

A comparison that was stopped goes on when it is typed again: trainings that had finished are kept.
"""

from __future__ import annotations

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.compare.options import CompareConfig
from flashnerd_ext.rl.compare.program import run


def main() -> None:
    """Read the options and run."""
    run(parse(CompareConfig, doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
