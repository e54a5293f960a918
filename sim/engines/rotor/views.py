"""Views of the `rotor` engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.rotor import rows
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor import factors
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.cascade import DIRECT
from rookery.sim.multirotor.onboard import FULL, Multirotors
from rookery.sim.randomization.batch import Batch
from rookery.sim.world import Actuators, Bodies, ContactSensor, EngineSensor, Ids

if TYPE_CHECKING:
    from rookery.sim.engines.rotor.world import RotorWorld


class RotorBodies(Bodies):
    """See Bodies."""

    def __init__(self, world: RotorWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        self._members = np.array(world.members(names))
        self._state = torch.zeros(world.num_envs, len(names), at.STATE, device=world.device)
        self._out = self._state.numpy()
        self._version = -1

    @property
    def state(self) -> Tensor:
        w = self._world
        if self._version != w.changes.version:
            self._version = w.changes.read(self._version, w.bodies_lanes, self._members, at.POS, self._out)
        return self._state

    def set_state(self, ids: Ids, state: Tensor) -> None:
        w = self._world
        where = w.rows(ids)
        rows.expect(state, (len(where), len(self.names), at.STATE), "states")
        rows.put_state(w.bodies_lanes, self._members, where, state.detach().contiguous().numpy())
        w.changes.note(where)

    def set_wrench(self, wrench: Tensor, ids: Ids = None) -> None:
        w = self._world
        where = w.rows(ids)
        rows.expect(wrench, (len(where), len(self.names), 6), "wrenches")
        rows.scatter(w.bodies_lanes, self._members, at.WRENCH, where, wrench.detach().double().numpy())


class RotorActuators(Actuators):
    """See Actuators: thrusts (N) and reaction torques (N m) themselves. Commanding them bypasses the engine's rotors;
    `RotorMultirotors` commands those."""

    def __init__(self, world: RotorWorld, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._world = world
        table = {world.model.actuator(u).name: place for u, place in world.parts.actuators.items()}
        for name in names:
            if name not in table:
                raise unknown("actuator", name, table)
        self._drone = torch.tensor([table[n][0] for n in names])
        self._column = torch.tensor([table[n][1] for n in names])
        self._drones = np.arange(len(world.parts.drones))

    @property
    def force(self) -> Tensor:
        w = self._world
        out = torch.zeros(w.num_envs, len(self._drones), 5, device=w.device)
        rows.gather(w.bodies_lanes, self._drones, at.THRUST, out.numpy())
        return out[:, self._drone, self._column]

    @property
    def control(self) -> Tensor:
        w = self._world
        out = torch.zeros(w.num_envs, len(self._drones), 5, device=w.device)
        rows.gather(w.commands[0], self._drones, 0, out.numpy())
        out[:, torch.from_numpy(w.levels != DIRECT)] = 0.0
        return out[:, self._drone, self._column]

    def set_control(self, control: Tensor) -> None:
        w, u = self._world, len(self.names)
        if control.shape == (w.num_envs, u):
            control = control[:, None]
        if control.dim() != 3 or control.shape[0] != w.num_envs or control.shape[2] != u:
            raise RookeryError(
                f"controls must be [{w.num_envs}, {u}] or [{w.num_envs}, K, {u}], got {tuple(control.shape)}."
            )
        drones = self._drone.unique().numpy()
        full = self._held(control.shape[1])
        if control.shape[1] == 1:
            control = control.expand(-1, full.shape[1], -1)
        full[:, :, self._drone, self._column] = control.double()
        w.command(DIRECT, drones, full[:, :, drones])

    def _held(self, k: int) -> Tensor:
        """[N, K, A, 5] N, N m: what the next step would apply, in as many rows as were given before, or in k others."""
        w = self._world
        given = int(w.command_rows.max())
        options: dict[str, Any] = {"dtype": torch.float64, "device": w.device}
        out = torch.zeros(w.num_envs, given if k == 1 else k, len(self._drones), 5, **options)
        row = torch.zeros(w.num_envs, len(self._drones), 5, **options)
        for r in range(out.shape[1]):
            if r == 0 or given == out.shape[1]:
                rows.gather(w.commands[r], self._drones, 0, row.numpy())
            out[:, r] = row
        held = torch.from_numpy(w.command_rows == 1)
        out[:, 1:, held] = out[:, :1, held]
        out[:, :, torch.from_numpy(w.levels != DIRECT)] = 0.0
        return out


class RotorSensor(EngineSensor):
    """See EngineSensor: gyroscope, accelerometer and attitude at the origin of a drone's body."""

    _FIELDS: ClassVar = {
        int(mujoco.mjtSensor.mjSENS_GYRO): (at.RATE, 3),
        int(mujoco.mjtSensor.mjSENS_ACCELEROMETER): (at.SPECIFIC_FORCE, 3),
        int(mujoco.mjtSensor.mjSENS_FRAMEQUAT): (at.QUAT, 4),
    }

    def __init__(self, world: RotorWorld, name: str) -> None:
        self.name = name
        self._world = world
        model = world.model
        table = {model.sensor(s).name: s for s in range(model.nsensor)}
        if name not in table:
            raise unknown("sensor", name, table)
        s = table[name]
        body = model.body(model.site_bodyid[model.sensor_objid[s]]).name
        kind = int(model.sensor_type[s])
        if kind not in self._FIELDS or body not in world.parts.bodies[: len(world.parts.drones)]:
            raise RookeryError(
                f"engine 'rotor' has gyroscopes, accelerometers and attitudes of drones, and {name!r} is none: use engine "
                "'mujoco'."
            )
        self._first, size = self._FIELDS[kind]
        self._members = np.array(world.members([body]))
        self._data = torch.zeros(world.num_envs, 1, size, device=world.device)

    @property
    def data(self) -> Tensor:
        w = self._world
        rows.gather(w.bodies_lanes, self._members, self._first, self._data.numpy())
        return self._data[:, 0]


