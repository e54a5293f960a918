"""EnvWrapper: an environment that changes another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from rookery.sim.deployment import Deployment
from rookery.sim.env import Act, AtEnds, Env, StepResult, TermRecorder
from rookery.sim.gauge import Gauge

if TYPE_CHECKING:
    import mujoco


class EnvWrapper(Env):
    """An environment that changes another one: rewards made one number, a low-level policy below the actions, a frozen
    opponent. Subclasses override what they change; everything else is the wrapped environment's.

    Args:
        env: the wrapped environment; the wrapper steps and closes it from now on.
    """

    def __init__(self, env: Env) -> None:
        self.env = env
        self.task_id = env.task_id
        self.groups = env.groups
        self.num_envs = env.num_envs
        self.device = env.device
        self.control_dt = env.control_dt
        self.max_episode_steps = env.max_episode_steps
        self.state_size = env.state_size
        self.teams = env.teams
        self.objectives = env.objectives
        self.causes = env.causes
        self.event_names = env.event_names
        self.headline = env.headline
        self.engine = env.engine

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.env.reset(seed)

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        return self.env.step(actions)

    def stagger(self) -> None:
        self.env.stagger()

    def close(self) -> None:
        self.env.close()

    def survive_loss(self) -> None:
        self.env.survive_loss()

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        return self.env.seeded

    @seeded.setter
    def seeded(self, value: bool) -> None:
        self.env.seeded = value

    @property
    def loss(self) -> str:
        return self.env.loss

    @property
    def task_names(self) -> tuple[str, ...]:
        return self.env.task_names

    @property
    def task_index(self) -> Tensor:
        return self.env.task_index

    @property
    def episode_start(self) -> Tensor:
        return self.env.episode_start

    @property
    def state(self) -> Tensor:
        return self.env.state

    @property
    def active(self) -> dict[str, Tensor] | None:
        return self.env.active

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return self.env.deciding

    @property
    def latest_events(self) -> Mapping[str, Tensor]:  # type: ignore[override]
        return self.env.latest_events

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        return self.env.action_mask

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        return self.env.privileged_targets

    @property
    def reveal_future_mask(self) -> Tensor | None:
        return self.env.reveal_future_mask

    def observation_set(self, name: str) -> dict[str, Tensor]:
        return self.env.observation_set(name)

    def metrics(self) -> dict[str, Tensor]:
        return self.env.metrics()

    def controller(self) -> Act | None:
        return self.env.controller()

    def correction(self) -> Act | None:
        return self.env.correction()

    def deployment(self) -> Deployment:
        return self.env.deployment()

    def event_log(self, i: int) -> list[str]:
        return self.env.event_log(i)

    def record_terms(self, record: TermRecorder | None) -> None:
        self.env.record_terms(record)

    def before_restart(self, call: AtEnds) -> Callable[[], None]:
        return self.env.before_restart(call)

    def locate(self, world: int) -> tuple[Env, int]:
        return self.env.locate(world)

    def visual_model(self, i: int = 0) -> mujoco.MjModel:
        return self.env.visual_model(i)

    def mj_data(self, i: int, data: Any = None) -> Any:
        return self.env.mj_data(i, data)

    def markers(self, i: int) -> list[dict[str, Any]]:
        return self.env.markers(i)

    def gauges(self, i: int) -> list[Gauge]:
        return self.env.gauges(i)

    @property
    def camera(self) -> Any:
        return self.env.camera

    def state_dict(self) -> dict[str, Tensor]:
        return self.env.state_dict()

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        self.env.check_state_dict(state)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.env.load_state_dict(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As any object with the wrapped environment's copy in it, where it was not made by `rookery.make` itself."""
        return object.__reduce_ex__(self, protocol) if self.remake is None else super().__reduce_ex__(protocol)

    @property
    def unwrapped(self) -> Env:
        return self.env.unwrapped
