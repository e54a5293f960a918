"""Measured state to observation in C: a struct of what the terms read, and the functions that turn it into the network's input
and keep what lies between two control steps.

    typedef struct {
        float target[3];   /* target, m, world axes */
        float position[3]; /* position, m, world axes */
        ...
    } NAME_state;

    NAME_controller controller;
    NAME_start(&controller);
    for (;;) {                                   /* every NAME_POLICY_CONTROL_DT seconds */
        NAME_step(&controller, &state, command); /* the whole control step; or its parts: */

        NAME_act(&controller, &state, action);   /* observation and network */
        NAME_acted(&controller, &state, action); /* the action that is carried out, after whatever filter */
        NAME_command(action, command);
    }

All comes from the terms' expressions in the contract. What the policy's computer itself knows is kept in the controller: the
last action, clocks, the values of the step before, the frames of a history, the memory of the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rookery.policies.stages.c_text import literal, public, table
from rookery.sim.quantities import ACTED, LAST_ACTION
from rookery.sim.specs import Term
from rookery.sim.terms import Clock, Expression, Previous, Quantity, clocks_of
from rookery.sim.terms.c import CWriter, comment, helpers, identifier, member
from rookery.sim2real.contract import Contract
from rookery.sim2real.decisions import DecisionEvent, events_at

HOME = "home"
"""Name of the quantity that holds the home angles of the actuation's joints."""
FIRST = "0"
"""Initial value of a term, in the contract's words, that the first step of an episode puts in place of the measured one."""


