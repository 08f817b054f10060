"""The shipped CartPole model beside the simulator: same start, same forces, as a clip, a picture and a table.

    python scripts/demos/cartpole.py --video --output outputs/demos/cartpole

The cart is driven to and fro so that the pole swings round and round; the ghost is MuJoCo. Takes a minute or two on two
cores.
"""

from __future__ import annotations

import math
from typing import Any

from flashnerd_ext.errors import cli_main
from flashnerd_ext.view.stage import Report, Stage, read_options

FORCE = 80.0
"""Amplitude of the force [N]."""
PERIOD = 1.3
"""Of the force [s]."""
HOLD, DAMP = 60.0, 25.0
"""Pull of the cart to the middle of its rail [N/m] and [N s/m]."""
SCALE = 100.0
"""Newtons in one unit of action, as the task has it."""


def main() -> int:
    options = read_options("cartpole", __doc__ or "", seconds=6.0)
    import torch

    def adjust(env_cfg: Any) -> None:
        env_cfg.episode_length_s = 10.0 * options.seconds
        env_cfg.events.reset_cart_position.params.update(position_range=(0.0, 0.0), velocity_range=(0.0, 0.0))
        env_cfg.events.reset_pole_position.params.update(position_range=(0.3, 0.3), velocity_range=(0.0, 0.0))

    stage = Stage(options, "FlashNeRD-Cartpole", "actions", adjust=adjust, stride=3)

    def act(observations: Any, step: int) -> torch.Tensor:
        place, _, speed, _ = observations["policy"][:1].T
        force = FORCE * math.sin(2.0 * math.pi * step * stage.dt / PERIOD) - HOLD * place - DAMP * speed
        return (force / SCALE).expand(2)[:, None].clone()

    stage.run(act)
    report = Report("CartPole: the shipped bundle beside MuJoCo C, same start and same forces")
    history = list(stage.comparison.history)
    for time in (1.0, 2.0, 5.0, options.seconds):
        if time <= history[-1].time + 1e-9:
            moment = min(history, key=lambda found: abs(found.time - time))
            report.add(f"apart after {time:g} s", ", ".join(f"{v[0]:.2g} {k}" for k, v in moment.errors.items()))
    stage.finish("cartpole", report)
    return 0


if __name__ == "__main__":
    cli_main(main)
