"""What coupled mode adds to a PhysX manager, with Kit or without."""

from __future__ import annotations

import logging
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import warp as wp
from isaaclab.physics import PhysicsManager

from flashnerd_ext.bundle.store import load_bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.free import FreeStepper
from flashnerd_ext.physics.bundles import choose_for
from flashnerd_ext.physics.environment import attach, calling_environment
from flashnerd_ext.physics.physx_facts import check_physx
from flashnerd_ext.physics.physx_scene import (
    StageRobot,
    ordered_paths,
    pattern_of,
    scene_joints,
    stage_robots,
    without_link_damping,
    world_of,
)
from flashnerd_ext.physics.startup import announce, make_dump
from flashnerd_ext.solver.coupled_physx import CoupledPhysx, check_label
from flashnerd_ext.solver.coupled_rows import FALLS_BACK
from flashnerd_ext.solver.engine_stepper import ENGINE
from flashnerd_ext.solver.integrate import ModelClock
from flashnerd_ext.solver.stream import make_stepper, wants_compiled

if TYPE_CHECKING:
    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.physics.flashnerd_manager_cfg import LearnedCfg
    from flashnerd_ext.solver.physx_robots import PhysxRobots

logger = logging.getLogger(__name__)


class SharedState(ABCMeta):
    """Sets class attributes of a manager on the stock manager that it extends.

    Isaac Lab's assets read the stock manager's state by its name. What the extending class defines stays its own.
    """

    def __setattr__(cls, name: str, value: Any) -> None:
        owner = cls.__dict__.get("stock")
        if owner is None or name in cls.__dict__ or name.startswith("_abc_") or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(owner, name, value)


