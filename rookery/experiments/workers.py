"""Training by several workers: each has worlds of its own, and all learn the same policy (rookery.policies.training.reduction),
or one learns for all (rookery.policies.training.roles).

Ray places the workers, watches them and starts them anew when one is lost (Moritz et al. 2018, arXiv 1712.05889; Ray Train's
TorchTrainer); torch.distributed adds up what they learn and carries what they did. The worker of rank 0 writes the run folder,
whose files are those of a training in one process. The process of the command shows the progress, and passes Ctrl-C on.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rookery.experiments.algorithm import begin, refuse_workers
from rookery.experiments.ray_cluster import RETURN_S, Cluster
from rookery.experiments.ray_mailbox import WorkerMailbox
from rookery.experiments.ray_tasks import Surroundings, as_here
from rookery.experiments.resumed import read_resumed
from rookery.experiments.runs import link_latest
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import RANGES, Training, refuse_changed_task, runner_of, start, training_result
from rookery.policies.training import checkpoint
from rookery.policies.training.interruption import Interruption
from rookery.policies.training.logging import Terminal
from rookery.policies.training.reduction import Reduction
from rookery.policies.training.roles import Roles
from rookery.sim.devices import find_device
from rookery.sim.errors import ProcessLost, RookeryError
from rookery.tasks.registry import find

LOOK_S = 0.1
"""s between looks for progress."""
PLACES_S = 5.0
"""s between looks whether the cluster has processors for all workers."""
RESTARTS = 20
"""How often workers are started anew before the training ends."""
STORAGE = ".ray-"
"""Begins the name of the folder of Ray's own files; the machine and the process of the command follow."""
GLOO = "gloo"
NCCL = "cpu:gloo,cuda:nccl"
"""Backends of torch.distributed: the first sums on the CPU, also what is on GPUs; with the second GPUs send to one another."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """Workers of a training.

    Args:
        count: how many.
        cpus: processors of each; below 1 several share one.
        address: of a Ray cluster, "auto" for the one that runs on this machine, or "local" for one that this command starts.
        staleness: updates by which weights that act may be older than those that learn, see `Roles`.
    """

    count: int
    cpus: float = 1.0
    address: str = "local"
    staleness: int = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise RookeryError(f"--workers must be at least 1, got {self.count}.")
        if not 0.0 < self.cpus < 1000.0 or (self.cpus > 1.0 and self.cpus != int(self.cpus)):
            raise RookeryError(
                f"--worker-cpus must be a whole number or a share between 0 and 1, got {self.cpus:g}: give 1."
            )
        if self.staleness < 0:
            raise RookeryError(f"--staleness must be at least 0, got {self.staleness}.")
        if self.staleness and self.count < 2:
            raise RookeryError(
                f"with --staleness {self.staleness} one worker learns while the others act: give --workers 2 or more."
            )

    @property
    def words(self) -> str:
        """The options of `rookery train` that ask for them."""
        defaults = Workers(self.count)
        words = [f"--workers {self.count}"]
        words += [f"--worker-cpus {self.cpus:g}"] if self.cpus != defaults.cpus else []
        words += [f"--ray {self.address}"] if self.address != defaults.address else []
        words += [f"--staleness {self.staleness}"] if self.staleness != defaults.staleness else []
        return " ".join(words)


def train(
    workers: Workers,
    settings: RunSettings | None,
    out: Path | None,
    run: Path | None,
    changes: dict[str, Any] | None,
    begun: Callable[[RunSettings, Path], None],
    device: str | None = None,
    task: str | None = None,
) -> tuple[RunSettings, dict[str, Any]]:
    """Train until a stop criterion holds or Ctrl-C.

    Args:
        workers: who trains.
        settings: of a new training; None to resume `run`.
        out: folder of a new run.
        run: that is resumed.
        changes: of a resumed run, see `rookery.experiments.resumed.read_resumed`.
        begun: called with settings and folder once both are known to be good.
        device: where a resumed run learns from now on; None for where it has.
        task: the one that the caller expects of a resumed run; None takes the run's.

    Returns:
        the settings, and what `Training.run` returns.

    Raises:
        RookeryError: settings, a cluster or a folder that cannot be used; or workers were lost too often.
    """
    steps = 0
    contract: dict[str, Any]
    if settings is not None:  # what is refused without Ray, which takes some seconds to start
        find_device(settings.device)
    else:
        assert run is not None
        settings, contract, folder = _resumed(run, changes, task, device)
        steps = checkpoint.steps_of(checkpoint.newest(folder))
    refuse_workers(settings, Roles(0, workers.count, workers.staleness))
    with Cluster(workers.address, workers.count, workers.cpus) as cluster:
        if run is None:
            training = start(settings, out, Roles(0, workers.count, workers.staleness))
            settings, contract, folder = training.settings, training.runner.contract, training.folder
            training.close()
            del training  # and with it the replay memory, which the worker that learns has
        folder = folder.resolve()
        try:
            cluster.check_folder(folder)
            cluster.check_own_files()
        except RookeryError:
            if run is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        begun(settings, folder)
        order: dict[str, Any] = {"settings": settings.to_values(), "folder": str(folder), "contract": contract}
        order |= {"cpus": workers.cpus, "staleness": workers.staleness, "surroundings": Surroundings.now()}
        order |= {"backend": backend_of(workers, settings.device), "latest": run is None and out is None}
        return settings, _watch(cluster, workers, order, Terminal(steps, settings.runner.total_steps))


def _resumed(
    run: Path, changes: dict[str, Any] | None, task: str | None, device: str | None
) -> tuple[RunSettings, dict[str, Any], Path]:
    """As `read_resumed`, from a run's newest checkpoint."""
    if run.parent.name == "checkpoints":
        raise RookeryError(
            f"workers go on from the newest checkpoint of a run: give {run.parent.parent}, without the folders of later "
            f"checkpoints than {run.name} in {run.parent}."
        )
    found = read_resumed(run, changes, task, device, shards="1")  # the workers divide the worlds
    find(found[0].task).load()  # a file of the user's own is known then
    return found


