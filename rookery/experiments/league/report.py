"""The report of a league: one table, what ratings are worth, exploitability over the iterations, and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.experiments.league.arena import interval, score_of
from rookery.experiments.league.mixtures import mixture_of, opposing, shown_needed, strategy
from rookery.experiments.league.pictures import Series, cross_play, diagram
from rookery.experiments.league.state import BestResponse, LeagueState
from rookery.experiments.runs import write_json
from rookery.policies.multiagent.ratings import ELO, Cyclicity, Ratings, bradley_terry, cycle, cyclicity, reversal
from rookery.policies.multiagent.solvers import SOLVERS, Mixture, exploitability
from rookery.sim.errors import RookeryError
from rookery.sim.files import replace

__all__ = ["report", "write_report"]

Array = NDArray[np.float64]
CYCLIC = "The game is cyclic where this league plays"


def report(state: LeagueState) -> dict[str, Any]:
    """Everything that is known of a league, as JSON values.

    Raises:
        RookeryError: pairs that have not played.
    """
    holes = state.holes()
    if not state.members:
        raise RookeryError("the league has no members yet: go on with it first.")
    if holes:
        a, b = holes[0]
        raise RookeryError(f"{a.name} and {b.name} of the league have not played yet: go on with it first.")
    rows, columns = state.sides()
    score, variance, starts = state.results()
    low, high = _intervals(state, score, variance, starts)
    rated = _ratings(state, score, variance, starts)
    cyclic = cyclicity(2.0 * score - 1.0, 4.0 * variance)
    rank = SOLVERS["alpha-rank"](2.0 * score - 1.0)
    members = []
    for k, member in enumerate([*rows, *([] if state.symmetric else columns)]):
        first = k < len(rows)
        i = k if first else k - len(rows)
        mixture = mixture_of(state, member.population)
        results = score[i] if first else 1.0 - score[:, i]
        others = np.delete(results, i) if state.symmetric and len(results) > 1 else results
        members.append(
            {
                "name": member.name, "population": member.population, "kind": member.kind, "iteration": member.iteration,
                "steps": member.steps, "elo": float(rated.elo[k]), "elo_half_width": float(rated.half_width[k]),
                "score": float(others.mean()), "probability": mixture.get(member.name, 0.0),
                "alpha_rank": float((rank.rows if first else rank.columns)[i]),
            }
        )  # fmt: skip
    return {
        "task": state.settings.task, "solver": state.settings.solver, "populations": list(state.populations),
        "episodes_of_a_pair": state.settings.episodes, "members": members,
        "rows": [m.name for m in rows], "columns": [m.name for m in columns],
        "score": score.tolist(), "low": low.tolist(), "high": high.tolist(),
        "cyclic_share": cyclic.share, "cyclic_share_by_chance": cyclic.by_chance,
        "cyclic": _sentence(state, cyclic, low, high),
        "exploitability": exploitability_rows(state),
        "rounds": [_round(r) for r in state.rounds],
    }  # fmt: skip


def _intervals(state: LeagueState, score: Array, variance: Array, starts: Array) -> tuple[Array, Array]:
    """Ends [R, C] of the intervals of all scores."""
    episodes = state.settings.episodes
    ends = np.array([interval(*each, episodes) for each in zip(score.flat, variance.flat, starts.flat, strict=True)])
    low, high = ends[:, 0].reshape(score.shape), ends[:, 1].reshape(score.shape)
    if state.symmetric:
        np.fill_diagonal(low, 0.5)
        np.fill_diagonal(high, 0.5)
    return low, high


def _ratings(state: LeagueState, score: Array, variance: Array, starts: Array) -> Ratings:
    """Ratings of all members; of two roles, both together."""
    whole = np.ones_like(score)
    pairs = np.argwhere(np.triu(whole, 1) if state.symmetric else whole)
    first, second = pairs[:, 0], pairs[:, 1]
    values, var, differ = score[first, second], variance[first, second], starts[first, second]
    before = 0 if state.symmetric else len(score)  # members of the column player come after those of the row player
    count = before + score.shape[1]
    most = np.minimum(2.0 * differ, state.settings.episodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        games = np.where(var > 0.0, np.minimum(values * (1.0 - values) / var, most), differ)
    return bradley_terry(first, second + before, values, np.maximum(games, 1.0), count)


def _sentence(state: LeagueState, cyclic: Cyclicity, low: Array, high: Array) -> str:
    """The worth of the ratings, for people."""
    rows, columns = state.sides()
    share = f"{cyclic.share:.0%} of the payoffs' squares are cyclic, of which chance alone would give {cyclic.by_chance:.0%}"
    if state.symmetric:
        ring = [rows[i].name for i in cycle(low)]
        if ring:
            circle = " beats ".join([*ring, ring[0]])
            return f"{CYCLIC}: {circle}, each beyond its interval. {share}: no rating tells who wins."
    elif (found := reversal(low, high)) is not None:
        one, other, this, that = (side[n].name for side, n in zip((rows, rows, columns, columns), found, strict=True))
        return (
            f"{CYCLIC}: {one} does better than {other} against {this} and worse against {that}, both beyond the intervals. "
            f"{share}: no rating tells who wins."
        )
    if cyclic.real:
        return f"No circle is beyond its intervals, but {share}: read the matrix beside the ratings."
    return f"No circle is seen: {share}."


# Exploitability


def exploitability_rows(state: LeagueState) -> list[dict[str, Any]]:
    """For each iteration, what the mixture of the league as it was then loses (half of NashConv, as a payoff from -1 to 1): to
    the best members that the league has now, and to fresh best responses."""
    whole, _ = state.payoffs()
    rows, columns = state.sides()
    out = []
    for iteration in sorted({0, *(r.iteration for r in state.rounds)}):
        if not all(state.of(p, iteration) for p in state.populations):
            continue
        then = strategy(state, iteration)
        earlier = state.sides(iteration)
        wide = Mixture(*(_spread(now, old, part) for now, old, part in zip(
            (rows, columns), earlier, (then.rows, then.columns), strict=True)))  # fmt: skip
        best = exploitability(whole, wide)
        row: dict[str, Any] = {"iteration": iteration, "by_members": 0.5 * sum(best)}
        fresh = [b for b in state.best_responses if b.iteration == iteration]
        if fresh:
            row["best_responses"] = _fresh(state, fresh, dict(zip(state.populations, best, strict=False)))
        out.append(row)
    return out


def _spread(now: list[Any], old: list[Any], part: Array) -> Array:
    """Probabilities of the members then, over all members now."""
    place = {m.name: i for i, m in enumerate(now)}
    out = np.zeros(len(now))
    for member, weight in zip(old, part, strict=True):
        out[place[member.name]] = weight
    return out


def _fresh(state: LeagueState, found: list[BestResponse], members: dict[str, float]) -> list[dict[str, Any]]:
    """By budget, the exploitability that fresh best responses of all populations show; a lower bound, as they are trained so
    long and no longer. Where a population's is worse than the best of its members, that one counts.

    Args:
        found: of one iteration.
        members: by population, the payoff of its best member against the same mixture.
    """
    limits = {p: _best_member(state, p, found[0].iteration) for p in state.populations}
    out = []
    for budget in sorted({b.budget for b in found}):
        mine = [b for b in found if b.budget == budget]
        if len(mine) < len(state.populations):
            continue
        gains = [max(2.0 * b.score - 1.0, members[b.population]) for b in mine]
        half = []
        for gain, b in zip(gains, mine, strict=True):  # the greater of two: so are its limits
            low, high = (max(own, known) for own, known in zip((b.low, b.high), limits[b.population], strict=True))
            half.append(max(2.0 * high - 1.0 - gain, gain - 2.0 * low + 1.0))
        value = sum(gains) / len(gains)
        width = float(np.sqrt(sum(h * h for h in half))) / len(half)
        out.append(
            {
                "steps": budget, "exploitability": value, "half_width": width,
                "scores": {b.population: [b.score, b.low, b.high] for b in mine},
            }
        )  # fmt: skip
    return out


def _best_member(state: LeagueState, population: str, iteration: int) -> tuple[float, float]:
    """Limits of the score of a population's best member against the mixture of its opponents at an iteration, at 95 %."""
    mixture = mixture_of(state, opposing(state, population), iteration)
    _, low, high = max(score_of(m.name, mixture, state.cells) for m in state.of(population))
    return low, high


