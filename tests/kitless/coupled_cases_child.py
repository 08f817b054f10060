"""Field cases of coupled mode in Isaac Lab, in a process of their own; prints one JSON object at the end.

Usage: ``python coupled_cases_child.py all auto OUT_FOLDER``.
"""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
import warp as wp
from backend_child import answer, make, robot_of, solver_of
from coupled_child import own_value

from flashnerd_ext.errors import FlashNerdError

HAND, ARM = "FlashNeRD-Reorient-Cube-Allegro-Reduced", "Isaac-Reach-Franka"
WORLDS = 4


def command(env: Any, step: int) -> torch.Tensor:
    phase = torch.arange(env.num_envs)[:, None] + 0.7 * torch.arange(env.action_space.shape[-1])[None]
    return torch.sin(phase + 0.4 * step)


def sensed(cfg: Any) -> None:
    """Contact sensors on the fingers and on the cube, and episodes of 12 steps."""
    from isaaclab.sensors import ContactSensorCfg

    for part in (cfg.scene.robot, cfg.scene.object):
        part.spawn.activate_contact_sensors = True
    cfg.scene.touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*", history_length=3)
    cfg.scene.carried = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/object", history_length=3)
    cfg.episode_length_s = 12 * cfg.sim.dt * cfg.decimation


def forces(env: Any) -> dict[str, Any]:
    return {name: env.scene[name].data.net_forces_w.torch.tolist() for name in ("touch", "carried")}


def fits(env: Any) -> bool:
    """Whether the poses that can be read of the robot and of the object are those of the joints."""
    import newton
    from isaaclab_newton.physics import NewtonManager

    robot, thing = robot_of(env).data, env.scene["object"].data
    read = torch.cat((robot.body_link_pose_w.torch, thing.root_link_pose_w.torch[:, None]), 1).clone()
    model: Any = NewtonManager.get_model()
    state: Any = NewtonManager.get_state_0()
    fresh = model.state()
    newton.eval_fk(model, state.joint_q, state.joint_qd, fresh)
    names = [label.rsplit("/", 1)[-1] for label in model.body_label]
    columns = [names.index(name) for name in (*robot_of(env).body_names, "object")]
    return bool((read - wp.to_torch(fresh.body_q).view(len(read), -1, 7)[:, columns]).abs().max() < 1e-5)


def break_once(solver: Any, world: int, call: int) -> None:
    """Let the model give NaN for a world in its ``call``-th prediction from now, and only there."""
    stepper = solver.stream.stepper
    original, count = stepper.accelerate, 0

    def broken(*arguments: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        value = original(*arguments)
        if count != call:
            return value
        stepper.accelerate = original
        value = value.clone()
        value[world] = float("nan")
        return value

    stepper.accelerate = broken


def buffers(solver: Any) -> dict[str, torch.Tensor]:
    owners = (
        solver.frame,
        solver.guard,
        solver.stream,
        solver.stream.stepper.cache,
        solver.coupled,
        solver.coupled.room,
    )
    return {
        f"{type(owner).__name__}.{name}": value
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, torch.Tensor) and value.numel()
    }


def touching(*overrides: str) -> dict[str, Any]:
    """Contact forces and states over some steps, by the scene's own acceleration or by MuJoCo Warp alone."""
    from isaaclab.sim import SimulationContext

    env = make(HAND, WORLDS, *overrides, setup=sensed)
    env.reset()
    if not overrides:
        solver_of(env).stream.stepper.accelerate = own_value(solver_of(env))
    facts: dict[str, Any] = {"forces": [], "q": []}
    for i in range(6):
        env.step(command(env, i))
        facts["forces"].append(forces(env))
        facts["q"].append(robot_of(env).data.joint_pos.torch.tolist())
    env.close()
    SimulationContext.clear_instance()
    return facts


