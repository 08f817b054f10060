"""Isaac Lab environments for the backend's tests, in a process of their own; prints one JSON object at the end.

Isaac Lab reads its asset root at import and keeps one simulation a process, so the tests start this file.
Usage: ``python backend_child.py CASE BUNDLE OUT_FOLDER``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashnerd_ext.robots.assets import activate

activate("local")

import gymnasium as gym  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import torch  # noqa: E402
import warp as wp  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402

import flashnerd_tasks  # noqa: E402, F401  # pyright: ignore[reportMissingImports]
from flashnerd_ext.errors import FlashNerdError  # noqa: E402

BUNDLE, FOLDER = sys.argv[2], Path(sys.argv[3])


def make(task: str, count: int, *overrides: str, setup: Any = None) -> Any:
    physics = [] if any(o.startswith("physics=") for o in overrides) else ["physics=flashnerd"]
    solver = [] if physics == [] else [f"env.sim.physics.solver_cfg.bundle={BUNDLE}"]
    cfg: Any = resolve_task_config(task, None, overrides=[*physics, *solver, *overrides])[0]
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = count, "cpu", 7
    if physics:
        cfg.sim.physics.solver_cfg.dump_dir = str(FOLDER / "dumps")
    if setup is not None:
        setup(cfg)
    return gym.make(task, cfg=cfg).unwrapped


def solver_of(env: Any) -> Any:
    from flashnerd_ext.physics.environment import running_solver

    solver = running_solver()
    assert solver is not None
    return solver


def robot_of(env: Any) -> Any:
    return next(iter(env.scene.articulations.values()))


def consistent(env: Any) -> bool:
    """Whether every body pose and velocity that can be read is that of the joints."""
    import newton
    from isaaclab_newton.physics import NewtonManager

    data, model = robot_of(env).data, NewtonManager.get_model()
    poses = data.body_link_pose_w.torch.clone()
    fresh: Any = model.state()
    state: Any = NewtonManager.get_state_0()
    newton.eval_fk(model, state.joint_q, state.joint_qd, fresh)
    expected = wp.to_torch(fresh.body_q).view(poses.shape)
    return bool((poses - expected).abs().max() < 1e-5)


def break_world(env: Any, world: int) -> Any:
    """Let the model give NaN for one world until the returned function is called."""
    stepper = solver_of(env).stream.stepper
    original = stepper.step

    def broken(*arguments: Any) -> Any:
        q, qd = original(*arguments)
        q = q.clone()
        q[world] = float("nan")
        return q, qd

    stepper.step = broken
    return lambda: setattr(stepper, "step", original)


def actions(env: Any, seed: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * (2 * torch.rand(env.num_envs, 1, generator=generator) - 1)


def run(task: str, terms: bool) -> dict[str, Any]:
    """One task through its life: steps, an automatic reset, a held world, hard resets."""
    env = make(task, 8, "env.episode_length_s=0.5")
    facts: dict[str, Any] = {"handles_decimation": bool(env._physics_handles_decimation)}
    env.reset()
    solver, robot = solver_of(env), robot_of(env)
    before = env.sim.physics_manager._sim_time
    finite, fits, ages, accelerations = True, consistent(env), [], []
    for i in range(29):
        last = robot.data.joint_vel.torch.clone()
        obs, *_ = env.step(actions(env, i))
        finite &= bool(torch.isfinite(obs["policy"]).all())
        fits &= consistent(env)
        if i == 10:
            change = (robot.data.joint_vel.torch - last) / env.step_dt
            accelerations.append(float((robot.data.joint_acc.torch - change).abs().max()))
        # The episode has 30 steps; the 29th step still belongs to it.
        ages.append(solver.stream.stepper.cache.age.tolist())
    facts["model_steps"] = solver.stream.steps
    facts["sim_time"] = env.sim.physics_manager._sim_time - before
    facts["age_before_reset"] = ages[-1]
    env.step(actions(env, 99))
    facts["time_outs"] = int(env.reset_time_outs.sum())
    fits &= consistent(env)
    env.step(actions(env, 100))
    facts["age_after_reset"] = solver.stream.stepper.cache.age.tolist()
    facts["acceleration_error"] = max(accelerations)

    restore = break_world(env, 5)
    obs, _, terminated, *_ = env.step(actions(env, 101))
    restore()
    facts["terminated"] = terminated.tolist()
    facts["log"] = float(env.extras["log"]["Episode_Termination/flashnerd_guard"])
    if terms:
        facts["term"] = env.termination_manager.get_term("flashnerd_guard").tolist()
    finite &= bool(torch.isfinite(obs["policy"]).all())
    facts["pending_after"] = solver.guard.pending.tolist()
    fits &= consistent(env)
    report = json.loads((FOLDER / "dumps" / "latest" / "report.json").read_text())
    facts["dump"] = {key: report[key] for key in ("worlds", "causes", "bundle", "env")}
    for i in range(3):
        obs, *_ = env.step(actions(env, 110 + i))
        finite &= bool(torch.isfinite(obs["policy"]).all())
    facts["held_afterwards"] = int(solver.guard.total.sum())

    # An interval event that pushes: a velocity written in mid-episode keeps the past.
    robot.write_joint_velocity_to_sim_index(
        velocity=robot.data.joint_vel.torch[:2] + 0.5, env_ids=torch.tensor([0, 1], dtype=torch.int32)
    )
    env.step(actions(env, 120))
    facts["age_after_push"] = solver.stream.stepper.cache.age[:2].tolist()

    for _ in range(2):
        env.sim.reset()
    facts["rebuilt"] = solver_of(env) is not solver
    obs, _ = env.reset()
    for i in range(4):
        obs, *_ = env.step(actions(env, 130 + i))
        finite &= bool(torch.isfinite(obs["policy"]).all())
        fits &= consistent(env)
    facts["steps_after_rebuild"] = solver_of(env).stream.steps
    moved = robot.data.joint_vel.torch.clone()
    env.step(actions(env, 140))
    facts["moves_after_rebuild"] = bool((robot.data.joint_vel.torch != moved).all(1).any())
    with torch.inference_mode():
        obs, *_ = env.step(actions(env, 141))
    facts["finite"], facts["consistent"] = finite, fits
    env.close()
    return facts


def refusal(*arguments: Any, **keywords: Any) -> str:
    """The sentence with which building an environment, or its first step, is refused."""
    from isaaclab.sim import SimulationContext

    step = keywords.pop("step", False)
    try:
        env = make(*arguments, **keywords)
        if step:
            env.reset()
            for _ in range(3):
                env.step(torch.zeros(env.num_envs, 1))
        env.close()
    except FlashNerdError as error:
        return str(error)
    finally:
        SimulationContext.clear_instance()
    return ""


def sentences(task: str, **cases: dict[str, Any]) -> dict[str, str]:
    """What is said in each case, which is ``words`` of the command line and other keywords of :func:`refusal`."""
    return {name: refusal(task, 2, *case.pop("words", ()), **case) for name, case in cases.items()}


def answer(cases: dict[str, Callable[[], Any]]) -> None:
    """Print the result of the case that the command line names."""
    print("RESULT" + json.dumps(cases[sys.argv[1]]()), flush=True)


def mass_event(mode: str, low: float, high: float, strict: bool = False) -> Any:
    """Setup that randomises the pole's mass."""

    def setup(cfg: Any) -> None:
        from isaaclab.envs import mdp
        from isaaclab.managers import EventTermCfg, SceneEntityCfg

        cfg.sim.physics.solver_cfg.strict = strict
        cfg.events.heavier = EventTermCfg(
            func=mdp.randomize_rigid_body_mass,  # pyright: ignore[reportArgumentType]
            mode=mode,
            params={
                "asset_cfg": SceneEntityCfg("robot", body_names="pole"),
                "mass_distribution_params": (low, high),
                "operation": "abs",
            },
        )

    return setup