def _round(done: Any) -> dict[str, Any]:
    """A candidate; `score`, `low`, `high` and `needed` are None of one that was not trained."""
    last = done.attempts[-1] if done.attempts else None
    return {
        "name": done.name, "iteration": done.iteration, "population": done.population, "kind": done.kind,
        "accepted": done.accepted, "steps": last.steps if last else 0, "against": done.mixture,
        **{k: getattr(last, k, None) for k in ("score", "low", "high", "needed")},
    }  # fmt: skip


# Files


def write_report(folder: Path, state: LeagueState) -> dict[str, Any]:
    """Write report.json, report.md and the pictures; returns the report."""
    found = report(state)
    write_json(folder / "report.json", found)
    title = f"{found['task']}, {found['solver']}: wins of the row against the column, %"
    pictures = {"cross_play": cross_play(np.array(found["score"]), found["rows"], found["columns"], title)}
    pictures["ratings"] = diagram(_rating_lines(found), f"{found['task']}: ratings by iteration", "iteration", "Elo")
    lines = _exploitability_lines(found)
    pictures["exploitability"] = diagram(
        lines, f"{found['task']}, {found['solver']}: exploitability of the mixture", "iteration", "payoff lost"
    )
    for name, text in pictures.items():
        replace(folder / f"{name}.svg", text.encode())
    replace(folder / "report.md", _page(found).encode())
    return found


