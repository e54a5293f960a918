"""Windows of a flight for many candidates, compiled: the rotor engine's own equations (rookery.sim.multirotor.flight), with
windows side by side in lanes and the parameters of one candidate for all lanes of a block."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import numpy as np
from numba import njit

from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.cascade import FAST
from rookery.sim.multirotor.flight import rigid, rotors, rotors_onwards
from rookery.sim.multirotor.layout import LANES, MOTOR, SPEED

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
FAR_BELOW = -1e6  # m, of the ground: no ground effect


@_kernel
def fly(first, last, starts, motors, which, types, varied, dt, warm, every, out):
    """Fly the candidates first ... last - 1.

    Args:
        starts: [B, STATE * LANES] states at the beginning of the windows, B blocks of LANES windows.
        motors: [D, B, warm + steps, 4 * LANES] commands of each physics step, for D delays.
        which: [K] delay of each candidate.
        types: [K, layout.TYPE], varied: [K, layout.VARIED] of each candidate, with one value a field.
        dt: s, physics step.
        warm: steps in which only the rotors turn, so that they have the speeds of their commands before.
        every: steps between samples.
        out: [K, B, samples, STATE * LANES], states after each sample's steps.
    """
    p = np.empty(at.VARIED * LANES)
    d = np.empty(at.BODY * LANES)
    w = np.zeros(at.WORLD * LANES)
    limit = np.ones(LANES)
    for i in range(LANES):
        w[(at.GRAVITY + 2) * LANES + i] = -9.81
        w[at.GROUND * LANES + i] = FAR_BELOW
    for c in range(first, last):
        k = types[c]
        for f in range(at.VARIED):
            for i in range(LANES):
                p[f * LANES + i] = varied[c, f]
        for b in range(starts.shape[0]):
            commands = motors[which[c], b]
            d[:] = 0.0
            for f in range(at.STATE * LANES):
                d[f] = starts[b, f]
            for f in range(4 * LANES):
                d[SPEED * LANES + f] = commands[0, f]
            for step in range(commands.shape[0]):
                for f in range(4 * LANES):
                    d[MOTOR * LANES + f] = commands[step, f]
                for i in range(LANES):
                    rotors(d, i, p, i, k, limit, i)
                if step >= warm:
                    for i in range(LANES):
                        rigid(d, i, p, i, w, i, k, dt)
                for i in range(LANES):
                    rotors_onwards(d, i, p, i, limit, i)
                flown = step - warm + 1
                if flown > 0 and flown % every == 0:
                    sample = flown // every - 1
                    for f in range(at.STATE * LANES):
                        out[c, b, sample, f] = d[f]
