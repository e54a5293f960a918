"""`rookery.make`: an environment from a task's name."""

from __future__ import annotations

from typing import Any

from rookery.sim import randomization
from rookery.sim.config import from_dict
from rookery.sim.engines import make_world
from rookery.sim.randomization import Range
from rookery.sim.scalarize import LinearScalarization
from rookery.sim.vec_env import VecEnv
from rookery.tasks.registry import find


def make(
    task: str,
    num_envs: int = 1,
    *,
    engine: str | None = None,
    device: str = "cpu",
    seed: int = 0,
    randomize: str = "none",
    fixed: dict[str, float] | None = None,
    config: dict[str, Any] | None = None,
    weights: dict[str, float] | None = None,
) -> VecEnv:
    """Make N worlds of a task.

    Args:
        task: registered name, such as "drone-hover" (see `rookery.list_tasks`).
        num_envs: N, number of worlds.
        engine: "rotor", "mujoco" or "pybullet"; None takes the first that the task names.
        device: where tensors live; "cpu".
        seed: seed of all random streams.
        randomize: "none", "default" or the path of a TOML file (see rookery.sim.randomization).
        fixed: parameters held at one value in all worlds, such as ``{"mass": 1.2}``; they override `randomize`.
        config: values in place of the task config's defaults, such as ``{"num_drones": 3}``.
        weights: of the objectives of a vector reward, such as ``{"closeness": 1.0, "spread": 0.5}``: rewards are then one
            number (see rookery.sim.scalarize); None leaves a vector reward as it is.

    Raises:
        RookeryError: a name, number or value that does not exist or fit, with the way out.
    """
    entry = find(task)
    built = entry.load()(from_dict(entry.load().Config, config or {}))
    world = make_world(entry.engines[0] if engine is None else entry.check(engine), built.scene(), num_envs, device)
    own = built.spreads if randomize == "default" else None
    ranges = randomization.load(randomize) if own is None else dict(own)
    preset = set(ranges) - set(fixed or {}) if randomize == "default" else set()
    ranges |= {name: Range(value, value, "startup") for name, value in (fixed or {}).items()}
    env = VecEnv(built, world, seed=seed, ranges=ranges, optional=preset, task_id=task)
    return env if weights is None else LinearScalarization(env, weights)