def backend_of(workers: Workers, device: str) -> str:
    """The backend that sums what workers learn on a device: NCCL where each has a GPU of its own, which is known of this
    machine alone."""
    own = device == "cuda" and workers.address == "local" and workers.count <= torch.cuda.device_count()
    return NCCL if own else GLOO


def _watch(cluster: Cluster, workers: Workers, order: dict[str, Any], terminal: Terminal) -> dict[str, Any]:
    """Have the workers train, and show it."""
    mailbox = cluster.mailbox()
    folder = Path(order["folder"])
    storage = _storage(folder)
    shortage = _Shortage(cluster, workers, folder)
    terminal.start()
    try:
        with Interruption() as interruption:
            try:
                letters = {"mailbox": mailbox.actor}
                training = cluster.begin_training(_work, order | letters, str(storage), RESTARTS, order["backend"])
                told = False
                while (failure := cluster.failure(training)) is None:
                    time.sleep(LOOK_S)
                    cluster.check_head(_way_on(workers, folder))
                    shortage.look()
                    if interruption.wanted and shortage.waiting:  # nobody is there to hear it
                        return _stopped_early(order, "the workers waited for a machine")
                    if interruption.wanted and not told:
                        told = True
                        mailbox.stop()
                    _show(terminal, mailbox, wait=False)
                    if mailbox.error(wait=False):
                        break
                _show(terminal, mailbox, wait=True)
                result, error = mailbox.result(), mailbox.error()
            except RookeryError as lost:
                if interruption.wanted and checkpoint.complete(folder):
                    return _stopped_early(order, "the signal has ended Ray's own processes too")
                if isinstance(lost, ProcessLost):
                    raise RookeryError(f"{str(lost).rstrip('.')}: {_way_on(workers, folder)}.") from lost
                raise
    finally:
        terminal.stop()
        shutil.rmtree(storage, ignore_errors=True)
    if error:
        raise RookeryError(error)
    if result is None:
        raise RookeryError(f"{failure or 'Ray has ended the workers'}: {_way_on(workers, folder)}.")
    return result


def _storage(folder: Path) -> Path:
    """A folder for Ray's own files, in the run folder, which all machines share; those of commands that were killed on this
    machine are removed."""
    prefix = f"{STORAGE}{socket.gethostname()}-"
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        number = left.name.removeprefix(prefix)
        if number.isdecimal() and not _lives(int(number)):
            shutil.rmtree(left, ignore_errors=True)
    return folder.absolute() / f"{prefix}{os.getpid()}"


