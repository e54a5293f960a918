"""Recurrent PPO: an update against a plain implementation that unrolls torch's cells, states at episodes' ends, learning."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from policies_cue import CueEnv
from policies_drive import Drive
from policies_fake import FakeEnv
from sampled import slow_but
from torch import Tensor, nn

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim.errors import RookeryError

BASE = PPOConfig(
    rollout_steps=12, epochs=2, minibatches=3, hidden=(8,), memory="gru", memory_size=6, schedule="fixed",
    entropy_coef=0.01, gamma=0.97, normalize_values=False, value_coef=0.5,
)  # fmt: skip


class Plain(nn.Module):
    """A recurrent network of torch's own parts, with the weights of a trainer's."""

    def __init__(self, network: Recurrent, g: int = 0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(network.inputs, network.state_size)
        network.gru.write_to(self.cell.parameters(), g)
        layers = []
        for w, b in zip(network.head.weights, network.head.biases, strict=True):
            layer = nn.Linear(w.shape[1], w.shape[2])
            layer.weight.data.copy_(w[g].T)
            layer.bias.data.copy_(b[g, 0])
            layers += [layer, nn.Tanh()]
        self.head = nn.Sequential(*layers[:-1])

    def unroll(self, x: Tensor, state: Tensor, ended: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [T, S, out] and states after each step [T, S, H], which go back to zero where an episode ended [T, S]."""
        outputs, states = [], []
        for now, over in zip(x, ended, strict=True):
            state = self.cell(now, state)
            outputs.append(self.head(state))
            states.append(state)
            state = torch.where(over.unsqueeze(1), torch.zeros_like(state), state)
        return torch.stack(outputs), torch.stack(states)

    def flat(self) -> Tensor:
        cell = self.cell
        parts = [cell.weight_ih.T, cell.weight_hh.T, cell.bias_ih, cell.bias_hh]
        parts += [t for m in self.head if isinstance(m, nn.Linear) for t in (m.weight.T, m.bias)]
        return torch.cat([p.flatten() for p in parts])


def by_sequence(x: Tensor) -> Tensor:
    """[T, N, A, ...] as [T, N A, ...]."""
    return x.flatten(1, 2)


def ends(learner: GroupLearner) -> Tensor:
    roll = learner.rollout
    return (roll.terminated | roll.truncated).repeat_interleave(learner.spec.count, 1)


def critic_inputs(learner: GroupLearner, obs: Tensor, state: Tensor | None) -> Tensor:
    """[..., A, C] for normalized observations and states of the environment."""
    if state is None:
        return obs
    return torch.cat((state.unsqueeze(-2).expand(*obs.shape[:-1], state.shape[-1]), obs), -1)


def advantages(ppo: PPO, critic: Plain, last_obs: Tensor) -> tuple[Tensor, Tensor]:
    """Advantages and values [T, N, A], with the critic's state before the reset for an episode's last observation."""
    c, learner, env = ppo.config, ppo.learners["point"], ppo.env
    roll = learner.rollout
    steps, worlds, count = roll.reward.shape
    see = lambda x: ((x - learner.observations.mean) / learner.observations.std).clamp(-c.obs_clip, c.obs_clip)  # noqa: E731
    x = by_sequence(critic_inputs(learner, roll.observation, roll.state))
    value, after = critic.unroll(x, learner.memory.critic_start[0], ends(learner))
    value = value.view(steps, worlds, count)
    after = after.view(steps, worlds, count, -1)
    last_in = critic_inputs(learner, see(last_obs), None if roll.state is None else env.state).flatten(0, 1)
    over = ends(learner)[-1].unsqueeze(1)
    last_state = torch.where(over, 0.0, after[-1].flatten(0, 1))
    last_value = critic.head(critic.cell(last_in, last_state)).view(worlds, count)
    final = torch.zeros_like(value)
    for t, ids, o, s in roll.finals:
        if len(ids):
            rows = critic_inputs(learner, o, s).flatten(0, 1)
            final[t, ids] = critic.head(critic.cell(rows, after[t, ids].flatten(0, 1))).view(-1, count)
    active = torch.ones_like(value, dtype=torch.bool) if roll.active is None else roll.active
    last_active = (env.active or {"point": torch.ones(worlds, count, dtype=torch.bool)})["point"]
    advantage = torch.zeros_like(value)
    carry = torch.zeros(worlds, count)
    for t in reversed(range(steps)):
        on = (last_active if t == steps - 1 else active[t + 1]).float()
        cut, end = (x[t].unsqueeze(1).float() for x in (roll.truncated, roll.terminated))
        following = last_value if t == steps - 1 else value[t + 1]
        following = cut * final[t] + (1 - cut) * (1 - end) * on * following
        delta = roll.reward[t] + c.gamma * following - value[t]
        carry = delta + c.gamma * c.lam * (1 - cut) * (1 - end) * on * carry
        advantage[t] = carry
    return advantage, value


