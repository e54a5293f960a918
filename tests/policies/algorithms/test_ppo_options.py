"""PPO of decisions that last: credit against its definition and closed forms, over the ends of rollouts and episodes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from decay import GAMMA, LENGTH, Decay, targets
from policies_choices import Darts
from policies_fake import FakeEnv
from policies_toy import collect
from torch import Tensor
from torch.distributions import Normal

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_options import OptionLearner, Options, option_credit
from rookery.policies.algorithms.sac import SAC
from rookery.sim.errors import RookeryError

T, M, LAM = 23, 40, 0.9


def random_options(seed: int) -> tuple[Options, Tensor]:
    """A rollout of random decisions, ends and durations, and the values of the decisions."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    chance = lambda p, *shape: torch.rand(*shape, generator=g) < p  # noqa: E731
    terminated, truncated = chance(0.08, T, M), chance(0.08, T, M)
    over = terminated | truncated
    began = torch.cat(
        (chance(0.3, 1, M), over[:-1] & chance(0.8, T - 1, M))
    )  # most decide as an episode begins: who is active
    decides = began | chance(0.3, T, M)
    carried = ~decides[0]  # somebody decided before whoever does not now
    due = chance(0.5, M)
    row = torch.full((T, M), -1)
    count = int(carried.sum())
    row[decides] = torch.arange(count, count + int(decides.sum()))
    first = torch.full((M,), -1)
    first[carried] = torch.arange(count)
    value = draw(count + int(decides.sum()))
    zero = torch.zeros(M, dtype=torch.float64)
    gain = GAMMA ** torch.randint(1, 4, (T, M), generator=g).double()
    carried_gain = torch.where(carried, GAMMA ** torch.randint(1, 9, (M,), generator=g).double(), 0.0)
    last = torch.where(due, draw(M), zero)
    return Options(
        draw(T, M), gain, terminated, truncated, draw(T, M), row, first, torch.where(carried, draw(M), zero), carried_gain,
        last, due,
    ), value  # fmt: skip


def by_definition(o: Options, value: Tensor, m: int) -> dict[int, tuple[float, bool, float, float]]:
    """Of the decisions of agent m, forwards in time: advantage, whether it is under way, rewards so far and discount."""
    taken = [(-1, int(o.carried[m]))] * (o.carried[m] >= 0) + [(t, int(r)) for t, r in enumerate(o.row[:, m]) if r >= 0]
    out: dict[int, tuple[float, bool, float, float]] = {}
    after: tuple[float, float] | None = None  # advantage of the next decision of the episode
    for t, row in reversed(taken):
        reward, gain = (float(o.carried_reward[m]), float(o.carried_discount[m])) if t < 0 else (0.0, 1.0)
        k, bootstrap, chained, under = max(t, 0), None, 0.0, False
        while bootstrap is None:
            if k == T:
                under = not bool(o.due[m])
                bootstrap = float(o.last[m])
            elif k > t and o.row[k, m] >= 0:
                bootstrap = float(value[o.row[k, m]])
                chained = after[0] if after is not None else 0.0
            else:
                reward += gain * float(o.reward[k, m])
                gain *= float(o.discount[k, m])
                if o.terminated[k, m]:
                    bootstrap = 0.0
                elif o.truncated[k, m]:
                    bootstrap = float(o.final[k, m])
                k += 1
        advantage = 0.0 if under else reward + gain * bootstrap - float(value[row]) + gain * LAM * chained
        out[row] = (advantage, under, reward, gain)
        after = (advantage, 0.0)
    return out


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_credit_is_that_of_the_definition(seed: int) -> None:
    o, value = random_options(seed)
    got = option_credit(o, value, LAM)
    assert bool(got.open.any()) and not bool(got.open.all())
    seen = 0
    for m in range(M):
        for row, (advantage, under, reward, discount) in by_definition(o, value, m).items():
            assert bool(got.open[row]) == under
            assert float(got.advantage[row]) == pytest.approx(advantage, abs=1e-10)
            if under:
                assert (float(got.reward[row]), float(got.discount[row])) == pytest.approx(
                    (reward, discount), abs=1e-10
                )
            seen += 1
    assert seen == len(value)


