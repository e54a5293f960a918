"""A Ray cluster for workers, trials or episodes: this machine alone, or one that runs already."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError

LIBRARIES = ("rookery", "torch", "numpy", "numba", "mujoco", "pybullet")
"""Whose versions must be the same everywhere: results depend on them."""
LOSSES = 3
"""How often a task whose process is lost is done again."""
CONNECT_S = 5.0
"""s within which the head of a cluster must answer."""
STORE_BYTES = 100_000_000
"""Of a local cluster's shared memory, which hardly anything goes through."""


def _ray() -> Any:
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
        import ray.train.torch
    except ImportError as error:
        raise RookeryError("several processes or machines need Ray: pip install 'rookery[ray]'.") from error
    return ray


class Cluster:
    """Workers' processors, a context manager.

    Args:
        address: "local", "auto", or of the head, such as "10.0.0.4:6379".
        workers: how many.
        cpus: processors of each.
        kind: of workers, for messages.
        advice: where there are too few processors.

    Raises:
        RookeryError: no cluster, or one with fewer processors.
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

    def __enter__(self) -> Cluster:
        ray = self._ray
        needed = self.workers * self.cpus
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address == "local":
            if needed > usable_cores():
                raise self._too_few(usable_cores(), "this machine")
            own = {"num_cpus": max(1, round(needed + 0.499)), "object_store_memory": STORE_BYTES}
            ray.init(address="local", include_dashboard=False, **own, **quiet)
            return self
        self._check_address()
        try:
            ray.init(address=self.address, **quiet)
        except Exception as error:  # of several kinds, by what answers there
            raise self._no_cluster() from error
        have = ray.cluster_resources().get("CPU", 0.0)
        if have < needed:
            ray.shutdown()
            raise self._too_few(have, "the cluster")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def processors(self) -> float:
        """Processors of all machines."""
        return float(self._ray.cluster_resources().get("CPU", 1.0))

    def each(self, work: Callable[[Any], Any], orders: list[Any]) -> Iterator[tuple[int, Any]]:
        """Call ``work(order)`` for each of the orders, on a processor each, and anew where a process is lost.

        Yields:
            the place of an order, and the result, as they come.
        """
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=LOSSES)(work)
        places = {task.remote(order): i for i, order in enumerate(orders)}
        waiting = list(places)
        while waiting:
            done, waiting = ray.wait(waiting)
            for reply in done:
                try:
                    yield places[reply], ray.get(reply)
                except ray.exceptions.WorkerCrashedError as error:
                    raise RookeryError(f"a process of the cluster was lost {LOSSES + 1} times: try again.") from error

    def check_nodes(
        self, folder: Path | None, advice: str = "give --out a folder that all machines of the cluster share"
    ) -> None:
        """Refuse machines that would compute something else, or cannot read the run.

        Args:
            folder: of the run; None for none.
            advice: for a machine that does not see it.

        Raises:
            RookeryError: other versions of Rookery or a library, or a machine that does not see the folder.
        """
        if self.address == "local":
            return
        ray = self._ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        token = Path(os.devnull) if folder is None else folder / f".seen-{uuid.uuid4().hex}"
        if folder is not None:
            token.touch()
        try:
            look = ray.remote(num_cpus=0)(_look)
            nodes = {n["NodeID"]: n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]}
            looks = {}
            for node in nodes:
                place = NodeAffinitySchedulingStrategy(node, soft=False)
                looks[node] = look.options(scheduling_strategy=place).remote(str(token))
            mine = versions()
            for node, found in looks.items():
                theirs, sees = ray.get(found)
                _compare(mine, theirs, nodes[node])
                if not sees:
                    raise RookeryError(f"{nodes[node]} does not see {folder}: {advice}.")
        finally:
            if folder is not None:
                with contextlib.suppress(OSError):
                    token.unlink()

    def mailbox(self) -> WorkerMailbox:
        """A new mailbox, on this machine."""
        return WorkerMailbox(self._ray.remote(num_cpus=0)(_Letters).remote())

    def run(
        self, work: Callable[[dict[str, Any]], None], order: dict[str, Any], storage: str, restarts: int, backend: str
    ) -> None:
        """Have all workers call ``work(order)`` in a group of torch.distributed, anew after each loss of one.

        Args:
            work: a function of a module.
            order: its argument.
            storage: folder for Ray's own files.
            restarts: at most.
            backend: of torch.distributed.
        """
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        TorchTrainer(
            work,
            train_loop_config=order,
            torch_config=TorchConfig(backend=backend),
            scaling_config=ScalingConfig(num_workers=self.workers, resources_per_worker={"CPU": self.cpus}),
            run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=restarts)),
        ).fit()


class _Letters:
    """Messages between workers and the command, in a process of Ray's."""

    def __init__(self) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.stopping = False
        self.end: dict[str, Any] | None = None
        self.failure = ""

    def put(self, row: dict[str, Any]) -> bool:
        self.waiting.append(row)
        return self.stopping

    def take(self) -> list[dict[str, Any]]:
        rows = self.waiting
        self.waiting = []
        return rows

    def stop(self) -> None:
        self.stopping = True

    def finish(self, result: dict[str, Any]) -> None:
        self.end = result

    def fail(self, message: str) -> None:
        self.failure = self.failure or message

    def ends(self) -> tuple[dict[str, Any] | None, str]:
        return self.end, self.failure


class WorkerMailbox:
    """A worker's rows, its end, and the command's wish to stop.

    Args:
        actor: the process that keeps them.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self._reply: Any = None
        self._get = _ray().get

    def put(self, row: dict[str, Any]) -> None:
        """A row of the log, by the worker of rank 0; it does not wait."""
        self._reply = self.actor.put.remote(row)

    def wanted(self) -> bool:
        """True once the command wants to stop, as the reply to the latest row says."""
        return self._reply is not None and bool(self._get(self._reply))

    def finish(self, result: dict[str, Any]) -> None:
        """The end of a training."""
        self._get(self.actor.finish.remote(result))

    def fail(self, message: str) -> None:
        """An error that starting anew does not mend."""
        self._get(self.actor.fail.remote(message))

    def stop(self) -> None:
        """Ask the workers to stop after their iteration."""
        self._get(self.actor.stop.remote())

    def rows(self) -> list[dict[str, Any]]:
        """Rows since the last call."""
        rows: list[dict[str, Any]] = self._get(self.actor.take.remote())
        return rows

    def result(self) -> dict[str, Any] | None:
        """The result of a training that has ended; None before."""
        found: dict[str, Any] | None = self._get(self.actor.ends.remote())[0]
        return found

    def error(self) -> str:
        """Sentence of a worker that cannot go on; "" without one."""
        return str(self._get(self.actor.ends.remote())[1])


def versions() -> dict[str, str]:
    """Versions of LIBRARIES here."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def _look(token: str) -> tuple[dict[str, str], bool]:
    """On another machine: its versions, and whether it sees a file."""
    return versions(), Path(token).exists()


def _compare(mine: dict[str, str], theirs: dict[str, str], host: str) -> None:
    """Refuse other versions.

    Raises:
        RookeryError: naming both.
    """
    for name, version in mine.items():
        if theirs[name] != version:
            raise RookeryError(
                f"{host} has {name} {theirs[name]} and this machine {version}: install the same on all machines of the cluster."
            )
