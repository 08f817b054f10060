"""What a Newton model says of itself, in the terms of the card: one reading for training and for deployment.

Newton is not imported: the arrays of the given model are read, so that this works with whatever version runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.bundle.card import PhysicalCard
from flashnerd_ext.bundle.make import stack
from flashnerd_ext.bundle.simulation import SimulationFacts, leaf
from flashnerd_ext.errors import FlashNerdError, one_line

if TYPE_CHECKING:
    from newton import Model

UNLIMITED = 1e6
"""Limits of this size and above mean that there is none: engines write 1e6, 1e10 or MAXVAL."""
_FIXED, _FREE = 3, 4


def facts_from_newton(
    model: Model,
    *,
    dt: float,
    decimation: int,
    world: int = 0,
    robot: str | None = None,
    asset_key: str | None = None,
    actuated: Sequence[str] | None = None,
    actuation_kind: str | None = None,
    contact_detector: str | None = None,
    contact_capacity: int | None = None,
    members: tuple[Sequence[int], Sequence[int]] | None = None,
) -> SimulationFacts:
    """Facts of one robot in a finalised model.

    Bodies that are welded to the world are left out: they cannot move, and importers may or may not keep them.

    Args:
        model: The finalised model.
        dt: Step of the solver [s].
        decimation: Solver steps in a control step.
        world: Which world is read; a model without worlds is read whole.
        members: Joints and bodies of the robot, for worlds that hold more than it; all of the world's by default.
        robot, asset_key, actuated, actuation_kind, contact_detector, contact_capacity: See
            :class:`SimulationFacts`; a Newton model does not say these.

    Raises:
        FlashNerdError: When a joint has several degrees of freedom, or a name stands twice in the world.
    """
    joints = members[0] if members else _members(model.joint_world, world)
    bodies = members[1] if members else _members(model.body_world, world)
    starts, kinds = numbers(model.joint_qd_start), numbers(model.joint_type)
    dims = numbers(model.joint_dof_dim)
    lower, upper = numbers(model.joint_limit_lower), numbers(model.joint_limit_upper)
    stiffness, damping = numbers(model.joint_target_ke), numbers(model.joint_target_kd)
    effort = numbers(model.joint_effort_limit)
    floating = False
    dofs: dict[str, int] = {}
    joint_kinds: dict[str, str] = {}
    for joint in joints:
        count = int(starts[joint + 1] - starts[joint])
        name = leaf(model.joint_label[joint])
        if int(kinds[joint]) == _FREE:
            floating = True
        elif count == 1:
            if name in dofs:
                raise FlashNerdError(
                    f"joint {name} stands twice in world {world}, but each name may stand once: rename one."
                )
            dofs[name] = int(starts[joint])
            angular = int(dims[joint][1]) == 1
            limited = _limit(upper[dofs[name]]) is not None or _limit(lower[dofs[name]]) is not None
            joint_kinds[name] = ("revolute" if limited else "continuous") if angular else "prismatic"
        elif count > 1:
            raise FlashNerdError(
                f"joint {name} has {count} degrees of freedom, but joints of one are supported: split it into several."
            )
    children, parents = numbers(model.joint_child), numbers(model.joint_parent)
    welded = {int(children[j]) for j in joints if int(kinds[j]) == _FIXED and int(parents[j]) < 0}
    mass, inertia = numbers(model.body_mass), numbers(model.body_inertia)
    moving = {leaf(model.body_label[body]): body for body in bodies if body not in welded}
    gravity = np.asarray(numbers(model.gravity), dtype=np.float64).reshape(-1, 3)
    return SimulationFacts(
        joint_names=tuple(dofs),
        dt=float(dt),
        decimation=int(decimation),
        quaternion_order="xyzw",
        floating_base=floating,
        joint_kinds=joint_kinds,
        robot=robot,
        asset_key=asset_key,
        actuated=actuated,
        actuation_kind=actuation_kind,
        masses={name: float(mass[body]) for name, body in moving.items()},
        inertias={name: tuple(float(v) for v in inertia[body].reshape(-1)) for name, body in moving.items()},
        limits={name: (_limit(lower[dof]), _limit(upper[dof])) for name, dof in dofs.items()},
        stiffness={name: float(stiffness[dof]) for name, dof in dofs.items()},
        damping={name: float(damping[dof]) for name, dof in dofs.items()},
        effort_limits={name: _limit(effort[dof]) for name, dof in dofs.items()},
        gravity=tuple(float(value) for value in gravity[min(world, len(gravity) - 1)]),
        contact_detector=contact_detector,
        contact_capacity=contact_capacity,
        versions=stack(),
    )


def physical_card(facts: SimulationFacts, **tolerances: float) -> PhysicalCard:
    """The card's physical section from the simulation that made the training data.

    Args:
        facts: What that simulation said.
        **tolerances: ``mass_tolerance``, ``inertia_tolerance``, ``limit_tolerance``, ``gain_tolerance``.
    """
    limits = {leaf(name): pair for name, pair in (facts.limits or {}).items()}
    return PhysicalCard(
        masses={leaf(name): float(mass) for name, mass in (facts.masses or {}).items()},
        inertias={leaf(name): tuple(float(v) for v in values) for name, values in (facts.inertias or {}).items()},
        limit_lower={name: _limit(pair[0]) for name, pair in limits.items()},
        limit_upper={name: _limit(pair[1]) for name, pair in limits.items()},
        **tolerances,
    )


def numbers(array: Any) -> np.ndarray:
    """A column of a finalised model (an array of Warp) or of a builder (a list)."""
    return np.asarray(array.numpy() if hasattr(array, "numpy") else array)


def _members(worlds: Any, world: int) -> list[int]:
    """Indices that belong to ``world``; all where the model was built without worlds."""
    of = numbers(worlds).reshape(-1)
    found = np.flatnonzero(of == world)
    if not len(found) and not (of >= 0).any():
        found = np.arange(len(of))
    if not len(found):
        raise FlashNerdError(
            f"world {world} has no bodies or joints in this model, which has {int(of.max(initial=-1)) + 1}."
        )
    return found.tolist()


def _limit(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) or abs(value) >= UNLIMITED else float(value)


def physical_of_asset(usd_path: str, **tolerances: float) -> PhysicalCard:
    """The physical section that Newton reads from a robot's asset, imported as Isaac Lab's Newton backend does.

    Args:
        usd_path: The robot's USD.
        **tolerances: See :func:`physical_card`.

    Raises:
        FlashNerdError: When Newton is not installed or cannot read the asset.
    """
    try:
        import newton
        import warp as wp
        from newton.usd import SchemaResolverMjc, SchemaResolverNewton, SchemaResolverPhysx
    except ImportError as error:
        raise FlashNerdError(f"reading an asset needs newton ({error}): type pip install newton.") from None
    wp.config.quiet = True
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    try:
        builder.add_usd(usd_path, schema_resolvers=[SchemaResolverNewton(), SchemaResolverPhysx(), SchemaResolverMjc()])
        model = builder.finalize(device="cpu")
    except Exception as error:  # USD and Newton raise many kinds
        raise FlashNerdError(
            f"the asset {usd_path} cannot be read ({one_line(error, 120)}): type make setup."
        ) from None
    return physical_card(facts_from_newton(model, dt=1.0, decimation=1), **tolerances)
