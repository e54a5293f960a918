"""Defaults of every task: weights reward what should be and punish what should not, and configs survive being stored."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest

import rookery
from rookery.sim.config import from_dict
from rookery.sim.randomization.ranges import DEFAULT
from rookery.sim.values import plain
from rookery.tasks.registry import OWN_TASKS, find

PENALTIES = {
    "action_rate", "ang_vel", "ang_vel_xy", "arm_dof_vel", "ball_fault", "base_height", "crash", "drone_fault", "effort",
    "energy", "failure", "far_from_anchor", "feet_clearance", "feet_landing", "feet_slip", "gait_phase", "hand_pose",
    "hip_pos", "impact", "lin_vel_z", "misplaced", "orientation", "power", "proximity", "speed", "stand_still", "termination",
    "tool_position_error", "tool_rotation_error", "too_close", "torques", "velocity_error", "wrong_hit", "yaw_rate",
    "kneeling", "self_collision", "undesired_contacts", "dropped",
}  # fmt: skip
"""Terms that grow with what should not be; all others grow with what should."""
OTHERWISE = {"hand-reorient": {"orientation"}}
"""Terms that mean the opposite in a task: there, how well the object is turned."""

every_task = pytest.mark.parametrize(
    "task", sorted(name for name in OWN_TASKS if not find(name).members and not find(name).wrapper)
)


@every_task
def test_what_should_not_be_has_a_negative_weight(task):
    """A distance is a fault where its weight lowers the reward, and a score in volley-hit, where the ball is to fly far."""
    weights = find(task).load().Config().reward
    assert any(weights.values())
    for term, weight in weights.items():
        fault = term in PENALTIES - OTHERWISE.get(task, set())
        if term == "distance":
            fault = task.startswith(("drone-", "swarm-"))
        assert weight <= 0 if fault else weight >= 0, term


@every_task
def test_times_are_consistent(task):
    """A control step is a whole number of physics steps, an episode of control steps."""
    cfg = find(task).load().Config()
    steps = cfg.control_dt / cfg.dt
    assert steps >= 1 and math.isclose(steps, round(steps), rel_tol=1e-9)
    length = cfg.episode_s / cfg.control_dt
    assert math.isclose(length, round(length), rel_tol=1e-6)


@every_task
def test_a_stored_config_is_the_same_config(task):
    kind = find(task).load().Config
    cfg = kind()
    stored = json.loads(json.dumps(plain(cfg)))
    assert set(stored) == {f.name for f in fields(kind)}
    assert from_dict(kind, stored) == cfg


@every_task
def test_the_default_randomization_is_within_what_parameters_may_be(task):
    cls = find(task).load()
    ranges = DEFAULT if cls.default_randomization is None else cls.default_randomization
    env = rookery.make(task, 1)
    known = env._parameters()
    drawn = {name: r for name, r in ranges.items() if name.partition(":")[0] in known}
    assert drawn
    for name, r in drawn.items():
        parameter = known[name.partition(":")[0]]
        assert parameter.low <= r.low <= r.high <= parameter.high, name
    env.close()
