"""A training from its settings, or from a run that stopped, in its run folder."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.experiments.algorithm import begin, contract_of, make_algorithm
from rookery.experiments.opponents import FILE as OPPONENTS
from rookery.experiments.opponents import copy_opponents, member_files, opponents_in, read_opponents, reweighing
from rookery.experiments.own_terms import refuse_other_terms
from rookery.experiments.resumed import read_resumed
from rookery.experiments.runs import find_run, link_latest, new_run, write_json
from rookery.experiments.settings import FILE, RunSettings, save_settings
from rookery.experiments.skills import SKILLS, keep_skills
from rookery.making import full_config
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.datasets.schema import META
from rookery.policies.tracking.trackers import absolute_tracker
from rookery.policies.tracking.tracking import Note
from rookery.policies.training import checkpoint
from rookery.policies.training.interruption import Interrupted
from rookery.policies.training.logging import Progress, Terminal, Wanted
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.policies.training.roles import Roles
from rookery.policies.training.runner import Runner
from rookery.policies.training.store import FULL, declared_with, unwritable
from rookery.sim.env import Env
from rookery.sim.envs.shard_states import ShardStates
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.ranges import PRESETS
from rookery.sim.trust import remember
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import check_compatible
from rookery.sim2real.contract import Contract

RANGES = "randomization.toml"
"""Copy of the ranges' file in the run folder, so that a resume needs nothing else."""


class Training:
    """A runner in its run folder.

    Args:
        settings: what it was made from.
        runner: with its algorithm and environment.
    """

    def __init__(self, settings: RunSettings, runner: Runner) -> None:
        self.settings = settings
        self.runner = runner
        self.folder = runner.folder

    def close(self) -> None:
        """Free the environment and the algorithm of a training that is not run."""
        self.runner.algorithm.close()
        self.runner.env.close()

    def run(
        self, progress: Progress | None = None, wanted: Wanted | None = None, note: Note | None = None
    ) -> dict[str, Any]:
        """Train until a stop criterion holds or Ctrl-C; in each case everything is saved, and the environment closed.

        Args:
            progress: called with the log row of each iteration; None shows them on the terminal, and says how to resume.
            wanted, note: see `Runner.run`.

        Returns:
            run, task, algorithm, steps, seconds, success (of the latest episodes, with exploration; None where there are
            too few), randomization_share (of the distributions' width that the curriculum draws; None without one), figures
            (of the latest update), stopped ("steps", "success", "time" or "interrupt") and interrupted.
        """
        runner = self.runner
        terminal = None if progress else Terminal(runner.steps, self.settings.runner.total_steps)
        if terminal is not None:
            terminal.start()
            progress = terminal.show
        try:
            stopped = runner.run(progress, wanted, note)
        except Interrupted:
            stopped = "interrupt"
        except Exception as error:
            full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
            barren = runner.alone and runner.iteration == 0  # as of a task of one's own that fails in its first step
            if (full or barren) and not checkpoint.complete(self.folder):  # nothing is there to go on with
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            if terminal is not None:
                terminal.stop()
            self.close()
        if stopped == "interrupt" and terminal is not None:
            print(f"rookery: {interrupted_sentence(self.settings, self.folder, runner.steps)}", file=sys.stderr)
        found = {
            "success": runner.episodes.success,
            "randomization_share": runner.randomization_share,
            "figures": runner.figures,
        }
        return training_result(self.settings, self.folder, runner.steps, runner.seconds, stopped) | found


def interrupted_sentence(settings: RunSettings, folder: Path, steps: int, options: str = "") -> str:
    """The sentence of an interrupted training: how it goes on, or that nothing is left to do; `options` end the command."""
    if steps >= settings.runner.total_steps:
        return f"interrupted after its last iteration: {folder} has all its {steps:,} steps."
    return f"interrupted and saved; resume with: rookery train --resume {folder}{options and ' '}{options}"


def training_result(settings: RunSettings, folder: Path, steps: int, seconds: float, stopped: str) -> dict[str, Any]:
    """The result of `Training.run`, without the figures that the training itself knows."""
    return {
        "run": str(folder),
        "task": settings.task,
        "algorithm": settings.algorithm,
        "steps": steps,
        "seconds": round(seconds, 2),
        "success": None,
        "randomization_share": None,
        "figures": {},
        "stopped": stopped,
        "interrupted": stopped == "interrupt",
    }


