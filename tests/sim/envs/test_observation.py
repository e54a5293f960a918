"""Observations by their declaration: scale, clip, noise, bias and delay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.sim.envs.delays import MAX_DELAY
from rookery.sim.envs.observation import ObservationPipeline, check_terms
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch
from rookery.sim.specs import ActionSpec, Discrete, Group, Term

ACTION = ActionSpec("none", ("a",), (-1,), (1,), ("1",), (0,))


def pipeline(*terms: Term, n: int = 4, agents: int = 2, seed: int = 0) -> ObservationPipeline:
    return ObservationPipeline(Group(agents, terms, ACTION), n, 0.01, Streams(n, seed))


def restart(p: ObservationPipeline, ids: torch.Tensor, raw: dict[str, torch.Tensor]) -> torch.Tensor:
    """First observations [n, A, O]; the rows of other worlds are left alone."""
    out = torch.full(p.clean(raw).shape, 777.0)
    p.restart(ids, raw, out)
    others = torch.ones(len(out), dtype=torch.bool)
    others[ids] = False
    assert (out[others] == 777.0).all()
    return out[ids]


def values(n: int = 4, agents: int = 2, seed: int = 0, **sizes: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {name: torch.randn(n, agents, size, generator=rng) for name, size in sizes.items()}


def noisy(p: ObservationPipeline, noise: float = 0.0, bias: float = 0.0) -> ObservationPipeline:
    p.noise.fill_(noise)
    p.bias.fill_(bias)
    return p


def test_terms_stand_in_the_declared_order_whatever_the_task_gives():
    p = pipeline(Term("b", 2), Term("a", 3))
    raw = values(a=3, b=2)
    assert torch.equal(p.push(dict(reversed(raw.items()))), torch.cat([raw["b"], raw["a"]], dim=-1))
    assert p.clean(raw).dtype == torch.float32


@pytest.mark.parametrize("parts", ["abc", "cab", "bac"])
@pytest.mark.parametrize("form", ["side by side", "spread", "transposed"])
def test_terms_may_be_parts_of_one_tensor(form, parts):
    """In any order in it, with or without others between them."""
    sizes = {"a": 2, "b": 4, "c": 3}
    p = pipeline(*(Term(name, size) for name, size in sizes.items()), n=700)
    whole = torch.arange(700 * 2 * 18.0).view(700, 2, 18)
    whole = {"side by side": whole, "spread": whole[..., ::2], "transposed": whole.transpose(0, 1).reshape(700, 2, 18)}[
        form
    ]
    raw = dict(zip(parts, whole[..., :9].split([sizes[name] for name in parts], dim=-1), strict=True))
    wanted = torch.cat([raw[name] for name in "abc"], dim=-1)
    assert torch.equal(p.push(raw), wanted)
    assert torch.equal(p.clean(raw), wanted)
    some = torch.tensor([3, 4, 5, 9, 650])
    assert torch.equal(restart(p, some, raw), wanted[some])


def test_scale_then_clip():
    p = pipeline(Term("a", 3, scale=2.0, clip=1.5), Term("b", 1, scale=0.1), Term("c", 1, clip=0.5))
    raw = values(a=3, b=1, c=1)
    kept = {k: v.clone() for k, v in raw.items()}
    wanted = torch.cat([(2 * raw["a"]).clamp(-1.5, 1.5), 0.1 * raw["b"], raw["c"].clamp(-0.5, 0.5)], dim=-1)
    for got in (p.push(raw), p.clean(raw), restart(p, torch.arange(4), raw)):
        assert torch.allclose(got, wanted)
    assert all(torch.equal(raw[k], kept[k]) for k in raw)  # the task's own tensors are not written to


def test_a_single_term_is_not_written_to():
    p = pipeline(Term("a", 3, scale=3.0, noise=1.0))
    raw = values(a=3)
    kept = raw["a"].clone()
    noisy(p, 1.0).push(raw)
    assert torch.equal(raw["a"], kept)


def test_noise_has_the_declared_deviation_and_is_new_at_every_step():
    p = noisy(pipeline(Term("a", 2, noise=0.5, scale=2.0), Term("b", 1), n=2000), 1.5)
    raw = {"a": torch.full((2000, 2, 2), 3.0), "b": torch.full((2000, 2, 1), 1.0)}
    first = p.push(raw)
    second = p.push(raw)
    for x in (first, second, restart(p, torch.arange(2000), raw)):
        assert x[..., :2].mean().item() == pytest.approx(6.0, abs=0.08)
        assert x[..., :2].std().item() == pytest.approx(2.0 * 1.5 * 0.5, rel=0.03)
        assert torch.equal(x[..., 2], raw["b"][..., 0])
    assert (first[..., :2] != second[..., :2]).all()
    flat = (first[..., :2] - 6).reshape(-1, 4)
    assert (torch.corrcoef(flat.T) - torch.eye(4)).abs().max() < 0.1  # between components and agents


def test_noise_is_clipped_with_the_signal():
    p = noisy(pipeline(Term("a", 1, noise=5.0, clip=1.0), n=500), 1.0)
    x = p.push({"a": torch.zeros(500, 2, 1)})
    assert x.abs().max() == 1.0


def test_a_world_without_noise_draws_nothing_and_the_others_go_on_alike():
    """Whatever the other worlds have: a world's numbers are its own."""
    terms = (Term("a", 3, noise=0.5, bias=0.1), Term("b", 2), Term("c", 4, noise=0.1))
    raw = values(a=3, b=2, c=4)
    one, other = (noisy(pipeline(*terms), 1.0, 1.0) for _ in range(2))
    other.noise[2] = 0.0
    other.bias[2] = 0.0
    for p in (one, other):
        restart(p, torch.arange(4), raw)
    kept = [0, 1, 3]
    for _ in range(3):
        x, y = one.push(raw), other.push(raw)
        assert torch.equal(x[kept], y[kept])
        assert torch.equal(y[2], one.clean(raw)[2])
        assert not torch.equal(x[2], y[2])
    assert other.rng.counter[2] == 0
    assert (one.rng.counter == 2 * 9 + 4 * 9).all()  # a bias for each of 2 x 9 components, 9 pairs of normals each time


