"""Write a robot's folder: whole or not at all, and never over another one unless that is wanted."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.intake.measure import CLEARANCE, KD, KE, ROWS, JointFacts, Measured
from flashnerd_ext.robots.own.schema import FILE, SCHEMA

KEPT = ("bundle", "bundle-run")
"""What of a folder survives ``--force``: a trained model is hours of work."""
COLLISION_GAP = 0.03


def camel(name: str) -> str:
    """``my_robot`` -> ``MyRobot``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)


def task_id(name: str, floating: bool) -> str:
    """Gym id of a robot's task."""
    return f"FlashNeRD-Velocity-Flat-{camel(name)}" if floating else f"FlashNeRD-Reach-{camel(name)}"


def check_target(folder: Path, force: bool) -> None:
    """Refuse a folder that is there already.

    Raises:
        FlashNerdError: Unless it is a robot's folder and ``force`` is on.
    """
    if not os.path.lexists(folder):
        return
    if not (folder / FILE).is_file():
        raise FlashNerdError(f"{folder} is there already and holds no {FILE}: give another --name or --out.")
    if not force:
        raise FlashNerdError(
            f"{folder} is there already: type --force to replace it (edits are lost), or another --name."
        )


def write_folder(folder: Path, force: bool, fill: Callable[[Path], object]) -> Path:
    """Let ``fill(temporary)`` write the files, then move them to ``folder`` at once; nothing is left when it fails."""
    check_target(folder, force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        temporary.chmod(0o755)
        fill(temporary)
        if folder.exists():
            for name in KEPT:
                if (folder / name).is_dir():
                    shutil.copytree(folder / name, temporary / name)
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.rename(old / folder.name)
            temporary.rename(folder)
            shutil.rmtree(old)
        else:
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def robot_toml(name: str, source: str, asset: str, measured: Measured, command: str) -> str:
    """The text of ``robot.toml``."""
    walks = bool(measured.feet)
    lines = [
        f"# {name}: written by",
        f"#   {command}",
        "# It is yours to edit: dataset.py, train_dynamics.py, evaluate_dynamics.py and the task read it each time.",
        "# 'guessed' stands where the command could not know better. Data and bundles made before an edit keep what",
        "# they were made with, so make them anew after one.",
        "",
        f"schema = {SCHEMA}",
        f"name = {_text(name)}",
        f"source = {_text(source)}",
        f"asset = {_text(asset)}",
        f"links = {_list(measured.links)}  # in the simulator's order, which contact rows count by",
    ]
    if not walks:
        free = (measured.turntable,) if measured.turntable else ()
        lines.append(
            f"position_free = {_list(free)}  # joints whose angle changes nothing: about the vertical, measured"
        )
    lines += ["", "[base]", f"floating = {_bool(walks)}", f"link = {_text(measured.base)}"]
    if walks:
        lines += [
            f"stand_height = {measured.height:g}  # where the soles touch the ground in the default pose [m], measured",
            f"height = {round(measured.height + CLEARANCE, 4):g}  # where a task resets to [m], guessed",
        ]
    elif measured.quat != (0.0, 0.0, 0.0, 1.0):
        lines.append(f"quat = {_numbers(measured.quat)}  # how it is mounted (x, y, z, w)")
    lines += _step(walks) + _joints(measured.joints)
    if walks:
        lines += _contacts(measured) + [
            "",
            "[conditions]  # what differs from world to world, with a margin over the task's own events; guessed",
            "base_mass = [-0.25, 0.3]  # as a factor less one",
            f"base_com_x = {_numbers(_shift(measured.height, 1.0))}  # [m]",
            f"base_com_y = {_numbers(_shift(measured.height, 1.0))}",
            f"base_com_z = {_numbers(_shift(measured.height, 0.3))}",
        ]
    if measured.mirror is not None:
        lines += [
            "",
            "[mirror]  # left and right agree at the zero pose, measured: data and samples count twice",
            f"sides = {_list(measured.mirror.sides)}",
            f"turned = {_list(measured.mirror.turned)}",
        ]
    return "\n".join(lines + _data(measured) + _task(name, measured)) + "\n"


def _step(walks: bool) -> list[str]:
    sim_dt, decimation, scale = (0.005, 4, 0.25) if walks else (round(1.0 / 120.0, 10), 4, 0.5)
    return [
        "",
        "[step]  # as the stock tasks have it",
        f"sim_dt = {sim_dt:.10g}  # simulation step [s]",
        f"decimation = {decimation}  # simulation steps in a control step",
        "substeps = 2  # solver steps in a simulation step",
        f"action_scale = {scale:g}  # an action times this is added to the default pose [rad]; guessed",
    ]


def _joints(joints: Mapping[str, JointFacts]) -> list[str]:
    lines = ["", "[joints]  # in the simulator's order; rad, N m, N m/rad, N m s/rad, kg m^2 (prismatic: m, N, ...)"]
    width = max(len(name) for name in joints)
    for name, joint in joints.items():
        values = {
            "kind": _text(joint.kind),
            "limits": _numbers(joint.limits),
            "default": f"{joint.default:g}",
            "effort": f"{joint.effort:g}",
            "stiffness": f"{joint.stiffness:g}",
            "damping": f"{joint.damping:g}",
            "armature": f"{joint.armature:g}",
        }
        inside = ", ".join(f"{key} = {value}" for key, value in values.items())
        guessed = f"  # guessed: {', '.join(joint.guessed)}" if joint.guessed else ""
        lines.append(f"{name:<{width}} = {{ {inside} }}{guessed}")
    return lines


def _contacts(measured: Measured) -> list[str]:
    return [
        "",
        "[contacts]",
        f"feet = {_list(measured.feet)}",
        f"capacity = {max(ROWS, 3 * len(measured.feet))}  # contact rows; row_count in the data says how many it took",
        f"gap = {COLLISION_GAP:g}  # how far ahead a contact is seen [m]",
        "friction = [0.4, 1.25]  # range in the data",
        f"ke = {KE:.1f}  # contact stiffness [N/m] and damping [N s/m] of the stock velocity tasks",
        f"kd = {KD:.1f}",
        "self_collision = false",
        f"fixed = {_list(measured.fixed_rows)}  # links of contacts=fixed, one row each",
    ]


def _shift(height: float, share: float) -> tuple[float, float]:
    """Range of a shift of the centre of mass: 6 cm of a robot as high as ANYmal, with its height."""
    reach = float(f"{min(0.06, 0.11 * height) * share:.2g}")
    return (-reach, reach)


def _data(measured: Measured) -> list[str]:
    walks = bool(measured.feet)
    lines = [
        "",
        "[data]  # defaults of scripts/dataset.py: [trajectories, steps] of each split",
        f"plan = {_text('walk' if walks else 'arm')}",
        f"shard = {512 if walks else 2048}",
    ]
    # A step of free motion is a solver's step, an eighth of a control step.
    sizes = {"train": (8192, 48), "val": (256, 100), "test": (512, 200)}
    if not walks:
        sizes = {"train": (16384, 24), "val": (512, 100), "test": (1024, 200)}
    lines += [f"{split} = [{count}, {steps}]" for split, (count, steps) in sizes.items()]
    lines.append("weights = {}  # share of a sampler in place of its own, such as { gait = 0.4 }")
    if walks:
        lines += [
            f"legs = [{', '.join(_list(leg) for leg in measured.legs)}]  # joints from the base to each foot",
            f"fore = [{', '.join(_bool(x) for x in measured.fore)}]  # front legs, for gaits",
            f"left = [{', '.join(_bool(x) for x in measured.left)}]",
        ]
    else:
        inside = ", ".join(f"{name} = {value:g}" for name, value in measured.inertia.items())
        lines.append(f"inertia = {{ {inside} }}  # least over random poses, armature included, measured")
    return lines


def _task(name: str, measured: Measured) -> list[str]:
    walks = bool(measured.feet)
    lines = ["", "[task]  # of task.py", f"name = {_text(task_id(name, walks))}"]
    if walks:
        # Speeds of walking go with the root of a leg's length; Go2 and ANYmal are asked for 1 m/s.
        speed = round(min(1.0, 0.55 * math.sqrt(9.81 * measured.height)), 1)
        spans = ", ".join(_numbers(span) for span in ((-speed, speed), (-speed, speed), (-1.0, 1.0)))
        lines.append(f"speed = [{spans}]  # commands along x, y [m/s], about z [rad/s]; guessed from the height")
        return lines
    spans = ", ".join(_numbers(span) for span in measured.reach)
    return [
        *lines,
        f"tip = {_text(measured.tip)}  # what reaches; guessed",
        f"reach = [{spans}]  # commanded positions in the base's frame, x, y, z [m]; guessed from the default pose",
        f"turn = {_numbers(measured.turn)}  # commanded roll, pitch, yaw [rad]: those of the default pose",
    ]


VELOCITY = '''"""{title} walks at a commanded velocity on flat ground. Yours to edit: it runs when the task is started.

    python scripts/rsl_rl/train.py --task {task} physics=flashnerd

``velocity`` sets the robot of robot.toml into the stock velocity task; change below what it made.
"""

from pathlib import Path

from isaaclab.utils import configclass

from flashnerd_ext.robots.own import load_own
from flashnerd_tasks.own.velocity import VelocityEnvCfg, VelocityPPORunnerCfg, learn, velocity

ROBOT = load_own(Path(__file__).parent)


@configclass
class EnvCfg(VelocityEnvCfg):
    """``{task}``."""

    def __post_init__(self):
        super().__post_init__()
        velocity(self, ROBOT)
        # For example:
        # self.commands.base_velocity.ranges.lin_vel_x = (0.0, 1.0)
        # self.rewards.feet_air_time.weight = 0.5


@configclass
class PPORunnerCfg(VelocityPPORunnerCfg):
    """PPO for it."""

    def __post_init__(self):
        super().__post_init__()
        learn(self, ROBOT)
        # For example: self.max_iterations = 500
'''

REACH = '''"""{title} reaches for commanded poses. Yours to edit: what stands here runs when the task is started.

    python scripts/rsl_rl/train.py --task {task} physics=flashnerd

``reach`` sets the robot of robot.toml into the stock reach task; change below what it made.
"""

from pathlib import Path

from isaaclab.utils import configclass

from flashnerd_ext.robots.own import load_own
from flashnerd_tasks.own.reach import ReachEnvCfg, ReachPPORunnerCfg, learn, reach

ROBOT = load_own(Path(__file__).parent)


@configclass
class EnvCfg(ReachEnvCfg):
    """``{task}``."""

    def __post_init__(self):
        super().__post_init__()
        reach(self, ROBOT)
        # For example:
        # self.commands.ee_pose.ranges.pos_x = (0.3, 0.6)
        # self.rewards.end_effector_orientation_tracking = None


@configclass
class PPORunnerCfg(ReachPPORunnerCfg):
    """PPO for it."""

    def __post_init__(self):
        super().__post_init__()
        learn(self, ROBOT)
        # For example: self.max_iterations = 500
'''


def task_py(name: str, floating: bool) -> str:
    """The text of ``task.py``."""
    text = VELOCITY if floating else REACH
    return text.format(title=camel(name), task=task_id(name, floating), name=name)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(_text(value) for value in values)}]"


def _numbers(values: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{value + 0.0:.6g}' for value in values)}]"