def start(
    settings: RunSettings,
    out: Path | None = None,
    worker: Roles | None = None,
    saved: Callable[[Path], None] | None = None,
) -> Training:
    """A new training in a new run folder.

    Args:
        settings: of the training.
        out: run folder; None makes runs/TASK/<time>, to which `latest` points from its first checkpoint on.
        worker: has the environment of one of several that train together alone.
        saved: called with the folder of each checkpoint.

    Raises:
        RookeryError: settings that do not exist or fit, or a folder that cannot be written.
    """
    settings.check()
    own = settings.algorithm_config
    for name in (settings.task, getattr(own, "encoder", ""), getattr(own, "network", ""), *settings.runner.trackers):
        remember(name)  # so that its runs are used and resumed here without a question
    # for a resume from another directory
    settings = dataclasses.replace(
        settings,
        data=_absolute(settings.data),
        teacher=_absolute(settings.teacher),
        opponents=_absolute(settings.opponents),
    )
    trackers = tuple(absolute_tracker(name) for name in settings.runner.trackers)
    settings = dataclasses.replace(settings, runner=dataclasses.replace(settings.runner, trackers=trackers))
    if settings.skills is not None and Path(settings.skills).is_file():  # else the name of a set
        settings = dataclasses.replace(settings, skills=str(Path(settings.skills).resolve()))
    settings, algorithm, worlds = begin(settings, settings.randomize, worker=worker)
    try:
        refuse_other_terms(settings.task, settings.engine, settings.training_config)
        contract = contract_of(settings, algorithm.env)
        folder = new_run(settings.task, out)
    except RookeryError:
        algorithm.close()
        algorithm.env.close()
        raise
    values = contract.to_json()
    try:
        settings = _describe(settings, folder, values["provenance"])
    except (RookeryError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        algorithm.close()
        algorithm.env.close()
        raise error if isinstance(error, RookeryError) else unwritable(folder, error) from error
    if out is None and saved is None:
        saved = lambda path: link_latest(folder)  # noqa: E731
    return Training(settings, runner_of(settings, algorithm, folder, values, saved=saved, worlds=worlds))


def _absolute(path: str | None) -> str | None:
    """A path that exists, in full; others as they are, since a teacher may be a name of the zoo."""
    return str(Path(path).resolve()) if path is not None and Path(path).exists() else path


def _describe(settings: RunSettings, folder: Path, provenance: dict[str, Any]) -> RunSettings:
    """Write into a new run folder what it was made from; returns the settings that its checkpoints keep."""
    if settings.opponents is not None:
        copy_opponents(Path(settings.opponents), folder)
        settings = dataclasses.replace(settings, opponents=OPPONENTS)
    portable = settings
    if settings.randomize not in PRESETS:
        shutil.copyfile(settings.randomize, folder / RANGES)
        portable = dataclasses.replace(settings, randomize=RANGES)
    if settings.skills is not None:
        keep_skills(Path(settings.skills), folder)
        portable = dataclasses.replace(portable, skills=SKILLS)
    save_settings(folder / FILE, portable)
    write_json(folder / "run.json", {**provenance, "settings": settings.to_values()})
    return settings


def resume(
    run: Path,
    changes: dict[str, Any] | None = None,
    task: str | None = None,
    saved: Callable[[Path], None] | None = None,
    device: str | None = None,
    shards: str | None = None,
) -> Training:
    """Continue from the newest checkpoint of a run; see `read_resumed`, and `start` for `saved`."""
    settings, contract, folder = read_resumed(run, changes, task, device, shards)
    kept = folder / RANGES
    algorithm, _ = make_algorithm(settings, str(kept) if kept.exists() else settings.randomize, folder)
    try:
        refuse_changed_task(contract, algorithm, folder)
        runner = runner_of(settings, algorithm, folder, contract, saved=saved)
        runner.load(run)
    except RookeryError:
        algorithm.close()
        algorithm.env.close()
        raise
    return Training(settings, runner)


def refuse_changed_task(contract: dict[str, Any], algorithm: Algorithm, folder: Path) -> None:
    """Refuse to go on where numbers mean something else than when the run began, as after an edit of its task: the policy would
    be trained on what its contract does not say.

    Args:
        contract: of the run.
        algorithm: made anew, with its environment.
        folder: of the run.

    Raises:
        RookeryError: naming the first line that differs.
    """
    began = Contract.from_json(declared_with(algorithm.env.deployed(algorithm.policies()), contract))
    way_out = f"put the task back as it was, or begin a new run from this policy with --init {folder}"
    check_compatible(began, algorithm.env.acting, way_out=way_out)


def runner_of(
    settings: RunSettings,
    algorithm: Algorithm,
    folder: Path,
    contract: dict[str, Any],
    *,
    saved: Callable[[Path], None] | None = None,
    reduction: Reduction = ALONE,
    worlds: ShardStates | None = None,
) -> Runner:
    """The runner of a training in its run folder.

    Args:
        settings: of the training.
        algorithm: with its environment.
        folder: of the run.
        contract: JSON values.
        saved: called with the folder of each checkpoint.
        reduction: of workers that train together.
        worlds: of `make_algorithm`.
    """
    return Runner(
        algorithm,
        settings.runner,
        folder,
        name=settings.algorithm,
        settings=settings.to_values(),
        contract=contract,
        inputs=_checksums(settings, folder),
        between=None if (played := opponents_in(settings.opponents, folder)) is None else reweighing(played),
        refresh=(lambda values: _refresh(values, settings, algorithm.env)) if settings.randomize_curriculum else None,
        saved=saved,
        reduction=reduction,
        worlds=worlds if reduction.size > 1 else None,
    )


def _checksums(settings: RunSettings, folder: Path) -> dict[str, str]:
    """SHA-256 of the demonstrations, whose meta.json has those of all episodes, and of the teacher's and the opponents'
    policies, by option."""
    files: dict[str, list[Path]] = {}
    if settings.data is not None:
        files["data"] = [Path(settings.data) / META]
    if settings.teacher is not None:
        files["teacher"] = sorted(find_run(Path(settings.teacher)).glob("policy*.safetensors"))
    if settings.opponents is not None:
        files["opponents"] = member_files(read_opponents(folder / settings.opponents))
    return {
        option: hashlib.sha256(b"".join(file.read_bytes() for file in found)).hexdigest()
        for option, found in files.items()
    }


def _refresh(contract: dict[str, Any], settings: RunSettings, env: Env) -> None:
    """Put into a contract what the curriculum of randomization draws now, which is all that the policy can have learned."""
    now = build_contract(env.acting, config=full_config(settings.task, settings.task_config)).to_json()
    contract |= {name: now[name] for name in ("latency", "measurement_errors")}
    contract["provenance"]["randomization_share"] = env.deployment().randomization_share
