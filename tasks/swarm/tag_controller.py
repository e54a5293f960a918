"""How drones play tag by rule: the scripted opponents of rookery.tasks.swarm.tag."""

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


class TagController:
    """Pursuers fly to where the nearest evader will be, each from its own side; evaders fly away from pursuers and walls, along
    these where there is no other way. Both keep off pillars.

    Args:
        task: the game; its true states count.
        controller: of all its drones.
    """

    def __init__(self, task: Tag, controller: CascadeController) -> None:
        self._task = task
        self._controller = controller

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        c = self._task.cfg
        aim = torch.cat((self.chase(), self.flee()), 1)
        aim[..., :2].clamp_(-c.arena_m, c.arena_m)
        aim[..., 2].clamp_(0.3, c.ceiling_m)
        action = self._controller.act(aim)
        return {"pursuer": action[:, : c.pursuers], "evader": action[:, c.pursuers :]}

    def chase(self) -> Tensor:
        """[N, P, 3] m: where the pursuers fly to."""
        bodies, p = self._task.drones.bodies, self._task.cfg.pursuers
        pos, vel = bodies.pos, bodies.lin_vel
        distance, who = (pos[:, :p, None] - pos[:, None, p:]).norm(dim=-1).min(2)
        picked = who[..., None].expand(-1, -1, 3)
        prey, speed = pos[:, p:].gather(1, picked), vel[:, p:].gather(1, picked)
        lead = (0.4 * distance).clamp_max(0.6)[..., None]
        angle = torch.arange(p) * (2.0 * math.pi / p)
        around = torch.stack((angle.cos(), angle.sin(), 0.0 * angle), -1) * (0.0 if p == 1 else 0.5)
        spread = around * (distance - 0.5).clamp(0.0, 1.0)[..., None]
        return prey + lead * speed + spread + self.beside_pillars(pos[:, :p])

    def flee(self) -> Tensor:
        """[N, E, 3] m: where the evaders fly to."""
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
        return own + 1.5 * normalize(push + 1.2 * edge * inward * turn, dim=-1) + self.beside_pillars(own)

    def beside_pillars(self, own: Tensor) -> Tensor:
        """[N, A, 3] m, by which the aims of drones at `own` move away from pillars that are near."""
        if self._task.pillars is None:
            return torch.zeros_like(own)
        off = own[:, :, None] - self._task.pillars.pos[:, None]
        off[..., 2] = 0.0
        far = off.norm(dim=-1, keepdim=True)
        out = off / far.clamp_min(1e-6)
        near = (1.0 - (far - PILLAR_M - 0.1) / 0.5).clamp(0.0, 1.0)
        around = torch.stack((-out[..., 1], out[..., 0], out[..., 2]), -1)
        return (near * (2.0 * out + around)).sum(2)
