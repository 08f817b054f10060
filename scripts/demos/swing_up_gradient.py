"""A gradient through the learned CartPole finds forces that swing the pole up; then MuJoCo gets the same forces.

    python scripts/demos/swing_up_gradient.py --video --output outputs/demos/swing_up_gradient

A few hundred sine waves of force are tried in one batch; gradient descent through ``differentiable_rollout`` then
improves the best of them, all forces of the motion at once. No policy and no simulator takes part. The found forces are
played open loop in the learned model and in MuJoCo, and the table says where the pole is in both. Takes a minute or two
on two cores.
"""

from __future__ import annotations

import math
from typing import Any

from flashnerd_ext.errors import cli_main
from flashnerd_ext.view.stage import Report, Stage, read_options

LIMIT = 60.0
"""Largest force [N]."""
HOLD = 0.5
"""Time at the end in which the pole is to stand [s]."""
WAVES, GUESSES, UPDATES = 512, 6, 120
"""Waves that are tried, the best of them that are improved side by side, and updates of each."""
RAIL = 2.5
"""The cart should stay within this [m]; the stops are at 4 m."""
SCALE = 100.0
"""Newtons in one unit of action, as the task has it."""
UP = math.radians(15.0)
"""Closer to upright than this counts as up."""


def search(steps: int, dt: float, seed: int) -> tuple[Any, list[float]]:
    """Forces [T] that swing the pole up in the learned model, and the best loss of the waves and after each update."""
    import torch
    from tqdm import tqdm

    from flashnerd_ext import load_bundle
    from flashnerd_ext.model.differentiable import differentiable_rollout

    bundle = load_bundle("cartpole")
    tail = max(1, round(HOLD / dt))

    def losses_of(free: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forces [T, N] and the loss of each motion [N] for free numbers [T, N]."""
        force = LIMIT * torch.tanh(free)
        start = torch.tensor([[0.0, math.pi]]).repeat(free.shape[1], 1)
        joint_q, joint_qd = differentiable_rollout(bundle, start, torch.zeros_like(start), force[..., None])
        low = 1.0 - torch.cos(joint_q[-tail:, :, 1])
        rest = 0.02 * joint_qd[-tail:, :, 1] ** 2 + 0.02 * joint_qd[-tail:, :, 0] ** 2
        off = torch.relu(joint_q[..., 0].abs() - RAIL) ** 2
        return force, (low + rest).mean(0) + 5.0 * off.mean(0) + 2e-6 * (force**2).mean(0)

    generator = torch.Generator().manual_seed(seed)
    # A few slow waves: noise that changes every step moves nothing.
    time = torch.arange(steps)[:, None] * dt
    size, period, phase = (torch.rand((1, WAVES), generator=generator) for _ in range(3))
    waves = (0.2 + 0.8 * size) * torch.sin(2.0 * math.pi * (time / (0.7 + 1.8 * period) + phase))
    with torch.no_grad():
        _, found = losses_of(waves)
    chosen = torch.nan_to_num(found, nan=math.inf).argsort()[:GUESSES]
    free = waves[:, chosen].clone().requires_grad_()
    course = [float(found[chosen[0]])]
    optimiser = torch.optim.Adam([free], lr=0.04)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, UPDATES, eta_min=0.002)
    best, best_loss = torch.zeros(steps), math.inf
    for _ in tqdm(range(UPDATES), desc="gradient through the model", unit=" updates", disable=None):
        force, losses = losses_of(free)
        lowest = losses.detach().min(0)
        if float(lowest.values) < best_loss:
            best_loss, best = float(lowest.values), force[:, int(lowest.indices)].detach().clone()
        course.append(best_loss)
        optimiser.zero_grad()
        losses.sum().backward()
        grown = free.grad
        assert grown is not None
        # One motion whose gradient explodes must not be thrown far off.
        grown.copy_(torch.nan_to_num(grown / grown.norm(dim=0, keepdim=True).clamp_min(1e-12)))
        optimiser.step()
        plan.step()
    return best, course


def main() -> int:
    options = read_options("swing_up_gradient", __doc__ or "", seconds=2.2)
    import time

    import torch

    from flashnerd_ext import load_bundle

    dt = load_bundle("cartpole").card.dt
    begun = time.monotonic()
    forces, course = search(max(2, round(options.seconds / dt)), dt, options.seed)
    searched = time.monotonic() - begun

    def adjust(env_cfg: Any) -> None:
        env_cfg.episode_length_s = 10.0 * options.seconds
        env_cfg.terminations.cart_out_of_bounds = None
        still = {"velocity_range": (0.0, 0.0)}
        env_cfg.events.reset_cart_position.params.update(position_range=(0.0, 0.0), **still)
        env_cfg.events.reset_pole_position.params.update(position_range=(math.pi, math.pi), **still)

    stage = Stage(options, "FlashNeRD-Cartpole", "actions", adjust=adjust, stride=2)
    poles: list[Any] = []

    def act(observations: Any, step: int) -> torch.Tensor:
        return (forces[step] / SCALE).expand(2, 1).clone().to(options.device)

    def each(step: int) -> None:
        poles.append(stage.comparison.positions().copy())

    stage.run(act, each)
    report = Report("A swing-up found by a gradient through the learned CartPole, played in it and in MuJoCo C")
    report.add(
        "search",
        f"{WAVES} waves, then {UPDATES} updates of the best {GUESSES}, in {searched:.0f} s; loss of the best wave "
        f"{course[0]:.3g}, after the gradient {course[-1]:.3g}",
    )
    report.add("largest force", f"{float(forces.abs().max()):.0f} N of {LIMIT:.0f} N")
    tail = max(1, round(HOLD / dt))
    up = {}
    for robot, name in ((0, "learned"), (1, "MuJoCo")):
        angles = [abs(math.remainder(float(q[robot, 1]), 2.0 * math.pi)) for q in poles]
        up[name] = max(angles[-tail:]) < UP
        report.add(
            f"{name}: pole from upright",
            f"{math.degrees(angles[-1]):.1f} deg at the end, at most {math.degrees(max(angles[-tail:])):.1f} deg in "
            f"the last {HOLD:g} s: {'up' if up[name] else 'not up'}",
        )
        report.add(f"{name}: cart", f"within {max(abs(float(q[robot, 0])) for q in poles):.2f} m")
    report.facts.update(up=up, forces=[round(float(force), 4) for force in forces])
    stage.finish("swing_up_gradient", report, shown=0.999)
    return 0


if __name__ == "__main__":
    cli_main(main)
