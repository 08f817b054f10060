"""Robots, bundles and steppers for the tests of the Newton backend; nothing here needs an asset server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import Bundle, save_bundle
from flashnerd_ext.model.frame import frame_names
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.stepper import Stepper
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot

TINY = {"width": 16, "blocks": 2, "span": 3, "heads": 2, "hidden": 16}


def lively_model(layout: StateLayout, seed: int = 0, name: str = "flashnerd") -> Any:
    """An untrained model whose increments are small, and depend on the past (checked by the tests that need it)."""
    torch.manual_seed(seed)
    config = TINY if name == "flashnerd" else {"width": 16, "layers": 2, "heads": 2, "window": 4, "head_hidden": 8}
    model = build_model(name, layout, config)
    # Commands are tens of newtons: without a scale they would make every increment large.
    spread = [50.0 if name.endswith(".act") else 1.0 for name in frame_names(layout)]
    model.frame_norm.fit(torch.zeros(model.frame_size), torch.tensor(spread))
    model.out_norm.fit(torch.zeros(model.out_size), torch.full((model.out_size,), 0.02))
    return model


def card_for(robot: RobotDescription, model: Any, reach: float = 50.0, **changes: Any) -> Card:
    """A card whose envelope reaches ``reach`` to both sides in every dimension of the state."""
    layout = robot.layout
    rng = np.random.default_rng(0)
    q = rng.uniform(-1, 1, (256, layout.nq)) * reach
    if layout.floating_base:
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    qd = rng.uniform(-1, 1, (256, layout.nv)) * reach
    u = rng.uniform(-100, 100, (256, layout.nu))
    card = make_card(robot=robot, model=model, envelope=envelope(layout, q, qd, u), engine="mujoco", seed=0)
    return dataclasses.replace(card, **changes)


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A saved CartPole bundle with an untrained model of small increments."""
    robot = get_robot("cartpole")
    model = lively_model(robot.layout)
    return save_bundle(tmp_path_factory.mktemp("bundles") / "tiny", model, card_for(robot, model))


@pytest.fixture
def make_bundle(tmp_path: Path) -> Callable[..., Bundle]:
    """Factory: robot description -> saved bundle of an untrained model."""

    def make(robot: RobotDescription, name: str = "made", model: str = "flashnerd", **card: Any) -> Bundle:
        network = lively_model(robot.layout, name=model)
        return save_bundle(tmp_path / name, network, card_for(robot, network, **card))

    return make


class World:
    """A Newton simulation of N copies of a small robot, without Isaac Lab."""

    def __init__(
        self, build: Callable[[Any], None], count: int, bundle: Bundle, stepper: Stepper | None = None
    ) -> None:
        import newton
        import warp as wp

        from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd
        from flashnerd_ext.solver.stream import make_stepper

        wp.config.quiet = True
        self.model = build_model_of(build, count)
        self.state, self.control = self.model.state(), self.model.control()
        simulation = bundle.card.simulation
        if stepper is None:
            made = make_stepper(bundle, count, "cpu")
            assert isinstance(made, Stepper)
            stepper = made
        self.solver = SolverFlashNerd(self.model, bundle, stepper, njmax=8, nconmax=4, integrator="implicitfast")
        self.dt = simulation.dt
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def view(self, name: str) -> torch.Tensor:
        """Writable [N, ...] view of a state or control array."""
        import warp as wp

        owner = self.control if name == "joint_f" else self.state
        return wp.to_torch(getattr(owner, name)).view(self.model.world_count, -1)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.solver.step(self.state, self.state, self.control, None, self.dt)


def build_model_of(build: Callable[[Any], None], count: int) -> Any:
    """A finalised Newton model with ``count`` worlds of what ``build`` adds to a builder."""
    import newton
    from newton.solvers import SolverMuJoCo

    single, scene = newton.ModelBuilder(), newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(single)
    SolverMuJoCo.register_custom_attributes(scene)
    build(single)
    scene.replicate(single, count)
    return scene.finalize(device="cpu")


