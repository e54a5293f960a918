"""Drones that play tag by rule: the scripted opponents of rookery.tasks.swarm.tag."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rookery.robots.drones.controller import CascadeController

if TYPE_CHECKING:
    from rookery.tasks.swarm.tag import Tag

PILLAR_M = 0.12
"""m, radius of pillars."""


REACH_M = 1.5
"""m, to aims: at more the drones are at full speed anyway."""


class TagController:
    """Pursuers fly to where the nearest evader will be, each from its own side; evaders fly away from pursuers and walls, along
    these where there is no other way. Both keep off pillars and their own team.

    Args:
        task: the game; its true states count.
        controller: of all its drones.
    """

    def __init__(self, task: Tag, controller: CascadeController) -> None:
        self._task = task
        self._controller = controller

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        c, pos = self._task.cfg, self._task.drones.bodies.pos
        way = torch.cat((self.chase(), self.flee()), 1)
        way = way + self.off_pillars(way) + self.off_mates()
        aim = pos + REACH_M * way / way.norm(dim=-1, keepdim=True).clamp_min(1.0)
        aim[..., :2].clamp_(-c.arena_m, c.arena_m)
        aim[..., 2].clamp_(0.3, c.ceiling_m)
        action = self._controller.act(aim)
        if c.action == "velocity":
            action[:, : c.pursuers, :3] = (action[:, : c.pursuers, :3] / c.pursuer_speed).clamp(-1.0, 1.0)
        return {"pursuer": action[:, : c.pursuers], "evader": action[:, c.pursuers :]}

    def chase(self) -> Tensor:
        """[N, P, 3], at most of length 1: where the pursuers want to fly."""
        bodies, p = self._task.drones.bodies, self._task.cfg.pursuers
        pos, vel = bodies.pos, bodies.lin_vel
        distance, who = (pos[:, :p, None] - pos[:, None, p:]).norm(dim=-1).min(2)
        picked = who[..., None].expand(-1, -1, 3)
        prey, speed = pos[:, p:].gather(1, picked), vel[:, p:].gather(1, picked)
        lead = (0.4 * distance).clamp_max(0.6)[..., None]
        angle = torch.arange(p) * (2.0 * math.pi / p)
        around = torch.stack((angle.cos(), angle.sin(), 0.0 * angle), -1) * (0.0 if p == 1 else 0.5)
        off = prey + lead * speed + around * (distance - 0.5).clamp(0.0, 1.0)[..., None] - pos[:, :p]
        return off / off.norm(dim=-1, keepdim=True).clamp_min(1.0)

    def flee(self) -> Tensor:
        """[N, E, 3] of length 1: where the evaders want to fly."""
        c, p, pos = self._task.cfg, self._task.cfg.pursuers, self._task.drones.bodies.pos
        own = pos[:, p:]
        off = own[:, :, None] - pos[:, None, :p]
        push = (off / off.norm(dim=-1, keepdim=True).clamp_min(0.1).pow(2)).sum(2)
        half = torch.tensor((c.arena_m, c.arena_m, 0.5 * c.ceiling_m))
        share = (own - self._task.middle) / half
        push = push - 1.5 * share * share.abs().pow(5) / half
        threat = normalize(off[:, :, 0], dim=-1)
        turn = torch.stack((-threat[..., 1], threat[..., 0], 0.0 * threat[..., 2]), -1)
        inward = -(turn * own).sum(-1, keepdim=True).sign()
        edge = share[..., :2].abs().max(-1, keepdim=True).values.clamp(0.0, 1.0)
        return normalize(push + 1.2 * edge * inward * turn, dim=-1)

    def off_pillars(self, way: Tensor) -> Tensor:
        """[N, A, 3]: by what ways [N, A, 3] change near pillars, away from them and around on the side that is nearer."""
        if self._task.pillars is None:
            return torch.zeros_like(way)
        bodies = self._task.drones.bodies
        off = (bodies.pos + 0.2 * bodies.lin_vel)[:, :, None] - self._task.pillars.pos[:, None]
        off[..., 2] = 0.0
        far = off.norm(dim=-1, keepdim=True)
        out = off / far.clamp_min(1e-6)
        near = (1.0 - (far - PILLAR_M - 0.15) / 0.5).clamp(0.0, 1.0)
        around = torch.stack((-out[..., 1], out[..., 0], out[..., 2]), -1)
        side = (around * way[:, :, None]).sum(-1, keepdim=True).sign()
        return (near * (2.5 * near * out + 1.5 * side * around)).sum(2)

    def off_mates(self) -> Tensor:
        """[N, A, 3]: away from those of the own team that are near."""
        pos, p = self._task.drones.bodies.pos, self._task.cfg.pursuers
        parts = []
        for own in (pos[:, :p], pos[:, p:]):
            off = own[:, :, None] - own[:, None]
            far = off.norm(dim=-1, keepdim=True)
            parts.append((2.5 * (1.0 - far / 0.7).clamp_min(0.0) * off / far.clamp_min(1e-6)).sum(2))
        return torch.cat(parts, 1)
