"""`rookery.make`: an environment from the name of a task, or of a set of tasks."""

from __future__ import annotations

import copy
import functools
import importlib
import math
import sys
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from rookery.experiments.runs import open_run
from rookery.scaling.cost import DEFAULT_COST
from rookery.scaling.record import MeasuredTask, remembered_task
from rookery.sim.config import from_dict, merge
from rookery.sim.cores import usable_cores
from rookery.sim.devices import find_device
from rookery.sim.engines import check_num_envs, check_seed, find_engine, make_world
from rookery.sim.env import Env
from rookery.sim.envs.concat_env import ConcatEnv, part_seed
from rookery.sim.envs.device_env import on_device
from rookery.sim.envs.scalarize import LinearScalarization
from rookery.sim.envs.shard_sizes import check_shards, divided
from rookery.sim.envs.shard_states import ShardStates
from rookery.sim.envs.sharded_env import ShardedEnv
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.randomization import ranges as randomization
from rookery.sim.randomization.distributions import Held
from rookery.sim.randomization.draw_log import SUFFIXES, DrawLog
from rookery.sim.threads import limit_kernel_threads
from rookery.sim.torch_defaults import check_default_device, check_default_dtype
from rookery.sim.values import plain
from rookery.tasks.registry import TaskEntry, find

if TYPE_CHECKING:
    from rookery.sim.task import Wrapper

FROZEN = "frozen"
"""Config value of a task with a wrapper: the policy that does not learn, see rookery.sim.task.Wrapper."""
TASKS_OF_SET = "tasks"
"""Config value of a set: the names of those of its tasks that are wanted."""


Arguments = ParamSpec("Arguments")


class WorkerPart(NamedTuple):
    """One worker of several that train together."""

    rank: int
    size: int


def _repeatable(maker: Callable[Arguments, Env]) -> Callable[Arguments, Env]:
    """A function that makes environments, which then know how to make the same again."""

    @functools.wraps(maker)
    def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Env:
        env = maker(*args, **kwargs)
        own_args, own_kwargs = copy.deepcopy((args, kwargs))  # the caller may change what it gave
        env.seeded = kwargs.get("seed") is not None
        env.remake = functools.partial(made, *own_args, **own_kwargs)
        return env

    return made


@_repeatable
def make(
    task: str,
    num_envs: int = 1,
    *,
    engine: str | None = None,
    device: str = "cpu",
    seed: int | None = None,
    randomize: str | Path = "none",
    randomize_curriculum: bool = False,
    fixed: dict[str, float] | None = None,
    config: dict[str, Any] | None = None,
    weights: dict[str, float] | None = None,
    shards: int | str = 1,
    starts: int = 0,
    skills: str | Path | None = None,
) -> Env:
    """Make N worlds of a task.

    Args:
        task: registered name, such as "drone-hover" (see `rookery.list_tasks`). A set of tasks, such as "MT10", gives a
            ConcatEnv: the worlds are divided evenly among its tasks, the first ones getting one more where that leaves some.
        num_envs: N, number of worlds.
        engine: "rotor", "mujoco" or "pybullet"; None takes the first that the task names.
        device: where tensors are given and taken: "cpu", or a GPU such as "cuda" to learn on. Physics is on processors.
        seed: of all random streams; None takes 0, and behind an adapter for another library one from the operating system.
        randomize: "none", "default", "all", or the path of a TOML file (rookery.sim.randomization.distributions) or of a log
            of draws that is played again (rookery.sim.randomization.draw_log).
        randomize_curriculum: begin with nominal values and widen what is drawn as episodes succeed, but on "startup".
        fixed: parameters held at one value in all worlds, such as ``{"mass": 1.2}``, or in some of their components,
            ``{"motor_strength:FL_*": 0.7}``; they override `randomize`.
        config: values in place of the task config's defaults, such as ``{"num_drones": 3}``. For a set they hold in all of
            its tasks; ``{"push": {"episode_s": 3.0}}`` in one, and ``{"tasks": ["push"]}`` leaves the others out.
        weights: of the objectives of a vector reward, such as ``{"closeness": 1.0}``: rewards are then one number.
        shards: processes among which the worlds of one task on `mujoco` are divided, with the same results; "auto": what is
            fastest here. A task that a script registers is not known there.
        starts: world i begins its episodes like world i % starts, with the same noise; 0: each world in its own way.
        skills: TOML file of frozen skills: actions are then decisions which of them acts, and how (docs/hierarchy.md).

    Raises:
        RookeryError: a name, number or value that does not exist or fit, with the way out.
    """
    seed = check_seed(0 if seed is None else seed)
    target = find_device(device)
    entry = find(task)
    randomize = _check_arguments(randomize, fixed, config, weights)
    if entry.members:
        if starts or skills is not None or shards not in (1, "1", "auto"):
            raise RookeryError(f"{entry.id} is a set of tasks, whose worlds stay one: no shards, starts or skills.")
        drawn: dict[str, Any] = {"randomize": randomize, "fixed": fixed, "randomize_curriculum": randomize_curriculum}
        mixed = _make_set(entry, num_envs, seed, config or {}, engine=engine or entry.engines[0], **drawn)
        return on_device(mixed if weights is None else LinearScalarization(mixed, weights), target)
    values = dict(config or {})
    frozen = str(values.pop(FROZEN, entry.wrapper.frozen)) if entry.wrapper else ""
    engine = entry.engines[0] if engine is None else entry.check(engine)
    arguments = {"task": task, "engine": engine, "seed": seed, "randomize": randomize, "fixed": fixed, "config": values}
    arguments |= {"randomize_curriculum": randomize_curriculum, "starts": starts}
    env = _divide(entry, num_envs, shards, arguments)
    env = _wrap(entry.wrapper, env, frozen) if entry.wrapper else env
    env = on_device(env if weights is None else LinearScalarization(env, weights), target)
    return env if skills is None else made_with_skills(env, Path(skills))


