"""The `rotor` engine: N copies of a scene of multirotors, balls and static shapes, stepped by compiled code on all cores.

Drones, their rotors, onboard controllers and the air are inside (see flight, cascade, aero), so that a control step of K
physics steps is one call. State is float64; lanes of worlds lie side by side (see layout), and blocks of them are
divided among threads, with the same bits at any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.arrays import array
from rookery.sim.buffers import check_tensors
from rookery.sim.cores import usable_cores
from rookery.sim.engines.rotor import build, rows
from rookery.sim.engines.rotor.changes import Changes
from rookery.sim.engines.rotor.colliders import colliders, movers
from rookery.sim.engines.rotor.params import RotorParams
from rookery.sim.engines.rotor.step import advance
from rookery.sim.engines.rotor.views import (
    RotorActuators,
    RotorBodies,
    RotorContactSensor,
    RotorMultirotors,
    RotorSensor,
)
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor import factors
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.cascade import DIRECT, MEMORY
from rookery.sim.multirotor.lanes import from_lanes, to_lanes
from rookery.sim.multirotor.layout import LANES
from rookery.sim.multirotor.wakes import WAKES
from rookery.sim.multirotor.winds import Wind
from rookery.sim.randomization.batch import Batch
from rookery.sim.scene import Scene
from rookery.sim.world import Ids, Joints, World

LIMIT = 1e7
"""m, m/s, rad/s: a state beyond it has diverged."""

_NOTHING = np.zeros(5, np.float32)
_WHOLE = np.ones(5, np.float32)

WORK = 5_000
"""Physics steps of bodies that are worth a thread: fewer are done before it has woken up."""


class RotorWorld(World):
    """N copies of a scene on the `rotor` engine.

    Once for each `step(k)` batteries are drained, by what the rotors take at its beginning, and gusts change the air; all else
    does not depend on how physics steps are grouped into calls.

    Args:
        scene: what is simulated; its extension `Aeronautics` names the drones and the effects.
        num_envs: N.
        threads: 0 takes one for each processor that this process may use.

    Raises:
        RookeryError: the scene has what this engine does not simulate, or drones begin in collision.
    """

    engine = "rotor"
    wind: Wind
    _bound: tuple[Any, ...] | None = None

    def __init__(self, scene: Scene, num_envs: int, threads: int = 0) -> None:
        self.model = scene.compile()
        self.num_envs = num_envs
        self.dt = float(self.model.opt.timestep)
        self.device = torch.device("cpu")
        self.scene = scene
        self.effects = scene.extension(Aeronautics).effects
        self.parts = build.read(scene, self.model)
        self.threads = threads or usable_cores()
        self._pool = ThreadPoolExecutor(max(self.threads - 1, 1), "rotor")
        blocks = -(-num_envs // LANES)
        count = len(self.parts.bodies)
        drones = len(self.parts.drones)
        self.bodies_lanes = np.zeros((blocks, count, at.BODY * LANES))
        self.varied = np.zeros((blocks, count, at.VARIED * LANES))
        self.worlds = np.zeros((blocks, at.WORLD * LANES))
        self.types = np.array([at.type_row(d) for d in self.parts.drones]).reshape(drones, at.TYPE)
        self.levels = np.full(drones, DIRECT)
        self.command_rows = np.ones(drones, np.int64)
        self.commands = np.zeros((1, blocks, drones, 5 * LANES))
        self.memory = np.zeros((blocks, drones, MEMORY * LANES))
        self.wind = Wind(self.worlds, self.effects, self._height(), self.dt)
        self._shapes = colliders(self.parts, self.model)
        self._movers = movers(self.parts)
        self._columns: dict[tuple[int, int], int] = {}
        self._make_contacts(0)
        self._lookup = np.full((self.model.ngeom, self.model.ngeom), -1)
        self._bad = np.zeros(num_envs, bool)
        self._planned = False  # whether some drone has commands of several physics steps
        self._failed = torch.zeros(0, dtype=torch.int64, device=self.device)
        self.changes = Changes(num_envs)
        self._params = RotorParams(self)
        self._own = factors.own_values(
            self.parts.drones, self.parts.mass, self._params.moments, self._params.axes, self.effects
        )
        self._nominal()
        self.reset()

    def _height(self) -> float:
        """m, mean start height of the bodies: where the turbulence is taken."""
        flying = len(self.parts.bodies) - self.parts.movers
        return float(self.parts.start[:flying, 2].mean()) if flying else 0.0

    def _nominal(self) -> None:
        """Everything that may vary, as the scene has it."""
        parts = self.parts
        fx = self.effects
        everyone = np.arange(self.num_envs)
        names = parts.bodies
        lanes = self.varied.reshape(*self.varied.shape[:2], at.VARIED, LANES)
        lanes[:, :, at.MASS] = parts.mass[:, None]
        lanes[:, :, at.INV_MASS] = 1.0 / parts.mass[:, None]
        for b in range(len(names)):
            j = parts.inertia[b]
            inverse = np.linalg.inv(parts.inertia[b])
            six = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])
            lanes[:, b, at.INERTIA : at.INERTIA + 6] = j[six][:, None]
            lanes[:, b, at.INV_INERTIA : at.INV_INERTIA + 6] = inverse[six][:, None]
            lanes[:, b, at.RESTITUTION] = parts.bounce[b]
            lanes[:, b, at.FRICTION] = parts.grip[b]
        moved = len(names) - parts.movers
        lanes[:, moved:, at.INV_MASS] = lanes[:, moved:, at.INV_INERTIA : at.INV_INERTIA + 6] = (
            0.0  # nothing moves them
        )
        drones = np.arange(len(parts.drones))
        lanes[:, : len(drones), [at.MASS_FACTOR, at.INERTIA_FACTOR]] = 1.0
        factored = ("thrust", "torque", "lag", "drag", "ground")
        self.vary(drones, everyone, Batch.of(dict.fromkeys(factored, np.ones(self.num_envs, np.float32))))
        for a in drones:
            d = parts.drones[a]
            lanes[:, a, at.FULL_SPEED] = d.max_rotor_speed
            lanes[:, a, at.SPIN] = d.rotor_inertia * d.max_rotor_speed * fx.gyroscopic
        for i, radius in enumerate(parts.ball_radius):
            b = len(parts.drones) + i
            drag, lift = fx.ball_constants(float(parts.mass[b]), radius)
            lanes[:, b, at.BALL_RADIUS] = radius
            lanes[:, b, at.BALL_DRAG] = drag
            lanes[:, b, at.BALL_LIFT] = lift
        world = self.worlds.reshape(-1, at.WORLD, LANES)
        for f in range(3):
            world[:, at.GRAVITY + f] = self.model.opt.gravity[f]
            world[:, at.MEAN_WIND + f] = world[:, at.AIR + f] = fx.mean_wind[f]
        self.wind.follow()

    # Views

    def members(self, names: Sequence[str]) -> list[int]:
        """Indices of named bodies. Raises RookeryError with the nearest match."""
        for name in names:
            if name not in self.parts.bodies:
                raise unknown("body", name, self.parts.bodies)
        return [self.parts.bodies.index(n) for n in names]

    def rows(self, ids: Ids) -> Any:
        """World indices as an int64 array for compiled loops."""
        return np.arange(self.num_envs) if ids is None else array(ids)

    def bodies(self, names: Sequence[str]) -> RotorBodies:
        return RotorBodies(self, names)

    def joints(self, names: Sequence[str]) -> Joints:
        raise RookeryError("engine 'rotor' has no joints: use engine 'mujoco', or read bodies.")

    def actuators(self, names: Sequence[str]) -> RotorActuators:
        return RotorActuators(self, names)

    def sensors(self, name: str) -> RotorSensor:
        return RotorSensor(self, name)

    def contact_sensor(self, geom: str, others: Sequence[str]) -> RotorContactSensor:
        return RotorContactSensor(self, geom, others)

    def multirotors(self, names: Sequence[str]) -> RotorMultirotors:
        return RotorMultirotors(self, names)

    @property
    def params(self) -> RotorParams:
        return self._params

    def contact_columns(self, geom: str, others: Sequence[str]) -> list[int]:
        """Columns of `impulse` and `when` for the contacts of a geom with others, made where there are none yet."""
        ids = {self.model.geom(s.geom).name: s.geom for s in self.parts.shapes}
        if not others:
            raise RookeryError(f"contacts of {geom!r} with no other geom were asked for: name at least one.")
        for name in (geom, *others):
            if name not in ids:
                raise unknown("colliding geom", name, ids)
        out = []
        for name in others:
            pair = ids[geom], ids[name]
            if pair not in self._columns:
                column = self._columns[pair] = self._columns[pair[::-1]] = self.impulse.shape[1]
                self._lookup[pair] = self._lookup[pair[::-1]] = column
                self._make_contacts(column + 1)
            out.append(self._columns[pair])
        return out

    def _make_contacts(self, columns: int) -> None:
        """Room for what `columns` pairs of geoms do to each other in a control step."""
        self.impulse = torch.zeros(self.num_envs, columns, device=self.device)
        self.when = torch.full_like(self.impulse, torch.inf)
        self._touched = self.impulse.numpy(), self.when.numpy()
        self._bound = None

    def command(self, level: int, members: np.ndarray, values: Tensor, mid: Any = _NOTHING, half: Any = _WHOLE) -> None:
        """Setpoints ``mid + half * values`` for some drones; at MOTORS thrusts in N.

        Args:
            level: of the cascade.
            members: indices of the drones.
            values: [N, 1 or K, len(members), 4 or 5].
            mid, half: [5] float32 arrays.
        """
        k = values.shape[1]
        size = 4 if level != DIRECT else 5
        rows.expect(values, (self.num_envs, k, len(members), size), "commands")
        if self.commands.shape[0] < k:
            more = torch.zeros(k, *self.commands.shape[1:], dtype=torch.float64)
            more[: len(self.commands)] = torch.as_tensor(self.commands)
            self.commands = more.numpy()
            self._bound = None
        given = values.detach().contiguous().numpy()
        rows.command(self.commands, self.levels, self.command_rows, members, given, mid, half, level, self.types)
        self._planned = self._planned or k > 1

    def read_varied(self, members: Sequence[int], first: int, count: int) -> Tensor:
        """[N, len(members), count] float64."""
        out = torch.zeros(self.num_envs, len(members), count, dtype=torch.float64, device=self.device)
        rows.gather(self.varied, np.array(members), first, out.numpy())
        return out

    def write_varied(self, members: Sequence[int], first: int, ids: Any, values: np.ndarray) -> None:
        """values [n, len(members), count]."""
        rows.scatter(self.varied, np.array(members), first, ids, np.ascontiguousarray(values))

    def set_ball_mass(self, b: int, ids: Any, mass: np.ndarray) -> None:
        """Let the air act on body b, if it is a ball, by its masses [n] kg in the worlds `ids`."""
        i = b - len(self.parts.drones)
        if 0 <= i < len(self.parts.ball_radius):
            constants = np.array(self.effects.ball_constants(1.0, self.parts.ball_radius[i]))
            self.write_varied([b], at.BALL_DRAG, ids, (constants / mass[:, None])[:, None])

    def vary(self, members: np.ndarray, ids: Any, values: Batch) -> None:
        """Factors on the own values of some drones in the worlds `ids`, by the names of `factors.FACTORS`."""
        where = values.places.rows(factors.PARTS)
        factors.write(self.varied, members, ids, where, values.table, self._own, self.dt)

    # Time

    def step(self, k: int = 1) -> None:
        if self._planned:
            for r in self.command_rows.tolist():
                if r not in (1, k):
                    raise RookeryError(
                        f"controls were given for {r} physics steps, but step({k}) was called: give one row each."
                    )
        if self._columns:
            self.impulse.zero_()
            self.when.fill_(torch.inf)
        self._advance(k)
        if self._planned:
            rows.hold_last(self.commands, self.command_rows)
            self._planned = False
        self.changes.note(None)
        if rows.diverged(self.bodies_lanes, len(self.parts.drones), LIMIT, self._bad):
            self._put_back()
        elif len(self._failed):
            self._failed = torch.zeros(0, dtype=torch.int64, device=self.device)

    def _advance(self, k: int) -> None:
        """Let the compiled code take all worlds k physics steps further."""
        if self._bound is None:
            self._bound = self._arguments()
        if self.wind.gusty:
            self.wind.set_step(k)
        blocks, count = self.bodies_lanes.shape[:2]
        parts = max(1, min(self.threads, blocks, blocks * LANES * count * k // WORK))
        if parts == 1:
            advance(0, blocks, k, *self._bound)
            return
        cuts = [blocks * i // parts for i in range(parts + 1)]
        pairs = zip(cuts[1:], cuts[2:], strict=False)
        others = [self._pool.submit(advance, a, b, k, *self._bound) for a, b in pairs]
        advance(cuts[0], cuts[1], k, *self._bound)
        for other in others:
            other.result()

    def _arguments(self) -> tuple[Any, ...]:
        """Arguments of `advance` after the number of steps: arrays that stay until `_bound` is forgotten."""
        fx = self.effects
        pilot = self.levels, self.command_rows, self.commands, self.memory
        air = WAKES[fx.downwash], fx.battery, *self.wind.arguments()
        touching = *self._shapes, self._lookup, *self._touched, *self._movers
        drones = len(self.parts.drones)
        return self.dt, self.bodies_lanes, self.varied, self.worlds, self.types, drones, pilot, air, touching

    def _put_back(self) -> None:
        self._failed = torch.as_tensor(self._bad).nonzero()[:, 0]
        self._bad[:] = False
        self.failures += len(self._failed)
        self.reset(self._failed)

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.changes.version

    @property
    def failed(self) -> Tensor:
        return self._failed

    def reset(self, ids: Ids = None) -> None:
        # with None the filling lanes too
        where = np.arange(self.bodies_lanes.shape[0] * LANES) if ids is None else self.rows(ids)
        rows.reset(self.bodies_lanes, self.memory, self.commands, *self._touched, self.parts.start, where)
        self.wind.begin(where)
        self.changes.note(None if ids is None else where)

    def forward(self, ids: Ids = None) -> None:
        """Views always give what was written last."""

    # Keeping

    def _by_world(self) -> dict[str, np.ndarray]:
        """Arrays [blocks, ..., k LANES]."""
        return {
            "bodies": self.bodies_lanes, "varied": self.varied, "worlds": self.worlds, "memory": self.memory,
            "gust": self.wind.gust, "commands": self.commands.swapaxes(0, 1),
        }  # fmt: skip

    def snapshot(self) -> dict[str, Tensor]:
        """Worlds come first, [N, ..., k], so that states of several sets of worlds can be joined."""
        out = {name: torch.from_numpy(from_lanes(a, self.num_envs)) for name, a in self._by_world().items()}
        out |= {"levels": torch.tensor(self.levels), "command_rows": torch.tensor(self.command_rows)}
        out |= self.wind.snapshot_streams(self.num_envs)
        out["failures"] = torch.tensor(self.failures)
        return out

    def check_snapshot(self, snapshot: dict[str, Tensor]) -> None:
        own = self.snapshot()
        worlds, bodies = snapshot["bodies"].shape[:2] if snapshot.get("bodies", self._failed).dim() > 1 else (0, 0)
        if (worlds, bodies) != (self.num_envs, self.bodies_lanes.shape[1]):
            raise RookeryError(
                f"the snapshot holds {worlds} worlds of {bodies} bodies, this world has {self.num_envs} of "
                f"{self.bodies_lanes.shape[1]}: use the same task and num_envs."
            )
        planned = snapshot.get("commands", own["commands"])
        if planned.dim() == own["commands"].dim() and planned.shape[1]:  # rows for all steps that were ever planned
            own["commands"] = own["commands"][:, :1].expand(-1, planned.shape[1], *own["commands"].shape[2:])
        check_tensors(own, snapshot)

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        self.check_snapshot(snapshot)
        self.commands = np.zeros((snapshot["commands"].shape[1], *self.commands.shape[1:]))
        for name, a in self._by_world().items():
            to_lanes(snapshot[name].numpy(), a)
        self.levels[:] = snapshot["levels"].numpy()
        self.command_rows[:] = snapshot["command_rows"].numpy()
        self.wind.follow()
        self._bound = None
        self._planned = True
        self.wind.restore_streams(snapshot)
        self.impulse[:] = 0.0
        self.when[:] = torch.inf
        self.failures = int(snapshot["failures"])
        self.changes.note(None)

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        data = mujoco.MjData(self.model) if data is None else data
        block, lane = divmod(i, LANES)
        for b, body in enumerate(self.parts.ids):
            joint = self.model.body_jntadr[body]
            q, v = self.model.jnt_qposadr[joint], self.model.jnt_dofadr[joint]
            values = torch.as_tensor(self.bodies_lanes[block, b, lane::LANES]).cpu().numpy()
            data.qpos[q : q + 7] = values[0:7]
            data.qvel[v : v + 6] = values[7:13]
        mujoco.mj_forward(self.model, data)
        return data

    def close(self) -> None:
        self._pool.shutdown(wait=False)
