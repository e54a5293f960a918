"""Crazyflie 2 in X shape, as gym-pybullet-drones describes it.

Source: gym_pybullet_drones/assets/cf2x.urdf (arXiv 2103.02142), with thrust and torque constants in revolutions
per minute and a thrust-to-weight ratio of 2.25, which gives the largest speed. Rotors follow their commands at once: the lag of
0.1 ms below only stands for none. No body drag; drag in proportion to rotor speed, ground effect and downwash are theirs.

Gains: the firmware's without its derivative terms, which answer a rotor lag that is not there: sampled at 500 Hz and without
lag they would more than undo each change of the rates. Proportional gains are halved, so that the rate loops cross over at
87 rad/s (48 in yaw), less than a fifth of the sampling rate in 1/s.
"""

from __future__ import annotations

import math

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.multirotor.parameters import DroneParameters, firmware_rate

_KF = 3.16e-10  # N/rpm^2
_KM = 7.94e-12  # N m/rpm^2
_MASS = 0.027  # kg
_THRUST = 2.25 * _MASS * 9.8 / 4  # N, one rotor at full speed; 9.8 is their g
_MAX_RPM = math.sqrt(_THRUST / _KF)
_PLACE = 0.0397 / math.sqrt(2.0)  # m

CF2X = DroneParameters(
    name="cf2x",
    mass=_MASS,
    inertia=(1.4e-5, 1.4e-5, 2.17e-5),
    # their propellers 0 to 3: front right, rear right, rear left, front left, as on the Crazyflie
    rotor_positions=((_PLACE, -_PLACE, 0.0), (-_PLACE, -_PLACE, 0.0), (-_PLACE, _PLACE, 0.0), (_PLACE, _PLACE, 0.0)),
    directions=(-1, 1, -1, 1),
    thrust_curve=(0.0, 0.0, _THRUST),
    torque_curve=(0.0, 0.0, _KM * _MAX_RPM**2),
    tau_up=1e-4,
    tau_down=1e-4,
    propeller_radius=0.0231348,
    body_radius=0.06,
    body_height=0.025,
    max_rate=(math.pi, math.pi, math.pi),
    max_tilt=math.radians(35.0),
    max_velocity=2.0,
    gains=CRAZYFLIE_21.gains._replace(
        rate_kp=(firmware_rate(125.0), firmware_rate(125.0), firmware_rate(60.0)),
        rate_ki=(firmware_rate(250.0), firmware_rate(250.0), firmware_rate(8.35)),
        rate_kd=(0.0, 0.0, 0.0),
    ),
    look="crazyflie",
    max_rotor_speed=_MAX_RPM * math.pi / 30,
    rotor_drag=(9.1785e-7, 9.1785e-7, 10.311e-7),
    ground_effect_gain=11.36859,
    downwash=(2267.18, 0.16, -0.11),
)
