"""Compare a written asset with an independent reading of its source: masses, limits and mass matrices.

Pinocchio gives the mass matrix of the written asset. The reference is Pinocchio's own parse of the URDF, or, for a
robot that comes as USD, the model that Newton builds from the packaged file and exports to MuJoCo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.description import AssetDescription, UrdfRobot, UsdRobot
from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.assets.readback import Asset, Joint, read_asset


@dataclass(frozen=True)
class Check:
    """One comparison: the largest error found and the error allowed (relative to the largest entry for matrices)."""

    what: str
    error: float
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether the error is allowed; NaN is not."""
        return bool(self.error <= self.allowed)


@dataclass(frozen=True)
class Reference:
    """An independent reading of a robot's source.

    Args:
        joints: Movable joints, in the order of the mass matrix's joint columns.
        limits: Lower and upper limits [nj, 2], rad or m; infinite when free.
        mass: kg of everything that moves or hangs on the base.
        mass_matrix: ``q [nj] -> M [nj (+6), nj (+6)]`` at the identity pose of a floating base.
    """

    joints: list[str]
    limits: Array
    mass: float
    mass_matrix: Callable[[Array], Array]


def pinocchio_model(asset: Asset) -> tuple[Any, list[str]]:
    """A Pinocchio model of a written asset and its joint names in the model's order.

    A floating base is written relative to the root body's frame. Bodies on fixed joints are added to the joint that
    carries them.
    """
    pin: Any = import_module("pinocchio")

    def placement(matrix: Array) -> Any:
        return pin.SE3(np.ascontiguousarray(matrix[:3, :3]), matrix[:3, 3].copy())

    model = pin.Model()
    children = {joint.child for joint in asset.joints if joint.parent is not None}
    root = next(name for name in asset.bodies if name not in children)
    base = 0
    if not asset.fixed_base:
        base = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root_joint")
    where: dict[str, tuple[int, Array]] = {root: (base, np.eye(4))}
    names: list[str] = []
    below: dict[str, list[Joint]] = {}
    for joint in asset.joints:
        if joint.parent is not None:
            below.setdefault(joint.parent, []).append(joint)

    def add(parent: str) -> None:
        # Depth-first: Pinocchio's algorithms take the joints of a subtree to be neighbours.
        for joint in below.get(parent, []):
            index, body = where[parent]
            at = body @ joint.parent_frame
            if joint.kind != "fixed":
                make = pin.JointModelRevoluteUnaligned if joint.kind == "revolute" else pin.JointModelPrismaticUnaligned
                index = model.addJoint(index, make(joint.axis), placement(at), joint.name)
                names.append(joint.name)
                at = np.eye(4)
            where[joint.child] = (index, at @ np.linalg.inv(joint.child_frame))
            add(joint.child)

    add(root)
    lost = sorted(set(asset.bodies) - set(where))
    if lost:
        raise FlashNerdError(f"bodies {lost[:3]} of the asset hang on no joint.")
    for name, body in asset.bodies.items():
        index, at = where[name]
        inertia = pin.Inertia(body.mass, body.com, body.tensor)
        model.appendBodyToJoint(index, inertia, placement(at))
    return model, names


def mass_matrix_of(model: Any, names: list[str], floating: bool) -> Callable[[Array], Array]:
    """Mass matrix of a Pinocchio model as a function of the joint positions ``[nj]`` in the order of ``names``.

    A continuous joint may take two numbers in Pinocchio (cosine and sine). Floating: the base's six rows come first.
    """
    pin: Any = import_module("pinocchio")

    data = model.createData()
    base = list(range(6)) if floating else []
    columns = base + [int(model.joints[model.getJointId(name)].idx_v) for name in names]

    def at(q: Array) -> Array:
        full = pin.neutral(model)
        for name, value in zip(names, q, strict=True):
            joint = model.joints[model.getJointId(name)]
            if joint.nq == 2:
                full[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
            else:
                full[joint.idx_q] = value
        upper = np.triu(pin.crba(model, data, full))
        return (upper + np.triu(upper, 1).T)[np.ix_(columns, columns)]

    return at


def urdf_reference(robot: UrdfRobot) -> Reference:
    """Pinocchio's parse of the robot's URDF with the description's locks, under the description's names.

    A floating base sits in the URDF's root link, so a description with another base frame is compared by its joints.
    """
    pin: Any = import_module("pinocchio")

    from flashnerd_ext.robots.assets.urdf import pick, renamed

    floating = not robot.fixed_base
    path = str(robot.source.path())
    free = pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer())
    mass = float(pin.computeTotalMass(free))  # the fixed model does not count what is bolted to the world
    model = free if floating else pin.buildModelFromUrdf(path)
    lock = dict.fromkeys(robot.lock, True)
    source = {renamed(name, robot.rename): name for name in model.names}
    locked = [model.getJointId(source[name]) for name in source if pick(lock, name)]
    if locked:  # Pinocchio refuses even an empty reduction where a link and a joint share a name
        model = pin.buildReducedModel(model, locked, pin.neutral(model))
    known = [name for name in model.names if name not in ("universe", "root_joint")]
    by_name = {renamed(name, robot.rename): name for name in known}
    joints = [name for name in robot.joints if name in by_name]
    limits = np.array([_pin_limits(model, by_name[name]) for name in joints]).reshape(-1, 2)
    inner = mass_matrix_of(model, [by_name[name] for name in joints], floating)
    return Reference(joints, limits, mass, inner)