def made_with_skills(env: Env, file: Path) -> Env:
    """The environment in which a high level commands the skills of a file; it closes `env` where that cannot be."""
    from rookery.experiments.skills import with_skills

    try:
        return with_skills(env, file)
    except RookeryError:
        env.close()
        raise


def _divide(entry: TaskEntry, num_envs: int, shards: int | str, arguments: dict[str, Any]) -> Env:
    """The environment of one task, in as many processes as asked for."""
    if arguments["randomize_curriculum"]:
        if arguments["randomize"] == "none":
            raise RookeryError(
                "the curriculum of randomization widens what is drawn, and nothing is: give randomize, such as default."
            )
        if shards not in (1, "1", "auto"):
            raise RookeryError("the curriculum of randomization follows all worlds together: leave out shards.")
        shards = 1
    threads = None
    if shards == "auto":
        shards, threads = auto_way(entry, num_envs, arguments)
    elif isinstance(shards, str):
        shards = int(shards) if shards.isdecimal() else 0
    if shards == 1:
        if threads is not None:
            limit_kernel_threads(threads)
        return make_shard(num_envs=num_envs, threads=threads, **arguments)
    check_num_envs(num_envs)
    check_shards(num_envs, shards)
    if entry.wrapper:
        raise RookeryError(f"{entry.id} has a frozen policy, with which worlds cannot be divided: leave out shards.")
    return ShardedEnv(make_shard, arguments, num_envs, shards)


def auto_way(entry: TaskEntry, num_envs: int, arguments: dict[str, Any]) -> tuple[int, int | None]:
    """Processes that make an environment fastest, and threads of a single one; None for all processors.

    `rookery bench scale` measures that for a task on this machine. Without a measurement the model's default constants say it,
    and a line on standard error.

    Args:
        entry: of the task.
        num_envs: worlds.
        arguments: of `make_shard`.
    """
    if not isinstance(num_envs, int) or num_envs < 1:
        return 1, None  # refused where the worlds are made
    divisible = is_divisible(entry, arguments["engine"], arguments["config"])
    measured = remembered_task(entry.id, arguments["engine"])
    if measured is not None:
        way, _ = measured.choice(num_envs, divisible)
        return way.shards, way.threads if way.shards == 1 else None
    if not divisible:
        return 1, None
    way, _ = MeasuredTask(usable_cores(), (), DEFAULT_COST).choice(num_envs, divisible)
    if way.shards > 1:
        sentence = (
            f"{way} on {usable_cores()} processors, by the default model: `rookery bench scale {entry.id}` measures."
        )
        print(f"rookery: {sentence}", file=sys.stderr)
    return way.shards, None


