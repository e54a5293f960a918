"""The vectorised environment: N worlds of a task, always batched, always by agent group.

A step is: check and delay the actions, let the task turn them into controls, K physics steps in the engine, rewards,
ends of episodes, observations. Worlds whose episode ended begin a new one in the same step: the returned observation is
the first of the new episode and the last of the old one is in ``info["final_observation"]``.

    >>> env = rookery.make("drone-hover", num_envs=4)                       # doctest: +SKIP
    >>> obs, info = env.reset(seed=0)                                       # doctest: +SKIP
    >>> obs["drone"].shape                                                  # doctest: +SKIP
    torch.Size([4, 1, 22])
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.envs.delays import MAX_DELAY, ActionDelay
from rookery.sim.envs.episodes import EpisodeLog
from rookery.sim.envs.observation import ObservationPipeline, check_terms, target_values
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Randomization, Range
from rookery.sim.task import Task
from rookery.sim.threads import one_thread_each
from rookery.sim.world import World

GOLDEN_ANGLE = 2.399963  # rad; its multiples spread evenly around the circle


class VecEnv(Buffers):
    """N worlds of one task.

    Args:
        task: not yet set up.
        world: engine with the task's scene.
        seed: seed of all random streams.
        ranges: randomised or fixed parameters, by name (see randomization).
        optional: names in `ranges` that are left out where this task lacks them.
        task_id: registered name, for messages and records.

    Attributes:
        groups: agent groups by name.
        objectives: names of the M components of a vector reward; empty for a reward of one number.
        num_envs, device, control_dt (s), max_episode_steps (control steps), state_size (S).
        randomization: the values drawn for each world.
    """

    def __init__(
        self, task: Task, world: World, *, seed: int = 0, ranges: dict[str, Range] | None = None,
        optional: Collection[str] = (), task_id: str = "task",
    ) -> None:  # fmt: skip
        super().__init__()
        self.task = task
        self.world = world
        self.task_id = task_id
        self.num_envs = world.num_envs
        self.device = world.device
        self.control_dt = float(task.cfg.control_dt)
        if self.control_dt <= 0 or task.cfg.episode_s < self.control_dt:
            raise RookeryError(
                f"an episode must last for at least one control step, got episode_s {task.cfg.episode_s} s and control_dt "
                f"{self.control_dt} s: both must be positive and episode_s the longer one."
            )
        self._k = task.physics_steps
        if abs(self._k * world.dt - self.control_dt) > 1e-9:
            raise RookeryError(
                f"control_dt {self.control_dt} s must be a whole number of physics steps of {world.dt} s."
            )
        self.max_episode_steps = round(task.cfg.episode_s / self.control_dt)
        self.rng = Streams(self.num_envs, seed, self.device)
        world.seed(seed)
        self.buffer("steps", world.num_envs, dtype=torch.int64)
        task.world = world
        task.rng = self.rng
        task.steps = self.steps
        task.max_steps = self.max_episode_steps
        task.setup()
        self.groups = task.groups()
        self.objectives = tuple(task.objectives)
        n = self.num_envs
        self._pipelines = {g: ObservationPipeline(s, n, self.control_dt, self.rng) for g, s in self.groups.items()}
        self._delays = {
            g: ActionDelay(
                n, s.count, s.action.size, self._k, world.dt, torch.tensor(s.action.neutral, dtype=torch.float32)
            )
            for g, s in self.groups.items()
        }
        self.randomization = Randomization(self._parameters(), ranges or {}, n, self.rng, optional)
        self._log = EpisodeLog(task, self.groups, n)
        for name, part in {
            "task": task,
            "rng": self.rng,
            "randomization": self.randomization,
            "log": self._log,
        }.items():
            self.child(name, part)
        for g in self.groups:
            self.child(f"observation.{g}", self._pipelines[g])
            self.child(f"action_delay.{g}", self._delays[g])
        self._ready = False
        self._terms: dict[str, dict[str, Tensor]] = {}
        self._all = torch.arange(n)
        self.state_size = sum(s.count * s.frame_size for s in self.groups.values())
        self._first()

    steps: Tensor

    def _first(self) -> None:
        """Check the declarations against real tensors, once, before anybody trains on them."""
        self.world.reset()
        self.task.reset(self._all)
        self.world.forward()
        for g, terms in self.task.observe().items():
            check_terms(self.task_id, terms, self.groups[g].observation, (self.num_envs, self.groups[g].count))
        targets = self.task.privileged_targets() or {}
        for g, s in self.groups.items():
            check_terms(self.task_id, targets.get(g, {}), s.targets, (self.num_envs, s.count), "target")
        state = self.task.state()
        if state is not None:
            self.state_size = state.shape[1]
        self.rng.counter.zero_()  # so that make(seed=s) and reset(seed=s) begin with the same numbers

    def _parameters(self) -> dict[str, Parameter]:
        down = self.world.params.nominal("gravity").norm()

        def tilt(ids: Tensor, v: Tensor) -> None:
            around = ids.float() * GOLDEN_ANGLE
            g = torch.stack((v.sin() * around.cos(), v.sin() * around.sin(), -v.cos()), dim=1) * down
            self.world.params.set("gravity", (), g, ids)

        def sensor(field: str):  # type: ignore[no-untyped-def]
            def write(ids: Tensor, v: Tensor) -> None:
                for p in self._pipelines.values():
                    getattr(p, field)[ids] = v
                    p.refresh()

            return write

        def observation_delay(ids: Tensor, v: Tensor) -> None:
            for p in self._pipelines.values():
                p.delay.set(ids, v)

        def action_delay(ids: Tensor, v: Tensor) -> None:
            for d in self._delays.values():
                d.set(ids, v)

        return self.task.parameters() | {
            "gravity_tilt": Parameter(
                "angle of gravity from -z, in a direction of each world's own", "rad", 0, 0, 0.5, tilt
            ),
            "observation_noise": Parameter(
                "factor on the declared noise of every term", "1", 0, 0, 100, sensor("noise")
            ),
            "observation_bias": Parameter("factor on the declared bias of every term", "1", 0, 0, 100, sensor("bias")),
            "observation_delay": Parameter("age of observations", "s", 0, 0, MAX_DELAY, observation_delay),
            "action_delay": Parameter("time from action to effect", "s", 0, 0, MAX_DELAY, action_delay),
        }

    @one_thread_each
    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Begin new episodes in all worlds.

        Args:
            seed: start all random streams anew; None lets them go on.

        Returns:
            Observations by group, [N, A, O] float32, and an empty info.
        """
        if seed is not None:
            self.rng.seed(seed)
            self.world.seed(seed)
            self.randomization.drawn.zero_()
        self._begin(self._all)
        self._terms = self.task.observe()
        self._ready = True
        return {g: p.restart(self._all, self._terms[g]) for g, p in self._pipelines.items()}, {}

    def _begin(self, ids: Tensor) -> None:
        self.world.reset(ids)
        self.steps[ids] = 0
        self.randomization.draw(ids)
        self.task.reset(ids)
        for d in self._delays.values():
            d.reset(ids)
        self.world.forward(ids)
        self._log.reset(ids)

    def stagger(self) -> None:
        """Spread the worlds' episode clocks evenly, so that time limits do not fall together. For trainers: the first
        episode of most worlds is then shorter."""
        self.steps.copy_(self._all * self.max_episode_steps // self.num_envs)

    @one_thread_each
    def step(self, actions: dict[str, Tensor] | Tensor) -> tuple[
        dict[str, Tensor], dict[str, Tensor], Tensor, Tensor, dict[str, Any]
    ]:  # fmt: skip
        """Advance all worlds by one control step.

        Args:
            actions: by group, [N, A, D] float32, clipped to [-1, 1]; the tensor alone where there is one group.

        Returns:
            observation {group: [N, A, O]}, reward {group: [N, A]} (or [N, A, M] for M `objectives`), terminated [N]
            bool, truncated [N] bool, info. When an episode ended, info has "final_observation" {group: [N, A, O]} and
            "final_state" [N, S], with meaning in the rows that ended, and "episode" (see EpisodeLog.finish).

        Raises:
            RookeryError: `reset` was not called, or actions of wrong groups, shape, type, or with NaN.
        """
        if not self._ready:
            raise RookeryError("call reset() before the first step().")
        if isinstance(actions, Tensor):
            actions = dict.fromkeys(self.groups, actions) if len(self.groups) == 1 else {"?": actions}
        self._check(actions)
        given = {g: a.detach().float().clamp(-1.0, 1.0) for g, a in actions.items()}
        self.task.given = given
        self.task.apply({g: self._delays[g].push(a) for g, a in given.items()})
        self.world.step(self._k)
        self.steps += 1
        self.task.advance()
        reward = self._log.add(self.task.rewards())
        cause = self.task.terminated()
        if len(self.world.failed):
            self._diverged(self.world.failed, reward, cause)
        terminated = cause > 0
        over = self.steps >= self.max_episode_steps
        cut = self.task.truncated()
        truncated = (over if cut is None else over | cut) & ~terminated
        done = terminated | truncated
        self._terms = self.task.observe()
        obs = {g: p.push(self._terms[g]) for g, p in self._pipelines.items()}
        info: dict[str, Any] = {}
        if done.any():
            obs, info = self._finish(done.nonzero().squeeze(1), obs, cause)
        return obs, reward, terminated, truncated, info

    def _finish(self, ids: Tensor, obs: dict[str, Tensor], cause: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
        info: dict[str, Any] = {"final_observation": obs, "final_state": self.state}
        info["episode"] = self._log.finish(ids, self.steps[ids], cause[ids])
        info["episode"]["parameters"] = {
            name: self.randomization.values[ids, i] for i, name in enumerate(self.randomization.names)
        }
        self._begin(ids)
        self._terms = self.task.observe()
        fresh = {g: o.clone() for g, o in obs.items()}
        for g, p in self._pipelines.items():
            fresh[g][ids] = p.restart(ids, self._terms[g])
        return fresh, info

    def _diverged(self, ids: Tensor, reward: dict[str, Tensor], cause: Tensor) -> None:
        """The engine put these worlds back because their physics blew up: end their episodes, keep NaN out of learning."""
        cause[ids] = len(self.task.causes) + 1
        for r in reward.values():
            r[ids] = 0.0

    def _check(self, actions: dict[str, Tensor]) -> None:
        if not isinstance(actions, dict) or actions.keys() != self.groups.keys():
            got = list(actions) if isinstance(actions, dict) else type(actions).__name__
            raise RookeryError(f"actions must be a dict of tensors for the groups {list(self.groups)}, got {got}.")
        for g, a in actions.items():
            want = (self.num_envs, self.groups[g].count, self.groups[g].action.size)
            if not isinstance(a, Tensor) or not a.is_floating_point():
                kind = a.dtype if isinstance(a, Tensor) else type(a).__name__
                raise RookeryError(f"actions of {g!r} must be a float tensor, got {kind}: use .float().")
            if tuple(a.shape) != want:
                raise RookeryError(
                    f"actions of {g!r} must have shape {want} (worlds, agents, components), got {tuple(a.shape)}."
                )
            if not torch.isfinite(a.sum()):  # one pass; a NaN or infinity anywhere survives the sum
                if torch.isfinite(a).all():
                    continue
                worlds = (~torch.isfinite(a)).flatten(1).any(1).nonzero().flatten().tolist()
                raise RookeryError(
                    f"actions of {g!r} contain NaN or infinity, first in world {worlds[0]}: check the policy."
                )

    @property
    def state(self) -> Tensor:
        """[N, S] what a central critic sees now: the task's own state, or all noise-free observations side by side."""
        own = self.task.state()
        if own is not None:
            return own
        parts = [self._pipelines[g].clean(terms).flatten(1) for g, terms in self._terms.items()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    @property
    def active(self) -> dict[str, Tensor] | None:
        """By group, [N, A] bool: who takes part; None when everybody always does."""
        return self.task.active()

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        """By group, [N, A, M]: the truth of what its predictor shall say now; None when no group has targets."""
        given = self.task.privileged_targets()
        if given is None:
            return None
        return {g: target_values(given[g], s.targets) for g, s in self.groups.items() if s.targets}

    @property
    def reveal_future_mask(self) -> Tensor | None:
        """[N] bool: where the agents are told the truth of their group's `future` targets; None when they never are."""
        return self.task.reveal_future_mask()

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, exactly."""
        out = super().state_dict()
        out.update({f"world.{k}": v for k, v in self.world.snapshot().items()})
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state of an environment made with the same arguments.

        Raises:
            ValueError: it is of another task, number of worlds or version.
        """
        super().load_state_dict(state)
        self.world.restore({k[len("world.") :]: v for k, v in state.items() if k.startswith("world.")})
        self._terms = self.task.observe()
        self._ready = True

    def close(self) -> None:
        """Free the engine."""
        self.world.close()
