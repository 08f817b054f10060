"""The rigid prior against a textbook, against MuJoCo, and beneath a network."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.chain import Chain
from flashnerd_ext.model.flashnerd import FlashNerd, FlashNerdConfig
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.rigid import RigidPrior
from flashnerd_ext.training.rigid_fit import fit_rigid
from flashnerd_ext.training.statistics import fit_affine, fit_normalisation

DT = 0.005
TREE = """<mujoco><option gravity="0 0 -9.81" timestep="0.005"/><worldbody>
<body name="base" pos="0.3 -0.2 2" quat="0.9 0.1 0.3 0.2">
  <body name="a" pos="0 0 0.1"><joint name="a" axis="0 0 1" pos="0.01 0 0"/>
    <inertial pos="0.05 0.02 0.1" mass="2" fullinertia="0.02 0.03 0.04 0.001 0.002 -0.003"/>
    <body name="b" pos="0.2 0 0.1" quat="0.7 0.7 0.1 0"><joint name="b" axis="0 1 0" armature="0.03"/>
      <inertial pos="0.1 0 0" mass="1" diaginertia="0.01 0.02 0.02"/>
      <body name="c" pos="0.1 0.1 0"><joint name="c" type="slide" axis="1 0 1"/>
        <inertial pos="0 0.1 0" mass="0.5" diaginertia="0.01 0.01 0.01"/></body>
      <body name="welded" pos="0 0 0.2"><inertial pos="0 0.1 0.1" mass="0.3" diaginertia="0.001 0.002 0.001"/></body>
      <body name="d" pos="0 0.1 0"><joint name="d" axis="1 0 0" damping="0.4"/>
        <inertial pos="0 0 0.1" mass="0.4" diaginertia="0.004 0.004 0.001"/></body></body></body></body>
</worldbody></mujoco>"""


def layout(names: str, slides: str = "", **more: Any) -> StateLayout:
    kinds = tuple("prismatic" if name in slides else "revolute" for name in names)
    return StateLayout(tuple(names), kinds, actuated=tuple(names), **more)


class Tree:
    """Random states of :data:`TREE` and what MuJoCo says of them."""

    def __init__(self) -> None:
        from flashnerd_ext.data.engines.chain import chain_of

        self.mujoco = import_module("mujoco")
        self.model = self.mujoco.MjModel.from_xml_string(TREE)
        self.data = self.mujoco.MjData(self.model)
        self.layout = layout("bdca", slides="c")
        self.names = self.layout.joint_names
        # Neither MuJoCo's order nor that of the tree.
        self.index = [int(self.model.joint(name).id) for name in self.names]
        self.chain = chain_of(self)  # type: ignore[arg-type]

    robot = "tree"

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.layout.joint_names

    @property
    def dof_index(self) -> list[int]:
        return self.index

    def compile(self) -> Any:
        return self.model

    def states(self, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Frames [n, F] and accelerations [n, J], float64."""
        rng = np.random.default_rng(seed)
        q, qd, torque = rng.uniform(-3, 3, (count, 4)), rng.normal(size=(count, 4)) * 3, rng.normal(size=(count, 4)) * 5
        acceleration = np.zeros((count, 4))
        for i in range(count):
            self.data.qpos[self.index], self.data.qvel[self.index] = q[i], qd[i]
            self.data.qfrc_applied[self.index] = torque[i]
            self.mujoco.mj_forward(self.model, self.data)
            acceleration[i] = self.data.qacc_smooth[self.index]
        frames = encode_frame(self.layout, *(torch.from_numpy(x) for x in (q, qd, torque)))
        return frames, torch.from_numpy(acceleration)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def pendulum(length: float = 0.7, mass: float = 1.3) -> RigidPrior:
    """A point mass that hangs from a hinge about y."""
    prior = RigidPrior(layout("p"))
    eye = tuple(tuple(float(i == j) for j in range(4)) for i in range(4))
    prior.place(Chain((-1,), (eye,), ((0.0, 1.0, 0.0),), (1.0,), (0.0, 0.0, -9.81)))
    prior.links[0, 0, 2], prior.links[0, 0, 8], prior.links[0, 0, 9] = mass * length**2, -mass * length, mass
    prior.armature.zero_()
    return prior


