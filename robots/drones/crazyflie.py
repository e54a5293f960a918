"""Bitcraze Crazyflie 2.1.

Mass, inertia, thrust curve, torque ratio and rotor lags: the identified set of rl-tools
(include/rl_tools/rl/environments/l2f/parameters/dynamics/crazyflie.h). Rotor places
(+-0.028 m) and propeller radius: Learning to Fly (arXiv 2311.13081) and gym-pybullet-drones' cf2x.urdf (arm 0.0397 m,
prop_radius 0.0231348 m), from its assets. Collision cylinder: cf2x.urdf. Gains: bitcraze/crazyflie-firmware at 2a18fc29.

Aerodynamics: rotor drag from RotorPy's Crazyflie (k_d, k_z). crazyflow identified the drag of the whole vehicle, 0.01495 kg/s
across and 0.0139 kg/s along z (parameter set cf2x_L250, arXiv 2606.01478); what the rotors give in hover is taken off it and
the rest is the body's. Full speed 21702 rpm (Learning to Fly). Ground effect and downwash constants: gym-pybullet-drones'
cf2x.urdf. Rotor inertia: our own estimate, a propeller of 0.2 g and 45 mm taken as a rod.

Battery: 250 mAh, one cell (Bitcraze's data sheet). Resistance (0.12 ohm, cell, plug and switches) and what the electronics
draw (0.5 W) are our own estimates. The efficiency of the motors is then what the stated flight time of up to 7 minutes asks
for: 7.8 W in hover, for 6.8 minutes. Full speed needs 3.75 V: a full pack has 3.86 V in hover and 3.65 V at full throttle.
"""

from __future__ import annotations

import math

from rookery.sim.multirotor.parameters import Battery, CascadeGains, DroneParameters, firmware_rate

_TORQUE_RATIO = 0.004665  # m, reaction torque over thrust
_THRUST = (0.003525, 0.014373, 0.092230)  # N
_ARM = 0.028  # m
_MAX_SPEED = 21702 * math.pi / 30  # rad/s
_ROTOR_DRAG = (10.2506e-7, 10.2506e-7, 7.553e-7)  # kg
_DRAG = (0.01495, 0.01495, 0.0139)  # kg/s, all of it in hover
_HOVER_SPEEDS = 4 * 0.80613 * _MAX_SPEED  # rad/s, sum over rotors at the hover_speed that follows from what is below

FIRMWARE_GAINS = CascadeGains(
    rate_kp=(firmware_rate(250.0), firmware_rate(250.0), firmware_rate(120.0)),
    rate_ki=(firmware_rate(500.0), firmware_rate(500.0), firmware_rate(16.7)),
    rate_kd=(firmware_rate(2.5), firmware_rate(2.5), 0.0),
    rate_integral_limit=(math.radians(33.3), math.radians(33.3), math.radians(166.7)),
    rate_output_limit=(0.5, 0.5, 0.5),  # 2^15 - 1 of 65535
    attitude_kp=(6.0, 6.0, 6.0),
    attitude_ki=(3.0, 3.0, 1.0),
    attitude_kd=(0.0, 0.0, 0.35),
    attitude_integral_limit=(math.radians(20.0), math.radians(20.0), math.radians(360.0)),
    # our own: PI velocity loop on acceleration, damping ratio 0.6 over the attitude loop's 6 rad/s
    velocity_kp=(4.0, 4.0, 6.0),
    velocity_ki=(1.0, 1.0, 3.0),
    velocity_integral_limit=(2.0, 2.0, 2.0),
    position_kp=(2.0, 2.0, 2.0),
    max_velocity=2.0,
    max_tilt=math.radians(35.0),
)

CRAZYFLIE_21 = DroneParameters(
    name="crazyflie21",
    mass=0.0306,
    inertia=(9.4166e-6, 9.6441e-6, 17.4595e-6),
    # M1 front right, M2 rear right, M3 rear left, M4 front left; M1 and M3 turn anticlockwise, so they push the body clockwise
    rotor_positions=((_ARM, -_ARM, 0.0), (-_ARM, -_ARM, 0.0), (-_ARM, _ARM, 0.0), (_ARM, _ARM, 0.0)),
    directions=(-1, 1, -1, 1),
    thrust_curve=_THRUST,
    torque_curve=(_THRUST[0] * _TORQUE_RATIO, _THRUST[1] * _TORQUE_RATIO, _THRUST[2] * _TORQUE_RATIO),
    tau_up=0.05545,
    tau_down=0.24939,
    propeller_radius=0.0231348,
    body_radius=0.06,
    body_height=0.025,
    max_rate=(math.pi, math.pi, math.pi),
    max_tilt=math.radians(35.0),
    max_velocity=2.0,
    gains=FIRMWARE_GAINS,
    look="crazyflie",
    max_rotor_speed=_MAX_SPEED,
    rotor_inertia=3.4e-8,
    body_drag=(
        _DRAG[0] - _ROTOR_DRAG[0] * _HOVER_SPEEDS,
        _DRAG[1] - _ROTOR_DRAG[1] * _HOVER_SPEEDS,
        _DRAG[2] - _ROTOR_DRAG[2] * _HOVER_SPEEDS,
    ),
    rotor_drag=_ROTOR_DRAG,
    ground_effect_gain=11.36859,
    battery=Battery(capacity=900.0, cells=1, resistance=0.12, efficiency=0.35, idle=0.5, reference=3.75),
)
