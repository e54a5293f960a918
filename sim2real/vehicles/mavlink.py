"""Our simulated drones as PX4 vehicles on MAVLink: telemetry, commands, off-board set-points, parameters and missions.

One UDP port for each drone, which sends to the ground station's port like PX4's simulation: it listens on 14580 + i and sends
to 14540 + i. Messages: MAVLink common.xml; modes and their numbers: PX4's px4_custom_mode.h.
"""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

from rookery.sim2real.links.frames import (
    euler,
    from_frd,
    from_ned,
    rotation_from_ned,
    rotation_to_ned,
    to_frd,
    to_ned,
    yaw_from_ned,
    yaw_to_ned,
)
from rookery.sim2real.links.mavlink import dialect
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.mission import HOME, LAND, Mission, to_global, to_local
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.port import Peer, Port

STATION_PORT, VEHICLE_PORT = 14540, 14580
MODES = {"hold": (4, 3), "guided": (4, 4), "offboard": (6, 0), "land": (4, 6)}
"""PX4's main and sub mode: AUTO_LOITER, AUTO_MISSION, OFFBOARD, AUTO_LAND."""
TAKE_OFF_SUB, RETURN_SUB = 2, 5
SLOW_HZ = 10.0  # of positions on the globe, battery and landing state


class MavlinkDrone:
    """One drone of a vehicle behind a UDP port.

    Args:
        vehicle: the simulated drones.
        number: which of them; its system id is that + 1.
        station: where telemetry goes until somebody else speaks.
        port: to listen on.
        network: faults of the network.
        seed: of them.
    """

    def __init__(
        self, vehicle: DroneVehicle, number: int = 0, station: Peer | None = None, port: int | None = None,
        network: NetworkConfig | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self._mav = dialect()
        self.vehicle = vehicle
        self.number = number
        to = station or ("127.0.0.1", STATION_PORT + number)
        self._peers: set[Peer] = {to}
        here = VEHICLE_PORT + number if port is None else port
        self.port = Port(here, network, seed)
        self.where = f"drone {number} from port {here} to {to[0]}:{to[1]}"
        self._codec = self._mav.MAVLink(None, srcSystem=number + 1, srcComponent=1)
        self._parser = self._mav.MAVLink(None)
        self._parser.robust_parsing = True
        self.mission = Mission()
        self._sub: int | None = None  # sub mode of AUTO, where the vehicle's mode does not say it
        self._parameters = {
            "COM_OF_LOSS_T": vehicle.timeout_s,
            "MIS_TAKEOFF_ALT": 2.5,
            "MPC_XY_CRUISE": 1.0,
            "SYS_AUTOSTART": 4001.0,
        }
        self._told = (False, (0, 0))
        self._ticks = 0
        self._most = 4.0 * vehicle.drones.drone.max_thrust

    # -- every control step ------------------------------------------------------------------------------------

    def receive(self) -> None:
        """Take all packets that have arrived."""
        for packet, peer in self.port.receive(self.vehicle.now):
            self._peers.add(peer)
            try:
                messages = self._parser.parse_buffer(packet) or []
            except Exception:  # a damaged packet raises whatever its fields do
                continue
            for message in messages:
                with contextlib.suppress(ValueError, OverflowError, struct.error):
                    self._handle(message)

    def send(self) -> None:
        """Telemetry of this control step."""
        reading = self.vehicle.sense(self.number)
        self._fly_mission(reading)
        self._ticks += 1
        slow = max(1, round(1.0 / (SLOW_HZ * self.vehicle.period)))
        state = (self.vehicle.armed(self.number), self._custom_mode(reading))
        if state != self._told or self._ticks % round(1.0 / self.vehicle.period) == 1:
            self._told = state
            self._heartbeat(reading)
        self._attitude(reading)
        if self._ticks % slow == 0:
            self._slow(reading)
        self.port.flush(self.vehicle.now)

    def close(self) -> None:
        """Free the port."""
        self.port.close()

    def _put(self, message: Any) -> None:
        packet = message.pack(self._codec)
        for peer in self._peers:
            self.port.leaving.put(self.vehicle.now, (packet, peer))

    # -- telemetry ---------------------------------------------------------------------------------------------

    @property
    def _ms(self) -> int:
        return round(1e3 * self.vehicle.now)

    def _custom_mode(self, reading: Reading) -> tuple[int, int]:
        main, sub = MODES[reading.mode]
        return main, sub if self._sub is None or reading.mode not in ("guided", "hold") else self._sub

    def _heartbeat(self, reading: Reading) -> None:
        mav = self._mav
        main, sub = self._custom_mode(reading)
        base = mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | (mav.MAV_MODE_FLAG_SAFETY_ARMED if reading.armed else 0)
        status = mav.MAV_STATE_ACTIVE if reading.armed else mav.MAV_STATE_STANDBY
        self._put(mav.MAVLink_heartbeat_message(
            mav.MAV_TYPE_QUADROTOR, mav.MAV_AUTOPILOT_PX4, base, main << 16 | sub << 24, status, 3
        ))  # fmt: skip

    def _attitude(self, reading: Reading) -> None:
        mav = self._mav
        q = [float(c) for c in rotation_to_ned(reading.values["rotation"])]
        rates = to_frd(reading.values["angular velocity"])
        self._put(mav.MAVLink_local_position_ned_message(
            self._ms, *to_ned(reading.values["position"]), *to_ned(reading.values["velocity"])
        ))  # fmt: skip
        self._put(mav.MAVLink_attitude_quaternion_message(self._ms, *q, *rates))
        self._put(mav.MAVLink_attitude_message(self._ms, *euler(q), *rates))

    def _slow(self, reading: Reading) -> None:
        mav = self._mav
        position, velocity = reading.values["position"], to_ned(reading.values["velocity"])
        latitude, longitude, height = to_global(position)
        place = round(1e7 * latitude), round(1e7 * longitude), round(1e3 * height)
        up = round(1e3 * float(position[2]))
        speed = [max(-32000, min(32000, round(100 * c))) for c in velocity]
        heading = math.degrees(yaw_to_ned(euler(reading.values["rotation"])[2])) % 360.0
        self._put(mav.MAVLink_global_position_int_message(self._ms, *place, up, *speed, round(100 * heading) % 36000))
        self._put(mav.MAVLink_gps_raw_int_message(1000 * self._ms, 3, *place, 70, 100, 0, 0, 12))
        self._put(mav.MAVLink_altitude_message(1000 * self._ms, height, height, up / 1e3, up / 1e3, up / 1e3, up / 1e3))
        health = 0x2F | 0x200000  # gyro, accelerometer, magnetometer, pressure, GPS, attitude and height estimates
        share = -1 if reading.battery is None else round(100 * reading.battery)
        self._put(mav.MAVLink_sys_status_message(health, health, health, 100, 4000, 500, share, 0, 0, 0, 0, 0, 0))
        landed = mav.MAV_LANDED_STATE_ON_GROUND if reading.landed else mav.MAV_LANDED_STATE_IN_AIR
        self._put(mav.MAVLink_extended_sys_state_message(0, landed))
        self._home()
        if self.mission.items:
            self._put(mav.MAVLink_mission_current_message(min(self.mission.current, len(self.mission.items) - 1)))

    def _home(self) -> None:
        latitude, longitude, height = HOME
        self._put(self._mav.MAVLink_home_position_message(
            round(1e7 * latitude), round(1e7 * longitude), round(1e3 * height), 0, 0, 0, [1, 0, 0, 0], 0, 0, 0
        ))  # fmt: skip

    # -- what arrives ------------------------------------------------------------------------------------------

    def _handle(self, message: Any) -> None:
        handler = getattr(self, f"_on_{message.get_type().lower()}", None)
        target = getattr(message, "target_system", self.number + 1)
        if handler is not None and target in (0, self.number + 1):
            handler(message)

    def _on_command_long(self, m: Any) -> None:
        values = [m.param1, m.param2, m.param3, m.param4, m.param5, m.param6, m.param7]
        self._acknowledge(m.command, self._command(int(m.command), values, 1.0))

    def _on_command_int(self, m: Any) -> None:
        self._acknowledge(
            m.command, self._command(int(m.command), [m.param1, m.param2, m.param3, m.param4, m.x, m.y, m.z], 1e7)
        )

    def _acknowledge(self, command: int, result: int) -> None:
        self._put(self._mav.MAVLink_command_ack_message(command, result))

    def _command(self, command: int, p: list[float], degrees: float) -> int:
        """Do a command; MAV_RESULT."""
        mav = self._mav
        i = self.number
        reading = self.vehicle.sense(i)
        if command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
            return self._arm(p[0] > 0.5, p[1] == 21196.0, bool(reading.landed))
        if command == mav.MAV_CMD_DO_SET_MODE:
            return self._set_mode(int(p[1]), int(p[2]))
        if command == mav.MAV_CMD_NAV_LAND:
            self._leave_mission()
            self.vehicle.land(i)
        elif command == mav.MAV_CMD_NAV_TAKEOFF:
            if not self.vehicle.armed(i):
                return int(mav.MAV_RESULT_TEMPORARILY_REJECTED)
            here = reading.values["position"]
            self._leave_mission()
            self._sub = TAKE_OFF_SUB
            self.vehicle.guide(i, (float(here[0]), float(here[1]), self._parameters["MIS_TAKEOFF_ALT"]))
        elif command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            self._leave_mission()
            self.vehicle.land(i)
        elif command == mav.MAV_CMD_MISSION_START:
            return self._start_mission()
        elif command == mav.MAV_CMD_DO_REPOSITION:
            x, y = (v / degrees for v in p[4:6])
            east, north, _ = to_local(x, y, 0.0)
            self._leave_mission()
            self._sub = 3
            self.vehicle.guide(i, (east, north, p[6] - HOME[2]), None if math.isnan(p[3]) else yaw_from_ned(p[3]))
        elif command == mav.MAV_CMD_REQUEST_MESSAGE:
            return self._requested(int(p[0]))
        elif command == mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
            self._version()
        elif command not in (mav.MAV_CMD_SET_MESSAGE_INTERVAL, mav.MAV_CMD_DO_CHANGE_SPEED):
            return int(mav.MAV_RESULT_UNSUPPORTED)
        return int(mav.MAV_RESULT_ACCEPTED)

    def _arm(self, on: bool, force: bool, landed: bool) -> int:
        if on:
            self.vehicle.arm(self.number)
        elif landed or force:
            self.vehicle.disarm(self.number)
        else:
            return int(self._mav.MAV_RESULT_DENIED)
        return int(self._mav.MAV_RESULT_ACCEPTED)

    def _set_mode(self, main: int, sub: int) -> int:
        accepted, denied = int(self._mav.MAV_RESULT_ACCEPTED), int(self._mav.MAV_RESULT_DENIED)
        if main == 6:
            self._leave_mission()
            # without a stream of set-points nobody is there to follow, as PX4 has it
            return accepted if self.vehicle.offboard(self.number) or not self.vehicle.armed(self.number) else denied
        if (main, sub) == MODES["land"] or (main, sub) == (4, RETURN_SUB):
            self._leave_mission()
            self.vehicle.land(self.number)
            return accepted
        if (main, sub) == MODES["hold"]:
            self._leave_mission()
            self.vehicle.hold(self.number)
            return accepted
        if (main, sub) == MODES["guided"]:
            return self._start_mission()
        return denied

    def _requested(self, number: int) -> int:
        mav = self._mav
        if number == mav.MAVLINK_MSG_ID_AUTOPILOT_VERSION:
            self._version()
        elif number == mav.MAVLINK_MSG_ID_HOME_POSITION:
            self._home()
        else:
            return int(mav.MAV_RESULT_UNSUPPORTED)
        return int(mav.MAV_RESULT_ACCEPTED)

    def _version(self) -> None:
        mav = self._mav
        able = (
            mav.MAV_PROTOCOL_CAPABILITY_MISSION_INT
            | mav.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
            | mav.MAV_PROTOCOL_CAPABILITY_SET_ATTITUDE_TARGET
            | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
            | mav.MAV_PROTOCOL_CAPABILITY_MAVLINK2
        )
        zeros = [0] * 8
        self._put(mav.MAVLink_autopilot_version_message(
            able, 0x010F00FF, 0, 0, 0, zeros, zeros, zeros, 0, 0, self.number + 1
        ))  # fmt: skip

    def _on_set_attitude_target(self, m: Any) -> None:
        if m.type_mask & 64:
            return
        thrust = max(0.0, float(m.thrust)) * self._most
        if m.type_mask & 128:
            rates = from_frd((m.body_roll_rate, m.body_pitch_rate, m.body_yaw_rate))
            self.vehicle.setpoint(self.number, "ctbr", (*rates, thrust))
            return
        roll, pitch, _ = euler(rotation_from_ned(m.q))
        self.vehicle.setpoint(self.number, "attitude", (roll, pitch, -float(m.body_yaw_rate), thrust))

    def _on_set_position_target_local_ned(self, m: Any) -> None:
        if m.coordinate_frame != self._mav.MAV_FRAME_LOCAL_NED:
            return
        if not m.type_mask & 7:
            own = euler(self.vehicle.truth(self.number)["rotation"])[2]
            yaw = own if m.type_mask & 1024 else yaw_from_ned(m.yaw)
            self.vehicle.setpoint(self.number, "position", (*from_ned((m.x, m.y, m.z)), yaw))
        elif not m.type_mask & 56:
            rate = 0.0 if m.type_mask & 2048 else -float(m.yaw_rate)
            self.vehicle.setpoint(self.number, "velocity", (*from_ned((m.vx, m.vy, m.vz)), rate))

    def _on_timesync(self, m: Any) -> None:
        if m.tc1 == 0:
            self._put(self._mav.MAVLink_timesync_message(round(1e9 * self.vehicle.now), m.ts1))

    # -- parameters --------------------------------------------------------------------------------------------

    def _tell_parameter(self, name: str) -> None:
        names = list(self._parameters)
        self._put(self._mav.MAVLink_param_value_message(
            name.encode(), self._parameters[name], self._mav.MAV_PARAM_TYPE_REAL32, len(names), names.index(name)
        ))  # fmt: skip

    @staticmethod
    def _name(text: Any) -> str:
        return (text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)).rstrip("\0")

    def _on_param_request_list(self, m: Any) -> None:
        for name in self._parameters:
            self._tell_parameter(name)

    def _on_param_request_read(self, m: Any) -> None:
        names = list(self._parameters)
        name = names[m.param_index] if 0 <= m.param_index < len(names) else self._name(m.param_id)
        if name in self._parameters:
            self._tell_parameter(name)

    def _on_param_set(self, m: Any) -> None:
        name = self._name(m.param_id)
        value = float(m.param_value)
        if name not in self._parameters or not math.isfinite(value):
            return
        if name == "COM_OF_LOSS_T":
            value = min(max(value, 0.02), 60.0)
            self.vehicle.timeout_s = value
        self._parameters[name] = value
        self._tell_parameter(name)

    # -- missions ----------------------------------------------------------------------------------------------

    def _start_mission(self) -> int:
        if not self.mission.items or not self.vehicle.armed(self.number):
            return int(self._mav.MAV_RESULT_DENIED)
        self.mission.running = True
        self._sub = None
        self.mission.current = min(self.mission.current, len(self.mission.items) - 1)
        self._follow_mission()
        return int(self._mav.MAV_RESULT_ACCEPTED)

    def _leave_mission(self) -> None:
        self.mission.running = False
        self._sub = None

    def _follow_mission(self) -> None:
        target = self.mission.target()
        if target is not None:
            self.vehicle.guide(self.number, target)
        elif (
            self.mission.current < len(self.mission.items) and self.mission.items[self.mission.current].command == LAND
        ):
            self.vehicle.land(self.number)

    def _fly_mission(self, reading: Reading) -> None:
        mission = self.mission
        if not mission.running or reading.mode not in ("guided", "hold", "land"):
            return
        if mission.advance(reading.values["position"], bool(reading.landed)):
            self._put(self._mav.MAVLink_mission_item_reached_message(mission.reached))
            if mission.current < len(mission.items):
                self._follow_mission()
            else:
                self._leave_mission()
                if reading.mode == "guided":
                    self.vehicle.hold(self.number)

    def _on_mission_count(self, m: Any) -> None:
        self.mission.expected = int(m.count)
        self.mission.incoming = []
        self._ask_item(m)

    def _ask_item(self, m: Any) -> None:
        mav = self._mav
        to = m.get_srcSystem(), m.get_srcComponent()
        if len(self.mission.incoming) < self.mission.expected:
            self._put(mav.MAVLink_mission_request_int_message(*to, len(self.mission.incoming), m.mission_type))
            return
        self.mission.items = self.mission.incoming
        self.mission.current, self.mission.reached, self.mission.running = 0, -1, False
        self._put(mav.MAVLink_mission_ack_message(*to, mav.MAV_MISSION_ACCEPTED, m.mission_type))

    def _on_mission_item_int(self, m: Any) -> None:
        if m.seq == len(self.mission.incoming) < self.mission.expected:
            self.mission.incoming.append(m)
        self._ask_item(m)

    def _on_mission_request_list(self, m: Any) -> None:
        to = m.get_srcSystem(), m.get_srcComponent()
        self._put(self._mav.MAVLink_mission_count_message(*to, len(self.mission.items), m.mission_type))

    def _on_mission_request_int(self, m: Any) -> None:
        if 0 <= m.seq < len(self.mission.items):
            item = self.mission.items[m.seq]
            item.target_system, item.target_component = m.get_srcSystem(), m.get_srcComponent()
            self._put(item)

    def _on_mission_set_current(self, m: Any) -> None:
        if 0 <= m.seq < len(self.mission.items):
            self.mission.current = int(m.seq)

    def _on_mission_clear_all(self, m: Any) -> None:
        self.mission = Mission()
        self._put(self._mav.MAVLink_mission_ack_message(m.get_srcSystem(), m.get_srcComponent(), 0, m.mission_type))
