"""Balls of volleyball: their kinds, and what drones observe of them."""

from __future__ import annotations

import math
from typing import NamedTuple

from rookery.sim.quantities import POSITION, own, place, velocity
from rookery.sim.specs import Term
from rookery.tasks.volleyball.state import PLACE_BIAS, PLACE_NOISE, own_side

BALL = place("ball's position")
DOWN, DOWN_IN = "where the ball comes down to the racket's height", "time until the ball is there"
FALLING = "without drag; here and now where the ball is below it"
"""Quantities that drones observe."""

BALL_NOISE = BALL_BIAS = 0.01
"""m, standard deviation and half-width of a ball's place by cameras: four of them are off by 0.7 to 0.85 cm in a simulation of
robot table tennis (Gomez-Gonzalez et al. 2019, Reliable real-time ball tracking, Robotics 8(4) 90); a court is larger."""
BALL_VELOCITY_NOISE = 0.1
"""m/s: the slope of a straight line through 12 such places in 0.1 s, 0.01 m / 0.1 s sqrt(12 / 12)."""
LANDING_NOISE = 0.07  # m, what these make of where a ball comes down that flies for 0.7 s, as from 2.5 m up
LANDING_IN_NOISE = 0.02  # s, likewise of when, at most 2 BALL_VELOCITY_NOISE / g


class Ball(NamedTuple):
    """A ball, and the air that it flies through."""

    mass: float  # kg
    radius: float  # m
    restitution: float
    friction: float  # sliding
    effects: str  # preset of effects that goes with it


BALLS = {
    # VolleyBots, cfg/task/*.yaml: a material without friction, no air
    "volleybots": Ball(0.005, 0.1, 0.8, 0.0, "volleybots"),
    # JuggleRL (arXiv 2509.24892), in air; its restitution lies between 0.7 and 0.95; the friction is our guess
    "realistic": Ball(0.0472, 0.04, 0.8, 0.3, "realistic"),
}


def ball_terms(observe_landing: bool) -> tuple[Term, ...]:
    """Anchor and ball as a drone sees them. Signs are VolleyBots': the drone's place minus the other's.

    Args:
        observe_landing: with where and when the ball comes down, which follows from the rest.
    """
    terms: tuple[Term, ...] = (
        Term(
            "from_anchor", own_side(POSITION - place("anchor")), noise=PLACE_NOISE, bias=PLACE_BIAS,
            estimated="position",
        ),
        Term(
            "from_ball", own_side(POSITION - BALL), scale=0.5, noise=math.hypot(PLACE_NOISE, BALL_NOISE), bias=BALL_BIAS,
            estimated="position, ball's position",
        ),
        Term(
            "ball_velocity", own_side(velocity("ball's velocity")), scale=0.2, noise=BALL_VELOCITY_NOISE,
            estimated="ball's velocity",
        ),
    )  # fmt: skip
    if observe_landing:  # a first layer without weights: a product that a small network learns slowly
        down = own_side(place(DOWN, doc=FALLING) - POSITION)[:2]
        terms += (
            Term("to_landing", down, clip=3.0, noise=LANDING_NOISE, estimated="position, ball's state"),
            Term("landing_in", own(DOWN_IN, 1, "s", doc=FALLING), noise=LANDING_IN_NOISE, estimated="ball's state"),
        )
    return terms
