"""Policies of one shape that act in one pass: their weights stand in stacks, row k those of policy k.

    worlds by policy, padded    [[1, 2, 5], [3, 3, 3], [0, 4, 4]]
    observations of these       [K, M A, O] -> batched matrix products -> actions [K, M A, D] -> those of worlds 0, 1, 2 ...

A pass for each of K small policies costs K times the calls of one; this costs those of one, and the arithmetic of the padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rookery.policies.policy import Policy
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.squash import Squash
from rookery.policies.training.evaluate import PolicyAct
from rookery.sim.env import Act

__all__ = ["MOST_PADDING", "Layout", "StackedPolicies", "stacked"]

MOST_PADDING = 1.5
"""Rows with padding over rows, up to which one pass is worth it."""


class Layout:
    """Worlds by the policy that acts in them.

    Args:
        assignment: [N] int64, of each world.
        count: K.

    Attributes:
        worlds: [K, M], padded by the first world of all.
        place: [N] of each world in there, rows one after the other.
        padding: K M / N.
    """

    def __init__(self, assignment: Tensor, count: int) -> None:
        n = len(assignment)
        sizes = assignment.bincount(minlength=count)
        most = int(sizes.max())
        order = assignment.argsort(stable=True)
        own = assignment[order]
        within = torch.arange(n, device=assignment.device) - (sizes.cumsum(0) - sizes)[own]
        self.worlds = torch.zeros(count, most, dtype=torch.int64, device=assignment.device)
        self.worlds[own, within] = order
        self.place = torch.empty_like(order)
        self.place[order] = own * most + within
        self.padding = count * most / max(n, 1)


class StackedPolicies:
    """K policies of one group, of one shape: a normalizer, a perceptron and a limit.

    Args:
        policies: alike but for their weights.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        normalize, network, squash = policies[0].chain.links
        assert isinstance(normalize, Normalize) and isinstance(network, Perceptron) and isinstance(squash, Squash)
        self._squash = squash
        self._clip = normalize.clip
        self._activate = getattr(functional, network.activation)
        states = [policy.state_dict() for policy in policies]

        def stack(name: str) -> Tensor:
            return torch.stack([state[name] for state in states])

        self._mean, self._std = (stack(f"normalize.{name}").unsqueeze(1) for name in ("mean", "std"))
        self._layers = [
            (stack(f"perceptron.weight_{k}").transpose(1, 2).contiguous(), stack(f"perceptron.bias_{k}").unsqueeze(1))
            for k in range(len(network.hidden) + 1)
        ]

    def __call__(self, obs: Tensor, layout: Layout) -> Tensor:
        """Actions [N, A, D] for observations [N, A, O]."""
        agents = obs.shape[1]
        count, most = layout.worlds.shape
        x = obs[layout.worlds].view(count, most * agents, -1)
        x = x.sub_(self._mean).div_(self._std).clamp_(-self._clip, self._clip)
        for k, (weight, bias) in enumerate(self._layers):
            x = torch.baddbmm(bias, x, weight)
            if k + 1 < len(self._layers):
                x = self._activate(x)
        x = self._squash.forward({}, x)
        return x.view(count * most, agents, -1)[layout.place]


def stacked(members: Sequence[Act]) -> dict[str, StackedPolicies] | None:
    """The members' policies by group, in stacks; None where they are not of one shape."""
    each = [member.plain if isinstance(member, PolicyAct) else None for member in members]
    first = each[0] if each else None
    if first is None or len(each) < 2:
        return None
    out = {}
    for name, policy in first.items():
        own = [policies[name] for policies in each if policies is not None and policies.keys() == first.keys()]
        kinds = tuple(type(link) for link in policy.chain.links)
        if kinds != (Normalize, Perceptron, Squash) or len(own) < len(each):
            return None
        if any(other.chain.links != policy.chain.links for other in own):
            return None
        out[name] = StackedPolicies(own)
    return out
