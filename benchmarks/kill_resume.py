"""Trainings killed (SIGKILL) at random moments and resumed, against an undisturbed one: all bits must be equal.

    python benchmarks/kill_resume.py [--moments 20] [--algorithms ppo ppo-gru sac sac-gru] [--seed 0] [--out FILE]

For each algorithm one small training of drone-hover is made without disturbance. Then the same training is started, killed at
a moment that is drawn uniformly over its steps (and, within an update, over time), resumed by `rookery train --resume` (started
again where it had no checkpoint yet) and finished. All tensors of the last checkpoint and of the policy are compared. Trainings
run in forks of this process, which has imported everything: a start takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from machine import commit, machine
from safetensors.torch import load_file

import rookery.training  # noqa: F401 (imported before the forks)
from rookery.cli.main import main as command_line
from rookery.demonstrations import record

TASK = "drone-hover"
EPISODE = {"episode_s": 0.6, "settled_s": 0.1}
SMALL = ["--hidden", "16"]
PPO = ["--steps", "6144", "--rollout-steps", "16", "--epochs", "2", "--minibatches", "2"]
SAC = ["--steps", "4096", "--rollout-steps", "8", "--learning-starts", "512", "--buffer-size", "3000", "--batch", "64"]
SEQUENCES = ["--memory", "gru", "--memory-size", "8", "--memory-burn-in", "4", "--n-step", "1"]
WORDS = {
    "ppo": PPO,
    "ppo-gru": [*PPO, "--memory", "gru", "--memory-size", "8"],
    "sac": SAC,
    "sac-gru": [*SAC, *SEQUENCES],
    "td3-gru": [*SAC, *SEQUENCES],
    "dagger": ["--steps", "6144", "--rollout-steps", "16", "--batch", "128"],
    "bc": ["--steps", "6000", "--batch", "64"],
}
"""Options of each training by name, which begins with its algorithm: 32 worlds, a checkpoint after each update."""
LIMIT_S = 900.0
"""Bound of a training's duration, on a busy machine."""


def launch(words: list[str]) -> int:
    """A training in a fork; its process id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        torch.set_num_threads(1)
        code = command_line(["train", *words])
    finally:
        os._exit(code)


def wait(process: int, limit_s: float) -> int | None:
    """Exit code of a fork, negative for a signal; None where it still runs after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.001)


def finish(words: list[str]) -> float:
    """Run a training to its end; seconds."""
    start = time.monotonic()
    process = launch(words)
    code = wait(process, LIMIT_S)
    if code != 0:
        if code is None:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        raise SystemExit(f"`rookery train {' '.join(words)}` ended with {code}.")
    return time.monotonic() - start


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of a run's newest checkpoint and of its policy."""
    newest = max(run.glob("checkpoints/[0-9]*"))
    files = [*newest.glob("*.safetensors"), *run.glob("*.safetensors")]
    return {f"{file.name}: {name}": value for file in files for name, value in load_file(file).items()}


def differences(wanted: dict[str, torch.Tensor], got: dict[str, torch.Tensor]) -> list[str]:
    """Names of the tensors that differ or are missing."""
    names = wanted.keys() | got.keys()
    return sorted(n for n in names if n not in wanted or n not in got or not torch.equal(wanted[n], got[n]))


