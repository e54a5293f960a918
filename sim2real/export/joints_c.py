"""Driven joints below a policy, in C: from its command to the servos' targets, and from those to torques.

NAME_loops loops;
NAME_start_loops(&loops, &now);
for (;;) {                                       /* every NAME_POLICY_CONTROL_DT seconds */
    NAME_take_command(&loops, &now, command);
    for (k = 0; k < NAME_LOOP_STEPS; k++) {      /* every NAME_LOOP_DT seconds */
        NAME_targets(&loops, target);            /* rad (m): a servo takes them, or: */
        NAME_torques(&now, target, torque);      /* N m (N) */
    }
}
"""

from __future__ import annotations

from rookery.policies.stages.c_text import literal, public, table
from rookery.sim.actuation import Actuation
from rookery.sim.specs import ActionSpec
from rookery.sim.terms.c import comment
from rookery.sim2real.export import references_c
from rookery.sim2real.export.loop_calls import LoopCalls

GRIPPER = "gripper_closing"
"""The component of an action that closes a gripper: by so much less than open, m."""
INCREMENTS = "joint_delta"
VELOCITIES = "joint_velocity"


class JointsC:
    """C of joints that a policy commands itself.

    Args:
        actuation: with joints.
        action: of the group.
        prefix: beginning of the C names.
        control_dt: s.

    Attributes:
        outputs: joints.
        calls: of a program.
    """

    def __init__(self, actuation: Actuation, action: ActionSpec, prefix: str, control_dt: float) -> None:
        self.actuation = actuation
        self.action = action
        self.prefix = prefix
        self.joints = actuation.joints
        self.outputs = len(self.joints)
        self.period = actuation.period
        self.control_dt = control_dt
        self.references = actuation.references
        self.moves = self.references is not None
        self.grips = actuation.gripper is not None and GRIPPER in action.names
        self.pulled = all(j.kp == 0.0 and j.kd == 0.0 for j in self.joints)
        self.slow = any(j.target_speed is not None for j in self.joints)
        self.increments = action.kind == INCREMENTS
        self.velocities = action.kind == VELOCITIES
        self.calls = self._calls()

    def _calls(self) -> LoopCalls:
        """Calls of a program."""
        p, n = self.prefix, self.outputs
        start, take = f"{p}_start_loops(&loops, &now);", f"{p}_take_command(&loops, &now, command);"
        take += self.opening
        if self.pulled:
            pull = f"{p}_torques(&loops, torque); /* N m, above gravity compensation */"
            return LoopCalls(start, (pull,), {"torque": n}, (take,), reads=True)
        return LoopCalls(start, self.servo_calls, {"target": n, "torque": n}, (take,), reads=True)

    @property
    def opening(self) -> str:
        """A comment on the gripper's command."""
        return " /* loops.opening: m, to the gripper */" * self.grips

    @property
    def servo_calls(self) -> tuple[str, str]:
        """Calls that give targets, and torques by them."""
        return (
            f"{self.prefix}_targets(&loops, target); /* rad (m), to the servos; where there are none: */",
            f"{self.prefix}_torques(&now, target, torque); /* N m (N) */",
        )

    @property
    def refused(self) -> str:
        """The reason why it has no C; "" where it has."""
        lacking = next((j.name for j in self.joints if j.name not in self.action.names), "")
        if lacking:
            return f"the action of kind {comment(self.action.kind)} has no component {comment(lacking)}"
        if self.velocities and not self.moves:
            return "velocities of joints need references, which the contract lacks"
        return ""

    def sensed(self) -> list[str]:
        """Members of the struct of what the loops measure."""
        n = self.outputs
        return [f"float angle[{n}]; /* rad (m), in the joints' order */", f"float velocity[{n}]; /* rad/s (m/s) */"]

    def kept(self) -> list[str]:
        """Members of the struct of what they keep."""
        n = self.outputs
        out = [f"float wanted[{n}]; /* {'N m' if self.pulled else 'rad/s' if self.velocities else 'rad (m)'} */"]
        if self.pulled:
            out.append(f"float torque[{n}]; /* N m */")
        if self.moves:
            out += [f"float {name}[{n}];" for name in ("reference", "speed", "acceleration")]
        return [*out, *["float opening; /* m, asked of the gripper */"] * self.grips]

    def declarations(self) -> str:
        """For the header, behind the structs."""
        p, d, n = self.prefix, self.action.size, self.outputs
        order = ", ".join(comment(j.name) for j in self.joints)
        what = {True: "torques", False: "joint velocities" if self.velocities else "targets"}[self.pulled]
        out = f"""
/* Begin an episode at the present angles, in the order {order}. */
void {p}_start_loops({p}_loops *loops, const {p}_sensed *now);

/* The policy's command, once a control step: {what}{" and the gripper's opening" * self.grips}. */
void {p}_take_command({p}_loops *loops, const {p}_sensed *now, const float command[{d}]);
"""
        if self.pulled:
            return (
                out
                + f"""
/* Torques above gravity compensation in N m, every LOOP_DT. */
void {p}_torques({p}_loops *loops, float torque[{n}]);
"""
            )
        return out + self._servos()

    def _servos(self) -> str:
        p, n = self.prefix, self.outputs
        moving = references_c.WORDS if self.moves else ""
        return f"""
/* Targets of the joints' servos in rad (m), every LOOP_DT.{moving} */
void {p}_targets({p}_loops *loops, float target[{n}]);

/* Torques in N m (N), every LOOP_DT: kp (target - angle) - kd velocity within what the motors give{self._besides}. */
void {p}_torques(const {p}_sensed *now, const float target[{n}], float torque[{n}]);
"""

    @property
    def _besides(self) -> str:
        return "; gravity compensation is added by the robot" if self.moves else ""

    def code(self) -> list[str]:
        """For the C file."""
        return [*self.tables(), HELD, self._start(), self._take_command(), *self.servos()]

    def tables(self) -> list[str]:
        """Constants of the joints."""
        out = [table("joint_torque", [j.torque for j in self.joints])]
        if self.pulled:
            return out
        out += [
            table(f"joint_{what}", [getattr(j, what) for j in self.joints]) for what in ("lower", "upper", "kp", "kd")
        ]
        if any(j.no_load_speed is not None for j in self.joints):
            out.append(
                table("joint_slope", [0.0 if j.no_load_speed is None else 1.0 / j.no_load_speed for j in self.joints])
            )
        if self.slow:
            far = [self.control_dt * j.target_speed if j.target_speed is not None else 1e30 for j in self.joints]
            out.append(table("joint_step", far))
        if any(j.leash is not None for j in self.joints):
            out.append(table("joint_leash", [1e30 if j.leash is None else j.leash for j in self.joints]))
        return out

    def servos(self) -> list[str]:
        """The functions of the servos and of what moves their targets."""
        if self.pulled:
            return [self._pulled_torques()]
        if not self.moves:
            return [self._held_targets(), self._torques()]
        moving = references_c.code(self.references, self.prefix, self.outputs, self.period, self.velocities)
        return [*moving, self._torques()]

    def _start(self) -> str:
        n = self.outputs
        begun = "0.0f" if self.pulled or self.velocities else "now->angle[i]"
        steps = [f"for (i = 0; i < {n}; i++) {{ loops->wanted[i] = {begun}; }}", *self.rest(), "loops->begun = 1;"]
        return public(
            f"void {self.prefix}_start_loops({self.prefix}_loops *loops, const {self.prefix}_sensed *now)", steps
        )

    def rest(self) -> list[str]:
        """Statements that begin references, torques and the gripper."""
        n = self.outputs
        steps = []
        if self.pulled:
            steps.append(f"for (i = 0; i < {n}; i++) {{ loops->torque[i] = 0.0f; }}")
        if self.moves:
            steps += [
                f"for (i = 0; i < {n}; i++) {{ loops->reference[i] = now->angle[i]; }}",
                f"for (i = 0; i < {n}; i++) {{ loops->speed[i] = 0.0f; loops->acceleration[i] = 0.0f; }}",
            ]
        if self.grips:
            assert self.actuation.gripper is not None
            steps.append(f"loops->opening = {literal(self.actuation.gripper.start)};")
        return steps

    def gripper(self) -> list[str]:
        """The statement that takes the gripper's command."""
        if not self.grips:
            return []
        assert self.actuation.gripper is not None
        at = self.action.names.index(GRIPPER)
        return [f"loops->opening = {literal(self.actuation.gripper.open)} - command[{at}];"]

    def _take_command(self) -> str:
        p, n = self.prefix, self.outputs
        places = [self.action.names.index(j.name) for j in self.joints]
        steps = []
        at = "i" if places == list(range(n)) else "component[i]"
        if at != "i":
            steps.append(f"static const int component[{n}] = {{{', '.join(map(str, places))}}};")
        body = [f"float wanted = command[{at}];"]
        if self.increments:
            body.append("wanted += loops->wanted[i];")
        if any(j.leash is not None for j in self.joints):
            body.append("wanted = now->angle[i] + held(wanted - now->angle[i], joint_leash[i]);")
        if not (self.pulled or self.velocities):
            body.append("wanted = between(wanted, joint_lower[i], joint_upper[i]);")
        if self.slow:
            body.append("wanted = loops->wanted[i] + held(wanted - loops->wanted[i], joint_step[i]);")
        if self.pulled:
            body.append("wanted = held(wanted, joint_torque[i]);")
        body.append("loops->wanted[i] = wanted;")
        steps += [f"for (i = 0; i < {n}; i++) {{", *(f"    {line}" for line in body), "}", *self.gripper()]
        head = (
            f"void {p}_take_command({p}_loops *loops, const {p}_sensed *now, const float command[{self.action.size}])"
        )
        return public(head, steps)

    def _held_targets(self) -> str:
        p, n = self.prefix, self.outputs
        steps = [f"for (i = 0; i < {n}; i++) {{ target[i] = loops->wanted[i]; }}"]
        return public(f"void {p}_targets({p}_loops *loops, float target[{n}])", steps)

    def _torques(self) -> str:
        p, n = self.prefix, self.outputs
        body = [
            "const float most = joint_torque[i];",
            "const float wanted = joint_kp[i] * (target[i] - now->angle[i]) - joint_kd[i] * now->velocity[i];",
        ]
        if any(j.no_load_speed is not None for j in self.joints):
            body += [
                "const float share = joint_slope[i] * now->velocity[i];",
                "const float high = held(most * (1.0f - share), most);",
                "const float low = held(most * (-1.0f - share), most);",
                "",
                "torque[i] = between(wanted, low, high);",
            ]
        else:
            body += ["", "torque[i] = held(wanted, most);"]
        steps = [f"for (i = 0; i < {n}; i++) {{", *(f"    {line}" if line else "" for line in body), "}"]
        return public(f"void {p}_torques(const {p}_sensed *now, const float target[{n}], float torque[{n}])", steps)

    def _pulled_torques(self) -> str:
        p, n = self.prefix, self.outputs
        rate = self.actuation.torque_rate
        change = "loops->wanted[i] - loops->torque[i]"
        limited = change if rate is None else f"held({change}, {literal(rate * self.period)})"
        steps = [f"for (i = 0; i < {n}; i++) {{ loops->torque[i] += {limited}; torque[i] = loops->torque[i]; }}"]
        return public(f"void {p}_torques({p}_loops *loops, float torque[{n}])", steps)


HELD = """
static float between(float x, float low, float high)
{
    return (x > high) ? high : ((x < low) ? low : x);
}

static float held(float x, float limit)
{
    return between(x, -limit, limit);
}"""
