"""Contact rows of recorded states, by MuJoCo's own detector: what the simulator would detect there.

Rows are in the root frame of the robot, in the order and meaning of :mod:`flashnerd_ext.model.contacts`. Of each
pair of geoms the deepest point makes a row. Contacts of the robot with itself make none: joint positions say all there
is to know of them.

Fixed rows are a second encoding: one row for each of some links, always, in the order in which they are listed: the
link's point nearest to the ground planes, whatever its distance.

On terrain the detector is another one (:mod:`flashnerd_ext.data.engines.terrain_rows`), which sees no farther than the
gap: there a fixed row is its link's deepest contact, and says "at the gap" of a link that has none. Or fixed rows are
*blind*: they know the ground planes and not what stands on them, as NeRD was published. Both are for comparing the
encodings on recorded data; the simulator's backend makes fixed rows where there are planes only.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from flashnerd_ext.data.engines.coordinates import to_mujoco
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.terrain_rows import TerrainRows
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.contacts import ROW_SIZE

ANYWHERE = 1e3
"""Distance up to which the ground is seen by fixed rows [m]: farther than any robot gets from it."""


def _deepest(world: np.ndarray, geoms: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Which contacts are the deepest of their pair of geoms in their world, boolean [contacts]; the first of equals."""
    order = np.lexsort((np.arange(len(world)), depth, geoms[:, 1], geoms[:, 0], world))
    key = np.stack([world, geoms[:, 0], geoms[:, 1]], 1)[order]
    first = np.ones(len(order), bool)
    first[1:] = (key[1:] != key[:-1]).any(1)
    chosen = np.zeros(len(order), bool)
    chosen[order[first]] = True
    return chosen


@dataclass(frozen=True)
class RowArrays:
    """Contact rows of N states.

    Attributes:
        features: float32 [N, K, 12]; zeros where unused.
        link: int16 [N, K]; -1 where unused.
        count: Contacts found, int16 [N]; above K some were dropped, the least deep.
    """

    features: np.ndarray
    link: np.ndarray
    count: np.ndarray


