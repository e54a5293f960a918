"""Task: what is to be done, in one file read top to bottom. The vectorized environment calls it in this order:

    step:   apply(actions) -> world.step(K) -> advance() -> rewards(), terminated() -> observe()
    reset:  world.reset(ids) -> reset(ids) -> world.forward(ids) -> observe()

`advance` detects: it updates clocks and counters and notes crashes, hits and contacts. `rewards`, `terminated`, `truncated`,
`observe`, `observe_privileged`, `events` and `metrics` only read: in any order and however often, they give the same values
and change nothing. (The tensors that they return may be reused: copy what you keep.)

Everything a task remembers from one control step to the next lives in buffers made with ``self.buffer(...)``, so that
runs resume exactly.
"""

from __future__ import annotations

import abc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import Tensor

from rookery.sim.actuation import Actuation
from rookery.sim.buffers import Buffers
from rookery.sim.env import Team
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.setup_errors import missing
from rookery.sim.specs import Command, CommandRange, Group
from rookery.sim.terms import Expression
from rookery.sim.world import World

Named = TypeVar("Named", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Wrapper:
    """A change to a task's environment that needs a policy which does not learn, such as an opponent.

    Args:
        make: "module:function", called as ``function(env, policies, groups, **options)`` with the frozen policies by group and
            the groups that they were trained as; None for both where the classical controller stands in.
        frozen: the policy: a run folder, a name of the zoo, or "controller" for the task's classical controller. The config
            value `frozen` overrides it.
        options: keyword arguments of the function.
    """

    make: str
    frozen: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Task(Buffers, abc.ABC):
    """Base of all tasks. The first line of a task's docstring is shown by `rookery list`.

    Attributes:
        cfg: the frozen config dataclass, with units in its comments. It has at least `episode_s`, `control_dt`, `dt`
            (s) and `reward` (Weights).
        world: the engine's copies of `scene()`, from `setup` on.
        rng: per-world random streams; ``self.rng(ids).uniform(-1, 1, (A, 3))`` gives [n, A, 3]. Episode k of a world begins
            with the same numbers whatever was drawn before it.
        randomization_rng: streams for parameters that draw numbers of their own when they are written, see `parameters`.
        steps, max_steps: [N] int64 control steps into the episode, the running one included, and the time limit.
        given: by group, the actions [N, A, D] of this control step as the agents gave them (and `controls` made of them),
            before any delay: what an agent can know of its own commands.
        late: by group, where any world has delays, [N] int64 physics steps from the actions of this control step to their
            effect; where `delays_controls`, those that its controls take, see ControlDelay.
        causes: names of the ways an episode can terminate; `terminated` returns 0 for "goes on" and i for causes[i-1].
    """

    name: ClassVar[str] = ""
    """By which `rookery.make` and the command line know the task; "" for a base of tasks."""
    engines: ClassVar[tuple[str, ...]] = ("mujoco", "pybullet")
    """Physics engines that it runs on, the default first."""
    preset: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Settings to train it with in place of those of the task that it derives from, or of its `family`, as in the settings.toml
    of a run: ``{"num_envs": 256, "ppo": {"learning_rate": 1e-3}}``. Those of this package's tasks stand in
    policies/recipes/<name>.toml."""
    family: ClassVar[str] = ""
    """Name of the settings with which tasks that derive from this base are trained, policies/recipes/families/<family>.toml; ""
    for the algorithm's defaults."""
    wrapper: ClassVar[Wrapper | None] = None
    """What makes the task's environment from its own one; None: nothing."""
    Config: ClassVar[type]
    causes: ClassVar[tuple[str, ...]] = ()
    headline: ClassVar[str] = "success"
    """The metric that sums the task up in tables."""
    default_randomization: ClassVar[dict[str, Range] | None] = None
    """What "default" randomization means for this task; None: `randomization.DEFAULT`, the drones'."""
    interface: ClassVar[tuple[str, ...]] = ("control_dt",)
    """Config values that belong to a policy: the robot and scene that it is for, what it observes and commands. Those of base
    classes count too. All others say what is judged (success, horizon, starts, reward): a stored policy is judged by this
    class's own values of them, whatever its training had."""
    delays_controls: ClassVar[bool] = False
    """True where `apply` gets actions undelayed and delays its controls by `late`: of robots whose controls follow from more
    than the action in force, such as an arm whose commands move a goal."""
    camera: Any = "chase"
    """What videos are taken from, see Renderer: a name, a `Follow`, or (eye, target) in m."""
    objectives: ClassVar[dict[str, tuple[str, ...]]] = {}
    """A vector reward: its M objectives by name, each the weighted sum of the reward terms named here. Every term counts
    in at least one of them, and may in several; a group adds up those that it has. None: one number, the sum of all
    terms."""

    metric_definitions: Mapping[str, str] = MappingProxyType({})
    """What each of `metrics` means, with its unit, by the same names; contracts carry it."""
    deciding: Mapping[str, tuple[str, bool]] = MappingProxyType({})
    """Metrics that decide about success: for each the config value that it is held against, and whether success asks for at
    most that (or at least). Videos show them, see `gauges`."""
    event_definitions: Mapping[str, str] = MappingProxyType({})
    """What can happen in a control step: what each of `events` means, by the same names; contracts of policies that decide at
    one carry it."""

    world: World
    rng: Streams
    randomization_rng: Streams
    steps: Tensor
    max_steps: int
    given: dict[str, Tensor]
    late: dict[str, Tensor]

    def __init__(self, cfg: Any = None) -> None:
        super().__init__()
        self.cfg = self.Config() if cfg is None else cfg
        self.late = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for what is not there: an error that says which setup() would have made it."""
            raise missing(self, name)

    @abc.abstractmethod
    def scene(self) -> Scene:
        """The scene: parts, and where they stand."""

    @abc.abstractmethod
    def groups(self) -> dict[str, Group]:
        """Agent groups: how many agents, their observation and their action."""

    def teams(self) -> dict[str, Team]:
        """Indices of agents by team and group, such as ``{"near": {"near": (0, 1)}, "far": {"far": (0, 1)}}``; empty where
        all agents work together."""
        return {}

    @property
    def actuation(self) -> dict[str, Actuation]:
        """By group, what lies between actions and motors. Read after `setup`."""
        return {}

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By group and quantity, ``{"low": value or None, "high": value or None, "unit": "m/s"}``."""
        return {}

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        """Full names of the robots' bodies that randomization may push and pull, see rookery.sim.envs.disturbances."""
        return ()

    @abc.abstractmethod
    def setup(self) -> None:
        """Resolve views of `self.world` and make buffers. Called once; `self.world` and `self.rng` are set."""

    def parameters(self) -> dict[str, Parameter]:
        """Physical quantities that randomization and ``--set`` may change, by name. Called after `setup`."""
        return {}

    @abc.abstractmethod
    def reset(self, ids: Tensor) -> None:
        """New episodes for the worlds `ids` [n]; randomness only from ``self.rng(ids)``."""

    def controls(self, actions: dict[str, Tensor]) -> dict[str, Tensor]:
        """By group, what `apply` takes and `given` holds, of the actions [..., A, D] of the agents: these as they are.

        A task that gives another action to a base, such as choices among what the base's numbers may be, overrides it, and
        `actuation` where the contract is to say what lies below. It may be called more than once in a control step, and changes
        nothing.
        """
        return actions

    @abc.abstractmethod
    def apply(self, actions: dict[str, Tensor]) -> None:
        """Turn normalized actions into controls for the coming K physics steps.

        Args:
            actions: of `controls`, by group, [N, A, D] in [-1, 1]; or [N, K, A, D], one row a physics step, when action delays
                are on and not `delays_controls`.
        """

    def advance(self) -> None:
        """Update clocks, targets and counters after the physics of a control step."""

    def observe(self) -> dict[str, dict[str, Tensor]]:
        """By group and term, raw SI values [N, A, d], without noise or scale; of those that no sensor gives.

        As it stands here: the terms' expressions of what is `measured`, none of them of the step before. Tasks with a faster
        way override it.

        Raises:
            RookeryError: a quantity is not measured.
        """
        measured = self.measured()
        try:
            return {
                g: {t.name: t.expression.evaluate(measured[g]) for t in s.observation if not t.sensed}
                for g, s in self.declared.items()
            }
        except KeyError as missing:
            raise RookeryError(
                f"{type(self).__name__} observes {missing} and does not measure it: give it in measured(), or write observe()."
            ) from None

    @cached_property
    def declared(self) -> dict[str, Group]:
        """`groups`, once."""
        return self.groups()

    def measured(self) -> dict[str, dict[str, Tensor]]:
        """By group and name, the quantities [N, A, d] of which its terms, targets and further sets are expressions: raw states
        in world axes, as the engine has them. A test holds `observe` and `observe_privileged` equal to the expressions."""
        return {}

    def state(self) -> Tensor | None:
        """[N, S] for a central critic; None stands for all agents' noise-free observations side by side."""
        return None

    def observe_privileged(self) -> dict[str, dict[str, Tensor]]:
        """By group and name, the true values [N, A, d] in SI units of `Group.privileged`: the group's targets, and the terms
        that only its further observation sets have. Called when somebody reads them; groups without any are left out."""
        return {}

    def reveal_future_mask(self) -> Tensor | None:
        """[N] bool: the worlds in which the agents are told the truth of their group's `future` targets, so that nothing
        needs to be predicted; None when they never are."""
        return None

    @abc.abstractmethod
    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """By group and term, unweighted, each [N, A]. The environment weighs them (``cfg.reward``) and adds them up: to
        one number, or to the vector of `objectives`."""

    @abc.abstractmethod
    def terminated(self) -> Tensor:
        """[N] int64: 0, or 1 + the index of the cause in `causes`."""

    def truncated(self) -> Tensor | None:
        """[N] bool: episodes that end here though they could go on, besides those whose time is up; None for no other."""
        return None

    def active(self) -> dict[str, Tensor] | None:
        """By group, [N, A] bool: who still takes part; None when everybody always does."""
        return None

    def action_mask(self) -> dict[str, Tensor] | None:
        """By group whose action is `masked`, [N, A, C] bool: which options of its choices are allowed now, those of the first
        choice before those of the second; at least one of each. None where no group's is."""
        return None

    @abc.abstractmethod
    def metrics(self) -> dict[str, Tensor]:
        """The episode so far, each [N] float32; "success" (0 or 1) and the domain's own figures. Read when it ends, by the same
        names always: NaN where an episode has no such figure, as the time to a goal that was not reached, and does not count in
        its mean."""

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """A classical controller as a function from observations to actions, where the task has one. It may read the
        true state."""
        return None

    def correction(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """An improvement of a policy's actions {group: [N, A, D]} by the true state, where the task knows of one. DAgger's
        teachers may use it; called once in every control step."""
        return None

    def events(self) -> dict[str, Tensor]:
        """By name of `event_definitions`, what happened in this control step: [N] bool, or [N, A] by agent, the agents of all
        groups counted through. New tensors."""
        return {}

    def event_expressions(self) -> dict[str, Expression]:
        """By name, events that follow from what an agent measures: an expression [1] of quantities of `measured`, not 0 in
        the control step in which the event happens. A robot computes these and is told of the others."""
        return {}

    def event_log(self, i: int) -> list[str]:
        """The latest events in world i as readable lines, each of which begins with its time in the episode ("0.84 s  ..."),
        where the task keeps a log."""
        return []

    def markers(self, i: int) -> list[dict[str, Any]]:
        """Markers that a video shows beside the scene in world i: dicts as
        `rookery.sim.rendering.markers.marker_shape` takes them."""
        return []

    def gauges(self, i: int) -> list[Gauge]:
        """Quantities that decide about success in world i, now, for the overlay of videos; nothing where no number does. See
        `deciding`."""
        metrics = self.metrics() if self.deciding else {}
        return [
            Gauge.of_metric(
                name, float(metrics[name][i]), getattr(self.cfg, limit), self.metric_definitions[name], most
            )
            for name, (limit, most) in self.deciding.items()
        ]

    def commands(self) -> list[Command]:
        """Quantities that a person may set while the task runs: a commanded velocity, a place to be at."""
        return []

    def command_ranges(self) -> Mapping[str, CommandRange]:
        """Ranges from which commands are drawn in training, by the names of their quantities; the contract states them, and a
        runtime keeps to them. None of a place that is a part of the scene, nor of one to which the robot travels from far away,
        which it passes and leaves behind. Asked also of a task that has no world yet."""
        return {}

    @property
    def shardable(self) -> bool:
        """True where nothing in a world depends on the other worlds or on their number, so that they may be stepped in several
        processes (see ShardedEnv)."""
        return True

    @property
    def physics_steps(self) -> int:
        """K: physics steps in a control step."""
        return round(self.cfg.control_dt / self.cfg.dt)

    @property
    def device(self) -> torch.device:
        return self.world.device


def declared_actuation(task: Task) -> dict[str, Actuation]:
    """`task.actuation`; nothing where it is that of a base, and the `controls` of a class above it make the base's numbers of
    other actions: what lies below those is then the class's own to declare."""
    first = next(cls for cls in type(task).__mro__ if {"controls", "actuation"} & vars(cls).keys())
    return dict(task.actuation) if "actuation" in vars(first) else {}


def by_name(task: Task, method: str, found: Named) -> Named:
    """Check that a method of a task gave a dict by name.

    Raises:
        RookeryError: it gave something else, such as None for want of a `return`.
    """
    if isinstance(found, (dict, Mapping)):  # dict first: an abstract class asks longer
        return found
    given = "nothing" if found is None else f"a {type(found).__name__}"
    raise RookeryError(f"{type(task).__name__}.{method}() gives {given}: let it return a dict by name.")


def declared_groups(task: Task, name: str) -> dict[str, Group]:
    """`task.groups()`.

    Raises:
        RookeryError: terms that cannot be, such as a sum of m and m/s, with the line of the task that has them.
    """
    try:
        return by_name(task, "groups", task.groups())
    except ValueError as error:
        ours, library = Path(__file__).parent, (Path(traceback.__file__).parent, Path())  # Path(): of "<string>"
        frames = [
            f for f in traceback.extract_tb(error.__traceback__)
            if ours not in Path(f.filename).parents and Path(f.filename).parent not in library
        ]  # fmt: skip
        place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        raise RookeryError(f"task {name!r} declares what cannot be{place}: {error}") from error
