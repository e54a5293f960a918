"""Checkpoints that survive anything: written aside, flushed to the disk, and renamed into place in one step.

    runs/<task>/<time>/checkpoints/000001048576/
        algorithm.safetensors   weights, normalisers, optimiser, random generator
        env.safetensors         the environment's exact state
        loop.safetensors        current observations
        state.json              versions, counters, config, extra, log figures, SHA-256 of every file and of itself

A folder without the leading dot is complete. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor

from rookery.policies.training import store
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.training.loop import TrainingLoop

FORMAT = "rookery-checkpoint"
VERSION = 2
PARTS = ("algorithm", "env", "loop")


class Interrupted(Exception):
    """Ctrl-C during training; everything is saved in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"interrupted; saved {folder}")
        self.folder = folder


class Interruption:
    """While active, the first Ctrl-C only sets `wanted`; a second one stops at once."""

    wanted = False

    def __enter__(self) -> Interruption:
        self._previous: Any = None
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


def save(loop: TrainingLoop, run_dir: Path) -> Path:
    """Write the trainer's whole state to `run_dir`/checkpoints/<steps>, then the run's policy; keep the newest few."""
    folder = run_dir / "checkpoints"
    final = folder / f"{loop.steps:012d}"
    temporary = folder / f".writing-{loop.steps:012d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*"):
            shutil.rmtree(leftover)
        temporary.mkdir()
        files = {}
        for part, tensors in _tensors(loop).items():
            data = safetensors.torch.save({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
            store.write(temporary / f"{part}.safetensors", data)
            files[f"{part}.safetensors"] = hashlib.sha256(data).hexdigest()
        store.write(temporary / "state.json", _seal(_state(loop) | {"files": files}))
        store.flush_folder(temporary)
        if final.exists():  # the same steps once more, after a resume from an older checkpoint
            final.rename(folder / f".old-{final.name}")
        temporary.rename(final)
        store.flush_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise store.unwritable(folder, error) from error
    store.save_policy(run_dir, loop.algorithm.policies(), loop.extra.get("contract") or {})
    for old in _complete(run_dir)[: -loop.config.keep]:
        shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(folder / f".old-{final.name}", ignore_errors=True)
    return final


def newest(run_dir: Path | str) -> Path:
    """The newest complete checkpoint of a run folder.

    Raises:
        RookeryError: there is none.
    """
    complete = _complete(Path(run_dir))
    if not complete:
        raise RookeryError(f"{run_dir} holds no checkpoint: give the folder of a run made by `rookery train`.")
    return complete[-1]


def read_state(folder: Path | str) -> dict[str, Any]:
    """The checked state.json of a checkpoint (or of the newest one of a run folder): config, extra, steps, ...

    Raises:
        RookeryError: missing, damaged, or written by a newer version.
    """
    folder = _checkpoint(Path(folder))
    try:
        text = (folder / "state.json").read_bytes()
    except OSError as error:
        raise _damaged(folder, f"state.json cannot be read ({error.strerror})") from error
    try:
        state = json.loads(text)
        if state["format"] != FORMAT:
            raise KeyError("format")
        version = int(state["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, "state.json is cut short or was edited") from error
    if version > VERSION:
        raise RookeryError(
            f"{folder} was written by a newer Rookery (checkpoint version {version}, this one reads {VERSION}): "
            "upgrade Rookery to use it."
        )
    if _seal({k: v for k, v in state.items() if k != "sha256"}) != text:
        raise _damaged(folder, "state.json was edited")
    return dict(state)


def load(loop: TrainingLoop, folder: Path) -> None:
    """Put a saved state into a trainer made for the same task, worlds and config."""
    folder = _checkpoint(folder)
    state = read_state(folder)
    if state["task_id"] != loop.env.task_id:
        raise RookeryError(
            f"{folder} is of task {state['task_id']!r}, not {loop.env.task_id!r}: "
            f"resume it with --task {state['task_id']}."
        )
    mine = _shape(loop)
    for what, saved in state["shape"].items():
        if saved != mine[what]:
            raise RookeryError(
                f"{folder} was made with {what} {saved}, not {mine[what]}: resume it with its own settings."
            )
    tensors = {part: _read(folder, part, state["files"]) for part in PARTS}
    try:
        loop.algorithm.load_state_dict(tensors["algorithm"])
        loop.env.load_state_dict(tensors["env"])
    except (KeyError, ValueError, RuntimeError) as error:
        raise RookeryError(f"{folder} does not fit this environment and config ({error}): use its own.") from error
    loop.obs = {k: v.to(loop.env.device) for k, v in tensors["loop"].items()} or None
    loop.steps = state["steps"]
    loop.iteration = state["iteration"]
    loop.seconds = state["seconds"]
    loop.total_steps = state["total_steps"]
    loop.episodes.load_state_dict(state["episodes"])
    if not loop.extra:
        loop.extra = state["extra"]


def _tensors(loop: TrainingLoop) -> dict[str, dict[str, Tensor]]:
    """Everything to be saved, by file."""
    return {"algorithm": loop.algorithm.state_dict(), "env": loop.env.state_dict(), "loop": loop.obs or {}}


def _state(loop: TrainingLoop) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "torch": torch.__version__,
        "task_id": loop.env.task_id,
        "steps": loop.steps,
        "iteration": loop.iteration,
        "seconds": loop.seconds,
        "total_steps": loop.total_steps,
        "shape": _shape(loop),
        "config": loop.algorithm.config.to_dict(),
        "extra": loop.extra,
        "episodes": loop.episodes.state_dict(),
    }


def _shape(loop: TrainingLoop) -> dict[str, Any]:
    """What must be the same for a state to fit."""
    groups = {name: [g.count, g.observation_size, g.action.size] for name, g in loop.env.groups.items()}
    return {"num_envs": loop.env.num_envs, "steps a rollout": loop.algorithm.rollout_steps, "groups": groups}


def _read(folder: Path, part: str, files: dict[str, str]) -> dict[str, Tensor]:
    name = f"{part}.safetensors"
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise _damaged(folder, f"{name} cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != files.get(name):
        raise _damaged(folder, f"{name} is cut short or was edited")
    return safetensors.torch.load(data)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def _seal(state: dict[str, Any]) -> bytes:
    """The JSON text of a state together with the checksum of itself."""
    body = json.dumps(state, indent=1, sort_keys=True, default=str)
    return json.dumps(
        json.loads(body) | {"sha256": hashlib.sha256(body.encode()).hexdigest()}, indent=1, sort_keys=True
    ).encode()


def _complete(run_dir: Path) -> list[Path]:
    """Checkpoint folders, oldest first."""
    folder = run_dir / "checkpoints"
    return sorted(f for f in folder.iterdir() if f.name.isdigit()) if folder.is_dir() else []


def _checkpoint(folder: Path) -> Path:
    return folder if folder.parent.name == "checkpoints" else newest(folder)


def _damaged(folder: Path, why: str) -> RookeryError:
    others = [f for f in _complete(folder.parent.parent) if f != folder]
    way = f"use {others[-1]} instead" if others else "train again, for there is no older checkpoint"
    return RookeryError(f"checkpoint {folder} is damaged: {why}; {way}.")
