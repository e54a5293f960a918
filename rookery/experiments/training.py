"""A training from its settings, or from a run that stopped: environment, algorithm, contract and run folder are made here."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rookery.experiments.opponents import FILE as OPPONENTS
from rookery.experiments.opponents import Opponents, against, copy_opponents, member_files, read_opponents, reweighing
from rookery.experiments.own_terms import refuse_other_terms
from rookery.experiments.runs import find_run, link_latest, new_run, open_run, write_json
from rookery.experiments.settings import FILE, RunSettings, save_settings
from rookery.experiments.skills import SKILLS, keep_skills, refuse_other_skills
from rookery.experiments.teacher import make_teacher
from rookery.making import WorkerPart, full_config, made_with_skills, make, make_part
from rookery.policies.algorithms import find_algorithm
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.datasets.schema import META
from rookery.policies.hierarchy.hierarchy import high_level
from rookery.policies.imitation.dagger import DAggerConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.module import refuse_untrusted
from rookery.policies.tracking.trackers import absolute_tracker, check_trackers
from rookery.policies.training import checkpoint
from rookery.policies.training.interruption import Interrupted
from rookery.policies.training.logging import Progress, Terminal
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.policies.training.roles import Roles
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.policies.training.store import FULL, declared_with, unwritable
from rookery.policies.training.warm_start import warm_start, with_limit_of
from rookery.sim.config import merge
from rookery.sim.devices import find_device, nth_device
from rookery.sim.env import Env
from rookery.sim.envs.device_env import on_device
from rookery.sim.envs.shard_states import ShardStates
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import refuse_log
from rookery.sim.randomization.ranges import PRESETS
from rookery.sim.specs import Group
from rookery.sim.trust import refuse_untrusted as refuse_untrusted_task
from rookery.sim.trust import remember
from rookery.sim.untrusted import read_json
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import check_compatible
from rookery.sim2real.contract import Contract
from rookery.sim2real.provenance import gather_provenance
from rookery.sim2real.task_source import task_source
from rookery.sim2real.upgrade import upgraded

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

    def run(self, progress: Progress | None = None, wanted: Callable[[], bool] | None = None) -> dict[str, Any]:
        """Train until a stop criterion holds or Ctrl-C; in each case everything is saved, and the environment closed.

        Args:
            progress: called with the log row of each iteration; None shows them on the terminal, and says how to resume.
            wanted: asked after each iteration whether to stop and save, see `Runner.run`.

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
            stopped = runner.run(progress, wanted)
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
            print(f"rookery: interrupted and saved; resume with: rookery train --resume {self.folder}", file=sys.stderr)
        return {
            "run": str(self.folder),
            "task": self.settings.task,
            "algorithm": self.settings.algorithm,
            "steps": runner.steps,
            "seconds": round(runner.seconds, 2),
            "success": runner.episodes.success,
            "randomization_share": runner.randomization_share,
            "figures": runner.figures,
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
        refuse_other_terms(settings.task, settings.engine, merge(settings.train_overrides, settings.task_config))
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


def begin(
    settings: RunSettings, randomize: str, folder: Path = Path(), worker: Roles | None = None
) -> tuple[RunSettings, Algorithm, ShardStates | None]:
    """The algorithm of a new training, with the policy it starts from; the settings as they follow from that policy; and, of a
    worker, what joins and takes apart states of all workers' worlds.

    Raises:
        RookeryError: settings that do not exist or fit.
    """
    policies: dict[str, Policy] = {}
    whole: dict[str, Policy] = {}
    groups: dict[str, Group] = {}
    if settings.init is not None:
        assert isinstance(settings.algorithm_config, PPOConfig)  # RunSettings.check refuses --init with others
        policies, learned = open_run(Path(settings.init))
        groups = {name: group.spec for name, group in learned.groups.items()}
        whole = policies
        if settings.skills is not None:
            policies = {name: high_level(policy) for name, policy in policies.items()}
        elif any(policy.chain.decisions for policy in policies.values()):
            raise RookeryError(
                f"{settings.init} is a high level above skills: give these as well, --skills {settings.init}/{SKILLS}."
            )
        settings = dataclasses.replace(settings, algorithm_config=with_limit_of(settings.algorithm_config, policies))
    algorithm, worlds = make_algorithm(settings, randomize, folder, worker)
    try:
        algorithm.check_length(settings.runner.total_steps)
        if settings.runner.target_success is not None and "success" not in algorithm.env.metrics():
            raise RookeryError(f"{settings.task} does not measure success: leave --target-success out.")
        if settings.init is not None:
            assert isinstance(algorithm, PPO)
            if settings.skills is not None:
                refuse_other_skills(algorithm.env, whole, settings.init)
                groups = dict(algorithm.env.groups)  # as `warm_start` finds by the sizes
            warm_start(algorithm, policies, groups)
    except RookeryError:
        algorithm.close()
        algorithm.env.close()
        raise
    return settings, algorithm, worlds


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
) -> Training:
    """Continue from the newest checkpoint of a run; see `read_resumed`, and `start` for `saved`."""
    settings, contract, folder = read_resumed(run, changes, task, device)
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


