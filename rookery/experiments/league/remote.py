"""Matches and trainings of a league in processes of a Ray cluster, which need not see its folder.

The policies of a match go along with it. A training gets the files of its run folder, with a checkpoint, and its opponents'
policies; it sends back what it saves, and this process writes that into the league's folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.experiments.league.arena import LeagueMatches
from rookery.experiments.league.state import Cell, LeagueMember, LeagueSettings, LeagueState, locate
from rookery.experiments.match_env import CONTROLLER
from rookery.experiments.opponents import FILE as OPPONENTS
from rookery.experiments.opponents import read_opponents
from rookery.experiments.ray_cluster import LOSSES, Cluster
from rookery.experiments.ray_mailbox import WorkerMailbox
from rookery.experiments.sent_policies import SentPolicies
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import resume
from rookery.experiments.zoo import zoo
from rookery.policies.training import checkpoint, store
from rookery.policies.training.interruption import Interruption
from rookery.policies.training.lock import FILE as LOCK
from rookery.policies.training.lock import RunLock
from rookery.sim.errors import ProcessLost
from rookery.sim.files import make_folder, replace

LOOK_S = 0.1
"""s between looks for what trainings send."""
TELL_S = 15.0
"""s between lines on one training."""
CHECKPOINTS = "checkpoints"


class LeagueCluster:
    """Matches and trainings of a league in processes of a cluster.

    Args:
        cluster: that is connected.
        tell: called with a line on what happens.
    """

    def __init__(self, cluster: Cluster, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._tell = tell

    def play(
        self,
        folder: Path,
        state: LeagueState,
        training: RunSettings,
        pairs: Sequence[tuple[LeagueMember, LeagueMember]],
    ) -> Iterator[Cell]:
        """Results of pairs in their order; all begin at once. For the arguments see `LeagueMatches`."""
        members = {m.policy: m for pair in pairs for m in pair if m.policy != CONTROLLER}
        sent = {policy: SentPolicies.of_run(Path(locate(folder, m))) for policy, m in members.items()}
        orders = []
        for a, b in pairs:
            policies = {m.name: sent[m.policy] for m in (a, b) if m.policy in sent}
            orders.append(MatchOrder(state.settings, state.populations, training, a, b, policies))
        return self._cluster.map(play_match, orders)

    def train(self, runs: Mapping[Path, int]) -> bool:
        """Train runs at once, each from its newest checkpoint to so many control steps.

        Args:
            runs: steps at the end, by run folder.

        Returns:
            False where Ctrl-C stopped them; they are saved.

        Raises:
            RookeryError: as the trainings; or a process was lost too often, or the cluster.
        """
        cores = self._cluster.cores_of_each(len(runs))
        with contextlib.ExitStack() as locks, Interruption() as interruption:
            for run in runs:
                locks.enter_context(RunLock(run))
            going = [TrainingElsewhere(self._cluster, run, steps, cores, self._tell) for run, steps in runs.items()]
            while going:
                time.sleep(LOOK_S)
                if interruption.wanted:
                    for training in going:
                        training.stop()
                going = [training for training in going if not training.done()]
            return not interruption.wanted


@dataclasses.dataclass(frozen=True)
class MatchOrder:
    """Match of two members.

    Args:
        settings, populations: of the league.
        training: settings of its trainings.
        a, b: the members.
        policies: of those that are no controller, by name.
    """

    settings: LeagueSettings
    populations: tuple[str, ...]
    training: RunSettings
    a: LeagueMember
    b: LeagueMember
    policies: Mapping[str, SentPolicies]


def play_match(order: MatchOrder) -> Cell:
    """The result of a match."""
    with tempfile.TemporaryDirectory(prefix="rookery-league-") as folder:
        for name, sent in order.policies.items():
            sent.write(Path(folder) / "members" / name)
        a, b = (
            dataclasses.replace(m, policy=f"members/{m.name}") if m.name in order.policies else m
            for m in (order.a, order.b)
        )
        state = LeagueState(order.settings, order.populations)
        with LeagueMatches(Path(folder), state, order.training) as arena:
            return arena.meet(a, b)


@dataclasses.dataclass(frozen=True)
class RunOrder:
    """Training that goes on elsewhere.

    Args:
        files: of the run folder, by path from it.
        opponents: policies of the members in its file of opponents, in that order; None for names that are known everywhere.
        steps: control steps at the end.
        mailbox: for what is saved.
    """

    files: Mapping[str, bytes]
    opponents: tuple[SentPolicies | None, ...]
    steps: int
    mailbox: Any

    @classmethod
    def of(cls, run: Path, steps: int, mailbox: Any) -> RunOrder:
        """The order of a run with a checkpoint."""
        named = [m.policy for m in read_opponents(run / OPPONENTS).members]
        known = {CONTROLLER, *zoo()}
        opponents = tuple(None if name in known else SentPolicies.of_run(Path(name)) for name in named)
        return cls(files_of(run), opponents, steps, mailbox)


def files_of(run: Path) -> dict[str, bytes]:
    """The files of a run by path from its folder, of checkpoints the newest alone."""
    newest = checkpoint.newest(run)
    found = [file for file in run.rglob("*") if file.is_file() and file.name != LOCK]
    here = [f for f in found if f.parent == newest or (run / CHECKPOINTS) not in f.parents]
    return {str(f.relative_to(run)): f.read_bytes() for f in here}


def train_elsewhere(order: RunOrder) -> None:
    """Train, and send each checkpoint with all that has changed beside it."""
    mailbox = WorkerMailbox(order.mailbox)
    with tempfile.TemporaryDirectory(prefix="rookery-league-") as folder:
        run = Path(folder) / "run"
        _write(run, order.files)
        _name_opponents(run, order.opponents)
        known = files_of(run)

        def saved(path: Path) -> None:
            now = files_of(run)
            mailbox.put({"steps": int(path.name), "files": {k: v for k, v in now.items() if known.get(k) != v}})
            known.clear()
            known.update(now)

        training = resume(run, {"total_steps": order.steps}, saved=saved)
        training.run(lambda row: mailbox.put({"steps": row["steps"]}), mailbox.wanted)
        mailbox.finish({})  # all that was put before is there then


def _write(run: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)


def _name_opponents(run: Path, sent: Sequence[SentPolicies | None]) -> None:
    """Put the opponents' policies beside a run, and let its file of opponents name them."""
    found = read_opponents(run / OPPONENTS)
    members = []
    for i, (member, policies) in enumerate(zip(found.members, sent, strict=True)):
        if policies is not None:
            policies.write(run.parent / "opponents" / str(i))
            member = dataclasses.replace(member, policy=f"../opponents/{i}")
        members.append(member)
    (run / OPPONENTS).write_text(dataclasses.replace(found, members=tuple(members)).to_toml())


