"""Trainings killed (SIGKILL) at random moments and resumed, against an undisturbed one: all bits must be equal.

    python benchmarks/kill_resume.py [--moments 20] [--algorithms sac sac-gru droq] [--seed 0] [--out FILE]

For each algorithm one small training of drone-hover or MT10 is made without disturbance. Then the same is started, killed at
a moment that is drawn uniformly over its steps (and, within an update, over time), resumed by `rookery train --resume` (started
again where it had no checkpoint yet) and finished. All tensors of the last checkpoint and of the policy are compared.

Trainings run in forks of this process, which has made one itself and so has loaded all kernels: a start takes a fraction of a
second. The file is written after each algorithm; rows of algorithms that are not named stay in it. `dagger-gru` has a teacher
with memory. On `ppo-viewer` a page that receives everything is open.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from machine import commit
from result_file import told, write_result
from safetensors.torch import load_file
from viewer import PRINTED, received
from websockets.exceptions import WebSocketException

import rookery.experiments.training  # noqa: F401 (imported before the forks)
from rookery.cli.main import main as command_line
from rookery.experiments.demonstrations import record

TASK = "drone-hover"
EPISODE = {"episode_s": 0.6, "settled_s": 0.1}
SMALL = ["--hidden", "16"]
PPO = ["--steps", "6144", "--rollout-steps", "16", "--epochs", "2", "--minibatches", "2"]
SAC = ["--steps", "2048", "--rollout-steps", "8", "--learning-starts", "512", "--buffer-size", "1500", "--batch", "64"]
SEQUENCES = ["--memory", "gru", "--memory-size", "8", "--memory-burn-in", "4", "--n-step", "1"]
EYES = [
    "--obs",
    "depth",
    "--encoder",
    "cnn",
    "--encoder-channels",
    "4",
    "--encoder-kernels",
    "8",
    "--encoder-strides",
    "8",
]
FEW = ["--steps", "1024", "--rollout-steps", "4", "--learning-starts", "256", "--buffer-size", "700", "--batch", "32"]
SKILLS = """
every = 4
[skills.lead]
policy = "drone-hover"
shift.position_error = 0.5
[skills.rest]
policy = "drone-hover"
finished = "norm(position_error) > 0.3"
[skills.pid]
policy = "controller"
"""
JOINT = [*PPO, "--skills", "skills.toml", "--skill-warmup", "1", "--learn-skills"]
DAGGER = ["--steps", "6144", "--rollout-steps", "16", "--batch", "128"]
WORDS = {
    "ppo": ["ppo", *PPO],
    "ppo-shards": ["ppo", *PPO, "--engine", "mujoco", "--shards", "2"],
    "ppo-viewer": ["ppo", "--steps", "32768", *PPO[2:], "--viewer", "--viewer-port", "0"],
    "ppo-gru": ["ppo", *PPO, "--memory", "gru", "--memory-size", "8"],
    "ppo-skills": ["ppo", *JOINT, "together"],
    "ppo-skills-by-turns": ["ppo", *JOINT, "alternating", "--skill-turns", "2"],
    "sac": ["sac", *SAC],
    "sac-prioritised": ["sac", *SAC, "--priority-alpha", "0.6"],
    "sac-demonstrations": ["sac", *SAC],
    "sac-gru": ["sac", *SAC, *SEQUENCES],
    "sac-cnn": ["sac", *FEW, *EYES, "--picture-shift", "2"],
    "td3": ["td3", *SAC],
    "td3-gru": ["td3", *SAC, *SEQUENCES],
    "droq": ["droq", *FEW],
    "simbav2": ["simbav2", *SAC],
    "xqc": ["xqc", *SAC],
    "dagger": ["dagger", *DAGGER],
    "dagger-gru": ["dagger", *DAGGER, "--teacher", "drone-hover-gru"],
    "dagger-MT10": ["dagger", "--steps", "1024", "--rollout-steps", "8", "--batch", "64"],
    "bc": ["bc", "--steps", "6000", "--batch", "64"],
}
"""Algorithm and options of each training by its name in the table: 32 worlds, a checkpoint after each update."""
TASKS = {"dagger-MT10": "MT10"}
"""Tasks of trainings that are not of `TASK`; in the names, so that folders have them too."""
OWN_PROCESS = ("MT10", "shards", "viewer")
"""In the names of trainings that a fork cannot make: with kernels on OpenMP's threads, or processes or threads of their own."""
FROM_DEMONSTRATIONS = ("sac-demonstrations", "bc")
COLUMNS = [
    {"key": "algorithm", "title": "algorithm"},
    {"key": "kills", "title": "killed", "format": "d"},
    {"key": "without", "title": "of these before the first checkpoint", "format": "d"},
    {"key": "equal", "title": "same bits at the end", "format": "d"},
    {"key": "tensors", "title": "tensors compared", "format": "d"},
    {"key": "commit", "title": "commit"},
]
METRICS = {"equal": "all tensors of the last checkpoint and of the policy as in an undisturbed training"}
LIMIT_S = 900.0
PATIENCE_S = 5.0
"""s for which a viewer may outlive its training."""
MESHES = 100_000
"""Bytes that a page has received once its scene has begun to come; what the page itself is made of is less."""
PAGES: dict[Path, Page] = {}
"""By folder of a training, the page that looks at it."""
"""Bound of a training's duration, on a busy machine."""


