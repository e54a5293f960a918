"""Wire format of Franka's control interface, version 10: messages over TCP, robot states and commands over UDP.

Structures are those of libfranka's research_interface (robot/rbk_types.h, robot/service_types.h, gripper/types.h,
common/research_interface): packed, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

VERSION, PORT = 10, 1337
GRIPPER_VERSION, GRIPPER_PORT = 3, 1338
HEADER = struct.Struct("<III")
"""Command, its number, bytes of the message with this."""
GRIPPER_HEADER = struct.Struct("<HII")
LONGEST = 4096  # bytes of a message that a client sends

(
    CONNECT, MOVE, STOP_MOVE, SET_COLLISION_BEHAVIOR, SET_JOINT_IMPEDANCE, SET_CARTESIAN_IMPEDANCE, SET_GUIDING_MODE,
    SET_EE_TO_K, SET_NE_TO_EE, SET_LOAD, AUTOMATIC_ERROR_RECOVERY, GET_ROBOT_MODEL,
) = range(12)  # fmt: skip
"""Commands."""
SUCCESS, MOTION_STARTED, PREEMPTED = 0, 1, 2
NOT_POSSIBLE, INVALID_ARGUMENT, REFLEX_ABORTED = 5, 7, 8
"""Statuses of a motion."""
GRIPPER_CONNECT, HOMING, GRASP, GRIPPER_MOVE, GRIPPER_STOP = range(5)
IDLE_MODE, MOVE_MODE, REFLEX_MODE = 1, 2, 4
"""Modes of the robot."""
JOINT_POSITION = 1
"""Mode of the motion generator in a state; one less in the command to move."""
ERRORS = {
    "joint_reflex": 6,
    "joint_position_motion_generator_start_pose_invalid": 11,
    "joint_motion_generator_position_limits_violation": 12,
    "joint_motion_generator_velocity_limits_violation": 13,
    "joint_motion_generator_velocity_discontinuity": 14,
    "joint_motion_generator_acceleration_discontinuity": 15,
    "communication_constraints_violation": 25,
}  # fmt: skip
"""Places among the error flags."""

_FLAGS = 41
_STATE: tuple[tuple[str, str, int], ...] = (
    ("message_id", "Q", 1),
    *((name, "f", 16) for name in ("O_T_EE", "O_T_EE_d", "F_T_EE", "EE_T_K", "F_T_NE", "NE_T_EE")),
    ("m_ee", "f", 1), ("I_ee", "f", 9), ("F_x_Cee", "f", 3),
    ("m_load", "f", 1), ("I_load", "f", 9), ("F_x_Cload", "f", 3),
    ("elbow", "f", 2), ("elbow_d", "f", 2),
    *((name, "f", 7) for name in ("tau_J", "tau_J_d", "dtau_J", "q", "q_d", "dq", "dq_d", "ddq_d")),
    ("joint_contact", "f", 7), ("cartesian_contact", "f", 6), ("joint_collision", "f", 7), ("cartesian_collision", "f", 6),
    ("tau_ext_hat_filtered", "f", 7),
    *((name, "f", 6) for name in ("O_F_ext_hat_K", "K_F_ext_hat_K", "O_dP_EE_d")),
    ("O_ddP_O", "f", 3), ("elbow_c", "f", 2), ("delbow_c", "f", 2), ("ddelbow_c", "f", 2),
    ("O_T_EE_c", "f", 16), ("O_dP_EE_c", "f", 6), ("O_ddP_EE_c", "f", 6),
    ("theta", "f", 7), ("dtheta", "f", 7), ("accelerometer_top", "f", 18), ("accelerometer_bottom", "f", 18),
    ("motion_generator_mode", "B", 1), ("controller_mode", "B", 1),
    ("errors", "B", _FLAGS), ("reflex_reason", "B", _FLAGS), ("robot_mode", "B", 1), ("control_command_success_rate", "f", 1),
)  # fmt: skip
_TYPES = {"Q": "<u8", "f": "<f4", "B": "u1"}
STATE = np.dtype([(n, _TYPES[t], (k,)) if k > 1 else (n, _TYPES[t]) for n, t, k in _STATE])
"""A robot state, 1377 bytes."""
COMMAND = np.dtype([
    ("message_id", "<u8"), ("q_c", "<f8", (7,)), ("dq_c", "<f8", (7,)), ("O_T_EE_c", "<f8", (16,)), ("O_dP_EE_c", "<f8", (6,)),
    ("elbow_c", "<f8", (2,)), ("valid_elbow", "u1"), ("motion_generation_finished", "u1"), ("tau_J_d", "<f8", (7,)),
    ("torque_command_finished", "u1"),
])  # fmt: skip
"""A command of a motion, 371 bytes."""
_GRIPPER_STATE = struct.Struct("<IddBH")


def state(values: Mapping[str, Any]) -> np.ndarray:
    """A state [1] of STATE; what is not given is 0, and poses the identity."""
    out = np.zeros(1, STATE)
    for name, _, count in _STATE:
        if count == 16:
            out[name] = np.eye(4).ravel()
    for name, value in values.items():
        out[name] = value
    return out


def command(data: bytes) -> np.void | None:
    """The command in a datagram; None where it is none."""
    if len(data) != COMMAND.itemsize:
        return None
    row: np.void = np.frombuffer(data, COMMAND)[0]
    return row


def message(kind: int, number: int, payload: bytes) -> bytes:
    """A message of the robot."""
    return HEADER.pack(kind, number, HEADER.size + len(payload)) + payload


def gripper_message(kind: int, number: int, payload: bytes) -> bytes:
    """A message of the gripper."""
    return GRIPPER_HEADER.pack(kind, number, GRIPPER_HEADER.size + len(payload)) + payload


def gripper_state(number: int, width: float, widest: float) -> bytes:
    """A state of the gripper: m."""
    return _GRIPPER_STATE.pack(number, width, widest, 0, 30)
