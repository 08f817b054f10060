"""The checker of ``scripts/new_robot.py`` on robots that are broken in one way each; no simulator is started."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.intake.check import check_efforts, wrong_inertia
from flashnerd_ext.robots.intake.findings import Finding, counted, error, grouped, note, table, warning
from flashnerd_ext.robots.intake.options import Options, parse
from flashnerd_ext.robots.intake.program import Examined, Refused, examine

Look = Callable[..., list[Finding]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Function of a file's text that gives what is found in it, errors included."""

    def run(text: str, suffix: str = ".urdf", **options: object) -> list[Finding]:
        return _examined(tmp_path, text, suffix, **options)[1]

    return run


def _examined(
    folder: Path, text: str, suffix: str = ".urdf", **options: object
) -> tuple[Examined | None, list[Finding]]:
    path = folder / f"robot{suffix}"
    path.write_text(text)
    try:
        found = examine(Options(path=path, name="mine", **options))  # type: ignore[arg-type]
    except Refused as refused:
        return None, refused.findings
    return found, found.findings


def worst(findings: list[Finding], severity: str) -> list[Finding]:
    return [finding for finding in findings if finding.severity == severity]


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) >= 1, old
    return text.replace(old, new, 1)


def test_robots_without_fault_have_no_errors_and_no_warnings(look: Look, dog: str, arm: str) -> None:
    for text in (dog, arm):
        findings = look(text)
        assert not worst(findings, "error") and not worst(findings, "warning"), table(findings)


THIGH = '<inertia ixx="0.003" iyy="0.003" izz="0.0002"'
HIP = '<joint name="FL_hip" type="revolute">'
LIMIT = '<limit lower="-2" upper="2" effort="20" velocity="20"/>'


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        (THIGH, '<inertia ixx="-0.003" iyy="0.003" izz="0.0002"', "FL_thigh", "not positive definite"),
        (THIGH, '<inertia ixx="0.003" iyy="0.003" izz="0.009"', "FL_thigh", "violate A + B >= C"),
        ('<mass value="0.6"/>', '<mass value="0"/>', "FL_thigh", "no mass"),
        ('<mass value="0.6"/>', '<mass value="-1"/>', "FL_thigh", "its mass is -1 kg"),
        ('<mass value="0.6"/>', "", "FL_thigh", "no <mass>"),
        (LIMIT, '<limit lower="2" upper="-2" effort="20"/>', "FL_hip", "inverted (2 to -2 rad)"),
        (LIMIT, '<limit lower="1" upper="1" effort="20"/>', "FL_hip", "no range"),
        (LIMIT, '<limit lower="-inf" upper="1" effort="20"/>', "FL_hip", "not finite"),
        (HIP, '<joint name="FL_hip" type="spherical">', "FL_hip", "'spherical' is not supported"),
        (HIP, '<joint name="FL_hip" type="planar">', "FL_hip", "'planar' is not supported"),
        ('<link name="FR_thigh">', '<link name="FL_thigh">', "FL_thigh", "2 links have this name"),
        ('<joint name="FR_hip"', '<joint name="FL_hip"', "FL_hip", "2 joints have this name"),
        ('<child link="FR_thigh"/>', '<child link="FL_thigh"/>', "FL_thigh", "2 joints hold this link"),
        ('<sphere radius="0.025"/>', '<mesh filename="nowhere.stl"/>', "FL_foot", "collision mesh nowhere.stl is"),
    ],
)  # fmt: skip
def test_what_no_engine_can_use_is_an_error_at_its_place(
    look: Look, dog: str, old: str, new: str, where: str, what: str
) -> None:
    errors = worst(look(changed(dog, old, new)), "error")
    assert any(what in finding.what and finding.where == where for finding in errors), table(errors)
    assert all(finding.mend for finding in errors)


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        (LIMIT, "", "FL_hip", "no limits"),
        (LIMIT, '<limit upper="2" effort="20"/>', "FL_hip", "lower limit is missing"),
        (LIMIT, '<limit lower="-20" upper="20" effort="20"/>', "FL_hip", "several turns"),
        ('<mass value="6.0"/>', '<mass value="6000"/>', "trunk", "density of 7.5e+05"),
        ('<mass value="6.0"/>', '<mass value="0.0006"/>', "trunk", "density of 0.075"),
        (THIGH, '<inertia ixx="0.3" iyy="0.3" izz="0.0002"', "FL_thigh", "its shapes reach"),
        ('<origin xyz="0 0 -0.1"/><mass', '<origin xyz="0 0 -9"/><mass', "FL_thigh", "outside of its shapes"),
        (LIMIT, LIMIT + '<mimic joint="FR_hip" multiplier="-1"/>', "FL_hip", "follows FR_hip"),
        (
            '<link name="trunk">',
            '<link name="trunk"><visual><geometry><mesh filename="gone.dae"/></geometry></visual>',
            "trunk",
            "visual mesh gone.dae is not there",
        ),
    ],
)  # fmt: skip
def test_what_is_probably_not_meant_is_a_warning(
    look: Look, dog: str, old: str, new: str, where: str, what: str
) -> None:
    findings = look(changed(dog, old, new))
    assert not worst(findings, "error"), table(findings)
    assert any(what in finding.what and finding.where == where for finding in worst(findings, "warning")), table(
        findings
    )


