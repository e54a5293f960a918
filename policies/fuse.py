"""Fuse two policies into one network: legs from one that walks, the arm from one that reaches. A start for PPO."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

Learned = tuple[Policy, Group]
"""A policy, and the group that it was trained for."""


@torch.no_grad()
def fuse_policies(first: Learned, second: Learned, group: Group) -> Policy:
    """A policy with the hidden layers of both, not connected to each other.

    Actions that `first` has, by name, are its own, the rest those of `second`. Observations are matched by name; where a term
    of one is shorter than the group's, it takes the group's first components, as a robot's joints come before those of
    what it carries. Other ranges of an action are made up for, also where the last action is observed.

    Args:
        first, second: of the same depth and activation, without history, state estimator, memory or encoder.
        group: what the new policy is for.

    Raises:
        RookeryError: networks that do not go together, or an action that neither has.
    """
    a, b = first[0], second[0]
    if a.memory_size or b.memory_size:
        raise RookeryError("a policy with memory is not fused with another: train both with memory=none.")
    if a.encoder_spec or b.encoder_spec:
        raise RookeryError(
            "a policy with an encoder of pictures is not fused with another: train both with encoder=none."
        )
    for policy, old in (first, second):
        if old.history > 1 or policy.targets:
            raise RookeryError(
                "a policy with a history of observations or a state estimator is not fused with another: train it with "
                "--task-config history=1 and --estimator off."
            )
    if len(a.hidden) != len(b.hidden) or a.activation != b.activation:
        raise RookeryError(
            f"policies with hidden layers {list(a.hidden)} ({a.activation}) and {list(b.hidden)} ({b.activation}) do not go "
            "side by side: train both with as many layers and one activation."
        )
    hidden = tuple(i + j for i, j in zip(a.hidden, b.hidden, strict=True))
    out = Policy(group.observation_size, group.action.size, hidden, a.activation, max(a.obs_clip, b.obs_clip)).eval()
    layers = [layer for layer in out.layers if isinstance(layer, torch.nn.Linear)]
    for layer in layers:
        layer.weight.zero_()
        layer.bias.zero_()
    missing = set(group.action.names)
    rows = [slice(0, 0)] * len(hidden)
    for policy, old in (first, second):
        own = [layer for layer in policy.layers if isinstance(layer, torch.nn.Linear)]
        rows = [slice(r.stop, r.stop + w) for r, w in zip(rows, policy.hidden, strict=True)]
        weight, bias = _first_layer(own[0], policy, old, group)
        layers[0].weight[rows[0]] = weight
        layers[0].bias[rows[0]] = bias
        for k in range(1, len(rows)):
            layers[k].weight[rows[k], rows[k - 1]] = own[k].weight
            layers[k].bias[rows[k]] = own[k].bias
        names = old.action.names
        gain, shift = _ranges(old, group)
        for i, name in enumerate(group.action.names):
            if name in names and name in missing:
                j = names.index(name)
                layers[-1].weight[i, rows[-1]] = own[-1].weight[j] * gain[j]
                layers[-1].bias[i] = own[-1].bias[j] * gain[j] + shift[j]
        missing -= set(names)
    if missing:
        raise RookeryError(f"neither policy has the actions {sorted(missing)}: take policies of this robot.")
    return out


def _ranges(old: Group, group: Group) -> tuple[Tensor, Tensor]:
    """[D] each: an action of the old range times the first plus the second is the same command in the new range."""
    gains = []
    shifts = []
    for name, low, high in zip(old.action.names, old.action.low, old.action.high, strict=True):
        i = group.action.names.index(name)
        new_low = group.action.low[i]
        new_high = group.action.high[i]
        half = 0.5 * (high - low)
        new_half = 0.5 * (new_high - new_low)
        gains.append(half / new_half)
        shifts.append((low + half - new_low) / new_half - 1.0)
    return torch.tensor(gains), torch.tensor(shifts)


def _first_layer(layer: torch.nn.Linear, policy: Policy, trained: Group, group: Group) -> tuple[Tensor, Tensor]:
    """Weights [H, O] and bias [H] of the old first layer, its normaliser folded in, for the group's observation."""
    normalised = layer.weight / policy.std
    bias = layer.bias - normalised @ policy.mean
    weight = torch.zeros(layer.out_features, group.observation_size)
    terms = {t.name: t for t in trained.observation}
    for term in group.observation:
        if term.name not in terms:
            continue
        t = terms[term.name]
        here = group.slices()[term.name].start
        part = normalised[:, trained.slices()[term.name]]
        scale = t.scale
        if term.name == "last_action":
            gain, shift = _ranges(trained, group)  # old = (new - shift) / gain
            bias = bias - part @ (scale * shift / gain)
            part = part / gain
        weight[:, here : here + part.shape[1]] = part * (scale / term.scale)
    return weight, bias