def is_divisible(entry: TaskEntry, engine: str, config: dict[str, Any]) -> bool:
    """True where the worlds of a task can be divided among processes.

    Raises:
        RookeryError: the config has values that the task lacks.
    """
    if entry.members or entry.wrapper or not find_engine(engine).shardable:
        return False
    return bool(entry.load()(from_dict(entry.load().Config, config)).shardable)


def check_division(num_envs: int, workers: int, option: str = "--workers") -> None:
    """Refuse worlds that cannot be divided evenly among so many workers; `option` divides them, for the message."""
    check_num_envs(num_envs)
    if num_envs % workers or num_envs < 2 * workers:
        near = max(2, round(num_envs / workers)) * workers
        raise RookeryError(
            f"{num_envs} worlds cannot be divided evenly among {workers} workers that step at least 2 each: give "
            f"--num-envs {near}, or another number of {option}."
        )


def make_part(
    task: str,
    num_envs: int,
    worker: WorkerPart,
    *,
    engine: str | None = None,
    seed: int = 0,
    randomize: str | Path = "none",
    fixed: dict[str, float] | None = None,
    config: dict[str, Any] | None = None,
    weights: dict[str, float] | None = None,
    option: str = "--workers",
) -> tuple[Env, ShardStates]:
    """The worlds of one worker of several that train together, and what takes apart and joins states of all of them.

    Args:
        task: registered name of a task that is no set and has no frozen policy.
        num_envs: worlds of all workers together.
        worker: which of how many.
        engine, seed, randomize, fixed, config, weights: as of `make`.
        option: of the command line that divides them, for messages.

    Raises:
        RookeryError: worlds that cannot be divided so.
    """
    check_division(num_envs, worker.size, option)
    randomize = _check_arguments(randomize, fixed, config, weights)
    entry = find(task)
    if entry.members or entry.wrapper:
        what = "is a set of tasks" if entry.members else "has a frozen policy"
        raise RookeryError(f"{entry.id} {what}, whose worlds stay in one process: leave out {option}.")
    engine = entry.engines[0] if engine is None else entry.check(engine)
    arguments: dict[str, Any] = {"task": task, "engine": engine, "seed": check_seed(seed)}
    arguments |= {"randomize": randomize, "fixed": fixed, "config": dict(config or {}), "threads": 0}
    one = make_shard(num_envs=1, first=0, total=1, **arguments)
    one.reset()  # parameters that are drawn have their place in a state from then on
    shapes = {name: x.shape for name, x in one.state_dict().items()}
    shardable = one.task.shardable
    one.close()
    if not shardable:
        raise RookeryError(f"the worlds of {entry.id} with this config cannot be divided: leave out {option}.")
    slices = divided(num_envs, worker.size)
    own = slices[worker.rank]
    env: Env = make_shard(num_envs=own.stop - own.start, first=own.start, total=num_envs, **arguments)
    return env if weights is None else LinearScalarization(env, weights), ShardStates(shapes, slices)


def make_shard(
    task: str, num_envs: int, engine: str, seed: int, randomize: str, fixed: dict[str, float] | None,
    config: dict[str, Any], randomize_curriculum: bool = False, first: int = 0, total: int | None = None, starts: int = 0,
    threads: int | None = None,
) -> VecEnv:  # fmt: skip
    """The worlds `first` to `first + num_envs` of a task with `total` worlds; see `make` for the other arguments.

    Args:
        threads: of the engine; 0 takes one for each processor of this process, None the same for all worlds and 1 for a part.
    """
    entry = find(task)
    built = entry.load()(from_dict(entry.load().Config, config))
    if threads is None:
        threads = 0 if total is None else 1
    world = make_world(engine, built.scene(), num_envs, threads=threads)
    replay = _read_log(task, randomize, num_envs if total is None else total, seed)
    chosen = randomization.load(randomize) if replay is None else randomization.Chosen("none", replay.ranges())
    ranges = chosen.over(built.default_randomization)
    optional = ranges.keys() - chosen.ranges.keys() - (fixed or {}).keys()
    held = {name: Held(value, value) for name, value in (fixed or {}).items()}
    ranges = {name: r for name, r in ranges.items() if name not in held} | held
    env = VecEnv(
        built, world, seed=seed, ranges=ranges, optional=optional, typical=chosen.preset == "all", task_id=task, first=first,
        total=total, starts=starts,
    )  # fmt: skip
    if replay is not None:
        env.randomization.replay(replay, first)
    if randomize_curriculum:
        env.randomization.curriculum.begin()
    return env


