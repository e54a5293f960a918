"""What hand tasks handle: one object in an Allegro hand, and what may differ between worlds."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.robots.manipulators.allegro import AllegroHand
from rookery.sim.parameters import Parameter
from rookery.sim.randomization import Range
from rookery.sim.world import World

SPREADS = {
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
    mass, inertia = p.nominal("mass", [body]), p.nominal("inertia", [body])
    friction, pads, damping = p.nominal("friction", shapes), p.nominal("friction", tips), p.nominal("damping", joints)

    def weigh(ids: Tensor, v: Tensor) -> None:
        p.set("mass", [body], mass * v[:, None], ids)
        p.set("inertia", [body], inertia * v[:, None, None], ids)

    def rub(names: list[str], nominal: Tensor, ids: Tensor, v: Tensor) -> None:
        values = nominal.expand(len(ids), -1, 3).clone()
        values[:, :, 0] = v[:, None]
        p.set("friction", names, values, ids)

    def damp(ids: Tensor, v: Tensor) -> None:
        p.set("damping", joints, damping * v[:, None], ids)

    return {
        "object_mass": Parameter("mass of the object", "1", 1.0, 0.1, 10.0, weigh),
        "object_friction": Parameter(
            "sliding friction of the object on links and palm", "1", float(friction[0, 0]), 0.05, 3.0,
            lambda ids, v: rub(shapes, friction, ids, v),
        ),
        "pad_friction": Parameter(
            "sliding friction of the finger tips", "1", float(pads[0, 0]), 0.2, 3.0, lambda ids, v: rub(tips, pads, ids, v)
        ),
        "joint_damping": Parameter("friction of the fingers' joints", "1", 1.0, 0.1, 10.0, damp),
    }  # fmt: skip


def at_rest(pos: Tensor, quat: Tensor) -> Tensor:
    """[n, 1, 13] state of an object that rests at [n, 3] m, [n, 4] wxyz, world."""
    state = torch.zeros(len(pos), 1, 13)
    state[:, 0, :3], state[:, 0, 3:7] = pos, quat
    return state
