"""A program written with pylibfranka, as its users write them: what it prints is judged by test_franka.py.

python franka_client.py
"""

from __future__ import annotations

import json
import math
from typing import Any

import pylibfranka as franka

HOST = "127.0.0.1"


def follow(robot: Any, seconds: float, path: Any) -> tuple[list[float], list[float], str]:
    """Joint angles at the beginning and the end of a motion by a path of the last joint, rad, and the robot's error."""
    control = robot.start_joint_position_control(franka.ControllerMode.JointImpedance)
    state, _ = control.readOnce()
    start, time = list(state.q_d), 0.0
    try:
        while True:
            angles = list(start)
            angles[6] += path(time)
            command = franka.JointPositions(angles)
            command.motion_finished = time >= seconds
            control.writeOnce(command)
            if command.motion_finished:
                return start, list(robot.read_once().q), ""
            state, passed = control.readOnce()
            time += passed.to_sec()
    except franka.ControlException as error:
        return start, list(state.q), str(error)


def main() -> None:
    """Read, move, break a limit, recover, move again, and use the hand."""
    out: dict[str, Any] = {}
    robot = franka.Robot(HOST, franka.RealtimeConfig.kIgnore)
    first = robot.read_once()
    out["mode"], out["q"] = first.robot_mode.name, list(first.q)
    robot.set_collision_behavior([40.0] * 7, [40.0] * 7, [100.0] * 6, [100.0] * 6)

    def wave(time: float) -> float:
        return 0.15 * (1.0 - math.cos(0.5 * math.pi * min(time, 2.0)))

    start, end, error = follow(robot, 2.0, wave)
    out["wave"] = [end[6] - start[6], error]
    start, end, error = follow(robot, 1.0, lambda time: 0.05 if time > 0.3 else 0.0)
    out["step"] = [end[6] - start[6], error, robot.read_once().robot_mode.name]
    try:
        robot.start_joint_position_control(franka.ControllerMode.JointImpedance)
        out["refused"] = ""
    except franka.CommandException as error:
        out["refused"] = str(error)
    robot.automatic_error_recovery()
    out["recovered"] = robot.read_once().robot_mode.name
    start, end, error = follow(robot, 1.0, lambda time: 0.05 * (1.0 - math.cos(math.pi * time)))
    out["again"] = [end[6] - start[6], error]
    hand = franka.Gripper(HOST)
    out["open"] = hand.read_once().width
    out["moved"] = [hand.move(0.03, 0.1), hand.read_once().width]
    try:
        franka.Robot(HOST, franka.RealtimeConfig.kIgnore)
        out["second"] = ""
    except RuntimeError as error:  # of the network
        out["second"] = str(error)
    print(json.dumps(out))


main()
