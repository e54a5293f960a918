"""What the tasks, worlds and randomisation of a ConcatEnv's parts answer together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.sim.config import to_dict
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene

if TYPE_CHECKING:
    import mujoco

    from rookery.sim.envs.concat_env import ConcatEnv
    from rookery.sim.envs.vec_env import VecEnv

Act = Callable[[dict[str, Tensor]], dict[str, Tensor]]


class ConcatConfig(dict[str, Any]):
    """The parts' configs as plain values, by part: the form in which `rookery.make` takes them back.

    Attributes:
        dt, control_dt: s, of the first part. episode_s: s, of the longest.
    """

    def __init__(self, configs: dict[str, Any]) -> None:
        super().__init__({name: to_dict(c) for name, c in configs.items()})
        first = next(iter(configs.values()))
        self.dt = float(first.dt)
        self.control_dt = float(first.control_dt)
        self.episode_s = max(float(c.episode_s) for c in configs.values())


class ConcatTask:
    """The tasks of all parts, as far as films, evaluations and contracts ask for one.

    Args:
        env: whose parts they are.

    Attributes:
        cfg: the parts' configs.
        causes: those of all tasks, each once.
        headline: the metric that all have in common.
    """

    headline = "success"

    def __init__(self, env: ConcatEnv) -> None:
        self.env = env
        tasks = {name: e.task for name, e in env.parts.items()}
        self.cfg = ConcatConfig({name: t.cfg for name, t in tasks.items()})
        self.causes = tuple(dict.fromkeys(c for t in tasks.values() for c in t.causes))
        first = next(iter(tasks.values()))
        self.camera = first.camera
        # of the robot, which all tasks have in common
        self.actuator_order = getattr(first, "actuator_order", None)
        self.safety_limits = getattr(first, "safety_limits", None)

    def _only(self, what: str) -> VecEnv:
        if len(self.env.parts) > 1:
            raise RookeryError(
                f"each task of {self.env.task_id} has {what} of its own: choose one with the config value tasks, such as "
                f"--config tasks={next(iter(self.env.parts))}."
            )
        return next(iter(self.env.parts.values()))

    def scene(self) -> Scene:
        """The scene of the only part. Raises RookeryError where there are several."""
        return self._only("a scene").task.scene()

    @property
    def physics_steps(self) -> int:
        """K of the only part. Raises RookeryError where there are several."""
        return self._only("a physics step").task.physics_steps

    def metrics(self) -> dict[str, Tensor]:
        """Those metrics that all tasks have, each [N]."""
        given = [e.task.metrics() for e in self.env.parts.values()]
        return {k: torch.cat([m[k] for m in given]) for k in given[0] if all(k in m for m in given)}

    def markers(self, i: int) -> list[dict[str, Any]]:
        """See Task."""
        env, at = self.env.locate(i)
        return env.task.markers(at)

    def event_log(self, i: int) -> list[str]:
        """See Task."""
        env, at = self.env.locate(i)
        return env.task.event_log(at)

    def controller(self) -> Act | None:
        """Every part's classical controller in its own worlds; None where one has none."""
        env = self.env
        controllers = [e.task.controller() for e in env.parts.values()]
        if any(c is None for c in controllers):
            return None
        sizes = {g: (s.history, next(iter(env.parts.values())).groups[g].frame_size) for g, s in env.groups.items()}

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            # without the one-hot term, which is the last of each frame
            own = {g: x.unflatten(2, (sizes[g][0], -1))[..., : sizes[g][1]].flatten(2) for g, x in obs.items()}
            parts = [
                c({g: x[at] for g, x in own.items()})
                for c, at in zip(controllers, env._slices, strict=True)
                if c is not None
            ]
            return {g: torch.cat([p[g] for p in parts]) for g in obs}

        return act


class ConcatWorld:
    """The worlds of all parts, counted through.

    Args:
        env: whose parts they are.

    Attributes:
        engine: name, several joined by "+". num_envs, device, dt (s, of the first part).
    """

    def __init__(self, env: ConcatEnv) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.device = env.device
        worlds = [e.world for e in env.parts.values()]
        self.engine = "+".join(dict.fromkeys(w.engine for w in worlds))
        self.dt = worlds[0].dt

    @property
    def failed(self) -> Tensor:
        """int64 ids of the worlds whose physics diverged in the last step."""
        parts = zip(self.env.parts.values(), self.env._slices, strict=True)
        return torch.cat([e.world.failed + at.start for e, at in parts])

    @property
    def failures(self) -> int:
        """How many worlds have diverged so far."""
        return sum(e.world.failures for e in self.env.parts.values())

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        """World i as MjData of its own part's model, forwarded, for rendering."""
        env, at = self.env.locate(i)
        return env.world.mj_data(at, data)


class ConcatRandomization:
    """What the parts draw, each by itself.

    Args:
        env: whose parts they are.

    Attributes:
        ranges: by parameter, the range that covers those of all parts that draw it.
        names: of these parameters.
    """

    def __init__(self, env: ConcatEnv) -> None:
        self.ranges: dict[str, Range] = {}
        for e in env.parts.values():
            for name, r in e.randomization.ranges.items():
                before = self.ranges.get(name, r)
                self.ranges[name] = Range(min(before.low, r.low), max(before.high, r.high), before.on)
        self.names = tuple(self.ranges)
