"""Teams of volley-3v3 against each other: hierarchies, flat policies by self-play and leagues; the script.

    python benchmarks/volley_teams.py [--train hierarchy ...] [--only "hierarchy : script" ...] [--episodes 1000]
        [--steps 6000000] [--runs runs/volley-teams] [--out FILE]

Trains what is not there, one after the other; a training that was stopped goes on. A league's team is its newest member. Half
of a pair's episodes are played from each side. Rows that are not measured anew stay.
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

from rookery.experiments.league.state import FILE
from rookery.experiments.match_env import CONTROLLER

TASK = "volley-3v3"
ROUNDS = 4  # candidates of a league, which share its control steps
FLAT = ("--config", "benchmarks/volley_flat.toml")
HIGH = ("--config", "benchmarks/volley_high.toml")
LEAGUE = ("--iterations", str(ROUNDS), "--attempts", "1", "--accept", "-1")
AGAINST_SCRIPT = ("--opponents", "benchmarks/opponents/script.toml")
TRAININGS = {
    "hierarchy, self-play": ("train", TASK, *HIGH),
    "hierarchy": ("train", TASK, *HIGH, "--init", "{hierarchy, self-play}", *AGAINST_SCRIPT),
    "hierarchy, league": (
        "league",
        TASK,
        "--solver",
        "psro-nash",
        "--first",
        "{hierarchy}",
        "controller",
        *HIGH,
        *LEAGUE,
    ),
    "hierarchy, both levels": (
        "train",
        TASK,
        *HIGH,
        "--init",
        "{hierarchy}",
        "--opponents",
        "[hierarchy + script]",
        "--learn-skills",
        "together",
    ),
    "MAPPO self-play": ("train", TASK, *FLAT, "--critic", "central"),
    "fictitious": ("league", TASK, "--solver", "fictitious", *FLAT, *LEAGUE),
    "PSRO Nash": ("league", TASK, "--solver", "psro-nash", *FLAT, *LEAGUE),
}
"""Of each team: the command, in which a name in braces is that team's policy, and names in brackets a file of opponents."""
FLAT_TEAMS = ("MAPPO self-play", "fictitious", "PSRO Nash")
SHARES = {"hierarchy": 2.0, "hierarchy, both levels": 0.3} | dict.fromkeys(FLAT_TEAMS, 1.5)
"""Control steps of a training, as shares of those of the first. A hierarchy learns from decisions alone, a flat team from every
step: flat teams get fewer steps. The seconds that each team learned for are in the rows; they differ."""
SCRIPT = "script"
OTHERS = (*FLAT_TEAMS, SCRIPT)
HIERARCHIES = ("hierarchy, self-play", "hierarchy", "hierarchy, league", "hierarchy, both levels")
PAIRS = {
    f"{a} : {b}": (a, b)
    for a, b in [*((h, o) for h in HIERARCHIES for o in OTHERS), ("hierarchy, both levels", "hierarchy")]
}
COLUMNS = [
    {"key": "team", "title": "team"},
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


def folder_of(name: str, runs: Path) -> Path:
    """Where a team's trainings are."""
    return runs / name.replace(", ", "-").replace(" ", "-").lower()


def team(name: str, runs: Path, steps: int) -> str:
    """The policy of a team, which is trained for so many control steps where it is not there.

    Raises:
        CalledProcessError: a training failed; it has said why.
        SystemExit: it is there, and was trained for another number of steps.
    """
    if name == SCRIPT:
        return CONTROLLER
    folder = folder_of(name, runs)
    done = folder.with_suffix(".done")
    if done.exists() and done.read_text() not in ("", str(steps)):  # older ones do not say
        raise SystemExit(f"{folder} is of --steps {done.read_text()}: give the same, or another --runs.")
    if not done.exists():
        words = [_filled(word, folder, steps) for word in TRAININGS[name]]
        each = steps * SHARES.get(name, 1.0) / (ROUNDS if words[0] == "league" else 1)
        words += ["--steps", f"{each:.0f}", "--out", str(folder)]
        if (folder / FILE).exists():
            words = ["league", str(folder)]
        elif any((folder / "checkpoints").glob("*")):
            words = ["train", "--resume", str(folder)]
        if not has_learned(folder, each):  # or this program was stopped just after it
            print("rookery", *words, flush=True)
            subprocess.run([*ROOKERY, *words], check=True)
        done.write_text(str(steps))
    return str(newest(folder))


def _filled(word: str, folder: Path, steps: int) -> str:
    """A word of a training's command, for the folder of its team: what stands for policies is trained."""
    if word[0] not in "{[":
        return word
    members = [team(name, folder.parent, steps) for name in word[1:-1].split(" + ")]
    if word[0] == "{":
        return members[0]
    file = folder.with_suffix(".toml")
    listed = ", ".join(f'{{policy = "{m if m == CONTROLLER else Path(m).resolve()}"}}' for m in members)
    file.write_text(f'team = "either"\nmembers = [{listed}]\n')
    return str(file)


def learned(name: str, runs: Path) -> float:
    """s, of rollouts and updates of a team's trainings and of those that they began from."""
    before = (learned(word[1:-1], runs) for word in TRAININGS[name] if word.startswith("{"))
    return training_seconds(folder_of(name, runs)) + sum(before)


def row(case: str, runs: Path, steps: int, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of a pair."""
    names = PAIRS[case]
    policies = [team(name, runs, steps) for name in names]
    words = ["--episodes", str(episodes), "--seed", str(seed), "--randomize", "default", "--json"]
    command = [*ROOKERY, "match", TASK, *policies, *words]
    played = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return {
        "team": names[0], "against": names[1], "won": played["win_rate"], "low": played["win_interval"][0],
        "high": played["win_interval"][1], "lost": played["wins"]["b"] / episodes, "decided": played["decided_rate"],
        "crossings": played["metrics"]["crossings"], "episodes": episodes, "causes": played["causes"],
        "trained": f"{' '.join(TRAININGS[names[0]])} for {steps * SHARES.get(names[0], 1.0):,.0f} control steps",
        "learned": round(learned(names[0], runs)),
        "policy_sha256": digest(Path(policies[0])),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--train", nargs="*", default=[], choices=list(TRAININGS))
    parser.add_argument("--only", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--steps", type=int, default=6_000_000)
    parser.add_argument("--runs", type=Path, default=Path("runs/volley-teams"))
    parser.add_argument("--out", type=Path, default=RESULTS / "volley-teams.json")
    args = parser.parse_args(arguments)
    args.runs.mkdir(parents=True, exist_ok=True)
    for name in args.train:
        team(name, args.runs, args.steps)
    rows = (
        {f"{r['team']} : {r['against']}": r for r in json.loads(args.out.read_text())["rows"]}
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