def add_cartpole(builder: Any) -> None:
    """A cart (1 kg, drive damping 10) on a rail with a free pole; the joints have the stock robot's names."""
    import warp as wp

    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)
    cart = builder.add_link(mass=1.0, inertia=inertia, label="cart")
    pole = builder.add_link(mass=1.0, inertia=inertia, com=wp.vec3(0.0, 0.0, 0.47), label="pole")
    slider = builder.add_joint_prismatic(
        -1, cart, axis=wp.vec3(1.0, 0.0, 0.0), target_kd=10.0, target_ke=0.0, effort_limit=400.0, label="slider_to_cart"
    )
    hinge = builder.add_joint_revolute(cart, pole, axis=wp.vec3(0.0, 1.0, 0.0), label="cart_to_pole")
    builder.add_articulation([slider, hinge], label="cartpole")


@pytest.fixture
def make_world(tiny_bundle: Bundle) -> Callable[..., World]:
    """Factory: N CartPoles with the untrained bundle, or another robot, bundle or stepper."""

    def make(
        count: int = 4,
        build: Callable[[Any], None] = add_cartpole,
        bundle: Bundle | None = None,
        stepper: Stepper | None = None,
    ) -> World:
        return World(build, count, bundle or tiny_bundle, stepper)

    return make


class ExactStepper(Stepper):
    """A stepper whose prediction is the analytical solver's own result: the perfect model.

    With it the learned path must reproduce MuJoCo Warp, since all that is left is reading, mapping and writing.
    """

    def __init__(self, bundle: Bundle, build: Callable[[Any], None], count: int) -> None:
        from newton.solvers import SolverMuJoCo

        simulation = bundle.card.simulation
        super().__init__(bundle.model, simulation.dt, simulation.inner_steps, count)
        self.sim_dt, self.inner = simulation.sim_dt, simulation.inner_steps
        self.twin = build_model_of(build, count)
        self.twin_state, self.twin_control = self.twin.state(), self.twin.control()
        self.analytical = SolverMuJoCo(self.twin, njmax=8, nconmax=4, integrator="implicitfast")

    def step(self, joint_q: Any, joint_qd: Any, actuation: Any, rows: Any = None) -> tuple[Any, Any]:
        import warp as wp

        n = self.num_worlds
        q, qd = (wp.to_torch(getattr(self.twin_state, name)).view(n, -1) for name in ("joint_q", "joint_qd"))
        q.copy_(joint_q)
        qd.copy_(joint_qd)
        wp.to_torch(self.twin_control.joint_f).view(n, -1)[:, :1].copy_(actuation)
        for _ in range(self.inner):
            self.analytical.step(self.twin_state, self.twin_state, self.twin_control, None, self.sim_dt)
        return q.clone(), qd.clone()


@pytest.fixture
def exact_world(tiny_bundle: Bundle) -> Callable[[int], World]:
    """Factory: N CartPoles whose model is the analytical solver."""
    return lambda count: World(add_cartpole, count, tiny_bundle, ExactStepper(tiny_bundle, add_cartpole, count))


def two_arms(order: Sequence[str]) -> Callable[[Any], None]:
    """Two chains of two revolute joints on a fixed base; ``order`` holds left_a, left_b, right_a, right_b."""
    import warp as wp

    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.1)

    def build(builder: Any) -> None:
        links = {name: builder.add_link(mass=1.0, inertia=inertia, label=f"{name}_link") for name in order}
        joints = []
        for name in order:
            parent = -1 if name.endswith("_a") else links[name[:-1] + "a"]
            joints.append(
                builder.add_joint_revolute(parent, links[name], axis=wp.vec3(0.0, 1.0, 0.0), label=f"robot/{name}")
            )
        builder.add_articulation(joints, label="robot")

    return build


@pytest.fixture
def arms() -> Callable[..., Callable[[Any], None]]:
    """:func:`two_arms`: a robot whose importers disagree on the joint order."""
    return two_arms


@pytest.fixture
def cartpole() -> Callable[[Any], None]:
    """:func:`add_cartpole`."""
    return add_cartpole
