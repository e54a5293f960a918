"""A low-pass filter of a policy's actions inside its network: the observed last action is the filter's state.

Policies that close a loop over their own last action can come to chatter from step to step: one of go2arm-loco-manipulation
with 3 mm of error shook its wrist at 25 Hz, and what it held crept out of its hand; smoothed, it drops nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.standard import is_plain
from rookery.sim.actions import require_no_choices
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
        policy: one perceptron on a single frame.
        group: that it was trained for.
        share: of the new action, above 0 to 1. The amplitude of what changes sign at every step is divided by 2 / share - 1.
        names: of the actions; () for all.

    Raises:
        RookeryError: it does not observe its last action, chooses or is not such a policy, or an unknown action or share.
    """
    if not 0.0 < share <= 1.0:
        raise RookeryError(f"share is {share}: give a number above 0, up to 1.")
    require_no_choices(group.action, "low_pass smooths", "leave it out")
    known = group.action.names
    for name in names:
        if name not in known:
            raise unknown("action", name, known)
    terms = {t.name: t for t in group.observation}
    if not is_plain(policy.chain) or group.history > 1 or "last_action" not in terms:
        raise RookeryError(
            "only a policy that observes its last action, and is one perceptron on a single frame, can be smoothed: its stages "
            f"are {policy.chain.words}."
        )
    kept = [i for i, name in enumerate(known) if not names or name in names]
    normalize, network, squash = (leaf.stage for leaf in policy.chain.leaves)
    assert isinstance(network, Perceptron)
    gain, shift = (FAINT, 0.0) if network.activation == "tanh" else (1.0, 1.0)  # the others pass what is positive
    wider = replace(network, hidden=tuple(w + len(kept) for w in network.hidden))
    out = Policy((normalize, wider, squash)).eval()
    mean, std = (policy.get_buffer(f"normalize.{name}") for name in ("mean", "std"))
    out.get_buffer("normalize.mean").copy_(mean)
    out.get_buffer("normalize.std").copy_(std)
    old, new = layers_of(policy), layers_of(out)
    for a, b in zip(old, new, strict=True):
        b.weight.zero_()
        b.bias.zero_()
        b.weight[: len(a.bias), : a.weight.shape[1]] = a.weight
        b.bias[: len(a.bias)] = a.bias
    last = terms["last_action"]
    for k, i in enumerate(kept):
        column = group.slices()[last.name].start + i
        per_unit = gain / last.scale
        rows = [len(a.bias) + k for a in old[:-1]]
        new[0].weight[rows[0], column] = per_unit * std[column]
        new[0].bias[rows[0]] = per_unit * mean[column] + shift
        for layer, before, row in zip(new[1:-1], rows, rows[1:], strict=False):
            layer.weight[row, before] = 1.0
        new[-1].weight[i] *= share
        new[-1].weight[i, rows[-1]] = (1.0 - share) / gain
        new[-1].bias[i] = share * old[-1].bias[i] - (1.0 - share) * shift / gain
    return out
