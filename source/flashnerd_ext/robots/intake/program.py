"""``scripts/new_robot.py``: from a robot's file to a folder that every command works on."""

from __future__ import annotations

import copy
import dataclasses
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_write, write_json
from flashnerd_ext.robots.assets import urdf
from flashnerd_ext.robots.assets.urdf import Tree
from flashnerd_ext.robots.assets.urdf_robot import write_tree
from flashnerd_ext.robots.intake.check import check_bodies, check_inertia, check_joints, check_meshes, check_shapes
from flashnerd_ext.robots.intake.choices import Choices, choose, collision_policies
from flashnerd_ext.robots.intake.findings import Finding, counted, sorted_findings, table
from flashnerd_ext.robots.intake.measure import Measured, measure, refuse_unstable
from flashnerd_ext.robots.intake.options import Options, parse
from flashnerd_ext.robots.intake.source import Intake, read
from flashnerd_ext.robots.intake.write import check_target, robot_toml, task_py, write_folder
from flashnerd_ext.robots.own import load_own, own_robots
from flashnerd_ext.robots.own.schema import FILE


class Refused(FlashNerdError):
    """The file has errors; they are in :attr:`findings` and have been printed."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        errors = sum(finding.severity == "error" for finding in findings)
        super().__init__(
            f"{errors} error{'s' if errors != 1 else ''} in the robot's file, see the table: nothing was written."
        )


@dataclasses.dataclass
class Examined:
    """A robot that was read and checked, as far as that goes without a simulator.

    Attributes:
        intake: What the file says.
        tree: Links and joints as they will be written.
        choices: Base, feet, and the description that the asset is written by.
        findings: Everything that was found; no errors.
    """

    intake: Intake
    tree: Tree
    choices: Choices
    findings: list[Finding]


@dataclasses.dataclass
class Prepared:
    """A robot that was read, checked and measured; its asset lies in a temporary folder.

    Attributes:
        usd: The written asset.
        choices: Base and feet.
        measured: What ``robot.toml`` says.
        findings: Everything that was found, worst first.
    """

    usd: Path
    choices: Choices
    measured: Measured
    findings: list[Finding]


def examine(options: Options) -> Examined:
    """Read and check a robot.

    Raises:
        Refused: When the file has errors.
        FlashNerdError: When an option does not fit the file.
    """
    intake = read(options.path, options.package, options.root)
    _refuse(intake.findings)
    assert intake.tree is not None
    _refuse([*intake.findings, *check_meshes(intake.tree)])
    found = [*intake.findings, *check_inertia(intake.tree, options.repair, options.mass)]
    choices = choose(intake, options)
    found += choices.findings
    tree, merged = _merged(intake.tree, choices)
    found += [finding for finding in merged if finding not in found]
    found += check_joints(_with_ranges(tree, options)) + check_shapes(tree, choices.feet, not choices.fixed_base)
    _refuse(found)
    if not any(joint.kind != "fixed" for joint in tree.joints):
        raise FlashNerdError(f"no joint of {options.path} moves: give the file of a robot.")
    policies, shapes = collision_policies(tree, choices.feet, options)
    choices.robot = dataclasses.replace(choices.robot, collision=policies)
    return Examined(intake, tree, choices, found + shapes)


def prepare(options: Options, folder: Path) -> Prepared:
    """Read, check, convert and measure a robot.

    Args:
        options: What the command says.
        folder: Where the asset is written, as ``NAME.usda``.

    Raises:
        Refused: When the file has errors.
        FlashNerdError: When an option does not fit the file.
    """
    examined = examine(options)
    usd = write_tree(examined.choices.robot, examined.tree, folder / f"{options.name}.usda")
    measured = measure(usd, examined.intake, examined.choices, options)
    found = examined.findings + measured.findings + refuse_unstable(measured)
    _refuse(found)
    return Prepared(usd, examined.choices, measured, sorted_findings(found))


def _merged(raw: Tree, choices: Choices) -> tuple[Tree, list[Finding]]:
    """The tree as it will be written, and what is wrong with its bodies."""
    # The converter refuses the first body without mass; here all of them are to be found.
    tree = urdf.edit(copy.deepcopy(raw), choices.robot, massless=True)
    return tree, check_bodies(tree, choices.fixed_base)


def _with_ranges(tree: Tree, options: Options) -> Tree:
    """The tree with the limits that the user gives, which are then not the file's fault."""
    import re

    def span(name: str, limits: tuple[float, float]) -> tuple[float, float]:
        return next((given for pattern, given in options.range.items() if re.fullmatch(pattern, name)), limits)

    tree.joints = [
        dataclasses.replace(
            joint,
            limits=span(joint.name, joint.limits),
            kind="revolute"
            if joint.kind == "continuous" and span(joint.name, joint.limits) != joint.limits
            else joint.kind,
        )
        for joint in tree.joints
    ]
    return tree


