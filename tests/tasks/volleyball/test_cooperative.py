"""Bump and pass, set and spike: rewards, ends and metrics, term by term on hand-made episodes."""

from __future__ import annotations

import math

import pytest
import torch
from drift import without_drift
from volley_table import Table, make

from rookery.tasks.volleyball.bump_and_pass import VolleyBumpAndPass
from rookery.tasks.volleyball.set_and_spike import VolleySetAndSpikeEasy


@pytest.mark.parametrize("cls", [VolleyBumpAndPass, VolleySetAndSpikeEasy])
def test_observations(cls):
    env = make(cls, 3)
    assert env.reset()[0]["drone"].shape == (3, 2, 39)
    terms = env.task.observe()["drone"]
    task = env.task
    pos = task.drones.bodies.pos
    assert torch.equal(terms["to_other"][:, 0], pos[:, 1] - pos[:, 0])
    assert torch.equal(terms["to_other"][:, 1], pos[:, 0] - pos[:, 1])
    assert terms["turn"][0].tolist() == [[1, 0], [1, 0]]
    assert terms["number"][0].tolist() == [[1, 0], [0, 1]]
    task.referee.turn[0] = 1
    assert task.observe()["drone"]["turn"][0].tolist() == [[0, 1], [0, 1]]


# Bump and pass


def test_hits_and_passes_are_shared():
    table = Table(VolleyBumpAndPass)
    terms = table.step((4.5, -2.4, 2.2), (0.0, 3.0, 6.0), racket=0)
    assert (terms["hit"], terms["passed"]) == ([1.0, 1.0], [0.0, 0.0])
    assert terms["direction"] == pytest.approx([1.0, 0.0])  # straight at the other; only the hitter is paid
    table.step((4.5, -0.1, 4.2))
    terms = table.step((4.5, 0.1, 4.1))
    assert (terms["hit"], terms["passed"]) == ([0.0, 0.0], [1.0, 1.0])
    assert table.step((4.5, 0.3, 4.0))["passed"] == [0.0, 0.0]
    assert without_drift(table.metrics) == {"success": 0.0, "passes": 1.0, "hits": 1.0, "crossings": 1.0}


def test_a_low_pass_is_none():
    table = Table(VolleyBumpAndPass)
    table.step((4.5, -0.1, 3.99), racket=0)
    assert table.step((4.5, 0.1, 3.99))["passed"] == [0.0, 0.0]
    assert (table.metrics["passes"], table.metrics["crossings"]) == (0.0, 1.0)


@pytest.mark.parametrize(("velocity", "cosine"), [((0, -2, 1), -1.0), ((3, 3, 1), math.sqrt(0.5)), ((1, 0, 5), 0.0)])
def test_the_direction_of_a_hit(velocity, cosine):
    table = Table(VolleyBumpAndPass)
    assert table.step((4.5, -2.4, 2.2), velocity, racket=0)["direction"][0] == pytest.approx(cosine, abs=1e-6)


def test_shaping_draws_the_next_hitter_to_the_ball_and_the_other_away():
    table = Table(VolleyBumpAndPass)
    near = 1 / (1 + 0.5)
    far = 1 / (1 + 4.5)
    terms = table.step((4.5, -2.0, 4.0))
    assert terms["near_ball"] == pytest.approx([(near - far) / 2] * 2, rel=1e-5)
    terms = table.step((4.5, -2.0, 2.2), racket=0)  # the turn has passed on
    assert terms["near_ball"] == pytest.approx([(far - near) / 2] * 2, rel=1e-5)


def test_drones_stay_near_their_anchors():
    table = Table(VolleyBumpAndPass)
    assert table.step(drones={0: (4.5, -2.5, 2.49)})["far_from_anchor"] == [0.0, 0.0]
    terms = table.step(drones={0: (4.5, -2.5, 3.0), 1: (4.5, 2.5, 2.7)})
    assert terms["far_from_anchor"] == pytest.approx([(0.5 + 0.2) / 2] * 2, rel=1e-4)
    assert table.task.cfg.reward["far_from_anchor"] == -0.05


@pytest.mark.parametrize(
    ("step", "cause", "term", "who"),
    [
        ({"racket": 1}, "wrong_turn", "wrong_hit", [0.0, 1.0]),
        ({"body": 0}, "not_racket", "wrong_hit", [1.0, 0.0]),
        ({"drones": {1: (4.5, 2.5, 0.39)}}, "drone_too_low", "drone_fault", [0.0, 1.0]),
        ({"drones": {0: (0.1, 0.0, 2.0)}}, "drone_in_net", "drone_fault", [1.0, 0.0]),
        ({"ball": (4.5, -2.5, 0.19)}, "ball_landed", "ball_fault", [1.0, 1.0]),
        ({"ball": (9.1, -2.5, 3.0)}, "ball_out", "ball_fault", [1.0, 1.0]),
        ({"ball": (0.0, -2.5, 2.0)}, "ball_in_net", "ball_fault", [1.0, 1.0]),
        ({"ball": (4.5, -2.5, 16.1)}, "ball_too_high", "ball_fault", [1.0, 1.0]),
    ],
)
def test_faults_of_pairs(step, cause, term, who):
    table = Table(VolleyBumpAndPass)
    terms = table.step(**step)
    assert table.cause == cause
    assert terms[term] == who
    assert table.task.cfg.reward[term] == -10.0
    others = {"wrong_hit", "drone_fault", "ball_fault"} - {term}
    assert all(terms[t] == [0.0, 0.0] for t in others)