def plain_update(ppo: PPO, last_obs: dict[str, Tensor]) -> Tensor:
    """PPO's update as one would write it down, on copies; returns the new parameters."""
    c, learner = ppo.config, ppo.learners["point"]
    assert isinstance(learner.actor, Recurrent) and isinstance(learner.critic, Recurrent)
    actor, critic = Plain(learner.actor), Plain(learner.critic)
    log_std = nn.Parameter(learner.log_std[0, 0].clone())
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=c.learning_rate, eps=1e-5)
    generator = torch.Generator()
    generator.set_state(ppo._generator.get_state())
    roll = learner.rollout
    ended = ends(learner)
    x = by_sequence(roll.observation)
    critic_x = by_sequence(critic_inputs(learner, roll.observation, roll.state))
    actor_start, critic_start = learner.memory.actor_start[0], learner.memory.critic_start[0]
    active = torch.ones_like(roll.reward, dtype=torch.bool) if roll.active is None else roll.active
    with torch.no_grad():
        advantage, value = advantages(ppo, critic, last_obs["point"])
        returns = by_sequence(advantage + value)
        chosen = advantage[active]
        advantage = by_sequence((advantage - chosen.mean()) / (chosen.std(correction=0) + 1e-8))
        mean, _ = actor.unroll(x, actor_start, ended)
        old = torch.distributions.Normal(mean, log_std.exp()).log_prob(by_sequence(roll.action)).sum(-1)
    on = by_sequence(active)
    for _ in range(c.epochs):
        order = torch.randperm(x.shape[1], generator=generator)
        size = len(order) // c.minibatches
        for k in range(c.minibatches):
            i = order[k * size : (k + 1) * size]
            keep = on[:, i]
            mean, _ = actor.unroll(x[:, i], actor_start[i], ended[:, i])
            policy = torch.distributions.Normal(mean, log_std.exp())
            ratio = (policy.log_prob(by_sequence(roll.action)[:, i]).sum(-1) - old[:, i]).exp()[keep]
            a = advantage[:, i][keep]
            surrogate = torch.min(ratio * a, ratio.clamp(1 - c.clip, 1 + c.clip) * a).mean()
            new, _ = critic.unroll(critic_x[:, i], critic_start[i], ended[:, i])
            value_loss = 0.5 * (new.squeeze(-1) - returns[:, i])[keep].square().mean()
            loss = -surrogate + c.value_coef * value_loss - c.entropy_coef * policy.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], c.max_grad_norm)
            optimizer.step()
    return torch.cat((actor.flat(), critic.flat(), log_std)).detach()


def collected(config: PPOConfig = BASE, **options: object) -> tuple[PPO, Drive]:
    """A rollout from states that are not zero, with ends of both kinds inside."""
    ppo = PPO(FakeEnv(9, agents=2, act=2, horizon=9, limit=1.5, **options), config)
    learner = ppo.learners["point"]
    generator = torch.Generator().manual_seed(5)
    for state in (learner.memory.actor, learner.memory.critic):
        state.normal_(generator=generator)
    drive = Drive(ppo)
    drive.collect()
    roll = learner.rollout
    assert roll.truncated[:-1].any() and roll.terminated[:-1].any() and ends(learner)[-1].any()
    return ppo, drive


