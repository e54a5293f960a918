"""The part of an environment that its task answers: what trainers, evaluation and video read of it beside the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from rookery.sim.deployment import Deployment
from rookery.sim.env import Act, Env
from rookery.sim.envs.observation import target_values
from rookery.sim.envs.parameters import drawn_now
from rookery.sim.errors import unknown
from rookery.sim.events import told_event
from rookery.sim.gauge import Gauge
from rookery.sim.randomization.ranges import Randomization
from rookery.sim.task import Task, declared_actuation
from rookery.sim.terms import Expression
from rookery.sim.values import plain

if TYPE_CHECKING:
    import mujoco


class TaskEnv(Env):
    """Base of VecEnv.

    Attributes:
        task: the task.
        randomization: the values drawn for each world.
        told_first: number of the first world in messages: that which it has in a larger environment.
    """

    task: Task
    randomization: Randomization
    told_first: int

    @property
    def active(self) -> dict[str, Tensor] | None:
        return self.task.active()

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        return self.task.action_mask()

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        groups = {g: s for g, s in self.groups.items() if s.targets}
        values = self.task.observe_privileged() if groups else {}
        return {g: target_values(values[g], s.targets, self.told_first) for g, s in groups.items()} or None

    @property
    def reveal_future_mask(self) -> Tensor | None:
        return self.task.reveal_future_mask()

    def metrics(self) -> dict[str, Tensor]:
        return self.task.metrics()

    def controller(self) -> Act | None:
        return self.task.controller()

    def correction(self) -> Act | None:
        return self.task.correction()

    def deployment(self) -> Deployment:
        return Deployment(
            config=plain(self.task.cfg), physics_dt=float(self.task.cfg.dt), actuation=declared_actuation(self.task),
            safety=self.task.safety_limits, commands=dict(self.task.command_ranges()),
            metrics=dict(self.task.metric_definitions), events=self._events(), **drawn_now(self.randomization),
        )  # fmt: skip

    def _events(self) -> dict[str, Expression]:
        """By name, how a robot knows of each event."""
        computed = self.task.event_expressions()
        meanings = self.task.event_definitions
        for name in computed:
            if name not in meanings:
                raise unknown("event in event_expressions()", name, meanings)
        return {name: computed.get(name) or told_event(name, meaning) for name, meaning in meanings.items()}

    def event_log(self, i: int) -> list[str]:
        return self.task.event_log(i)

    def visual_model(self, i: int = 0) -> mujoco.MjModel:
        return self.task.scene().compile(visual=True)

    def markers(self, i: int) -> list[dict[str, Any]]:
        return self.task.markers(i)

    def gauges(self, i: int) -> list[Gauge]:
        return self.task.gauges(i)

    @property
    def camera(self) -> Any:
        return self.task.camera
