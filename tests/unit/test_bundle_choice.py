"""Which shipped bundle ``auto`` takes for the robots of a scene, and which robot it refuses."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("newton")

from flashnerd_ext.bundle.store import shipped
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.physics.bundles import SceneJoints, choose_for
from flashnerd_ext.robots.registry import get_robot


def scene(name: str, alone: bool = True) -> SceneJoints:
    """One robot in each world, beside an object that is an articulation too where it is not alone."""
    robot = get_robot(name)
    joints = frozenset(robot.layout.joint_names)
    robots = (joints,) if alone else (joints, frozenset({"free joint"}))
    return SceneJoints(set(joints), robots, alone, dict(robot.armature))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", ["franka", "franka_reach", "allegro"])
def test_the_same_joints_are_told_apart_by_their_armature(name: str, alone: bool) -> None:
    assert {"franka", "franka_reach", "allegro"} <= set(shipped())
    assert choose_for(scene(name, alone)).card.robot.name == name


def test_armature_that_is_not_known_yet_refuses_nothing() -> None:
    """Builders hold the asset's, before actuators have written theirs."""
    early = dataclasses.replace(scene("franka"), armature={})
    assert choose_for(early).card.robot.name == "franka"


def test_a_robot_of_another_armature_is_refused_with_both() -> None:
    """The stock FRANKA_PANDA_CFG gives its arm 0.001."""
    found = dict(scene("franka").armature) | {"panda_joint1": 0.001}
    other = dataclasses.replace(scene("franka", alone=False), armature=found)
    with pytest.raises(FlashNerdError) as refused:
        choose_for(other)
    text = str(refused.value)
    assert "the joints of franka or franka_reach but another armature" in text
    assert "franka knows 0.6057 of panda_joint1, which has 0.001" in text
    assert "franka_reach knows 0.1 of panda_joint1, which has 0.001" in text
    assert "bundle=PATH" in text and "physics=newton_mjwarp" in text
    assert "\n" not in text and text.endswith(".")


def test_each_bundle_says_the_joint_that_it_differs_in() -> None:
    """All joints as of franka but one finger."""
    found = dict(scene("franka").armature) | {"panda_finger_joint2": 0.02}
    with pytest.raises(FlashNerdError) as refused:
        choose_for(dataclasses.replace(scene("franka"), armature=found))
    assert "franka knows 0.1 of panda_finger_joint2, which has 0.02" in str(refused.value)
    assert "franka_reach knows 0.1 of panda_joint1, which has 0.6057" in str(refused.value)
