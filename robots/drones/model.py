"""Drones in a scene: the MuJoCo spec of a drone's constants, and what an engine needs to know beside it."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from rookery.assets.drones import quadrotor_spec
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.scene import Scene


def drone_spec(drone: DroneParameters, racket_radius: float = 0.0) -> mujoco.MjSpec:
    """A fresh spec of a drone, see assets.drones.quadrotor_spec.

    Moments of inertia that no rigid body has are made valid here (the largest is cut to the sum of the others); `add_drone`
    writes the published ones after compiling.

    Args:
        drone: its constants.
        racket_radius: m, of a disc on its body to play balls with; 0 for none.
    """
    x, y, z = drone.inertia
    return quadrotor_spec(
        mass=drone.mass, inertia=(x, y, min(z, x + y)), rotor_positions=drone.rotor_positions,
        rotor_directions=drone.directions, propeller_radius=drone.propeller_radius, body_radius=drone.body_radius,
        body_height=drone.body_height, look=drone.look, racket_radius=racket_radius,
    )  # fmt: skip


def add_drone(
    scene: Scene, name: str, drone: DroneParameters, pos: Sequence[float] = (0.0, 0.0, 0.0), racket_radius: float = 0.0
) -> Scene:
    """Put a drone into a scene; returns the scene, so calls chain.

    Args:
        scene: changed.
        name: prefix of the drone's names, such as ``drone_0``.
        drone: its constants; it need not be in the table of drones.
        pos: [3] m, world.
        racket_radius: m, see `drone_spec`.

    Raises:
        RookeryError: the name is taken.
    """
    scene.add(lambda: drone_spec(drone, racket_radius), name, pos=pos)
    scene.inertia[f"{name}/base"] = drone.inertia
    scene.extension(Aeronautics).drones[name] = drone
    return scene
