"""The rules of a volleyball task, and the sheet on which its referee keeps the score."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SERVE, PLAY, OVER = 0, 1, 2  # phases
FREE, ALTERNATE, SEQUENCE, TEAMS = 0, 1, 2, 3  # orders of hits
NOWHERE, ON_GROUND, IN_THE_AIR = 0, 1, 2  # where a ball outside the court is out
NO_NET, PLANE, SLAB = 0, 1, 2  # what of the net drones must not touch
LONG_AGO = -(1 << 20)


class Rules(NamedTuple):
    """The rules of one task. Lengths in m."""

    half_length: float  # of the court, along x
    half_width: float  # along y
    net_height: float
    ball_radius: float
    order: int = FREE
    """Who may hit: FREE anybody; ALTERNATE drones 0, 1, 0, 1 ... beginning with the server; SEQUENCE drones 0, 1, ... once
    each; TEAMS each drone once until the ball crosses the net, before that only the server."""
    hit_gap: int = 3
    """Control steps: a drone's touch not more than these after its last one is no new hit ..."""
    gap_is_fault: bool = False
    """... but a double hit, a fault (counted from its last hit), or only ignored (counted from its last touch)."""
    racket_only: bool = True  # the body must not touch the ball
    ball_low: float = 0.2  # the ball has landed when its centre is below
    ball_high: float = 16.0  # it must not rise above
    bounds: int = IN_THE_AIR
    ball_net: bool = True  # the ball must not touch the net below its upper edge
    cross_axis: int = 0  # the middle is a plane x (0) or y (1) = cross_at
    cross_at: float = 0.0
    cross_above: float = -math.inf  # crossings above this height are good ones
    apex_above: float = math.inf  # flights from one hit to the next whose apex is above this height are high ones
    finish_height: float = -1.0  # the rally ends when the ball falls below it after exactly one hit; < 0: never
    drone_low: float = 0.4
    drone_high: float = math.inf
    drone_net: int = PLANE  # PLANE: x = 0, at any height; SLAB: closer than `drone_reach` to the net and below its edge
    drone_reach: float = 0.2
    apart: float = 0.0  # least distance of two drones of one side


class Sheet(NamedTuple):
    """The state of a rally and its score, as arrays: [N], with a second axis for drones [N, A] where it says so."""

    clock: NDArray[np.int32]  # control steps since the rally began
    phase: NDArray[np.int32]
    server: NDArray[np.int32]  # drone
    turn: NDArray[np.int32]  # ALTERNATE, SEQUENCE: drone (SEQUENCE: A when all are through); TEAMS: side
    last_hitter: NDArray[np.int32]  # drone, -1 before the first hit
    fault: NDArray[np.int32]  # 0 or how the rally ended, see rally.FAULTS
    culprit: NDArray[np.int32]  # drone that committed it, -1 for none
    partner: NDArray[np.int32]  # the other one of two that came too close, -1 for none
    loser: NDArray[np.int32]  # side, -1 for none
    total: NDArray[np.int32]  # legal hits of all drones
    high_hits: NDArray[np.int32]  # flights from one hit to the next that rose above `apex_above`, counted by that hit
    crossings: NDArray[np.int32]  # of the middle
    good_crossings: NDArray[np.int32]  # above `cross_above`
    crossed: NDArray[np.int32]  # in this step: -1 or 1, the direction along the axis; 0 for no
    crossed_well: NDArray[np.int32]  # in this step, above `cross_above`: 0 or 1
    hits: NDArray[np.int32]  # [N, A] legal hits
    used: NDArray[np.int32]  # [N, A] TEAMS: 1 where the drone may not hit now
    hit_now: NDArray[np.int32]  # [N, A] legal hit in this step: 0 or 1
    last_hit: NDArray[np.int32]  # [N, A] clock of the last hit (gap_is_fault) or touch
    last_touch: NDArray[np.int32]  # [N, A] clock of the last contact
    touch_start: NDArray[np.int32]  # [N, A] clock when that contact began
    apex: NDArray[np.float32]  # m, of the ball since the last hit
    apex_sum: NDArray[np.float32]  # m, of the apexes between one hit and the next
    cross_height: NDArray[np.float32]  # m, of the ball's centre at the last crossing
    before: NDArray[np.float32]  # [N, 3] m, the ball at the last control step
    end: NDArray[np.float32]  # [N, 3] m, the ball when the rally ended
