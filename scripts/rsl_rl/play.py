"""Play a policy: ``python scripts/rsl_rl/play.py --task FlashNeRD-Cartpole --checkpoint latest --video``."""

from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.command import play

if __name__ == "__main__":
    cli_main(play)
