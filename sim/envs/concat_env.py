"""One vectorized environment whose worlds hold different tasks: what MT10 and its like are made of.

Each part is a VecEnv of its own, with its task, scene, randomization, curriculum and episode clocks; its worlds stand side
by side with the others'. With the parts reach (3 worlds) and push (2 worlds):

    world         0      1      2      3     4
    task_index    0      0      0      1     1
    observation   what the part gives, then the one-hot term "task": 1 0 for reach, 0 1 for push

Nothing passes from one part to another: a part gives here, bit for bit, what it gives alone. Its random streams start from
`part_seed(seed, name)`, so they depend neither on the other parts nor on their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.buffers import under
from rookery.sim.deployment import LINK, Deployment
from rookery.sim.engines import check_seed
from rookery.sim.env import Act, AtEnds, Env, StepResult, TermRecorder
from rookery.sim.envs.concat_checks import check_alike, check_names
from rookery.sim.envs.concat_episodes import ConcatEpisodes
from rookery.sim.envs.concat_terms import ConcatTerms
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import command
from rookery.sim.specs import CommandRange, Group, Term
from rookery.sim.threads import one_kernel_thread, one_thread_each

if TYPE_CHECKING:
    import mujoco

TASK = "task"
"""Name of the one-hot term."""


def part_seed(seed: int, name: str) -> int:
    """The seed of the part `name` in a ConcatEnv of that seed: 63 bits of a hash of both."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def only_task(env: Env) -> VecEnv:
    """The environment of the one task of `env`, below all wrappers, for code that needs its engine.

    Raises:
        RookeryError: it has several tasks, or none of ours.
    """
    inner = env.unwrapped
    if isinstance(inner, ConcatEnv):
        if len(inner.parts) > 1:
            raise RookeryError(
                f"each task of {inner.task_id} has a scene of its own: choose one with the config value tasks, such as "
                f"--task-config tasks={next(iter(inner.parts))}."
            )
        return next(iter(inner.parts.values()))
    if not isinstance(inner, VecEnv):
        raise RookeryError(f"{env.task_id} has no engine of ours: choose one of the tasks of `rookery list`.")
    return inner


