"""Roll policies in a simulator: scores of their episodes, and a data set of what they visited.

python scripts/record_policy.py task=FlashNeRD-Velocity-Flat-AnymalC policy=logs/rsl_rl/RUN out=data/recorded \\
    num_envs=64 steps=500 noise=[0,1,2] pushes=0.25
python scripts/record_policy.py task=FlashNeRD-Cartpole policy=RUN out=outputs/learned physics=flashnerd record=false
"""

from __future__ import annotations

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.record.program import RecordConfig, run


def main() -> None:
    """Read the options and run."""
    run(parse(RecordConfig, doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
