"""World: N copies of one scene on an engine, read and written through named views.

Views are resolved by name once, when the task is set up. Readers give float32 tensors on the world's device; the engine's
own precision is kept inside and in snapshots. Every engine implements these classes; tasks never see which one it is.

Conventions: SI units; world frame x east, y north, z up; quaternions w, x, y, z; angular velocity in the body frame.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.buffers import under
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.multirotor.onboard import Multirotors
    from rookery.sim.multirotor.winds import Wind
    from rookery.sim.scene import Scene

Ids = Tensor | None
"""World indices, int64 [n], sorted and unique; None means all worlds."""


class Bodies(abc.ABC):
    """B named bodies in all N worlds."""

    names: tuple[str, ...]

    @property
    @abc.abstractmethod
    def state(self) -> Tensor:
        """[N, B, 13]: pos 3 (m, world), quat 4 (wxyz, body to world), lin_vel 3 (m/s, world, of the body's frame
        origin), ang_vel 3 (rad/s, body). Valid until the next step or write."""

    @property
    def pos(self) -> Tensor:
        """[N, B, 3] m, world: origin of the body frame."""
        return self.state[..., 0:3]

    @property
    def quat(self) -> Tensor:
        """[N, B, 4] wxyz, body to world."""
        return self.state[..., 3:7]

    @property
    def lin_vel(self) -> Tensor:
        """[N, B, 3] m/s, world: velocity of the origin of the body frame."""
        return self.state[..., 7:10]

    @property
    def ang_vel(self) -> Tensor:
        """[N, B, 3] rad/s, body frame."""
        return self.state[..., 10:13]

    @abc.abstractmethod
    def set_state(self, ids: Ids, state: Tensor) -> None:
        """Write [n, B, 13] (layout of `state`) of free bodies, or of mocap bodies, whose velocity is not read. Raises
        RookeryError for others, and for a view of both kinds."""

    @abc.abstractmethod
    def set_wrench(self, wrench: Tensor, ids: Ids = None) -> None:
        """Hold an external wrench [n, B, 6] in the worlds `ids`: force N then torque N m, both world frame, at the centre of
        mass, in all following physics steps until the next call."""


class Joints(abc.ABC):
    """J named one-degree-of-freedom joints in all N worlds."""

    names: tuple[str, ...]

    @property
    @abc.abstractmethod
    def pos(self) -> Tensor:
        """[N, J] rad or m."""

    @property
    @abc.abstractmethod
    def vel(self) -> Tensor:
        """[N, J] rad/s or m/s."""

    def keep_torque(self) -> None:
        """From now on, keep `torque`; it costs the engine a copy of all forces in each control step.

        Raises:
            RookeryError: the engine cannot.
        """
        raise RookeryError("this engine does not keep the torques of joints: take mujoco or pybullet.")

    @property
    def torque(self) -> Tensor:
        """[N, J] N m or N, what actuators give at the joint in the last physics step, with what they compensate of gravity
        (`actuatorgravcomp`). Only after `keep_torque`."""
        raise NotImplementedError

    @abc.abstractmethod
    def set_state(self, ids: Ids, pos: Tensor | None = None, vel: Tensor | None = None) -> None:
        """Write positions and velocities, each [n, J]."""


class Actuators(abc.ABC):
    """U named actuators in all N worlds."""

    names: tuple[str, ...]

    @property
    @abc.abstractmethod
    def force(self) -> Tensor:
        """[N, U] scalar actuator force (N or N m), as applied in the last physics step."""

    def keep_peaks(self) -> None:
        """From now on, keep `peak`; it costs the engine a copy of all forces in each physics step.

        Raises:
            RookeryError: the engine cannot.
        """
        raise RookeryError("this engine does not keep the peaks of actuator forces: take mujoco or pybullet.")

    @property
    def peak(self) -> Tensor:
        """[N, U] N or N m, largest size of `force` in any of the K physics steps of the last `step(K)`; 0 in worlds that
        diverged in it. Only after `keep_peaks`."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def control(self) -> Tensor:
        """[N, U] control now held."""

    @abc.abstractmethod
    def set_control(self, control: Tensor) -> None:
        """[N, U]: held until the next call. [N, K, U]: one row for each of the K physics steps of the next `step(K)`;
        the last row is held afterwards."""


