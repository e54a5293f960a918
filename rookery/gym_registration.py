"""The tasks under gymnasium's names: ``gymnasium.make("rookery/drone-hover-v0")`` and ``gymnasium.make_vec``.

`import rookery` calls `register`; ``gymnasium.make("rookery:rookery/drone-hover-v0")`` needs no other import.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import task_names

if TYPE_CHECKING:
    from rookery.sim.adapters.gymnasium_env import SingleEnv
    from rookery.sim.adapters.gymnasium_vector import VectorEnv

NAMESPACE = "rookery"
VERSION = "v0"


class UnknownArgument(RookeryError, TypeError):
    """An argument that there is not. A TypeError in Python's words too: TorchRL's GymEnv tries `frameskip`, and reads them."""


def register() -> None:
    """Register every task once, those of installed packages included. Registered are names only: a task's code is imported
    when it is made."""
    for task in task_names():
        register_name(task)


def register_name(task: str) -> None:
    """Register one task's name, once."""
    import gymnasium

    name = f"{NAMESPACE}/{task}-{VERSION}"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="rookery.gym_registration:make_single",
            vector_entry_point="rookery.gym_registration:make_vector",
            # Time limits are the task's own; gymnasium's wrapper would be a second clock.
            kwargs={"task": task},
            disable_env_checker=True,
        )


def make_single(task: str, render_mode: str | None = None, joint: bool = False, **kwargs: Any) -> SingleEnv:
    """One world behind `gymnasium.Env`.

    Args:
        task: registered name.
        render_mode: None, "rgb_array" or "human", see SingleEnv.
        joint: take several agents as one that sees and commands all of them.
        kwargs: arguments of `rookery.make`: engine, seed, randomize, fixed, config, weights ...

    Raises:
        RookeryError: an unknown argument.
    """
    from rookery.making import make
    from rookery.sim.adapters.gymnasium_env import SingleEnv

    if "num_envs" in kwargs:
        raise RookeryError(
            f"gymnasium.make makes one world: use gymnasium.make_vec with num_envs={kwargs['num_envs']!r}."
        )
    _check(kwargs, ("joint", "max_episode_steps", "render_mode"))
    return SingleEnv(make(task, 1, **kwargs), joint=joint, render_mode=render_mode)


def make_vector(
    task: str,
    num_envs: int = 1,
    render_mode: str | None = None,
    joint: bool = False,
    tensors: bool = False,
    max_episode_steps: int | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """N worlds behind `gymnasium.vector.VectorEnv`.

    Args:
        task: registered name.
        num_envs: N.
        render_mode, joint: see `make_single`.
        tensors: give torch tensors in place of NumPy arrays.
        max_episode_steps: time limit in control steps, in place of the config value `episode_s`.
        kwargs: arguments of `rookery.make`.

    Raises:
        RookeryError: an unknown argument, or two time limits.
    """
    from rookery.making import make, of_length
    from rookery.sim.adapters.gymnasium_vector import VectorEnv

    _check(kwargs, ("joint", "max_episode_steps", "num_envs", "render_mode", "tensors"))
    if max_episode_steps is not None:
        kwargs["config"] = of_length(task, max_episode_steps, kwargs.get("config"))
    return VectorEnv(make(task, num_envs, **kwargs), joint=joint, tensors=tensors, render_mode=render_mode)


def _check(given: dict[str, Any], own: tuple[str, ...]) -> None:
    """Refuse arguments that neither `rookery.make` has nor the caller, whose are `own`.

    Raises:
        UnknownArgument: the first one, with the nearest match.
    """
    from rookery.making import make

    known = [*list(inspect.signature(make).parameters)[2:], *own]
    for name in given:
        if name not in known:
            near = str(unknown("argument", name, known)).removeprefix("unknown argument")
            raise UnknownArgument(f"got an unexpected keyword argument{near}")
