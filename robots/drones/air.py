"""The drone "air" of JuggleRL, which juggles a ball in reality (arXiv 2509.24892).

Mass, inertia, thrust constant, largest speed and rotor lag: github.com/thu-uav/JuggleRL_train. Nothing else of it is published.
Assumed:

* rotors on the corners of a square at +-0.115 m, propellers of 7 inch: a thrust constant of 5.4e-6 N/(rad/s)^2 asks for
  propellers of 7 to 8 inch, they must not touch, and the moments of inertia fit arms of that length;
* torque over thrust 0.015 m, between the Crazyflie's and the Iris's for propellers of that radius;
* rotors numbered and turning as on the Crazyflie;
* racket 0.12 m in radius, 0.06 m above the centre, on a body of 0.15 m by 0.10 m;
* rotor drag of RotorPy's Hummingbird, whose rotors are of nearly this size; body drag of 0.01 m^2 across and 0.02 m^2 from
  above at 5 m/s; ground effect as for the Iris; propellers of 6 g and 178 mm as rods; a pack of 2200 mAh and 4 cells.

Gains: chosen as for the Hummingbird: rate loops that cross over at 24 to 26 rad/s in roll and pitch and 8 rad/s in yaw, at
which the rotor lag leaves a damping ratio of at least 0.6.
"""

from __future__ import annotations

import math

from rookery.robots.drones.iris import IRIS
from rookery.sim.multirotor.parameters import Battery, DroneParameters, firmware_rate

_KF = 5.39899e-6  # N/(rad/s)^2
_MAX_SPEED = 1356.6  # rad/s
_THRUST = _KF * _MAX_SPEED**2  # N
_PLACE = 0.115  # m

AIR = DroneParameters(
    name="air",
    mass=0.9505,
    inertia=(0.00529, 0.005624, 0.007805),
    rotor_positions=((_PLACE, -_PLACE, 0.0), (-_PLACE, -_PLACE, 0.0), (-_PLACE, _PLACE, 0.0), (_PLACE, _PLACE, 0.0)),
    directions=(-1, 1, -1, 1),
    thrust_curve=(0.0, 0.0, _THRUST),
    torque_curve=(0.0, 0.0, 0.015 * _THRUST),
    tau_up=0.0272,
    tau_down=0.0272,
    propeller_radius=0.0889,
    body_radius=0.15,
    body_height=0.1,
    max_rate=(math.pi, math.pi, 1.0),
    max_tilt=math.radians(35.0),
    max_velocity=4.0,
    gains=IRIS.gains._replace(
        rate_kp=(firmware_rate(70.0), firmware_rate(70.0), firmware_rate(120.0)),
        rate_ki=(firmware_rate(140.0), firmware_rate(140.0), firmware_rate(16.7)),
        rate_kd=(firmware_rate(0.7), firmware_rate(0.7), 0.0),
        rate_output_limit=(0.5, 0.5, 0.2),
    ),
    look="iris",
    max_rotor_speed=_MAX_SPEED,
    rotor_inertia=1.6e-5,
    body_drag=(0.03, 0.03, 0.06),
    rotor_drag=(1.19e-4, 1.19e-4, 2.32e-4),
    ground_effect_gain=5.0,
    battery=Battery(capacity=7920.0, cells=4, resistance=0.04, efficiency=0.75, idle=5.0, reference=15.2),
    racket_radius=0.12,
    racket_height=0.06,
)
