"""One step of the regression and the figures of DAgger, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_toy import ToyEnv

from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.regression import MAX_PARTS, PART_ROWS, ActionRegression, RegressionConfig
from rookery.policies.imitation.teacher import ControllerTeacher
from rookery.policies.policy import layers_of
from rookery.sim.specs import ActionSpec, Group, Term

ACTION = ActionSpec("push", ("a", "b"), (-1.0, -1.0), (1.0, 1.0), ("m", "m"), (0.2, -0.1))
GROUP = Group(1, (Term("position", 3, "m"),), ACTION)


LOSSES = {"squared": torch.square, "absolute": torch.abs}


def regression(**settings: Any) -> ActionRegression:
    return ActionRegression(GROUP, RegressionConfig(hidden=(4,), **settings), torch.Generator().manual_seed(0))


def batch(size: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    return torch.randn(size, 3, generator=chance), torch.rand(size, 2, generator=chance)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", [None, [0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0, 0.0], [0.0] * 5])
def test_the_loss_is_the_mean_of_the_samples_that_count(weights, loss):
    made = regression(loss=loss)
    obs, expert = batch()
    own = made.policy()(obs)  # before the step
    of_sample = LOSSES[loss](own - expert).mean(1)
    counted = of_sample if weights is None else of_sample[torch.tensor(weights) > 0]
    found = made.learn(obs, expert, 0.0, None if weights is None else torch.tensor(weights))
    assert found.item() == pytest.approx(counted.mean().item() if len(counted) else 0.0, rel=1e-4)


@pytest.mark.parametrize(
    ("progress", "final", "rate"),
    [(0.0, 0.1, 1e-2), (0.5, 0.1, 5.5e-3), (1.0, 0.1, 1e-3), (0.5, 0.0, 5e-3), (1.0, 1.0, 1e-2)],
)
def test_adams_first_step_is_as_long_as_the_learning_rate(progress, final, rate):
    made = regression(learning_rate=1e-2, final_rate=final)
    obs, expert = batch()
    before = made.state_dict()["parameters"].clone()
    made.learn(obs, expert, progress)
    change = (made.state_dict()["parameters"] - before).abs()
    assert change.max().item() == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", [None, [0.0, 1.0, 0.0, 1.0, 0.0]])
@pytest.mark.parametrize("size", [5, 2 * PART_ROWS + 5, (MAX_PARTS + 1) * PART_ROWS])
def test_the_step_descends_the_loss_by_autograd(weights, loss, size):
    made = regression(max_grad_norm=1e9, loss=loss, batch=size)
    obs, expert = batch(size)
    policy = made.policy().requires_grad_(True)
    share = torch.ones(size) if weights is None else torch.tensor(weights).repeat(-(-size // 5))[:size]
    x = (obs - policy.get_buffer("normalize.mean")) / policy.get_buffer("normalize.std")
    for i, layer in enumerate(layers_of(policy)):
        x = torch.nn.functional.linear(x if i == 0 else x.tanh(), *layer)
    (LOSSES[loss](x - expert).mean(1) * share / share.sum()).sum().backward()
    made.learn(obs, expert, 0.0, None if weights is None else share)
    wanted = torch.cat([p.grad.T.flatten() if p.dim() == 2 else p.grad for p in policy.parameters()])
    torch.testing.assert_close(made._gradients[0].sort().values, wanted.sort().values, rtol=1e-4, atol=1e-7)


def test_any_number_of_threads_learns_the_same_bits_of_the_rows_named():
    size = 3 * PART_ROWS + 7
    obs, expert = batch(size)
    rows = torch.randperm(size, generator=torch.Generator().manual_seed(2))[: 2 * PART_ROWS + 100]
    weights = (torch.arange(size) % 3 > 0).float()
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            made = regression(batch=size)
            torch.set_num_threads(1)
            loss = [made.learn(obs, expert, 0.0, weights, rows).item() for _ in range(3)]
            results.append((loss, made.state_dict()["parameters"].clone()))
            made.close()
    finally:
        torch.set_num_threads(before)
    alone = regression(batch=size)
    losses = [alone.learn(obs[rows], expert[rows], 0.0, weights[rows]).item() for _ in range(3)]
    for loss, parameters in [*results, (losses, alone.state_dict()["parameters"])]:
        assert loss == results[0][0]
        assert torch.equal(parameters, results[0][1])
    assert losses[2] < losses[0]


def test_a_student_of_a_teacher_that_does_one_thing_or_the_other():
    chance = torch.Generator().manual_seed(3)
    found = {}
    for loss in LOSSES:
        made = regression(loss=loss, learning_rate=0.02)
        for _ in range(400):
            obs = torch.zeros(256, 3)
            often = torch.rand(256, 1, generator=chance) < 0.75
            made.learn(obs, torch.where(often, 0.8, -0.4).expand(256, 2), 0.0)
        found[loss] = made.act(torch.zeros(1, 1, 3)).mean().item()
    assert found["squared"] == pytest.approx(0.75 * 0.8 - 0.25 * 0.4, abs=0.1), "the mean of both"
    assert found["absolute"] == pytest.approx(0.8, abs=0.1), "the more frequent one"


def test_actions_stay_in_their_range_and_an_untrained_policy_is_neutral():
    made = regression()
    obs = batch()[0].view(1, 5, 3)
    torch.testing.assert_close(made.act(obs), torch.tensor([0.2, -0.1]).expand(1, 5, 2), atol=0.05, rtol=0.0)
    with torch.no_grad():
        made._parameters.mul_(1e3)
    assert made.act(obs).min() >= -1.0 and made.act(obs).max() <= 1.0 and made.act(obs).abs().max() == 1.0


def test_daggers_figures_are_means_over_the_rollout():
    env = ToyEnv(6, agents=2, horizon=5)
    dagger = DAgger(
        env, DAggerConfig(rollout_steps=4, hidden=(4,)), inputs={"teacher": ControllerTeacher(env.controller())}
    )
    obs, _ = env.reset()
    for k in range(2):  # sums begin anew with each rollout
        assert dagger.updates == k
        errors, rewards = [], []
        for _ in range(4):
            own = dagger.students["point"].network.act(obs["point"])
            expert = (-2.0 * obs["point"][..., :1]).clamp(-1.0, 1.0)
            errors.append(((own - expert) ** 2).mean())
            actions = dagger.act(obs)
            result = env.step(actions)
            dagger.observe(obs, actions, result)
            rewards.append(result[1]["point"].mean())
            obs = result[0]
        figures = dagger.update(0.0)
        assert figures["error"] == pytest.approx(torch.stack(errors).mean().item(), rel=1e-5)
        assert figures["reward"] == pytest.approx(torch.stack(rewards).mean().item(), rel=1e-5)
