"""What floating bases, drives, conditions and contacts add to the model: against formulas and their inverses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flashnerd_ext.data.engines.coordinates import from_mujoco, to_mujoco
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.flashnerd import FlashNerd, FlashNerdConfig
from flashnerd_ext.model.frame import drive_torque, encode_frame, frame_names
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.model.metric import increment_std, metric_names, state_std
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.model.stepper import Stepper
from flashnerd_ext.training.loss import StateLoss
from flashnerd_ext.training.windows import make_windows

MOTOR = Drive((40.0, 30.0), (5.0, 1.0), (80.0, 20.0), saturation=(120.0, 25.0), velocity_limit=(7.5, 10.0))
LEG = StateLayout(
    ("hip", "wheel", "knee"),
    ("revolute", "continuous", "revolute"),
    floating_base=True,
    actuated=("knee", "hip"),
    drive=MOTOR,
    conditions=("base_mass", "stiffness", "damping"),
)


def random_state(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    q = torch.randn(count, LEG.nq, generator=rng, dtype=torch.float64)
    q[:, 3:7] /= q[:, 3:7].norm(dim=1, keepdim=True)
    return q, 3.0 * torch.randn(count, LEG.nv, generator=rng, dtype=torch.float64)


def test_motor_torque_is_the_four_quadrant_curve() -> None:
    """Against the definition, one joint and speed at a time: PD, clamped by effort limit and torque-speed line."""
    error = torch.tensor([[0.1, 0.1], [3.0, 3.0], [-3.0, -3.0], [3.0, 3.0], [3.0, 3.0], [-3.0, -3.0]]).double()
    speed = torch.tensor([[0.5, 0.5], [0.0, 0.0], [0.0, 0.0], [6.0, 9.0], [20.0, 40.0], [5.0, 5.0]]).double()
    torque = drive_torque(LEG, error, speed)
    for row in range(len(error)):
        for joint in range(2):
            stall, fastest, limit = MOTOR.saturation[joint], MOTOR.velocity_limit[joint], MOTOR.effort_limit[joint]
            v = float(speed[row, joint])
            corner = fastest * (1 + limit / stall)
            v_line = min(max(v, -corner), corner)
            wanted = MOTOR.stiffness[joint] * float(error[row, joint]) - MOTOR.damping[joint] * v
            high = min(stall * (1 - v_line / fastest), limit)
            low = max(stall * (-1 - v_line / fastest), -limit)
            assert float(torque[row, joint]) == pytest.approx(min(max(wanted, low), high), abs=1e-12)
    # A motor that is turned faster than its limit brakes, never more than its effort limit.
    assert float(torque[4, 0]) == pytest.approx(-80.0)


def test_gain_conditions_scale_the_torque_and_enter_the_frame() -> None:
    q, qd = random_state(4)
    target = q[:, [9, 7]] + 0.01
    condition = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.5, 0.0], [0.0, 0.0, -0.5], [0.2, -0.2, 0.3]]).double()
    slow = 0.01 * qd
    frame = encode_frame(LEG, q, slow, target, condition)
    names = frame_names(LEG)
    assert frame.shape[1] == len(names)
    assert names[-3:] == ["condition.base_mass", "condition.stiffness", "condition.damping"]
    assert torch.equal(frame[:, -3:], condition)
    torque = frame[:, [names.index("knee.torque"), names.index("hip.torque")]]
    stiff = torch.tensor(MOTOR.stiffness) * (1 + condition[:, 1:2]) * 0.01
    damp = torch.tensor(MOTOR.damping) * (1 + condition[:, 2:3]) * slow[:, 6:][:, [2, 0]]
    assert torch.allclose(torque, stiff - damp, atol=1e-12)
    # Nothing given is nominal.
    assert torch.equal(encode_frame(LEG, q, qd, target), encode_frame(LEG, q, qd, target, torch.zeros(4, 3).double()))


def test_drives_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(FlashNerdError, match="damping"):
        Drive((1.0, 1.0), (1.0,), (1.0, 1.0))
    with pytest.raises(FlashNerdError, match="DC motor needs both"):
        Drive((1.0,), (1.0,), (1.0,), saturation=(1.0,))
    with pytest.raises(FlashNerdError, match="2 joints are actuated"):
        StateLayout(("a", "b"), ("revolute", "revolute"), actuated=("a", "b"), drive=Drive((1.0,), (1.0,), (1.0,)))


def test_layout_survives_json() -> None:
    assert StateLayout.from_dict(LEG.to_dict()) == LEG
    assert StateLayout.from_dict(StateLayout(("a",), ("prismatic",)).to_dict()).drive is None


def exported() -> ExportedModel:
    return ExportedModel(
        robot="leg",
        asset_key="leg@test",
        xml="",
        fields={},
        joint_names=LEG.joint_names,
        qpos_index=(9, 7, 8),
        dof_index=(8, 6, 7),
        actuation="target",
        actuated_dofs=(7, 8),
        sim_dt=0.005,
        decimation=4,
        versions={},
        floating_base=True,
    )


def test_coordinates_go_to_mujoco_and_back() -> None:
    q, qd = (x.numpy() for x in random_state(50, 3))
    com = np.random.default_rng(0).normal(size=(50, 3)) * 0.1
    qpos, qvel = to_mujoco(exported(), q, qd, com)
    back_q, back_qd = from_mujoco(exported(), qpos, qvel, com)
    np.testing.assert_allclose(back_q, q, atol=1e-12)
    np.testing.assert_allclose(back_qd, qd, atol=1e-12)
    np.testing.assert_allclose(qpos[:, 3], q[:, 6])
    np.testing.assert_allclose(qpos[:, [9, 7, 8]], q[:, 7:])
    # Turning about a body axis, without motion of the centre of mass: the origin moves by omega x (-r).
    still = np.zeros((1, LEG.nv))
    still[0, 5] = 2.0
    level = np.zeros((1, LEG.nq))
    level[0, 6] = 1.0
    _, qvel = to_mujoco(exported(), level, still, np.array([[0.1, 0.0, 0.0]]))
    np.testing.assert_allclose(qvel[0, :3], [0.0, -0.2, 0.0], atol=1e-15)
    np.testing.assert_allclose(qvel[0, 3:6], [0.0, 0.0, 2.0], atol=1e-15)


def test_sensed_values_pack_and_unpack() -> None:
    q, _ = random_state(6)
    sensed = Sensed(LEG, 4)
    force, torque = torch.randn(6, 4, 3).double(), torch.randn(6, 2).double()
    packed = sensed.pack(q, force, torque)
    assert packed.shape == (6, sensed.size)
    assert torch.allclose(sensed.forces(q, packed), force, atol=1e-12)
    assert torch.equal(sensed.torques(packed), torque)
    # Turning robot and force together about the vertical changes nothing: the root frame does not know yaw.
    upright = torch.tensor([[0, 0, 1.0, 0, 0, np.sin(0.4), np.cos(0.4), 0, 0, 0]]).double()
    level = torch.tensor([[0, 0, 1.0, 0, 0, 0, 1, 0, 0, 0]]).double()
    turned = torch.tensor([[np.cos(0.8), np.sin(0.8), 5.0]]).double().expand(1, 4, 3)
    straight = torch.tensor([[1.0, 0.0, 5.0]]).double().expand(1, 4, 3)
    assert torch.allclose(
        sensed.pack(upright, turned, torque[:1]), sensed.pack(level, straight, torque[:1]), atol=1e-12
    )


def small_model(**options: int) -> FlashNerd:
    torch.manual_seed(0)
    config = {"width": 8, "hidden": 8, "heads": 2, "rows_capacity": 3, "links": 4, "sensed": Sensed(LEG, 4).size}
    return FlashNerd(LEG, FlashNerdConfig(**(config | options)))


def rows_of(shape: tuple[int, ...], seed: int = 1) -> ContactRows:
    rng = torch.Generator().manual_seed(seed)
    used = torch.rand((*shape, 3), generator=rng) < 0.6
    features = torch.randn((*shape, 3, 12), generator=rng)
    return ContactRows(features, torch.randint(0, 4, (*shape, 3), generator=rng), used)


def test_stepper_gives_state_and_sensed_values_of_the_sequence() -> None:
    model = small_model()
    stepper = Stepper(model, 0.02, 8, 5)
    stepper.condition.copy_(torch.randn(5, 3) * 0.1)
    q, qd = (x.float() for x in random_state(5))
    frames, rows = [], []
    integrator = Integrator(LEG, 0.02, 8, True)
    for step in range(6):
        target = q[:, [9, 7]] + 0.1
        frames.append(encode_frame(LEG, q, qd, target, stepper.condition))
        rows.append(rows_of((5,), step))
        out = model.sequence(
            torch.stack(frames, 1),
            ContactRows(
                *(torch.stack([getattr(row, name) for row in rows], 1) for name in ("features", "link", "used"))
            ),
        )[:, -1]
        wanted = integrator.apply(q, qd, out)
        q, qd = stepper.step(q, qd, target, rows[-1])
        assert torch.allclose(q, wanted[0], atol=1e-5)
        assert torch.allclose(qd, wanted[1], atol=1e-4)
        assert torch.allclose(stepper.sensed, out[:, 2 * LEG.nv :], atol=1e-5)


def test_windows_carry_rows_conditions_and_sensed_targets() -> None:
    rng = np.random.default_rng(0)
    n, steps = 7, 12
    q, qd = (x.numpy().reshape(n, steps + 1, -1) for x in random_state(n * (steps + 1)))
    rows = rows_of((n, steps))
    extra = {
        "condition": rng.normal(size=(n, 3)).astype(np.float32),
        "friction": np.ones(n, np.float32),
        "rows": rows.features.numpy(),
        "row_link": np.where(rows.used.numpy(), rows.link.numpy(), -1).astype(np.int16),
        "force": rng.normal(size=(n, steps, 4, 3)).astype(np.float32),
        "torque": rng.normal(size=(n, steps, 2)).astype(np.float32),
    }
    valid = np.ones((n, steps), bool)
    valid[2, 5:] = False
    integrator, sensed = Integrator(LEG, 0.02, 8, True), Sensed(LEG, 4)
    actuation = rng.normal(size=(n, steps, 2)).astype(np.float32)
    windows = make_windows(LEG, integrator, q, qd, actuation, valid, 4, extra, True, sensed)
    batch = windows.batch(windows.starts[[0, 5, 30]])
    assert batch.rows is not None
    for i, start in enumerate(windows.starts[[0, 5, 30]].tolist()):
        trajectory, time = divmod(start, steps)
        assert torch.equal(batch.rows.used[i], rows.used[trajectory, time : time + 4])
        assert torch.equal(batch.rows.features[i], rows.features[trajectory, time : time + 4])
        assert np.allclose(batch.frames[i, :, -3:].numpy(), extra["condition"][trajectory], atol=1e-6)
        where = torch.from_numpy(q[trajectory, time : time + 4])
        force = sensed.forces(where, batch.targets[i, :, 2 * LEG.nv :].double())
        assert np.allclose(force.numpy(), extra["force"][trajectory, time : time + 4], atol=1e-5)
        assert np.allclose(batch.targets[i, :, -2:].numpy(), extra["torque"][trajectory, time : time + 4], atol=1e-6)
    with pytest.raises(FlashNerdError, match="has none"):
        make_windows(LEG, integrator, q, qd, actuation, valid, 4, {}, True)


def test_loss_of_sensed_values_is_weighted_and_leaves_the_metric_alone() -> None:
    q, qd = (x.numpy() for x in random_state(100))
    std = state_std(LEG, q[None], qd[None])
    assert len(std) == len(metric_names(LEG)) == 10 + 6
    position, velocity = increment_std(LEG, std)
    assert position.shape == velocity.shape == (LEG.nv,)
    size = 2 * LEG.nv + 14
    loss = StateLoss(
        Integrator(LEG, 0.02, 8, True),
        torch.from_numpy(position).float(),
        torch.from_numpy(velocity).float(),
        out_std=torch.full((size,), 2.0),
        sensed_weight=0.25,
    )
    target = torch.zeros(3, size)
    out = target.clone()
    out[:, 2 * LEG.nv :] = 4.0
    assert float(loss(out, target)) == pytest.approx(0.25 * 4.0)
    assert float(loss.nrmse(out, target)) == 0.0


def test_power_counts_errors_of_frames_and_leaves_the_metric_alone() -> None:
    """Two frames, one ten times as wrong: least squares sees a hundred times the loss, the root ten times."""
    integrator = Integrator(LEG, 0.02, 8, prior=False)
    target = torch.zeros(2, 2 * LEG.nv)
    small, large = 0.3, 3.0
    out = torch.tensor([small, large])[:, None].expand(2, 2 * LEG.nv).clone()
    for power, share in ((1.0, 100.0), (0.5, 10.0)):
        loss = StateLoss(integrator, torch.ones(LEG.nv), torch.ones(LEG.nv), power=power)
        assert float(loss(out[:1], target[:1])) == pytest.approx(small ** (2 * power), rel=1e-4)
        assert float(loss(out[1:], target[1:])) == pytest.approx(share * float(loss(out[:1], target[:1])), rel=1e-4)
        assert float(loss(out, target)) == pytest.approx((small ** (2 * power) + large ** (2 * power)) / 2, rel=1e-4)
        assert float(loss.nrmse(out, target)) == pytest.approx(((small**2 + large**2) / 2) ** 0.5, rel=1e-5)
        # A frame that is predicted exactly has a finite gradient.
        still = torch.zeros(1, 2 * LEG.nv, requires_grad=True)
        loss(still, target[:1]).backward()
        assert still.grad is not None and bool(torch.isfinite(still.grad).all())


def test_unrolled_frames_show_the_condition_of_their_world() -> None:
    """A model whose only input that matters is the condition: its loss tells whether the unrolled frames have it."""
    from flashnerd_ext.training.multistep import unrolled_loss

    rng = np.random.default_rng(0)
    q, qd = (x.numpy().reshape(3, 7, -1) for x in random_state(21))
    extra = {"condition": rng.normal(size=(3, 3)).astype(np.float32)}
    integrator = Integrator(LEG, 0.02, 8, True)
    actuation = rng.normal(size=(3, 6, 2)).astype(np.float32)
    windows = make_windows(LEG, integrator, q, qd, actuation, np.ones((3, 6), bool), 3, extra)
    seen: list[torch.Tensor] = []

    class Spy(FlashNerd):
        def sequence(self, frames: torch.Tensor, rows: ContactRows | None = None) -> torch.Tensor:
            seen.append(frames[:, -1, -3:])
            return super().sequence(frames, rows)

    torch.manual_seed(0)
    model = Spy(LEG, FlashNerdConfig(width=8, hidden=8, heads=2))
    loss = StateLoss(integrator, torch.ones(LEG.nv), torch.ones(LEG.nv))
    starts = windows.starts[[0, 4, 9]]
    unrolled_loss(model, loss, windows, starts, 2, torch.device("cpu"))
    wanted = torch.from_numpy(extra["condition"])[starts // 6]
    assert len(seen) == 2
    assert all(torch.equal(frame, wanted) for frame in seen)