def _refuse(found: Sequence[Finding]) -> None:
    if any(finding.severity == "error" for finding in found):
        raise Refused(sorted_findings(found))


def new_robot(options: Options, command: str = "") -> Path:
    """Write the folder of a robot.

    Args:
        options: What the command says.
        command: The command itself, for the head of ``robot.toml``.

    Returns:
        The folder.

    Raises:
        Refused: When the file has errors; their table is printed.
        FlashNerdError: When an option does not fit the file, or the folder is there already.
    """
    folder = (options.out / options.name).absolute()
    other = own_robots().get(options.name)
    if other is not None and other.folder.resolve() != folder.resolve():
        raise FlashNerdError(
            f"--name is '{options.name}', but {other.folder} holds a robot of that name: give another one, or --out "
            f"{other.folder.parent}."
        )
    if not options.check:
        check_target(folder, options.force)
    with tempfile.TemporaryDirectory(prefix="new_robot-") as temporary:
        try:
            prepared = prepare(options, Path(temporary))
        except Refused as refused:
            print(table(refused.findings))
            raise
        print(table(prepared.findings))
        print(f"{options.path.name}: {counted(prepared.findings)}")
        if options.check:
            return folder

        def fill(place: Path) -> None:
            atomic_write(place / prepared.usd.name, prepared.usd.read_bytes())
            source = str(options.path.absolute())
            text = robot_toml(options.name, source, prepared.usd.name, prepared.measured, command)
            atomic_write(place / FILE, text)
            atomic_write(place / "task.py", task_py(options.name, not prepared.choices.fixed_base))
            write_json(place / "findings.json", [finding.to_dict() for finding in prepared.findings])
            load_own(place)  # what cannot be read back is not left lying about

        write_folder(folder, options.force, fill)
    return folder


def main() -> int:
    """The command."""
    options = parse(doc=__doc__)
    folder = new_robot(options, "python scripts/new_robot.py " + shlex.join(sys.argv[1:]))
    if not options.check:
        print(guesses(folder))
        print(next_steps(folder))
    return 0


def guesses(folder: Path) -> str:
    """The lines of ``robot.toml`` that hold guesses."""
    lines = [
        line for line in (folder / FILE).read_text().splitlines() if "guessed" in line and not line.startswith("#")
    ]
    return "\n".join([f"guessed, in {folder / FILE}:", *(f"  {line}" for line in lines)])


def next_steps(folder: Path) -> str:
    """Commands that go on from here."""
    own = load_own(folder)
    try:
        shown = folder.relative_to(Path.cwd())
    except ValueError:
        shown = folder
    notice = []
    if folder.parent != Path.cwd() / "robots":
        notice = [f"export FLASHNERD_ROBOTS={folder.parent}  # where robots are looked for, ./robots unless it is set"]
    learned = not own.description.coupling
    extra = "" if learned else " options.span=1 train.window=1"
    steps = [
        f"python scripts/dataset.py robot={own.name} out=data/{own.name}",
        f"python scripts/train_dynamics.py robot={own.name} data=data/{own.name} out={shown}/bundle{extra}",
        f"python scripts/evaluate_dynamics.py robot={own.name} data=data/{own.name} json=outputs/{own.name}.json",
        f"python scripts/rsl_rl/train.py --task {own.task.name} physics=flashnerd",
    ]
    return "\n".join([f"written: {shown}. Next:", *(f"  {line}" for line in (*notice, *steps))])