def life() -> dict[str, Any]:
    """The hand and its cube through an environment's life: a failing model, automatic resets, hard resets."""
    from isaaclab.sim import SimulationContext

    env = make(HAND, WORLDS, setup=sensed)
    env.reset()
    solver, robot = solver_of(env), robot_of(env)
    facts: dict[str, Any] = {"bundle": solver.bundle.card.name, "per_step": 0, "fits": fits(env)}
    before = {name: value.data_ptr() for name, value in buffers(solver).items()}
    env.step(0.1 * command(env, 0))
    facts["per_step"], total = solver.stream.steps, int(solver.guard.total.sum())
    # The last world's model fails in the third of a control step's model steps.
    break_once(solver, WORLDS - 1, 3)
    *_, terminated, truncated, _ = env.step(0.1 * command(env, 1))
    facts["fell_back"] = solver.guard.total.tolist()
    facts["before"] = total
    facts["failed_in_last"], facts["ended"] = bool(solver.guard.failed.any()), bool(terminated.any() | truncated.any())
    # Half of the worlds end their episode at the 12th step; the others were set back.
    env.episode_length_buf[2:] = 0
    for i in range(2, 12):
        if i == 11:
            facts["force_before"] = cube_force(env)
        *_, terminated, truncated, _ = env.step(0.1 * command(env, i))
        facts["fits"] &= fits(env)
    facts["timed_out"], facts["force_after"] = env.reset_time_outs.tolist(), cube_force(env)
    facts["fits"] &= fits(env)
    env.step(0.1 * command(env, 12))
    facts["moved"] = [name for name, value in buffers(solver).items() if value.data_ptr() != before[name]]
    # What the simulator itself loses ends the episode, and the world lives again.
    wp.to_torch(env.sim.physics_manager.get_state_0().joint_qd).view(WORLDS, -1)[1, 2] = float("nan")
    *_, terminated, _, _ = env.step(0.1 * command(env, 13))
    facts["lost"] = env.termination_manager.get_term("flashnerd_guard").tolist()
    facts["logged"] = float(env.extras["log"]["Episode_Termination/flashnerd_guard"])
    obs, *_ = env.step(0.1 * command(env, 14))
    facts["finite"] = bool(torch.isfinite(obs["policy"]).all() & torch.isfinite(robot.data.joint_vel.torch).all())
    facts["lost_after"] = solver.ended.tolist()
    old, weak = list(buffers(solver).values()), weakref.ref(solver)
    del solver
    for _ in range(2):
        env.sim.reset()
    env.reset()
    env.step(0.1 * command(env, 15))
    gc.collect()
    held, fresh = {value.data_ptr() for value in old}, solver_of(env)
    facts["rebuilt"] = {
        "shared": [name for name, value in buffers(fresh).items() if value.data_ptr() in held],
        "alive": weak() is not None,
        "steps": fresh.stream.steps,
        "fits": fits(env),
        "force": cube_force(env),
    }
    env.close()
    SimulationContext.clear_instance()
    return facts


def cube_force(env: Any) -> list[float]:
    """Largest force on the cube of each world, in the reading and in the history [N]."""
    data = env.scene["carried"].data
    now, past = data.net_forces_w.torch.norm(dim=-1), data.net_forces_w_history.torch.norm(dim=-1)
    return torch.maximum(now.amax(1), past.amax((1, 2))).tolist()


def changes(env: Any) -> dict[str, Any]:
    """Name -> what an event writes through Isaac Lab, and the model's own array that it stands in."""
    from isaaclab_newton.physics import NewtonManager
    from newton import ModelFlags

    model: Any = NewtonManager.get_model()
    names = [label.rsplit("/", 1)[-1] for label in model.body_label]
    hand, link = names.index("panda_hand"), names.index("panda_link5")
    body, shape, joint = (
        ModelFlags.BODY_INERTIAL_PROPERTIES, ModelFlags.SHAPE_PROPERTIES, ModelFlags.JOINT_DOF_PROPERTIES
    )  # fmt: skip

    def scale(flag: Any, arrays: tuple[str, ...], place: Any, factor: float) -> Any:
        def write(back: bool = False) -> None:
            for array in arrays:
                wp.to_torch(getattr(model, array))[place] *= 1.0 / factor if back else factor
            NewtonManager.add_model_change(flag)

        return write

    heavy = ("body_mass", "body_inertia")
    everything = slice(None)
    return {
        "payload": scale(body, heavy, hand, 1.5),
        "friction": scale(shape, ("shape_material_mu",), everything, 0.5),
        "gains": scale(joint, ("joint_target_ke", "joint_target_kd"), everything, 0.5),
        "limits": scale(joint, ("joint_limit_upper", "joint_effort_limit"), everything, 0.9),
        "heavy payload": scale(body, heavy, hand, 9.0),
        "link": scale(body, heavy, link, 1.5),
        "inertia": scale(body, ("body_inertia",), link, 1.5),
        "armature": scale(joint, ("joint_armature",), everything, 1.5),
        "negative": scale(body, ("body_mass",), link, -1.0),
        "gravity": scale(ModelFlags.MODEL_PROPERTIES, ("gravity",), everything, 0.5),
    }


