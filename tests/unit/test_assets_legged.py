"""The legged robots of the local asset root: names, masses, limits, feet, shapes and paint, each against its source."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asset_checks import equals_its_source, installed, lies_where_stock_looks

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import build, mesh, urdf, urdf_robot
from flashnerd_ext.robots.assets.description import UrdfRobot
from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.readback import Asset, read_asset

ROBOTS = ("anymal_c", "ant", "g1", "g1_29", "go2")
FROM_URDF = ("anymal_c", "g1", "g1_29", "go2")
FEET = {
    "anymal_c": r"(LF|RF|LH|RH)_FOOT",
    "ant": r"(front_left|front_right|left_back|right_back)_foot",
    "g1": r"(left|right)_ankle_roll_link",
    "g1_29": r"(left|right)_ankle_roll_link",
    "go2": r"(FL|FR|RL|RR)_foot",
}
MOST_SHAPES = {"anymal_c": 44, "ant": 13, "g1": 20, "g1_29": 20, "go2": 15}
"""The cost of a contact step grows with them: raise one on purpose."""
SIDES = (("left_", "right_"), ("LF_", "RF_"), ("LH_", "RH_"), ("FL_", "FR_"), ("RL_", "RR_"))
STOCK = {
    "anymal_c": ("anymal.py", "{ISAACLAB_NUCLEUS_DIR}", "Isaac/IsaacLab"),
    "ant": ("ant.py", "{ISAAC_NUCLEUS_DIR}", "Isaac"),
    "g1": ("unitree.py", "{ISAACLAB_NUCLEUS_DIR}", "Isaac/IsaacLab"),
    "go2": ("unitree.py", "{ISAACLAB_NUCLEUS_DIR}", "Isaac/IsaacLab"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An asset root with the robots of this file; :func:`build.write_robot` checks the order of their joints."""
    root = tmp_path_factory.mktemp("root")
    for name in ROBOTS:
        build.write_robot(get_description(name), root)
    return root


@cache
def asset_of(folder: Path, name: str) -> Asset:
    return read_asset(folder / get_description(name).outputs[0])


def source_tree(name: str) -> tuple[UrdfRobot, urdf.Tree]:
    robot = get_description(name)
    assert isinstance(robot, UrdfRobot)
    return robot, urdf.load(robot)


@pytest.mark.parametrize("name", ROBOTS)
def test_masses_limits_and_mass_matrix_equal_the_source(folder: Path, name: str) -> None:
    """Pinocchio's parse of the URDF; for Ant the model that Newton builds from the packaged file."""
    equals_its_source(name, folder)


@pytest.mark.parametrize("name", sorted(STOCK))
def test_files_lie_where_the_stock_config_looks(name: str) -> None:
    lies_where_stock_looks(name, *STOCK[name])


def test_a_robot_without_a_stock_config_stays_off_the_stock_paths() -> None:
    """No stand-in under a stock name."""
    assert all(not output.startswith("Isaac/") for output in get_description("g1_29").outputs)


@pytest.mark.parametrize("name", ROBOTS)
def test_joints_and_bodies_that_stock_configs_name_are_there(folder: Path, name: str) -> None:
    """Every pattern in the robot's stock configuration fits a joint, and every joint has a drive."""
    if name not in STOCK:
        patterns = [r"waist_(yaw|roll|pitch)_joint", r".*_wrist_(roll|pitch|yaw)_joint", r".*_elbow_joint"]
    else:
        text = installed(f"isaaclab_assets/robots/{STOCK[name][0]}")
        start = {"anymal_c": "ANYMAL_C_CFG = ", "ant": "ANT_CFG = ", "g1": "\nG1_CFG = ", "go2": "UNITREE_GO2_CFG = "}
        block = text.split(start[name], 1)[1].split('\n"""', 1)[0]
        patterns = re.findall(r'"([^"{}]*(?:_joint|HAA|HFE|KFE|_leg|_foot))"', block)
        assert len(patterns) >= 4
    joints = [joint.name for joint in asset_of(folder, name).movable]
    for pattern in patterns:
        assert any(re.fullmatch(pattern, joint) for joint in joints), pattern
    assert all(joint.armature == 0.0 for joint in asset_of(folder, name).movable)  # stock actuators write their own


@pytest.mark.parametrize("name", ROBOTS)
def test_feet_are_bodies_with_round_shapes_lowest_on_the_robot(folder: Path, name: str) -> None:
    asset = asset_of(folder, name)
    feet = [body for body in asset.bodies if re.fullmatch(FEET[name], body)]
    assert len(feet) == (2 if name.startswith("g1") else 4)
    for foot in feet:
        assert any(shape["type"] in ("Sphere", "Capsule") for shape in asset.shapes[foot]), foot
        assert all(shape["type"] != "Mesh" for shape in asset.shapes[foot]), foot
    if name != "ant":  # its legs lie flat at zero
        heights = {body: pose[2, 3] for body, pose in source_tree(name)[1].world_poses().items()}
        assert max(heights[foot] for foot in feet) <= min(heights[body] for body in heights if body not in feet) + 1e-9


