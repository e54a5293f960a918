"""The loops of a multirotor below its policy, in C: those of the cascade that the action enters, mixer, curves inverted.

    NAME_loops loops;
    NAME_start_loops(&loops);
    for (;;) {                                      /* every NAME_LOOP_DT seconds */
        NAME_motors(&loops, &now, command, motor);  /* motor commands in [0, 1] */
    }

Each loop is a function of its own, so that a vehicle that has one takes that one's set-point. Every number stands in the
contract's `actuation`.
"""

from __future__ import annotations

import math
from itertools import pairwise

from rookery.policies.stages.c_text import LIMIT, literal, public, table
from rookery.sim.actuation import Actuation, Loop, Multirotor
from rookery.sim.specs import ActionSpec
from rookery.sim.terms.c import comment
from rookery.sim2real.export.loop_calls import LoopCalls

SETPOINTS = {
    "position": ("position_x", "position_y", "position_z", "yaw"),
    "velocity": ("velocity_x", "velocity_y", "velocity_z", "yaw_rate"),
    "attitude": ("roll", "pitch", "yaw_rate", "collective_thrust"),
    "rate": ("roll_rate", "pitch_rate", "yaw_rate", "collective_thrust"),
}
"""What each loop follows, by the names of the action's components."""
UNITS = {
    "position": "m, world axes; rad",
    "velocity": "m/s, world axes; rad/s",
    "attitude": "rad, rad, rad/s, N",
    "rate": "rad/s, body axes; N",
}
OPTIONAL = "yaw_rate"
"""The component that is 0 where the action has none."""
LEVELS = ("position", "velocity", "attitude", "rate")
"""Loops from the outermost to the innermost."""


