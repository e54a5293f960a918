"""Tasks of Ray whose process has been stopped, or waits for ever: it is ended, and another one does the task.

Ray notices processes and machines that end, but none that stays and does nothing. On each node a process without a processor of
its own looks at those of this command's tasks, and the command ends one that has not computed for the limit that processes of
`--shards` have (`rookery.sim.idle_watch`). Ray notices that, and begins the task anew. Where the system has no /proc nothing is
seen, and nothing ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.sim.idle_watch import IdleWatch, processor_time, started_at, stat_of

__all__ = ["NodeProcesses", "TaskProcess", "TaskWatch"]

JOB = "RAY_JOB_ID"
"""Environment variable of Ray's processes: the connection to the cluster for which they were started."""
ANY_JOB = "ffffffff"
"""Its value in one that was started before that was known. It may do another command's task, which is done again too."""
WORKS, WAITS = "ray::as_here", "ray::IDLE"
"""Names of processes that do a task and that wait for one; a stopped one may have got a task already."""
MOST_LOOK_S = 5.0
"""s between two looks; a fourth of the limit where that is less."""


@dataclass(frozen=True)
class TaskProcess:
    """Process of a task.

    Args:
        pid: its id on its machine.
        started: time of its start, see `started_at`; with its id it names the process for ever.
        computed: time that its main thread has computed, in a unit of the system's; the task is done there.
    """

    pid: int
    started: int
    computed: float


class NodeProcesses:
    """The processes of a job's tasks on one node of Ray's; in a process of that node.

    Args:
        job: Ray's id of the job.
        raylet: id of the process that starts those of the node.
    """

    def __init__(self, job: str, raylet: int | None = None) -> None:
        self._jobs = {f"{JOB}={known}".encode() for known in (job, ANY_JOB)}
        self._raylet = os.getppid() if raylet is None else raylet

    def tasks(self) -> list[TaskProcess]:
        """Those that do a task, or are stopped."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            fields = stat_of(pid)
            if fields is None or int(fields[1]) != self._raylet:
                continue
            computed = main_thread_time(pid)
            if computed is not None and self._is_of_a_task(folder, stopped=fields[0] in "Tt"):
                found.append(TaskProcess(pid, int(fields[19]), computed))
        return found

    def _is_of_a_task(self, process: Path, stopped: bool) -> bool:
        try:
            title = (process / "cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace").strip()
            if title != WORKS and not (stopped and title == WAITS):
                return False
            return not self._jobs.isdisjoint((process / "environ").read_bytes().split(b"\0"))
        except OSError:  # it has ended
            return False

    def end(self, process: TaskProcess) -> None:
        """Kill a process, unless it has ended and another one has its id."""
        if started_at(process.pid) == process.started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def main_thread_time(pid: int) -> float | None:
    """Time that the main thread of a process has computed, ns; that of all its threads where the system tells no more."""
    try:
        return float(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return processor_time(pid)


class TaskWatch:
    """Ends processes of tasks that do not compute any more.

    Args:
        ray: the module, connected.
        limit_s: time that a task may go without computing, s.
        on: Ray's strategy of placing a process on a node.

    Attributes:
        ended: how many processes were.
    """

    def __init__(self, ray: Any, limit_s: float, on: Callable[[str], Any]) -> None:
        self._ray = ray
        self._on = on
        self._look_s = min(MOST_LOOK_S, limit_s / 4.0)
        self._watch = IdleWatch(limit_s, self._look_s)
        self._looked = -self._look_s
        self._nodes: dict[str, Any] = {}
        self._questions: dict[str, Any] = {}
        self.ended = 0

    def due(self) -> bool:
        """True once it is time for the next look."""
        return time.monotonic() >= self._looked + self._look_s

    def look(self) -> None:
        """Look at all tasks where a look is due, without waiting for answers. While a node gives none, no time counts for its
        tasks."""
        if not self.due():
            return
        self._looked = time.monotonic()
        for node in [n["NodeID"] for n in self._ray.nodes() if n["Alive"]]:
            for process in self._tasks_on(node):
                who = node, process.pid, process.started
                if self._watch.is_idle(who, process.computed):
                    self._watch.forget(who)
                    self._nodes[node].end.remote(process)
                    self.ended += 1

    def _tasks_on(self, node: str) -> list[TaskProcess]:
        """The answer to the latest look's question; the next one is asked."""
        question = self._questions.get(node)
        if question is not None and not self._ray.wait([question], timeout=0)[0]:
            return []
        if node not in self._nodes:
            job = self._ray.get_runtime_context().get_job_id()
            placed = self._ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=self._on(node))
            self._nodes[node] = placed(NodeProcesses).remote(job)
        self._questions[node] = self._nodes[node].tasks.remote()
        if question is None:
            return []
        try:
            found: list[TaskProcess] = self._ray.get(question)
        except self._ray.exceptions.RayError:  # its process was lost, and Ray starts another one
            return []
        return found
