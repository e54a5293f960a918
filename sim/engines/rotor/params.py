"""Per-world parameters of the `rotor` engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.rotor.rows import expect, scatter
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.layout import LANES
from rookery.sim.world import Ids, Params

if TYPE_CHECKING:
    from rookery.sim.engines.rotor.world import RotorWorld

FIELDS = ("mass", "inertia", "friction", "gravity", "height")
_ONLY = np.zeros(1, np.int64)
_ELSEWHERE = ("damping", "armature", "gain", "bias")


class RotorParams(Params):
    """See Params. Inertia is given as principal moments, about the axes that the scene's own inertia has.

    Attributes:
        moments: [bodies, 3] kg m^2, the scene's own.
        axes: [bodies, 3, 3], their axes as columns, body frame.
    """

    def __init__(self, world: RotorWorld) -> None:
        self._world = world
        parts = world.parts
        moments, axes = np.linalg.eigh(parts.inertia)
        # a diagonal inertia keeps the order of its axes
        for b, inertia in enumerate(parts.inertia):
            if np.abs(inertia - np.diag(np.diag(inertia))).max() <= 1e-9 * np.abs(inertia).max():
                moments[b] = np.diag(inertia)
                axes[b] = np.eye(3)
        self.moments = moments
        self.axes = axes

    def _check(self, field: str) -> None:
        if field in _ELSEWHERE:
            raise RookeryError(f"engine 'rotor' has no parameter {field!r}: use engine 'mujoco'.")
        if field not in FIELDS:
            raise unknown("parameter field", field, FIELDS)

    def _members(self, field: str, names: Sequence[str]) -> list[int]:
        if field != "friction":
            return self._world.members(names)
        model = self._world.model
        table = {model.geom(s.geom).name: s.body for s in self._world.parts.shapes if s.body >= 0}
        for name in names:
            if name not in table:
                raise unknown("geom of a moving body", name, table)
        return [table[n] for n in names]

    def _ground(self, names: Sequence[str]) -> float:
        """m, height in the scene of the level ground, which must be the one geom that is named.

        Raises:
            RookeryError: it is not, or there is none or more than one in the scene.
        """
        parts, model = self._world.parts, self._world.model
        level = {model.geom(s.geom).name: float(s.pos[2]) for s in parts.shapes if s.level}
        if len(level) != 1:
            raise RookeryError(
                f"engine 'rotor' moves the ground of scenes with one level plane, not {len(level)}: use engine 'mujoco'."
            )
        if list(names) != list(level):
            raise unknown("level ground", names[0] if names else "", level)
        return level[names[0]]

    def supports(self, field: str) -> bool:
        return field in FIELDS

    def nominal(self, field: str, names: Sequence[str] = ()) -> Tensor:
        self._check(field)
        parts = self._world.parts
        model = self._world.model
        if field == "gravity":
            return torch.tensor(model.opt.gravity, dtype=torch.float32)
        if field == "height":
            return torch.tensor([self._ground(names)])
        m = self._members(field, names)
        if field == "mass":
            return torch.tensor(parts.mass[m], dtype=torch.float32)
        if field == "inertia":
            return torch.tensor(self.moments[m], dtype=torch.float32)
        return torch.tensor([[parts.grip[b], 0.005, 0.0001] for b in m], dtype=torch.float32)

    def get(self, field: str, names: Sequence[str] = ()) -> Tensor:
        self._check(field)
        w, n = self._world, self._world.num_envs
        if field == "gravity":
            values = torch.as_tensor(w.worlds).view(-1, at.WORLD, LANES)[:, at.GRAVITY : at.GRAVITY + 3].transpose(1, 2)
            return values.reshape(-1, 3)[:n].float()
        if field == "height":
            raised = torch.as_tensor(w.worlds).view(-1, at.WORLD, LANES)[:, at.GROUND].reshape(-1, 1)[:n]
            return (self._ground(names) + raised).float()
        m = self._members(field, names)
        if field == "mass":
            return w.read_varied(m, at.MASS, 1)[..., 0].float()
        if field == "inertia":
            xx, yy, zz, xy, xz, yz = w.read_varied(m, at.INERTIA, 6).cpu().numpy().transpose(2, 0, 1)
            full = np.stack((xx, xy, xz, xy, yy, yz, xz, yz, zz), axis=-1).reshape(*xx.shape, 3, 3)
            axes = self.axes[m]
            moments = np.einsum("bji,nbjk,bki->nbi", axes, full, axes).astype(np.float32)
            return torch.from_numpy(moments).to(w.device)
        grip = w.read_varied(m, at.FRICTION, 1).float()
        return torch.cat((grip, torch.full_like(grip, 0.005), torch.full_like(grip, 0.0001)), dim=-1)

    def set(self, field: str, names: Sequence[str], values: Tensor, ids: Ids = None) -> None:
        self._check(field)
        w = self._world
        rows = np.arange(w.num_envs) if ids is None else ids.cpu().numpy()
        if field == "gravity":
            expect(values, (len(rows), 3), "gravity")
            scatter(w.worlds[:, None], _ONLY, at.GRAVITY, rows, values.detach().contiguous().numpy()[:, None])
            return
        new = values.detach().cpu().double().numpy()
        if field == "height":
            expect(values, (len(rows), 1), "height")
            scatter(w.worlds[:, None], _ONLY, at.GROUND, rows, (new - self._ground(names))[:, None])
            return
        m = self._members(field, names)
        new = np.array(np.broadcast_to(new, (len(rows), len(m)) if field == "mass" else (len(rows), len(m), 3)))
        if field == "mass":
            if not (new > 0).all():
                raise RookeryError(f"a mass must be positive, got {new.min():.4g} kg.")
            w.write_varied(m, at.MASS, rows, np.stack((new, 1.0 / new), axis=-1))
            for j, b in enumerate(m):
                w.set_ball_mass(b, rows, new[:, j])
        elif field == "inertia":
            if not (new > 0).all():
                raise RookeryError(f"moments of inertia must be positive, got {new.min():.4g} kg m^2.")
            axes = self.axes[m]
            full = np.einsum("bij,nbj,bkj->nbik", axes, new, axes)
            inverse = np.einsum("bij,nbj,bkj->nbik", axes, 1.0 / new, axes)
            w.write_varied(m, at.INERTIA, rows, np.concatenate((_six(full), _six(inverse)), axis=-1))
        else:
            w.write_varied(m, at.FRICTION, rows, new[..., :1])


def _six(m: np.ndarray) -> np.ndarray:
    """[..., 3, 3] symmetric as (xx, yy, zz, xy, xz, yz)."""
    i, j = [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]
    return m[..., i, j]
