"""The card as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from flashnerd_ext.errors import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from flashnerd_ext.bundle.card import Card, ContactCard, Ranges
    from flashnerd_ext.bundle.coupling import CouplingCard
    from flashnerd_ext.bundle.store import Bundle


def bundle_table(bundle: Bundle) -> str:
    """Every section of the card, one fact a line, with units."""
    return card_table(bundle.card, bundle.path, bundle.hash)


def card_table(card: Card, path: Path, digest: str) -> str:
    """:func:`bundle_table` of a card that was read without its weights; needs neither numpy nor torch.

    Args:
        card: The card.
        path: Folder of its bundle.
        digest: Hash of the bundle.
    """
    lines = [f"bundle {card.name}", ""]
    for title, rows in _sections(card, path, digest).items():
        shown = [(key, one_line(value, 400)) for key, value in rows if value != ""]
        if not shown:
            continue
        width = max(len(key) for key, _ in shown)
        lines += [title, *(f"  {key:<{width}}  {value}" for key, value in shown), ""]
    for title, ranges in (("training data, state", card.envelope.state), ("training data, frame", card.envelope.frame)):
        lines += [title, *_range_lines(ranges), ""]
    return "\n".join(lines)


def _sections(card: Card, path: Path, digest: str) -> dict[str, list[tuple[str, str]]]:
    robot, actuation, simulation, contacts, physical = (
        card.robot,
        card.actuation,
        card.simulation,
        card.contacts,
        card.physical,
    )
    unit = "N or N·m" if actuation.kind == "effort" else "m or rad"
    weights = card.weights
    assert weights is not None  # a loaded bundle always has them
    return {
        "files": [
            ("folder", str(path)),
            ("hash", digest),
            ("schema version", str(card.schema_version)),
            ("weights", f"{weights.bytes:,} bytes, {weights.tensors} tensors, {weights.parameters:,} parameters"),
            ("weights sha256", weights.sha256),
            ("lineage", ", ".join(card.lineage)),
        ],
        "robot": [
            ("name", f"{robot.name} ({robot.asset_key})"),
            ("base", "floating" if robot.floating_base else "fixed"),
            ("joints", _joined(f"{n} ({k})" for n, k in zip(robot.joint_names, robot.joint_kinds, strict=True))),
            ("actuated", f"{_joined(robot.actuated)}: {actuation.kind} [{unit}]"),
            ("position-free", _joined(robot.position_free)),
            ("effort limit [N or N·m]", _numbers(actuation.effort_limit)),
            ("drive stiffness", _numbers(actuation.stiffness)),
            ("drive damping", _numbers(actuation.damping)),
        ],
        "physical": [
            ("mass [kg]", _numbers(physical.masses)),
            (
                "inertia diagonal [kg·m²]",
                "; ".join(f"{name} {v[0]:.4g} {v[4]:.4g} {v[8]:.4g}" for name, v in physical.inertias.items()),
            ),
            (
                "limits [m or rad]",
                "; ".join(
                    f"{name} {_value(low)} to {_value(physical.limit_upper[name])}"
                    for name, low in physical.limit_lower.items()
                ),
            ),
            (
                "tolerances",
                f"mass {physical.mass_tolerance:.2g}, inertia {physical.inertia_tolerance:.2g}, "
                f"limits {physical.limit_tolerance:.2g}, gains {physical.gain_tolerance:.2g}",
            ),
        ],
        "simulation": [
            ("engine", simulation.engine),
            (
                "model step",
                f"{simulation.dt:.6g} s = {simulation.inner_steps} x {simulation.sim_dt / simulation.substeps:.6g} s "
                f"(decimation {simulation.decimation})",
            ),
            ("quaternions", simulation.quaternion_order),
            ("gravity [m/s²]", " ".join(f"{value:.4g}" for value in simulation.gravity)),
            ("contacts", _contacts(contacts)),
        ],
        "coupled mode": [] if card.coupling is None else _coupling(card.coupling),
        "model": [
            ("name", card.model.name),
            ("config", " ".join(f"{key}={value}" for key, value in card.model.config.items())),
        ],
        "training": [
            ("command", card.training.command),
            ("revision", card.training.git_revision),
            ("seed", str(card.training.seed)),
            *(
                (
                    "data",
                    f"{data.path} ({data.transitions:,} transitions, {data.trajectories:,} trajectories, seeds "
                    f"{_joined(map(str, data.seeds))}, sha256 {data.sha256[:12] or 'unknown'})",
                )
                for data in card.training.data
            ),
        ],
        "versions": [(name, version) for name, version in card.versions.items()],
        "measured": [(name, f"{value:.4g}") for name, value in card.measured.items()],
    }


def _coupling(coupling: CouplingCard) -> list[tuple[str, str]]:
    return [
        ("label", f"{coupling.label} of {coupling.integrator}"),
        ("passive damping", _numbers(coupling.damping)),
        ("armature", _numbers(coupling.armature)),
        ("gravity compensation", _numbers(coupling.gravity_compensation)),
    ]


def _contacts(contacts: ContactCard) -> str:
    if contacts.detector == "none":
        return "none"
    text = f"{contacts.detector}, {contacts.capacity} {contacts.kind} rows"
    return f"{text} ({_joined(contacts.fixed)})" if contacts.fixed else text


def _range_lines(ranges: Ranges) -> list[str]:
    width = max(len("name"), *(len(name) for name in ranges.names))
    head = f"  {'name':<{width}}" + "".join(f"  {key:>10}" for key in ("min", "max", "mean", "std"))
    rows = zip(ranges.names, ranges.min, ranges.max, ranges.mean, ranges.std, strict=True)
    return [head, *(f"  {name:<{width}}" + "".join(f"  {value:>10.4g}" for value in row) for name, *row in rows)]


def version_note(card: Card) -> str:
    """What differs between the card's stack and the installed one; empty where nothing does."""
    from flashnerd_ext.bundle.make import stack

    installed = stack()
    other = [
        f"{name} {installed[name]} (card {version})"
        for name, version in card.versions.items()
        if name in installed and installed[name] != version
    ]
    return f"made with other versions: {', '.join(other)}." if other else ""


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)


def _value(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:.6g}"


def _numbers(values: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in values.items())
