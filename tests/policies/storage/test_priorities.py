"""Prioritised draws against cumulative sums, frequencies and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_memory import ACT, OBS, fill

from rookery.policies.storage.priorities import FLOOR, Priorities
from rookery.policies.storage.replay import Replay
from rookery.sim.errors import RookeryError


def priorities_of(p, alpha: float = 1.0) -> Priorities:
    """Priorities with these p."""
    out = Priorities(len(p), alpha, "cpu")
    out.leaves.copy_(torch.as_tensor(p, dtype=torch.float64))
    out.rebuild()
    return out


def assert_frequencies(drawn: torch.Tensor, p: torch.Tensor) -> None:
    """Chi-square of draws against probabilities p [K]; a correct program fails once in 1000 (Wilson and Hilferty 1931)."""
    counts = torch.bincount(drawn, minlength=len(p)).double()
    assert (counts[p == 0.0] == 0.0).all()
    wanted = (p / p.sum() * len(drawn))[p > 0.0]
    freedom = len(wanted) - 1
    found = ((counts[p > 0.0] - wanted).square() / wanted).sum().item()
    assert found < freedom * (1.0 - 2.0 / (9.0 * freedom) + 3.09 * math.sqrt(2.0 / (9.0 * freedom))) ** 3


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.floats(0.0, 0.95), st.integers(0, 10**6))
def test_the_tree_finds_what_the_cumulative_sum_does(places: int, empty: float, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    p = torch.rand(places, generator=g, dtype=torch.float64)
    p[torch.rand(places, generator=g) < empty] = 0.0
    p[int(torch.randint(places, (), generator=g))] = 1.0
    tree = priorities_of(p)
    share = torch.rand(500, generator=g, dtype=torch.float64)
    found = tree.find(share)
    assert torch.equal(found, torch.searchsorted(p.cumsum(0), share * p.sum(), right=True))
    ends = torch.tensor([0.0, 1.0 - 2.0**-53], dtype=torch.float64)
    held = p.nonzero()
    assert tree.find(ends).tolist() == [int(held[0]), int(held[-1])]
    assert int(tree.count) == len(held)


def test_draws_have_their_frequencies():
    p = torch.tensor([0.0, 5.0, 1.0, 0.0, 3.0, 0.5] * 9, dtype=torch.float64)
    share = torch.rand(60_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_frequencies(priorities_of(p).find(share), p)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_errors_become_priorities(alpha: float):
    tree = priorities_of([1.0, 1.0, 0.0, 1.0, 1.0], alpha)
    tree.update(torch.tensor([3, 0, 2, 3]), torch.tensor([0.2, -4.0, 9.0, -0.3]))
    wanted = [(4.0 + FLOOR) ** alpha, 1.0, 0.0, (0.3 + FLOOR) ** alpha, 1.0]  # of two the larger; nothing stays nothing
    torch.testing.assert_close(tree.leaves, torch.tensor(wanted, dtype=torch.float64), rtol=1e-6, atol=0.0)
    assert tree.largest.item() == pytest.approx(wanted[0])
    tree.begin(1, torch.tensor([True, False]))
    assert tree.leaves[1] == tree.largest and tree.leaves[2] == 0.0
    tree.clear(0, 1)
    assert tree.leaves[0] == 0.0 and int(tree.count) == 3
    tree.update(torch.zeros(0, dtype=torch.int64), torch.zeros(0))


@settings(max_examples=40, deadline=None)
@given(st.integers(33, 2500), st.integers(0, 10**6))
def test_sums_after_updates_are_those_made_anew(places: int, seed: int) -> None:
    """To the last bit, so that a resumed training draws the same."""
    g = torch.Generator().manual_seed(seed)
    tree = Priorities(places, 0.7, "cpu")
    for _ in range(5):
        first = int(torch.randint(places - 32, (), generator=g))
        tree.begin(first, torch.rand(20, generator=g) < 0.8)
        tree.clear(first + 20, 12)
        tree.update(torch.randint(places, (16,), generator=g), torch.randn(16, generator=g))
    again = priorities_of(tree.leaves, 0.7)
    assert all(torch.equal(mine, its) for mine, its in zip(tree._levels, again._levels, strict=True))
    assert torch.equal(tree.count, again.count)


def test_importance_weights_in_closed_form():
    """Of 4 transitions with p of 1, 2, 4 and 1: P is 1/8, 1/4, 1/2, 1/8, and (4 P)^-beta."""
    tree = priorities_of([1.0, 0.0, 2.0, 4.0, 1.0])
    places = torch.arange(5)
    torch.testing.assert_close(tree.weights(places, 1.0), torch.tensor([2.0, 0.0, 1.0, 0.5, 2.0]))
    torch.testing.assert_close(tree.weights(places, 0.5), torch.tensor([2.0, 0.0, 1.0, 0.5, 2.0]).sqrt())
    torch.testing.assert_close(tree.weights(places, 0.0), torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]))


def test_weighted_means_over_draws_are_plain_means():
    """At beta = 1 importance weights make up for the priorities: of random numbers the weighted mean is the mean."""
    g = torch.Generator().manual_seed(1)
    p, x = torch.rand(2, 200, generator=g, dtype=torch.float64) + 0.1
    tree = priorities_of(p)
    drawn = tree.find(torch.rand(200_000, generator=g, dtype=torch.float64))
    found = (tree.weights(drawn, 1.0) * x[drawn]).mean()
    assert found.item() == pytest.approx(x.mean().item(), abs=5e-3)  # standard deviation 1e-3


def prioritised(capacity: int, worlds: int, agents: int) -> Replay:
    return Replay(capacity, worlds, agents, OBS, ACT, "cpu", alpha=0.8)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 20), st.integers(0, 10**6))
def test_the_ring_holds_priorities_of_its_own_transitions(capacity, worlds, agents, steps, seed) -> None:
    """After every round of the ring: 0 where no transition is or its agent was not active, else what was set or the largest."""
    replay = prioritised(capacity, worlds, agents)
    rows = fill(replay, worlds, agents, seed, steps)
    each = worlds * agents
    kept = torch.stack([row["active"] for row in rows[-min(capacity, steps) * each :]])
    slots = (replay.head - replay.size + torch.arange(replay.size)) % (capacity + 1)
    assert torch.equal(replay.priority[slots].flatten(), torch.where(kept, 1.0, 0.0).double())
    assert replay.priority.sum() == kept.sum(), "nothing else"
    number = replay.place(replay.draw(64, torch.Generator().manual_seed(seed)))
    if not kept.any():
        assert (replay.priorities.weights(number, 0.5) == 0.0).all()
        return
    assert replay.take(number, 0.9).active.all()
    replay.priorities.update(number, torch.full((64,), 3.0))
    assert ((replay.priority.flatten() > 1.0).nonzero().squeeze(1) == number.unique()).all()
    newest = slots[-1]
    fill(replay, worlds, agents, seed + 1, 1)
    fresh = replay.priority[(newest + 1) % (capacity + 1)]
    assert torch.equal(fresh, torch.where(replay.active[(newest + 1) % (capacity + 1)], replay.priorities.largest, 0.0))
    assert (replay.priority[replay.head] == 0.0).all()


def test_the_memory_draws_by_its_priorities():
    replay = prioritised(6, 3, 2)
    fill(replay, 3, 2, 0, 17)
    g = torch.Generator().manual_seed(2)
    held = (replay.priorities.leaves > 0.0).nonzero().squeeze(1)
    replay.priorities.update(held, torch.randn(len(held), generator=g))
    number = replay.place(replay.draw(60_000, g))
    assert_frequencies(number, replay.priorities.leaves)
    rewards = replay.take(number, 0.9).reward
    assert torch.equal(rewards, replay.reward.flatten()[number])
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    wanted = replay.take(replay.place(replay.draw(9, other)), 0.9)
    assert torch.equal(replay.sample(9, one, 0.9).observation, wanted.observation)


@pytest.mark.parametrize("before", [2, 5, 23])
def test_a_saved_memory_draws_as_if_not_saved(before: int) -> None:
    replay = prioritised(5, 2, 2)
    fill(replay, 2, 2, 0, before)
    replay.priorities.update(torch.arange(24), torch.linspace(0.1, 3.0, 24))
    saved = {k: v.clone() for k, v in replay.state_dict().items()}
    other = prioritised(5, 2, 2)
    fill(other, 2, 2, 1, 9)
    other.priorities.update(torch.arange(24), torch.full((24,), 7.0))
    other.load_state_dict(saved)
    for r in (replay, other):
        fill(r, 2, 2, 3, 2)
        r.priorities.update(torch.arange(12), torch.linspace(2.0, 0.1, 12))
    mine, its = (r.place(r.draw(200, torch.Generator().manual_seed(4))) for r in (replay, other))
    assert torch.equal(mine, its) and torch.equal(replay.priorities.largest, other.priorities.largest)
    assert torch.equal(replay.priority, other.priority) and torch.equal(replay.priorities.count, other.priorities.count)


def test_a_state_without_priorities_or_with_wrong_ones_is_refused() -> None:
    replay = prioritised(5, 2, 1)
    fill(replay, 2, 1, 0, 9)
    plain = Replay(5, 2, 1, OBS, ACT, "cpu")
    fill(plain, 2, 1, 0, 9)
    with pytest.raises(RookeryError, match="lacks 'priority'"):
        replay.load_state_dict(plain.state_dict())
    plain.load_state_dict(replay.state_dict())  # draws uniformly from then on
    for name, value, words in (("priority", -1.0, "below 0"), ("priority", math.nan, "below 0"),
                               ("largest_priority", math.inf, "no largest priority")):  # fmt: skip
        state = {k: v.clone() for k, v in replay.state_dict().items()}
        state[name].view(-1)[0] = value
        with pytest.raises(RookeryError, match=words):
            replay.load_state_dict(state)


def test_priorities_take_the_memory_that_is_stated() -> None:
    tree = Priorities(100_000, 1.0, "cpu")
    assert sum(level.numel() * 8 for level in tree._levels) < 8.3 * 100_000
