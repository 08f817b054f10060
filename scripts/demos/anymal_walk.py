"""ANYmal-C walks on a learned body and is pushed; the ghost walks in MuJoCo, with the same policy and the same push.

    python scripts/demos/anymal_walk.py --video --output outputs/demos/anymal_walk

The policy lies beside this file (scripts/demos/anymal_c_policy; its card says how it was made). Takes some minutes on
two cores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashnerd_ext.errors import cli_main
from flashnerd_ext.view.stage import Report, Stage, read_options

POLICY = Path(__file__).with_name("anymal_c_policy")
SPEED = 0.7
"""Commanded speed, straight on [m/s]."""
PUSH = 0.9
"""Change of the base's speed to the left [m/s]."""
WHEN = 0.5
"""Place of the push in the run."""
FALLEN = 0.3
"""Base below this has fallen [m]."""


def main() -> int:
    options = read_options("anymal_walk", __doc__ or "", seconds=6.0)
    import torch

    from flashnerd_ext.rl.policy_file import load_policy

    policy = load_policy(POLICY).to(options.device)

    def adjust(env_cfg: Any) -> None:
        env_cfg.episode_length_s = 10.0 * options.seconds
        command = env_cfg.commands.base_velocity
        command.resampling_time_range = (1e6, 1e6)
        command.rel_standing_envs = 0.0
        command.ranges.lin_vel_x, command.ranges.lin_vel_y = (SPEED, SPEED), (0.0, 0.0)
        command.ranges.ang_vel_z = command.ranges.heading = (0.0, 0.0)
        command.debug_vis = False
        env_cfg.events.reset_base.params["pose_range"] = {"x": (0.0, 0.0), "y": (0.0, 0.0), "yaw": (0.0, 0.0)}
        env_cfg.events.reset_base.params["velocity_range"] = {}

    stage = Stage(options, "FlashNeRD-Velocity-Flat-AnymalC", "policy", adjust=adjust, stride=3)
    policy.check(stage.env)
    pushed, path = round(WHEN * stage.steps), []

    def act(observations: Any, step: int) -> torch.Tensor:
        if step == pushed:
            from isaaclab.envs.mdp import push_by_setting_velocity

            both = torch.arange(2, dtype=torch.int32, device=options.device)
            push_by_setting_velocity(stage.env, both, {"y": (PUSH, PUSH)})
        return policy(observations["policy"])

    def each(step: int) -> None:
        path.append(stage.comparison.positions()[:, :3].copy())

    stage.run(act, each)
    report = Report(
        f"ANYmal-C told to walk at {SPEED:g} m/s, pushed by {PUSH:g} m/s to the left after {pushed * stage.dt:.1f} s"
    )
    for robot, name in ((0, "learned"), (1, "MuJoCo")):
        x, _, height = (float(path[-1][robot, i] - (path[0][robot, i] if i < 2 else 0.0)) for i in range(3))
        before = float(path[pushed][robot, 0] - path[0][robot, 0]) / (pushed * stage.dt)
        aside = float(path[-1][robot, 1] - path[pushed][robot, 1])
        low = min(float(place[robot, 2]) for place in path)
        report.add(f"{name}: way, speed before the push", f"{x:.2f} m in {options.seconds:g} s, {before:.2f} m/s")
        report.add(f"{name}: aside after the push", f"{aside:+.2f} m")
        stands = f"stands at {height:.2f} m" if low > FALLEN else f"was at {low:.2f} m: fell"
        report.add(f"{name}: base", f"{stands}, lowest {low:.2f} m")
    stage.finish("anymal_walk", report, shown=WHEN + 0.06)
    return 0


if __name__ == "__main__":
    cli_main(main)
