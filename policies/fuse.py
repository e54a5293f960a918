"""Fuse two policies into one network: legs from one that walks, the arm from one that reaches. A start for PPO."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.policy import Layer, Policy, layers_of
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.stage import Stage
from rookery.policies.stages.standard import is_plain, standard
from rookery.sim.actions import require_no_choices
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
        first, second: perceptrons of the same depth and activation on a single frame.
        group: what the new policy is for.

    Raises:
        RookeryError: networks that do not go together, choices, or an action that neither has.
    """
    networks = _stages(first, second, group)
    (norm_a, a, _), (norm_b, b, _) = networks
    assert isinstance(a, Perceptron) and isinstance(b, Perceptron)
    assert isinstance(norm_a, Normalize) and isinstance(norm_b, Normalize)
    if len(a.hidden) != len(b.hidden) or a.activation != b.activation:
        raise RookeryError(
            f"policies with hidden layers {list(a.hidden)} ({a.activation}) and {list(b.hidden)} ({b.activation}) do not go "
            "side by side: train both with as many layers and one activation."
        )
    hidden = tuple(i + j for i, j in zip(a.hidden, b.hidden, strict=True))
    clip = max(norm_a.clip, norm_b.clip)
    out = Policy(standard(group.observation_size, group.action.size, hidden, a.activation, clip)).eval()
    layers = layers_of(out)
    for layer in layers:
        layer.weight.zero_()
        layer.bias.zero_()
    missing = set(group.action.names)
    rows = [slice(0, 0)] * len(hidden)
    for (policy, old), network in zip((first, second), (a, b), strict=True):
        own = layers_of(policy)
        rows = [slice(r.stop, r.stop + w) for r, w in zip(rows, network.hidden, strict=True)]
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


def _stages(first: Learned, second: Learned, group: Group) -> list[list[Stage]]:
    """Normalizer, perceptron and squash of both policies.

    Raises:
        RookeryError: one has other stages, several frames, or choices.
    """
    for one in (first[1], second[1], group):
        require_no_choices(one.action, "fuse_policies joins policies of", "train the task from the start")
    networks = []
    for policy, old in (first, second):
        if not is_plain(policy.chain) or old.history > 1:
            raise RookeryError(
                "only perceptrons on a single frame are fused, and one of the policies has the stages "
                f"{policy.chain.words} and {old.history} frames: train both with encoder=none, memory=none, --estimator "
                "off and --task-config history=1."
            )
        networks.append([leaf.stage for leaf in policy.chain.leaves])
    return networks


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


def _first_layer(layer: Layer, policy: Policy, trained: Group, group: Group) -> tuple[Tensor, Tensor]:
    """Weights [H, O] and bias [H] of the old first layer, its normalizer folded in, for the group's observation."""
    normalized = layer.weight / policy.get_buffer("normalize.std")
    bias = layer.bias - normalized @ policy.get_buffer("normalize.mean")
    weight = torch.zeros(len(bias), group.observation_size)
    terms = {t.name: t for t in trained.observation}
    for term in group.observation:
        if term.name not in terms:
            continue
        t = terms[term.name]
        here = group.slices()[term.name].start
        part = normalized[:, trained.slices()[term.name]]
        scale = t.scale
        if term.name == "last_action":
            gain, shift = _ranges(trained, group)  # old = (new - shift) / gain
            bias = bias - part @ (scale * shift / gain)
            part = part / gain
        weight[:, here : here + part.shape[1]] = part * (scale / term.scale)
    return weight, bias
