"""Evaluate policies in the physics they were trained in and in others, and make the transfer table.

python scripts/evaluate_policy.py task=FlashNeRD-Cartpole \\
    policies='{flashnerd: PATH, newton_mjwarp: [PATH, PATH]}' num_envs=256 seeds=[0,1] json=outputs/policies.json
--video (or video=true) makes a clip of the first policy in each physics, --viz NAME shows the evaluation live.
"""

import sys

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.transfer import TransferConfig, run
from flashnerd_ext.view.choose import as_options


def main() -> None:
    """Read the options and run."""
    run(parse(TransferConfig, as_options(sys.argv[1:]), doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
