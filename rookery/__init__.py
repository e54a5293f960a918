"""Rookery: where robots are raised in simulation and released to hardware.

    import rookery
    env = rookery.make("drone-hover", num_envs=1024, seed=0)
    obs, info = env.reset()
    obs, reward, terminated, truncated, info = env.step(actions)

Importing this costs no torch and no MuJoCo: they come with the first name that needs them. The tasks are registered
with gymnasium, as in ``gymnasium.make("rookery/drone-hover-v0")``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# Torch's threads spin for a while after every operation, on cores that the engine's own threads need at that moment. Our
# own loops use one torch thread, but a caller's policy between two steps would start the others: with two of them,
# drone-hover made 111 k steps/s while they spun and 157 k when they slept. Read when torch loads its OpenMP library.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from rookery.gym_registration import register as _register

if TYPE_CHECKING:
    from rookery.experiments.importing import import_policy
    from rookery.listing import list_tasks
    from rookery.making import make
    from rookery.plugins import register_task
    from rookery.robots.drones.table import register_drone
    from rookery.sim.adapters.pettingzoo_env import ParallelEnv
    from rookery.sim.errors import RookeryError
    from rookery.version import __version__

__all__ = [
    "ParallelEnv", "RookeryError", "__version__", "import_policy", "list_tasks", "make", "register_drone", "register_task",
]  # fmt: skip

_HOMES = {
    "make": "rookery.making",
    "import_policy": "rookery.experiments.importing",
    "list_tasks": "rookery.listing",
    "register_drone": "rookery.robots.drones.table",
    "register_task": "rookery.plugins",
    "ParallelEnv": "rookery.sim.adapters.pettingzoo_env",
    "RookeryError": "rookery.sim.errors",
    "__version__": "rookery.version",
}

_register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rookery' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
