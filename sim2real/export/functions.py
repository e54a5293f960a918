"""The forward pass in C: a function for each stage of the chain, and those that call them in order (see export/c.py).

Rows between stages stand in arrays on the caller's stack, which are used again when a row has been read. A stage that works in
place shares the array of its neighbor, and one that takes a part of a row gives a pointer into it. The high level of a
hierarchy stands in an `if` that holds when a decision is due, each skill in one that holds when it was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages import c_text
from rookery.policies.stages.chain import Cases, EachNode, Fork, HeldNode, Leaf, Node
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.export.int8_c import dense_tables, int8_code, int8_tables

Array = NDArray[np.float32]


class Functions:
    """C of a group's policy.

    Args:
        group: in a valid contract.
        prefix: beginning of the C names.

    Raises:
        RookeryError: a stage has no C.

    Attributes:
        chain: the stages.
        frame, history: F and H; the observation of an agent has H F components.
        inputs, outputs: O and D, of a policy for a team those of all its agents.
        agents: of the team; 1 without.
        targets: M, 0 without a state estimator.
        memory: numbers in the state of all stages.
        choices, options: K and C, of a policy that chooses; else 0.
        events: names of the E events at which its high level decides.
    """

    def __init__(self, group: ContractGroup, prefix: str) -> None:
        self.chain = group.trained
        if refused := self.chain.c_refused:
            raise RookeryError(f"{refused}.")
        self.prefix = prefix
        self.frame = group.spec.frame_size
        self.history = group.spec.history
        self.agents = self.chain.agents
        self.inputs = self.chain.inputs
        self.outputs = self.chain.outputs
        self.targets = self.chain.targets
        self.memory = self.chain.state_size
        self.choices = len(self.chain.choice_sizes)
        self.options = self.chain.options
        self.events = self.chain.events
        self.int8 = dense_tables(self.chain) if group.quantization is not None else set()
        self._policy = _Body(self.chain.nodes, self.chain.outputs, "obs", "action", events=self.events)

    @property
    def parameter(self) -> str:
        """Parameters of the policy's functions between observation and action: a mask, events, the memory, and room for
        logits."""
        mask = f"const unsigned char allowed[{self.chain.mask_size}], " if self.chain.mask_size else ""
        memory = f"{self.prefix}_memory *memory, " if self.memory else ""
        events = f"const unsigned char events[{len(self.events)}], " if self.events else ""
        return mask + events + memory + (f"float logits[{self.options}], " if self.options else "")

    @property
    def argument(self) -> str:
        """The same in a call."""
        given = {
            "allowed": self.chain.mask_size, "events": len(self.events), "memory": self.memory, "logits": self.options,
        }  # fmt: skip
        return "".join(f"{name}, " for name, size in given.items() if size)

    @property
    def stack(self) -> int:
        """Bytes of the caller's stack, about."""
        scratch = max((leaf.stage.scratch for leaf in self.chain.leaves), default=0)
        return 4 * (sum(self._policy.arrays.values()) + scratch) + 160

    def tables(self, arrays: Mapping[str, Array]) -> list[str]:
        """The weights as constant arrays, given by the names that `StageChain.weights` has."""
        out = []
        for name in self.chain.weights():
            c_name = name.replace(".", "_")
            out += int8_tables(c_name, arrays[name]) if c_name in self.int8 else [c_text.table(c_name, arrays[name])]
        return out

    def helpers(self) -> list[str]:
        """Functions that several stages call, and those of the scaling."""
        called = {step.lstrip().partition("(")[0] for step in self._policy.steps}
        wanted = [x for leaf in self.chain.leaves for x in leaf.stage.helpers]
        if self.int8:
            wanted = ["dense_int8" if x == "dense" else x for x in wanted]
        return c_text.helpers(["clamp", *({"copy", "fill"} & called), *wanted])

    def declarations(self) -> str:
        """Declarations of the header beyond a plain policy's functions."""
        prefix = self.prefix
        out = ""
        if self.memory:
            out += f"""
/* Forget everything. Call it at an episode's start, and when an observation was NaN, which the memory would keep. */
void {prefix}_reset({prefix}_memory *memory);
"""
        if self.history > 1:
            out += f"""
/* Drop the oldest of the {self.history} frames in obs and append a new one. Call it at every step; at an episode's start
   {self.history} times with the first frame. */
void {prefix}_remember(const float frame[{self.frame}], float obs[{self.frame * self.history}]);
"""
        if self.targets:
            out += f"""
/* The state estimator's predictions of the targets above. */
void {prefix}_predict(const float obs[{self.inputs}], float targets[{self.targets}]);

/* The policy where some targets are known: known[i] replaces a prediction unless it is NaN. */
void {prefix}_policy_known(const float obs[{self.inputs}], const float known[{self.targets}], \
{self.parameter}float action[{self.outputs}]);
"""
        return out

    def functions(self) -> str:
        """C of ``<prefix>_policy`` and whatever `declarations` announces."""
        parts = [leaf.stage.code(leaf.name) for leaf in self.chain.leaves]
        parts = int8_code(parts) if self.int8 else parts
        prefix, n, m, t = self.prefix, self.inputs, self.outputs, self.targets
        body = self._policy.text
        if self.targets:
            parts.append(f"""
void {prefix}_policy_known(const float obs[{n}], const float known[{t}], {self.parameter}float action[{m}])
{{
{body}
}}""")
            parts.append(f"""
static const float unknown[{t}] = {{{", ".join(["NAN"] * t)}}};

void {prefix}_policy(const float obs[{n}], {self.parameter}float action[{m}])
{{
    {prefix}_policy_known(obs, unknown, {self.argument}action);
}}""")
            parts.append(self._predict())
        else:
            parts.append(f"""
void {prefix}_policy(const float obs[{n}], {self.parameter}float action[{m}])
{{
{body}
}}""")
        if self.memory:
            parts.append(f"""
void {prefix}_reset({prefix}_memory *memory)
{{
    int i;

    for (i = 0; i < {self.memory}; i++) {{
        memory->h[i] = 0.0f;
    }}
}}""")
        if self.history > 1:
            own = self.frame * self.history
            parts.append(_REMEMBER.format(prefix=prefix, n=own, f=self.frame, old=own - self.frame))
        return "\n".join(part for part in parts if part)

    def _predict(self) -> str:
        """The state estimator alone, behind the stages that its input comes through."""
        leaf = next(leaf for leaf in self.chain.outer if leaf.stage.targets)
        path = _path(self.chain.nodes, leaf)
        if any(node.stage.state_size for node in path if isinstance(node, Leaf)):
            raise RookeryError("a state estimator behind a memory has no C: put the estimator before it.")
        body = _Body(path, leaf.stage.outputs, "obs", "targets", known="unknown", events=self.events)
        return f"""
void {self.prefix}_predict(const float obs[{self.inputs}], float targets[{self.targets}])
{{
    int i;
{body.text}
    for (i = 0; i < {self.targets}; i++) {{
        targets[i] = {leaf.name}_mean[i] + ({leaf.name}_std[i] * targets[i]);
    }}
}}"""


