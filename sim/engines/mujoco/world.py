"""The `mujoco` engine: N copies of a scene in `mujoco.batch.Batch`, stepped by C threads in float64.

Results are bit-identical at any number of threads. The state rows of the batch are the truth; views give float32 copies,
made at most once after each step. Free bodies are read from the state itself; everything that MuJoCo derives (poses of
other bodies, sensors) is asked for only when a view needs it, because it costs an extra pass at the new state.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch, SimulationError
from torch import Tensor

from rookery.sim.buffers import check_tensors, under
from rookery.sim.cores import usable_cores
from rookery.sim.engines.ball_impacts import ball_impacts
from rookery.sim.engines.contact_sensors import ContactSums, SummedContacts, columns_of
from rookery.sim.engines.mujoco.counting import any_warned, raise_peaks
from rookery.sim.engines.mujoco.params import MujocoParams
from rookery.sim.engines.mujoco.readings import SensorReadings
from rookery.sim.engines.mujoco.views import Columns, MujocoActuators, MujocoBodies, MujocoJoints, MujocoSensor
from rookery.sim.errors import RookeryError
from rookery.sim.mujoco_warnings import take_warnings
from rookery.sim.multirotor.external_aerodynamics import external_aerodynamics
from rookery.sim.multirotor.free_bodies import FreeBodies, colliders_of, drift
from rookery.sim.scene import Scene
from rookery.sim.world import Ids, World, as_ids

_VEL = int(mujoco.mjtStage.mjSTAGE_VEL.value)
_NONE = int(mujoco.mjtStage.mjSTAGE_NONE.value)
_EULER = [
    int(i) for i in (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
]  # for free bodies
_WARN = mujoco.mjtWarning
# the warnings after which mj_step puts a simulation back to its defaults, and that of controls that are NaN or huge, which
# mj_step takes for zero and which end a rollout early
_DIVERGED = np.array(
    [int(w) for w in (_WARN.mjWARN_BADQPOS, _WARN.mjWARN_BADQVEL, _WARN.mjWARN_BADQACC, _WARN.mjWARN_BADCTRL)]
)


@functools.cache
def _stop_profiling() -> None:
    """Take MuJoCo's stopwatch away. Its Python package has a clock read at both ends of each stage of each step, which is a
    tenth of an arm's physics (measured), and offers only to exchange the clock for another: the C library's own variable is
    emptied. ``MjData.timer`` then counts calls and no time."""
    for path in Path(mujoco.__file__).parent.glob("libmujoco*"):
        ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), "mjcb_time").value = None


class MujocoWorld(World):
    """N copies of a scene on MuJoCo's batch.

    Args:
        scene: what is simulated.
        num_envs: N.
        threads: C threads; 0 takes one for each processor that this process may use.
    """

    engine = "mujoco"

    def __init__(self, scene: Scene, num_envs: int, threads: int = 0) -> None:
        self.model = scene.compile()
        self.model.geom_sameframe[colliders_of(self.model, 0)] = 0  # else MuJoCo does not read their places, see params
        self.num_envs = num_envs
        self.dt = float(self.model.opt.timestep)
        self.device = torch.device("cpu")
        take_warnings()  # the world counts what diverges itself
        _stop_profiling()
        self._flying = FreeBodies(scene, self.model, num_envs)
        self.wind = self._flying.wind
        self._aerodynamics = external_aerodynamics(self._flying)
        self._impacts = ball_impacts(scene, self.model, self._flying)  # before the batch copies the model
        self._constants = 0  # version of the parameters that the free bodies have
        self._flies = self._aerodynamics is not None or self._impacts is not None
        self._ahead = 0.5 * self.dt if self.model.opt.integrator in _EULER else 0.0  # s, see _fly
        self.batch = Batch(self.model, num_envs, threads or usable_cores())
        self._params = MujocoParams(self)
        self.scene = scene
        self._contact_pairs = scene.contact_pairs
        self._touching: ContactSums | None = None  # made by the first view of contacts
        self.peaks: np.ndarray | None = None  # [N, nu] N or N m, see keep_peaks
        self._forces = np.zeros((num_envs, 0, self.model.nu))  # of each physics step of a rollout
        self._rows: np.ndarray | None = None  # [N, K, nu] schedule of the next step
        self._failed = torch.zeros(0, dtype=torch.int64)
        self.version = 0
        self.needs_derived = False
        self._copied: set[str] = set()  # see derived
        self.readings = SensorReadings(self)
        self.batch.reset(stage=_NONE)
        self._initial = self.batch.state[0].copy()
        self._initial_control = self.batch.bind("ctrl")[0].copy()
        self._seen = self.batch.warning[:, _DIVERGED, 1].copy()

    def bodies(self, names: Sequence[str]) -> MujocoBodies:
        return MujocoBodies(self, names)

    def joints(self, names: Sequence[str]) -> MujocoJoints:
        return MujocoJoints(self, names)

    def actuators(self, names: Sequence[str]) -> MujocoActuators:
        return MujocoActuators(self, names)

    def sensors(self, name: str) -> MujocoSensor:
        sensor = MujocoSensor(self, name)
        self.readings.compute([sensor.id])
        self.derive()
        self.forward()
        return sensor

    def contact_sensor(self, geom: str, others: Sequence[str]) -> SummedContacts:
        columns = columns_of(self._contact_pairs, geom, others)
        if self._touching is None:
            self._touching = self._new_contacts()
        return SummedContacts(self._touching, geom, others, columns)

    def contact_count(self, name: str) -> torch.Tensor:
        return self.readings.count(name)

    def _new_contacts(self) -> ContactSums:
        pairs = self._contact_pairs
        sums: ContactSums
        if self._impacts is not None and all(self._impacts.resolves(pair) for pair in pairs):
            sums = ContactSums(self.num_envs, len(pairs))
        else:
            sums = self.readings.record(pairs)
        if self._impacts is not None:
            self._impacts.report(pairs, sums)
        return sums

    def keep_peaks(self) -> None:
        """From now on, `peaks` are the largest sizes of the actuators' forces over the physics steps of each `step`."""
        if self.peaks is None:
            self.peaks = np.zeros((self.num_envs, self.model.nu))

    @property
    def params(self) -> MujocoParams:
        return self._params

    def schedule(self, k: int, begin: bool = True) -> np.ndarray:
        """[N, k, nu] rows of controls for the next step of k physics steps, begun from what is held; or with
        whatever, for one who writes all of them."""
        if self._rows is None or self._rows.shape[1] != k:
            self._rows = np.repeat(self.batch.bind("ctrl")[:, None], k, axis=1)
        elif begin and not self._rows_pending:
            self._rows[:] = self.batch.bind("ctrl")[:, None]
        self._rows_pending = True
        return self._rows

    _rows_pending = False

    def hold(self, columns: Columns, control: np.ndarray) -> None:
        """Controls [N, U] of some actuators that were set after rows for others: they hold in every row."""
        if self._rows is not None and self._rows_pending:
            self._rows[:, :, columns] = control[:, None]

    def step(self, k: int = 1) -> None:
        self._params.flush()
        if self._touching is not None:
            self._touching.clear()
        self.readings.clear_counts()
        if self.peaks is not None:
            self.peaks[:] = 0.0
        rows = self._take_rows(k)
        if self.wind is not None:
            self.wind.blow(k)
        if self.inner_loops or self._flies:
            self._step_one_by_one(k, rows)
        elif rows is not None or self.peaks is not None or self.readings.every_step:
            self._rollout(k, rows)
        else:
            self._call(self._last_stage, k)
        self.version += 1
        self._collect_failures()

    @property
    def _last_stage(self) -> int:
        return _VEL if self.needs_derived else _NONE

    def _take_rows(self, k: int) -> np.ndarray | None:
        """The rows of controls [N, k, nu] that wait for this step."""
        if not self._rows_pending:
            return None
        assert self._rows is not None
        if self._rows.shape[1] != k:
            raise RookeryError(
                f"controls were given for {self._rows.shape[1]} physics steps, but step({k}) was called: give one row each."
            )
        self._rows_pending = False
        return self._rows

    def _step_one_by_one(self, k: int, rows: np.ndarray | None) -> None:
        """k steps with what other than MuJoCo acts in each: inner loops, which have the last word over rows of controls, and
        what free bodies have, see `_fly`."""
        if self._constants != self._params.version:
            self._constants = self._params.version
            self._flying.set_constants(self._params.arrays)
        control, wrench = self.batch.bind("ctrl"), self.batch.bind("xfrc_applied")
        bodies = self._flying.ids
        users = wrench[:, bodies]
        for i in range(k):
            if rows is not None:
                control[:] = rows[:, i]
            for loop in self.inner_loops:
                loop(i)
            if self._flies:
                self._fly(i, users, control, wrench)
            else:
                self._call(self._last_stage if i == k - 1 else _NONE)
            self.readings.take_present(i)
            self._raise_peaks(self.batch.bind("actuator_force")[:, None])
            self.version += 1
        if self._flies:  # between control steps the state holds the user's wrenches and no others
            wrench[:, bodies] = users
            if self.needs_derived:
                self.batch.forward(None, stage=_VEL)

    def _fly(self, i: int, users: np.ndarray, control: np.ndarray, wrench: np.ndarray) -> None:
        """Physics step i with the air and the impacts of balls, by the leapfrog method.

        MuJoCo's Euler integrator changes velocities by the forces at the pose that it finds, then the pose by the new
        velocities. Free bodies are moved half a step ahead before it and half a step back after it, each with the velocities
        of its time: forces are then those of the middle of the step, and the error is of second order at the cost of one
        evaluation. (RK4 takes four.) What depends on velocities is predicted, see ExternalAerodynamics.
        """
        qpos, qvel = self.batch.bind("qpos"), self.batch.bind("qvel")
        if self._aerodynamics is not None:
            self._aerodynamics.update(qpos, qvel, control, self.dt, users)
            wrench[:, self._flying.ids] = users + self._aerodynamics.wrench
            if self._ahead:
                wrench[:, self._flying.ids, 3:] += self._aerodynamics.precession
        if self._impacts is not None:
            self._impacts.begin(qpos, qvel)
        if self._ahead:  # by 0 s nothing moves: two calls a physics step less
            drift(qpos, qvel, self._flying.places, self._ahead)
        self._call(_NONE)
        if self._ahead:
            drift(qpos, qvel, self._flying.places, -self._ahead)
        if self._impacts is not None:
            self._impacts.resolve(qpos, qvel, i, self.dt)

    def _call(self, stage: int, nstep: int = 1) -> None:
        try:
            self.batch.step(nstep=nstep, stage=stage)
        except SimulationError as e:
            self._put_back(e.ids)

    def _rollout(self, k: int, rows: np.ndarray | None) -> None:
        """k steps with rows of controls [N, k, nu], or with those held, whose contacts and forces are recorded one by one."""
        # rollout cannot compute derived values at the end, so the last step is taken apart when a view needs them
        head = k - 1 if self.needs_derived else k
        if head:
            out: dict[str, np.ndarray] = {}
            if self.readings.every_step:
                out["sensordata"] = self.readings.room(head)
            if self.peaks is not None:
                if self._forces.shape[1] != head:
                    self._forces = np.zeros((self.num_envs, head, self.model.nu))
                out["actuator_force"] = self._forces
            try:
                self.batch.rollout(head, None if rows is None else rows[:, :head], record=tuple(out), out=out)
            except SimulationError as e:
                self._put_back(e.ids)
            if self.readings.every_step:
                self.readings.take(out["sensordata"], 0)
            self._raise_peaks(self._forces)
        if self.needs_derived:
            if rows is not None:
                self.batch.bind("ctrl")[:] = rows[:, -1]
            self._call(_VEL)
            self._raise_peaks(self.batch.bind("actuator_force")[:, None])
            self.readings.take_present(head)

    def _raise_peaks(self, forces: np.ndarray) -> None:
        """Take the forces [N, k, nu] of k physics steps into the peaks, where they are kept."""
        if self.peaks is not None:
            raise_peaks(forces, self.peaks)

    def _put_back(self, ids: np.ndarray) -> None:
        """MuJoCo raised in these copies and left their state: count and reset them."""
        self.batch.warning[ids, _DIVERGED[0], 1] += 1

    def _collect_failures(self) -> None:
        if not any_warned(self.batch.warning, _DIVERGED, self._seen):
            if len(self._failed):
                self._failed = torch.zeros(0, dtype=torch.int64)
            return
        bad = np.flatnonzero((self.batch.warning[:, _DIVERGED, 1] != self._seen).any(axis=1))
        self._failed = torch.from_numpy(bad.astype(np.int64))
        self.failures += len(bad)
        if self._touching is not None:
            self._touching.clear(self._failed)
        self.readings.clear_counts(self._failed)
        if self.peaks is not None:
            self.peaks[bad] = 0.0
        self.reset(self._failed)
        # mj_step's own reset begins to count anew: from zero here too, or the next failure would look like the last one
        self.batch.warning[bad] = 0
        self._seen = self.batch.warning[:, _DIVERGED, 1].copy()

    @property
    def failed(self) -> Tensor:
        return self._failed

    def reset(self, ids: Ids = None) -> None:
        """See World. Works on the state rows directly, which is what mj_resetData amounts to for a batch."""
        rows = slice(None) if ids is None else ids.cpu().numpy()
        self.batch.state[rows] = self._initial
        if self._rows is not None and self._rows_pending:
            self._rows[rows] = self._initial_control
        if self.wind is not None:
            self.wind.begin(as_ids(ids, self.num_envs).astype(np.int64))
        if self.needs_derived:
            self.batch.forward(None if ids is None else as_ids(ids, self.num_envs), stage=_VEL)
        self.version += 1

    def forward(self, ids: Ids = None) -> None:
        self._params.flush()
        if self.needs_derived:
            self.batch.forward(None if ids is None else as_ids(ids, self.num_envs), stage=_VEL)
        self.version += 1

    def derive(self) -> None:
        """From now on, keep what MuJoCo derives from the state (kinematics, sensors) up to date after every step; views that
        read it ask for it. It costs one more evaluation of kinematics, and the last physics step apart from the others."""
        if not self.needs_derived:
            self._derive()

    def _derive(self) -> None:
        self.needs_derived = True
        self._params.flush()
        self.batch.forward(None, stage=_VEL)

    def derived(self, *names: str) -> list[np.ndarray]:
        """Fields of MjData [N, ...] that MuJoCo derives from the state, from now on kept up to date."""
        arrays = [self.batch.bind(name) for name in names]
        if not self._copied.issuperset(names):
            self._copied.update(names)
            self._derive()  # what is copied from now on is zero until then
        return arrays

    def snapshot(self) -> dict[str, Tensor]:
        self._params.flush()
        out = {
            "state": torch.from_numpy(self.batch.state.copy()),
            "warnings": torch.from_numpy(self.batch.warning.copy()),
        }
        out["failures"] = torch.tensor(self.failures)
        out.update({f"params.{k}": v for k, v in self._params.snapshot().items()})
        return out | self._wind_snapshot()

    def check_snapshot(self, snapshot: dict[str, Tensor]) -> None:
        saved = snapshot.get("state", torch.empty(0, 0))
        if saved.shape != self.batch.state.shape:
            worlds, size = (*saved.shape, 0, 0)[:2]
            raise RookeryError(
                f"the snapshot holds {worlds} worlds of {size} numbers, this world has {self.batch.state.shape[0]} of "
                f"{self.batch.state.shape[1]}: use the same task, engine and num_envs."
            )
        own = {
            "state": torch.from_numpy(self.batch.state),
            "warnings": torch.from_numpy(self.batch.warning),
            "failures": torch.tensor(0),
        }
        check_tensors(own | self._wind_snapshot(), snapshot)
        self._params.check(under("params", snapshot))

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        self.check_snapshot(snapshot)
        self.batch.state[:] = snapshot["state"].numpy()
        self.batch.warning[:] = snapshot["warnings"].numpy()
        self._seen = self.batch.warning[:, _DIVERGED, 1].copy()
        self.failures = int(snapshot["failures"])
        self._params.restore(under("params", snapshot))
        self._restore_wind(snapshot)
        self.forward()

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        data = self.batch.get_data(i, data)
        mujoco.mj_forward(self.batch.get_model(i), data)
        return data

    def close(self) -> None:
        self.inner_loops = ()
