"""A training from its settings, or from a run that stopped: makes environment, trainer and run folder fit together."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import checkpoint
from rookery.policies.training.logging import Terminal
from rookery.policies.training.loop import LoopConfig, TrainingLoop
from rookery.policies.training.warm_start import warm_start
from rookery.runs import find_run, merge, new_run, open_run, write_json
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.tasks.registry import find

DEFAULT_STEPS = 5_000_000
DEFAULT_NUM_ENVS = 1024
RANGES = "randomization.toml"
"""Copy of the ranges' file in the run folder, so that a resume needs nothing else."""


@dataclass(frozen=True)
class Settings:
    """All that a training is made from; stored in its checkpoints.

    Args:
        task: registered name.
        steps: control steps over all worlds.
        num_envs, seed, engine, randomize, fixed, config, weights: as in `rookery.make`.
        practice: config values of the training episodes alone, such as a shorter `episode_s`, which shows more starts;
            the contract, and with it every evaluation, keeps `config`.
        ppo: PPOConfig values.
        loop: LoopConfig values.
        init: run or zoo folder of the policy to start from (see rookery.policies.training.warm_start); "" starts afresh.
    """

    task: str
    steps: int
    num_envs: int
    seed: int = 0
    engine: str = "rotor"
    randomize: str = "none"
    fixed: dict[str, float] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    practice: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    ppo: dict[str, Any] = field(default_factory=dict)
    loop: dict[str, Any] = field(default_factory=dict)
    init: str = ""

    @classmethod
    def of_task(cls, task: str, ppo: dict[str, Any] | None = None, **given: Any) -> Settings:
        """What is given (None: not), on top of the task's own training settings.

        Raises:
            RookeryError: unknown task.
        """
        own = dict(find(task).training)
        config = merge(own.pop("config", {}), given.pop("config", None) or {})
        own |= {k: v for k, v in given.items() if v is not None} | {"config": config}
        names = {f.name for f in dataclasses.fields(cls)}
        values = {"steps": own.pop("total_steps", DEFAULT_STEPS), "num_envs": DEFAULT_NUM_ENVS}
        values["engine"] = find(task).engines[0]
        values |= {k: own.pop(k) for k in list(own) if k in names}
        own |= ppo or {}
        loop = {f.name: own.pop(f.name) for f in dataclasses.fields(LoopConfig) if f.name in own}
        return cls(task, ppo=own, loop=loop, **values)


class _TimeOver(Exception):
    """The time that was given is over."""


class Training:
    """A trainer in its run folder.

    Args:
        settings: what it was made from.
        folder: run folder.
        loop: the trainer.
    """

    def __init__(self, settings: Settings, folder: Path, loop: TrainingLoop) -> None:
        self.settings = settings
        self.folder = folder
        self.loop = loop

    def run(self, limit_s: float | None = None) -> dict[str, Any]:
        """Train to the end, to Ctrl-C, or until a wall time is over; in each case everything is saved.

        Args:
            limit_s: s of training, those before a resume included; None for no limit.

        Returns:
            run, task, steps, seconds, success (of the latest episodes, with exploration), stopped ("steps", "success",
            "time" or "interrupt") and interrupted.
        """
        loop = self.loop
        total = self.settings.steps
        terminal = Terminal(loop.steps, total)
        provenance = loop.extra["contract"]["provenance"]

        def progress(row: dict[str, Any]) -> None:
            provenance["steps"] = row["steps"]  # stands in the contract of the next checkpoint
            terminal.show(row)
            if limit_s is not None and loop.seconds > limit_s:
                raise _TimeOver

        stopped = "interrupt"
        terminal.start()
        try:
            stopped = loop.train(total, self.folder, progress)["stopped"]
        except checkpoint.Interrupted:
            pass  # the trainer has saved
        except _TimeOver:
            stopped = "time"
            loop.save(self.folder)
        finally:
            terminal.stop()
            loop.env.close()
        if stopped == "interrupt":
            print(f"rookery: interrupted and saved; go on with: rookery train --resume {self.folder}", file=sys.stderr)
        return {
            "run": str(self.folder),
            "task": self.settings.task,
            "steps": loop.steps,
            "seconds": round(loop.seconds, 2),
            "success": loop.episodes.success,
            "stopped": stopped,
            "interrupted": stopped == "interrupt",
        }