class StateC:
    """C of a group from its measured state to its network's input, and from there to its command.

    Args:
        contract: valid, with stages.
        group: agent group.
        prefix: beginning of the C names.

    Attributes:
        agents: of a team that one policy decides for; 1 without.
        inputs, outputs: of one robot.
        robot: beginning of the C names of what each robot has.
        members: quantities of the struct by the name of the member, in the order of the terms.
        clocks: those that the controller runs, by the name of its member.
        before: quantities of the step before, by the name of the controller's member.
        memory: numbers in the network's memory.
        events: at which the policy decides.
    """

    def __init__(self, contract: Contract, group: str, prefix: str) -> None:
        declared = contract.groups[group]
        spec = declared.spec
        self.prefix = prefix
        self.terms = spec.observation
        self.action = spec.action
        self.control_dt = contract.control_dt
        self.frame, self.history = spec.frame_size, spec.history
        self.agents = declared.trained.agents
        self.inputs, self.outputs = declared.trained.inputs // self.agents, declared.trained.outputs // self.agents
        self.robot = f"{prefix}_robot" if self.agents > 1 else prefix
        self.memory = declared.trained.state_size
        self.choices = len(spec.action.choices)
        self.options = sum(len(c.options) for c in spec.action.choices)
        self.mask = declared.trained.mask_size
        self.events = events_at(declared.events, declared.trained.events)
        self._homes = () if declared.actuation is None else tuple(j.home for j in declared.actuation.joints)
        seen = [t.expression for t in self.terms if not t.hidden]
        happening = [event.expression for event in self.events]
        clocks = clocks_of([*seen, *happening])
        runs = [c.runs for c in clocks if c.runs is not None]
        quantities = dict.fromkeys(q for e in (*seen, *runs, *happening) for q in e.leaves())
        self.members = _named(q for q in quantities if not self._kept(q))
        self.clocks: dict[str, Clock] = {n: c for n, c in _named(clocks).items() if isinstance(c, Clock)}
        self.last_action = next((q for q in quantities if self._is_last_action(q)), None)
        self.before = _named(dict.fromkeys(q for e in (*seen, *happening) for q in _past(e)), "before_")

    def _kept(self, q: Quantity) -> bool:
        """True where the policy's computer knows it by itself."""
        clock = isinstance(q, Clock) and q.frequency > 0.0
        return clock or self._is_last_action(q) or self._is_home(q)

    def _is_last_action(self, q: Quantity) -> bool:
        return q.own_memory and q.name in (LAST_ACTION, ACTED) and q.count == self.outputs

    def _is_home(self, q: Quantity) -> bool:
        return q.own_memory and q.name == HOME and q.count == len(self._homes)

    def place(self, q: Quantity) -> str:
        """The array of a quantity of this step."""
        if self._is_last_action(q):
            return "controller->last_action"
        if self._is_home(q):
            return "home_angles"
        for name, clock in self.clocks.items():
            if clock == q:
                return f"controller->{name}"
        return next(f"now->{name}" for name, other in self.members.items() if other == q)

    def place_before(self, q: Quantity) -> str:
        """The array of a quantity of the step before."""
        return next(f"controller->{name}" for name, other in self.before.items() if other == q)

    def flag(self, event: DecisionEvent) -> str:
        """The member of the struct by which an event is told; "" for one that is computed."""
        return next((f"state.{name}" for name, q in self.members.items() if event.told and q == event.expression), "")

    def stack(self, policy: int) -> int:
        """Bytes of the caller's stack in a control step, about; `policy` are those of the network."""
        called = [_bytes_of_arrays(text) + 160 for text in (self._observe(), "".join(self._happening()))]
        here = 4 * (self.agents * (self.inputs + self.outputs) + self.options) + len(self.events) + 200
        return here + max(policy, *called)

    def declarations(self) -> str:
        """For the header: both structs and the functions."""
        p, upper = self.prefix, self.prefix.upper()
        members = [member(q, name) for name, q in self.members.items()] or ["int none; /* nothing is measured */"]
        lines = "\n".join(f"    {line}" for line in members)
        return f"""
/* What the observation is made of, in SI units; the policy's computer is told or measures it once a control step. */
typedef struct {{
{lines}
}} {self.robot}_state;

/* What is kept between control steps, one for each robot; a NaN stays there until the start. */
typedef struct {{
{self._controller()}
}} {self.robot}_controller;
{self._team()}
/* Begin an episode. {self._begin_note()}*/
void {p}_start({p}_controller *controller);

/* The network's input, once a control step. */
void {p}_observe_state({p}_controller *controller, const {p}_state *now, float obs[{upper}_POLICY_OBSERVATIONS]);

/* Observation and network: the action in [-1, 1], once a control step. */
void {p}_act({p}_controller *controller, const {p}_state *now, {self.allowed}float action[{upper}_POLICY_ACTIONS]);

/* Say which action is carried out in this control step, that of the policy or what a filter made of it; clocks go on. */
void {p}_acted({p}_controller *controller, const {p}_state *now, const float action[{upper}_POLICY_ACTIONS]);

/* A whole control step: {p}_act, {p}_acted, {p}_command. Returns 1; or 0 where a number in `now` was none: then
   `command` is left as it was and the episode begins anew, as a NaN would stay in what is kept. */
int {p}_step({p}_controller *controller, const {p}_state *now, {self.allowed}float command[{upper}_POLICY_ACTIONS]);
"""

    def _team(self) -> str:
        """Both structs of a team."""
        if self.agents == 1:
            return ""
        memory = f"    {self.prefix}_memory memory;\n" * (self.memory > 0)
        return f"""
/* The same of a team of {self.agents} robots, for which one policy acts; arrays of its numbers have those of robot 0 first. */
typedef struct {{
    {self.robot}_state robot[{self.agents}];
}} {self.prefix}_state;

typedef struct {{
    {self.robot}_controller robot[{self.agents}];
{memory}}} {self.prefix}_controller;
"""

    @property
    def allowed(self) -> str:
        """The mask among the parameters of functions that act: 1 for each option that may be chosen."""
        return f"const unsigned char allowed[{self.mask}], " if self.mask else ""

    def _controller(self) -> str:
        """Members of the controller."""
        out = ["int begun; /* 0 until the first step of an episode */"]
        if self.last_action is not None:
            out.append(f"float last_action[{self.outputs}]; /* in [-1, 1] */")
        out += [
            f"float {name}[1]; /* {comment(f'{c.name}, {c.frequency:g} Hz {c.when}')} */"
            for name, c in self.clocks.items()
        ]
        out += [f"float {name}[{q.size}]; /* a control step before */" for name, q in self.before.items()]
        if self.history > 1:
            out.append(f"float frames[{self.inputs}]; /* oldest first */")
        if self.memory and self.agents == 1:
            out.append(f"{self.prefix}_memory memory;")
        return "\n".join(f"    {line}" for line in out)

    def _begin_note(self) -> str:
        """Values that the start may set besides."""
        notes = []
        last = self.last_action
        if last is not None and last.initial not in ("", FIRST, "the neutral action"):
            notes.append(f"Training began with another last_action than the neutral one: {comment(last.initial)}. ")
        for name, c in self.clocks.items():
            if c.start[1] > c.start[0]:
                notes.append(f"In training {name}[0] began anywhere in [{c.start[0]:g}, {c.start[1]:g}). ")
        return "".join(notes)

    def code(self) -> list[str]:
        """For the C file, behind the policy's functions."""
        observe = self._observe()
        acted = self._acted()
        tables = []
        if self.last_action is not None:
            tables.append(table("first_action", self._first_action()))
        if any("home_angles[" in text for text in (*self._happening(), observe, acted)):
            tables.append(table("home_angles", self._homes))
        happening = self._happening()
        own = [self._start(), *happening, observe, acted]
        called = "".join((*happening, observe, acted))
        return [*tables, *helpers(called), *own, *self._of_team(), self._act(), self._step()]

    def _first_action(self) -> Sequence[float]:
        """The last action at an episode's first step."""
        zero = self.last_action is not None and self.last_action.initial == FIRST
        return [0.0] * self.outputs if zero else list(self.action.rest)

    def _start(self) -> str:
        steps = ["controller->begun = 0;"]
        if self.last_action is not None:
            steps.append(_loop(self.outputs, "controller->last_action[i] = first_action[i];"))
        steps += [f"controller->{name}[0] = {literal(c.start[0])};" for name, c in self.clocks.items()]
        steps += [_loop(q.size, f"controller->{name}[i] = 0.0f;") for name, q in self.before.items()]
        if self.history > 1:
            steps.append(_loop(self.inputs, "controller->frames[i] = 0.0f;"))
        if self.memory and self.agents == 1:
            steps.append(f"{self.prefix}_reset(&controller->memory);")
        return self._of_robot(f"void {self.robot}_start({self.robot}_controller *controller)", steps)

    def _of_robot(self, head: str, steps: Sequence[str]) -> str:
        """A function for one robot, which only those of its team call."""
        text = public(head, steps)
        return text if self.agents == 1 else text.replace(head, f"static {head}", 1)

    def _of_team(self) -> list[str]:
        """Functions that do for every robot of a team what those above do for one."""
        if self.agents == 1:
            return []
        p, r, n, m = self.prefix, self.robot, self.inputs, self.outputs

        def each(call: str) -> str:
            return f"for (i = 0; i < {self.agents}; i++) {{ {r}_{call}; }}"

        given = f"{p}_controller *controller, const {p}_state *now"
        own = "&controller->robot[i], &now->robot[i]"
        reset = [f"{p}_reset(&controller->memory);"] * (self.memory > 0)
        return [
            public(f"void {p}_start({p}_controller *controller)", [each("start(&controller->robot[i])"), *reset]),
            public(
                f"void {p}_observe_state({given}, float obs[{self.agents * n}])",
                [each(f"observe_state({own}, &obs[{n} * i])")],
            ),
            public(
                f"void {p}_acted({given}, const float action[{self.agents * m}])",
                [each(f"acted({own}, &action[{m} * i])")],
            ),
        ]

    def _observe(self) -> str:
        """The terms, scaled, behind the frames of the steps before."""
        p = self.prefix
        keep = [(name, self.place(q), q.size) for name, q in self.before.items()]
        remember = [_loop(size, f"controller->{name}[i] = {place}[i];") for name, place, size in keep]
        writer = _Writer(self)
        _write_terms(self.terms, writer)
        steps = [f"float raw[{self.frame}];"]
        steps += [_when("controller->begun == 0", remember)] * bool(remember)
        steps += writer.lines
        if self.history > 1:
            again = [f"for (i = 0; i < {self.history - 1}; i++) {{ {p}_remember(raw, controller->frames); }}"]
            steps += [f"{p}_observe(raw, raw);", _when("controller->begun == 0", again)]
            steps += [f"{p}_remember(raw, controller->frames);", _loop(self.inputs, "obs[i] = controller->frames[i];")]
        else:
            steps.append(f"{p}_observe(raw, obs);")
        steps += [*remember, "controller->begun = 1;"]
        given = f"{self.robot}_controller *controller, const {self.robot}_state *now, float obs[{self.inputs}]"
        return self._of_robot(f"void {self.robot}_observe_state({given})", steps)

    def _happening(self) -> list[str]:
        """A function that marks the events of one robot; called before `observe_state`, which forgets the step before."""
        if not self.events:
            return []
        writer = _Writer(self)
        for i, event in enumerate(self.events):
            value = f"{event.expression.write(writer)}[0]"
            writer.lines.append(f"if ({value} != 0.0f) {{ events[{i}] = 1u; }} /* {comment(event.name)} */")
        head = (
            f"static int {self.robot}_happening(const {self.robot}_controller *controller, const {self.robot}_state *now, "
            f"unsigned char events[{len(self.events)}])"
        )
        read = {q for event in self.events for q in event.expression.leaves()}
        places = [(f"now->{name}", q.size) for name, q in self.members.items() if q in read]
        unfit = [_loop(size, f"if (!isfinite({place}[i])) {{ return 0; }}") for place, size in places]
        return [public(head, [*writer.lines, *unfit, "return 1;"])]

    def _marked(self) -> list[str]:
        """Statements that fill `events`, of a team those of all robots, and `fine`: 0 where a number they read is none."""
        events = [f"unsigned char events[{len(self.events)}] = {{0u}};", "int fine = 1;"]
        if self.agents == 1:
            return [*events, f"fine = {self.robot}_happening(controller, now, events);"]
        call = f"{self.robot}_happening(&controller->robot[i], &now->robot[i], events)"
        return [*events, f"for (i = 0; i < {self.agents}; i++) {{ fine = {call} & fine; }}"]

    def _act(self) -> str:
        p = self.prefix
        size = self.agents * self.outputs
        memory = "&controller->memory, " * (self.memory > 0)
        mask, logits = "allowed, " * (self.mask > 0), "logits, " * (self.options > 0)
        events = "events, " * bool(self.events)
        steps = [
            f"float obs[{self.agents * self.inputs}];",
            *[f"float logits[{self.options}];"] * (self.options > 0),
            *(self._marked() if self.events else []),
            f"{p}_observe_state(controller, now, obs);",
            f"{p}_policy(obs, {mask}{events}{memory}{logits}action);",
        ]
        if self.events:
            steps.append(_when("fine == 0", [_loop(size, "action[i] = NAN;")]))
        given = f"{p}_controller *controller, const {p}_state *now, {self.allowed}float action[{size}]"
        return public(f"void {p}_act({given})", steps)

    def _acted(self) -> str:
        """The last action is remembered, and clocks go on where they run."""
        writer = _Writer(self)
        for name, c in self.clocks.items():
            share = literal(math.fmod(c.frequency * self.control_dt, 1.0))
            tick = f"controller->{name}[0] = fmodf(controller->{name}[0] + {share}, 1.0f);"
            running = None if c.runs is None else c.runs.write(writer)
            writer.lines.append(tick if running is None else f"if ({running}[0] != 0.0f) {{ {tick} }}")
        steps = writer.lines
        if self.last_action is not None:
            steps += self._remembered()
        given = (
            f"{self.robot}_controller *controller, const {self.robot}_state *now, const float action[{self.outputs}]"
        )
        return self._of_robot(f"void {self.robot}_acted({given})", steps)

    def _step(self) -> str:
        p, size = self.prefix, self.agents * self.outputs
        anew = [f"{p}_start(controller);", "return 0;"]
        steps = [
            f"float action[{size}];",
            f"{p}_act(controller, now, {'allowed, ' * (self.mask > 0)}action);",
            f"for (i = 0; i < {size}; i++) {{ {_when('!isfinite(action[i])', anew)} }}",
            f"{p}_acted(controller, now, action);",
            f"{p}_command(action, command);",
            "return 1;",
        ]
        given = f"{p}_controller *controller, const {p}_state *now, {self.allowed}float command[{size}]"
        return public(f"int {p}_step({given})", steps)

    def _remembered(self) -> list[str]:
        """The action that is kept: indices of options as they are, numbers within their range."""
        k = self.choices
        if not k:
            return [_loop(self.outputs, "controller->last_action[i] = clamp(action[i], 1.0f);")]
        out = [_loop(k, "controller->last_action[i] = action[i];")]
        if self.outputs > k:
            rest = f"controller->last_action[{k} + i] = clamp(action[{k} + i], 1.0f);"
            out.append(_loop(self.outputs - k, rest))
        return out