def read_resumed(
    run: Path, changes: dict[str, Any] | None = None, task: str | None = None, device: str | None = None
) -> tuple[RunSettings, dict[str, Any], Path]:
    """Settings, contract and folder of a run that is to be continued from its newest checkpoint.

    Args:
        run: its folder, or one of its checkpoints.
        changes: values of RunnerConfig in place of the run's own, such as ``{"total_steps": 2_000_000}``.
        task: the task that the caller expects; None takes the run's.
        device: where it learns from now on; None leaves the run's.

    Raises:
        RookeryError: no checkpoint, a damaged one, one of another task or a newer version, or a device that is not here.
    """
    folder = run.parent.parent if run.parent.name == "checkpoints" else run
    # A kill within the first save leaves a policy without a checkpoint.
    complete = folder != run or bool(checkpoint.complete(run))
    if not complete and (run / FILE).is_file() and not (run / "contract.json").exists():
        raise RookeryError(
            f"{run} was stopped before its first checkpoint: begin anew with `rookery train --config {run / FILE} --out DIR`."
        )
    state = checkpoint.read_state(run if complete else find_run(run))
    if not state["settings"]:
        raise RookeryError(f"{run} was not made by `rookery train`: resume it from the program that made it.")
    refuse_untrusted_task(state["settings"].get("task"))
    settings = RunSettings.from_values(state["settings"])
    there, own = _task_of_policy(folder), state["contract"].get("task_id")
    if there not in (None, own):
        raise RookeryError(
            f"{run} goes on with a checkpoint of {own!s:.200}, and the policy in {folder} is of {there:.200}: put the "
            "checkpoint back into its own run, or give a folder that has all of one run."
        )
    if task is not None and task != settings.task:
        raise RookeryError(
            f"{run} is a run of {settings.task!r}, not of {task!r}: write {settings.task} or leave it out."
        )
    if isinstance(settings.algorithm_config, PPOConfig) and settings.algorithm_config.network:
        refuse_untrusted(settings.algorithm_config.network, run)
    runner_config: RunnerConfig = dataclasses.replace(settings.runner, **(changes or {}))
    if "trackers" not in (changes or {}):
        for tracker in runner_config.trackers:
            refuse_untrusted_task(tracker, "tracker")
    check_trackers(runner_config.trackers)
    settings = dataclasses.replace(settings, runner=runner_config, device=device or settings.device)
    find_device(settings.device)
    if state["steps"] >= runner_config.total_steps:
        raise RookeryError(
            f"{run} has made all its {state['steps']} steps: give a larger --steps, such as {2 * state['steps']}."
        )
    limit = runner_config.time_limit_s
    if limit is not None and state["seconds"] >= limit:
        raise RookeryError(
            f"{run} has trained for {state['seconds']:.0f} s, and its time limit is {limit:g} s in all: give a larger "
            f"--time-limit-s, such as {longer_limit(state['seconds'])}."
        )
    return settings, upgraded(state["contract"]), folder


