"""What hand tasks handle: one object in an Allegro hand, and what may differ between worlds."""

from __future__ import annotations

from rookery.robots.manipulators.allegro import AllegroHand
from rookery.sim.randomization.parameters import Parameter, scaled, sliding
from rookery.sim.randomization.ranges import Range
from rookery.sim.world import World

DEFAULT_RANDOMIZATION = {
    "object_mass": Range(0.7, 1.3),
    "object_friction": Range(0.6, 1.2),
    "pad_friction": Range(0.9, 1.5),
    "joint_damping": Range(0.7, 1.5),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.02),
    "action_delay": Range(0.0, 0.02),
}


def hand_parameters(world: World, hand: AllegroHand, body: str, shapes: list[str]) -> dict[str, Parameter]:
    """Physical quantities of a hand and its object.

    Args:
        body: full name of the object's body. shapes: of its geoms.
    """
    p = world.params
    tips = list(hand.tips.names)  # their geoms have the bodies' names
    joints = list(hand.joint_names[:16])
    weigh = scaled(p, [body], "mass", "inertia")
    damp = scaled(p, joints, "damping")
    friction, pads = (float(p.nominal("friction", geoms)[0, 0]) for geoms in (shapes, tips))
    return {
        "object_mass": Parameter("mass of the object", "1", 1.0, 0.1, 10.0, weigh),
        "object_friction": Parameter(
            "sliding friction of the object on links and palm", "1", friction, 0.05, 3.0, sliding(p, shapes)
        ),
        "pad_friction": Parameter("sliding friction of the finger tips", "1", pads, 0.2, 3.0, sliding(p, tips)),
        "joint_damping": Parameter("friction of the fingers' joints", "1", 1.0, 0.1, 10.0, damp),
    }
