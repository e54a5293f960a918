"""``mavlink://HOST:PORT``: PX4 autopilots, and all that speak its off-board mode.

Listens like a companion computer (PX4 sends to UDP 14540), asks for attitude and position at 100 Hz, and streams set-points:
SET_ATTITUDE_TARGET for body rates or attitude with thrust, SET_POSITION_TARGET_LOCAL_NED for position and velocity.
Messages and their fields: MAVLink common.xml. Off-board mode and its time-outs: PX4 user guide, "Offboard Mode".

Thrust is a share of the highest collective thrust. An autopilot's own scale is not linear in N: give the thrust at which it
hovers as ``?hover=0.5`` (PX4's MPC_THR_HOVER), and thrust is that share at the vehicle's weight.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import Address, bind_udp
from rookery.sim2real.links.frames import (
    euler,
    from_frd,
    from_ned,
    rotation_from_ned,
    rotation_of_euler,
    rotation_to_ned,
    to_frd,
    to_ned,
    yaw_to_ned,
)
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.reading import Reading

if TYPE_CHECKING:
    from types import ModuleType

PORT = 14540
KINDS = ("ctbr", "attitude", "velocity", "position")
QUANTITIES = ("position", "velocity", "rotation", "angular velocity")
AUTOPILOT = 1  # MAV_COMP_ID_AUTOPILOT1: gimbals, cameras and computers of a vehicle speak under its system id, too
OFFBOARD = 6  # PX4's main mode
OFFBOARD_LOSS_S = 0.06  # s, PX4's COM_OF_LOSS_T: the vehicle lands by itself that long after the last set-point
RATE = 100.0  # Hz, of the telemetry that is asked for
AGAIN_S = 0.1  # s, between requests that are not yet answered
BEAT_S = 1.0  # s, between heartbeats of ours, as every component sends them: PX4 tells by them that somebody is there
POSITION_MASK = 8 | 16 | 32 | 64 | 128 | 256 | 2048
VELOCITY_MASK = 1 | 2 | 4 | 64 | 128 | 256 | 1024
RATES_MASK = 128
ATTITUDE_MASK = 1 | 2


def dialect() -> ModuleType:
    """pymavlink's common.xml.

    Raises:
        RookeryError: it is not installed.
    """
    try:
        from pymavlink.dialects.v20 import common
    except ImportError:
        raise RookeryError("mavlink:// needs pymavlink: pip install 'rookery[mavlink]'.") from None
    return common  # type: ignore[no-any-return]


class MavlinkLink(Link):
    """See the module.

    Args:
        address: where to listen; options: `hover`, share of the thrust at which it hovers; `system`, the vehicle's id; `loss`,
            s without set-points after which it lands by itself.
        group: of the contract, for mass and thrust.
        clock: of the runtime.
    """

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("hover", "system", "loss")
        self.url = address.url
        self._mav = dialect()
        self._clock = clock
        self._host, self._port = address.host or "0.0.0.0", address.port or PORT
        self._hover = address.hover_share()
        self._system = address.whole("system", 0, 255)
        self._loss_s = address.option("loss", OFFBOARD_LOSS_S)
        self._thrust = _thrust_of(group)
        self._socket: socket.socket | None = None
        self._peer: tuple[str, int] | None = None
        self._lock = threading.Lock()
        self._codec = self._mav.MAVLink(None, srcSystem=245, srcComponent=191)
        self._parser = self._mav.MAVLink(None)
        self._parser.robust_parsing = True
        self._latest: dict[str, tuple[float, Any]] = {}
        self._reading: Reading | None = None
        self._over = threading.Event()
        self._asked: dict[str, float] = {}

    # -- receiving ---------------------------------------------------------------------------------------------

    def open(self, timeout_s: float = 10.0) -> Identity:
        self._socket = bind_udp(self._host, self._port, self.url)
        self._socket.setblocking(True)
        self._socket.settimeout(0.1)
        threading.Thread(target=self._receive, name="rookery-mavlink", daemon=True).start()
        self._wait("HEARTBEAT", timeout_s, "no vehicle sends heartbeats there")
        beat = self._latest["HEARTBEAT"][1]
        if beat.autopilot != self._mav.MAV_AUTOPILOT_PX4:
            self.close()
            raise RookeryError(
                f"{self.url}: the autopilot says that it is of type {beat.autopilot} and not PX4 (12), whose off-board mode "
                "this link speaks."
            )
        for name in ("ATTITUDE_QUATERNION", "LOCAL_POSITION_NED"):
            self._request_stream(name)
        self._send(self._mav.MAVLink_param_set_message(
            self._system, AUTOPILOT, b"COM_OF_LOSS_T", self._loss_s, self._mav.MAV_PARAM_TYPE_REAL32
        ))  # fmt: skip
        self._wait(
            "LOCAL_POSITION_NED",
            timeout_s,
            "the vehicle tells no local position: it needs GPS, vision or motion capture",
        )
        self._wait("ATTITUDE_QUATERNION", timeout_s, "the vehicle tells no attitude")
        return Identity("multirotor", f"PX4 system {self._system}", KINDS, QUANTITIES, 250.0)

    def _wait(self, message: str, timeout_s: float, otherwise: str) -> None:
        end = time.monotonic() + timeout_s
        while message not in self._latest:
            if time.monotonic() > end:
                self.close()
                raise RookeryError(f"{self.url}: {otherwise} ({timeout_s:g} s waited).")
            time.sleep(0.01)

    def _receive(self) -> None:
        assert self._socket is not None
        while not self._over.is_set():
            self.beat()
            try:
                packet, peer = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            except OSError:
                return
            self.take_packet(packet, peer)

    def beat(self) -> None:
        """Send a heartbeat where one is due, to a vehicle that has sent its own."""
        if self._peer is not None and self._due("heartbeat", BEAT_S):
            mav = self._mav
            self._send(mav.MAVLink_heartbeat_message(
                mav.MAV_TYPE_ONBOARD_CONTROLLER, mav.MAV_AUTOPILOT_INVALID, 0, 0, mav.MAV_STATE_ACTIVE, 3
            ))  # fmt: skip

    def take_packet(self, packet: bytes, peer: tuple[str, int]) -> None:
        """Take what has arrived from an address, whatever it is."""
        try:
            messages = self._parser.parse_buffer(packet) or []
        except Exception:  # a damaged packet raises whatever its fields do
            return
        for message in messages:
            self._take(message, peer)

    def _take(self, message: Any, peer: tuple[str, int]) -> None:
        kind = message.get_type()
        if kind == "BAD_DATA":
            return
        if message.get_srcComponent() != AUTOPILOT:
            return
        if self._system == 0 and kind == "HEARTBEAT":
            self._system = message.get_srcSystem()
        if message.get_srcSystem() != self._system:
            return
        now = self._clock.now()
        self._peer = peer
        self.heard = now
        self._latest[kind] = (now, message)
        if kind == "ATTITUDE_QUATERNION" and "LOCAL_POSITION_NED" in self._latest:
            self._compose()

    def _compose(self) -> None:
        turned, attitude = self._latest["ATTITUDE_QUATERNION"]
        moved, place = self._latest["LOCAL_POSITION_NED"]
        beat = self._latest.get("HEARTBEAT")
        status = self._latest.get("SYS_STATUS")
        landed = self._latest.get("EXTENDED_SYS_STATE")
        values = {
            "position": np.array(from_ned((place.x, place.y, place.z)), np.float32),
            "velocity": np.array(from_ned((place.vx, place.vy, place.vz)), np.float32),
            "rotation": rotation_from_ned((attitude.q1, attitude.q2, attitude.q3, attitude.q4)),
            "angular velocity": np.array(
                from_frd((attitude.rollspeed, attitude.pitchspeed, attitude.yawspeed)), np.float32
            ),
        }
        share = None if status is None or status[1].battery_remaining < 0 else status[1].battery_remaining / 100.0
        self._reading = Reading(
            # the older of both, so that either is noticed when it stops
            min(turned, moved),
            min(attitude.time_boot_ms, place.time_boot_ms) / 1e3,
            values,
            battery=share,
            armed=None if beat is None else bool(beat[1].base_mode & self._mav.MAV_MODE_FLAG_SAFETY_ARMED),
            landed=None if landed is None else landed[1].landed_state == self._mav.MAV_LANDED_STATE_ON_GROUND,
            mode="" if beat is None else f"main mode {self._main_mode(beat[1])}",
        )

    @staticmethod
    def _main_mode(beat: Any) -> int:
        return int(beat.custom_mode) >> 16 & 0xFF

    def read(self) -> Reading | None:
        return self._reading

    # -- sending -----------------------------------------------------------------------------------------------

    def _send(self, message: Any) -> None:
        with self._lock:
            if self._peer is None or self._socket is None or self._over.is_set():
                return
            with contextlib.suppress(OSError):  # a vehicle whose port has closed: its silence is what the filter judges
                self._socket.sendto(message.pack(self._codec), self._peer)

    def _command(self, command: int, *values: float) -> None:
        filled = (*values, *[0.0] * (7 - len(values)))
        self._send(self._mav.MAVLink_command_long_message(self._system, AUTOPILOT, command, 0, *filled))

    def _due(self, what: str, again_s: float = AGAIN_S) -> bool:
        now = self._clock.now()
        if now - self._asked.get(what, -np.inf) < again_s:
            return False
        self._asked[what] = now
        return True

    def _request_stream(self, name: str) -> None:
        number = getattr(self._mav, f"MAVLINK_MSG_ID_{name}")
        self._command(self._mav.MAV_CMD_SET_MESSAGE_INTERVAL, number, 1e6 / RATE)

    @property
    def _stamp(self) -> int:
        return int(1e3 * self._clock.now()) & 0xFFFFFFFF

    def arm(self) -> None:
        self._command(self._mav.MAV_CMD_COMPONENT_ARM_DISARM, 1)

    def disarm(self) -> None:
        if self._due("disarm"):
            self._command(self._mav.MAV_CMD_COMPONENT_ARM_DISARM, 0)

    def engage(self) -> None:
        if self._due("offboard"):
            self._command(self._mav.MAV_CMD_DO_SET_MODE, 1, OFFBOARD)

    @property
    def engaged(self) -> bool:
        beat = self._latest.get("HEARTBEAT")
        return beat is not None and self._main_mode(beat[1]) == OFFBOARD

    def react(self, reaction: str) -> None:
        if not self._due(reaction):
            return
        if reaction == "stop":
            self._command(self._mav.MAV_CMD_COMPONENT_ARM_DISARM, 0, 21196)  # by force, in flight
        else:
            self._command(self._mav.MAV_CMD_NAV_LAND, 0, 0, 0, float("nan"))

    def write(self, kind: str, command: ArrayLike) -> None:
        self._write(kind, np.asarray(command, float).tolist())

    def _write(self, kind: str, command: list[float]) -> None:
        if kind == "ctbr":
            rates = to_frd(command[:3])
            self._attitude(RATES_MASK, (1.0, 0.0, 0.0, 0.0), rates, self._share(command[3]))
        elif kind == "attitude":
            self._attitude(ATTITUDE_MASK, self._leaning(command), (0.0, 0.0, -command[2]), self._share(command[3]))
        elif kind == "velocity":
            self._position(VELOCITY_MASK, (0.0, 0.0, 0.0), to_ned(command[:3]), 0.0, -command[3])
        else:
            self._position(POSITION_MASK, to_ned(command[:3]), (0.0, 0.0, 0.0), yaw_to_ned(command[3]), 0.0)

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        self._write("position", [*np.asarray(position, float).tolist(), yaw])

    def _share(self, newton: float) -> float:
        weight, most = self._thrust
        share = self._hover * newton / weight if self._hover > 0.0 else newton / most
        return float(min(max(share, 0.0), 1.0))

    def _leaning(self, command: Sequence[float]) -> Any:
        """Roll and pitch of a command at the present heading."""
        reading = self._reading
        yaw = 0.0 if reading is None else euler(reading.values["rotation"])[2]
        return rotation_to_ned(rotation_of_euler(command[0], command[1], yaw))

    def _attitude(self, mask: int, q: Any, rates: Sequence[float], thrust: float) -> None:
        self._send(self._mav.MAVLink_set_attitude_target_message(
            self._stamp, self._system, AUTOPILOT, mask, [float(c) for c in q], *(float(r) for r in rates), thrust
        ))  # fmt: skip

    def _position(
        self, mask: int, place: Sequence[float], velocity: Sequence[float], yaw: float, yaw_rate: float
    ) -> None:
        frame = self._mav.MAV_FRAME_LOCAL_NED
        self._send(self._mav.MAVLink_set_position_target_local_ned_message(
            self._stamp, self._system, AUTOPILOT, frame, mask, *place, *velocity, 0.0, 0.0, 0.0, yaw, float(yaw_rate)
        ))  # fmt: skip

    def close(self) -> None:
        self._over.set()
        if self._socket is not None:
            self._socket.close()


def _thrust_of(group: ContractGroup) -> tuple[float, float]:
    """Weight and highest collective thrust, N."""
    multirotor = None if group.actuation is None else group.actuation.multirotor
    if multirotor is None:
        return 1.0, 1.0
    most = 4.0 * sum(multirotor.thrust_curve)
    return multirotor.mass * GRAVITY, most