WAYS = list(itertools.product(("own", "central"), (False, True), (1, 2)))


@pytest.mark.parametrize(
    ("critic", "drop_out", "threads"), slow_but([w for w in WAYS if (w[0] == "own") == (w[1] == (w[2] == 1))], WAYS)
)
def test_update_equals_a_plain_implementation_that_unrolls_cells(critic: str, drop_out: bool, threads: int) -> None:
    ppo, drive = collected(dataclasses.replace(BASE, critic=critic), drop_out=drop_out)
    learner = ppo.learners["point"]
    learner.divide(threads)
    learner.chunk = 2 * BASE.rollout_steps  # several chunks in a part, the last one smaller
    want = plain_update(ppo, drive.obs)
    before = learner.parameters[0].clone()
    ppo.update(0.0)
    assert (want - before).abs().max() > 1e-3
    torch.testing.assert_close(learner.parameters[0], want, rtol=0.0, atol=1e-5)


def test_states_run_on_to_the_next_rollout_and_go_back_at_ends() -> None:
    ppo, _ = collected()
    learner = ppo.learners["point"]
    wanted = []
    for network, start in ((learner.actor, "actor_start"), (learner.critic, "critic_start")):
        plain = Plain(network)
        _, after = plain.unroll(
            by_sequence(learner.rollout.observation), getattr(learner.memory, start)[0], ends(learner)
        )
        wanted.append(torch.where(ends(learner)[-1].unsqueeze(1), 0.0, after[-1].detach()))
    ppo.update(0.0)
    torch.testing.assert_close(learner.memory.actor[0], wanted[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(learner.memory.critic[0], wanted[1], rtol=1e-4, atol=1e-5)


def test_log_probabilities_before_the_first_step_are_those_of_collecting() -> None:
    ppo, drive = collected()
    learner = ppo.learners["point"]
    learner.chunk = 2 * BASE.rollout_steps
    samples = learner.samples(drive.obs["point"], None, None)
    samples, rows, _ = next(learner.epoch(samples, torch.Generator()))
    worker = learner.workers[0]
    for part in samples.chunks(rows, learner.chunk):
        z = (part.action - worker.mean_action(part)) / learner.std
        log_prob = -0.5 * z.square().sum(-1) - learner.log_std.sum(-1)
        torch.testing.assert_close(log_prob, part.log_prob, rtol=1e-4, atol=1e-4)


def test_a_minibatch_holds_whole_sequences_in_the_order_of_time() -> None:
    ppo, drive = collected()
    learner = ppo.learners["point"]
    samples = learner.samples(drive.obs["point"], None, None)
    steps, count = BASE.rollout_steps, learner.memory.sequences
    samples.value = torch.arange(steps * count, dtype=torch.float32).unsqueeze(0)  # row t S + s
    samples.actor_state = torch.arange(count, dtype=torch.float32).view(1, count, 1)
    learner.divide(2)
    learner.chunk = 2 * steps
    seen = []
    for batch, rows, _ in learner.epoch(samples, torch.Generator().manual_seed(0)):
        assert rows.stop - rows.start == steps * count // BASE.minibatches
        for part in batch.chunks(slice(rows.start, rows.start + 3 * steps), 2 * steps):
            sequences = part.actor_state.flatten()
            for t in range(steps):
                place = part.value.view(steps, -1)[t]
                assert torch.equal(place, t * count + sequences)
            seen += sequences.tolist()
        for part in batch.chunks(slice(rows.start + 3 * steps, rows.stop), 2 * steps):
            seen += part.actor_state.flatten().tolist()
    assert sorted(seen) == list(range(count)) and seen != sorted(seen)


def test_separate_weights_learn_as_single_learners_would() -> None:
    ppo, drive = collected(dataclasses.replace(BASE, share=False))
    learner = ppo.learners["point"]
    generator = torch.Generator().manual_seed(0)
    learner.parameters += 0.1 * torch.randn(learner.parameters.shape, generator=generator)
    samples = learner.samples(drive.obs["point"], None, None)
    rows = slice(0, 9 * BASE.rollout_steps)
    singles = []
    for g in range(2):
        single = PPO(FakeEnv(9, agents=1, act=2, horizon=9), BASE)
        single.learners["point"].parameters.copy_(learner.parameters[g : g + 1])
        mine = {k: None if x is None else x[g : g + 1].clone() for k, x in vars(samples).items()}
        single.learn(single.learners["point"], type(samples)(**mine), rows, rows.stop - rows.start)
        singles.append(single.learners["point"].parameters)
    ppo.learn(learner, samples, rows, rows.stop - rows.start)
    torch.testing.assert_close(learner.parameters, torch.cat(singles), rtol=0.0, atol=1e-5)


# Policies


@pytest.mark.parametrize("share", [True, False])
def test_the_deployed_policy_is_the_one_that_was_trained(share: bool) -> None:
    ppo, drive = collected(dataclasses.replace(BASE, share=share))
    learner = ppo.learners["point"]
    ppo.update(0.0)
    obs = drive.obs["point"]
    state = learner.memory.actor.clone()
    mean = learner.mean_action(learner.observations.normalize(obs)).clamp(-1.0, 1.0)
    for g, policy in enumerate(ppo.policies().values()):
        again = type(policy)(policy.chain.links)
        again.load_state_dict(policy.state_dict())
        given, own = (obs, state[0].view(9, 2, -1)) if share else (obs[:, g], state[g])
        action, after = again.step(given, own)
        torch.testing.assert_close(action, mean if share else mean[:, g], rtol=1e-4, atol=1e-5)
        wanted = learner.memory.actor[0].view(9, 2, -1) if share else learner.memory.actor[g]
        torch.testing.assert_close(after, wanted, rtol=1e-4, atol=1e-5)
        with pytest.raises(RookeryError, match="has memory: call step"):
            policy(obs)


CUE = PPOConfig(
    rollout_steps=12, epochs=4, minibatches=4, hidden=(16,), memory="gru", memory_size=16, schedule="fixed",
    learning_rate=3e-3, gamma=0.95, compiled=False,
)  # fmt: skip


def cue_success(config: PPOConfig, updates: int) -> float:
    ppo = PPO(CueEnv(256), config, seed=1)
    Drive(ppo).iterate(updates)
    env = CueEnv(64, seed=7)
    return evaluate(env, act_with(ppo.policies(), env), 512)["success_rate"]


@pytest.mark.slow
def test_what_was_shown_at_the_beginning_is_learnt_with_memory_alone() -> None:
    assert cue_success(dataclasses.replace(CUE, memory="none", memory_size=64), 40) <= 0.6
    assert cue_success(CUE, 40) >= 0.95


def test_a_resume_is_bit_equal() -> None:
    def make() -> PPO:
        return PPO(FakeEnv(9, agents=2, horizon=9, limit=1.5), dataclasses.replace(BASE, rollout_steps=5))

    whole = Drive(make())
    whole.iterate(5)
    first = Drive(make())
    first.iterate(2)
    state = {k: v.clone() for k, v in first.algorithm.state_dict().items()}
    assert state["point/memory.actor"].any() and state["point/memory.critic"].any()
    second = Drive(make())
    second.algorithm.load_state_dict(state)
    second.env.load_state_dict(first.env.state_dict())
    second.obs = {k: v.clone() for k, v in first.obs.items()}
    second.iterate(3)
    for name, tensor in whole.algorithm.state_dict().items():
        assert torch.equal(tensor, second.algorithm.state_dict()[name]), name


def test_what_memory_does_not_go_with_is_refused() -> None:
    with pytest.raises(RookeryError, match="memory=none"):
        dataclasses.replace(BASE, mirror=True, normalize_observations=False)
    with pytest.raises(RookeryError, match=r"2 sequences .* cannot make 3 minibatches"):
        PPO(FakeEnv(1, agents=2), BASE)
    with pytest.raises(RookeryError, match="memory_size is 0"):
        dataclasses.replace(BASE, memory_size=0)
