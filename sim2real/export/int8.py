"""Weights of 8 bits: symmetric, with a scale for each row of each matrix of a dense layer. Biases and normalizer stay float.

A policy is rounded before it is exported: ONNX, golden vectors and C are then those of one network, and the contract says how
far its actions are from those of the trained one. C stores the integers and the scales, a quarter of the flash.

A hierarchy is several networks, and each is compared by itself. Where two skills are about equally good to a high level, the
rounded one may choose the other, which then acts for many control steps: actions would be as far apart as those of the two
skills, whatever the rounding. By itself such a choice counts by how much smaller its logit is.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rookery.policies.stages.chain import Beside, Link
from rookery.policies.stages.decide import Decide, Each, Switch
from rookery.policies.stages.stage import Stage
from rookery.sim.errors import RookeryError
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract, Quantization
from rookery.sim2real.export.differences import row_differences
from rookery.sim2real.export.exporter import Export
from rookery.sim2real.export.golden import answers_on, golden_observations
from rookery.sim2real.export.int8_c import dense_tables, quantized

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

MOST_DIFFERENCE = 0.2
"""Of an action in [-1, 1] over the golden observations, at which a policy is refused: 10 % of a command's range."""


def rounded(policies: Mapping[str, Policy], contract: Contract) -> tuple[dict[str, Policy], Contract]:
    """Policies with rounded weights, and the contract that says so.

    Raises:
        RookeryError: an action of a policy would differ by more than MOST_DIFFERENCE, or none of its layers can be rounded.
    """
    contract = with_stages(contract, policies)
    out, groups = {}, {}
    for name, policy in policies.items():
        out[name] = _rounded(policy, name)
        differences = network_differences(policy, out[name])
        worst = max(differences, key=lambda words: differences[words])
        difference = differences[worst]
        if not difference <= MOST_DIFFERENCE:
            of = f"the group {name!r}" + f" ({worst})" * (len(differences) > 1)
            raise RookeryError(
                f"with weights of 8 bits an action of {of} differs by {difference:.3g} of its range of 2, and "
                f"{MOST_DIFFERENCE:g} is allowed: export it without --int8."
            )
        groups[name] = dataclasses.replace(contract.groups[name], quantization=Quantization("int8", difference))
    return out, dataclasses.replace(contract, groups=groups)


def network_differences(policy: Policy, other: Policy) -> dict[str, float]:
    """Largest differences between the answers of two policies of one kind, by network in words: each network over its own
    golden observations, those of the first policy."""
    out: dict[str, float] = {}
    for i, (mine, theirs) in enumerate(zip(networks(policy), networks(other), strict=True), 1):
        rows = golden_observations(mine)
        given, wanted = (answers_on(p, rows) for p in (theirs, mine))
        difference = row_differences(given, wanted, mine.chain.choice_sizes).max()
        out[f"network {i}: {mine.chain.words}"] = float(difference)
    return out


def networks(policy: Policy) -> list[Policy]:
    """A policy's networks with dense layers: of a hierarchy its high levels and skills, each by itself, else the policy."""
    from rookery.policies.policy import Policy as Part
    from rookery.policies.torch_parts import copy_parts

    if not any(_chains(link) for link in policy.chain.links):
        return [policy]
    out = []
    for links in _runs(policy.chain.links):
        part = Part(links).cpu().eval()
        copy_parts(part, [policy])
        out += [part] * bool(dense_tables(part.chain))
    return out


def _runs(links: Sequence[Link]) -> Iterator[tuple[Link, ...]]:
    """Stages that follow each other, between the decisions and switches of a chain and within them; from the first stage with
    weights on."""
    own: list[Link] = []
    for link in links:
        chains = _chains(link)
        if not chains and (own or not isinstance(link, Stage) or link.weights()):
            own.append(link)
        if chains and own:
            yield tuple(own)
            own = []
        for chain in chains:
            yield from _runs(chain)
    if own:
        yield tuple(own)


def _chains(link: Link) -> tuple[tuple[Link, ...], ...]:
    """The chains within a decision, a switch, a chain for each agent, or side by side with one of them; () of stages."""
    if isinstance(link, (Decide, Each)):
        return (link.chain,)
    if isinstance(link, Switch):
        return link.branches
    if isinstance(link, Beside) and any(_chains(x) for branch in link.branches for x in branch):
        return link.branches
    return ()


def _rounded(policy: Policy, name: str) -> Policy:
    import torch

    out = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    names = dense_tables(policy.chain)
    if not names:
        raise RookeryError(
            f"the policy of the group {name!r} has no dense layer whose weights could be rounded: leave --int8."
        )
    weights = out.state_dict()
    for key in policy.chain.weights():
        if key.replace(".", "_") in names:
            q, scale = quantized(weights[key].numpy())
            weights[key] = torch.from_numpy(q.astype(np.float32) * scale[:, None]).reshape(weights[key].shape)
    out.load_state_dict(weights)
    return out


def int8_export(export: Export) -> Export:
    """An export of rounded policies.

    Raises:
        RookeryError: see `rounded`.
    """
    policies, contract = rounded(export.policies, export.contract)
    return dataclasses.replace(export, policies=policies, contract=contract)