def negative_mass() -> str:
    """An event that writes a mass below zero, as Isaac Lab's would write any other."""
    from isaaclab_newton.physics import NewtonManager
    from newton import ModelFlags

    env = make("Isaac-Cartpole", 2)
    env.reset()
    model: Any = NewtonManager.get_model()
    wp.to_torch(model.body_mass)[5] = -1.0
    NewtonManager.add_model_change(ModelFlags.BODY_INERTIAL_PROPERTIES)
    try:
        env.step(torch.zeros(2, 1))
    except FlashNerdError as error:
        return str(error)
    finally:
        env.close()
    return ""


def forgot_to_clone() -> str:
    """A direct environment of the older style that spawns its robot and never clones it."""
    from isaaclab.assets import Articulation
    from isaaclab.envs import DirectRLEnv, DirectRLEnvCfg
    from isaaclab.scene import InteractiveSceneCfg
    from isaaclab.sim import SimulationCfg, SimulationContext
    from isaaclab.utils import configclass, replace
    from isaaclab_assets.robots.cartpole import CARTPOLE_CFG

    from flashnerd_ext.physics import flashnerd_physics

    @configclass
    class ForgetfulCfg(DirectRLEnvCfg):
        decimation = 2
        episode_length_s = 5.0
        action_space = 1
        observation_space = 4
        sim: SimulationCfg = SimulationCfg(dt=1 / 120, device="cpu", physics=flashnerd_physics(bundle=BUNDLE))
        scene: InteractiveSceneCfg = InteractiveSceneCfg(num_envs=4, env_spacing=4.0)

    class Forgetful(DirectRLEnv):
        def _setup_scene(self) -> None:
            robot = Articulation(  # pyright: ignore[reportAbstractUsage]
                replace(CARTPOLE_CFG, prim_path="/World/envs/env_.*/Robot")
            )
            self.scene.articulations["robot"] = robot

    try:
        Forgetful(ForgetfulCfg()).close()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        SimulationContext.clear_instance()
    return ""