class Lasting(Decay):
    """`Decay` in which agents decide at random steps, and always when an episode begins."""

    def __init__(self, share: float, **more: Any) -> None:
        super().__init__(agents=2, **more)
        self.share = share
        self.draws = torch.Generator().manual_seed(0)
        self.now = torch.ones_like(self.o, dtype=torch.bool)

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return {"agent": self.now.clone()}

    def step(self, actions: dict[str, Tensor] | Tensor) -> Any:
        result = super().step(actions)
        self.now = (torch.rand(self.o.shape, generator=self.draws) < self.share) | (result[2] | result[3]).unsqueeze(1)
        return result


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("drop", [0, 3])
def test_value_targets_of_decisions_are_the_values(terminates: bool, share: float, drop: int) -> None:
    """With the exact critic, each decision's target is the value of its observation, whatever its option's duration was, over
    ends of rollouts too. Where something ends for good the critic is exact no more: then nothing may be bootstrapped."""
    ends = terminates or drop > 0
    steps = LENGTH if ends else 7  # no multiple of an episode
    config = PPOConfig(
        rollout_steps=steps, minibatches=1, epochs=1, gamma=GAMMA, lam=1.0 if ends else 0.7, hidden=(),
        normalize_observations=False, normalize_values=False, obs_clip=1e6, learning_rate=1e-12,
    )  # fmt: skip
    worlds = 1 if drop else 3  # an observation says whose it is
    ppo = PPO(Lasting(share, terminates=terminates, drop=drop, worlds=worlds), config)
    learner = ppo.learners["agent"]
    assert isinstance(learner, OptionLearner)
    learner.critic.weights[0].fill_(1.0 / (1.0 - GAMMA * 0.8))  # type: ignore[attr-defined]
    learner.critic.biases[0].zero_()  # type: ignore[attr-defined]
    want = targets(LENGTH, terminates, 2, worlds, drop)
    o = targets(LENGTH, False, 2, worlds) * (1.0 - GAMMA * 0.8)  # observations by step of an episode, world and agent
    obs, _ = ppo.env.reset()
    learned, decided = 0, 0
    for _ in range(6):
        for _ in range(steps):
            active = ppo.env.active
            now = ppo.env.deciding["agent"] & (torch.ones(1) if active is None else active["agent"]).bool()  # type: ignore[index]
            decided += int(now.sum())
            actions = ppo.act(obs)
            result = ppo.env.step(actions)
            ppo.observe(obs, actions, result)
            obs = result[0]
        after = (ppo._of(learner, "active"), ppo._of(learner, "deciding"))
        carried = {k: v.clone() for k, v in learner.carried.items()}
        samples = learner.samples(obs["agent"], None, *after)
        learned += samples.action.shape[1]
        for seen, target in zip(samples.critic_input[0, :, 0], samples.value_target[0], strict=True):
            if ends:
                at = (o - seen).abs().flatten().argmin()
                assert float(target) == pytest.approx(float(want.flatten()[at]), rel=1e-4)
            else:
                assert float(target) == pytest.approx(float(seen) / (1.0 - GAMMA * 0.8), rel=1e-4)
        for k, v in learner.carried.items():  # as `update` finds it
            v.copy_(carried[k])
        ppo.update(0.0)
    assert learned + int(learner.carried["has"].sum()) == decided  # no decision is lost, none learned from twice


def test_semi_markov_bellman_equation() -> None:
    """In a random decision process, options that end at random under a fixed policy: with the solution of the semi-Markov
    Bellman equation as the critic, the advantages have mean 0 in every state."""
    g = torch.Generator().manual_seed(4)
    states, options, agents, steps = 4, 2, 4000, 60
    p = torch.rand(options, states, states, generator=g, dtype=torch.float64).softmax(-1)
    r = torch.randn(options, states, generator=g, dtype=torch.float64)
    ends = torch.tensor([0.3, 0.7], dtype=torch.float64)  # of an option, after each of its steps
    choose = torch.rand(states, options, generator=g, dtype=torch.float64).softmax(-1)
    eye = torch.eye(states, dtype=torch.float64)
    # U_o(s): value of being amid option o: r + g sum_s' p (end V(s') + (1 - end) U_o(s')); V(s) = sum_o choose U_o(s)
    inner = torch.stack([torch.linalg.inv(eye - GAMMA * (1 - ends[k]) * p[k]) for k in range(options)])
    reward = torch.stack([inner[k] @ r[k] for k in range(options)])
    onward = torch.stack([GAMMA * ends[k] * inner[k] @ p[k] for k in range(options)])
    mixed_reward = (choose.T * reward).sum(0)
    mixed = (choose.T.unsqueeze(2) * onward).sum(0)
    v = torch.linalg.solve(eye - mixed, mixed_reward)
    s = torch.randint(0, states, (agents,), generator=g)
    now, option = torch.ones(agents, dtype=torch.bool), torch.zeros(agents, dtype=torch.int64)
    rewards, rows, seen, at = [], [], [], 0
    for _ in range(steps):
        fresh = torch.multinomial(choose[s], 1, generator=g).squeeze(1)
        option = torch.where(now, fresh, option)
        row = torch.full((agents,), -1)
        row[now] = torch.arange(at, at + int(now.sum()))
        at += int(now.sum())
        seen.append(s[now])
        rows.append(row)
        rewards.append(r[option, s])
        s = torch.multinomial(p[option, s], 1, generator=g).squeeze(1)
        now = torch.rand(agents, generator=g, dtype=torch.float64) < ends[option]
    none = torch.zeros(steps, agents, dtype=torch.bool)
    zero = torch.zeros(agents, dtype=torch.float64)
    o = Options(
        torch.stack(rewards), GAMMA, none, none, torch.zeros(steps, agents, dtype=torch.float64), torch.stack(rows),
        torch.full((agents,), -1), zero, zero, torch.where(now, v[s], zero), now,
    )  # fmt: skip
    where = torch.cat(seen)
    early = torch.arange(at) < sum(len(x) for x in seen[:10])  # of those taken late, only the short ones would be over
    credit = option_credit(o, v[where], 0.0)
    assert not credit.open[early].any()
    for state in range(states):
        mine = credit.advantage[(where == state) & early]
        assert float(mine.mean().abs()) < 4.0 * float(mine.std()) / len(mine) ** 0.5
    flat = v.clone()
    flat += 1.0  # and a wrong critic would show: its error counts with 1 - g^d
    o.last = torch.where(now, flat[s], zero)
    wrong = option_credit(o, flat[where], 0.0).advantage[early]
    assert float(wrong.mean().abs()) > 6.0 * float(wrong.std()) / len(wrong) ** 0.5


