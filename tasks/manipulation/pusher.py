"""Pushes of a T: a greedy choice among straight pushes, foreseen by a model of sliding.

The model is that of Lynch, Maekawa and Tanie ("Manipulation and active sensing by pushing", IROS 1992): friction on the table
allows forces and moments within an ellipsoid, and the point that is pushed stays where it is on the object.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.assets.blocks import T_RECTANGLES

LEVER = 0.075  # m, of the ellipsoid: the largest moment of friction by the largest force; of the T's size
RADIUS = 0.08  # m: a wrong angle of 1 rad counts like so much of a wrong place
REACH, TIPS = 0.022, 0.0135  # m: from a contact back to where the tool goes down; radius around the closed finger tips
STEP, STEPS = 0.008, 24  # m, of a foreseen push
FINE, FINE_STEPS = 0.001, 20  # likewise of what is left of a push
LIMITS = ((0.29, -0.4), (0.75, 0.4))  # m, where a push may begin


def _candidates() -> Tensor:
    """[M, 6] contact, direction and begin of pushes, in the T's frame, m."""
    (_, top, half, thin), (_, foot, thick, long) = T_RECTANGLES
    high = top + thin
    under = top - thin
    low = foot - long
    edges = (  # a corner, the next, the outward normal
        ((-half, high), (half, high), (0.0, 1.0)), ((half, under), (half, high), (1.0, 0.0)),
        ((-half, under), (-half, high), (-1.0, 0.0)), ((-half, under), (-thick, under), (0.0, -1.0)),
        ((thick, under), (half, under), (0.0, -1.0)), ((thick, low), (thick, under), (1.0, 0.0)),
        ((-thick, low), (-thick, under), (-1.0, 0.0)), ((-thick, low), (thick, low), (0.0, -1.0)),
    )  # fmt: skip
    rows = []
    for a, b, n in edges:
        start = torch.tensor(a)
        end = torch.tensor(b)
        normal = torch.tensor(n)
        length = float((end - start).norm())
        count = max(2, round((length - 0.016) / 0.016))
        for share in torch.linspace(0.008, length - 0.008, count) / length:
            contact = start + share * (end - start)
            for tilt in (-0.3, 0.0, 0.3):  # rad, less than the friction's angle
                c, s = torch.cos(torch.tensor(tilt)), torch.sin(torch.tensor(tilt))
                way = -torch.stack((c * normal[0] - s * normal[1], s * normal[0] + c * normal[1]))
                begin = contact - REACH * way + 0.004 * normal
                if _free(begin) and _free(contact + 0.0115 * normal, TIPS - 0.003):
                    rows.append(torch.cat((contact, way, begin)))
    return torch.stack(rows)


def _free(point: Tensor, radius: float = TIPS) -> bool:
    """True where finger tips at a point [2] in the T's frame are clear of it."""
    for x, y, a, b in T_RECTANGLES:
        d = torch.stack(((point[0] - x).abs() - a, (point[1] - y).abs() - b)).clamp_min(0.0)
        if float(d.norm()) < radius:
            return False
    return True


CANDIDATES = _candidates()


def cost(pose: Tensor, goal: Tensor) -> Tensor:
    """[...] m^2 of poses [..., 3] (m, m, rad): what pushes are to lower."""
    off = (pose[..., :2] - goal[..., :2]).square().sum(-1)
    return off + RADIUS**2 * 2.0 * (1.0 - (pose[..., 2] - goal[..., 2]).cos())


def foresee(pose: Tensor, goal: Tensor, contact: Tensor, way: Tensor, step: float, steps: int) -> Tensor:
    """Costs [..., steps + 1] along a push.

    Args:
        pose, goal: [..., 3]. contact: [..., 2] m from the T's centroid, world's axes. way: [..., 2], the direction.
        step: m, of the pusher. steps: how many.
    """
    place = pose[..., :2]
    yaw = pose[..., 2]
    costs = [cost(pose, goal)]
    x, y = contact.unbind(-1)
    vx, vy = way.unbind(-1)
    for _ in range(steps):
        scale = step / (LEVER**2 + x * x + y * y)
        dx = ((LEVER**2 + x * x) * vx + x * y * vy) * scale
        dy = (x * y * vx + (LEVER**2 + y * y) * vy) * scale
        turn = (x * dy - y * dx) / LEVER**2
        place = place + torch.stack((dx, dy), -1)
        yaw = yaw + turn
        c, s = turn.cos(), turn.sin()
        x, y = c * x - s * y, s * x + c * y
        costs.append(cost(torch.cat((place, yaw[..., None]), -1), goal))
    return torch.stack(costs, -1)


def best_push(pose: Tensor, goal: Tensor, tool: Tensor) -> Tensor:
    """[n] int64, the candidate that is foreseen to lower the cost most; a longer way there counts against it a little.

    Args:
        pose, goal: [n, 3] m, m, rad. tool: [n, 2] m, world.
    """
    contact, way, begin = (_turned(v, pose[:, 2]) for v in CANDIDATES.split(2, dim=1))
    m = len(CANDIDATES)
    shape = pose[:, None].expand(-1, m, 3), goal[:, None].expand(-1, m, 3)
    low, high = torch.tensor(LIMITS)
    start = pose[:, None, :2] + begin
    gain = torch.zeros(len(pose), m)
    for step in (STEP, FINE):
        costs = foresee(*shape, contact, way, step, STEPS)
        gain = torch.maximum(gain, costs[..., 0] - costs.amin(-1))
    gain = gain / (0.3 + (start - tool[:, None]).norm(dim=2))
    return torch.where(((start > low) & (start < high)).all(2), gain, -1.0).argmax(1)


def travel_left(pose: Tensor, goal: Tensor, contact: Tensor, way: Tensor) -> Tensor:
    """[N] m, how far a push may still go, up to 2 cm, until it would raise the cost again. Arguments as of `foresee`."""
    costs = foresee(pose, goal, contact, way, FINE, FINE_STEPS)
    rising = costs[..., 1:] >= costs[..., :-1]
    first = torch.where(rising.any(-1), rising.float().argmax(-1), FINE_STEPS)
    return FINE * first.float()


def _turned(v: Tensor, yaw: Tensor) -> Tensor:
    """[n, M, 2], of [M, 2] by [n] rad."""
    c, s = yaw.cos()[:, None], yaw.sin()[:, None]
    return torch.stack((c * v[:, 0] - s * v[:, 1], s * v[:, 0] + c * v[:, 1]), -1)
