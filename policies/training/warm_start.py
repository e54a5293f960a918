"""Start a training from a policy that has learned another task, or the same one under other settings.

Only the policy is taken over, as exact as its observation allows: terms are matched by name, and what the other task did
not have, a predictor's word among it, begins without influence. The critic and the exploration begin afresh: let
`critic_warmup` updates pass before the policy moves, or a critic that knows nothing leads it astray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.algorithms.ppo import PPO
    from rookery.policies.policy import Policy
    from rookery.sim.specs import Group


KNOWN = 1e6
"""Samples that a stored policy's normaliser stands for: as it moves on, the policy has time to follow."""


@torch.no_grad()
def warm_start(ppo: PPO, policies: dict[str, Policy], groups: Mapping[str, Group]) -> None:
    """Put stored policies into a trainer that has not begun.

    Args:
        policies: by group.
        groups: of the task that they were trained in; their terms say which input is which.

    Raises:
        RookeryError: a group, an action kind or a network of another shape.
    """
    for name, agents in ppo.learners.items():
        policy = policies.get(name)
        theirs = groups.get(name)
        if policy is None or theirs is None:
            raise RookeryError(f"the policy to start from has no group {name!r}, it has {', '.join(policies)}.")
        if policy.targets or theirs.history > 1:
            raise RookeryError(
                "a policy with a history of observations or a predictor cannot be taken over from another task: "
                "resume its own run, or start afresh."
            )
        frame = agents.spec.frame_size
        history = agents.spec.history
        if agents.sees != frame:
            raise RookeryError(
                f"the policy to start from sees the present, and this one the last {agents.sees // frame} observations: "
                "give --ppo actor_frames=1, which leaves the history to critic and predictor."
            )
        kind = agents.spec.action.kind
        if theirs.action.kind != kind:
            raise RookeryError(
                f"the policy to start from acts by {theirs['action']['kind']!r}, and this task by {kind!r}."
            )
        if (policy.hidden, policy.activation) != (tuple(ppo.config.hidden), ppo.config.activation):
            raise RookeryError(
                f"the policy to start from has hidden layers {list(policy.hidden)} with {policy.activation}, and this one "
                f"{list(ppo.config.hidden)} with {ppo.config.activation}: give --ppo hidden and activation as there."
            )
        first, *rest = (layer for layer in policy.layers if isinstance(layer, torch.nn.Linear))
        normalizes = ppo.config.normalize_observations
        weight = (
            first.weight if normalizes else first.weight / policy.std
        )  # else the normaliser goes into the first layer
        bias = first.bias if normalizes else first.bias - weight @ policy.mean
        inputs = agents.actor.weights[0].shape[1]  # the newest frame, then what a predictor says
        fresh = torch.zeros(inputs, weight.shape[0])
        mean = torch.zeros(frame)
        std = torch.ones(frame)
        old = theirs.slices()
        scales = {t.name: t.scale for t in theirs.observation}
        at = 0
        for term in agents.spec.observation:
            here = slice(at, at + term.size)
            there = old.get(term.name)
            at += term.size
            if there is not None and there.stop - there.start == term.size:
                scale = scales[term.name] / term.scale
                fresh[here] = weight[:, there].T * (1.0 if normalizes else scale)
                mean[here] = policy.mean[there] / scale
                std[here] = policy.std[there] / scale
        if normalizes:
            agents.observations.believe(mean.repeat(history), std.repeat(history), KNOWN)
        for g in range(agents.sets):
            agents.actor.weights[0][g].copy_(fresh)
            agents.actor.biases[0][g, 0].copy_(bias)
            for k, layer in enumerate(rest, start=1):
                agents.actor.weights[k][g].copy_(layer.weight.T)
                agents.actor.biases[k][g, 0].copy_(layer.bias)
