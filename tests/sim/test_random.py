"""Random streams: right distributions, and a world's numbers that depend on nothing but its seed and its own draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from rookery.sim.random import Streams

MANY = 200_000


def draw(kind: str, streams: Streams, ids: torch.Tensor | None = None, shape: tuple[int, ...] = (3,)) -> torch.Tensor:
    d = streams(ids)
    if kind == "integers":
        return d.integers(0, 1000, shape)
    return getattr(d, kind)(shape=shape)


KINDS = ["uniform", "normal", "integers", "unit_vectors"]


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63])
def test_uniform_is_uniform(seed):
    u = Streams(4, seed)().uniform(shape=(MANY // 4,)).double().flatten().numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert u.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * MANY))
    assert u.var() == pytest.approx(1 / 12, rel=0.01)


@pytest.mark.parametrize("worlds", [1, 400, MANY])
def test_normal_is_normal(worlds):
    """Along one world's stream, across worlds, and with the odd count that wastes half a pair."""
    z = Streams(worlds, 7)().normal((MANY // worlds,)).double().flatten().numpy()
    assert np.isfinite(z).all()
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 5 / np.sqrt(MANY)
    assert z.var() == pytest.approx(1.0, rel=0.02)
    assert stats.kurtosis(z) == pytest.approx(0.0, abs=0.06)
    assert 4 < np.abs(z).max() < 7


def test_the_two_numbers_of_a_pair_are_independent():
    z = Streams(1, 3)().normal((MANY,))[0].double().numpy().reshape(2, -1)  # Box and Muller's cosines, then the sines
    assert abs(np.corrcoef(z)[0, 1]) < 0.02
    assert abs(np.corrcoef(z**2)[0, 1]) < 0.02


def test_ranges_and_shapes():
    streams = Streams(5, 0)
    u = streams().uniform(-2.0, 3.0, (1000, 2))
    assert u.shape == (5, 1000, 2)
    assert u.dtype == torch.float32
    assert -2.0 <= u.min() < -1.95
    assert 2.95 < u.max() <= 3.0
    assert streams().uniform().shape == (5,)
    assert streams(torch.tensor([1, 4])).normal((2, 3)).shape == (2, 2, 3)


def test_integers_take_every_value_equally_often():
    k = Streams(3, 1)().integers(-2, 5, (20_000,)).flatten()
    assert k.dtype == torch.int64
    values, counts = k.unique(return_counts=True)
    assert values.tolist() == list(range(-2, 5))
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_unit_vectors_are_uniform_on_the_sphere():
    v = Streams(4, 2)().unit_vectors((20_000,)).double()
    assert (v.norm(dim=-1) - 1).abs().max() < 1e-6
    z = v[..., 2].flatten().numpy()  # Archimedes: the height of a point of the sphere is uniform
    assert stats.kstest(z, "uniform", args=(-1, 2)).pvalue > 1e-3
    assert v.mean((0, 1)).abs().max() < 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_a_worlds_numbers_do_not_depend_on_how_many_worlds_there_are(kind):
    many = [draw(kind, s) for s in [Streams(1000, 5)] for _ in range(3)]
    for n in (1, 2, 3, 7, 8, 9, 33):
        few = Streams(n, 5)
        for whole in many:
            assert torch.equal(draw(kind, few), whole[:n])


@pytest.mark.parametrize("kind", KINDS)
def test_a_worlds_numbers_do_not_depend_on_who_else_draws(kind):
    alone = Streams(6, 9)
    among = Streams(6, 9)
    me = torch.tensor([4])
    others = torch.tensor([0, 1, 3])
    for i in range(8):
        if i % 2:
            draw("normal", among, others, (i,))
        with_me = draw(kind, among, torch.tensor([2, 4]), (5,))
        assert torch.equal(draw(kind, alone, me, (5,))[0], with_me[1])
    assert among.counter[5] == 0


def test_drawing_for_some_equals_drawing_for_all():
    a, b = Streams(9, 0), Streams(9, 0)
    whole = a().normal((4,))
    parts = torch.cat([b(torch.arange(0, 4)).normal((4,)), b(torch.arange(4, 9)).normal((4,))])
    assert torch.equal(whole, parts)


@pytest.mark.parametrize("ids", [None, torch.tensor([0, 2])])
@pytest.mark.parametrize("kind", ["uniform", "integers"])
def test_draws_follow_one_another_without_gap_or_overlap(kind, ids):
    a, b = Streams(3, 0), Streams(3, 0)
    parts = torch.cat([draw(kind, a, ids, (k,)) for k in (3, 1, 4)], dim=1)
    assert torch.equal(parts, draw(kind, b, ids, (8,)))
    assert len(parts.unique()) > 0.9 * parts.numel()


def test_saved_streams_go_on():
    streams = Streams(5, 4)
    draw("normal", streams, torch.tensor([1, 2]))
    state = streams.state_dict()
    after = [draw(k, streams) for k in KINDS]
    other = Streams(5, 99)
    other.load_state_dict(state)
    for kind, wanted in zip(KINDS, after, strict=True):
        assert torch.equal(draw(kind, other), wanted)


def test_a_seed_starts_anew_and_seeds_differ():
    streams = Streams(5, 4)
    first = draw("uniform", streams)
    assert not torch.equal(draw("uniform", streams), first)
    streams.seed(4)
    assert torch.equal(draw("uniform", streams), first)
    for seed in (5, -4, 4 + 2**32, 2**64 - 4):
        streams.seed(seed)
        assert (draw("uniform", streams) != first).all()


def test_worlds_and_lags_are_uncorrelated():
    """All pairs of 40 worlds and the first 40 lags of each: the largest of the correlations is what chance allows."""
    n = 40
    length = 20_000
    u = Streams(n, 0)().uniform(shape=(length,)).double().numpy()
    limit = 5 / np.sqrt(length)
    across = np.corrcoef(u) - np.eye(n)
    assert np.abs(across).max() < limit
    centred = u - u.mean(1, keepdims=True)
    for lag in range(1, 41):
        r = (centred[:, lag:] * centred[:, :-lag]).mean(1) * 12
        assert np.abs(r).max() < limit


def test_neighbouring_seeds_are_uncorrelated():
    u = np.stack([Streams(1, s)().uniform(shape=(20_000,)).double().numpy()[0] for s in range(30)])
    assert np.abs(np.corrcoef(u) - np.eye(30)).max() < 5 / np.sqrt(20_000)


def test_every_bit_is_fair():
    bits = Streams(50, 0).bits(None, 2000).flatten().numpy()
    for i in range(64):
        assert ((bits >> i) & 1).mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(bits.size))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_numbers_do_not_depend_on_threads(threads):
    before = torch.get_num_threads()
    reference = Streams(50_000, 3)().normal((5,))
    try:
        torch.set_num_threads(threads)
        assert torch.equal(Streams(50_000, 3)().normal((5,)), reference)
    finally:
        torch.set_num_threads(before)
