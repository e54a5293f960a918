"""A low-pass filter of a policy's actions inside its network: the observed last action is the filter's state.

Policies that close a loop over their own last action can come to chatter from step to step: one of go2arm-loco-manipulation
with 3 mm of error shook its wrist at 25 Hz, and what it held crept out of its hand; smoothed, it drops nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group

FAINT = 0.02
"""Gain at which tanh passes a number from -1 to 1 with an error below 2e-4."""


@torch.no_grad()
def low_pass(policy: Policy, group: Group, share: float, names: Collection[str] = ()) -> Policy:
    """A policy that gives ``share * a + (1 - share) * last_action`` where `policy` gives a.

    Each hidden layer has one unit more for each of these actions, which hands the last one on. So exports and contracts need
    not know of it. To train on, start from the policy before it was smoothed: with tanh the units are faint and their weights
    large, so that small steps of PPO move the actions far (one update at a rate of 3e-4: a divergence of 3.5).

    Args:
        policy: without history, state estimator, memory or encoder.
        group: that it was trained for.
        share: of the new action, above 0 to 1. The amplitude of what changes sign at every step is divided by 2 / share - 1.
        names: of the actions; () for all.

    Raises:
        RookeryError: it does not observe its last action or is not such a policy, or an unknown action or share.
    """
    if not 0.0 < share <= 1.0:
        raise RookeryError(f"share is {share}: give a number above 0, up to 1.")
    known = group.action.names
    for name in names:
        if name not in known:
            raise unknown("action", name, known)
    terms = {t.name: t for t in group.observation}
    plain = policy.actor_inputs == policy.observation_size and not (
        policy.targets or policy.memory_size or policy.encoder_spec
    )
    if not plain or "last_action" not in terms:
        raise RookeryError(
            "only a policy that observes its last action, without history, state estimator, memory or encoder, can be smoothed."
        )
    kept = [i for i, name in enumerate(known) if not names or name in names]
    gain, shift = (FAINT, 0.0) if policy.activation == "tanh" else (1.0, 1.0)  # the others pass what is positive
    out = Policy(
        policy.observation_size,
        policy.action_size,
        [w + len(kept) for w in policy.hidden],
        policy.activation,
        policy.obs_clip,
    ).eval()
    out.mean.copy_(policy.mean)
    out.std.copy_(policy.std)
    old, new = ([x for x in p.layers if isinstance(x, torch.nn.Linear)] for p in (policy, out))
    for a, b in zip(old, new, strict=True):
        b.weight.zero_()
        b.bias.zero_()
        b.weight[: a.out_features, : a.in_features] = a.weight
        b.bias[: a.out_features] = a.bias
    last = terms["last_action"]
    for k, i in enumerate(kept):
        column = group.slices()[last.name].start + i
        per_unit = gain / last.scale
        rows = [a.out_features + k for a in old[:-1]]
        new[0].weight[rows[0], column] = per_unit * policy.std[column]
        new[0].bias[rows[0]] = per_unit * policy.mean[column] + shift
        for layer, before, row in zip(new[1:-1], rows, rows[1:], strict=False):
            layer.weight[row, before] = 1.0
        new[-1].weight[i] *= share
        new[-1].weight[i, rows[-1]] = (1.0 - share) / gain
        new[-1].bias[i] = share * old[-1].bias[i] - (1.0 - share) * shift / gain
    return out
