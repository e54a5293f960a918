"""What the Go2's observation, state and action become in a mirror on its plane of symmetry (the world's plane of x and z).

Vectors change the sign of y, rotations those of x and z; hips turn the other way; the left legs are the right ones, whose phase
of the trot is half a period later.
"""

from __future__ import annotations

from collections.abc import Sequence

from rookery.sim.specs import Mirror, Term, joined

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
    """The mirror of a Go2 without an arm on flat ground.

    Args:
        terms: of its policy, of those that TERMS has.
    """
    state = (*TERMS.values(), *PRIVILEGED)
    return Mirror(joined([TERMS[t.name] for t in terms]), LEGS, joined(state))
