"""Joint references in C: targets that go to joint goals within limits of speed, acceleration and jerk.

All joints go together, as in training: whichever limit is met first slows all of them by one factor, so that what is commanded
along a line stays on it. The limits of torque and of its rate need the arm's masses, which are its maker's: they are left out.
"""

from __future__ import annotations

from rookery.policies.stages.c_text import literal, table
from rookery.sim.actuation import JointReferences

WORDS = """
   They go to the goals within the limits of speed, acceleration and jerk, all joints slowed by one factor; limits of torque
   are left to the robot."""
NUMBERS = {
    "SETTLING": 4.0, "BRAKE": 0.8, "EASE": 0.6, "CATCH": 0.8, "LATE": 0.8, "KEEN": 1.2, "TOP": 0.97, "BEYOND": 0.03,
    "GUARD": 100.0,
}  # fmt: skip
"""How references brake and settle: the shares of rookery.robots.manipulators.references, which a test compares."""


def code(references: JointReferences | None, prefix: str, joints: int, period: float, velocities: bool) -> list[str]:
    """Tables and functions, the last of them ``<prefix>_targets``.

    Args:
        references: limits, of each joint.
        prefix: beginning of the C names.
        joints: J.
        period: s.
        velocities: goals are velocities, each joint's own, which end before the limits of its position.
    """
    assert references is not None
    limits = {"speed": references.speed, "acceleration": references.acceleration, "jerk": references.jerk}
    tables = [table(f"most_{name}", values) for name, values in limits.items()]
    tables.append(table("target_lead", references.lead))
    text = _COMMON + (_CRUISE if velocities else _HEAD_FOR) + _ADVANCE + _TARGETS
    numbers = NUMBERS | {"BANDWIDTH": references.bandwidth, "DT": period}
    for name, value in numbers.items():
        text = text.replace(f"@{name}@", literal(value))
    return [*tables, text.replace("@J@", str(joints)).replace("@P@", prefix)]


_COMMON = """
/* By how much a vector is too large: the largest share of its limits. */
static float share_of(const float x[@J@], const float most[@J@])
{
    float worst = 0.0f;
    int i;

    for (i = 0; i < @J@; i++) {
        const float share = fabsf(x[i]) / most[i];

        worst = (share > worst) ? share : worst;
    }
    return worst;
}

/* Speed, in ways per second, from which it is possible to stop within the way, and its decay in 1/s; tight in s^2 and bent
   in s^3 are the shares of the limits of acceleration and jerk that the way is. */
static void pace_of(float tight, float bent, float pace[2])
{
    const float a = @BRAKE@ / ((tight > 1e-9f) ? tight : 1e-9f);
    const float j = @EASE@ / ((bent > 1e-9f) ? bent : 1e-9f);

    if (a * a * a >= 6.0f * j * j) { /* all of it is the end of braking, with a constant jerk */
        pace[0] = cbrtf(4.5f * j);
        pace[1] = pace[0] / 1.5f;
    } else {
        const float square = 2.0f * a - a * a * (a / j) * (a / j) / 12.0f;

        pace[0] = sqrtf(square);
        pace[1] = a / pace[0];
    }
}"""

_HEAD_FOR = """

/* What is missing of the speed wanted on the way to the goals, and how that speed changes. */
static void head_for(const @P@_loops *loops, float error[@J@], float push[@J@])
{
    float way[@J@];
    float pace[2];
    float tight;
    float bent;
    float top;
    float square = 1e-12f;
    float along = 0.0f;
    float slowing = 0.0f;
    int i;

    for (i = 0; i < @J@; i++) {
        way[i] = loops->wanted[i] - loops->reference[i];
        square += way[i] * way[i];
        along += way[i] * loops->speed[i];
        slowing -= way[i] * loops->acceleration[i];
    }
    along = ((along > 0.0f) ? along : 0.0f) / square;
    slowing = ((slowing > 0.0f) ? slowing : 0.0f) / square;
    tight = share_of(way, most_acceleration);
    bent = share_of(way, most_jerk);
    pace_of(tight, bent, pace);
    if (pace[0] > @BANDWIDTH@) {
        pace[0] = @BANDWIDTH@;
        pace[1] = @BANDWIDTH@;
    } else { /* braking begins as much earlier as it takes for the acceleration to change */
        const float late = pace[0] * pace[1] - slowing;
        float left = 1.0f - ((late > 0.0f) ? late : 0.0f) * bent * @LATE@ * along;

        left = (left > 0.05f) ? left : 0.05f;
        pace_of(tight * left, bent * left, pace);
        pace[0] *= left;
    }
    top = share_of(way, most_speed);
    top = 1.0f / ((top > 1e-12f) ? top : 1e-12f);
    if (pace[0] > top) {
        pace[0] = top;
        pace[1] = 0.0f;
    }
    pace[1] *= (pace[0] < @KEEN@ * along) ? pace[0] : (@KEEN@ * along); /* what is far slower does not brake yet */
    for (i = 0; i < @J@; i++) {
        push[i] = -pace[1] * way[i];
        error[i] = pace[0] * way[i] - loops->speed[i];
    }
}"""

