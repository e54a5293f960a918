"""Two policies side by side act as each of them alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rookery.policies.fuse import fuse_policies
from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete, Group, Term


def action(names: tuple[str, ...], reach: tuple[float, ...]) -> ActionSpec:
    n = len(names)
    return ActionSpec("joint_position", names, tuple(-r for r in reach), reach, ("rad",) * n, (0.0,) * n)


def group(joints: tuple[str, ...], reach: tuple[float, ...], *more: Term, scale: float = 1.0) -> Group:
    n = len(joints)
    terms = (Term("tilt", 2, scale=scale), Term("angle", n), *more, Term("last_action", n, scale=0.5))
    return Group(1, terms, action(joints, reach))


LEGS = group(("l1", "l2"), (1.0, 1.0))
WHOLE_OLD = group(("l1", "l2", "a1"), (1.0, 1.0, 2.0), Term("goal", 3))
WHOLE = group(("l1", "l2", "a1"), (1.0, 1.0, 3.0), Term("goal", 3), scale=2.0)


def policy(g: Group, seed: int, hidden: tuple[int, ...] = (8, 8)) -> Policy:
    torch.manual_seed(seed)
    out = Policy(standard(g.observation_size, g.action.size, hidden, "tanh", 10.0)).eval()
    out.get_buffer("normalize.mean").copy_(0.1 * torch.randn(g.observation_size))
    out.get_buffer("normalize.std").copy_(1.0 + torch.rand(g.observation_size))
    return out


def test_each_action_is_that_of_the_policy_it_comes_from() -> None:
    walk = policy(LEGS, 0)
    reach = policy(WHOLE_OLD, 1)
    both = fuse_policies((walk, LEGS), (reach, WHOLE_OLD), WHOLE)
    assert both.chain.find(Perceptron).hidden == (16, 16)
    g = torch.Generator().manual_seed(2)
    tilt, angle, goal, given = (0.3 * torch.randn(50, n, generator=g) for n in (2, 3, 3, 3))
    with torch.no_grad():
        got = both(torch.cat((2.0 * tilt, angle, goal, 0.5 * given), 1))
        legs = walk(torch.cat((tilt, angle[:, :2], 0.5 * given[:, :2]), 1))
        old = given * torch.tensor([1.0, 1.0, 1.5])  # the same command in the old range of the arm
        arm = reach(torch.cat((tilt, angle, goal, 0.5 * old), 1))[:, 2]
    free = (legs.abs() < 1).all(1) & (arm.abs() < 1)
    assert free.float().mean() > 0.5
    assert torch.allclose(got[free, :2], legs[free], atol=1e-5)
    assert torch.allclose(got[free, 2], arm[free] * 2.0 / 3.0, atol=1e-5)


def test_what_does_not_go_together_is_refused() -> None:
    walk = policy(LEGS, 0)
    with pytest.raises(RookeryError, match="do not go side by side"):
        fuse_policies((walk, LEGS), (policy(WHOLE_OLD, 1, (8,)), WHOLE_OLD), WHOLE)
    seen = replace(LEGS, history=3)
    with pytest.raises(RookeryError, match=r"3 frames: .* --task-config history=1"):
        fuse_policies((policy(seen, 0), seen), (policy(WHOLE_OLD, 1), WHOLE_OLD), WHOLE)
    gear = Discrete("gear", ("low", "high"))
    shifts = replace(LEGS, action=ActionSpec("gears", choices=(gear,)))
    chooses = Policy(standard(LEGS.observation_size, 2, (8, 8), choose=Choose.of(shifts.action)))
    with pytest.raises(RookeryError, match="this one chooses its 'gear' among low, high"):
        fuse_policies((walk, LEGS), (chooses, shifts), WHOLE)
    with pytest.raises(RookeryError, match=r"neither policy has the actions \['a1'\]"):
        fuse_policies((walk, LEGS), (walk, LEGS), WHOLE)
