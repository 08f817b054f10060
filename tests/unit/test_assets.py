"""The local asset root: what is written, where, and what happens when something is in the way."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import activate, asset_key, build, inertia, joint_order, manifest, props, root
from flashnerd_ext.robots.assets.description import Source
from flashnerd_ext.robots.assets.descriptions import all_descriptions, get_description
from flashnerd_ext.robots.assets.readback import read_asset

CARTPOLE = "Isaac/IsaacLab/Robots/Classic/Cartpole/cartpole.usd"


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache and an environment without asset settings."""
    for name in ("ISAACSIM_ASSET_ROOT", "ISAACSIM_ASSET_REGION_PROFILE", "FLASHNERD_ASSETS"):
        monkeypatch.setenv(name, "")  # so that what activate() sets is undone too
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "isaaclab.utils.assets", raising=False)
    return tmp_path / "flashnerd" / "assets"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    (folder / manifest.MANIFEST).write_text(json.dumps(build.write_files(folder, "key")))
    return folder


def test_written_twice_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    build.write_files(tmp_path, "key")
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.usd*"))
    assert Path(CARTPOLE) in files and len(files) == len(props.PROPS) + sum(
        len(description.outputs) for description in all_descriptions().values()
    )
    for name in files:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_cartpole_numbers(written: Path) -> None:
    """F18: what the packaged file leaves to importers is written out: derived mass, inertia, centre."""
    asset = read_asset(written / CARTPOLE)
    assert [joint.name for joint in asset.breadth_first()] == ["slider_to_cart", "cart_to_pole"]
    assert {name: round(body.mass, 6) for name, body in asset.bodies.items()} == {
        "slider": 7.2,
        "cart": 1.0,
        "pole": 1.0,
    }
    assert asset.bodies["pole"].com == pytest.approx([0.0, 0.0, 0.47], abs=1e-6)
    box = {"cart": (0.2, 0.25, 0.2), "pole": (0.04, 0.06, 1.0)}
    for name, (x, y, z) in box.items():
        moments = np.array([y * y + z * z, x * x + z * z, x * x + y * y]) / 12.0
        assert np.diag(asset.bodies[name].tensor) == pytest.approx(moments, rel=1e-6)
    slider, pole = asset.breadth_first()
    assert (slider.kind, pole.kind) == ("prismatic", "revolute")
    assert slider.limits == (-4.0, 4.0) and not np.isfinite(pole.limits).any()
    assert (slider.parent_frame[:3, :3] @ slider.axis) == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert (pole.parent_frame[:3, :3] @ pole.axis) == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert asset.fixed_base


def test_cartpole_is_seen_and_collides_invisibly(written: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(written / CARTPOLE))
    assert stage.GetDefaultPrim().GetName() == "cartpole"
    shapes = [prim for prim in stage.Traverse() if prim.IsA(UsdGeom.Gprim)]
    colliders = [prim for prim in shapes if prim.HasAPI(UsdPhysics.CollisionAPI)]
    visuals = [prim for prim in shapes if prim not in colliders]
    assert len(colliders) == len(visuals) == 3
    assert all(UsdGeom.Imageable(prim).ComputePurpose() == "guide" for prim in colliders)
    colors = {tuple(UsdGeom.Gprim(prim).GetDisplayColorAttr().Get()[0]) for prim in visuals}
    assert len(colors) == 3
    for prim in shapes:
        low, high = (np.array(corner) for corner in UsdGeom.Boundable(prim).GetExtentAttr().Get())
        assert high - low == pytest.approx(np.ones(3))


def test_ground_plane_has_what_the_spawner_touches(written: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(str(written / props.PLANE))
    top = stage.GetDefaultPrim()
    planes = [prim for prim in stage.Traverse() if prim.GetTypeName() == "Plane"]
    assert len(planes) == 1 and planes[0].HasAPI(UsdPhysics.CollisionAPI)
    assert stage.GetPrimAtPath(top.GetPath().AppendPath("Environment")).GetAttribute("xformOp:scale").IsValid()
    mesh = stage.GetPrimAtPath(top.GetPath().AppendPath("Environment/Geometry"))
    assert mesh.IsA(UsdGeom.Mesh) and len(UsdGeom.PrimvarsAPI(mesh).GetPrimvar("st").Get()) == 4


def test_cube_is_one_body(written: Path) -> None:
    from flashnerd_ext.robots.assets.pxr_api import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(written / props.CUBE))
    top = stage.GetDefaultPrim()
    assert top.HasAPI(UsdPhysics.RigidBodyAPI)
    assert UsdPhysics.MassAPI(top).GetMassAttr().Get() == pytest.approx(400.0 * 0.065**3)


