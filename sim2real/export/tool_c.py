"""An arm below a policy that moves its tool, in C: the tool's goal, and what brings the tool there: inverse kinematics and
joint references, or a spring and a damper by torques.

    void kinematics(const float angle[J], float place[3], float matrix[9], float jacobian[6 * J], void *user); /* NAME_forward,
                                                                          the contract's chain, or the arm's own */

    NAME_start_loops(&loops, &now, kinematics, user);
    for (;;) {                                                        /* every NAME_POLICY_CONTROL_DT seconds */
        NAME_take_command(&loops, &now, kinematics, user, command);
        for (k = 0; k < NAME_LOOP_STEPS; k++) {                       /* every NAME_LOOP_DT seconds */
            NAME_targets(&loops, target);                             /* rad: a servo takes them, or: */
            NAME_torques(&now, target, torque);                       /* N m */
        }
    }
"""

from __future__ import annotations

from rookery.policies.stages.c_text import literal, public, table
from rookery.sim.actuation import Actuation, ToolGoal
from rookery.sim.specs import ActionSpec
from rookery.sim.terms.c import comment
from rookery.sim2real.export.joints_c import HELD, JointsC
from rookery.sim2real.export.loop_calls import LoopCalls

MOVES = ("tool_x", "tool_y", "tool_z")
TURNS = ("tool_roll", "tool_pitch", "tool_yaw")
FRAME = "world"


