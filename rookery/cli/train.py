"""`rookery train`: learn a policy."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.options import print_json
from rookery.experiments.settings import RunSettings
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import find

if TYPE_CHECKING:
    from rookery.cli.train_options import Parsed, TrainCommand

EXAMPLES = """
  rookery train drone-hover
  rookery train drone-hover --randomize default --seed 3 --out runs/robust
  rookery train drone-hover --steps 5e6 --learning-rate 5e-4 --hidden 128 128
  rookery train drone-hover --task-config num_drones=3 --task-config reward.ang_vel=-0.01
  rookery train volley-solo-bump --algorithm dagger --steps 2e6 --out runs/script
  rookery train go2-velocity --algorithm dagger --teacher go2-velocity --task-config history=2 --out runs/student
  rookery train drone-hover --algorithm bc --data demos --out runs/clone
  rookery train go2-velocity --viewer
  rookery train go2-velocity --workers 8
  rookery train go2-velocity --algorithm fastsac --workers 9 --staleness 1
  rookery train go2-velocity --num-envs 4096 --device cuda
  rookery train --config runs/robust/settings.toml --seed 4
  rookery train --resume runs/drone-hover/latest
"""


def main(words: Sequence[str]) -> int:
    """Train as the words after ``rookery train`` say; 130 after Ctrl-C."""
    from rookery.cli.train_options import read

    parsed = read(words, EXAMPLES)
    if parsed is None:
        return 0
    from rookery.cli.watch import watching
    from rookery.experiments.training import resume, start
    from rookery.kernels import announce_compiling

    command = parsed.command
    command.live.check()
    announce_compiling()
    if command.workers is not None:
        return _train_on_workers(parsed)
    _refuse_without_workers(command)
    if command.resume is not None:
        training = resume(command.resume, parsed.changes, command.task, device=parsed.device, shards=parsed.shards)
    else:
        training = start(parsed.settings, command.out)
    announce_training(training.settings, training.folder)
    with watching(training.folder, command.live):
        result = training.run()
    if command.json:
        print_json(result)
    elif not result["interrupted"]:
        print_next_steps(training.settings, training.folder, result)
    return 130 if result["interrupted"] else 0


def _refuse_without_workers(command: TrainCommand) -> None:
    """Refuse options that say how several processes train, where one does.

    Raises:
        RookeryError: naming the first of them.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(command)}
    for name in ("staleness", "worker_cpus", "ray"):
        if (value := getattr(command, name)) != defaults[name]:
            option = f"--{name.replace('_', '-')} {value}"
            raise RookeryError(f"{option} is of several processes: give --workers 2 or more.")


def _train_on_workers(parsed: Parsed) -> int:
    """Train by several processes."""
    from rookery.experiments.training import interrupted_sentence
    from rookery.experiments.workers import Workers, train

    command = parsed.command
    if command.live.viewer:
        raise RookeryError(
            "--viewer shows a training in this process: leave out --workers, or watch by `rookery play`."
        )
    assert command.workers is not None
    if parsed.shards is not None:
        raise RookeryError("--workers and --shards both divide the worlds: give one of them.")
    workers = Workers(command.workers, command.worker_cpus, command.ray or "local", command.staleness)
    settings = None if command.resume is not None else parsed.settings
    order = (workers, settings, command.out, command.resume, parsed.changes, announce_training)
    settings, result = train(*order, parsed.device, command.task)
    folder = Path(result["run"])
    if command.json:
        print_json(result)
    elif result["interrupted"]:
        said = interrupted_sentence(settings, folder, result["steps"], workers.words)
        print(f"rookery: {said}", file=sys.stderr)
    else:
        print_next_steps(settings, folder, result)
    return 130 if result["interrupted"] else 0


def _levels(settings: RunSettings) -> str:
    """Words for the skills that a training decides about, and whether these learn; none for other trainings."""
    if settings.skills is None:
        return ""
    assert isinstance(settings.algorithm_config, PPOConfig)
    how = {"off": "frozen", "together": "learning, too", "alternating": "learning by turns"}
    return f" above the skills of {Path(settings.skills).name} ({how[settings.algorithm_config.learn_skills]})"


def announce_training(settings: RunSettings, folder: Path) -> None:
    """Say what is trained, and where to look for it: compiling may take a minute before the first figures."""
    engine = settings.engine or find(settings.task).engines[0]
    worlds = f"{settings.num_envs:,} worlds" if settings.num_envs > 1 else "1 world"
    learner = "" if settings.device == "cpu" else f", learning on {settings.device}"
    print(
        f"rookery: training {settings.task} with {settings.algorithm}{_levels(settings)} on {engine}: {worlds}, "
        f"{settings.runner.total_steps:,} steps, seed {settings.seed}, in {folder}{learner}",
        file=sys.stderr,
        flush=True,
    )


def print_next_steps(settings: RunSettings, folder: Path, result: dict[str, Any]) -> None:
    """Say how the training ended, and name the commands that use its policy."""
    from rich.console import Console

    from rookery.experiments.resumed import longer_limit

    console = Console(highlight=False, soft_wrap=True)
    success = result["success"]
    reached = f", success {success:.1%} with exploration" if isinstance(success, float) else ""
    console.print(
        f"[green]trained[/] {result['steps']:,} steps in {result['seconds']:.0f} s{reached}: [bold]{folder}[/]"
    )
    share = result["randomization_share"]
    if isinstance(share, float) and share < 1.0:
        console.print(
            f"[yellow]the curriculum drew {share:.0%} of the randomization's width at the end[/], and the policy has met no "
            f"more: rookery train --resume {folder} --steps {2 * settings.runner.total_steps}"
        )
    if result["stopped"] == "time":
        limit = settings.runner.time_limit_s
        assert limit is not None
        console.print(
            f"[yellow]its time limit of {limit:g} s ended it[/] before all {settings.runner.total_steps:,} steps: "
            f"rookery train --resume {folder} --time-limit-s {longer_limit(result['seconds'])}"
        )
    console.print(f"  rookery play {folder} --out video.mp4")
    engines = find(settings.task).engines
    other = engines[-1] if engines[-1] != (settings.engine or engines[0]) else ""  # a second engine, where there is one
    console.print(f"  rookery eval {folder} --episodes 256" + (f" --engine {other}" if other else ""))
    console.print(f"  rookery export {folder} --out bundle")
