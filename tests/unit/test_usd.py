"""A run as a USD stage, on small stages made here: samples, physics, files, checks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr")
from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux, UsdPhysics
from scipy.spatial.transform import Rotation

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.export_usd import run
from flashnerd_ext.usd.bodies import Asset, scene_assets
from flashnerd_ext.usd.check import check_file, validate
from flashnerd_ext.usd.track import Track
from flashnerd_ext.usd.write import check_output, write_run

BODIES = ("base", "base/arm", "foot")


@dataclass
class Scene:
    """What the exporter reads of Isaac Lab's interactive scene."""

    stage: Any
    env_prim_paths: list[str]
    articulations: dict[str, Any] = field(default_factory=dict)
    rigid_objects: dict[str, Any] = field(default_factory=dict)
    rigid_object_collections: dict[str, Any] = field(default_factory=dict)
    env_ns: str = "/World/envs"
    env_regex_ns: str = "/World/envs/env_[^/]+"


def robot(stage: Any, root: str, scale: tuple[float, float, float] = (2.0, 2.0, 2.0)) -> None:
    """A robot with a body below another one, a joint, a drive and a material that physics reads."""
    prim = UsdGeom.Xform.Define(stage, root)
    prim.AddTranslateOp().Set(Gf.Vec3d(0.0, 0.0, 0.5))
    prim.AddScaleOp().Set(Gf.Vec3f(*scale))
    UsdPhysics.ArticulationRootAPI.Apply(prim.GetPrim())
    for number, name in enumerate(BODIES):
        body = UsdGeom.Xform.Define(stage, f"{root}/{name}")
        # Single precision and another order than the exporter's: both must not survive.
        body.AddRotateXYZOp().Set(Gf.Vec3f(10.0, 20.0 * number, 0.0))
        body.AddTranslateOp(UsdGeom.XformOp.PrecisionFloat).Set(Gf.Vec3f(0.1, 0.0, 0.2 * number))
        UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
        UsdPhysics.MassAPI.Apply(body.GetPrim()).CreateMassAttr(1.0)
        cube = UsdGeom.Cube.Define(stage, f"{root}/{name}/shape")
        cube.CreateSizeAttr(0.1)
        cube.CreateExtentAttr([Gf.Vec3f(-0.05), Gf.Vec3f(0.05)])
        UsdPhysics.CollisionAPI.Apply(cube.GetPrim())
    joint = UsdPhysics.RevoluteJoint.Define(stage, f"{root}/joint")
    joint.CreateBody0Rel().SetTargets([f"{root}/base"])
    joint.CreateBody1Rel().SetTargets([f"{root}/foot"])
    UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular").CreateStiffnessAttr(5.0)


def scene_of(count: int, **options: Any) -> Scene:
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.Scene.Define(stage, "/physicsScene")
    paths = [f"/World/envs/env_{i}" for i in range(count)]
    for i, path in enumerate(paths):
        UsdGeom.Xform.Define(stage, path).AddTranslateOp().Set(Gf.Vec3d(3.0 * i, -1.0, 0.0))
        robot(stage, f"{path}/Robot", **options)
    return Scene(stage, paths)


def track_of(scene: Scene, frames: int = 5, seed: int = 0) -> Track:
    generator = np.random.default_rng(seed)
    paths = tuple(f"{env}/Robot/{name}" for env in scene.env_prim_paths for name in BODIES)
    track = Track(paths, 0.02)
    turns = Rotation.from_quat(generator.normal(size=(len(paths), 4)))
    for _ in range(frames):
        turns = turns * Rotation.from_rotvec(generator.normal(0.0, 0.3, (len(paths), 3)))
        # As a simulator gives them: float32, and with either sign.
        quaternions = turns.as_quat() * generator.choice([-1.0, 1.0], (len(paths), 1))
        poses = np.hstack([generator.uniform(-40.0, 40.0, (len(paths), 3)), quaternions])
        track.add(poses.astype(np.float32))
    return track


def world(stage: Any, path: str, frame: float) -> Any:
    cache = UsdGeom.XformCache(Usd.TimeCode(frame))
    return cache.GetLocalToWorldTransform(stage.GetPrimAtPath(path))


def test_every_frame_shows_what_was_recorded(tmp_path: Path) -> None:
    scene = scene_of(2)
    before = scene.stage.GetRootLayer().ExportToString()
    track = track_of(scene)
    written = write_run(scene, None, track, tmp_path / "run.usd", {"task": "T"})
    assert scene.stage.GetRootLayer().ExportToString() == before
    assert (written.bodies, written.frames, written.rigid) == (6, 5, 6) and written.off <= 1e-5
    stage = Usd.Stage.Open(str(tmp_path / "run.usd"))
    for frame, poses in enumerate(track.frames):
        for path, pose in zip(track.paths, poses, strict=True):
            found = world(stage, path, frame)
            assert np.abs(np.array(found.ExtractTranslation()) - pose[:3]).max() < 1e-5
            shown = np.array(found.ExtractRotationMatrix().GetOrthonormalized()).T
            assert np.abs(shown - Rotation.from_quat(pose[3:]).as_matrix()).max() < 1e-5
            # The geometry stays as large as it was: the robot's scale, also on the body below a body.
            assert np.linalg.norm(np.array(found)[0, :3]) == pytest.approx(2.0)