def _lives(process: int) -> bool:
    """True where there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def _stopped_early(order: dict[str, Any], why: str) -> dict[str, Any]:
    """The result of an interrupted training whose workers cannot save any more: the signal went to the whole process group, as
    that of `timeout`, and has ended Ray's own processes and with them the workers; or these wait for a machine.

    Raises:
        KeyboardInterrupt: there is no checkpoint yet.
    """
    if not checkpoint.complete(Path(order["folder"])):
        raise KeyboardInterrupt
    settings = RunSettings.from_values(order["settings"])
    state = checkpoint.read_state(checkpoint.newest(Path(order["folder"])))
    said = f"{why}: what came after the checkpoint of {state['steps']:,} steps is lost"
    print(f"rookery: {said}", file=sys.stderr, flush=True)
    return training_result(settings, Path(order["folder"]), state["steps"], state["seconds"], "interrupt")


def _show(terminal: Terminal, mailbox: WorkerMailbox, wait: bool) -> None:
    """Show what came from the workers."""
    for row in mailbox.rows(wait):
        terminal.show(row)
    for sentence in mailbox.notes(wait):
        print(f"rookery: {sentence}", file=sys.stderr, flush=True)


class _Shortage:
    """Tells once that workers wait for a machine in place of a lost one, and ends their waiting.

    Attributes:
        waiting: they do so now.
    """

    def __init__(self, cluster: Cluster, workers: Workers, folder: Path) -> None:
        self._cluster = cluster
        self._way_on = partial(_way_on, workers, folder)
        self._looked = time.monotonic()
        self.waiting = False

    def look(self) -> None:
        """Look at the cluster from time to time, however often this is called.

        Raises:
            RookeryError: see `Cluster.check_places`.
        """
        if time.monotonic() < self._looked + PLACES_S:
            return
        self._looked = time.monotonic()
        enough = self._cluster.check_places(self._way_on())
        if not enough and not self.waiting:
            line = f"a machine was lost, and the workers wait for another one, for {RETURN_S:g} s at most"
            print(f"rookery: {line}", file=sys.stderr, flush=True)
        self.waiting = not enough


def _way_on(workers: Workers, folder: Path) -> str:
    """Advice to a user whose cluster was lost."""
    there = checkpoint.complete(folder)
    return (
        f"go on with `rookery train --resume {folder} {workers.words}`"
        if there
        else "train anew, for there is no checkpoint yet"
    )


def _work(order: dict[str, Any]) -> None:
    """The work of each worker; started anew, it goes on from the newest checkpoint."""
    as_here(_train_together, order, order["surroundings"], max(1, int(order["cpus"])))


def _train_together(order: dict[str, Any]) -> None:
    from rookery.policies.training.distributed import distributed

    reduction = distributed()
    mailbox = WorkerMailbox(order["mailbox"])
    try:
        training = _joined(order, Roles(reduction.rank, reduction.size, order["staleness"]), reduction)
        if reduction.rank == 0:
            mailbox.begin(training.runner.steps)
        result = training.run(mailbox.put, mailbox.wanted, mailbox.note)
    except RookeryError as error:
        mailbox.fail(str(error))
        raise
    if reduction.rank == 0:
        mailbox.finish(result)


def _joined(order: dict[str, Any], roles: Roles, reduction: Reduction) -> Training:
    """The training as this worker takes part in it, at its newest checkpoint."""
    folder = Path(order["folder"])
    settings = RunSettings.from_values(order["settings"])
    begun = bool(checkpoint.complete(folder))
    first = dataclasses.replace(settings, init=None) if begun else settings  # the checkpoint has what was begun from
    kept = folder / RANGES
    _, algorithm, worlds = begin(first, str(kept) if kept.exists() else settings.randomize, folder, roles)
    saved = (lambda path: link_latest(folder)) if order["latest"] else None
    runner = runner_of(settings, algorithm, folder, order["contract"], saved=saved, reduction=reduction, worlds=worlds)
    if begun:
        refuse_changed_task(order["contract"], algorithm, folder)
        runner.load(folder)
    return Training(settings, runner)
