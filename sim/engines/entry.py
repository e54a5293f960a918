"""Engine: the registration of a physics engine with what it can do. Importing this imports no engine."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.world import World


@dataclass(frozen=True)
class Engine:
    """A physics engine.

    Args:
        name: on the command line; `World.engine` of its worlds.
        summary: one line.
        world: "module:Class" of its World, imported when it is asked for; ``Class(scene, num_envs, threads)`` makes one.
        batch: worlds that it steps together well; an evaluation that needs more episodes takes them in turns.
        shardable: worlds may be divided among processes, with the same results to the last bit.
    """

    name: str
    summary: str
    world: str
    batch: int = 512
    shardable: bool = False

    def load(self) -> type[World]:
        """The class of its worlds."""
        module, name = self.world.split(":")
        cls: type[World] = getattr(importlib.import_module(module), name)
        return cls


ENGINES: dict[str, Engine] = {}
"""By name, all that are registered."""


def register(engine: Engine) -> None:
    """Make an engine known by its name.

    Raises:
        RookeryError: the name is taken.
    """
    if engine.name in ENGINES:
        raise RookeryError(f"there is an engine {engine.name!r} already: choose another name.")
    ENGINES[engine.name] = engine