@pytest.mark.parametrize("name", ROBOTS)
def test_collision_shapes_are_few_and_cover_what_falls(folder: Path, name: str) -> None:
    asset = asset_of(folder, name)
    assert sum(len(shapes) for shapes in asset.shapes.values()) <= MOST_SHAPES[name]
    falls = {
        "anymal_c": r"base|.*_(HIP|THIGH|SHANK|FOOT)",
        "ant": r".*",
        "g1": r"pelvis|torso_link|.*_(hip_yaw|knee|elbow_roll)_link",
        "g1_29": r"pelvis|torso_link|.*_(hip_yaw|knee|wrist_yaw)_link",
        "go2": r"base|R[LR]_hip|.*_(thigh|calf|foot)",
    }
    covered = [body for body in asset.bodies if re.fullmatch(falls[name], body)]
    assert len(covered) >= 8 or name.startswith("g1")
    assert all(asset.shapes[body] for body in covered)
    for shapes in asset.shapes.values():
        assert all(len(np.array(shape["points"])) <= 32 for shape in shapes if shape["type"] == "Mesh")


@pytest.mark.parametrize("name", FROM_URDF)
def test_links_touch_each_other_where_the_stock_config_says_so(folder: Path, name: str) -> None:
    """ANYmal's stock configuration turns self-collision on; a model made from the file alone has it too."""
    newton = pytest.importorskip("newton")
    builder = newton.ModelBuilder()
    builder.add_usd(str(folder / get_description(name).outputs[0]))
    pairs = set(builder.shape_collision_filter_pairs)
    shapes = [index for index, body in enumerate(builder.shape_body) if body >= 0 and _collides(builder, index)]
    bodies = {index: builder.body_label[builder.shape_body[index]].rsplit("/", 1)[-1] for index in shapes}
    met = {
        (bodies[one], bodies[other])
        for one in shapes
        for other in shapes
        if one < other and bodies[one] != bodies[other] and (one, other) not in pairs
    }
    assert bool(met) is (name == "anymal_c")


def _collides(builder: Any, shape: int) -> bool:
    import newton

    return bool(int(builder.shape_flags[shape]) & int(newton.ShapeFlags.COLLIDE_SHAPES))


@pytest.mark.parametrize("name", FROM_URDF)
def test_left_and_right_are_mirror_images(folder: Path, name: str) -> None:
    """Bodies y -> -y: masses, centres, and the places and sizes of the collision shapes."""
    asset, pairs = asset_of(folder, name), 0
    mirror = np.array([1.0, -1.0, 1.0])
    for body in asset.bodies:
        for left, right in SIDES:
            if not body.startswith(left):
                continue
            twin, pairs = right + body.removeprefix(left), pairs + 1
            assert asset.bodies[body].mass == pytest.approx(asset.bodies[twin].mass, rel=1e-6)
            assert asset.bodies[body].com == pytest.approx(asset.bodies[twin].com * mirror, abs=1e-3)
            mirrored = [np.array(shape["pose"])[:3, 3] * mirror for shape in asset.shapes[twin]]
            assert len(asset.shapes[body]) == len(mirrored)
            for shape in asset.shapes[body]:
                gaps = [float(np.linalg.norm(np.array(shape["pose"])[:3, 3] - place)) for place in mirrored]
                assert min(gaps) < 2e-3
                other = asset.shapes[twin][int(np.argmin(gaps))]
                assert shape["type"] == other["type"]
                for size in ("radius", "height"):
                    assert shape.get(size, 0.0) == pytest.approx(other.get(size, 0.0), abs=2e-3)
    assert pairs == {"anymal_c": 8, "go2": 8, "g1": 18, "g1_29": 13}[name]


