"""From words to a subcommand's dataclass, with errors in one sentence; and the values that several commands share."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from rookery.sim.errors import RookeryError

T = TypeVar("T")

# What several commands take. Each command chooses its own default.
Task = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="Task, see `rookery list`.")]
Run = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(metavar="RUN", help="Run folder of `rookery train`, or a folder of policies/zoo."),
]
Engine = Annotated[
    str | None,
    tyro.conf.arg(metavar="NAME", help="Engine of the physics: rotor, mujoco or pybullet; the task's own by default."),
]
NumEnvs = Annotated[int, tyro.conf.arg(metavar="N", help="Worlds stepped together.")]
Seed = Annotated[int, tyro.conf.arg(metavar="N", help="Seed of all random streams.")]
Randomize = Annotated[
    str, tyro.conf.arg(metavar="SPREAD", help="Spread of the physics: none, default or a TOML file of ranges.")
]
Config = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(metavar="NAME=VALUE", help="Value in place of one of the task's config; may be repeated."),
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
    tyro.conf.arg(
        metavar="KIND", help="What agents see: state, or pictures of an onboard camera: depth, rgb, segmentation."
    ),
]
Controller = Annotated[
    str, tyro.conf.arg(metavar="NAME", help="policy, or pid for the task's classical controller (RUN may be a task).")
]
Json = Annotated[bool, tyro.conf.arg(help="Print one JSON value on standard output, for programs.")]


def parse(cls: type[T], words: Sequence[str], command: str, examples: str) -> T | None:
    """The words after ``rookery COMMAND`` as an instance of `cls`; None when help was printed.

    Raises:
        RookeryError: an unknown option (nearest match offered), a missing or unreadable value.
    """
    kwargs: dict[str, Any] = {
        "prog": f"rookery {command}",
        "args": list(words),
        "config": (tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
    }
    if any(w in ("-h", "--help") for w in words):
        try:
            tyro.cli(cls, **kwargs)
        except SystemExit:
            print("examples:\n" + examples.strip("\n") + "\n")
        return None
    _refuse_unknown(cls, words, command)
    try:
        with _errors_as_sentences(cls, command):
            return tyro.cli(cls, **kwargs)
    except SystemExit as stop:
        # Without the hook of this tyro version: its own box was printed already.
        raise RookeryError(f"see `rookery {command} --help` for what it takes.") from stop


def option_names(cls: type) -> list[str]:
    """The options of an Args class as they are typed."""
    names = []
    positional = typing.get_args(tyro.conf.Positional[int])[1]
    for f in dataclasses.fields(cls):
        annotations = getattr(typing.get_type_hints(cls, include_extras=True)[f.name], "__metadata__", ())
        if positional not in annotations:
            names.append("--" + f.name.replace("_", "-"))
    return names


def _refuse_unknown(cls: type, words: Sequence[str], command: str) -> None:
    known = option_names(cls)
    for word in words:
        name = word.split("=")[0].replace("_", "-")
        if word.startswith("--") and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise RookeryError(f"unknown option {word.split('=')[0]}: {hint}Known: {', '.join(known)}.")


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
    """What a value should have been, from Python's own words for a failed conversion."""
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
        try:
            at[last] = json.loads(text)
        except ValueError:
            at[last] = text
    return out


def task_config(words: Sequence[str], action: str | None, obs: str | None = None) -> dict[str, Any]:
    """``--config``, ``--action`` and ``--obs`` together, as `rookery.make` takes them."""
    return values(words, "--config") | ({"action": action} if action else {}) | ({"obs": obs} if obs else {})


def _split(words: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise RookeryError(f"{option} takes name=value, got {word!r}.")
        pairs.append((name, value))
    return pairs


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
