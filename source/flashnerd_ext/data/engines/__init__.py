"""Analytical simulators that write training data, by name.

An engine steps a fixed model for any batch: ``step(joint_q, joint_qd, actuation) -> (joint_q, joint_qd)`` in
Newton's conventions, one model step (``decimation`` solver steps with the actuation held) a call.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.description import RobotDescription, fixed_links

ENGINES = ("mujoco_c", "mujoco_warp")


class Engine(Protocol):
    """One model step of a batch of independent worlds."""

    name: str
    version: str

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """joint_q [N, nq], joint_qd [N, nv], actuation [N, nu] -> next joint_q [N, nq], joint_qd [N, nv], float64."""
        ...


def build_engine(name: str, model: ExportedModel, workers: int = 1, device: str = "cpu") -> Engine:
    """The engine of that name over an exported model; ``workers`` threads for ``mujoco_c``, ``device`` for Warp.

    Raises:
        FlashNerdError: For an unknown engine or a worker count below 1.
    """
    if workers < 1:
        raise FlashNerdError(f"workers is {workers}, but at least 1 is needed: type workers=1.")
    if name == "mujoco_c":
        from flashnerd_ext.data.engines.mujoco_c import MujocoC

        return MujocoC(model, workers)
    if name == "mujoco_warp":
        from flashnerd_ext.data.engines.mujoco_warp import MujocoWarp

        return MujocoWarp(model, device)
    raise FlashNerdError(f"engine is '{name}', which is unknown: {nearest(name, ENGINES)}")


def load_or_export(
    robot: RobotDescription,
    folder: Path,
    contacts: str = "",
    terrain: str = "",
    terrain_seed: int = 0,
    blind: bool = False,
) -> ExportedModel:
    """The model kept in ``folder`` when it is there and whole, else a fresh export that is kept there.

    Args:
        robot: Whose model it is.
        folder: Data set folder.
        contacts: Kind of contact rows that is wanted, ``variable`` or ``fixed``; empty takes the kept model's, and
            variable rows for a fresh export.
        terrain: What the robot stands on (:mod:`flashnerd_ext.data.terrain`); empty takes the kept model's, and flat
            ground for a fresh export.
        terrain_seed: Which one of that kind.
        blind: Whether a fresh export's fixed rows know the ground planes only, and not the terrain.

    Raises:
        FlashNerdError: When the kept model is of another robot, kind or terrain, or the robot has no links for fixed
            rows, or touches nothing that a terrain could be made of.
    """
    from flashnerd_ext.data.terrain import make_terrain

    ground = make_terrain(terrain or "flat", terrain_seed)
    if ground is not None and robot.contacts is None:
        raise FlashNerdError(
            f"terrain is '{terrain}', but robot={robot.name} touches nothing: leave terrain out, or take a robot that "
            "walks."
        )
    if blind and (ground is None or contacts != "fixed"):
        raise FlashNerdError(
            f"blind is true, but contacts is '{contacts}' and terrain '{terrain or 'flat'}': it is for fixed rows on "
            "terrain, type contacts=fixed terrain=mixed, or leave blind out."
        )
    from flashnerd_ext.data.engines.export import export_model

    if (folder / ExportedModel.FILE).exists():
        model = ExportedModel.load(folder)
        if model.robot != robot.name:
            raise FlashNerdError(
                f"{folder} has the engine model of {model.robot}, but robot={robot.name} is wanted: type another out=."
            )
        _refuse_edited(model, robot, folder)
        if contacts and model.contacts != contacts:
            raise FlashNerdError(
                f"{folder} has contacts={model.contacts} rows, but contacts={contacts} is wanted: "
                f"type contacts={model.contacts}, or another out=."
            )
        kept = (model.terrain.get("kind", "flat"), model.terrain.get("seed", terrain_seed))
        if terrain and kept != (terrain, terrain_seed):
            raise FlashNerdError(
                f"{folder} has the engine model of terrain={kept[0]} terrain_seed={kept[1]}, but terrain={terrain} "
                f"terrain_seed={terrain_seed} is wanted: type another out=."
            )
        if contacts == "fixed" and ground is not None and model.blind != blind:
            raise FlashNerdError(
                f"{folder} has the engine model of blind={str(model.blind).lower()} rows, but "
                f"blind={str(blind).lower()} is wanted: type another out=."
            )
        return model
    model = dataclasses.replace(export_model(robot), fixed=fixed_links(robot, contacts or "variable"))
    if ground is not None:
        model = dataclasses.replace(model, terrain=ground.to_dict(), blind=blind)
    model.save(folder)
    return model


def _refuse_edited(model: ExportedModel, robot: RobotDescription, folder: Path) -> None:
    """A robot of the user's own may have been edited since; those of the package change with its version only."""
    if not Path(robot.asset_path).is_absolute():
        return
    from flashnerd_ext.data.engines.export import asset_key

    now = {"layout": robot.layout.to_dict(), "asset_key": asset_key(robot, robot.asset_path, local=True)}
    then = {"layout": model.layout, "asset_key": model.asset_key}
    steps = (robot.sim_dt, robot.decimation, robot.substeps) != (model.sim_dt, model.decimation, model.substeps)
    edited = [name for name, value in now.items() if value != then[name]] + (["steps"] if steps else [])
    if edited:
        raise FlashNerdError(
            f"{folder} has the engine model of robot={robot.name} from before its robot.toml or asset was edited "
            f"({', '.join(edited)} differ): type another out=."
        )
