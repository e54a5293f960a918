"""SAC and TD3 with memory: a gradient step against a plain implementation that unrolls torch's cells over all that came before,
stored states, ends of episodes, resume, policies, and a task that needs memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_cue import CueEnv
from policies_drive import Drive
from policies_fake import FakeEnv
from policies_memory import ACT, OBS, fill
from policies_toy import ToyEnv, assert_resumes, train
from sampled import slow_but
from torch import Tensor, nn

from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.sac_learner import squashed_sample
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.storage.replay import Replay
from rookery.policies.storage.sequences import take_sequences
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError

COMMON: dict[str, Any] = {
    "rollout_steps": 4, "learning_starts": 48, "batch": 24, "buffer_size": 160, "hidden": (8,), "memory": "gru",
    "memory_size": 5, "memory_steps": 6, "memory_burn_in": 3, "learning_rate": 3e-3,
}  # fmt: skip
KINDS = [(SAC, SACConfig), (TD3, TD3Config)]


def cell_of(memory: Any) -> nn.GRUCell:
    """Torch's cell with a memory's weights."""
    cell = nn.GRUCell(memory.unit.inputs, memory.size)
    memory.unit.write_to(cell.parameters(), 0)
    return cell


def flat_gradient(cell: nn.GRUCell) -> Tensor:
    parts = [cell.weight_ih.grad.T, cell.weight_hh.grad.T, cell.bias_ih.grad, cell.bias_hh.grad]
    return torch.cat([p.flatten() for p in parts])


def collected(kind: int = 0, **changes: Any) -> Any:
    """A trainer with 30 control steps of 4 worlds with 2 agents, none of them learnt from, ends of both kinds among them."""
    algorithm, config = KINDS[kind]
    settings = COMMON | {"learning_starts": 1000, "normalize_observations": False} | changes
    made = algorithm(FakeEnv(4, agents=2, horizon=7, limit=1.0), config(**settings), seed=2)
    learner = made.learners["point"]
    generator = torch.Generator().manual_seed(7)
    for name in learner.NETWORKS:
        if "target" not in name:
            for p in getattr(learner, name).parameters():
                p.data += 0.3 * torch.randn(p.shape, generator=generator)
    Drive(made).iterate(7)
    assert learner.replay.truncated.any() and learner.replay.terminated.any() and learner.replay.size == 28
    for name in ("target_features", "actor_target_features"):
        for p in getattr(learner, name, nn.Module()).parameters():
            p.data += 0.1 * torch.randn(p.shape, generator=generator)
    return made, learner


def whole_sequences(learner: Any) -> tuple[Tensor, Tensor]:
    """Observations [T, S, O] of everything stored, S being N A, and the steps [T, S] before which an episode ended."""
    replay = learner.replay
    obs = replay.observation[: replay.size].flatten(1, 2)
    ended = (replay.terminated | replay.truncated)[: replay.size].repeat_interleave(2, 1)
    return obs, torch.cat((torch.zeros_like(ended[:1]), ended[:-1]))


def unroll(cell: nn.GRUCell, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
    """States [T, S, H] after each step."""
    out = []
    for now, new in zip(x, first, strict=True):
        state = cell(now, torch.where(new[:, None], torch.zeros_like(state), state))
        out.append(state)
    return torch.stack(out)


@pytest.mark.parametrize("random", [True, False])
def test_stored_states_are_those_of_everything_before(random: bool) -> None:
    _, learner = collected(learning_starts=1000 if random else 0, updates_per_step=1e-9)
    x, first = whole_sequences(learner)
    zero = torch.zeros(8, 5)
    for memory, part in ((learner.actor_features.memory, slice(5)), (learner.features.memory, slice(5, 10))):
        after = unroll(cell_of(memory), x, first, zero).detach()
        before = torch.where(first[..., None], 0.0, torch.cat((zero[None], after[:-1])))
        torch.testing.assert_close(learner.replay.memory[:28, ..., part].flatten(1, 2), before)
        ended = (learner.replay.terminated | learner.replay.truncated)[27].repeat_interleave(2)
        now = learner.live.now[..., part].flatten(0, 1)
        torch.testing.assert_close(now, torch.where(ended[:, None], 0.0, after[-1]))


@pytest.mark.parametrize("burn_in", [0, 3])
@pytest.mark.parametrize("critic_memory", [True, False])
@pytest.mark.parametrize("kind", [0, 1])
def test_a_gradient_step_is_that_of_a_plain_unroll(kind: int, critic_memory: bool, burn_in: int) -> None:
    """From the beginning of everything to the sequence's end, with gradients in the sequence alone. The networks are those that
    the states were stored with; the targets' differ, and begin at the stored states as well."""
    options = {} if critic_memory else {"critic": "central"}
    made, learner = collected(kind, critic_memory=critic_memory, memory_burn_in=burn_in, policy_every=1, **options)
    start, steps = 9 - burn_in, 6  # the sequence begins at step 9
    lanes = torch.tensor([0, 3, 4, 7])
    batch = learner._batch(start * 8 + lanes, made._generator)
    assert batch.sequences.first.any() and (batch.sequences.before_first.any() or not burn_in)
    replay, c = learner.replay, learner.config
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(learner.NOISES, steps * 4, 1, generator=generator)

    # The same by torch's cells over all steps
    x, first = whole_sequences(learner)
    x, first = x[:, lanes], first[:, lanes]
    now = slice(9, 9 + steps)

    next_features = learner.actor_target_features if kind else learner.actor_features
    next_memory = next_features.memory
    own_memories = [learner.actor_features.memory, next_memory]

    def states(memory: Any) -> tuple[Tensor, nn.GRUCell]:
        """Of the sequence, with gradients that begin there; those of targets go on from what the networks themselves had."""
        cell = cell_of(memory)
        own = learner.actor_features if memory in own_memories else learner.features
        with torch.no_grad():
            state = unroll(cell_of(own.memory), x[:start], first[:start], torch.zeros(4, 5))[-1]
            if burn_in:
                state = unroll(cell, x[start:9], first[start:9], state)[-1]
        return unroll(cell, x[now], first[now], state), cell

    worlds, agents = lanes // 2, lanes % 2
    slots = torch.arange(9, 9 + steps)
    following = batch.next_observation.view(steps, 4, -1)
    after, cell = states(next_memory)
    next_own = cell(following.flatten(0, 1), after.flatten(0, 1))
    seen, next_seen = x[now].flatten(0, 1), following.flatten(0, 1)
    critic_cell = None
    if critic_memory:
        after, cell = states(learner.target_features.memory)
        next_seen = cell(next_seen, after.flatten(0, 1))
        after, critic_cell = states(learner.features.memory)
        seen = after.flatten(0, 1)
    else:
        see = learner.states.normalize
        seen = torch.cat((see(replay.state[slots][:, worlds].flatten(0, 1)), seen), -1)
        next_seen = torch.cat((see(batch.next_state), next_seen), -1)
    if kind == 0:
        mean, log_std = learner.actor(next_own)[0].chunk(2, -1)
        action, log_prob = squashed_sample(mean, log_std, noise[0])
        bonus = -log_prob
    else:
        action = (learner.actor_target(next_own)[0].tanh() + (0.2 * noise[0]).clamp(-0.5, 0.5)).clamp(-1.0, 1.0)
        bonus = 0.0
    q = learner.targets(torch.cat((next_seen, action), -1)).squeeze(-1).amin(0)
    ended = replay.terminated[slots][:, worlds].flatten()
    reward = replay.reward[slots][:, worlds, agents].flatten()
    target = (reward + c.gamma * torch.where(ended, 0.0, q + bonus)).detach()
    torch.testing.assert_close(learner.target_values(batch, noise[0])[0], target, rtol=1e-4, atol=1e-5)

    taken = replay.action[slots][:, worlds, agents].flatten(0, 1)
    values = learner.critics(torch.cat((seen, taken), -1)).squeeze(-1)
    loss = 0.5 * (values - target).square().sum(0).mean()
    parameters = list(learner.critics.parameters())
    wanted = list(torch.autograd.grad(loss, parameters, retain_graph=True))
    if critic_cell is not None:
        loss.backward(inputs=list(critic_cell.parameters()))
        wanted.append(flat_gradient(critic_cell)[None])
    after, actor_cell = states(learner.actor_features.memory)
    own = after.flatten(0, 1)

    learner.set_learning_rate(0.0)  # so that the policy climbs the critics as they are
    figures = learner.descend(batch, noise)
    assert figures[0].item() == pytest.approx(loss.item(), rel=1e-4)
    for p, gradient in zip([*parameters, *learner.features.parameters()], wanted, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-3, atol=1e-5)
    if kind == 0:
        mean, log_std = learner.actor(own)[0].chunk(2, -1)
        action, log_prob = squashed_sample(mean, log_std, noise[1])
        climb = learner.critics(torch.cat((seen.detach(), action), -1)).squeeze(-1).amin(0) - log_prob
    else:
        climb = learner.critics(torch.cat((seen.detach(), learner.actor(own)[0].tanh()), -1))[0, :, 0]
    (-climb.mean()).backward(inputs=list(actor_cell.parameters()))
    (memory,) = learner.actor_features.parameters()
    torch.testing.assert_close(memory.grad[0], flat_gradient(actor_cell), rtol=1e-3, atol=1e-5)
    assert memory.grad.abs().max() > 1e-4


