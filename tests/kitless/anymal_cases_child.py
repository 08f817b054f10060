"""Field cases on ANYmal-C's velocity task with the shipped bundle, in one process; prints one JSON object at the end.

Isaac Lab reads its asset root at import, so the tests start this file. The environments follow one another. Usage:
``python anymal_cases_child.py OUT_FOLDER``.
"""

from __future__ import annotations

import gc
import json
import sys
import weakref
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
from flashnerd_ext.physics.environment import running_solver  # noqa: E402

TASK, FOLDER, HISTORY = "FlashNeRD-Velocity-Flat-AnymalC", Path(sys.argv[1]), 4
Setup = Callable[[Any], None]


def make(count: int, *overrides: str, setup: Setup | None = None) -> Any:
    cfg: Any = resolve_task_config(TASK, None, overrides=["physics=flashnerd", *overrides])[0]
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = count, "cpu", 7
    solver = cfg.sim.physics.solver_cfg
    solver.bundle, solver.dump_dir, solver.guard_history = "anymal_c", str(FOLDER / "dumps"), HISTORY
    # Episodes end when the test says so.
    cfg.terminations.base_contact = None
    if setup is not None:
        setup(cfg)
    return gym.make(TASK, cfg=cfg).unwrapped


def solver_now() -> Any:
    solver = running_solver()
    assert solver is not None
    return solver


def actions(env: Any, seed: int) -> torch.Tensor:
    """Small random ones, under which the robot stays on its feet for a second."""
    generator = torch.Generator().manual_seed(seed)
    return 0.3 * (2.0 * torch.rand(env.num_envs, 12, generator=generator) - 1.0)


def disagreement(env: Any) -> float:
    """How far what can be read of bodies and joints is from the joint coordinates that the simulation holds."""
    import newton
    from isaaclab_newton.physics import NewtonManager

    data = env.scene["robot"].data
    poses, velocities = data.body_link_pose_w.torch.clone(), data.body_com_vel_w.torch.clone()
    joints = data.joint_pos.torch.clone()
    model: Any = NewtonManager.get_model()
    state: Any = NewtonManager.get_state_0()
    fresh = model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, fresh)
    names = [label.rsplit("/", 1)[-1] for label in model.joint_label]
    columns = [int(model.joint_q_start.numpy()[names.index(name)]) for name in env.scene["robot"].joint_names]
    pairs = (
        (poses, wp.to_torch(fresh.body_q).view(poses.shape)),
        (velocities, wp.to_torch(fresh.body_qd).view(velocities.shape)),
        (joints, wp.to_torch(state.joint_q).view(env.num_envs, -1)[:, columns]),
    )
    return max(float((read - true).abs().max()) for read, true in pairs)


def break_world(solver: Any, world: int) -> Callable[[], None]:
    """Let the model give NaN for one world until the returned function is called."""
    stepper = solver.stream.stepper
    original = stepper.step

    def broken(*arguments: Any) -> Any:
        q, qd = (x.clone() for x in original(*arguments))
        q[world] = qd[world] = stepper.sensed[world] = float("nan")
        return q, qd

    stepper.step = broken
    return lambda: setattr(stepper, "step", original)


def feet_force(env: Any, count: int) -> list[float]:
    """Largest force of each world on any link, in the reading and in the sensor's history [N]."""
    data = env.scene["contact_forces"].data
    now, past = data.net_forces_w.torch.norm(dim=-1), data.net_forces_w_history.torch.norm(dim=-1)
    return torch.maximum(now.amax(1), past.amax((1, 2)))[:count].tolist()


def buffers(solver: Any) -> dict[str, torch.Tensor]:
    """What the solver keeps from step to step, by name."""
    owners = (
        solver.frame, solver.guard, solver.sensors, solver.contact_stage, solver.stream, solver.stream.stepper,
        solver.stream.stepper.cache,
    )  # fmt: skip
    return {
        f"{type(owner).__name__}.{name}": value
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, torch.Tensor) and value.numel()
    }