def test_props_lie_where_isaac_lab_looks() -> None:
    """The paths are those in the installed Isaac Lab, whose asset folder is a prefix that only it knows."""
    from importlib.metadata import distribution

    site = Path(str(distribution("isaaclab").locate_file("")))
    text = {
        "markers": (site / "isaaclab/markers/config/__init__.py").read_text(),
        "plane": (site / "isaaclab/sim/spawners/from_files/from_files_cfg.py").read_text(),
        "robot": (site / "isaaclab_assets/robots/cartpole.py").read_text(),
        "cube": (site / "isaaclab_tasks/core/reorient/config/allegro_hand/allegro_hand_common.py").read_text(),
    }
    lab, isaac = "{ISAACLAB_NUCLEUS_DIR}", "{ISAAC_NUCLEUS_DIR}"
    assert props.ARROW.replace("Isaac", isaac, 1) in text["markers"]
    assert props.FRAME.replace("Isaac", isaac, 1) in text["markers"]
    assert props.CUBE.replace("Isaac", isaac, 1) in text["cube"]
    assert props.PLANE.replace("Isaac/IsaacLab", lab, 1) in text["plane"]
    assert CARTPOLE.replace("Isaac/IsaacLab", lab, 1) in text["robot"]


def test_local_mode_builds_once_and_points_isaac_lab_there(clean: Path) -> None:
    import os

    found = activate("local")
    assert found.mode == "local" and found.path == clean / found.key and (clean / found.key / CARTPOLE).is_file()
    assert os.environ["ISAACSIM_ASSET_ROOT"] == str(found.path)
    stamp = (clean / found.key / CARTPOLE).stat().st_mtime_ns
    # A child inherits the variable; the root that we set ourselves does not count as the user's choice.
    assert activate("auto") == found
    assert (clean / found.key / CARTPOLE).stat().st_mtime_ns == stamp
    assert [path.name for path in clean.iterdir() if path.name.startswith(".")] == []
    assert asset_key("cartpole").startswith("cartpole@local-") and joint_order("cartpole")[0] == "slider_to_cart"
    assert activate("stock").path is None and "ISAACSIM_ASSET_ROOT" not in os.environ


