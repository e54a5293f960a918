"""A league at a small budget, and its exploitability by fresh best responses over the iterations.

    python benchmarks/league.py [--task drone-tag] [--solvers psro-nash self-play] [--iterations 4] [--steps 600000]
        [--exploit 600000] [--at 0 2 4] [--seeds 0] [--runs runs/leagues] [--out FILE]

Every solver has the same budgets. Leagues stand in --runs and go on where they were stopped; the file is written after each.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from machine import commit
from result_file import write_result

from rookery.experiments.league.report import write_report
from rookery.experiments.league.run import League, new_league, open_league
from rookery.experiments.league.state import FILE, LeagueSettings
from rookery.experiments.settings import read_settings

COLUMNS = [
    {"key": "task", "title": "task"},
    {"key": "solver", "title": "solver"},
    {"key": "seed", "title": "seed"},
    {"key": "iteration", "title": "iteration"},
    {"key": "members", "title": "members"},
    {"key": "by_members", "title": "to the league's members", "format": ".3f"},
    {"key": "steps", "title": "steps of a best response", "format": ",d"},
    {"key": "exploitability", "title": "exploitability", "format": ".3f"},
    {"key": "half_width", "title": "±, 95 %", "format": ".3f"},
    {"key": "scores", "title": "best responses' scores"},
]
METRICS = {
    "exploitability": "half of NashConv, as a payoff from -1 to 1, by fresh best responses of --exploit steps against the "
    "frozen mixture of that iteration, or by the league's best members where these are better; a lower bound",
    "half_width": "to the wider side, of the greater of the two in each population: a "
    "member of the mixture wins exactly half against itself",
    "by_members": "the same to the best members that the league has at its end",
    "scores": "of each population's best response, a half where nobody wins",
}


def rows_of(found: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """The table's rows of a league's report."""
    out = []
    for row in found["exploitability"]:
        members = sum(m["iteration"] <= row["iteration"] for m in found["members"])
        known = {"task": found["task"], "solver": found["solver"], "seed": seed, "iteration": row["iteration"]}
        known |= {"members": members, "by_members": row["by_members"]} | {"commit": commit()}
        for best in row.get("best_responses", []):
            told = ", ".join(f"{name} {s[0]:.3f} ({s[1]:.3f} to {s[2]:.3f})" for name, s in best["scores"].items())
            out.append(known | {k: best[k] for k in ("exploitability", "half_width", "steps")} | {"scores": told})
    return out


def play(args: argparse.Namespace, solver: str, seed: int) -> League:
    """A league, trained and judged."""
    folder = args.runs / f"{args.task}-{solver}-{seed}"

    def tell(line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {solver} {seed}: {line}", flush=True)

    if (folder / FILE).exists():
        league = open_league(folder, tell, iterations=args.iterations)
    else:
        training = read_settings(args.config) if args.config else {}
        values = {
            "iterations": args.iterations,
            "steps": args.steps,
            "attempts": args.attempts,
            "episodes": args.episodes,
        }
        who = {"first": tuple(args.first), "init": args.init}
        settings = LeagueSettings(args.task, solver, seed=seed, training=training, **who, **values)
        league = League(*new_league(settings, folder), tell)
    league.run()
    for iteration in args.at:
        league.exploit(args.exploit, iteration)
    return league


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="drone-tag")
    parser.add_argument("--solvers", nargs="+", default=["psro-nash", "self-play"])
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--steps", type=int, default=600_000)
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--exploit", type=int, default=600_000)
    parser.add_argument("--at", type=int, nargs="+", default=[0, 2, 4])
    parser.add_argument("--first", nargs="+", default=["untrained"])
    parser.add_argument("--init", default="", help="what best responses and first candidates begin from")
    parser.add_argument("--config", type=Path, default=None, help="settings of the trainings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/leagues"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "league.json")
    args = parser.parse_args()
    began = time.perf_counter()
    rows: list[dict[str, Any]] = []
    payoffs: list[dict[str, Any]] = []
    for seed in args.seeds:
        for solver in args.solvers:
            league = play(args, solver, seed)
            found = write_report(league.folder, league.state)
            rows += rows_of(found, seed)
            payoffs.append(
                {"seed": seed} | {k: found[k] for k in ("solver", "rows", "columns", "score", "low", "high")}
            )
            words = ["python benchmarks/league.py", "--task", args.task, "--solvers", *args.solvers, "--iterations"]
            words += [args.iterations, "--steps", args.steps, "--exploit", args.exploit, "--at", *args.at]
            words += ["--seeds", *args.seeds]
            write_result(args.out, " ".join(map(str, words)), began, COLUMNS, rows, METRICS, payoffs=payoffs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
