"""All tasks by name. Only names and defaults stand here: a task's module is imported when it is asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import unknown

if TYPE_CHECKING:
    from rookery.sim.task import Task


@dataclass(frozen=True)
class TaskEntry:
    """One registered task.

    Args:
        id: its name on the command line.
        cls: "module:Class".
        summary: one line.
        engines: engines it runs on, the default first.
        training: values of rookery.training.Settings ("num_envs", "randomize", ...) and of PPOConfig in place of defaults.
    """

    id: str
    cls: str
    summary: str
    engines: tuple[str, ...] = ("mujoco", "pybullet")
    training: dict[str, Any] = field(default_factory=dict)

    def load(self) -> type[Task]:
        """The task's class."""
        module, name = self.cls.split(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


# Found by trial on two cores: large, bold updates from few samples. Observations are scaled by their declarations, since
# running statistics would come from hovering and leave far starts outside the network's range; for the same reason
# training episodes are short, and start wilder than those of an evaluation: rare crashes at the edge of the starts are
# otherwise too rare to learn from.
_PRACTICE: dict[str, Any] = {
    "episode_s": 5.0,
    "start_box_m": 1.3,
    "start_speed": 1.0,
    "start_tilt": 0.7,
    "start_spin": 2.0,
}
_DRONE_TRAINING: dict[str, Any] = {
    "num_envs": 512,
    "randomize": "default",
    "practice": _PRACTICE,
    "epochs": 10,
    "minibatches": 8,
    "learning_rate": 3e-3,
    "schedule": "linear",
    "initial_std": 0.35,
    "normalize_observations": False,
}

TASKS: dict[str, TaskEntry] = {
    e.id: e
    for e in (
        TaskEntry(
            "drone-hover",
            "rookery.tasks.drones.hover:Hover",
            "each drone flies to its own target and stays there",
            training=_DRONE_TRAINING | {"total_steps": 3_200_000},
        ),
        TaskEntry(
            "drone-track",
            "rookery.tasks.drones.track:Track",
            "each drone follows a moving reference",
            training=_DRONE_TRAINING | {"total_steps": 6_000_000, "practice": _PRACTICE | {"path": "mixed"}},
        ),
    )
}


def find(task: str) -> TaskEntry:
    """The entry of a task. Raises RookeryError with the nearest match for an unknown name."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return TASKS[task]
