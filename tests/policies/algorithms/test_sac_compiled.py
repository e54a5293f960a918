"""SAC's compiled gradient steps against those of torch, which are the reference."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_toy import ToyEnv, train
from sampled import slow_but

from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.sac_learner import LOG_STD_MAX, LOG_STD_MIN, SACLearner
from rookery.policies.storage.replay import Replay
from rookery.sim.specs import ActionSpec, Group, Term

WORLDS, AGENTS, STEPS, OBS, ACT = 3, 2, 40, 5, 3


def filled(
    config: SACConfig, compiled: bool, spread: float = 1.0, spans: bool = False
) -> tuple[SACLearner, torch.Generator]:
    """A learner whose memory holds random transitions: episodes that end in every way, agents that drop out; with `spans` also
    at time limits, and steps of several control steps."""
    g, other = (torch.Generator().manual_seed(seed) for seed in (1, 3))
    action = ActionSpec("push", ("x", "y", "z"), (-1.0,) * ACT, (1.0,) * ACT, ("m",) * ACT, (0.0, 0.1, -0.2))
    group = Group(AGENTS, (Term("position", OBS, "m"),), action)
    learner = SACLearner(group, WORLDS, STEPS, replace(config, compiled=compiled), g, torch.device("cpu"))
    learner.norm.record(2.0 * torch.randn(100, OBS, generator=g) + 0.5)
    learner.norm.commit()
    for p in (*learner.critics.gains, *learner.critics.shifts, *learner.targets.gains, *learner.targets.shifts):
        p.data += 0.5 * torch.randn(p.shape, generator=g)
    rows = []
    for _ in range(STEPS + 7):  # the oldest are overwritten
        obs, following, final = torch.randn(3, WORLDS, AGENTS, OBS, generator=g) * spread
        acts = 2.0 * torch.rand(WORLDS, AGENTS, ACT, generator=g) - 1.0
        reward = torch.randn(WORLDS, AGENTS, generator=g)
        terminated, truncated = torch.rand(2, WORLDS, generator=g) < 0.2
        active, later = torch.rand(2, WORLDS, AGENTS, generator=g) < 0.8
        rows.append((obs, acts, reward, following, terminated, truncated, final, active))
    for row, (*_, next_active) in zip(rows, [*rows[1:], (later,)], strict=True):
        more = {}
        if spans:
            more["final_active"] = torch.rand(WORLDS, AGENTS, generator=other) < 0.8
            more["elapsed"] = torch.randint(1, 4, (WORLDS, AGENTS), generator=other)
        learner.replay.add(*row, next_active, **more)
    return learner, g


def assert_equal_learning(config: SACConfig, steps: int, spread: float = 1.0, change=None) -> None:  # type: ignore[no-untyped-def]
    """Weights, moments, temperature and figures after so many steps, within 1e-5 of their scale; and as many draws."""
    results = []
    for compiled in (True, False):
        learner, g = filled(config, compiled, spread)
        assert (learner.compiled is not None) == compiled
        if change is not None:
            change(learner)
        figures = learner.learn(*learner.draw(steps, g), g)
        results.append(learner.parts() | {"figures": figures, "next draw": torch.rand(9, generator=g)})
    for name, mine in results[0].items():
        reference = results[1][name].double()
        error = (mine.double() - reference).abs().max() / reference.abs().max().clamp(min=1e-3)
        assert error < 1e-5, (name, error)


BASE = SACConfig(batch=64, hidden=(32, 32), buffer_size=1000)
CASES = {
    "one layer": replace(BASE, hidden=(16,)),
    "relu": BASE,
    "tanh, odd sizes": replace(BASE, batch=37, hidden=(19, 33), activation="tanh"),
    "elu, three layers": replace(BASE, batch=5, hidden=(24, 8, 40), activation="elu"),
    "widest": replace(BASE, batch=256, hidden=(128, 128, 128), learning_rate=3e-4),
    "three steps": replace(BASE, n_step=3, gamma=0.9),
    "more steps than are stored": replace(BASE, n_step=50, gamma=0.6),
    "one transition": replace(BASE, batch=1),
    "raw observations": replace(BASE, normalize_observations=False, obs_clip=0.7),
    "other settings": replace(
        BASE, tau=0.3, gamma=0.5, learning_rate=2e-3, initial_temperature=0.2, target_entropy=1.0
    ),
    "one critic": replace(BASE, critics=1, target_critics=1),
    "five critics": replace(BASE, critics=5, target_critics=5),
    "a subset": replace(BASE, critics=5, target_critics=2, tau=0.3),
    "the mean of all": replace(BASE, critics=3, policy_value="mean"),
    "the first": replace(BASE, critics=3, policy_value="first"),
    "a policy now and then": replace(BASE, policy_every=3),
    "a policy at last": replace(BASE, policy_every=50),
    "layer norm": replace(BASE, critic_layer_norm=True, tau=0.3),
    "layer norm, odd sizes": replace(BASE, batch=37, hidden=(19, 33), activation="tanh", critic_layer_norm=True),
    "dropout": replace(BASE, critic_dropout=0.3, tau=0.3),
    "dropout, odd sizes": replace(BASE, batch=37, hidden=(19, 33, 8), activation="elu", critic_dropout=0.6),
    "redq": replace(BASE, critics=6, target_critics=2, policy_every=4, policy_value="mean"),
    "droq": replace(BASE, critic_layer_norm=True, critic_dropout=0.2, policy_every=4, policy_value="mean", n_step=3),
    "all": replace(
        BASE, critics=4, target_critics=3, critic_layer_norm=True, critic_dropout=0.2, policy_every=2, activation="elu"
    ),
    "no hidden layer": replace(BASE, hidden=(), critic_layer_norm=True, critic_dropout=0.2),
}
OFTEN = ("one layer", "elu, three layers", "a subset", "a policy now and then", "dropout, odd sizes", "all")
"""Cases that every run learns 50 steps of."""
REGULARIZED = {
    "critic_layer_norm": True,
    "critic_dropout": 0.2,
    "critics": 4,
    "policy_every": 2,
    "policy_value": "mean",
}


@pytest.mark.parametrize(
    ("case", "steps"),
    slow_but(
        [*((case, 1) for case in CASES), *((case, 50) for case in OFTEN)], [(c, n) for c in CASES for n in (1, 50)]
    ),
)
def test_gradient_steps_equal_those_of_torch(case: str, steps: int) -> None:
    assert_equal_learning(CASES[case], steps)


@pytest.mark.parametrize("n_step", [1, 3, 50])
def test_targets_of_steps_that_take_several_control_steps_equal_those_of_torch(n_step: int) -> None:
    """By the losses of one gradient step, which rounding hardly touches."""
    losses = []
    for compiled in (True, False):
        learner, g = filled(replace(BASE, n_step=n_step, gamma=0.9, batch=256), compiled, spans=True)
        losses.append(learner.learn(*learner.draw(1, g), g))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
    learner, g = filled(replace(BASE, n_step=n_step, gamma=0.9, batch=256), True)
    plain = learner.learn(*learner.draw(1, g), g)
    assert (plain[0] - losses[0][0]).abs() > 1e-3, "without them the targets are others"


SHOWN = list(itertools.product((1, 3), (0.25, 1.0), (False, True)))


@pytest.mark.parametrize(
    ("n_step", "share", "regularized"), slow_but([(1, 0.25, False), (3, 1.0, False), (3, 0.25, True)], SHOWN)
)
def test_batches_with_demonstrations(n_step: int, share: float, regularized: bool) -> None:
    """Recorded in one world, of episodes that end in every way; seldom equal in number to what is in the memory."""

    change = REGULARIZED if regularized else {}

    def show(learner: SACLearner) -> None:
        g = torch.Generator().manual_seed(2)
        recorded = Replay(90, 1, AGENTS, OBS, ACT, "cpu")
        for i in range(90):
            obs, following, final = torch.randn(3, 1, AGENTS, OBS, generator=g)
            acts = 2.0 * torch.rand(1, AGENTS, ACT, generator=g) - 1.0
            ended, cut = torch.tensor([i % 20 == 9]), torch.tensor([i % 20 == 19])
            recorded.add(obs, acts, torch.randn(1, AGENTS, generator=g), following, ended, cut, final)
        learner.learn_from(recorded)

    assert_equal_learning(replace(BASE, n_step=n_step, demonstration_share=share, **change), 20, change=show)


@pytest.mark.parametrize("bias", [-30.0, 1.0, 5.0])
def test_at_the_limits_of_the_standard_deviation_and_of_the_action(bias: float) -> None:
    """Large deviations saturate the squash, and beyond its limits the deviation has no gradient."""

    def shift(learner: SACLearner) -> None:
        learner.actor.biases[-1].data[0, 0, ACT:] += bias
        learner.actor.biases[-1].data[0, 0, 0] += 20.0
        raw = learner.actor(torch.zeros(1, OBS))[0, 0, ACT:]
        assert ((raw < LOG_STD_MIN) | (raw > LOG_STD_MAX)).any() == (bias != 1.0)

    assert_equal_learning(BASE, 1, change=shift)


@pytest.mark.parametrize(
    "case", ["relu", "a subset", "the mean of all", "layer norm", "dropout", "dropout, odd sizes", "all"]
)
def test_the_gradients_are_those_of_autograd(case: str) -> None:
    """One step from rest: Adam's first moment is a tenth of the gradient."""
    config = replace(CASES[case], policy_every=1)
    kernel, g = filled(config, True)
    reference, its = filled(config, False)
    kernel.learn(*kernel.draw(1, g), g)
    reference.learn(*reference.draw(1, its), its)
    for part, optimizer in reference.optimizers.items():
        mine = kernel.optimizers[part]
        for p, q in zip(optimizer.param_groups[0]["params"], mine.param_groups[0]["params"], strict=True):
            want = p.grad
            torch.testing.assert_close(10.0 * mine.state[q]["exp_avg"], want, rtol=1e-4, atol=1e-5 * want.abs().max())
            assert mine.state[q]["step"] == 1 and want.abs().max() > 0.0