def life() -> dict[str, Any]:
    """One environment through its life: automatic resets, a failing model, hard resets, inference mode."""
    count = 16
    env = make(count, "env.episode_length_s=0.6")
    with torch.inference_mode():
        env.reset()
    solver, sensor = solver_now(), env.scene["contact_forces"]
    before = {name: value.data_ptr() for name, value in buffers(solver).items()}
    # The episode has 30 steps; half of the worlds have had 10 of them.
    env.episode_length_buf[:8] = 10
    facts: dict[str, Any] = {"count": count}
    apart = [disagreement(env)]
    finite = True
    for i in range(20):
        observations = env.step(actions(env, i))[0]
        apart.append(disagreement(env))
        finite &= bool(torch.isfinite(observations["policy"]).all())
    facts["timed_out"] = env.reset_time_outs.tolist()
    facts["force_after_reset"] = feet_force(env, count)
    facts["air_after_reset"] = sensor.data.current_air_time.torch[:8].abs().max().item()
    told = solver.sensors.force[8:].norm(dim=-1).amax(1)
    facts["force_told"] = told.tolist()
    after = buffers(solver)
    facts["places_moved"] = [name for name, place in before.items() if after[name].data_ptr() != place]

    # The model fails in the last world; what led there is kept by this side as well.
    seen = []
    for i in range(HISTORY - 1):
        seen.append(solver.frame.state[count - 1].clone())
        env.step(actions(env, 30 + i))
    seen.append(solver.frame.state[count - 1].clone())
    restore = break_world(solver, count - 1)
    observations, _, terminated, *_ = env.step(actions(env, 39))
    restore()
    apart.append(disagreement(env))
    finite &= bool(torch.isfinite(observations["policy"]).all())
    facts["terminated"] = terminated.tolist()
    facts["term"] = env.termination_manager.get_term("flashnerd_guard").tolist()
    facts["logged"] = float(env.extras["log"]["Episode_Termination/flashnerd_guard"])
    facts["history_seen"] = torch.stack(seen).tolist()
    facts["force_of_held"] = feet_force(env, count)[-1]
    for i in range(3):
        observations, _, terminated, *_ = env.step(actions(env, 40 + i))
        apart.append(disagreement(env))
        finite &= bool(torch.isfinite(observations["policy"]).all())
    facts["held_in_all"], facts["pending"] = int(solver.guard.total.sum()), bool(solver.guard.pending.any())
    facts |= mixed_modes(env)
    # The tensors stay, so that no new one can take their place; references to the solver itself must be gone before it
    # can be said whether anyone else keeps it.
    old, weak = list(buffers(solver).values()), weakref.ref(solver)
    del solver, restore
    facts |= hard_resets(env, old, weak)
    facts["finite"], facts["apart"] = finite, max(apart)
    env.close()
    return facts


def mixed_modes(env: Any) -> dict[str, Any]:
    """Steps in inference mode and writes outside, with explicit indices of worlds and joints."""
    stepper, robot = solver_now().stream.stepper, env.scene["robot"]
    original, inputs = stepper.step, []

    def spy(*arguments: Any) -> Any:
        inputs.append(arguments[0].clone())
        return original(*arguments)

    stepper.step = spy
    worlds, joints = torch.tensor([11, 2], dtype=torch.int32), torch.tensor([7, 0], dtype=torch.int32)
    held = wp.to_torch(env.sim.physics_manager.get_state_0().joint_q).view(env.num_envs, -1).clone()
    wanted = torch.tensor([[0.31, -0.12], [0.27, 0.08]])
    robot.write_joint_position_to_sim_index(position=wanted, joint_ids=joints, env_ids=worlds)
    with torch.inference_mode():
        env.step(actions(env, 50))
    stepper.step = original
    names = list(solver_now().bundle.card.layout.joint_names)
    columns = [7 + names.index(robot.joint_names[j]) for j in joints.tolist()]
    expected = held.clone()
    for row, world in enumerate(worlds.tolist()):
        expected[world, columns] = wanted[row]
    return {"written": float((inputs[-1] - expected).abs().max())}


