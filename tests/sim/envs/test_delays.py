"""Delays against a list of everything that was ever pushed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.sim.envs.delays import MAX_DELAY, ActionDelay
from rookery.sim.envs.observation import ObservationPipeline
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch
from rookery.sim.specs import ActionSpec, Group, Term

NEUTRAL = torch.tensor([-7.0, -8.0])


class ObservationDelay:
    """The delays of a pipeline that does nothing else to its components, whose own delays are `own` [O] s."""

    def __init__(self, n: int, agents: int, size: int, control_dt: float, own: torch.Tensor) -> None:
        terms = tuple(Term(f"c{i}", 1, delay=float(own[i])) for i in range(size))
        action = ActionSpec("none", ("a",), (-1,), (1,), ("1",), (0,))
        self.pipeline = ObservationPipeline(Group(agents, terms, action), n, control_dt, Streams(n, 0))
        self.shape = n, agents, size
        self.extra = self.pipeline.extra

    def set(self, ids: torch.Tensor, seconds: torch.Tensor) -> None:
        self.pipeline.configure(ids.numpy(), Batch.of({"observation_delay": seconds.float().numpy()}))

    def terms(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"c{i}": x[..., i : i + 1] for i in range(x.shape[-1])}

    def push(self, x: torch.Tensor) -> torch.Tensor:
        return self.pipeline.push(self.terms(x))

    def restart(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Of x [n, A, O]."""
        whole = torch.full(self.shape, math.nan)
        whole[ids] = x
        out = torch.empty(self.shape)
        self.pipeline.restart(ids, self.terms(whole), out)
        return out[ids]


def set_delay(d: ActionDelay, ids: torch.Tensor, seconds: torch.Tensor) -> None:
    """Delay [n] s of the worlds `ids`, which begin an episode."""
    d.configure(ids.numpy(), Batch.of({"action_delay": seconds.float().numpy()}))
    d.reset(ids.numpy())


def late(d: ActionDelay, ids: np.ndarray, delay: float, jitter: float) -> None:
    """The same delay and jitter, s, in all worlds."""
    values = {
        "action_delay": np.full(len(ids), delay, np.float32),
        "action_jitter": np.full(len(ids), jitter, np.float32),
    }
    d.configure(ids, Batch.of(values))
    d.reset(ids)


class Episodes:
    """What each world has been given since its last reset."""

    def __init__(self, n: int) -> None:
        self.items: list[list[torch.Tensor]] = [[] for _ in range(n)]

    def push(self, x: torch.Tensor) -> None:
        for queue, row in zip(self.items, x, strict=True):
            queue.append(row.clone())


def numbered(step: int, n: int, agents: int, size: int) -> torch.Tensor:
    """[N, A, D] in which every number is different and says when it was made."""
    return 1000.0 * step + torch.arange(n * agents * size).view(n, agents, size)


