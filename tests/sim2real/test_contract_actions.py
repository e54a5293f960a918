"""The action of a contract: numbers, choices and masks, through JSON and line by line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim2real.build import describe_json
from rookery.sim2real.compatibility import check_groups
from rookery.sim2real.contract import Contract

NUMBERS = ("x",), (-1.0,), (1.0,), ("m",), (0.0,)
GEAR = Discrete("gear", ("a", "b", "c"), neutral=2)
ACTIONS = {
    "numbers": ActionSpec("push", *NUMBERS),
    "a choice": ActionSpec("push", choices=(GEAR,)),
    "both": ActionSpec("push", *NUMBERS, choices=(GEAR, Discrete("lamp", ("dark", "lit")))),
    "masked": ActionSpec("push", *NUMBERS, choices=(GEAR,), masked=True),
}


def with_action(action: ActionSpec) -> dict[str, Any]:
    return describe_json("t", {"g": Group(1, (Term("o", 1),), action)}, 0.1)


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_come_back_and_those_of_numbers_are_written_as_before(name: str) -> None:
    written = with_action(ACTIONS[name])
    assert Contract.from_json(json.dumps(written), stages=False).groups["g"].spec.action == ACTIONS[name]
    own = ["high", "kind", "low", "names", "neutral", "units"]
    more = {"numbers": [], "masked": ["choices", "masked", "row"]}.get(name, ["choices", "row"])
    assert sorted(written["groups"]["g"]["action"]) == sorted([*own, *more])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": []}, r"action\.choices is \[\], but it must be a list of at least 1"),
        ({"choices": None}, r"action\.choices is None"),
        ({"row": "as you like"}, r"action\.row is 'as you like'"),
        ({"row": ...}, r"action\.row is None"),
        ({"masked": False}, r"action\.masked is False, but it must be true, or left out"),
        ({"choices": ...}, r"action\.(row|masked) is .* left out of an action without choices"),
        (
            {"choices": [{"name": "x", "options": ["a"], "neutral": 0}]},
            r"action\.names .* different names, of choices too",
        ),
        ({"choices": [{"name": "g", "options": ["a", "a"], "neutral": 0}]}, r"choices\[0\]\.options is \['a', 'a'\]"),
        ({"choices": [{"name": "g", "options": [], "neutral": 0}]}, r"choices\[0\]\.options is \[\]"),
        ({"choices": [{"name": "g", "options": ["a"], "neutral": 1}]}, r"choices\[0\]\.neutral is 1"),
        ({"choices": [{"name": "g", "options": ["a"]}]}, r"choices\[0\]\.neutral is missing"),
        ({"names": ["x", "x"]}, r"action\.(names|low) is"),
    ],
)
def test_a_wrong_line_of_an_action_is_named(change: dict[str, Any], message: str) -> None:
    written = with_action(ACTIONS["masked"])
    action = written["groups"]["g"]["action"]
    for key, value in change.items():
        action.pop(key) if value is ... else action.update({key: value})
    with pytest.raises(RookeryError, match=message):
        Contract.from_json(written, stages=False)


def test_names_of_numbers_are_different() -> None:
    """A sentence, where the declaration itself would be refused by its own check."""
    written = with_action(replace(ACTIONS["numbers"], names=("x", "y"), low=(-1.0,) * 2, high=(1.0,) * 2, units=("m",) * 2,
                                  neutral=(0.0,) * 2))  # fmt: skip
    written["groups"]["g"]["action"]["names"] = ["x", "x"]
    with pytest.raises(RookeryError, match=r"action\.names is \['x', 'x'\]"):
        Contract.from_json(written, stages=False)


def test_other_options_do_not_fit_and_another_neutral_one_does() -> None:
    both = ACTIONS["both"]
    contract = Contract.from_json(with_action(both), stages=False)
    rest = replace(both, choices=(replace(GEAR, neutral=0), both.choices[1]))
    check_groups(contract, {"g": Group(1, (Term("o", 1),), rest)})
    other = replace(both, choices=(replace(GEAR, options=("a", "c", "b")), both.choices[1]))
    with pytest.raises(RookeryError, match=r"action\.choices\[0\]\.options\[1\] .* 'b' and the robot 'c'"):
        check_groups(contract, {"g": Group(1, (Term("o", 1),), other)})
    with pytest.raises(RookeryError, match=r"action\.masked"):
        check_groups(contract, {"g": Group(1, (Term("o", 1),), replace(both, masked=True))})