class EngineSensor(abc.ABC):
    """One named sensor in all N worlds."""

    name: str

    @property
    @abc.abstractmethod
    def data(self) -> Tensor:
        """[N, d], current after `step`, `forward` and `reset`."""


class ContactSensor(abc.ABC):
    """Contacts of one geom with B others in the last `step(k)`, its K physics steps taken together.

    Engines with soft contacts (mujoco) take several steps for a bounce, which may then go on in the next `step(k)`.
    """

    geom: str
    names: tuple[str, ...]

    @property
    @abc.abstractmethod
    def impulse(self) -> Tensor:
        """[N, B] N s: sum of the normal impulses; above 0 where they touched."""

    @property
    @abc.abstractmethod
    def when(self) -> Tensor:
        """[N, B] s since the beginning of that step(k) at which the first of these contacts happened, inf where none."""


class Params(abc.ABC):
    """Per-world physical parameters. A field is shared by all worlds until it is first written.

    Fields: "mass" (body, [N, B]), "inertia" (body, principal moments, [N, B, 3]), "friction" (geom, [N, G, 3]),
    "gravity" (no names, [N, 3]), "damping" and "armature" (joint, [N, J]), "gain" and "bias" (actuator, first
    parameter, [N, U]), "height" (static geom, z of its place, m, [N, G]; on `rotor` the one level plane). On
    `mujoco` and `pybullet` also "com" (body, centre of mass in the body's frame, [N, B, 3]), "frictionloss" (joint, dry
    friction, [N, J]), and "kp", "kd" [N, U] and "force_range" [N, U, 2] of `dcmotor` actuators. On `mujoco` alone
    "inertia_axes" (body, quaternion wxyz of the principal axes in the body's frame, [N, B, 4]), "bias_position" and
    "bias_velocity" (actuator, minus the gains of a servo, [N, U]) and "motor_constant" (`dcmotor` actuator, [N, U]). Derived
    constants (inverse weights, ...) follow every write.
    """

    @abc.abstractmethod
    def supports(self, field: str) -> bool:
        """True where this engine has the field."""

    @abc.abstractmethod
    def get(self, field: str, names: Sequence[str] = ()) -> Tensor:
        """Current values, float32."""

    @abc.abstractmethod
    def set(self, field: str, names: Sequence[str], values: Tensor, ids: Ids = None) -> None:
        """Write values [n, len(names), ...] for the worlds `ids`."""

    @abc.abstractmethod
    def nominal(self, field: str, names: Sequence[str] = ()) -> Tensor:
        """The scene's own values, without the world axis."""


