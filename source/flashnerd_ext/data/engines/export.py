"""From a robot's USD to the MuJoCo model that Isaac Lab's Newton backend steps.

What the stock ``Isaac-Cartpole`` task does each physics step under ``newton_mjwarp``, found by running it
(``tests/fixtures/record_cartpole.py``) and tested against a recording:

- The action (times 100 N) lands in ``control.joint_f`` of the slider once a control step and is held over both
  solver steps of 1/120 s. It becomes ``qfrc_applied`` and is **not clamped**: 1255 N were seen to act. The joint's
  400 N limit is ``jnt_actfrcrange``, which bounds actuator forces only, and those are the drive's damping.
- The drive (kp 0, kd 10) is one MuJoCo velocity actuator on the slider (gain 10, bias -10 qvel) with target 0. It
  is integrated implicitly by implicitfast. The pole has no actuator: its gains are zero.
- Armature, joint friction and passive joint damping are zero. The pole is unlimited. The slider stops at +-4 m,
  outside the task's +-3 m. Bodies: cart 1 kg; pole 1 kg with COM 0.47 m up and 0.0836 kg m2 about the hinge axis
  through the COM. Nothing touches the ground (the base stands at 2 m) and self-collision is off.
- The angle is not wrapped. Newton's joint order is slider_to_cart, cart_to_pole, equal to MuJoCo's.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import RobotDescription


def export_model(robot: RobotDescription, usd_path: str | None = None) -> ExportedModel:
    """Build the robot with Newton as Isaac Lab does and keep the MuJoCo model that comes out.

    Args:
        robot: Its drive gains, effort limits, dt and decimation are applied.
        usd_path: The asset; ``None`` takes it from the local asset root.

    Raises:
        FlashNerdError: When the asset's joints are not those of the description.
    """
    import newton
    import warp as wp
    from newton.solvers import SolverMuJoCo

    wp.config.quiet = True
    path = usd_path or robot_usd(robot)
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(builder)
    contacts = robot.contacts
    if contacts is not None:
        builder.default_shape_cfg.ke, builder.default_shape_cfg.kd = contacts.ke, contacts.kd
    height = 2.0 if contacts is None else robot.base_height
    builder.add_usd(
        path,
        xform=wp.transform(wp.vec3(0.0, 0.0, height), wp.quat(*robot.base_quat)),
        schema_resolvers=schema_resolvers(),
    )
    if contacts is None or not contacts.self_collision:
        builder.shape_collision_filter_pairs.extend(_all_pairs(builder.shape_count))
    if contacts is not None:
        builder.add_ground_plane()
    _apply_drives(builder, robot)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        mjcf = Path(folder) / "model.xml"
        model = builder.finalize(device="cpu")
        solver = SolverMuJoCo(
            model,
            cone=robot.cone,
            impratio=robot.impratio,
            integrator="implicitfast",
            save_to_mjcf=str(mjcf),
        )
        xml = mjcf.read_text()
    exact = solver.mj_model
    exact.opt.timestep = robot.sim_dt / robot.substeps
    qpos, dof = _places(model, solver)
    wanted = robot.layout.joint_names
    if sorted(qpos) != sorted(wanted):
        raise FlashNerdError(
            f"the asset {path} has the joints {list(qpos)}, but robot={robot.name} needs {list(wanted)}."
        )
    bodies = {_tail(label): label.replace("/", "_") for label in model.body_label}
    named = contacts is not None or bool(robot.layout.conditions)
    if named and tuple(bodies) != robot.links:
        raise FlashNerdError(
            f"the asset {path} has the links {list(bodies)}, but robot={robot.name} names {list(robot.links)}."
        )
    return ExportedModel(
        robot=robot.name,
        asset_key=asset_key(robot, path, local=usd_path is None),
        xml=xml,
        fields=_differences(exact, import_module("mujoco").MjModel.from_xml_string(xml)),
        joint_names=tuple(wanted),
        qpos_index=tuple(qpos[name] for name in wanted),
        dof_index=tuple(dof[name] for name in wanted),
        actuation=robot.actuation,
        actuated_dofs=tuple(dof[name] for name in robot.layout.actuated),
        sim_dt=float(robot.sim_dt),
        decimation=int(robot.decimation),
        versions={name: version(name) for name in ("mujoco", "mujoco-warp", "newton", "warp-lang")},
        floating_base=robot.layout.floating_base,
        base_body=bodies[robot.base_link] if robot.layout.floating_base else "",
        links=bodies if named else {},
        substeps=int(robot.substeps),
        layout=robot.layout.to_dict(),
        capacity=contacts.capacity if contacts is not None else 0,
        gap=contacts.gap if contacts is not None else 0.0,
        target_inputs=_target_inputs(exact, [dof[name] for name in robot.layout.actuated], robot),
        coupling=robot.coupling,
    )


def _target_inputs(exact: Any, dofs: list[int], robot: RobotDescription) -> tuple[int, ...]:
    """The position actuator of each actuated dof, -1 where a motor outside of the solver drives it; empty without."""
    drive = robot.layout.drive
    if drive is None or not any(robot.joint_stiffness.values()):
        return ()
    found: list[int] = []
    for name, dof in zip(robot.layout.actuated, dofs, strict=True):
        joint = int(exact.dof_jntid[dof])
        # A position actuator pulls towards its input: its bias has a term in position.
        mine = [i for i in range(exact.nu) if exact.actuator_trnid[i, 0] == joint and exact.actuator_biasprm[i, 1] < 0]
        if len(mine) != (1 if robot.joint_stiffness.get(name, 0.0) else 0):
            raise FlashNerdError(
                f"joint {name} of robot={robot.name} has {len(mine)} position actuators in the exported model, but "
                "joint_stiffness gives it one or none: correct it in the robot's description."
            )
        found.append(mine[0] if mine else -1)
    return tuple(found)


def _tail(label: str) -> str:
    """Last part of a prim path."""
    return label.rsplit("/", 1)[-1]


def _places(model: Any, solver: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Joint name -> place in MuJoCo's qpos and qvel, for joints that move and are not the free base."""
    from newton import JointType

    kinds = model.joint_type.numpy()
    q_start, qd_start = solver.mj_q_start.numpy(), solver.mj_qd_start.numpy()
    moving = [j for j, kind in enumerate(kinds) if kind not in (JointType.FREE, JointType.FIXED)]
    names = {j: _tail(model.joint_label[j]) for j in moving}
    return {names[j]: int(q_start[j]) for j in moving}, {names[j]: int(qd_start[j]) for j in moving}


