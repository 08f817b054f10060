"""Train a policy with rsl_rl: ``python scripts/rsl_rl/train.py --task FlashNeRD-Cartpole physics=flashnerd``."""

from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.command import train

if __name__ == "__main__":
    cli_main(train)