def test_between_frames_a_body_turns_the_short_way(tmp_path: Path) -> None:
    scene = scene_of(1)
    track = Track(("/World/envs/env_0/Robot/foot",), 0.02)
    for number, sign in enumerate((1.0, -1.0, -1.0, 1.0)):
        track.add(np.array([[0.0, 0.0, 0.0, *(sign * Rotation.from_euler("z", 5.0 * number, True).as_quat())]]))
    write_run(scene, None, track, tmp_path / "run.usda", {})
    stage = Usd.Stage.Open(str(tmp_path / "run.usda"))
    for frame in (0.5, 1.5, 2.5):
        matrix = np.array(world(stage, track.paths[0], frame).ExtractRotationMatrix().GetOrthonormalized()).T
        assert Rotation.from_matrix(matrix).as_euler("xyz", True)[2] == pytest.approx(5.0 * frame, abs=0.05)


def test_no_physics_is_left_and_units_and_times_are_set(tmp_path: Path) -> None:
    scene = scene_of(2)
    write_run(scene, None, track_of(scene), tmp_path / "run.usd", {"task": "T", "physics": "p"})
    stage = Usd.Stage.Open(str(tmp_path / "run.usd"))
    names = [str(name) for prim in stage.TraverseAll() for name in [prim.GetTypeName(), *prim.GetAppliedSchemas()]]
    assert "Xform" in names and not [name for name in names if name.startswith(("Physics", "Physx", "Newton"))]
    properties = {prop.GetName().split(":")[0] for prim in stage.TraverseAll() for prop in prim.GetAuthoredProperties()}
    assert "xformOp" in properties and not properties & {"physics", "drive", "newton"}
    assert not stage.GetPrimAtPath("/World/envs/env_0/Robot/joint")
    assert UsdGeom.GetStageUpAxis(stage) == "Z" and UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode(), stage.GetTimeCodesPerSecond()) == (0.0, 4.0, 50.0)
    assert stage.GetDefaultPrim().GetPath() == "/World"
    assert stage.GetRootLayer().customLayerData["flashnerd"] == {"task": "T", "physics": "p"}
    assert not validate(stage).errors


def test_files_travel_along_and_lost_ones_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = scene_of(1)
    sky = tmp_path / "assets" / "sky.hdr"
    sky.parent.mkdir()
    sky.write_bytes(b"#?RADIANCE\n")
    for name, path in (("there", str(sky)), ("lost", "https://nowhere.example/lost.hdr")):
        UsdLux.DomeLight.Define(scene.stage, f"/World/{name}").CreateTextureFileAttr(path)
    written = write_run(scene, None, track_of(scene), tmp_path / "out" / "run.usd", {})
    assert len(written.files) == 1 and written.lost == ("https://nowhere.example/lost.hdr",)
    assert "lost.hdr cannot be read here" in caplog.text
    sky.unlink()
    moved = shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    stage = Usd.Stage.Open(str(Path(moved) / "run.usd"))
    texture = UsdLux.DomeLight(stage.GetPrimAtPath("/World/there")).GetTextureFileAttr().Get()
    assert Path(texture.resolvedPath).read_bytes() == b"#?RADIANCE\n"
    assert UsdLux.DomeLight(stage.GetPrimAtPath("/World/lost")).GetTextureFileAttr().Get() is None


def test_only_some_environments(tmp_path: Path) -> None:
    scene = scene_of(3)
    written = write_run(scene, None, track_of(scene), tmp_path / "run.usd", {}, envs=2)
    stage = Usd.Stage.Open(str(written.path))
    assert written.bodies == 6 and [str(p.GetName()) for p in stage.GetPrimAtPath("/World/envs").GetChildren()] == [
        "env_0",
        "env_1",
    ]


def test_bodies_inside_an_instance_move(tmp_path: Path) -> None:
    asset = Usd.Stage.CreateNew(str(tmp_path / "robot.usda"))
    robot(asset, "/Robot", scale=(1.0, 1.0, 1.0))
    asset.SetDefaultPrim(asset.GetPrimAtPath("/Robot"))
    asset.Save()
    scene = scene_of(2)
    for path in scene.env_prim_paths:
        scene.stage.RemovePrim(f"{path}/Robot")
        prim = scene.stage.DefinePrim(f"{path}/Robot")
        prim.GetReferences().AddReference(str(tmp_path / "robot.usda"))
        prim.SetInstanceable(True)
    (tmp_path / "out").mkdir()
    written = write_run(scene, None, track_of(scene), tmp_path / "out" / "run.usd", {})
    assert written.off <= 1e-5 and not written.findings.errors


