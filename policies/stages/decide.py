"""The links of a hierarchy: `Decide` holds what a high level has decided, `Switch` lets the skill act that was chosen, and
`Each` has a skill act for each agent of a team that is decided for together.

    observation --+-------------------------------+--switch--+--command--network of skill 0--+--> action
                  +--decide: a chain that chooses-+          +--command--network of skill 1--+

    [Beside(((Select(O, ((0, O),)),), (Decide(rules, high level),))), Switch(O + A, O, ((0,), (1,)), skills)]

An option is a skill with its parameters, from one decision to the next (Sutton, Precup and Singh 1999, "Between MDPs and
semi-MDPs"). A decision stands until its skill has acted for `steps` control steps, until a condition says that it has finished,
or until whoever runs the policy tells of an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rookery.policies.stages.condition import Condition
from rookery.policies.stages.stage import fault
from rookery.sim.errors import RookeryError
from rookery.sim.values import from_json, plain

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.policies.stages.links import Link

__all__ = ["Decide", "DecisionRules", "Each", "Switch"]


@dataclass(frozen=True)
class DecisionRules:
    """Rules of when the next decision is taken, and of what may be chosen then; one entry for each of n skills.

    Args:
        names: of the skills.
        steps: most control steps that a skill acts for after a decision.
        finished: condition on the observation that ends it before; None for none.
        allowed: condition on the observation under which it may be chosen; None for at all times.
        events: of the task, each of which brings a decision: whoever runs the policy says when one happens.
        agents: a, of a team whose decisions are taken together, when one of them is due: a decision [A] begins with the skills
            of all agents, where there are several, and an observation [O] has those of the agents one after the other.

    Raises:
        RookeryError: entries of other numbers, a duration below 1, no agent, or conditions of all skills, so that none may be
            allowed.
    """

    names: tuple[str, ...]
    steps: tuple[int, ...]
    finished: tuple[Condition | None, ...]
    allowed: tuple[Condition | None, ...]
    events: tuple[str, ...] = ()
    agents: int = 1

    def __post_init__(self) -> None:
        if self.agents < 1:
            raise RookeryError(f"decisions are of {self.agents} agents: give at least 1.")
        if len({len(self.names), len(self.steps), len(self.finished), len(self.allowed)}) != 1 or not self.names:
            raise RookeryError(
                "the rules of decisions have one entry for each skill: names, steps, finished and allowed."
            )
        for name, steps in zip(self.names, self.steps, strict=True):
            if steps < 1:
                raise RookeryError(f"the skill {name!r} acts for {steps} control steps: give at least 1.")
        if None not in self.allowed:
            raise RookeryError(
                "every skill has a condition `allowed`, so that at times none might be: leave it out of the skill that can "
                "always act."
            )

    @property
    def masked(self) -> bool:
        """True where not every skill is allowed at all times."""
        return any(condition is not None for condition in self.allowed)

    @property
    def conditional(self) -> bool:
        """True where a condition may end a skill."""
        return any(condition is not None for condition in self.finished)

    @property
    def fixed(self) -> bool:
        """True where every control step brings a decision."""
        return max(self.steps) == 1

    def options(self, decided: Tensor) -> Tensor:
        """[R, a] index of each agent's skill in decisions [R, A], as a float."""
        return decided[:, : self.agents] if len(self.names) > 1 else decided.new_zeros(len(decided), self.agents)

    def _holds(self, condition: Condition, x: Tensor) -> Tensor:
        """[R, a] bool, for observations [R, O]."""
        return condition.holds(x.reshape(len(x) * self.agents, -1)).view(-1, self.agents)

    def due(self, x: Tensor, left: Tensor, decided: Tensor) -> Tensor:
        """[R] bool: a decision is due, of a team when it is for one agent.

        Args:
            x: observations now [R, O].
            left: [R] control steps that the skill may still act for.
            decided: latest decisions [R, A].
        """
        due = left <= 0.0
        return due | self.over(x, decided) if self.conditional else due

    def over(self, x: Tensor, decided: Tensor) -> Tensor:
        """[R] bool: a skill has finished by its condition, of a team that of one agent; where some are `conditional`."""
        options = self.options(decided)
        each = [(self._holds(c, x) & (options == k)).any(1) for k, c in enumerate(self.finished) if c is not None]
        out = each[0]
        for more in each[1:]:
            out = out | more
        return out

    def durations(self, decided: Tensor) -> Tensor:
        """[R] control steps that decisions [R, A] may stand for, of a team the fewest; 0 of one that is not a number."""
        options = self.options(decided)
        out = options.new_zeros(options.shape)
        for k, steps in enumerate(self.steps):
            out = out + steps * (options == k)
        return out.amin(1)

    def mask(self, x: Tensor) -> Tensor | None:
        """[R, a n] bool, the skills that each agent may choose by observations [R, O]; None where all are at all times."""
        import torch

        if not self.masked:
            return None
        always = torch.ones(len(x), self.agents, dtype=torch.bool, device=x.device)
        return torch.stack([always if c is None else self._holds(c, x) for c in self.allowed], 2).flatten(1)


