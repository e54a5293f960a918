"""Weights of 8 bits: symmetric, with a scale for each row of each matrix of a dense layer. Biases and normalizer stay float.

A policy is rounded before it is exported: ONNX, golden vectors and C are then those of one network, and the contract says how
far its actions are from those of the trained one. C stores the integers and the scales, a quarter of the flash.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

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
        difference = largest_difference(policy, out[name])
        if not difference <= MOST_DIFFERENCE:
            raise RookeryError(
                f"with weights of 8 bits an action of the group {name!r} differs by {difference:.3g} of its range of 2, and "
                f"{MOST_DIFFERENCE:g} is allowed: export it without --int8."
            )
        groups[name] = dataclasses.replace(contract.groups[name], quantization=Quantization("int8", difference))
    return out, dataclasses.replace(contract, groups=groups)


def largest_difference(policy: Policy, other: Policy) -> float:
    """Between the answers of two policies of one kind, over the golden observations of the first."""
    rows = golden_observations(policy)
    mine, theirs = (answers_on(p, rows) for p in (policy, other))
    return float(row_differences(theirs, mine, policy.chain.choice_sizes).max())


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
    return Export(policies, contract, export.prefix)
