"""``robot.toml``: what is in it, and the description that is made of it.

Every table is checked key by key, so that a typing error is said and not ignored.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest, one_line
from flashnerd_ext.model.layout import JOINT_KINDS, Drive, StateLayout, Stops
from flashnerd_ext.robots.description import ContactDescription, Mirror, RobotDescription, inertial_condition

FILE = "robot.toml"
SCHEMA = 1
NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Names of robots: they become parts of file names, python modules and gym ids."""
WALK, ARM = "walk", "arm"
PLANS = {WALK: "starts on the ground, gaits, pushes and falls", ARM: "free motion of a robot on a fixed base"}
"""Samplers that a robot's data may be made with."""
SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """Defaults of ``scripts/dataset.py``.

    Attributes:
        plan: Which samplers: one of :data:`PLANS`.
        shard: Trajectories in a shard.
        splits: Trajectories and steps of each of :data:`SPLITS`.
        weights: Share of a sampler in every split, in place of its own; names left out keep theirs.
        legs: Joints of each leg, from the base to the foot (plan ``walk``).
        fore, left: Whether each leg is a front one and a left one (plan ``walk``).
        inertia: Smallest inertia of each joint, armature included [kg m^2 or kg] (plan ``arm``).
    """

    plan: str
    shard: int
    splits: dict[str, tuple[int, int]]
    weights: dict[str, float] = field(default_factory=dict)
    legs: tuple[tuple[str, ...], ...] = ()
    fore: tuple[bool, ...] = ()
    left: tuple[bool, ...] = ()
    inertia: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OwnTask:
    """What the task skeleton needs beside the description.

    Attributes:
        name: Gym id.
        tip: Link whose pose a reach task commands.
        reach: Range of the commanded position in the base's frame, per axis [m].
        turn: Commanded orientation, roll, pitch and yaw [rad].
        speed: Range of commanded velocities of a velocity task: along x, along y [m/s], about z [rad/s].
    """

    name: str
    tip: str = ""
    reach: tuple[tuple[float, float], ...] = ()
    turn: tuple[float, ...] = ()
    speed: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class OwnRobot:
    """A robot of the user's own, as its folder says."""

    folder: Path
    description: RobotDescription
    data: OwnData
    task: OwnTask

    @property
    def name(self) -> str:
        """Name that commands take."""
        return self.description.name

    @property
    def bundle(self) -> Path:
        """Where its own bundle is looked for: ``out=robots/NAME/bundle`` of the training command."""
        return self.folder / "bundle"

    @property
    def has_bundle(self) -> bool:
        """Whether it is there."""
        return (self.bundle / "card.json").is_file()