class ToolC(JointsC):
    """C of an arm whose actions move a goal of its tool.

    Args:
        actuation: with joints and a tool's goal.
        action, prefix, control_dt: as of JointsC.
    """

    def __init__(self, actuation: Actuation, action: ActionSpec, prefix: str, control_dt: float) -> None:
        super().__init__(actuation, action, prefix, control_dt)
        assert actuation.tool_goal is not None
        self.goal: ToolGoal = actuation.tool_goal
        self.turns = self.goal.rotation_leash is not None
        self.spring = bool(self.goal.stiffness)
        self.calls = self._tool_calls()

    def _tool_calls(self) -> LoopCalls:
        """Calls of a program, with the contract's kinematics where it has them."""
        p, n = self.prefix, self.outputs
        own = self.actuation.chain is None
        given = "&loops, &now, " + ("kinematics, NULL" if own else f"{p}_forward, NULL")
        declared = "extern void kinematics(const float *, float *, float *, float *, void *); /* the arm's own */"
        start, take = f"{p}_start_loops({given});", f"{p}_take_command({given}, command);{self.opening}"
        if self.spring:
            pull = f"{p}_torques({given}, torque); /* N m, above gravity compensation */"
            return LoopCalls(start, (pull,), {"torque": n}, (take,), reads=True, before=(declared,) * own)
        return LoopCalls(
            start, self.servo_calls, {"target": n, "torque": n}, (take,), reads=True, before=(declared,) * own
        )

    @property
    def refused(self) -> str:
        """The reason why it has no C; "" where it has."""
        wanted = (*MOVES, *(TURNS if self.turns else ()))
        lacking = next((n for n in wanted if n not in self.action.names), "")
        if lacking:
            return f"the action of kind {comment(self.action.kind)} has no component {comment(lacking)}"
        if self.goal.frame != FRAME:
            return f"the tool's goal is moved in {comment(self.goal.frame)} axes"
        if self.spring == self.moves or self.spring != (self.goal.lead is None):
            return "the tool's goal has references and a spring, or neither"
        return ""

    def kept(self) -> list[str]:
        """Members of the struct of what the loops keep."""
        tool = [
            "float goal[3]; /* m, world axes: the tool's goal */",
            "float goal_matrix[9]; /* row by row, tool to world axes */",
        ]
        n = self.outputs
        if self.spring:
            return [
                *tool,
                f"float torque[{n}]; /* N m */",
                *["float opening; /* m, asked of the gripper */"] * self.grips,
            ]
        return [*tool, *super().kept()]

    def declarations(self) -> str:
        """For the header, behind the structs."""
        p, d, n = self.prefix, self.action.size, self.outputs
        order = ", ".join(comment(j.name) for j in self.joints)
        given = f"{p}_loops *loops, const {p}_sensed *now, {p}_kinematics kinematics, void *user"
        out = f"""
/* The arm's own kinematics: from joint angles in rad, in the order {order},
   to the place of {comment(self.goal.tool)} in m, its matrix row by row (tool to world axes), and its Jacobian row by row:
   velocity x, y, z in m/s, then angular velocity x, y, z in rad/s, world axes, of each joint's rad/s. `user` is handed on. */
typedef void (*{p}_kinematics)(
    const float angle[{n}], float place[3], float matrix[9], float jacobian[{6 * n}], void *user);

/* Begin an episode: the goal is the tool's own pose. */
void {p}_start_loops({given});

/* The policy's command, once a control step: moves the goal{" and turns it" * self.turns}{self._then} */
void {p}_take_command({given}, const float command[{d}]);
"""
        if not self.spring:
            return out + self._servos()
        return (
            out
            + f"""
/* Torques above gravity compensation in N m, every LOOP_DT: a spring and a damper pull the tool to its goal. */
void {p}_torques({given}, float torque[{n}]);
"""
        )

    @property
    def _then(self) -> str:
        then = "" if self.spring else ", and the joints' goals by a round of inverse kinematics"
        return then + ". Sets the gripper's opening." * self.grips

    def code(self) -> list[str]:
        """For the C file."""
        parts = [*self.tables(), table("goal_home", self.goal.home), HELD, self._filled(_SOLVE)]
        parts += [self._filled(_FREE_SPIN)] * (self.outputs < 6)
        parts += [self._filled(_TURN_GOAL)] * self.turns
        parts += [self._filled(_MOVE_GOAL), self._start()]
        if self.spring:
            spring = [table("stiffness", self.goal.stiffness), table("damping", self.goal.damping)]
            return [*parts, *spring, self._take_command(), self._filled(_SPRING)]
        return [*parts, self._filled(_INVERSE), self._take_command(), *self.servos()]

    def tables(self) -> list[str]:
        """Constants of the joints."""
        return super().tables()[:1] if self.spring else super().tables()

    def _filled(self, text: str) -> str:
        goal, n = self.goal, self.outputs
        rate = self.actuation.torque_rate
        numbers = {
            "LEASH": goal.leash, "LEAD": 0.0 if goal.lead is None else goal.lead, "TURN_LEASH": goal.rotation_leash or 0.0,
            "DAMPING": goal.ik_damping**2, "POSTURE": goal.posture, "MOST": goal.max_joint_step,
            "NULL_KP": (*goal.null_space, 0.0)[0], "NULL_KD": (*goal.null_space, 0.0, 0.0)[1],
            "CHANGE": 1e30 if rate is None else rate * self.period,
        }  # fmt: skip
        text = text.replace("@AHEAD@", "" if goal.lead is None else _AHEAD).replace("@BOX@", self._box())
        text = text.replace("@SPIN@", "    free_spin(matrix, jacobian, error);\n" * (n < 6))
        for name, value in numbers.items():
            text = text.replace(f"@{name}@", literal(value))
        return text.replace("@6J@", str(6 * n)).replace("@J@", str(n)).replace("@P@", self.prefix)

    def _box(self) -> str:
        if self.goal.box is None:
            return ""
        low, high = ", ".join(map(literal, self.goal.box[0])), ", ".join(map(literal, self.goal.box[1]))
        return f"""
    {{
        static const float low[3] = {{{low}}};
        static const float high[3] = {{{high}}};

        for (i = 0; i < 3; i++) {{
            loops->goal[i] = between(loops->goal[i], low[i], high[i]);
        }}
    }}"""

    def _given(self) -> str:
        p = self.prefix
        return f"{p}_loops *loops, const {p}_sensed *now, {p}_kinematics kinematics, void *user"

    def _start(self) -> str:
        n = self.outputs
        steps = [
            f"float jacobian[{6 * n}];",
            "kinematics(now->angle, loops->goal, loops->goal_matrix, jacobian, user);",
        ]
        if self.spring:
            steps.append(f"for (i = 0; i < {n}; i++) {{ loops->torque[i] = 0.0f; }}")
            steps += self.rest()[len(self.rest()) - self.grips :]
        else:
            steps += [f"for (i = 0; i < {n}; i++) {{ loops->wanted[i] = now->angle[i]; }}", *self.rest()]
        return public(f"void {self.prefix}_start_loops({self._given()})", [*steps, "loops->begun = 1;"])

    def _take_command(self) -> str:
        """Rotation, then place, then the joints' goals."""
        at = self.action.names.index
        steps = [f"float move[3] = {{{', '.join(f'command[{at(n)}]' for n in MOVES)}}};"]
        if self.turns:
            steps += [f"float spin[3] = {{{', '.join(f'command[{at(n)}]' for n in TURNS)}}};"]
            steps.append("turn_goal(loops, now, kinematics, user, spin);")
        steps.append("move_goal(loops, now, kinematics, user, move);")
        steps += ["inverse_kinematics(loops, kinematics, user);"] * (not self.spring)
        steps += self.gripper()
        head = f"void {self.prefix}_take_command({self._given()}, const float command[{self.action.size}])"
        return public(head, steps)


