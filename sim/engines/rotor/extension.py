"""What a scene holds for multirotors and the air, beside what its MjSpec says."""

from __future__ import annotations

from dataclasses import dataclass, field

from rookery.sim.engines.rotor.effects import PRESETS, Effects
from rookery.sim.engines.rotor.parameters import DroneParameters


@dataclass
class Aeronautics:
    """Scene extension for multirotors and balls in air; see `Scene.extension`.

    Args:
        drones: constants of the parts that fly, by the part's name.
        effects: which effects of the air, the rotors and the battery act. The battery's sag exists on engine `rotor` only; on
            the others the air acts by external wrenches (rookery.sim.engines.aerodynamics).
    """

    drones: dict[str, DroneParameters] = field(default_factory=dict)
    effects: Effects = PRESETS["none"]
