"""PPO with discrete, masked and mixed actions: gradients against autograd, best values of small decision processes, and what
cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from policies_choices import Corridor, Darts, Locks, Process, Quivers
from policies_toy import assert_resumes, collect, train
from sampled import slow_but
from torch.distributions import Categorical, Normal, kl_divergence

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_heads import Mixed
from rookery.policies.algorithms.sac import SAC
from rookery.policies.algorithms.td3 import TD3
from rookery.policies.nn.choices import Choices
from rookery.policies.stages.choose import Choose
from rookery.policies.storage.rollout import ActionDraws
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.reduction import ALONE
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete

CONFIG = PPOConfig(
    rollout_steps=12,
    epochs=4,
    minibatches=2,
    hidden=(32,),
    entropy_coef=0.003,
    gamma=0.95,
    learning_rate=3e-3,
    initial_std=0.4,
)
KINDS = (Corridor, Locks, Darts, Quivers)
TASKS = pytest.mark.parametrize("task", KINDS)


def two_masks() -> Choices:
    return Choices(ActionSpec("k", choices=(Discrete("a", ("1", "2", "3")), Discrete("b", ("1", "2"))), masked=True))


def test_probabilities_entropy_and_divergence_equal_those_of_torch():
    choices = two_masks()
    torch.manual_seed(0)
    logits, others = 2.0 * torch.randn(2, 200, 5, dtype=torch.float64)
    allowed = torch.rand(200, 5) < 0.6
    allowed[:, [0, 3]] |= ~torch.stack((allowed[:, :3].any(-1), allowed[:, 3:].any(-1)), -1)
    log_probs, old = choices.log_probs(logits, allowed), choices.log_probs(others, allowed)
    cut = [torch.where(allowed, x, -1e300).split([3, 2], -1) for x in (logits, others)]
    new_parts, old_parts = ([Categorical(logits=part) for part in parts] for parts in cut)
    chosen = torch.stack([p.sample() for p in old_parts], -1)
    want = sum(p.log_prob(i) for p, i in zip(new_parts, chosen.unbind(-1), strict=True))
    torch.testing.assert_close(choices.log_prob(log_probs, chosen.float()), want)
    torch.testing.assert_close(choices.entropy(log_probs), sum(p.entropy() for p in new_parts))
    want = sum(kl_divergence(p, q) for p, q in zip(old_parts, new_parts, strict=True))
    torch.testing.assert_close(choices.divergence(old, log_probs), want)
    best, _ = Choose.of(choices.spec).step({}, logits, logits[:, :0], allowed)
    assert torch.equal(best, torch.stack([p.probs.argmax(-1) for p in new_parts], -1).double())


def test_samples_have_their_probabilities_and_masks_are_kept():
    choices = two_masks()
    logits = torch.tensor([0.0, 1.0, 5.0, -1.0, 1.0]).expand(40_000, 5)
    allowed = torch.tensor([True, True, False, True, True]).expand(40_000, 5)
    log_probs = choices.log_probs(logits, allowed)
    gumbel = -torch.empty(40_000, 5).exponential_(generator=torch.Generator().manual_seed(0)).log()
    drawn = choices.sample(log_probs, gumbel)
    assert (drawn[:, 0] != 2).all()
    assert drawn[:, 0].mean().item() == pytest.approx(torch.tensor(1.0).sigmoid().item(), abs=0.01)
    assert drawn[:, 1].mean().item() == pytest.approx(torch.tensor(2.0).sigmoid().item(), abs=0.01)
    nothing = torch.zeros_like(allowed)
    torch.testing.assert_close(choices.log_probs(logits, nothing), choices.log_probs(logits))


@TASKS
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_the_loss_equal_autograd(task, frozen):
    """By the policy network's outputs and the log standard deviations, far enough from the old policy that some are clipped."""
    config = replace(CONFIG, entropy_coef=0.05, critic_warmup=int(frozen), minibatches=1)
    ppo = PPO(task(16), config)
    learner = ppo.learners["agent"]
    obs, _ = ppo.env.reset()
    obs = collect(ppo, ppo.env, obs, config.rollout_steps)
    samples = learner.samples(obs["agent"], None, None)
    g = torch.Generator().manual_seed(1)
    learner.parameters += 0.3 * torch.randn(learner.parameters.shape, generator=g)
    worker = learner.workers[0]
    rows = samples.action.shape[1]
    got: list[torch.Tensor] = []
    own = worker.actor.backward
    worker.actor.backward = lambda grad: (got.append(grad.clone()), own(grad))[1]  # type: ignore[method-assign]
    with torch.no_grad():
        figures = ppo.loss_gradients(learner, worker, samples, slice(0, rows), rows)
        outputs = worker.mean_action(samples).clone()
    spec = learner.spec.action
    if not spec.read_by and not frozen:
        worker.log_std_grad -= config.entropy_coef  # as PPO.learn does
    outputs.requires_grad_()
    log_std = learner.log_std.detach().clone().requires_grad_()
    allowed = samples.choice_log_probs > -torch.inf
    sizes = [len(c.options) for c in spec.choices]
    cut = torch.where(allowed, outputs[..., : spec.options], -1e9).split(sizes, -1)
    heads = [Categorical(logits=part) for part in cut]
    normal = Normal(outputs[..., spec.options :], log_std.exp())
    count = len(sizes)
    action = samples.action
    log_prob = sum(h.log_prob(action[..., k].long()) for k, h in enumerate(heads))
    read = torch.tensor(
        [[o < 0 or o == option for o in spec.read_by] or [True] * len(spec.names) for option in range(sizes[0])]
    )
    reading = read[action[..., 0].long()]  # of one choice, where it matters
    numbers = ((normal.log_prob(action[..., count:]) + 0.9189385) * reading).sum(-1)  # without the constant
    ratio = (log_prob + numbers - samples.log_prob).exp()
    surrogate = torch.min(ratio * samples.advantage, ratio.clamp(0.8, 1.2) * samples.advantage)
    entropy = sum(h.entropy() for h in heads) + (normal.entropy() * reading).sum(-1)
    loss = torch.zeros(()) * outputs.sum() if frozen else -(surrogate + 0.05 * entropy).mean()
    want = torch.autograd.grad(loss, (outputs, log_std), allow_unused=True)
    assert 0.02 < ((ratio - 1.0).abs() > 0.2).float().mean() < 0.98
    torch.testing.assert_close(torch.cat(got, 1), want[0], rtol=1e-4, atol=1e-7)
    if spec.names and not frozen:
        torch.testing.assert_close(worker.log_std_grad, want[1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(figures[0], -surrogate.mean(1).detach(), rtol=1e-4, atol=1e-5)
    old = samples.choice_log_probs.split(sizes, -1)
    kl = sum(kl_divergence(Categorical(logits=o.clamp_min(-1e9)), h) for o, h in zip(old, heads, strict=True)).mean()
    if spec.names:
        log_ratio = numbers - (
            samples.log_prob - sum(o.gather(-1, action[..., k, None].long()).squeeze(-1) for k, o in enumerate(old))
        )
        kl = kl + (log_ratio.exp() - 1.0 - log_ratio).mean()
    torch.testing.assert_close(figures[2, 0], kl.detach(), rtol=1e-3, atol=1e-5)


LEARNT = [*((task, "none") for task in KINDS), (Corridor, "gru")]


@pytest.mark.parametrize(("task", "memory"), slow_but(LEARNT[2:3], LEARNT))
def test_the_best_value_is_learnt_and_deployed(task, memory):
    torch.manual_seed(0)
    extra = {"memory": "gru", "memory_size": 16} if memory == "gru" else {}
    ppo = PPO(task(64), replace(CONFIG, **extra))
    obs, _ = ppo.env.reset()
    _, figures = train(ppo, ppo.env, obs, 60)
    env = task(64, seed=7)
    found = evaluate(env, act_with(ppo.policies(), env), 512, seed=7)["return_mean"]
    assert found > 0.97 * task.BEST, (found, task.BEST)
    assert found < 1.03 * task.BEST
    first = figures[0]["agent/entropy"]
    action = ppo.learners["agent"].spec.action
    uniform = sum(torch.tensor(float(len(c.options) - action.masked)).log().item() for c in action.choices)
    owned = sum(option >= 0 for option in action.read_by)  # of which one option in three reads each
    numbers = len(action.names) - owned * 2 / 3
    assert first == pytest.approx(uniform + numbers * (1.4189385 + torch.tensor(0.4).log().item()), abs=0.1)
    assert figures[-1]["agent/entropy"] < first


def test_what_the_chosen_option_does_not_read_changes_no_probability():
    ppo = PPO(Quivers(8), replace(CONFIG, rollout_steps=2))
    learner = ppo.learners["agent"]
    obs, _ = ppo.env.reset()
    obs = collect(ppo, ppo.env, obs, 2)
    samples = learner.samples(obs["agent"], None, None)
    outputs = learner.workers[0].mean_action(samples).clone() + 0.1
    seen = learner.head.compare(outputs, samples, learner.log_std)
    board = samples.action[0, :, 0].long()
    own = torch.nn.functional.one_hot(board, 3).repeat_interleave(2, -1).bool()
    others = samples.action.clone()
    others[0, :, 1:7][~own] += 1.0
    again = learner.head.compare(outputs, replace(samples, action=others), learner.log_std)
    assert torch.equal(seen.log_ratio, again.log_ratio)
    others[0, :, 1:7][own] += 1.0
    again = learner.head.compare(outputs, replace(samples, action=others), learner.log_std)
    assert not torch.isclose(seen.log_ratio, again.log_ratio).any()


@pytest.mark.parametrize("task", [Darts, Quivers])
def test_entropy_pulls_at_deviations_as_often_as_they_are_read(task):
    """By all of an optimizer step, in whose loss half of the samples count."""
    pulls = []
    for coef in (0.0, 0.05):
        ppo = PPO(task(16), replace(CONFIG, entropy_coef=coef, minibatches=1))
        learner = ppo.learners["agent"]
        collect(ppo, ppo.env, ppo.env.reset()[0], CONFIG.rollout_steps)
        samples = learner.samples(ppo._last_obs["agent"], None, None)
        rows = samples.action.shape[1]
        samples = replace(samples, active=torch.arange(rows).expand(1, -1) % 2 == 0)
        learner.adam.step = lambda rate, of=learner: pulls.append(of.workers[0].log_std_grad.clone())
        ppo.learn(learner, samples, slice(0, rows), rows // 2)
    spec = learner.spec.action
    read = torch.tensor(
        [[o < 0 or o == option for o in spec.read_by] or [True] * len(spec.names) for option in range(spec.options)]
    )
    shares = read[samples.action[0, ::2, 0].long()].float().mean(0)
    torch.testing.assert_close(pulls[1] - pulls[0], -0.05 * shares.expand_as(pulls[0]), rtol=1e-3, atol=1e-6)


@TASKS
def test_it_resumes_with_the_same_bits(task):
    assert_resumes(lambda: PPO(task(8), CONFIG, seed=3), 2)


def test_a_mask_that_allows_nothing_is_refused():
    env = Locks(4)
    ppo = PPO(env, CONFIG)
    env.reset()
    mask = env.action_mask["agent"].clone()
    mask[2, 0, 3:] = False
    head = ppo.learners["agent"].head
    assert isinstance(head, Mixed)
    with pytest.raises(RookeryError, match=r"no option of 'dial_1' is allowed to group 'agent' in world 2"):
        head.choices.check(mask, None, "agent")
    head.choices.check(mask, torch.tensor([[True], [True], [False], [True]]), "agent")


@pytest.mark.parametrize("algorithm", [SAC, TD3])
def test_what_is_for_numbers_says_so(algorithm):
    with pytest.raises(
        RookeryError, match=r"learns continuous actions, and group 'agent' chooses its 'direction' among left"
    ):
        algorithm(Corridor(4))


def test_a_mirror_is_left_out_by_its_option():
    """As of a task with choices whose base has a preset with mirror symmetry."""
    config = replace(CONFIG, mirror=True, normalize_observations=False)
    with pytest.raises(
        RookeryError, match=r"mirror is for .* chooses its 'direction' .*: give mirror=false \(--no-mirror\)"
    ):
        PPO(Corridor(4), config)


def test_an_index_of_no_option_is_refused():
    env = Corridor(3)
    env.reset()
    for wrong in (3.0, -1.0, 0.5):
        with pytest.raises(
            RookeryError, match=r"'direction' of 'agent' is the index of an option, 0 to 2 \(left, stay, right\)"
        ):
            env.step(torch.tensor([[[0.0]], [[wrong]], [[1.0]]]))


def test_declarations_that_contradict_themselves_are_refused():
    with pytest.raises(ValueError, match="different names"):
        ActionSpec("k", choices=(Discrete("a", ("x",)), Discrete("a", ("y",))))
    with pytest.raises(ValueError, match="no component"):
        ActionSpec("k")
    with pytest.raises(ValueError, match="masked and has no choices"):
        ActionSpec("k", ("n",), (0.0,), (1.0,), ("1",), (0.0,), masked=True)
    with pytest.raises(ValueError, match="neutral is 2, of 2 options"):
        Discrete("a", ("x", "y"), neutral=2)
    with pytest.raises(ValueError, match="different names"):
        Discrete("a", ("x", "x"))


def test_copies_of_the_process_are_alike() -> None:
    """The tests above lean on it: a saved state continues as if it had not been saved."""
    one: Process = Locks(4)
    one.reset()
    other: Process = Locks(4)
    other.reset()
    other.load_state_dict(one.state_dict())
    for _ in range(6):
        action = torch.stack(
            [m.float().argmax(-1) for m in one.action_mask["agent"][:, 0].split([3, 4], -1)], -1
        ).float()
        assert torch.equal(one.step(action[:, None])[1]["agent"], other.step(action[:, None])[1]["agent"])


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_compiled_draws_are_those_of_torch(sets: int, masked: bool) -> None:
    spec = ActionSpec(
        "k", ("x", "y"), (-1.0, -1.0), (1.0, 1.0), ("", ""), (0.0, 0.0),
        (Discrete("a", ("p", "q", "r")), Discrete("b", ("s", "t"))),
    )  # fmt: skip
    head = Mixed(spec)
    generator = torch.Generator().manual_seed(sets)
    roll = ActionDraws(1, 40, 2, 3, spec, 0, torch.device("cpu"))
    head.start(roll, generator, ALONE)
    assert roll.gumbel is not None
    assert roll.choice_log_probs is not None
    outputs = 3.0 * torch.randn(40, 2, 7, generator=generator)
    std = torch.rand(1, sets, 2, generator=generator)
    allowed = torch.rand(40, 2, 5, generator=generator) < 0.5 if masked else None  # some have no option at all
    head.sample(roll, 0, outputs, std, allowed)
    log_probs = head.choices.log_probs(outputs[..., :5], allowed)
    assert torch.allclose(roll.choice_log_probs[0], log_probs, rtol=1e-5, atol=1e-6)
    assert torch.equal(roll.action[0, ..., :2], head.choices.sample(log_probs, roll.gumbel[0]))
    assert torch.allclose(roll.action[0, ..., 2:], outputs[..., 5:] + std * roll.noise[0], rtol=1e-6, atol=1e-6)


def test_compiled_log_probabilities_are_exact_where_logits_are_large() -> None:
    spec = ActionSpec("k", choices=(Discrete("a", ("p", "q", "r")), Discrete("b", ("s", "t"))))
    head = Mixed(spec)
    generator = torch.Generator().manual_seed(0)
    roll = ActionDraws(1, 50, 1, 3, spec, 0, torch.device("cpu"))
    head.start(roll, generator, ALONE)
    assert roll.choice_log_probs is not None
    outputs = 1e4 + torch.randn(50, 1, 5, generator=generator)
    head.sample(roll, 0, outputs, torch.ones(1, 1, 0), None)
    exact = head.choices.log_probs(outputs.double())
    assert torch.allclose(roll.choice_log_probs[0].double(), exact, rtol=0.0, atol=1e-6)