def start(settings: Settings, out: Path | None = None) -> Training:
    """A new training in a new run folder.

    Raises:
        RookeryError: settings that do not exist or fit, or a folder that cannot be written.
    """
    config = ppo_config(settings)
    env = make_env(settings, settings.randomize)
    contract = contract_of(settings, env)
    extra = {"contract": contract.to_json(), "settings": dataclasses.asdict(settings)}
    ppo = PPO(env, config, settings.seed)
    if settings.init:
        policies, learned = open_run(Path(settings.init))
        warm_start(ppo, policies, {name: group.spec for name, group in learned.groups.items()})
    folder = new_run(settings.task, out)
    if settings.randomize not in ("none", "default"):
        shutil.copyfile(settings.randomize, folder / RANGES)
    provenance = contract.provenance.to_json()
    write_json(folder / "run.json", {**provenance, "settings": extra["settings"], "ppo": config.to_dict()})
    return Training(settings, folder, TrainingLoop(ppo, LoopConfig(**settings.loop), extra))


def contract_of(settings: Settings, env: Env) -> Contract:
    """The contract of a policy that is about to be trained, without its network."""
    from rookery.making import full_config
    from rookery.sim2real.build import build_contract
    from rookery.sim2real.provenance import gather_provenance

    provenance = gather_provenance(0, settings.seed, settings.engine, settings.randomize)
    return build_contract(
        env,
        config=full_config(settings.task, settings.config),
        provenance=provenance | {"fixed": settings.fixed},
    )


def resume(run: Path, steps: int | None = None, task: str | None = None) -> Training:
    """Go on from the newest checkpoint of a run.

    Args:
        run: its folder, or one of its checkpoints.
        steps: a new number of control steps in all; the run's own by default.
        task: the task that the caller expects; None takes the run's.

    Raises:
        RookeryError: no checkpoint, a damaged one, one of another task or a newer version.
    """
    folder = run.parent.parent if run.parent.name == "checkpoints" else run
    state = checkpoint.read_state(run if folder != run else find_run(run))
    stored = dict(state["extra"].get("settings") or {})
    if not stored:
        raise RookeryError(f"{run} was not made by `rookery train`: go on with it from the program that made it.")
    settings = Settings(**stored)
    if task is not None and task != settings.task:
        raise RookeryError(
            f"{run} is a run of {settings.task!r}, not of {task!r}: write {settings.task} or leave it out."
        )
    settings = dataclasses.replace(settings, steps=steps or settings.steps)
    if state["steps"] >= settings.steps:
        raise RookeryError(
            f"{run} has made all its {state['steps']} steps: give a larger --steps, such as {2 * state['steps']}."
        )
    kept = folder / RANGES
    env = make_env(settings, str(kept) if kept.exists() else settings.randomize)
    state["extra"]["settings"] = dataclasses.asdict(settings)
    ppo = PPO(env, PPOConfig.from_dict(state["config"]), settings.seed)
    loop = TrainingLoop(ppo, LoopConfig(**settings.loop), state["extra"])
    loop.load(run)
    return Training(settings, folder, loop)


def ppo_config(settings: Settings) -> PPOConfig:
    """The trainer's settings.

    Raises:
        RookeryError: a name or value that PPO does not have.
    """
    return PPOConfig.from_dict(settings.ppo)


def make_env(settings: Settings, randomize: str) -> Env:
    """The environment of the training episodes."""
    from rookery import make

    return make(
        settings.task,
        settings.num_envs,
        engine=settings.engine,
        seed=settings.seed,
        randomize=randomize,
        fixed=settings.fixed,
        config=merge(settings.practice, settings.config),
        weights=settings.weights or None,
    )
