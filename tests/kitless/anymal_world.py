"""ANYmal-C with the shipped bundle on a bare Newton model, without Isaac Lab: N robots in a world each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from flashnerd_ext.bundle.store import Bundle, load_bundle
from flashnerd_ext.data.engines.export import robot_usd
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd
from flashnerd_ext.solver.stream import make_stepper

ROBOT = get_robot("anymal_c")
FEET = tuple(ROBOT.links.index(name) for name in ROBOT.links if name.endswith("FOOT"))


@functools.cache
def shipped() -> Bundle:
    """The shipped bundle, read once; nothing here changes its weights."""
    return load_bundle("anymal_c")


def build(
    count: int,
    order: str = "dfs",
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0),
    together: bool = False,
) -> Any:
    """A finalised model.

    Args:
        count: Robots.
        order: Joint order of the importer, ``dfs`` or ``bfs``.
        normal: Of the ground plane, which runs through the origin.
        together: All robots in one world, as an environment that did not clone has them.
    """
    import newton
    import warp as wp
    from newton.solvers import SolverMuJoCo

    wp.config.log_level = wp.LOG_WARNING
    one, scene = newton.ModelBuilder(up_axis=newton.Axis.Z), newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(one)
    SolverMuJoCo.register_custom_attributes(scene)
    one.add_usd(robot_usd(ROBOT), joint_ordering=order)
    if together:
        scene.begin_world()
    for _ in range(count):
        if together:
            scene.add_builder(one)
        else:
            scene.add_world(one)
    if together:
        scene.end_world()
    scene.add_shape_plane(plane=(*normal, 0.0), width=0.0, length=0.0)
    return scene.finalize(device="cpu")


class Herd:
    """N robots that stand, each a little differently, and are commanded to hold their pose.

    Args:
        count: Robots.
        model: From :func:`build`; ``None`` builds the usual one.
        bundle: ``None`` takes the shipped one.
        options: Of the solver.
    """

    def __init__(self, count: int, model: Any = None, bundle: Bundle | None = None, **options: Any) -> None:
        bundle = bundle or shipped()
        self.count, self.model = count, build(count) if model is None else model
        self.state, self.control = self.model.state(), self.model.control()
        stepper = make_stepper(bundle, count, "cpu")
        self.solver = SolverFlashNerd(self.model, bundle, stepper, njmax=40, nconmax=24, **options)
        self.dt = bundle.card.dt
        torch.manual_seed(3)
        self.put(standing(count) + spread(count), torch.zeros(count, ROBOT.layout.nv))
        self.command(torch.tensor(ROBOT.default_q).repeat(count, 1))

    def view(self, name: str) -> torch.Tensor:
        """Writable [N, ...] view of a state or control array, in the simulation's order."""
        import warp as wp

        owner = self.state if hasattr(self.state, name) else self.control
        return wp.to_torch(getattr(owner, name), requires_grad=False).view(self.count, -1)

    def put(self, joint_q: torch.Tensor, joint_qd: torch.Tensor, worlds: Sequence[int] | slice = slice(None)) -> None:
        """Write states in the card's order, as a reset of these worlds does, and bring the bodies along."""
        import newton

        columns = self.solver.frame.map
        for name, values, place in (("joint_q", joint_q, columns.q), ("joint_qd", joint_qd, columns.v)):
            rows = self.view(name)[worlds]
            rows[:, place] = values.float()
            self.view(name)[worlds] = rows
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def command(self, targets: torch.Tensor) -> None:
        """Position targets [N, nu] in the card's order."""
        self.view("joint_target_q")[:, self.solver.frame.map.u_coord] = targets.float()

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.solver.step(self.state, self.state, self.control, None, self.dt)

    def states(self) -> torch.Tensor:
        """joint_q and joint_qd in the card's order, a copy."""
        columns = self.solver.frame.map
        return torch.cat((self.view("joint_q")[:, columns.q], self.view("joint_qd")[:, columns.v]), 1)


def standing(count: int) -> torch.Tensor:
    """Default pose on its feet, joint_q [N, nq]."""
    q = torch.zeros(count, ROBOT.layout.nq)
    q[:, 2], q[:, 6], q[:, 7:] = ROBOT.stand_height, 1.0, torch.tensor(ROBOT.default_q)
    return q


def spread(count: int) -> torch.Tensor:
    """What makes the worlds differ: place on the ground and joints, so that no two contacts are equally deep."""
    q = torch.zeros(count, ROBOT.layout.nq)
    q[:, :2] = torch.rand(count, 2) - 0.5
    q[:, 7:] = 0.1 * torch.randn(count, ROBOT.layout.num_joints)
    return q