@pytest.mark.parametrize("case", slow_but(OFTEN, CASES))
def test_actions_equal_those_of_torch(case: str) -> None:
    """Far beyond the limits of the observations and of the standard deviation as well."""
    acted = []
    for compiled in (True, False):
        learner, g = filled(CASES[case], compiled)
        learner.learn(*learner.draw(3, g), g)
        learner.actor.biases[-1].data[0, 0, ACT] += 5.0
        obs = torch.randn(WORLDS, AGENTS, OBS, generator=g) * torch.tensor([1.0, 100.0])[:, None]
        acted.append(learner.act(obs, g, random=False))
    torch.testing.assert_close(*acted, rtol=0.0, atol=2e-5)
    assert acted[0].shape == (WORLDS, AGENTS, ACT) and acted[0].std() > 0.1


@pytest.mark.parametrize("critics", [2, 4])
def test_equal_critics_share_the_policys_gradient(critics: int) -> None:
    """As torch.amin divides it."""

    def copy(learner: SACLearner) -> None:
        for p in (*learner.critics.parameters(), *learner.targets.parameters()):
            p.data[1] = p.data[0]

    assert_equal_learning(replace(BASE, critics=critics, target_critics=critics), 3, change=copy)


@pytest.mark.parametrize("change", [{}, REGULARIZED | {"policy_every": 3, "target_critics": 2}])
def test_several_steps_in_a_call_are_those_of_several_calls(change: dict[str, Any]) -> None:
    """Of the policy too, whose turn is every third step of all."""
    together, g = filled(replace(BASE, **change), True)
    apart, its = filled(replace(BASE, **change), True)
    index, noise = together.draw(4, g)
    apart.draw(4, its)
    together.learn(index, noise, g)
    for i, n in zip(index, noise, strict=True):
        apart.learn(i[None], n[None], its)
    mine = together.parts()
    assert all(torch.equal(mine[k], v) for k, v in apart.parts().items())