def test_a_pendulum_swings_as_the_textbook_says() -> None:
    q, qd, torque = (torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None] * k for k in (1.0, 2.0, 3.0))
    found = pendulum()(encode_frame(layout("p"), q, qd, torque))
    wanted = (torque - 1.3 * 9.81 * 0.7 * torch.sin(q)) / (1.3 * 0.7**2)
    assert (found - wanted).abs().max() < 1e-12


def test_inertias_read_off_motion_give_mujocos_accelerations(tree: Tree) -> None:
    prior = RigidPrior(tree.layout)
    left = fit_rigid(prior, tree.chain, *tree.states(400, seed=0))
    frames, wanted = tree.states(200, seed=1)
    size = wanted.square().mean(0).sqrt()
    assert left < 1e-7
    assert ((prior(frames) - wanted) / size).abs().max() < 1e-6
    assert ((prior(frames.float()) - wanted) / size).square().mean().sqrt() < 1e-4
    # What MuJoCo was told: armature, and damping that the label contains.
    assert prior.armature[0] == pytest.approx(0.03, abs=1e-6) and prior.damping[1] == pytest.approx(0.4, abs=1e-6)


def test_a_wrong_geometry_is_not_explained(tree: Tree) -> None:
    import dataclasses

    axis = (tree.chain.axis[1], *tree.chain.axis[1:])
    left = fit_rigid(RigidPrior(tree.layout), dataclasses.replace(tree.chain, axis=axis), *tree.states(400, seed=0))
    assert left > 1e-2


def test_conditions_are_part_of_the_fit() -> None:
    conditioned = layout("p", conditions=("mass:p",))
    generator = torch.Generator().manual_seed(0)
    q, qd, torque, extra = (torch.randn(300, 1, generator=generator, dtype=torch.float64) for _ in range(4))
    frames = encode_frame(conditioned, q, qd, torque, extra.abs())
    heavier = 1.3 * (1 + extra.abs())
    acceleration = (torque - heavier * 9.81 * 0.7 * torch.sin(q)) / (heavier * 0.7**2)
    prior = RigidPrior(conditioned)
    chain = Chain((-1,), (torch.eye(4).tolist(),), ((0.0, 1.0, 0.0),), (1.0,), (0.0, 0.0, -9.81))
    assert fit_rigid(prior, chain, frames, acceleration) < 1e-6


def test_gradients_pass_through(tree: Tree) -> None:
    prior = RigidPrior(tree.layout)
    fit_rigid(prior, tree.chain, *tree.states(400, seed=0))
    state = [torch.randn(2, 4, generator=torch.Generator().manual_seed(k), dtype=torch.float64) for k in range(3)]
    for value in state:
        value.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, qd, u: prior(encode_frame(tree.layout, q, qd, u)), state, atol=1e-4)


