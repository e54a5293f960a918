"""Volleyball environments for tests, and a table on which drones, ball and touches are put by hand."""

from __future__ import annotations

import math
from typing import Any

import torch

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.volleyball.base import VolleyTask


def make(cls: type[VolleyTask], n: int = 1, engine: str = "rotor", seed: int = 0, **config: Any) -> VecEnv:
    """An environment of a task, whether it is registered or not."""
    task = cls(cls.Config(**config))
    return VecEnv(task, make_world(engine, task.scene(), n), seed=seed)


STILL: dict[str, Any] = {"start_box_m": (0.0, 0.0, 0.0), "start_tilt": 0.0, "start_yaw": 0.0}
"""Starts without noise."""


class Given:
    """ContactSensor as a test wants them, in place of the engine's."""

    def __init__(self, columns: int, n: int) -> None:
        self.when = torch.full((n, columns), math.inf)


class Table:
    """One world of a task whose physics the test plays: it says where everything is after each control step."""

    def __init__(self, cls: type[VolleyTask], **config: Any) -> None:
        self.env = make(cls, **{**STILL, **config})
        self.env.reset()
        self.task: Any = self.env.task
        if self.task.ball is not None:
            self.task.touches = Given(len(self.task.touched), 1)

    def step(
        self, ball: Any = None, velocity: Any = None, drones: dict[int, Any] | None = None, racket: int | None = None,
        body: int | None = None, when: float = 0.01,
    ) -> dict[str, list[float]]:  # fmt: skip
        """One control step; gives the unweighted reward terms, a list over drones each."""
        task = self.task
        state = task.drones.bodies.state.clone()
        for d, pos in (drones or {}).items():
            state[0, d, :3] = torch.tensor(pos, dtype=torch.float32)
        task.drones.bodies.set_state(None, state)
        if task.ball is not None:
            state = task.ball.state.clone()
            if ball is not None:
                state[0, 0, :3] = torch.tensor(ball, dtype=torch.float32)
            if velocity is not None:
                state[0, 0, 7:10] = torch.tensor(velocity, dtype=torch.float32)
            task.ball.set_state(None, state)
            given = task.touches.when.fill_(math.inf)
            if racket is not None:
                given[0, racket] = when
            if body is not None:
                given[0, task.num_drones + body] = when
        task.advance()
        return {name: value[0].tolist() for name, value in task.rewards()["drone"].items()}

    def wait(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    @property
    def cause(self) -> str:
        code = int(self.task.terminated()[0])
        return self.task.causes[code - 1] if code else ""

    @property
    def metrics(self) -> dict[str, float]:
        return {name: float(value[0]) for name, value in self.task.metrics().items()}