def test_figures_are_means_over_the_steps_of_the_policy() -> None:
    """And zeros where it takes none."""
    learner, g = filled(replace(BASE, policy_every=4), True)
    for value in learner.critics.parameters():
        value.data.zero_()
    entropies = []
    for steps in (3, 2):
        figures = learner.learn(*learner.draw(steps, g), g)
        entropies.append(figures[2].item())
        assert figures[0] > 0.0 and (figures[1:].abs().max() > 0.0) == (steps == 2)
    assert figures[4] == 1.0 and entropies[0] == 0.0


def test_it_learns_in_torch_what_it_learnt_in_the_kernel() -> None:
    """A state of either kind goes on in the other."""
    config = SACConfig(rollout_steps=4, learning_starts=16, batch=16, buffer_size=200, hidden=(16,))
    first = SAC(ToyEnv(), config)
    train(first, first.env, first.env.reset()[0], 5)
    second = SAC(ToyEnv(), replace(config, compiled=False))
    second.load_state_dict(first.state_dict())
    ends = []
    for sac in (first, second):
        learner = sac.learners["point"]
        learner.learn(*learner.draw(3, g := torch.Generator().manual_seed(0)), g)
        ends.append(learner.parts())
    assert all((ends[0][k].double() - v.double()).abs().max() < 1e-5 for k, v in ends[1].items())


def test_wide_and_deep_networks_learn_in_torch() -> None:
    for hidden, fits in (((256,), True), ((257,), False), ((8,) * 3, True), ((8,) * 4, False)):
        config = SACConfig(rollout_steps=4, buffer_size=200, hidden=hidden)
        assert (SAC(ToyEnv(), config).learners["point"].compiled is not None) == fits