class MultirotorC:
    """C of a multirotor's loops.

    Args:
        actuation: with a multirotor.
        action: of the group.
        prefix: beginning of the C names.
        control_dt: s.

    Attributes:
        outputs: motors.
        calls: of a program.
    """

    def __init__(self, actuation: Actuation, action: ActionSpec, prefix: str, control_dt: float) -> None:
        assert actuation.multirotor is not None
        self.craft: Multirotor = actuation.multirotor
        self.period = actuation.period
        self.prefix = prefix
        self.action = action
        self.outputs = len(self.craft.rotors)
        self.loops = {loop.name: loop for loop in self.craft.loops}
        self.levels = [name for name in LEVELS if name in self.loops and not self._yaw_alone(name)]
        self.entry = self.levels[0] if self.levels else "motors"
        self.calls = LoopCalls(
            f"{prefix}_start_loops(&loops);",
            (f"{prefix}_motors(&loops, &now, command, motor); /* motor commands in [0, 1] */",),
            {"motor": self.outputs},
        )

    def _yaw_alone(self, name: str) -> bool:
        """True where a loop is there for the integrated yaw alone: the attitude loop, where the action enters at the rates."""
        return name == "attitude" and "roll" not in self.action.names and "velocity" not in self.loops

    @property
    def refused(self) -> str:
        """The reason why it has no C; "" where it has."""
        if self.levels and tuple(self.levels) != LEVELS[-len(self.levels) :]:
            return f"the loops {', '.join(map(comment, self.loops))} do not follow each other"
        lacking = next((n for n in self._wanted if n not in self.action.names and n != OPTIONAL), "")
        return f"the action of kind {comment(self.action.kind)} has no component {comment(lacking)}" if lacking else ""

    @property
    def _wanted(self) -> tuple[str, ...]:
        if self.entry == "motors":
            return tuple(f"{rotor.name}_thrust" for rotor in self.craft.rotors)
        return SETPOINTS[self.entry]

    def sensed(self) -> list[str]:
        """Members of the struct of what the loops measure."""
        out = []
        if "position" in self.levels:
            out.append("float position[3]; /* m, world axes */")
        if "velocity" in self.levels:
            out.append("float velocity[3]; /* m/s, world axes */")
        if self.craft.integrated_yaw or self.levels[:1] not in ([], ["rate"]):
            out.append("float rotation[4]; /* quaternion w, x, y, z, body to world axes */")
        if self.levels:
            out.append("float angular_velocity[3]; /* rad/s, body axes */")
        return out

    def kept(self) -> list[str]:
        """Members of the struct of what they keep."""
        out = [f"float {name}_sum[3];" for name in ("velocity", "attitude") if name in self.loops]
        if self.craft.integrated_yaw and self.levels:
            out += ["float yaw_wanted; /* rad */", "float yaw_before; /* rad */"]
        if self.levels:
            out += ["float rate_sum[3];", "float rate_before[3];"]
        return out

    def declarations(self) -> str:
        """For the header, behind the structs."""
        p, d, r = self.prefix, self.action.size, self.outputs
        order = ", ".join(comment(rotor.name) for rotor in self.craft.rotors)
        out = f"""
/* Begin an episode: sums at 0. */
void {p}_start_loops({p}_loops *loops);
"""
        for name, then in pairwise(self.levels):
            memory = "" if name == "position" else f"{p}_loops *loops, "
            out += f"""
/* From {self._words(name)}
   to {self._words(then)}. */
void {p}_{name}_loop({memory}const {p}_sensed *now, const float {name}[4], float {then}[4]);
"""
        if "rate" in self.levels:
            out += f"""
/* From {self._words("rate")}
   to shares of the full motor command about x, y, z. */
void {p}_rate_loop({p}_loops *loops, const {p}_sensed *now, const float rate[4], float output[3]);

/* Motor commands in [0, 1], in the order {order}, of a collective thrust (N) and the rate loop's output. */
void {p}_mixer(float collective_thrust, const float output[3], float motor[{r}]);
"""
        return (
            out
            + f"""
/* The motor command in [0, 1] at which a rotor pushes with `thrust` N. */
float {p}_motor_for(float thrust);

/* All of them: from the policy's command to motor commands in [0, 1], in the order {order}. */
void {p}_motors({p}_loops *loops, const {p}_sensed *now, const float command[{d}], float motor[{r}]);
"""
        )

    @staticmethod
    def _words(level: str) -> str:
        return f"{', '.join(SETPOINTS[level])} ({UNITS[level]})"

    def code(self) -> list[str]:
        """For the C file."""
        parts = [self._start(), self._motor_for()]
        emit = {"position": self._position, "velocity": self._velocity, "attitude": self._attitude, "rate": self._rate}
        parts += [emit[name]() for name in self.levels]
        parts.append(self._motors())
        if not self.levels:
            return parts
        called = [text for name, text in _HELPERS.items() if any(f"{name}(" in part for part in parts)]
        return [*called, *self._tables(), *parts]

    def _tables(self) -> list[str]:
        out = []
        for name, loop in self.loops.items():
            out += [table(f"{name}_{what}", getattr(loop, what) or [LIMIT] * 3) for what in self._used(loop)]
        rotors = [x for rotor in self.craft.rotors for x in rotor.mix]
        return [*out, table("mixer", rotors)]

    def _used(self, loop: Loop) -> list[str]:
        """The gains and limits that a loop's function reads."""
        sums = ["ki", "integral_limit"]
        last = ["kd", "output_limit"]
        yaw = ["kd"] if self.craft.integrated_yaw else []
        more = {"position": [], "velocity": sums, "attitude": [*sums, *yaw], "rate": [*sums, *last]}[loop.name]
        return ["kp", *more]

    def _start(self) -> str:
        steps = []
        for line in self.kept():
            name = line.split()[1].rstrip(";")
            if name.endswith("[3]"):
                steps.append(f"for (i = 0; i < 3; i++) {{ loops->{name[:-3]}[i] = 0.0f; }}")
            else:
                steps.append(f"loops->{name} = 0.0f;")
        return public(f"void {self.prefix}_start_loops({self.prefix}_loops *loops)", [*steps, "loops->begun = 0;"])

    def _motor_for(self) -> str:
        t0, t1, t2 = (literal(t) for t in self.craft.thrust_curve)
        if self.craft.thrust_curve[2] == 0.0:
            steps = [f"const float speed = (thrust - {t0}) / {t1};", ""]
        else:
            steps = [
                f"const float square = {t1} * {t1} + 4.0f * {t2} * (thrust - {t0});",
                f"const float speed = (sqrtf((square < 0.0f) ? 0.0f : square) - {t1}) / (2.0f * {t2});",
                "",
            ]
        last = "return (speed < 0.0f) ? 0.0f : ((speed > 1.0f) ? 1.0f : speed);"
        return public(f"float {self.prefix}_motor_for(float thrust)", [*steps, last])

    def _position(self) -> str:
        return self._loop("position", "velocity", _POSITION, memory=False)

    def _velocity(self) -> str:
        return self._loop("velocity", "attitude", _VELOCITY)

    def _attitude(self) -> str:
        return self._loop("attitude", "rate", _ATTITUDE)

    def _loop(self, name: str, to: str, text: str, memory: bool = True) -> str:
        p = self.prefix
        kept = f"{p}_loops *loops, " * memory
        head = f"void {p}_{name}_loop({kept}const {p}_sensed *now, const float {name}[4], float {to}[4])"
        return "\n" + head + self._filled(text)

    def _rate(self) -> str:
        p = self.prefix
        head = f"void {p}_rate_loop({p}_loops *loops, const {p}_sensed *now, const float rate[4], float output[3])"
        yaw = _YAW if self.craft.integrated_yaw else ""
        mixer = f"\nvoid {p}_mixer(float collective_thrust, const float output[3], float motor[{self.outputs}])"
        return "\n" + head + self._filled(_RATE.replace("@YAW@", yaw)) + "\n" + mixer + self._filled(_MIXER)

    def _filled(self, text: str) -> str:
        craft = self.craft
        numbers = {
            "MAX_VELOCITY": craft.max_velocity, "YAW_KP": craft.yaw_kp, "GRAVITY": craft.gravity, "MASS": craft.mass,
            "LEAST_UP": craft.least_lift * craft.gravity, "SLOPE": math.tan(craft.max_tilt), "COSINE": craft.least_cosine,
            "HIGHEST": self.outputs * sum(craft.thrust_curve), "DT": self.period, "SHARE": 1.0 / self.outputs,
        }  # fmt: skip
        for name, value in numbers.items():
            text = text.replace(f"@{name}@", literal(value))
        return text.replace("@ROTORS@", str(self.outputs)).replace("@P@", self.prefix)

    def _motors(self) -> str:
        p, d, r = self.prefix, self.action.size, self.outputs
        head = f"void {p}_motors({p}_loops *loops, const {p}_sensed *now, const float command[{d}], float motor[{r}])"
        if self.entry == "motors":
            at = [self.action.names.index(name) for name in self._wanted]
            return public(head, [f"motor[{i}] = {p}_motor_for(command[{k}]);" for i, k in enumerate(at)])
        steps = [f"float {name}[4];" for name in self.levels] + ["float output[3];"]
        for i, name in enumerate(self._wanted):
            given = f"command[{self.action.names.index(name)}]" if name in self.action.names else "0.0f"
            steps.append(f"{self.entry}[{i}] = {given};")
        for name, to in zip(self.levels, [*self.levels[1:], "output"], strict=True):
            memory = "" if name == "position" else "loops, "
            steps.append(f"{p}_{name}_loop({memory}now, {name}, {to});")
        return public(head, [*steps, f"{p}_mixer(rate[3], output, motor);"])


