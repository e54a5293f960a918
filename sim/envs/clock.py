"""The clock of an environment: control period, physics steps in it, and the time limit."""

from __future__ import annotations

import math

from rookery.sim.errors import RookeryError
from rookery.sim.task import Task
from rookery.sim.world import World

__all__ = ["clock"]


def clock(task: Task, world: World) -> tuple[float, int, int]:
    """The control period in s, the physics steps of a control step, and the control steps of the longest episode.

    Raises:
        RookeryError: an episode shorter than a control step, or a control step that is no whole number of physics steps.
    """
    period = float(task.cfg.control_dt)
    if not (math.isfinite(task.cfg.episode_s) and 0 < period <= task.cfg.episode_s):
        given = f"episode_s {task.cfg.episode_s} s and control_dt {period} s"
        raise RookeryError(f"an episode must last for at least one control step, a time above 0, got {given}.")
    if abs(task.physics_steps * world.dt - period) > 1e-9:
        raise RookeryError(f"control_dt {period} s must be a whole number of physics steps of {world.dt} s.")
    return period, task.physics_steps, round(task.cfg.episode_s / period)
