"""Links to simulated vehicles in this process, without a network: dry runs and tests."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.height_map import SEEN, GroundSampler, ground_scan
from rookery.sim2real.links.joints import KINDS, JointOrder, JointTargets
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.estimators import EstimatorChoice
from rookery.sim2real.runtime.reading import Array, Reading
from rookery.sim2real.vehicles import joints as jointed
from rookery.sim2real.vehicles.drone import QUANTITIES, SETPOINTS, DroneVehicle
from rookery.sim2real.vehicles.joints import JointVehicle
from rookery.sim2real.vehicles.lidar_map import MAP_S, LidarMap


class SimulatedLink(Link):
    """To a vehicle that its owner steps.

    Args:
        clock: of the runtime.

    Attributes:
        fault: turns a reading into a damaged one, or None for one that is lost; for tests.
        cut: nothing arrives any more, and nothing is sent.
    """

    def __init__(self, clock: TimeSource) -> None:
        self.fault: Callable[[Reading], Reading | None] | None = None
        self.cut = False
        self._clock = clock
        self._reading: Reading | None = None

    @abc.abstractmethod
    def advance(self) -> None:
        """A period of the vehicle."""

    @abc.abstractmethod
    def _sense(self) -> Reading:
        """Measure now."""

    def receive(self) -> None:
        """Take what the vehicle measures now."""
        if self.cut:
            return
        now = self._clock.now()
        reading: Reading | None = dataclasses.replace(self._sense(), received=now)
        if self.fault is not None and reading is not None:
            reading = self.fault(reading)
        if reading is not None:
            self.heard = now
            self._reading = reading

    def read(self) -> Reading | None:
        return self._reading

    def close(self) -> None:
        pass


class SimulatedDrone(SimulatedLink):
    """To drone i of a vehicle.

    Args:
        vehicle: the simulated vehicle.
        clock: of the runtime.
        number: i.
    """

    def __init__(self, vehicle: DroneVehicle, clock: TimeSource, number: int = 0) -> None:
        super().__init__(clock)
        self.url = f"sim://{number}"
        self.vehicle = vehicle
        self._i = number

    def open(self, timeout_s: float = 10.0) -> Identity:
        return Identity(
            "multirotor", self.vehicle.drones.drone.name, tuple(SETPOINTS), QUANTITIES, 1.0 / self.vehicle.period
        )

    def advance(self) -> None:
        self.vehicle.step()
        self.receive()

    def _sense(self) -> Reading:
        return self.vehicle.sense(self._i)

    def arm(self) -> None:
        if not self.cut:
            self.vehicle.arm(self._i)

    def disarm(self) -> None:
        if not self.cut:
            self.vehicle.disarm(self._i)

    def engage(self) -> None:
        if not self.cut:
            self.vehicle.offboard(self._i)

    @property
    def engaged(self) -> bool:
        return self.vehicle.mode(self._i) == "offboard"

    def write(self, kind: str, command: ArrayLike) -> None:
        if not self.cut:
            self.vehicle.setpoint(self._i, kind, np.asarray(command, float).tolist())

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        self.write("position", [*np.asarray(position, float).tolist(), yaw])

    def react(self, reaction: str) -> None:
        if self.cut:
            return
        if reaction == "stop":
            self.vehicle.disarm(self._i)
        else:
            self.vehicle.land(self._i)


class SimulatedJoints(SimulatedLink):
    """To a jointed vehicle. Above it, joints are in the contract's order.

    Args:
        vehicle: the simulated vehicle.
        clock: of the runtime.
        group: of the contract.

    Raises:
        RookeryError: the contract's commands are no angles of joints.
    """

    def __init__(self, vehicle: JointVehicle, clock: TimeSource, group: ContractGroup) -> None:
        super().__init__(clock)
        self.url = f"sim://{vehicle.kind.name}"
        self.vehicle = vehicle
        self._contract = JointTargets(group)
        self._order: JointOrder | None = None
        self._sent: tuple[Array, Array, Array] | None = None
        self.estimate_by(EstimatorChoice())
        scan = ground_scan(group)
        self._ground = None if scan is None else GroundSampler(scan)
        self._lidar = LidarMap(vehicle, vehicle.noise)
        self._looked = -np.inf  # s, the vehicle's clock at the newest map

    def estimate_by(self, choice: EstimatorChoice) -> None:
        self._estimator = choice.made(self.vehicle.kind, self.vehicle.joints)

    def open(self, timeout_s: float = 10.0) -> Identity:
        v = self.vehicle
        if set(self._contract.names) <= set(v.joints):  # others are refused by the check of the contract
            self._order = JointOrder(self._contract.names, v.joints)
        told = dict(self._estimator.quantities) | ({} if self._ground is None else {self._ground.name: SEEN})
        quantities = (*jointed.QUANTITIES, *told)
        by = self._estimator.name
        return Identity(
            "joints", v.kind.name, KINDS, quantities, 1.0 / v.period, v.joints, estimated=told, estimator=by
        )

    def advance(self) -> None:
        self.vehicle.step()
        self.receive()

    def _sense(self) -> Reading:
        reading = self.vehicle.sense()
        estimates = self._estimator.update(reading.values, reading.measured)
        ground = None if self._ground is None else self._see(self._ground, reading.values["rotation"], estimates)
        reading = dataclasses.replace(reading, estimates=estimates, ground=ground)
        if self._order is None:
            return reading
        turn = {name: self._order.from_vehicle(reading.values[name]) for name in jointed.JOINT_QUANTITIES}
        return dataclasses.replace(reading, values={**reading.values, **turn})

    def _see(self, ground: GroundSampler, rotation: Array, estimates: dict[str, Array]) -> float:
        """Add the heights of the ground to the estimates; see `Reading.ground`."""
        now = self._clock.now()
        ground.take_pose(self._lidar.pose(), now, rotation)
        if self.vehicle.now - self._looked >= MAP_S - 1e-9:
            self._looked = self.vehicle.now
            ground.take_map(self._lidar.map(), now)
        found = ground.heights(rotation)
        if found is None:
            return -np.inf
        estimates[ground.name] = found
        return ground.received

    def arm(self) -> None:
        if not self.cut:
            self.vehicle.arm()

    def disarm(self) -> None:
        if not self.cut:
            self.vehicle.disarm()

    def engage(self) -> None:
        """Its set-points are enough."""

    @property
    def engaged(self) -> bool:
        return self.vehicle.mode == "setpoints"

    def write(self, kind: str, command: ArrayLike) -> None:
        c = self._contract
        self.hold_joints(c.targets(np.asarray(command, np.float32)), c.kp, c.kd)

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        if self.cut or self._order is None:
            return
        sent = [np.asarray(values, np.float32) for values in (position, stiffness, damping)]
        self._sent = (sent[0], sent[1], sent[2])
        q, kp, kd = (self._order.to_vehicle(values) for values in sent)
        self.vehicle.setpoint(q, stiffness=kp, damping=kd)

    def react(self, reaction: str) -> None:
        if reaction == "hold" and self._sent is not None:
            self.hold_joints(*self._sent)  # not where the joints are: soft servos carry the weight by what is missing
            return
        none = np.zeros_like(self._contract.kp)
        self.hold_joints(none, none, jointed.DAMPING * self._contract.kd)
