"""The deployed policy: its stages one after the other."""

from __future__ import annotations

import pytest
import torch

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError


@pytest.mark.parametrize("squash", ["clip", "tanh"])
def test_the_stages_follow_each_other(squash):
    policy = Policy(standard(3, 2, (4,), "elu", 2.0, squash=squash)).eval()
    policy.get_buffer("normalize.mean").copy_(torch.tensor([1.0, -1.0, 0.0]))
    policy.get_buffer("normalize.std").copy_(torch.tensor([0.1, 1.0, 5.0]))
    obs = torch.randn(50, 3) * 3.0
    x = ((obs - policy.get_buffer("normalize.mean")) / policy.get_buffer("normalize.std")).clamp(-2.0, 2.0)
    first, last = layers_of(policy)
    linear = torch.nn.functional.linear
    out = linear(torch.nn.functional.elu(linear(x, *first)), *last)
    want = out.tanh() if squash == "tanh" else out.clamp(-1.0, 1.0)
    assert torch.equal(policy(obs), want) and (x.abs() == 2.0).any()
    assert policy.to_json()[-1]["function"] == squash
    again = Policy(StageChain.from_json(policy.to_json()).links)
    again.load_state_dict(policy.state_dict())
    assert torch.equal(again(obs), want)


def test_an_unknown_squash_is_refused():
    with pytest.raises(RookeryError, match="unknown squash 'tan': did you mean 'tanh'"):
        Policy(standard(3, 2, squash="tan"))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), 1e39])
def test_a_limit_that_no_float32_holds_is_refused(limit):
    with pytest.raises(RookeryError, match="obs_clip must be a number above 0"):
        Policy(standard(3, 2, obs_clip=limit))