class RotorContactSensor(ContactSensor):
    """See ContactSensor."""

    def __init__(self, world: RotorWorld, geom: str, others: Sequence[str]) -> None:
        self.geom = geom
        self.names = tuple(others)
        self._world = world
        columns = world.contact_columns(geom, others)
        self._columns: slice | list[int] = columns
        if columns == list(range(columns[0], columns[0] + len(columns))):
            self._columns = slice(columns[0], columns[0] + len(columns))

    @property
    def impulse(self) -> Tensor:
        return self._world.impulse[:, self._columns]

    @property
    def when(self) -> Tensor:
        return self._world.when[:, self._columns]


class RotorMultirotors(Multirotors):
    """See Multirotors."""

    def __init__(self, world: RotorWorld, names: Sequence[str]) -> None:
        self._world = world
        self.members = np.array(world.members([f"{n}/base" for n in names]))
        self._speed = torch.zeros(world.num_envs, len(names), 4, device=world.device)
        self._out = self._speed.numpy()
        self._version = -1

    def command(self, level: int, setpoint: Tensor, *scale: np.ndarray) -> None:
        rows_ = setpoint if setpoint.dim() == 4 else setpoint[:, None]
        self._world.command(level, self.members, rows_, *scale)

    def integrate_yaw(self, on: bool) -> None:
        self._world.types[self.members, at.YAW_INTEGRATED] = float(on)

    @property
    def rotor_speed(self) -> Tensor:
        self._version = self._world.changes.read(
            self._version, self._world.bodies_lanes, self.members, at.SPEED, self._out
        )
        return self._speed

    def start(self, ids: Ids, speed: Tensor, charge: np.ndarray = FULL) -> None:
        w = self._world
        where = w.rows(ids)
        rows.expect(speed, (1 if len(speed) == 1 else len(where), len(self.members), 4), "rotor speeds")
        rows.start(w.bodies_lanes, w.memory, self.members, where, speed.contiguous().numpy(), charge)
        w.changes.note(where)

    def vary(self, ids: Ids, **given: Tensor) -> None:
        """Factors [n], or [4, n] of the rotors, on values of all these drones in the worlds `ids`, by the names of
        `factors.FACTORS`."""
        where = self._world.rows(ids)
        values = {name: v.cpu().numpy() for name, v in given.items()}
        factors.check(values, len(where))
        self.write_batch(where, Batch.of(values))

    def write_batch(self, ids: np.ndarray, values: Batch) -> None:
        self._world.vary(self.members, ids, values)
