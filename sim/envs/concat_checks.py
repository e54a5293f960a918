"""Checks of what a ConcatEnv is made from: the names of its parts, and that one policy can serve them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import ActionSpec, Term
from rookery.sim.terms import Expression

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv


def check_names(given: Sequence[str], names: Sequence[str] | None) -> None:
    """Refuse no names, the same name twice, and, where `names` lists all there are, others than those.

    Raises:
        RookeryError: as said.
    """
    if not given:
        raise RookeryError("an environment of several tasks needs at least one: give (name, environment) pairs.")
    for listed in (given, names or ()):
        twice = [n for i, n in enumerate(listed) if n in listed[:i]]
        if twice:
            raise RookeryError(f"the task {twice[0]!r} is named twice: each needs a name of its own.")
    for n in given if names is not None else ():
        if n not in (names or ()):
            raise unknown("task", n, names or ())


def check_alike(parts: dict[str, VecEnv]) -> None:
    """Refuse parts that one policy cannot serve.

    Raises:
        RookeryError: one differs from the first, by the first thing in which it does.
    """
    (name, first), *others = parts.items()
    wanted = _interface(first)
    for other, env in others:
        theirs = _interface(env)
        for what in [*wanted, *(k for k in theirs if k not in wanted)]:
            if wanted.get(what) != theirs.get(what):
                raise RookeryError(
                    f"{name!r} and {other!r} cannot share a policy: {what} is {_shown(wanted.get(what))} in {name!r} and "
                    f"{_shown(theirs.get(what))} in {other!r}; mix tasks that are alike in it."
                )


def _interface(env: VecEnv) -> dict[str, Any]:
    """Properties that have to be the same in all parts, the coarse things first."""
    out: dict[str, Any] = {
        "the list of groups": list(env.groups),
        "the control period (s)": env.control_dt,
        "the list of objectives": list(env.objectives),
    }
    for g, s in env.groups.items():
        out |= {
            f"the number of agents of group {g!r}": s.count,
            f"the observation size of group {g!r}": s.observation_size,
            f"the action size of group {g!r}": s.action.size,
            f"the history of group {g!r}": s.history,
        }
        out |= {f"observation term {i} of group {g!r}": _meaning(t) for i, t in enumerate(s.observation)}
        out |= {f"target {i} of group {g!r}": _meaning(t) for i, t in enumerate(s.targets)}
        out |= {
            f"the observation set {k!r} of group {g!r}": (v.history, [_meaning(t) for t in v.terms])
            for k, v in s.observation_sets.items()
        }
        out |= {f"the action of group {g!r}": _command(s.action), f"the future targets of group {g!r}": s.future}
    return out


def _meaning(term: Term) -> tuple[Any, ...]:
    """Properties on which a network's input depends; noise, bias and delay may differ."""
    return term.name, term.formula, term.expression, term.size, term.unit, term.frame, term.scale, term.clip


def _command(action: ActionSpec) -> tuple[Any, ...]:
    return action.kind, action.names, action.low, action.high, action.units, action.choices, action.masked


def _shown(value: Any) -> str:
    """For messages. Of a term, the expression stands there in words already."""
    if isinstance(value, (tuple, list)):
        shown = ", ".join(_shown(v) for v in value if not isinstance(v, Expression))
        return f"({shown})" if isinstance(value, tuple) else f"[{shown}]"
    return "missing" if value is None else repr(value)
