"""Actuation of a drone from its action to its motors, for contracts: the loops of the cascade, the mixer, the rotors."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.robots.drones.drone import LEVELS
from rookery.robots.drones.kernels import ATTITUDE, MOTORS, POSITION, RATES, VELOCITY
from rookery.sim.actuation import Actuation, Loop, Multirotor, Rotor
from rookery.sim.multirotor.layout import MIX, type_row
from rookery.sim.multirotor.parameters import GRAVITY, CascadeGains, DroneParameters

ROTORS = ("rotor_1", "rotor_2", "rotor_3", "rotor_4")
_ZERO = (0.0, 0.0, 0.0)
_COMMAND = "command = low + (a + 1) / 2 (high - low), held for the control step"
_STEPS = {
    POSITION: (
        "position loop: velocity command = kp (position command - position), world axes, shortened to max_velocity; yaw rate "
        "command = 2/s (yaw command - yaw), the angle wrapped to [-pi, pi]"
    ),
    VELOCITY: (
        "velocity loop: a = kp e + ki sum(e dt), e = velocity command - velocity, world axes; up = max(a_z + "
        "{g}, 0.3 {g}) m/s^2; "
        "the horizontal a is shortened to tan(max_tilt) up; roll and pitch commands are those that point body z along "
        "(a_x, a_y, up) at the present yaw; collective thrust = mass up / cos(tilt), the cosine at least 0.5, "
        "within [0, 4 t(1)]"
    ),
    ATTITUDE: (
        "attitude loop: e = rotation vector, twice the vector part of the quaternion, from the present attitude "
        "to the one with "
        "the roll and pitch commands and the present yaw, body axes; roll and pitch rate commands = kp e + ki sum(e dt); the "
        "yaw rate command passes"
    ),
    RATES: (
        "rate loop: e = rate command - angular velocity, body axes; output = kp e + ki sum(e dt) - kd d(angular velocity)/dt, "
        "held within output_limit; the first derivative of an episode is 0"
    ),
}
_SUMS = "sums include the present e, start at 0 and are held within integral_limit"
_YAW = (
    "integrated yaw: the yaw rate command moves a yaw angle that starts at the present one; yaw rate command = "
    "kp e + ki sum(e dt) "
    "- kd d(yaw)/dt of the attitude loop's third axis, e = that angle - yaw"
)
_MIXER = (
    "mixer: u_i = t^-1(collective thrust / 4) + mix_i . (roll, pitch, yaw output); where the largest u exceeds "
    "1, all are lowered "
    "by the excess; then each is held within [0, 1]"
)
_MOTORS = (
    "motors: du/dt = (command - u) / tau_up rising, tau_down falling; thrust t(u) along body z, torque direction "
    "q(u) about it"
)


def drone_actuation(
    drone: DroneParameters,
    kind: str,
    period: float,
    integrated_yaw: bool = False,
    rotor_lag: bool = True,
    command: Sequence[str] = (_COMMAND,),
) -> Actuation:
    """The actuation of a drone under an action kind.

    Args:
        drone: its constants.
        kind: one of `LEVELS`.
        period: s, of the onboard loops.
        integrated_yaw: see `Drones`.
        rotor_lag: whether rotors take time to follow their commands.
        command: how an action becomes the command of that kind, in words.
    """
    level = LEVELS[kind]
    row = type_row(drone)
    places = zip(ROTORS, drone.rotor_positions, drone.directions, strict=True)
    rotors = tuple(
        Rotor(name, _three(place), direction, _three(row[MIX + 3 * i : MIX + 3 * i + 3]))
        for i, (name, place, direction) in enumerate(places)
    )
    craft = Multirotor(
        rotors=rotors,
        mass=drone.mass,
        inertia=drone.inertia,
        loops=_loops(drone.gains, level, integrated_yaw),
        max_velocity=drone.gains.max_velocity,
        max_tilt=drone.gains.max_tilt,
        thrust_curve=drone.thrust_curve,
        torque_curve=drone.torque_curve,
        tau_up=drone.tau_up if rotor_lag else 0.0,
        tau_down=drone.tau_down if rotor_lag else 0.0,
        integrated_yaw=integrated_yaw,
    )
    return Actuation((*command, *_steps(level, integrated_yaw)), ROTORS, period, multirotor=craft)


def _steps(level: int, integrated_yaw: bool) -> list[str]:
    """From a command at `level` to the rotors, in words."""
    steps = []
    for at in (POSITION, VELOCITY, ATTITUDE, RATES):
        if at == RATES <= level and integrated_yaw:
            steps.append(_YAW)
        if at <= level:
            steps.append(_STEPS[at].format(g=GRAVITY))
    last = ["u_i = t^-1(thrust command i), held within [0, 1]"] if level == MOTORS else [_SUMS, _MIXER]
    return [*steps, *last, _MOTORS]


def _loops(g: CascadeGains, level: int, integrated_yaw: bool) -> tuple[Loop, ...]:
    """The loops from `level` inwards; an integrated yaw is the attitude loop's third axis."""
    limits = g.velocity_integral_limit, g.attitude_integral_limit, g.rate_integral_limit
    output = ("rad/s", "share of full motor command")
    all_loops = (
        (POSITION, Loop("position", g.position_kp, _ZERO, _ZERO, _ZERO, None, ("m", "m/s"))),
        (VELOCITY, Loop("velocity", g.velocity_kp, g.velocity_ki, _ZERO, limits[0], None, ("m/s", "m/s^2"))),
        (ATTITUDE, Loop("attitude", g.attitude_kp, g.attitude_ki, g.attitude_kd, limits[1], None, ("rad", "rad/s"))),
        (RATES, Loop("rate", g.rate_kp, g.rate_ki, g.rate_kd, limits[2], g.rate_output_limit, output)),
    )
    with_yaw = integrated_yaw and level >= RATES
    return tuple(loop for at, loop in all_loops if at <= level or (at == ATTITUDE and with_yaw))


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    return x, y, z