@dataclass(frozen=True)
class Decide:
    """A chain whose result is held until the next decision is due.

    Its state is the number of control steps that are left, and the decision; zeros, so that the first step decides.

    Args:
        rules: when that is.
        chain: from the observation to a decision: the index of a skill, where there are several, and numbers.

    Raises:
        RookeryError: a chain without stages, a condition on more than the observation has, or one that is not of so many
            agents.
    """

    kind: ClassVar[str] = "decide"
    formula: ClassVar[str] = (
        "the chain's result of the latest decision; a decision is taken at an episode's start, when its skill has acted for "
        "`steps` control steps, when its condition `finished` holds, and when one of `events` happens; a skill may be chosen "
        "while its condition `allowed` holds; a condition compares x[start] with limit, or the length of the `size` numbers "
        "from there"
    )
    team_formula: ClassVar[str] = (
        "; x has the observations of `agents` agents one after the other, and the result begins with the skills of all: what "
        "is due for one of them is due for all, and the shortest of `steps` counts"
    )

    rules: DecisionRules
    chain: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not self.chain:
            raise RookeryError("a decision needs a chain of stages that takes it.")
        if self.inputs % self.rules.agents:
            raise RookeryError(
                f"a decision for {self.rules.agents} agents gets {self.inputs} numbers: as many of each."
            )
        own = self.inputs // self.rules.agents
        for condition in (*self.rules.finished, *self.rules.allowed):
            if condition is not None and condition.stop > own:
                raise RookeryError(f"a condition reads place {condition.stop - 1} of a row of {own} numbers.")

    @property
    def inputs(self) -> int:
        return self.chain[0].inputs

    @property
    def outputs(self) -> int:
        return self.chain[-1].outputs

    @property
    def state_size(self) -> int:
        """Numbers that it keeps itself, beside those of its chain."""
        return 1 + self.outputs

    @property
    def words(self) -> str:
        """The link in words: "a decision for walk, stand every 10, 5 control steps"."""
        steps = ", ".join(map(str, self.rules.steps))
        team = f" of {self.rules.agents} agents together" if self.rules.agents > 1 else ""
        events = f", and at the events {', '.join(self.rules.events)}" if self.rules.events else ""
        return f"a decision for {', '.join(self.rules.names)}{team} every {steps} control steps at most{events}"

    def to_json(self, chain: list[dict[str, Any]]) -> dict[str, Any]:
        """As it stands in a contract, with the chain's JSON."""
        own = plain(self.rules)
        if self.rules.agents == 1:
            del own["agents"]
            return {"stage": self.kind, "formula": self.formula} | own | {"chain": chain}
        return {"stage": self.kind, "formula": self.formula + self.team_formula} | own | {"chain": chain}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], chain: tuple[Link, ...], line: str) -> Decide:
        """The link of JSON values, whose chain has been read.

        Raises:
            RookeryError: naming the wrong line.
        """
        _check_formula(values, cls.formula + ("agents" in values) * cls.team_formula, line)
        own = {k: v for k, v in values.items() if k not in ("stage", "formula", "chain")}
        return cls(from_json(DecisionRules, own, line), chain)


