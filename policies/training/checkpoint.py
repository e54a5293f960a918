"""Checkpoints that survive anything: written aside, flushed to the disk, and renamed into place in one step.

    runs/<task>/<time>/checkpoints/000001048576/
        model.safetensors       weights, normalisers
        optimizer.safetensors   Adam's moments, learning rates
        env.safetensors         the environment's exact state
        trainer.safetensors     current observations, random generator
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

from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import store
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.algorithms.ppo import PPO

FORMAT = "rookery-checkpoint"
VERSION = 1
PARTS = ("model", "optimizer", "env", "trainer")


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


def save(ppo: PPO, run_dir: Path) -> Path:
    """Write the trainer's whole state to `run_dir`/checkpoints/<steps>, then the run's policy; keep the newest few."""
    folder = run_dir / "checkpoints"
    final = folder / f"{ppo.steps:012d}"
    temporary = folder / f".writing-{ppo.steps:012d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*"):
            shutil.rmtree(leftover)
        temporary.mkdir()
        files = {}
        for part, tensors in _tensors(ppo).items():
            data = safetensors.torch.save({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
            store.write(temporary / f"{part}.safetensors", data)
            files[f"{part}.safetensors"] = hashlib.sha256(data).hexdigest()
        store.write(temporary / "state.json", _seal(_state(ppo) | {"files": files}))
        store.flush_folder(temporary)
        if final.exists():  # the same steps once more, after a resume from an older checkpoint
            final.rename(folder / f".old-{final.name}")
        temporary.rename(final)
        store.flush_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise store.unwritable(folder, error) from error
    store.save_policy(run_dir, ppo.policies(), ppo.extra.get("contract") or {})
    for old in _complete(run_dir)[: -ppo.config.keep]:
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


def load(ppo: PPO, folder: Path) -> None:
    """Put a saved state into a trainer made for the same task, worlds and config."""
    folder = _checkpoint(folder)
    state = read_state(folder)
    if state["task_id"] != ppo.env.task_id:
        raise RookeryError(
            f"{folder} is of task {state['task_id']!r}, not {ppo.env.task_id!r}: "
            f"resume it with --task {state['task_id']}."
        )
    mine = _shape(ppo)
    for what, saved in state["shape"].items():
        if saved != mine[what]:
            raise RookeryError(
                f"{folder} was made with {what} {saved}, not {mine[what]}: resume it with its own settings."
            )
    tensors = {part: _read(folder, part, state["files"]) for part in PARTS}
    try:
        for name, agents in ppo.agents.items():
            own = {part: _under(f"{name}/", tensors[part]) for part in ("model", "optimizer")}
            agents.load_state_dict(own, state["optimizer_steps"][name])
            agents.divide(state["threads"][name])
        ppo.env.load_state_dict(tensors["env"])
    except (KeyError, ValueError, RuntimeError) as error:
        raise RookeryError(f"{folder} does not fit this environment and config ({error}): use its own.") from error
    trainer = tensors["trainer"]
    ppo._generator.set_state(trainer.pop("generator").cpu())
    ppo._now = {k: v.to(ppo.device) for k, v in trainer.items()} or None
    ppo.steps = state["steps"]
    ppo.iteration = state["iteration"]
    ppo.seconds = state["seconds"]
    ppo.total_steps = state["total_steps"]
    ppo.episodes.load_state_dict(state["episodes"])
    if not ppo.extra:
        ppo.extra = state["extra"]


def config_of(state: dict[str, Any]) -> PPOConfig:
    """The settings in a checkpoint's state."""
    return PPOConfig.from_dict(state["config"])


def _tensors(ppo: PPO) -> dict[str, dict[str, Tensor]]:
    """Everything to be saved, by file."""
    out: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
    for name, agents in ppo.agents.items():
        for part, tensors in agents.state_dict().items():
            out[part] |= {f"{name}/{k}": v for k, v in tensors.items()}
    out["env"] = ppo.env.state_dict()
    out["trainer"] = {"generator": ppo._generator.get_state(), **(ppo._now or {})}
    return out


def _state(ppo: PPO) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "torch": torch.__version__,
        "task_id": ppo.env.task_id,
        "steps": ppo.steps,
        "iteration": ppo.iteration,
        "seconds": ppo.seconds,
        "total_steps": ppo.total_steps,
        "threads": {name: len(a.workers) for name, a in ppo.agents.items()},
        "optimizer_steps": {name: a.adam.steps for name, a in ppo.agents.items()},
        "shape": _shape(ppo),
        "config": ppo.config.to_dict(),
        "extra": ppo.extra,
        "episodes": ppo.episodes.state_dict(),
    }


def _shape(ppo: PPO) -> dict[str, Any]:
    """What must be the same for a state to fit."""
    groups = {
        name: [g.count, g.observation_size, g.action.size, ppo.agents[name].parameters.numel()]
        for name, g in ppo.env.groups.items()
    }
    return {"num_envs": ppo.env.num_envs, "steps a rollout": ppo.config.steps, "groups": groups}


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
