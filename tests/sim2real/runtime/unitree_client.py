"""A program written with Unitree's SDK (far-unitree-sdk): what it prints is judged by test_unitree_peers.py.

python unitree_client.py stand      stands a robot up and reads its state
python unitree_client.py robot S    is a robot for S seconds: joints that go where they are told, in the air
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

import unitree_interface as sdk

HOME = [-0.1, 0.8, -1.5, 0.1, 0.8, -1.5, -0.1, 1.0, -1.5, 0.1, 1.0, -1.5]
"""rad, FR, FL, RR, RL: hips outwards."""
LYING = [-0.3, 1.2, -2.7, 0.3, 1.2, -2.7, -0.3, 1.2, -2.7, 0.3, 1.2, -2.7]


def stand(robot: Any) -> dict[str, Any]:
    """Two seconds to the stand, one there."""
    end = time.monotonic() + 10.0
    while not any(robot.read_low_state().motor.q):
        assert time.monotonic() < end, "no state"
        time.sleep(0.01)
    lying = list(robot.read_low_state().motor.q)
    command = robot.create_zero_command()
    command.kp, command.kd = [60.0] * 12, [2.0] * 12
    command.dq_target, command.tau_ff = [0.0] * 12, [0.0] * 12
    began = time.monotonic()
    while (past := time.monotonic() - began) < 3.0:
        share = min(1.0, past / 2.0)
        command.q_target = [a + share * (b - a) for a, b in zip(lying, HOME, strict=True)]
        robot.write_low_command(command)
        time.sleep(0.005)
    state = robot.read_low_state()
    return {
        "lying": lying, "q": list(state.motor.q), "tau": list(state.motor.tau_est), "quat": list(state.imu.quat),
        "accel": list(state.imu.accel), "home": HOME,
    }  # fmt: skip


def serve(robot: Any, seconds: float) -> dict[str, Any]:
    """Joints that follow their set-points, and what was asked while the set-points were stiff."""
    robot.enable_motion_switcher_responder()
    q = list(LYING)
    state = robot.read_low_state()
    began = time.monotonic()
    kp = most = first = last = asked_q = [0.0] * 12
    stiff = 0
    soft_since = 0.0
    while (past := time.monotonic() - began) < seconds and not (stiff and soft_since and past > soft_since + 1.0):
        asked = robot.read_incoming_command()
        if any(asked.kp):
            stiff += 1
            soft_since = 0.0
            kp, asked_q = list(asked.kp), list(asked.q_target)
            most = [max(a, b) for a, b in zip(most, kp, strict=True)]
            first = asked_q if stiff == 1 else first
            last = asked_q if stiff == 1200 else last  # after 2.4 s it stands, and the policy has not begun
            q = [a + 0.1 * (b - a) for a, b in zip(q, asked_q, strict=True)]
        elif stiff and not soft_since:
            soft_since = past
        state.motor.q = [a + random.gauss(0.0, 1e-4) for a in q]
        state.imu.quat = [1.0, 0.0, 0.0, 0.0]
        state.imu.omega = [random.gauss(0.0, 0.01) for _ in range(3)]
        state.imu.accel = [0.0, 0.0, 9.81]
        state.tick = int(1e3 * past) + 1
        robot.publish_low_state(state)
        time.sleep(0.002)
    return {
        "kp": kp, "most": most, "first": first, "lying": LYING, "stand": last, "home": HOME, "stiff": stiff,
        "softened": soft_since > 0.0,
    }  # fmt: skip


def main() -> None:
    """Do what the words say."""
    robot = sdk.UnitreeInterface("lo", sdk.GO2_GO2_CONFIG)
    out = stand(robot) if sys.argv[1] == "stand" else serve(robot, float(sys.argv[2]))
    print(json.dumps(out), flush=True)
    os._exit(0)  # its writer's thread has no end


main()
