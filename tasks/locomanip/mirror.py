"""Mirror images of a quadruped's observation, state and action on its plane of symmetry (the world's plane of x and z).

Vectors change the sign of y, rotations those of x and z; the left legs are the right ones, whose phase of the trot is half a
period later. Which joints turn the other way is the robot's (QuadrupedModel.mirror): the Go2's hips do.
"""

from __future__ import annotations

from collections.abc import Sequence

from rookery.sim.sensors.height_scan import SCAN_X, SCAN_Y
from rookery.sim.specs import Mirror, Signed, Term, joined

ACTOR_X: tuple[float, ...] = tuple(round(-0.4 + 0.2 * i, 1) for i in range(7))
ACTOR_Y: tuple[float, ...] = (-0.4, -0.2, 0.0, 0.2, 0.4)
"""m, heading frame: where a policy sees the ground. A critic sees the finer and wider grid of 187 points."""

VECTOR = (1, -2, 3)
TURN = (-1, 2, -3)
FEET = (2, 1, 4, 3)
FEET_VECTORS = (4, -5, 6, 1, -2, 3, 10, -11, 12, 7, -8, 9)

TERMS: dict[str, Signed] = {
    "angular_velocity": TURN,
    "up": VECTOR,
    "command": (1, -2, -3),
    "gait": (-1, -2),
}


def mirror(terms: Sequence[Term], joints: Signed) -> Mirror:
    """The mirror of a quadruped without an arm.

    Args:
        terms: of its policy: those of TERMS and of the joints; on terrain "heights" besides.
        joints: of its twelve joints.
    """
    known: dict[str, Signed] = TERMS | dict.fromkeys(("joint_position", "joint_velocity", "last_action"), joints)
    # LeggedTask.privileged: velocity, height, contacts, clearances, torques, velocities of the feet
    state: list[Signed] = [*known.values(), VECTOR, (1,), FEET, FEET, joints, FEET_VECTORS]
    if any(t.name == "heights" for t in terms):
        known["heights"] = _grid(len(ACTOR_X), len(ACTOR_Y))
        state.append(_grid(len(SCAN_X), len(SCAN_Y)))
    return Mirror(joined([known[t.name] for t in terms]), joints, joined(state))


def _grid(rows: int, columns: int) -> Signed:
    """Heights of the ground: each row, from right to left, the other way round."""
    return tuple(columns * (row + 1) - column for row in range(rows) for column in range(columns))
