"""From MuJoCo's soft contacts to the coefficients of Bullet's rigid ones.

Restitution. MuJoCo has no such coefficient: its contact is a linear spring and dashpot that never pulls. Seen from the
damping ratio z of that oscillator (`solref`'s second number, or B / (2 sqrt(K)) of the direct form ``-K -B``), a body
leaves a hard floor with the fraction

    e = exp(-z/s (pi - atan2(2 z s, 1 - 2 z^2))),  s = sqrt(1 - z^2),   z < 1
    e = exp(-z/s ln((z + s) / (z - s))),           s = sqrt(z^2 - 1),   z > 1

of its speed (Schwager and Poeschel, "Coefficient of restitution and linear-dashpot model revisited", Granular Matter 9,
2007). The familiar exp(-pi z/s) is for a spring that may pull: it is lower, by 2 % at z = 0.1 and by half at z = 0.5.
MuJoCo's default z = 1 gives 0.135.

Pairs. MuJoCo takes a pair's friction as the larger one and mixes the rest; Bullet multiplies two factors, one of each
collider. The factors come from least squares in logarithms over the pairs that can touch: exact in most scenes. Where no
exact ones exist, pairs with the world count most: feet on the ground matter more than a finger on a knee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

BOUNCY = 0.2
"""Pairs with more restitution than this are treated as impacts that must keep their speed, see pybullet_build."""

_TINY = 1e-6


@dataclass(frozen=True)
class ContactPair:
    """Two colliders that can touch: indices, friction coefficient, coefficient of restitution, weight of their error."""

    first: int
    second: int
    friction: float
    restitution: float
    weight: float = 1.0


def restitution(solref: Sequence[float]) -> float:
    """Coefficient of restitution e of a contact with this `solref`.

    >>> round(restitution((0.02, 1.0)), 4), round(restitution((-2500.0, 0.0)), 4)
    (0.1353, 1.0)
    """
    if solref[0] > 0:
        z = float(solref[1])
    else:
        stiffness = -float(solref[0])
        damping = -float(solref[1])
        if stiffness <= 0.0:
            return 0.0
        z = damping / (2.0 * math.sqrt(stiffness))
    if abs(z - 1.0) < 1e-6:
        return math.exp(-2.0)
    s = math.sqrt(abs(1.0 - z * z))
    if z < 1.0:
        return math.exp(-z / s * (math.pi - math.atan2(2.0 * z * s, 1.0 - 2.0 * z * z)))
    return math.exp(-z / s * math.log((z + s) / (z - s)))


def mixed(model: mujoco.MjModel, g1: int, g2: int, friction: np.ndarray) -> tuple[float, float]:
    """Friction coefficient and restitution of two geoms, by the rules of MuJoCo (priority, maximum, solmix).

    Args:
        model: the scene.
        g1, g2: geom ids.
        friction: sliding friction by geom, [ngeom].
    """
    p1, p2 = int(model.geom_priority[g1]), int(model.geom_priority[g2])
    if p1 != p2:
        g = g1 if p1 > p2 else g2
        mu = friction[g] if model.geom_condim[g] > 1 else 0.0
        return float(mu), restitution(model.geom_solref[g])
    mu = max(friction[g1], friction[g2]) if max(model.geom_condim[g1], model.geom_condim[g2]) > 1 else 0.0
    r1, r2 = model.geom_solref[g1], model.geom_solref[g2]
    if r1[0] > 0 and r2[0] > 0:
        m1, m2 = float(model.geom_solmix[g1]), float(model.geom_solmix[g2])
        mix = 0.5 if m1 + m2 < _TINY else m1 / (m1 + m2)
        solref = mix * r1 + (1.0 - mix) * r2
    else:
        solref = np.minimum(r1, r2)
    return float(mu), restitution(solref)


def factors(count: int, pairs: Sequence[ContactPair], quantity: str) -> tuple[np.ndarray, float]:
    """One factor a collider, whose products come nearest to what the pairs ask.

    Args:
        count: number of colliders.
        pairs: those that can touch.
        quantity: "friction" or "restitution".

    Returns:
        Factors [count] and the largest relative error over the pairs (0 when an exact solution exists).
    """
    if not pairs:
        return np.ones(count), 0.0
    wanted = np.array([max(getattr(p, quantity), _TINY) for p in pairs])
    rows, inverse = np.unique(np.array([(p.first, p.second) for p in pairs]), axis=0, return_inverse=True)
    matrix = np.zeros((len(rows), count))
    matrix[np.arange(len(rows)), rows[:, 0]] += 1.0
    matrix[np.arange(len(rows)), rows[:, 1]] += 1.0
    target = np.zeros(len(rows))
    weight = np.zeros(len(rows))
    target[inverse.ravel()] = np.log(wanted)
    weight[inverse.ravel()] = [p.weight for p in pairs]
    x = np.linalg.lstsq(matrix * weight[:, None], target * weight, rcond=None)[0]
    error = float(np.abs(np.expm1(matrix @ x - target)).max())
    return np.exp(x), error
