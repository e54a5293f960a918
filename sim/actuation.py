"""Everything between an agent's action and the motors, as typed parts: robots declare it, contracts carry it.

`Actuation.steps` says in order what becomes of an action; the parts hold the numbers that those steps name. A part that a robot
lacks is None or empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Triple = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True)
class Rotor:
    """One rotor of a multirotor.

    Args:
        name: as the drone numbers it.
        position: m, body frame.
        direction: sign of its reaction torque on the body about body z: +1 where the propeller turns clockwise from above.
        mix: its share of the roll, pitch and yaw outputs of the rate loop, with signs.
    """

    name: str
    position: Triple
    direction: int
    mix: Triple


@dataclass(frozen=True)
class Loop:
    """One loop of a cascade: ``kp e + ki sum(e dt) - kd d(measured)/dt``, per axis x, y, z of the level's frame.

    Args:
        name: what it tracks: "position", "velocity", "attitude" or "rate".
        kp, ki, kd: gains.
        integral_limit: on the size of the sum of e dt; 0 where there is none.
        output_limit: on the size of the output; None for no limit of its own.
        units: of e and of the output.
    """

    name: str
    kp: Triple
    ki: Triple
    kd: Triple
    integral_limit: Triple
    output_limit: Triple | None
    units: tuple[str, str]


@dataclass(frozen=True)
class Multirotor:
    """A multirotor below its action kind.

    Args:
        rotors: in the order of motor commands.
        mass: kg, that the velocity loop counts on.
        inertia: kg m^2, about the body axes.
        loops: from the outermost that the action kind enters to the innermost.
        max_velocity: m/s, that the position loop may ask for.
        max_tilt: rad, that the velocity loop may ask for.
        thrust_curve: N; a rotor at normalized speed u in [0, 1] pushes with t0 + t1 u + t2 u^2 along body z.
        torque_curve: N m; likewise its reaction torque about body z, times its direction.
        curve_order: of the coefficients of both curves.
        tau_up, tau_down: s; du/dt = (command - u) / tau, rising and falling.
        integrated_yaw: whether a yaw rate moves a yaw angle that is tracked, as the Crazyflie firmware does.
        gravity: m/s^2, that the velocity loop counts on.
        yaw_kp: 1/s, of the position loop's yaw: yaw rate command = yaw_kp (yaw command - yaw).
        least_lift: share of gravity that the velocity loop's thrust supplies at least.
        least_cosine: of the tilt, by which the velocity loop's thrust is divided at least.
    """

    rotors: tuple[Rotor, ...]
    mass: float
    inertia: Triple
    loops: tuple[Loop, ...]
    max_velocity: float
    max_tilt: float
    thrust_curve: Triple
    torque_curve: Triple
    tau_up: float
    tau_down: float
    integrated_yaw: bool
    curve_order: Literal["t0, t1, t2 of t0 + t1 u + t2 u^2"] = "t0, t1, t2 of t0 + t1 u + t2 u^2"
    gravity: float = 9.81
    yaw_kp: float = 2.0
    least_lift: float = 0.3
    least_cosine: float = 0.5


@dataclass(frozen=True)
class Joint:
    """One driven joint, in the order of the robot.

    The drive's torque is ``kp (target - q) - kd dq`` within +-`torque`. Where `no_load_speed` w is given, it is also at most
    ``torque (1 - dq / w)`` and at least ``torque (-1 - dq / w)``, both of them kept within +-`torque`.

    Args:
        name: of the joint.
        axis: of rotation or of sliding, in the frame of its link at angle 0; positive angles turn right-handed about it.
        home: rad (m), the pose that observations and neutral actions count from.
        lower, upper: rad (m), limits of the target.
        kp: N m/rad (N/m). kd: N m s/rad (N s/m); both 0 for a drive that takes torques.
        torque: N m (N).
        no_load_speed: rad/s, at which the motor has no torque left; None: the torque does not depend on speed.
        target_speed: rad/s (m/s), the fastest that the target moves; None: it jumps to where the action says.
        leash: rad (m), the farthest that the target is from the measured angle when it is set; None: anywhere.
    """

    name: str
    axis: Triple
    home: float
    lower: float
    upper: float
    kp: float
    kd: float
    torque: float
    no_load_speed: float | None = None
    target_speed: float | None = None
    leash: float | None = None


@dataclass(frozen=True)
class ArmChain:
    """Kinematics of an arm of J hinges: by turns a fixed transform and a rotation about the axis of a `Joint`, and a fixed
    transform to the tool at last.

    Args:
        offsets: [J + 1] m, of the fixed transforms; the first is from the world's origin, the base's place in it.
        turns: [J + 1] quaternions wxyz, from the axes behind a transform to those before it.
        start: rad, joint angles from which episodes begin: the middle of those that are drawn.
    """

    offsets: tuple[Triple, ...]
    turns: tuple[Quaternion, ...]
    start: tuple[float, ...]


@dataclass(frozen=True)
class JointReferences:
    """Limits on how joint targets move: as fast as all of these allow at once, every joint slowed by one factor.

    Args:
        speed, acceleration, jerk: rad/s, rad/s^2, rad/s^3, by joint.
        torque: N m, that the motion may take of each joint. torque_rate: N m/s, likewise of its change.
        bandwidth: 1/s, with which a reference nears its goal where no limit is in the way.
        lead: s, by joint; the target sent to a servo is reference + lead * its velocity, which makes up for the servo's kd.
    """

    speed: tuple[float, ...]
    acceleration: tuple[float, ...]
    jerk: tuple[float, ...]
    torque: tuple[float, ...]
    torque_rate: float
    bandwidth: float
    lead: tuple[float, ...]


@dataclass(frozen=True)
class ToolGoal:
    """A goal of the tool that actions move, and what brings the tool there.

    An action is an increment: the goal of the step before plus the command. It begins at the tool's own pose. First the
    increment is shortened, in its direction, so that the goal is at most `lead` m ahead of the reference's tool along each
    axis; then the goal is held within `leash` m of the measured tool along each axis, and within `box`.

    Args:
        base: the base's body. base_pos: m; base_quat: wxyz, of the base in the world.
        tool: the site that is moved. frame: of the increments.
        lead: m; None where there are no references. leash: m. rotation_leash: rad; a rotation that takes the goal farther from
            the tool is not made. None where the rotation is kept.
        box: m, two corners in the world, the lower values first; None for no box.
        home: rad, joint angles to which the arm is drawn where the tool's pose leaves a choice.
        ik_damping: of the damped least squares, m and rad. posture: share of the way home in a control step.
        max_joint_step: rad, largest change of a joint goal in a control step; 0 for a drive without inverse kinematics.
        stiffness, damping: [6] N/m, N m/rad and N s/m, N m s/rad of the spring that pulls the tool; empty without one.
        null_space: N m/rad, N m s/rad of the pull home of such a spring; empty without one.
    """

    base: str
    base_pos: Triple
    base_quat: tuple[float, float, float, float]
    tool: str
    frame: str
    lead: float | None
    leash: float
    rotation_leash: float | None
    box: tuple[Triple, Triple] | None
    home: tuple[float, ...]
    ik_damping: float
    posture: float
    max_joint_step: float
    stiffness: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    null_space: tuple[float, ...] = ()


@dataclass(frozen=True)
class Gripper:
    """A parallel gripper.

    Args:
        name: of its drive.
        open, closed: m, between the fingers; what actions of -1 and of 1 ask for.
        force: N, on each finger.
        start: m, commanded when an episode begins.
    """

    name: str
    open: float
    closed: float
    force: float
    start: float


@dataclass(frozen=True)
class Actuation:
    """Everything between an action and the motors of one agent.

    Args:
        steps: what becomes of an action, in order, in words.
        actuators: motors and joints in the order in which the robot numbers them.
        period: s, of the loops below the policy.
        multirotor: the rotors and loops of a drone.
        joints: driven joints.
        chain: an arm's kinematics, and where its episodes begin.
        references: how the joints' targets move, where they do not jump.
        tool_goal: of actions that move a goal of the tool.
        gripper: of an arm.
        torque_rate: N m/s, by which torques that an action asks for change at most; None without such torques.
    """

    steps: tuple[str, ...]
    actuators: tuple[str, ...]
    period: float
    multirotor: Multirotor | None = None
    joints: tuple[Joint, ...] = ()
    references: JointReferences | None = None
    tool_goal: ToolGoal | None = None
    gripper: Gripper | None = None
    torque_rate: float | None = None
    chain: ArmChain | None = None
