"""3DR Iris, as OmniDrones and VolleyBots describe it.

Source: volley_bots/robots/assets/usd/iris.yaml, recorded in facts/drones.md 1.2. The rotor lag is the time constant to
which their per-step factor 0.43 amounts at their 0.02 s step (0.0356 s, the same up and down).

Their arm lengths are those of rotors at x = +-0.13 m and y = +-0.22 m (front), +-0.20 m (rear), hypot(0.13, 0.22) = 0.255539
and hypot(0.13, 0.20) = 0.238537, but their angles are counted from y: taken from x, the same thrust of all rotors would
pitch the drone up. The places below balance, as on the vehicle.
"""

from __future__ import annotations

import math

from rookery.robots.drones.crazyflie import FIRMWARE_GAINS
from rookery.robots.drones.parameters import DroneParameters, firmware_rate

_KF = 8.54858e-6  # N/(rad/s)^2
_KM = 1.3677728816e-7  # N m/(rad/s)^2
_MAX_SPEED = 838.0  # rad/s

IRIS = DroneParameters(
    name="iris",
    mass=1.52,
    inertia=(0.0347563, 0.0458929, 0.0977),
    # front right, rear left, front left, rear right
    rotor_positions=((0.13, -0.22, 0.0), (-0.13, 0.20, 0.0), (0.13, 0.22, 0.0), (-0.13, -0.20, 0.0)),
    directions=(1, 1, -1, -1),
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
)
