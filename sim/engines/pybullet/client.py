"""Bullet's clients: loading the package without its greeting, and reuse of clients, which are slow to make."""

from __future__ import annotations

import os
import sys
from typing import Any

from rookery.sim.errors import RookeryError

_module: Any = None
_idle: list[int] = []


def load() -> Any:
    """The pybullet module. Its import writes a line to standard error from C, which is hidden here.

    Raises:
        RookeryError: the package is not installed.
    """
    global _module
    if _module is None:
        _module = _import_quietly()
    return _module


def _import_quietly() -> Any:
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        import pybullet
    except ImportError as e:
        raise RookeryError("the engine 'pybullet' needs the package of that name: pip install pybullet.") from e
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
    return pybullet


def acquire(count: int) -> list[int]:
    """Ids of `count` clients with empty worlds. Each takes about 30 MB and, when it is new, 30 ms."""
    p = load()
    while len(_idle) < count:
        client = p.connect(p.DIRECT)
        if client < 0:
            raise RookeryError(f"PyBullet gave no more than {len(_idle)} of {count} physics clients: use fewer worlds.")
        _idle.append(client)
    taken = _idle[-count:]
    _idle[:] = _idle[:-count]
    return taken


def release(clients: list[int]) -> None:
    """Give clients back for reuse, emptied."""
    for client in clients:
        _module.resetSimulation(physicsClientId=client)
    _idle.extend(clients)
    clients.clear()
