"""Mirrored windows are the windows of mirrored trajectories, and a mirror that does not fit is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.description import Mirror, RobotDescription
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.mirror import MirroredBatch, Reflection, match
from flashnerd_ext.training.windows import Windows, make_windows

COUNT, STEPS, ROWS = 6, 5, 7
MIRRORED = ("anymal_c", "go2", "g1")


def recorded(robot: RobotDescription, seed: int = 0, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Trajectories of numbers that no two columns share."""
    rng, layout, links = np.random.default_rng(seed), robot.layout, len(robot.links)
    q = rng.normal(size=(COUNT, STEPS + 1, layout.nq))
    q[..., 3:7] /= np.linalg.norm(q[..., 3:7], axis=-1, keepdims=True)
    used = rng.random((COUNT, STEPS, rows)) < 0.6
    return {
        "joint_q": q,
        "joint_qd": rng.normal(size=(COUNT, STEPS + 1, layout.nv)),
        "actuation": rng.normal(size=(COUNT, STEPS, layout.nu)),
        "condition": rng.normal(size=(COUNT, len(layout.conditions))),
        "force": rng.normal(size=(COUNT, STEPS, links, 3)),
        "torque": rng.normal(size=(COUNT, STEPS, layout.nu)),
        "rows": rng.normal(size=(COUNT, STEPS, rows, 12)).astype(np.float32),
        "row_link": np.where(used, rng.integers(0, links, used.shape), -1),
    }


def mirrored(robot: RobotDescription, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    image = Reflection(robot)
    found = {
        name: getattr(image, name.replace("torque", "actuation"))(torch.from_numpy(data[name])).numpy()
        for name in ("joint_q", "joint_qd", "actuation", "condition", "force", "torque")
    }
    rows = data["rows"].copy()
    rows[..., [1, 4, 8]] *= -1
    link = np.where(data["row_link"] >= 0, np.array(image.links)[data["row_link"]], -1)
    return {**found, "rows": rows, "row_link": link}


def windows_of(robot: RobotDescription, data: dict[str, np.ndarray], fixed: tuple[str, ...] = ()) -> Windows:
    integrator, sensed = Integrator(robot.layout, robot.dt, robot.inner_steps), Sensed(robot.layout, len(robot.links))
    windows = make_windows(
        robot.layout, integrator, data["joint_q"], data["joint_qd"], data["actuation"],
        np.ones((COUNT, STEPS), bool), 3, data, True, sensed,
    )  # fmt: skip
    windows.mirror = MirroredBatch(robot, integrator, sensed, fixed)
    return windows


@pytest.mark.parametrize("name", MIRRORED)
def test_mirrored_windows_are_windows_of_mirrored_trajectories(name: str) -> None:
    robot = get_robot(name)
    data = recorded(robot)
    here, there = windows_of(robot, data), windows_of(robot, mirrored(robot, data))
    found, wanted = here.batch(here.starts + len(here.frames)), there.batch(there.starts)
    torch.testing.assert_close(found.frames, wanted.frames, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.targets, wanted.targets, atol=1e-4, rtol=1e-5)
    assert found.rows is not None and wanted.rows is not None
    torch.testing.assert_close(found.rows.features, wanted.rows.features)
    assert torch.equal(found.rows.link, wanted.rows.link) and torch.equal(found.rows.used, wanted.rows.used)
    plain = here.batch(here.starts)
    assert (plain.frames - found.frames).abs().max() > 0.1
    torch.testing.assert_close(plain.frames.flatten(0, 1)[:, :4], here.frames[_flat(here)][:, :4])


def _flat(windows: Windows) -> torch.Tensor:
    return (windows.starts[:, None] + torch.arange(windows.length)).flatten()


def test_half_of_the_draws_are_mirrored_and_only_those_change() -> None:
    robot = get_robot("go2")
    windows = windows_of(robot, recorded(robot))
    starts = windows.draw(4000, torch.Generator().manual_seed(3))
    flip = starts >= len(windows.frames)
    assert float(flip.float().mean()) == pytest.approx(0.5, abs=0.03)
    batch = windows.batch(starts)
    windows.mirror = None
    plain = windows.batch(starts)
    assert torch.equal(batch.frames[~flip], plain.frames[~flip])
    assert bool((batch.frames[flip] != plain.frames[flip]).flatten(1).any(1).all())
    drawn = windows.draw(4000, torch.Generator().manual_seed(3))
    assert int(drawn.max()) < len(windows.frames)


def test_fixed_rows_change_places() -> None:
    """Row k is always of the same link, so that its image stands where the image of that link has its place."""
    robot = get_robot("anymal_c")
    assert robot.contacts is not None
    fixed = robot.contacts.fixed
    data = recorded(robot, rows=len(fixed))
    data["row_link"] = np.broadcast_to([robot.links.index(link) for link in fixed], data["row_link"].shape).copy()
    windows = windows_of(robot, data, fixed)
    plain, found = (windows.batch(windows.starts + k * len(windows.frames)).rows for k in (0, 1))
    assert plain is not None and found is not None
    assert torch.equal(found.link, plain.link)
    left, right = fixed.index("LF_SHANK"), fixed.index("RF_SHANK")
    sign = torch.ones(12)
    sign[[1, 4, 8]] = -1.0
    torch.testing.assert_close(found.features[:, :, left], plain.features[:, :, right] * sign)


@pytest.mark.parametrize("name", MIRRORED)
def test_the_image_of_an_image_is_the_original(name: str) -> None:
    robot = get_robot(name)
    data = recorded(robot)
    twice = mirrored(robot, mirrored(robot, data))
    for key, value in data.items():
        np.testing.assert_allclose(twice[key], value, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", MIRRORED)
def test_default_pose_and_limits_are_their_own_images(name: str) -> None:
    robot = get_robot(name)
    image, names = Reflection(robot), robot.layout.joint_names
    for joint, index, sign in zip(names, image.joints, image.signs, strict=True):
        other = names[index]
        assert robot.default_joint_q.get(joint, 0.0) == pytest.approx(
            float(sign) * robot.default_joint_q.get(other, 0.0)
        ), joint
        low, high = sorted(float(sign) * limit for limit in robot.position_limit[other])
        assert robot.position_limit[joint] == pytest.approx((low, high)), joint


@pytest.mark.parametrize(
    ("mirror", "message"),
    [
        (None, "robot=go2 has no left and right.*train.mirror=false"),
        (Mirror(("L", "R"), (".*_hip_joint",)), "mirror image of joint RL_hip_joint is LL_hip_joint"),
    ],
)
def test_a_mirror_that_does_not_fit_is_refused(mirror: Mirror | None, message: str) -> None:
    robot = dataclasses.replace(get_robot("go2"), mirror=mirror)
    with pytest.raises(FlashNerdError, match=message):
        Reflection(robot)


def test_a_column_without_an_image_is_refused() -> None:
    values = torch.randn(20, 3, dtype=torch.float64)
    found = match(values, -values[:, [2, 0, 1]], "frame")
    assert found.index.tolist() == [2, 0, 1] and found.sign.tolist() == [-1.0] * 3
    with pytest.raises(FlashNerdError, match="column 1 of the frame has no image"):
        match(values, torch.stack((values[:, 0], values[:, 1] * math.pi, values[:, 2]), 1), "frame")