def test_noise_is_that_of_the_stream():
    """The components' numbers in the order in which Draw.normal gives them, also those that have no noise."""
    terms = (Term("a", 3, noise=0.5), Term("b", 4), Term("c", 2, noise=2.0, scale=0.1))
    p = noisy(pipeline(*terms, n=700, agents=3), 1.5)
    raw = values(n=700, agents=3, a=3, b=4, c=2)
    stream = Streams(700, 0)
    for _ in range(2):
        x = torch.cat([raw["a"], raw["b"], raw["c"]], dim=-1)
        x += stream().normal((3, 9)) * 1.5 * torch.tensor([0.5] * 3 + [0.0] * 4 + [2.0] * 2)
        x *= torch.tensor([1.0] * 7 + [0.1] * 2)
        assert torch.allclose(p.push(raw), x, atol=1e-6)


def test_terms_may_be_views_of_any_stride_and_type():
    p = pipeline(Term("a", 2), Term("b", 3), Term("c", 1), Term("d", 2))
    wide = values(x=6)["x"]
    raw = {
        "a": wide[..., 1::3],
        "b": torch.arange(24).view(4, 3, 2).transpose(1, 2),  # integers
        "c": wide[:, :1, 5:].expand(4, 2, 1),
        "d": values(n=2, agents=4, seed=3, d=2)["d"].double().transpose(0, 1),
    }
    for _ in range(2):
        assert torch.equal(p.push(raw), torch.cat([t.float() for t in raw.values()], dim=-1))
        wide += 1.0  # the same tensors with other values
        raw["d"].mul_(2.0)


def test_noise_of_each_world_by_its_own_factor():
    p = noisy(pipeline(Term("a", 1, noise=1.0), n=3, agents=2000), 0.0)
    p.noise[1] = 1.0
    p.noise[2] = 3.0
    std = p.push({"a": torch.zeros(3, 2000, 1)}).std(1).flatten()
    assert std[0] == 0
    assert std[1:].tolist() == pytest.approx([1.0, 3.0], rel=0.05)


def test_bias_holds_for_an_episode():
    p = noisy(pipeline(Term("a", 2, bias=0.5, scale=10.0), Term("b", 1, bias=0.2), n=1000), bias=2.0)
    zero = {"a": torch.zeros(1000, 2, 2), "b": torch.zeros(1000, 2, 1)}
    every = torch.arange(1000)
    first = restart(p, every, zero)
    assert torch.equal(p.push(zero), first)
    assert torch.equal(p.push(zero), first)
    a, b = first[..., :2], first[..., 2:]
    assert 9.8 < a.abs().max() <= 10.0  # uniform within scale * factor * half-width
    assert a.std().item() == pytest.approx(10 / 3**0.5, rel=0.05)
    assert 0.38 < b.abs().max() <= 0.4
    restart(p, torch.tensor([3, 7]), zero)
    again = p.push(zero)
    changed = (again != first).flatten(1).any(1).nonzero().flatten().tolist()
    assert changed == [3, 7]
    assert (again[[3, 7]] != first[[3, 7]]).all()


