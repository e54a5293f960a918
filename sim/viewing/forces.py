"""Contact forces as arrows."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST = 0.01
"""Forces below this share of the weight are not drawn."""


def contact_arrows(data: mujoco.MjData, body: int, length: float) -> Floats:
    """Arrows [n, 2, 3] m from where things touch along the force on the second of them, upwards where it stands on the first.

    Args:
        data: forwarded. Forces are those that MuJoCo finds in this state, whichever engine made it.
        body: whose weight with all that hangs together with it is drawn as `length` m.
        length: m.
    """
    model = data.model
    weight = float(model.body_subtreemass[model.body_rootid[body]]) * max(float(np.linalg.norm(model.opt.gravity)), 1.0)
    out = []
    force = np.zeros(6)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, force)
        contact = data.contact[i]
        if np.linalg.norm(force[:3]) < LEAST * weight:
            continue
        world = contact.frame.reshape(3, 3).T @ force[:3]
        out.append((contact.pos, contact.pos + length / weight * world))
    return np.array(out).reshape(-1, 2, 3)
