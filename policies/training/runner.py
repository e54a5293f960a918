"""The training loop, the same for every algorithm: collect, update, log, checkpoint, stop, resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.tracking.tracker import TrackedRun
from rookery.policies.tracking.tracking import Note, Tracking
from rookery.policies.training import checkpoint, store
from rookery.policies.training.interruption import Interrupted, Interruption
from rookery.policies.training.lock import RunLock
from rookery.policies.training.logging import EpisodeStatistics, Progress, RunLog, Wanted
from rookery.policies.training.parts import join_parts, split_parts
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.buffers import under
from rookery.sim.compiling import compiling_s
from rookery.sim.envs.shard_states import ShardStates
from rookery.sim.errors import Diverged, ProcessLost, RookeryError
from rookery.sim.threads import one_thread_each
from rookery.sim.values import from_values, plain

__all__ = ["Runner"]

STOPS = (None, "success", "steps", "time")
"""Why training ends; None where it does not."""


class Runner:
    """Trains an algorithm in its environment, in a run folder.

    Args:
        algorithm: with its environment.
        config: stop criteria and checkpoints.
        folder: run folder; gets checkpoints/, the current policy, contract.json and progress.csv.
        name: registered name of the algorithm, stored in checkpoints.
        settings: JSON values stored in checkpoints, from which the caller can make the same environment and algorithm.
        contract: of the policy, without its network; ``provenance.steps`` is kept up to date.
        inputs: checksums of the files that are learnt from, by the option that names them; stored in checkpoints, and must be
            the same to continue.
        refresh: called with the contract before each save, to bring up to date what changes in training.
        saved: called after each checkpoint.
        between: called after each iteration, before its checkpoint, as to choose the next opponents. What it changes must be in
            the state of the environment or the algorithm, so that a resumed run continues alike.
        reduction: the processes that train together, each with a runner, an algorithm and worlds of its own; that of rank 0
            writes the folder and decides when training ends.
        worlds: takes apart and joins states of the environment of all processes' worlds, with a slice for each process; needed
            where there are several.

    Attributes:
        steps: so far, of all processes, in the unit of `RunnerConfig.total_steps`.
        rank: of this process.
        alone: whether it has had the folder for itself, with no other process that trains in it or together with it.
        iteration: updates made so far.
        seconds: s spent collecting and learning, without those in which kernels were compiled.
        figures: of the latest update.
        episodes: figures of finished episodes.
        randomization_share: of the distributions' width that a curriculum draws, 0 to 1; None without one.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        config: RunnerConfig,
        folder: Path | str,
        *,
        name: str = "",
        settings: dict[str, Any] | None = None,
        contract: dict[str, Any] | None = None,
        inputs: dict[str, str] | None = None,
        refresh: Callable[[dict[str, Any]], None] | None = None,
        saved: Callable[[Path], None] | None = None,
        between: Callable[[Runner], None] | None = None,
        reduction: Reduction = ALONE,
        worlds: ShardStates | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.env = algorithm.env
        self.config = config
        self.folder = Path(folder)
        self.name = name
        self.settings = settings or {}
        self.contract = contract or {}
        self.inputs = inputs or {}
        self.steps = 0
        self.iteration = 0
        self.seconds = 0.0
        self.figures: dict[str, float] = {}
        self.episodes = EpisodeStatistics(config.success_window)
        self.obs: dict[str, Tensor] | None = None  # of this control step; None before the first
        self._there: list[Path] | None = None  # the newest checkpoint in the folder when one was loaded
        self._refresh = refresh
        self._saved = saved
        self._between = between
        self._reduction = reduction
        self._worlds = worlds
        self._wanted: Wanted = lambda: False  # whether to stop and save
        self.rank = reduction.rank
        self.alone = False
        algorithm.share(reduction)
        self._each = algorithm.steps_per_update * algorithm.roles.actors  # control steps of an iteration
        self._note_share()

    def run(self, progress: Progress | None = None, wanted: Wanted | None = None, note: Note | None = None) -> str:
        """Train until a stop criterion holds; the last state is always saved.

        Args:
            progress: called with the log row of each iteration; None shows them on the terminal.
            wanted: asked after each iteration whether to stop and save as after Ctrl-C; None where only signals say so.
            note: called with what trackers say, from threads of theirs; None writes it to standard error.

        Returns:
            why it stopped: "steps", "success" or "time".

        Raises:
            Interrupted: Ctrl-C, SIGTERM or SIGHUP, after the iteration was finished and a checkpoint written.
            RookeryError: the folder cannot be written, another process trains in it, training diverged, or a process of the
                environment was lost; after a loss the iteration is finished and saved all the same, where that is possible.
        """
        if self.rank:
            return self._follow()
        last_save = -1
        end = self.config.end(self.steps, self._each)
        with (
            RunLock(self.folder),
            RunLog(self.folder, self.steps, end, progress, self._tracking(note)) as log,
            Interruption() as interruption,
        ):
            if self._there is not None and checkpoint.complete(self.folder)[-1:] != self._there:
                raise RookeryError(
                    f"another process has trained in {self.folder} since its checkpoint was read here: resume it once more."
                )
            self.alone = self._reduction.size == 1
            if self.steps:  # after a resume from an older checkpoint, later ones must not outlive their log rows
                checkpoint.remove_old(self.folder, self.config.keep, self.steps)
            log.resume(self.steps)
            self.env.survive_loss()
            self._wanted = lambda: interruption.wanted or (wanted is not None and wanted())
            while (stopped := self._stop()) is None:
                log.write(self._iterate_or_tell())
                if self._between is not None:
                    self._between(self)
                interrupted = bool(self._decided(self._wanted()))
                if interrupted or self.env.loss or self._due():
                    log.flush()
                    path = self.save()
                    last_save = self.iteration
                self._refuse_loss()
                if interrupted:
                    raise Interrupted(path)
            if last_save != self.iteration:
                log.flush()
                self.save()
            self._refuse_loss()
        return stopped

    def _tracking(self, note: Note | None) -> Tracking:
        """The trackers of this run."""
        settings = {k: v for k, v in self.settings.items() if k not in ("task", "algorithm")}
        origin = {k: v for k, v in self.contract.get("provenance", {}).items() if k != "steps"}
        run = TrackedRun(self.folder, self.steps, self.env.task_id, self.name, settings, origin)
        return Tracking(self.config.trackers, run, note)

    def _follow(self) -> str:
        """The loop of a process that is not of rank 0: it writes nothing, and hands over its part of what is saved."""
        last_save = -1
        while (stopped := self._stop()) is None:
            self.iterate()
            if self._between is not None:
                self._between(self)
            interrupted = bool(self._decided(False))
            if interrupted or self._due():
                self._tensors()
                last_save = self.iteration
            if interrupted:
                raise Interrupted(self.folder)
        if last_save != self.iteration:
            self._tensors()
        return stopped

    def _due(self) -> bool:
        """A checkpoint is due after this iteration."""
        return self.iteration % self.config.checkpoint_every == 0

    def _stop(self) -> str | None:
        """Why training ends now, as the process of rank 0 has it; None for going on."""
        return STOPS[self._decided(STOPS.index(self._stop_criterion(self.steps)))]

    def _decided(self, value: int, always: bool = False) -> int:
        """The value of the process of rank 0; 0, for going on, where the others have gone on, unless `always`."""
        if self._reduction.size == 1:
            return value
        if not (always or self.algorithm.others_wait):
            return 0
        return int(self._reduction.sum(torch.tensor(0 if self.rank else int(value))))

    def _iterate_or_tell(self) -> dict[str, Any]:
        """`iterate`; where a lost process could not be replaced, the error says what is left to go on with."""
        try:
            return self.iterate()
        except ProcessLost as lost:
            saved = [checkpoint.steps_of(path) for path in checkpoint.complete(self.folder)]
            left = f"the newest checkpoint has {max(saved)} steps" if saved else "there is no checkpoint yet"
            then = f": go on with `rookery train --resume {self.folder}`." if saved else "."
            raise ProcessLost(f"{lost} Training cannot go on, and {left}{then}") from lost

    def _refuse_loss(self) -> None:
        """End a training whose environment has lost a process and had it replaced, once all is saved."""
        if self.env.loss:
            raise RookeryError(
                f"{self.env.loss} Training stopped after iteration {self.iteration}, which is saved whole: go on with "
                f"`rookery train --resume {self.folder}`."
            )

    def _stop_criterion(self, steps: int) -> str | None:
        # success where little is randomized is not what is asked for
        success = self.episodes.success if self.randomization_share in (None, 1.0) else None
        return self.config.stop(steps, self.seconds, success)

    def _agree(self, steps: int) -> None:
        """Find whether all processes wait for the coming update, after which `steps` are made: where those that act go on
        meanwhile, before a checkpoint and an end alone."""
        if self.algorithm.roles.staleness:
            due = (self.iteration + 1) % self.config.checkpoint_every == 0
            waits = due or self._stop_criterion(steps) is not None or self._wanted()
            self.algorithm.others_wait = bool(self._decided(waits, always=True))

    def iterate(self) -> dict[str, Any]:
        """Collect once and update once.

        Returns:
            the row for the log: counters, speed, figures of finished episodes and of the update.

        Raises:
            RookeryError: a figure is not a number.
        """
        start, compiled = time.perf_counter(), compiling_s()
        traffic = self._reduction.traffic()
        self.algorithm.begin_rollout()
        if self.algorithm.roles.acts:
            self._collect()
        if self.randomization_share is not None:
            self._note_share()
        episodes = self.episodes.summarize(self.steps + self._each, self._reduction)
        self._agree(self.steps + self._each)
        middle = time.perf_counter()
        self.figures = figures = self.algorithm.update(min(1.0, self.steps / self.config.total_steps))
        end = time.perf_counter()
        self.steps += self._each
        self.iteration += 1
        self.seconds += end - start - (compiling_s() - compiled)
        agents = sum(group.count for group in self.env.groups.values()) if self.algorithm.rollout_steps else 1
        diverged = [name for name, value in figures.items() if math.isnan(value)]
        if diverged:
            raise Diverged(
                f"training diverged: {diverged[0]} is not a number after {self.steps} steps; lower the learning rate, "
                "or look for rewards or observations without bounds."
            )
        return {
            "steps": self.steps,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "samples_per_s": self._each * agents / (end - start),
            "collect_s": middle - start,
            "learn_s": end - middle,
            **{name: total - traffic[name] for name, total in self._reduction.traffic().items()},
            **episodes,
            **({} if self.randomization_share is None else {"randomization_share": self.randomization_share}),
            **figures,
        }

    @torch.no_grad()
    @one_thread_each
    def _collect(self) -> None:
        """Make the algorithm's rollout steps in every world."""
        for _ in range(self.algorithm.rollout_steps):
            if self.obs is None:
                self.obs, _ = self.env.reset()
                self.env.stagger()
            actions = self.algorithm.act(self.obs)
            result = self.env.step(actions)
            self.algorithm.observe(self.obs, actions, result)
            self.obs = result[0]
            if "episode" in result[4]:
                self.episodes.add(result[4]["episode"])

    def save(self) -> Path:
        """Write the current policy, then a checkpoint, and remove the oldest checkpoints.

        Returns:
            the checkpoint's folder.

        Raises:
            RookeryError: NaN in the policy, a full disk, or a folder that cannot be written; older checkpoints are left.
        """
        tensors = self._tensors()
        if "provenance" in self.contract:
            self.contract["provenance"]["steps"] = self.steps
        if self._refresh is not None:
            self._refresh(self.contract)
        # the policy first: a kill after the last checkpoint, which nothing resumes, must not leave an older policy beside it
        store.save_policy(self.folder, store.sound(self.env.deployed(self.algorithm.policies())), self.contract)
        path = checkpoint.write(self.folder, self.steps, tensors, self._state())
        self._there = None
        checkpoint.remove_old(self.folder, self.config.keep, self.steps)
        if self._saved is not None:
            self._saved(path)
        return path

    def load(self, folder: Path | str) -> None:
        """Continue from a checkpoint, or from the newest one of a run folder.

        Raises:
            RookeryError: it is missing, damaged, of a newer version, or of another algorithm, environment, config or inputs.
        """
        self._there = checkpoint.complete(self.folder)[-1:]
        path = checkpoint.resolve(folder)
        state = checkpoint.read_state(path)
        # Settings that are newer than the checkpoint have their defaults.
        state["config"] = plain(from_values(type(self.algorithm.config), state["config"]))
        checkpoint.refuse_other(path, state, self._identity())
        for option, digest in state.get("inputs", {}).items():
            if self.inputs.get(option, digest) != digest:
                raise RookeryError(
                    f"the files that --{option} names have changed since {path} was written: put them back as they were, or "
                    "start a new run."
                )
        tensors = self._own(checkpoint.read_tensors(path, state), path)
        env_state = under("env", tensors["env"], "/")
        try:
            if env_state:
                self.env.check_state_dict(env_state)
            self.algorithm.load_state_dict(tensors["algorithm"])
            if env_state:
                self.env.load_state_dict(env_state)
        except (KeyError, ValueError, RuntimeError) as error:
            raise RookeryError(f"{path} does not fit this environment ({error}): use its own settings.") from error
        self.obs = {k: x.to(self.env.device) for k, x in under("observation", tensors["env"], "/").items()} or None
        self.steps = state["steps"]
        self.iteration = state["iteration"]
        self.seconds = state["seconds"]
        self.episodes.load_state_dict(state["episodes"])
        self._note_share()

    def _note_share(self) -> None:
        self.randomization_share = self.env.deployment().randomization_share

    def _tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything exact, by file; the environment only where it is stepped. Of several processes, that of rank 0 has all
        worlds' and the others have nothing to keep."""
        env: dict[str, Tensor] = {}
        if self.obs is not None:
            env |= {f"observation/{name}": x for name, x in self.obs.items()}
            env |= {f"env/{name}": x for name, x in self.env.state_dict().items()}
        own = {"algorithm": self.algorithm.state_dict(), "env": env}
        if self._worlds is None:
            return own
        parts = self._reduction.gather(own)
        return own if parts is None else join_parts(parts, self._worlds, self.algorithm.world_axis)

    def _own(self, tensors: dict[str, dict[str, Tensor]], path: Path) -> dict[str, dict[str, Tensor]]:
        """This process's part of what a checkpoint holds."""
        if self._worlds is None:
            return tensors
        try:
            own = split_parts(tensors, self._worlds, self.algorithm.world_axis)[self.algorithm.roles.index]
            return own if self.algorithm.roles.acts else own | {"env": {}}
        except ValueError as error:
            raise RookeryError(f"{path} does not fit this environment ({error}): use its own settings.") from error

    def _state(self) -> dict[str, Any]:
        return {
            **self._identity(),
            "steps": self.steps,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "episodes": self.episodes.state_dict(),
            "settings": self.settings,
            "inputs": self.inputs,
            "contract": self.contract,
        }

    def _identity(self) -> dict[str, Any]:
        """Values that must be the same for a state to fit."""
        return {
            "algorithm": self.name,
            "task": self.env.task_id,
            "num_envs": self.env.num_envs * self.algorithm.roles.actors,
            "groups": {k: [g.count, g.observation_size, g.action.size] for k, g in self.env.groups.items()},
            "config": plain(self.algorithm.config),
        }
