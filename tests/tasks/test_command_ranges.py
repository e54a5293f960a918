"""Ranges of commands: what contracts state and runtimes keep to is what episodes draw, no less and hardly more."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.own_files import is_in_file
from rookery.sim.task import Task
from rookery.tasks.registry import find, task_names
from rookery.tasks.volleyball.skill import APEX, FLIGHT

SLACK = 0.05
"""Share of a range's width that draws may leave free at each end."""
WORLDS = {
    "drone-hover": 300, "table-reach": 150, "table-push": 150, "table-pick-place": 150, "panda-lift": 150,
    "dual-panda-handover": 150, "go2-velocity": 400, "go2arm-reach": 400, "volley-skill": 1500,
}  # fmt: skip
"""Worlds that are drawn of each task with ranges, whose simulation is never stepped."""
NONE = {
    "drone-navigate": "travels to its goal", "go2-navigate": "travels to its goal", "drone-swap": "travels to its goal",
    "go2arm-fetch": "travels to its ball",
    "swarm-surround": "its goal moves", "swarm-escort": "its goal moves",
    "go2arm-loco-manipulation": "trajectories command it",
    **dict.fromkeys(("drone-land", "table-basketball", "table-shelf-place", "table-sweep", "table-sweep-into"), "of the scene"),
}  # fmt: skip
"""Tasks with commands that have no ranges, and why."""


def drawn(task: str, worlds: int, **config: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The ranges of a task, and by command what agents are told in the first step of so many episodes, as a range has it."""
    env = rookery.make(task, worlds, config=config)
    env.reset(0)
    ranges = env.unwrapped.task.command_ranges()
    assert env.deployment().commands == ranges
    out = {}
    for values in env.unwrapped.task.measured().values():
        for name in ranges.keys() & values.keys():
            value = values[name]
            if ranges[name].relative_to:
                value = value - values[ranges[name].relative_to]
            out[name] = value.reshape(-1, value.shape[-1]).clone()
    env.close()
    return ranges, out


@pytest.mark.parametrize("task", WORLDS)
def test_episodes_draw_their_commands_from_the_whole_of_the_ranges_and_from_nothing_else(task: str) -> None:
    ranges, told = drawn(task, WORLDS[task])
    assert told.keys() == ranges.keys() and ranges
    for name, span in ranges.items():
        low, high = torch.tensor(span.low), torch.tensor(span.high)
        values = told[name]
        assert values.shape[1] == len(low) and len(values) >= WORLDS[task]
        free = SLACK * (high - low)
        least, most = values.amin(0), values.amax(0)
        assert (least >= low - 1e-5).all() and (most <= high + 1e-5).all(), name
        assert (least <= low + free + 1e-5).all() and (most >= high - free - 1e-5).all(), name


def test_ranges_follow_the_config() -> None:
    ranges, told = drawn("drone-hover", 300, start_box_m=0.3)
    assert ranges["target"].high == (0.3,) * 3
    assert 0.28 < float(told["target"].abs().max()) <= 0.3 + 1e-6
    ranges, told = drawn("volley-skill", 200, skill="block")
    assert (ranges[APEX].high, ranges[FLIGHT].high) == ((5.5,), (0.0,))
    assert float(told[FLIGHT].abs().max()) == 0.0 < float(told[APEX].min())


def test_every_task_with_commands_states_ranges_or_is_named_here() -> None:
    stated, silent = set(), set()
    for task in task_names():
        entry = find(task)
        if entry.members or entry.wrapper or is_in_file(task):  # other tests register files
            continue
        cls = entry.load()
        if cls().command_ranges():
            stated.add(task)
        elif cls.commands is not Task.commands:
            silent.add(task)
    assert stated == set(WORLDS)
    assert silent == set(NONE)
