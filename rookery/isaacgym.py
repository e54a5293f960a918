"""The interface of isaacgymenvs over Rookery's tasks, and over users' own ones in its style.

import rookery.isaacgym as isaacgymenvs

envs = isaacgymenvs.make(seed=0, task="drone-hover", num_envs=512, sim_device="cpu", rl_device="cpu")
obs = envs.reset()["obs"]
obs, reward, reset, extras = envs.step(envs.zero_actions())
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rookery.making import make as make_env
from rookery.sim.adapters.isaacgym.env import VecTaskBase, plain, usable_device
from rookery.sim.adapters.isaacgym.rookery_task import RookeryVecTask
from rookery.sim.adapters.isaacgym.simulation import SimParams, Simulation, TensorApi
from rookery.sim.adapters.isaacgym.source import as_env
from rookery.sim.adapters.isaacgym.vec_task import VecTask, check_buffers, check_subclass
from rookery.sim.adapters.seeding import fresh_seed
from rookery.sim.config import merge
from rookery.sim.engines import check_num_envs, check_seed
from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import find, task_names

__all__ = ["SimParams", "Simulation", "TensorApi", "VecTask", "VecTaskBase", "as_env", "make", "register"]

_registered: dict[str, tuple[type[VecTask], dict[str, Any]]] = {}


def register(name: str, cls: type[VecTask], cfg: Mapping[str, Any] | None = None) -> None:
    """Register a task of your own for `make`, in this process. A name that was registered before is replaced.

    Args:
        name: such as "Cartpole".
        cls: a subclass of `VecTask`.
        cfg: its config, ``{"env": {...}, "sim": {...}}``; what `make` is given replaces single values of it.

    Raises:
        RookeryError: `cls` is no subclass or lacks a method, or Rookery has a task of that name.
    """
    if not (isinstance(cls, type) and issubclass(cls, VecTask)):
        raise RookeryError(f"register takes a subclass of rookery.isaacgym.VecTask, got {cls!r}.")
    if name in task_names():
        raise RookeryError(f"{name!r} is a task of Rookery: choose another name.")
    check_subclass(cls)
    _registered[name] = cls, plain(cfg or {})


def make(
    seed: int | None = None,
    task: str = "",
    num_envs: int | None = None,
    sim_device: str = "cpu",
    rl_device: str = "cpu",
    graphics_device_id: int = -1,
    headless: bool = False,
    multi_gpu: bool = False,
    virtual_screen_capture: bool = False,
    force_render: bool = True,
    cfg: Mapping[str, Any] | None = None,
) -> VecTaskBase:
    """Make a VecTask: a task of Rookery with one agent group, or one that was registered.

    Args:
        seed: of the task's random streams; of torch's global generator for a registered task. None and, as there, -1 take one
            from the operating system; for a registered task None leaves torch's generator as it is.
        task: a name of `rookery.list_tasks()` or of `register`.
        num_envs: N rows; None takes ``cfg["env"]["numEnvs"]``, or 1. Of a task with A agents a row is an agent, so that N is
            A times the number of worlds.
        sim_device: "cpu", where all engines run; another one is said once in a warning.
        rl_device: of observations and rewards; "cpu" where the one that was asked for is not there, with the same warning.
        graphics_device_id, headless, multi_gpu, force_render: taken and not used; there is no viewer, and one process.
        virtual_screen_capture: taken; `VecTask.render` always gives pictures.
        cfg: ``{"env": {...}, "sim": {...}}`` as in isaacgymenvs, or a whole config with that under "task". For Rookery's tasks
            ``cfg["rookery"]`` holds arguments of `rookery.make`, such as ``{"randomize": "default"}``.

    Raises:
        RookeryError: an unknown task or device, several agent groups, a vector reward, or a value that does not fit.
    """
    if seed is not None:
        seed = fresh_seed() if check_seed(seed) == -1 else check_seed(seed)
    config = plain(cfg or {})
    inner = config.get("task")
    # a task's own config may have a section "task" too, beside "env"
    if isinstance(inner, dict) and "env" in inner and "env" not in config:
        config = inner | {k: v for k, v in config.items() if k == "rookery"}
    if num_envs is None:
        num_envs = _configured(task, config)
    check_num_envs(num_envs)
    options = {
        "rl_device": usable_device(sim_device, rl_device),
        "sim_device": "cpu",
        "graphics_device_id": graphics_device_id,
        "headless": headless,
        "virtual_screen_capture": virtual_screen_capture,
        "force_render": force_render,
    }
    if task in _registered:
        return _own(task, seed, num_envs, config, options)
    names = [*task_names(), *_registered]
    if task not in names:
        raise unknown("task", task, names)
    return _of_rookery(task, seed, num_envs, config, options)


def _configured(task: str, config: dict[str, Any]) -> int:
    """``cfg["env"]["numEnvs"]`` of the call or of `register`; 1 without."""
    own = _registered[task][1] if task in _registered else {}
    count: int = merge(own, config).get("env", {}).get("numEnvs", 1)
    return count


def _own(task: str, seed: int | None, num_envs: int, config: dict[str, Any], options: dict[str, Any]) -> VecTask:
    cls, own = _registered[task]
    if seed is not None:
        torch.manual_seed(seed)
    merged = merge(own, config)
    merged["env"] = merged.get("env", {}) | {"numEnvs": num_envs}
    made = cls(merged, **options)
    check_buffers(made)
    return made


def _of_rookery(
    task: str, seed: int | None, num_envs: int, config: dict[str, Any], options: dict[str, Any]
) -> RookeryVecTask:
    from rookery.listing import describe

    arguments = config.pop("rookery", {})
    agents = next(iter(describe(find(task).id).groups.values())).count
    env = make_env(task, max(1, num_envs // agents), seed=seed, **arguments)
    found = next(iter(env.groups.values())).count
    if found != agents and num_envs % found == 0:  # the arguments change the number of agents
        env.close()
        env = make_env(task, num_envs // found, seed=seed, **arguments)
    try:
        if len(env.groups) == 1 and num_envs != env.num_envs * found:
            raise RookeryError(
                f"{task} has {found} agents in a world, each of which is an environment here: give num_envs as a multiple "
                f"of {found}, got {num_envs}."
            )
        return RookeryVecTask(env, config, **options)
    except RookeryError:
        env.close()
        raise
