"""Mirrored samples: which components go where, which rows, and what does not fit."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv

from rookery.policies.algorithms.mirror import SampleMirror
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.storage.rollout import Samples
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Mirror, Term

CPU = torch.device("cpu")
SPEC = Group(
    1,
    (Term("left_right", 2), Term("sideways", 1)),
    ActionSpec("servo", ("l", "r"), (-1.0, -1.0), (1.0, 1.0), ("rad", "rad"), (0.0, 0.0)),
    history=2,
    mirror=Mirror(observation=(2, 1, -3), action=(-2, -1), state=(1, -2)),
)


def samples(actor: torch.Tensor, critic: torch.Tensor, action: torch.Tensor) -> Samples:
    nothing = torch.zeros(1, actor.shape[1])
    return Samples(actor, critic, action, nothing, nothing, nothing, nothing, None)


def test_every_second_row_is_mirrored_in_all_frames_and_in_the_state_before_them() -> None:
    actor = torch.tensor([[[1.0, 2.0, 3.0]] * 3])
    critic = torch.tensor([[[7.0, 8.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0]] * 3])
    action = torch.tensor([[[0.25, -0.5]] * 3])
    SampleMirror(SPEC, 2, 3, CPU).apply(samples(actor, critic, action))
    assert actor[0].tolist() == [[2.0, 1.0, -3.0], [1.0, 2.0, 3.0], [2.0, 1.0, -3.0]]
    assert critic[0, 0].tolist() == [7.0, -8.0, 5.0, 4.0, -6.0, 2.0, 1.0, -3.0]
    assert critic[0, 1].tolist() == [7.0, 8.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0]
    assert action[0].tolist() == [[0.5, -0.25], [0.25, -0.5], [0.5, -0.25]]


def test_what_policy_and_critic_share_is_mirrored_once() -> None:
    both = torch.tensor([[[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]]])
    SampleMirror(SPEC, 0, 6, CPU).apply(samples(both, both, torch.zeros(1, 1, 2)))
    assert both[0, 0].tolist() == [5.0, 4.0, -6.0, 2.0, 1.0, -3.0]


def test_the_stored_rollout_stays_as_it_is_and_half_of_the_learnt_rows_are_mirrored() -> None:
    env = FakeEnv(8)
    group = env.groups["point"]
    flip = lambda size: tuple(-i for i in range(1, size + 1))  # noqa: E731
    mirror = Mirror(flip(group.frame_size), flip(group.action.size), flip(env.state_size))
    env.groups = {"point": dataclasses.replace(group, mirror=mirror)}
    ppo = PPO(env, PPOConfig(rollout_steps=6, minibatches=2, normalize_observations=False, mirror=True))
    drive = Drive(ppo)
    drive.collect()
    last = drive.obs
    assert last is not None
    learner = ppo.learners["point"]
    before = learner.rollout.observation.clone()
    rows = learner.samples(last["point"], None, None)
    seen = next(learner.epoch(rows, torch.Generator().manual_seed(0)))[0]
    assert torch.equal(learner.rollout.observation, before)
    order = torch.randperm(rows.advantage.shape[1], generator=torch.Generator().manual_seed(0))
    sign = torch.ones(len(order), 1)
    sign[::2] = -1.0
    assert torch.equal(seen.actor_input[0], sign * rows.actor_input[0, order])
    assert torch.equal(seen.action[0], sign * rows.action[0, order])
    assert torch.equal(seen.value_target[0], rows.value_target[0, order])


def test_what_does_not_fit_is_refused() -> None:
    config = PPOConfig(normalize_observations=False, mirror=True)
    with pytest.raises(RookeryError, match="declares its left-right symmetry"):
        PPO(FakeEnv(4), config)
    with pytest.raises(RookeryError, match="the state 5"):
        SampleMirror(SPEC, 5, 6, CPU)
    with pytest.raises(ValueError, match="each of its components once"):
        Mirror((1, 1), (1,))
    with pytest.raises(ValueError, match="2 observed and 2 commanded"):
        dataclasses.replace(SPEC, mirror=Mirror((1, 2), (1, 2)))
