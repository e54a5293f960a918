"""Demonstrations by a task's name or a run's folder: recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.run_env import make_env, open_env
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import is_task

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset
    from rookery.policies.datasets.recorder import RecordingSummary
    from rookery.sim.env import Env


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
) -> RecordingSummary:
    """Record a task's classical controller or a stored policy.

    Args:
        source: a task's name, or a run or zoo folder.
        out: folder of the demonstrations.
        episodes: how many to keep.
        num_envs: worlds at a time.
        controller: "policy" or "classical", the task's classical controller; by default that one for a task's name.
        config, engine, seed, randomize, fixed: as in `rookery.make`; a file of ranges is not taken, since the recording
            could not be made again without it.
        only_success, progress: as in `rookery.policies.datasets.recorder.record`.
        camera: of the videos, see `rookery.sim.rendering.renderer.Renderer`; None makes none.
        size: width and height of the videos in pixels, even.

    Raises:
        RookeryError: a name or value that does not exist or fit, no such controller, or a folder that cannot be written.
    """
    from rookery.policies.datasets import recorder
    from rookery.policies.datasets.video import Filming
    from rookery.policies.datasets.writer import Writer

    if randomize not in ("none", "default", "all"):
        raise RookeryError(f"demonstrations are recorded with --randomize none, default or all, got {randomize!r}.")
    if controller is None:
        controller = "classical" if is_task(str(source)) and not source.exists() else "policy"
    physics: dict[str, Any] = {"engine": engine, "seed": seed, "randomize": randomize, "fixed": fixed}
    env, act = open_env(source, num_envs, controller=controller, config=config, as_trained=True, **physics)
    filming = None
    try:
        filming = Filming(env, camera, *size) if camera else None
        how = physics | {"engine": env.engine, "fixed": fixed or {}, "num_envs": num_envs, "source": str(source)}
        how |= {"controller": controller, "only_success": only_success}
        with Writer(out, _contract(env, seed, randomize), how, filming.declaration() if filming else None) as writer:
            return recorder.record(
                env, act, writer, episodes, seed=seed, only_success=only_success, filming=filming, progress=progress
            )
    finally:
        if filming is not None:
            filming.close()
        env.close()


def _contract(env: Env, seed: int, randomize: str) -> dict[str, Any]:
    """The JSON form of the contract that a recording keeps."""
    from rookery.sim2real.build import build_contract
    from rookery.sim2real.provenance import gather_provenance

    return build_contract(env, provenance=gather_provenance(0, seed, env.engine, randomize)).to_json()


def recorded_env(data: Dataset, engine: str | None = None) -> Env:
    """A new environment like the one that demonstrations were recorded in.

    Args:
        data: demonstrations.
        engine: in place of their own.

    Raises:
        RookeryError: they are not of a task of this package, or the task has changed since.
    """
    from rookery.sim2real.contract import Contract
    from rookery.sim2real.upgrade import upgraded

    if not is_task(data.task_id):
        raise RookeryError(f"{data.folder} is of {data.task_id!r}, which is no task here: it cannot be replayed.")
    how = data.recording
    contract = Contract.from_json(upgraded(data.contract), stages=False)
    return make_env(
        contract, int(how["num_envs"]), engine=engine or how["engine"], seed=int(how["seed"]),
        randomize=how["randomize"], fixed=how["fixed"], as_trained=True,
    )  # fmt: skip
