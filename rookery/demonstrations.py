"""Demonstrations by a task's name or a run's folder: recorded, replayed, and cloned into a run."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.runs import make_env, new_run, open_env, write_json
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import is_task

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset
    from rookery.policies.datasets.recorder import Recorded
    from rookery.sim.env import Env
    from rookery.training import Settings


def record(
    source: Path,
    out: Path,
    episodes: int,
    *,
    num_envs: int,
    controller: str | None = None,
    config: dict[str, Any] | None = None,
    engine: str | None = None,
    seed: int = 0,
    randomize: str = "none",
    fixed: dict[str, float] | None = None,
    only_success: bool = False,
    camera: str | None = None,
    size: tuple[int, int] = (160, 120),
    progress: Callable[[int, int], None] | None = None,
) -> Recorded:
    """Record a task's classical controller or a stored policy.

    Args:
        source: a task's name, or a run or zoo folder.
        out: folder of the demonstrations.
        episodes: how many to keep.
        num_envs: worlds at a time.
        controller: "policy" or "pid", the task's classical controller; by default that one for a task's name.
        config, engine, seed, randomize, fixed: as in `rookery.make`; a file of ranges is not taken, since the recording
            could not be made again without it.
        only_success, progress: as in `rookery.policies.datasets.recorder.record`.
        camera: of the videos, see `rookery.sim.rendering.renderer.Renderer`; None makes none.
        size: width and height of the videos in pixels, even.

    Raises:
        RookeryError: a name or value that does not exist or fit, a task without such a controller, or a folder that cannot
            be written.
    """
    from rookery.policies.datasets import recorder
    from rookery.policies.datasets.video import Filming
    from rookery.policies.datasets.writer import Writer
    from rookery.sim2real.build import build_contract
    from rookery.sim2real.provenance import gather_provenance

    if randomize not in ("none", "default"):
        raise RookeryError(f"demonstrations are recorded with --randomize none or default, got {randomize!r}.")
    if controller is None:
        controller = "pid" if is_task(str(source)) and not source.exists() else "policy"
    env, act = open_env(
        source,
        num_envs,
        controller=controller,
        config=config,
        engine=engine,
        seed=seed,
        randomize=randomize,
        fixed=fixed,
    )
    filming = None
    try:
        filming = Filming(env, camera, *size) if camera else None
        contract = build_contract(env, provenance=gather_provenance(0, seed, env.engine, randomize))
        how = {"engine": env.engine, "num_envs": num_envs, "seed": seed, "randomize": randomize}
        how |= {"fixed": fixed or {}, "source": str(source), "controller": controller, "only_success": only_success}
        with Writer(out, contract.to_json(), how, filming.declaration() if filming else None) as writer:
            return recorder.record(
                env, act, writer, episodes, seed=seed, only_success=only_success, filming=filming, progress=progress
            )
    finally:
        if filming is not None:
            filming.close()
        env.close()


def recorded_env(data: Dataset, engine: str | None = None) -> Env:
    """A new environment like the one that demonstrations were recorded in.

    Args:
        data: demonstrations.
        engine: in place of their own.

    Raises:
        RookeryError: they are not of a task of this package, or the task has changed since.
    """
    from rookery.sim2real.contract import Contract

    if not is_task(data.task_id):
        raise RookeryError(f"{data.folder} is of {data.task_id!r}, which is no task here: it cannot be replayed.")
    how = data.recording
    contract = Contract.from_json(data.contract, networks=False)
    return make_env(
        contract, int(how["num_envs"]), engine=engine or how["engine"], seed=int(how["seed"]),
        randomize=how["randomize"], fixed=how["fixed"],
    )  # fmt: skip


def clone_run(settings: Settings, folder: Path, steps: int | None = None, out: Path | None = None) -> dict[str, Any]:
    """A run whose policies clone demonstrations; `rookery train --init` goes on from it.

    The networks are as wide as PPO's settings say; of those it also takes `learning_rate` and `seed`.

    Args:
        settings: task, config and PPO settings of the run.
        folder: of the demonstrations.
        steps: transitions to learn from, repeats counted; None for 50 times through all.
        out: run folder; None makes one.

    Returns:
        As `Training.run`: run, task, steps, seconds, success (None), stopped, interrupted; and "error", the mean squared
        error of the actions in the episodes held out, averaged over groups.

    Raises:
        RookeryError: the demonstrations are of another task, config or control period.
    """
    from rookery.policies.datasets.dataset import Dataset
    from rookery.policies.imitation.behavior_cloning import CloneConfig, clone
    from rookery.policies.training.store import save_policy
    from rookery.training import contract_of, ppo_config
    from rookery.training import make_env as training_env

    ppo = ppo_config(settings)
    data = Dataset(folder)
    start = time.perf_counter()
    env = training_env(dataclasses.replace(settings, num_envs=1), "none")
    contract = contract_of(settings, env)
    env.close()
    data.require(contract.to_json(), f"{settings.task} with this config")
    config = CloneConfig(
        epochs=CloneConfig.epochs if steps is None else max(1, round(steps / data.frames)),
        hidden=tuple(ppo.hidden), activation=ppo.activation, learning_rate=ppo.learning_rate, seed=settings.seed,
    )  # fmt: skip
    rows: dict[str, list[dict[str, float]]] = {g: [] for g in data.groups}

    def progress(group: str, row: dict[str, float]) -> None:
        rows[group].append(row)
        if len(rows[group]) % max(1, config.epochs // 10) == 0:
            print(f"{group}: epoch {row['epoch']} of {config.epochs}, error {row['error']:.5f}", file=sys.stderr)

    policies = {g: clone(data, config, g, partial(progress, g)) for g in data.groups}
    run = new_run(settings.task, out)
    made = config.epochs * data.frames
    contract = contract.with_provenance(steps=made, demonstrations=str(folder))
    save_policy(run, policies, contract.to_json())
    write_json(run / "run.json", {"algorithm": "clone", "settings": dataclasses.asdict(settings), "log": rows})
    return {
        "run": str(run), "task": settings.task, "steps": made, "seconds": round(time.perf_counter() - start, 2),
        "success": None, "stopped": "steps", "interrupted": False,
        "error": sum(r[-1]["error"] for r in rows.values()) / len(rows),
    }  # fmt: skip
