"""A Ray cluster for workers, trials or episodes: this machine alone, or one that runs already."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from rookery.experiments.ray_idle import TaskWatch
from rookery.experiments.ray_machines import check_folder, check_own_files, check_versions, on_node
from rookery.experiments.ray_mailbox import Letters, WorkerMailbox
from rookery.experiments.ray_tasks import StoredValue, Surroundings, as_here
from rookery.experiments.ray_training import WorkerGroup, fit
from rookery.sim.cores import usable_cores
from rookery.sim.errors import ProcessLost, RookeryError
from rookery.sim.idle_watch import IDLE, idle_limit
from rookery.sim.own_files import imported_files

A = TypeVar("A")
B = TypeVar("B")
LOSSES = 3
"""How often a task whose process is lost, or was ended since it did not compute, is done again."""
CONNECT_S = 5.0
"""s within which the head of a cluster must answer."""
LOOK_S = 1.0
"""s between looks whether the head still answers, while results are awaited."""
LOST_S = 10.0
"""s without an answer after which the head counts as gone."""
RETURN_S = 300.0
"""s that a training waits for machines in place of lost ones, without which its workers do not fit."""
LONGEST_FOLDER = 40
"""Letters of the folder for temporary files with which the names of Ray's sockets in it fit into the 107 of an address; jobs of
a cluster often have a longer one."""
STORE_BYTES = 100_000_000
"""Of a local cluster's shared memory, which hardly anything goes through."""


def _ray() -> Any:
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # `ray start --head` asks for the token where there is one, and Ray gives it of itself only to "auto"
    if "ray" not in sys.modules and has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
        import ray.train.torch
    except ImportError as error:
        raise RookeryError("several processes or machines need Ray: pip install 'rookery[ray]'.") from error
    # it writes paragraphs about lost processes to standard output, where the JSON of a command is; rookery tells what matters
    ray._private.worker.listen_error_messages = lambda *_: None
    return ray


def has_token() -> bool:
    """True where this user has a token of Ray, by which the processes of a cluster know each other (Ray documentation, "Token
    authentication"): Ray makes one when it first starts a cluster on this machine alone."""
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token"))
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or file.is_file()