class ConcatEnv(Env):
    """Worlds of several tasks, side by side; see Env.

    All parts have the same groups: as many agents, the same observation terms and action kind; noise, bias, delay and the
    neutral action may differ. ``info["episode"]`` has in addition "task" [m] int64, the index into `task_names`, and
    "task_success" {name: [m]}, the metric "success" of that task's episodes, NaN in the rows of others. What only some
    tasks have (reward terms, metrics, parameters) is NaN in the others' rows; `causes` has those of all tasks, each once.
    `metrics` gives those that all tasks have, `deployment` what the first task says of the robot, which all have in common.

    Args:
        parts: by name, in the order of their worlds. The environment steps and closes them from now on.
        one_hot: append the term "task" to every group's observation.
        names: all tasks that the one-hot term counts, where the parts are only some of them; by default theirs.
        task_id: registered name, for messages and records.

    Attributes:
        parts: by name.

    Raises:
        RookeryError: no parts, names twice or unknown, or parts that differ in what one policy depends on.
    """

    def __init__(
        self, parts: Sequence[tuple[str, VecEnv]], one_hot: bool = True, *, names: Sequence[str] | None = None,
        task_id: str = "mixed",
    ) -> None:  # fmt: skip
        check_names([name for name, _ in parts], names)
        self.parts = dict(parts)
        self.task_id = task_id
        self._names = tuple(self.parts if names is None else names)
        check_alike(self.parts)
        envs = list(self.parts.values())
        first = envs[0]
        self.device = first.device
        self.control_dt = first.control_dt
        self.objectives = first.objectives
        self.num_envs = sum(e.num_envs for e in envs)
        self.max_episode_steps = max(e.max_episode_steps for e in envs)
        ends = torch.tensor([e.num_envs for e in envs]).cumsum(0).tolist()
        self._slices = [slice(end - e.num_envs, end) for e, end in zip(envs, ends, strict=True)]
        for e, at in zip(envs, self._slices, strict=True):
            e.told_first = at.start
        self._task_index = torch.cat([torch.full((e.num_envs,), self._names.index(n)) for n, e in self.parts.items()])
        self._one_hot = torch.nn.functional.one_hot(self._task_index, len(self.task_names)).float()
        self._shown = one_hot
        self.groups = {g: self._declare(g, s) for g, s in first.groups.items()}
        self._widest = max(e.state_size for e in envs)
        self.state_size = self._widest + len(self.task_names)
        self.causes = tuple(dict.fromkeys(c for e in envs for c in e.causes))
        self.engine = "+".join(dict.fromkeys(e.engine for e in envs))
        self._episodes = ConcatEpisodes(self)
        self._terms = ConcatTerms(self)

    def _declare(self, name: str, group: Group) -> Group:
        if not self._shown:
            return group
        if any(t.name == TASK for t in group.observation):
            raise RookeryError(f"group {name!r} has a term {TASK!r} of its own: give one_hot=False.")
        names = ", ".join(self.task_names)
        task = Term(TASK, command("1 at the task's place, 0 elsewhere", len(self.task_names), doc=names))
        sets = {k: replace(v, terms=(*v.terms, task)) for k, v in group.observation_sets.items()}
        return replace(group, observation=(*group.observation, task), observation_sets=sets)

    def locate(self, world: int) -> tuple[VecEnv, int]:
        """The part that a world belongs to, and its index there.

        Raises:
            RookeryError: there is no such world.
        """
        for env, at in zip(self.parts.values(), self._slices, strict=True):
            if at.start <= world < at.stop:
                return env, world - at.start
        raise RookeryError(f"there is no world {world}: this environment has 0 to {self.num_envs - 1}.")

    # The loop

    @one_thread_each
    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """As `Env.reset`; each part's random streams start from `part_seed(seed, name)`."""
        seed = None if seed is None else check_seed(seed)
        self.seeded |= seed is not None
        with one_kernel_thread():
            obs = [e.reset(None if seed is None else part_seed(seed, n))[0] for n, e in self.parts.items()]
        self._terms.hand_on()
        return self._observations(obs), {}

    def stagger(self) -> None:
        for e in self.parts.values():
            e.stagger()

    @one_thread_each
    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        checked = check_actions(self, actions)  # here, so that messages count worlds as the caller does
        with one_kernel_thread():
            steps = [
                e.step({g: a[at] for g, a in checked.items()})
                for e, at in zip(self.parts.values(), self._slices, strict=True)
            ]
        self._terms.hand_on()
        obs, rewards, terminated, truncated, infos = zip(*steps, strict=True)
        now = self._observations(obs)
        reward = {g: torch.cat([r[g] for r in rewards]) for g in self.groups}
        info: dict[str, Any] = {}
        if any("episode" in i for i in infos):
            # a part in which no episode ended gives what it has: those rows have no meaning
            last = [i.get("final_observation", o) for i, o in zip(infos, obs, strict=True)]
            info["final_observation"] = self._observations(last)
            info["final_state"] = self._states([i.get("final_state") for i in infos])
            info["episode"] = self._episodes.merge([i.get("episode") for i in infos])
            if (final := self._masks([i.get("final_active") for i in infos])) is not None:
                info["final_active"] = final
        return now, reward, torch.cat(terminated), torch.cat(truncated), info

    def _observations(self, parts: Sequence[dict[str, Tensor]], name: str | None = None) -> dict[str, Tensor]:
        """{group: [N, A, O]} of an observation set, None for the policy's. New tensors, which callers may keep."""
        out = {g: torch.cat([p[g] for p in parts]) for g in self.groups}
        for (g, x), s in zip(out.items(), self.groups.values(), strict=True):
            history = s.history if name is None else s.sets()[name].history
            if self._shown and history == 1:
                x = torch.cat((x, self._one_hot[:, None].expand(-1, s.count, -1)), dim=-1)
            elif self._shown:  # every frame has all terms
                x = x.unflatten(2, (history, -1))
                x = torch.cat((x, self._one_hot[:, None, None].expand(*x.shape[:3], -1)), dim=-1).flatten(2)
            out[g] = x
        return out

    def _states(self, parts: Sequence[Tensor | None]) -> Tensor:
        """[N, S]: each part's state, zeros up to the longest one, and which task it is."""
        out = torch.zeros(self.num_envs, self.state_size)
        for x, at in zip(parts, self._slices, strict=True):
            if x is not None:
                out[at, : x.shape[1]] = x
        out[:, self._widest :] = self._one_hot
        return out

    # What trainers read beside the loop

    @property
    def task_names(self) -> tuple[str, ...]:
        return self._names

    @property
    def task_index(self) -> Tensor:
        return self._task_index

    @property
    def episode_start(self) -> Tensor:
        return torch.cat([e.episode_start for e in self.parts.values()])

    @property
    def state(self) -> Tensor:
        """[N, S] input of a central critic now: the part's state, zeros up to the longest one, and the task's one-hot (also
        where the observation has no term "task")."""
        return self._states([e.state for e in self.parts.values()])

    @property
    def active(self) -> dict[str, Tensor] | None:
        return self._masks([e.active for e in self.parts.values()])

    def _masks(self, given: Sequence[dict[str, Tensor] | None]) -> dict[str, Tensor] | None:
        """{group: [N, A] bool} of who takes part in each part, None for everyone; None where that holds for all parts."""
        if all(a is None for a in given):
            return None
        everybody = {
            g: [torch.ones(e.num_envs, s.count, dtype=torch.bool) for e in self.parts.values()]
            for g, s in self.groups.items()
        }
        return {
            g: torch.cat([ones if a is None or a.get(g) is None else a[g] for a, ones in zip(given, all_, strict=True)])
            for g, all_ in everybody.items()
        }

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        given = [m for e in self.parts.values() if (m := e.action_mask) is not None]
        return {g: torch.cat([m[g] for m in given]) for g in given[0]} if given else None

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        given = [t for e in self.parts.values() if (t := e.privileged_targets) is not None]
        return {g: torch.cat([t[g] for t in given]) for g in given[0]} if given else None

    @property
    def reveal_future_mask(self) -> Tensor | None:
        given = [(e.reveal_future_mask, e.num_envs) for e in self.parts.values()]
        if all(x is None for x, _ in given):
            return None
        return torch.cat([torch.zeros(n, dtype=torch.bool) if x is None else x for x, n in given])

    def observation_set(self, name: str) -> dict[str, Tensor]:
        """As `Env.observation_set`, with the one-hot term at the end of each frame where observations have it."""
        return self._observations([e.observation_set(name) for e in self.parts.values()], name)

    # What evaluation, video and contracts read

    def metrics(self) -> dict[str, Tensor]:
        """Those metrics that all tasks have, each [N]."""
        parts = [e.metrics() for e in self.parts.values()]
        return {k: torch.cat([m[k] for m in parts]) for k in parts[0] if all(k in m for m in parts)}

    def controller(self) -> Act | None:
        """Every part's classical controller in its own worlds; None where one has none."""
        controllers = [c for e in self.parts.values() if (c := e.controller()) is not None]
        if len(controllers) < len(self.parts):
            return None
        first = next(iter(self.parts.values()))
        sizes = {g: (s.history, first.groups[g].frame_size) for g, s in self.groups.items()}

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            # without the one-hot term, which is the last of each frame
            own = {g: x.unflatten(2, (sizes[g][0], -1))[..., : sizes[g][1]].flatten(2) for g, x in obs.items()}
            parts = [c({g: x[at] for g, x in own.items()}) for c, at in zip(controllers, self._slices, strict=True)]
            return {g: torch.cat([p[g] for p in parts]) for g in obs}

        return act

    def deployment(self) -> Deployment:
        parts = {n: e.deployment() for n, e in self.parts.items()}
        first = next(iter(parts.values()))
        randomized = {}
        for name in LINK:
            ranges = [p.randomized.get(name, (0.0, 0.0)) for p in parts.values()]
            randomized[name] = min(low for low, _ in ranges), max(high for _, high in ranges)
        commands = CommandRange.common([p.commands for p in parts.values()])
        shares = [p.randomization_share for p in parts.values() if p.randomization_share is not None]
        config, share = {n: p.config for n, p in parts.items()}, min(shares, default=None)
        return replace(first, config=config, commands=commands, randomized=randomized, randomization_share=share)

    def event_log(self, i: int) -> list[str]:
        env, at = self.locate(i)
        return env.event_log(at)

    def record_terms(self, record: TermRecorder | None) -> None:
        """As `Env.record_terms`; terms that a part lacks are 0 in its rows."""
        self._terms.listen(record, {TASK: self._one_hot} if self._shown else {})

    def before_restart(self, call: AtEnds) -> Callable[[], None]:
        parts = zip(self.parts.values(), self._slices, strict=True)
        ends = [e.before_restart(partial(_called, call, at.start)) for e, at in parts]

        def end() -> None:
            for one in ends:
                one()

        return end

    def visual_model(self, i: int = 0) -> mujoco.MjModel:
        env, at = self.locate(i)
        return env.visual_model(at)

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        env, at = self.locate(i)
        return env.mj_data(at, data)

    def markers(self, i: int) -> list[dict[str, Any]]:
        env, at = self.locate(i)
        return env.markers(at)

    def gauges(self, i: int) -> list[Gauge]:
        env, at = self.locate(i)
        return env.gauges(at)

    @property
    def camera(self) -> Any:
        return next(iter(self.parts.values())).camera

    # Keeping

    def state_dict(self) -> dict[str, Tensor]:
        """As `Env.state_dict`, by ``<part>.<name>``."""
        return {f"{n}.{k}": v for n, e in self.parts.items() for k, v in e.state_dict().items()}

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        for n, e in self.parts.items():
            e.check_state_dict(under(n, state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.check_state_dict(state)
        for n, e in self.parts.items():
            e.load_state_dict(under(n, state))

    def close(self) -> None:
        for e in self.parts.values():
            e.close()


def _called(call: AtEnds, first: int, ids: Tensor) -> None:
    """Call with the worlds of a part, whose first one is `first`, as the whole counts them."""
    call(ids + first)
