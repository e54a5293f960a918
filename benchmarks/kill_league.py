"""Leagues killed (SIGKILL) at random moments and gone on with, against an undisturbed one: all bits must be equal.

    python benchmarks/kill_league.py [--kills 20] [--seed 0] [--out FILE]

A small league of volley-1v1 (prioritized fictitious self-play, with exploiters and best responses) runs undisturbed once.
Then it is started again and again, killed at a moment that is drawn uniformly over the time that the undisturbed one took,
and gone on with until so many kills are made. At the end league.json and the weights of all trained policies are compared,
and the payoff matrix must be complete. Each runs in a fork of this process, which has loaded all kernels.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from result_file import write_result

from rookery.experiments.league.run import League, new_league, open_league
from rookery.experiments.league.state import FILE, LeagueSettings, digest_of, load

TRAINING: dict[str, Any] = {
    "num_envs": 16, "randomize": "none", "task_config": {"episode_s": 4.0}, "runner": {"checkpoint_every": 2},
    "ppo": {"hidden": [16], "rollout_steps": 16, "epochs": 1, "minibatches": 1},
}  # fmt: skip
STEPS = 2048
COLUMNS = [
    {"key": "solver", "title": "solver"},
    {"key": "kills", "title": "kills", "format": "d"},
    {"key": "leagues", "title": "leagues", "format": "d"},
    {"key": "equal", "title": "with the same bits", "format": "d"},
    {"key": "holes", "title": "holes", "format": "d"},
]


def play(folder: Path, solver: str) -> None:
    """Begin the league, or go on with it, to its end."""
    if (folder / FILE).exists():
        league = open_league(folder, lambda line: None)
    else:
        values = {"iterations": 2, "steps": STEPS, "attempts": 2, "accept": -1.0, "episodes": 16, "training": TRAINING}
        settings = LeagueSettings("volley-1v1", solver, first=("untrained", "controller"), **values)
        league = League(*new_league(settings, folder), lambda line: None)
    league.run()
    league.exploit(STEPS)


def child(folder: Path, solver: str) -> int:
    """The id of a process that plays."""
    pid = os.fork()
    if pid:
        return pid
    with open(os.devnull, "w") as null, redirect_stderr(null):
        try:
            play(folder, solver)
            os._exit(0)
        except BaseException as error:
            sys.__stdout__.write(f"{type(error).__name__}: {error}\n")  # type: ignore[union-attr]
            os._exit(1)


def killed_after(pid: int, seconds: float) -> bool:
    """Kill a process after a time; False where it has ended before."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError(f"a league ended with status {status}")
            return False
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def equal(one: Path, other: Path) -> bool:
    """True where two leagues have the same state and the same weights."""
    runs = [sorted(p.parent.relative_to(f) for p in f.glob("*/*/policy.safetensors")) for f in (one, other)]
    same = (one / FILE).read_bytes() == (other / FILE).read_bytes() and runs[0] == runs[1]
    return same and all(digest_of(one / run) == digest_of(other / run) != "" for run in runs[0])


def row(solver: str, kills: int, rng: random.Random, folder: Path) -> dict[str, Any]:
    """So many kills of leagues of a solver."""
    whole = folder / f"{solver}-whole"
    start = time.perf_counter()
    if os.waitpid(child(whole, solver), 0)[1]:
        raise RuntimeError("the undisturbed league failed")
    took = time.perf_counter() - start
    done = leagues = same = holes = 0
    while done < kills:
        other = folder / f"{solver}-{leagues}"
        while killed_after(child(other, solver), rng.uniform(0.0, took)):
            done += 1
            if done == kills:
                play(other, solver)
                break
        leagues += 1
        same += equal(whole, other)
        holes += len(load(other).holes())
    return {"solver": solver, "kills": done, "leagues": leagues, "equal": same, "holes": holes}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", nargs="+", default=["pfsp"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "kill-league.json")
    args = parser.parse_args()
    began = time.perf_counter()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(solver, args.kills, rng, Path(folder)) for solver in args.solvers]
    metrics = {"equal": "league.json byte for byte and the weights of all policies, against an undisturbed league"}
    write_result(args.out, f"python benchmarks/kill_league.py --kills {args.kills}", began, COLUMNS, rows, metrics)
    print(rows)
    return 0 if all(r["equal"] == r["leagues"] and not r["holes"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