class Amid(FakeEnv):
    """Agents decide every third step of an episode."""

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return {"point": (self.clock % 3 == 0).unsqueeze(1).expand(-1, self.x.shape[1]).clone()}


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(RookeryError, match="SAC learns from every control step"):
        SAC(Amid())
    with pytest.raises(RookeryError, match="neither a memory nor a state estimator"):
        PPO(Amid(), PPOConfig(memory="gru"))
    with pytest.raises(RookeryError, match="share their weights"):
        PPO(Amid(agents=2), PPOConfig(share=False))


def test_fewer_options_than_minibatches_make_one_each() -> None:
    found = []
    for minibatches in (2, 6):
        ppo = PPO(Amid(num_envs=2), PPOConfig(rollout_steps=3, minibatches=minibatches, hidden=(4,)), seed=5)
        obs, _ = ppo.env.reset()
        collect(ppo, ppo.env, obs, 3)
        before = ppo.learners["point"].parameters.clone()
        figures = ppo.update(0.0)
        found.append((ppo.learners["point"].parameters.clone(), figures))
        assert not torch.equal(before, found[-1][0])
    assert torch.equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]


@pytest.mark.parametrize("near", [0.0, 0.1])
def test_a_rollout_in_which_no_option_ends_changes_nothing(near: float) -> None:
    config = PPOConfig(
        rollout_steps=2, minibatches=2, hidden=(4,), schedule="adaptive", normalize_values=True, learning_rate=1e-3,
        reference_kl_coef=near,
    )  # fmt: skip
    ppo = PPO(Amid(num_envs=2), config)
    obs, _ = ppo.env.reset()
    learner = ppo.learners["point"]
    changed = []
    for _ in range(6):
        before = learner.parameters.clone(), learner.learning_rate.clone()
        obs = collect(ppo, ppo.env, obs, 2)
        figures = ppo.update(0.0)
        assert all(math.isfinite(x) for x in figures.values()), figures
        changed.append(not torch.equal(before[0], learner.parameters))
        if not changed[-1]:
            assert torch.equal(before[1], learner.learning_rate) and figures["point/policy_loss"] == 0.0
    assert changed == [False, True, True, False, True, True]  # decisions at every third step


class AmidDarts(Darts):
    """Agents decide every second step of an episode."""

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return {name: (self.clock % 2 == 0).unsqueeze(1).clone() for name in self.groups}