_CRUISE = """

/* What is missing of the velocities wanted, which end before the limits of position, and how they change. */
static void head_for(const @P@_loops *loops, float error[@J@], float push[@J@])
{
    int i;

    for (i = 0; i < @J@; i++) {
        const float wanted = between(loops->wanted[i], -most_speed[i], most_speed[i]);
        const float ahead = (wanted > 0.0f) ? (joint_upper[i] - loops->reference[i]) : (loops->reference[i] - joint_lower[i]);
        const float side = (wanted > 0.0f) ? 1.0f : -1.0f;
        float left = (ahead > 0.0f) ? ahead : 0.0f;
        float pace[2];
        float most;

        pace_of(left / most_acceleration[i], left / most_jerk[i], pace);
        if (pace[0] > @BANDWIDTH@) {
            pace[0] = @BANDWIDTH@;
            pace[1] = @BANDWIDTH@;
        } else {
            const float slowing = -side * loops->acceleration[i];
            const float speeding = side * loops->speed[i];
            const float brake = left * pace[0] * pace[1] - ((slowing > 0.0f) ? slowing : 0.0f);
            const float late = ((brake > 0.0f) ? brake : 0.0f) / most_jerk[i] * @LATE@;
            const float rest = left - late * ((speeding > 0.0f) ? speeding : 0.0f);

            left = (rest > 0.05f * left) ? rest : (0.05f * left);
            pace_of(left / most_acceleration[i], left / most_jerk[i], pace);
        }
        most = left * pace[0];
        push[i] = (most < fabsf(wanted)) ? (-pace[1] * loops->speed[i]) : 0.0f;
        error[i] = between(wanted, -most, most) - loops->speed[i];
    }
}"""

_ADVANCE = """

/* One step towards a velocity that is `error` away and changes by `push`. */
static void advance(@P@_loops *loops, float error[@J@], const float push[@J@])
{
    float bent = share_of(error, most_jerk);
    float rate = sqrtf(2.0f * @CATCH@ / ((bent > 1e-9f) ? bent : 1e-9f));
    float part;
    int i;

    rate = (rate < @SETTLING@ * @BANDWIDTH@) ? rate : (@SETTLING@ * @BANDWIDTH@);
    for (i = 0; i < @J@; i++) {
        error[i] = rate * error[i] + push[i];
    }
    part = share_of(error, most_acceleration);
    part = (part > 1.0f) ? (1.0f / part) : 1.0f;
    for (i = 0; i < @J@; i++) {
        error[i] = part * error[i] - loops->acceleration[i];
    }
    bent = share_of(error, most_jerk);
    part = (bent > @DT@) ? (@DT@ / bent) : 1.0f;
    for (i = 0; i < @J@; i++) {
        const float fresh = loops->acceleration[i] + part * error[i];
        /* the guard stops a joint at its own limits, whatever the others do */
        const float fastest = most_speed[i] / @TOP@;
        const float up = joint_upper[i] + @BEYOND@ - loops->reference[i];
        const float down = loops->reference[i] - joint_lower[i] + @BEYOND@;
        const float room = 2.0f * most_acceleration[i];
        const float v = loops->speed[i];
        const float jerk = most_jerk[i] * @DT@;
        float most = fastest;
        float least = -fastest;
        float bound;

        if (room * up < v * fabsf(v) || up <= 0.0f) {
            most = sqrtf(0.8f * room * ((up > 0.0f) ? up : 0.0f));
        }
        if (room * down < -v * fabsf(v) || down <= 0.0f) {
            least = -sqrtf(0.8f * room * ((down > 0.0f) ? down : 0.0f));
        }
        bound = between(fresh, @GUARD@ * (least - v), @GUARD@ * (most - v));
        if (bound < fresh || bound > fresh) {
            bound = between(bound, -most_acceleration[i], most_acceleration[i]);
            bound = between(bound, loops->acceleration[i] - jerk, loops->acceleration[i] + jerk);
        }
        loops->acceleration[i] = bound;
        loops->speed[i] += loops->acceleration[i] * @DT@;
        loops->reference[i] += loops->speed[i] * @DT@;
    }
}"""

_TARGETS = """

void @P@_targets(@P@_loops *loops, float target[@J@])
{
    float error[@J@];
    float push[@J@];
    int i;

    head_for(loops, error, push);
    advance(loops, error, push);
    for (i = 0; i < @J@; i++) {
        target[i] = loops->reference[i] + target_lead[i] * loops->speed[i];
    }
}"""