class Listener(logging.Handler):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def properties(strict: bool) -> dict[str, Any]:
    """The arm's properties change between steps, one after the other, each for two steps; first some steps as it is."""
    from isaaclab.sim import SimulationContext

    def setup(cfg: Any) -> None:
        cfg.sim.physics.solver_cfg.strict = strict

    env = make(ARM, 2, setup=setup)
    env.reset()
    solver, listener = solver_of(env), Listener()
    facts: dict[str, Any] = {"bundle": solver.bundle.card.name, "said": {}, "refused": {}, "run": []}
    for i in range(5):
        env.step(command(env, i))
        facts["run"].append(robot_of(env).data.joint_pos.torch.tolist())
    logging.getLogger().addHandler(listener)
    for name, write in changes(env).items():
        listener.said.clear()
        try:
            for step in range(2):
                write(back=step == 1)
                env.step(command(env, 5))
                if name == "payload" and step == 0:
                    facts["condition"] = solver.stream.stepper.condition.flatten().tolist()
        except FlashNerdError as error:
            facts["refused"][name] = str(error)
            if name != "gravity":
                write(back=True)
        facts["said"][name] = [text for text in listener.said if "bundle" in text or "mass" in text]
    logging.getLogger().removeHandler(listener)
    facts["finite"] = bool(torch.isfinite(robot_of(env).data.joint_pos.torch).all())
    env.close()
    SimulationContext.clear_instance()
    return facts


def forgot_to_clone() -> str:
    """A direct environment of the older style that spawns its arm and never clones it."""
    from isaaclab.assets import Articulation
    from isaaclab.envs import DirectRLEnv, DirectRLEnvCfg
    from isaaclab.scene import InteractiveSceneCfg
    from isaaclab.sim import SimulationCfg, SimulationContext
    from isaaclab.utils import configclass, replace
    from isaaclab_assets.robots.franka import FRANKA_PANDA_HIGH_PD_CFG

    from flashnerd_ext.physics import flashnerd_physics

    @configclass
    class ForgetfulCfg(DirectRLEnvCfg):
        decimation = 4
        episode_length_s = 5.0
        action_space = 9
        observation_space = 18
        sim: SimulationCfg = SimulationCfg(dt=1 / 120, device="cpu", physics=flashnerd_physics(bundle="franka"))
        scene: InteractiveSceneCfg = InteractiveSceneCfg(num_envs=4, env_spacing=4.0)

    class Forgetful(DirectRLEnv):
        def _setup_scene(self) -> None:
            robot = Articulation(  # pyright: ignore[reportAbstractUsage]
                replace(FRANKA_PANDA_HIGH_PD_CFG, prim_path="/World/envs/env_.*/Robot")
            )
            self.scene.articulations["robot"] = robot

    try:
        Forgetful(ForgetfulCfg()).close()
    except FlashNerdError as error:
        return str(error)
    finally:
        SimulationContext.clear_instance()
    return ""


def everything() -> dict[str, Any]:
    return {
        "coupled": touching(),
        "stock": touching("physics=newton_mjwarp"),
        "life": life(),
        "lenient": properties(strict=False),
        "strict": properties(strict=True),
        "clone": forgot_to_clone(),
    }


if __name__ == "__main__":
    answer({"all": everything})
