"""Franka and the Allegro hand of the local asset root, and the props of their tasks, each against its source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from asset_checks import equals_its_source, installed, lies_where_stock_looks
from scipy.spatial.transform import Rotation

from flashnerd_ext.robots.assets import build, mesh, props, urdf, urdf_robot
from flashnerd_ext.robots.assets.description import UrdfRobot
from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.readback import Asset, read_asset
from flashnerd_ext.robots.registry import get_robot

ROBOTS = ("allegro", "franka")
STOCK = {
    "allegro": ("allegro.py", "{ISAAC_NUCLEUS_DIR}", "Isaac"),
    "franka": ("franka.py", "{ISAACLAB_NUCLEUS_DIR}", "Isaac/IsaacLab"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for name in ROBOTS:
        build.write_robot(get_description(name), root)
    props.table(root / props.TABLE)
    return root


@cache
def asset_of(folder: Path, name: str) -> Asset:
    return read_asset(folder / get_description(name).outputs[0])


@cache
def tree_of(name: str) -> tuple[UrdfRobot, urdf.Tree]:
    robot = get_description(name)
    assert isinstance(robot, UrdfRobot)
    return robot, urdf.load(robot)


@pytest.mark.parametrize("name", ROBOTS)
def test_masses_limits_and_mass_matrix_equal_the_source(folder: Path, name: str) -> None:
    equals_its_source(name, folder)


@pytest.mark.parametrize("name", ROBOTS)
def test_files_lie_where_the_stock_config_looks(name: str) -> None:
    lies_where_stock_looks(name, *STOCK[name])


def test_the_table_lies_where_the_stock_task_looks() -> None:
    text = installed("isaaclab_tasks/contrib/lift/lift_env_cfg.py")
    assert props.TABLE.replace("Isaac", "{ISAAC_NUCLEUS_DIR}", 1) in text


def test_the_table_is_static_and_stands_on_the_floor_of_the_stock_task(folder: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(folder / props.TABLE))
    assert not any(prim.HasAPI(UsdPhysics.RigidBodyAPI) for prim in stage.Traverse())
    shapes = [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)]
    assert len(shapes) == 5
    box = UsdGeom.BBoxCache(Usd.TimeCode.Default(), ["default"]).ComputeWorldBound(stage.GetDefaultPrim())
    low, high = (
        np.array(corner) for corner in (box.ComputeAlignedRange().GetMin(), box.ComputeAlignedRange().GetMax())
    )
    floor = re.search(
        r"GroundPlane.*?pos=\[0, 0, (-[\d.]+)\]", installed("isaaclab_tasks/contrib/lift/lift_env_cfg.py"), re.S
    )
    assert floor is not None
    assert low[2] == pytest.approx(float(floor.group(1))) and high[2] == pytest.approx(0.0)
    # As wide and deep as the box of the Reach task.
    size = re.search(r"size=\(([\d.]+), ([\d.]+), ", installed("isaaclab_tasks/core/reach/reach_env_cfg.py"))
    assert size is not None
    assert sorted((high - low)[:2]) == pytest.approx(sorted(float(value) for value in size.groups()))


@pytest.mark.parametrize("name", ROBOTS)
def test_joints_that_stock_configs_name_are_there(folder: Path, name: str) -> None:
    text = installed(f"isaaclab_assets/robots/{STOCK[name][0]}")
    joints = [joint.name for joint in asset_of(folder, name).movable]
    if name == "franka":
        patterns = [r"panda_joint[1-7]", "panda_finger_joint1", "panda_finger_joint2", "panda_joint[5-7]"]
        assert all(f'"{pattern}"' in text for pattern in patterns)
    else:
        patterns = re.findall(r'^    "((?:index|middle|ring|thumb)_joint_\d)",$', text, re.M)
        assert sorted(patterns) == sorted(joints)
        tips = re.findall(r'^    "(\w+_link_\d)",$', text, re.M)
        assert len(tips) == 4 and set(tips) < set(asset_of(folder, name).bodies)
    for pattern in patterns:
        assert any(re.fullmatch(pattern, joint) for joint in joints), pattern


def test_franka_is_nested_as_the_sensors_of_the_stock_task_ask(folder: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdPhysics

    text = installed("isaaclab_tasks/core/lift/config/franka/franka_env_cfg.py")
    found = re.search(r"\{ENV_REGEX_NS\}/Robot/(Geometry/[\w/]+/)\"", text)
    assert found is not None
    stage = Usd.Stage.Open(str(folder / get_description("franka").outputs[0]))
    for finger in ("panda_leftfinger", "panda_rightfinger"):
        prim = stage.GetPrimAtPath(f"/panda/{found.group(1)}{finger}")
        assert prim and prim.HasAPI(UsdPhysics.RigidBodyAPI)
    # A body's shapes are its own and not those of the bodies inside it.
    shapes = asset_of(folder, "franka").shapes
    assert list(shapes) == list(get_robot("franka").links)
    assert {name: len(found) for name, found in shapes.items()} == dict.fromkeys(shapes, 1)


def test_bodies_stand_at_the_same_place_nested_or_not(folder: Path) -> None:
    from flashnerd_ext.robots.assets import stage as tools
    from flashnerd_ext.robots.assets.pxr_api import Usd

    stage = Usd.Stage.Open(str(folder / get_description("franka").outputs[0]))
    root, tree = stage.GetDefaultPrim(), tree_of("franka")[1]
    prims = {prim.GetName(): prim for prim in stage.Traverse()}
    for name, pose in tree.world_poses().items():
        assert tools.matrix_of(prims[name], root) == pytest.approx(pose, abs=1e-9), name


def test_the_second_finger_follows_the_first(folder: Path) -> None:
    joints = {joint.name: joint for joint in asset_of(folder, "franka").movable}
    assert joints["panda_finger_joint2"].mimic == ("panda_finger_joint1", 1.0, 0.0)
    assert joints["panda_finger_joint1"].mimic is None
    assert joints["panda_finger_joint2"].stiffness == joints["panda_finger_joint2"].damping == 0.0
    assert [joint.armature for joint in joints.values()] == pytest.approx([0.1] * 9)


def test_franka_has_the_variants_that_stock_configs_select(folder: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(folder / get_description("franka").outputs[0]))
    sets = stage.GetDefaultPrim().GetVariantSets()
    assert set(sets.GetVariantSet("Physics").GetVariantNames()) == {"physx", "mujoco"}
    colliders = sets.GetVariantSet("Colliders")
    assert (colliders.GetVariantSelection(), set(colliders.GetVariantNames())) == (
        "primitives",
        {"primitives", "gripper_only"},
    )

    def colliding() -> set[str]:
        return {
            prim.GetParent().GetParent().GetName()
            for prim in stage.Traverse()
            if prim.HasAPI(UsdPhysics.CollisionAPI) and UsdPhysics.CollisionAPI(prim).GetCollisionEnabledAttr().Get()
        }

    assert colliding() == set(get_robot("franka").links)
    colliders.SetVariantSelection("gripper_only")
    assert colliding() == {"panda_hand", "panda_leftfinger", "panda_rightfinger"}


def test_a_cube_fits_between_the_fingers_and_meets_flat_sides(folder: Path) -> None:
    """The lift task's cube of 52 mm at the grasp point, 103 mm from the hand's origin: beside the fingers' inner sides
    when they are open, and nowhere in the hand."""
    asset = asset_of(folder, "franka")
    joints = {joint.child: joint for joint in asset.movable}
    for finger, side in (("panda_leftfinger", 1.0), ("panda_rightfinger", -1.0)):
        (shape,) = asset.shapes[finger]
        assert shape["type"] == "Cube"
        pose = np.array(shape["pose"])
        low, high = pose[:3, 3] - np.abs(np.diag(pose[:3, :3])) / 2, pose[:3, 3] + np.abs(np.diag(pose[:3, :3])) / 2
        inner = low[1] if side > 0 else high[1]
        assert inner == pytest.approx(0.0, abs=2e-4)
        tip = joints[finger].parent_frame[2, 3] + high[2]
        assert 0.1034 < tip < 0.1034 + 0.026
    (shape,) = asset.shapes["panda_hand"]
    pose = np.array(shape["pose"])
    assert pose[2, 3] + abs(pose[2, 2]) / 2 < 0.1034 - 0.026


def test_the_palm_faces_up_and_the_cube_lies_over_the_middle_finger(folder: Path) -> None:
    """The frame of allegro_mount against the poses that the stock configs give to hand and cube."""
    text = installed("isaaclab_assets/robots/allegro.py")
    task = installed("isaaclab_tasks/core/reorient/config/allegro_hand/allegro_hand_common.py")

    def numbers(pattern: str, source: str) -> np.ndarray:
        found = re.search(pattern, source)
        assert found is not None
        return np.array([float(value) for value in found.group(1).split(",")])

    hand = Rotation.from_quat(numbers(r"\brot=\(([^)]*)\)", text))
    assert hand.as_quat() == pytest.approx(np.array(get_robot("allegro").base_quat), abs=1e-5)
    place, cube = numbers(r"\bpos=\(([^)]*)\)", text), numbers(r"\bpos=\(([^)]*)\)", task)
    poses = tree_of("allegro")[1].world_poses()
    palm = poses["middle_link_0"]  # its axes are those of the palm, x out of it and z along the finger
    assert hand.apply(palm[:3, 0])[2] == pytest.approx(1.0, abs=5e-3)
    seen = np.linalg.inv(palm) @ np.array([*hand.inv().apply(cube - place), 1.0])
    assert seen[1] == pytest.approx(0.0, abs=1e-4)
    assert 0.0 < seen[2] < 0.13 and 0.039 < seen[0] < 0.09
    # The fingers curl towards the cube: with every joint bent the middle tip is on its side of the palm.
    (joint,) = (joint for joint in asset_of(folder, "allegro").movable if joint.name == "middle_joint_1")
    bent = palm[:3, :3] @ np.cross(joint.axis, [0.0, 0.0, 1.0])
    assert bent @ palm[:3, 0] == pytest.approx(1.0, abs=1e-6)


def test_capsules_lie_near_the_shapes_that_they_replace() -> None:
    """Points all over the convex hull of a link's shapes, against the surface of its capsule: Franka's links are 110 mm
    thick, Allegro's boxes 20 by 27 mm."""
    rng = np.random.default_rng(0)
    for name, allowed in (("franka", 0.012), ("allegro", 0.005)):
        robot, tree = tree_of(name)
        seen = 0
        for link in tree.links.values():
            if urdf.pick(robot.collision, link.name) != "capsule":
                continue
            points = np.concatenate([urdf_robot._points(shape) for shape in link.collisions])
            corners, faces = mesh.hull_of(points)
            triangle = corners[faces]
            area = np.linalg.norm(np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0]), axis=1)
            chosen = triangle[rng.choice(len(faces), 2000, p=area / area.sum())]
            share = rng.dirichlet(np.ones(3), 2000)
            pose, radius, length = mesh.capsule_of(points)
            local = ((chosen * share[:, :, None]).sum(1) - pose[:3, 3]) @ pose[:3, :3]
            local[:, 2] -= np.clip(local[:, 2], -length / 2.0, length / 2.0)
            gaps = np.linalg.norm(local, axis=1) - radius
            assert np.sqrt((gaps**2).mean()) < allowed, (link.name, np.sqrt((gaps**2).mean()), gaps.max())
            seen += 1
        assert seen == {"franka": 7, "allegro": 16}[name]


