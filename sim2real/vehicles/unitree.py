"""Our simulated Go2 at the low level of a real one: `rt/lowstate` out and `rt/lowcmd` in by DDS, at 500 Hz.

Its lidar's map of the ground and its place in that come as `rt/utlidar/height_map_array` and `rt/utlidar/robot_pose`. It also
tells its true place and velocity as `rt/sportmodestate`, as Unitree's simulation does (unitree_mujoco); a real robot is silent
there while its sport mode is off. A set-point arms it. Where set-points stop its drives only damp, until there has been
none for RELEASE_S.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

import numpy as np

from rookery.robots.quadrupeds.model import LEGS
from rookery.sim.errors import RookeryError
from rookery.sim2real.links.dds import Participant
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.height_map import HEIGHT_MAP, MAPS, POSES, TRUNK_POSE, HeightMap, TrunkPose
from rookery.sim2real.links.motion_switcher import MotionSwitcher
from rookery.sim2real.links.unitree import COMMANDS, PERIOD_S, STATES
from rookery.sim2real.links.unitree_messages import (
    FEET,
    LOW_CMD,
    LOW_LEVEL,
    LOW_STATE,
    MOTORS,
    POSITION_OFF,
    SERVO,
    SPORT_MODE_STATE,
    VELOCITY_OFF,
    Record,
    intact,
    seal,
)
from rookery.sim2real.runtime.reading import FOOT_FORCES, SPECIFIC_FORCE, Array, Reading
from rookery.sim2real.vehicles.joints import JointVehicle
from rookery.sim2real.vehicles.lidar_map import MAP_S, LidarMap
from rookery.sim2real.vehicles.network import NetworkConfig, PacketChannel

TRUTH = "rt/sportmodestate"
TRUTH_STEPS = 10  # control steps between two messages of it
POSE_STEPS = 3  # control steps between two places in the map: a Go2 sends about 150 a second
MAP_STEPS = round(MAP_S / PERIOD_S)
RELEASE_S = 1.0  # s without set-points after which the next one arms it again
CHARGE = 90  # %, of the battery
N = len(MOTORS)
_FEET = [LEGS.index(leg) for leg in FEET]


class UnitreeGo2:
    """A vehicle behind DDS.

    Args:
        vehicle: a simulated Go2 of one control step a message.
        interface: network interface that it is at.
        domain: of DDS.
        network: faults of the network.
        seed: of them.
        mode: name of its own controller that is said to be on; "" for none.

    Raises:
        RookeryError: it has other joints or another rate, there is no such interface, or cyclonedds is not installed.
    """

    def __init__(
        self, vehicle: JointVehicle, interface: str = "lo", domain: int = 0, network: NetworkConfig | None = None,
        seed: int = 0, mode: str = "",
    ) -> None:  # fmt: skip
        if vehicle.joints != MOTORS or not math.isclose(vehicle.period, PERIOD_S):
            raise RookeryError(
                f"the protocol of a Go2 is for its {N} motors at {1 / PERIOD_S:g} Hz, and this one has "
                f"{len(vehicle.joints)} joints at {1 / vehicle.period:g} Hz."
            )
        config = NetworkConfig() if network is None else network
        participant = Participant(interface, domain)
        self.vehicle = vehicle
        self.where = f"{interface}, DDS domain {domain}"
        self.refused = 0
        self._commands = participant.reader(COMMANDS, LOW_CMD)
        self._states = participant.writer(STATES, LOW_STATE)
        self._truths = participant.writer(TRUTH, SPORT_MODE_STATE)
        self._maps = participant.writer(MAPS, HEIGHT_MAP)
        self._poses = participant.writer(POSES, TRUNK_POSE)
        self._lidar = LidarMap(vehicle, vehicle.noise, seed)
        self._switcher = MotionSwitcher(participant, mode)
        self._arriving: PacketChannel[Record] = PacketChannel(config, 2 * seed + 1)
        self._leaving: PacketChannel[Record] = PacketChannel(config, 2 * seed)
        self._leaving_ground: PacketChannel[HeightMap | TrunkPose] = PacketChannel(config, 2 * seed)
        self._steps = 0
        self._heard = -math.inf

    def receive(self) -> None:
        """Take the set-points that have arrived."""
        for record in self._commands.take():
            self._arriving.put(self.vehicle.now, record)
        for record in self._arriving.take(self.vehicle.now):
            self._take(record)
        if self.vehicle.mode == "failsafe" and self.vehicle.now - self._heard > RELEASE_S:
            self.vehicle.disarm()

    def _take(self, record: Record) -> None:
        if not intact(record):
            if self.refused == 0:
                print("rookery: a LowCmd with a wrong CRC is refused, as the robot does", file=sys.stderr, flush=True)
            self.refused += 1
            return
        self._heard = self.vehicle.now
        motors = record["motor_cmd"][:N]
        if not (motors["mode"] == SERVO).all():
            self.vehicle.disarm()
            return
        self.vehicle.arm()
        free, loose = motors["q"] >= POSITION_OFF, motors["dq"] >= VELOCITY_OFF
        self.vehicle.setpoint(
            np.where(free, 0.0, motors["q"]), np.where(loose, 0.0, motors["dq"]), motors["tau"],
            stiffness=np.where(free, 0.0, motors["kp"]), damping=np.where(loose, 0.0, motors["kd"]),
        )  # fmt: skip

    def send(self) -> None:
        """The state of this control step."""
        self._leaving.put(self.vehicle.now, self._state(self.vehicle.sense()))
        for record in self._leaving.take(self.vehicle.now):
            self._states.write(record)
        self._send_ground()
        if self._steps % TRUTH_STEPS == 0:
            self._truths.write(self._truth(self.vehicle.truth()))
            self._switcher.serve()
        self._steps += 1

    def _send_ground(self) -> None:
        now = self.vehicle.now
        if self._steps % POSE_STEPS == 0:
            self._leaving_ground.put(now, self._lidar.pose())
        if self._steps % MAP_STEPS == 0:
            self._leaving_ground.put(now, self._lidar.map())
        for message in self._leaving_ground.take(now):
            if isinstance(message, HeightMap):
                self._maps.write(message)
            else:
                self._poses.write(message)

    def _state(self, reading: Reading) -> Record:
        out = LOW_STATE.new()
        out["head"] = (0xFE, 0xEF)
        out["level_flag"] = LOW_LEVEL
        out["tick"] = round(1e3 * reading.measured) & 0xFFFFFFFF
        _imu(out, reading.values)
        motors = out["motor_state"][:N]
        motors["mode"] = SERVO if self.vehicle.mode in ("ready", "setpoints") else 0  # its own fail-safe follows nobody
        motors["q"], motors["dq"] = reading.values["joint angles"], reading.values["joint velocities"]
        motors["tau_est"] = reading.values["joint torques"]
        motors["temperature"] = 30
        out["foot_force"] = np.clip(reading.values[FOOT_FORCES][_FEET], 0.0, 32767.0)
        out["bms_state"]["soc"] = CHARGE
        out["power_v"] = 28.8
        return seal(out)

    def _truth(self, values: Mapping[str, Array]) -> Record:
        out = SPORT_MODE_STATE.new()
        now = self.vehicle.now
        out["stamp"]["sec"], out["stamp"]["nanosec"] = int(now), int(1e9 * (now % 1.0))
        _imu(out, values)
        out["position"], out["velocity"] = values["position"], values["velocity"]
        out["body_height"] = values["position"][2]
        out["yaw_speed"] = values["angular velocity"][2]
        return out

    def close(self) -> None:
        """Leave the domain."""
        del self._commands, self._states, self._truths, self._switcher, self._maps, self._poses


def _imu(record: Record, values: Mapping[str, Array]) -> None:
    imu = record["imu_state"]
    imu["quaternion"], imu["gyroscope"] = values["rotation"], values["angular velocity"]
    imu["accelerometer"] = values[SPECIFIC_FORCE]
    imu["rpy"] = euler(values["rotation"])
    imu["temperature"] = 40
