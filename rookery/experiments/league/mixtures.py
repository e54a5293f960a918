"""Whom the next candidate of a league is trained against."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.experiments.league.state import LeagueMember, LeagueState
from rookery.experiments.opponents import Member, Opponents, drawn_by
from rookery.policies.multiagent.frozen_opponent import EITHER
from rookery.policies.multiagent.solvers import SOLVERS, Mixture

PFSP = "pfsp"
WEIGHTING, SHARE_OF_LATEST = "squared", 0.35
"""AlphaStar's main agents: opponents that they lose to come oftener, and 35 % of the episodes against the newest main agent
(Vinyals et al. 2019, methods)."""
LEAST = 1e-3
"""Members of less probability are left out of a mixture."""


@dataclass(frozen=True)
class CandidatePlan:
    """A candidate that is to be trained.

    Args:
        iteration: from 1 on.
        population: what it plays.
        kind: "main" or "exploiter".
    """

    iteration: int
    population: str
    kind: str

    @property
    def name(self) -> str:
        """Name of the candidate and of its folder."""
        return f"{prefix(self.population)}-{self.iteration:02d}" + ("" if self.kind == "main" else f"-{self.kind}")


def prefix(population: str) -> str:
    """Begins the names of a population's members."""
    return "member" if population == EITHER else population


def plans(state: LeagueState) -> list[CandidatePlan]:
    """All candidates of a league, in order."""
    kinds = ("main", "exploiter") if state.settings.solver == PFSP else ("main",)
    return [
        CandidatePlan(iteration, population, kind)
        for iteration in range(1, state.settings.iterations + 1)
        for population in state.populations
        for kind in kinds
    ]


def independent(state: LeagueState) -> list[CandidatePlan]:
    """The next candidate, and those after it that neither meet it nor begin from it: in a league of two roles the exploiter
    beside the main candidate. Populations take turns: each trains against the newest members of the other."""
    left = plans(state)[len(state.rounds) :]
    together = left[:1]
    for plan in left[1:]:
        alike = (plan.iteration, plan.population) == (left[0].iteration, left[0].population)
        if state.symmetric or not alike or plan.kind != "exploiter":
            break
        together.append(plan)
    return together


def opposing(state: LeagueState, population: str) -> str:
    """The population that a population plays against."""
    return next((p for p in state.populations if p != population), population)


def strategy(state: LeagueState, until: int | None = None) -> Mixture:
    """The meta-strategy of both players, of the members up to an iteration."""
    return SOLVERS[state.settings.solver](state.payoffs(until)[0])


def mixture_of(state: LeagueState, population: str, until: int | None = None) -> dict[str, float]:
    """Probabilities of a population's members by the league's solver, without those that hardly play."""
    found = strategy(state, until)
    weights = found.rows if population == state.populations[0] else found.columns
    named = {m.name: float(w) for m, w in zip(state.of(population, until), weights, strict=True) if w >= LEAST}
    total = sum(named.values())
    return {name: w / total for name, w in named.items()}


def training_mixture(state: LeagueState, plan: CandidatePlan) -> dict[str, float]:
    """The opponents of a candidate, and how likely each is drawn, at first for a prioritized league."""
    others = state.of(opposing(state, plan.population))
    if state.settings.solver != PFSP:
        return mixture_of(state, opposing(state, plan.population))
    newest = _latest_main(others)
    if plan.kind == "exploiter":
        return {newest.name: 1.0}
    ordered = [m for m in others if m is not newest] + [newest]
    own = _latest_main(state.of(plan.population))
    score, _, _ = state.results()
    rows, columns = state.sides()
    names = [m.name for m in rows], [m.name for m in columns]
    first = plan.population == state.populations[0]
    rates = []
    for other in ordered:
        i, j = (own.name, other.name) if first else (other.name, own.name)
        rate = float(score[names[0].index(i), names[1].index(j)])
        rates.append(rate if first else 1.0 - rate)
    weights = drawn_by(rates, Opponents("", (), WEIGHTING, SHARE_OF_LATEST))
    return {m.name: w for m, w in zip(ordered, weights, strict=True)}


def _latest_main(members: list[LeagueMember]) -> LeagueMember:
    """The newest member that is no exploiter."""
    return [m for m in members if m.kind != "exploiter"][-1]


def opponents_of(
    state: LeagueState, plan: CandidatePlan, mixture: dict[str, float], policies: dict[str, str]
) -> Opponents:
    """The opponents that the training of a candidate reads.

    Args:
        state: of the league.
        plan: the candidate.
        mixture: of `training_mixture`.
        policies: of the members, by name, as the file will find them.
    """
    members = tuple(Member(policies[name], weight) for name, weight in mixture.items())
    if state.settings.solver == PFSP and plan.kind == "main":
        return Opponents(plan.population, members, WEIGHTING, SHARE_OF_LATEST)
    return Opponents(plan.population, members)


def parent_of(state: LeagueState, plan: CandidatePlan) -> str:
    """The policy that a candidate begins from: the newest trained main member of its population; where there is none, and for
    exploiters, that of the settings, "" for none."""
    trained = [m for m in state.of(plan.population) if m.kind == "main"]
    return init_of(state, plan.population) if plan.kind == "exploiter" or not trained else trained[-1].policy


def init_of(state: LeagueState, population: str) -> str:
    """The policy of the settings that a population begins from; "" for none."""
    return "" if population in state.without_init else state.settings.init


def shown_mixture(mixture: dict[str, float]) -> str:
    """A mixture in words."""
    largest = sorted(mixture.items(), key=lambda item: -item[1])[:4]
    more = f" and {len(mixture) - 4} more" if len(mixture) > 4 else ""
    return ", ".join(f"{name} {weight:.0%}" for name, weight in largest) + more


def shown_needed(needed: float) -> str:
    """A score that is needed, in words."""
    return "any score" if needed < 0.0 else f"more than {needed:.1%}"


def value_of(state: LeagueState, population: str, mixture: dict[str, float]) -> float:
    """Score that a population has already against a mixture of its opponents, by its own meta-strategy; a half where it plays
    itself."""
    if state.symmetric:
        return 0.5
    score, _, _ = state.results()
    own = strategy(state)
    rows, columns = state.sides()
    if population == state.populations[0]:
        return float(sum(w * (own.rows @ score[:, _index(columns, name)]) for name, w in mixture.items()))
    return float(sum(w * (1.0 - score[_index(rows, name)] @ own.columns) for name, w in mixture.items()))


def needed_score(state: LeagueState, population: str, mixture: dict[str, float]) -> float:
    """Score beyond which a candidate of a population becomes a member, against a mixture of its opponents."""
    return value_of(state, population, mixture) + state.settings.accept


def _index(members: list[LeagueMember], name: str) -> int:
    return [m.name for m in members].index(name)
