"""Play a policy and write what happens as a USD stage, for usdview and Omniverse.

python scripts/export_usd.py --task FlashNeRD-Velocity-Flat-AnymalC --checkpoint best --num_envs 16 --steps 250 \\
    --output outputs/anymal.usd
python scripts/export_usd.py --task FlashNeRD-Cartpole --actions random physics=newton_mjwarp

The file has time samples on the scene's own prims, cloned environments included, and no physics, so that it plays as
recorded. Words such as physics=NAME, env.KEY=VALUE and agent.KEY=VALUE are those of scripts/rsl_rl/play.py.
"""

from flashnerd_ext.errors import cli_main
from flashnerd_ext.rl.export_usd import run


def main() -> None:
    """Read the words and run."""
    run(__doc__)


if __name__ == "__main__":
    cli_main(main)