def hard_resets(env: Any, old: list[torch.Tensor], solver_before: weakref.ref[Any]) -> dict[str, Any]:
    """Two rebuilds of the simulation, then a stand: every buffer must be the new solver's, and be in use."""
    held = {value.data_ptr() for value in old}
    for _ in range(2):
        env.sim.reset()
    env.reset()
    solver, robot = solver_now(), env.scene["robot"]
    shared = {name for name, value in buffers(solver).items() if value.data_ptr() in held}
    apart = 0.0
    for i in range(20):
        env.step(actions(env, 60 + i))
        apart = max(apart, disagreement(env))
    gc.collect()
    return {
        "rebuilt_shared": sorted(shared),
        "rebuilt_alive": solver_before() is not None,
        "rebuilt_apart": apart,
        "rebuilt_steps": solver.stream.steps,
        "rebuilt_force": feet_force(env, env.num_envs),
        "rebuilt_torque": (robot.data.applied_torque.torch - solver.sensors.torque).abs().max().item(),
        "rebuilt_effort": robot.data.applied_torque.torch.abs().max().item(),
    }


def rates() -> dict[str, Any]:
    """The control step of the bundle, split in every way; and the same again, and with another seed."""
    runs: dict[str, Any] = {}
    for label, overrides in {
        "as trained": (),
        "again": (),
        "other seed": (),
        "one step": ("env.sim.dt=0.02", "env.decimation=1"),
        "two steps": ("env.sim.dt=0.01", "env.decimation=2"),
        "three steps": ("env.sim.dt=0.006666666666666667", "env.decimation=3"),
        "substeps": ("env.sim.physics.num_substeps=3",),
    }.items():
        env = make(4, *overrides, setup=reseed if label == "other seed" else None)
        env.reset()
        for i in range(11):
            env.step(actions(env, i))
        observations, rewards, *_ = env.step(actions(env, 11))
        solver, data = solver_now(), env.scene["robot"].data
        runs[label] = {
            "steps": solver.stream.steps,
            "age": solver.stream.stepper.cache.age.tolist(),
            "state": torch.cat((data.joint_pos.torch, data.joint_vel.torch, data.root_com_pose_w.torch), 1).tolist(),
            "policy": observations["policy"].tolist(),
            "reward": rewards.tolist(),
        }
        env.close()
    return runs


def reseed(cfg: Any) -> None:
    cfg.seed = 8


def event(name: str, bodies: str = ".*", **params: Any) -> Setup:
    """Setup that adds Isaac Lab's event of this name at every reset."""

    def setup(cfg: Any) -> None:
        from isaaclab.envs import mdp
        from isaaclab.managers import EventTermCfg, SceneEntityCfg

        names = {"joint_names": ".*"} if "gains" in name else {"body_names": bodies}
        asset = SceneEntityCfg("robot", **names)
        cfg.events.added = EventTermCfg(func=getattr(mdp, name), mode="reset", params={"asset_cfg": asset, **params})
        # What it must not be confused with.
        cfg.events.add_base_mass = cfg.events.base_com = None

    return setup


FRICTION = event(
    "randomize_rigid_body_material",
    static_friction_range=(0.4, 1.2), dynamic_friction_range=(0.4, 1.2), restitution_range=(0.0, 0.0), num_buckets=64,
)  # fmt: skip
HEAVY_FOOT = event("randomize_rigid_body_mass", "LF_FOOT", mass_distribution_params=(2.0, 3.0), operation="abs")
HEAVY_BASE = event("randomize_rigid_body_mass", "base", mass_distribution_params=(60.0, 60.0), operation="abs")
GAINS = event("randomize_actuator_gains", stiffness_distribution_params=(0.5, 0.9), operation="scale")


def strict(setup: Setup) -> Setup:
    def both(cfg: Any) -> None:
        setup(cfg)
        cfg.sim.physics.solver_cfg.strict = True

    return both


def refusal(setup: Setup, *, after: Callable[[], None] | None = None) -> str:
    """The sentence with which an environment, or one of its first steps, is refused; empty where it is not."""
    from isaaclab.sim import SimulationContext

    env = None
    try:
        env = make(2, "env.episode_length_s=0.06", setup=setup)
        env.reset()
        if after is not None:
            after()
        for i in range(8):
            env.step(actions(env, i))
    except FlashNerdError as error:
        return str(error)
    finally:
        if env is not None:
            env.close()
        SimulationContext.clear_instance()
    return ""


