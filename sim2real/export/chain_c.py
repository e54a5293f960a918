"""An arm's kinematics in C, by the chain in the contract: from joint angles to the tool's pose and its Jacobian."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.policies.stages.c_text import table
from rookery.sim.actuation import ArmChain, Joint


def declaration(prefix: str, joints: int) -> str:
    """For the header."""
    return f"""
/* The arm's kinematics by the contract's `chain`: from joint angles in rad to the tool's place in m, its matrix row by row
   (tool to world axes), and its Jacobian row by row: velocity x, y, z in m/s, then angular velocity x, y, z in rad/s, world
   axes, of each joint's rad/s. `user` is not read. */
void {prefix}_forward(const float angle[{joints}], float place[3], float matrix[9], float jacobian[{6 * joints}], void *user);
"""


def code(chain: ArmChain, joints: Sequence[Joint], prefix: str) -> list[str]:
    """Tables and the function."""
    tables = [
        table("chain_offset", chain.offsets),
        table("chain_turn", [_matrix(q) for q in chain.turns]),
        table("chain_axis", [j.axis for j in joints]),
    ]
    return [
        *tables,
        _FORWARD.replace("@6J@", str(6 * len(joints))).replace("@J@", str(len(joints))).replace("@P@", prefix),
    ]


def _matrix(q: Sequence[float]) -> tuple[float, ...]:
    """Row by row."""
    w, x, y, z = q
    return (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


_FORWARD = """
/* m = m n, row by row. */
static void turn_by(float m[9], const float n[9])
{
    int i;
    int j;

    for (i = 0; i < 9; i += 3) {
        const float a = m[i];
        const float b = m[i + 1];
        const float c = m[i + 2];

        for (j = 0; j < 3; j++) {
            m[i + j] = a * n[j] + b * n[3 + j] + c * n[6 + j];
        }
    }
}

/* The matrix of a rotation about an axis of length 1. */
static void about(const float u[3], float angle, float m[9])
{
    const float s = sinf(angle);
    const float k = 1.0f - cosf(angle);
    int i;
    int j;

    for (i = 0; i < 3; i++) {
        for (j = 0; j < 3; j++) {
            m[3 * i + j] = k * u[i] * u[j];
        }
        m[4 * i] += 1.0f - k;
    }
    m[1] -= s * u[2];
    m[2] += s * u[1];
    m[3] += s * u[2];
    m[5] -= s * u[0];
    m[6] -= s * u[1];
    m[7] += s * u[0];
}

void @P@_forward(const float angle[@J@], float place[3], float matrix[9], float jacobian[@6J@], void *user)
{
    float origin[3 * @J@];
    float spin[3 * @J@];
    float turn[9];
    int i;
    int n;

    (void)user;
    for (i = 0; i < 9; i++) {
        matrix[i] = (i % 4 == 0) ? 1.0f : 0.0f;
        place[i % 3] = 0.0f;
    }
    for (n = 0; n <= @J@; n++) {
        const float *offset = &chain_offset[3 * n];

        for (i = 0; i < 3; i++) {
            place[i] += matrix[3 * i] * offset[0] + matrix[3 * i + 1] * offset[1] + matrix[3 * i + 2] * offset[2];
        }
        turn_by(matrix, &chain_turn[9 * n]);
        if (n < @J@) {
            const float *axis = &chain_axis[3 * n];

            for (i = 0; i < 3; i++) {
                origin[3 * n + i] = place[i];
                spin[3 * n + i] = matrix[3 * i] * axis[0] + matrix[3 * i + 1] * axis[1] + matrix[3 * i + 2] * axis[2];
            }
            about(axis, angle[n], turn);
            turn_by(matrix, turn);
        }
    }
    for (n = 0; n < @J@; n++) {
        const float x = place[0] - origin[3 * n];
        const float y = place[1] - origin[3 * n + 1];
        const float z = place[2] - origin[3 * n + 2];
        const float *s = &spin[3 * n];

        jacobian[n] = s[1] * z - s[2] * y;
        jacobian[@J@ + n] = s[2] * x - s[0] * z;
        jacobian[2 * @J@ + n] = s[0] * y - s[1] * x;
        for (i = 0; i < 3; i++) {
            jacobian[@J@ * (3 + i) + n] = s[i];
        }
    }
}"""
