"""The mirror that PPO sees: Isaac Lab's own for ANYmal, and true of every robot that has one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("isaaclab_tasks")

from tensordict import TensorDict

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.symmetry import (
    ENDS,
    LOGGED,
    four_ways,
    joint_columns,
    left_right,
    log_less,
    mirror_of,
    observation_columns,
)
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless
FLAT = ("base_lin_vel", "base_ang_vel", "projected_gravity", "velocity_commands", "joint_pos", "joint_vel", "actions")


def environment(robot: str, scan: bool = False, order: int = 1) -> SimpleNamespace:
    """What the augmentation reads of an environment."""
    names = get_robot(robot).layout.joint_names[::order]
    sizes = [3] * 4 + [len(names)] * 3
    terms = [*FLAT, "height_scan"] if scan else list(FLAT)
    sensors = {"robot": SimpleNamespace(joint_names=names)}
    if scan:
        from isaaclab.sensors.ray_caster.patterns import GridPatternCfg

        sensors["height_scanner"] = SimpleNamespace(
            cfg=SimpleNamespace(pattern_cfg=GridPatternCfg(resolution=0.1, size=(1.6, 1.0)))
        )
        sizes.append(187)
    base = SimpleNamespace(
        scene=sensors,
        device="cpu",
        observation_manager=SimpleNamespace(
            active_terms={"policy": terms}, group_obs_term_dim={"policy": [(size,) for size in sizes]}
        ),
    )
    return SimpleNamespace(unwrapped=base, size=sum(sizes), joints=len(names))


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_it_is_isaac_labs_own_for_anymal(scan: bool, order: int) -> None:
    from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

    env = environment("anymal_c", scan, order)
    obs, actions = torch.randn(5, env.size), torch.randn(5, env.joints)
    found, moved = left_right(env, TensorDict({"policy": obs}, batch_size=5), actions)
    names = tuple(env.unwrapped.scene["robot"].joint_names)
    index, sign = anymal._policy_obs_symmetry("left_right", env.size, scan, names, "cpu")
    assert found is not None and moved is not None
    torch.testing.assert_close(found["policy"], torch.cat((obs, obs[:, index] * sign)))
    torch.testing.assert_close(moved, torch.cat((actions, anymal._transform_actions_left_right(actions, names))))


@pytest.mark.parametrize("scan", [False, True])
def test_four_ways_are_isaac_labs_own_for_anymal(scan: bool) -> None:
    from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

    env = environment("anymal_c", scan)
    obs, actions = torch.randn(5, env.size), torch.randn(5, env.joints)
    found, moved = four_ways(env, TensorDict({"policy": obs}, batch_size=5), actions)
    names = tuple(env.unwrapped.scene["robot"].joint_names)
    assert found is not None and moved is not None
    assert found.batch_size[0] == 20 and moved.shape[0] == 20
    for number, kinds in enumerate([(), ("left_right",), ("front_back",), ("left_right", "front_back")]):
        image, turned = obs, actions
        for kind in kinds:
            index, sign = anymal._policy_obs_symmetry(kind, env.size, scan, names, "cpu")
            image = image[:, index] * sign
            turned = getattr(anymal, f"_transform_actions_{kind}")(turned, names)
        torch.testing.assert_close(found["policy"][5 * number : 5 * number + 5], image)
        torch.testing.assert_close(moved[5 * number : 5 * number + 5], turned)


def test_a_robot_whose_ends_differ_has_two_ways_only() -> None:
    with pytest.raises(FlashNerdError, match="has a fore_aft"):
        mirror_of(get_robot("go2").layout.joint_names, ENDS)


@pytest.mark.parametrize("robot", ["anymal_c", "go2", "g1"])
def test_the_image_of_an_image_is_the_original(robot: str) -> None:
    env = environment(robot)
    obs = torch.randn(3, env.size)
    once, _ = left_right(env, TensorDict({"policy": obs}, batch_size=3), None)
    assert once is not None
    twice, nothing = left_right(env, once[3:], None)
    assert twice is not None and nothing is None
    torch.testing.assert_close(twice["policy"][3:], obs)
    assert not torch.equal(once["policy"][3:], obs)
    assert left_right(env) == (None, None)


def test_a_sideways_command_changes_sides_and_a_forward_one_does_not() -> None:
    env = environment("go2")
    obs = torch.zeros(1, env.size)
    obs[0, 9:12] = torch.tensor([1.0, 2.0, 3.0])
    both, _ = left_right(env, TensorDict({"policy": obs}, batch_size=1), None)
    assert both is not None and both["policy"][1, 9:12].tolist() == [1.0, -2.0, -3.0]


def test_what_has_no_image_is_refused() -> None:
    with pytest.raises(FlashNerdError, match=r"no robot with the joints slider.*agent.algorithm.symmetry_cfg=null"):
        mirror_of(("slider",))
    names = get_robot("go2").layout.joint_names
    joints = joint_columns(names, mirror_of(names))
    with pytest.raises(FlashNerdError, match="observation 'camera' with 4 numbers"):
        observation_columns([("base_lin_vel", (3,)), ("camera", (4,))], joints, list)


def test_the_logged_error_is_that_of_some_samples_and_no_part_of_the_graph() -> None:
    from rsl_rl.extensions import Symmetry

    env = environment("go2")
    torch.manual_seed(0)
    linear = torch.nn.Linear(env.size, env.joints)
    seen: list[int] = []

    def actor(obs: TensorDict) -> torch.Tensor:
        seen.append(obs.batch_size[0])
        return linear(obs["policy"])

    count = 3 * LOGGED
    both, _ = left_right(env, TensorDict({"policy": torch.randn(count, env.size)}, batch_size=count), None)
    batch = SimpleNamespace(observations=both)
    algorithm = SimpleNamespace(symmetry=Symmetry(env, left_right, use_data_augmentation=True))
    whole = algorithm.symmetry.compute_loss(actor, batch, count)
    log_less(algorithm)
    some = algorithm.symmetry.compute_loss(actor, batch, count)
    assert seen == [2 * count, 2 * LOGGED] and not some.requires_grad
    assert float(some) == pytest.approx(float(whole), rel=0.1) and float(some) > 0
    learned = SimpleNamespace(symmetry=Symmetry(env, left_right, True, use_mirror_loss=True, mirror_loss_coeff=1.0))
    log_less(learned)
    assert learned.symmetry.compute_loss(actor, batch, count).requires_grad
