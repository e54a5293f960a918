"""A small policy with random weights for any group: what is tested does not ask how well it acts."""

from __future__ import annotations

import torch

from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.sim.specs import Group


def random_policy(group: Group, seed: int, memory: int = 0) -> Policy:
    choose = Choose.of(group.action) if group.action.choices else None
    size = group.observation_size, group.action.outputs
    policy = Policy(standard(*size, (8,), memory_size=memory, choose=choose)).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in policy.parameters():
            x.normal_(0.0, 0.7, generator=g)
    return policy
