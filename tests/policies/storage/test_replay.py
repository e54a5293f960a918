"""The replay memory against a plain list of transitions, under random ends of episodes, ring overflow and saving."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_memory import ACT, OBS, fill

from rookery.policies.storage.replay import Replay
from rookery.policies.storage.transitions import Transitions
from rookery.sim.errors import RookeryError


def places(replay: Replay) -> tuple[torch.Tensor, ...]:
    """Slots, worlds and agents of all stored transitions, oldest first."""
    worlds, agents = replay.reward.shape[1:]
    slots = (replay.head - replay.size + torch.arange(replay.size)) % replay._slots
    return torch.cartesian_prod(slots, torch.arange(worlds), torch.arange(agents)).unbind(1)


def everything(replay: Replay) -> Transitions:
    """All stored transitions, oldest first."""
    return replay._take(*places(replay), 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(0, 10**6))
def test_it_holds_the_latest_transitions(capacity: int, worlds: int, agents: int, steps: int, seed: int) -> None:
    replay = Replay(capacity, worlds, agents, OBS, ACT, "cpu", state_size=OBS)
    rows = fill(replay, worlds, agents, seed, steps)
    wanted = rows[-min(capacity, steps) * worlds * agents :]
    got = everything(replay)
    assert len(got.reward) == len(wanted)
    for name in ("observation", "action", "reward", "terminated", "active"):
        assert torch.equal(getattr(got, name), torch.stack([row[name] for row in wanted])), name
    lives = ~got.terminated
    following = torch.stack([row["next_observation"] for row in wanted])
    assert torch.equal(got.next_observation[lives], following[lives])
    first = torch.arange(len(wanted)) // agents * agents  # the states are ten times the first agents' observations
    assert torch.equal(got.state, 10.0 * got.observation[first])
    assert torch.equal(got.next_state[lives], 10.0 * following[first][lives])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6))
def test_several_steps_end_with_the_episode_and_with_what_is_stored(
    capacity: int, agents: int, steps: int, n: int, seed: int
) -> None:
    """Against the rows themselves, walked one by one."""
    worlds = 2
    gamma = 0.5  # powers of a half are exact
    replay = Replay(capacity, worlds, agents, OBS, ACT, "cpu")
    rows = fill(replay, worlds, agents, seed, steps)
    kept = rows[-min(capacity, steps) * worlds * agents :]
    got = replay._take(*places(replay), gamma, n)
    each = worlds * agents
    for i, row in enumerate(kept):
        reward = torch.zeros(())
        k = 0
        while True:
            now = kept[i + k * each]
            reward = reward + gamma**k * now["reward"]
            k += 1
            if k == n or now["terminated"] or now["over"] or i + k * each >= len(kept):
                break
        torch.testing.assert_close(got.reward[i], reward)
        assert got.discount[i] == gamma**k
        assert got.terminated[i] == now["terminated"]
        assert torch.equal(got.observation[i], row["observation"]) and torch.equal(got.action[i], row["action"])
        if not now["terminated"]:
            assert torch.equal(got.next_observation[i], now["next_observation"])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 20), st.integers(1, 8), st.integers(0, 10**6))
def test_the_latest_steps_are_given_oldest_first(capacity: int, worlds: int, steps: int, asked: int, seed: int) -> None:
    replay = Replay(capacity, worlds, 2, OBS, ACT, "cpu", state_size=OBS)
    rows = fill(replay, worlds, 2, seed, steps)[-min(capacity, steps, asked) * worlds * 2 :]
    shape = (min(capacity, steps, asked), worlds, 2)
    names = ("observation", "reward", "active", "ended")
    wanted = {name: torch.stack([row[name] for row in rows]).view(*shape, *rows[0][name].shape) for name in names}
    observation, active = replay.latest(asked)
    assert torch.equal(observation, wanted["observation"]) and torch.equal(active, wanted["active"])
    assert torch.equal(replay.latest_states(asked), 10.0 * observation[:, :, 0].flatten(0, 1))
    reward, ended, active, elapsed = replay.latest_rewards(asked)
    assert (elapsed == 1).all()
    assert torch.equal(reward, wanted["reward"]) and torch.equal(active, wanted["active"])
    assert torch.equal(ended, wanted["ended"][..., 0])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(0, 10**6))
def test_a_saved_memory_continues_as_if_not_saved(
    capacity: int, worlds: int, before: int, after: int, seed: int
) -> None:
    replay = Replay(capacity, worlds, 2, OBS, ACT, "cpu", OBS)
    fill(replay, worlds, 2, seed, before)
    saved = {k: v.clone() for k, v in replay.state_dict().items()}
    other = Replay(capacity, worlds, 2, OBS, ACT, "cpu", OBS)
    fill(other, worlds, 2, seed + 1, 7)  # what it held before is gone
    other.load_state_dict(saved)
    for r in (replay, other):
        fill(r, worlds, 2, seed + 2, after)
    samples = [r.sample(50, torch.Generator().manual_seed(1), 0.99) for r in (replay, other)]
    for name in ("observation", "action", "reward", "terminated", "active", "state"):
        assert torch.equal(getattr(samples[0], name), getattr(samples[1], name)), name
    lives = ~samples[0].terminated
    for name in ("next_observation", "next_state"):
        assert torch.equal(getattr(samples[0], name)[lives], getattr(samples[1], name)[lives])


def test_samples_are_uniform() -> None:
    replay = Replay(4, 3, 2, OBS, ACT, "cpu")
    fill(replay, 3, 2, 0, 11)
    drawn = replay.sample(24_000, torch.Generator().manual_seed(0), 0.99).reward
    rewards, counts = drawn.unique(return_counts=True)
    assert len(rewards) == 24
    # Each count is binomial with mean 1000 and standard deviation 31.
    assert counts.min() > 850 and counts.max() < 1150


def test_final_observations_take_little_memory() -> None:
    """One truncation per world in 20 steps keeps 1/20 as many final observations as observations, also in the long run."""
    replay = Replay(100, 8, 1, OBS, ACT, "cpu")
    zeros = torch.zeros(8, 1, OBS)
    never = torch.zeros(8, dtype=torch.bool)
    for t in range(1000):
        truncated = torch.full((8,), t % 20 == 19)
        replay.add(zeros, zeros[..., :ACT], zeros[..., 0], zeros, never, truncated, zeros)
    assert len(replay.finals) <= 2 * 8 * 5


def test_another_memory_is_refused_and_nothing_changes() -> None:
    replay = Replay(5, 2, 1, OBS, ACT, "cpu")
    fill(replay, 2, 1, 0, 9)
    before = {k: v.clone() for k, v in replay.state_dict().items()}
    for other in (Replay(6, 2, 1, OBS, ACT, "cpu"), Replay(5, 3, 1, OBS, ACT, "cpu"), Replay(5, 2, 1, 3, ACT, "cpu")):
        with pytest.raises(RookeryError, match="use the run's own"):
            replay.load_state_dict(other.state_dict())
    with pytest.raises(RookeryError, match="lacks 'reward'"):
        replay.load_state_dict({k: v for k, v in before.items() if k != "reward"})
    for name, tensor in replay.state_dict().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize(
    ("counter", "value"),
    [(1, -1), (1, 6), (2, -1), (2, 4), (3, 100), (4, 100)],
    ids=["head below", "head above", "size below", "size above the rows", "first final", "next final"],
)
def test_counters_that_contradict_the_memory_are_refused_one_by_one(counter: int, value: int) -> None:
    """Of 5 control steps and so 6 slots, 3 filled: steps, head, size, number of the first final observation and of the next."""
    replay = Replay(5, 2, 1, OBS, ACT, "cpu")
    fill(replay, 2, 1, 0, 3)
    state = {k: v.clone() for k, v in replay.state_dict().items()}
    replay.load_state_dict(state)
    state["counters"][counter] = value
    with pytest.raises(RookeryError, match="contradicts its own counters"):
        replay.load_state_dict(state)
