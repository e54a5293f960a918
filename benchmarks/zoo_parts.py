"""What is done with each policy of the zoo: evaluated in four cases, judged by the gate, filmed and drawn. See zoo.py."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy_key import ROOT, ZOO, code, key, task_of
from zoo_gate import gate_row

VIDEOS = ROOT / "docs" / "videos"
CASES = ("nominal", "default", "delay", "engine")
PARTS = (*CASES, "gate", "film", "picture")
BY_COMMIT = (*CASES, "gate")
"""Parts that are made again for another commit of the code; a film stays while its policy and its task's files do."""
GUESS_S = {
    "nominal": 25.0,
    "default": 30.0,
    "delay": 25.0,
    "engine": 120.0,
    "gate": 200.0,
    "film": 60.0,
    "picture": 8.0,
}
"""s on one core, where no earlier time is known."""
PYBULLET_EPISODES = 16
SLOW_PYBULLET = ("table-", "panda-", "go2arm-", "MT10")
"""Beginnings of tasks that pybullet takes minutes for: the gate leaves it out, the case "engine" does not."""
FILM = ("--size", "640", "360", "--seed", "0")
FAMILIES = ("swarm-surround", "go2-velocity", "table-pick-place")
"""Policies in README's picture, as docs/site/readme_video.py has them."""
FILM_S = 8.0
"""s, longest film of a policy that `FILMS` does not name."""


