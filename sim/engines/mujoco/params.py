"""Per-world model fields of the `mujoco` engine: mass, inertia, friction, gravity, joint and actuator constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.buffers import check_tensors
from rookery.sim.engines.mujoco.views import object_ids
from rookery.sim.errors import unknown
from rookery.sim.world import Ids, Params

if TYPE_CHECKING:
    from rookery.sim.engines.mujoco.world import MujocoWorld

_OBJ = mujoco.mjtObj


@dataclass(frozen=True)
class _Field:
    array: str  # name in MjModel, as mujoco.batch.Batch.expand takes it
    kind: mujoco.mjtObj | None
    what: str
    column: int | None = None  # one parameter of a row
    derived: bool = False  # mj_setConst has to follow a write


_FIELDS = {
    "mass": _Field("body_mass", _OBJ.mjOBJ_BODY, "body", derived=True),
    "inertia": _Field("body_inertia", _OBJ.mjOBJ_BODY, "body", derived=True),
    "friction": _Field("geom_friction", _OBJ.mjOBJ_GEOM, "geom"),
    "height": _Field("geom_pos", _OBJ.mjOBJ_GEOM, "geom", column=2),
    "solref": _Field("geom_solref", _OBJ.mjOBJ_GEOM, "geom"),
    "gravity": _Field("opt.gravity", None, ""),
    "damping": _Field("dof_damping", _OBJ.mjOBJ_JOINT, "joint", derived=True),
    "armature": _Field("dof_armature", _OBJ.mjOBJ_JOINT, "joint", derived=True),
    "com": _Field("body_ipos", _OBJ.mjOBJ_BODY, "body", derived=True),
    "inertia_axes": _Field("body_iquat", _OBJ.mjOBJ_BODY, "body", derived=True),
    "frictionloss": _Field("dof_frictionloss", _OBJ.mjOBJ_JOINT, "joint"),
    "gravcomp": _Field("body_gravcomp", _OBJ.mjOBJ_BODY, "body"),
    "joint_range": _Field("jnt_range", _OBJ.mjOBJ_JOINT, "joint"),
    "gain": _Field("actuator_gainprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=0),
    "bias": _Field("actuator_biasprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=0),
    "bias_position": _Field("actuator_biasprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=1),
    "bias_velocity": _Field("actuator_biasprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=2),
    "motor_constant": _Field("actuator_gainprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=1),
    "kp": _Field("actuator_gainprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=4),
    "kd": _Field("actuator_gainprm", _OBJ.mjOBJ_ACTUATOR, "actuator", column=6),
    "force_range": _Field("actuator_forcerange", _OBJ.mjOBJ_ACTUATOR, "actuator"),
}


class MujocoParams(Params):
    """See Params. Writes are collected, and mj_setConst runs once for the touched worlds before the next step."""

    def __init__(self, world: MujocoWorld) -> None:
        self._world = world
        self._arrays: dict[str, np.ndarray] = {}
        self._indices: dict[tuple[str, tuple[str, ...]], list[int] | slice] = {}
        self._stale = np.zeros(world.num_envs, dtype=bool)
        self.version = 0  # counts changes

    def _field(self, name: str) -> _Field:
        if name not in _FIELDS:
            raise unknown("parameter field", name, _FIELDS)
        return _FIELDS[name]

    def _index(self, f: _Field, names: Sequence[str]) -> list[int] | slice:
        """Rows of a field for named elements; looked up once."""
        if f.kind is None:
            return slice(None)
        key = f.array, tuple(names)
        if key not in self._indices:
            ids = object_ids(self._world.model, f.kind, f.what, names)
            in_dofs = f.array.startswith("dof_")
            self._indices[key] = [int(self._world.model.jnt_dofadr[j]) for j in ids] if in_dofs else ids
        return self._indices[key]

    def _model_values(self, f: _Field) -> np.ndarray:
        model = self._world.model
        return np.asarray(model.opt.gravity if f.kind is None else getattr(model, f.array))

    def supports(self, field: str) -> bool:
        return field in _FIELDS

    def nominal(self, field: str, names: Sequence[str] = ()) -> Tensor:
        f = self._field(field)
        values = self._model_values(f)[self._index(f, names)]
        return torch.from_numpy(np.array(values if f.column is None else values[..., f.column], dtype=np.float32))

    def get(self, field: str, names: Sequence[str] = ()) -> Tensor:
        f = self._field(field)
        array = self._arrays.get(f.array)
        if array is None:
            value = self.nominal(field, names)
            return value.expand(self._world.num_envs, *value.shape).clone()
        values = array[:, self._index(f, names)]
        return torch.from_numpy(np.array(values if f.column is None else values[..., f.column], dtype=np.float32))

    def set(self, field: str, names: Sequence[str], values: Tensor, ids: Ids = None) -> None:
        f = self._field(field)
        array = self._array(f.array)
        rows = np.arange(self._world.num_envs) if ids is None else ids.cpu().numpy()
        columns = self._index(f, names)
        new = values.detach().cpu().numpy().astype(array.dtype)
        if isinstance(columns, slice):
            array[rows] = new
        elif f.column is not None:
            array[rows[:, None], columns, f.column] = new
        else:
            array[rows[:, None], columns] = new
        if f.derived:
            self._stale[rows] = True
        self.version += 1

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """[N, ...] fields of MjModel that may differ between worlds, by name."""
        return self._arrays

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = self._world.batch.expand(name)
        return self._arrays[name]

    def flush(self) -> None:
        """Bring derived constants (inverse weights, ...) up to date in worlds whose parameters changed."""
        if self._stale.any():
            self._world.batch.set_const(np.flatnonzero(self._stale).astype(np.int32))
            self._stale[:] = False

    def snapshot(self) -> dict[str, Tensor]:
        """Expanded fields by MjModel name."""
        return {name: torch.from_numpy(array.copy()) for name, array in self._arrays.items()}

    def check(self, fields: dict[str, Tensor]) -> None:
        """Refuse saved fields that this model does not have, see `World.check_snapshot`."""
        known = {f.array: f for f in _FIELDS.values()}
        for name in set(fields) - set(known):
            raise unknown("field in the snapshot", name, known)
        count = self._world.num_envs
        models = {name: torch.from_numpy(np.array(self._model_values(known[name]))) for name in fields}
        check_tensors({name: t.expand(count, *t.shape) for name, t in models.items()}, fields)

    def restore(self, fields: dict[str, Tensor]) -> None:
        """Put them back; a field that the snapshot shares between worlds takes the scene's values."""
        for name in set(self._arrays) - set(fields):
            f = next(f for f in _FIELDS.values() if f.array == name)
            self._arrays[name][:] = self._model_values(f)
        for name, values in fields.items():
            self._array(name)[:] = values.numpy()
        self.version += 1
        if self._arrays:
            self._stale[:] = True
            self.flush()
