"""Parameters that may differ between drones of one type, and how they get into the simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rookery.robots.drones.kernels import TAU_DOWN, TAU_UP, THRUST_SCALE, TORQUE_SCALE
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.factors import FACTORS
from rookery.sim.randomization.bodies import BodyMass
from rookery.sim.randomization.parameters import BatchWrite, Parameter, Write

if TYPE_CHECKING:
    from rookery.robots.drones.drone import Drones

ROTORS = ("rotor_1", "rotor_2", "rotor_3", "rotor_4")
WINDIEST = 15.0  # m/s


def drone_parameters(drones: Drones) -> dict[str, Parameter]:
    """Parameters by name: of all drones in a world together, of their rotors together or one by one."""
    d = drones.drone
    write = _writes(drones)
    heaviest = min(3.0, math.floor(100.0 * d.thrust_to_weight) / 100.0)
    arm = max(math.hypot(x, y) for x, y, _ in d.rotor_positions)
    load = math.floor(1e4 * min(0.5, max(0.0, 0.8 * d.thrust_to_weight - 1.0)) * d.mass) / 1e4
    out = {
        "mass": Parameter(
            "mass of each drone, up to what its rotors can carry",
            "1",
            1.0,
            0.1,
            heaviest,
            write["mass"],
            (),
            (0.9, 1.1),
        ),
        "inertia": Parameter(
            "principal moments of inertia of each drone", "1", 1.0, 0.1, 10.0, write["inertia"], (), (0.8, 1.2)
        ),
        "thrust_coefficient": Parameter(
            "thrust of a rotor at a given speed", "1", 1.0, 0.1, 3.0, write["thrust"], ROTORS, (0.9, 1.1)
        ),
        "torque_coefficient": Parameter(
            "reaction torque of a rotor at a given speed", "1", 1.0, 0.0, 10.0, write["torque"], ROTORS, (0.8, 1.2)
        ),
        "rotor_lag": Parameter(
            "time constants of a rotor, up and down", "1", 1.0, 0.01, 10.0, write["lag"], ROTORS, (0.8, 1.2)
        ),
        "load": Parameter(
            "mass under the middle of the body, with its inertia",
            "kg",
            0.0,
            0.0,
            load,
            write["load"],
            (),
            (0.0, 0.1 * load),
        ),
    }
    for axis, name in enumerate(("com_x", "com_y")):
        what = f"shift of the centre of mass, {('forward', 'left')[axis]}"
        out[name] = Parameter(what, "m", 0.0, -0.3 * arm, 0.3 * arm, write[name], (), (-0.02 * arm, 0.02 * arm))
    return out | (_of_the_wind(drones) if drones.native is None else _of_the_air(drones))


def _writes(drones: Drones) -> dict[str, Write]:
    if drones.native is not None:
        return {name: BatchWrite(drones.native, name) for name in FACTORS}
    body = BodyMass(drones.world, [f"{n}/base" for n in drones.names], (0.0, 0.0, -0.5 * drones.drone.body_height))
    return {
        **{name: BatchWrite(body, name) for name in ("mass", "inertia", "load", "com_x", "com_y")},
        "thrust": drones.vary_rotors(THRUST_SCALE),
        "torque": drones.vary_rotors(TORQUE_SCALE),
        "lag": drones.vary_rotors(TAU_UP, TAU_DOWN),
    }


def _of_the_air(drones: Drones) -> dict[str, Parameter]:
    """Parameters of an engine with aerodynamics inside besides: factors of effects, the wind, the battery."""
    world = drones.world
    assert drones.native is not None
    fx = world.scene.extension(Aeronautics).effects
    drag, ground = (BatchWrite(drones.native, name) for name in ("drag", "ground"))
    out = {}
    if fx.body_drag or fx.rotor_drag:
        out["drag"] = Parameter("drag of body and rotors", "1", 1.0, 0.0, 10.0, drag, (), (0.7, 1.3))
    if fx.ground_effect:
        out["ground_effect"] = Parameter("ground effect of the rotors", "1", 1.0, 0.0, 5.0, ground, (), (0.7, 1.3))
    out |= _of_the_wind(drones)
    if fx.battery and drones.drone.battery.reference > 0.0:
        out["battery_charge"] = Parameter(
            "what the battery holds at the start",
            "1",
            1.0,
            0.05,
            1.0,
            BatchWrite(drones, "charge"),
            (),
            (0.3, 1.0),
        )
    return out


def _of_the_wind(drones: Drones) -> dict[str, Parameter]:
    """The mean wind, where there is drag by which it acts."""
    world = drones.world
    fx = world.scene.extension(Aeronautics).effects
    if world.wind is None or not (fx.body_drag or fx.rotor_drag):
        return {}
    speed, direction = (BatchWrite(world.wind, name) for name in ("speed", "direction"))
    return {
        "wind_speed": Parameter(
            "mean wind at 6 m, with turbulence of that strength", "m/s", fx.wind_speed, 0.0, WINDIEST, speed, (), (0.0, 2.0)
        ),
        "wind_direction": Parameter(
            "where the wind blows to, from world x to y", "rad", fx.wind_direction, -math.tau, math.tau, direction, (),
            (-math.pi, math.pi), () if fx.wind_speed > 0.0 else (("wind_speed",),),
        ),
    }  # fmt: skip
