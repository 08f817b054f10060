"""Evaluate policies in the physics they were trained in and in others, and make the transfer table.

python scripts/evaluate_policy.py task=FlashNeRD-Cartpole \\
    policies='{flashnerd: PATH, newton_mjwarp: [PATH, PATH]}' num_envs=256 seeds=[0,1] json=outputs/policies.json
"""

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.transfer import TransferConfig, run


def main() -> None:
    """Read the options and run."""
    run(parse(TransferConfig, doc=__doc__))


if __name__ == "__main__":
    cli_main(main)
