"""Back-and-forth, hit and solo bump: rewards, ends and metrics, term by term on hand-made episodes."""

from __future__ import annotations

import math

import pytest
import torch
from drift import without_drift
from volley_table import Table, make

from rookery.tasks.volleyball.back_and_forth import VolleyBackAndForth
from rookery.tasks.volleyball.hit import VolleyHit
from rookery.tasks.volleyball.solo_bump import VolleySoloBump

FAR = (9.0, 4.5, 2.0)
NEAR = (4.5, 0.0, 2.0)


def published(c: int, d: float) -> float:
    """The reward of back-and-forth, VolleyBots (arXiv 2502.01932)."""
    return 2.5 * c + 0.02 * (50 - c) * 0.5 / (1 + d**2)


def total(table: Table, terms: dict) -> float:
    return sum(table.task.cfg.reward[name] * value[0] for name, value in terms.items())


@pytest.mark.parametrize(("cls", "size"), [(VolleyBackAndForth, 26), (VolleyHit, 32), (VolleySoloBump, 32)])
def test_observations_have_the_published_size(cls, size):
    env = make(cls, 2)
    assert env.groups["drone"].observation_size == size
    assert env.reset()[0]["drone"].shape == (2, 1, size)


# Back-and-forth


def test_a_target_is_reached_after_five_steps():
    table = Table(VolleyBackAndForth)
    at = (9.0, 4.5, 2.5)
    for c in range(1, 6):
        terms = table.step(drones={0: at})
        assert total(table, terms) == pytest.approx(published(c, 0.5), rel=1e-5)
        assert table.metrics["targets"] == (c == 5)
    terms = table.step(drones={0: at})  # the target is now where it started
    away = math.dist(at, NEAR)
    assert total(table, terms) == pytest.approx(published(0, away), rel=1e-5)
    assert table.task.play_by_play(0)[-1] == " 0.10 s  drone 0 reaches its target at (9.0, 4.5, 2.5) m"


def test_the_steps_must_be_in_a_row_and_within_0_6_m():
    table = Table(VolleyBackAndForth)
    for _ in range(2):
        for _ in range(4):
            table.step(drones={0: FAR})
        table.step(drones={0: (9.0, 4.5, 2.61)})
    assert table.metrics["targets"] == 0
    assert table.step(drones={0: (9.0, 4.5, 2.59)})["staying"] == [1.0]


def test_targets_take_turns():
    table = Table(VolleyBackAndForth)
    for i in range(6):
        for _ in range(5):
            table.step(drones={0: (FAR, NEAR)[i % 2]})
    assert without_drift(table.metrics) == {"targets": 6.0, "success": 0.0}
    for i in range(4):
        for _ in range(5):
            table.step(drones={0: (FAR, NEAR)[i % 2]})
    assert without_drift(table.metrics) == {"targets": 10.0, "success": 1.0}


@pytest.mark.parametrize(
    ("at", "cause"),
    [
        ((4.5, 0.0, 0.39), "drone_too_low"),
        ((4.5, 0.0, 0.41), ""),
        ((4.5, 0.0, 5.01), "drone_too_high"),
        ((4.5, 0.0, 4.99), ""),
        ((9.0, -3.01, 2.0), "drone_astray"),
        ((9.0, -2.99, 2.0), ""),
    ],
)
def test_back_and_forth_ends(at, cause):
    table = Table(VolleyBackAndForth)
    terms = table.step(drones={0: at})
    assert table.cause == cause
    assert terms["drone_fault"] == [float(bool(cause))]
    assert ("too" in table.task.play_by_play(0)[-1]) == bool(cause)


def test_what_the_drone_sees_of_its_target():
    table = Table(VolleyBackAndForth)
    assert table.task.observe()["drone"]["to_target"][0, 0].tolist() == pytest.approx([4.5, 4.5, 0.0])


# Hit


def test_a_hit_and_its_distance():
    table = Table(VolleyHit)
    table.wait(20)
    terms = table.step((4.4, 0, 2.2), (-9, 0, 5), racket=0)
    assert terms["hit"] == [1.0]
    assert total(table, terms) == pytest.approx(1.0)
    assert total(table, table.step((-3.0, 1.0, 2.5))) == 0.0
    terms = table.step((-5.0, 2.0, 1.5))  # comes down through 2 m at (-4, 1.5)
    assert table.cause == "finished"
    assert total(table, terms) == pytest.approx(2.0 * (4.5 + 4.0), rel=1e-5)
    assert without_drift(table.metrics) == pytest.approx(
        {"success": 1.0, "distance_m": math.hypot(8.5, 1.5), "distance_x_m": 8.5, "hits": 1.0}, rel=1e-5
    )


def test_turning_costs_only_who_asks_for_it():
    table = Table(VolleyHit, start_yaw=1.0)
    state = table.task.drones.bodies.state.clone()
    state[0, 0, 10:13] = torch.tensor([0.0, 0.0, -1.5])  # rad/s, about the upright drone's own axis
    table.task.drones.bodies.set_state(None, state)
    assert table.step()["yaw_rate"] == pytest.approx([1.5])
    assert VolleyHit.Config().reward["yaw_rate"] == 0.0