@dataclass(frozen=True)
class Switch:
    """Chains of which one acts: that whose cases hold the number at a place of the row.

    The others forget: their states are zero. Of a number that is in no case the result is NaN.

    Args:
        place: of that number.
        cases: numbers, for each chain.
        branches: chains of the same sizes.

    Raises:
        RookeryError: no chain, chains of different sizes, a number in two cases, or a place outside of the row.
    """

    kind: ClassVar[str] = "switch"
    formula: ClassVar[str] = (
        "the result of the branch whose cases hold x[place], NaN where none does; the states of the other branches are set to "
        "zero"
    )

    place: int
    cases: tuple[tuple[int, ...], ...]
    branches: tuple[tuple[Link, ...], ...]

    def __post_init__(self) -> None:
        numbers = [k for case in self.cases for k in case]
        if not self.branches or len(self.cases) != len(self.branches) or len(set(numbers)) != len(numbers):
            raise RookeryError("a switch needs a branch for each list of cases, and each number in one of them.")
        if not all(self.branches) or not 0 <= self.place < self.inputs:
            raise RookeryError(f"a switch reads place {self.place} of a row that every branch takes.")
        sizes = {(branch[0].inputs, branch[-1].outputs) for branch in self.branches}
        if len(sizes) > 1:
            raise RookeryError(f"the branches of a switch have one size, got {sorted(sizes)}.")

    @property
    def inputs(self) -> int:
        return self.branches[0][0].inputs

    @property
    def outputs(self) -> int:
        return self.branches[0][-1].outputs

    def to_json(self, branches: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """As it stands in a contract, with the branches' JSON."""
        own = {"place": self.place, "cases": plain(self.cases)}
        return {"stage": self.kind, "formula": self.formula} | own | {"branches": branches}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], branches: tuple[tuple[Link, ...], ...], line: str) -> Switch:
        """The link of JSON values, whose branches have been read.

        Raises:
            RookeryError: naming the wrong line.
        """
        _check_formula(values, cls.formula, line)
        own = {k: v for k, v in values.items() if k not in ("stage", "formula", "branches")}
        read = from_json(_Cases, own, line)
        return cls(read.place, read.cases, branches)


@dataclass(frozen=True)
class Each:
    """One chain for each agent of a team, whose parts of the row it gets; the results one after the other.

    Args:
        size: of the row.
        parts: by agent, the slices of the row that it gets, one after the other.
        chain: with a state of its own for each agent.

    Raises:
        RookeryError: no agent, no stage, or slices that are outside of the row or of another size than the chain takes.
    """

    kind: ClassVar[str] = "each"
    formula: ClassVar[str] = (
        "the chain's result for each of `parts`, one after the other: x[a:b] of every slice [a, b] of a part"
    )

    size: int
    parts: tuple[tuple[tuple[int, int], ...], ...]
    chain: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not self.parts or not self.chain:
            raise RookeryError("a chain for each agent needs an agent and a stage.")
        for part in self.parts:
            if not all(0 <= a < b <= self.size for a, b in part) or sum(b - a for a, b in part) != self.chain[0].inputs:
                raise RookeryError(
                    f"an agent's part of a row of {self.size} numbers is {[list(span) for span in part]}: give "
                    f"{self.chain[0].inputs} of them."
                )

    @property
    def agents(self) -> int:
        return len(self.parts)

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return self.agents * self.chain[-1].outputs

    def to_json(self, chain: list[dict[str, Any]]) -> dict[str, Any]:
        """As it stands in a contract, with the chain's JSON."""
        own = {"size": self.size, "parts": plain(self.parts)}
        return {"stage": self.kind, "formula": self.formula} | own | {"chain": chain}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], chain: tuple[Link, ...], line: str) -> Each:
        """The link of JSON values, whose chain has been read.

        Raises:
            RookeryError: naming the wrong line.
        """
        _check_formula(values, cls.formula, line)
        own = {k: v for k, v in values.items() if k not in ("stage", "formula", "chain")}
        read = from_json(_EachPart, own, line)
        return cls(read.size, read.parts, chain)


@dataclass(frozen=True)
class _EachPart:
    """Lines of a chain for each agent beside the chain."""

    size: int
    parts: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class _Cases:
    """Lines of a switch beside its branches."""

    place: int
    cases: tuple[tuple[int, ...], ...]


def _check_formula(values: Mapping[str, Any], formula: str, line: str) -> None:
    if values.get("formula") != formula:
        raise fault(f"{line}.formula", values.get("formula"), repr(formula))
