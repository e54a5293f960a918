"""Where configs begin to be refused, by bisection between a value that is taken and one that is not, and worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from rookery.sim.errors import RookeryError
from rookery.tasks.registry import find

TOUCHING = 1e-3  # m


def taken(task: str, field: str, value: Any, others: dict[str, Any]) -> bool:
    cls = find(task).load()
    try:
        cls(cls.Config(**{**others, field: value}))
    except RookeryError:
        return False
    return True


def limit(task: str, field: str, good: float, bad: float, others: dict[str, Any]) -> float:
    """Between a value that is taken and one that is refused."""
    assert taken(task, field, good, others), f"{task} refuses {field}={good}"
    assert not taken(task, field, bad, others), f"{task} takes {field}={bad}"
    for _ in range(40):
        middle = 0.5 * (good + bad)
        if taken(task, field, middle, others):
            good = middle
        else:
            bad = middle
    return good


def room(t: Any) -> float:
    """m, around the middle of a start box that a drone may touch."""
    return math.sqrt(3.0) * t.cfg.start_box_m + float(t.body)


def queue(t: Any) -> float:
    """m, the longest way to a next gate: between gates, or from a start to the first one."""
    legs = [math.dist(a, b) for a, b in zip(t.gates.tolist(), t.gates.roll(1, 0).tolist(), strict=True)]
    first = t.gates[t._first].expand_as(t._starts).reshape(-1, 3).tolist()
    starts = [math.dist(a, b) + room(t) for a, b in zip(t._starts.reshape(-1, 3).tolist(), first, strict=True)]
    return max(legs + starts)


def low(t: Any) -> float:
    """m, height below which a drone is on the ground."""
    return float(2.0 * t.drone.body_height)


def touching(t: Any) -> float:
    """m, between the middles of two start boxes in which drones just touch."""
    return float(2.0 * (t.cfg.start_box_m + t.drone.body_radius))


Worked = Callable[[Any], float]
ROWS: tuple[tuple[str, str, float, float, Worked, dict[str, Any]], ...] = (
    ("drone-formation", "safe_m", 0.5, 0.0, lambda t: 2.0 * t.drone.body_radius, {}),
    ("drone-formation", "sight_m", 5.0, 0.0, lambda t: t.cfg.safe_m, {}),
    ("drone-formation", "side_m", 2.0, 0.0, lambda t: t.cfg.safe_m / (1.0 - t.cfg.side_spread), {}),
    ("drone-formation", "side_spread", 0.0, 0.999, lambda t: 1.0 - t.cfg.safe_m / t.cfg.side_m, {}),
    ("drone-formation", "side_spread", 0.0, -1.0, lambda t: 0.0, {}),
    ("drone-formation", "spacing_m", 1.0, 0.0, lambda t: touching(t), {}),
    ("drone-formation", "arena_m", 9.0, 0.0, lambda t: t.cfg.start_box_m + t.cfg.spacing_m, {"num_drones": 7}),
    ("drone-formation", "height_m", 9.0, 0.0, lambda t: low(t) + 0.4, {"start_box_m": 0.1, "centre_box_m": 0.4}),
    ("drone-formation", "height_m", 9.0, 0.0, lambda t: low(t) + 0.3, {"start_box_m": 0.3, "centre_box_m": 0.2}),
    ("drone-swap", "arrive_m", 0.1, -1.0, lambda t: 0.0, {}),
    ("drone-swap", "bounds_m", 99.0, 0.0, lambda t: 2.0 * t.cfg.radius_m + 2.0 * t.cfg.start_box_m, {}),
    ("drone-swap", "height_m", 9.0, 0.0, lambda t: low(t) + t.cfg.start_box_m, {}),
    ("drone-race", "opening_m", 1.0, 0.0, lambda t: 4.0 * t.drone.body_radius, {"start_box_m": 0.02}),
    ("drone-race", "bounds_m", 99.0, 0.0, queue, {}),
    ("drone-race", "bounds_m", 99.0, 0.0, queue, {"start": "anywhere", "course": "oval"}),
    ("drone-downwash", "beside_m", 0.8, 0.0, lambda t: t.cfg.beneath_m, {}),
    ("drone-downwash", "spacing_m", 9.0, 0.0, lambda t: 2.0 * (t.cfg.line_m + t.cfg.beside_m) + touching(t), {}),
    ("drone-downwash", "depth_low_m", 0.5, 9.0, lambda t: t.cfg.depth_high_m, {}),
    ("drone-downwash", "depth_low_m", 0.5, 0.0, lambda t: touching(t), {}),
    ("drone-downwash", "period_low_s", 0.5, -1.0, lambda t: 0.0, {}),
    ("drone-downwash", "period_low_s", 0.1, 99.0, lambda t: t.cfg.period_high_s, {}),
    ("drone-downwash", "height_m", 9.0, 0.0, lambda t: low(t) + t.cfg.depth_high_m + t.cfg.start_box_m, {}),
    ("uav-coverage", "speed", 1.0, -1.0, lambda t: 0.0, {}),
    ("uav-coverage", "min_rate", 1.0, -1.0, lambda t: 0.0, {}),
    ("uav-coverage", "height_m", 100.0, 0.0, lambda t: t.cfg.lowest_m + t.cfg.start_box_m, {}),
    ("uav-coverage", "height_m", 100.0, 9e3, lambda t: t.cfg.ceiling_m - t.cfg.start_box_m, {}),
    ("uav-coverage", "spacing_m", 50.0, 0.0, lambda t: touching(t), {}),
    ("swarm-catch", "evader_speed", 1.0, -1.0, lambda t: 0.0, {}),
    ("swarm-catch", "capture_m", 1.0, 0.0, lambda t: t.cfg.touch_m, {}),
    ("swarm-escort", "target_speed", 1.0, -1.0, lambda t: 0.0, {}),
    ("swarm-surround", "shell_width_m", 0.1, 9.0, lambda t: t.cfg.shell_m, {}),
    ("swarm-surround", "shell_width_m", 0.1, -1.0, lambda t: 0.0, {}),
    ("swarm-surround", "spacing_m", 0.9, 0.0, lambda t: 0.2 + 0.3, {"collision_m": 0.3, "start_box_m": 0.1}),
    ("swarm-surround", "spacing_m", 0.9, 0.0, lambda t: touching(t) + TOUCHING,
     {"collision_m": 0.0, "start_box_m": 0.1}),
    ("volley-hit", "racket_radius_m", 0.1, -1.0, lambda t: 0.0, {}),
    ("volley-hit", "ball_above_m", 3.0, 0.0, lambda t: t.ball_kind.radius + t.drone.body_height, {}),
)  # fmt: skip


@pytest.mark.parametrize(("task", "field", "good", "bad", "worked", "others"), ROWS)
def test_limits_are_those_worked_out(task, field, good, bad, worked, others):
    cls = find(task).load()
    built = cls(cls.Config(**{**others, field: good}))
    assert limit(task, field, good, bad, others) == pytest.approx(worked(built), abs=1e-5)


@pytest.mark.parametrize(
    ("task", "field", "good", "bad"),
    [
        ("drone-hover", "num_drones", 1, 0), ("drone-hover", "num_drones", 200, 201),
        ("drone-formation", "num_drones", 3, 2), ("drone-formation", "neighbours", 1, 0),
        ("drone-race", "laps", 1, 0), ("drone-downwash", "num_drones", 4, 3),
        ("swarm-surround", "num_drones", 2, 1), ("swarm-surround", "neighbours", 1, 0),
        ("uav-coverage", "num_users", 1, 0), ("uav-coverage", "hotspots", 1, 0), ("uav-coverage", "near_users", 1, 0),
        ("volley-hit", "start_box_m", (0.1, 0.1, 0.1), (0.1, 0.1)),
    ],
)  # fmt: skip
def test_counts(task, field, good, bad):
    assert taken(task, field, good, {})
    assert not taken(task, field, bad, {})


def test_as_many_drones_start_as_there_are_places():
    """Of a swarm, 4 x 4 x 3 places, of which the target takes one and keeps those around it free; of polygons, 3 x 3."""
    others = {"arena_m": 2.0, "spacing_m": 1.0}
    assert taken("swarm-surround", "num_drones", 21, others)
    assert not taken("swarm-surround", "num_drones", 22, others)
    others = {"arena_m": 1.1, "spacing_m": 1.0, "start_box_m": 0.1}
    assert taken("drone-formation", "num_drones", 9, others)
    assert not taken("drone-formation", "num_drones", 10, others)
    cls = find("uav-coverage").load()
    others = {"area_m": 100.0, "spacing_m": 50.0, "start_box_m": 1.0}
    places = len(cls(cls.Config(**others))._grid())
    assert places > 1
    assert taken("uav-coverage", "num_drones", places, others)
    assert not taken("uav-coverage", "num_drones", places + 1, others)


def test_gates_keep_clear_of_starts():
    """One drone starts 1 m behind the middle of the first gate: its box may grow up to the inner edge of the bars."""
    cls = find("drone-race").load()
    t = cls(cls.Config(start_box_m=limit("drone-race", "start_box_m", 0.1, 3.0, {"num_drones": 1}), num_drones=1))
    assert room(t) == pytest.approx(math.hypot(1.0 - 0.5 * 0.06, 0.5 * t.cfg.opening_m), abs=1e-5)
