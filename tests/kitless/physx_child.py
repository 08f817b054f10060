"""Coupled mode under PhysX without Kit, in a process of its own; prints one JSON object at the end.

PhysX starts threads and a native runtime that a test process does not get rid of. Usage: ``python physx_child.py FOLDER
CASE ...``; each case gives a dictionary of figures, and what it raised is given back as ``error``.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from coupled_world import Known, coupled_bundle, coupling_of
from physx_world import ARM, DT, ArmAnalytic, add_arm, add_cube, add_ground, close, simulation

FOLDER = Path(sys.argv[1])
Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def bundle(name: str, joints: tuple[str, ...] = ARM, **coupling: Any) -> Any:
    """A saved bundle of coupled mode for the arm of ``physx_world``, without passive damping."""
    from coupled_world import arm_robot

    path = FOLDER / name
    if path.exists():
        from flashnerd_ext.bundle.store import load_bundle

        return load_bundle(str(path))
    coupling = {"damping": dict.fromkeys(joints, 0.0)} | coupling
    return coupled_bundle(path, arm_robot(joints=joints), coupling_of(joints, **coupling))


def learned_physics(chosen: Any, **changes: Any) -> Any:
    from flashnerd_ext.physics.flashnerd_manager_cfg import LearnedCfg
    from flashnerd_ext.physics.physx_cfg import OvPhysxFlashNerdCfg

    changes = {"bundle": str(chosen.path), "dump_dir": str(FOLDER / "dumps")} | changes
    return OvPhysxFlashNerdCfg(solver_cfg=LearnedCfg(**changes))


def coupled(function: Function | None = None) -> Any:
    """The learned robots of the running simulation; ``function`` predicts from now on."""
    from flashnerd_ext.physics.physx_base import CoupledPhysxManager

    found = CoupledPhysxManager.coupled
    assert found is not None
    if function is not None:
        found.stream.stepper = Known(found.bundle, len(found.robots.paths), function)
    return found


class Seen:
    """Views of some robots and objects, in a plain and in a learned simulation alike."""

    def __init__(self, robots: list[str], cubes: list[str] = ()) -> None:  # type: ignore[assignment]
        from isaaclab_ov.physics import OvPhysxManager
        from isaaclab_ov.sim.views.ovphysx_view import OvPhysxView

        from flashnerd_ext.solver.physx_robots import OvRobots

        physx = OvPhysxManager.get_physx_instance()
        self.robots = OvRobots(physx, robots, "cpu")
        self.cubes = OvPhysxView(physx, prim_paths=list(cubes), device="cpu") if cubes else None
        self._manager = OvPhysxManager

    def start(self, position: Any, velocity: Any = 0.0) -> Seen:
        like = self.robots.read("dof_position")
        self.robots.write("dof_position", torch.as_tensor(position).expand_as(like).contiguous())
        self.robots.write("dof_velocity", torch.as_tensor(velocity).expand_as(like).contiguous())
        self._manager.kinematics_dirty = True
        return self

    def state(self) -> list[list[float]]:
        joints = torch.cat((self.robots.read("dof_position"), self.robots.read("dof_velocity")), 1)
        return joints.clone().tolist()

    def cube(self) -> list[list[float]]:
        import warp as wp

        assert self.cubes is not None
        return wp.to_torch(self.cubes.get_attribute("rigid_body_pose")).view(-1, 7).clone().tolist()


def close_any() -> None:
    """Close what a case that failed has left open."""
    from isaaclab.sim import SimulationContext

    SimulationContext.clear_instance()


def far(a: Any, b: Any) -> float:
    return float((torch.tensor(a) - torch.tensor(b)).abs().max())


# -- an arm pushes a cube ----------------------------------------------------------------------------------------------

POST = (0.0, 0.0, 0.95)
PUSH_STEPS = 220


def pushing(stage: Any) -> None:
    add_ground(stage)
    add_arm(stage, "/World/envs/env_0/Arm", POST, gains=(60.0, 6.0), limit=3.0)
    add_cube(stage, "/World/envs/env_0/cube", (0.16, 0.0, 0.06))


def push(solver: str, learned: bool) -> dict[str, Any]:
    """States over a slow swing through the cube, under drives and commanded efforts together."""
    sim = simulation(pushing, learned_physics(bundle("arm")) if learned else None, solver)
    if learned:
        coupled(ArmAnalytic(place=POST))
    seen = Seen(["/World/envs/env_0/Arm"], ["/World/envs/env_0/cube"]).start([1.8, 0.1, 0.0])
    facts: dict[str, Any] = {"q": [], "cube": [], "torque": 0.0}
    for i in range(PUSH_STEPS):
        ramp = 1.8 - 0.9 * DT * i
        seen.robots.write("dof_position_target", torch.tensor([[ramp, 0.0, 0.1]]))
        seen.robots.write("dof_actuation_force", 0.5 * torch.cos(torch.tensor([[0.1 * i, 0.07 * i, 0.13 * i]])))
        sim.step(render=False)
        facts["q"].append(seen.state()[0])
        facts["cube"].append(seen.cube()[0])
    if learned:
        facts["fallen_back"], facts["steps"] = int(coupled().guard.total.sum()), coupled().stream.steps
        facts["torque"] = float(coupled().dynamics.torque.abs().max())
        facts["effort"] = far(coupled().robots.read("dof_actuation_force"), coupled().dynamics._effort)
    close(sim)
    return facts


def pushed(solver: str) -> dict[str, Any]:
    plain, learned = push(solver, False), push(solver, True)
    rest = torch.tensor(plain["cube"])[:, 0]
    touched = int((rest > 0.1605).nonzero()[0])
    before = slice(0, touched - 1)
    return {
        "touched": touched,
        "cube_moved": float(rest[-1] - rest[0]),
        "before": far(learned["q"][before], plain["q"][before]),
        "after": far([q[:3] for q in learned["q"]], [q[:3] for q in plain["q"]]),
        "after_cube": far([c[:3] for c in learned["cube"]], [c[:3] for c in plain["cube"]]),
        "swing": float(torch.tensor(plain["q"])[:, 0].max() - torch.tensor(plain["q"])[:, 0].min()),
        **{key: learned[key] for key in ("fallen_back", "steps", "torque", "effort")},
    }


# -- copies, others, the guard -----------------------------------------------------------------------------------------

PLACES = {"A": 0.0, "B": 4.0, "Other": 8.0}


def crowd(stage: Any) -> None:
    for env in range(2):
        for name, y in PLACES.items():
            joints = ("a", "b", "c") if name == "Other" else ARM
            add_arm(stage, f"/World/envs/env_{env}/{name}", (5.0 * env, y, 2.0), joints, gains=(40.0, 2.0), limit=3.0)
        add_cube(stage, f"/World/envs/env_{env}/cube", (5.0 * env, 12.0, 2.0))


def follow(learned: bool) -> dict[str, Any]:
    """Prescribed accelerations for the first robot of each world, none that is finite for the second."""
    sim = simulation(crowd, learned_physics(bundle("arm")) if learned else None)
    # PhysX gives joint names of a view only where all of its robots have the same.
    seen = {name: Seen([f"/World/envs/env_{env}/{name}" for env in range(2)]) for name in PLACES}
    for robots in seen.values():
        robots.start([0.2, -0.1, 0.3], [0.5, 0.3, -0.4])
    cubes = Seen(seen["A"].robots.paths, [f"/World/envs/env_{env}/cube" for env in range(2)])
    facts: dict[str, Any] = {"cube": [], **{name: [] for name in PLACES}}
    if learned:
        rows = coupled().robots.paths

        def prescribed(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
            wanted = ArmAnalytic(place=(0.0, 0.0, 2.0))(q, qd, u)
            wanted[[i for i, path in enumerate(rows) if path.endswith("/B")]] = torch.nan
            return wanted

        coupled(prescribed)
        facts["rows"] = rows
    for i in range(12):
        for robots in seen.values():
            robots.robots.write("dof_actuation_force", torch.full((2, 3), 0.3 * i))
        sim.step(render=False)
        for name, robots in seen.items():
            facts[name].append(robots.state())
        facts["cube"].append(cubes.cube())
    if learned:
        facts["fallen_back"] = coupled().guard.total.tolist()
        facts["ended"] = coupled().ended.tolist()
        facts["dumps"] = len(list((FOLDER / "dumps").glob("step-*")))
        coupled().environment_reset([1])
        facts["forgotten"], facts["pending"] = coupled().stream.forget.tolist(), coupled().guard.pending.tolist()
    close(sim)
    return facts


def copies() -> dict[str, Any]:
    plain, learned = follow(False), follow(True)
    return {
        "known": far(plain["A"], learned["A"]),
        "fallback": far(plain["B"], learned["B"]),
        "others": far(plain["Other"], learned["Other"]),
        "cubes": far(plain["cube"], learned["cube"]),
        "cube_fell": plain["cube"][0][0][2] - plain["cube"][-1][0][2],
        **{key: learned[key] for key in ("rows", "fallen_back", "ended", "dumps", "forgotten", "pending")},
    }


# -- what PhysX would add ----------------------------------------------------------------------------------------------

WANTED = torch.tensor([[3.0, -2.0, 4.0]])


def constant(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return WANTED.expand_as(q).clone()


def obedience(label: str, gains: tuple[float, float], damping: float) -> dict[str, Any]:
    """How far joint velocities are from what a constant acceleration gives, and what PhysX is left with."""
    chosen = bundle(f"arm-{label}", label=label)

    def build(stage: Any) -> None:
        add_arm(stage, "/World/envs/env_0/Arm", (0.0, 0.0, 2.0), gains=gains, damping=damping, limit=3.0)

    sim = simulation(build, learned_physics(chosen))
    seen = Seen(["/World/envs/env_0/Arm"]).start([0.2, -0.1, 0.3], [1.5, 1.3, -1.4])
    coupled(constant)
    start = torch.tensor(seen.state())[:, 3:]
    steps = 10
    for _ in range(steps):
        sim.step(render=False)
    off = (torch.tensor(seen.state())[:, 3:] - start - steps * DT * WANTED).abs().max()
    facts = {
        "off": float(off),
        "gains": float(seen.robots.read("dof_stiffness").abs().max() + seen.robots.read("dof_damping").abs().max()),
        "kept": float(coupled().dynamics.stiffness.max()),
        "torque": float(coupled().dynamics.torque.abs().max()),
    }
    close(sim)
    return facts


def additions() -> dict[str, Any]:
    return {
        "link_damping": obedience("qacc_smooth", (0.0, 0.0), 5.0),
        "smooth": obedience("qacc_smooth", (60.0, 6.0), 0.0),
        "damped": obedience("dv_damped", (60.0, 6.0), 0.0),
    }


# -- gravity that is off -----------------------------------------------------------------------------------------------

OFF = ("elbow",)


def hanging(learned: bool) -> list[list[float]]:
    chosen = bundle("arm-light", gravity_compensation={f"{name}_link": 1.0 for name in OFF})

    def build(stage: Any) -> None:
        add_arm(stage, "/World/envs/env_0/Arm", (0.0, 0.0, 2.0), weightless=OFF, limit=3.0)

    sim = simulation(build, learned_physics(chosen) if learned else None)
    seen = Seen(["/World/envs/env_0/Arm"]).start([0.2, -0.1, 0.3], [0.5, 0.3, -0.4])
    if learned:
        coupled(ArmAnalytic(place=(0.0, 0.0, 2.0), weightless=[*OFF]))
    states = []
    for _ in range(40):
        sim.step(render=False)
        states.append(seen.state()[0])
    close(sim)
    return states


def weightless() -> dict[str, Any]:
    plain, learned = hanging(False), hanging(True)
    return {"off": far(plain, learned), "moved": far(plain[0], plain[-1])}


# -- a free base, and wrenches -----------------------------------------------------------------------------------------


def flight() -> dict[str, Any]:
    """Forces of a free robot and of a welded one with a wrench on a link, without a model around them."""
    from isaaclab_ov.physics import OvPhysxManager

    from flashnerd_ext.solver.inverse_dynamics import InverseDynamics

    def build(stage: Any) -> None:
        add_arm(stage, "/World/envs/env_0/Free", (0.0, 0.0, 3.0), fixed=False, limit=3.0)
        add_arm(stage, "/World/envs/env_0/Arm", (0.0, 4.0, 3.0), limit=3.0)

    sim = simulation(build)
    free, arm = (Seen([f"/World/envs/env_0/{name}"]) for name in ("Free/base", "Arm"))
    for seen in (free, arm):
        seen.start([0.3, -0.2, 0.4], [0.0, 0.0, 0.0])
    free.robots.write("root_velocity", torch.tensor([[0.3, -0.2, 0.5, 0.8, -0.6, 0.7]]))
    wanted = {"free": torch.tensor([[1.0, -2.0, 3.0, 2.0, 1.0, -1.5, 3.0, -2.0, 4.0]]), "arm": WANTED}
    dynamics = {
        "free": InverseDynamics(free.robots, OvPhysxManager.get_gravity),
        "arm": InverseDynamics(arm.robots, OvPhysxManager.get_gravity),
    }
    wrench = torch.zeros((1, 4, 9))
    wrench[0, 2] = torch.tensor([3.0, -4.0, 5.0, 0.2, 0.3, -0.1, 0.3, 4.0, 3.0])
    held = torch.zeros((1, 4, 9))
    held[0, 0] = torch.tensor([2.0, 1.0, -3.0, 0.1, 0.2, 0.3, 0.1, 0.1, 3.0])
    held[0, 2] = wrench[0, 2]
    held[0, 2, 7] = 0.0
    yes = torch.ones(1, dtype=torch.bool)
    off = {"free": 0.0, "arm": 0.0}

    def velocity(seen: Seen, root: bool) -> torch.Tensor:
        joints = seen.robots.read("dof_velocity").clone()
        return torch.cat((seen.robots.read("root_velocity"), joints), 1) if root else joints

    for step in range(20):
        OvPhysxManager.update_kinematics()
        before = {"free": velocity(free, True), "arm": velocity(arm, False)}
        for name, load in (("free", held), ("arm", wrench)):
            if step % 2:
                dynamics[name].robots.write("link_wrench", load)
                dynamics[name].pull(torch.tensor([0]), load)
            dynamics[name].read()
            dynamics[name].apply(wanted[name], yes)
        sim.step(render=False)
        after = {"free": velocity(free, True), "arm": velocity(arm, False)}
        for name in off:
            dynamics[name].restore()
            change = after[name] - before[name] - DT * wanted[name]
            off[name] = max(off[name], float(change.abs().max()))
    facts = {"off": off, "names": free.robots.body_names, "root": dynamics["free"].root}
    close(sim)
    return facts


# -- refusals ----------------------------------------------------------------------------------------------------------


def refused(act: Callable[[], Any]) -> str:
    from flashnerd_ext.errors import FlashNerdError

    try:
        act()
    except FlashNerdError as error:
        return str(error)
    return ""


def refusals() -> dict[str, Any]:
    """What cannot be coupled, on one running simulation."""
    from isaaclab_ov.physics import OvPhysxManager

    from flashnerd_ext.bundle.example import example_bundle
    from flashnerd_ext.physics.ovphysx_manager import OvPhysxFlashNerdManager as Manager
    from flashnerd_ext.physics.physx_base import CoupledPhysxManager
    from flashnerd_ext.solver.coupled_physx import CoupledPhysx, check_label
    from flashnerd_ext.solver.inverse_dynamics import InverseDynamics

    def build(stage: Any) -> None:
        add_arm(stage, "/World/envs/env_0/Arm", gains=(60.0, 3.0))
        add_arm(stage, "/World/envs/env_1/Arm", (4.0, 0.0, 0.5), gains=(60.0, 3.0))
        add_arm(stage, "/World/envs/env_0/Single", (0.0, 4.0, 0.5), ("s", "t", "u"))
        add_arm(stage, "/World/envs/env_0/Free", (0.0, 8.0, 0.5), ("f", "g", "h"), fixed=False)
        add_arm(
            stage, "/World/envs/env_0/Fast", (0.0, 12.0, 0.5), ("x", "y", "z"), gains=(60.0, 3.0), drive="acceleration"
        )

    good = bundle("arm")
    sim = simulation(build, learned_physics(good))
    here = coupled()

    def with_bundle(other: Any) -> Callable[[], Any]:
        def act() -> None:
            assert CoupledPhysxManager._chosen is not None
            CoupledPhysxManager._chosen = (other, CoupledPhysxManager._chosen[1])
            Manager._couple()

        return act

    def made(other: Any) -> Callable[[], Any]:
        return lambda: CoupledPhysx(other, here.stream.stepper, here.robots, 2, OvPhysxManager.get_gravity)

    def wrong_dt() -> None:
        sim.cfg.dt = 0.01
        try:
            Manager._prepare(None)
        finally:
            sim.cfg.dt = DT

    fast = Seen(["/World/envs/env_0/Fast"]).robots
    facts = {
        "worlds": len(here.ended),
        "dt": refused(wrong_dt),
        "label": refused(lambda: check_label(bundle("arm-implicit", label="dv_implicitfast").card)),
        "mode": refused(lambda: check_label(example_bundle(FOLDER / "learned").card)),
        "armature": refused(made(bundle("arm-heavy", armature=dict.fromkeys(ARM, 0.5)))),
        "gains": refused(made(bundle("arm-gains", label="dv_damped", integrator="implicitfast"))),
        "drive": refused(lambda: InverseDynamics(fast, OvPhysxManager.get_gravity)),
        "none": refused(with_bundle(bundle("stranger", ("k", "l", "m")))),
        "uneven": refused(with_bundle(bundle("single", ("s", "t", "u")))),
        "strict": "",
    }
    free = Seen(["/World/envs/env_0/Free/base"]).robots
    facts["free"] = refused(
        lambda: CoupledPhysx(bundle("arm"), here.stream.stepper, free, 1, OvPhysxManager.get_gravity)
    )
    CoupledPhysxManager.coupled = here
    # An event that changes what labels contain is said once, and refused where the configuration is strict.
    Manager._prepare(None)
    here.notices.strict = True
    OvPhysxManager.set_gravity((0.0, 0.0, -5.0))
    here.environment_reset([1])
    facts["gravity"] = refused(lambda: sim.step(render=False))
    OvPhysxManager.set_gravity((0.0, 0.0, -9.81))
    here.robots.write("dof_armature", here.robots.read("dof_armature") * 3)
    here.environment_reset(None)
    facts["strict"] = refused(lambda: sim.step(render=False))
    from flashnerd_ext.physics.physx_scene import stage_robots

    facts["robots"] = sorted(",".join(sorted(robot.joints)) for robot in stage_robots(sim.stage))
    facts["backend"] = OvPhysxManager.backend is Manager.backend and "backend" not in vars(Manager)
    close(sim)
    facts["closed"] = CoupledPhysxManager.coupled is None
    return facts


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "pgs": lambda: pushed("PGS"),
    "tgs": lambda: pushed("TGS"),
    "copies": copies,
    "additions": additions,
    "weightless": weightless,
    "flight": flight,
    "refusals": refusals,
}

if __name__ == "__main__":
    results: dict[str, Any] = {}
    for case in sys.argv[2:] or CASES:
        try:
            results[case] = CASES[case]()
        except Exception:
            close_any()
            results[case] = {"error": traceback.format_exc()[-3000:]}
        print(f"DONE {case} {json.dumps(results[case])[:3000]}", file=sys.stderr, flush=True)
    print("RESULT" + json.dumps(results))
