"""Our simulated arm as a Franka robot on FCI: commands over TCP port 1337, states and joint positions over UDP at 1 kHz, a
hand on port 1338. What FCI does not say, the places of objects, goes out by UDP as a tracker's (sim2real/links/tracker.py).

It takes motions by joint positions, as `start_joint_position_control` of libfranka makes them, with all checks of the robot's
own controller (motion_monitor.py). Positions that come too late, which answer an older state than the last, are dropped (FCI
documentation, "Network"). One client at a time, as on the robot.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections import deque
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim2real.links import fci
from rookery.sim2real.vehicles.arm import ArmVehicle
from rookery.sim2real.vehicles.motion_monitor import ACCELERATION
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.object_tracker import ObjectTracker, objects_of
from rookery.sim2real.vehicles.port import Peer, Port
from rookery.sim2real.vehicles.urdf import arm_urdf

PATIENCE_S = 0.01
"""s of the machine's clock, that a step waits for the answer to the state before it, where the one before was answered, if too
late: a busy machine slows the robot down and does not make it lose packets. Else it waits for a period."""
HAND_STEPS = 10  # between two states of the hand
WINDOW = 100  # states, of which the share of answered ones is reported
REST_RAD_S = 0.01  # rad/s, of what was commanded, at which a motion may end
GRIPPED_M = 0.002  # m, from its goal, within which a motion of the hand is over
GRIPPER_S = 2.0  # s, most time of one


class Session:
    """A TCP port with one client, and the messages that it sends.

    Args:
        port: to listen on.
        header: of its messages.
    """

    def __init__(self, port: int, header: struct.Struct) -> None:
        self._header = header
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(("0.0.0.0", port))
        except OSError as error:
            self._listener.close()
            raise RookeryError(
                f"the vehicle cannot listen on TCP port {port} ({error.strerror or error}): is another program using it? "
                "Choose another port."
            ) from error
        self._listener.listen(4)
        self._listener.setblocking(False)
        self._client: socket.socket | None = None
        self._data = b""
        self.peer = ""

    @property
    def there(self) -> bool:
        """True while a client is connected."""
        return self._client is not None

    def receive(self) -> list[tuple[int, int, bytes]]:
        """Commands, their numbers and payloads."""
        if self._client is not None:
            self._read()
            if self._client is None:
                return []  # the caller sees that it has gone; who waits for the place is taken next time
        with contextlib.suppress(OSError):
            client, address = self._listener.accept()
            if self._client is not None:
                client.close()  # the robot has one client at a time
            else:
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._client, self._data, self.peer = client, b"", address[0]
                self._read()
        return [] if self._client is None else self._parse()

    def _read(self) -> None:
        assert self._client is not None
        try:
            while data := self._client.recv(fci.LONGEST):
                self._data += data
            self.drop()
        except BlockingIOError:
            pass
        except OSError:
            self.drop()

    def _parse(self) -> list[tuple[int, int, bytes]]:
        out = []
        while len(self._data) >= self._header.size:
            kind, number, size = self._header.unpack_from(self._data)
            if not self._header.size <= size <= fci.LONGEST:
                self.drop()
                break
            if len(self._data) < size:
                break
            out.append((kind, number, self._data[self._header.size : size]))
            self._data = self._data[size:]
        return out

    def send(self, data: bytes) -> None:
        """Answer."""
        if self._client is not None:
            try:
                self._client.setblocking(True)
                self._client.settimeout(1.0)
                self._client.sendall(data)
                self._client.setblocking(False)
            except OSError:
                self.drop()

    def drop(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
        self._client, self._data = None, b""

    def close(self) -> None:
        """Free the port."""
        self.drop()
        self._listener.close()


class FciArm:
    """An arm behind FCI.

    Args:
        vehicle: the simulated arm.
        number: 0, there is one.
        station: where the tracker's datagrams go; None for none.
        port: TCP port to listen on, the hand's is the next; None for FCI's own, which libfranka always takes.
        network: faults of the network, of UDP.
        seed: of them.
    """

    def __init__(
        self, vehicle: ArmVehicle, number: int = 0, station: Peer | None = None, port: int | None = None,
        network: NetworkConfig | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        self.vehicle = vehicle
        self._urdf = arm_urdf(vehicle.kind).encode()  # now: it takes longer than a step
        here = fci.PORT if port is None else port
        self._robot = Session(here, fci.HEADER)
        try:
            self._hand = FciHand(vehicle, here + 1)
            self._udp = Port(0, network, seed)
        except RookeryError:
            self._robot.close()
            raise
        self.where = f"franka://127.0.0.1 (TCP {here}, {here + 1})"
        self._tracker = ObjectTracker(objects_of(vehicle), station)
        self.where += self._tracker.where
        self._peer: Peer | None = None
        self._sent = 0  # number of the last state
        self._before = 0  # that of the last one before the motion
        self._window: deque[bool] = deque(maxlen=WINDOW)
        self._move: int | None = None  # number of the command to move, while its motion runs
        self._steps = 0

    # -- every step --------------------------------------------------------------------------------------------

    def receive(self) -> None:
        """Take commands, and the answer to the last state."""
        for kind, number, payload in self._robot.receive():
            self._on(kind, number, payload)
        if not self._robot.there:
            self._peer = None
            if self._move is not None:
                self._move = None
                self.vehicle.disarm()
        self._hand.receive()
        if self._move is None:
            for _ in self._udp.receive(self.vehicle.now):
                pass
            return
        self._await()

    def _await(self) -> None:
        """The joint positions that answer the last state; wait for them a little."""
        if self._sent == self._before:
            return
        patient = not self._window or self._window[-1]
        start = time.monotonic()
        end = start + (PATIENCE_S if patient else self.vehicle.period)
        newest: Any = None
        while True:
            for data, _ in self._udp.receive(self.vehicle.now):
                command = fci.command(data)
                if command is None:
                    continue
                if command["message_id"] == self._sent:
                    newest = command
                elif self._before < command["message_id"] < self._sent:
                    end = start + PATIENCE_S  # the client is there, and answers this state next
            if newest is not None or time.monotonic() >= end or not self._robot.there:
                break
            select.select([self._udp.socket], [], [], max(0.0, end - time.monotonic()))
        self._window.append(newest is not None)
        if newest is None:
            return
        if newest["motion_generation_finished"]:
            if np.abs(self.vehicle.monitor.velocity).max() > REST_RAD_S:
                self.vehicle.stop(ACCELERATION)  # a motion must end at rest; `send` tells
            else:
                self._finish(fci.SUCCESS)
                self.vehicle.disarm()
        else:
            self.vehicle.setpoint(newest["q_c"])

    def send(self) -> None:
        """The state after this step, and what the tracker sees."""
        self._steps += 1
        self._tracker.send()
        if self._steps % HAND_STEPS == 0:
            self._hand.send()
        self._tell()
        if self._move is not None and not self.vehicle.armed:
            self._finish(fci.REFLEX_ABORTED)

    def _tell(self) -> None:
        """A state: each step, and before an answer that a state must not contradict."""
        if self._peer is None:
            return
        self._sent += 1
        self._udp.leaving.put(self.vehicle.now, (self._state().tobytes(), self._peer))
        self._udp.flush(self.vehicle.now)

    def close(self) -> None:
        """Free the ports."""
        for one in (self._robot, self._hand, self._udp, self._tracker):
            one.close()

    def _state(self) -> np.ndarray:
        v, m = self.vehicle, self.vehicle.monitor
        seen = v.sense().values
        moves = self._move is not None
        flags = np.zeros(41, np.uint8)
        if v.error:
            flags[fci.ERRORS[v.error]] = 1
        mode = fci.REFLEX_MODE if v.error else fci.MOVE_MODE if moves else fci.IDLE_MODE
        answered = sum(self._window) / max(1, len(self._window)) if moves else 0.0
        return fci.state({
            "message_id": self._sent, "q": seen["joint angles"], "dq": seen["joint velocities"], "theta": seen["joint angles"],
            "dtheta": seen["joint velocities"], "tau_J": seen["joint torques"],
            "tau_ext_hat_filtered": seen["external torques"],
            "q_d": m.position, "dq_d": m.velocity, "ddq_d": m.acceleration, "errors": flags, "reflex_reason": flags,
            "motion_generator_mode": fci.JOINT_POSITION if moves else 0, "robot_mode": mode,
            "control_command_success_rate": answered,
        })  # fmt: skip

    # -- commands ----------------------------------------------------------------------------------------------

    def _on(self, kind: int, number: int, payload: bytes) -> None:
        if kind == fci.CONNECT:
            self._connect(number, payload)
        elif kind == fci.MOVE:
            self._begin(number, payload)
        elif kind == fci.STOP_MOVE:
            self._answer(kind, number, fci.SUCCESS)
            self.vehicle.disarm()
            self._finish(fci.PREEMPTED)
        elif kind == fci.GET_ROBOT_MODEL:
            self._robot.send(fci.message(kind, number, b"\0" + self._urdf))
        elif kind == fci.AUTOMATIC_ERROR_RECOVERY:
            self.vehicle.arm()
            self.vehicle.disarm()
            self._tell()
            self._answer(kind, number, fci.SUCCESS)
        elif kind == fci.SET_COLLISION_BEHAVIOR:
            self._answer(kind, number, fci.SUCCESS if self._set_collision(payload) else 1)
        elif kind <= fci.SET_LOAD:
            self._answer(kind, number, fci.SUCCESS)

    def _answer(self, kind: int, number: int, status: int) -> None:
        self._robot.send(fci.message(kind, number, struct.pack("<B3x", status)))

    def _connect(self, number: int, payload: bytes) -> None:
        if len(payload) < 4:
            self._robot.drop()
            return
        version, port = struct.unpack_from("<HH", payload)
        fits = version == fci.VERSION
        self._robot.send(fci.message(fci.CONNECT, number, struct.pack("<BH", 0 if fits else 1, fci.VERSION)))
        if fits:
            self._peer = (self._robot.peer, port)
            self._sent = self._before = 0

    def _begin(self, number: int, payload: bytes) -> None:
        if len(payload) < 8 or struct.unpack_from("<II", payload)[1] != fci.JOINT_POSITION - 1:
            self._answer(fci.MOVE, number, fci.INVALID_ARGUMENT)
            return
        if self._move is not None or self.vehicle.error or self._peer is None or not self.vehicle.still:
            self._answer(fci.MOVE, number, fci.NOT_POSSIBLE)
            return
        self.vehicle.arm()
        self._move = number
        self._before = self._sent
        self._window.clear()
        self._answer(fci.MOVE, number, fci.MOTION_STARTED)

    def _finish(self, status: int) -> None:
        if self._move is not None:
            number, self._move = self._move, None
            self._tell()
            self._answer(fci.MOVE, number, status)

    def _set_collision(self, payload: bytes) -> bool:
        """The upper thresholds of torque of slow motion."""
        if len(payload) < 52 * 8:
            return False
        nominal = np.frombuffer(payload, "<f8", 7, 21 * 8)
        if not (np.isfinite(nominal) & (nominal > 0.0)).all():
            return False
        self.vehicle.collision = nominal.copy()
        return True


class FciHand:
    """The arm's gripper on its port.

    Args:
        vehicle: whose it is.
        port: to listen on.
    """

    def __init__(self, vehicle: ArmVehicle, port: int) -> None:
        self._vehicle = vehicle
        self._session = Session(port, fci.GRIPPER_HEADER)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._peer: Peer | None = None
        self._count = 0
        self._running: tuple[int, int, float] | None = None  # command, its number, s by which it ends

    def _width(self) -> float:
        return float(self._vehicle.truth()[OPENING.name][0])

    def receive(self) -> None:
        """Take commands, and answer those that are done."""
        for kind, number, payload in self._session.receive():
            self._on(kind, number, payload)
        if not self._session.there:
            self._peer = self._running = None
        if self._running is not None:
            kind, number, end = self._running
            there = abs(self._width() - self._vehicle.opening_goal) < GRIPPED_M
            if there or self._vehicle.now > end:
                self._running = None
                self._answer(kind, number, 0 if there or kind == fci.GRASP else 2)

    def _on(self, kind: int, number: int, payload: bytes) -> None:
        if kind == fci.GRIPPER_CONNECT and len(payload) >= 4:
            version, port = struct.unpack_from("<HH", payload)
            fits = version == fci.GRIPPER_VERSION
            answer = struct.pack("<HH", 0 if fits else 1, fci.GRIPPER_VERSION)
            self._session.send(fci.gripper_message(kind, number, answer))
            self._peer = (self._session.peer, port) if fits else None
        elif kind in (fci.GRASP, fci.GRIPPER_MOVE) and len(payload) >= 16:
            (width,) = struct.unpack_from("<d", payload)
            if not 0.0 <= width <= 2.0 * self._vehicle.kind.stroke:
                self._answer(kind, number, 1)
                return
            self._vehicle.opening_goal = width
            self._running = kind, number, self._vehicle.now + GRIPPER_S
        elif kind == fci.GRIPPER_STOP:
            self._vehicle.opening_goal = self._width()
            self._answer(kind, number, 0)
        else:
            self._answer(kind, number, 0 if kind == fci.HOMING else 1)

    def _answer(self, kind: int, number: int, status: int) -> None:
        self._session.send(fci.gripper_message(kind, number, struct.pack("<H", status)))

    def send(self) -> None:
        """The hand's state."""
        if self._peer is None:
            return
        self._count += 1
        width = max(0.0, float(self._vehicle.sense().values[OPENING.name][0]))
        with contextlib.suppress(OSError):
            self._udp.sendto(fci.gripper_state(self._count, width, 2.0 * self._vehicle.kind.stroke), self._peer)

    def close(self) -> None:
        """Free the port."""
        self._session.close()
        self._udp.close()
