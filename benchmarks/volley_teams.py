"""Teams of volley-3v3 against each other: hierarchies, flat policies by self-play and leagues; the script.

    python benchmarks/volley_teams.py [--train "MAPPO self-play" ... [--keep]] [--only "hierarchy : script" ...]
        [--episodes 1000] [--steps 6000000] [--runs runs/volley-teams] [--out FILE]

Trains what is not there, one after the other; a training that was stopped goes on. The hierarchies are the stages of one
`rookery reproduce volley-3v3`, for each seed. A league's team is its newest member. Flat teams are those in benchmarks/teams,
where --keep puts those of --train, unless they were trained in --runs. Half of a pair's episodes are played from each side.
Rows that are not measured anew stay.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation import ROOKERY, has_learned, training_seconds
from result_file import RESULTS, digest, measured, told, write_result
from zoo import store

from rookery.experiments.league.state import FILE
from rookery.experiments.match_env import CONTROLLER
from rookery.experiments.recipes import find_recipe

TASK = "volley-3v3"
KEPT = Path(__file__).parent / "teams"
ROUNDS = 4  # candidates of a league, which share its control steps
FLAT = ("--config", "benchmarks/volley_flat.toml")
LEAGUE = ("--iterations", str(ROUNDS), "--attempts", "1", "--accept", "-1")
TRAININGS = {
    "MAPPO self-play": ("train", TASK, *FLAT, "--critic", "central"),
    "fictitious": ("league", TASK, "--solver", "fictitious", *FLAT, *LEAGUE),
    "PSRO Nash": ("league", TASK, "--solver", "psro-nash", *FLAT, *LEAGUE),
}
"""Of each flat team: the command."""
FLAT_SHARE = 1.5
"""Control steps of a flat team, as a share of --steps. A hierarchy learns from decisions alone, a flat team from every step.
The seconds that each team learned for are in the rows; they differ."""
STAGES = {"hierarchy, self-play": "self-play", "hierarchy": "against-script", "hierarchy, both levels": "both-levels"}
"""Of each hierarchy: the stage of the recipe, the first of which has --steps control steps."""
SEEDS = (0, 1, 2)
"""Of the recipe."""
SCRIPT = "script"
OTHERS = (*TRAININGS, SCRIPT)
BEST = "hierarchy, both levels"
BEFORE = "hierarchy"  # it began from that


def case_of(team: str, against: str, seed: int) -> str:
    """Name of a pair."""
    return f"{team} : {against}" + (f", seed {seed}" if seed else "")


PAIRS = {
    case_of(*pair): pair
    for pair in (
        *((a, b, 0) for a in STAGES for b in OTHERS),
        *((BEST, b, seed) for seed in SEEDS for b in (*OTHERS, BEFORE)),
    )
}
"""By name: the teams, and the hierarchies' seed."""
COLUMNS = [
    {"key": "team", "title": "team"},
    {"key": "seed", "title": "seed"},
    {"key": "against", "title": "against"},
    {"key": "won", "title": "won, of all rallies", "format": ".3f"},
    {"key": "low", "title": "95 %, from", "format": ".3f"},
    {"key": "high", "title": "to", "format": ".3f"},
    {"key": "lost", "title": "lost", "format": ".3f"},
    {"key": "decided", "title": "won, of those that somebody won", "format": ".3f"},
    {"key": "learned", "title": "learned for, s", "format": ",.0f"},
    {"key": "crossings", "title": "crossings of the net", "format": ".2f"},
    {"key": "episodes", "title": "rallies", "format": ",d"},
    {"key": "commit", "title": "commit"},
]
METRICS = {
    "seed": "of the hierarchies' trainings; the flat teams have one",
    "won": "half of the rallies played from each side, under the default randomization; those that nobody wins within the time"
    " limit count as not won",
    "against": f"a league's newest member, of {ROUNDS} candidates, which share its control steps. The mixture of fictitious"
    " self-play is that of PSRO's uniform solver, too",
    "learned": "s, the team's own trainings and those that they began from, rollouts and updates, without a league's matches",
    "crossings": "mean of all rallies",
}


def newest(folder: Path) -> Path:
    """The policy of a team's folder: a run, or the newest member of a league."""
    if not (folder / FILE).exists():
        return folder
    members = json.loads((folder / FILE).read_text())["state"]["members"]
    return folder / str(max(members, key=lambda m: m["iteration"])["policy"])


def folder_of(name: str, runs: Path, seed: int = 0) -> Path:
    """Where a team is trained; a hierarchy is a stage in it."""
    return runs / (f"hierarchies-{seed}" if name in STAGES else short(name))


def short(name: str) -> str:
    """Name of a team's folder."""
    return name.replace(" ", "-").lower()


