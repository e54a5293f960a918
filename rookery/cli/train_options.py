"""The options of `rookery train`: one for each field of RunSettings and of the algorithm's own config.

They are made from the settings dataclasses, with the string below each field as the help and with the values of the task's
preset as the defaults. So words are read twice: first for TASK, --algorithm and --config, then for everything.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import docstring_parser
import tyro

from rookery.cli.options import (
    Action,
    Json,
    Obs,
    Words,
    numbers,
    option_names,
    parse,
    task_config,
    typed_options,
    values,
    wants_help,
)
from rookery.cli.viewing import ViewerOptions
from rookery.experiments.settings import RunSettings, read_settings
from rookery.policies.algorithms import ALGORITHMS, VARIANTS, base_algorithm
from rookery.policies.training.settings import MOST_STEPS, RunnerConfig
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError
from rookery.sim.values import from_values

RENAMED = {"total_steps": "steps", "fixed": "set", "trackers": "tracker"}
"""Options that are not called like their field."""
REPEATED = {"trackers"}
"""Settings of several values whose option stands once for each."""


@dataclass(frozen=True)
class TrainCommand:
    """Options of `rookery train` beside the settings of the run."""

    task: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="TASK", help="Task, see `rookery list`; not needed with --resume or --config."),
    ] = None
    config: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help="Settings in TOML, such as settings.toml of a run; options override them."),
    ] = None
    algorithm: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help=f"Learning algorithm: {', '.join([*ALGORITHMS, *VARIANTS])}.")
    ] = None
    resume: Annotated[
        Path | None,
        tyro.conf.arg(metavar="RUN", help="Continue this run from its newest checkpoint, as if it had not stopped."),
    ] = None
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Run folder; runs/TASK/<time> if left out, linked as `latest`.")
    ] = None
    workers: Annotated[
        int | None,
        tyro.conf.arg(
            metavar="N",
            help="Processes that divide the worlds and learn together, placed by Ray, with the same results as one.",
        ),
    ] = None
    staleness: Annotated[
        int,
        tyro.conf.arg(
            metavar="UPDATES",
            help="Of workers with sac or td3: by how many updates the weights that act may be older than those that learn. "
            "With 0 all wait for the learner; with 1 the first worker learns while the others step the worlds.",
        ),
    ] = 0
    worker_cpus: Annotated[
        float, tyro.conf.arg(metavar="CPUS", help="Processors of each worker; below 1 several share one.")
    ] = 1.0
    ray: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ADDRESS",
            help="Cluster of the workers: local for this machine alone, which is the default, auto for one that runs here, or "
            "HOST:PORT of its head.",
        ),
    ] = None
    json: Json = False
    live: ViewerOptions = field(default_factory=ViewerOptions)


@dataclass(frozen=True)
class Parsed:
    """The words of the command line, read.

    Args:
        command: the options beside the settings.
        settings: complete, of a new run; of a resumed one without a task.
        changes: with --resume, the given values of RunnerConfig.
        device, shards: with --resume, where it learns and steps its worlds from now on; None for where it has.
    """

    command: TrainCommand
    settings: RunSettings
    changes: dict[str, Any]
    device: str | None = None
    shards: str | None = None


def read(words: Sequence[str], examples: str) -> Parsed | None:
    """The words after ``rookery train``; None when help was printed.

    Raises:
        RookeryError: an unknown option or name, a value of the wrong type, no task, or no demonstrations for what is made for
            them.
    """
    words = _whole_steps(words)
    resume = _value_of(words, "--resume")
    if resume is not None and not wants_help(words):
        return _read_resume(words, examples)
    algorithm = _value_of(words, "--algorithm")
    file = _value_of(words, "--config")
    stored = read_settings(Path(file)) if file is not None else {}
    algorithm = algorithm or stored.get("algorithm")
    base = _base(words, examples, algorithm, stored)
    parser = _parser(base)
    args = parse(parser, words, "train", examples, flag_pairs=True)
    if args is None:
        return None
    if not base.task:
        raise RookeryError("`rookery train` needs TASK, --config FILE or --resume RUN: see `rookery train --help`.")
    settings = _settings(args, base)
    if algorithm in VARIANTS and VARIANTS[algorithm].without and settings.data is None:
        raise RookeryError(
            f"--algorithm {algorithm} learns from demonstrations: give them by --data DIR; the same without them is "
            f"{VARIANTS[algorithm].without}."
        )
    return Parsed(args, settings, {})


def train_option_names(algorithm: str = "ppo") -> list[str]:
    """All options of `rookery train` with this algorithm, as they are typed."""
    return option_names(_parser(RunSettings(algorithm=algorithm)), flag_pairs=True)


def _refuse_others(words: Sequence[str], algorithm: str) -> None:
    """Say of an option that an algorithm lacks which others have it."""
    own = {*train_option_names(algorithm), "--help"}
    for name in typed_options(words):
        having = [] if name in own else [a for a in ALGORITHMS if name in train_option_names(a)]
        if having:
            raise RookeryError(f"{algorithm} has no option {name}: it is one of {', '.join(having)}.")


def _base(words: Sequence[str], examples: str, algorithm: str | None, stored: dict[str, Any]) -> RunSettings:
    """The settings that the options change: of the task's preset, then of the settings file."""
    from rookery.experiments.recipes import preset, varied

    plain = [w for w in words if w not in ("-h", "--help")]
    fallback = varied(RunSettings(algorithm=base_algorithm(algorithm or "ppo")), algorithm)
    try:
        task = cast(Any, parse(_parser(fallback), plain, "train", examples, flag_pairs=True)).task
    except RookeryError:
        _refuse_others(words, fallback.algorithm)
        if not wants_help(words):
            raise
        task = None
    of_file = stored.get("task") or None
    if task is not None and of_file is not None and task != of_file:
        raise RookeryError(f"the settings file is of {of_file!r}, not of {task!r}: leave TASK out.")
    task = task or of_file
    base = fallback if task is None else preset(str(task), algorithm)
    if not stored:
        return base
    return varied(RunSettings.from_values(stored | {"algorithm": base.algorithm}, base), algorithm)


