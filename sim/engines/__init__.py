"""Engines by name. Each is imported only when it is asked for."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.numba_cache import forget_stale

if TYPE_CHECKING:
    from rookery.sim.scene import Scene
    from rookery.sim.world import World

_here = Path(__file__).parent
forget_stale(_here, _here / "rotor", _here.parent / "multirotor")  # kernels here call those of both

ENGINES = {
    "rotor": "multirotors, balls and static shapes, compiled, with rotors, onboard controllers and air inside",
    "mujoco": "everything: MuJoCo's batch of C threads, float64, bit-identical at any thread count",
    "pybullet": "an independent engine, one client a world: for checking a finished policy",
}


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


def make_world(engine: str, scene: Scene, num_envs: int, device: str = "cpu", threads: int = 0) -> World:
    """N copies of a scene on an engine.

    Args:
        engine: name, one of ENGINES.
        scene: what is simulated.
        num_envs: N.
        device: "cpu".
        threads: of the engine `mujoco`; 0 takes one for each processor that this process may use.

    Raises:
        RookeryError: unknown engine, no worlds, or a device that the engine does not run on.
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    check_num_envs(num_envs)
    if device != "cpu":
        raise RookeryError(f"engine {engine!r} runs on the cpu, got device {device!r}: leave device out.")
    if engine == "rotor":
        from rookery.sim.engines.rotor.world import RotorWorld

        return RotorWorld(scene, num_envs)
    if engine == "mujoco":
        from rookery.sim.engines.mujoco.world import MujocoWorld

        return MujocoWorld(scene, num_envs, threads)
    from rookery.sim.engines.pybullet.world import PyBulletWorld

    return PyBulletWorld(scene, num_envs)
