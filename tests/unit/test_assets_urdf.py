"""The URDF converter: edits, geometry, and numbers against Pinocchio's own parse of the same file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import mesh, urdf, urdf_robot
from flashnerd_ext.robots.assets.description import BaseFrame, Drive, Source, UrdfRobot
from flashnerd_ext.robots.assets.readback import Asset, read_asset
from flashnerd_ext.robots.assets.verify import compare, pinocchio_model, urdf_reference

ROBOT = """<robot name="toy">
  <material name="red"><color rgba="0.8 0.1 0.1 1"/></material>
  <link name="base">
    <inertial><origin xyz="0.1 0 0.02"/><mass value="3"/>
      <inertia ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.0005" izz="0.025"/></inertial>
    <visual><geometry><box size="0.2 0.1 0.05"/></geometry><material name="red"/></visual>
    <collision><origin xyz="0 0 0.1" rpy="0.3 0 0"/><geometry><box size="0.2 0.1 0.05"/></geometry></collision>
    <collision><geometry><sphere radius="0.05"/></geometry></collision>
  </link>
  <joint name="plate_mount" type="fixed"><parent link="base"/><child link="plate"/><axis xyz="0 0 0"/>
    <origin xyz="0 0 0.2" rpy="0.1 0.2 0.3"/></joint>
  <link name="plate"><inertial><origin rpy="0.5 0 0"/><mass value="0.5"/>
      <inertia ixx="0.001" iyy="0.002" izz="0.0015" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><cylinder radius="0.03" length="0.1"/></geometry></collision></link>
  <joint name="j0" type="revolute"><parent link="plate"/><child link="arm"/><axis xyz="0 -1 0"/>
    <origin xyz="0.05 0 0.1" rpy="0 0.4 0"/><limit lower="-1" upper="2" effort="30" velocity="5"/></joint>
  <link name="arm"><inertial><origin xyz="0 0 -0.2"/><mass value="1.2"/>
      <inertia ixx="0.01" iyy="0.011" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://toy/block.stl" scale="0.5 0.5 0.5"/></geometry></visual>
    <collision><geometry><mesh filename="package://toy/block.stl" scale="0.5 0.5 0.5"/></geometry></collision></link>
  <joint name="j1" type="continuous"><parent link="arm"/><child link="wheel"/><axis xyz="1 2 -0.5"/>
    <origin xyz="0 0.1 -0.4"/></joint>
  <link name="wheel"><inertial><mass value="0.3"/>
      <inertia ixx="0.001" iyy="0.0012" izz="0.0015" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="foot_mount" type="fixed"><parent link="wheel"/><child link="tip"/><origin xyz="0 0 -0.1"/></joint>
  <link name="tip"><inertial><mass value="0.05"/>
      <inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j2" type="prismatic"><parent link="plate"/><child link="slide"/><axis xyz="-1 0 0"/>
    <origin xyz="0 0.2 0"/><limit lower="0" upper="0.04" effort="20" velocity="0.2"/></joint>
  <link name="slide"><inertial><mass value="0.2"/>
      <inertia ixx="0.0001" iyy="0.0001" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j3" type="prismatic"><parent link="plate"/><child link="other"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="0.04" effort="20" velocity="0.2"/><mimic joint="j2" multiplier="-2" offset="0.01"/></joint>
  <link name="other"><inertial><mass value="0.2"/>
      <inertia ixx="0.0001" iyy="0.0001" izz="0.0001" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>