def _pin_limits(model: Any, name: str) -> tuple[float, float]:
    joint = model.joints[model.getJointId(name)]
    if joint.nq == 2:
        return (-np.inf, np.inf)
    return (float(model.lowerPositionLimit[joint.idx_q]), float(model.upperPositionLimit[joint.idx_q]))


def newton_reference(path: Path, root: str | None = None) -> Reference:
    """The model that Newton builds from a USD file and exports to MuJoCo.

    Newton fills in what the file leaves out: mass from collision shapes at 1000 kg/m^3, inertia from shapes.

    Args:
        path: The USD file.
        root: Prim to read; ``None`` reads the whole stage.
    """
    mujoco: Any = import_module("mujoco")
    newton: Any = import_module("newton")
    wp: Any = import_module("warp")

    wp.config.log_level = wp.LOG_WARNING
    builder = newton.ModelBuilder()
    builder.add_usd(str(path), **({"root_path": root} if root else {}))
    model = builder.finalize(device="cpu")
    exported = newton.solvers.SolverMuJoCo(model, disable_contacts=True).mj_model
    kinds, starts = model.joint_type.numpy(), model.joint_qd_start.numpy()
    unmoved = (int(newton.JointType.FIXED), int(newton.JointType.FREE))
    movable = [index for index, kind in enumerate(kinds) if int(kind) not in unmoved]
    joints = [str(model.joint_label[index]).rsplit("/", 1)[-1] for index in movable]
    dofs = [int(starts[index]) for index in movable]
    limits = np.stack([model.joint_limit_lower.numpy()[dofs], model.joint_limit_upper.numpy()[dofs]], axis=1)
    limits = limits.astype(np.float64)
    limits[np.abs(limits) >= 1e9] = np.copysign(np.inf, limits[np.abs(limits) >= 1e9])
    data = mujoco.MjData(exported)

    def at(q: Array) -> Array:
        if exported.nq > len(q):  # free base: origin, unit quaternion (w first)
            data.qpos[:7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        data.qpos[exported.nq - len(q) :] = q
        mujoco.mj_forward(exported, data)
        full = np.zeros((exported.nv, exported.nv))
        mujoco.mj_fullM(exported, data, full)
        return full

    return Reference(joints, limits, float(model.body_mass.numpy().sum()), at)


def compare(
    asset: Asset, reference: Reference, tolerance: float = 1e-6, samples: int = 20, seed: int = 0
) -> list[Check]:
    """Joint names, total mass, limits and the mass matrix at random configurations.

    Args:
        asset: The written asset.
        reference: What it should be.
        tolerance: Allowed error of the mass matrix, relative to its largest entry, and of the mass.
        samples: Random configurations, inside the limits (free joints: +-pi, or +-1 m).
        seed: Of those configurations.
    """
    written = {joint.name: joint for joint in asset.movable}
    missing = sorted(set(reference.joints) ^ set(written))
    differs = f" (different: {', '.join(missing)})" if missing else ""
    checks = [Check("joint names" + differs, float(len(missing)), 0.0)]
    checks.append(Check("total mass", abs(asset.mass - reference.mass) / reference.mass, max(tolerance, 1e-6)))
    if missing:
        return checks
    limits = np.array([written[name].limits for name in reference.joints]).reshape(-1, 2)
    finite = np.isfinite(reference.limits)
    same = np.array_equal(np.isfinite(limits), finite)
    largest = float(np.abs(limits[finite] - reference.limits[finite]).max(initial=0.0)) if same else np.inf
    checks.append(Check("limits (rad, m)", largest, 1e-6))
    model, _ = pinocchio_model(asset)
    ours = mass_matrix_of(model, reference.joints, not asset.fixed_base)
    rng = np.random.default_rng(seed)
    wide = np.where(np.isfinite(limits), limits, np.array([-np.pi, np.pi]))
    worst = 0.0
    for _ in range(samples):
        q = rng.uniform(wide[:, 0], wide[:, 1])
        wanted, found = reference.mass_matrix(q), ours(q)
        if wanted.shape != found.shape:
            return [*checks, Check(f"mass matrix shape {found.shape} against {wanted.shape}", np.inf, 0.0)]
        worst = max(worst, float(np.abs(found - wanted).max() / np.abs(wanted).max()))
    checks.append(Check(f"mass matrix, {samples} configurations", worst, tolerance))
    return checks


def verify(description: AssetDescription, folder: Path) -> list[Check]:
    """Check one robot of a built root against its source.

    Raises:
        FlashNerdError: When the asset is missing, or a package that the comparison needs is not installed.
    """
    asset = read_asset(folder / description.outputs[0])
    try:
        if isinstance(description, UsdRobot):
            reference = newton_reference(description.source.path())
        else:
            reference = urdf_reference(description)
        return compare(asset, reference, tolerance=description.tolerance)
    except ModuleNotFoundError as error:
        raise FlashNerdError(
            f"verifying needs the module '{error.name}', which is not installed: type pip install "
            f"{'pin' if error.name == 'pinocchio' else error.name}."
        ) from None
