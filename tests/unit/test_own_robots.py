"""Robots of the user's own: the file that is written, what reads it, where it is looked for, and their samplers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flashnerd_ext.bundle.store import find_bundle
from flashnerd_ext.data.samplers import mixture, plan_of, samplers_of
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import Mirror
from flashnerd_ext.robots.intake.measure import JointFacts, Measured, rotorless
from flashnerd_ext.robots.intake.write import check_target, robot_toml, task_id, task_py, write_folder
from flashnerd_ext.robots.own import load_own, own_bundles, own_folders, own_robots
from flashnerd_ext.robots.registry import ROBOTS, all_robots, get_robot

LEGS = tuple((f"{leg}_hip", f"{leg}_knee") for leg in ("FL", "FR", "RL", "RR"))


def walker() -> Measured:
    """What the command would have measured of a robot on four legs of two joints."""
    joints = {
        name: JointFacts("revolute", (-2.0, 2.0), 20.0, 25.0, 0.6, 0.01, -1.2 if "knee" in name else 0.6, ["stiffness"])
        for leg in LEGS
        for name in leg
    }
    feet = tuple(f"{leg[0][:2]}_foot" for leg in LEGS)
    links = ("trunk", *(f"{leg[0][:2]}_{part}" for leg in LEGS for part in ("thigh", "calf", "foot")))
    return Measured(
        joints, links, "trunk", 9.8, height=0.33, feet=feet, legs=LEGS, fore=(True, True, False, False),
        left=(True, False, True, False), fixed_rows=(*feet, "trunk"), mirror=Mirror(("L_", "R_"), ()),
    )  # fmt: skip


def arm() -> Measured:
    """What the command would have measured of three joints on a fixed base."""
    names = ("joint1", "joint2", "joint3")
    joints = {name: JointFacts("revolute", (-2.0, 2.0), 40.0, 200.0, 10.0, 0.0, 0.3) for name in names}
    joints["joint1"].kind = "continuous"
    return Measured(
        joints, ("base", "link1", "link2", "link3"), "base", 6.0, inertia=dict.fromkeys(names, 0.05), tip="link3",
        reach=((0.2, 0.4), (-0.1, 0.1), (0.3, 0.5)), turn=(0.0, 1.5, 0.0), quat=(0.0, 0.0, 1.0, 0.0),
    )  # fmt: skip


def put(root: Path, name: str, measured: Measured) -> Path:
    """A robot's folder as the command leaves it, with an empty file in place of the asset."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / f"{name}.usda").write_text("#usda 1.0\n")
    (folder / "robot.toml").write_text(robot_toml(name, "x.urdf", f"{name}.usda", measured, "the command"))
    (folder / "task.py").write_text(task_py(name, bool(measured.feet)))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of robots that is looked through: ``strider`` walks, ``picker`` is an arm."""
    put(tmp_path, "strider", walker())
    put(tmp_path, "picker", arm())
    monkeypatch.setenv("FLASHNERD_ROBOTS", str(tmp_path))
    return tmp_path


def test_what_is_written_reads_back_as_a_description(home: Path) -> None:
    robot = get_robot("strider")
    layout, contacts, drive = robot.layout, robot.contacts, robot.layout.drive
    assert layout.joint_names == tuple(joint for leg in LEGS for joint in leg) and layout.floating_base
    assert drive is not None and drive.stiffness == (25.0,) * 8 and drive.effort_limit == (20.0,) * 8
    assert robot.default_q == (0.6, -1.2) * 4 and robot.stand_height == 0.33 and robot.actuation == "target"
    assert contacts is not None and contacts.feet == walker().feet and contacts.fixed[-1] == "trunk"
    assert robot.mirror == Mirror(("L_", "R_"), ()) and layout.stops is not None and len(layout.stops.joints) == 8
    assert (
        robot.tasks == ("FlashNeRD-Velocity-Flat-Strider",) and Path(robot.asset_path) == home / "strider/strider.usda"
    )
    assert layout.conditions == ("base_mass", "base_com_x", "base_com_y", "base_com_z") and not robot.coupling
    other = get_robot("picker")
    assert other.coupling == "qacc_smooth" and other.inner_steps == 1 and other.dt == pytest.approx(1 / 240)
    assert other.layout.joint_kinds == ("continuous", "revolute", "revolute") and other.contacts is None
    assert other.base_quat == (0.0, 0.0, 1.0, 0.0) and other.tasks == ("FlashNeRD-Reach-Picker",)
    own = load_own(home / "picker")
    assert own.task.reach == arm().reach and own.task.tip == "link3" and own.data.inertia == arm().inertia


def test_guesses_are_marked_in_the_file(home: Path) -> None:
    lines = (home / "strider/robot.toml").read_text().splitlines()
    assert sum("# guessed: stiffness" in line for line in lines) == 8
    assert "the command" in lines[1]


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("schema = 1", "schema = 9", "schema in"),
        ('name = "strider"', 'name = "Strider"', "small letters"),
        ("stand_height", "stand_hight", "base.stand_hight"),
        ("limits = [-2, 2]", "limits = [2, -2]", "lower number comes first"),
        ("limits = [-2, 2]", "limits = [-2]", "2 numbers are needed"),
        ("default = 0.6", "default = 6.0", "must lie in limits"),
        ("effort = 20", "effort = -1", "at least 0"),
        ("effort = 20", "effort = inf", "finite"),
        ('kind = "revolute"', 'kind = "ball"', "revolute, continuous, prismatic"),
        ("damping = 0.6, ", "", "damping in"),
        ('feet = ["FL_foot"', 'feet = ["FL_fot"', "did you mean FL_foot"),
        ("base_mass = [-0.25, 0.3]", "base_weight = [-0.25, 0.3]", "conditions.base_weight"),
        ("base_mass = [-0.25, 0.3]", '"mass:tail" = [-0.2, 0.3]', "names the link 'tail'"),
        ('plan = "walk"', 'plan = "swim"', "data.plan"),
        ("train = [8192, 48]", "train = [8192]", "2 numbers are needed"),
        ("train = [8192, 48]", "train = [8192, 0]", "trajectories, steps"),
        ('legs = [["FL_hip"', 'legs = [["FL_hp"', "did you mean FL_hip"),
        ("fore = [true, ", "fore = [", "one entry each"),
        ('sides = ["L_", "R_"]', 'sides = ["F", "B"]', "mirror.sides"),
        ('name = "FlashNeRD-Velocity', 'name = "Isaac-Velocity', "FlashNeRD- and then"),
        ('asset = "strider.usda"', 'asset = "gone.usda"', "no such file"),
        ("floating = true", "floating = false", "the other plan"),
        ("[step]", "[step", "is not TOML"),
        ("decimation = 4", "decimation = 4.5", "int is needed"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(home: Path, old: str, new: str, answer: str) -> None:
    path = home / "strider/robot.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FlashNerdError) as refused:
        load_own(path.parent)
    assert answer in str(refused.value) and "robot.toml" in str(refused.value), refused.value


def test_an_edit_is_seen_at_once(home: Path) -> None:
    path = home / "strider/robot.toml"
    assert get_robot("strider").action_scale == 0.25
    path.write_text(path.read_text().replace("action_scale = 0.25", "action_scale = 0.5"))
    assert get_robot("strider").action_scale == 0.5


def test_robots_are_found_in_the_working_folder_and_where_the_environment_says(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert set(own_robots()) == {"picker", "strider"} and set(all_robots()) == {*ROBOTS, "picker", "strider"}
    monkeypatch.setenv("FLASHNERD_ROBOTS", str(home / "strider"))
    assert own_folders() == [home / "strider"], "a root may be a robot itself"
    monkeypatch.delenv("FLASHNERD_ROBOTS")
    elsewhere = tmp_path_factory.mktemp("work")
    monkeypatch.chdir(elsewhere)
    assert own_folders() == []
    (elsewhere / "robots").symlink_to(home)
    assert set(own_robots()) == {"picker", "strider"}
    monkeypatch.setenv("FLASHNERD_ROBOTS", str(elsewhere / "nowhere"))
    with pytest.raises(FlashNerdError, match="FLASHNERD_ROBOTS names"):
        own_folders()


def test_a_broken_robot_harms_no_other(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "picker/robot.toml").write_text("schema = 1\n")
    assert get_robot("strider").name == "strider" and get_robot("go2") is ROBOTS["go2"]
    assert set(own_robots()) == {"strider"}
    with pytest.raises(FlashNerdError, match=r"name in .* is missing"):
        get_robot("picker")
    assert "left out" in capfd.readouterr().err


def test_names_may_stand_once(home: Path) -> None:
    text = (home / "strider/robot.toml").read_text()
    for folder, name in (("copy", "strider"), ("unitree", "go2")):
        (home / folder).mkdir()
        (home / folder / "strider.usda").write_text("")
        (home / folder / "robot.toml").write_text(text.replace('name = "strider"', f'name = "{name}"', 1))
    assert set(own_robots()) == {"picker", "strider"} and get_robot("go2") is ROBOTS["go2"]
    # By name the copy comes first, so that it is the original that is one too many.
    assert Path(get_robot("strider").asset_path).parent == home / "copy"
    with pytest.raises(FlashNerdError, match="did you mean strider"):
        get_robot("stridr")


def test_looking_for_robots_runs_none_of_their_code(home: Path) -> None:
    trap = home / "ran"
    (home / "strider/task.py").write_text(f"open({str(trap)!r}, 'w')\n")
    for look in (own_bundles, all_robots, own_robots):
        look()
    assert get_robot("strider").name == "strider" and samplers_of("strider")
    assert not trap.exists()


def test_a_bundle_in_the_robots_folder_is_its_own(home: Path) -> None:
    assert own_bundles() == {} and not load_own(home / "strider").has_bundle
    with pytest.raises(FlashNerdError, match=r"has no bundle yet: type python scripts/dataset\.py robot=strider"):
        find_bundle(str(home / "strider/bundle"))
    bundle = home / "strider/bundle"
    bundle.mkdir()
    (bundle / "card.json").write_text("{}")
    assert own_bundles() == {"strider": bundle} and find_bundle("strider") == bundle
    with pytest.raises(FlashNerdError, match="did you mean strider"):
        find_bundle("stridr")


@pytest.mark.parametrize("name", ["strider", "picker"])
def test_samplers_draw_states_and_policies_of_the_robot(home: Path, name: str) -> None:
    robot, items = get_robot(name), samplers_of(name)
    layout, rng = robot.layout, np.random.default_rng(0)
    assert mixture(name, "train").sum() == pytest.approx(1.0) and plan_of(name).splits["train"].trajectories > 0
    for item in items.values():
        q, qd, policy = item.draw(rng, 5, 4)
        assert q.shape == (5, layout.nq) and qd.shape == (5, layout.nv)
        for t in range(4):
            action = policy(t, q, qd)
            assert action.shape == (5, layout.nu) and np.isfinite(action).all()
        if layout.floating_base:
            np.testing.assert_allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0, atol=1e-9)
            assert (np.abs(q[:, 7:]) <= 2.0).all(), "starts lie within the limits"
    if name == "strider":
        target = items["gait"].draw(np.random.default_rng(1), 64, 40)[2](20, np.zeros((64, 15)), np.zeros((64, 14)))
        assert np.abs(target - np.array(robot.default_q)).max(0).min() > 0.05, "every joint of every leg swings"


def test_torques_on_links_without_a_rotors_inertia_stay_within_what_they_can_bear(home: Path) -> None:
    path = home / "picker/robot.toml"
    inertia = load_own(home / "picker").data.inertia["joint3"]
    path.write_text(path.read_text().replace(f"joint3 = {inertia:g} }}", "joint3 = 1e-4 }"))
    assert load_own(home / "picker").data.inertia["joint3"] == 1e-4
    robot, largest = get_robot("picker"), np.zeros(3)
    for item in samplers_of("picker").values():
        q, qd, policy = item.draw(np.random.default_rng(0), 50, 4)
        for t in range(4):
            largest = np.maximum(largest, np.abs(policy(t, q, qd)).max(0))
    # 10 rad/s a step at most; the others go up to their limit of 40 N m.
    assert 0 < largest[2] <= 10.0 * 1e-4 / robot.dt + 1e-9 and largest[0] > 20.0


def test_motors_without_a_rotors_inertia_are_found(tmp_path: Path) -> None:
    measured = arm()
    assert rotorless(measured) == []
    measured.inertia["joint3"] = 1e-4
    (finding,) = rotorless(measured)
    assert finding.where == "joint3" and "1.7e+03 rad/s" in finding.what and "--armature" in finding.mend


def test_weights_of_the_file_change_the_mixture(home: Path) -> None:
    path = home / "strider/robot.toml"
    text = path.read_text()
    path.write_text(text.replace("weights = {}", "weights = { gait = 3.0, tumble = 0.0 }"))
    names = list(samplers_of("strider"))
    shares = mixture("strider", "train")
    assert shares[names.index("gait")] > 0.7 and shares[names.index("tumble")] == 0.0
    path.write_text(text.replace("weights = {}", "weights = { gaits = 1.0 }"))
    with pytest.raises(FlashNerdError, match="did you mean gait"):
        samplers_of("strider")


def test_two_legs_get_falls_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = walker()
    measured.legs, measured.fore, measured.left = LEGS[:2], (False, False), (True, False)
    put(tmp_path, "biped", measured)
    monkeypatch.setenv("FLASHNERD_ROBOTS", str(tmp_path))
    items = samplers_of("biped")
    assert {"lean", "fall", "gait"} <= set(items)
    q, _, _ = items["fall"].draw(np.random.default_rng(0), 200, 3)
    tilt = 2 * np.arccos(np.clip(np.hypot(q[:, 5], q[:, 6]), 0, 1))
    assert tilt.min() >= 0.4 and tilt.max() <= 1.6


# -- the writer -------------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_folder_that_could_not_be_written(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        (place / "robot.toml").write_text("half")
        raise FlashNerdError("no")

    for there in (False, True):
        if there:
            put(tmp_path, "mine", arm())
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(FlashNerdError, match="no"):
            write_folder(tmp_path / "mine", True, fail)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        assert all(path.name == "mine" for path in tmp_path.iterdir())


def test_a_folder_is_replaced_only_when_it_is_wanted_and_is_a_robots(tmp_path: Path) -> None:
    fill: Callable[[Path], object] = lambda place: (place / "robot.toml").write_text("new")  # noqa: E731
    folder = write_folder(tmp_path / "deep/mine", False, fill)
    (folder / "bundle").mkdir()
    (folder / "bundle/card.json").write_text("trained")
    (folder / "notes.txt").write_text("old")
    with pytest.raises(FlashNerdError, match="--force"):
        check_target(folder, force=False)
    with pytest.raises(FlashNerdError, match="--force"):
        write_folder(folder, False, fill)
    write_folder(folder, True, fill)
    assert sorted(path.name for path in folder.iterdir()) == ["bundle", "robot.toml"]
    assert (folder / "bundle/card.json").read_text() == "trained"
    (tmp_path / "photos").mkdir()
    with pytest.raises(FlashNerdError, match=r"holds no robot\.toml"):
        check_target(tmp_path / "photos", force=True)
    assert [path.name for path in folder.parent.iterdir()] == ["mine"]


def test_the_task_skeleton_is_short_and_compiles() -> None:
    for name, floating in (("my_dog_2", True), ("arm", False)):
        text = task_py(name, floating)
        compile(text, "task.py", "exec")
        assert task_id(name, floating) in text and len(text.splitlines()) < 45
    assert task_id("my_dog_2", True) == "FlashNeRD-Velocity-Flat-MyDog2"
