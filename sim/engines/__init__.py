"""Engines by name: each folder registers one. What simulates is imported only when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.engines.entry import ENGINES, Engine
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.numba_cache import forget_stale

if TYPE_CHECKING:
    from rookery.sim.scene import Scene
    from rookery.sim.world import World

_here = Path(__file__).parent
forget_stale(_here, _here / "rotor", _here.parent / "multirotor", _here.parents[1] / "sim")  # kernels here call theirs

# Each folder here is an engine, whose __init__ registers it and imports nothing else.
for _engine in pkgutil.iter_modules([str(_here)]):
    if _engine.ispkg:
        importlib.import_module(f"{__name__}.{_engine.name}")


def find_engine(name: str) -> Engine:
    """A registered engine.

    Raises:
        RookeryError: an unknown name, with the nearest match.
    """
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    return ENGINES[name]


MOST_WORLDS = 2**20
"""Bound of a number of worlds."""


def check_num_envs(num_envs: int) -> None:
    """Refuse a number of worlds that no engine makes.

    Raises:
        RookeryError: not a whole number from 1 to MOST_WORLDS.
    """
    if not isinstance(num_envs, int):
        raise RookeryError(f"num_envs must be a whole number, got {num_envs!r}.")
    if num_envs < 1:
        raise RookeryError(f"num_envs must be at least 1, got {num_envs}.")
    if num_envs > MOST_WORLDS:
        raise RookeryError(f"num_envs must be at most {MOST_WORLDS}, got {num_envs}.")


MIN_SEED = -(2**63)
MAX_SEED = 2**64 - 1
"""Limits of torch.Generator.manual_seed."""


def check_seed(seed: Any) -> int:
    """A seed as an int; NumPy's whole numbers count.

    Raises:
        RookeryError: not a whole number of at most 64 bits.
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not MIN_SEED <= int(seed) <= MAX_SEED:
        raise RookeryError(f"seed must be from {MIN_SEED} to {MAX_SEED}, a whole number, got {seed!r}.")
    return int(seed)


def make_world(engine: str, scene: Scene, num_envs: int, threads: int = 0) -> World:
    """N copies of a scene on an engine.

    Args:
        engine: registered name, such as "mujoco".
        scene: what is simulated.
        num_envs: N.
        threads: that the engine may use, where it uses several; 0 takes one for each processor of this process.

    Raises:
        RookeryError: unknown engine, or no worlds.
    """
    found = find_engine(engine)
    check_num_envs(num_envs)
    cls: Any = found.load()
    world: World = cls(scene, num_envs, threads)
    return world