@pytest.mark.parametrize("kind", [0, 1])
def test_the_policy_climbs_what_critics_see_after_their_step(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, learner = collected(kind, policy_every=1)
    batch = learner._batch(torch.tensor([3, 40, 52, 71]), made._generator)
    seen: list[Tensor] = []
    own = learner.policy_step
    monkeypatch.setattr(learner, "policy_step", lambda x, now, *rest: (seen.append(now), own(x, now, *rest))[1])
    before = learner.critic_features_at(learner.features, batch, batch.observation)
    learner.descend(batch, torch.randn(learner.NOISES, 24, 1))
    after = learner.critic_features_at(learner.features, batch, batch.observation)
    assert torch.equal(seen[0], after) and not torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("kind", [0, 1])
def test_all_targets_follow_slowly_memories_included(kind: int) -> None:
    made, learner = collected(kind, policy_every=1, tau=0.1)
    pairs = {"targets": "critics", "target_features": "features"}
    if kind:
        pairs |= {"actor_target": "actor", "actor_target_features": "actor_features"}
    before = {slow: [p.clone() for p in getattr(learner, slow).parameters()] for slow in pairs}
    batch = learner._batch(torch.tensor([3, 40, 52, 71]), made._generator)
    learner.descend(batch, torch.randn(learner.NOISES, 24, 1))
    for slow, fast in pairs.items():
        networks = getattr(learner, slow).parameters(), getattr(learner, fast).parameters()
        for old, now, towards in zip(before[slow], *networks, strict=True):
            torch.testing.assert_close(now, 0.9 * old + 0.1 * towards)
            assert not torch.equal(now, old)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_policy_climbs_what_the_critics_memories_have_become(kind: int) -> None:
    """The critics' step moves their memory, and the policy's comes after it."""
    made, learner = collected(kind, policy_every=1, learning_rate=0.03)
    batch = learner._batch(torch.tensor([3, 40, 52, 71]), made._generator)
    found: list[Tensor] = []
    step = learner.policy_step

    def features() -> Tensor:
        with torch.no_grad():
            at = learner.critic_features_at(learner.features, batch, learner.norm.normalize(batch.observation))
            return learner.seen(batch.state, at)

    def noting(own: Tensor, seen: Tensor, *rest: Any) -> Tensor:
        found.extend((seen, features()))
        return step(own, seen, *rest)

    learner.policy_step = noting
    before = features()
    learner.descend(batch, torch.randn(learner.NOISES, 24, 1))
    seen, wanted = found
    torch.testing.assert_close(seen, wanted)
    assert not seen.requires_grad and (seen - before).abs().max() > 1e-3


def test_windows_with_their_burn_in_are_drawn_from_what_is_stored() -> None:
    made, learner = collected()
    first = learner.draw(200, made._generator)[0] // 8  # slots; 28 are stored, and a window has 9
    assert first.min() == 0 and first.max() == 28 - 9


def test_a_sequence_after_an_end_does_not_depend_on_what_came_before() -> None:
    """Neither on the stored state nor on the burn-in: outputs and gradients of rows behind an end are the same to the bit."""
    made, learner = collected()
    number = torch.arange(8) + 6 * 8
    batch = learner._batch(number, made._generator)
    rows = batch.sequences
    whole = rows.before_first.view(3, 8).any(0) | rows.first.view(6, 8)[0]
    assert whole.any() and not whole.all()
    other = replace(batch, sequences=replace(rows, state=torch.randn(rows.state.shape)))
    got = []
    for b in (batch, other):
        obs = learner.norm.normalize(b.observation)
        policy = learner.policy_features_at(learner.actor_features, b, obs).view(6, 8, -1)
        critics = learner.critic_features_at(learner.features, b, obs).view(6, 8, -1)
        got.append(torch.cat((policy, critics), -1))
    assert torch.equal(got[0][:, whole], got[1][:, whole])
    behind = rows.first.view(6, 8).cumsum(0) > 0
    assert torch.equal(got[0][behind], got[1][behind])
    early = ~behind & ~whole
    assert (got[0] - got[1])[early].abs().amin(-1).max() > 0.0 and early.any()


def test_windows_are_drawn_from_what_is_stored_alone() -> None:
    replay = Replay(10, 2, 1, 1, 1, "cpu", memories=1)
    for t in range(25):
        at = torch.full((2, 1, 1), float(t))
        no = torch.zeros(2, dtype=torch.bool)
        replay.add(at, at, at[..., 0], at + 1.0, no, no, memory=at)
    number = replay.draw(2000, torch.Generator().manual_seed(0), 4)
    begins = replay.observation.flatten()[number]
    assert begins.unique().tolist() == [float(t) for t in range(15, 22)]


@pytest.mark.parametrize(
    ("kind", "critic_memory"), slow_but([(0, True), (1, False)], [(k, m) for k in (0, 1) for m in (True, False)])
)
def test_resume_has_the_same_bits(kind: int, critic_memory: bool) -> None:
    algorithm, config = KINDS[kind]
    made = config(**COMMON, critic_memory=critic_memory, policy_every=2)
    for before in (5, 12):  # while the memory of 40 steps fills, and after it has been overwritten
        figures = assert_resumes(lambda: algorithm(ToyEnv(4, agents=2, drop_out=True), made, seed=3), before)
        assert figures[-1]


@pytest.mark.parametrize(("algorithm", "config"), KINDS)
def test_the_deployed_policy_is_the_one_that_was_trained(algorithm: Any, config: Any, tmp_path: Any) -> None:
    made = algorithm(ToyEnv(), config(**COMMON), seed=1)
    obs, figures = train(made, made.env, made.env.reset()[0], 6)
    assert figures[-1]
    learner = made.learners["point"]
    save_policy(tmp_path, made.policies(), {"groups": {"point": {}}})
    policy = load_policy(tmp_path)[0]["point"]
    state = learner.live.now[..., :5].clone()
    wanted = learner.actor(learner.features_now(obs["point"]))[0][:, :1].tanh()
    action, after = policy.step(obs["point"], state)
    torch.testing.assert_close(action.flatten(0, 1), wanted)
    torch.testing.assert_close(after, learner.live.now[..., :5])
    assert state.any() and action.std() > 1e-4


def cue_success(**changes: Any) -> float:
    settings = COMMON | {
        "rollout_steps": 6, "learning_starts": 384, "batch": 256, "buffer_size": 32_000, "hidden": (16,), "memory_size": 16,
        "memory_steps": 8, "memory_burn_in": 0, "gamma": 0.9, "tau": 0.05,
    }  # fmt: skip
    sac = SAC(CueEnv(16), SACConfig(**{**settings, **changes}), seed=1)
    Drive(sac).iterate(120)
    env = CueEnv(64, seed=7)
    return evaluate(env, act_with(sac.policies(), env), 512)["success_rate"]


@pytest.mark.slow
def test_what_was_shown_at_the_beginning_is_learnt_with_memory_alone() -> None:
    assert cue_success(memory="none", memory_size=64, memory_steps=16) <= 0.6
    assert cue_success() >= 0.95


@pytest.mark.parametrize("control_steps", [9, 14, 27])
def test_sequences_run_on_through_the_end_of_the_ring(control_steps: int) -> None:
    """A burn-in of 2 and 3 steps, from each place where all 5 are stored, against the rows themselves."""
    replay = Replay(9, 2, 2, OBS, ACT, "cpu", memories=1)
    rows = fill(replay, 2, 2, 0, control_steps)[-9 * 4 :]
    lanes = torch.arange(4)

    def wanted(name: str, start: int, stop: int) -> Tensor:
        return torch.stack([row[name] for row in rows[start * 4 : stop * 4]])

    oldest = int((replay.head - replay.size) % 10)
    for start in range(5):
        number = (oldest + start) % 10 * 4 + lanes
        got = take_sequences(replay, number, 0.9, 3, 2)
        assert got.sequences is not None
        assert torch.equal(got.observation, wanted("observation", start + 2, start + 5))
        assert torch.equal(got.reward, wanted("reward", start + 2, start + 5))
        assert torch.equal(got.sequences.before, wanted("observation", start, start + 2))
        assert torch.equal(got.sequences.first, wanted("ended", start + 1, start + 4))
        began = torch.cat((torch.zeros(4, dtype=torch.bool), wanted("ended", start, start + 1)))
        assert torch.equal(got.sequences.before_first, began)


@pytest.mark.parametrize("kind", [0, 1])
def test_targets_begin_as_copies_those_of_memories_too(kind: int) -> None:
    algorithm, config = KINDS[kind]
    learner = algorithm(FakeEnv(4, agents=2, horizon=7, limit=1.0), config(**COMMON)).learners["point"]
    pairs = {"targets": "critics", "target_features": "features"}
    pairs |= {"actor_target": "actor", "actor_target_features": "actor_features"} if kind else {}
    for name, source in pairs.items():
        mine, its = (list(getattr(learner, n).parameters()) for n in (name, source))
        assert mine and all(map(torch.equal, mine, its)), name


def test_demonstrations_hold_no_states() -> None:
    made = SAC(ToyEnv(), SACConfig(**COMMON))
    with pytest.raises(RookeryError, match="demonstrations hold no states of memories: give memory=none"):
        made.learners["point"].learn_from(Replay(9, 1, 1, 2, 1, "cpu"))


def test_a_replay_memory_shorter_than_a_sequence_is_refused() -> None:
    with pytest.raises(RookeryError, match=r"holds 8 control steps of 4 worlds, fewer than .* 9: give at least 36"):
        SAC(ToyEnv(), SACConfig(**{**COMMON, "buffer_size": 32}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 32}, "a batch of 32 holds no whole number of sequences of 6 steps"),
        ({"n_step": 3}, "n_step is for networks without memory: give n_step=1, or memory=none"),
        ({"priority_alpha": 0.6}, "priority_alpha is for networks without memory"),
        ({"mirror": True}, "mirror is for networks without memory: give mirror=false"),
        ({"critic_batch_norm": True}, "critic_batch_norm is for networks without memory"),
        ({"memory": "lstm"}, "memory 'lstm'"),
        ({"memory_steps": 0}, "memory_steps"),
        ({"memory_burn_in": -1}, "memory_burn_in"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        SACConfig(**{**COMMON, **changes})
