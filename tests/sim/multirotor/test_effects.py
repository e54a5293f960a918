"""Presets of effects against their sources, and constants of drones: documented values, refusals, loops that can be stable."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from rookery.robots.drones.air import AIR
from rookery.robots.drones.cf2x import CF2X
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.hummingbird import HUMMINGBIRD
from rookery.robots.drones.iris import IRIS
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.effects import DOWNWASH, PRESETS, Effects, effects
from rookery.sim.multirotor.parameters import NO_BATTERY, Battery, DroneParameters

DRONES = (CRAZYFLIE_21, IRIS, HUMMINGBIRD, CF2X, AIR)
drones = pytest.mark.parametrize("drone", DRONES, ids=lambda d: d.name)

SWITCHES = ("rotor_lag", "gyroscopic", "body_drag", "rotor_drag", "ground_effect", "battery", "ball_drag", "ball_lift")
ON = {
    "none": {"rotor_lag"},
    "volleybots": {"rotor_lag"},
    "gym-pybullet-drones": {"rotor_drag", "ground_effect"},
    "realistic": set(SWITCHES),
}


@pytest.mark.parametrize("name", ON)
def test_presets_have_what_their_simulators_have(name):
    e = effects(name)
    assert {s for s in SWITCHES if getattr(e, s)} == ON[name]
    assert e.downwash == name and e.downwash in DOWNWASH
    assert e.mean_wind == (0.0, 0.0, 0.0)  # calm air unless it is asked for
    assert e.gusts == (name == "realistic") and e.air_density == 1.225


def test_realistic_is_the_default_and_every_preset_is_covered():
    assert Effects() == PRESETS["realistic"] and set(PRESETS) == set(ON)


def test_misspelt_names():
    with pytest.raises(RookeryError, match="unknown preset of effects 'volleybot': did you mean 'volleybots'"):
        effects("volleybot")
    with pytest.raises(RookeryError, match="unknown downwash model 'realistc': did you mean 'realistic'"):
        Effects(downwash="realistc")


@pytest.mark.parametrize(
    ("field", "value"),
    [("wind_speed", -1.0), ("wind_speed", math.nan), ("wind_speed", math.inf), ("ball_drag_coefficient", -0.1),
     ("ball_lift_slope", math.nan), ("air_density", 0.0), ("air_density", math.inf), ("wind_direction", math.nan)],
)  # fmt: skip
def test_constants_of_effects_that_are_not_physical(field, value):
    with pytest.raises(RookeryError, match=field):
        Effects(**{field: value})


def test_wind_blows_where_it_is_told():
    assert np.allclose(Effects(wind_speed=3.0, wind_direction=math.pi / 2).mean_wind, (0.0, 3.0, 0.0))


def test_ball_constants():
    """JuggleRL's ball: rho Cd pi r^2 / 2m = 0.0307 1/m; switches take each away."""
    drag, lift = Effects().ball_constants(0.0472, 0.04)
    assert drag == pytest.approx(1.225 * 0.47 * math.pi * 0.0016 / (2 * 0.0472))
    assert lift == pytest.approx(1.225 * math.pi * 0.04**3 / (2 * 0.0472))
    assert Effects(air_density=0.6).ball_constants(0.0472, 0.04)[0] == pytest.approx(drag * 0.6 / 1.225)
    assert effects("volleybots").ball_constants(0.005, 0.1) == (0.0, 0.0)
    assert Effects(ball_lift=False).ball_constants(0.0472, 0.04) == (drag, 0.0)


def test_crazyflie_drag_in_hover_is_what_crazyflow_identified():
    d = CRAZYFLIE_21
    speeds = 4 * d.hover_speed * d.max_rotor_speed
    total = [b + r * speeds for b, r in zip(d.body_drag, d.rotor_drag, strict=True)]
    assert total == pytest.approx([0.01495, 0.01495, 0.0139], rel=1e-4)
    assert d.rotor_drag == (10.2506e-7, 10.2506e-7, 7.553e-7)
    assert d.max_rotor_speed == pytest.approx(21702 * 2 * math.pi / 60)


