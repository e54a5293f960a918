"""Our simulated drones on topics of ROS 2: `/odom` (nav_msgs/Odometry) and `/imu` (sensor_msgs/Imu) out, `/cmd_vel`
(geometry_msgs/Twist) and `/cmd_vel_stamped` (TwistStamped) in, whose linear part is in the axes of the heading. Of several
drones each has topics below `/drone_0`, `/drone_1` and so on.

A twist that goes up arms one that stands. Where twists stop it lands by itself.
"""

from __future__ import annotations

import math
from typing import Any

from rookery.sim2real.links.dds import Participant, cyclone
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.ros2_messages import dds_topic, imu, odometry, read_twist, ros_types
from rookery.sim2real.links.ros2_twist import COMMANDS, ODOMETRY, TAKEN
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.network import NetworkConfig, PacketChannel

IMU, STAMPED = "/imu", "/cmd_vel_stamped"
UP_M_S = 0.05  # m/s, of a twist that arms it


class Ros2Drone:
    """One drone of a vehicle behind DDS.

    Args:
        vehicle: the simulated drones.
        number: which of them.
        interface: network interface that it is at.
        domain: of DDS, ROS_DOMAIN_ID.
        network: faults of the network.
        seed: of them.
        silence_s: s without a twist after which it lands by itself.

    Raises:
        RookeryError: there is no such interface, or cyclonedds is not installed.
    """

    def __init__(
        self, vehicle: DroneVehicle, number: int = 0, interface: str = "lo", domain: int = 0,
        network: NetworkConfig | None = None, seed: int = 0, silence_s: float = 0.06,
    ) -> None:  # fmt: skip
        cyclone("ros2")
        self.vehicle, self.number = vehicle, number
        vehicle.timeout_s = silence_s
        k = ros_types()
        participant = Participant(interface, domain)
        under = f"/drone_{number}" if vehicle.count > 1 else ""
        self._odometry = participant.objects_writer(dds_topic(under + ODOMETRY), k.Odometry)
        self._imu = participant.objects_writer(dds_topic(under + IMU), k.Imu)
        self._readers = [
            participant.objects(dds_topic(under + COMMANDS), k.Twist),
            participant.objects(dds_topic(under + STAMPED), k.TwistStamped),
        ]
        config = NetworkConfig() if network is None else network
        self._leaving: PacketChannel[tuple[Any, Any]] = PacketChannel(config, 2 * seed)
        self._arriving: PacketChannel[Any] = PacketChannel(config, 2 * seed + 1)
        self.where = f"drone {number} on {interface}, DDS domain {domain}, {under + ODOMETRY} and {under + COMMANDS}"

    def receive(self) -> None:
        """Take the twists that have arrived."""
        now = self.vehicle.now
        for reader in self._readers:
            for sample in reader.take(TAKEN):
                self._arriving.put(now, sample)
        for sample in self._arriving.take(now):
            self.take(sample)

    def take(self, sample: Any) -> None:
        """Follow a twist; what is none changes nothing."""
        values = read_twist(sample)
        if values is None:
            return
        vehicle, i = self.vehicle, self.number
        ahead, left, up, turn = values
        if not vehicle.armed(i):
            if up < UP_M_S:
                return
            vehicle.arm(i)
        yaw = euler(vehicle.truth(i)["rotation"])[2]
        c, s = math.cos(yaw), math.sin(yaw)
        vehicle.setpoint(i, "velocity", (c * ahead - s * left, s * ahead + c * left, up, turn))
        vehicle.offboard(i)

    def send(self) -> None:
        """Odometry and IMU of this control step."""
        now = self.vehicle.now
        values = self.vehicle.sense(self.number).values
        self._leaving.put(now, (self._odometry, odometry(now, values)))
        self._leaving.put(now, (self._imu, imu(now, values["rotation"], values["angular velocity"])))
        for writer, message in self._leaving.take(now):
            writer.write(message)

    def close(self) -> None:
        """Leave the domain."""
        del self._odometry, self._imu, self._readers
