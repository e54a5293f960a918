"""3DR Iris, as OmniDrones and VolleyBots describe it.

Source: volley_bots/robots/assets/usd/iris.yaml (arXiv 2502.01932). The rotor lag is the time constant to
which their per-step factor 0.43 amounts at their 0.02 s step (0.0356 s, the same up and down).

Their arm lengths are those of rotors at x = +-0.13 m and y = +-0.22 m (front), +-0.20 m (rear), hypot(0.13, 0.22) = 0.255539
and hypot(0.13, 0.20) = 0.238537, but their angles are counted from y: taken from x, the same thrust of all rotors would
pitch the drone up. The places below balance, as on the vehicle. Their moments of inertia, RotorS' too, are those of no rigid
body (0.0977 > 0.0348 + 0.0459 kg m^2); they stand as published.

Their directions +1, +1, -1, -1 are those in which the rotors turn, against which the body is pushed (rotor_group.py: M = -dir
KM).

Racket: VolleyBots counts a hit as played where the ball's centre is inside a cylinder of radius 0.2 m that reaches from the
drone's centre to 0.2 m above it; a disc 0.06 m up, just above the body, meets the 0.1 m ball inside it.

Aerodynamics: rotor drag from the motor model of Gazebo's RotorS that has the same thrust constant 8.54858e-6 (8.06428e-5 kg
across; along z twice that, RotorPy's ratio for the Hummingbird's similar rotors). Our own estimates: body drag (0.02 m^2
across, 0.05 m^2 from above, at 5 m/s), rotor inertia (propeller of 11 g and 254 mm as a rod), ground effect (Sanchez-Cuevas,
Heredia and Ollero, International Journal of Aerospace Engineering 2017, gives 5.3 two radii above ground for rotors three
radii apart). Battery: 5100 mAh, 3 cells, as sold with the vehicle; resistance 10 milliohm a cell and the efficiency 0.75 are
our own estimates, which let it hover for 16 minutes.
"""

from __future__ import annotations

import math

from rookery.robots.drones.crazyflie import FIRMWARE_GAINS
from rookery.sim.multirotor.parameters import Battery, DroneParameters, firmware_rate

_KF = 8.54858e-6  # N/(rad/s)^2
_KM = 1.3677728816e-7  # N m/(rad/s)^2
_MAX_SPEED = 838.0  # rad/s

IRIS = DroneParameters(
    name="iris",
    mass=1.52,
    inertia=(0.0347563, 0.0458929, 0.0977),
    # front right, rear left, front left, rear right
    rotor_positions=((0.13, -0.22, 0.0), (-0.13, 0.20, 0.0), (0.13, 0.22, 0.0), (-0.13, -0.20, 0.0)),
    directions=(-1, -1, 1, 1),  # the first two turn anticlockwise, as PX4 numbers them
    thrust_curve=(0.0, 0.0, _KF * _MAX_SPEED**2),
    torque_curve=(0.0, 0.0, _KM * _MAX_SPEED**2),
    tau_up=0.0356,
    tau_down=0.0356,
    propeller_radius=0.127,  # m, 10 inch propellers
    body_radius=0.25,
    body_height=0.11,
    max_rate=(math.pi, math.pi, 1.0),
    max_tilt=math.radians(35.0),
    max_velocity=4.0,
    # The firmware's gains give this airframe rate loops of 25 rad/s in roll and 12 rad/s in pitch, with damping 0.5 and 0.8.
    # A Crazyflie's rotors turn it 28 times as hard about yaw as these do: the gain is raised, and the share of thrust that
    # yaw may take bounded.
    gains=FIRMWARE_GAINS._replace(
        rate_kp=(firmware_rate(250.0), firmware_rate(250.0), firmware_rate(600.0)),
        rate_output_limit=(0.5, 0.5, 0.1),
        attitude_kp=(4.0, 4.0, 2.0),
        velocity_kp=(2.5, 2.5, 4.0),
        position_kp=(1.2, 1.2, 1.5),
        max_velocity=4.0,
    ),
    look="iris",
    max_rotor_speed=_MAX_SPEED,
    rotor_inertia=6.0e-5,
    body_drag=(0.06, 0.06, 0.15),
    rotor_drag=(8.06428e-5, 8.06428e-5, 1.6e-4),
    ground_effect_gain=5.0,
    battery=Battery(capacity=18360.0, cells=3, resistance=0.03, efficiency=0.75, idle=5.0, reference=11.4),
    racket_radius=0.2,
    racket_height=0.06,
    published_inertia_unphysical=True,
)
