"""The referee, case by case and fault by fault, on hand-made events: no physics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rookery.tasks.volleyball import rally
from rookery.tasks.volleyball.referee import Referee, judge
from rookery.tasks.volleyball.rules import (
    ALTERNATE,
    FREE,
    IN_THE_AIR,
    NOWHERE,
    ON_GROUND,
    OVER,
    PLANE,
    PLAY,
    SEQUENCE,
    SERVE,
    SLAB,
    TEAMS,
    Rules,
)

DT = 0.02
STEP = 0.005
COURT = (9.0, 4.5, 2.43, 0.1)
SOLO = Rules(
    *COURT, order=FREE, hit_gap=25, gap_is_fault=True, racket_only=False, ball_low=0.15, ball_high=4.5,
    ball_net=False, apex_above=3.5, drone_high=2.5,
)  # fmt: skip
HIT = SOLO._replace(ball_high=16.0, bounds=NOWHERE, drone_high=math.inf, finish_height=2.0)
PASS = Rules(*COURT, order=ALTERNATE, cross_axis=1, cross_above=4.0, drone_net=SLAB)
SPIKE = Rules(*COURT, order=SEQUENCE, cross_at=-0.1)
DUEL = Rules(3.0, 1.5, 2.43, 0.1, order=ALTERNATE, drone_low=0.3)
TEAM = Rules(6.0, 3.0, 2.43, 0.1, order=TEAMS, bounds=ON_GROUND, drone_low=0.3, apart=0.8)
TRIOS = [(3, -1.5, 2), (3, 1.5, 2), (6, 0, 2), (-3, 1.5, 2), (-3, -1.5, 2), (-6, 0, 2)]


class Game:
    """One world: drones stay at their places unless moved, and the ball is where each step says."""

    def __init__(self, rules: Rules, drones, server: int = 0, ball=None) -> None:
        self.drones = torch.zeros(1, len(drones), 13)
        self.drones[0, :, :3] = torch.tensor(drones, dtype=torch.float32)
        self.referee = Referee(1, rules, [int(d[0] < 0) for d in drones], DT, STEP)
        self.ball = torch.zeros(1, 13)
        self.ball[0, :3] = torch.tensor(ball if ball is not None else (*drones[server][:2], 3.0))
        self.referee.start(torch.tensor([0]), self.ball, torch.tensor([server]))

    def step(self, ball=None, racket=None, body=None, ground=None, net=None, when=0.01, **moved):
        """One control step at whose end the ball is at `ball`; `racket` and `body` are drones that it touched."""
        a = self.drones.shape[1]
        times = torch.full((1, 2 * a + 2), math.inf)
        for d in () if racket is None else np.atleast_1d(racket):
            times[0, d] = when
        for d in () if body is None else np.atleast_1d(body):
            times[0, a + d] = when
        if ground is not None:
            times[0, 2 * a] = ground
        if net is not None:
            times[0, 2 * a + 1] = net
        if ball is not None:
            self.ball[0, :3] = torch.tensor(ball, dtype=torch.float32)
        for name, pos in moved.items():
            self.drones[0, int(name[1:]), :3] = torch.tensor(pos, dtype=torch.float32)
        self.referee.step(times, self.ball, self.drones)
        return self

    def wait(self, steps: int):
        for _ in range(steps):
            self.step()
        return self

    def __getattr__(self, name):
        value = getattr(self.referee, name)[0]
        return value.item() if value.dim() == 0 else value

    @property
    def call(self) -> str:
        return rally.FAULTS[self.fault - 1] if self.fault else ""

    @property
    def log(self) -> list[str]:
        return self.referee.log.play_by_play(0)


def solo(rules: Rules = SOLO) -> Game:
    return Game(rules, [(4.5, 0.0, 2.0)])


def pair(rules: Rules = PASS, **kwargs) -> Game:
    return Game(rules, [(4.5, -2.5, 2.0), (4.5, 2.5, 2.0)], **kwargs)


def duel(server: int = 0) -> Game:
    return Game(DUEL, [(1.5, 0.0, 2.0), (-1.5, 0.0, 2.0)], server=server)


def trios(server: int = 2, **rules) -> Game:
    return Game(TEAM._replace(**rules), TRIOS, server=server)


# Hits


def test_nothing_happens_to_a_ball_in_the_air():
    g = solo().wait(30)
    assert (g.phase, g.call, g.total, g.clock) == (SERVE, "", 0, 30)


@pytest.mark.parametrize("how", ["racket", "body"])
def test_a_single_drone_may_hit_with_anything(how):
    g = solo().step(**{how: 0})
    assert (g.phase, g.total, g.hits.tolist(), g.hit_now.tolist(), g.last_hitter) == (PLAY, 1, [1], [1], 0)
    assert how in g.log[-1]
    assert g.step().hit_now.tolist() == [0]


@pytest.mark.parametrize(("pause", "call"), [(24, "double_hit"), (25, "")])
def test_a_second_hit_within_25_steps_is_a_double_hit(pause, call):
    g = solo().step(racket=0).wait(pause).step(racket=0)
    assert (g.call, g.total) == (call, 1 if call else 2)


def test_the_double_hit_counts_from_the_last_legal_hit():
    g = solo().step(racket=0).wait(25).step(racket=0).wait(24).step(racket=0)
    assert (g.call, g.culprit) == ("double_hit", 0)


def test_a_contact_that_lasts_into_the_next_step_is_one_touch():
    assert solo().step(racket=0).step(racket=0, when=0.0).total == 1
    assert solo().step(racket=0).step(racket=0, when=0.0).call == ""
    assert solo().step(racket=0).step(racket=0, when=0.01).call == "double_hit"
    assert solo().step(racket=0).step(racket=0, when=0.0).step(racket=0, when=0.0).call == "double_hit"


def test_touches_soon_after_a_hit_are_ignored_in_games_of_several():
    g = pair().step(racket=0)
    for _ in range(5):  # each one begins the gap anew
        g.wait(2).step(racket=0)
    assert (g.call, g.total) == ("", 1)
    assert g.wait(3).step(racket=0).call == "wrong_turn"


def test_partners_alternate():
    g = pair()
    for d in (0, 1, 0, 1):
        assert g.turn == d
        g.step(racket=d).wait(10)
    assert (g.total, g.hits.tolist(), g.call) == (4, [2, 2], "")
    g.step(racket=1)
    assert (g.call, g.culprit, g.phase) == ("wrong_turn", 1, OVER)


def test_the_first_hit_is_the_servers():
    assert pair().step(racket=1).call == "wrong_turn"
    assert pair(server=1).step(racket=1).call == ""


def test_games_of_several_are_played_with_the_racket():
    g = pair().step(body=0)
    assert (g.call, g.culprit, g.total) == ("not_racket", 0, 0)
    assert pair().step(racket=0, body=0).call == ""  # the racket was not later


def test_set_and_spike_is_one_hit_each():
    g = pair(SPIKE).step(racket=0).wait(5)
    assert g.turn == 1
    g.step(racket=1).wait(5)
    assert (g.turn, g.call) == (2, "")
    assert g.step(racket=0).call == "wrong_turn"
    assert pair(SPIKE).step(racket=0).wait(5).step(racket=0).call == "wrong_turn"


# The ball


@pytest.mark.parametrize(("rules", "low"), [(SOLO, 0.15), (PASS, 0.2)])
def test_landing(rules, low):
    g = Game(rules, [(4.5, 0.0, 2.0), (4.5, 2.0, 2.0)], ball=(2.0, 1.0, 1.0))
    assert g.step((2.0, 1.0, low + 1e-4)).call == ""
    g.step((2.0, 1.0, low - 1e-4))
    assert (g.call, g.culprit) == ("ball_landed", -1)


def test_where_the_ball_lands_lies_on_its_way():
    g = Game(PASS, [(4.5, 0.0, 2.0)], ball=(2.0, 1.0, 0.6)).step((1.0, -1.0, 0.1))
    # it falls by 0.5 m and is at 0.2 m after four fifths of the way
    assert g.end.tolist() == pytest.approx([1.2, -0.6, 0.2], abs=1e-6)
    assert g.log[-1] == " 0.02 s  ball lands in the court at (1.2, -0.6) m"


def test_a_ball_that_bounces_off_the_ground_between_two_looks_has_landed():
    g = Game(PASS, [(4.5, 0.0, 2.0)], ball=(2.0, 1.0, 0.3)).step((2.0, 1.0, 0.3), ground=0.01)
    assert g.call == "ball_landed"


@pytest.mark.parametrize(("rules", "high"), [(SOLO, 4.5), (HIT, 16.0), (PASS, 16.0)])
def test_too_high(rules, high):
    g = Game(rules, [(4.5, 0.0, 2.0), (4.5, 2.0, 2.0)], ball=(2.0, 1.0, high - 0.1))
    assert g.step((2.0, 1.0, high - 0.01)).call == ""
    assert g.step((2.0, 1.0, high + 0.01)).call == "ball_too_high"


@pytest.mark.parametrize("to", [(9.01, 0, 5), (-9.01, 0, 5), (1, 4.51, 5), (1, -4.51, 5)])
def test_out_in_the_air(to):
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.99 * to[0], 0.99 * to[1], 5)).step(to).call == "ball_out"
    assert Game(HIT, [(4.5, 0.0, 2.0)], ball=(0.99 * to[0], 0.99 * to[1], 5)).step(to).call == ""
    over = Game(TEAM._replace(half_length=9.0, half_width=4.5), TRIOS, ball=(0.99 * to[0], 0.99 * to[1], 5)).step(to)
    assert over.call == ""


def test_out_is_called_where_the_ball_left_the_court():
    g = Game(PASS, [(4.5, 0.0, 2.0)], ball=(8.0, 4.4, 5.0)).step((10.0, 4.6, 5.0))
    assert g.end.tolist() == pytest.approx([9.0, 4.5, 5.0], abs=1e-5)


@pytest.mark.parametrize(("z", "y", "call"), [(2.42, 0, "ball_in_net"), (2.44, 0, ""), (1.0, 4.4, "ball_in_net")])
def test_nothing_is_fast_enough_for_the_net(z, y, call):
    """30 m/s, 0.6 m a step, from one side of the net to the other."""
    g = Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.3, y, z)).step((-0.3, y, z))
    assert g.call == call


def test_a_ball_beside_the_net_is_not_in_it():
    g = Game(PASS._replace(bounds=NOWHERE), [(4.5, 0.0, 2.0)], ball=(0.3, 4.6, 1.0)).step((-0.3, 4.6, 1.0))
    assert g.call == ""


def test_the_net_begins_one_radius_before_its_plane():
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.3, 0, 1.0)).step((0.11, 0, 1.0)).call == ""
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.3, 0, 1.0)).step((0.09, 0, 1.0)).call == "ball_in_net"
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(-0.3, 0, 1.0)).step((-0.09, 0, 1.0)).call == "ball_in_net"


def test_a_ball_that_sinks_below_the_edge_within_the_net_is_in_it():
    """At |x| = 0.1 it is above the edge, behind the plane still within 0.1 m it is below."""
    g = Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.2, 0, 2.53)).step((-0.2, 0, 2.37))
    assert g.call == "ball_in_net"
    assert g.end[0] == pytest.approx(-0.05, abs=1e-3)  # where it is at 2.43 m


def test_a_bounce_off_a_solid_net_is_a_fault_below_its_edge_only():
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.3, 0, 1.0)).step((0.2, 0, 1.0), net=0.01).call == "ball_in_net"
    assert Game(PASS, [(4.5, 0.0, 2.0)], ball=(0.05, 0, 2.5)).step((0.05, 0, 2.52), net=0.01).call == ""


def test_crossing_heights_are_those_on_the_line():
    g = pair(ball=(4.5, -0.1, 3.9)).step((4.5, 0.3, 4.7))  # a quarter of the way is before the plane
    assert (g.crossings, g.good_crossings, g.crossed, g.crossed_well) == (1, 1, 1, 1)
    assert g.cross_height == pytest.approx(4.1)
    assert g.log[-1].endswith("ball crosses the middle at 4.1 m")
    g.step((4.5, 0.2, 4.2))
    assert (g.crossed, g.crossed_well, g.crossings) == (0, 0, 1)
    g.step((4.5, -0.2, 3.0))
    assert (g.crossings, g.good_crossings, g.crossed, g.crossed_well) == (2, 1, -1, 0)


def test_a_spike_has_crossed_when_the_whole_ball_has():
    g = pair(SPIKE, ball=(0.5, 0, 3.0)).step((-0.09, 0, 3.0))
    assert g.crossings == 0
    assert g.step((-0.11, 0, 3.0)).crossed == -1


def test_hits_finish_where_the_ball_comes_down():
    g = solo(HIT).step((4.0, 0, 2.2), racket=0).wait(3)
    g.step((-3.0, 1.0, 2.4))
    assert g.call == ""
    g.step((-4.0, 1.5, 1.9))
    assert g.call == "finished"
    assert g.end.tolist() == pytest.approx([-3.8, 1.4, 2.0], abs=1e-5)
    assert g.loser == -1


def test_no_finish_without_a_hit_nor_after_two_nor_on_the_way_up():
    assert solo(HIT).step((4.5, 0, 2.1)).step((4.5, 0, 1.5)).call == ""
    g = solo(HIT).step((4.5, 0, 2.2), racket=0).wait(30).step((4.5, 0, 2.2), racket=0)
    assert g.step((4.5, 0, 2.1)).step((4.5, 0, 1.9)).call == ""
    g = solo(HIT).step((4.5, 0, 1.5)).step((4.5, 0, 1.6), racket=0)
    assert g.step((4.5, 0, 1.8)).step((4.5, 0, 2.5)).call == ""
    # a hit that sends the ball down below that height is finished at once, as published
    assert solo(HIT).step((4.5, 0, 2.1)).step((4.4, 0, 1.9), racket=0).call == "finished"


def test_apexes_count_between_hits():
    g = solo().step((4.5, 0, 4.0)).step((4.5, 0, 2.2), racket=0)
    assert (g.high_hits, g.apex_sum) == (0, 0.0)  # the first fall is no flight between hits
    for z in (3.0, 3.51, 3.8, 3.6, 3.4, 3.55):  # twice above: one high flight
        g.step((4.5, 0, z))
    assert g.high_hits == 0  # it counts when the drone hits again
    g.wait(25).step((4.5, 0, 2.2), racket=0)
    assert (g.high_hits, g.apex_sum) == (1, pytest.approx(3.8))
    g.step((4.5, 0, 3.4)).wait(25).step((4.5, 0, 2.2), racket=0)
    assert (g.high_hits, g.total) == (1, 3)
    assert g.apex_sum == pytest.approx(7.2)


# Drones


def test_a_low_drone():
    g = pair().step(d1=(4.5, 2.5, 0.41))
    assert g.call == ""
    g.step(d1=(4.5, 2.5, 0.39))
    assert (g.call, g.culprit) == ("drone_too_low", 1)


def test_a_high_drone():
    assert solo().step(d0=(4.5, 0, 2.49)).step(d0=(4.5, 0, 2.51)).call == "drone_too_high"
    assert solo(HIT).step(d0=(4.5, 0, 12.0)).call == ""


def test_a_drone_across_the_middle():
    assert solo().step(d0=(0.01, 0, 2)).call == ""
    assert solo().step(d0=(-0.01, 0, 2)).call == "drone_crossed_net"
    assert duel().step(d1=(-0.01, 0, 5)).call == ""
    g = duel().step(d1=(0.01, 0, 5))
    assert (g.call, g.culprit, g.loser) == ("drone_crossed_net", 1, 1)


def test_a_drone_in_the_net():
    assert pair().step(d0=(0.21, 0, 2.0)).call == ""
    assert pair().step(d0=(0.19, 0, 2.44)).call == ""
    assert pair().step(d0=(0.19, 4.6, 2.0)).call == ""
    g = pair().step(d0=(0.19, 0, 2.42))
    assert (g.call, g.culprit) == ("drone_in_net", 0)


# Points


def test_out_of_turn_in_a_duel():
    g = duel().step(racket=0).wait(5).step(racket=0)
    assert (g.call, g.culprit, g.loser) == ("wrong_turn", 0, 0)
    assert g.log[-1].endswith("point for the far side")
    assert duel(server=1).step(racket=0).loser == 0
    assert duel(server=1).step(racket=1).wait(5).step(racket=0).call == ""


@pytest.mark.parametrize(("x", "loser"), [(1.0, 0), (-1.0, 1)])
def test_a_ball_on_the_ground_is_lost_by_that_half(x, loser):
    g = duel()
    g.step((x, 0, 3.0), racket=0).wait(3)
    g.step((x, 0, 0.1))
    assert (g.call, g.loser, g.referee.winner.item()) == ("ball_landed", loser, 1 - loser)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("to", [(3.1, 0, 5), (-3.1, 0, 5), (1, 1.6, 5)])
def test_out_is_lost_by_the_last_hitter(last, to):
    g = duel().step(racket=0).wait(5)
    if last == 1:
        g.step(racket=1).wait(5)
    assert g.step(to).call == "ball_out"
    assert g.loser == last


def test_the_net_is_lost_by_the_last_hitter():
    g = duel().step((0.5, 0, 2), racket=0).wait(5).step((0.0, 0, 2))
    assert (g.call, g.loser) == ("ball_in_net", 0)


def test_a_ball_that_nobody_hit_is_lost_by_the_server():
    assert duel(server=1).step((-1.5, 0, 0.1)).loser == 1
    assert trios(server=5).step((-6.5, 0, 0.1)).loser == 1


def test_only_the_server_serves():
    for d in (0, 1, 3, 4, 5):
        g = trios().step(racket=d)
        assert (g.call, g.culprit, g.loser) == ("not_server", d, int(d > 2))
    g = trios().step(racket=2).wait(5)
    assert (g.call, g.phase) == ("", SERVE)  # until it has crossed the net
    assert g.step(racket=0).call == "not_server"
    assert trios().step(racket=2).wait(5).step(racket=2).call == "already_hit"


def serve(g: Game) -> Game:
    return g.step((5, 0, 3), racket=2).step((1, 0, 4)).step((-1, 0, 4))


def test_each_drone_hits_once_until_the_ball_crosses():
    g = serve(trios())
    assert (g.phase, g.turn, g.used.tolist()) == (PLAY, 1, [0] * 6)
    for d in (3, 4, 5):
        g.step(racket=d).wait(5)
    assert (g.call, g.used.tolist(), g.hits.tolist()) == ("", [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1])
    back = g.step((1, 0, 4))
    assert (back.turn, back.used.tolist()) == (0, [0] * 6)
    assert back.step(racket=2).call == ""
    g = serve(trios()).step(racket=4).wait(5).step(racket=4)
    assert (g.call, g.culprit, g.loser) == ("already_hit", 4, 1)


def test_a_team_is_out_only_on_the_ground():
    g = serve(trios()).step((-7, 0, 2))
    assert g.call == ""
    g.step((-7, 0, 0.1))
    assert (g.call, g.loser) == ("ball_out", 0)
    g = serve(trios()).step(racket=3).wait(5).step((-7, 0, 2)).step((-7, 0, 0.1))
    assert (g.call, g.loser) == ("ball_out", 1)


def test_drones_too_close():
    assert trios().step(d0=(3, 1.5 - 0.81, 2)).call == ""
    g = trios().step(d0=(3, 1.5 - 0.79, 2))
    assert (g.call, {g.culprit, g.partner}, g.loser) == ("drones_too_close", {0, 1}, 0)
    assert g.log[-1].endswith("point for the far side")
    assert trios().step(d2=(0.3, 0, 2), d5=(-0.3, 0, 2)).call == ""  # opponents may be close


def test_crashes_lose_the_point():
    g = trios().step(d3=(-3, 1.5, 0.29))
    assert (g.call, g.loser) == ("drone_too_low", 1)


# Order


def test_what_happens_first_in_a_step_decides():
    """The ball comes down out of turn onto a drone, and in the same step into the net: by the times given."""
    early = duel().step((1.0, 0, 2), racket=0).wait(5).step((0.0, 0, 2), racket=0, when=0.001)
    late = duel().step((1.0, 0, 2), racket=0).wait(5).step((0.0, 0, 2), racket=0, when=0.0199)
    assert (early.call, late.call) == ("wrong_turn", "ball_in_net")


def test_two_touches_in_a_step_are_taken_in_time_order():
    g = pair()
    times = torch.full((1, 6), math.inf)
    times[0, 1] = 0.012
    times[0, 0] = 0.004
    g.referee.step(times, g.ball, g.drones)
    assert (g.call, g.hits.tolist()) == ("", [1, 1])


def test_nothing_counts_after_the_end():
    g = duel().step((1.0, 0, 0.1))
    before = g.referee.state_dict()
    g.step((1.0, 0, 3.0), racket=0)
    after = g.referee.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_a_new_rally_begins_clean():
    g = serve(trios()).step((-3, 0, 0.1))
    g.referee.start(torch.tensor([0]), torch.tensor([[-6.0, 0.0, 5.0]]), torch.tensor([5]))
    fresh = Game(TEAM, TRIOS, server=5, ball=(-6.0, 0.0, 5.0))
    a, b = g.referee.state_dict(), fresh.referee.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a if not k.startswith("log."))
    assert g.log == fresh.log
    assert any("point for the near side" in line for line in g.referee.log.play_by_play(0, back=1))


# Properties


def random_rallies(n: int, steps: int, seed: int):
    """Balls and drones on random walks, and random touches."""
    rng = np.random.default_rng(seed)
    ball = np.cumsum(rng.normal(0, 0.4, (steps, n, 3)), axis=0) + np.array([0.0, 0.0, 4.0])
    drones = np.array(TRIOS) + np.cumsum(rng.normal(0, 0.02, (steps, n, 6, 3)), axis=0)
    often = np.array([0.03] * 6 + [0.002] * 6 + [0.0])  # rackets, bodies, ground
    when = np.where(rng.uniform(size=(steps, n, 13)) < often, rng.uniform(0, DT, (steps, n, 13)), np.inf)
    return tuple(torch.tensor(v, dtype=torch.float32) for v in (ball, drones, when))


def start(referee: Referee, servers) -> None:
    n = len(referee.clock)
    places = torch.tensor(TRIOS, dtype=torch.float32)[servers]
    referee.start(torch.arange(n), places + torch.tensor([0.0, 0.0, 3.0]), servers)


@pytest.mark.parametrize("order", [TEAMS, ALTERNATE, FREE])
def test_both_sides_are_judged_alike(order):
    """Turn the court by half a circle and swap the teams: the same rallies, won by the others."""
    n = 300
    steps = 40
    rules = TEAM._replace(order=order, bounds=IN_THE_AIR if order == ALTERNATE else ON_GROUND, drone_net=PLANE)
    if order == ALTERNATE:
        rules = rules._replace(racket_only=False, hit_gap=10, gap_is_fault=True)
    ball, drones, when = random_rallies(n, steps, 1)
    swap = [3, 4, 5, 0, 1, 2]
    # the mirrored places of TRIOS are those of the other team in the same order
    a, b = (Referee(n, rules, [0, 0, 0, 1, 1, 1], DT, STEP) for _ in range(2))
    servers = torch.full((n,), 2 if order == TEAMS else 0)
    start(a, servers)
    start(b, servers + 3)
    turn = torch.tensor([-1.0, -1.0, 1.0])
    columns = swap + [6 + s for s in swap] + [12]
    for t in range(steps):
        a.step(when[t], ball[t], drones[t])
        b.step(when[t][:, columns].contiguous(), ball[t] * turn, (drones[t] * turn)[:, swap].contiguous())
    assert torch.equal(a.fault, b.fault)
    assert torch.equal(a.winner, torch.where(b.winner >= 0, 1 - b.winner, b.winner))
    assert torch.equal(a.hits, b.hits[:, swap])
    assert len(a.fault.unique()) >= (5 if order == TEAMS else 4)  # the comparison has seen many kinds of ends
    assert (a.winner == 0).sum() > 10
    assert (a.winner == 1).sum() > 10


def test_worlds_are_independent():
    """Judged together, in slices, or alone: the same."""
    n = 40
    steps = 30
    ball, drones, when = random_rallies(n, steps, 2)
    whole, sliced = (Referee(n, TEAM, [0, 0, 0, 1, 1, 1], DT, STEP) for _ in range(2))
    for r in (whole, sliced):
        start(r, torch.full((n,), 2))
    for t in range(steps):
        whole.step(when[t], ball[t], drones[t])
        for lo, hi in ((25, 40), (0, 25)):
            judge(
                lo, hi, sliced.rules, sliced.sides, True, sliced.sheet, sliced.log.arrays, DT, STEP,
                when[t].numpy(), ball[t].numpy(), drones[t].numpy(),
            )  # fmt: skip
    a, b = whole.state_dict(), sliced.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_resume():
    n = 20
    steps = 30
    ball, drones, when = random_rallies(n, steps, 3)
    a, b = (Referee(n, TEAM, [0, 0, 0, 1, 1, 1], DT, STEP) for _ in range(2))
    start(a, torch.full((n,), 2))
    for t in range(steps):
        if t == 15:
            b.load_state_dict(a.state_dict())
        for r in (a, b)[: 1 + (t >= 15)]:
            r.step(when[t], ball[t], drones[t])
    x, y = a.state_dict(), b.state_dict()
    assert all(torch.equal(x[k], y[k]) for k in x)
