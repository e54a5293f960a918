"""Symmetric networks: what they make of a mirrored input, the gradient of a doubled batch, and what does not fit."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drive import Drive, mean_actions
from policies_fake import FakeEnv

from rookery.policies.algorithms.mirror import symmetry_of
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.nn.mlp import MLP, parameter_count
from rookery.policies.nn.symmetry import Symmetry
from rookery.policies.training.warm_start import warm_start
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Mirror, Term, joined

CPU = torch.device("cpu")
IN, WIDE, OUT = (2, 1, -3), (1, -2, 4, 3, -5), (-2, -1)
ACTOR, CRITIC = (3, 64, 32, 2), (5, 48, 1)


def mirrored(x: torch.Tensor, vector: tuple[int, ...]) -> torch.Tensor:
    signed = torch.tensor(vector)
    return x[..., signed.abs() - 1] * signed.sign()


@pytest.mark.parametrize("activation", ["tanh", "elu", "relu"])
def test_a_mirrored_input_gives_the_mirrored_output(activation: str) -> None:
    generator = torch.Generator().manual_seed(0)
    split = parameter_count(ACTOR)
    flat = torch.zeros(1, split + parameter_count(CRITIC) + 2)
    actor = MLP(flat[:, :split], torch.zeros(1, split), ACTOR, activation)
    critic = MLP(flat[:, split:-2], torch.zeros(1, flat.shape[1] - split - 2), CRITIC, activation)
    actor.initialize(generator, 1.0, torch.tensor([0.5, -0.5]))
    critic.initialize(generator, 1.0)
    before = [float(w.norm()) for w in (actor.weights[0], actor.weights[1], critic.weights[0])]
    symmetry = Symmetry(ACTOR, CRITIC, IN, WIDE, OUT, CPU)
    assert not symmetry.holds(flat)
    symmetry.tie(flat, (actor, critic))
    assert symmetry.holds(flat)
    after = [float(w.norm()) for w in (actor.weights[0], actor.weights[1], critic.weights[0])]
    assert after == pytest.approx(before, rel=0.2)  # 0.71 times without the factor
    assert actor.biases[-1].flatten().tolist() == [0.5, -0.5]
    flat += 0.2 * torch.randn(flat.shape, generator=generator)
    symmetry.project(flat)
    x = torch.randn(1, 20, 3, generator=generator)
    y = actor.forward(x).clone()
    assert torch.allclose(actor.forward(mirrored(x, IN)), mirrored(y, OUT), atol=1e-5)
    assert (y - mirrored(y, OUT)).abs().mean() > 0.1
    wide = torch.randn(1, 20, 5, generator=generator)
    value = critic.forward(wide).clone()
    assert torch.allclose(critic.forward(mirrored(wide, WIDE)), value, atol=1e-5)
    assert value.std() > 0.1


def test_actions_that_a_mirror_exchanges_have_one_standard_deviation() -> None:
    """The last two of the flat weights are log_std, which has no side: no sign changes."""
    flat = torch.zeros(1, parameter_count(ACTOR) + parameter_count(CRITIC) + 2)
    flat[0, -2:] = torch.tensor([0.4, 1.0])
    Symmetry(ACTOR, CRITIC, IN, WIDE, OUT, CPU).project(flat)
    torch.testing.assert_close(flat[0, -2:], torch.tensor([0.7, 0.7]))


def test_a_projected_gradient_is_that_of_a_batch_with_mirrored_copies() -> None:
    generator = torch.Generator().manual_seed(0)
    split = parameter_count(ACTOR)
    flat = 0.2 * torch.randn(1, split + parameter_count(CRITIC) + 2, generator=generator)
    symmetry = Symmetry(ACTOR, CRITIC, IN, WIDE, OUT, CPU)
    symmetry.project(flat)
    gradients = torch.zeros_like(flat)
    actor = MLP(flat[:, :split], gradients[:, :split], ACTOR, "tanh")
    x = torch.randn(1, 20, 3, generator=generator)
    target = torch.randn(1, 20, 2, generator=generator)
    actor.backward(actor.forward(x) - target)
    symmetry.project(gradients)
    projected = gradients.clone()
    gradients.zero_()
    both = torch.cat((x, mirrored(x, IN)), 1)
    actor.backward(0.5 * (actor.forward(both) - torch.cat((target, mirrored(target, OUT)), 1)))
    assert torch.allclose(projected, gradients, atol=1e-5)


def mirrored_env() -> FakeEnv:
    env = FakeEnv(8)
    group = env.groups["point"]
    flip = lambda size: tuple(-i for i in range(1, size + 1))  # noqa: E731
    mirror = Mirror(flip(group.frame_size), flip(group.action.size), flip(env.state_size))
    env.groups = {"point": dataclasses.replace(group, mirror=mirror)}
    return env


@pytest.mark.parametrize("compiled", [False, True])
def test_a_policy_that_learns_stays_symmetric_to_the_bit(compiled: bool) -> None:
    config = PPOConfig(rollout_steps=6, minibatches=2, hidden=(8, 4), normalize_observations=False, mirror=True)
    ppo = PPO(mirrored_env(), dataclasses.replace(config, compiled=compiled))
    drive = Drive(ppo)
    start = ppo.learners["point"].parameters.clone()
    drive.iterate(3)
    learner = ppo.learners["point"]
    assert not torch.equal(learner.parameters, start)
    twice = learner.parameters.clone()
    assert learner.symmetry is not None
    learner.symmetry.project(twice)
    assert torch.equal(twice, learner.parameters)
    assert drive.obs is not None
    action = mean_actions(ppo, drive.obs)["point"]
    other = mean_actions(ppo, {"point": -drive.obs["point"]})["point"]
    assert torch.allclose(action, -other, atol=1e-6)
    assert action.abs().max() > 1e-4


def test_frames_and_the_state_before_them_are_mirrored() -> None:
    spec = Group(
        1,
        (Term("left_right", 2), Term("sideways", 1)),
        ActionSpec("servo", ("l", "r"), (-1.0, -1.0), (1.0, 1.0), ("rad", "rad"), (0.0, 0.0)),
        history=2,
        mirror=Mirror(observation=IN, action=OUT, state=(1, -2)),
    )
    assert joined([(1, -2), IN, IN]) == (1, -2, 4, 3, -5, 7, 6, -8)
    from rookery.policies.nn.build import build
    from rookery.policies.stages.perceptron import Perceptron

    critic = Perceptron(8, (4,), 1)
    symmetry = symmetry_of(spec, 2, Perceptron(3, (8,), 2), critic, CPU)
    flat = torch.randn(1, parameter_count((3, 8, 2)) + critic.weight_count + 2)
    symmetry.project(flat)
    at = parameter_count((3, 8, 2))
    network = build([critic], flat[:, at:-2], torch.zeros(1, critic.weight_count))
    x = torch.randn(1, 5, 8)
    value = network.forward(x).clone()
    assert torch.allclose(network.forward(mirrored(x, (1, -2, 4, 3, -5, 7, 6, -8))), value, atol=1e-5)
    assert symmetry is not None
    with pytest.raises(RookeryError, match="the state 5"):
        symmetry_of(spec, 5, Perceptron(3, (8,), 2), critic, CPU)


def test_what_does_not_fit_is_refused() -> None:
    config = PPOConfig(hidden=(8,), normalize_observations=False, mirror=True)
    assert PPO(FakeEnv(4), config).learners["point"].symmetry is None
    with pytest.raises(RookeryError, match="even width, not 7"):
        PPO(mirrored_env(), dataclasses.replace(config, hidden=(7,)))
    with pytest.raises(ValueError, match="each of its components once"):
        Mirror((1, 1), (1,))
    with pytest.raises(ValueError, match="must be itself"):
        Mirror((2, -1), (1,))
    env = mirrored_env()
    with pytest.raises(ValueError, match=r"1 observed.*: give a mirror of those sizes, or mirror=None"):
        dataclasses.replace(env.groups["point"], mirror=Mirror((1,), (1,)))


def test_only_a_symmetric_policy_starts_a_symmetric_training() -> None:
    config = PPOConfig(hidden=(8,), normalize_observations=False)
    env = mirrored_env()
    with pytest.raises(RookeryError, match="does not act alike"):
        warm_start(PPO(env, dataclasses.replace(config, mirror=True)), PPO(env, config).policies(), env.groups)
    same = PPO(env, dataclasses.replace(config, mirror=True), seed=1)
    warm_start(PPO(env, dataclasses.replace(config, mirror=True)), same.policies(), env.groups)
