"""README.md of a bundle, made from its contract: its files, how to call it, units, frames, rates, order, who computes what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mode

from rookery.policies.stages.chain import Beside, StageChain
from rookery.policies.stages.condition import Condition
from rookery.policies.stages.decide import DecisionRules
from rookery.sim.specs import ActionSpec, Term
from rookery.sim.terms import Quantity, Sensor
from rookery.sim2real.command_ranges import observed, units_of
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.contract_lines import CONVENTIONS
from rookery.sim2real.export.exporter import (
    C_FILE,
    CPP_HEADER,
    GOLDEN,
    HEADER,
    ONNX,
    README,
    Export,
    Exporter,
    TargetGuide,
    file_name,
)
from rookery.sim2real.export.loop_calls import program
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.state_c import StateC

Rows = Iterable[Sequence[object]]


class Readme(Exporter):
    """README.md of a bundle."""

    name = "readme"
    includes = ("contract", "onnx", "c", "cpp", "golden")
    files = (README,)

    def write(self, export: Export, folder: Path) -> None:
        prefixes = {group: export.c_prefix(group) for group in export.contract.groups}
        guides = [guide for each in export.exporters if (guide := each.guide(export)) is not None]
        (folder / README).write_text(readme(export.contract, prefixes, guides), encoding="utf-8")


def readme(contract: Contract, prefixes: dict[str, str], guides: Sequence[TargetGuide] = ()) -> str:
    """The text.

    Args:
        contract: valid, with stages.
        prefixes: of the C names, by group.
        guides: of the targets beside the bundle.
    """
    groups = (_group(contract, group, prefix) for group, prefix in prefixes.items())
    return "\n".join([_head(contract, guides), *map(_guide, guides), *groups, _tail(contract)])


def _guide(guide: TargetGuide) -> str:
    commands = "\n".join(guide.commands)
    return f"""## `{guide.place}`

{_sentence(guide.what)} From the folder of this file:

```bash
{commands}
```

{guide.note}

Tried against: {guide.tried[0]}. Not tried: {guide.tried[1]}.
"""


def _sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:] + "."


def _head(contract: Contract, guides: Sequence[TargetGuide]) -> str:
    rows = [("`contract.json`", "what every number means; the files below are tied to it by its SHA-256")]
    for group in contract.groups:
        of = f" of `{group}`" if len(contract.groups) > 1 else ""
        names = [file_name(f, contract, group) for f in (C_FILE, HEADER, CPP_HEADER, ONNX, GOLDEN)]
        rows += [
            (
                f"`{names[0]}`, `{names[1]}`",
                f"the policy{of} in C99, from measured state to actuator command; needs `math.h` only",
            ),
            (f"`{names[2]}`", "the same as C++17 classes"),
            (f"`{names[3]}`", "the network alone, batch 1"),
            (f"`{names[4]}`", "observations, and the actions that the network gave for them in training's own code"),
        ]
    rows += [(f"`{guide.place}`", guide.what) for guide in guides]
    made = contract.provenance
    source = ", ".join(
        filter(
            None,
            (
                f"{made.steps:,} steps" if made.steps else "",
                f"seed {made.seed}" if made.seed is not None else "",
                made.date,
            ),
        )
    )
    return f"""# {_text(contract.task_id)}

A policy exported by Rookery {_text(contract.rookery_version)}{f" ({_text(source)})" if source else ""}.

{_table(("file", "what it is"), rows)}

Call the policy every {contract.control_dt:g} s. Delays in training: observation {contract.latency.observation.words}, action
{contract.latency.action.words}.

Units are SI. World: {CONVENTIONS["world_frame"]}. Body: {CONVENTIONS["body_frame"]}. Quaternions: {CONVENTIONS["quaternion"]}.
"""


def _group(contract: Contract, group: str, prefix: str) -> str:
    declared = contract.groups[group]
    state = StateC(contract, group, prefix)
    loops = LoopsC(contract, group, prefix)
    title = f"## `{group}`\n\n" if len(contract.groups) > 1 else ""
    count = ""
    if state.agents > 1:
        count = (
            f"One policy acts for {state.agents} robots together, on a computer that gets the states of all: `state.robot[i]`, "
            f"and in `command` the {state.outputs} numbers of each, one after the other. Loops below are of one robot each.\n\n"
        )
    elif declared.spec.count > 1:
        count = f"There are {declared.spec.count} of them, each with a state and a controller of its own.\n\n"
    return f"""{title}{count}## Call it