class CoupledPhysxManager(PhysicsManager):
    """Mixed in before a PhysX manager: the bundle's model predicts free motion of its robots, once a simulation step.

    The configuration is the stock manager's with a ``solver_cfg`` of
    :class:`~flashnerd_ext.physics.flashnerd_manager_cfg.LearnedCfg`.
    """

    coupled: ClassVar[CoupledPhysx | None] = None
    """The learned robots of the running simulation; kept on this class, whichever manager runs."""
    _chosen: ClassVar[tuple[Bundle, list[StageRobot]] | None] = None
    _steps: ClassVar[int] = 1

    # -- what a simulator gives -------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def _view(cls, paths: Sequence[str]) -> PhysxRobots | None:
        """Robots at these paths or patterns; ``None`` where PhysX knows none."""

    @classmethod
    @abstractmethod
    def _scene_gravity(cls) -> Sequence[float]:
        """Gravity of the running scene [m/s²], length 3."""

    # -- construction -----------------------------------------------------------------------------------------------

    @classmethod
    def reset(cls, soft: bool = False) -> None:
        """As the stock manager; a hard reset also finds the learned robots anew."""
        if soft:
            super().reset(soft)
            return
        CoupledPhysxManager.coupled = None
        cls._choose()
        super().reset(soft)
        cls._couple()

    @classmethod
    def _choose(cls) -> None:
        """Choose the bundle by the joints on the stage, and take what no label knows out of its robots."""
        cfg, sim = cls._learned_cfg(), PhysicsManager._sim
        assert sim is not None
        robots = stage_robots(sim.stage)
        if cfg.bundle == "auto":
            bundle = choose_for(scene_joints(robots), coupled_only=True, instead="ovphysx")
        else:
            bundle = load_bundle(cfg.bundle)
        check_label(bundle.card)
        if cfg.model == ENGINE:
            raise FlashNerdError(
                f"solver_cfg.model is '{ENGINE}', which stands for a whole robot, but the bundle "
                f"'{bundle.card.name}' is of coupled mode: type physics=ovphysx."
            )
        links = without_link_damping(robots, bundle.card.robot.joint_names)
        if links:
            logger.info("FlashNeRD: took PhysX's damping out of %d links of learned robots.", links)
        CoupledPhysxManager._chosen = (bundle, robots)

    @classmethod
    def _couple(cls) -> None:
        """Find the learned robots in PhysX, and make what steps them."""
        cfg = cls._learned_cfg()
        assert CoupledPhysxManager._chosen is not None
        bundle, robots = CoupledPhysxManager._chosen
        joints = bundle.card.robot.joint_names
        paths, others = cls._find(robots, joints)
        if not paths:
            listed = "; ".join(", ".join(names[:6]) + (", ..." if len(names) > 6 else "") for names in others[:4])
            raise FlashNerdError(
                f"no articulation of the scene has the joints of the bundle '{bundle.card.name}' "
                f"({', '.join(joints[:6])}{', ...' if len(joints) > 6 else ''}); they have "
                f"{listed or 'no joint that moves'}: give the bundle of one of them."
            )
        worlds = cls._worlds([*paths, *(robot.path for robot in robots)])
        paths = ordered_paths(paths, worlds, bundle.card.name, joints)
        view = cls._view(paths)
        if view is None or view.paths != paths:
            raise RuntimeError(f"PhysX gave {view.paths[:3] if view else None}, ... for {paths[:3]}, ...")
        device = wp.device_to_torch(PhysicsManager._device)
        stepper = make_stepper(
            bundle,
            len(paths),
            device,
            architecture=cfg.model,
            dtype=cfg.dtype,
            compiled=wants_compiled(cfg.compile, len(paths), device),
        )
        assert isinstance(stepper, FreeStepper)
        CoupledPhysxManager.coupled = CoupledPhysx(
            bundle,
            stepper,
            view,
            worlds,
            cls._scene_gravity,
            guard_margin=cfg.guard_margin,
            guard_history=cfg.guard_history,
            strict=cfg.strict,
        )
        announce(CoupledPhysxManager.coupled, "coupled")

    @classmethod
    def _find(cls, robots: Sequence[StageRobot], joints: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        """Paths of the articulations with exactly these joints, and the joints of all others; PhysX has the word."""
        paths: list[str] = []
        others: list[list[str]] = []
        for pattern in dict.fromkeys(pattern_of(robot.path) for robot in robots):
            view = cls._view([pattern])
            if view is not None and set(view.dof_names) == set(joints):
                paths += view.paths
            elif view is not None:
                others.append(list(view.dof_names))
        return list(dict.fromkeys(paths)), others

    @staticmethod
    def _worlds(paths: Sequence[str]) -> int:
        """Environments of the scene; without one, as many as its robots have numbers."""
        scene = getattr(PhysicsManager._sim, "_interactive_scene", None)
        return int(scene.num_envs) if scene is not None else 1 + max(map(world_of, paths))

    # -- the environment's rate -------------------------------------------------------------------------------------

    @classmethod
    def set_decimation(cls, decimation: int) -> None:
        """Take the environment's decimation, check the bundle against the running simulation, and connect both."""
        super().set_decimation(decimation)
        CoupledPhysxManager._steps = max(1, int(decimation))
        cls._prepare(calling_environment())

    @classmethod
    def _prepare(cls, env: Any | None) -> None:
        coupled = CoupledPhysxManager.coupled
        if coupled is None:
            raise FlashNerdError("the learned robots are not found yet: reset the simulation first.")
        card = coupled.bundle.card
        findings = check_physx(card, coupled, cls.get_physics_dt(), CoupledPhysxManager._steps, cls._scene_gravity())
        for warning in findings.warnings:
            coupled.notices.say(warning, warning)
        if findings.unchecked:
            logger.info("FlashNeRD: the card does not say, so it was not checked: %s.", ", ".join(findings.unchecked))
        coupled.clock = ModelClock(card.dt, 1)
        coupled.dump = make_dump(coupled, cls._learned_cfg(), env, FALLS_BACK)
        if env is not None:
            attach(env)
            for articulation in env.scene.articulations.values():
                watch_wrenches(articulation)

    # -- stepping ---------------------------------------------------------------------------------------------------

    @classmethod
    def step(cls) -> None:
        """The model predicts and its forces are written; then PhysX steps everything."""
        coupled = CoupledPhysxManager.coupled
        if coupled is None:
            super().step()
            return
        if coupled.clock is None:
            cls._prepare(calling_environment())
        # Mass matrices follow link poses, which a written joint position has not moved yet.
        cls.update_kinematics()  # type: ignore[attr-defined]
        coupled.before()
        super().step()
        coupled.after()
        if coupled.dump is not None:
            coupled.report(coupled.dump)

    @classmethod
    def close(cls) -> None:
        """As the stock manager; the learned robots are dropped."""
        CoupledPhysxManager.coupled, CoupledPhysxManager._chosen = None, None
        super().close()

    @classmethod
    def _learned_cfg(cls) -> LearnedCfg:
        return PhysicsManager._cfg.solver_cfg


def watch_wrenches(articulation: Any) -> None:
    """Let the model see the wrenches on links that Isaac Lab writes for a step."""
    import torch

    original = articulation.write_data_to_sim
    if getattr(original, "_flashnerd", False):
        return
    rows: torch.Tensor | None = None

    def write_data_to_sim() -> None:
        nonlocal rows
        composers = (articulation._instantaneous_wrench_composer, articulation._permanent_wrench_composer)
        active = any(composer is not None and composer.active for composer in composers)
        original()
        coupled = CoupledPhysxManager.coupled
        if not active or coupled is None:
            return
        if rows is None:
            place = {path: row for row, path in enumerate(coupled.robots.paths)}
            paths = list(articulation.root_view.prim_paths)
            found = [place.get(path, -1) for path in paths]
            rows = torch.tensor(found if min(found) >= 0 else [], dtype=torch.int64, device=coupled.torch_device)
        if len(rows):
            coupled.dynamics.pull(rows, wp.to_torch(articulation._wrench_buf, requires_grad=False))

    write_data_to_sim._flashnerd = True  # type: ignore[attr-defined]
    articulation.write_data_to_sim = write_data_to_sim
