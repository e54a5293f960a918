"""The algorithm of a training in its environment, and the contract of what it will learn, from the settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from rookery.experiments.opponents import against, opponents_in
from rookery.experiments.runs import open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.skills import SKILLS, refuse_other_skills
from rookery.experiments.teacher import make_teacher
from rookery.making import WorkerPart, check_division, full_config, made_with_skills, make, make_part
from rookery.policies.algorithms import find_algorithm
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.hierarchy.hierarchy import high_level
from rookery.policies.imitation.dagger import DAggerConfig
from rookery.policies.policy import Policy
from rookery.policies.training.roles import Roles
from rookery.policies.training.warm_start import warm_start, with_limit_of
from rookery.sim.devices import find_device, nth_device
from rookery.sim.env import Env
from rookery.sim.envs.device_env import on_device
from rookery.sim.envs.shard_states import ShardStates
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import refuse_log
from rookery.sim.specs import Group
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.provenance import gather_provenance
from rookery.sim2real.task_source import task_source
from rookery.tasks.registry import find


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
        _check_target(settings, algorithm.env)
        if settings.init is not None:
            if settings.skills is not None:
                refuse_other_skills(algorithm.env, whole, settings.init)
                groups = dict(algorithm.env.groups)  # as `warm_start` finds by the sizes
            warm_start(algorithm, policies, groups)
    except RookeryError:
        algorithm.close()
        algorithm.env.close()
        raise
    return settings, algorithm, worlds


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
    worlds = None
    if worker is None:
        env = _make_env(settings, randomize, folder)
    else:
        refuse_workers(settings, worker)
        refuse_log(randomize)
        part = WorkerPart(worker.index, worker.actors)
        env, worlds = make_part(settings.task, settings.num_envs, part, **_options(settings, randomize))
        device = nth_device(settings.device, worker.rank)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # else each worker would have memory of the first GPU too
        env = on_device(env, device)
    entry = find_algorithm(settings.algorithm)
    try:
        inputs = _make_inputs(settings, env)
        algorithm: Any = entry.load()
        roles = {"roles": worker} if worker is not None and algorithm.together == "actors" else {}
        return algorithm(env, settings.algorithm_config, settings.seed, inputs, **roles), worlds
    except RookeryError:
        env.close()
        raise


def _options(settings: RunSettings, randomize: str) -> dict[str, Any]:
    """Arguments of `make` and of `make_part`."""
    options: dict[str, Any] = {"engine": settings.engine, "seed": settings.seed, "randomize": randomize}
    options |= {"fixed": settings.fixed, "config": settings.training_config}
    return options | {"weights": settings.weights or None}


def _make_env(settings: RunSettings, randomize: str, folder: Path) -> Env:
    """All worlds of a training, with its opponents and skills."""
    refuse_log(randomize)
    opponents = opponents_in(settings.opponents, folder)
    options = _options(settings, randomize) | {"randomize_curriculum": settings.randomize_curriculum}
    skills = settings.skills if settings.skills is None or folder == Path() else str(folder / SKILLS)
    if opponents is None:
        where: dict[str, Any] = {"shards": settings.shards, "device": settings.device}
        return make(settings.task, settings.num_envs, **options, **where, skills=skills)
    env: Env = against(make(settings.task, settings.num_envs, **options), opponents, settings.seed)
    env = on_device(env, find_device(settings.device))
    return env if skills is None else made_with_skills(env, Path(skills))  # of the learner's team alone


def check_inputs(settings: RunSettings) -> None:
    """Refuse, before its worlds and networks are made, a training whose environment or inputs do not exist or fit: one world is
    made, and policies, opponents and demonstrations are read.

    Args:
        settings: of the training.

    Raises:
        RookeryError: a name or value that does not exist or fit.
    """
    if settings.init is not None:
        open_run(Path(settings.init))
    needed = max(1, len(find(settings.task).members))  # a set has a world of each of its tasks
    one = dataclasses.replace(settings, num_envs=min(settings.num_envs, needed), shards="1", device="cpu")
    env = _make_env(one, settings.randomize, Path())
    try:
        _check_target(settings, env)
        _make_inputs(settings, env)
    finally:
        env.close()


def _check_target(settings: RunSettings, env: Env) -> None:
    """Refuse to stop at a success that nobody measures."""
    if settings.runner.target_success is not None and "success" not in env.metrics():
        raise RookeryError(f"{settings.task} does not measure success: leave --target-success out.")


def refuse_workers(settings: RunSettings, worker: Roles) -> None:
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
    check_division(settings.num_envs, worker.actors)


def _given(name: str, settings: RunSettings) -> bool:
    """True where the settings name an input that may be left out."""
    return {"dataset": settings.data, "teacher": settings.teacher}[name] is not None


def _make_inputs(settings: RunSettings, env: Env) -> dict[str, Any]:
    """All inputs that an algorithm learns from beside the environment, by name."""
    entry = find_algorithm(settings.algorithm)
    optional = [name for name in entry.optional if _given(name, settings)]
    return {name: _make_input(name, settings, env) for name in (*entry.inputs, *optional)}


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
