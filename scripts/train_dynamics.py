"""Train a dynamics model on a data set and save it as a bundle.

python scripts/train_dynamics.py robot=cartpole model=flashnerd data=data/cartpole train.minutes=10
torchrun --nproc_per_node=2 scripts/train_dynamics.py robot=cartpole    # data-parallel
"""

from __future__ import annotations

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import cli_main
from flashnerd_ext.training.config import TrainDynamicsConfig


def main() -> None:
    config = parse(TrainDynamicsConfig, doc=__doc__)
    from flashnerd_ext.training.dynamics import train_dynamics

    train_dynamics(config)


if __name__ == "__main__":
    cli_main(main)