@dataclass
class _Body:
    """Statements from one array to another through the stages.

    Args:
        nodes: the chain.
        size: of the result.
        source, target: C names of both arrays.
        known: C name of the known targets.
        events: names of those in the array `events`.

    Attributes:
        arrays: lengths of the arrays between, by name.
        steps: the statements.
    """

    nodes: Sequence[Node]
    size: int
    source: str
    target: str
    known: str = "known"
    events: Sequence[str] = ()
    arrays: dict[str, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free: list[str] = []
        self._depth = 0  # of blocks
        self._masks: list[str] = []  # C names of the masks of high levels that are being written
        self._first = 0  # where the states begin that are being written
        self._emit(self.nodes, self.source, self.target)

    def _say(self, *lines: str) -> None:
        """Append statements of the block."""
        self.steps += [f"{'    ' * self._depth}{line}" for line in lines]

    @property
    def text(self) -> str:
        """Declarations and statements."""
        declared = [f"    float {name}[{size}];" for name, size in self.arrays.items()]
        return "\n".join([*declared, *[""] * bool(declared), *(f"    {step}" for step in self.steps)])

    def _take(self, size: int) -> str:
        """An array for a row; the one that fits best of those that are free."""
        if self._free:
            name = min(self._free, key=lambda name: (self.arrays[name] < size, abs(self.arrays[name] - size)))
            self._free.remove(name)
        else:
            name = f"r{len(self.arrays)}"
        self.arrays[name] = max(self.arrays.get(name, 0), size)
        return name

    def _emit(self, nodes: Sequence[Node], source: str, target: str) -> None:
        """Bring a row to `target`; the arrays that are taken are free again afterwards."""
        here, own = source, ""
        for i, node in enumerate(nodes):
            last = all(isinstance(x, Leaf) and x.stage.in_place for x in nodes[i + 1 :])
            view = node.stage.view(here) if isinstance(node, Leaf) and not last else ""
            if view:
                here = view
                continue
            there = target if last else self._take(_outputs(node))
            if isinstance(node, Fork):
                self._branches(node, here, there)
            elif isinstance(node, HeldNode):
                self._decide(node, here, there)
            elif isinstance(node, Cases):
                self._switch(node, here, there)
            elif isinstance(node, EachNode):
                self._each(node, here, there)
            else:
                self._call(node, here, there)
            if own and own != there:
                self._free.append(own)
            here, own = there, "" if there == target else there

    def _branches(self, fork: Fork, source: str, target: str) -> None:
        at = 0
        for branch in fork.branches:
            self._emit(branch, source, _moved(target, at))
            at += _outputs(branch[-1])

    def _decide(self, node: HeldNode, source: str, target: str) -> None:
        """The decision in force, which stands in the memory behind the control steps that are left."""
        rules, at = node.link.rules, self._first + node.state.start
        each = node.link.inputs // rules.agents
        rows = [x if x.isidentifier() else f"({x})" for x in (_moved(source, i * each) for i in range(rules.agents))]
        left, held = f"memory->h[{at}]", f"memory->h[{at + 1}]"
        several = len(rules.names) > 1
        due = [f"({left} <= 0.0f)", *(f"(events[{self.events.index(event)}] != 0u)" for event in rules.events)]
        for i, row in enumerate(rows):
            for k, condition in enumerate(rules.finished):
                if condition is not None:
                    mine = f"(memory->h[{at + 1 + i}] == {k}.0f) && " if several else ""
                    due.append(f"({mine}{condition.code(row)})")
        self._say(f"if ({' || '.join(due)}) {{ /* decide */")
        self._depth += 1
        mask = f"allowed_{at}"
        if rules.masked:
            self._say(f"unsigned char {mask}[{len(rules.names) * rules.agents}];")
            for i, row in enumerate(rows):
                for k, condition in enumerate(rules.allowed, i * len(rules.names)):
                    self._say(f"{mask}[{k}] = {'1u' if condition is None else f'{condition.code(row)} ? 1u : 0u'};")
        self._masks.append(mask)
        self._emit(node.nodes, source, f"&{held}")
        self._masks.pop()
        for i in range(rules.agents if several else 1):
            skill = f"memory->h[{at + 1 + i}]"
            last = f"{rules.steps[-1]}.0f" if not several else "0.0f"
            for k in range(len(rules.steps) - 1, -1, -1) if several else ():
                last = (
                    f"({skill} == {k}.0f) ? {rules.steps[k]}.0f : {last if k == len(rules.steps) - 1 else f'({last})'}"
                )
            if i == 0:
                self._say(f"{left} = {last};")
            else:
                self._say(f"if (({last}) < {left}) {{", f"    {left} = {last};", "}")
        self._depth -= 1
        self._say("}", f"{left} -= 1.0f;", f"copy(&{held}, {target}, {node.link.outputs});")

    def _switch(self, node: Cases, source: str, target: str) -> None:
        """The branch that the row asks for; the others forget."""
        row = source if source.isidentifier() else f"({source})"
        number = f"{row}[{node.link.place}]"
        self._say(f"fill({target}, NAN, {node.link.outputs});")
        for case in node.cases:
            asked = " || ".join(f"({number} == {k}.0f)" for k in case.numbers)
            self._say(f"if ({asked}) {{")
            self._depth += 1
            self._masks.append("")  # what chooses in a skill is not the policy's own choice
            self._emit(case.nodes, source, target)
            self._masks.pop()
            self._depth -= 1
            size = case.inner.stop - case.inner.start
            if size:
                first = self._first + case.inner.start
                self._say("} else {", f"    fill(&memory->h[{first}], 0.0f, {size});")
            self._say("}")

    def _each(self, node: EachNode, source: str, target: str) -> None:
        """The chain once for each agent, with the states of its own."""
        link, before = node.link, self._first
        each, state = link.outputs // link.agents, (node.state.stop - node.state.start) // link.agents
        row = self._take(link.chain[0].inputs)
        for i, part in enumerate(link.parts):
            self._first = before + node.state.start + i * state
            at = 0
            for a, b in part:
                self._say(f"copy({_moved(source, a)}, &{row}[{at}], {b - a});")
                at += b - a
            self._masks.append("")  # what chooses in a skill is not the policy's own choice
            self._emit(node.nodes, row, _moved(target, i * each))
            self._masks.pop()
        self._first = before
        self._free.append(row)

    def _call(self, leaf: Leaf, source: str, target: str) -> None:
        stage = leaf.stage
        view = stage.view(source)
        if view:  # a part of a row that has to stand elsewhere
            self._say(f"copy({view}, {target}, {stage.outputs});")
            return
        if self._masks and stage.targets:
            raise RookeryError("a skill with a state estimator has no C yet: give one that was trained without it.")
        if stage.options and not self._masks:
            self._say(f"copy({source}, logits, {stage.inputs});")
        given = [source]
        given += [f"&memory->h[{self._first + leaf.state.start}]"] * (stage.state_size > 0)
        given += [self.known] * (stage.targets > 0)
        given += [self._masks[-1] if self._masks else "allowed"] * (stage.mask_size > 0)
        self._say(f"{leaf.name}({', '.join([*given, target])});")


def _moved(pointer: str, by: int) -> str:
    """A pointer, an array's name or ``&name[at]``, moved on."""
    if pointer.isidentifier():
        return f"&{pointer}[{by}]" if by else pointer
    name, at = pointer[1:-1].split("[")
    return f"&{name}[{int(at) + by}]"


def _outputs(node: Node) -> int:
    if isinstance(node, Leaf):
        return node.stage.outputs
    if isinstance(node, (HeldNode, Cases, EachNode)):
        return node.link.outputs
    return sum(_outputs(branch[-1]) for branch in node.branches)


def _path(nodes: Sequence[Node], leaf: Leaf) -> list[Node]:
    """The nodes that the input of a stage comes through, and the stage itself."""
    out: list[Node] = []
    for node in nodes:
        if node is leaf:
            return [*out, node]
        if isinstance(node, Fork):
            for branch in node.branches:
                within = _path(branch, leaf)
                if within and within[-1] is leaf:
                    return [*out, *within]
        out.append(node)
    return out


_REMEMBER = """
void {prefix}_remember(const float frame[{f}], float obs[{n}])
{{
    int i;

    for (i = 0; i < {old}; i++) {{
        obs[i] = obs[i + {f}];
    }}
    for (i = 0; i < {f}; i++) {{
        obs[{old} + i] = frame[i];
    }}
}}"""