def test_all_faults_of_a_kind_are_found_at_once(look: Look, dog: str) -> None:
    text = changed(changed(dog, LIMIT, '<limit lower="2" upper="-2"/>'), LIMIT, '<limit lower="3" upper="-3"/>')
    text = changed(text, THIGH, '<inertia ixx="-1" iyy="1" izz="1"')
    assert {finding.where for finding in worst(look(text), "error")} == {"FL_hip", "FL_knee", "FL_thigh"}


def test_a_bad_inertia_that_melts_into_a_good_one_is_a_warning(tmp_path: Path, dog: str) -> None:
    mount = changed(dog, '<robot name="dog">', '<robot name="dog">' + MOUNT)
    found, findings = _examined(tmp_path, mount)
    assert found is not None and found.tree.root == "mount"
    assert [f.where for f in worst(findings, "warning") if "not positive definite" in f.what] == ["mount"]
    # The same melted into a link that it spoils is an error of that.
    _, findings = _examined(
        tmp_path, changed(mount, 'value="6.0"', 'value="1e-9"').replace('ixx="0.03"', 'ixx="-0.03"')
    )
    assert any(f.where == "mount" and "not positive" in f.what for f in worst(findings, "error"))


MOUNT = """<link name="mount"><inertial><mass value="1e-6"/>
  <inertia ixx="0" iyy="0" izz="1e-6" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="on" type="fixed"><parent link="mount"/><child link="trunk"/></joint>"""


def test_faults_are_mended_where_the_command_says_so(tmp_path: Path, dog: str) -> None:
    bad = changed(dog, THIGH, '<inertia ixx="-0.003" iyy="0.003" izz="0.0002"')
    mended, findings = _examined(tmp_path, bad, repair=("FL_thigh",))
    assert mended is not None and any("box around" in finding.what for finding in findings)
    link = mended.tree.links["FL_thigh"]
    # A capsule of 0.04 x 0.04 x 0.18 m: its box, at the link's own mass.
    expected = 0.6 / 12.0 * np.array([0.04**2 + 0.18**2, 0.04**2 + 0.18**2, 2 * 0.04**2])
    np.testing.assert_allclose(np.diag(link.inertia.tensor), expected, rtol=1e-6)
    assert not wrong_inertia(link.inertia)
    wished, _ = _examined(tmp_path, dog, repair=("FL_thigh",))
    assert wished is not None
    np.testing.assert_allclose(np.diag(wished.tree.links["FL_thigh"].inertia.tensor), expected, rtol=1e-6)
    massless, _ = _examined(tmp_path, changed(dog, '<mass value="0.6"/>', '<mass value="0"/>'), mass={"FL_thigh": 0.4})
    assert massless is not None and massless.tree.links["FL_thigh"].inertia.mass == pytest.approx(0.4)
    ranged, findings = _examined(
        tmp_path, changed(dog, LIMIT, '<limit lower="-20" upper="20"/>'), range={"FL_.*": (-1.0, 2.0)}
    )
    assert ranged is not None and not worst(findings, "warning")
    assert [joint.limits for joint in ranged.tree.joints if joint.name == "FL_hip"] == [(-1.0, 2.0)]