def launch(words: list[str]) -> int:
    """A training in a fork, or in a new process where a fork cannot make it; its process id."""
    if needs_own_process(Path(words[-1]).name):  # of --out or --resume: a folder has its training's name
        command = [sys.executable, "-m", "rookery", "train", *words]
        printed = Path(f"{words[-1]}.txt")
        printed.write_text("")
        if "--viewer" in words:
            PAGES[Path(words[-1])] = Page(printed)
        silent = [(os.POSIX_SPAWN_OPEN, 1, str(printed), os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=silent)
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


def needs_own_process(name: str) -> bool:
    """True for the training of a name, or in a folder of that name, that a fork cannot make."""
    return any(own in name for own in OWN_PROCESS)


class Page(threading.Thread):
    """A page of a training's viewer, from its first moment until the viewer ends.

    Args:
        printed: file of what the training prints.

    Attributes:
        place: host and port of the viewer, once it has told them.
        received: bytes so far.
    """

    def __init__(self, printed: Path) -> None:
        super().__init__(daemon=True)
        self.printed = printed
        self.place: tuple[str, int] | None = None
        self.received = 0
        self.start()

    def run(self) -> None:
        with suppress(OSError, WebSocketException):  # the folder is removed, the viewer ends
            while not (found := PRINTED.search(self.printed.read_text())):
                time.sleep(0.05)
            place = urlsplit(found[1])
            self.place = str(place.hostname), int(place.port or 0)
            for size, _ in received(found[1]):
                self.received += size


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
    torch.set_num_threads(1)
    if not needs_own_process(algorithm):  # loads what the forks need
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            command_line(["train", *words, "--out", str(folder / f"{algorithm}-loaded")])
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
        seen = watched(run)
        if not steps:
            shutil.rmtree(run, ignore_errors=True)
            finish([*words, "--out", str(run)])
        elif steps < total:
            finish(["--resume", str(run)])
        wrong = differences(wanted, tensors(run))
        kills.append({"steps": steps, "seconds": round(seconds, 3), "differences": wrong} | seen)
        print(
            f"{algorithm}: killed after {seconds:.2f} s, {steps} of {total} steps saved, {len(wrong)} differences",
            flush=True,
        )
    return {"duration_s": round(duration, 2), "total_steps": total, "tensors": len(wanted), "kills": kills}


def watched(run: Path) -> dict[str, Any]:
    """Bytes that the page of a killed training had received, and whether its viewer has ended too; nothing without a viewer."""
    if run not in PAGES:
        return {}
    page = PAGES.pop(run)
    deadline = time.monotonic() + PATIENCE_S
    while (listening := listens(page.place)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return {"page_bytes": page.received, "viewer_ended": page.place is not None and not listening}


def listens(place: tuple[str, int] | None) -> bool:
    """True where somebody takes connections."""
    if place is None:
        return False
    with suppress(OSError), socket.create_connection(place, timeout=1.0):
        return True
    return False


def wait_for_steps(process: int, run: Path, steps: float, more_s: float) -> bool:
    """Wait until a checkpoint has so many steps, then for some seconds more; False where the training has ended."""
    if run in PAGES:
        show(process, run)
    while newest_steps(run) < steps:
        if wait(process, 0.002) is not None:
            return False
    return wait(process, more_s) is None


def show(process: int, run: Path) -> None:
    """Stop a training at its first checkpoint until its page has meshes: to load them takes longer than all of its steps."""
    while not newest_steps(run):
        if wait(process, 0.002) is not None:
            return
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT_S
    while PAGES[run].received < MESHES and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process, signal.SIGCONT)


def newest_steps(run: Path) -> int:
    """Steps in a run's newest checkpoint; 0 where there is none."""
    return max((int(path.name) for path in run.glob("checkpoints/[0-9]*")), default=0)


def row(algorithm: str, figures: dict[str, Any], seed: int) -> dict[str, Any]:
    """Of the table, from what `measure` gives."""
    kills = figures["kills"]
    return {
        "algorithm": algorithm,
        "kills": len(kills),
        "equal": sum(not kill["differences"] for kill in kills),
        "without": sum(kill["steps"] == 0 for kill in kills),
        "tensors": figures["tensors"],
        "moments": kills,
        "command": f"python benchmarks/kill_resume.py --moments {len(kills)} --algorithms {algorithm} --seed {seed}",
        "commit": commit(),
    }


def write(out: Path, rows: list[dict[str, Any]], start: float) -> None:
    """The results file, see benchmarks/tables.py."""
    chosen = [r["algorithm"] for r in rows]
    moments = " or ".join(str(n) for n in sorted({r["kills"] for r in rows}))
    command = f"python benchmarks/kill_resume.py --moments {moments} --algorithms {' '.join(chosen)}"
    write_result(out, command, start, COLUMNS, rows, METRICS, **told(rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--algorithms", nargs="+", default=list(WORDS), choices=list(WORDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    common = ["--num-envs", "32", "--randomize", "default", "--checkpoint-every", "1", *SMALL]
    short = [word for name, value in EPISODE.items() for word in ("--task-config", f"{name}={value}")]
    known = json.loads(args.out.read_text())["rows"] if args.out is not None and args.out.exists() else []
    rows = {r["algorithm"]: r for r in known}
    done = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for algorithm in args.algorithms:
            began = time.perf_counter()
            chance = random.Random(f"{args.seed} {algorithm}")
            words = [TASKS.get(algorithm, TASK), "--algorithm", WORDS[algorithm][0], *common, *WORDS[algorithm][1:]]
            words += [] if algorithm in TASKS else short
            if algorithm in FROM_DEMONSTRATIONS and not (folder / "demos").exists():
                recording = os.fork()  # so that this process starts no threads
                if not recording:
                    record(Path(TASK), folder / "demos", 6, num_envs=6, config=EPISODE)
                    os._exit(0)
                os.waitpid(recording, 0)
            (folder / "skills.toml").write_text(SKILLS)
            words = [str(folder / word) if word == "skills.toml" else word for word in words]
            if algorithm in FROM_DEMONSTRATIONS:
                words += ["--data", str(folder / "demos")]
            made = row(algorithm, measure(algorithm, words, args.moments, chance, folder), args.seed)
            rows[algorithm] = made | {"wall_s": round(time.perf_counter() - began, 1)}
            done.append(rows[algorithm])
            if args.out is not None:
                args.out.parent.mkdir(parents=True, exist_ok=True)
                write(args.out, [rows[name] for name in WORDS if name in rows], began)
    kills = sum(r["kills"] for r in done)
    equal = sum(r["equal"] for r in done)
    print(f"{equal} of {kills} killed and resumed trainings ended with the same bits")
    return 0 if equal == kills else 1


if __name__ == "__main__":
    sys.exit(main())