def test_the_network_learns_what_rigid_links_do_not_explain() -> None:
    def friction(qd: torch.Tensor) -> torch.Tensor:
        return 2.0 * torch.tanh(qd)

    truth, generator = pendulum(), torch.Generator().manual_seed(0)
    model = FlashNerd(layout("p"), FlashNerdConfig(width=32, blocks=1, span=1, hidden=64, prior="rigid"))
    q, qd, torque = (torch.randn(4000, 1, generator=generator, dtype=torch.float64) * k for k in (2.0, 2.0, 3.0))
    frames = encode_frame(layout("p"), q, qd, torque)
    inertia = 1.3 * 0.7**2
    acceleration = truth(frames) - friction(qd) / inertia
    assert model.prior is not None
    chain = Chain((-1,), (torch.eye(4).tolist(),), ((0.0, 1.0, 0.0),), (1.0,), (0.0, 0.0, -9.81))
    left = fit_rigid(model.prior, chain, frames, acceleration)
    assert left > 0.02  # damping alone is no friction
    model.prior.dt.fill_(DT)
    targets = torch.cat((acceleration * DT, torch.zeros_like(acceleration)), -1).float()
    frames = frames.float()
    explained = model.explained(frames)
    assert explained is not None
    fit_normalisation(model, frames, targets - explained)
    fit_affine(model, frames, targets - explained)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.tensor(torch.inf)
    for _ in range(400):
        optimiser.zero_grad()
        error = (model(frames[:, None])[:, 0] - targets)[:, 0] / (acceleration * DT).std()
        loss = error.square().mean()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) ** 0.5 < 0.2 * left


def test_a_step_and_a_sequence_agree_with_a_prior(tree: Tree) -> None:
    model = FlashNerd(tree.layout, FlashNerdConfig(width=16, prior="rigid", span=2))
    assert model.prior is not None
    fit_rigid(model.prior, tree.chain, *tree.states(400, seed=0))
    model.prior.dt.fill_(DT)
    frames = tree.states(6, seed=3)[0].float().view(2, 3, -1)
    whole, cache = model.sequence(frames), model.init_cache(2)
    steps = torch.stack([model.step(frames[:, t], cache) for t in range(3)], 1)
    assert (whole - steps).abs().max() < 1e-5
    assert whole[..., :4].abs().max() > 10 * DT  # the prior is in it: an untrained network alone gives none of this


def test_numbers_stay_exact_in_bfloat16_and_without_a_prior_nothing_is_stored() -> None:
    prior = pendulum().to(torch.bfloat16)
    assert prior.links.dtype == torch.float64 and prior.links[0, 0, 9] == 1.3
    plain = build_model("flashnerd", layout("p"), {})
    assert "prior" not in plain.config and not any(name.startswith("prior") for name in plain.state_dict())
    assert build_model("flashnerd", layout("p"), {"prior": "rigid"}).config["prior"] == "rigid"


def test_refusals() -> None:
    with pytest.raises(FlashNerdError, match="prior is 'solid', but none or rigid"):
        FlashNerdConfig(prior="solid")
    drive = Drive((1.0,), (1.0,), (1.0,))
    for wrong in (layout("p", floating_base=True), layout("p", drive=drive)):
        with pytest.raises(FlashNerdError, match=r"type options\.prior=none"):
            RigidPrior(wrong)
    state = pendulum().state_dict()
    state["parent"] = torch.tensor([7])
    with pytest.raises(RuntimeError, match=r"outside 0 \.\. 1"):
        pendulum().load_state_dict(state)
    content = pendulum_chain().to_dict()
    assert Chain.from_dict(content, 1) == pendulum_chain()
    for change, match in (
        ({"parents": [0]}, "no tree"),
        ({"hinge": []}, "1 joints|joints, but"),
        ({"axis": 3}, "damaged"),
    ):
        with pytest.raises(FlashNerdError, match=match):
            Chain.from_dict(content | change, 1)


def pendulum_chain() -> Chain:
    eye = tuple(tuple(float(i == j) for j in range(4)) for i in range(4))
    return Chain((-1,), (eye,), ((0.0, 1.0, 0.0),), (1.0,), (0.0, 0.0, -9.81))


def test_a_mass_matrix_that_is_none_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    q, qd, torque = (torch.randn(300, 1, generator=generator, dtype=torch.float64) for _ in range(3))
    frames = encode_frame(layout("p"), q, qd, torque)
    with pytest.raises(FlashNerdError, match="not positive definite"):
        fit_rigid(RigidPrior(layout("p")), pendulum_chain(), frames, -torque)
    assert math.isfinite(float(pendulum().links.sum()))