def test_auto_respects_the_users_root_and_profile(clean: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISAACSIM_ASSET_ROOT", str(tmp_path / "mine"))
    assert (activate().mode, activate().path) == ("custom", str(tmp_path / "mine"))
    assert asset_key("cartpole") == "cartpole@custom-remote"
    (tmp_path / "mine" / CARTPOLE).parent.mkdir(parents=True)
    (tmp_path / "mine" / CARTPOLE).write_text("#usda 1.0\n")
    assert asset_key("cartpole").startswith("cartpole@custom-") and asset_key("cartpole") != "cartpole@custom-remote"
    monkeypatch.delenv("ISAACSIM_ASSET_ROOT")
    monkeypatch.setenv("ISAACSIM_ASSET_REGION_PROFILE", "us")
    assert activate() == root.AssetRoot(None, "stock", "stock")
    assert asset_key("cartpole") == "cartpole@stock"
    assert not clean.exists()


def test_environment_overrides_the_mode(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHNERD_ASSETS", "stock")
    assert activate("local").mode == "stock"
    monkeypatch.setenv("FLASHNERD_ASSETS", "locl")
    with pytest.raises(FlashNerdError, match=r"FLASHNERD_ASSETS is 'locl'.*did you mean local"):
        activate()


def test_too_late_is_said(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isaaclab.utils.assets", SimpleNamespace(NUCLEUS_ASSET_ROOT_DIR="https://a/b"))
    with pytest.raises(FlashNerdError, match=r"already read its asset root \(https://a/b\).*before the first import"):
        activate("local")
    assert activate("stock").mode == "stock"


def test_a_failed_build_leaves_nothing(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, key: str) -> dict[str, object]:
        (folder / "half").write_text("written")
        raise FlashNerdError("the disk is full.")

    monkeypatch.setattr(build, "write_files", broken)
    with pytest.raises(FlashNerdError, match="disk is full"):
        build.build_root()
    assert [path.name for path in clean.iterdir() if not path.name.endswith(".lock")] == []


def test_builds_at_the_same_time_do_not_disturb_each_other(clean: Path) -> None:
    command = [sys.executable, "-m", "flashnerd_ext.robots.assets.build"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate(timeout=240)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert printed == {str(clean / manifest.root_key())}
    assert {path.name for path in clean.iterdir()} <= {manifest.root_key(), manifest.root_key() + ".lock"}


def test_a_missing_package_leaves_the_robot_out(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = dataclasses.replace(get_description("cartpole"), source=Source("no-such-package", "a/b.usda", "MIT"))
    monkeypatch.setattr(build, "all_descriptions", lambda: {"cartpole": gone})
    build.build_root()
    with pytest.raises(FlashNerdError, match=r"no-such-package.*pip install no-such-package"):
        asset_key("cartpole")
    with pytest.raises(FlashNerdError, match=r"did you mean cartpole|known"):
        get_description("cartpol")


def test_a_wrong_description_is_refused(tmp_path: Path) -> None:
    wrong = dataclasses.replace(get_description("cartpole"), joints=("slider_to_cart", "pole_joint"))
    with pytest.raises(FlashNerdError, match=r"cart_to_pole.*pole_joint"):
        build.write_robot(wrong, tmp_path)
    with pytest.raises(FlashNerdError, match="has no prim '/robot'"):
        build.write_robot(dataclasses.replace(get_description("cartpole"), root="/robot"), tmp_path)


def test_fingerprint_sees_physics_and_not_paint(written: Path, tmp_path: Path) -> None:
    text = (written / CARTPOLE).read_text()
    asset = read_asset(written / CARTPOLE)

    def changed(old: str, new: str) -> str:
        assert old in text
        (tmp_path / "a.usd").write_text(text.replace(old, new))
        return read_asset(tmp_path / "a.usd").fingerprint()

    assert changed("color3f[] primvars:displayColor = [(0.1,", "color3f[] primvars:displayColor = [(0.2,") == (
        asset.fingerprint()
    )
    assert changed("float physics:mass = 1\n", "float physics:mass = 1.01\n") != asset.fingerprint()
    assert changed("physics:upperLimit = 4", "physics:upperLimit = 3") != asset.fingerprint()
    assert changed("(0.20000000298023224, 0.25", "(0.2100, 0.25") != asset.fingerprint()


def test_damaged_manifest_and_files_get_one_sentence(tmp_path: Path) -> None:
    (tmp_path / manifest.MANIFEST).write_text("{")
    with pytest.raises(FlashNerdError, match=r"type python scripts/assets\.py build"):
        manifest.read_manifest(tmp_path)
    with pytest.raises(FlashNerdError, match="default prim"):
        read_asset(tmp_path / "absent.usd")


def test_solids_against_their_meshes() -> None:
    import trimesh

    solids = {
        "box": (trimesh.creation.box((0.2, 0.3, 0.5)), inertia.box(np.array([0.2, 0.3, 0.5]))),
        "sphere": (trimesh.creation.icosphere(subdivisions=5, radius=0.3), inertia.sphere(0.3)),
        "cylinder": (trimesh.creation.cylinder(0.1, 0.5, sections=512), inertia.cylinder(0.1, 0.5)),
        "capsule": (trimesh.creation.capsule(height=0.5, radius=0.1, count=[256, 256]), inertia.capsule(0.1, 0.5)),
    }
    for name, (mesh, solid) in solids.items():
        mesh.density = 1000.0
        assert solid.mass == pytest.approx(mesh.mass, rel=3e-3), name
        assert np.diag(solid.tensor) == pytest.approx(np.diag(mesh.moment_inertia), rel=3e-3), name


def test_lifting_an_inertia_repairs_little_and_refuses_much() -> None:
    good = np.diag([1.0, 2.0, 2.5])
    assert inertia.lifted(good, 1e-3)[1] == 0.0
    tensor, rise = inertia.lifted(np.diag([1.0, 1.0, 2.0005]), 1e-3)
    moments = np.sort(np.linalg.eigvalsh(tensor))
    assert 0.0 < rise <= 1e-3 and moments[0] + moments[1] > moments[2]
    with pytest.raises(ValueError, match="violate"):
        inertia.lifted(np.diag([1.0, 1.0, 3.0]), 1e-3)


def test_script_answers_wrong_words_with_one_sentence(clean: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "assets.py"
    for words, said in {
        ("bild",): "unknown command 'bild': did you mean build?",
        ("path", "cartpol"): "did you mean cartpole?",
        ("list", "x"): "'list' does not take 'x'",
    }.items():
        done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.count("\n") == 1 and said in done.stderr