@given(
    k=st.integers(1, 7),
    dt=st.sampled_from([0.001, 0.002, 0.004, 0.0033]),
    seed=st.integers(0, 2**31),
    zero=st.booleans(),
)
@settings(max_examples=60)
def test_actions_arrive_late_by_whole_physics_steps(k, dt, seed, zero):
    """In physics step t of an episode the action of control step floor((t - delay) / K) is in force."""
    n = 3
    rng = torch.Generator().manual_seed(seed)
    d = ActionDelay(n, 2, 2, k, dt, NEUTRAL)
    model = Episodes(n)
    most = round(MAX_DELAY / dt)
    delay = torch.zeros(n, dtype=torch.int64)

    def reset(ids: torch.Tensor) -> None:
        delay[ids] = torch.randint(0, 1 if zero else most + 1, (len(ids),), generator=rng)
        set_delay(d, ids, delay[ids] * dt)
        for i in ids.tolist():
            model.items[i] = []

    reset(torch.arange(n))
    for step in range(most // k + 6):
        if step % 5 == 4:
            reset(torch.randperm(n, generator=rng)[: 1 + step % 2].sort().values)
        action = numbered(step, n, 2, 2)
        model.push(action)
        got = d.push(action)
        if zero:
            assert torch.equal(got, action)
            continue
        rows = got if got.dim() == 4 else got[:, None].expand(n, k, 2, 2)
        assert rows.shape == (n, k, 2, 2)
        for i in range(n):
            now = (len(model.items[i]) - 1) * k
            for j in range(k):
                at = math.floor((now + j - int(delay[i])) / k)
                wanted = model.items[i][at] if at >= 0 else NEUTRAL.expand(2, 2)
                assert torch.equal(rows[i, j], wanted), (i, j, delay[i])


@pytest.mark.parametrize("jitter", [1, 3, 12])
def test_jittered_actions_are_in_force_from_their_arrival_unless_a_newer_one_has_arrived(jitter):
    n, k, dt, delay = 30, 4, 0.002, 2
    ids = torch.arange(n).numpy()
    d = ActionDelay(n, 1, 1, k, dt, torch.tensor([-1.0]), Streams(n, 3))
    late(d, ids, delay * dt, jitter * dt)
    twin = Streams(n, 3)  # one number of the world's stream for each action
    arrival: list[torch.Tensor] = []
    seen = set()
    for step in range(25):
        extra = (twin().uniform() * (jitter + 1)).floor().long()
        seen |= set(extra.tolist())
        arrival.append(step * k + delay + extra)
        rows = d.push(torch.full((n, 1, 1), float(step)))[..., 0, 0]
        for i in range(n):
            for j in range(k):
                arrived = [s for s, due in enumerate(arrival) if due[i] <= step * k + j]
                assert rows[i, j] == max(arrived, default=-1), (step, i, j)
    assert seen == set(range(jitter + 1))


def test_delay_and_jitter_together_are_at_most_the_longest_delay():
    n, dt = 50, 0.002
    ids = torch.arange(n).numpy()
    d = ActionDelay(n, 1, 1, 5, dt, torch.zeros(1), Streams(n, 3))
    late(d, ids, 0.09, 0.09)
    for step in range(40):
        rows = d.push(torch.full((n, 1, 1), float(step)))[..., 0, 0]
    assert d.late.max() == round(MAX_DELAY / dt)
    assert rows.min() >= 40 - 1 - round(MAX_DELAY / (5 * dt))


@pytest.mark.parametrize("k", [1, 5])
def test_every_action_delay_up_to_the_longest(k):
    """One world for each delay; the last action that counts is pushed at step 0, all others are zero."""
    dt = 0.002
    n = round(MAX_DELAY / dt) + 1
    d = ActionDelay(n, 1, 1, k, dt, torch.zeros(1))
    set_delay(d, torch.arange(n), torch.arange(n) * dt)
    rows = torch.cat([d.push(torch.full((n, 1, 1), float(s == 0))) for s in range(n // k + 3)], dim=1)[..., 0, 0]
    for i in range(n):
        assert rows[i].nonzero().flatten().tolist() == list(range(i, i + k))


@given(control_dt=st.sampled_from([0.01, 0.015, 0.02, 0.006, 0.04, 0.1]), seed=st.integers(0, 2**31), own=st.booleans())
@settings(max_examples=60)
def test_observations_are_old_by_whole_control_steps(control_dt, seed, own):
    """What is seen is that of `delay` control steps ago, or the episode's first where there was none yet."""
    n = 3
    rng = torch.Generator().manual_seed(seed)
    terms = torch.tensor([0.0, 0.0, 2.0, 5.0]) * control_dt if own else torch.zeros(4)
    d = ObservationDelay(n, 2, 4, control_dt, terms)
    model = Episodes(n)
    most = round(MAX_DELAY / control_dt)
    extra = torch.zeros(n, dtype=torch.int64)

    def restart(ids: torch.Tensor, x: torch.Tensor) -> None:
        extra[ids] = torch.randint(0, most + 1, (len(ids),), generator=rng)
        d.set(ids, extra[ids] * control_dt)
        assert torch.equal(d.restart(ids, x[ids]), x[ids])
        for i in ids.tolist():
            model.items[i] = [x[i].clone()]

    restart(torch.arange(n), numbered(0, n, 2, 4))
    for step in range(1, most + 15):
        x = numbered(step, n, 2, 4)
        model.push(x)
        got = d.push(x.clone())
        for i in range(n):
            for c in range(4):
                age = int(extra[i]) + (0, 0, 2, 5)[c] * own
                wanted = model.items[i][max(len(model.items[i]) - 1 - age, 0)]
                assert torch.equal(got[i, :, c], wanted[:, c]), (i, c, age)
        if step % 7 == 6:
            restart(torch.randperm(n, generator=rng)[:2].sort().values, numbered(step + 1000, n, 2, 4))


def test_without_delays_nothing_is_copied():
    x = torch.ones(2, 1, 3)
    assert ActionDelay(2, 1, 3, 5, 0.002, torch.zeros(3)).push(x) is x


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_actions_are_clipped_and_looked_through(bad):
    d = ActionDelay(3, 2, 2, 5, 0.002, NEUTRAL)
    x = torch.linspace(-2.0, 2.0, 12).view(3, 2, 2)
    kept = x.clone()
    for actions in (x, x.double(), x.transpose(1, 2).contiguous().transpose(1, 2), x.clone().requires_grad_()):
        clipped, wrong = d.clip(actions)
        assert wrong == -1
        assert torch.equal(clipped, kept.clamp(-1.0, 1.0)) and not clipped.requires_grad
    assert torch.equal(x, kept)
    for place in ((1, 0, 1), (2, 1, 1)):
        y = x.clone()
        y[2, 1, 1] = bad
        y[place] = bad
        assert d.clip(y)[1] == place[0]


def test_delays_round_to_whole_steps():
    d = ActionDelay(4, 1, 1, 5, 0.002, torch.zeros(1))
    set_delay(d, torch.arange(4), torch.tensor([0.0, 0.0009, 0.0011, 0.02]))
    assert d.delay.tolist() == [0, 0, 1, 10]
    o = ObservationDelay(3, 1, 1, 0.01, torch.zeros(1))
    o.set(torch.arange(3), torch.tensor([0.004, 0.006, 0.1]))
    assert o.extra.tolist() == [0, 1, 10]


def test_saved_delays_go_on():
    a, b = (ActionDelay(2, 1, 2, 5, 0.002, NEUTRAL) for _ in range(2))
    o, p = (ObservationDelay(2, 1, 2, 0.01, torch.tensor([0.0, 0.03])) for _ in range(2))
    ids = torch.arange(2)
    set_delay(a, ids, torch.tensor([0.007, 0.03]))
    o.set(ids, torch.tensor([0.02, 0.0]))
    o.restart(ids, numbered(0, 2, 1, 2))
    for step in range(1, 4):
        a.push(numbered(step, 2, 1, 2))
        o.push(numbered(step, 2, 1, 2))
    b.load_state_dict(a.state_dict())
    p.pipeline.load_state_dict(o.pipeline.state_dict())
    for step in range(4, 20):
        assert torch.equal(a.push(numbered(step, 2, 1, 2)), b.push(numbered(step, 2, 1, 2)))
        assert torch.equal(o.push(numbered(step, 2, 1, 2)), p.push(numbered(step, 2, 1, 2)))


@pytest.mark.parametrize("dt", [0.001, 0.003, 0.004, 0.0056, 0.006, 0.01, 0.015, 0.03, 0.04, 0.07, 0.1])
def test_the_longest_delay_fits_at_every_rate(dt):
    """Also where it is no whole number of steps."""
    o = ObservationDelay(1, 1, 1, dt, torch.zeros(1))
    a = ActionDelay(1, 1, 1, 3, dt, torch.zeros(1))
    set_delay(a, torch.arange(1), torch.tensor([MAX_DELAY]))
    o.set(torch.arange(1), torch.tensor([MAX_DELAY]))
    o.restart(torch.arange(1), torch.zeros(1, 1, 1))
    steps = round(MAX_DELAY / dt)
    seen = [o.push(torch.full((1, 1, 1), float(i))).item() for i in range(1, steps + 3)]
    assert seen[-1] == 2
    assert [a.push(torch.ones(1, 1, 1)).sum().item() for _ in range(steps // 3 + 2)][-1] == 3


@pytest.mark.parametrize(
    "values", [{"action_delay": 0.01}, {"action_jitter": 0.01}, {"action_dropout": 0.3, "action_hold": 0.1}]
)
def test_what_acts_in_one_world_alone_acts_after_a_resume(values):
    d, again = (ActionDelay(3, 1, 2, 4, 0.005, NEUTRAL, Streams(3, 0, "loss")) for _ in range(2))
    d.configure(np.array([1]), Batch.of({k: np.full(1, v, np.float32) for k, v in values.items()}))
    assert (d.on, d.lossy) == ("action_dropout" not in values, "action_dropout" in values)
    again.load_state_dict(d.state_dict())
    assert (again.on, again.lossy) == (d.on, d.lossy)
    for t in range(20):
        assert torch.equal(again.push(numbered(t, 3, 1, 2)), d.push(numbered(t, 3, 1, 2)))
