"""Which prims of the stage the simulated bodies are; works for every physics backend, through Isaac Lab's assets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.pxr_api import Prim, Stage, Usd, UsdPhysics


@dataclass(frozen=True)
class Asset:
    """An asset of the scene with its bodies.

    Attributes:
        entity: Isaac Lab's articulation, rigid object or collection.
        paths: Prim paths, one for each environment and body in the order of ``body_link_pose_w``.
    """

    entity: Any
    paths: tuple[str, ...]

    def poses(self) -> np.ndarray:
        """World poses of its bodies now, [N * B, 7]."""
        value = self.entity.data.body_link_pose_w
        tensor = getattr(value, "torch", value)
        return tensor.reshape(-1, 7).detach().cpu().numpy()


def scene_assets(scene: Any, stage: Stage) -> list[Asset]:
    """Articulations, rigid objects and collections of a scene.

    Args:
        scene: Isaac Lab's interactive scene.
        stage: A stage that holds the scene's first environment (its clones need not be there).

    Raises:
        FlashNerdError: For a body that has no prim.
    """
    found = []
    for name, entity in {**scene.articulations, **scene.rigid_objects}.items():
        roots = env_paths(scene, entity.cfg.prim_path)
        tails = _bodies_below(stage, roots[0], list(entity.body_names), name)
        found.append(Asset(entity, tuple(root + tail for root in roots for tail in tails)))
    for name, entity in scene.rigid_object_collections.items():
        members = [
            (env_paths(scene, cfg.prim_path), body)
            for body, cfg in entity.cfg.rigid_objects.items()
            if body in entity.body_names
        ]
        members.sort(key=lambda item: entity.body_names.index(item[1]))
        tails = [_rigid_below(stage, roots[0], f"{name}.{body}") for roots, body in members]
        count = len(members[0][0])
        paths = [roots[i] + tail for i in range(count) for (roots, _), tail in zip(members, tails, strict=True)]
        found.append(Asset(entity, tuple(paths)))
    return found


def not_recorded(scene: Any) -> list[str]:
    """Names of what moves in the scene but has no rigid pose."""
    return [*scene.deformable_objects, *scene.cable_objects]


def env_paths(scene: Any, path: str) -> list[str]:
    """The prim path of an asset in each environment; one path where it is shared by all."""
    for namespace in (scene.env_regex_ns, scene.env_ns + "/env_.*", "{ENV_REGEX_NS}"):
        if path.startswith(namespace):
            return [env + path.removeprefix(namespace) for env in scene.env_prim_paths]
    return [path]


def _bodies_below(stage: Stage, root: str, names: list[str], asset: str) -> list[str]:
    """Path of each named body relative to ``root``; a name is a prim's, and that prim is a rigid body."""
    prim = stage.GetPrimAtPath(root)
    if not prim:
        raise FlashNerdError(
            f"the stage has no prim {root} for the scene's '{asset}', so that its bodies cannot be found: type "
            "env.scene.replicate_physics=true."
        )
    rigid = {item.GetName(): item for item in _below(prim) if item.HasAPI(UsdPhysics.RigidBodyAPI)}
    if len(names) == 1 and len(rigid) == 1:
        # A rigid object's body goes by the name of the object.
        [only] = rigid.values()
        return [str(only.GetPath()).removeprefix(root)]
    missing = [name for name in names if name not in rigid]
    if missing:
        raise FlashNerdError(
            f"the scene's '{asset}' has the body '{missing[0]}', but no rigid body of that name lies below {root}: "
            f"there are {', '.join(sorted(rigid)) or 'none'}."
        )
    return [str(rigid[name].GetPath()).removeprefix(root) for name in names]


def _rigid_below(stage: Stage, root: str, asset: str) -> str:
    prim = stage.GetPrimAtPath(root)
    rigid = [item for item in _below(prim) if item.HasAPI(UsdPhysics.RigidBodyAPI)] if prim else []
    if len(rigid) != 1:
        raise FlashNerdError(f"one rigid body is needed below {root} for the scene's '{asset}', found {len(rigid)}.")
    return str(rigid[0].GetPath()).removeprefix(root)


def _below(prim: Prim) -> list[Prim]:
    """A prim and all below it, instances' contents included."""
    return list(Usd.PrimRange(prim, Usd.TraverseInstanceProxies()))
