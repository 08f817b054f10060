"""Coupled mode in an Isaac Lab environment, in a process of its own; prints one JSON object at the end.

Usage: ``python coupled_child.py CASE BUNDLE OUT_FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from backend_child import actions, answer, make, robot_of, sentences, solver_of

TASK = "Isaac-Cartpole"
STEPS = 12


def with_cube(cfg: Any) -> None:
    """An object in each world, which learned mode refuses, falling past the cart."""
    import isaaclab.sim as sim_utils
    from isaaclab.assets import RigidObjectCfg

    cfg.scene.cube = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Cube",
        spawn=sim_utils.CuboidCfg(
            size=(0.1, 0.1, 0.1),
            rigid_props=sim_utils.RigidBodyPropertiesCfg(),
            mass_props=sim_utils.MassPropertiesCfg(mass=0.5),
            collision_props=sim_utils.CollisionPropertiesCfg(),
        ),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(0.0, 0.0, 3.2)),
    )


def own_value(solver: Any) -> Any:
    """The scene's own acceleration as the prediction."""
    import torch
    import warp as wp

    columns = torch.from_numpy(solver.where.dofs).long().reshape(-1)

    def accelerate(joint_q: Any, joint_qd: Any, actuation: Any) -> Any:
        return wp.to_torch(solver.mjw_data.qacc_smooth)[:, columns].reshape(joint_qd.shape).clone()

    return accelerate


def motion(*overrides: str, known: bool) -> dict[str, Any]:
    """States of robot and cube over some control steps."""
    from isaaclab.sim import SimulationContext

    env = make(TASK, 4, *overrides, setup=with_cube)
    env.reset()
    robot, cube = robot_of(env), env.scene["cube"]
    facts: dict[str, Any] = {"handles": bool(env._physics_handles_decimation), "q": [], "cube": []}
    solver: Any = None
    if known:
        solver = solver_of(env)
        solver.stream.stepper.accelerate = own_value(solver)
        facts["solver"] = type(solver).__name__
    import torch

    start = torch.tensor([[0.0, 0.3], [0.1, -0.2], [-0.2, 0.1], [0.3, 0.0]])
    robot.write_joint_position_to_sim_index(position=start)
    robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(start))
    for i in range(STEPS):
        env.step(actions(env, i))
        facts["q"].append(robot.data.joint_pos.torch.tolist())
        facts["cube"].append(cube.data.root_link_pose_w.torch[:, :3].tolist())
    if known:
        facts["steps"] = solver.stream.steps
        facts["fallen_back"] = int(solver.guard.total.sum())
        facts["ended"] = env.termination_manager.get_term("flashnerd_guard").tolist()
    env.close()
    SimulationContext.clear_instance()
    return facts


def compare() -> dict[str, Any]:
    return {
        "learned": motion(known=True),
        "stock": motion("physics=newton_mjwarp", known=False),
    }


def refusals() -> dict[str, Any]:
    def wrong_coupling(cfg: Any) -> None:
        cfg.sim.physics.solver_cfg.coupling = "both"

    return sentences(
        TASK,
        dt={"words": ["env.sim.dt=0.01"]},
        substeps={"words": ["env.sim.physics.num_substeps=2"]},
        integrator={"words": ["env.sim.physics.solver_cfg.integrator=rk4"]},
        coupling={"setup": wrong_coupling},
    )


if __name__ == "__main__":
    answer({"compare": compare, "refusals": refusals})
