"""Env: the interface that trainers, evaluation, video, contracts and adapters use.

An environment is always batched, N worlds, and always by agent group. `VecEnv` (one task), `ConcatEnv` (several tasks side
by side) and every `EnvWrapper` (sim/env_wrapper.py) subclass it, so that code which takes an Env never asks which one it has.

Shapes: N worlds, A agents of a group, O observation, D action, M objectives or privileged targets, S state.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from rookery.sim.deployment import Deployment
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.specs import Group

if TYPE_CHECKING:
    import mujoco

StepResult = tuple[dict[str, Tensor], dict[str, Tensor], Tensor, Tensor, dict[str, Any]]
"""observation {group: [N, A, O]}, reward {group: [N, A]} (or [N, A, M]), terminated [N] bool, truncated [N] bool, info."""

Act = Callable[[dict[str, Tensor]], dict[str, Tensor]]
"""From observations {group: [N, A, O]} to actions {group: [N, A, D]}."""


class AgentNote(NamedTuple):
    """A short text on an agent of a group, such as the name of its skill."""

    group: str
    agent: int
    text: str


@runtime_checkable
class Narrator(Protocol):
    """An `Act` that says what its agents are about, for videos."""

    def notes(self, world: int) -> list[AgentNote]:
        """Notes on the agents of a world, in any order."""
        ...


@runtime_checkable
class Meets(Protocol):
    """An `Act` of players who meet, for videos."""

    def playing(self, world: int) -> dict[str, str]:
        """Names of the players in a world's episode, by the team that each plays."""
        ...


TermRecorder = Callable[[str, dict[str, dict[str, Tensor]]], None]
"""See `Env.record_terms`."""

AtEnds = Callable[[Tensor], None]
"""See `Env.before_restart`."""

Team = dict[str, tuple[int, ...]]
"""Indices of a team's agents, by group."""