"""


@dataclasses.dataclass(frozen=True)
class FileSource(Source):
    """A source that is a file of the test."""

    def path(self) -> Path:
        return Path(self.file)


@pytest.fixture
def toy(tmp_path: Path) -> UrdfRobot:
    import trimesh

    folder = tmp_path / "toy"
    folder.mkdir()
    trimesh.creation.box((0.2, 0.3, 0.4)).export(folder / "block.stl")
    (folder / "toy.urdf").write_text(ROBOT)
    return UrdfRobot(
        name="toy",
        source=FileSource("toy", str(folder / "toy.urdf"), "BSD-3-Clause"),
        outputs=("toy.usd",),
        root="toy",
        joints=("j0", "j2", "j3", "j1"),
        keep=("tip",),
        drives={"j0": Drive(20.0, 0.5, 0.01)},
    )


def convert(robot: UrdfRobot, folder: Path) -> Asset:
    return read_asset(urdf_robot.convert(robot, folder / f"{robot.name}.usd"))


def holds(robot: UrdfRobot, asset: Asset) -> None:
    pytest.importorskip("pinocchio")
    for check in compare(asset, urdf_reference(robot)):
        assert check.ok, check


@pytest.mark.parametrize("fixed", [False, True])
def test_mass_matrix_limits_and_masses_equal_pinocchio(toy: UrdfRobot, tmp_path: Path, fixed: bool) -> None:
    robot = dataclasses.replace(toy, fixed_base=fixed)
    asset = convert(robot, tmp_path)
    assert asset.fixed_base is fixed
    assert [joint.name for joint in asset.breadth_first()] == ["j0", "j2", "j3", "j1"]
    assert list(asset.bodies) == ["base", "arm", "slide", "other", "wheel", "tip"]
    holds(robot, asset)


def test_comparison_notices_what_is_wrong(toy: UrdfRobot, tmp_path: Path) -> None:
    pytest.importorskip("pinocchio")
    asset = convert(toy, tmp_path)
    reference = urdf_reference(toy)
    arm = asset.bodies["arm"]
    asset.bodies["arm"] = dataclasses.replace(arm, com=arm.com + [0.0, 0.001, 0.0])
    failed = [check.what for check in compare(asset, reference) if not check.ok]
    assert failed == ["mass matrix, 20 configurations"]
    asset.joints[0] = dataclasses.replace(asset.joints[0], limits=(-1.0, 2.1))
    assert any("limits" in check.what for check in compare(asset, reference) if not check.ok)


def test_rename_lock_and_rebase(toy: UrdfRobot, tmp_path: Path) -> None:
    robot = dataclasses.replace(
        toy,
        rename={"j(\\d)": "joint_\\1", "arm": "upper_arm"},
        lock=("joint_2", "joint_3"),
        keep=(),
        joints=("joint_0", "joint_1"),
        fixed_base=True,
        base=BaseFrame("mount", (0.1, 0.0, 0.3), (0.0, 0.0, 0.5)),
    )
    asset = convert(robot, tmp_path)
    assert list(asset.bodies) == ["mount", "upper_arm", "wheel"]
    assert asset.mass == pytest.approx(3 + 0.5 + 0.2 + 0.2 + 1.2 + 0.3 + 0.05)
    holds(robot, asset)  # a fixed base: where its frame lies does not change the joints' mass matrix


def test_joint_facts_are_written(toy: UrdfRobot, tmp_path: Path) -> None:
    asset = convert(toy, tmp_path)
    joints = {joint.name: joint for joint in asset.joints}
    j0 = joints["j0"]
    assert (j0.effort_limit, j0.armature) == pytest.approx((30.0, 0.01))
    assert (j0.stiffness, j0.damping, j0.velocity_limit) == pytest.approx((20.0, 0.5, 5.0))
    assert joints["j2"].velocity_limit == pytest.approx(0.2)
    assert not np.isfinite(joints["j1"].limits).any()
    assert joints["j3"].mimic is not None
    assert joints["j3"].mimic[0] == "j2" and joints["j3"].mimic[1:] == pytest.approx((-2.0, 0.01))
    # The mount of the kept link is a fixed joint between two bodies.
    assert (joints["foot_mount"].kind, joints["foot_mount"].parent) == ("fixed", "wheel")


def test_collision_policies_and_colours(toy: UrdfRobot, tmp_path: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom

    shapes = convert(toy, tmp_path).shapes
    assert [shape["type"] for shape in shapes["base"]] == ["Cube", "Sphere", "Cylinder"]
    assert [shape["type"] for shape in shapes["arm"]] == ["Mesh"]
    points = np.array(shapes["arm"][0]["points"])
    assert np.ptp(points, axis=0) == pytest.approx([0.1, 0.15, 0.2]) and len(points) == 8
    policies = dataclasses.replace(toy, name="b", collision={"base": "hull", "arm": "box", ".*": "none"})
    shapes = convert(policies, tmp_path).shapes
    assert [shape["type"] for shape in shapes["base"]] == ["Mesh"]
    assert [shape["type"] for shape in shapes["arm"]] == ["Cube"] and shapes["tip"] == []
    stage = Usd.Stage.Open(str(tmp_path / "toy.usd"))
    box = UsdGeom.Gprim(stage.GetPrimAtPath("/toy/base/visuals/box_0"))
    # A screen's 0.8 and 0.1 (sRGB) as USD has colours (linear).
    assert tuple(box.GetDisplayColorAttr().Get()[0]) == pytest.approx((0.60383, 0.010023, 0.010023), rel=1e-3)


def test_same_description_gives_the_same_bytes(toy: UrdfRobot, tmp_path: Path) -> None:
    policies = dataclasses.replace(toy, collision={".*": "hull"})
    first = urdf_robot.convert(policies, tmp_path / "a.usd").read_bytes()
    mesh.load_mesh.cache_clear()
    assert urdf_robot.convert(policies, tmp_path / "b.usd").read_bytes() == first


def test_hull_is_closed_convex_and_independent_of_order() -> None:
    points = np.random.default_rng(3).normal(size=(200, 3))
    corners, faces = mesh.hull_of(points)
    again, faces_again = mesh.hull_of(points[::-1].copy())
    assert np.array_equal(corners, again) and np.array_equal(faces, faces_again)
    normals = np.cross(corners[faces[:, 1]] - corners[faces[:, 0]], corners[faces[:, 2]] - corners[faces[:, 0]])
    heights = np.einsum("fk,pfk->pf", normals, points[:, None] - corners[faces[:, 0]])
    assert heights.max() < 1e-6  # every point lies behind every face: convex, outward
    assert len(corners) - len(faces) // 2 == 2  # Euler's formula of a closed triangle mesh
    assert len(mesh.hull_of(points, 16)[0]) <= 16


@pytest.mark.parametrize("axis", [(1, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 1), (1, 2, -0.5), (-1, 1e-7, 0)])
def test_joint_frames_turn_the_token_onto_the_axis(axis: tuple[float, float, float]) -> None:
    unit = np.array(axis, dtype=np.float64) / np.linalg.norm(axis)
    token, turn = urdf_robot._axis(unit)
    assert turn @ np.eye(3)["XYZ".index(token)] == pytest.approx(unit, abs=1e-6)
    assert np.linalg.det(turn) == pytest.approx(1.0) and turn @ turn.T == pytest.approx(np.eye(3), abs=1e-9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lock": ("j9",)}, r"lock pattern 'j9' of robot 'toy' matches no joint: did you mean j"),
        ({"keep": ("tipp",)}, r"keep pattern 'tipp'.*did you mean tip"),
        ({"rename": {"nothing": "x"}}, r"rename pattern 'nothing'"),
        ({"rename": {"arm|wheel": "x"}}, r"one name"),
    ],
)
def test_edits_that_fit_nothing_are_named(toy: UrdfRobot, change: dict[str, object], said: str) -> None:
    with pytest.raises(FlashNerdError, match=said):
        urdf.load(dataclasses.replace(toy, **change))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</robot>", "", r"cannot be read as a URDF"),
        ('<axis xyz="0 -1 0"/>', '<axis xyz="0 0 0"/>', r"axis of joint 'j0' is zero"),
        ('"wheel"', '"wheel.0"', r"'wheel\.0' of robot 'toy' cannot be a name in USD"),
        ('type="prismatic"', 'type="ball"', r"joint type 'ball' is not supported"),
        ('<parent link="arm"/>', '<parent link="nowhere"/>', r"does not define: nowhere"),
        ('<mass value="1.2"/>', '<mass value="0"/>', r"body 'arm' of robot 'toy' has no mass"),
        ("package://toy/", "package://elsewhere/", r"'elsewhere'"),
        ("block.stl", "absent.stl", r"mesh .*absent\.stl cannot be read"),
        ('ixx="0.01" iyy="0.011" izz="0.002"', 'ixx="0.01" iyy="0.011" izz="0.05"', r"violate A \+ B >= C"),
    ],
)
def test_broken_urdfs_get_one_sentence(toy: UrdfRobot, tmp_path: Path, old: str, new: str, said: str) -> None:
    path = toy.source.path()
    assert old in ROBOT
    path.write_text(ROBOT.replace(old, new))
    with pytest.raises(FlashNerdError, match=said) as raised:
        urdf_robot.convert(toy, tmp_path / "broken.usd")
    assert "\n" not in str(raised.value)


ANYMAL = UrdfRobot(
    name="anymal_c",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf",
        "BSD-3-Clause",
    ),
    outputs=("Isaac/IsaacLab/Robots/ANYbotics/ANYmal-C/anymal_c.usd",),
    root="anymal",
    joints=tuple(f"{leg}_{joint}" for joint in ("HAA", "HFE", "KFE") for leg in ("LF", "RF", "LH", "RH")),
    keep=(".*_FOOT",),
    visual="collision",
)


def test_a_real_robot_equals_pinocchio(tmp_path: Path) -> None:
    """ANYmal-C: 65 fixed links of which 4 feet stay, 12 joints, 52.135 kg."""
    asset = convert(ANYMAL, tmp_path)
    assert [joint.name for joint in asset.breadth_first()] == list(ANYMAL.joints)
    assert [name for name in asset.bodies if name.endswith("_FOOT")] == ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]
    assert len(asset.bodies) == 17 and asset.mass == pytest.approx(52.135, abs=1e-3)
    assert all(len(asset.shapes[foot]) >= 1 for foot in ("LF_FOOT", "RH_FOOT"))
    holds(ANYMAL, asset)
    pytest.importorskip("pinocchio")
    model, _ = pinocchio_model(asset)
    assert model.nv == 18