def test_base_and_feet_are_chosen_by_what_is_there(tmp_path: Path, dog: str, arm: str) -> None:
    walker, _ = _examined(tmp_path, dog)
    assert walker is not None and not walker.choices.fixed_base
    assert walker.choices.feet == ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
    assert "FL_foot" in walker.tree.links, "a foot on a fixed joint stays a body"
    bolted, _ = _examined(tmp_path, arm)
    assert bolted is not None and bolted.choices.fixed_base and bolted.choices.feet == ()
    # Without a word for feet the lowest ends are taken, once the base is said to float.
    nameless, _ = _examined(tmp_path, dog.replace("_foot", "_end"), base="floating")
    assert nameless is not None and nameless.choices.feet == ("FL_calf", "FR_calf", "RL_calf", "RR_calf")
    chosen, _ = _examined(tmp_path, dog, feet=("F._foot",))
    assert chosen is not None and chosen.choices.feet == ("FL_foot", "FR_foot")


def test_a_world_link_and_a_floating_joint_say_what_the_base_does(tmp_path: Path, dog: str) -> None:
    def on(kind: str) -> str:
        hang = (
            f'<link name="world"/><joint name="hang" type="{kind}"><parent link="world"/><child link="trunk"/></joint>'
        )
        return changed(dog, '<robot name="dog">', f'<robot name="dog">{hang}')

    fixed, _ = _examined(tmp_path, on("fixed"))
    floating, _ = _examined(tmp_path, on("floating"))
    assert fixed is not None and fixed.choices.fixed_base and floating is not None and not floating.choices.fixed_base
    assert fixed.tree.root == floating.tree.root == "trunk"


def test_names_that_usd_does_not_take_are_renamed(tmp_path: Path, dog: str) -> None:
    found, findings = _examined(tmp_path, dog.replace("FL_thigh", "FL-thigh.1").replace("FL_hip", "1FL hip"))
    assert found is not None and "FL_thigh_1" in found.tree.links
    assert "_1FL_hip" in [joint.name for joint in found.tree.joints]
    assert any("becomes FL_thigh_1" in finding.what for finding in findings)


def test_meshes_collide_as_simple_shapes(tmp_path: Path, dog: str) -> None:
    import trimesh

    trimesh.creation.icosphere(radius=0.025).export(tmp_path / "ball.stl")
    trimesh.creation.capsule(height=0.14, radius=0.02).export(tmp_path / "rod.stl")
    text = dog.replace('<sphere radius="0.025"/>', '<mesh filename="ball.stl"/>')
    text = text.replace('<capsule radius="0.02" length="0.14"/>', '<mesh filename="rod.stl"/>')
    found, findings = _examined(tmp_path, text)
    assert found is not None
    policies = found.choices.robot.collision
    assert policies["FL_foot"] == "sphere" and policies["FL_thigh"] == "capsule"
    assert sum("a mesh collides" in finding.what for finding in findings) == 12
    other, _ = _examined(tmp_path, text, collision={".*_calf": "box"})
    assert other is not None and other.choices.robot.collision[".*_calf"] == "box"
    (tmp_path / "broken.stl").write_text("no mesh")
    _, findings = _examined(tmp_path, text.replace("ball.stl", "broken.stl"))
    assert {finding.where for finding in worst(findings, "error")} >= {"FL_foot", "RR_foot"}


def test_a_robot_without_shapes_cannot_stand_but_may_reach(look: Look, dog: str, arm: str) -> None:
    import re

    bare = [re.sub(r"<collision>.*?</collision>", "", text, flags=re.DOTALL) for text in (dog, arm)]
    assert any("nothing stands" in finding.what for finding in worst(look(bare[0], base="floating"), "error"))
    assert not worst(look(bare[1]), "error")


MJCF = """<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="1 1 1"/>
  <body name="trunk" pos="0 0 0.5">{free}<geom type="box" size="0.2 0.1 0.05" mass="4"/>
    {legs}</body>{more}</worldbody>
  <actuator><position joint="hip_0" kp="30" forcerange="-12 12"/>
    <motor joint="hip_1" gear="5" ctrlrange="-2 2"/></actuator>
  {rest}</mujoco>"""