def opponent(name: str, runs: Path, steps: int, seed: int = 0) -> str:
    """`team`, or the flat one that is kept, where none was trained in `runs`."""
    kept = KEPT / short(name)
    if name in TRAININGS and kept.is_dir() and not folder_of(name, runs).with_suffix(".done").exists():
        return str(kept)
    return team(name, runs, steps, seed)


def team(name: str, runs: Path, steps: int, seed: int = 0) -> str:
    """The policy of a team, which is trained where it is not there.

    Args:
        name: of the team.
        runs: where trainings are.
        steps: control steps of the hierarchies' first stage, from which all budgets follow.
        seed: of the hierarchies.

    Raises:
        CalledProcessError: a training failed; it has said why.
        SystemExit: it is there, and was trained for another number of steps.
    """
    if name == SCRIPT:
        return CONTROLLER
    folder = folder_of(name, runs, seed)
    done = folder.with_suffix(".done")
    if done.exists() and done.read_text() != str(steps):
        raise SystemExit(f"{folder} is of --steps {done.read_text()}: give the same, or another --runs.")
    if not done.exists():
        if name in STAGES:
            scale = steps / find_recipe(TASK).stages[0].values["runner"]["total_steps"]
            _run(["reproduce", TASK, "--seed", str(seed), "--scale", f"{scale:g}", "--out", str(folder)])
        else:
            _train(TRAININGS[name], FLAT_SHARE * steps, folder)
        done.write_text(str(steps))
    return str(folder / STAGES[name] if name in STAGES else newest(folder))


def _train(command: Sequence[str], steps: float, folder: Path) -> None:
    """Train a flat team, or go on with it."""
    each = steps / (ROUNDS if command[0] == "league" else 1)
    words = [*command, "--steps", f"{each:.0f}", "--out", str(folder)]
    if (folder / FILE).exists():
        words = ["league", str(folder)]
    elif any((folder / "checkpoints").glob("*")):
        words = ["train", "--resume", str(folder)]
    if not has_learned(folder, each):  # or this program was stopped just after it
        _run(words)


def _run(words: Sequence[str]) -> None:
    print("rookery", *words, flush=True)
    subprocess.run([*ROOKERY, *words], check=True)


def learned(name: str, runs: Path, seed: int) -> float:
    """s, of rollouts and updates of a team's trainings and of those that they began from."""
    folder = folder_of(name, runs, seed)
    if name not in STAGES:
        return training_seconds(folder)
    stages = list(STAGES.values())
    return sum(training_seconds(folder / stage) for stage in stages[: stages.index(STAGES[name]) + 1])


def row(case: str, runs: Path, steps: int, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of a pair."""
    *names, training = PAIRS[case]
    policies = [team(names[0], runs, steps, training), opponent(names[1], runs, steps, training)]
    words = ["--episodes", str(episodes), "--seed", str(seed), "--randomize", "default", "--json"]
    command = [*ROOKERY, "match", TASK, *policies, *words]
    played = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return {
        "team": names[0], "seed": training, "against": names[1], "won": played["win_rate"], "low": played["win_interval"][0],
        "high": played["win_interval"][1], "lost": played["wins"]["b"] / episodes, "decided": played["decided_rate"],
        "crossings": played["metrics"]["crossings"], "episodes": episodes, "causes": played["causes"],
        "learned": round(learned(names[0], runs, training)),
        "policy_sha256": digest(Path(policies[0])),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--train", nargs="*", default=[], choices=[*STAGES, *TRAININGS])
    parser.add_argument("--keep", action="store_true", help="put the flat teams of --train into benchmarks/teams")
    parser.add_argument("--only", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--steps", type=int, default=6_000_000)
    parser.add_argument("--runs", type=Path, default=Path("runs/volley-teams"))
    parser.add_argument("--out", type=Path, default=RESULTS / "volley-teams.json")
    args = parser.parse_args(arguments)
    args.runs.mkdir(parents=True, exist_ok=True)
    for name in args.train:
        policy = team(name, args.runs, args.steps)
        if args.keep and name in TRAININGS:
            store(Path(policy), short(name), KEPT)
    rows = (
        {case_of(r["team"], r["against"], r["seed"]): r for r in json.loads(args.out.read_text())["rows"]}
        if args.out.exists()
        else {}
    )
    command = f"python benchmarks/volley_teams.py --episodes {args.episodes} --seed {args.seed}"
    for ordered, start in measured(
        rows, list(PAIRS), args.only, lambda c: row(c, args.runs, args.steps, args.episodes, args.seed)
    ):
        write_result(args.out, command, start, COLUMNS, ordered, METRICS, **told(ordered))
    return 0


if __name__ == "__main__":
    sys.exit(main())