def _task_of_policy(folder: Path) -> str | None:
    """The task of the policy that a run has; None where it has none, or its contract cannot be read: a resume makes it anew."""
    try:
        return str(read_json(folder / "contract.json")["task_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def longer_limit(seconds: float) -> int:
    """s, a time limit under which a run that has trained for `seconds` may go on for as long again."""
    return 2 * math.ceil(seconds)


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
        between=None if (played := _opponents(settings, folder)) is None else reweighing(played),
        refresh=(lambda values: _refresh(values, settings, algorithm.env)) if settings.randomize_curriculum else None,
        saved=saved,
        reduction=reduction,
        worlds=worlds if reduction.size > 1 else None,
    )


def _opponents(settings: RunSettings, folder: Path) -> Opponents | None:
    """Whom the learner of a run plays against; None for nobody but itself."""
    return None if settings.opponents is None else read_opponents(folder / settings.opponents)


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


def make_algorithm(
    settings: RunSettings, randomize: str, folder: Path = Path(), worker: Roles | None = None
) -> tuple[Algorithm, ShardStates | None]:
    """The algorithm of a training in its environment.

    Args:
        settings: of the training.
        randomize: "none", "default", "all" or a file of ranges.
        folder: of the run, from which the files of opponents and skills are found.
        worker: makes the worlds of one of several that train together.

    Returns:
        the algorithm; and, of a worker, what joins and takes apart states of all workers' worlds.

    Raises:
        RookeryError: a name or value that does not exist or fit.
    """
    refuse_log(randomize)
    opponents = _opponents(settings, folder)
    entry = find_algorithm(settings.algorithm)
    options: dict[str, Any] = {"engine": settings.engine, "seed": settings.seed, "randomize": randomize}
    options |= {"fixed": settings.fixed, "config": merge(settings.train_overrides, settings.task_config)}
    options |= {"weights": settings.weights or None}
    worlds = None
    if worker is None:
        shards = settings.shards if opponents is None else 1
        skills = settings.skills if settings.skills is None or folder == Path() else str(folder / SKILLS)
        options |= {"randomize_curriculum": settings.randomize_curriculum, "shards": shards}
        if opponents is None:
            env = make(settings.task, settings.num_envs, **options, device=settings.device, skills=skills)
        else:
            env = against(make(settings.task, settings.num_envs, **options), opponents, settings.seed)
            env = on_device(env, find_device(settings.device))
            env = env if skills is None else made_with_skills(env, Path(skills))  # of the learner's team alone
    else:
        _refuse_workers(settings, worker)
        env, worlds = make_part(settings.task, settings.num_envs, WorkerPart(worker.index, worker.actors), **options)
        device = nth_device(settings.device, worker.rank)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # else each worker would have memory of the first GPU too
        env = on_device(env, device)
    try:
        optional = [name for name in entry.optional if _given(name, settings)]
        inputs = {name: _make_input(name, settings, env) for name in (*entry.inputs, *optional)}
        algorithm: Any = entry.load()
        roles = {"roles": worker} if worker is not None and algorithm.together == "actors" else {}
        return algorithm(env, settings.algorithm_config, settings.seed, inputs, **roles), worlds
    except RookeryError:
        env.close()
        raise


def _refuse_workers(settings: RunSettings, worker: Roles) -> None:
    """Refuse what several workers cannot train together.

    Raises:
        RookeryError: with the way out.
    """
    together = find_algorithm(settings.algorithm).load().together
    if together == "no":
        raise RookeryError(f"--workers is for ppo, sac and td3, not for {settings.algorithm}: leave it out.")
    if worker.staleness and together != "actors":
        raise RookeryError(
            f"--staleness is for sac and td3, and {settings.algorithm} learns from what its weights of now did: leave it out."
        )
    if settings.randomize_curriculum:
        raise RookeryError("the curriculum of randomization follows all worlds together: leave out --workers.")
    if settings.skills is not None:
        raise RookeryError("decisions among skills differ in number from worker to worker: leave out --workers.")
    if settings.opponents is not None:
        raise RookeryError("opponents are drawn for all worlds together: leave out --workers.")
    if settings.shards not in ("auto", "1"):
        raise RookeryError("--workers and --shards both divide the worlds: give one of them.")


def _given(name: str, settings: RunSettings) -> bool:
    """True where the settings name an input that may be left out."""
    return {"dataset": settings.data, "teacher": settings.teacher}[name] is not None


def _make_input(name: str, settings: RunSettings, env: Env) -> Any:
    """The input that an algorithm learns from beside the environment."""
    if name == "teacher":
        config = settings.algorithm_config
        chosen = (config.classical, config.corrected) if isinstance(config, DAggerConfig) else ()
        return make_teacher(settings.teacher, env, *chosen)
    if name == "dataset":
        from rookery.policies.datasets.dataset import Dataset

        data = Dataset(Path(settings.data or ""))
        data.require(contract_of(settings, env).to_json(), f"{settings.task} with this config")
        return data
    raise RookeryError(f"{settings.algorithm} asks for {name!r}, which no setting gives.")


def contract_of(settings: RunSettings, env: Env) -> Contract:
    """The contract of a policy that is about to be trained, without its network."""
    provenance = gather_provenance(0, settings.seed, settings.engine or env.engine, settings.randomize)
    provenance["task_source"] = task_source(settings.task).to_json()
    return build_contract(
        env.acting,
        config=full_config(settings.task, settings.task_config),
        provenance=provenance | {"fixed": settings.fixed},
    )
