"""What the link between robot and policy does: drift of estimates, lost and late observations, lost commands."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rookery.sim.envs.delays import MAX_DELAY, ActionDelay
from rookery.sim.envs.observation import ObservationPipeline
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import command, last_action
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim.terms import Clock, Where

DT = 0.02
SPEC = ActionSpec("x", ("x",), (-1.0,), (1.0,), ("1",), (0.0,))


def batch(n: int, values: dict[str, float]) -> Batch:
    """The same values in all worlds."""
    return Batch.of({name: np.full(n, v, np.float32) for name, v in {"none": 0.0, **values}.items()})


def pipeline(n: int, *terms: Term, count: int = 1, **settings: float) -> ObservationPipeline:
    p = ObservationPipeline(Group(count, terms, SPEC), n, DT, Streams(n, 3))
    ids = torch.arange(n).numpy()
    p.configure(ids, batch(n, {f"observation_{k}": v for k, v in settings.items()}))
    return p


def run(p: ObservationPipeline, n: int, steps: int, values) -> torch.Tensor:
    """[steps + 1, N, A, O] what is observed while the terms are `values(step)`."""
    out = torch.zeros(n, p.count, p.frame_size)
    p.restart(torch.arange(n), values(0), out)
    return torch.stack([out, *(p.push(values(k)) for k in range(1, steps + 1))])


def clock(n: int, count: int = 1):
    """A term that is the number of the step."""
    return lambda k: {"a": torch.full((n, count, 1), float(k))}


def test_drift_is_a_random_walk_whose_variance_grows_linearly():
    n = 4000
    p = pipeline(n, Term("a", 2, drift=0.3, scale=2.0), Term("b", 1), drift=1.5)
    zero = {"a": torch.zeros(n, 1, 2), "b": torch.zeros(n, 1, 1)}
    seen = run(p, n, 100, lambda k: zero)
    assert (seen[0] == 0.0).all()
    assert (seen[..., 2] == 0.0).all()  # declares no drift
    for k in (25, 50, 100):
        want = (2.0 * 1.5 * 0.3) ** 2 * k * DT
        assert seen[k, :, 0, :2].var(0).tolist() == pytest.approx([want] * 2, rel=5 * math.sqrt(2 / n))
    steps = seen[1:, :, 0, 0] - seen[:-1, :, 0, 0]
    assert abs(torch.corrcoef(torch.stack((steps[10], steps[11])))[0, 1]) < 5 / math.sqrt(n)
    again = run(p, n, 1, lambda k: zero)
    assert (again[0] == 0.0).all()  # a new episode begins at 0


def test_terms_of_one_estimate_drift_together():
    n = 50
    terms = Term("a", 2, drift=0.3, scale=2.0), Term("b", 1), Term("c", 2, drift_of="a", scale=3.0)
    p = pipeline(n, *terms, count=2, drift=1.0)
    zero = {t.name: torch.zeros(n, 2, t.size) for t in terms}
    seen = run(p, n, 20, lambda k: zero)
    assert seen[20, ..., :2].abs().min() > 0.0
    torch.testing.assert_close(seen[..., 3:] / 3.0, seen[..., :2] / 2.0)
    assert (seen[..., 2] == 0.0).all()
    assert not torch.equal(seen[20, :, 0, :2], seen[20, :, 1, :2])  # agents estimate on their own


@pytest.mark.parametrize(
    "term", [Term("c", 2, drift_of="b"), Term("c", 1, drift_of="a"), Term("c", 1, drift_of="b", drift=0.1)]
)
def test_a_walk_that_cannot_be_shared_is_refused(term):
    with pytest.raises(RookeryError, match="'c' has the random walk of"):
        pipeline(1, Term("b", 1, drift=0.1), term)


def test_an_observation_that_does_not_arrive_leaves_the_last_one():
    n, steps = 2000, 50
    p = pipeline(n, Term("a", 1, scale=0.5), dropout=0.3)
    seen = run(p, n, steps, clock(n))[:, :, 0, 0] / 0.5
    age = torch.arange(steps + 1)[:, None] - seen
    assert (age[0] == 0).all()
    assert ((age[1:] == 0) | (age[1:] == age[:-1] + 1)).all()
    lost = (age[1:] > 0).float().mean()
    assert lost.item() == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / (n * steps)))


def test_jitter_makes_observations_older_by_up_to_it_and_time_never_runs_back():
    n, steps = 2000, 40
    p = pipeline(n, Term("a", 1), delay=0.02, jitter=0.06)
    seen = run(p, n, steps, clock(n))[:, :, 0, 0]
    age = torch.arange(steps + 1)[:, None] - seen
    late = age[10:]
    assert late.min() == 1
    assert late.max() == 4
    assert (seen.diff(dim=0) >= 0).all()
    assert all((late == k).any() for k in (1, 2, 3, 4))


def test_jitter_and_delay_together_keep_within_what_is_remembered():
    p = pipeline(8, Term("a", 1, delay=0.04), delay=0.08, jitter=0.1)
    seen = run(p, 8, 60, clock(8))[:, :, 0, 0]
    age = torch.arange(61)[:, None] - seen
    assert age[20:].max() <= round(0.1 / DT) + 2


def test_without_any_of_it_nothing_is_drawn():
    p = pipeline(4, Term("a", 1, drift=1.0))
    run(p, 4, 5, clock(4))
    assert (p.rng.counters == 0).all()


def test_results_do_not_depend_on_the_number_of_worlds():
    settings = {"drift": 1.0, "dropout": 0.2, "jitter": 0.04, "noise": 1.0}
    terms = (Term("a", 1, drift=0.2, noise=0.1),)
    few = run(pipeline(3, *terms, **settings), 3, 30, clock(3))
    many = run(pipeline(700, *terms, **settings), 700, 30, clock(700))
    assert torch.equal(few, many[:, :3])


def test_saved_pipelines_go_on_alike():
    settings = {"drift": 1.0, "dropout": 0.2, "jitter": 0.04}
    a = pipeline(5, Term("a", 1, drift=0.2), **settings)
    run(a, 5, 20, clock(5))
    b = pipeline(5, Term("a", 1, drift=0.2))
    b.load_state_dict(a.state_dict())
    b.rng.load_state_dict(a.rng.state_dict())
    for k in range(21, 40):
        assert torch.equal(a.push(clock(5)(k)), b.push(clock(5)(k)))


def commands(n: int, steps: int, loss: float, hold: float) -> torch.Tensor:
    """[steps, N] number of the command in force, which is that of the step where none is lost."""
    d = ActionDelay(n, 1, 1, 4, DT / 4, torch.tensor([-1.0]), Streams(n, 1))
    ids = torch.arange(n).numpy()
    d.configure(ids, batch(n, {"action_dropout": loss, "action_hold": hold}))
    d.reset(ids)
    return torch.stack([d.push(torch.full((n, 1, 1), 0.001 * k))[:, 0, 0] for k in range(steps)]) * 1000.0


def test_lost_commands_leave_the_last_one_in_force():
    n, steps = 2000, 50
    got = commands(n, steps, 0.25, 0.0)
    age = torch.arange(steps)[:, None] - got
    first = got[0]
    assert (first[first != 0.0] == -1000.0).all()  # before any command has arrived, the neutral one
    late = age[1:].round()
    held = late[:, :] > 0
    assert held.float().mean().item() == pytest.approx(0.25, abs=5 * math.sqrt(0.1875 / (n * steps)))


def test_commands_are_lost_for_as_long_as_drawn():
    n, steps = 500, 80
    got = commands(n, steps, 0.02, 3 * DT)
    lost = (torch.arange(steps)[:, None] - got).round() > 0
    lengths = []
    for world in lost.T:
        run_length = 0
        for gone in world.tolist():
            if gone:
                run_length += 1
            elif run_length:
                lengths.append(run_length)
                run_length = 0
    assert min(lengths) == 3
    assert sum(length == 3 for length in lengths) > 0.9 * len(lengths)  # others are two in a row


def test_jittered_commands_go_on_alike_after_a_resume():
    a, b = (ActionDelay(4, 1, 1, 4, DT / 4, torch.zeros(1), Streams(4, 1)) for _ in range(2))
    ids = torch.arange(4).numpy()
    a.configure(ids, batch(4, {"action_delay": 0.01, "action_jitter": 0.05}))
    a.reset(ids)
    for k in range(15):
        a.push(torch.full((4, 1, 1), float(k)))
    b.load_state_dict(a.state_dict())
    b._streams.load_state_dict(a._streams.state_dict())
    for k in range(15, 40):
        assert torch.equal(a.push(torch.full((4, 1, 1), float(k))), b.push(torch.full((4, 1, 1), float(k))))


def test_commands_as_given_are_left_alone():
    d = ActionDelay(3, 1, 2, 4, DT / 4, torch.zeros(2), Streams(3, 1))
    d.configure(torch.arange(3).numpy(), batch(3, {"action_dropout": 0.9}))
    d.reset(torch.arange(3).numpy())
    action = torch.ones(3, 1, 2)
    for _ in range(5):
        d.push(action)
    assert (action == 1.0).all()


def test_each_parameter_of_observations_goes_where_it_belongs():
    """Values that all differ; what is not given stays; delay and jitter together are no more than the memory holds."""
    p = pipeline(2, Term("x", 1), noise=2.0, bias=3.0, drift=4.0, dropout=0.25, delay=0.04, jitter=0.02)
    fields = ("noise", "bias", "drift", "dropout", "extra", "jitter")

    def now() -> list[list[float]]:
        return [getattr(p, name).tolist() for name in fields]

    assert now() == [[2.0] * 2, [3.0] * 2, [4.0] * 2, [0.25] * 2, [2] * 2, [1] * 2]
    for name, value, at, after in (
        ("noise", 5.0, 0, 5.0), ("bias", 6.0, 1, 6.0), ("drift", 7.0, 2, 7.0), ("dropout", 0.5, 3, 0.5),
        ("delay", 0.06, 4, 3), ("jitter", 0.04, 5, 2),
    ):  # fmt: skip
        wanted = now()
        wanted[at][1] = after
        p.configure(np.array([1]), Batch.of({f"observation_{name}": np.full(1, value, np.float32)}))
        assert now() == wanted
    p.configure(np.array([0]), Batch.of({"observation_delay": np.full(1, MAX_DELAY, np.float32)}))
    assert (p.extra[0], p.jitter[0]) == (round(MAX_DELAY / DT), 0)


def test_each_parameter_of_actions_goes_where_it_belongs():
    d = ActionDelay(2, 1, 1, 4, DT / 4, torch.zeros(1), Streams(2, 1))
    fields = ("delay", "jitter", "loss", "hold")

    def now() -> list[list[float]]:
        return [getattr(d, name).tolist() for name in fields]

    both = {"action_delay": 0.02, "action_jitter": 0.01, "action_dropout": 0.25, "action_hold": 0.06}
    d.configure(np.arange(2), batch(2, both))
    assert now() == [[4] * 2, [2] * 2, [0.25] * 2, [3] * 2]
    for name, value, at, after in (
        ("delay", 0.03, 0, 6),
        ("jitter", 0.02, 1, 4),
        ("dropout", 0.5, 2, 0.5),
        ("hold", 0.02, 3, 1),
    ):
        wanted = now()
        wanted[at][1] = after
        d.configure(np.array([1]), Batch.of({f"action_{name}": np.full(1, value, np.float32)}))
        assert now() == wanted


def test_what_never_leaves_the_computer_is_neither_late_nor_lost():
    """The last action, a clock and a command are fresh whatever the link does to what is measured beside them."""
    n, steps = 500, 40
    own = Term("b", last_action(1)), Term("c", Where(Clock("phase", 1), command("target", 1), "0 for none"))
    assert [t.local for t in own] == [True, True]
    for settings in (
        {"delay": 0.06},
        {"jitter": 0.06},
        {"dropout": 0.4},
        {"delay": 0.02, "jitter": 0.04, "dropout": 0.3},
    ):
        p = pipeline(n, Term("a", 1), *own, Term("d", 1, delay=0.02), **settings)
        seen = run(p, n, steps, lambda k: {name: torch.full((n, 1, 1), float(k)) for name in "abcd"})[:, :, 0]
        now = torch.arange(steps + 1)[:, None].expand(-1, n)
        assert torch.equal(seen[..., 1], now.float()) and torch.equal(seen[..., 2], now.float())
        assert (seen[10:, :, 0] < now[10:]).any() and (seen[10:, :, 3] < now[10:]).all()


def test_a_local_term_has_no_delay():
    with pytest.raises(ValueError, match="never leaves the policy's computer"):
        Term("b", last_action(1), delay=0.02)