class World(abc.ABC):
    """N copies of a scene.

    Attributes:
        engine: registered name, such as "mujoco".
        scene: what is simulated.
        wind: in which drones fly, which randomization may change; None where there are no drones.
        num_envs: N.
        dt: physics step in s.
        device: torch device of the tensors that views give.
        model: the scene's compiled MuJoCo model (nominal parameters), also on engines that are not MuJoCo.
        version: counts changes of the state, so that who has read it knows when that is old.
    """

    engine: str
    scene: Scene
    wind: Wind | None = None
    num_envs: int
    dt: float
    device: torch.device
    model: mujoco.MjModel
    version: int

    inner_loops: tuple[Callable[[int], None], ...] = ()
    """Called in turn with the index i = 0..k-1 before each physics step of `step(k)`. Only for fast loops that depend on the
    state and have no native form; they make the engine return to Python at every physics step."""

    @abc.abstractmethod
    def bodies(self, names: Sequence[str]) -> Bodies:
        """View of bodies. Raises RookeryError with the nearest match for an unknown name; so do all views."""

    @abc.abstractmethod
    def joints(self, names: Sequence[str]) -> Joints: ...

    @abc.abstractmethod
    def actuators(self, names: Sequence[str]) -> Actuators: ...

    @abc.abstractmethod
    def sensors(self, name: str) -> EngineSensor: ...

    @abc.abstractmethod
    def contact_sensor(self, geom: str, others: Sequence[str]) -> ContactSensor:
        """Contacts of one geom with others, which the scene must have (`Scene.add_contact_sensor`). Full names of geoms."""

    def contact_count(self, name: str) -> Tensor:
        """[N] most contact points in any physics step of the last `step(k)`, of a count of the scene
        (`Scene.count_contacts`); kept up to date, and 0 in worlds that diverged.

        Raises:
            RookeryError: the scene has no such count, or the engine cannot count.
        """
        raise RookeryError(f"the engine {self.engine!r} does not count contacts: take mujoco or pybullet.")

    def multirotors(self, names: Sequence[str]) -> Multirotors | None:
        """View of rotors and onboard controllers of the drones with these prefixes; None on an engine that has none inside,
        where `rookery.robots.drones` computes them."""
        return None

    @property
    @abc.abstractmethod
    def params(self) -> Params: ...

    @abc.abstractmethod
    def step(self, k: int = 1) -> None:
        """Advance all worlds by k physics steps; afterwards all views are current."""

    def seed(self, seed: int, starts: int = 0, first: int = 0) -> None:
        """Start the engine's own random streams anew, where it has any (gusts); `starts` and `first` as in Streams."""
        if self.wind is not None:
            self.wind.seed(seed, starts, first)

    @abc.abstractmethod
    def reset(self, ids: Ids = None) -> None:
        """Put worlds back to the scene's initial state (zero velocity, control, wrench and warm start)."""

    @abc.abstractmethod
    def forward(self, ids: Ids = None) -> None:
        """Make derived values (other bodies' poses, sensors) current after writes to the state."""

    @property
    @abc.abstractmethod
    def failed(self) -> Tensor:
        """int64 ids of the worlds whose physics diverged in the last `step`. They were put back to the initial state;
        `failures` counts them for good."""

    failures: int = 0

    @abc.abstractmethod
    def snapshot(self) -> dict[str, Tensor]:
        """The exact physics state and per-world parameters of all worlds, on the CPU."""

    @abc.abstractmethod
    def check_snapshot(self, snapshot: dict[str, Tensor]) -> None:
        """Refuse a snapshot that does not fit; nothing is changed.

        Raises:
            ValueError: a part is missing, or of another shape or type.
            RookeryError: it is of another number of worlds or another scene.
        """

    @abc.abstractmethod
    def restore(self, snapshot: dict[str, Tensor]) -> None:
        """Put a snapshot back: the continued simulation equals the uninterrupted one bit for bit where the engine can
        (mujoco), to its own precision elsewhere. One that does not fit is refused as by `check_snapshot`."""

    @abc.abstractmethod
    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        """World i as MjData of `model`, forwarded, for rendering. Works on every engine."""

    def _wind_snapshot(self) -> dict[str, Tensor]:
        """The wind's part of a snapshot."""
        return {} if self.wind is None else {f"wind.{k}": v for k, v in self.wind.snapshot(self.num_envs).items()}

    def _restore_wind(self, snapshot: dict[str, Tensor]) -> None:
        if self.wind is not None:
            self.wind.restore(under("wind", snapshot))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies and pickles: what an engine holds belongs to its process.

        Raises:
            RookeryError: always.
        """
        raise RookeryError(
            "the worlds of an engine cannot be copied: make them anew and restore(worlds.snapshot()), or copy an environment "
            "that rookery.make has made."
        )

    def close(self) -> None:
        """Free what the engine holds."""


def as_ids(ids: Ids, n: int) -> np.ndarray:
    """World indices as a sorted int32 array."""
    return np.arange(n, dtype=np.int32) if ids is None else ids.cpu().numpy().astype(np.int32)