_GIVEN = "@P@_loops *loops, const @P@_sensed *now, @P@_kinematics kinematics, void *user"

_SOLVE = """
/* Put (J J^T + square)^-1 x into x, by Cholesky. */
static void solve(const float jacobian[@6J@], float square, float x[6])
{
    float a[6][6];
    int i;
    int j;
    int k;

    for (i = 0; i < 6; i++) {
        for (j = 0; j <= i; j++) {
            a[i][j] = (i == j) ? square : 0.0f;
            for (k = 0; k < @J@; k++) {
                a[i][j] += jacobian[@J@ * i + k] * jacobian[@J@ * j + k];
            }
        }
    }
    for (i = 0; i < 6; i++) {
        for (j = 0; j < i; j++) {
            for (k = 0; k < j; k++) {
                a[i][j] -= a[i][k] * a[j][k];
            }
            a[i][j] *= a[j][j];
        }
        for (k = 0; k < i; k++) {
            a[i][i] -= a[i][k] * a[i][k];
        }
        a[i][i] = 1.0f / sqrtf(a[i][i]); /* the diagonal is kept inverted */
    }
    for (i = 0; i < 6; i++) {
        for (k = 0; k < i; k++) {
            x[i] -= a[i][k] * x[k];
        }
        x[i] *= a[i][i];
    }
    for (i = 5; i >= 0; i--) {
        for (k = i + 1; k < 6; k++) {
            x[i] -= a[k][i] * x[k];
        }
        x[i] *= a[i][i];
    }
}

/* The way (m) and the rotation vector (rad) from the tool to its goal, world axes. */
static void error_of(const @P@_loops *loops, const float place[3], const float matrix[9], float error[6])
{
    float trace = 0.0f;
    float sine;
    int i;

    for (i = 0; i < 3; i++) {
        error[i] = loops->goal[i] - place[i];
        error[3 + i] = 0.0f;
    }
    for (i = 0; i < 3; i++) { /* half the cross products of the axes is the sine times the axis of the rotation */
        const float *a = &matrix[i];
        const float *b = &loops->goal_matrix[i];

        trace += a[0] * b[0] + a[3] * b[3] + a[6] * b[6];
        error[3] += 0.5f * (a[3] * b[6] - a[6] * b[3]);
        error[4] += 0.5f * (a[6] * b[0] - a[0] * b[6]);
        error[5] += 0.5f * (a[0] * b[3] - a[3] * b[0]);
    }
    sine = sqrtf(error[3] * error[3] + error[4] * error[4] + error[5] * error[5]);
    if (sine > 1e-7f) {
        const float gain = atan2f(sine, 0.5f * (trace - 1.0f)) / sine;

        for (i = 3; i < 6; i++) {
            error[i] *= gain;
        }
    }
}"""

_FREE_SPIN = """
/* Take rotations about the tool's own z out: so few joints cannot choose it. */
static void free_spin(const float matrix[9], float jacobian[@6J@], float error[6])
{
    int i;
    int n;

    for (n = -1; n < @J@; n++) {
        float along = 0.0f;

        for (i = 0; i < 3; i++) {
            along += matrix[3 * i + 2] * ((n < 0) ? error[3 + i] : jacobian[@J@ * (3 + i) + n]);
        }
        for (i = 0; i < 3; i++) {
            if (n < 0) {
                error[3 + i] -= along * matrix[3 * i + 2];
            } else {
                jacobian[@J@ * (3 + i) + n] -= along * matrix[3 * i + 2];
            }
        }
    }
}"""

_TURN_GOAL = """
/* Turn the goal by a rotation vector, unless that takes it farther from the tool than its leash. */
static void turn_goal(@GIVEN@, const float spin[3])
{
    const float angle = sqrtf(spin[0] * spin[0] + spin[1] * spin[1] + spin[2] * spin[2]);
    float place[3];
    float matrix[9];
    float jacobian[@6J@];
    float turned[9];
    float trace = 0.0f;
    int i;

    if (angle < 1e-9f) {
        return;
    }
    kinematics(now->angle, place, matrix, jacobian, user);
    for (i = 0; i < 3; i++) { /* each axis v becomes v + s u x v + k u x (u x v) */
        const float x = spin[0] / angle;
        const float y = spin[1] / angle;
        const float z = spin[2] / angle;
        const float s = sinf(angle);
        const float k = 1.0f - cosf(angle);
        const float a = loops->goal_matrix[i];
        const float b = loops->goal_matrix[3 + i];
        const float c = loops->goal_matrix[6 + i];
        const float u = y * c - z * b;
        const float v = z * a - x * c;
        const float w = x * b - y * a;

        turned[i] = a + s * u + k * (y * w - z * v);
        turned[3 + i] = b + s * v + k * (z * u - x * w);
        turned[6 + i] = c + s * w + k * (x * v - y * u);
        trace += turned[i] * matrix[i] + turned[3 + i] * matrix[3 + i] + turned[6 + i] * matrix[6 + i];
    }
    if (0.5f * (trace - 1.0f) > cosf(@TURN_LEASH@)) {
        for (i = 0; i < 9; i++) {
            loops->goal_matrix[i] = turned[i];
        }
    }
}""".replace("@GIVEN@", _GIVEN)

