"""``ros2://INTERFACE``: arms whose joints are driven over topics of ROS 2, by DDS and without ROS.

Reads sensor_msgs/JointState, whose names find the joints, and writes positions to a controller of ros2_control at a fixed rate:
trajectory_msgs/JointTrajectory of one point, or std_msgs/Float64MultiArray. Such controllers hold the last position where
messages stop, so that a runtime that is killed leaves an arm that stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.addresses import Address
from rookery.sim2real.links.dds import DOMAINS, Participant, cyclone
from rookery.sim2real.links.drive_link import MOVING, OFF, QUICK, STOPPING, DriveLink
from rookery.sim2real.links.link import Link
from rookery.sim2real.links.ros2_messages import dds_topic, multi_array, read_joint_state, ros_types, trajectory
from rookery.sim2real.links.ros2_twist import Ros2TwistLink
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.settings import family_of

STATES = "/joint_states"
COMMANDS = {
    "trajectory": ("/joint_trajectory_controller/joint_trajectory", "JointTrajectory"),
    "array": ("/forward_position_controller/commands", "Float64MultiArray"),
}
"""Topics that ros2_control's controllers listen to under their usual names, and the types."""
TYPES = {
    "JointTrajectory": "trajectory_msgs/JointTrajectory",
    "Float64MultiArray": "std_msgs/Float64MultiArray",
}
GRIPPER = 252  # number of the gripper's drive, after the joints'
OPEN_S = 5.0  # s, most time to find the robot
OTHERS_S = 0.3  # s in which commands of others would be heard
TAKEN = 8  # messages at once
LOOKS = 10  # cycles between two looks whether anybody listens


def ros2_link(address: Address, group: ContractGroup, clock: TimeSource) -> Link:
    """A link for the robot of a contract: by twists for multirotors, by joints for arms."""
    if family_of(group) == "multirotor":
        return Ros2TwistLink(address, group, clock)
    return Ros2Link(address, group, clock)


class Ros2Link(DriveLink):
    """See the module.

    Args:
        address: the network interface. Options: `domain`, ROS_DOMAIN_ID; `states` and `commands`, topics; `as`, trajectory or
            array; `gripper`, name of the joint whose position is the opening, m; `period`, ms; `tracker` and `hold` as
            DriveLink's.
        group: of the contract.
        clock: of the runtime.

    Raises:
        RookeryError: an option is wrong, the contract's commands lead to no joint positions, or cyclonedds is not installed.
    """

    name = "joints of ROS 2"

    def __init__(self, address: Address, group: ContractGroup, clock: TimeSource) -> None:
        address.allow("domain", "states", "commands", "as", "gripper", "tracker", "hold", "period")
        if not address.host or address.port is not None or address.path:
            raise RookeryError(
                f"{address.url} must name the network interface that the robot is at, such as ros2://eth0."
            )
        cyclone("ros2")
        period = address.option("period", 10) / 1e3
        if not 0.002 <= period <= 0.025:
            raise RookeryError(f"period must be from 2 to 25 ms in {address.url}.")
        form = address.options.get("as", "trajectory")
        if form not in COMMANDS:
            raise RookeryError(f"as must be one of {', '.join(COMMANDS)} in {address.url}, got {form!r}.")
        gripper = address.options.get("gripper", "")
        super().__init__(address, group, clock, period, "", GRIPPER, GRIPPER if gripper else 0)
        self._domain = address.whole("domain", 0, DOMAINS - 1)
        self._form = form
        self._joints = [*self.drive.names, gripper][: len(self._ids)]
        self._topics = (
            address.options.get("states", STATES),
            address.options.get("commands", COMMANDS[form][0]),
        )
        self._dds_topics = [dds_topic(name) for name in self._topics]
        self._states: Any = None
        self._commands: Any = None
        self._listened = False
        self._turn = 0

    # -- who is there ------------------------------------------------------------------------------------------

    def _connect(self) -> list[float]:
        k = ros_types()
        participant = Participant(self._address.host, self._domain)
        kind = COMMANDS[self._form][1]
        where = f"on {self._address.host}, domain {self._domain}"
        self._states = participant.objects(self._dds_topics[0], k.JointState)
        first = self._first(lambda: next(iter(self._states.take(1)), None))
        if first is None:
            raise RookeryError(
                f"{self.url}: nobody publishes sensor_msgs/JointState to {self._topics[0]} {where}: is the robot's "
                "driver running?"
            )
        self._check(first)
        self._check_alone(participant, getattr(k, kind))
        self._commands = participant.objects_writer(self._dds_topics[1], getattr(k, kind))
        if self._first(lambda: self._look() or None) is None:
            raise RookeryError(
                f"{self.url}: nobody listens to {TYPES[kind]} on {self._topics[1]} {where}: is its controller active?"
            )
        return [np.inf] * len(self.drive.names)

    def _check_alone(self, participant: Participant, kind: Any) -> None:
        others = participant.objects(self._dds_topics[1], kind)
        if self._first(lambda: others.take(TAKEN) or None, OTHERS_S) is not None:
            raise RookeryError(f"{self.url}: another program publishes to {self._topics[1]}: end it first.")

    def _first(self, ask: Callable[[], Any], seconds: float | None = None) -> Any:
        """The first answer within a time, OPEN_S where none is given; None where there is none."""
        end = time.monotonic() + (OPEN_S if seconds is None else seconds)
        while (answer := ask()) is None and time.monotonic() < end:
            time.sleep(0.005)
        return answer

    def _check(self, sample: Any) -> None:
        told = list(getattr(sample, "name", ()))
        missing = [name for name in self._joints if name not in told]
        if missing:
            raise RookeryError(
                f"{self.url}: {self._topics[0]} has no {', '.join(missing)}, but "
                f"{', '.join(map(str, told[:20])) or 'no joints'}: names must be the contract's."
            )
        if read_joint_state(sample, self._joints) is None:
            raise RookeryError(f"{self.url}: {self._topics[0]} does not tell position and velocity of every joint.")

    def _look(self) -> bool:
        """True while somebody listens to the commands."""
        return bool(self._commands.get_matched_subscriptions())

    # -- what DriveLink asks -----------------------------------------------------------------------------------

    def _receive(self, now: float) -> None:
        for sample in self._states.take(TAKEN):
            rows = read_joint_state(sample, self._joints)
            if rows is not None:
                self._measured[:] = rows
                self._stamps[:] = now
                self.heard = now
        if self._turn % LOOKS == 0:
            self._listened = self._look()
        self._turn += 1

    def _enabled(self) -> list[bool]:
        return [self._listened] * len(self._ids)

    def _trouble(self) -> str:
        return f"nobody listens to {self._topics[1]} any more"

    def _send(self, now: float) -> None:
        with self._lock:
            mode, targets = self._mode, self._targets.tolist()
            if mode == QUICK:  # hold where it is, said once
                self._mode = OFF
        if mode not in (MOVING, STOPPING, QUICK) or not np.isfinite(targets).all():  # measured angles may be NaN
            return
        if self._form == "trajectory":
            self._commands.write(trajectory(self._joints, targets, self._period))
        else:
            self._commands.write(multi_array(targets))

    def _leave(self) -> None:
        self._states = self._commands = None