def _read_log(task: str, randomize: str, num_envs: int, seed: int) -> DrawLog | None:
    """The log of draws that `randomize` names, None where it names something else.

    Raises:
        RookeryError: a log of another task, number of worlds or seed, which would play other episodes.
    """
    if Path(randomize).suffix not in SUFFIXES:
        return None
    log = DrawLog.read(Path(randomize))
    if (log.task, log.num_envs, log.seed) != (task, num_envs, seed):
        raise RookeryError(
            f"{randomize} holds draws of {log.task} with num_envs {log.num_envs} and seed {log.seed}: make that, not {task} "
            f"with num_envs {num_envs} and seed {seed}."
        )
    return log


def _check_arguments(randomize: Any, fixed: Any, config: Any, weights: Any) -> str:
    """Refuse values of a wrong type, and defaults of torch that a task's file may have changed: both would fail deep inside.

    Returns:
        `randomize` as text.

    Raises:
        RookeryError: naming the argument, or the default.
    """
    check_default_dtype()
    check_default_device()
    if not isinstance(randomize, (str, Path)):
        raise RookeryError(
            f'randomize must be "none", "default", "all" or the path of a TOML file of ranges, got {randomize!r}: hold values '
            "by fixed, or write the ranges into such a file."
        )
    if config is not None and not isinstance(config, dict):
        raise RookeryError(f'config must be a dict such as {{"episode_s": 5.0}}, got {config!r}.')
    for argument, values in (("fixed", fixed), ("weights", weights)):
        if values is not None and not isinstance(values, dict):
            raise RookeryError(f'{argument} must be a dict of numbers such as {{"mass": 1.2}}, got {values!r}.')
        for name, value in (values or {}).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise RookeryError(f"{argument}[{name!r}] must be a finite number, got {value!r}.")
    return str(randomize)


def _wrap(wrapper: Wrapper, env: Env, frozen: str) -> Env:
    """The environment of a task with a wrapper."""
    module, name = wrapper.make.split(":")
    make_from = getattr(importlib.import_module(module), name)
    policies = groups = None
    if frozen != "controller":
        policies, contract = open_run(Path(frozen))
        groups = {g: c.spec for g, c in contract.groups.items()}
    try:
        wrapped: Env = make_from(env, policies, groups, **wrapper.options)
    except RookeryError:
        env.close()
        raise
    return wrapped


def _make_set(entry: TaskEntry, num_envs: int, seed: int, config: dict[str, Any], **options: Any) -> ConcatEnv:
    """The environment of a set: each member is made as it would be alone, from `part_seed` of its name."""
    members = members_of(entry, config)
    if isinstance(num_envs, int) and num_envs < len(members):
        raise RookeryError(
            f"{entry.id} has {len(members)} tasks and needs a world for each, got num_envs {num_envs}: give at least "
            f"{len(members)}, or fewer tasks with the config value {TASKS_OF_SET}, such as {TASKS_OF_SET}={members[0]}."
        )
    values = by_member(entry, config)
    parts: list[tuple[str, VecEnv]] = []
    for i, name in enumerate(members):
        share = num_envs // len(members) + (i < num_envs % len(members)) if isinstance(num_envs, int) else num_envs
        try:
            env = make(entry.task_of(name), share, seed=part_seed(seed, name), config=values[name], **options)
            if not isinstance(env, VecEnv):
                env.close()
                raise RookeryError("it changes another task, and a set takes only tasks as they are.")
            parts.append((name, env))
        except RookeryError as e:
            for _, made in parts:
                made.close()
            raise RookeryError(f"{name} of {entry.id}: {e}") from e
    return ConcatEnv(parts, entry.load_set().one_hot, names=entry.members, task_id=entry.id)