@pytest.mark.parametrize("name", ROBOTS)
def test_the_registry_describes_what_was_written(folder: Path, name: str) -> None:
    robot, asset = get_robot(name), asset_of(folder, name)
    joints = {joint.name: joint for joint in asset.movable}
    assert sorted(joints) == sorted(robot.layout.joint_names) and sorted(asset.bodies) == sorted(robot.links)
    assert robot.asset_path in get_description(name).outputs
    for joint, limits in robot.position_limit.items():
        assert joints[joint].limits == pytest.approx(limits, abs=1e-6), joint
    kinds = dict(zip(robot.layout.joint_names, robot.layout.joint_kinds, strict=True))
    assert {joint: found.kind for joint, found in joints.items()} == kinds


@pytest.mark.parametrize("name", ROBOTS)
def test_every_body_is_seen_in_colour_and_collides_invisibly(folder: Path, name: str) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(folder / get_description(name).outputs[0]))
    colors = set()
    for body in stage.Traverse():
        if not body.HasAPI(UsdPhysics.RigidBodyAPI):
            continue
        shown = list(stage.GetPrimAtPath(f"{body.GetPath()}/visuals").GetChildren())
        assert shown, body.GetName()
        colors |= {tuple(UsdGeom.Gprim(prim).GetDisplayColorAttr().Get()[0]) for prim in shown}
        hidden = stage.GetPrimAtPath(f"{body.GetPath()}/collisions").GetChildren()
        assert hidden and all(UsdGeom.Imageable(prim).ComputePurpose() == "guide" for prim in hidden)
    assert len(colors) >= 2
