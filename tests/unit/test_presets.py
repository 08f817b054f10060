"""``physics=flashnerd`` on preset classes: found by Isaac Lab's resolver, fresh at each access, without leaks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from flashnerd_ext.errors import FlashNerdError

pytestmark = pytest.mark.kitless


@pytest.fixture
def preset_class() -> type:
    from isaaclab.utils import configclass
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
    from isaaclab_tasks.utils import PresetCfg

    from flashnerd_ext.physics.presets import offer

    @configclass
    class PhysicsPresets(PresetCfg):
        newton_mjwarp: NewtonCfg = NewtonCfg(solver_cfg=MJWarpSolverCfg(njmax=11, cone="elliptic"), num_substeps=2)
        default: NewtonCfg = newton_mjwarp

    offer(PhysicsPresets, "somebody")
    return PhysicsPresets


def test_each_access_builds_a_new_configuration(preset_class: Any) -> None:
    first, second = preset_class.flashnerd, preset_class.flashnerd
    assert first is not second
    assert first.solver_cfg is not second.solver_cfg
    first.solver_cfg.bundle = "changed"
    assert preset_class.flashnerd.solver_cfg.bundle == "somebody"


def test_the_tasks_own_settings_are_kept_and_never_modified(preset_class: Any) -> None:
    from isaaclab_newton.physics import MJWarpSolverCfg

    cfg = preset_class.flashnerd
    assert (cfg.solver_cfg.njmax, cfg.solver_cfg.cone, cfg.num_substeps) == (11, "elliptic", 2)
    assert cfg.solver_cfg.solver_type == "flashnerd"
    assert str(cfg.class_type).endswith("flashnerd_manager:NewtonFlashNerdManager")
    assert not cfg.use_cuda_graph
    assert type(preset_class().newton_mjwarp.solver_cfg) is MJWarpSolverCfg
    assert preset_class().newton_mjwarp.use_cuda_graph


def test_the_resolver_finds_it_and_an_override_does_not_leak(preset_class: Any) -> None:
    from isaaclab_newton.physics import MJWarpSolverCfg
    from isaaclab_tasks.utils.hydra import resolve_presets

    chosen: Any = resolve_presets(preset_class(), ["flashnerd"])
    chosen.solver_cfg.guard_margin = 9.0
    again: Any = resolve_presets(preset_class(), ["flashnerd"])
    assert again.solver_cfg.guard_margin == 0.25
    default: Any = resolve_presets(preset_class())
    assert type(default.solver_cfg) is MJWarpSolverCfg


def test_a_subclass_of_the_preset_class_offers_it_too(preset_class: Any) -> None:
    from isaaclab.utils import configclass
    from isaaclab_tasks.utils.hydra import resolve_presets

    @configclass
    class Narrower(preset_class):  # type: ignore[misc, valid-type]
        pass

    chosen: Any = resolve_presets(Narrower(), ["flashnerd"])
    assert chosen.solver_cfg.solver_type == "flashnerd"


def test_an_override_for_one_stock_task_does_not_reach_another() -> None:
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    load_external_tasks()

    overrides = ["physics=flashnerd", "env.sim.physics.solver_cfg.bundle=/tmp/mine"]
    first: Any = resolve_task_config("Isaac-Cartpole", None, overrides=overrides)[0]
    second: Any = resolve_task_config("Isaac-Cartpole-Direct", None, overrides=["physics=flashnerd"])[0]
    third: Any = resolve_task_config("Isaac-Cartpole", None, overrides=["physics=newton_mjwarp"])[0]
    assert first.sim.physics.solver_cfg.bundle == "/tmp/mine"
    assert second.sim.physics.solver_cfg.bundle == "cartpole"
    assert third.sim.physics.solver_cfg.solver_type == "mujoco_warp"


def test_our_task_defaults_to_learned_physics() -> None:
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    load_external_tasks()

    found: Any = resolve_task_config("FlashNeRD-Cartpole", "rsl_rl_cfg_entry_point", overrides=[])
    ours, agent = found
    assert ours.sim.physics.solver_cfg.solver_type == "flashnerd"
    assert ours.sim.physics.solver_cfg.bundle == "cartpole"
    assert agent.experiment_name == "flashnerd_cartpole"
    analytical: Any = resolve_task_config("FlashNeRD-Cartpole", None, overrides=["physics=newton_mjwarp"])[0]
    assert analytical.sim.physics.solver_cfg.solver_type == "mujoco_warp"


def test_a_base_with_another_solver_is_refused() -> None:
    from isaaclab_newton.physics import NewtonCfg, XPBDSolverCfg

    from flashnerd_ext.physics import flashnerd_physics

    with pytest.raises(FlashNerdError, match="NewtonCfg with MJWarpSolverCfg is needed: pass newton_mjwarp"):
        flashnerd_physics(NewtonCfg(solver_cfg=XPBDSolverCfg()))


def test_every_configuration_field_is_documented() -> None:
    import ast
    import inspect

    from flashnerd_ext.physics import flashnerd_manager_cfg

    tree = ast.parse(inspect.getsource(flashnerd_manager_cfg))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "FlashNerdSolverCfg").body
    for field, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), f"{ast.unparse(field.target)} has no docstring"


def test_the_configuration_imports_without_its_implementation() -> None:
    code = (
        "import sys; import flashnerd_ext.physics.flashnerd_manager_cfg, flashnerd_ext.physics.presets; "
        "bad = [m for m in ('newton', 'mujoco_warp', 'flashnerd_ext.physics.flashnerd_manager', "
        "'flashnerd_ext.solver.solver_flashnerd') if m in sys.modules]; assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]


def test_the_stock_tasks_of_a_robot_get_its_bundle() -> None:
    from flashnerd_ext.physics.presets import COUPLED, STOCK, bundle_of_task, install

    assert install() == [*STOCK, *COUPLED]
    assert bundle_of_task("Isaac-Cartpole-Direct") == "cartpole"
    with pytest.raises(FlashNerdError, match="no robot description names the task 'Isaac-Cartpol': did you mean"):
        bundle_of_task("Isaac-Cartpol")


@pytest.mark.parametrize(
    "task", ["Isaac-Velocity-Flat-UnitreeGo2", "Isaac-Velocity-Flat-G1", "Isaac-Ant", "Isaac-Ant-Direct"]
)
def test_stock_tasks_of_legged_robots_choose_the_bundle_by_the_robot(task: str) -> None:
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    load_external_tasks()
    learned: Any = resolve_task_config(task, None, overrides=["physics=flashnerd"])[0]
    assert learned.sim.physics.solver_cfg.solver_type == "flashnerd"
    assert learned.sim.physics.solver_cfg.bundle == "auto"
    stock: Any = resolve_task_config(task, None, overrides=["physics=newton_mjwarp"])[0]
    assert stock.sim.physics.solver_cfg.solver_type == "mujoco_warp"
    assert learned.sim.physics.num_substeps == stock.sim.physics.num_substeps


@pytest.mark.parametrize(
    "task",
    ["Isaac-Reorient-Cube-Allegro", "Isaac-Reorient-Cube-Allegro-Direct", "Isaac-Lift-Franka", "Isaac-Reach-Franka"],
)
def test_stock_tasks_of_manipulation_offer_coupled_mode(task: str) -> None:
    """Their own MuJoCo Warp settings, but for the state, which coupled mode reads at every step."""
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    load_external_tasks()
    learned: Any = resolve_task_config(task, None, overrides=["physics=flashnerd"])[0].sim.physics
    stock: Any = resolve_task_config(task, None, overrides=["physics=newton_mjwarp"])[0].sim.physics
    assert (learned.solver_cfg.solver_type, learned.solver_cfg.bundle) == ("flashnerd", "auto")
    assert (stock.solver_cfg.solver_type, stock.solver_cfg.update_data_interval) == ("mujoco_warp", 2)
    assert learned.solver_cfg.update_data_interval == 1
    assert learned.num_substeps == stock.num_substeps
    for name in ("njmax", "nconmax", "cone", "impratio", "integrator"):
        assert getattr(learned.solver_cfg, name) == getattr(stock.solver_cfg, name)
    # An engine that steps one robot a world has nothing to do among objects.
    with pytest.raises(Exception, match="mujoco_c"):
        resolve_task_config(task, None, overrides=["physics=mujoco_c"])


@pytest.mark.parametrize(
    ("task", "worlds"),
    [
        ("FlashNeRD-Reorient-Cube-Allegro", 1024),
        ("FlashNeRD-Reorient-Cube-Allegro-Reduced", 128),
        ("FlashNeRD-Lift-Cube-Franka", 256),
    ],
)
def test_our_manipulation_tasks_resolve_with_each_preset(task: str, worlds: int) -> None:
    import gymnasium
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    from flashnerd_ext.physics.presets import bundle_of_task

    load_external_tasks()
    assert gymnasium.spec(task).kwargs["default_agent"] == "rsl_rl"
    assert bundle_of_task(task) == ("franka" if "Franka" in task else "allegro")
    found: dict[str, Any] = {}
    for preset in ("", "newton_mjwarp", "flashnerd"):
        overrides = [f"physics={preset}"] if preset else []
        resolved: Any = resolve_task_config(task, "rsl_rl_cfg_entry_point", overrides=overrides)
        cfg, agent = resolved
        assert cfg.scene.num_envs == worlds
        assert agent.experiment_name.startswith("flashnerd_")
        found[preset] = cfg.sim.physics
    assert found[""].solver_cfg.solver_type == found["newton_mjwarp"].solver_cfg.solver_type == "mujoco_warp"
    learned, analytical = found["flashnerd"].solver_cfg, found["newton_mjwarp"].solver_cfg
    assert (learned.solver_type, learned.bundle) == ("flashnerd", "auto")
    own = set(vars(analytical)) - {"class_type", "solver_type"}
    assert {name: vars(learned)[name] for name in own} == {name: vars(analytical)[name] for name in own}
    assert found["flashnerd"].num_substeps == found["newton_mjwarp"].num_substeps


def test_the_reduced_task_differs_where_it_says() -> None:
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import resolve_task_config

    load_external_tasks()
    full: Any = resolve_task_config("FlashNeRD-Reorient-Cube-Allegro", None, overrides=[])[0]
    small: Any = resolve_task_config("FlashNeRD-Reorient-Cube-Allegro-Reduced", None, overrides=[])[0]
    goals = full.commands.object_pose, small.commands.object_pose
    assert [goal.orientation_success_threshold for goal in goals] == [0.2, 0.6]
    assert goals[1].axis == (0.0, 0.0, 1.0) and goals[1].turn == (0.8, 1.6)
    assert [cfg.episode_length_s for cfg in (full, small)] == [10.0, 5.0]
    start = small.events.reset_object.params["pose_range"]
    assert start.pop("yaw") == (-0.785, 0.785)
    assert start == full.events.reset_object.params["pose_range"]
    for part in ("observations", "rewards", "terminations"):
        assert getattr(full, part).to_dict() == getattr(small, part).to_dict(), part
    actions = full.actions.joint_pos, small.actions.joint_pos
    assert actions[0].joint_names == actions[1].joint_names
    assert (actions[1].scale, actions[1].use_default_offset) == (0.5, True)
    assert [cfg.events.reset_hand.params["joint_position_noise"] for cfg in (full, small)] == [0.2, 0.05]


@pytest.mark.parametrize("name", ["go2", "g1", "g1_29", "ant", "allegro"])
def test_a_robot_without_a_shipped_bundle_is_refused_with_what_to_type(name: str) -> None:
    import newton
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.bundle.store import shipped
    from flashnerd_ext.data.engines.export import robot_usd
    from flashnerd_ext.physics.bundles import choose_bundle
    from flashnerd_ext.robots.registry import get_robot

    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.add_usd(robot_usd(get_robot(name)))
    model = builder.finalize(device="cpu")
    if name in shipped():
        assert choose_bundle("auto", model).card.robot.name == name
        return
    with pytest.raises(FlashNerdError) as refused:
        choose_bundle("auto", model)
    text = str(refused.value)
    assert f"which is {name};" in text and f"python scripts/dataset.py robot={name}" in text
    assert "solver_cfg.bundle=PATH" in text and "\n" not in text and text.endswith(".")