```c
{program(state, loops, prefix, file_name(HEADER, contract, group))}
```

`{prefix}_step` returns 0 where a number of the state was none (NaN): the command is then left as it was, and the episode begins
anew. Where a filter stands between policy and robot, call `{prefix}_act`, filter the action, then `{prefix}_acted` with what is
carried out, and `{prefix}_command`.

## State: `{prefix}_state`

{_table(("member", "size", "unit", "axes", "what it is", "from"), _members(state))}
{_decisions(declared.trained, state)}
{_told(declared)}## Command

{_table(("index", "name", "unit", "least (action -1)", "greatest (action 1)", "at rest"), _action(declared.spec.action))}

{_below(loops, declared.actuation.steps if declared.actuation else ())}
{_limits(contract, group)}"""


def _decisions(chain: StageChain, state: StateC) -> str:
    """Who decides when; nothing where nobody decides for longer than a control step."""
    if not chain.decisions:
        return ""
    first = chain.links[0]
    outer = [branch[0] for branch in first.branches] if isinstance(first, Beside) else []
    parts = [_rules(node.link.rules, state, node.link in outer) for node in chain.decisions]
    return "\n## Who decides when\n\n" + "\n".join(parts)


def _rules(rules: DecisionRules, state: StateC, outer: bool) -> str:
    """The skills and the events of one high level; `outer` where it gets the policy's observation itself."""
    whose = f"for {rules.agents} robots together " if rules.agents > 1 else ""
    due = "for one of them " if rules.agents > 1 else ""
    rows = [
        (
            f"`{name}`",
            steps,
            f"{steps * state.control_dt:g}",
            _condition(done, state, outer),
            _condition(free, state, outer) or "always",
        )
        for name, steps, done, free in zip(rules.names, rules.steps, rules.finished, rules.allowed, strict=True)
    ]
    at = ", and at the events below" if rules.events else ""
    text = f"""The high level in the policy decides {whose}which skill acts: at an episode's start, when the skill has acted
for its control steps {due}or has finished{at}. Between decisions it does not run.

{_table(("skill", "control steps at most", "s", "has finished when", "may be chosen when"), rows)}
"""
    if not rules.events:
        return text
    events = [event for event in state.events if event.name in rules.events]
    flags = [(f"`{e.name}`", f"`{state.flag(e)}`" if e.told else "computed from the state", e.meaning) for e in events]
    text = f"{text}\n{_table(('event', 'from', 'what it is'), flags)}\n"
    if not any(event.told for event in events):
        return text
    return f"""{text}
Set the member of an event that is told to 1 in the control step in which it happens, and to 0 in all others: the policy decides
in each control step in which one is not 0.
"""


def _condition(condition: Condition | None, state: StateC, outer: bool) -> str:
    """A condition in the terms' units, or in those of the row that a high level within a skill gets; "" for none."""
    if condition is None:
        return ""
    if not outer:
        return condition.code("x")[1:-1]
    term, index = _term_at(condition.start, state)
    limit = condition.limit / term.effective_scale
    what = f"length of {term.name}" if condition.size else term.name + (f"[{index}]" if term.size > 1 else "")
    return f"{what} {'>' if condition.above else '<'} {limit:g}" + (f" {term.unit}" if term.unit != "1" else "")


def _term_at(place: int, state: StateC) -> tuple[Term, int]:
    """The term at a place of the observation of one robot, and the component."""
    at = place % state.frame
    for term in state.terms:
        if at < term.size:
            break
        at -= term.size
    return term, at