_HELPERS = {
    "wrapped": """
/* An angle in [-pi, pi). */
static float wrapped(float angle)
{
    return angle - 6.28318531f * floorf((angle + 3.14159265f) / 6.28318531f);
}""",
    "held": """
static float held(float x, float limit)
{
    return (x > limit) ? limit : ((x < -limit) ? -limit : x);
}""",
    "heading_of": """
static float heading_of(const float q[4])
{
    return atan2f(2.0f * (q[0] * q[3] + q[1] * q[2]), 1.0f - 2.0f * (q[2] * q[2] + q[3] * q[3]));
}""",
}

_POSITION = """
{
    float square = 0.0f;
    float share;
    int i;

    for (i = 0; i < 3; i++) {
        velocity[i] = position_kp[i] * (position[i] - now->position[i]);
        square += velocity[i] * velocity[i];
    }
    share = (sqrtf(square) > @MAX_VELOCITY@) ? (@MAX_VELOCITY@ / sqrtf(square)) : 1.0f;
    for (i = 0; i < 3; i++) {
        velocity[i] *= share;
    }
    velocity[3] = @YAW_KP@ * wrapped(position[3] - heading_of(now->rotation));
}"""

_VELOCITY = """
{
    const float *q = now->rotation;
    const float yaw_angle = heading_of(q);
    float a[3];
    float up;
    float level;
    float share;
    float forward;
    float left;
    float cosine;
    float thrust;
    int i;

    for (i = 0; i < 3; i++) {
        const float e = velocity[i] - now->velocity[i];

        loops->velocity_sum[i] = held(loops->velocity_sum[i] + e * @DT@, velocity_integral_limit[i]);
        a[i] = velocity_kp[i] * e + velocity_ki[i] * loops->velocity_sum[i];
    }
    up = a[2] + @GRAVITY@;
    up = (up < @LEAST_UP@) ? @LEAST_UP@ : up;
    level = sqrtf(a[0] * a[0] + a[1] * a[1]);
    share = (level > @SLOPE@ * up) ? (@SLOPE@ * up / level) : 1.0f;
    forward = share * (cosf(yaw_angle) * a[0] + sinf(yaw_angle) * a[1]);
    left = share * (cosf(yaw_angle) * a[1] - sinf(yaw_angle) * a[0]);
    cosine = 1.0f - 2.0f * (q[1] * q[1] + q[2] * q[2]);
    thrust = @MASS@ * up / ((cosine < @COSINE@) ? @COSINE@ : cosine);
    attitude[0] = atan2f(-left * up / sqrtf(forward * forward + up * up), up);
    attitude[1] = atan2f(forward, up);
    attitude[2] = velocity[3];
    attitude[3] = (thrust < 0.0f) ? 0.0f : ((thrust > @HIGHEST@) ? @HIGHEST@ : thrust);
}"""

