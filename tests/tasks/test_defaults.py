"""Defaults of every task, reward weights and ranges of randomization included: a changed one changes what stored commands and
contracts mean.

They are written down in defaults.json beside this file. After a change on purpose, `python tests/tasks/test_defaults.py` writes
them anew; look at the difference, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.sim.randomization.ranges import DEFAULT
from rookery.sim.values import to_values
from rookery.tasks.registry import OWN_TASKS, find

FILE = Path(__file__).parent / "defaults.json"
WRITTEN = json.loads(FILE.read_text())
PENALTIES = {
    "action_rate", "ang_vel", "ang_vel_xy", "arm_dof_vel", "ball_fault", "base_height", "crash", "drone_fault", "effort",
    "energy", "failure", "far_from_anchor", "feet_clearance", "feet_landing", "feet_slip", "gait_phase", "hand_pose",
    "hip_pos", "impact", "lin_vel_z", "misplaced", "orientation", "power", "proximity", "speed", "stand_still", "termination",
    "tool_position_error", "tool_rotation_error", "too_close", "torques", "velocity_error", "wrong_hit", "yaw_rate",
}  # fmt: skip
"""Terms that grow with what should not be; all others grow with what should."""
OTHERWISE = {"hand-reorient": {"orientation"}}
"""Terms that mean the opposite in a task: there, how well the object is turned."""


def single_tasks() -> list[str]:
    return sorted(name for name in OWN_TASKS if not find(name).members)


def test_every_task_is_written_down():
    assert sorted(WRITTEN) == single_tasks()


def defaults(task: str) -> dict[str, Any]:
    """The config, and what `--randomize default` draws."""
    cls = find(task).load()
    own = cls.default_randomization
    ranges = {k: repr(r) for k, r in sorted((DEFAULT if own is None else own).items())}
    return dict(json.loads(json.dumps({"config": to_values(cls.Config()), "randomization": ranges})))


@pytest.mark.parametrize("part", ["config", "randomization"])
@pytest.mark.parametrize("task", sorted(WRITTEN))
def test_defaults_are_those_written_down(task, part):
    assert defaults(task)[part] == WRITTEN[task][part]


@pytest.mark.parametrize("task", sorted(WRITTEN))
def test_what_should_not_be_has_a_negative_weight(task):
    """A distance is a fault where its weight lowers the reward, and a score in volley-hit, where the ball is to fly far."""
    for term, weight in WRITTEN[task]["config"]["reward"].items():
        fault = term in PENALTIES - OTHERWISE.get(task, set())
        if term == "distance":
            fault = task.startswith(("drone-", "swarm-"))
        assert weight <= 0 if fault else weight >= 0, term


if __name__ == "__main__":
    FILE.write_text(json.dumps({task: defaults(task) for task in single_tasks()}, indent=1) + "\n")
