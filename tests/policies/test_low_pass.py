"""Policies whose actions are low-passed by the network itself."""

import dataclasses

import pytest
import torch

from rookery.policies.low_pass import low_pass
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete, Group, Term

NAMES = ("hip", "knee", "wrist")
GROUP = Group(
    1,
    (Term("joints", 4), Term("last_action", 3, scale=0.5)),
    ActionSpec("joint_position", NAMES, (-1.0,) * 3, (1.0,) * 3, ("rad",) * 3, (0.0,) * 3),
)


def policy(activation: str) -> Policy:
    torch.manual_seed(0)
    out = Policy(standard(7, 3, (16, 12), activation)).eval()
    for x in layers_of(out):
        torch.nn.init.normal_(x.weight, std=0.3)
        torch.nn.init.normal_(x.bias, std=0.3)
    out.get_buffer("normalize.mean").uniform_(-0.2, 0.2)
    out.get_buffer("normalize.std").uniform_(0.3, 2.0)
    return out


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
@pytest.mark.parametrize("names", [(), ("wrist", "hip")])
@torch.no_grad()
def test_new_actions_are_mixed_with_the_last(activation, names):
    plain = policy(activation)
    last = torch.rand(256, 3) * 2 - 1
    obs = torch.cat((torch.randn(256, 4), 0.5 * last), 1)
    a = plain(obs)
    free = a.abs() < 0.99  # beyond, the plain one clips before it would be mixed
    want = a.clone()
    for i in [i for i, n in enumerate(NAMES) if not names or n in names]:
        want[:, i] = 0.6 * a[:, i] + 0.4 * last[:, i]
    got = low_pass(plain, GROUP, 0.6, names)(obs)
    assert free.any(0).all()
    torch.testing.assert_close(got[free], want[free], rtol=0, atol=5e-4)


@torch.no_grad()
def test_what_chatters_is_damped_and_what_stays_is_kept():
    """A policy that asks for the opposite of its last action rings with amplitude 1; smoothed by half, it settles."""
    ringing = Policy(standard(7, 3, (8,), "relu")).eval()
    for x in (layers_of(ringing)[0], layers_of(ringing)[-1]):
        x.weight.zero_()
        x.bias.zero_()
    for i in range(3):
        layers_of(ringing)[0].weight[2 * i, 4 + i] = 2.0
        layers_of(ringing)[0].weight[2 * i + 1, 4 + i] = -2.0
        layers_of(ringing)[-1].weight[i, 2 * i] = -1.0
        layers_of(ringing)[-1].weight[i, 2 * i + 1] = 1.0
    ends = []
    for p in (ringing, low_pass(ringing, GROUP, 0.6)):
        a = torch.ones(1, 3)
        for _ in range(20):
            a = p(torch.cat((torch.zeros(1, 4), 0.5 * a), 1))
        ends.append(a.abs().max())
    assert ends[0] == pytest.approx(1.0) and ends[1] < 1e-6


def test_what_cannot_be_smoothed():
    with pytest.raises(RookeryError, match="share is 0"):
        low_pass(policy("tanh"), GROUP, 0)
    with pytest.raises(RookeryError, match="did you mean 'wrist'"):
        low_pass(policy("tanh"), GROUP, 0.5, ["wirst"])
    shifts = dataclasses.replace(GROUP, action=ActionSpec("gears", choices=(Discrete("gear", ("low", "high")),)))
    chooses = Policy(standard(7, 2, (8,), choose=Choose.of(shifts.action)))
    with pytest.raises(RookeryError, match="this one chooses its 'gear' among low, high"):
        low_pass(chooses, shifts, 0.5)
    blind = dataclasses.replace(GROUP, observation=GROUP.observation[:1])
    with pytest.raises(RookeryError, match="observes its last action"):
        low_pass(policy("tanh"), blind, 0.5)