class Table:
    """A table of the file whose values are asked for by name and kind, and which knows where it stands."""

    def __init__(self, path: Path, name: str, content: Any) -> None:
        self.path, self.name = path, name
        if not isinstance(content, dict):
            raise self.error("", f"is {one_line(repr(content), 40)}, but a table is needed")
        self.content: dict[str, Any] = dict(content)
        self.asked: set[str] = set()

    def error(self, key: str, text: str) -> FlashNerdError:
        """A sentence about one of the table's keys."""
        place = ".".join(part for part in (self.name, key) if part)
        return FlashNerdError(f"{place or 'the file'} in {self.path} {text}.")

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of ``key``, or the default.

        Raises:
            FlashNerdError: When it is missing without a default, or of another kind.
        """
        self.asked.add(key)
        if key not in self.content:
            if default is ...:
                raise self.error(key, "is missing")
            return default
        value = self.content[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            wanted = " or ".join(item.__name__ for item in kinds)
            raise self.error(key, f"is {one_line(repr(value), 60)}, but {wanted} is needed")
        return value

    def number(self, key: str, default: Any = ..., least: float = -math.inf) -> float:
        """A finite number of at least ``least``."""
        value = self.get(key, (int, float), default)
        if value is default and default is not ...:
            return value
        if not math.isfinite(value) or value < least:
            raise self.error(key, f"is {value}, but a finite number{_at_least(least)} is needed")
        return float(value)

    def whole(self, key: str, default: Any = ..., least: int = 0) -> int:
        """A whole number of at least ``least``."""
        value = self.get(key, int, default)
        if value < least:
            raise self.error(key, f"is {value}, but a whole number of at least {least} is needed")
        return value

    def numbers(self, key: str, count: int, default: Any = ...) -> tuple[float, ...]:
        """``count`` finite numbers."""
        value = self.get(key, list, default)
        if value is default and default is not ...:
            return value
        good = len(value) == count and all(
            isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) for item in value
        )
        if not good:
            raise self.error(key, f"is {one_line(repr(value), 60)}, but {count} numbers are needed")
        return tuple(float(item) for item in value)

    def span(self, key: str, default: Any = ...) -> Any:
        """A lower and an upper number, in this order."""
        value = self.numbers(key, 2, default)
        if value is not default and value[0] > value[1]:
            raise self.error(key, f"is {list(value)}, but the lower number comes first")
        return value

    def words(self, key: str, default: Any = ..., known: Iterable[str] | None = None) -> tuple[str, ...]:
        """A list of words, each among ``known``."""
        value = self.get(key, list, default)
        if not all(isinstance(item, str) for item in value):
            raise self.error(key, f"is {one_line(repr(value), 60)}, but a list of names is needed")
        for item in value if known is not None else ():
            if item not in tuple(known or ()):
                raise self.error(key, f"names '{item}', which is not there: {nearest(item, known or ())}".rstrip(".?"))
        return tuple(value)

    def table(self, key: str, default: Any = ...) -> Table:
        """A table in this one."""
        value = self.get(key, dict, default)
        return Table(self.path, f"{self.name}.{key}".lstrip("."), value)

    def done(self) -> None:
        """Refuse keys that nothing has asked for."""
        for key in self.content:
            if key not in self.asked:
                raise self.error(key, f"is not known: {nearest(key, self.asked)}".rstrip(".?"))


def _at_least(least: float) -> str:
    return "" if least == -math.inf else f" of at least {least:g}"


def load_own(folder: str | Path) -> OwnRobot:
    """Read the robot of a folder.

    Raises:
        FlashNerdError: When ``robot.toml`` is missing, cannot be parsed, or says something that cannot be used; names
            the key, what it says and what is needed.
    """
    folder = Path(folder).absolute()
    path = folder / FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FlashNerdError(f"{path} cannot be read ({error.strerror}): type python scripts/new_robot.py.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FlashNerdError(f"{path} is not TOML: {error}.") from None
    top = Table(path, "", content)
    if (schema := top.whole("schema")) != SCHEMA:
        raise top.error(
            "schema", f"is {schema}, but {SCHEMA} is needed: make the folder anew with new_robot.py --force"
        )
    name = top.get("name", str)
    if not NAME.fullmatch(name):
        raise top.error("name", f"is '{name}', but small letters, digits and _ are needed")
    top.get("source", str, "")
    joints = _joints(top.table("joints"))
    links = top.words("links")
    data = _data(top.table("data"), joints)
    task = _task(top.table("task"), links)
    description = _description(top, name, folder, links, joints, data.plan, task)
    top.done()
    return OwnRobot(folder, description, data, task)


def _joints(table: Table) -> dict[str, dict[str, Any]]:
    """Joint -> what is said of it, in the order of the file, which is Newton's."""
    found = {}
    for name in table.content:
        item = table.table(name)
        kind = item.get("kind", str)
        if kind not in JOINT_KINDS:
            raise item.error("kind", f"is '{kind}', but one of {', '.join(JOINT_KINDS)} is needed")
        found[name] = {
            "kind": kind,
            "limits": item.span("limits"),
            "default": item.number("default", 0.0),
            "effort": item.number("effort", least=0.0),
            "stiffness": item.number("stiffness", least=0.0),
            "damping": item.number("damping", least=0.0),
            "armature": item.number("armature", 0.0, least=0.0),
        }
        low, high = found[name]["limits"]
        if not low <= found[name]["default"] <= high:
            raise item.error(
                "default", f"is {found[name]['default']:g}, but it must lie in limits = [{low:g}, {high:g}]"
            )
        item.done()
    if not found:
        raise table.error("", "is empty, but a robot has joints")
    return found


