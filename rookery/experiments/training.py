"""A training from its settings, or from a run that stopped: environment, algorithm, contract and run folder are made here."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import shutil
import sys
from pathlib import Path
from typing import Any

from rookery.experiments.runs import find_run, link_latest, new_run, open_run, write_json
from rookery.experiments.settings import FILE, RunSettings, save_settings
from rookery.experiments.skills import SKILLS, keep_skills
from rookery.experiments.teacher import make_teacher
from rookery.making import full_config, make
from rookery.policies.algorithms import find_algorithm
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.datasets.schema import META
from rookery.policies.hierarchy.hierarchy import high_level
from rookery.policies.imitation.dagger import DAggerConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.module import refuse_untrusted
from rookery.policies.training import checkpoint
from rookery.policies.training.logging import Terminal
from rookery.policies.training.runner import Interrupted, Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.policies.training.store import FULL, unwritable
from rookery.policies.training.warm_start import warm_start, with_limit_of
from rookery.sim.config import merge
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import refuse_log
from rookery.sim.randomization.ranges import PRESETS
from rookery.sim.specs import Group
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.provenance import gather_provenance
from rookery.sim2real.task_source import task_source
from rookery.sim2real.upgrade import upgraded
from rookery.tasks.trust import refuse_untrusted as refuse_untrusted_task
from rookery.tasks.trust import remember

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

    def run(self) -> dict[str, Any]:
        """Train until a stop criterion holds or Ctrl-C; in each case everything is saved, and the environment closed.

        Returns:
            run, task, algorithm, steps, seconds, success (of the latest episodes, with exploration; None where there are
            too few), randomization_share (of the distributions' width that the curriculum draws; None without one), figures
            (of the latest update), stopped ("steps", "success", "time" or "interrupt") and interrupted.
        """
        runner = self.runner
        terminal = Terminal(runner.steps, self.settings.runner.total_steps)
        terminal.start()
        try:
            stopped = runner.run(terminal.show)
        except Interrupted:
            stopped = "interrupt"
        except RookeryError as error:
            full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
            if full and not checkpoint.complete(self.folder):  # nothing is there to go on with
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            terminal.stop()
            runner.algorithm.close()
            runner.env.close()
        if stopped == "interrupt":
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


def start(settings: RunSettings, out: Path | None = None) -> Training:
    """A new training in a new run folder.

    Args:
        settings: of the training.
        out: run folder; None makes runs/TASK/<time>, to which `latest` points from its first checkpoint on.

    Raises:
        RookeryError: settings that do not exist or fit, or a folder that cannot be written.
    """
    settings.check()
    remember(settings.task)  # so that its runs are used and resumed here without a question
    # for a resume from another directory
    settings = dataclasses.replace(settings, data=_absolute(settings.data), teacher=_absolute(settings.teacher))
    if settings.skills is not None and Path(settings.skills).is_file():  # else the name of a set
        settings = dataclasses.replace(settings, skills=str(Path(settings.skills).resolve()))
    policies: dict[str, Policy] = {}
    groups: dict[str, Group] = {}
    if settings.init is not None:
        assert isinstance(settings.algorithm_config, PPOConfig)  # RunSettings.check refuses --init with others
        policies, learned = open_run(Path(settings.init))
        groups = {name: group.spec for name, group in learned.groups.items()}
        if settings.skills is not None:
            policies = {name: high_level(policy) for name, policy in policies.items()}
        elif any(policy.chain.decisions for policy in policies.values()):
            raise RookeryError(
                f"{settings.init} is a high level above skills: give these as well, --skills {settings.init}/{SKILLS}."
            )
        settings = dataclasses.replace(settings, algorithm_config=with_limit_of(settings.algorithm_config, policies))
    algorithm = make_algorithm(settings, settings.randomize, settings.skills)
    try:
        algorithm.check_length(settings.runner.total_steps)
        contract = contract_of(settings, algorithm.env)
        if settings.init is not None:
            assert isinstance(algorithm, PPO)
            if settings.skills is not None:
                groups = dict(algorithm.env.groups)  # as `warm_start` finds by the sizes
            warm_start(algorithm, policies, groups)
        folder = new_run(settings.task, out)
    except RookeryError:
        algorithm.close()
        algorithm.env.close()
        raise
    values = contract.to_json()
    try:
        _describe(settings, folder, values["provenance"])
    except (RookeryError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        algorithm.close()
        algorithm.env.close()
        raise error if isinstance(error, RookeryError) else unwritable(folder, error) from error
    return Training(settings, _runner(settings, algorithm, folder, values, linked=out is None))


def _absolute(path: str | None) -> str | None:
    """A path that exists, in full; others as they are, since a teacher may be a name of the zoo."""
    return str(Path(path).resolve()) if path is not None and Path(path).exists() else path


def _describe(settings: RunSettings, folder: Path, provenance: dict[str, Any]) -> None:
    """Write into a new run folder what it was made from."""
    portable = settings
    if settings.randomize not in PRESETS:
        shutil.copyfile(settings.randomize, folder / RANGES)
        portable = dataclasses.replace(settings, randomize=RANGES)
    if settings.skills is not None:
        keep_skills(Path(settings.skills), folder)
        portable = dataclasses.replace(portable, skills=SKILLS)
    save_settings(folder / FILE, portable)
    write_json(folder / "run.json", {**provenance, "settings": settings.to_values()})


def resume(run: Path, changes: dict[str, Any] | None = None, task: str | None = None) -> Training:
    """Continue from the newest checkpoint of a run.

    Args:
        run: its folder, or one of its checkpoints.
        changes: values of RunnerConfig in place of the run's own, such as ``{"total_steps": 2_000_000}``.
        task: the task that the caller expects; None takes the run's.

    Raises:
        RookeryError: no checkpoint, a damaged one, one of another task or a newer version.
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
    if task is not None and task != settings.task:
        raise RookeryError(
            f"{run} is a run of {settings.task!r}, not of {task!r}: write {settings.task} or leave it out."
        )
    if isinstance(settings.algorithm_config, PPOConfig) and settings.algorithm_config.network:
        refuse_untrusted(settings.algorithm_config.network, run)
    runner_config: RunnerConfig = dataclasses.replace(settings.runner, **(changes or {}))
    settings = dataclasses.replace(settings, runner=runner_config)
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
    kept = folder / RANGES
    skills = str(folder / SKILLS) if settings.skills is not None else None
    algorithm = make_algorithm(settings, str(kept) if kept.exists() else settings.randomize, skills)
    runner = _runner(settings, algorithm, folder, upgraded(state["contract"]), linked=False)
    runner.load(run)
    return Training(settings, runner)


def longer_limit(seconds: float) -> int:
    """s, a time limit under which a run that has trained for `seconds` may go on for as long again."""
    return 2 * math.ceil(seconds)


def _runner(
    settings: RunSettings, algorithm: Algorithm, folder: Path, contract: dict[str, Any], linked: bool
) -> Runner:
    return Runner(
        algorithm,
        settings.runner,
        folder,
        name=settings.algorithm,
        settings=settings.to_values(),
        contract=contract,
        inputs=_checksums(settings),
        refresh=(lambda values: _refresh(values, settings, algorithm.env)) if settings.randomize_curriculum else None,
        saved=(lambda path: link_latest(folder)) if linked else None,
    )


def _checksums(settings: RunSettings) -> dict[str, str]:
    """SHA-256 of the demonstrations, whose meta.json has those of all episodes, and of the teacher's policies, by option."""
    files: dict[str, list[Path]] = {}
    if settings.data is not None:
        files["data"] = [Path(settings.data) / META]
    if settings.teacher is not None:
        files["teacher"] = sorted(find_run(Path(settings.teacher)).glob("policy*.safetensors"))
    return {
        option: hashlib.sha256(b"".join(file.read_bytes() for file in found)).hexdigest()
        for option, found in files.items()
    }


def _refresh(contract: dict[str, Any], settings: RunSettings, env: Env) -> None:
    """Put into a contract what the curriculum of randomization draws now, which is all that the policy can have learned."""
    now = build_contract(env.acting, config=full_config(settings.task, settings.task_config)).to_json()
    contract |= {name: now[name] for name in ("latency", "measurement_errors")}
    contract["provenance"]["randomization_share"] = env.deployment().randomization_share


def make_algorithm(settings: RunSettings, randomize: str, skills: str | None = None) -> Algorithm:
    """The algorithm of a training in its environment.

    Args:
        settings: of the training.
        randomize: "none", "default", "all" or a file of ranges.
        skills: file of the skills; None without.

    Raises:
        RookeryError: a name or value that does not exist or fit.
    """
    refuse_log(randomize)
    env = make(
        settings.task,
        settings.num_envs,
        engine=settings.engine,
        seed=settings.seed,
        randomize=randomize,
        randomize_curriculum=settings.randomize_curriculum,
        fixed=settings.fixed,
        config=merge(settings.train_overrides, settings.task_config),
        weights=settings.weights or None,
        shards=settings.shards,
        skills=skills,
    )
    entry = find_algorithm(settings.algorithm)
    try:
        optional = [name for name in entry.optional if _given(name, settings)]
        inputs = {name: _make_input(name, settings, env) for name in (*entry.inputs, *optional)}
        return entry.load()(env, settings.algorithm_config, settings.seed, inputs)  # type: ignore[call-arg]
    except RookeryError:
        env.close()
        raise


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
