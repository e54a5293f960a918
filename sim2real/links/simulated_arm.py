"""A link to a simulated arm in this process."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.arm_drive import DERIVED, KINDS, ArmDrive, MotionLimits
from rookery.sim2real.links.link import Identity
from rookery.sim2real.links.simulated import SimulatedLink
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.arm import ArmVehicle

JOINT_QUANTITIES = ("joint angles", "joint velocities", "joint torques", "external torques")
RECEIVED = 4  # periods of the vehicle between two readings
REST_RAD_S = 1e-4  # rad/s, of references that count as at rest


class SimulatedArm(SimulatedLink):
    """To an arm that `advance` steps. Above it, joints are in the contract's order.

    Args:
        vehicle: the simulated arm.
        clock: of the runtime.
        group: of the contract.

    Raises:
        RookeryError: the contract's commands do not lead to joint positions, or the arm lacks a joint.
    """

    def __init__(self, vehicle: ArmVehicle, clock: TimeSource, group: ContractGroup) -> None:
        super().__init__(clock)
        self.url = f"sim://{vehicle.kind.name}"
        self.vehicle = vehicle
        kind = vehicle.kind
        limits = MotionLimits(kind.lower, kind.upper, kind.speed, kind.acceleration, kind.jerk)
        self.drive = ArmDrive(group, vehicle.period, limits)
        if set(self.drive.names) != set(vehicle.joints):
            raise RookeryError(
                f"the contract's joints are {', '.join(self.drive.names)}, and those of the arm {kind.name} are "
                f"{', '.join(vehicle.joints)}."
            )
        self._places = [vehicle.joints.index(name) for name in self.drive.names]
        self._steps = 0
        self._stopping = False
        self._success: bool | None = None

    def open(self, timeout_s: float = 10.0) -> Identity:
        v = self.vehicle
        names = (*v.quantities, *(q.name for q in DERIVED))
        return Identity("arm", v.kind.name, KINDS, names, 1.0 / v.period, v.joints)

    def _sense(self) -> Reading:
        reading = self.vehicle.sense()
        values = dict(reading.values)
        values |= {name: values[name][self._places] for name in JOINT_QUANTITIES}
        derived = self.drive.derived(values["joint angles"], self.drive.goal)
        return dataclasses.replace(reading, values=values, estimates=derived)

    def arm(self) -> None:
        if not self.cut:
            self._stopping = False
            self.vehicle.arm()
            self.drive.start(self.vehicle.monitor.position[self._places])

    def disarm(self) -> None:
        if not self.cut:
            self.vehicle.disarm()

    def engage(self) -> None:
        """Its joint positions are enough."""

    @property
    def engaged(self) -> bool:
        return self.vehicle.mode == "setpoints"

    def begin(self) -> None:
        reading = self.read()
        assert reading is not None
        self.drive.begin_policy(reading.values["joint angles"])
        self.vehicle.begin_episode()

    def write(self, kind: str, command: ArrayLike) -> None:
        reading = self.read()
        assert reading is not None
        self.drive.command(command, reading.values["joint angles"], reading.values["joint velocities"])

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        self.drive.go(position)

    def react(self, reaction: str) -> None:
        if reaction == "damp":
            self.disarm()
            return
        if not self._stopping:
            self.drive.stop()
            self._stopping = True
        if np.abs(self.drive.speed).max() < REST_RAD_S:
            self.disarm()  # its own controller holds it

    def end(self) -> None:
        self._success = self.vehicle.success

    @property
    def success(self) -> bool | None:
        return self._success

    def advance(self) -> None:
        """A period of the vehicle, and of what is sent to it."""
        v = self.vehicle
        if v.armed and not self.cut:
            angles = np.empty(len(self._places))
            angles[self._places] = self.drive.tick()
            v.setpoint(angles)
            v.opening_goal = self.drive.opening
        v.step()
        self._steps += 1
        if self._steps % RECEIVED == 0:
            self.receive()
