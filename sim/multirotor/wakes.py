"""Forces of drones' wakes on the drones below them, in a block of worlds, by one of the models of `aero`."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

from typing import Any

from numba import njit

from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aero import downwash_jet, downwash_pybullet_drones, downwash_volleybots
from rookery.sim.multirotor.cascade import FAST
from rookery.sim.multirotor.flight import turned_ahead
from rookery.sim.multirotor.layout import LANES, POS, QUAT, RATE, THRUST, VEL, WAKE

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
_INSIDE: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "fastmath": FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
_inlined = njit(forceinline=True, **_INSIDE)

NO_WAKE = 0
VOLLEYBOTS = 1
PYBULLET_DRONES = 2
JET = 3
WAKES = {"none": NO_WAKE, "volleybots": VOLLEYBOTS, "gym-pybullet-drones": PYBULLET_DRONES, "realistic": JET}


@_kernel
def wakes(model, state, types, drones, ahead, places):
    """Force of every drone's wake on every other, world axes.

    Args:
        ahead: s, from the states to the time of the forces, by velocities and rates; thrusts are taken as they are.
        places: [A, 6 * LANES], overwritten: thrust axes and positions at that time.
    """
    n = LANES
    for b in range(drones):
        for f in range(WAKE, WAKE + 3):
            for i in range(LANES):
                state[b, f * n + i] = 0.0
        for i in range(LANES):
            _place_ahead(state[b], places[b], i, ahead)
    for a in range(drones):
        up, k = state[a], types[a]
        for b in range(drones):
            if a == b:
                continue
            low = state[b]
            for i in range(LANES):
                ax, ay, az = places[a, i], places[a, n + i], places[a, 2 * n + i]
                dx = places[b, 3 * n + i] - places[a, 3 * n + i]
                dy = places[b, 4 * n + i] - places[a, 4 * n + i]
                dz = places[b, 5 * n + i] - places[a, 5 * n + i]
                if dx * ax + dy * ay + dz * az >= 0.0:
                    continue
                t = THRUST * n + i
                thrust = up[t] + up[t + n] + up[t + 2 * n] + up[t + 3 * n]
                if model == VOLLEYBOTS:
                    f = downwash_volleybots(dx, dy, dz, ax, ay, az, thrust)
                elif model == PYBULLET_DRONES:
                    c = at.DOWNWASH
                    f = downwash_pybullet_drones(
                        dx, dy, dz, ax, ay, az, thrust, k[at.PROPELLER_RADIUS], k[c], k[c + 1], k[c + 2]
                    )
                else:
                    widths = k[at.WAKE_WIDTH], types[b, at.WAKE_WIDTH]
                    f = downwash_jet(dx, dy, dz, ax, ay, az, thrust, widths[0], widths[1])
                low[WAKE * n + i] -= f * ax
                low[(WAKE + 1) * n + i] -= f * ay
                low[(WAKE + 2) * n + i] -= f * az


@_inlined
def _place_ahead(d, place, i, ahead):
    """Thrust axis and position of lane i some seconds ahead."""
    n = LANES
    qw, qx, qy, qz = turned_ahead(
        d[QUAT * n + i], d[(QUAT + 1) * n + i], d[(QUAT + 2) * n + i], d[(QUAT + 3) * n + i],
        d[RATE * n + i], d[(RATE + 1) * n + i], d[(RATE + 2) * n + i], ahead,
    )  # fmt: skip
    place[i] = 2.0 * (qx * qz + qw * qy)
    place[n + i] = 2.0 * (qy * qz - qw * qx)
    place[2 * n + i] = 1.0 - 2.0 * (qx * qx + qy * qy)
    for f in range(3):
        place[(3 + f) * n + i] = d[(POS + f) * n + i] + ahead * d[(VEL + f) * n + i]