def _data(table: Table, joints: Mapping[str, Any]) -> OwnData:
    plan = table.get("plan", str)
    if plan not in PLANS:
        raise table.error("plan", f"is '{plan}', but one of {', '.join(PLANS)} is needed")
    splits = {}
    for split in SPLITS:
        count, steps = table.numbers(split, 2)
        if count < 0 or steps < 1 or count % 1 or steps % 1:
            raise table.error(split, f"is {[count, steps]}, but [trajectories, steps] are needed, whole numbers")
        splits[split] = (int(count), int(steps))
    weights = table.table("weights", {})
    inertia = table.table("inertia", {})
    legs = table.get("legs", list, [])
    holder = Table(table.path, f"{table.name}.legs", {str(number): leg for number, leg in enumerate(legs)})
    data = OwnData(
        plan=plan,
        shard=table.whole("shard", 512, least=1),
        splits=splits,
        weights={name: weights.number(name, least=0.0) for name in weights.content},
        legs=tuple(holder.words(number, known=joints) for number in holder.content),
        fore=tuple(bool(x) for x in table.get("fore", list, [])),
        left=tuple(bool(x) for x in table.get("left", list, [])),
        inertia={name: inertia.number(name, least=0.0) for name in inertia.content},
    )
    if plan == WALK and not (len(data.legs) == len(data.fore) == len(data.left) >= 1):
        raise table.error("legs", "needs at least one leg, and fore and left one entry each")
    if plan == ARM:
        for name in joints:
            if not data.inertia.get(name, 0.0) > 0.0:
                raise table.error("inertia", f"lacks a number above 0 for the joint {name}")
    table.done()
    return data


def _task(table: Table, links: tuple[str, ...]) -> OwnTask:
    reach = table.get("reach", list, [])
    speed = table.get("speed", list, [])
    rows = {f"reach {axis}": row for axis, row in zip("xyz", reach, strict=False)}
    rows |= {f"speed {number}": row for number, row in enumerate(speed)}
    spans = Table(table.path, table.name, rows)
    task = OwnTask(
        name=table.get("name", str),
        tip=table.get("tip", str, ""),
        reach=tuple(spans.span(key) for key in rows if key.startswith("reach")),
        turn=table.numbers("turn", 3, ()),
        speed=tuple(spans.span(key) for key in rows if key.startswith("speed")),
    )
    if not re.fullmatch(r"FlashNeRD-[A-Za-z0-9-]+", task.name):
        raise table.error("name", f"is '{task.name}', but FlashNeRD- and then letters, digits and - are needed")
    for key, value in (("reach", reach), ("speed", speed)):
        if len(value) not in (0, 3):
            raise table.error(key, f"has {len(value)} ranges, but 3 are needed")
    if task.tip and task.tip not in links:
        raise table.error(
            "tip", f"names '{task.tip}', which is not among the links: {nearest(task.tip, links)}".rstrip(".?")
        )
    table.done()
    return task


