"""AscTec Hummingbird, as OmniDrones describes it.

Source: omni_drones/robots/assets/usd/hummingbird.yaml (arXiv 2309.12825): rotors on the body's axes, 0.17 m
out, front first and on towards the left. Rotor lag: the time constant to which OmniDrones' per-step factor 0.43 amounts at
its 0.016 s step (0.0285 s; omni_drones/actuators/rotor_group.py).

Aerodynamics: rotor radius, rotor drag and the area behind the body drag (0.005 and 0.01 N s^2/m^2, here at 5 m/s) from
RotorPy's hummingbird_params.py. Our own estimates: collision cylinder, rotor inertia (propeller of 6 g and 200 mm as a rod),
ground effect (as for the Iris). Battery: 2100 mAh, 3 cells, as sold with the vehicle; resistance and efficiency estimated as
for the Iris, with which it hovers for 20 minutes, as its maker says.

Gains: the firmware's forms and ratios with the proportional gains lowered until the rate loops, thrust against inertia, cross
over at 21 rad/s in roll and pitch (6 rad/s in yaw), which the rotor lag leaves a damping ratio of at least 0.6; the outer
loops are the Iris's, each at most a third as fast as the loop inside it.
"""

from __future__ import annotations

import math

from rookery.robots.drones.iris import IRIS
from rookery.sim.multirotor.parameters import Battery, DroneParameters, firmware_rate

_KF = 8.54858e-6  # N/(rad/s)^2
_KM = 1.3677728816e-7  # N m/(rad/s)^2
_MAX_SPEED = 838.0  # rad/s
_ARM = 0.17  # m

HUMMINGBIRD = DroneParameters(
    name="hummingbird",
    mass=0.716,
    inertia=(0.007, 0.007, 0.012),
    # front, left, rear, right
    rotor_positions=((_ARM, 0.0, 0.0), (0.0, _ARM, 0.0), (-_ARM, 0.0, 0.0), (0.0, -_ARM, 0.0)),
    directions=(1, -1, 1, -1),  # against the turning of the rotors, -1, 1, -1, 1
    thrust_curve=(0.0, 0.0, _KF * _MAX_SPEED**2),
    torque_curve=(0.0, 0.0, _KM * _MAX_SPEED**2),
    tau_up=0.0285,
    tau_down=0.0285,
    propeller_radius=0.1,
    body_radius=0.2,
    body_height=0.08,
    max_rate=(math.pi, math.pi, 1.0),
    max_tilt=math.radians(35.0),
    max_velocity=4.0,
    gains=IRIS.gains._replace(
        rate_kp=(firmware_rate(150.0), firmware_rate(150.0), firmware_rate(200.0)),
        rate_ki=(firmware_rate(300.0), firmware_rate(300.0), firmware_rate(28.0)),
        rate_kd=(firmware_rate(1.5), firmware_rate(1.5), 0.0),
        rate_output_limit=(0.5, 0.5, 0.2),
    ),
    look="iris",
    max_rotor_speed=_MAX_SPEED,
    rotor_inertia=2.0e-5,
    body_drag=(0.025, 0.025, 0.05),
    rotor_drag=(1.19e-4, 1.19e-4, 2.32e-4),
    ground_effect_gain=5.0,
    battery=Battery(capacity=7560.0, cells=3, resistance=0.045, efficiency=0.75, idle=2.0, reference=11.4),
)
