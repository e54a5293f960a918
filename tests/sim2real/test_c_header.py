"""The comment of an exported header: what it shows are calls of functions that the header declares."""

from __future__ import annotations

import re

import pytest

from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.export.c import c_source, policy_arrays

GEAR = Discrete("gear", ("off", "low", "high"))
NUMBERS = ("x", "y"), (-1.0, 0.0), (1.0, 3.0), ("m", "N"), (0.0, 0.0)
ACTIONS = {
    "numbers": ActionSpec("drive", *NUMBERS),
    "choice": ActionSpec("drive", choices=(GEAR,)),
    "both": ActionSpec("drive", *NUMBERS, choices=(GEAR,)),
    "masked": ActionSpec("drive", choices=(GEAR,), masked=True),
    "both, masked": ActionSpec("drive", *NUMBERS, choices=(GEAR,), masked=True),
}


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("kind", ACTIONS)
def test_calls_have_the_arguments_of_what_is_declared(kind: str, memory: int, history: int) -> None:
    """Of which a memory is one just where the policy has one, and a mask where the action has one."""
    action = ACTIONS[kind]
    choose = Choose.of(action) if action.choices else None
    policy = Policy(standard(6 * history, action.outputs, (4,), memory_size=memory, choose=choose))
    contract = describe("some-task", {"driver": Group(1, (Term("o", 6),), action, history)}, 0.1)
    contract = with_stages(contract, {"driver": policy})
    header = c_source(contract, "driver", policy_arrays(policy), "driver", "driver.h")[1]
    comment, _, code = header.partition("#ifndef")
    call = r"\b(driver_\w+)\(([^()]*)\);"
    declared = {name: given.count(",") for name, given in re.findall(call, code)}
    called = dict(re.findall(call, comment))
    assert {"driver_step", "driver_observe", "driver_policy", "driver_command"} <= set(called)
    for name, given in called.items():
        assert declared.get(name) == given.count(","), f"{name}({given}) in the comment"
        assert memory > 0 or "memory" not in given
    assert ("driver_reset" in called) == (memory > 0)
    assert ("driver_remember" in called) == (history > 1)
    assert ("allowed" in called["driver_step"]) == action.masked
