"""Our simulated arm on topics of ROS 2: joint states out, and two controllers of ros2_control in: joint_trajectory_controller,
which follows trajectories of any number of points, and forward_position_controller, which takes positions. Whichever was told
something last moves the arm, and both hold its last position where messages stop. A drive that has failed ends both.

What joints do not measure, the places of objects, goes out by UDP as a tracker's (sim2real/links/tracker.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.sim2real.links import cia402
from rookery.sim2real.links.dds import Participant, cyclone
from rookery.sim2real.links.ros2 import COMMANDS, STATES, TAKEN
from rookery.sim2real.links.ros2_messages import dds_topic, joint_state, read_multi_array, read_trajectory, ros_types
from rookery.sim2real.vehicles.drive_arm import DriveArm
from rookery.sim2real.vehicles.network import NetworkConfig, PacketChannel
from rookery.sim2real.vehicles.object_tracker import ObjectTracker, objects_of
from rookery.sim2real.vehicles.port import Peer

PERIOD = 5  # steps of the arm, of 1 ms, between two joint states and two looks at its topics
HAND = "gripper"  # name of its eighth joint


class Ros2Arm:
    """An arm behind DDS.

    Args:
        vehicle: the simulated arm.
        station: where the tracker's datagrams go; None for none.
        interface: network interface that it is at.
        domain: of DDS, ROS_DOMAIN_ID.
        network: faults of the network.
        seed: of them.

    Attributes:
        names: of its joints.

    Raises:
        RookeryError: there is no such interface, or cyclonedds is not installed.
    """

    def __init__(
        self, vehicle: DriveArm, station: Peer | None = None, interface: str = "lo", domain: int = 0,
        network: NetworkConfig | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        cyclone("ros2")
        self.vehicle = vehicle
        self.names = (*vehicle.joints, HAND)[: len(vehicle.axes)]
        k = ros_types()
        participant = Participant(interface, domain)
        self._states = participant.objects_writer(dds_topic(STATES), k.JointState)
        self._readers = {
            form: participant.objects(dds_topic(topic), getattr(k, kind)) for form, (topic, kind) in COMMANDS.items()
        }
        config = NetworkConfig() if network is None else network
        self._leaving: PacketChannel[Any] = PacketChannel(config, 2 * seed)
        self._arriving: PacketChannel[tuple[str, Any]] = PacketChannel(config, 2 * seed + 1)
        self._points: list[tuple[float, list[float]]] = []  # s of its clock and positions that are still to come
        self._tracker = ObjectTracker(objects_of(vehicle), station)
        self.where = f"{interface}, DDS domain {domain}, joints {', '.join(self.names)}{self._tracker.where}"
        self._steps = 0
        for axis in vehicle.axes:
            axis.mode = cia402.CYCLIC_SYNCHRONOUS_POSITION
            for word in (cia402.TO_SHUT_DOWN, cia402.TO_SWITCH_ON, cia402.TO_ENABLE):
                axis.control(word)

    def receive(self) -> None:
        """Take the commands that have arrived, and go on with them."""
        now = self.vehicle.now
        if self._steps % PERIOD == 0:
            for form, reader in self._readers.items():
                for sample in reader.take(TAKEN):
                    self._arriving.put(now, (form, sample))
        for form, sample in self._arriving.take(now):
            self.take(form, sample)
        if self._points and now >= self._points[0][0] - 1e-9:
            self._points.pop(0)
            self._go()

    def take(self, form: str, sample: Any) -> None:
        """Take a command of a controller; one that is not for exactly these joints changes nothing."""
        now = self.vehicle.now
        if form == "trajectory":
            points = read_trajectory(sample, self.names)
            if not points:
                return
            self._points = [(now + due, positions) for due, positions in points]
            self._go()
        else:
            values = read_multi_array(sample, len(self.names))
            if values is not None:
                self._points = []
                self._move(values, PERIOD * self.vehicle.period)

    def _go(self) -> None:
        """Towards the next point."""
        if self._points:
            due, positions = self._points[0]
            self._move(positions, due - self.vehicle.now)

    def _move(self, positions: list[float], seconds: float) -> None:
        for axis, target in zip(self.vehicle.axes, positions, strict=True):
            axis.take(target, max(seconds, self.vehicle.period))

    def send(self) -> None:
        """Joint states, and what the tracker sees."""
        now = self.vehicle.now
        self._steps += 1
        if self._steps % PERIOD == 0:
            rows = np.array([self.vehicle.encoder(i) for i in range(len(self.names))], float).T
            self._leaving.put(now, joint_state(now, self.names, rows))
            if not all(axis.enabled for axis in self.vehicle.axes):
                self._readers.clear()  # its controllers are deactivated, which whoever commands them sees
        for message in self._leaving.take(now):
            self._states.write(message)
        self._tracker.send()

    def close(self) -> None:
        """Leave the domain."""
        del self._states, self._readers
        self._tracker.close()