def _settings(args: Any, base: RunSettings) -> RunSettings:
    """The base with the given options."""
    environment = args.environment
    nested = task_config(environment.task_config, environment.action, environment.obs)
    given = {name: getattr(environment, name) for name in _ENVIRONMENT}
    inputs = {f.name: getattr(args.inputs, f.name) for f in dataclasses.fields(args.inputs)}
    return dataclasses.replace(
        base,
        **given,
        **inputs,
        fixed=base.fixed | numbers(environment.set, "--set"),
        task_config=merge(base.task_config, nested),
        train_overrides=merge(base.train_overrides, values(environment.train_overrides, "--train-overrides")),
        weights=base.weights | numbers(environment.weights, "--weights"),
        runner=_rebuilt(args.runner, RunnerConfig, base.runner),
        algorithm_config=_rebuilt(getattr(args, base.algorithm), type(base.algorithm_config)),
    )


def _rebuilt(options: Any, cls: type, base: Any = None) -> Any:
    """The options of a group as the settings dataclass that they were made from, with its checks; where a repeatable one is
    not given, the base's."""
    names = {RENAMED.get(f.name, f.name): f.name for f in dataclasses.fields(cls)}
    found = {names[f.name]: getattr(options, f.name) for f in dataclasses.fields(options)}
    found |= {name: getattr(base, name) for name in REPEATED & found.keys() if not found[name] and base is not None}
    return from_values(cls, found, "option")


def _parser(base: RunSettings) -> type:
    """The dataclass of all options, with the base's values as defaults."""
    docs = field_docs(RunSettings)
    plain = {name: (get_type_hints(RunSettings)[name], getattr(base, name)) for name in _ENVIRONMENT}
    environment = [_option(name, hint, docs[name], value) for name, (hint, value) in plain.items()]
    environment += [("action", Action, None), ("obs", Obs, None)]
    environment += [_words(name, docs[name], getattr(base, name)) for name in _DICTS]
    inputs = [
        _option(name, str | None, docs[name], getattr(base, name))
        for name in ("skills", "init", "teacher", "data", "opponents")
    ]
    groups = {
        "environment": _group("Environment", environment),
        "inputs": _group("Inputs", inputs),
        "runner": _group_of("Runner", base.runner),
        base.algorithm: _group_of(base.algorithm, base.algorithm_config),
    }
    fields: list[Any] = [(name, group, field(default_factory=group)) for name, group in groups.items()]
    parser = dataclasses.make_dataclass("TrainArgs", fields, bases=(TrainCommand,), frozen=True)
    parser.__doc__ = _DESCRIPTION
    return parser


_ENVIRONMENT = ("num_envs", "seed", "engine", "device", "randomize", "randomize_curriculum", "shards")
_DICTS = ("fixed", "task_config", "train_overrides", "weights")
_DESCRIPTION = """Learn a policy for a task, with live progress; Ctrl-C saves and says how to resume.

The run folder gets the current policy with its contract, checkpoints, settings.toml, progress.csv and TensorBoard's files.
Defaults are those of the task's preset: `rookery train TASK --help` shows them."""