def friction() -> dict[str, Any]:
    """An event that changes friction at every reset: the contacts that the model sees have the new one."""
    env = make(8, "env.episode_length_s=0.5", setup=FRICTION)
    env.reset()
    solver = solver_now()
    stepper, model = solver.stream.stepper, solver.model
    original, ground = stepper.step, float(model.shape_material_mu.numpy()[solver.contact_stage.ground])
    links = solver.bundle.card.contacts.links
    bodies, of_body = model.shape_body.numpy(), model.body_world.numpy()
    # World and link -> its shapes.
    shapes: dict[tuple[int, int], list[int]] = {}
    for shape, body in enumerate(bodies):
        name = model.body_label[body].rsplit("/", 1)[-1] if body >= 0 else ""
        if name in links:
            shapes.setdefault((int(of_body[body]), links.index(name)), []).append(shape)
    wrong, values, seen = 0.0, set(), 0

    def spy(q: Any, qd: Any, actuation: Any, rows: Any) -> Any:
        nonlocal wrong, seen
        now = model.shape_material_mu.numpy()
        for world, row in rows.used.nonzero().tolist():
            value = float(rows.features[world, row, 10])
            possible = [max(float(now[s]), ground) for s in shapes[world, int(rows.link[world, row])]]
            wrong = max(wrong, min(abs(value - one) for one in possible))
            values.add(round(value, 5))
            seen += 1
        return original(q, qd, actuation, rows)

    stepper.step = spy
    for i in range(40):
        env.step(actions(env, i))
    env.close()
    return {"wrong": wrong, "values": len(values), "rows": seen}


def negative_mass() -> None:
    """A base mass below zero, as an event would write any other."""
    from isaaclab_newton.physics import NewtonManager
    from newton import ModelFlags

    model: Any = NewtonManager.get_model()
    wp.to_torch(model.body_mass)[int(solver_now().contact_stage.base[1])] = -1.0
    NewtonManager.add_model_change(ModelFlags.BODY_INERTIAL_PROPERTIES)


def softer(cfg: Any) -> None:
    cfg.scene.robot.actuators["legs"].stiffness = {".*": 60.0}


def forgot_to_clone() -> str:
    """A direct environment of the older style that spawns its robot and never clones it."""
    from isaaclab.assets import Articulation
    from isaaclab.envs import DirectRLEnv, DirectRLEnvCfg
    from isaaclab.scene import InteractiveSceneCfg
    from isaaclab.sim import SimulationCfg, SimulationContext
    from isaaclab.utils import configclass, replace
    from isaaclab_assets.robots.anymal import ANYMAL_C_CFG

    from flashnerd_ext.physics import flashnerd_physics
    from flashnerd_tasks.velocity.anymal_c_env_cfg import DC_LEGS  # pyright: ignore[reportMissingImports]

    @configclass
    class ForgetfulCfg(DirectRLEnvCfg):
        decimation = 4
        episode_length_s = 5.0
        action_space = 12
        observation_space = 4
        sim: SimulationCfg = SimulationCfg(dt=0.005, device="cpu", physics=flashnerd_physics(bundle="anymal_c"))
        scene: InteractiveSceneCfg = InteractiveSceneCfg(num_envs=4, env_spacing=4.0)

    class Forgetful(DirectRLEnv):
        def _setup_scene(self) -> None:
            robot = Articulation(  # pyright: ignore[reportAbstractUsage]
                replace(ANYMAL_C_CFG, prim_path="/World/envs/env_.*/Robot", actuators={"legs": DC_LEGS})
            )
            self.scene.articulations["robot"] = robot

    try:
        Forgetful(ForgetfulCfg()).close()
    except FlashNerdError as error:
        return str(error)
    finally:
        SimulationContext.clear_instance()
    return ""


def main() -> dict[str, Any]:
    unchanged = event("randomize_rigid_body_mass", "base", mass_distribution_params=(1.0, 1.0), operation="scale")
    return {
        "life": life(),
        "rates": rates(),
        "friction": friction(),
        "lenient": {"foot": refusal(HEAVY_FOOT), "base": refusal(HEAVY_BASE), "gains": refusal(GAINS)},
        "strict": {
            "foot": refusal(strict(HEAVY_FOOT)),
            "base": refusal(strict(HEAVY_BASE)),
            "gains": refusal(strict(GAINS)),
        },
        "negative": refusal(unchanged, after=negative_mass),
        "softer": refusal(softer),
        "clone": forgot_to_clone(),
    }


if __name__ == "__main__":
    print("RESULT" + json.dumps(main()))
