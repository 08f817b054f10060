"""Fixed contact rows on the device: for each of some links its point nearest to the ground, always.

Row k belongs to the k-th link of the list, whether it touches or is far away, so that a row always means the same place
of the robot. The numbers are those of :mod:`flashnerd_ext.data.engines.rows` with fixed links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import warp as wp

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.solver.fixed_kernels import fixed_rows


@dataclass(frozen=True)
class RobotShapes:
    """Collision shapes of the robots, the same S of every world; Warp arrays.

    Attributes:
        shapes: Index of each shape in the model, int [N, S].
        kinds: Kind of each, as the kernels know it, int [S].
        reach: Radius of a ball around a shape's origin that holds it [m], float [S].
        links: Link of each, index into the card's links, int [S].
        base: Root body of each world, int [N].
    """

    shapes: Any
    kinds: Any
    reach: Any
    links: Any
    base: Any


@dataclass(frozen=True)
class GroundPlanes:
    """Ground planes P common to all worlds; Warp arrays.

    Attributes:
        normal: Unit normals, world frame, vec3 [P].
        offset: Distance of each from the origin along its normal [m], float [P].
        shape: Index of each in the model, int [P].
    """

    normal: Any
    offset: Any
    shape: Any


class FixedRows:
    """Rows of N worlds, in buffers that are made once.

    Args:
        fixed: Links that have a row, in the order of rows, [K].
        links: Links of the card, which a row's ``link`` is an index into.
        model: Finalised Newton model.
        robot: Shapes of its robots.
        ground: What they stand on.
        device: Torch device of the simulation.

    Raises:
        FlashNerdError: For a link without a collision shape.
    """

    def __init__(
        self,
        fixed: tuple[str, ...],
        links: tuple[str, ...],
        model: Any,
        robot: RobotShapes,
        ground: GroundPlanes,
        device: torch.device | str,
    ) -> None:
        self._model, self._robot, self._ground = model, robot, ground
        have = {int(link) for link in robot.links.numpy()}
        bare = [name for name in fixed if links.index(name) not in have]
        if bare:
            raise FlashNerdError(
                f"the bundle has a fixed contact on the link '{bare[0]}', which has no collision shape in the scene: "
                "use the asset that the bundle was trained on."
            )
        worlds, count = robot.shapes.shape[0], len(fixed)
        self._fixed = wp.array([links.index(name) for name in fixed], dtype=int, device=model.device)
        rows = torch.zeros((worlds, count, ROW_SIZE), device=device)
        link = torch.zeros((worlds, count), dtype=torch.int64, device=device)
        used = torch.zeros((worlds, count), dtype=torch.bool, device=device)
        self._rows = ContactRows(rows, link, used)
        # Warp's views of the same memory.
        self._out = [wp.from_torch(x) for x in (rows, link, used)]

    def rows(self, state: Any, dirty: Any) -> ContactRows:
        """Rows of the present state; the buffers are the same each time.

        Args:
            state: Newton state with body_q and body_qd.
            dirty: Worlds to look at, Warp bool [N]; the others keep their rows.
        """
        model, robot, ground = self._model, self._robot, self._ground
        wp.launch(
            fixed_rows,
            dim=self._out[0].shape[:2],
            inputs=[
                dirty, self._fixed, robot.shapes, robot.kinds, robot.reach, robot.links, robot.base, state.body_q,
                state.body_qd, model.body_com, model.shape_body, model.shape_transform, model.shape_scale,
                model.shape_source_ptr, model.shape_material_mu, ground.normal, ground.offset, ground.shape,
            ],
            outputs=self._out,
            device=model.device,
        )  # fmt: skip
        return self._rows