@pytest.mark.parametrize("name", ["g1", "g1_29", "go2"])
def test_fitted_shapes_lie_near_the_meshes(name: str) -> None:
    """Every corner of a source mesh lies within 25 mm of the capsule that replaces it, 4 mm for a foot's ball."""
    robot, tree = source_tree(name)
    seen = set()
    for link in tree.links.values():
        policy = urdf.pick(robot.collision, link.name)
        if policy not in ("sphere", "capsule"):
            continue
        points = np.concatenate([urdf_robot._points(shape) for shape in link.collisions])
        points = mesh.hull_of(points)[0]
        if policy == "sphere":
            centre, radius = mesh.sphere_of(points)
            gaps = np.linalg.norm(points - centre, axis=1) - radius
        else:
            pose, radius, length = mesh.capsule_of(points)
            local = (points - pose[:3, 3]) @ pose[:3, :3]
            local[:, 2] -= np.clip(local[:, 2], -length / 2.0, length / 2.0)
            gaps = np.linalg.norm(local, axis=1) - radius
        assert np.abs(gaps).max() < (0.004 if policy == "sphere" else 0.025), link.name
        assert np.sqrt((gaps**2).mean()) < 0.012, link.name
        seen.add(link.name)
    assert len(seen) == {"g1": 10, "g1_29": 10, "go2": 12}[name]


def test_known_solids_are_fitted_exactly() -> None:
    """Points on a sphere and on a turned, moved capsule give the solid back."""
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(300, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    centre, radius = mesh.sphere_of(0.03 * ball + [0.1, -0.2, 0.3])
    assert centre == pytest.approx([0.1, -0.2, 0.3], abs=1e-9) and radius == pytest.approx(0.03)
    turned = urdf.pose_of(np.array([0.1, 0.2, -0.3]), np.array([0.4, 1.2, -0.3]))
    points = mesh.moved(mesh.outline("capsule", (0.04, 0.3)), turned)
    pose, radius, length = mesh.capsule_of(points)
    assert pose[:3, 3] == pytest.approx(turned[:3, 3], abs=1e-6)
    assert abs(pose[:3, 2] @ turned[:3, 2]) == pytest.approx(1.0, abs=1e-6)
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1.0)
    assert radius == pytest.approx(0.04, rel=0.02) and length + 2 * radius == pytest.approx(0.38, abs=1e-6)
    assert mesh.capsule_of(points[::-1].copy())[0] == pytest.approx(pose, abs=1e-3)  # flat faces split in two ways


@pytest.mark.parametrize("name", ROBOTS)
def test_every_body_is_seen_in_colour_and_collides_invisibly(folder: Path, name: str) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(folder / get_description(name).outputs[0]))
    colors = set()
    for body in stage.GetDefaultPrim().GetChildren():
        if not body.HasAPI(UsdPhysics.RigidBodyAPI):
            continue
        shapes = [prim for prim in Usd.PrimRange(body) if prim.IsA(UsdGeom.Gprim)]
        shown = [prim for prim in shapes if not prim.HasAPI(UsdPhysics.CollisionAPI)]
        assert shown, body.GetName()
        for prim in shown:
            colors.add(tuple(UsdGeom.Gprim(prim).GetDisplayColorAttr().Get()[0]))
        hidden = [prim for prim in shapes if prim not in shown]
        assert all(UsdGeom.Imageable(prim).ComputePurpose() == "guide" for prim in hidden)
    assert len(colors) >= 2


def test_g1_of_the_stock_tasks_is_the_packaged_robot_with_joints_locked(folder: Path) -> None:
    """37 of 43 joints move; fingers keep their places under their old names; locking loses no mass."""
    robot, tree = source_tree("g1")
    asset = asset_of(folder, "g1")
    unlocked = urdf.load(dataclasses.replace(robot, lock=()))
    assert (len(unlocked.joints), len(asset.movable)) == (43, 37)
    assert asset.mass == pytest.approx(sum(link.inertia.mass for link in unlocked.links.values()), rel=1e-6)
    assert {joint.parent for joint in asset.movable if joint.child in ("left_three_link", "right_three_link")} == {
        "left_elbow_roll_link",
        "right_elbow_roll_link",
    }
    torso = next(joint for joint in tree.joints if joint.name == "torso_joint")
    assert (torso.parent, torso.child) == ("pelvis", "torso_link")
    # Thumb, middle and index in this order: each finger's second joint hangs on its first.
    parents = {joint.child: joint.parent for joint in asset.movable}
    chains = [("one", "zero"), ("two", "one"), ("four", "three"), ("six", "five")]
    assert all(parents[f"left_{end}_link"] == f"left_{root}_link" for end, root in chains)


def test_dropping_a_collider_that_is_not_there_is_named() -> None:
    robot = get_description("anymal_c")
    assert isinstance(robot, UrdfRobot)
    with pytest.raises(
        FlashNerdError, match=r"drop_collision pattern 'imu' of robot 'anymal_c'.*did you mean imu_link"
    ):
        urdf.load(dataclasses.replace(robot, drop_collision=("imu",)))
    kept = urdf.load(dataclasses.replace(robot, drop_collision=()))
    assert len(kept.links["base"].collisions) == len(urdf.load(robot).links["base"].collisions) + 1