def _all_pairs(count: int) -> list[tuple[int, int]]:
    """Every pair of a robot's own shapes: self-collision is off, as ``NewtonArticulationCfg`` says."""
    return [(a, b) for a in range(count) for b in range(a + 1, count)]


def schema_resolvers() -> list[Any]:
    """The schema resolvers that Isaac Lab's Newton manager imports USD with, in its order."""
    from newton.usd import SchemaResolverMjc, SchemaResolverNewton, SchemaResolverPhysx

    return [SchemaResolverNewton(), SchemaResolverPhysx(), SchemaResolverMjc()]


def _apply_drives(builder: Any, robot: RobotDescription) -> None:
    """Set gains, target modes and effort limits by joint name, as Isaac Lab's implicit actuators do."""
    from newton import JointTargetMode

    for joint, label in enumerate(builder.joint_label):
        name = _tail(label)
        if name not in robot.layout.joint_names:
            continue
        dof = builder.joint_qd_start[joint]
        ke, kd = robot.joint_stiffness.get(name, 0.0), robot.joint_damping.get(name, 0.0)
        if robot.coupling:
            ke = kd = 0.0  # what a drive gives is an input of free motion
        if name in robot.armature:
            builder.joint_armature[dof] = robot.armature[name]
        builder.joint_target_ke[dof] = ke
        builder.joint_target_kd[dof] = kd
        both = ke != 0.0 and kd != 0.0
        mode = JointTargetMode.POSITION_VELOCITY if both else JointTargetMode.from_gains(ke, kd, has_drive=True)
        builder.joint_target_mode[dof] = int(mode)
        if name in robot.effort_limit:
            builder.joint_effort_limit[dof] = robot.effort_limit[name]


def _differences(exact: Any, plain: Any) -> dict[str, Any]:
    """Fields of ``exact`` that compiling the MJCF alone does not reproduce to the last bit."""
    fields: dict[str, Any] = {}
    for name in dir(exact):
        value = getattr(exact, name, None)
        if name.startswith("_") or not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            continue
        other = getattr(plain, name)
        if value.shape != other.shape:
            raise FlashNerdError(f"the exported MJCF differs from Newton's model in the size of '{name}'; report this.")
        if not np.array_equal(value, other):
            fields[name] = value.tolist()
    for name in dir(exact.opt):
        value = getattr(exact.opt, name)
        if name.startswith("_") or callable(value):
            continue
        if not np.array_equal(value, getattr(plain.opt, name)):
            fields[f"opt.{name}"] = value.tolist() if isinstance(value, np.ndarray) else value
    return fields


def asset_key(robot: RobotDescription, path: str, local: bool) -> str:
    """The name that bundles and data sets record; of the file that was read, whatever the environment prefers."""
    if local and Path(robot.asset_path).is_absolute():
        from flashnerd_ext.robots.assets.readback import read_asset

        return f"{robot.name}@own-{read_asset(Path(path)).fingerprint()}"
    if local:
        from flashnerd_ext.robots.assets.manifest import read_manifest
        from flashnerd_ext.robots.assets.root import local_root

        assets = read_manifest(local_root())["robots"]
        # Two robots may share an asset, which then has the name of one of them.
        name = next(name for name, facts in assets.items() if robot.asset_path in facts["files"])
        return f"{name}@local-{assets[name]['fingerprint']}"
    return f"{robot.name}@custom-{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]}"


def robot_usd(robot: RobotDescription) -> str:
    """Path of the robot's USD: below the local asset root, which is built when it is missing, or the user's own."""
    if Path(robot.asset_path).is_absolute():
        return robot.asset_path
    from flashnerd_ext.robots.assets.root import local_root

    return str(local_root() / robot.asset_path)