def mjcf(joint: str = "", free: str = "<freejoint/>", more: str = "", rest: str = "") -> str:
    legs = "".join(
        f'<body name="foot_{i}" pos="{x} {y} 0"><joint name="hip_{i}" axis="0 1 0" range="-1 1" pos="0 0 0.02" '
        f'armature="0.01" damping="0.3"/>{joint if i == 0 else ""}'
        f'<geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.5"/></body>'
        for i, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)))
    )
    return MJCF.format(free=free, legs=legs, more=more, rest=rest)


def test_an_mjcf_becomes_the_same_kind_of_tree(tmp_path: Path) -> None:
    found, findings = _examined(tmp_path, mjcf(), ".xml")
    assert found is not None and not found.choices.fixed_base and len(found.choices.feet) == 4, table(findings)
    drives = found.intake.drives
    assert (drives["hip_0"].stiffness, drives["hip_0"].armature) == pytest.approx((30.0, 0.01))
    assert drives["hip_0"].damping == pytest.approx(0.3), "passive damping becomes the drive's"
    joints = {joint.name: joint for joint in found.tree.joints}
    assert (joints["hip_0"].effort, joints["hip_1"].effort) == pytest.approx((12.0, 10.0))
    assert joints["hip_0"].limits == pytest.approx((-1.0, 1.0))
    # The joint's anchor is the link's origin now; nothing has moved.
    np.testing.assert_allclose(joints["hip_0"].pose[:3, 3], [0.2, 0.1, 0.02])
    np.testing.assert_allclose(found.tree.links["foot_0"].inertia.com, [0.0, 0.0, -0.17], atol=1e-9)
    held, _ = _examined(tmp_path, mjcf(free=""), ".xml")
    assert held is not None and held.choices.fixed_base


@pytest.mark.parametrize(
    ("change", "severity", "what"),
    [
        ({"joint": '<joint name="b" type="ball"/>'}, "error", "ball joint"),
        ({"joint": '<joint name="b" axis="1 0 0"/>'}, "error", "it has 2 joints"),
        ({"rest": '<equality><weld body1="foot_0" body2="foot_1"/></equality>'}, "error", "closes a loop"),
        ({"rest": '<equality><joint joint1="hip_0" joint2="hip_1"/></equality>'}, "warning", "follow another"),
        ({"more": '<body name="cube"><freejoint/><geom size="0.1" mass="1"/></body>'}, "warning", "further bodies"),
        ({"rest": "<nonsense/>"}, "error", "MuJoCo refuses it"),
    ],
)
def test_what_is_wrong_with_an_mjcf(look: Look, change: dict[str, str], severity: str, what: str) -> None:
    findings = look(mjcf(**change), ".xml")
    assert any(what in finding.what for finding in worst(findings, severity)), table(findings)


def test_a_usd_of_ours_reads_back_as_it_was_written(tmp_path: Path, dog: str) -> None:
    from flashnerd_ext.robots.assets.urdf_robot import write_tree

    first, _ = _examined(tmp_path, dog)
    assert first is not None
    usd = write_tree(first.choices.robot, first.tree, tmp_path / "dog.usda")
    again = examine(Options(path=usd, name="again"))
    assert not again.choices.fixed_base and set(again.choices.feet) == set(first.choices.feet)
    assert {j.name: j.kind for j in again.tree.joints} == {j.name: j.kind for j in first.tree.joints}
    for name, link in first.tree.links.items():
        np.testing.assert_allclose(again.tree.links[name].inertia.tensor, link.inertia.tensor, atol=1e-7)
    before, after = first.tree.world_poses(), again.tree.world_poses()
    for name in before:
        np.testing.assert_allclose(after[name], before[name], atol=1e-6)


