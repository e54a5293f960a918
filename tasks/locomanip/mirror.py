"""What the Go2's observation, state and action become in a mirror on its plane of symmetry (the world's plane of x and z).

Vectors change the sign of y, rotations those of x and z; hips turn the other way; the left legs are the right ones, whose phase
of the trot is half a period later.
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
LEGS = (-4, 5, 6, -1, 2, 3, -10, 11, 12, -7, 8, 9)
"""Of hip, thigh and calf of the legs front left, front right, rear left, rear right."""
FEET_VECTORS = (4, -5, 6, 1, -2, 3, 10, -11, 12, 7, -8, 9)

TERMS = {
    "angular_velocity": TURN,
    "up": VECTOR,
    "command": (1, -2, -3),
    "gait": (-1, -2),
    "joint_position": LEGS,
    "joint_velocity": LEGS,
    "last_action": LEGS,
}
PRIVILEGED = (VECTOR, (1,), FEET, FEET, LEGS, FEET_VECTORS)
"""Of `LeggedTask.privileged`: velocity, height, contacts, clearances, torques, velocities of the feet."""


def mirror(terms: Sequence[Term]) -> Mirror:
    """The mirror of a Go2 without an arm.

    Args:
        terms: of its policy, of those that TERMS has; on terrain "heights" besides.
    """
    state: list[Signed] = [*TERMS.values(), *PRIVILEGED]
    known: dict[str, Signed] = dict(TERMS)
    if any(t.name == "heights" for t in terms):
        known["heights"] = _grid(len(ACTOR_X), len(ACTOR_Y))
        state.append(_grid(len(SCAN_X), len(SCAN_Y)))
    return Mirror(joined([known[t.name] for t in terms]), LEGS, joined(state))


def _grid(rows: int, columns: int) -> Signed:
    """Heights of the ground: each row, from right to left, the other way round."""
    return tuple(columns * (row + 1) - column for row in range(rows) for column in range(columns))
