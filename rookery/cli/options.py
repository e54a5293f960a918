"""From words to a subcommand's dataclass, with errors in one sentence; and the values that several commands share."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from rookery.assets.near_names import nearest
from rookery.sim.errors import RookeryError

T = TypeVar("T")

# What several commands take. Each command chooses its own default.
Task = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="Task, see `rookery list`.")]
Run = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(metavar="RUN", help="Run folder of `rookery train`, or a zoo policy's name (`rookery list`)."),
]
Engine = Annotated[
    str | None,
    tyro.conf.arg(metavar="NAME", help="Physics engine: rotor, mujoco or pybullet; the task's first by default."),
]
NumEnvs = Annotated[int, tyro.conf.arg(metavar="N", help="Worlds stepped together.")]
Seed = Annotated[int, tyro.conf.arg(metavar="N", help="Seed of all random streams.")]
Randomize = Annotated[
    str, tyro.conf.arg(metavar="RANGES", help="Domain randomization: none, default, all, or a TOML file of ranges.")
]
Shards = Annotated[
    str,
    tyro.conf.arg(
        metavar="N",
        help="Processes among which the worlds are divided, with the same results; auto: what is fastest here.",
    ),
]
Words = tyro.conf.UseAppendAction[tuple[str, ...]]
TaskConfig = Annotated[
    Words,
    tyro.conf.arg(
        metavar="NAME=VALUE", help="Value of the task's config in place of its default; several, or repeated."
    ),
]
Fixed = Annotated[
    Words,
    tyro.conf.arg(
        metavar="NAME=VALUE",
        help="Physical parameter held at one value, mass=1.2, motor_strength:FL_*=0.8; several, or repeated.",
    ),
]
OtherTask = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="TASK",
        help="Another task than the policy's own, with the same observations and actions, such as ML10-test.",
    ),
]
Action = Annotated[str | None, tyro.conf.arg(metavar="KIND", help="Action kind in place of the task's own.")]
Obs = Annotated[
    str | None,
    tyro.conf.arg(metavar="KIND", help="Observation: state, or images of an onboard camera: depth, rgb, segmentation."),
]
Controller = Annotated[
    str,
    tyro.conf.arg(metavar="NAME", help="policy, or classical for the task's classical controller (RUN may be a task)."),
]
Json = tyro.conf.FlagCreatePairsOff[
    Annotated[bool, tyro.conf.arg(help="Print one JSON value on standard output, for programs.")]
]


def parse(cls: type[T], words: Sequence[str], command: str, examples: str, flag_pairs: bool = False) -> T | None:
    """The words after ``rookery COMMAND`` as an instance of `cls`; None when help was printed.

    Args:
        cls: dataclass of the options; the options of dataclasses inside it need no prefix.
        words: to read.
        command: name for messages.
        examples: shown below the help.
        flag_pairs: give every bool an option --x and an option --no-x; otherwise only the one that changes its default.

    Raises:
        RookeryError: an unknown option (nearest match offered), a missing or unreadable value.
    """
    words = _spread(cls, words)
    kwargs: dict[str, Any] = {
        "prog": f"rookery {command}",
        "args": list(words),
        "config": (
            tyro.conf.HelptextFromCommentsOff,
            tyro.conf.OmitArgPrefixes,
            *(() if flag_pairs else (tyro.conf.FlagCreatePairsOff,)),
        ),
    }
    if wants_help(words):
        try:
            tyro.cli(cls, **kwargs)
        except SystemExit:
            print("examples:\n" + examples.strip("\n") + "\n")
        return None
    _refuse_unknown(option_names(cls, flag_pairs), words, command)
    _refuse_repeated(cls, words)
    try:
        with _errors_as_sentences(cls, command):
            return tyro.cli(cls, **kwargs)
    except SystemExit as stop:
        # Without the hook of this tyro version: its own box was printed already.
        raise RookeryError(f"see `rookery {command} --help` for what it takes.") from stop


def wants_help(words: Sequence[str]) -> bool:
    """True where the help is asked for."""
    return any(w in ("-h", "--help") for w in words)


def option_names(cls: type, flag_pairs: bool = False) -> list[str]:
    """The options of an Args class, and of dataclasses inside it, as they are typed."""
    names = []
    for name, hint, marks in _options(cls):
        single = tyro.conf.FlagCreatePairsOff in marks
        pair = flag_pairs and not single and (typing.get_args(hint) or (hint,))[0] is bool
        names += [f"--{name}", f"--no-{name}"] if pair else [f"--{name}"]
    return names


def _options(cls: type) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Name without dashes, type hint and its annotations of every option."""
    positional = typing.get_args(tyro.conf.Positional[int])[1]
    kind: Any = type(tyro.conf.arg())
    hints = typing.get_type_hints(cls, include_extras=True)
    for f in dataclasses.fields(cls):
        hint = hints[f.name]
        annotations = getattr(hint, "__metadata__", ())
        if dataclasses.is_dataclass(hint):
            yield from _options(typing.cast(type, hint))
        elif positional not in annotations:
            given = [a.name for a in annotations if isinstance(a, kind) and a.name]
            yield (given or [f.name])[0].replace("_", "-"), hint, annotations


