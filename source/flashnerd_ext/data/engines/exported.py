"""The MuJoCo model that Newton built, kept as text: what a data set was made with can be made again.

MJCF cannot hold everything that Newton's solver sets after compiling (limit stiffness, float32 gravity), so
the file carries the MJCF and, beside it, the exact value of every model field that compiling the MJCF alone
would give differently.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json

FIXED_NEARBY = "nearby"
"""Detector of fixed contact rows on terrain, as data sets and cards name it: it sees no farther than the gap."""
FIXED_BLIND = "planes"
"""The same of rows that know the ground planes only, whatever stands on them."""


@dataclass(frozen=True)
class ExportedModel:
    """MJCF, field overrides and what is needed to drive it from Newton's coordinates.

    ``qpos_index`` / ``dof_index`` give for each entry of ``joint_names`` its place in MuJoCo's qpos / qvel.
    """

    FILE: ClassVar[str] = "engine_model.json"
    SCHEMA: ClassVar[int] = 1

    robot: str
    asset_key: str
    xml: str
    fields: dict[str, Any]
    """MjModel attribute -> nested list, and ``opt.NAME`` -> value."""
    joint_names: tuple[str, ...]
    qpos_index: tuple[int, ...]
    dof_index: tuple[int, ...]
    actuation: str
    actuated_dofs: tuple[int, ...]
    """MuJoCo dof of each actuation input."""
    sim_dt: float
    decimation: int
    versions: dict[str, str]
    floating_base: bool = False
    base_body: str = ""
    """MuJoCo's name of the free base's body."""
    links: dict[str, str] = field(default_factory=dict)
    """Link -> MuJoCo's name of its body, in Newton's order; the index in it is the ``link`` of a contact row."""
    substeps: int = 1
    """Solver steps of ``sim_dt / substeps`` in a simulation step."""
    layout: dict[str, Any] = field(default_factory=dict)
    """:class:`flashnerd_ext.model.layout.StateLayout` as JSON; with its drive, torques are made of targets."""
    capacity: int = 0
    """Contact rows K of a robot."""
    gap: float = 0.0
    """Distance at which a contact makes a row [m]."""
    target_inputs: tuple[int, ...] = ()
    """MuJoCo actuator of each position target (actuation ``target``), -1 for those of explicit motors; empty where all
    are explicit."""
    fixed: tuple[str, ...] = ()
    """Links of fixed contact rows, one row each; empty for variable rows, of which there are ``capacity``."""
    terrain: dict[str, Any] = field(default_factory=dict)
    """:class:`flashnerd_ext.data.terrain.Terrain` as JSON; empty for flat ground."""
    coupling: str = ""
    """Label of free motion (``RobotDescription.coupling``); empty where a step is a whole control step."""

    blind: bool = False
    """Whether fixed rows know the ground planes only and not the terrain on them."""

    @property
    def fixed_detector(self) -> str:
        """What finds fixed rows where it is not the robot's own detector of ground planes; empty otherwise."""
        if not self.fixed or not self.terrain:
            return ""
        return FIXED_BLIND if self.blind else FIXED_NEARBY

    @property
    def contacts(self) -> str:
        """Kind of the contact rows of a data set that was made with it: ``variable`` or ``fixed``."""
        return "fixed" if self.fixed else "variable"

    @property
    def inner_steps(self) -> int:
        """Solver steps in a model step."""
        return 1 if self.coupling else self.decimation * self.substeps

    @property
    def hash(self) -> str:
        """SHA-256 of everything that decides the numbers (not of the versions)."""
        content = self._content()
        content.pop("versions")
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        if not self.fixed:
            # As it was before there were fixed rows: models and data sets of that time keep their hash.
            content.pop("fixed")
        if not self.terrain:
            # Likewise before there was terrain.
            content.pop("terrain")
        if not self.blind:
            content.pop("blind")
        if not self.coupling:
            content.pop("coupling")
        return content

    def save(self, folder: Path) -> Path:
        """Write ``engine_model.json`` atomically."""
        content = {"schema_version": self.SCHEMA, "hash": self.hash, **self._content()}
        return write_json(folder / self.FILE, content)

    @classmethod
    def load(cls, folder: Path) -> ExportedModel:
        """Read the file back; refuses a damaged or foreign one."""
        path = folder / cls.FILE
        try:
            content = json.loads(path.read_text())
            if content.pop("schema_version") != cls.SCHEMA:
                raise ValueError("schema_version")
            stored = content.pop("hash")
            for name in ("joint_names", "qpos_index", "dof_index", "actuated_dofs", "target_inputs"):
                content[name] = tuple(content[name])
            content["fixed"] = tuple(content.get("fixed", ()))
            model = cls(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FlashNerdError(
                f"{path} is not a usable engine model ({type(error).__name__}: {error}): "
                "delete it, and it is exported anew."
            ) from None
        if model.hash != stored:
            raise FlashNerdError(
                f"{path} has the hash {model.hash[:12]}, but says {str(stored)[:12]}, so it was edited: "
                "delete the data set and make it anew."
            )
        return model

    def compile(self, forces: bool = False) -> Any:
        """The ``mujoco.MjModel`` with every field exactly as exported.

        Args:
            forces: Add a sensor a link, in the order of ``links``: net contact force on it in the world frame [N]; then
                one a drive that the solver integrates: its torque [N m].
        """
        from importlib import import_module

        import numpy as np

        mujoco: Any = import_module("mujoco")
        spec = mujoco.MjSpec.from_string(self.xml)
        if self.terrain:
            from flashnerd_ext.data.terrain import Terrain, add_to_spec

            add_to_spec(mujoco, spec, Terrain.from_dict(self.terrain))
        for body in self.links.values() if forces else ():
            sensor = spec.add_sensor()
            sensor.type, sensor.objtype, sensor.objname = (
                mujoco.mjtSensor.mjSENS_CONTACT,
                mujoco.mjtObj.mjOBJ_BODY,
                body,
            )
            sensor.name = f"force:{body}"
            # What is measured (a bit mask of fields), how contacts are reduced (3: to the net force), how many.
            sensor.intprm[:3] = [1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3, 1]
        model: Any = spec.compile()
        driven = [dof for dof, i in zip(self.actuated_dofs, self.target_inputs, strict=False) if i >= 0]
        for dof in driven if forces else ():
            joint = model.joint(int(model.dof_jntid[dof])).name
            sensor = spec.add_sensor(name=f"torque:{joint}")
            sensor.type, sensor.objname = mujoco.mjtSensor.mjSENS_JOINTACTFRC, joint
            sensor.objtype = mujoco.mjtObj.mjOBJ_JOINT
        if driven and forces:
            model = spec.compile()
        for name, value in self.fields.items():
            if name.startswith("opt."):
                target = getattr(model.opt, name[4:])
                if isinstance(target, np.ndarray):
                    target[:] = value
                else:
                    setattr(model.opt, name[4:], value)
            else:
                array = getattr(model, name)
                # Terrain's rows come after all others.
                there = array[: len(value)] if self.terrain and array.ndim else array
                there[:] = np.asarray(value, dtype=array.dtype).reshape(there.shape)
        if self.terrain:
            from flashnerd_ext.data.terrain import soften

            soften(model)
        if self.coupling:
            from flashnerd_ext.data.engines.free import free_motion

            free_motion(model, self.coupling)
        return model
