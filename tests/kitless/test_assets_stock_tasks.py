"""Stock Isaac Lab tasks run unchanged on the local asset root, and Newton builds what the asset says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import result_of

from flashnerd_ext.robots.assets import root, urdf_robot
from flashnerd_ext.robots.assets.description import Source, UrdfRobot
from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.readback import read_asset
from flashnerd_ext.robots.assets.verify import compare, newton_reference, verify

pytestmark = pytest.mark.kitless

# A simulator lives once in a process, so each task gets one of its own.
CHILD = """
import json, sys
from flashnerd_ext.robots.assets import activate
activate("local")
import gymnasium as gym, torch
import isaaclab_tasks
from isaaclab.app import launch_simulation
from isaaclab_tasks.utils import resolve_task_config

task, count, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
cfg, _ = resolve_task_config(task, "", overrides=["physics=newton_mjwarp"])
cfg.sim.device, cfg.scene.num_envs = "cpu", count
with launch_simulation(cfg, {"device": "cpu"}):
    env = gym.make(task, cfg=cfg)
    obs, _ = env.reset()
    first, finite = obs["policy"].clone(), True
    for _ in range(steps):
        obs, reward, *_ = env.step(2.0 * torch.rand(env.action_space.shape) - 1.0)
        finite = finite and bool(torch.isfinite(obs["policy"]).all()) and bool(torch.isfinite(reward).all())
    from isaaclab_newton.physics import NewtonManager

    model = NewtonManager.get_model()
    per = model.body_count // count
    names = [label.rsplit("/", 1)[-1] for label in model.body_label]
    robot = next(iter(env.unwrapped.scene.articulations.values()))
    print("RESULT " + json.dumps({
        "finite": finite,
        "moved": float((obs["policy"] - first).abs().max()),
        "shape": list(obs["policy"].shape),
        "joints": list(robot.joint_names),
        "root": str(NewtonManager.__module__),
        "names": names,
        "mass": model.body_mass.numpy().tolist(),
        "com": model.body_com.numpy().tolist(),
        "inertia": model.body_inertia.numpy().tolist(),
        "limits": [model.joint_limit_lower.numpy()[:2].tolist(), model.joint_limit_upper.numpy()[:2].tolist()],
    }), flush=True)
    env.close()
"""


def run_task(task: str, folder: Path) -> dict[str, Any]:
    script = folder / "child.py"
    script.write_text(CHILD)
    return result_of(script, task, 16, 20, cwd=folder)[0]


@pytest.mark.parametrize("task", ["Isaac-Cartpole", "Isaac-Cartpole-Direct"])
def test_stock_cartpole_runs_and_has_the_assets_masses(task: str, tmp_path: Path) -> None:
    result = run_task(task, tmp_path)
    assert result["finite"] and result["moved"] > 1e-3 and result["shape"] == [16, 4]
    assert tuple(result["joints"]) == root.joint_order("cartpole")
    asset = read_asset(root.local_root() / get_description("cartpole").outputs[0])
    assert len(result["names"]) == 16 * len(asset.bodies)
    for name, mass, com, tensor in zip(result["names"], result["mass"], result["com"], result["inertia"], strict=True):
        body = asset.bodies[name]
        assert mass == pytest.approx(body.mass, rel=1e-6)
        assert com == pytest.approx(body.com, abs=1e-6)
        assert np.array(tensor) == pytest.approx(body.tensor, rel=1e-5, abs=1e-9)
    slider, _ = asset.breadth_first()
    assert (result["limits"][0][0], result["limits"][1][0]) == pytest.approx(slider.limits)
    assert abs(result["limits"][0][1]) >= 1e9  # the pole turns freely


def test_newton_reads_a_converted_urdf_as_it_was_meant(tmp_path: Path) -> None:
    """ANYmal-C through our USD into Newton and MuJoCo against the same USD in Pinocchio: a floating base, kept feet."""
    pytest.importorskip("pinocchio")
    path = "cmeel.prefix/share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf"
    robot = UrdfRobot(
        name="anymal_c",
        source=Source("example-robot-data", path, "BSD-3-Clause"),
        outputs=("anymal_c.usd",),
        root="anymal",
        joints=tuple(f"{leg}_{joint}" for joint in ("HAA", "HFE", "KFE") for leg in ("LF", "RF", "LH", "RH")),
        keep=(".*_FOOT",),
        visual="collision",
    )
    written = urdf_robot.convert(robot, tmp_path / "anymal_c.usd")
    reference = newton_reference(written)
    assert sorted(reference.joints) == sorted(robot.joints)
    for check in compare(read_asset(written), reference, tolerance=1e-5):
        assert check.ok, check


def test_cartpole_equals_what_newton_and_mujoco_make_of_the_packaged_file() -> None:
    """Pinocchio's mass matrix of the written asset against MuJoCo's of the packaged file, read by Newton."""
    pytest.importorskip("pinocchio")
    checks = verify(get_description("cartpole"), root.local_root())
    assert len(checks) == 4
    for check in checks:
        assert check.ok, check
