"""Users and other stations as the base stations of uav-coverage observe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from rookery.sim.quantities import POSITION, own
from rookery.sim.specs import Term
from rookery.sim.terms import Quantity, Where
from rookery.tasks.swarm.neighbors import Neighbors

if TYPE_CHECKING:
    from rookery.tasks.swarm.coverage import CoverageConfig

NEAR_USERS, USERS = "horizontal positions of the nearest users", "1 for each of the nearest users that there is"
OWN_USERS, POOR_USERS = "mean horizontal position of the station's own users", "mean horizontal position of all users"
RATES, SHARE = "data rates of the nearest users", "share of all users that are the station's own"
SHARES = "shares of all users of the nearest other stations"
"""Quantities that a station observes."""


def watched_terms(cfg: CoverageConfig) -> tuple[Term, ...]:
    """The terms of a station beside those of its own motion."""
    m, k = cfg.near_users, cfg.neighbours
    among, share, here = _among(cfg), own(SHARE, 1), POSITION[:2]
    users, others = "position, users' position", "other drones' position"
    poor = _level(POOR_USERS, doc="weighted by 1 / (1 + rate / min_rate)")
    return (
        Term(
            "user_offset", Where(_level(NEAR_USERS, m) - here, own(USERS, m), "0 for none"), scale=0.01, estimated=users
        ),
        Term("user_rate", own(RATES, m, "Mbit/s"), scale=0.1, clip=10.0),
        Term("own_users", Where(_level(OWN_USERS) - here, share, "0 without any"), scale=0.01, estimated=users),
        Term("own_share", share),
        Term("poor_users", poor - here, scale=0.01, estimated=users),
        Term("neighbour_offset", among.seen(among.positions - POSITION), scale=0.01, neighbors=k, estimated=others),
        Term("neighbor_share", among.seen(own(SHARES, k)), neighbors=k),
        Term("neighbour_seen", among.in_sight, neighbors=k, present=True),
    )


def watched(cfg: CoverageConfig, pos: Tensor, users: Tensor, rate: Tensor, server: Tensor) -> dict[str, Tensor]:
    """The quantities of `watched_terms`, [N, A, d].

    Args:
        pos: [N, A, 3] m, world, of the stations.
        users: [N, U, 2] m, world.
        rate: [N, U] Mbit/s.
        server: [N, U] the station that serves each user.
    """
    n, a, _ = pos.shape
    apart = (users[:, None] - pos[:, :, None, :2]).norm(dim=-1)  # [N, A, U]
    near = apart.sort(dim=-1, stable=True).indices[..., : cfg.near_users]
    missing = cfg.near_users - near.shape[-1]
    served = one_hot(server, a).float()
    load = served.sum(1)[..., None]  # [N, A, 1] users
    weight = 1.0 / (1.0 + rate / cfg.min_rate)
    poor = (weight[..., None] * users).sum(1) / weight.sum(1, keepdim=True)
    among = _among(cfg)
    who, seen = among.choose(pos, cfg.sight_m)
    return {
        NEAR_USERS: pad(among.pick(users, near), (0, 2 * missing)), USERS: pad(torch.ones(near.shape), (0, missing)),
        RATES: pad(among.pick(rate[..., None], near), (0, missing)), SHARE: load / cfg.num_users,
        OWN_USERS: torch.einsum("nua,nud->nad", served, users) / load.clamp_min(1.0),
        POOR_USERS: poor[:, None].expand(n, a, 2), SHARES: among.pick(load, who) / cfg.num_users,
        among.positions.name: among.pick(pos, who), among.in_sight.name: seen.float(),
    }  # fmt: skip


def _among(cfg: CoverageConfig) -> Neighbors:
    return Neighbors(cfg.neighbours, "the nearest other stations")


def _level(name: str, count: int = 1, doc: str = "") -> Quantity:
    """Places on the ground."""
    return Quantity(name, 2 * count, "m", "world", place=True, doc=doc)