@contextlib.contextmanager
def _handlers_kept(*ignored: signal.Signals) -> Iterator[None]:
    """Put the handlers of signals back at the end: Ray takes their place, prints a trace of memory addresses, and the process
    aborts.

    Args:
        ignored: signals that are not heard until then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    kept = {number: handler for number, handler in found.items() if handler is not None}  # None: one that C has set
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class Cluster:
    """Workers' processors, a context manager.

    Args:
        address: "local", "auto", or of the head, such as "10.0.0.4:6379".
        workers: how many.
        cpus: processors of each.
        kind: of workers, for messages.
        advice: where there are too few processors.

    Raises:
        RookeryError: no cluster, one with fewer processors, or with other versions of Rookery or a library, which would compute
            something else; or a time limit in the environment that is none, see `idle_limit`.
    """

    def __init__(
        self,
        address: str,
        workers: int,
        cpus: float,
        kind: str = "workers",
        advice: str = "give fewer --workers, or a smaller --worker-cpus",
    ) -> None:
        self.address = address
        self.kind = kind
        self.advice = advice
        self.workers = workers
        self.cpus = cpus
        self._ray = _ray()
        self._looked = self._answered = -math.inf
        self._idle_s = idle_limit()
        self._watch: TaskWatch | None = None
        self._short_since = math.inf
        self._known_files: set[Path] = set()

    @classmethod
    def of_processes(cls, address: str) -> Cluster:
        """All processors of this machine, or of another cluster, for processes of one processor each."""
        return cls(address, usable_cores() if address == "local" else 1, 1.0, "processes", "leave out --ray")

    def __enter__(self) -> Cluster:
        ray = self._ray
        needed = self.workers * self.cpus
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address == "local":
            if needed > usable_cores():
                raise self._too_few(usable_cores(), "this machine")
            own: dict[str, Any] = {"num_cpus": max(1, round(needed + 0.499)), "object_store_memory": STORE_BYTES}
            if len(tempfile.gettempdir()) > LONGEST_FOLDER and "RAY_TMPDIR" not in os.environ:
                own["_temp_dir"] = "/tmp/ray"
            try:
                with _handlers_kept():
                    ray.init(address="local", include_dashboard=False, **own, **quiet)
            except Exception as error:  # of several kinds, by what is missing
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise RookeryError(
                    f"Ray does not start on this machine ({reason:.200}): put that right, or do without several processes."
                ) from error
            return self
        self._check_address()
        try:
            with _handlers_kept():
                ray.init(address=self.address, **quiet)
        except Exception as error:  # of several kinds, by what answers there
            if self.address == "auto":
                raise self._no_cluster() from error
            raise RookeryError(
                f"{self.address} answers, but not as a Ray cluster that takes this process: give the head's address, have the "
                "same version of Ray here, and the head's token (`ray get-auth-token` there) in ~/.ray/auth_token."
            ) from error
        try:
            have = ray.cluster_resources().get("CPU", 0.0)
            if have < needed:
                raise self._too_few(have, "the cluster")
            if self.places() < self.workers:
                raise RookeryError(
                    f"the machines of the cluster have places for {self.places()} {self.kind} of {self.cpus:g} processors, not "
                    f"for {self.workers}: {self.advice}."
                )
            check_versions(ray)
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # what was done must not end as interrupted since its processes are just being ended
        with _handlers_kept(signal.SIGINT):
            self._ray.shutdown()

    def _check_address(self) -> None:
        """Refuse an address at once where nothing answers: Ray would try for minutes."""
        place, _, port = self.address.removeprefix("ray://").rpartition(":")
        if self.address == "auto":
            return
        if not place or not port.isdecimal():
            raise RookeryError(
                f"--ray {self.address!r} is no address: give local, auto, or HOST:PORT of the cluster's head."
            )
        try:
            socket.create_connection((place, int(port)), CONNECT_S).close()
        except (OSError, OverflowError) as error:
            raise self._no_cluster() from error

    def _no_cluster(self) -> RookeryError:
        where = "on this machine" if self.address == "auto" else f"at {self.address}"
        return RookeryError(f"no Ray cluster answers {where}: start one with `ray start --head`, or leave out --ray.")

    def _too_few(self, have: float, where: str) -> RookeryError:
        return RookeryError(
            f"{self.workers} {self.kind} of {self.cpus:g} processors need {self.workers * self.cpus:g}, and {where} has "
            f"{have:g}: {self.advice}."
        )

    def cores_of_each(self, tasks: int) -> int:
        """Processors that each of so many tasks can have at once; 1 where some have to wait."""
        sizes = [int(n["Resources"].get("CPU", 0.0)) for n in self._ray.nodes() if n["Alive"]]
        return next((c for c in range(max(sizes, default=1), 1, -1) if sum(n // c for n in sizes) >= tasks), 1)

    def processors(self) -> float:
        """Processors of all machines."""
        return float(self._ray.cluster_resources().get("CPU", 1.0))

    def places(self) -> int:
        """Workers for which the machines have processors; what others use of them counts."""
        sizes = (float(n["Resources"].get("CPU", 0.0)) for n in self._ray.nodes() if n["Alive"])
        return sum(int(size / self.cpus + 1e-6) for size in sizes)

    def check_places(self, then: str) -> bool:
        """Notice that machines were lost without which the workers do not fit; to be called again and again.

        Args:
            then: what to do.

        Returns:
            False while there are too few.

        Raises:
            RookeryError: for RETURN_S no other ones have come.
        """
        if not self._head_answers():  # it is not known then, see `check_head`
            return True
        now = time.monotonic()
        there = self.places()
        if there >= self.workers:
            self._short_since = math.inf
            return True
        if self.address == "local":  # no other machine will come
            raise self._ended_here(then)
        self._short_since = min(self._short_since, now)
        if self._short_since + RETURN_S < now:
            raise RookeryError(
                f"since a machine was lost the cluster has places for {there} of the {self.workers} {self.kind}, and for "
                f"{RETURN_S:g} s no other one has come: {then}, with another machine or fewer --workers."
            )
        return False

    def each(self, work: Callable[[A], B], orders: Sequence[A]) -> Iterator[tuple[int, B]]:
        """Begin ``work(order)`` for all of the orders, on a processor each, and anew where a process is lost.

        Args:
            work: done with one thread in the folder of this command, if there is one, and with the same trust in files.
            orders: its arguments.

        Yields:
            the place of an order, and the result, as they come.

        Raises:
            RookeryError: as `work`; or a process was lost too often, or the cluster.
        """
        places = {reply: i for i, reply in enumerate(self._begin(work, orders))}
        return ((places[reply], self.result(reply)) for reply in self._as_they_come(list(places)))

    def map(self, work: Callable[[A], B], orders: Sequence[A], /) -> Iterator[B]:
        """The results of `each` in the order of the orders."""
        replies = self._begin(work, orders)
        return (self.result(next(self._as_they_come([reply]))) for reply in replies)

    def _begin(self, work: Callable[[Any], Any], orders: Sequence[Any]) -> list[Any]:
        return [self.begin(work, order, retries=LOSSES) for order in orders]

    def begin(self, work: Callable[[Any], Any], order: Any, cores: int = 1, retries: int = 0) -> Any:
        """Begin ``work(order)`` on so many processors of one machine; the reply is for `ended` and `result`.

        Raises:
            RookeryError: as `check_own_files`.
        """
        self.check_own_files()
        if self._watch is None and math.isfinite(self._idle_s):
            self._watch = TaskWatch(self._ray, self._idle_s, on_node)
        task = self._ray.remote(num_cpus=cores, max_retries=retries)(as_here)
        return task.remote(work, order, Surroundings.now(), cores)

    def share(self, value: A) -> StoredValue[A]:
        """A value that many orders have."""
        return StoredValue(self._ray.put(value))

    def cancel(self, reply: Any) -> None:
        """Call a task off, whose `result` is then a loss."""
        self._ray.cancel(reply)

    def ended(self, reply: Any) -> bool:
        """True once a task has ended, however it did.

        Raises:
            RookeryError: the cluster has ended.
        """
        if self._ray.wait([reply], timeout=0)[0]:
            return True
        self._look()
        return False

    def _as_they_come(self, replies: list[Any]) -> Iterator[Any]:
        """The replies, each once it is there."""
        while replies:
            done, replies = self._ray.wait(replies, timeout=LOOK_S)
            yield from done
            if replies:
                self._look()

    def _look(self) -> None:
        """Notice a head that is gone, and tasks that do not compute any more.

        Raises:
            RookeryError: the cluster has ended.
        """
        self.check_head()
        if self._watch is not None and self._watch.due() and self._head_answers():
            self._watch.look()

    def result(self, reply: Any) -> Any:
        """The result of a task, which is waited for.

        Raises:
            ProcessLost: its process was lost, and those in its place.
            RookeryError: as the task.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(reply)
        except errors.RayTaskError as error:
            if isinstance(error.cause, RookeryError):
                raise error.cause from None
            raise
        except errors.RayError as error:
            raise self._lost() from error

    def _lost(self) -> ProcessLost:
        """The error that tells of a task whose processes were lost."""
        lost = f"a process of the cluster was lost {LOSSES + 1} times"
        if self._watch is None or not self._watch.ended:
            return ProcessLost(f"{lost}: try again.")
        return ProcessLost(
            f"{lost}, and {self._watch.ended} were ended that had not computed for {self._idle_s:g} s: they were stopped, or "
            f"waited for something; the environment variable {IDLE} gives them more time."
        )

    def check_head(self, then: str = "run the command once more") -> None:
        """Notice a head that is gone, before Ray ends this process for that; to be called again and again.

        Args:
            then: what to do once it is there again.

        Raises:
            RookeryError: it has not answered for LOST_S.
        """
        now = time.monotonic()
        if now < self._looked + LOOK_S or self._head_answers():
            return
        if self._answered == -math.inf:
            self._answered = now  # it has answered, or there would be no connection
        if self._answered + LOST_S < now:
            if self.address == "local":
                raise self._ended_here(then)
            raise RookeryError(f"the head of the Ray cluster at {self._head()} has ended: start it again and {then}.")

    def _ended_here(self, then: str) -> RookeryError:
        return RookeryError(f"the processes of Ray on this machine have ended: {then}.")

    def _head_answers(self) -> bool:
        """True if the head answers now. To be asked before anything that Ray asks it for: that would wait for a minute, and
        end this process."""
        self._looked = time.monotonic()
        place, _, port = self._head().rpartition(":")
        try:
            socket.create_connection((place, int(port)), CONNECT_S).close()
        except OSError:
            return False
        self._answered = self._looked
        return True

    def _head(self) -> str:
        return str(self._ray.get_runtime_context().gcs_address)

    def check_folder(self, folder: Path) -> None:
        """Refuse machines that cannot read a run, as `ray_machines.check_folder`."""
        if self.address != "local":
            check_folder(self._ray, folder)

    def check_own_files(self) -> None:
        """Refuse machines that lack a file of the user's own which this process has imported, or have another one; each file is
        asked for once. Raises as `ray_machines.check_own_files`."""
        new = [file for file in imported_files() if file not in self._known_files]
        if new and self.address != "local":
            check_own_files(self._ray, new)
            self._known_files.update(new)

    def mailbox(self) -> WorkerMailbox:
        """A new mailbox, on this machine."""
        return WorkerMailbox(self._ray.remote(num_cpus=0, scheduling_strategy=self._here())(Letters).remote())

    def _here(self) -> Any:
        """The wish to be placed on this machine."""
        return on_node(self._ray.get_runtime_context().get_node_id())

    def begin_training(
        self, work: Callable[[dict[str, Any]], None], order: dict[str, Any], storage: str, restarts: int, backend: str
    ) -> Any:
        """Begin to have all workers call ``work(order)`` in a group of torch.distributed, anew after each loss of one.

        A task of the cluster waits for them: `ray.shutdown` crashes a process of which a thread does.

        Args:
            work: a function of a module.
            order: its argument.
            storage: folder for Ray's own files.
            restarts: at most.
            backend: of torch.distributed.

        Returns:
            The reply, for `failure`.
        """
        group = WorkerGroup(work, order, self.workers, self.cpus, storage, restarts, backend, self._idle_s)
        return self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=self._here())(fit).remote(group)

    def failure(self, reply: Any) -> str | None:
        """Why a training ended, "" where it was done, None while it goes on."""
        if not self._ray.wait([reply], timeout=0)[0]:
            return None
        try:
            self._ray.get(reply)
        except (self._ray.exceptions.ActorDiedError, self._ray.exceptions.WorkerCrashedError):
            return "the process of Ray that directs the workers was lost"
        except self._ray.exceptions.RayError as error:
            last = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return f"the workers were lost too often and are not started again ({last:.200})"
        return ""