def _rating_lines(found: dict[str, Any]) -> list[Series]:
    lines = []
    for population in found["populations"]:
        for kind, label in (("main", population), ("exploiter", f"{population}, exploiters")):
            own = [
                m for m in found["members"]
                if m["population"] == population and (m["kind"] == "exploiter") == (kind == "exploiter")
            ]  # fmt: skip
            if own:
                columns = [[m[key] for m in own] for key in ("iteration", "elo", "elo_half_width")]
                lines.append(Series(label, *columns))
    return lines


def _exploitability_lines(found: dict[str, Any]) -> list[Series]:
    rows = found["exploitability"]
    lines = [Series("to the league's members", [r["iteration"] for r in rows], [r["by_members"] for r in rows])]
    budgets = sorted({b["steps"] for r in rows for b in r.get("best_responses", [])})
    for budget in budgets:
        points = [(r["iteration"], b) for r in rows for b in r.get("best_responses", []) if b["steps"] == budget]
        columns = [x for x, _ in points], [b["exploitability"] for _, b in points], [b["half_width"] for _, b in points]
        lines.append(Series(f"to a best response, {budget:,} steps", *columns))
    return lines


def _page(found: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# League of {found['task']}, {found['solver']}", ""]
    lines += [
        "| member | kind | steps | Elo | score | probability | alpha-rank |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for m in found["members"]:
        lines.append(
            f"| {m['name']} | {m['kind']} | {m['steps']:,} | {m['elo']:.0f} ± {m['elo_half_width']:.0f} | {m['score']:.1%} | "
            f"{m['probability']:.1%} | {m['alpha_rank']:.1%} |"
        )
    lines += [
        "",
        found["cyclic"],
        "",
        f"{ELO * np.log(10.0):.0f} Elo points are odds of 10 : 1; intervals are at 95 %.",
        "",
    ]
    lines += ["![cross-play](cross_play.svg)", "", "![ratings](ratings.svg)", "", "## Exploitability", ""]
    lines += ["| iteration | to the members | best responses, steps | exploitability |", "|---:|---:|---:|---:|"]
    for row in found["exploitability"]:
        fresh = row.get("best_responses") or [{}]
        for b in fresh:
            shown = f"{b['steps']:,} | {b['exploitability']:.3f} ± {b['half_width']:.3f}" if b else " | "
            lines.append(f"| {row['iteration']} | {row['by_members']:.3f} | {shown} |")
    lines += ["", "Half of NashConv, as a payoff: 0 cannot be exploited, 1 loses every episode.", ""]
    lines += ["A best response shows a lower bound: longer training may find more.", ""]
    if any(
        b["exploitability"] <= row["by_members"]
        for row in found["exploitability"]
        for b in row.get("best_responses") or ()
    ):
        lines += [
            "Where the two columns are equal, no best response won more than a member: its training was too short to tell.",
            "",
        ]
    lines += ["![exploitability](exploitability.svg)", "", "## Candidates", ""]
    lines += ["| candidate | steps | score against its mixture | needed | member |", "|---|---:|---:|---:|---|"]
    for r in found["rounds"]:
        score = (
            f"{r['score']:.1%} ({r['low']:.1%} to {r['high']:.1%}) | {shown_needed(r['needed'])}"
            if r["steps"]
            else "not trained: its population wins every episode | "
        )
        lines.append(f"| {r['name']} | {r['steps']:,} | {score} | {'yes' if r['accepted'] else 'no'} |")
    return "\n".join(lines) + "\n"
