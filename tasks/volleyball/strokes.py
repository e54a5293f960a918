"""Strokes: when and where a racket meets each ball, how it is turned and how fast it moves then. Compiled."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from numba import njit

from rookery.tasks.volleyball.ballistics import drive, face, fall, lob


@njit(cache=True, nogil=True, error_model="numpy")
def stroke(balls, heights, targets, apexes, flights, gravity, drag, restitution, share, out):
    """The strokes of all players.

    Args:
        balls: [N, 6] position (m), velocity (m/s).
        heights: [N, A] m, of the ball's centre at contact.
        targets: [N, A, 3] m; apexes: [N, A] m of lobs; flights: [N, A] s of drives, 0 for a lob.
        gravity: m/s^2; drag: 1/m; restitution, share: see ballistics.
        out: [N, A, 8] s until contact (-1 if the ball does not come), its place 3 (m), the racket's normal 3, its speed along
            it (m/s).
    """
    p = np.zeros(3)
    v = np.zeros(3)
    away = np.zeros(3)
    normal = np.zeros(3)
    q = np.zeros(3)
    w = np.zeros(3)
    for n in range(heights.shape[0]):
        for a in range(heights.shape[1]):
            for i in range(3):
                p[i] = balls[n, i]
                v[i] = balls[n, 3 + i]
            time = fall(p, v, heights[n, a], gravity, drag)
            flight = 0.0
            speed = 0.0
            normal[0] = 0.0
            normal[1] = 0.0
            normal[2] = 1.0
            if time > 0.0:
                if flights[n, a] > 0.0:
                    flight = drive(p, targets[n, a], flights[n, a], gravity, drag, away, q, w)
                else:
                    flight = lob(p, targets[n, a], apexes[n, a], gravity, drag, away, q, w)
                if flight > 0.0:
                    speed = face(v, away, restitution, share, normal)
            out[n, a, 0] = time if flight > 0.0 else -1.0
            for i in range(3):
                out[n, a, 1 + i] = p[i]
                out[n, a, 4 + i] = normal[i]
            out[n, a, 7] = speed
