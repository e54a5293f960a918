"""Extension of a scene for multirotors and the air."""

from __future__ import annotations

from dataclasses import dataclass, field

from rookery.sim.multirotor.effects import PRESETS, Effects
from rookery.sim.multirotor.parameters import DroneParameters


@dataclass
class Aeronautics:
    """Scene extension for multirotors and balls in air; see `Scene.extension`.

    A part in `moving` is one free body, made by `rookery.assets.scenery.platform`: it moves at the velocities written to it
    (`Bodies.set_state`), and drones and balls that touch it feel them. On `rotor` nothing else moves it; on `mujoco` and
    `pybullet` it is so heavy that drones hardly do.

    Args:
        drones: constants of the parts that fly, by the part's name.
        moving: names of the parts that move as they are told.
        effects: which effects of the air, the rotors and the battery act. The battery's sag exists on engine `rotor` only; on
            the others the air acts by external wrenches (rookery.sim.multirotor.external_aerodynamics).
    """

    drones: dict[str, DroneParameters] = field(default_factory=dict)
    moving: list[str] = field(default_factory=list)
    effects: Effects = PRESETS["none"]