def test_without_randomization_sensors_are_perfect():
    p = pipeline(Term("a", 2, noise=1.0, bias=1.0))
    raw = values(a=2)
    before = p.rng.counter.clone()
    assert torch.equal(restart(p, torch.arange(4), raw), raw["a"])
    assert torch.equal(p.push(raw), raw["a"])
    assert torch.equal(p.rng.counter, before)  # and cost no random numbers


def test_terms_have_delays_of_their_own():
    p = pipeline(Term("now", 1), Term("late", 2, delay=0.03, scale=2.0))
    steps = [values(now=1, late=2, seed=s) for s in range(10)]
    assert torch.equal(restart(p, torch.arange(4), steps[0])[..., 1:], 2 * steps[0]["late"])
    for s in range(1, 10):
        x = p.push(steps[s])
        assert torch.equal(x[..., :1], steps[s]["now"])
        assert torch.equal(x[..., 1:], 2 * steps[max(s - 3, 0)]["late"])
        assert torch.equal(p.clean(steps[s])[..., 1:], 2 * steps[s]["late"])


def test_the_longest_delay_and_a_terms_own_add_up():
    p = pipeline(Term("a", 1, delay=0.03))
    p.configure(np.arange(4), Batch.of({"observation_delay": np.full(4, MAX_DELAY, np.float32)}))
    frames = [values(a=1, seed=s) for s in range(40)]
    restart(p, torch.arange(4), frames[0])
    for s in range(1, 40):
        assert torch.equal(p.push(frames[s]), frames[max(s - 13, 0)]["a"]), s


def test_a_new_episode_does_not_see_the_old_one():
    p = pipeline(Term("a", 1, delay=0.02))
    restart(p, torch.arange(4), {"a": torch.zeros(4, 2, 1)})
    p.push({"a": torch.ones(4, 2, 1)})
    restart(p, torch.tensor([1]), {"a": torch.full((4, 2, 1), 5.0)})
    x = p.push({"a": torch.full((4, 2, 1), 6.0)})[:, 0, 0]
    assert x.tolist() == [0.0, 5.0, 0.0, 0.0]


def test_saved_pipelines_go_on():
    terms = (Term("a", 2, noise=0.3, bias=0.4, delay=0.02),)
    p, q = noisy(pipeline(*terms), 1.0, 1.0), pipeline(*terms, seed=5)
    restart(p, torch.arange(4), values(a=2))
    for s in range(3):
        p.push(values(a=2, seed=s))
    q.load_state_dict(p.state_dict())
    q.rng.load_state_dict(p.rng.state_dict())
    for s in range(5):
        assert torch.equal(p.push(values(a=2, seed=s)), q.push(values(a=2, seed=s)))


def test_what_was_not_declared_is_refused():
    p = pipeline(Term("a", 2))
    with pytest.raises(RookeryError, match=r"observes \['a', 'b'\] but declares \['a'\]"):
        p.push(values(a=2, b=1))
    with pytest.raises(RookeryError, match=r"observes 'a' with shape \(4, 2, 3\), not \(4, 2, 2\)"):
        p.push(values(a=3))
    with pytest.raises(RookeryError, match="declares the observation 'a'"):
        check_terms("t", {}, p.terms, (4, 2))
    with pytest.raises(RookeryError, match=r"'a' is \(4, 2, 3\), declared \(4, 2, 2\)"):
        check_terms("t", values(a=3), p.terms, (4, 2))
    with pytest.raises(ValueError, match="different names"):
        Group(1, (Term("a", 1), Term("a", 2)), ACTION)
    with pytest.raises(ValueError, match="differ in length"):
        ActionSpec("k", ("a", "b"), (0,), (1,), ("1",), (0,))
    number = ("a",), (0.0,), (1.0,), ("1",), (0.0,)
    with pytest.raises(ValueError, match="read_by has 2 of 1 components"):
        ActionSpec("k", *number, choices=(Discrete("c", ("d", "e")),), read_by=(0, 1))
    with pytest.raises(ValueError, match="read_by names the option 2, of 2"):
        ActionSpec("k", *number, choices=(Discrete("c", ("d", "e")),), read_by=(2,))


def test_slices_cover_the_vector():
    g = Group(1, (Term("a", 2), Term("b", 1), Term("c", 3)), ACTION)
    assert g.slices() == {"a": slice(0, 2), "b": slice(2, 3), "c": slice(3, 6)}
    assert g.observation_size == 6
