"""Random streams: right distributions, and a world's numbers that depend on nothing but its seed and its own draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from rookery.sim.random import Streams
from rookery.sim.random_kernels import kernel, normals_of


@kernel
def pairs_of(bits, cosines, sines):
    normals_of(bits, cosines, sines, len(bits))


MANY = 200_000


def _signed(x: int) -> int:
    return x - (1 << 64) if x >= 1 << 63 else x


def words(key: torch.Tensor, counter: torch.Tensor, count: int) -> torch.Tensor:
    """SplitMix64 on int64 tensors, whose products wrap; torch shifts arithmetically, the mask makes shifts logical."""

    def xorshift(z: torch.Tensor, s: int) -> torch.Tensor:
        return z ^ ((z >> s) & ((1 << (64 - s)) - 1))

    z = key[:, None] + (counter[:, None] + torch.arange(1, count + 1)) * _signed(0x9E3779B97F4A7C15)
    z = xorshift(z, 30) * _signed(0xBF58476D1CE4E5B9)
    z = xorshift(z, 27) * _signed(0x94D049BB133111EB)
    return xorshift(z, 31)


def test_the_generator_is_splitmix64():
    """Published outputs: seed 1234567 of the reference implementation (S. Vigna, prng.di.unimi.it/splitmix64.c), as
    listed at rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64."""
    streams = Streams(1, 0)
    streams.key.fill_(1234567)
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [x % 2**64 for x in streams.bits(None, 5)[0].tolist()] == wanted


@pytest.mark.parametrize("ids", [None, [5, 0, 3]])
def test_bits_uniforms_and_integers_are_exact(ids):
    streams = Streams(6, 3)
    where = torch.arange(6) if ids is None else torch.tensor(ids)
    some = None if ids is None else where
    streams.begin_episode(torch.tensor([1, 3, 5]))
    at = streams.counter[where]
    w = words(streams.key[where], at, 40)
    assert torch.equal(streams.bits(some, 10), w[:, :10])
    unit = ((w[:, 10:20] >> 40) & 0xFFFFFF).float() * 2.0**-24
    assert torch.equal(streams(some).uniform(-0.3, 1.1, (5, 2)).flatten(1), unit.mul(1.1 + 0.3).add(-0.3))
    whole = (w[:, 20:30] >> 1) & ((1 << 62) - 1)
    assert torch.equal(streams(some).integers(-3, 1000, (10,)), whole % 1003 - 3)
    assert torch.equal(streams.counter[where], at + 30)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_normals_are_those_of_box_and_muller(count):
    """Against the definition in double precision: the logarithm and the sines are polynomials in single precision."""
    streams = Streams(9, 4)
    pairs = (count + 1) // 2
    w = words(streams.key, streams.counter, pairs)
    radius = ((((w >> 32) & 0xFFFFFFFF).double() + 1.0) * 2.0**-32).log().mul(-2.0).sqrt()
    angle = (w & 0xFFFFFFFF).double() * (2.0 * np.pi * 2.0**-32)
    wanted = torch.cat((radius * angle.cos(), radius * angle.sin()), dim=1)[:, :count]
    got = streams().normal((count,)).double()
    assert (got - wanted).abs().max() < 5e-7 * max(1.0, float(wanted.abs().max()))
    assert torch.equal(streams.counter, torch.full((9,), pairs))


def test_normals_at_the_ends_of_the_words():
    """Radii from 0 to the largest one, angles at and next to the eighths of a turn."""
    high = np.array([0, 1, 2, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint64)
    eighths = [(k * 2**29 + d) % 2**32 for k in range(8) for d in (-1, 0, 1)]
    low = np.array([0, 2**32 - 1, *eighths], dtype=np.uint64)
    bits = ((high[:, None] << np.uint64(32)) | low).ravel()
    cosines, sines = np.empty((2, bits.size), np.float32)
    pairs_of(bits, cosines, sines)
    single = (bits >> np.uint64(32)).astype(np.float32) + np.float32(1.0)  # the uniform number is rounded to float32
    radius = np.sqrt(-2.0 * np.log(single.astype(float) * 2.0**-32))
    angle = (bits & np.uint64(0xFFFFFFFF)).astype(float) * (2.0 * np.pi * 2.0**-32)
    assert np.abs(cosines - radius * np.cos(angle)).max() < 3e-6
    assert np.abs(sines - radius * np.sin(angle)).max() < 3e-6
    at_middle = radius < 1e-4
    assert at_middle.any() and np.abs(cosines[at_middle]).max() < 1e-4


def test_a_part_of_the_worlds_has_the_same_numbers():
    whole = Streams(10, 8, "noise")
    part = Streams(4, 8, "noise", first=5)
    for streams in (whole, part):
        streams.begin_episode(torch.arange(streams.num_envs))
    assert torch.equal(part.key, whole.key[5:9])
    assert torch.equal(part().normal((7,)), whole().normal((7,))[5:9])


def test_worlds_that_do_not_exist_and_masks_are_refused():
    streams = Streams(3, 0)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match="does not exist"):
            streams(torch.tensor([0, wrong])).uniform()
    with pytest.raises(TypeError, match="indices of worlds"):
        streams(torch.tensor([True, False, True]))


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


def test_neighboring_seeds_are_uncorrelated():
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