def _description(
    top: Table,
    name: str,
    folder: Path,
    links: tuple[str, ...],
    joints: dict[str, dict[str, Any]],
    plan: str,
    task: OwnTask,
) -> RobotDescription:
    base = top.table("base")
    floating, base_link = base.get("floating", bool), base.get("link", str)
    height, stand = base.number("height", 0.0), base.number("stand_height", 0.0)
    quat = base.numbers("quat", 4, (0.0, 0.0, 0.0, 1.0))
    base.done()
    if base_link not in links:
        raise base.error(
            "link", f"is '{base_link}', which is not among the links: {nearest(base_link, links)}".rstrip(".?")
        )
    if floating != (plan == WALK):
        raise top.error(
            "data.plan", f"is '{plan}', but a {'floating' if floating else 'fixed'} base needs the other plan"
        )
    step = top.table("step")
    sim_dt, decimation = step.number("sim_dt", least=1e-5), step.whole("decimation", least=1)
    substeps, scale = step.whole("substeps", least=1), step.number("action_scale", least=0.0)
    step.done()
    ranges = _conditions(top.table("conditions", {}), links)
    names = tuple(joints)
    pick = {key: {joint: values[key] for joint, values in joints.items()} for key in next(iter(joints.values()))}
    limited = [
        joint
        for joint in names
        if pick["kind"][joint] != "continuous" and pick["limits"][joint][1] - pick["limits"][joint][0] < 4.0 * math.pi
    ]
    contacts, mirror = None, None
    if floating:
        contacts, mirror = _contacts(top.table("contacts"), links), _mirror(top.table("mirror", {}), names)
    layout = StateLayout(
        joint_names=names,
        joint_kinds=tuple(pick["kind"].values()),
        floating_base=floating,
        actuated=names,
        drive=Drive(*(tuple(pick[key].values()) for key in ("stiffness", "damping", "effort"))) if floating else None,
        position_free=top.words("position_free", [], names),
        conditions=tuple(ranges),
        stops=Stops(
            tuple(limited),
            tuple(pick["limits"][joint][0] for joint in limited),
            tuple(pick["limits"][joint][1] for joint in limited),
            reach=sim_dt * decimation,
        )
        if floating and limited
        else None,
    )
    return RobotDescription(
        name=name,
        layout=layout,
        asset_path=str(folder / _asset(top, folder)),
        sim_dt=sim_dt,
        decimation=decimation,
        substeps=substeps,
        actuation="target" if floating else "effort",
        coupling="" if floating else "qacc_smooth",
        effort_limit=pick["effort"],
        joint_stiffness=pick["stiffness"],
        joint_damping=pick["damping"],
        position_limit=pick["limits"],
        base_link=base_link,
        base_quat=(quat[0], quat[1], quat[2], quat[3]),
        default_joint_q=pick["default"],
        base_height=height,
        stand_height=stand,
        action_scale=scale,
        armature=pick["armature"],
        links=links,
        contacts=contacts,
        condition_range=ranges,
        mirror=mirror,
        tasks=(task.name,),
    )


def _asset(top: Table, folder: Path) -> str:
    asset = top.get("asset", str)
    if not (folder / asset).is_file():
        raise top.error("asset", f"is '{asset}', but there is no such file in the folder")
    return asset


def _conditions(table: Table, links: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    ranges = {}
    for name in table.content:
        found = inertial_condition(name)
        if found is None and name not in ("stiffness", "damping"):
            raise table.error(
                name, "is not known: base_mass, base_com_x, mass:LINK, com_x:LINK, stiffness, damping are"
            )
        if found is not None and found[1] and found[1] not in links:
            raise table.error(
                name, f"names the link '{found[1]}', which is not there: {nearest(found[1], links)}".rstrip(".?")
            )
        ranges[name] = table.span(name)
    return ranges


def _contacts(table: Table, links: tuple[str, ...]) -> ContactDescription:
    contacts = ContactDescription(
        capacity=table.whole("capacity", least=1),
        gap=table.number("gap", least=0.0),
        feet=table.words("feet", known=links),
        friction=table.span("friction"),
        ke=table.number("ke", least=0.0),
        kd=table.number("kd", least=0.0),
        self_collision=table.get("self_collision", bool, False),
        fixed=table.words("fixed", [], links),
    )
    table.done()
    return contacts


def _mirror(table: Table, joints: tuple[str, ...]) -> Mirror | None:
    if not table.content:
        return None
    sides, turned = table.words("sides"), table.words("turned", known=joints)
    if len(sides) != 2:
        raise table.error("sides", f'is {list(sides)}, but two words are needed, such as ["L", "R"]')
    table.done()
    mirror = Mirror((sides[0], sides[1]), turned)
    for joint in joints:
        if mirror.image(joint) not in joints:
            raise table.error("sides", f"makes {mirror.image(joint)} of the joint {joint}, which is not there")
    return mirror