def test_a_hit_backwards_is_no_success_and_costs():
    table = Table(VolleyHit)
    table.step((4.6, 0, 2.2), racket=0)
    terms = table.step((6.5, 0, 1.0))
    assert terms["distance"][0] < 0
    assert table.metrics["success"] == 0.0


@pytest.mark.parametrize(("off", "penalty"), [(0.99, 0.0), (1.01, -0.05)])
def test_the_drone_stays_near_its_place(off, penalty):
    table = Table(VolleyHit)
    assert total(table, table.step(drones={0: (4.5, off, 2.0)})) == pytest.approx(penalty)


@pytest.mark.parametrize(
    ("step", "cause", "term"),
    [
        ({"ball": (4.5, 0, 0.14)}, "ball_landed", "ball_fault"),
        ({"ball": (4.5, 0, 16.1)}, "ball_too_high", "ball_fault"),
        ({"drones": {0: (4.5, 0, 0.39)}}, "drone_too_low", "drone_fault"),
        ({"drones": {0: (-0.01, 0, 9.0)}}, "drone_crossed_net", "drone_fault"),
    ],
)
@pytest.mark.parametrize("cls", [VolleyHit, VolleySoloBump])
def test_faults_of_single_drones_cost_ten(cls, step, cause, term):
    table = Table(cls)
    terms = table.step(**step)
    if not (cls is VolleySoloBump and cause == "drone_crossed_net"):  # there 9 m is too high first
        assert table.cause == cause
    assert terms[term] == [1.0]
    assert table.task.cfg.reward[term] == -10.0
    assert sum(terms[t][0] for t in ("ball_fault", "drone_fault", "wrong_hit")) == 1.0


@pytest.mark.parametrize("cls", [VolleyHit, VolleySoloBump])
def test_a_double_hit_costs_ten(cls):
    table = Table(cls)
    table.step((4.5, 0, 2.2), racket=0)
    table.step((4.5, 0, 2.5))
    terms = table.step((4.5, 0, 2.2), body=0)
    assert table.cause == "double_hit"
    assert (terms["wrong_hit"], terms["hit"]) == ([1.0], [0.0])


def test_the_hit_ball_may_leave_the_court():
    table = Table(VolleyHit)
    table.step((4.4, 0, 2.2), racket=0)
    table.step((-12.0, 5.0, 3.0))
    assert table.cause == ""


# Solo bump


def bump(table: Table, apex: float) -> dict:
    """A hit, a flight up to `apex` and down again; gives the terms of the hit."""
    terms = table.step((4.5, 0, 2.2), racket=0)
    table.step((4.5, 0, apex))
    table.wait(28)
    return terms


def test_high_hits_are_paid_by_the_mean_apex_so_far():
    """(3.6 + 3.3) / 2 is below 3.5 m, with another 3.9 the mean is above it again. The last flight ends with no hit."""
    table = Table(VolleySoloBump)
    paid = [bump(table, apex)["high_hit"][0] for apex in (3.6, 3.3, 3.9, 3.8)]
    assert paid == [0.0, 1.0, 0.0, 1.0]
    assert without_drift(table.metrics) == pytest.approx(
        {"success": 0.0, "high_hits": 2.0, "hits": 4.0, "mean_apex_m": (3.6 + 3.3 + 3.9) / 3}
    )


def test_ten_high_hits_are_a_success():
    table = Table(VolleySoloBump)
    for _ in range(10):
        bump(table, 3.6)
    assert (table.metrics["high_hits"], table.metrics["success"]) == (9.0, 0.0)
    bump(table, 3.6)
    assert (table.metrics["high_hits"], table.metrics["success"]) == (10.0, 1.0)


@pytest.mark.parametrize(
    ("ball", "drone", "height"), [(3.0, 2.0, 1.0), (4.4, 2.0, 2.0), (1.5, 2.0, 0.0), (2.0, 0.5, 1.0)]
)
def test_shaping(ball, drone, height):
    """The height counts above the drone, but at least above 1 m, from 0 to 2 m."""
    table = Table(VolleySoloBump)
    terms = table.step((4.5 + 0.3, 0.4, ball), drones={0: (4.5, 0.0, drone)})
    assert terms["ball_height"][0] == pytest.approx(height, abs=1e-5)
    assert terms["under_ball"][0] == pytest.approx(1 / 1.5, rel=1e-5)
    weights = table.task.cfg.reward
    assert (weights["hit"], weights["high_hit"], weights["under_ball"], weights["ball_height"]) == (2.0, 8.0, 1.0, 0.5)


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        ({"ball": (4.5, 0, 4.51)}, "ball_too_high"),
        ({"ball": (4.5, 4.51, 3.0)}, "ball_out"),
        ({"drones": {0: (4.5, 0, 2.51)}}, "drone_too_high"),
    ],
)
def test_solo_bump_has_a_roof_and_walls(step, cause):
    table = Table(VolleySoloBump)
    table.step(**step)
    assert table.cause == cause