def test_a_usd_with_a_ball_joint_or_in_other_units_is_refused(tmp_path: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import UsdGeom, UsdPhysics
    from flashnerd_ext.robots.assets.stage import new_stage

    stage = new_stage("r", "")
    for name in ("a", "b"):
        UsdPhysics.RigidBodyAPI.Apply(UsdGeom.Xform.Define(stage, f"/r/{name}").GetPrim())
    UsdPhysics.SphericalJoint.Define(stage, "/r/ball")
    stage.GetRootLayer().Export(str(tmp_path / "ball.usda"))
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    stage.GetRootLayer().Export(str(tmp_path / "cm.usda"))
    for file, what in (("ball.usda", "SphericalJoint"), ("cm.usda", "units of 0.01 m")):
        with pytest.raises(Refused) as refused:
            examine(Options(path=tmp_path / file, name="mine"))
        assert any(what in finding.what for finding in refused.value.findings)


@pytest.mark.parametrize(
    ("file", "content", "answer"),
    [
        ("robot.obj", "v 0 0 0", "ends in '.obj'"),
        ("robot.xacro", "<robot/>", "xacro FILE > robot.urdf"),
        ("robot.urdf", "not xml", "is not XML"),
        ("robot.xml", "<sdf/>", "begins with <sdf>"),
        ("robot.usda", "no usd", "cannot be opened as USD"),
    ],
)
def test_files_of_other_kinds_are_refused_in_a_sentence(tmp_path: Path, file: str, content: str, answer: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(FlashNerdError) as refused:
        examine(Options(path=tmp_path / file, name="mine"))
    assert answer in str(refused.value), refused.value
    with pytest.raises(FlashNerdError, match="no such file"):
        examine(Options(path=tmp_path / "gone.urdf", name="mine"))


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--name", "go2"], "a robot of the package"),
        (["--name", "My-Robot"], "such as my_robot"),
        (["--name", "4legs"], "such as legs"),
        (["--name", "mine", "--stiffness", "hip=much"], "JOINT=NUMBER"),
        (["--name", "mine", "--collision", ".*=ball"], "--collision is 'ball'"),
        (["--name", "mine", "--range", "hip=2,1"], "lower number comes first"),
        (["--name", "mine", "--range", "hip=2"], "JOINT=LOW,HIGH"),
        (["--name", "mine", "--package", "stuff"], "NAME=VALUE"),
    ],
)
def test_options_that_cannot_be_used(words: list[str], answer: str) -> None:
    with pytest.raises(FlashNerdError) as refused:
        parse(["robot.urdf", *words])
    assert answer in str(refused.value), refused.value


def test_options_are_read(tmp_path: Path, dog: str) -> None:
    options = parse(["r.urdf", "--name", "mine", "--stiffness", "20", "--default", "FL_.*=0.5", "--repair"])
    assert options.stiffness == {".*": 20.0} and options.default == {"FL_.*": 0.5} and options.repair == ("*",)
    for change, answer in (({"feet": ("paw",)}, "--feet is 'paw'"), ({"lock": ("hop",)}, "--lock is 'hop'")):
        with pytest.raises(FlashNerdError, match=answer):
            _examined(tmp_path, dog, **change)
    locked, _ = _examined(tmp_path, dog, lock=("FL_hip",))
    assert locked is not None and "FL_hip" not in [joint.name for joint in locked.tree.joints]


def test_effort_limits_against_what_carries_the_robot() -> None:
    joints = {
        "good": (20.0, 5.0),
        "none": (np.inf, 5.0),
        "absurd": (1000.0, 5.0),
        "weak": (0.1, 5.0),
        "mine": (900.0, 1.0),
    }
    limits, found = check_efforts(joints, ["mine"], dict.fromkeys(joints, 10.0))
    assert limits == {"good": 20.0, "none": 10.0, "absurd": 10.0, "weak": 0.1, "mine": 900.0}
    assert {finding.where: finding.severity for finding in found} == dict.fromkeys(
        ("none", "absurd", "weak"), "warning"
    )


def test_the_table_shows_the_worst_first_and_each_thing_once() -> None:
    findings = [note("a", "one", "do"), warning("b", "two"), warning("c", "two"), error("d", "three", "mend it")]
    assert [finding.where for finding in grouped(findings)] == ["d", "b, c", "a"]
    lines = table(findings).splitlines()
    assert lines[2].split() == ["error", "d", "three:", "mend", "it."] and len(lines) == 5
    assert counted(findings) == "1 error, 2 warnings, 1 note"
    assert dataclasses.asdict(findings[0]) == findings[0].to_dict()