def test_what_cannot_be_written_right_is_refused(tmp_path: Path) -> None:
    scene = scene_of(1, scale=(1.0, 3.0, 1.0))
    with pytest.raises(FlashNerdError, match="sheared"):
        write_run(scene, None, track_of(scene), tmp_path / "run.usd", {})
    track = track_of(scene_of(1))
    broken = track.frames[1].copy()
    broken[2, 4] = np.nan
    with pytest.raises(FlashNerdError, match=r"env_0/Robot/foot at frame 5 is not finite"):
        track.add(broken)
    scene = scene_of(1)
    scene.stage.DefinePrim("/World/envs/env_0/Robot/foot/shape/inner", "Cube")  # a shape within a shape
    with pytest.raises(FlashNerdError, match=r"has 1 errors, the first: .*inner"):
        write_run(scene, None, track_of(scene), tmp_path / "run.usd", {})
    missing = Track(("/World/envs/env_0/Robot/nobody",), 0.02, [np.array([[0.0, 0, 0, 0, 0, 0, 1]])])
    with pytest.raises(FlashNerdError, match=r"no prim that can move at .*nobody"):
        write_run(scene_of(1), None, missing, tmp_path / "run.usd", {})
    with pytest.raises(FlashNerdError, match=r"type --output run\.usd"):
        check_output(tmp_path / "run.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "no task is given"),
        (("--task", "T"), "type --checkpoint latest"),
        (("--task", "T", "--steps", "0"), "--steps is 0"),
        (("--task", "T", "--actions", "zero", "--output", "clip.mp4"), "type --output run.usd"),
        (("--task", "T", "--actions", "zero", "--checkpoint", "latest"), "leave one of them out"),
        (("--task", "T", "--checkpoint", "latest"), "none is of task=T"),
        (("--task", "T", "--checkpoint", "nowhere.pt"), "does not exist"),
    ],
)
def test_wrong_words_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlashNerdError) as caught:
        run(None, words)
    assert expected in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_shows_something_else_fails_its_check(tmp_path: Path) -> None:
    scene = scene_of(1)
    track = track_of(scene)
    written = write_run(scene, None, track, tmp_path / "run.usd", {})
    check_file(written.path, track)
    moved = Track(track.paths, track.dt, [frame.copy() for frame in track.frames])
    moved.frames[-1][1, 2] += 1e-3
    with pytest.raises(FlashNerdError, match=r"base/arm is off by 1\.0e-03 m at frame 4"):
        check_file(written.path, moved)
    turned = Track(track.paths, track.dt, [frame.copy() for frame in track.frames])
    turned.frames[0][0, 3:] = [0.0, 0.0, 0.0, 1.0]
    with pytest.raises(FlashNerdError, match="base is turned by"):
        check_file(written.path, turned)


def test_unrecorded_bodies_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scene = scene_of(1)
    track = track_of(scene)
    some = Track(track.paths[:1], track.dt, [frame[:1] for frame in track.frames])
    write_run(scene, None, some, tmp_path / "run.usd", {})
    assert "2 of the scene's 3 rigid bodies were not recorded" in caplog.text


def test_bodies_are_found_by_the_names_that_isaaclab_has() -> None:
    scene = scene_of(2)
    ball = UsdGeom.Sphere.Define(scene.stage, "/World/envs/env_0/Ball/geometry")
    UsdPhysics.RigidBodyAPI.Apply(ball.GetPrim())
    poses = np.arange(2 * 3 * 7, dtype=np.float32).reshape(2, 3, 7)
    import torch

    def entity(path: str, names: list[str], values: np.ndarray) -> Any:
        data = SimpleNamespace(body_link_pose_w=SimpleNamespace(torch=torch.from_numpy(values)))
        return SimpleNamespace(cfg=SimpleNamespace(prim_path=path), body_names=names, data=data)

    scene.articulations["robot"] = entity("/World/envs/env_[^/]+/Robot", ["foot", "base", "arm"], poses)
    scene.rigid_objects["ball"] = entity("/World/envs/env_.*/Ball", ["Ball"], poses[:, :1])
    found: list[Asset] = scene_assets(scene, scene.stage)
    envs = scene.env_prim_paths
    assert found[0].paths == tuple(f"{env}/Robot/{name}" for env in envs for name in ("foot", "base", "base/arm"))
    assert found[1].paths == tuple(f"{env}/Ball/geometry" for env in envs)
    assert (found[0].poses() == poses.reshape(6, 7)).all() and (found[1].poses() == poses[:, 0]).all()
    scene.articulations["robot"].body_names[0] = "tail"
    with pytest.raises(FlashNerdError, match=r"'robot' has the body 'tail'.*arm, base, foot"):
        scene_assets(scene, scene.stage)
    assert Sdf.Path(found[0].paths[0]).IsPrimPath()
