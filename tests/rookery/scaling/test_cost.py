"""The model of a step's cost: its formula against a schedule, its fit, and the way that is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.scaling.cost import DEFAULT_COST, StepCost, TimedStep, Way, best_way, ways_of

micros = st.floats(0.1, 1000.0).map(lambda us: us * 1e-6)
costs = st.builds(StepCost, micros, micros, micros, micros, micros)


def scheduled(cost: StepCost, way: Way, worlds: int, cores: int) -> float:
    """s of a step, from processes that share processors in equal slices until all have done their work."""
    if way.shards == 1:
        serial = cost.fixed_s + sum(cost.world_s for _ in range(worlds))
        threads = [cost.physics_s * worlds / way.threads] * way.threads
        while threads:  # a round in which every processor takes one thread to its end
            serial += threads[0]
            threads = threads[cores:]
        return serial
    work = [cost.fixed_s + (cost.world_s + cost.physics_s) * worlds / way.shards] * way.shards
    served = 0.0
    while any(w > 1e-15 for w in work):
        least = min(w for w in work if w > 1e-15)
        running = [i for i, w in enumerate(work) if w > 1e-15]
        served += least * max(1.0, len(running) / cores)
        for i in running:
            work[i] -= least
    return served + sum(cost.message_s for _ in range(way.shards)) + sum(cost.gather_s for _ in range(worlds))


@given(costs, st.integers(1, 16), st.integers(1, 32), st.integers(64, 300))
def test_a_step_takes_what_a_schedule_of_its_parts_takes(cost: StepCost, cores: int, shards: int, worlds: int) -> None:
    assert cost.step_s(Way(shards, 1), worlds, cores) == pytest.approx(scheduled(cost, Way(shards, 1), worlds, cores))
    for threads in {1, cores}:
        way = Way(1, threads)
        assert cost.step_s(way, worlds, cores) == pytest.approx(scheduled(cost, way, worlds, cores))


@given(costs, st.integers(2, 64))
def test_one_and_two_processors_tell_all_constants(cost: StepCost, cores: int) -> None:
    """Without noise, the fit to six steps says the time of every other way."""
    near = [Way(1, 1), Way(1, 2), Way(2, 1)]
    steps = [TimedStep(way, n, cost.step_s(way, n, cores)) for way in near for n in (128, 1024)]
    found = StepCost.fitted(steps, cores)
    for way in (*ways_of(cores, 4096, True), Way(2 * cores, 1)):
        assert found.step_s(way, 4096, cores) == pytest.approx(cost.step_s(way, 4096, cores), rel=1e-3)


def test_a_task_that_stays_in_one_process_is_fitted_without_the_others() -> None:
    steps = [TimedStep(Way(1, t), n, 1e-4 + n * (2e-6 + 8e-6 / t)) for t in (1, 2, 4) for n in (64, 512)]
    found = StepCost.fitted(steps, 4)
    assert (found.message_s, found.gather_s) == (0.0, 0.0)
    assert found.rate(Way(1, 4), 512, 4) == pytest.approx(512 / (1e-4 + 512 * 4e-6))
    assert found.limit(Way(1, 1), 512, 4) == "physics" and found.limit(Way(1, 4), 8, 4) == "Python"


@given(st.integers(1, 256), st.integers(1, 5000), st.booleans())
def test_ways_use_at_most_all_processors(cores: int, worlds: int, divisible: bool) -> None:
    ways = ways_of(cores, worlds, divisible)
    assert ways[0] == Way(1, 1) and Way(1, cores) in ways
    assert len(set(ways)) == len(ways)
    for way in ways:
        assert 1 <= way.processors <= cores and 1 in (way.shards, way.threads)
        assert way.shards == 1 or (divisible and worlds >= 2 * way.shards)


def test_equal_speeds_take_fewer_processors() -> None:
    def taken(*rates: tuple[Way, float]) -> Way:
        return best_way(dict(rates), dict(rates).__getitem__)[0]

    assert taken((Way(1, 1), 100.0), (Way(1, 2), 180.0), (Way(2, 1), 160.0)) == Way(1, 2)
    assert taken((Way(1, 1), 97.0), (Way(1, 2), 100.0), (Way(4, 1), 99.0)) == Way(1, 1)
    assert taken((Way(1, 4), 100.0), (Way(4, 1), 101.0)) == Way(1, 4)
    assert taken((Way(1, 4), 100.0), (Way(4, 1), 120.0)) == Way(4, 1)


def test_the_reason_has_the_figures() -> None:
    rates = {Way(1, 4): 100.0, Way(4, 1): 150.0}
    assert best_way(rates, rates.__getitem__)[1] == "150 steps/s, 1.50 times those of 1 process with 4 threads"
    rates = {Way(1, 1): 97.0, Way(1, 2): 100.0}
    assert "1 process with 2 threads would be faster by 3%" in best_way(rates, rates.__getitem__)[1]


def test_default_constants_divide_worlds_where_there_are_many_processors() -> None:
    def taken(cores: int, worlds: int) -> int:
        return best_way(ways_of(cores, worlds, True), lambda w: DEFAULT_COST.rate(w, worlds, cores))[0].shards

    assert taken(1, 1024) == 1
    assert taken(16, 4096) == 16
    assert taken(16, 512) == 1, "as measured, docs/scaling.md"
    assert taken(128, 4096) < 128, "messages to so many processes cost more than they save"
    assert taken(8, 16) == 1