def keep_sent(run: Path, files: Mapping[str, bytes]) -> None:
    """Write what a training elsewhere has saved, in the order in which it was: the checkpoint last.

    Raises:
        RookeryError: the disk is full or the folder cannot be written.
    """
    saved: dict[str, dict[str, bytes]] = {}
    try:
        for name, data in files.items():
            path = Path(name)
            if path.parts[0] == CHECKPOINTS:
                saved.setdefault(path.parent.name, {})[path.name] = data
            else:
                make_folder((run / path).parent)
                replace(run / path, data)
    except OSError as error:
        raise store.unwritable(run, error) from error
    for name, parts in saved.items():
        checkpoint.receive(run, name, parts)
        checkpoint.remove_old(run, 1, int(name))


class TrainingElsewhere:
    """Training of a run by a process of the cluster, which another one goes on with if it is lost.

    Args:
        cluster: that is connected.
        run: its folder, with a checkpoint; held by the caller.
        steps: control steps at the end.
        cores: of the process.
        tell: called with a line from time to time.
    """

    def __init__(self, cluster: Cluster, run: Path, steps: int, cores: int, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._run = run
        self._steps = steps
        self._tell = tell
        self._told = time.monotonic()
        self._losses = 0
        self._begin(cores)

    def _begin(self, cores: int) -> None:
        self._stopping = self._heard = False
        self._mailbox = self._cluster.mailbox()
        order = RunOrder.of(self._run, self._steps, self._mailbox.actor)
        self._reply = self._cluster.begin(train_elsewhere, order, cores)

    def stop(self) -> None:
        """Ask it to stop after its iteration and save; one that has made none is called off."""
        if self._stopping:
            return
        self._stopping = True
        if self._heard:
            self._mailbox.stop()
        else:
            self._cluster.cancel(self._reply)

    def done(self) -> bool:
        """Keep what has come; True once the training has ended.

        Raises:
            RookeryError: as the training; or processes were lost too often, or the cluster.
        """
        ended = self._cluster.ended(self._reply)
        self._keep(self._mailbox.rows(wait=ended))
        if not ended:
            return False
        try:
            self._cluster.result(self._reply)
        except ProcessLost:
            if self._stopping:
                return True
            self._losses += 1
            if self._losses > LOSSES:
                raise
            self._tell(f"{self._run.name}: its process was lost, and another one goes on from the newest checkpoint")
            self._begin(1)  # a machine with more processors may be gone
            return False
        return True

    def _keep(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._heard |= bool(rows)
        for row in rows:
            if "files" in row:
                keep_sent(self._run, row["files"])
        if rows and time.monotonic() > self._told + TELL_S:
            self._told = time.monotonic()
            self._tell(f"{self._run.name}: {int(rows[-1]['steps']):,} of {self._steps:,} steps")