def typed_options(words: Sequence[str]) -> list[str]:
    """The options among the words, with the dashes that are their own, without values."""
    return [_option(word) for word in words if word.startswith("--")]


def _option(word: str) -> str:
    return word.split("=")[0].replace("_", "-")


MANY = 25
"""More options than this are not listed in a message."""


def _refuse_unknown(known: Sequence[str], words: Sequence[str], command: str) -> None:
    listed = f"Known: {', '.join(known)}." if len(known) <= MANY else f"See `rookery {command} --help`."
    for word in words:
        name = _option(word)
        if word.startswith("--") and name not in known:
            near = nearest(name, known)
            hint = f": did you mean {near}?" if near else "."
            raise RookeryError(f"unknown option {word.split('=')[0]}{hint} {listed}")


def _refuse_repeated(cls: type, words: Sequence[str]) -> None:
    """Options of several values stand once: of two, tyro would take the last and say nothing."""
    typed = typed_options(words)
    for name, hint, marks in _options(cls):
        if tuple in _origins(hint) and tyro.conf.UseAppendAction not in marks and typed.count(f"--{name}") > 1:
            raise RookeryError(f"--{name} is given twice: write all its values behind one, --{name} a b.")


def _spread(cls: type, words: Sequence[str]) -> list[str]:
    """``--set a=1 b=2`` as ``--set a=1 --set b=2``: an option of values by name takes several, as other lists do."""
    named = {
        f"--{name}"
        for name, _, marks in _options(cls)
        if any("=" in (getattr(m, "metavar", None) or "") for m in marks)
    }
    out: list[str] = []
    option, full = "", False
    for word in words:
        if word.startswith("--"):
            option, full = (_option(word) if _option(word) in named else ""), "=" in word
        elif option and _NAMED.match(word):
            out += [option] if full else []
            full = True
        else:
            option = ""
        out.append(word)
    return out


_NAMED = re.compile(r"[A-Za-z_][^\s=/]*=")
"""Beginning of name=value, which no path is."""


def _origins(hint: Any) -> set[Any]:
    """Parts of a type hint at any depth: Annotated[tuple[int, ...] | None, ...] has a tuple."""
    return {typing.get_origin(hint)}.union(*map(_origins, typing.get_args(hint)))


def _errors_as_sentences(cls: type, command: str) -> Any:
    """tyro tells what it is about to refuse through a hook that is still private there; without it, it draws a box."""
    import contextlib

    try:
        from tyro import _errors
    except ImportError:
        return contextlib.nullcontext()
    see = f"see `rookery {command} --help`."

    def shown(argument: Any) -> str:
        if argument.is_positional():
            return str(argument.lowered.metavar)
        return "/".join(argument.lowered.name_or_flags)

    def refuse(event: Any) -> None:
        if isinstance(event, _errors.MissingArgs):
            names = ", ".join(shown(a.arg) for a in event.missing_arguments)
            raise RookeryError(f"`rookery {command}` needs {names}: {see}")
        if isinstance(event, _errors.BadValue):
            raise RookeryError(f"{shown(event.argument)} needs a value: {see}")
        if isinstance(event, _errors.InvalidChoice):
            from rookery.sim.errors import unknown

            raise unknown(shown(event.argument), event.value, event.choices)
        if isinstance(event, _errors.UnrecognizedArgs):
            raise RookeryError(f"`rookery {command}` cannot use {event.tokens[0]!r}: {see}")
        if isinstance(event, _errors.InstantiationFailure):
            name = shown(event.argument) if event.argument is not None else f"`rookery {command}`"
            raise RookeryError(f"{name} {_wanted(str(event.message))}: {see}")

    return _errors.on_parse_error(refuse)


