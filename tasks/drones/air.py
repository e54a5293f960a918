"""The air in which a drone task flies: its effects, and the wind that a user asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rookery.robots.drones.parameters import WINDIEST
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.effects import Effects, effects


@dataclass(frozen=True)
class AirConfig:
    """The air in a task's config."""

    effects: str = "realistic"  # of air, rotors and battery: none, volleybots, gym-pybullet-drones or realistic
    wind: tuple[float, float, float] = (
        0.0,
        0.0,
        0.0,
    )  # m/s, mean wind, world; 6 m above ground where gusts follow from it
    gusts: bool = True  # Dryden turbulence on the wind, where `effects` has it; false: a steady wind
    gust_speed: float = 0.0  # m/s, standard deviation of horizontal gusts; 0: that of MIL-F-8785C in this wind
    gust_time: float = 0.0  # s, their time constant; 0: that of MIL-F-8785C in this wind and at this height


def air(cfg: AirConfig) -> Effects:
    """The effects of a config with its wind.

    Raises:
        RookeryError: no such preset of effects, a wind beyond WINDIEST, or one that could not act.
    """
    fx = effects(cfg.effects)
    if len(cfg.wind) != 3:
        raise RookeryError(f"wind must be three speeds in m/s, like wind=[3,0,0], got {list(cfg.wind)}.")
    x, y, z = cfg.wind
    speed = math.hypot(x, y)
    strongest = max(speed, abs(z), cfg.gust_speed)
    if strongest > WINDIEST:
        raise RookeryError(f"wind and gust_speed may be up to {WINDIEST:g} m/s, got {strongest:g} m/s.")
    if strongest > 0.0 and not (fx.body_drag or fx.rotor_drag):
        raise RookeryError(f"no wind acts with effects={cfg.effects}, which has no drag: take effects=realistic.")
    blown = cfg.gusts and fx.gusts
    if (cfg.gust_speed > 0.0 or cfg.gust_time > 0.0) and not blown:
        raise RookeryError(
            "gust_speed and gust_time ask for gusts, and there are none: leave gusts=true, with effects=realistic."
        )
    return replace(
        fx, wind_speed=speed, wind_direction=math.atan2(y, x), wind_up=z, gusts=blown, gust_speed=cfg.gust_speed,
        gust_time=cfg.gust_time,
    )  # fmt: skip
