"""A state that is saved in the midst of episodes and put back into another environment: the next 50 steps are the same bits.

Of every registered task, set of tasks and wrapper; where there is a classical controller it acts, since it may remember things.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.env import Env
from rookery.tasks.registry import TASKS

BEFORE, OTHER, AFTER = 37, 11, 50
"""Control steps before the state is saved, of the environment that takes it, and after."""
FEW = 20
"""Control steps after each of six moments."""


class Play:
    """An environment with what acts in it: the controller, or chance."""

    def __init__(self, task: str, seed: int) -> None:
        worlds = max(2, len(TASKS[task].members))
        self.env: Env = rookery.make(task, worlds, seed=seed, randomize="default")
        self.act = self.env.controller()
        self.generator = torch.Generator()
        self.obs, _ = self.env.reset()

    def step(self, seed: int) -> tuple[Any, ...]:
        self.generator.manual_seed(seed)
        shapes = {g: (self.env.num_envs, s.count, s.action.size) for g, s in self.env.groups.items()}
        chance = {g: torch.rand(shape, generator=self.generator) * 2 - 1 for g, shape in shapes.items()}
        result = self.env.step(chance if self.act is None else self.act(self.obs))
        self.obs = result[0]
        return result


def difference(one: Play, other: Play, steps: int) -> str:
    """Where an environment and one that is given its state part in so many steps; "" if they do not."""
    other.env.load_state_dict(one.env.state_dict())
    other.obs = {g: o.clone() for g, o in one.obs.items()}
    for seed in range(steps):
        a, b = one.step(seed), other.step(seed)
        for what, x, y in (("observation", a[0], b[0]), ("reward", a[1], b[1]), ("ends", {"": a[2]}, {"": b[2]})):
            if any(not torch.equal(x[g], y[g]) for g in x):
                return f"step {seed}: {what}"
        if not torch.equal(a[3], b[3]):
            return f"step {seed}: time limits"
    last = other.env.state_dict()
    bits = {k: (v, last[k]) for k, v in one.env.state_dict().items()}
    return next((k for k, (x, y) in bits.items() if x.numpy().tobytes() != y.numpy().tobytes()), "")


QUICK = ("drone-track", "drone-race", "swarm-surround", "volley-1v1", "go2-velocity", "table-push", "hand-grasp")
"""Of each kind one or two; `test_common.py` has every task resume from a state, without a controller."""


@pytest.mark.parametrize("task", slow_but(QUICK, TASKS))
def test_a_saved_state_is_the_whole_state(task):
    one, other = Play(task, 1), Play(task, 2)
    for seed in range(BEFORE):
        one.step(seed)
    for seed in range(OTHER):
        other.step(seed)
    assert difference(one, other, AFTER) == ""


def moments(steps: int) -> list[int]:
    """Six of an episode of so many control steps: its first steps, the middle, and before its time limit."""
    return [1, steps // 8, steps // 4, steps // 2, 3 * steps // 4, steps - FEW // 2]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_at_six_moments_of_an_episode(task):
    one, other = Play(task, 1), Play(task, 2)
    done = 0
    for moment in moments(one.env.max_episode_steps):
        for seed in range(done, moment):
            one.step(seed)
        assert difference(one, other, FEW) == "", f"after {moment} steps"
        done = moment + FEW


def test_moments_lie_in_their_order():
    for steps in (100, 500, 1900):
        at = moments(steps)
        assert len(set(at)) == 6 and at == sorted(at) and at[-1] < steps < at[-1] + FEW