def members_of(entry: TaskEntry, config: dict[str, Any]) -> tuple[str, ...]:
    """The tasks of a set that a config asks for, in the set's order.

    Raises:
        RookeryError: none, or a name that the set lacks.
    """
    wanted = config.get(TASKS_OF_SET, entry.members)
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    for name in wanted:
        if name not in entry.members:
            raise unknown(f"task of {entry.id}", str(name), entry.members)
    if not wanted:
        raise RookeryError(f"the config value {TASKS_OF_SET} of {entry.id} names no task: leave it out for all.")
    return tuple(name for name in entry.members if name in wanted)


def by_member(entry: TaskEntry, config: dict[str, Any], fixed: bool = True) -> dict[str, Any]:
    """A set's config with all values under the name of the member that they are for: a member's own go before those for
    all, and these before the set's, which are left out where `fixed` is False.

    Raises:
        RookeryError: a member has something else than values by name.
    """
    for name in entry.members:
        if not isinstance(config.get(name, {}), dict):
            raise RookeryError(
                f"{name} is a task of {entry.id}: give values of its config, such as {name}.episode_s=5."
            )
    common = {k: v for k, v in config.items() if k not in entry.members and k != TASKS_OF_SET}
    task_set = entry.load_set()
    out: dict[str, Any] = {}
    for name in entry.members:
        own = merge(dict(task_set.config), dict(task_set.variants.get(name, {}))) if fixed else {}
        out[name] = merge(merge(own, common), config.get(name, {}))
    return out | {k: v for k, v in config.items() if k == TASKS_OF_SET}


def of_length(task: str, steps: int, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """A config with a time limit in control steps.

    Args:
        task: registered name; of a set, the limit is that of every member.
        steps: at least 1.
        config: other values.

    Raises:
        RookeryError: no whole number of at least 1, or `config` has a time limit too.
    """
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise RookeryError(f"max_episode_steps must be a whole number of at least 1, got {steps!r}.")
    _check_arguments("none", None, config, None)
    entry = find(task)
    own = dict(config or {})
    values = by_member(entry, own, fixed=False) if entry.members else {"": own}
    if any("episode_s" in v for name, v in values.items() if name != TASKS_OF_SET):
        raise RookeryError("max_episode_steps and the config value episode_s are two time limits: give one of them.")
    if not entry.members:
        return own | {"episode_s": int(steps) * _control_period(entry, own)}
    for name in entry.members:
        member = find(entry.task_of(name))
        period = _control_period(member, by_member(entry, own)[name])
        own[name] = own.get(name, {}) | {"episode_s": int(steps) * period}
    return own


def _control_period(entry: TaskEntry, config: dict[str, Any]) -> float:
    """s, of one task."""
    values = {k: v for k, v in config.items() if not entry.wrapper or k != FROZEN}
    return float(from_dict(entry.load().Config, values).control_dt)


def changes_of(task: str, config: dict[str, Any]) -> dict[str, Any]:
    """Changes to a config in the form of `full_config`, so that they can be merged into it."""
    entry = find(task)
    return by_member(entry, config, fixed=False) if entry.members else config


def full_config(task: str, config: dict[str, Any]) -> dict[str, Any]:
    """The whole config of a task with `config` in place of its defaults, as JSON values; of a set, by member.

    Raises:
        RookeryError: a name or value that the config does not take.
    """
    entry = find(task)
    if not entry.members:
        frozen = {FROZEN: str(config.get(FROZEN, entry.wrapper.frozen))} if entry.wrapper else {}
        own = {k: v for k, v in config.items() if not frozen or k != FROZEN}
        return plain(from_dict(entry.load().Config, own)) | frozen
    values = by_member(entry, config)
    return values | {name: full_config(entry.task_of(name), values[name]) for name in entry.members}