def test_published_constants():
    """OmniDrones' yaml files, gym-pybullet-drones' URDF files and JuggleRL (arXiv 2509.24892): constants and what follows."""
    assert (HUMMINGBIRD.mass, HUMMINGBIRD.inertia) == (0.716, (0.007, 0.007, 0.012))
    assert HUMMINGBIRD.thrust_to_weight == pytest.approx(3.42, abs=0.01)
    assert HUMMINGBIRD.max_thrust == pytest.approx(8.54858e-6 * 838**2)
    assert sum(HUMMINGBIRD.torque_curve) == pytest.approx(1.3677728816e-7 * 838**2)
    assert {(round(x, 9), round(y, 9)) for x, y, _ in HUMMINGBIRD.rotor_positions} == {
        (0.17, 0.0), (0.0, 0.17), (-0.17, 0.0), (0.0, -0.17)
    }  # fmt: skip
    assert (CF2X.mass, CF2X.inertia) == (0.027, (1.4e-5, 1.4e-5, 2.17e-5))
    assert CF2X.max_rotor_speed == pytest.approx(21702 * math.pi / 30, rel=1e-4)
    assert CF2X.max_thrust == pytest.approx(3.16e-10 * 21702**2, rel=1e-4)
    assert sum(CF2X.torque_curve) == pytest.approx(7.94e-12 * 21702**2, rel=1e-4)
    assert CF2X.rotor_drag == (9.1785e-7, 9.1785e-7, 10.311e-7) and CF2X.ground_effect_gain == 11.36859
    assert CF2X.downwash == (2267.18, 0.16, -0.11) and CF2X.battery == NO_BATTERY
    assert all(math.hypot(x, y) == pytest.approx(0.0397) for x, y, _ in CF2X.rotor_positions)
    assert (AIR.mass, AIR.inertia, AIR.tau_up) == (0.9505, (0.00529, 0.005624, 0.007805), 0.0272)
    assert AIR.max_thrust == pytest.approx(5.39899e-6 * 1356.6**2)
    assert IRIS.max_rotor_speed == 838 and IRIS.racket_radius == 0.2
    assert 0.055 <= IRIS.racket_height <= 0.1  # above the body, and a ball of 0.1 m on it is within the 0.2 m cylinder


@drones
def test_rotors_carry_the_weight_straight_up(drone):
    """Equal thrusts balance, directions cancel, and a pair that turns one way stands across the centre."""
    at = np.array(drone.rotor_positions)
    assert np.abs(at.mean(0)).max() < 1e-12 and sum(drone.directions) == 0
    pair = at[np.array(drone.directions) == 1]
    assert np.abs(pair.sum(0)[:2]).max() <= 0.021  # the Iris's are 0.02 m off
    assert 0.3 < drone.hover_speed < 0.9 and drone.max_rotor_speed > 0


@drones
def test_propellers_do_not_touch(drone):
    at = np.array(drone.rotor_positions)
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1) + np.eye(4)
    assert apart.min() >= 2 * drone.propeller_radius


def rate_loops(drone: DroneParameters) -> tuple[np.ndarray, np.ndarray]:
    """Crossover (rad/s) and damping ratio of the rate loops about hover, axis by axis, without sampling.

    Of tau s^2 + (1 + kd B) s + kp B, with B the angular acceleration for an output of 1 by the X mixer of the firmware.
    """
    u, t, q = drone.hover_speed, drone.thrust_curve, drone.torque_curve
    at = np.abs(np.array(drone.rotor_positions))
    arms = 0.5 * np.array([at[:, 1].sum(), at[:, 0].sum()]) * (t[1] + 2 * t[2] * u)
    gain = np.array([*arms, 4 * (q[1] + 2 * q[2] * u)]) / np.array(drone.inertia)
    kp, kd = gain * drone.gains.rate_kp, gain * drone.gains.rate_kd
    return kp, (1 + kd) / (2 * np.sqrt(kp * drone.tau_up))


@drones
def test_rate_loops_are_damped_and_slow_against_the_sampling(drone):
    crossover, damping = rate_loops(drone)
    assert (damping > 0.44).all() and (crossover * 0.002 < 0.5).all()
    g = drone.gains
    assert (np.array(g.attitude_kp[:2]) < 0.5 * crossover[:2]).all()
    assert max(g.velocity_kp[:2]) < min(g.attitude_kp[:2]) and max(g.position_kp[:2]) < min(g.velocity_kp[:2])


def test_documented_crossovers_of_the_new_drones():
    for drone, expected, least in (
        (HUMMINGBIRD, (20.7, 20.7, 6.1), 0.6),
        (CF2X, (87.0, 87.0, 48.2), 0.6),
        (AIR, (25.6, 24.1, 7.8), 0.6),
    ):
        crossover, damping = rate_loops(drone)
        assert crossover == pytest.approx(expected, abs=0.1) and (damping >= least).all()


def test_hover_power_follows_from_the_rotors():
    d = dataclasses.replace(IRIS, battery=IRIS.battery._replace(efficiency=0.5, idle=3.0))
    thrust = d.mass * 9.81 / 4
    shaft = 4 * 0.016 * thrust * math.sqrt(thrust / 8.54858e-6)
    assert d.hover_power == pytest.approx(shaft / 0.5 + 3.0, rel=1e-3)
    assert 14 < IRIS.battery.capacity * 11.1 / IRIS.hover_power / 60 < 18  # minutes, as documented
    assert 19 < HUMMINGBIRD.battery.capacity * 11.1 / HUMMINGBIRD.hover_power / 60 < 22