def warnings() -> dict[str, Any]:
    """What has no effect is said once, and the simulation goes on."""

    def setup(cfg: Any) -> None:
        from isaaclab.envs import mdp
        from isaaclab.managers import EventTermCfg, SceneEntityCfg
        from isaaclab.sensors import ContactSensorCfg, ImuCfg

        mass_event("reset", 2.0, 3.0)(cfg)
        cfg.scene.robot.spawn.activate_contact_sensors = True
        cfg.scene.touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/cart", history_length=2)
        cfg.scene.imu = ImuCfg(prim_path="{ENV_REGEX_NS}/Robot/cart")
        cfg.events.shove = EventTermCfg(
            func=mdp.apply_external_force_torque,
            mode="reset",
            params={
                "asset_cfg": SceneEntityCfg("robot", body_names="pole"),
                "force_range": (5.0, 5.0),
                "torque_range": (0.0, 0.0),
            },
        )

    env = make("Isaac-Cartpole", 2, "env.episode_length_s=0.1", setup=setup)
    env.reset()
    finite = True
    for _ in range(20):
        obs, *_ = env.step(torch.zeros(2, 1))
        finite &= bool(torch.isfinite(obs["policy"]).all())
    force, imu = env.scene["touch"].data.net_forces_w.torch, env.scene["imu"].data
    result = {
        "finite": finite,
        "force": float(force.abs().max()),
        "turning": bool(torch.isfinite(imu.ang_vel_b.torch).all()),
    }
    env.close()
    return result


def refusals() -> dict[str, str]:
    """What does not fit, one sentence each."""

    def damping(cfg: Any) -> None:
        cfg.scene.robot.actuators["cart_actuator"].damping = 3.0

    def gravity(cfg: Any) -> None:
        cfg.sim.gravity = (0.0, 0.0, -3.7)

    return {
        **sentences(
            "Isaac-Cartpole",
            decimation={"words": ["env.decimation=3"]},
            damping={"setup": damping},
            gravity={"setup": gravity},
            mass_strict={"setup": mass_event("reset", 2.0, 3.0, strict=True), "step": True},
            no_bundle={"words": ["env.sim.physics.solver_cfg.bundle=cartpol"]},
            margin={"words": ["env.sim.physics.solver_cfg.guard_margin=-1"]},
        ),
        "mass_negative": negative_mass(),
        "clone": forgot_to_clone(),
    }


def rates() -> dict[str, Any]:
    """A bundle at the control rate runs whatever the decimation is that gives this rate; warns about masses."""
    results: dict[str, Any] = {}
    for label, overrides in {
        "as trained": (),
        "one step": ("env.sim.dt=0.016666666666666666", "env.decimation=1"),
        "three steps": ("env.sim.dt=0.005555555555555556", "env.decimation=3"),
        "substeps": ("env.sim.physics.num_substeps=3",),
    }.items():
        env = make("Isaac-Cartpole", 4, *overrides)
        env.reset()
        for i in range(12):
            env.step(actions(env, i))
        solver = solver_of(env)
        results[label] = {
            "steps": solver.stream.steps,
            "handles": bool(env._physics_handles_decimation),
            "q": robot_of(env).data.joint_pos.torch.tolist(),
            "qd": robot_of(env).data.joint_vel.torch.tolist(),
        }
        env.close()
    return results


def solver_rate() -> dict[str, Any]:
    """A bundle trained at the solver's own step: one model step each simulation step."""
    env = make("Isaac-Cartpole", 4)
    env.reset()
    before = env.sim.physics_manager._sim_time
    for i in range(5):
        env.step(actions(env, i))
    restore = break_world(env, 2)
    # The model fails in both simulation steps of this control step; the environment ends the episode once.
    _, _, terminated, *_ = env.step(actions(env, 6))
    restore()
    solver = solver_of(env)
    result = {
        "steps": solver.stream.steps,
        "handles": bool(env._physics_handles_decimation),
        "sim_time": env.sim.physics_manager._sim_time - before,
        "terminated": terminated.tolist(),
        "held": solver.guard.total.tolist(),
    }
    env.close()
    return result


CASES: dict[str, Callable[[], Any]] = {
    "manager": lambda: run("Isaac-Cartpole", True),
    "direct": lambda: run("Isaac-Cartpole-Direct", False),
    "ours": lambda: run("FlashNeRD-Cartpole", True),
    "refusals": refusals,
    "rates": rates,
    "warnings": warnings,
    "solver_rate": solver_rate,
}

if __name__ == "__main__":
    answer(CASES)
