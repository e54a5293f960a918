"""A worker, a machine and the head of a Ray cluster killed (SIGKILL) at random moments of a training.

    python benchmarks/kill_workers.py [--kills 20] [--seed 0] [--only worker node head] [--out FILE]

drone-hover is trained by two workers: on a cluster of one machine for `worker` and `head`, and of two, one worker each, for
`node`. Something is killed at a moment drawn uniformly over four seconds once the training goes on after the kill before. A
lost machine comes back at once. A head is started again, and the training resumed by the command that its last sentence names.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from result_file import RESULTS, write_result

from rookery.policies.training import checkpoint

WORLDS, ROLLOUT, EVERY = 32, 8, 10
INTERVAL = WORLDS * ROLLOUT * EVERY
WORDS = ["--num-envs", str(WORLDS), "--rollout-steps", str(ROLLOUT), "--checkpoint-every", str(EVERY), "--hidden", "16"]
WORDS += ["--minibatches", "2", "--steps", "1000000000", "--workers", "2", "--worker-cpus", "0.5"]
MARK = "ROOKERY_KILL_WORKERS"
"""Variable in the environment of all processes of a case, by which those that are left are found."""
WITHIN_S = 4.0
PATIENCE_S = 300.0
AT_ONCE = 10
"""Kills of one training, which ends after twenty losses."""
COLUMNS = [
    {"key": "killed", "title": "killed"},
    {"key": "kills", "title": "kills", "format": "d"},
    {"key": "on", "title": "went on", "format": "d"},
    {"key": "lost", "title": "checkpoint intervals lost, most", "format": ".1f"},
    {"key": "rows", "title": "iterations missing or twice", "format": "d"},
    {"key": "wait", "title": "until it goes on, s, median", "format": ".0f"},
    {"key": "left", "title": "processes left", "format": "d"},
]
METRICS = {
    "went on": "the training by itself (worker, node), or by the command that its one sentence named, after exit code 2 (head)",
    "checkpoint intervals lost": "steps of the last iteration that was logged before the kill, beyond the newest checkpoint",
    "iterations missing or twice": "in progress.csv at the end",
    "until it goes on": "from the kill to the first iteration after it; of a head including its start and the command's",
    "processes left": "half a minute after the training's end",
}


@dataclass
class Case:
    """A training that is killed again and again."""

    name: str
    run: Path
    rng: random.Random
    environment: dict[str, str]
    waits: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    on: int = 0

    def train(self, *words: str) -> subprocess.Popen[str]:
        """Begin the training, or go on with it."""
        begun = (
            ["--resume", str(self.run)] if self.run.exists() else ["drone-hover", "--out", str(self.run), *WORDS[:-6]]
        )
        command = [sys.executable, "-m", "rookery", "train", *begun, *WORDS[-6:], *words]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)

    def kill(self, killing: Callable[[], None]) -> float:
        """Kill something at a random moment; the time of it."""
        time.sleep(self.rng.uniform(0.0, WITHIN_S))
        saved = checkpoint.complete(self.run)
        self.lost.append((steps(self.run) - (int(saved[-1].name) if saved else 0)) / INTERVAL)
        killing()
        return time.monotonic()

    def goes_on(self, began: float, process: subprocess.Popen[str]) -> None:
        """Wait until an iteration is made after the kill."""
        time.sleep(1.0)  # what a process had handed over before it was killed is written by then
        before = _written(self.run)
        wait_for(lambda: _written(self.run) > before or process.poll() is not None, "the training goes on")
        if process.poll() is None:
            self.on += 1
            self.waits.append(time.monotonic() - began)

    def end(self, process: subprocess.Popen[str]) -> None:
        """Stop the training as a user does."""
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
        if process.returncode != 130 or "Traceback" in said:
            raise RuntimeError(f"it ended with {process.returncode}: {said}")

    def row(self) -> dict[str, Any]:
        """The figures."""
        made = _steps(self.run)
        want = [WORLDS * ROLLOUT * (i + 1) for i in range(len(made))]
        waits = sorted(self.waits)
        return {
            "killed": self.name, "kills": len(self.lost), "on": self.on, "lost": max(self.lost),
            "rows": sum(a != b for a, b in zip(made, want, strict=True)), "wait": waits[len(waits) // 2],
            "left": len(marked(self.environment[MARK])), "waits": self.waits,
        }  # fmt: skip


def _steps(run: Path) -> list[int]:
    with open(run / "progress.csv", newline="") as file:
        return [int(float(row["steps"])) for row in csv.DictReader(file) if row["steps"]]


def steps(run: Path) -> int:
    """Steps of the last iteration that was logged; 0 before the first."""
    try:
        return _steps(run)[-1]
    except (OSError, IndexError, ValueError, TypeError):
        return 0


def _written(run: Path) -> float:
    """When the log was last written."""
    file = run / "progress.csv"
    return file.stat().st_mtime if file.exists() else 0.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {PATIENCE_S:g} s until {what}")
        time.sleep(0.05)


def marked(mark: str) -> list[psutil.Process]:
    """Processes of a case that run now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.pid != os.getpid()]