def test_wake_width_is_that_of_momentum_theory():
    rho = 1.225
    thrust = 3.0
    radius = CRAZYFLIE_21.propeller_radius
    induced = math.sqrt(thrust / (2 * rho * 4 * math.pi * radius**2))
    jet_flux = rho * math.pi * CRAZYFLIE_21.wake_width**2 * (2 * induced) ** 2
    assert jet_flux == pytest.approx(thrust)


def test_a_drone_without_the_new_fields_has_no_effects():
    old = {f.name: getattr(IRIS, f.name) for f in dataclasses.fields(IRIS) if f.default is dataclasses.MISSING}
    d = DroneParameters(**old, published_inertia_unphysical=True)
    assert d.body_drag == d.rotor_drag == (0.0, 0.0, 0.0)
    assert d.rotor_inertia == d.racket_radius == 0.0 and d.battery == NO_BATTERY


REFUSALS = [
    ({"mass": -0.03}, "mass is -0.03"),
    ({"mass": math.nan}, "mass is nan"),
    ({"tau_up": 0.0}, "tau_up is 0.0"),
    ({"tau_down": -1.0}, "tau_down is -1.0"),
    ({"propeller_radius": 0.0}, "propeller_radius"),
    ({"body_height": -0.1}, "body_height"),
    ({"max_rotor_speed": -1.0}, "max_rotor_speed"),
    ({"rotor_inertia": -1e-9}, "rotor_inertia"),
    ({"ground_effect_gain": -1.0}, "ground_effect_gain"),
    ({"racket_radius": math.inf}, "racket_radius"),
    ({"body_drag": (0.0, -0.1, 0.0)}, "body_drag"),
    ({"rotor_drag": (0.0, 0.0, math.nan)}, "rotor_drag"),
    ({"inertia": (1e-5, -1e-5, 1e-5)}, "inertia is .* must be positive"),
    ({"inertia": (1e-5, 1e-5, 2.1e-5)}, "the largest, 2.1e-05, must not exceed the sum of the other two, 2e-05"),
    ({"published_inertia_unphysical": True}, "is physical: leave published_inertia_unphysical out"),
    ({"thrust_curve": (0.0, -0.01, 0.1)}, "thrust curve .* does not grow"),
    ({"thrust_curve": (0.0, 0.1, -0.04)}, "thrust curve .* does not grow"),
    ({"thrust_curve": (0.0, 0.0, 0.0)}, "thrust curve .* does not grow"),
    ({"rotor_positions": CRAZYFLIE_21.rotor_positions[:3]}, "3 rotor positions and 4 directions"),
    ({"directions": (1, -1, 1, -1, 1, -1)}, "4 rotor positions and 6 directions"),
    ({"directions": (1, -1, 1, 0)}, "each must be 1 or -1"),
    ({"max_rotor_speed": 0.0}, "rotor_inertia and rotor_drag and battery need max_rotor_speed"),
    ({"battery": Battery(0.0, 1, 0.1, 0.5, 0.0, 3.7)}, "battery of 0.0 C"),
    ({"battery": Battery(900.0, 0, 0.1, 0.5, 0.0, 3.7)}, "in 0 cells"),
    ({"battery": Battery(900.0, 1, -0.1, 0.5, 0.0, 3.7)}, "resistance"),
    ({"battery": Battery(900.0, 1, 0.1, 0.0, 0.0, 3.7)}, "efficiency of 0.0"),
    ({"battery": Battery(900.0, 1, 0.1, 1.1, 0.0, 3.7)}, "efficiency of 1.1"),
]


@pytest.mark.parametrize(("change", "message"), REFUSALS, ids=lambda x: next(iter(x)) if isinstance(x, dict) else "")
def test_constants_that_no_drone_can_have_are_refused(change, message):
    with pytest.raises(RookeryError, match=f"drone 'crazyflie21': .*{message}"):
        dataclasses.replace(CRAZYFLIE_21, **change)


def test_the_published_iris_passes_only_as_published():
    assert IRIS.inertia == (0.0347563, 0.0458929, 0.0977)
    with pytest.raises(
        RookeryError, match=r"the largest, 0\.0977, must not exceed the sum of the other two, 0\.0806492"
    ):
        dataclasses.replace(IRIS, published_inertia_unphysical=False)


@drones
def test_a_plane_body_is_on_the_edge_of_what_is_physical(drone):
    x, y, _ = drone.inertia
    flat = dataclasses.replace(drone, inertia=(x, y, x + y), published_inertia_unphysical=False)
    assert flat.inertia[2] == x + y