_ATTITUDE = """
{
    /* e is twice the vector part of the rotation from the present attitude to the wanted one, at the present yaw */
    const float *q = now->rotation;
    const float half = 0.5f * heading_of(q);
    const float cr = cosf(0.5f * attitude[0]);
    const float sr = sinf(0.5f * attitude[0]);
    const float cp = cosf(0.5f * attitude[1]);
    const float sp = sinf(0.5f * attitude[1]);
    const float cy = cosf(half);
    const float sy = sinf(half);
    const float w = cr * cp * cy + sr * sp * sy;
    const float x = sr * cp * cy - cr * sp * sy;
    const float y = cr * sp * cy + sr * cp * sy;
    const float z = cr * cp * sy - sr * sp * cy;
    const float sign = (q[0] * w + q[1] * x + q[2] * y + q[3] * z < 0.0f) ? -2.0f : 2.0f;
    float e[2];
    int i;

    e[0] = sign * (q[0] * x - q[1] * w - q[2] * z + q[3] * y);
    e[1] = sign * (q[0] * y - q[2] * w - q[3] * x + q[1] * z);
    for (i = 0; i < 2; i++) {
        loops->attitude_sum[i] = held(loops->attitude_sum[i] + e[i] * @DT@, attitude_integral_limit[i]);
        rate[i] = attitude_kp[i] * e[i] + attitude_ki[i] * loops->attitude_sum[i];
    }
    rate[2] = attitude[2];
    rate[3] = attitude[3];
}"""

_YAW = """
    /* the yaw rate moves a yaw angle, which is tracked */
    {
        const float angle = heading_of(now->rotation);
        float e;

        if (loops->begun == 0) {
            loops->yaw_wanted = angle;
            loops->yaw_before = angle;
        }
        loops->yaw_wanted = wrapped(loops->yaw_wanted + rate[2] * @DT@);
        e = wrapped(loops->yaw_wanted - angle);
        loops->attitude_sum[2] = held(loops->attitude_sum[2] + e * @DT@, attitude_integral_limit[2]);
        wanted[2] = attitude_kp[2] * e + attitude_ki[2] * loops->attitude_sum[2]
            - attitude_kd[2] * wrapped(angle - loops->yaw_before) / @DT@;
        loops->yaw_before = angle;
    }"""

_RATE = """
{
    float wanted[3];
    int i;

    for (i = 0; i < 3; i++) {
        wanted[i] = rate[i];
    }@YAW@
    for (i = 0; i < 3; i++) {
        const float measured = now->angular_velocity[i];
        const float e = wanted[i] - measured;
        const float slope = (loops->begun == 0) ? 0.0f : ((measured - loops->rate_before[i]) / @DT@);

        loops->rate_sum[i] = held(loops->rate_sum[i] + e * @DT@, rate_integral_limit[i]);
        loops->rate_before[i] = measured;
        output[i] = held(rate_kp[i] * e + rate_ki[i] * loops->rate_sum[i] - rate_kd[i] * slope, rate_output_limit[i]);
    }
    loops->begun = 1;
}"""

_MIXER = """
{
    const float base = @P@_motor_for(@SHARE@ * collective_thrust);
    float excess = 0.0f;
    int i;

    for (i = 0; i < @ROTORS@; i++) {
        motor[i] = base + mixer[3 * i] * output[0] + mixer[3 * i + 1] * output[1] + mixer[3 * i + 2] * output[2];
        excess = (motor[i] - 1.0f > excess) ? (motor[i] - 1.0f) : excess;
    }
    for (i = 0; i < @ROTORS@; i++) {
        motor[i] -= excess;
        motor[i] = (motor[i] < 0.0f) ? 0.0f : ((motor[i] > 1.0f) ? 1.0f : motor[i]);
    }
}"""