class Env(abc.ABC):
    """N worlds, stepped together.

    Worlds whose episode ends begin a new one in the same step: the returned observation is the first of the new episode,
    and the last of the old one is in ``info["final_observation"]``.

    Attributes:
        task_id: registered name.
        groups: agent groups by name.
        teams: agents by team and group; empty where all agents work together.
        num_envs: N.
        device: of all tensors.
        control_dt: s, the policy's period.
        max_episode_steps: control steps, the time limit; of several tasks the longest.
        state_size: S, length of `state`; 0 where there is none.
        objectives: names of the M components of a vector reward; empty for a reward of one number.
        causes: names of the ways an episode can terminate; a cause index i > 0 means ``causes[i - 1]``, and one more than
            there are causes diverged physics.
        event_names: what can happen in a control step, such as "hit"; ``info["events"]`` of `step` has each of them.
        latest_events: ``info["events"]`` of the latest step; empty after `reset`.
        headline: the metric that sums the task up in tables.
        engine: name of the physics engine; "" where there is none of ours.
        seeded: false while neither `rookery.make` nor `reset` was given a seed. Rookery itself takes 0 then; the adapters for
            other libraries take one from the operating system, as their users expect (sim/adapters/seeding.py).
        remake: makes another environment with the same arguments, for copies and pickles; None where they are not known.
    """

    task_id: str
    groups: dict[str, Group]
    num_envs: int
    device: torch.device
    control_dt: float
    max_episode_steps: int
    state_size: int = 0
    teams: Mapping[str, Team] = MappingProxyType({})
    objectives: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    event_names: tuple[str, ...] = ()
    latest_events: Mapping[str, Tensor] = MappingProxyType({})
    headline: str = "success"
    engine: str = ""
    seeded: bool = True
    remake: Callable[[], Env] | None = None
    _at_ends: tuple[AtEnds, ...] = ()

    # The loop

    @abc.abstractmethod
    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Begin new episodes in all worlds.

        Args:
            seed: start all random streams anew; None lets them go on.

        Returns:
            observations {group: [N, A, O]} float32, and info.
        """

    @abc.abstractmethod
    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        """Advance all worlds by one control step.

        Args:
            actions: {group: [N, A, D]} float32; the tensor alone where there is one group. Continuous components are clipped
                to [-1, 1], discrete ones are indices of options (see `ActionSpec`).

        Returns:
            observation {group: [N, A, O]}, reward {group: [N, A]} (or [N, A, M] for M `objectives`), terminated [N] bool,
            truncated [N] bool, info. Where an episode ended, info has "final_observation" {group: [N, A, O]}, which is the
            observation itself in the worlds whose episode goes on; "final_state" [N, S], valid in the worlds that ended;
            "episode" (see sim/envs/episodes.py); and where `active` is not None "final_active" {group: [N, A] bool}, valid in
            the worlds that ended: `active` as it was after the step, before the new episode began. An agent that is not in it
            dropped out in that step or earlier: nothing follows for it, also where the episode was truncated. Of a task with
            `event_names`, info has "events" {name: [N] bool, or [N, A] by agent, all groups counted through}.

            Where a step stood for several control steps, as in a hierarchy, info has "elapsed", how many: [N] int64, or
            {group: [N, A]} where agents differ; without it every step is 1 (see sim/elapsed.py).

            Observations, rewards, `terminated`, `truncated` and "final_observation" are new tensors, never written to again:
            callers may keep them, and adapters hand them on without a copy. `actions` are read during the call only.

        Raises:
            RookeryError: `reset` was not called, or actions of wrong groups, shape or type, with NaN, or with an index that
                is no option's.
        """

    def stagger(self) -> None:
        """Spread the worlds' episode clocks evenly, so that time limits do not coincide. For trainers.

        Episodes that are shorter by it tell nothing of success: ``info["episode"]["cut"]`` [m] is true for them where an
        environment has clocks to set.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Free the engine."""

    def survive_loss(self) -> None:
        """From now on, replace processes of this environment's own that are lost, have new ones repeat what they did, and tell
        of it in `loss`. For trainers, which can then end an iteration and save it. Without it a loss is an error."""

    @property
    def loss(self) -> str:
        """A sentence on the processes that were lost since `survive_loss`; "" for none."""
        return ""

    # What trainers read beside the loop

    @property
    def task_names(self) -> tuple[str, ...]:
        """Tasks of the worlds; one name where all worlds hold the same task."""
        return (self.task_id,)

    @property
    def task_index(self) -> Tensor:
        """[N] int64, index into `task_names` of each world."""
        return torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    @property
    def episode_start(self) -> Tensor:
        """[N] bool: worlds whose latest observation is the first of an episode, where a policy's memory begins anew. After
        `stagger` it is false in worlds whose clock was set forward."""
        raise RookeryError(f"{self.task_id} does not say where episodes begin: a policy with memory cannot act in it.")

    @property
    def state(self) -> Tensor:
        """[N, S] input of a central critic now."""
        raise RookeryError(f"{self.task_id} has no state for a central critic: choose a critic of the observation.")

    @property
    def active(self) -> dict[str, Tensor] | None:
        """{group: [N, A] bool}: which agents take part now; None when everybody always does."""
        return None

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        """{group: [N, A] bool} of the groups in which some agents are amid an option that a decision of theirs began, as in a
        hierarchy: the others take a decision now. The actions of those that do not are not read, and their rewards belong to
        the decision before. None, or a group that is left out: everybody decides at every step."""
        return None

    @property
    def acting(self) -> Env:
        """The environment that policies trained here act in afterwards: this one, but for a hierarchy, whose skills are part of
        the stored policy."""
        return self

    def deployed(self, policies: dict[str, Any]) -> dict[str, Any]:
        """Policies trained here as they are stored, to act in `acting`."""
        return policies

    def learned_skills(self, config: Any, seed: int) -> Any:
        """Trainer of the skills below the actions, in a hierarchy.

        Args:
            config: of the algorithm that learns the actions.
            seed: of it.

        Raises:
            RookeryError: there are no skills, or none that can learn.
        """
        raise RookeryError("learn_skills is for a high level above skills: give --skills FILE too, or leave it out.")

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        """{group: [N, A, C] bool} of the groups whose action is `masked`: which options are allowed now, in the order of the
        choices, at least one of each; None where no group's is. What is not allowed and chosen all the same is the task's to
        judge; policies never choose it."""
        return None

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        """{group: [N, A, M]}: true values of the group's `targets` now, scaled; None when no group has targets."""
        return None

    @property
    def reveal_future_mask(self) -> Tensor | None:
        """[N] bool: worlds in which agents receive the true values of their group's `future` targets; None for none."""
        return None

    def observation_set(self, name: str) -> dict[str, Tensor]:
        """{group: [N, A, O_name]}: another observation set of each group now, such as "critic" or "teacher", scaled and
        clipped, without noise, bias and delay. "Now" is what `step` returned last: of new episodes where old ones ended.

        Raises:
            RookeryError: a group does not declare such a set.
        """
        raise RookeryError(f"{self.task_id} declares no observation set {name!r}: the policy's is what `step` returns.")

    # What evaluation, video and contracts read

    def metrics(self) -> dict[str, Tensor]:
        """Figures of the running episodes, each [N] float32; "success" (0 or 1) where the task has one."""
        return {}

    def controller(self) -> Act | None:
        """The task's classical controller, which may read the true state; None where there is none."""
        return None

    def correction(self) -> Act | None:
        """Correction of a policy's actions {group: [N, A, D]} by the true state, see `Task.correction`; None for nothing."""
        return None

    def deployment(self) -> Deployment:
        """Declarations for the contract of a policy trained here, beside the groups."""
        return Deployment(physics_dt=self.control_dt)

    def event_log(self, i: int) -> list[str]:
        """The latest events in world i as readable lines, where the task keeps a log."""
        return []

    def record_terms(self, record: TermRecorder | None) -> None:
        """Call ``record("observation" or "reward", {group: {term: [N, A, ...]}})`` with the raw terms of every control step,
        before the worlds that ended begin anew, and with the observation terms of every reset; None ends it.

        Raises:
            RookeryError: the environment has no terms.
        """
        raise RookeryError(f"{self.task_id} has no observation and reward terms to record.")

    def before_restart(self, call: AtEnds) -> Callable[[], None]:
        """In every step that ends episodes, call ``call(ids)`` with the worlds [m] in which it does, before they begin anew:
        `mj_data`, `markers`, `gauges` and `action_mask` show their last states then. Listeners are called in the order in which
        they came; copies of the environment have none.

        Returns:
            A function that ends it.

        Raises:
            RookeryError: the environment begins episodes in other processes.
        """
        self._at_ends += (call,)

        def end() -> None:
            self._at_ends = tuple(c for c in self._at_ends if c is not call)

        return end

    def locate(self, world: int) -> tuple[Env, int]:
        """The environment of one task that a world belongs to, and its index there."""
        return self, world

    def visual_model(self, i: int = 0) -> mujoco.MjModel:
        """The model that a renderer draws for world i.

        Raises:
            RookeryError: there is nothing to draw.
        """
        raise RookeryError(f"{self.task_id} has no model to draw: it cannot be recorded.")

    def mj_data(self, i: int, data: Any = None) -> Any:
        """State of world i as MjData, in `data` if given."""
        raise RookeryError(f"{self.task_id} has no model to draw: it cannot be recorded.")

    def markers(self, i: int) -> list[dict[str, Any]]:
        """Marks that a video shows beside the scene in world i: dicts as
        `rookery.sim.rendering.markers.marker_shape` takes them."""
        return []

    def gauges(self, i: int) -> list[Gauge]:
        """Quantities that decide about success in world i, now, for the overlay of videos; nothing where no number does."""
        return []

    @property
    def camera(self) -> Any:
        """Default camera of videos: a name, a `Follow`, or (eye, target) in m."""
        return "chase"

    # Keeping

    @abc.abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, exactly."""

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        """Refuse a saved state that `load_state_dict` would refuse; nothing is changed."""

    @abc.abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state of an environment made with the same arguments.

        Raises:
            ValueError, RookeryError: it is of another task, number of worlds or version; nothing is changed then.
        """

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are made anew with the same arguments and continue from this one's state. They record nothing.

        Raises:
            RookeryError: the arguments are not known.
        """
        if self.remake is None:
            raise RookeryError(
                f"{self.task_id} was not made by rookery.make, and how to make a copy is not known: make another with the same "
                "arguments and give it this one's state, load_state_dict(env.state_dict())."
            )
        return made_again, (self.remake, self.state_dict(), self.seeded)

    @property
    def unwrapped(self) -> Env:
        """The environment below all wrappers."""
        return self


def made_again(remake: Callable[[], Env], state: dict[str, Tensor], seeded: bool) -> Env:
    """An environment with the arguments and in the state of another; see `Env.remake` and `Env.seeded`."""
    env = remake()
    env.load_state_dict(state)
    env.seeded = seeded
    return env