@dataclass(frozen=True)
class Film:
    """A video in docs/videos.

    Args:
        name: of the file, without suffix.
        of: policy of the zoo, or with "--controller classical" a task.
        seconds: its length.
        options: of `rookery play`.
    """

    name: str
    of: str
    seconds: float
    options: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Path of the video."""
        return VIDEOS / f"{self.name}.mp4"

    @property
    def command(self) -> list[str]:
        """The words behind `rookery` that make it, without its file."""
        run = f"policies/zoo/{self.of}" if (ZOO / self.of).is_dir() else self.of
        return ["play", run, "--seconds", f"{self.seconds:g}", *FILM, *self.options]


def _set(**config: object) -> tuple[str, ...]:
    return tuple(word for name, value in config.items() for word in ("--task-config", f"{name}={value}"))


_STAIRS = {"terrain": "stairs_up", "terrain_rows": 1, "terrain_columns": 4, "terrain_step_m": 0.15}
_AHEAD = {"max_back": 0.0, "max_vy": 0.0, "max_yaw_rate": 0.1, "stand_share": 0.0}
FILMS = (
    Film("MT10", "MT10", 4.0, _set(tasks="table-drawer-close")),
    Film("go2-stairs", "go2-stairs", 9.0, _set(**_STAIRS, **_AHEAD)),
    Film("go2arm-fetch", "go2arm-fetch", 8.2, ("--seed", "6")),
    Film("go2arm-open-door", "go2arm-loco-manipulation", 19.0, _set(tasks="open-door")),
    Film("go2arm-pick-ball", "go2arm-loco-manipulation", 16.0, _set(tasks="pick-ball")),
    Film("table-drawer-open", "table-drawer-open", 2.5),
    Film("table-peg-insert-side", "table-peg-insert-side", 3.0),
)
SCRIPTED = (
    Film("dual-panda-handover", "dual-panda-handover", 5.0, ("--controller", "classical")),
    Film("hand-grasp", "hand-grasp", 3.0, ("--controller", "classical")),
)
"""Films without a policy."""


def films(policy: str) -> list[Film]:
    """The films of a policy, or of a task that is in `SCRIPTED`."""
    own = [f for f in (*FILMS, *SCRIPTED) if f.of == policy]
    if own:
        return own
    contract = json.loads((ZOO / policy / "contract.json").read_text())
    config = contract["task_config"]
    return [Film(policy, policy, min(float(config.get("episode_s", FILM_S)), FILM_S))]


@dataclass(frozen=True)
class Job:
    """A part of the work on one policy."""

    policy: str
    part: str

    def __str__(self) -> str:
        return f"{self.policy} {self.part}"


def jobs(policy: str) -> list[Job]:
    """All that is done with a policy, or with a task that is in `SCRIPTED`."""
    if not (ZOO / policy).is_dir():
        return [Job(policy, "film")]
    return [Job(policy, part) for part in PARTS if part in CASES[:2] or part in ("gate", "film") or _has(policy, part)]


def files(job: Job) -> list[str]:
    """Entries of docs/films.json that are of a job: paths in docs, behind "#" the policy where a file is of several."""
    if job.part == "film":
        return [f"videos/{f.file.name}" for f in films(job.policy)]
    shared = [f"images/families.gif#{job.policy}"] * (job.policy in FAMILIES)
    return [f"images/tasks/{job.policy}.jpg", *shared]


def _has(policy: str, part: str) -> bool:
    """True where a part is of any use."""
    if part == "delay":
        return bool(_delays(task_of(policy)))
    if part == "engine":
        return _other_engine(task_of(policy)) is not None
    return policy == task_of(policy) and (ROOT / "docs" / "images" / "tasks" / f"{policy}.jpg").exists()


def _other_engine(task: str) -> str | None:
    from rookery.tasks.registry import find

    return next(iter(find(task).engines[1:]), None)


def _delays(task: str) -> list[str]:
    """--set of the largest delays that the profile of a task asks for."""
    from rookery.sim2real.gate.profile import BY_TASK, load_profile, profile_of
    from rookery.tasks.registry import find

    members = find(task).members
    one = find(task).task_of(members[0]) if members else task
    if not one.startswith(tuple(BY_TASK)):
        return []
    factors = load_profile(profile_of(one)).factors
    names = [n for n in ("observation_delay", "action_delay") if n in factors]
    return [word for n in names for word in ("--set", f"{n}={factors[n].high:g}")]


def why_not_current(job: Job, record: dict[str, Any] | None) -> str:
    """Why a record is not of this policy and task, and of this commit where the part is measured, in a few words; "" where it
    is."""
    if record is None:
        return "not done yet"
    found, wanted = record.get("key") or {}, key(job.policy)
    if found.get("policy") != wanted["policy"]:
        return "of other weights"
    if found.get("task") != wanted["task"]:
        return "of other files of its task"
    if job.part not in BY_COMMIT:
        return ""
    if wanted["commit"].endswith("-dirty"):
        return "the package has changes that are not committed"
    return "" if found.get("commit") == wanted["commit"] else f"of {found.get('commit', 'no commit')}"


Runner = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


def do(job: Job, run: Runner, episodes: int, gate: Sequence[str]) -> dict[str, Any]:
    """Do a job.

    Args:
        job: what.
        run: runs a command line in the checkout's root.
        episodes: of each case.
        gate: options of `rookery gate`.

    Returns:
        Its record, with "key" and "wall_s"; "refused" is the sentence of a command that cannot do it.

    Raises:
        RuntimeError: a command failed otherwise.
    """
    start = time.perf_counter()
    now = key(job.policy)
    if job.part in CASES:
        out = _evaluate(job, run, episodes)
    elif job.part == "gate":
        out = _judge(job.policy, run, gate)
    elif job.part == "film":
        out = {}
        for film in films(job.policy):
            _finished(run([sys.executable, "-m", "rookery", *film.command, "--out", str(film.file)]))
    else:
        out = {}
        _finished(run([sys.executable, "docs/site/task_images.py", job.policy]))
        if job.policy in FAMILIES:
            _finished(run([sys.executable, "docs/site/readme_video.py"]))
    return out | {"key": now, "commit": code(), "wall_s": round(time.perf_counter() - start, 1)}


def _evaluate(job: Job, run: Runner, episodes: int) -> dict[str, Any]:
    task = task_of(job.policy)
    words = ["--seed", "0", "--randomize", "default" if job.part == "default" else "none"]
    if job.part == "delay":
        words += _delays(task)
    if job.part == "engine":
        engine = str(_other_engine(task))
        words += ["--engine", engine]
        episodes = min(episodes, PYBULLET_EPISODES) if engine == "pybullet" else episodes
    command = ["eval", f"policies/zoo/{job.policy}", "--json", "--episodes", str(episodes), *words]
    result = _json(run, command)
    if "refused" in result:
        return result
    names = ("metric_name", "metric", "return_mean", "return_std", "metrics", "causes", "engine")
    # of a match against itself, which side won says nothing
    success = None if result.get("plays_all_teams") else result["success_rate"]
    row = {"success": success, "length": result["episode_length_mean"]}
    return row | {n: result[n] for n in names} | {"episodes": episodes, "command": f"rookery {shlex.join(command)}"}


def _judge(policy: str, run: Runner, options: Sequence[str]) -> dict[str, Any]:
    slow = ["--engines", "none"] if task_of(policy).startswith(SLOW_PYBULLET) else []
    folder = ROOT / "runs" / "zoo-gate" / policy
    command = ["gate", f"policies/zoo/{policy}", "--json", "--out", str(folder), *options, *slow]
    return gate_row(_json(run, command))


def _json(run: Runner, words: Sequence[str]) -> dict[str, Any]:
    """What a command prints; where it refuses with a sentence, that."""
    done = run([sys.executable, "-m", "rookery", *words])
    if done.stdout:
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    lines = [line for line in done.stderr.splitlines() if line.startswith("rookery: ")]
    if done.returncode != 2 or not lines:
        _finished(done, always=True)
    return {"refused": lines[-1].removeprefix("rookery: ")}


def _finished(done: subprocess.CompletedProcess[str], always: bool = False) -> None:
    if always or done.returncode:
        raise RuntimeError(f"{shlex.join(done.args)} ended with {done.returncode}: {done.stderr[-2000:]}")


def pinned(core: int, started: Callable[[subprocess.Popen[str]], None]) -> Runner:
    """Runs commands on one core, with one thread.

    Args:
        core: number of the core.
        started: gets every process, so that it can be ended.
    """

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        process = subprocess.Popen(
            [*words], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        started(process)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {core})
        out, err = process.communicate()
        return subprocess.CompletedProcess([*words], process.returncode, out, err)

    return run


def today() -> str:
    """The date, ISO 8601."""
    return datetime.date.today().isoformat()
