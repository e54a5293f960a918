"""Where each number of the `rotor` engine lies in memory.

Worlds are grouped in blocks of LANES. All that belongs to one drone (or ball) in one block is a flat row, in which field f
of lane i stands at ``f * LANES + i``: the lanes of a field lie side by side, so that a compiled loop over lanes becomes
vector instructions on a CPU, and the threads of a warp read neighbouring numbers on a GPU. A world is lane ``n % LANES`` of
block ``n // LANES``. The last block is filled up with copies that nobody reads, so every loop over lanes has the same
length, and results do not depend on how blocks are divided among threads.

    bodies   [blocks, A + B, BODY * LANES]      A drones, then B balls
    varied   [blocks, A + B, VARIED * LANES]    what may differ between worlds
    worlds   [blocks, WORLD * LANES]            gravity and air
    types    [A, TYPE]                          what may not differ
"""

from __future__ import annotations

import math

from rookery.sim.rotor.parameters import DroneParameters

LANES = 16
TOGETHER = LANES
"""How many lanes a thread works on, one after the other: a whole block on a CPU; 1 on a GPU, where `cuda` puts that number in
its place. Loops over lanes run over this many."""

# A free body, drone or ball: position m, world; quaternion wxyz, body to world; velocity m/s, world; rates rad/s, body;
# external wrench N, N m, world
POS, QUAT, VEL, RATE = 0, 3, 7, 10
STATE = 13
WRENCH = 13
# A drone besides: normalised rotor speeds; thrusts (N) and reaction torque about body z (N m) of the last step; specific
# force (m/s^2, body) as an accelerometer feels it; force of other drones' wakes in this step (N, world); motor commands;
# what the battery still holds (1)
SPEED, THRUST, REACTION, FELT, WAKE, MOTOR, CHARGE = 19, 23, 27, 28, 31, 34, 38
BODY = 39

# What may differ between worlds: mass kg, its inverse; inertia (xx, yy, zz, xy, xz, yz) kg m^2 and its inverse
MASS, INV_MASS, INERTIA, INV_INERTIA = 0, 1, 2, 8
# of a drone: factors on thrust and torque curves; what is left of a rotor speed error after a step, rising and falling;
# body drag (kg/s) and rotor drag (kg) per axis; angular momentum of a rotor at full speed (kg m^2/s) and that speed
# (rad/s); ground effect gain
THRUST_FACTOR, TORQUE_FACTOR, RISE, FALL = 14, 15, 16, 17
BODY_DRAG, ROTOR_DRAG, SPIN, FULL_SPEED, GROUND_GAIN = 18, 21, 24, 25, 26
# of a ball: radius m, quadratic drag 1/m, Magnus lift 1
BALL_RADIUS, BALL_DRAG, BALL_LIFT = 14, 15, 16
# of both: restitution and friction
BOUNCE, GRIP = 27, 28
VARIED = 29

# Of a world: gravity m/s^2; air velocity m/s, mean and with gusts
GRAVITY, MEAN_WIND, AIR = 0, 3, 6
WORLD = 9

# Constants of a drone type, a row of `types`. First those of the onboard controller (see cascade): gains in triples
RATE_KP, RATE_KI, RATE_KD, RATE_INTEGRAL, RATE_OUTPUT = 0, 3, 6, 9, 12
ATTITUDE_KP, ATTITUDE_KI, ATTITUDE_KD, ATTITUDE_INTEGRAL = 15, 18, 21, 24
VELOCITY_KP, VELOCITY_KI, VELOCITY_INTEGRAL, POSITION_KP = 27, 30, 33, 36
# the tangent of the largest tilt is MAX_SLOPE
MAX_VELOCITY, MAX_SLOPE, NOMINAL_MASS, YAW_INTEGRATED = 39, 40, 41, 42
# then thrust and torque curves, rotor places (4 x 3), directions (4), share of each output in each motor (4 x 3)
THRUST_CURVE, TORQUE_CURVE, PLACES, DIRECTIONS, MIX = 43, 46, 49, 61, 65
PROPELLER_RADIUS, BODY_RADIUS, BODY_HALF_HEIGHT = 77, 78, 79
# wakes: width, constants of gym-pybullet-drones' model; full rotor speed; battery: capacity (C), cells, resistance (ohm),
# efficiency, idle power (W), reference voltage
WAKE_WIDTH, DOWNWASH, TOP_SPEED = 80, 81, 84
CAPACITY, CELLS, RESISTANCE, EFFICIENCY, IDLE, REFERENCE = 85, 86, 87, 88, 89, 90
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