def _group_of(title: str, config: Any) -> type:
    """Options for every field of a config, with its values as defaults."""
    docs = field_docs(type(config))  # type: ignore[arg-type]  # a class of Any is hashable, too
    hints = get_type_hints(type(config))
    options = [_option(f.name, hints[f.name], docs.get(f.name, ""), getattr(config, f.name)) for f in
               dataclasses.fields(config)]  # fmt: skip
    return _group(title, options, (type(config).__doc__ or "").splitlines()[0])


def _group(title: str, options: list[Any], summary: str = "") -> type:
    group = dataclasses.make_dataclass(title, options, frozen=True)
    group.__doc__ = summary or f"{title}."
    return group


@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line; base classes included.

    tyro reads these strings itself, but ends a line of the help wherever one of the source ends.
    """
    fields = [p for base in reversed(cls.__mro__[:-1]) for p in docstring_parser.parse_from_object(base).params]
    own = {f.name for f in dataclasses.fields(cls)}
    return {p.arg_name: " ".join((p.description or "").split()) for p in fields if p.arg_name in own}


def _option(name: str, hint: Any, doc: str, default: Any) -> Any:
    option = RENAMED.get(name, name)
    if name in REPEATED:
        shown = f" Default: {' '.join(default) or 'none'}."
        annotated = Annotated[Words, tyro.conf.arg(metavar="NAME", help=_escaped(doc + shown))]
        return (option, annotated, ())
    return (option, Annotated[hint, tyro.conf.arg(help=_escaped(doc))], default)


def _words(name: str, doc: str, preset: dict[str, Any]) -> Any:
    """An option for values by name, in addition to those of the preset."""
    shown = f" Preset: {' '.join(_flat(preset))}." if preset else ""
    annotated = Annotated[
        Words, tyro.conf.arg(metavar="NAME=VALUE", help=_escaped(f"{doc} Several, or repeated.{shown}"))
    ]
    return (RENAMED.get(name, name), annotated, ())


def _flat(nested: dict[str, Any], prefix: str = "") -> list[str]:
    """Nested values as name=value words."""
    out = []
    for name, value in nested.items():
        if isinstance(value, dict):
            out += _flat(value, f"{prefix}{name}.")
        else:
            out.append(f"{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}")
    return out


def _escaped(doc: str) -> str:
    return doc.replace("%", "%%")


def _read_resume(words: Sequence[str], examples: str) -> Parsed | None:
    """A resumed run keeps its settings but for when it stops and what it keeps."""
    runner = {RENAMED.get(f.name, f.name): f.name for f in dataclasses.fields(RunnerConfig)}
    changeable = {f"--{option.replace('_', '-')}": name for option, name in runner.items()}
    where = [_option(name, str | None, field_docs(RunSettings)[name], None) for name in ("device", "shards")]
    parser = dataclasses.make_dataclass(
        "ResumeArgs",
        [
            ("runner", group := _group_of("Runner", RunnerConfig()), field(default_factory=group)),
            ("environment", own := _group("Environment", where), field(default_factory=own)),
        ],
        bases=(TrainCommand,),
        frozen=True,
    )
    given = set(typed_options(words))
    # who trains, and where, is no setting of the run
    workers = {"--workers", "--worker-cpus", "--staleness", "--ray", "--device", "--shards"}
    known = {"--resume", "--json", "--no-viewer", *workers, *option_names(ViewerOptions), *changeable}
    for option in sorted(given - known):
        if option in train_option_names():
            raise RookeryError(f"--resume keeps the run's own settings: leave out {option}, or start a new run.")
    args = cast(Any, parse(parser, words, "train", examples, flag_pairs=True))
    config = _rebuilt(args.runner, RunnerConfig)
    changes = {name: getattr(config, name) for option, name in changeable.items() if option in given}
    return Parsed(args, RunSettings(), changes, args.environment.device, args.environment.shards)


def _value_of(words: Sequence[str], option: str) -> str | None:
    """The value of an option that takes one, wherever it stands."""
    for i, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and i + 1 < len(words):
            return words[i + 1]
    return None


def _whole_steps(words: Sequence[str]) -> list[str]:
    """The words with --steps 5e6 as --steps 5000000."""
    out = list(words)
    text = _value_of(words, "--steps")
    if text is None:
        return out
    try:
        number = float(text)
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise RookeryError(f"--steps needs a whole number such as 5e6, got {text!r}.") from None
    if not 0 < number <= MOST_STEPS:
        raise RookeryError(f"--steps must be above 0 and at most {MOST_STEPS:g}, got {number:g}.")
    at = next(i for i, word in enumerate(out) if word == "--steps" or word.startswith("--steps="))
    out[at : at + (2 if out[at] == "--steps" else 1)] = [f"--steps={int(number)}"]
    return out