def _wanted(message: str) -> str:
    """The kind of value that was wanted, from Python's own words for a failed conversion."""
    for sign, wanted in (("for int()", "needs a whole number"), ("to float", "needs a number")):
        if sign in message:
            given = message.split(sign)[-1].split(":")[-1].strip().splitlines()[0]
            return f"{wanted}, got {given}"
    return f"cannot take this value ({' '.join(message.split()).rstrip('.')})"


def numbers(words: Sequence[str], option: str) -> dict[str, float]:
    """``("mass=1.2", ...)`` as ``{"mass": 1.2, ...}``.

    Raises:
        RookeryError: a word that is not name=number.
    """
    out = {}
    for name, value in _split(words, option):
        try:
            out[name] = float(value)
        except ValueError:
            raise RookeryError(f"{option} {name} needs a number, got {value!r}: write {option} {name}=1.2.") from None
    return out


def values(words: Sequence[str], option: str) -> dict[str, Any]:
    """``("num_drones=3", "reward.ang_vel=-0.1")`` as nested values: what is JSON as such, everything else as text.

    Raises:
        RookeryError: a word that is not name=value.
    """
    out: dict[str, Any] = {}
    for name, text in _split(words, option):
        *parents, last = name.split(".")
        at = out
        for parent in parents:
            at = at.setdefault(parent, {})
            if not isinstance(at, dict):
                raise RookeryError(f"{option} {name} takes a value inside {parent}, which was given as {at!r}.")
        try:
            at[last] = json.loads(text)
        except ValueError:
            at[last] = text
    return out


def task_config(words: Sequence[str], action: str | None, obs: str | None = None) -> dict[str, Any]:
    """``--task-config``, ``--action`` and ``--obs`` together, as `rookery.make` takes them."""
    return values(words, "--task-config") | ({"action": action} if action else {}) | ({"obs": obs} if obs else {})


def _split(words: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise RookeryError(f"{option} takes name=value, got {word!r}.")
        pairs.append((name, value))
    return pairs


def announce(run: Path, controller: str = "policy") -> None:
    """Print on standard error which run a command uses, links resolved, and how long it was trained."""
    from rookery.experiments.runs import describe_run

    if controller == "policy":
        print(f"rookery: using {describe_run(run)}", file=sys.stderr)


def note_first(lines: Sequence[str], json: bool) -> None:
    """Print what must be known before any result: on standard error where standard output is to be one JSON value, or where
    a refusal may still follow, which leaves standard output empty."""
    for line in lines:
        print(f"rookery: {line}", file=sys.stderr if json else sys.stdout, flush=True)


def positive(option: str, value: float) -> None:
    """Refuse what is not above zero."""
    if not value > 0:
        raise RookeryError(f"{option} must be above 0, got {value:g}.")


def print_json(value: Any) -> None:
    """The one JSON value of a command; a number that is not finite becomes null, as JSON has none."""

    def finite(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: finite(x) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return [finite(x) for x in v]
        return None if isinstance(v, float) and not math.isfinite(v) else v

    sys.stdout.write(json.dumps(finite(value), indent=2, allow_nan=False) + "\n")


def writable(path: Path, option: str) -> None:
    """Refuse early, before minutes of work, a file that could not be written at their end."""
    import os

    parent = next(p for p in (path.absolute().parents) if p.exists())
    if path.is_dir():
        raise RookeryError(f"{option} {path} is a folder: give a file name.")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise RookeryError(
            f"{option} {path} cannot be written, since {parent} is not a writable folder: choose another."
        )