def gone(mark: str) -> None:
    """Give the processes of a case half a minute to end."""
    end = time.monotonic() + 30.0
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.2)


def workers_of(case: Case) -> list[psutil.Process]:
    """The workers that train now."""
    return [p for p in marked(case.environment[MARK]) if "RayTrainWorker" in " ".join(p.cmdline())]


class Machine:
    """Ray's processes of one machine of a cluster, as `ray start` begins them."""

    def __init__(self, case: Case, port: int, *words: str) -> None:
        self._folder = f"/tmp/rookery-{port}-{time.monotonic_ns() % 10**6}"
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats", *words]
        self._process = subprocess.Popen(
            [*command, "--temp-dir", self._folder] if "--head" in words else command, env=case.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL to all of them, as when the machine goes down: also to workers there, whose raylet began them."""
        if self._process.poll() is not None:
            return
        own = psutil.Process(self._process.pid)
        for process in (own, *own.children(recursive=True)):
            try:
                process.kill()
            except psutil.Error:
                continue
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def head_of(case: Case, port: int) -> Machine:
    """A head that answers."""
    machine = Machine(case, port, "--head", "--port", str(port), "--num-cpus", "1", "--include-dashboard=false")

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            return False
        return True

    wait_for(answers, "the head answers")
    time.sleep(3.0)
    return machine


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def kill_workers(case: Case, kills: int) -> None:
    """One worker of two is lost, and the training goes on."""
    while len(case.lost) < kills:
        process = case.train()
        begin(case, process)
        for _ in range(min(AT_ONCE, kills - len(case.lost))):
            case.goes_on(case.kill(lambda: case.rng.choice(workers_of(case)).kill()), process)
        case.end(process)


def begin(case: Case, process: subprocess.Popen[str]) -> None:
    """Wait for the first iterations of a command."""
    before = _written(case.run)
    wait_for(lambda: _written(case.run) > before or process.poll() is not None, "the training begins")
    if process.poll() is not None:
        raise RuntimeError(f"the training ended: {process.communicate()[1]}")
    wait_for(lambda: bool(checkpoint.complete(case.run)), "there is a checkpoint")


def kill_nodes(case: Case, kills: int) -> None:
    """The second of two machines goes down and comes back."""
    port = free_port()
    words = ("--address", f"127.0.0.1:{port}", "--num-cpus", "1")
    head = head_of(case, port)
    second = Machine(case, port, *words)
    time.sleep(20.0)  # until it has joined
    try:
        while len(case.lost) < kills:
            process = case.train("--worker-cpus", "1", "--ray", f"127.0.0.1:{port}")
            begin(case, process)
            for _ in range(min(AT_ONCE, kills - len(case.lost))):
                began = case.kill(second.kill)
                second = Machine(case, port, *words)
                case.goes_on(began, process)
            case.end(process)
    finally:
        second.kill()
        head.kill()


def kill_heads(case: Case, kills: int) -> None:
    """The head goes down; the command says how to go on."""
    port = free_port()
    words = ("--ray", f"127.0.0.1:{port}")
    head = head_of(case, port)
    process = case.train(*words)
    try:
        begin(case, process)
        for _ in range(kills):
            began = case.kill(head.kill)
            _, said = process.communicate(timeout=PATIENCE_S)
            sentence = said.splitlines()[-1]
            named = re.search(r"rookery train (--resume \S+ [^`]*)`", sentence)
            if process.returncode != 2 or "Traceback" in said or named is None:
                raise RuntimeError(f"it ended with {process.returncode}: {said}")
            head = head_of(case, port)
            command = [sys.executable, "-m", "rookery", "train", *named[1].split()]
            process = subprocess.Popen(command, env=case.environment, stderr=subprocess.PIPE, text=True)
            case.goes_on(began, process)
        case.end(process)
    finally:
        head.kill()


CASES = {"worker": kill_workers, "node": kill_nodes, "head": kill_heads}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS / "kill-workers.json")
    args = parser.parse_args()
    began = time.perf_counter()
    rows = []
    token = [str(Path(sys.executable).with_name("ray")), "get-auth-token", "--generate"]
    subprocess.run(token, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="rookery-kills-") as folder:
        for name in args.only:
            mark = f"{name}-{os.getpid()}"
            own = {MARK: mark, "RAY_AUTH_MODE": "token"}  # as docs/scaling.md has it
            case = Case(name, Path(folder) / name, random.Random(args.seed), os.environ | own)
            CASES[name](case, args.kills)
            gone(mark)
            rows.append(case.row())
            print(rows[-1], flush=True)
    command = f"python benchmarks/kill_workers.py --kills {args.kills} --seed {args.seed}"
    write_result(args.out, command, began, COLUMNS, rows, METRICS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