# Set and spike


def rally(target: tuple[float, float]) -> tuple[Table, list[dict]]:
    """A set, a spike down, and the ball on its way to `target`; gives the terms of hit, spike, crossing and landing."""
    table = Table(VolleySetAndSpikeEasy)
    terms = [table.step((2.0, -2.5, 2.7), (0, 3, 7), racket=0)]
    table.wait(5)
    terms.append(table.step((2.0, 2.5, 3.6), (-8, -3, -4), racket=1))
    table.step((0.2, 0.5, 3.0))
    terms.append(table.step((-0.2, 0.4, 2.9)))
    table.step((*target, 0.3))
    terms.append(table.step((*target, 0.1)))
    return table, terms


def test_a_rally_that_scores():
    table, (first, spike, crossing, landing) = rally((-4.0, 0.5))
    assert (first["hit"], first["direction"], first["downward_spike"]) == ([1, 1], pytest.approx([1, 0]), [0, 0])
    assert (spike["hit"], spike["downward_spike"], spike["crossed"]) == ([1, 1], [1, 1], [0, 0])
    assert spike["spike_speed"] == pytest.approx([9.0, 9.0])
    cosine = (6.5 * 8 + 2.5 * 3) / math.hypot(6.5, 2.5) / math.hypot(8, 3)
    assert spike["direction"] == pytest.approx([0.0, cosine], rel=1e-5)
    assert (crossing["crossed"], crossing["in_target"]) == ([1, 1], [0, 0])
    off = math.hypot(0.5, 0.5)
    assert (landing["in_target"], landing["crossed"], landing["ball_fault"]) == ([1, 1], [0, 0], [1, 1])
    assert landing["landing"] == pytest.approx([10 - off] * 2, rel=1e-5)
    assert table.cause == "ball_landed"
    assert without_drift(table.metrics) == pytest.approx(
        {"success": 1.0, "hits": 2.0, "crossed": 1.0, "off_target_m": off}, rel=1e-4
    )


def test_a_rally_that_misses_the_target():
    table, (*_, landing) = rally((-4.5, 1.01))
    assert landing["in_target"] == [0, 0]
    assert table.metrics["success"] == 0.0


def test_the_ball_must_be_spiked():
    """Set over the net into the target by the first drone alone: nothing."""
    table = Table(VolleySetAndSpikeEasy)
    table.step((2.0, -2.5, 2.7), racket=0)
    table.step((0.2, 0.0, 3.0))
    assert table.step((-0.2, 0.0, 3.0))["crossed"] == [0, 0]
    table.step((-4.5, 0.0, 0.3))
    landing = table.step((-4.5, 0.0, 0.1))
    assert (landing["in_target"], landing["landing"], table.metrics["success"]) == ([0, 0], [0, 0], 0.0)


def test_an_upward_spike_is_a_hit_only():
    table = Table(VolleySetAndSpikeEasy)
    table.step((2.0, -2.5, 2.7), racket=0)
    table.wait(5)
    terms = table.step((2.0, 2.5, 3.6), (-8, 0, 6), racket=1)
    assert (terms["hit"], terms["downward_spike"], terms["spike_speed"]) == ([1, 1], [0, 0], [0, 0])


def test_shaping_by_turn():
    """Setter's turn: it alone is drawn to the ball; attacker's: the setter is driven away too; then the attacker is."""
    table = Table(VolleySetAndSpikeEasy)
    near = 1 / (1 + 0.5)
    far = 1 / (1 + 4.5)
    at = (2.0, -2.0)
    assert table.step((*at, 4.0))["near_ball"] == pytest.approx([near / 2] * 2, rel=1e-5)
    assert table.step((*at, 2.7), racket=0)["near_ball"] == pytest.approx([(far - near) / 2] * 2, rel=1e-5)
    table.wait(5)
    assert table.step((*at, 3.6), racket=1)["near_ball"] == pytest.approx([-far / 2] * 2, rel=1e-5)


def test_nobody_hits_a_third_time_and_the_turn_says_so():
    table = Table(VolleySetAndSpikeEasy)
    table.step((2.0, -2.5, 2.7), racket=0)
    table.wait(5)
    table.step((2.0, 2.5, 3.6), racket=1)
    table.wait(5)
    assert table.task.observe()["drone"]["turn"][0].tolist() == [[0, 0], [0, 0]]
    table.step((2.0, 2.5, 3.6), racket=1)
    assert table.cause == "wrong_turn"


@pytest.mark.parametrize(
    ("step", "cause"),
    [({"drones": {0: (-0.01, -2.5, 9.0)}}, "drone_crossed_net"), ({"drones": {1: (2.0, 2.5, 0.39)}}, "drone_too_low")],
)
def test_a_drone_fault_costs_both(step, cause):
    table = Table(VolleySetAndSpikeEasy)
    terms = table.step(**step)
    assert (table.cause, terms["drone_fault"]) == (cause, [1, 1])