_AHEAD = """
    kinematics(loops->reference, place, matrix, jacobian, user);
    for (i = 0; i < 3; i++) { /* the step is shortened so that the goal stays within its lead of the reference's tool */
        const float ahead = (move[i] < 0.0f) ? (place[i] - loops->goal[i]) : (loops->goal[i] - place[i]);
        const float far = fabsf(move[i]);

        if (far > 0.0f && ahead + part * far > @LEAD@) {
            part = ((@LEAD@ > ahead) ? (@LEAD@ - ahead) : 0.0f) / far;
        }
    }"""

_MOVE_GOAL = """
static void move_goal(@GIVEN@, const float move[3])
{
    float place[3];
    float matrix[9];
    float jacobian[@6J@];
    float part = 1.0f;
    int i;
@AHEAD@
    kinematics(now->angle, place, matrix, jacobian, user);
    for (i = 0; i < 3; i++) {
        const float goal = loops->goal[i] + part * move[i];

        loops->goal[i] = between(goal, place[i] - @LEASH@, place[i] + @LEASH@);
    }@BOX@
}""".replace("@GIVEN@", _GIVEN)

_INVERSE = """
/* One round of damped least squares; what it leaves open is drawn home. */
static void inverse_kinematics(@P@_loops *loops, @P@_kinematics kinematics, void *user)
{
    float place[3];
    float matrix[9];
    float jacobian[@6J@];
    float error[6];
    float pull[@J@];
    int i;
    int n;

    kinematics(loops->wanted, place, matrix, jacobian, user);
    error_of(loops, place, matrix, error);
@SPIN@    for (n = 0; n < @J@; n++) {
        pull[n] = @POSTURE@ * (goal_home[n] - loops->wanted[n]);
    }
    for (i = 0; i < 6; i++) {
        for (n = 0; n < @J@; n++) {
            error[i] -= jacobian[@J@ * i + n] * pull[n];
        }
    }
    solve(jacobian, @DAMPING@, error);
    for (n = 0; n < @J@; n++) {
        float change = pull[n];

        for (i = 0; i < 6; i++) {
            change += jacobian[@J@ * i + n] * error[i];
        }
        loops->wanted[n] = between(loops->wanted[n] + held(change, @MOST@), joint_lower[n], joint_upper[n]);
    }
}"""

_SPRING = """
void @P@_torques(@GIVEN@, float torque[@J@])
{
    float place[3];
    float matrix[9];
    float jacobian[@6J@];
    float error[6];
    float force[6];
    float pull[@J@];
    int i;
    int n;

    kinematics(now->angle, place, matrix, jacobian, user);
    error_of(loops, place, matrix, error);
    for (n = 0; n < @J@; n++) {
        pull[n] = @NULL_KP@ * (goal_home[n] - now->angle[n]) - @NULL_KD@ * now->velocity[n];
    }
    /* the part of the pull that accelerates the tool is taken out: pull - J^T (J J^T)^-1 J pull */
    for (i = 0; i < 6; i++) {
        force[i] = 0.0f;
        for (n = 0; n < @J@; n++) {
            force[i] += jacobian[@J@ * i + n] * pull[n];
        }
    }
    solve(jacobian, 1e-4f, force);
    for (i = 0; i < 6; i++) {
        float speed = 0.0f;

        for (n = 0; n < @J@; n++) {
            speed += jacobian[@J@ * i + n] * now->velocity[n];
        }
        force[i] = stiffness[i] * error[i] - damping[i] * speed - force[i];
    }
    for (n = 0; n < @J@; n++) {
        float total = pull[n];

        for (i = 0; i < 6; i++) {
            total += jacobian[@J@ * i + n] * force[i];
        }
        total = held(total, joint_torque[n]);
        loops->torque[n] += held(total - loops->torque[n], @CHANGE@);
        torque[n] = loops->torque[n];
    }
}""".replace("@GIVEN@", _GIVEN)
