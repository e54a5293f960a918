"""Memory layout of multirotors and balls, with worlds side by side in lanes.

Worlds are grouped in blocks of LANES. All that belongs to one drone (or ball) in one block is a flat row, in which field f
of lane i stands at ``f * LANES + i``: the lanes of a field lie side by side, so that a compiled loop over lanes becomes
vector instructions. A world is lane ``n % LANES`` of block ``n // LANES``. The last block is filled up with copies that
nobody reads, so every loop over lanes has the same length, and results do not depend on how blocks are divided among threads.

    bodies   [blocks, A + B, BODY * LANES]      A drones, then B balls
    varied   [blocks, A + B, VARIED * LANES]    what may differ between worlds
    worlds   [blocks, WORLD * LANES]            gravity and air
    types    [A, TYPE]                          what may not differ
"""

from __future__ import annotations

import math

from rookery.sim.multirotor.parameters import DroneParameters

LANES = 16

# A free body, drone or ball: position m, world; quaternion wxyz, body to world; velocity m/s, world; rates rad/s, body;
# external wrench N, N m, world
POS = 0
QUAT = 3
VEL = 7
RATE = 10
STATE = 13
WRENCH = 13
# A drone besides: normalized rotor speeds; thrusts (N) and reaction torque about body z (N m) in the middle of the last
# step; specific force (m/s^2, body) as an accelerometer feels it; force of other drones' wakes in this step (N, world);
# motor commands; what the battery still holds (1)
SPEED = 19
THRUST = 23
REACTION = 27
SPECIFIC_FORCE = 28
WAKE = 31
MOTOR = 34
CHARGE = 38
BODY = 39

# What may differ between worlds: mass kg, its inverse; inertia (xx, yy, zz, xy, xz, yz) kg m^2 and its inverse
MASS = 0
INV_MASS = 1
INERTIA = 2
INV_INERTIA = 8
# of a drone: of each rotor, factors on thrust and torque curves, and what is left of a speed error after half a step, rising
# and falling; body drag (kg/s) and rotor drag (kg) per axis; angular momentum of a rotor at full speed (kg m^2/s) and that
# speed (rad/s); ground effect gain; centre of mass (x, y) m in the frame of the rotors' places; factors on the drone's own mass
# and inertia, and the load's mass (kg), of which mass and inertia above are made
THRUST_FACTOR = 14
TORQUE_FACTOR = 18
RISE = 22
FALL = 26
BODY_DRAG = 30
ROTOR_DRAG = 33
SPIN = 36
FULL_SPEED = 37
GROUND_GAIN = 38
COM = 39
MASS_FACTOR = 41
INERTIA_FACTOR = 42
LOAD = 43
# of a ball: radius m, quadratic drag 1/m, Magnus lift 1
BALL_RADIUS = 14
BALL_DRAG = 15
BALL_LIFT = 16
# of both: restitution and friction
RESTITUTION = 44
FRICTION = 45
VARIED = 46

# Of a world: gravity m/s^2; air velocity m/s, mean and with gusts; how much higher level ground lies than in the
# scene, m
GRAVITY = 0
MEAN_WIND = 3
AIR = 6
GROUND = 9
WORLD = 10

# Constants of a drone type, a row of `types`. First those of the onboard controller (see cascade): gains in triples
RATE_KP = 0
RATE_KI = 3
RATE_KD = 6
RATE_INTEGRAL = 9
RATE_OUTPUT = 12
ATTITUDE_KP = 15
ATTITUDE_KI = 18
ATTITUDE_KD = 21
ATTITUDE_INTEGRAL = 24
VELOCITY_KP = 27
VELOCITY_KI = 30
VELOCITY_INTEGRAL = 33
POSITION_KP = 36
# the tangent of the largest tilt is MAX_SLOPE
MAX_VELOCITY = 39
MAX_SLOPE = 40
NOMINAL_MASS = 41
YAW_INTEGRATED = 42
# then thrust and torque curves, rotor places (4 x 3), directions (4), share of each output in each motor (4 x 3)
THRUST_CURVE = 43
TORQUE_CURVE = 46
PLACES = 49
DIRECTIONS = 61
MIX = 65
PROPELLER_RADIUS = 77
BODY_RADIUS = 78
BODY_HALF_HEIGHT = 79
# wakes: width, constants of gym-pybullet-drones' model; full rotor speed; battery: capacity (C), cells, resistance (ohm),
# efficiency, idle power (W), reference voltage
WAKE_WIDTH = 80
DOWNWASH = 81
TOP_SPEED = 84
CAPACITY = 85
CELLS = 86
RESISTANCE = 87
EFFICIENCY = 88
IDLE = 89
REFERENCE = 90
TYPE = 91


def type_row(drone: DroneParameters, integrated_yaw: bool = False) -> list[float]:
    """The constants of a drone type, [TYPE], in the order above."""
    g = drone.gains
    row: list[float] = []
    for triple in (
        g.rate_kp, g.rate_ki, g.rate_kd, g.rate_integral_limit, g.rate_output_limit,
        g.attitude_kp, g.attitude_ki, g.attitude_kd, g.attitude_integral_limit,
        g.velocity_kp, g.velocity_ki, g.velocity_integral_limit, g.position_kp,
    ):  # fmt: skip
        row += triple
    row += [g.max_velocity, math.tan(g.max_tilt), drone.mass, float(integrated_yaw)]
    row += [*drone.thrust_curve, *drone.torque_curve]
    for place in drone.rotor_positions:
        row += place
    row += [float(d) for d in drone.directions]
    for (x, y, _), direction in zip(drone.rotor_positions, drone.directions, strict=True):
        row += [0.5 * _sign(y), -0.5 * _sign(x), float(direction)]
    row += [drone.propeller_radius, drone.body_radius, 0.5 * drone.body_height]
    row += [drone.wake_width, *drone.downwash, drone.max_rotor_speed, *drone.battery]
    assert len(row) == TYPE
    return row


def _sign(x: float) -> float:
    return float((x > 0) - (x < 0))