def test_the_entropy_is_that_of_the_choices_that_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all where no option has ended, so that it stays a number."""
    env = AmidDarts(num_envs=6)
    ppo = PPO(env, PPOConfig(rollout_steps=1, minibatches=2, hidden=(4,), learning_rate=1e-9), seed=2)
    ((name, learner),) = ppo.learners.items()
    samples, made = learner.samples, []
    monkeypatch.setattr(learner, "samples", lambda *given: made.append(samples(*given)) or made[-1])
    obs, _ = env.reset()
    for _ in range(7):
        obs = collect(ppo, env, obs, 1)
        found = ppo.update(0.0)[f"{name}/entropy"]
        learned = made[-1].choice_log_probs[0]
        assert math.isfinite(found)
        if len(learned):
            numbers = Normal(0.0, learner.std.flatten()).entropy().sum()
            assert found == pytest.approx(float(numbers - (learned.exp() * learned).sum(-1).mean()), rel=1e-4)
    assert {len(x.choice_log_probs[0]) > 0 for x in made} == {False, True}


@pytest.mark.parametrize(
    "more", [{"critic": "central"}, {"policies": ("first=point_0", "others=point_1,point_2")}, {"compiled": False}]
)
def test_a_central_critic_and_sets_of_agents_learn_from_decisions(more: dict[str, Any]) -> None:
    """Each set has its own agents' decisions; a central critic learns the value of a decision from the state at it."""
    config = PPOConfig(rollout_steps=8, minibatches=2, hidden=(8,), **more)
    ppo = PPO(Amid(num_envs=6, agents=3, horizon=11), config)
    before = {k: v.clone() for k, v in ppo.state_dict().items() if k.endswith("/parameters")}
    obs, _ = ppo.env.reset(0)
    for _ in range(3):
        for _ in range(8):
            actions = ppo.act(obs)
            result = ppo.env.step(actions)
            ppo.observe(obs, actions, result)
            obs = result[0]
        figures = ppo.update(0.0)
        assert all(value == value for value in figures.values())
    after = ppo.state_dict()
    assert all(not torch.equal(x, after[k]) for k, x in before.items())
    for learner in ppo.learners.values():
        assert isinstance(learner, OptionLearner)
        assert len(learner.carried["has"]) == 6 * learner.spec.count


def test_a_decision_that_is_carried_over_keeps_the_density_with_which_it_was_drawn() -> None:
    """The policy has learned since; the ratio of the loss is to the policy that took the decision."""
    config = PPOConfig(
        rollout_steps=10, minibatches=1, hidden=(4,), learning_rate=0.05, normalize_observations=False, obs_clip=1e6
    )
    ppo = PPO(Amid(num_envs=5, agents=2, horizon=50, limit=1e9), config)
    learner = ppo.learners["point"]
    obs, _ = ppo.env.reset(0)
    for t in range(20):
        if t == 10:
            ppo.begin_rollout()
        actions = ppo.act(obs)
        if t == 9:  # the last decision of the first rollout, after nine steps
            mean = learner.actor.forward_agents(obs["point"].flatten(0, 1).unsqueeze(1))
            density = Normal(mean, learner.log_std.exp()).log_prob(actions["point"].view_as(mean))
            drawn = (density + 0.5 * math.log(2.0 * math.pi)).sum(-1).detach().flatten()  # PPO leaves the constant out
            before = learner.log_std.clone()
        result = ppo.env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
        if t == 9:
            ppo.update(0.0)
    assert float((learner.log_std - before).abs().max()) > 0.05
    samples = learner.samples(obs["point"], None, None, ppo._of(learner, "deciding"))
    assert samples.log_prob[0, :10].tolist() == pytest.approx(drawn.tolist(), rel=1e-4)


def test_the_state_at_a_decision_is_what_its_value_is_of() -> None:
    config = PPOConfig(
        rollout_steps=9, minibatches=1, critic="central", hidden=(4,), normalize_observations=False, obs_clip=1e6
    )
    ppo = PPO(Amid(num_envs=5, agents=2, horizon=50, limit=1e9), config)
    learner = ppo.learners["point"]
    obs, _ = ppo.env.reset(0)
    seen = []
    for t in range(9):
        if t % 3 == 0:
            rows = torch.cat((ppo.env.state.unsqueeze(1).expand(-1, 2, -1), obs["point"]), -1)
            seen.append(rows.reshape(10, -1).clone())
        actions = ppo.act(obs)
        result = ppo.env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
    samples = learner.samples(obs["point"], ppo.env.state, None, ppo._of(learner, "deciding"))
    assert torch.equal(samples.critic_input[0], torch.cat(seen))


def test_a_decision_after_the_rollout_is_worth_what_the_critic_says_of_its_own_world() -> None:
    config = PPOConfig(
        rollout_steps=3, minibatches=1, critic="central", hidden=(4,), gamma=GAMMA, normalize_observations=False,
        normalize_values=False, obs_clip=1e6,
    )  # fmt: skip
    ppo = PPO(Amid(num_envs=5, agents=2, horizon=50, limit=1e9), config)
    learner = ppo.learners["point"]
    obs, _ = ppo.env.reset(0)
    gained = torch.zeros(5, 2)
    for t in range(3):
        actions = ppo.act(obs)
        result = ppo.env.step(actions)
        ppo.observe(obs, actions, result)
        gained += GAMMA**t * result[1]["point"]
        obs = result[0]
    after = torch.cat((ppo.env.state.unsqueeze(1).expand(-1, 2, -1), obs["point"]), -1).reshape(1, 10, -1)
    samples = learner.samples(obs["point"], ppo.env.state, None, ppo._of(learner, "deciding"))
    expected = gained.flatten() + GAMMA**3 * learner.critic.forward(after)[0, :, 0]
    torch.testing.assert_close(samples.value_target[0], expected, rtol=1e-4, atol=1e-5)
