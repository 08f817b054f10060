"""Read a URDF: what the parser would refuse or pass over in silence becomes findings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import urdf
from flashnerd_ext.robots.intake.findings import Finding, error, note, warning
from flashnerd_ext.robots.intake.source import WORLD, Intake

KNOWN = ("revolute", "continuous", "prismatic", "fixed")
MENDS = {
    "floating": "leave it out, a robot without a fixed base floats by itself, or make it fixed",
    "planar": "write two prismatic joints and a continuous one in its place",
    "spherical": "write three revolute joints with two light links between them in its place",
    "ball": "write three revolute joints with two light links between them in its place",
}


def read_urdf(path: Path, element: ElementTree.Element, packages: dict[str, str]) -> Intake:
    """Read a URDF's root element; see :func:`flashnerd_ext.robots.intake.source.read`."""
    intake = Intake(path, "urdf")
    found = intake.findings
    found += _names(element) + _bodies(element) + _loops(element)
    for joint in element.iterfind("joint"):
        found += _joint(element, joint, intake)
    if any(finding.severity == "error" for finding in found):
        return intake
    found += _meshes(element, path, packages)
    folders = {name: str(Path(folder).absolute()) for name, folder in packages.items()}
    try:
        intake.tree = urdf.parse_element(element, path, folders)
    except FlashNerdError as failed:
        found.append(error("file", str(failed).rstrip("."), "correct the file, or give --package NAME=FOLDER"))
        return intake
    intake.drop_world()
    return intake


def _names(element: ElementTree.Element) -> list[Finding]:
    found = []
    for tag in ("link", "joint"):
        items = element.findall(tag)
        if any(not item.get("name") for item in items):
            found.append(error("file", f"a {tag} has no name", "give it one"))
        for name, count in Counter(item.get("name", "") for item in items).items():
            if count > 1 and name:
                found.append(error(name, f"{count} {tag}s have this name", "give each a name of its own"))
    return found


def _bodies(element: ElementTree.Element) -> list[Finding]:
    found = []
    for link in element.iterfind("link"):
        inertial, name = link.find("inertial"), link.get("name", "?")
        for part in ("mass", "inertia") if inertial is not None else ():
            if inertial is not None and inertial.find(part) is None:
                found.append(error(name, f"its inertial has no <{part}>", f"write <{part}>, or leave <inertial> out"))
        try:
            mass = float(inertial.find("mass").get("value", "nan")) if inertial is not None else 0.0  # type: ignore[union-attr]
        except (AttributeError, ValueError):
            continue
        if not mass >= 0.0:
            found.append(error(name, f"its mass is {mass:g} kg", "give it a mass of 0 or more"))
    return found


def _loops(element: ElementTree.Element) -> list[Finding]:
    children = Counter(_end(joint, "child") for joint in element.iterfind("joint"))
    found = [
        error(name, f"{count} joints hold this link", "open the loop: a tree of links is needed")
        for name, count in children.items()
        if count > 1 and name
    ]
    found += [
        warning(loop.get("name", "?"), "a <loop_joint> closes a loop", "it is left out: the chain stays open")
        for loop in element.iterfind("loop_joint")
    ]
    return found


def _end(joint: ElementTree.Element, which: str) -> str:
    end = joint.find(which)
    return "" if end is None else end.get("link", "")


def _joint(robot: ElementTree.Element, joint: ElementTree.Element, intake: Intake) -> list[Finding]:
    name, kind = joint.get("name", "?"), joint.get("type", "")
    children = {_end(other, "child") for other in robot.iterfind("joint")}
    if kind == "floating" and _end(joint, "parent") not in children:
        joint.set("type", "fixed")  # the link above it is left out, and the base floats
        intake.fixed_base = False
        return [note(name, "a floating joint holds the base", "the robot gets a floating base")]
    if kind not in KNOWN:
        mend = MENDS.get(kind, f"use one of {', '.join(KNOWN)}")
        return [error(name, f"joint type '{kind}' is not supported", mend)]
    if kind == "fixed" and _end(joint, "parent").lower() in WORLD and _end(joint, "parent") not in children:
        intake.fixed_base = True
    found, limit = [], joint.find("limit")
    if kind in ("revolute", "prismatic"):
        missing = [key for key in ("lower", "upper") if limit is None or limit.get(key) is None]
        if limit is None or len(missing) == 2:
            mend = "write <limit lower= upper= effort= velocity=>, or make it continuous"
            found.append(warning(name, f"a {kind} joint has no limits: it turns freely", mend))
            joint.set("type", "continuous" if kind == "revolute" else kind)
            if limit is not None and kind == "prismatic":
                found[-1] = error(name, "a prismatic joint has no limits", "write <limit lower= upper=>")
        elif missing:
            found.append(warning(name, f"its {missing[0]} limit is missing and counts as 0", f"write {missing[0]}="))
    return found


def _meshes(element: ElementTree.Element, path: Path, packages: dict[str, str]) -> list[Finding]:
    """Missing files: of collision shapes errors; visual shapes are left out with a warning."""
    found = []
    for link in element.iterfind("link"):
        for tag in ("visual", "collision"):
            for item in link.findall(tag):
                mesh = item.find("geometry/mesh")
                if mesh is None:
                    continue
                try:
                    folders = {name: str(Path(folder).absolute()) for name, folder in packages.items()}
                    there = urdf.mesh_file(mesh.get("filename", ""), path, folders).is_file()
                except ValueError:
                    there = False
                if there:
                    continue
                where, what = link.get("name", "?"), f"its {tag} mesh {mesh.get('filename')} is not there"
                if tag == "visual":
                    link.remove(item)
                    found.append(warning(where, what, "it is left out; give --package NAME=FOLDER"))
                else:
                    found.append(error(where, what, "give --package NAME=FOLDER, or correct the path"))
    return found