def measure(algorithm: str, words: list[str], moments: int, chance: random.Random, folder: Path) -> dict[str, Any]:
    """Kill and resume a training at so many moments.

    Returns:
        duration_s of the undisturbed training, and of each moment: the steps in the newest checkpoint when it was killed (0
        for none), seconds after the start, and the names of tensors that differ at the end.
    """
    whole = folder / algorithm
    duration = finish([*words, "--out", str(whole)])
    wanted = tensors(whole)
    total = newest_steps(whole)
    kills: list[dict[str, Any]] = []
    while len(kills) < moments:
        run = folder / f"{algorithm}-killed"
        shutil.rmtree(run, ignore_errors=True)
        start = time.monotonic()
        process = launch([*words, "--out", str(run)])
        if not wait_for_steps(process, run, chance.uniform(0.0, 0.95) * total, chance.uniform(0.0, 0.05) * duration):
            continue  # it ended before the moment came
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        seconds = time.monotonic() - start
        steps = newest_steps(run)
        if not steps:
            shutil.rmtree(run, ignore_errors=True)
            finish([*words, "--out", str(run)])
        elif steps < total:
            finish(["--resume", str(run)])
        wrong = differences(wanted, tensors(run))
        kills.append({"steps": steps, "seconds": round(seconds, 3), "differences": wrong})
        print(
            f"{algorithm}: killed after {seconds:.2f} s, {steps} of {total} steps saved, {len(wrong)} differences",
            flush=True,
        )
    return {"duration_s": round(duration, 2), "total_steps": total, "tensors": len(wanted), "kills": kills}


def wait_for_steps(process: int, run: Path, steps: float, more_s: float) -> bool:
    """Wait until a checkpoint has so many steps, then for some seconds more; False where the training has ended."""
    while newest_steps(run) < steps:
        if wait(process, 0.002) is not None:
            return False
    return wait(process, more_s) is None


def newest_steps(run: Path) -> int:
    """Steps in a run's newest checkpoint; 0 where there is none."""
    return max((int(path.name) for path in run.glob("checkpoints/[0-9]*")), default=0)


def result(measured: dict[str, dict[str, Any]], moments: int, seed: int, wall_s: float) -> dict[str, Any]:
    """The results file, see benchmarks/tables.py.

    Args:
        measured: by algorithm, as `measure` gives it.
        moments, seed: as on the command line.
        wall_s: seconds of everything together.
    """
    rows = []
    for algorithm, figures in measured.items():
        kills = figures["kills"]
        row = {"algorithm": algorithm, "kills": len(kills), "equal": sum(not kill["differences"] for kill in kills)}
        row["without"] = sum(kill["steps"] == 0 for kill in kills)
        rows.append(row | {"tensors": figures["tensors"], "moments": kills})
    return {
        "name": "kill-resume",
        "command": f"python benchmarks/kill_resume.py --moments {moments} --seed {seed}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(wall_s, 1),
        "metrics": {"equal": "all tensors of the last checkpoint and of the policy as in an undisturbed training"},
        "columns": [
            {"key": "algorithm", "title": "algorithm"},
            {"key": "kills", "title": "killed", "format": "d"},
            {"key": "without", "title": "of these before the first checkpoint", "format": "d"},
            {"key": "equal", "title": "same bits at the end", "format": "d"},
            {"key": "tensors", "title": "tensors compared", "format": "d"},
        ],
        "rows": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--algorithms", nargs="+", default=list(WORDS), choices=list(WORDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    start = time.monotonic()
    common = ["--num-envs", "32", "--randomize", "default", "--checkpoint-every", "1", *SMALL]
    common += [word for name, value in EPISODE.items() for word in ("--task-config", f"{name}={value}")]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for algorithm in args.algorithms:
            words = [TASK, "--algorithm", algorithm.partition("-")[0], *common, *WORDS[algorithm]]
            if algorithm == "bc":
                recording = os.fork()  # so that this process starts no threads
                if not recording:
                    record(Path(TASK), folder / "demos", 6, num_envs=6, config=EPISODE)
                    os._exit(0)
                os.waitpid(recording, 0)
                words += ["--data", str(folder / "demos")]
            results[algorithm] = measure(algorithm, words, args.moments, chance, folder)
    made = result(results, args.moments, args.seed, time.monotonic() - start)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(made, indent=1) + "\n")
    kills = sum(row["kills"] for row in made["rows"])
    equal = sum(row["equal"] for row in made["rows"])
    print(f"{equal} of {kills} killed and resumed trainings ended with the same bits")
    return 0 if equal == kills else 1


if __name__ == "__main__":
    sys.exit(main())