class _Writer(CWriter):
    """Code of expressions that finds what the policy's computer knows in the controller."""

    def __init__(self, state: StateC) -> None:
        super().__init__()
        self._where = state

    def quantity(self, q: Quantity) -> str:
        return self._where.place_before(q) if self.past else self._where.place(q)


def _write_terms(terms: Sequence[Term], c: CWriter) -> None:
    """Statements that write `raw`, hidden terms as 0, and those that begin at 0 so."""
    at = 0
    for t in terms:
        c.lines.append(f"/* {comment(t.name)}: {'hidden' if t.hidden else comment(t.formula)} */")
        if t.hidden:
            c.lines.append(_loop(t.size, f"raw[{at} + i] = 0.0f;"))
        elif t.initial == FIRST:
            value = t.expression.write(c)
            c.lines.append(_loop(t.size, f"raw[{at} + i] = controller->begun ? {value}[i] : 0.0f;"))
        else:
            c.copy(t.expression.write(c), "raw", at, t.size)
        at += t.size


def _past(e: Expression) -> Iterable[Quantity]:
    """The quantities of the step before that an expression reads."""
    if isinstance(e, Previous):
        yield from e.leaves()
    else:
        for part in e.parts:
            yield from _past(part)


def _named(quantities: Iterable[Any], prefix: str = "") -> dict[str, Any]:
    """Names of members, each for one quantity: where two would have the same, the second has a number behind it."""
    out: dict[str, Any] = {}
    for q in quantities:
        name = prefix + identifier(q.name)
        again = 2
        while name in out:
            name = f"{prefix}{identifier(q.name)}_{again}"
            again += 1
        out[name] = q
    return out


def _loop(size: int, statement: str) -> str:
    return f"for (i = 0; i < {size}; i++) {{ {statement} }}"


def _when(condition: str, statements: Sequence[str]) -> str:
    return f"if ({condition}) {{ {' '.join(statements)} }}"


def _bytes_of_arrays(text: str) -> int:
    """Bytes of the arrays that C declares."""
    return 4 * sum(map(int, re.findall(r"^ *float \w+\[(\d+)\];", text, re.M)))