def _members(state: StateC) -> Rows:
    for name, q in state.members.items():
        yield (
            f"`{name}`",
            q.size,
            "" if q.unit == "1" else q.unit,
            _axes(q),
            q.name + (f"; {q.doc}" if q.doc else ""),
            _source(state, q),
        )


def _told(group: ContractGroup) -> str:
    """Ranges of the commands that the training had."""
    if not group.commands:
        return ""
    quantities = observed(group.spec.observation)
    rows = [
        (name, i, unit, f"{low:g}", f"{high:g}", span.relative_to)
        for name, span in group.commands.items()
        for i, (low, high, unit) in enumerate(zip(span.low, span.high, units_of(quantities[name]), strict=True))
    ]
    return f"""## What it may be told

It was trained with these values alone; a program should refuse others, or hold them within.

{_table(("quantity", "value", "unit", "least", "greatest", "relative to"), rows)}

"""


def _axes(q: Quantity) -> str:
    return f"{q.axes} to {q.frame}" if q.axes else q.frame


def _source(state: StateC, q: Quantity) -> str:
    """Who gives a quantity."""
    if q.own_memory or any(q == event.expression for event in state.events):
        return "told"
    if isinstance(q, Sensor):
        return "sensor"
    estimated = [t.estimated for t in state.terms if t.estimated and q in list(t.expression.leaves())]
    # Terms of several estimates share what they are relative to, such as the position: most of them say of which it is.
    return f"estimate of {mode(estimated)}" if estimated else "measured"


def _action(action: ActionSpec) -> Rows:
    for i, choice in enumerate(action.choices):
        first, last = choice.options[0], choice.options[-1]
        yield (
            i,
            f"`{choice.name}`",
            "option",
            f"0: {first}",
            f"{len(choice.options) - 1}: {last}",
            choice.options[choice.neutral],
        )
    columns = zip(action.names, action.units, action.low, action.high, action.rest_command, strict=True)
    for i, (name, unit, *numbers) in enumerate(columns, len(action.choices)):
        yield i, f"`{name}`", unit, *(f"{x:g}" for x in numbers)


def _below(loops: LoopsC, steps: Sequence[str]) -> str:
    """Who computes what below the policy."""
    if loops.actuation is None:
        return "The command goes to no motor: it is what another policy or the task takes.\n"
    said = "\n".join(f"- {_text(step)}" for step in steps)
    order = ", ".join(f"`{_text(name)}`" for name in loops.actuation.actuators)
    below = loops.written
    if below is None:
        how = "There is no C below the policy; what has to happen is this:"
    else:
        how = (
            f"The functions below the policy run every {loops.actuation.period:g} s, {loops.steps} times in a control step. "
            "Each may be left to the vehicle where it does the same:"
        )
    return f"""## Below the policy

{how}

{said}

Motors and joints stand in the order {order}.
"""


def _limits(contract: Contract, group: str) -> str:
    safety = contract.groups[group].safety
    if not safety:
        return ""
    rows = [
        (name, x.unit, "" if x.low is None else f"{x.low:g}", "" if x.high is None else f"{x.high:g}")
        for name, x in safety.items()
    ]
    return f"""## Limits that a runtime should keep

{_table(("quantity", "unit", "least", "greatest"), rows)}
"""


def _tail(contract: Contract) -> str:
    golden = ", ".join(f"`{file_name(GOLDEN, contract, group)}`" for group in contract.groups)
    events = any(g.trained.events for g in contract.groups.values())
    more = " `events` are those that happen before each, in the order of the contract." * events
    memory = " `start` says before which of them a policy with memory begins anew." * any(
        g.trained.state_size for g in contract.groups.values()
    )
    return f"""## Prove your copy

{golden}: `observations` are network inputs, `actions` what the network answers; yours must differ by no more than
1e-5.{memory}{more}

```
rookery export --check .
cc -std=c99 -O2 -Wall -Wextra -c policy.c     # without -ffast-math, which takes tests for NaN out
```
"""


def _table(head: Sequence[str], rows: Rows) -> str:
    lines = [head, ["---"] * len(head), *([_text(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text(value: object) -> str:
    """Text that ends no cell and begins no HTML."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