class RowDetector:
    """Detects contacts of states with an engine's model; holds one ``MjData``.

    Args:
        engine: Its model, worlds and coordinates are used.
        fixed: Links of fixed rows, empty for variable rows; ``None`` takes the kind that the engine's model names.
        blind: Let fixed rows know the ground planes only; ``None`` takes what the engine's model says.

    Attributes:
        fixed: Links of fixed rows, [K]; empty for variable rows.
        capacity: Rows K of a state.
        gap: Distance up to which a contact makes a row [m].

    Raises:
        FlashNerdError: For a fixed link that the model lacks or that has no collision shape, or for fixed rows over a
            ground that is not made of planes.
    """

    def __init__(self, engine: MujocoC, fixed: tuple[str, ...] | None = None, blind: bool | None = None) -> None:
        self._mujoco: Any = import_module("mujoco")
        self.engine, model = engine, engine.model
        self.fixed = model.fixed if fixed is None else fixed
        if self.fixed and (model.blind if blind is None else blind):
            model = dataclasses.replace(model, terrain={})
        self.capacity = len(self.fixed) or model.capacity
        self.gap = ANYWHERE if self.fixed and not model.terrain else model.gap
        self._nominal = self._prepared(model.compile())
        self._data = self._mujoco.MjData(self._nominal)
        self._link = np.full(self._nominal.nbody, -1)
        for index, name in enumerate(model.links.values()):
            self._link[self._nominal.body(name).id] = index
        if self.fixed:
            self._row = self._row_of_link()
            if not model.terrain:
                self._see_far()
        self._base = self._nominal.body(model.base_body).id if model.floating_base else 1
        names = list(model.links.values())
        base = names.index(model.base_body) if model.floating_base else 0
        self._rough = TerrainRows(self._nominal, names, base, model.terrain, self.gap) if model.terrain else None

    def _prepared(self, world: Any) -> Any:
        # Seen from the gap on, though not pushing yet. Detectors combine margins in different ways: more is asked for
        # than needed, and what lies beyond the gap is dropped afterwards.
        world.geom_margin[:] = self.gap
        world.geom_gap[:] = 0.0
        # Contacts of two links make no row, so they are not looked for: most pairs of geoms are of that kind.
        of_robot = np.isin(world.geom_bodyid, [world.body(name).id for name in self.engine.model.links.values()])
        collides = (world.geom_contype != 0) | (world.geom_conaffinity != 0)
        world.geom_contype[:] = np.where(collides & ~of_robot, 1, 0)
        world.geom_conaffinity[:] = np.where(collides & of_robot, 1, 0)
        return world

    def _row_of_link(self) -> np.ndarray:
        """Row of each link [L], -1 without; each fixed link must be able to touch something."""
        model, links = self._nominal, list(self.engine.model.links)
        of_geom = self._link[model.geom_bodyid]
        collides = ((model.geom_contype != 0) | (model.geom_conaffinity != 0)) & (of_geom >= 0)
        for name in self.fixed:
            if name not in links:
                raise FlashNerdError(
                    f"the fixed contacts name the link '{name}', which robot={self.engine.model.robot} does not have: "
                    f"{nearest(name, links)}"
                )
            if not (of_geom[collides] == links.index(name)).any():
                raise FlashNerdError(
                    f"the fixed contacts name the link '{name}', which has no collision shape in "
                    f"robot={self.engine.model.robot}: name links that can touch the ground."
                )
        return np.array([self.fixed.index(name) if name in self.fixed else -1 for name in links])

    def _see_far(self) -> None:
        """Let the ground planes be seen from anywhere, by the shapes of the fixed links and by nothing else."""
        model = self._nominal
        of_geom = self._link[model.geom_bodyid]
        collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        mine = collides & (of_geom >= 0) & (self._row[of_geom] >= 0)
        ground = collides & (model.geom_bodyid == 0)
        if (model.geom_type[ground] != self._mujoco.mjtGeom.mjGEOM_PLANE).any():
            raise FlashNerdError(
                "the ground of this engine model is not made of planes only, which fixed contacts need: "
                "type contacts=variable."
            )
        # Links against each other would cost time and make no row.
        model.geom_contype[:], model.geom_conaffinity[:] = ground, mine
        model.geom_margin[:] = np.where(ground, ANYWHERE, 0.0)
        # Bodies of several shapes are passed over where their bounding boxes, widened by this, do not meet.
        model.body_margin[0] = ANYWHERE

    def rows(
        self,
        joint_q: np.ndarray,
        joint_qd: np.ndarray,
        friction: np.ndarray | None = None,
        condition: np.ndarray | None = None,
    ) -> RowArrays:
        """Rows of states [N, nq], [N, nv].

        Args:
            friction: Sliding friction to write into the rows, shape [N]; ``None`` takes the model's.
            condition: Conditions of the worlds, shape [N, C]. Poses do not depend on them, so that one model serves
                all, but the velocity in ``joint_qd`` is that of the centre of mass.
        """
        mujoco, model, data = self._mujoco, self._nominal, self._data
        qpos, qvel = to_mujoco(self.engine.model, joint_q, joint_qd, self.engine.base_com(condition))
        count = len(qpos)
        if self._rough is not None:
            mu = np.full(count, self._rough.friction()) if friction is None else np.asarray(friction)
            most = 4 * len(self._row) if self.fixed else self.capacity
            found = RowArrays(*self._rough.find(*self._rough.poses(data, qpos, qvel), mu, most))
            if not self.fixed:
                return found
            return self._deepest_of_links(found, mu, np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1))
        owner: list[np.ndarray] = []
        geoms: list[np.ndarray] = []
        places: list[np.ndarray] = []
        normals: list[np.ndarray] = []
        depths: list[np.ndarray] = []
        mus: list[np.ndarray] = []
        speeds, poses = np.zeros((count, model.nbody, 6)), np.zeros((count, 12))
        centre = np.zeros((count, 3))
        good = np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)
        for i in np.flatnonzero(good):
            data.qpos[:], data.qvel[:] = qpos[i], qvel[i]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            mujoco.mj_collision(model, data)
            speeds[i] = data.cvel
            centre[i] = data.subtree_com[self._base]
            poses[i, :3], poses[i, 3:] = data.xpos[self._base], data.xmat[self._base]
            found = data.ncon
            if found:
                contact = data.contact
                owner.append(np.full(found, i))
                geoms.append(contact.geom.copy())
                places.append(contact.pos.copy())
                normals.append(contact.frame[:, :3].copy())
                depths.append(contact.dist.copy())
                mus.append(contact.friction[:, 0].copy())
        empty = RowArrays(
            np.zeros((count, self.capacity, ROW_SIZE), np.float32),
            np.full((count, self.capacity), -1, np.int16),
            np.zeros(count, np.int16),
        )
        if not owner:
            return empty
        mu = np.concatenate(mus)
        world = np.concatenate(owner)
        if friction is not None:
            mu = np.asarray(friction, np.float64)[world]
        return self._pack(
            empty, world, np.concatenate(geoms), np.concatenate(places), np.concatenate(normals),
            np.concatenate(depths), mu, speeds, centre, poses,
        )  # fmt: skip

    def _pack(
        self,
        out: RowArrays,
        world: np.ndarray,
        geoms: np.ndarray,
        place: np.ndarray,
        normal: np.ndarray,
        depth: np.ndarray,
        mu: np.ndarray,
        speeds: np.ndarray,
        centre: np.ndarray,
        poses: np.ndarray,
    ) -> RowArrays:
        bodies = self._nominal.geom_bodyid[geoms]
        links = self._link[bodies]
        # The robot's side and the other side; a contact of two of its links, or of none, makes no row.
        mine = ((links >= 0).sum(1) == 1) & (depth <= self.gap)
        # Of a pair of geoms the deepest point alone: a cylinder's rim makes four rows that say the same.
        mine &= _deepest(world, geoms, depth)
        world, place, depth, mu, links, bodies = (x[mine] for x in (world, place, depth, mu, links, bodies))
        normal, first = normal[mine], links[:, 0] >= 0
        link = np.where(first, links[:, 0], links[:, 1])
        # MuJoCo's normal points from the first geom to the second; ours from the other side to the robot.
        normal = np.where(first[:, None], -normal, normal)
        velocity = np.zeros_like(place)
        for side, sign in ((0, 1.0), (1, -1.0)):
            spin = speeds[world, bodies[:, side]]
            at = spin[:, 3:] + np.cross(spin[:, :3], place - centre[world])
            velocity += np.where(first, sign, -sign)[:, None] * at
        origin, turn = poses[world, :3], poses[world, 3:].reshape(-1, 3, 3)
        static = np.where(first, bodies[:, 1], bodies[:, 0]) == 0

        def local(vector: np.ndarray) -> np.ndarray:
            return np.einsum("nij,ni->nj", turn, vector)

        features = np.concatenate(
            [local(place - origin), local(normal), depth[:, None], local(velocity), mu[:, None], static[:, None]], 1
        )
        if self.fixed:
            return self._one_each(out, world, link, features)
        # Deepest first within a world; ties by link and place, so that the order does not depend on the detector's.
        order = np.lexsort((place[:, 1], place[:, 0], link, depth, world))
        world, link, features = world[order], link[order], features[order]
        start = np.searchsorted(world, np.arange(len(out.count)))
        rank = np.arange(len(world)) - start[world]
        keep = rank < self.capacity
        out.features[world[keep], rank[keep]] = features[keep]
        out.link[world[keep], rank[keep]] = link[keep]
        np.add.at(out.count, world, 1)
        return out

    def _deepest_of_links(self, found: RowArrays, mu: np.ndarray, good: np.ndarray) -> RowArrays:
        """Fixed rows of variable ones, which come deepest first; none for the worlds that are not ``good`` [N]."""
        features = np.zeros((len(mu), self.capacity, ROW_SIZE), np.float32)
        features[..., 6], features[..., 10], features[..., 11] = self.gap, mu[:, None], 1.0
        # The deepest is written last.
        for place in reversed(range(found.link.shape[1])):
            row = np.where(found.link[:, place] >= 0, self._row[found.link[:, place]], -1)
            world = np.flatnonzero(row >= 0)
            features[world, row[world]] = found.features[world, place]
        features[~good] = 0.0
        links = np.array([list(self.engine.model.links).index(name) for name in self.fixed])
        link = np.where(good[:, None], links, -1).astype(np.int16)
        return RowArrays(features, link, np.where(good, self.capacity, 0).astype(np.int16))

    def _one_each(self, out: RowArrays, world: np.ndarray, link: np.ndarray, features: np.ndarray) -> RowArrays:
        """The deepest contact of each fixed link of each world, in the order of ``fixed``; the first of equals."""
        row = self._row[link]
        order = np.lexsort((np.arange(len(world)), features[:, 6], row, world))
        world, row = world[order], row[order]
        first = np.ones(len(order), bool)
        first[1:] = (world[1:] != world[:-1]) | (row[1:] != row[:-1])
        world, row, chosen = world[first], row[first], order[first]
        out.features[world, row], out.link[world, row] = features[chosen], link[chosen]
        np.add.at(out.count, world, 1)
        return out
