"""Skills that learn under their high level."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import collect, train
from skilled import constant, skilled

from rookery.experiments.skills import refuse_other_skills
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.policies.training.warm_start import warm_start
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

CONFIG = PPOConfig(rollout_steps=12, minibatches=2, epochs=2, hidden=(8,), gamma=0.9, schedule="fixed")
LEARNED: dict[str, Any] = {"skill_learning_rate": 1e-3, "skill_std": 0.3, "skill_warmup": 0}


def network(group: Group, seed: int, memory: int = 0) -> Policy:
    policy = Policy(standard(group.observation_size, group.action.size, (8,), memory_size=memory)).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in policy.parameters():
            x.normal_(0.0, 0.3, generator=g)
    return policy


class Starts(FakeEnv):
    """Says where episodes begin, as policies with memory want to know."""

    @property
    def episode_start(self) -> torch.Tensor:
        return self.clock == 0


def two(worlds: int = 6, agents: int = 2, seed: int = 3, **settings: Any) -> Any:
    """Two skills of two policies, each for three control steps, the first of which may end sooner."""
    env = FakeEnv(worlds, agents=agents, horizon=17, seed=seed)
    group = env.groups["point"]
    skills = {
        "left": {"policy": "left", "shift": {"state": [0.2, 0.2, 0.2]}, "finished": "state[0] < -0.9"},
        "right": {"policy": "right"},
    }
    return skilled(
        env, {"left": network(group, 1), "right": network(group, 2)}, **({"every": 3, "skills": skills} | settings)
    )


def trained(env: Any, config: PPOConfig, updates: int = 3, seed: int = 1) -> PPO:
    ppo = PPO(env, config, seed=seed)
    obs, _ = env.reset(0)
    train(ppo, env, obs, updates)
    return ppo


def weights(env: Any, ppo: PPO) -> dict[str, torch.Tensor]:
    (policy,) = env.deployed(ppo.policies()).values()
    return policy.state_dict()  # type: ignore[no-any-return]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_at_a_rate_of_zero_the_skills_are_frozen_ones() -> None:
    one, other = two(), two()
    frozen = trained(one, CONFIG)
    zero = trained(other, dataclasses.replace(CONFIG, learn_skills="together", skill_learning_rate=0.0))
    assert same(weights(one, frozen), weights(other, zero))
    assert same(one.state_dict(), other.state_dict())


def test_one_skill_that_decides_at_every_step_is_flat_ppo() -> None:
    """A skill whose only parameter moves nothing, from its stored policy, learns what PPO without a hierarchy does."""

    def fake() -> FakeEnv:
        return FakeEnv(8, agents=2, horizon=11, limit=2.0, seed=2)

    group = fake().groups["point"]
    start = network(group, 4)
    flat_env = fake()
    config = dataclasses.replace(CONFIG, initial_std=0.3, learning_rate=1e-3, reference_kl_coef=0.1)
    flat = PPO(flat_env, config, seed=1)
    warm_start(flat, {"point": start}, {"point": group})
    nothing = {"a": {"policy": "a", "shift": {"state": [1e-30, 1e-30, 1e-30]}}}
    env = skilled(fake(), {"a": network(group, 4)}, every=1, skills=nothing)
    both = PPO(env, dataclasses.replace(CONFIG, learn_skills="together", skill_kl_coef=0.1, **LEARNED), seed=1)
    obs, below = env.reset(0)[0], flat_env.reset(0)[0]
    for _ in range(3):
        for _ in range(CONFIG.rollout_steps):
            actions, own = both.act(obs), flat.act(below)
            result, alone = env.step(actions), flat_env.step(own)
            both.observe(obs, actions, result)
            flat.observe(below, own, alone)
            obs, below = result[0], alone[0]
            assert torch.equal(obs["point"], below["point"])
        figures, wanted = both.update(0.0), flat.update(0.0)
        for name in ("policy_loss", "value_loss", "reference_kl", "explained_variance", "std"):
            assert figures[f"skills.a/{name}"] == wanted[f"point/{name}"]
    learned = env.levels["point"].hierarchy.roles[0].source.policy
    assert same(learned.state_dict(), flat.policies()["point"].state_dict())
    assert not same(learned.state_dict(), start.state_dict())


@pytest.mark.parametrize("how", ["together", "alternating"])
def test_who_learns_when(how: str) -> None:
    env = two()
    turns = {"skill_turns": 2} if how == "alternating" else {}
    ppo = PPO(env, dataclasses.replace(CONFIG, learn_skills=how, **turns, **LEARNED), seed=1)
    obs, _ = env.reset(0)
    roles = env.levels["point"].hierarchy.roles
    changes, explored = [], []
    for _ in range(6):
        before = ppo.policies()["point"].state_dict(), [r.source.policy.state_dict() for r in roles]
        before = {k: v.clone() for k, v in before[0].items()}, [{k: v.clone() for k, v in s.items()} for s in before[1]]
        for _ in range(CONFIG.rollout_steps):
            actions = ppo.act(obs)
            explored.append(bool(env.levels["point"].learners))
            result = env.step(actions)
            ppo.observe(obs, actions, result)
            obs = result[0]
        figures = ppo.update(0.0)
        after = ppo.policies()["point"].state_dict()
        part = {k: v for k, v in after.items() if k.startswith("perceptron")}
        changes.append(
            (
                not same(part, {k: before[0][k] for k in part}),
                [not same(r.source.policy.state_dict(), b) for r, b in zip(roles, before[1], strict=True)],
                "skills.left/value_loss" in figures,
            )
        )
    both = (True, [True, True], True)
    if how == "together":
        assert changes == [both] * 6 and all(explored)
    else:
        turn = [(True, [False, False], False)] * 2 + [(False, [True, True], True)] * 2
        assert changes == (turn * 2)[:6]


def test_what_is_learned_from_ends_where_another_skill_takes_over() -> None:
    """Rows of each skill's rollout against the hierarchy's own decisions, step by step."""
    env = two(worlds=4, agents=2)
    ppo = PPO(env, dataclasses.replace(CONFIG, learn_skills="together", **LEARNED), seed=1)
    obs, _ = env.reset(0)
    level, task = env.levels["point"], env.acting
    rows = []
    for _ in range(CONFIG.rollout_steps):
        x = task.x.clone()
        actions = ppo.act(obs)
        result = env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
        rows.append((x, level.decided.clone(), result[1]["point"], result[2], result[3]))
    for skill in ppo.skills.skills:  # type: ignore[union-attr]
        skill._finish(None, None)
        roll = skill.ppo.learners[skill.role.name].rollout
        own = float(skill.role.options[0])  # type: ignore[index]
        cuts = 0
        for t, (x, decided, reward, terminated, truncated) in enumerate(rows):
            mine = decided[..., 0] == own
            assert torch.equal(roll._active[t].view(4, 2), mine)
            shift = 0.2 * decided[..., 1:4].clamp(-1.0, 1.0) if own == 0.0 else torch.zeros(4, 2, 3)
            seen = skill.ppo.learners[skill.role.name].observations.normalize(x + shift)
            torch.testing.assert_close(roll.observation[t].view(4, 2, 3)[mine], seen[mine])
            assert torch.equal(roll.reward[t].view(4, 2)[mine], reward[mine])
            ended = (terminated | truncated).unsqueeze(1).expand(4, 2)
            left = torch.zeros(4, 2, dtype=torch.bool)
            if t + 1 < len(rows):
                left = mine & (rows[t + 1][1][..., 0] != own) & ~ended
            cut = truncated.unsqueeze(1) | left
            assert torch.equal(roll.truncated[t].view(4, 2)[mine], cut[mine])
            assert torch.equal(roll.terminated[t].view(4, 2)[mine], terminated.unsqueeze(1).expand(4, 2)[mine])
            cuts += int(left.sum())
        assert cuts > 3 and roll.leaves(skill.view.acting_now) is not None
        goes_on = roll.active & ~roll.terminated.unsqueeze(-1)
        assert not (roll.leaves(skill.view.acting_now) & goes_on).any(), "what follows is a value, not nothing"


def test_the_deployed_policy_has_the_learned_skills() -> None:
    env = two()
    ppo = trained(env, dataclasses.replace(CONFIG, learn_skills="together", **LEARNED))
    env.levels["point"].learners = []
    task = Starts(6, agents=2, horizon=17, seed=3)
    act, alone = act_with(ppo.policies(), env), act_with(env.deployed(ppo.policies()), task)
    one, other = env.reset(5)[0], task.reset(5)[0]
    for _ in range(30):
        one, other = env.step(act(one))[0], task.step(alone(other))[0]
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["together", "alternating"])
def test_joint_training_resumes_bit_for_bit(how: str, tmp_path: Path) -> None:
    turns = {"skill_turns": 2} if how == "alternating" else {}
    config = dataclasses.replace(CONFIG, learn_skills=how, **turns, **LEARNED)

    def runner(folder: str, updates: int) -> Runner:
        steps = updates * CONFIG.rollout_steps * 6
        return Runner(PPO(two(), config), RunnerConfig(total_steps=steps), tmp_path / folder, name="ppo")

    whole, half = runner("whole", 7), runner("half", 3)
    whole.run()
    half.run()
    rest = runner("half", 7)
    rest.load(tmp_path / "half")
    rest.run()
    assert same(whole.algorithm.state_dict(), rest.algorithm.state_dict())
    assert same(whole.env.state_dict(), rest.env.state_dict())
    assert any(name.startswith("skills.left/") for name in rest.algorithm.state_dict())


def test_the_divergence_from_the_stored_skill_is_that_of_gaussians() -> None:
    """Value against torch.distributions, gradients against autograd: a loss of the divergence alone."""
    env = FakeEnv(8, agents=2, act=2)
    config = dataclasses.replace(CONFIG, reference_kl_coef=0.7, value_coef=0.0, normalize_advantages=False)
    ppo = PPO(env, config, seed=1)
    learner = ppo.learners["point"]
    assert learner.reference is not None
    g = torch.Generator().manual_seed(1)
    other = learner.parameters + 0.3 * torch.randn(learner.parameters.shape, generator=g)
    learner.reference.take(other)
    trained_rows = []
    obs, _ = env.reset(0)
    obs = collect(ppo, env, obs, CONFIG.rollout_steps)
    samples = learner.samples(obs["point"], None, None)
    samples.advantage.zero_()
    trained_rows.append(samples)
    worker = learner.workers[0]
    rows = samples.action.shape[1]
    ppo.loss_gradients(learner, worker, samples, slice(0, rows), rows)
    from rookery.policies.nn.actor_critic import Worker

    mean = learner.actor.forward(samples.actor_input).clone().requires_grad_()
    log_std = learner.log_std.clone().requires_grad_()
    own = Worker(other, learner.chains.actor, learner.chains.critic).actor.forward(samples.actor_input).clone()
    normal = torch.distributions.Normal
    stored = normal(own, other[:, -2:].unsqueeze(1).exp())
    divergence = torch.distributions.kl_divergence(normal(mean, log_std.exp().expand_as(mean)), stored).sum(-1).mean()
    torch.testing.assert_close(learner.reference.divergence_now, divergence.detach(), rtol=1e-5, atol=1e-6)
    by_mean, by_log_std = torch.autograd.grad(0.7 * divergence, (mean, log_std))
    torch.testing.assert_close(worker.log_std_grad, by_log_std, rtol=1e-4, atol=1e-6)
    got = worker.gradients.clone()
    worker.zero_grad()
    worker.actor.forward(samples.actor_input)
    worker.actor.backward(by_mean)
    count = got.shape[1] - 2
    torch.testing.assert_close(got[:, :count], worker.gradients[:, :count], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_skills_that_are_too_weak_learn_to_be_stronger() -> None:
    """Pushes of 0.05 left and right barely reach the origin within an episode; with their high level they learn larger ones."""
    earned = {}
    for how in ("off", "together"):
        env = FakeEnv(16, horizon=20, limit=1e9, seed=1)
        group = env.groups["point"]
        made = skilled(env, {"left": constant(group, -0.05), "right": constant(group, 0.05)}, every=4)
        learned: dict[str, Any] = {} if how == "off" else LEARNED | {"skill_learning_rate": 3e-3}
        config = dataclasses.replace(CONFIG, rollout_steps=40, learn_skills=how, learning_rate=3e-3, **learned)
        ppo = trained(made, config, updates=25)
        act, rewards = act_with(made.deployed(ppo.policies()), start := Starts(64, horizon=20, limit=1e9, seed=2)), []
        obs = start.reset()[0]
        for _ in range(20):
            obs, reward, *_ = start.step(act(obs))
            rewards.append(reward["point"].mean().item())
        earned[how] = sum(rewards) / 20
    assert earned["together"] > earned["off"] + 0.1, earned


def test_a_strong_divergence_keeps_a_skill_where_it_was() -> None:
    moved = {}
    for coef in (0.0, 1e3):
        env = two()
        (left, _) = env.levels["point"].hierarchy.roles
        before = left.source.policy.state_dict()["perceptron.weight_0"].clone()
        trained(env, dataclasses.replace(CONFIG, learn_skills="together", skill_kl_coef=coef, **LEARNED), updates=6)
        moved[coef] = (left.source.policy.state_dict()["perceptron.weight_0"] - before).norm().item()
    assert moved[1e3] < 0.5 * moved[0.0]


def test_a_skill_is_rewarded_for_reaching_what_it_is_commanded() -> None:
    """Goals as commands: 1 where the skill's own observation, the command in it, is at rest, in place of the task's reward."""
    skills = {
        "go": {"policy": "left", "shift": {"state": [2.0, 2.0, 2.0]}, "reward": "norm(state) < 1.5"},
        "stay": {"policy": "left", "every": 2},
    }
    env = two(worlds=12, skills=skills)
    ppo = PPO(env, dataclasses.replace(CONFIG, learn_skills="together", **LEARNED), seed=1)
    obs, _ = env.reset(0)
    level, rows = env.levels["point"], []
    for _ in range(CONFIG.rollout_steps):
        actions = ppo.act(obs)
        result = env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
        after = result[4]["final_observation"]["point"] if "final_observation" in result[4] else obs["point"]
        rows.append((after, level.decided.clone(), result[1]["point"]))
    (skill,) = ppo.skills.skills  # type: ignore[union-attr]
    skill._finish(None, None)
    roll = skill.ppo.learners["go+stay"].rollout
    seen = set()
    for t, (after, decided, reward) in enumerate(rows):
        reached = ((after + 2.0 * decided[..., 1:].clamp(-1.0, 1.0)).norm(dim=-1) < 1.5).float()
        wanted = torch.where(decided[..., 0] == 0.0, reached, reward)
        torch.testing.assert_close(roll.reward[t].view(12, 2), wanted)
        seen |= set(reached[decided[..., 0] == 0.0].tolist())
    assert seen == {0.0, 1.0}


def test_a_team_with_one_high_level_and_a_central_critic_learns_both() -> None:
    env = two(agents=4, central=True)
    config = dataclasses.replace(CONFIG, learn_skills="together", critic="central", **LEARNED)
    ppo = trained(env, config)
    assert ppo.skills is not None
    for skill in ppo.skills.skills:
        assert skill.ppo.learners[skill.role.name].rollout.observation.shape == (12, 24, 1, 3)
        assert skill.ppo.updates == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"skills": {"a": {"policy": "gru"}, "b": {"policy": "left"}}},
            "has .*GRU.*, and a skill that learns is a perceptron",
        ),
        (
            {"skills": {k: {"policy": "left", "every": e, "learn": False} for k, e in (("a", 1), ("b", 2))}},
            "no skill to train",
        ),
    ],
)
def test_skills_that_cannot_learn_are_refused(settings: Any, message: str) -> None:
    env = FakeEnv(4, agents=2)
    group = env.groups["point"]
    made = skilled(env, {"gru": network(group, 1, memory=3), "left": network(group, 2)}, **settings)
    with pytest.raises(RookeryError, match=message):
        PPO(made, dataclasses.replace(CONFIG, learn_skills="together"))


def test_a_start_from_a_run_whose_skills_have_learned_is_refused() -> None:
    env = two()
    before = env.deployed(trained(env, CONFIG).policies())
    refuse_other_skills(two(), before, "run")
    both = two()
    after = both.deployed(trained(both, dataclasses.replace(CONFIG, learn_skills="together", **LEARNED)).policies())
    with pytest.raises(RookeryError, match="run has trained its skills together with its high level"):
        refuse_other_skills(two(), after, "run")
    refuse_other_skills(two(every=2), after, "run")


def test_settings_without_effect_are_refused() -> None:
    with pytest.raises(RookeryError, match="skill_std is for skills that learn"):
        dataclasses.replace(CONFIG, skill_std=0.2)
    with pytest.raises(RookeryError, match="skill_turns is for skills that learn by turns"):
        dataclasses.replace(CONFIG, learn_skills="together", skill_turns=3)
    with pytest.raises(RookeryError, match="learn_skills is for a high level above skills"):
        PPO(FakeEnv(8), dataclasses.replace(CONFIG, learn_skills="together"))
    env = FakeEnv(8)
    group = env.groups["point"]
    made = skilled(env, {"a": constant(group, 0.1), "b": constant(group, -0.1)})
    with pytest.raises(RookeryError, match="reference_kl_coef is for actions of numbers"):
        PPO(made, dataclasses.replace(CONFIG, reference_kl_coef=0.1))
