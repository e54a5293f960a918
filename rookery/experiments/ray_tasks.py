"""Tasks of a Ray cluster that go on as in the command's own process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rookery.sim.own_files import named_files

A = TypeVar("A")
B = TypeVar("B")
TRUST = ("ROOKERY_TRUST_TASKS", "ROOKERY_TRUST_MODULES")
"""Environment variables that say which files may be run."""


@dataclass(frozen=True)
class Surroundings:
    """Folder of a command and its trust in files, which processes of Ray may lack.

    Args:
        folder: in which relative paths begin.
        trust: environment variables of TRUST that are set; the user's own files that the command has imported are trusted too.
    """

    folder: str
    trust: Mapping[str, str]

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this process."""
        trust = {name: os.environ[name] for name in TRUST if name in os.environ}
        own = [str(file) for file in named_files()]
        if own:
            trust[TRUST[0]] = os.pathsep.join([*filter(None, [trust.get(TRUST[0])]), *own])
        return cls(os.getcwd(), trust)

    def take(self) -> None:
        """Have them in this process, as far as it can."""
        with contextlib.suppress(OSError):  # another machine need not have the folder
            os.chdir(self.folder)
        for name in TRUST:
            os.environ.pop(name, None)
        os.environ.update(self.trust)


@dataclass(frozen=True)
class StoredValue(Generic[A]):
    """A value in Ray's object store, where each machine has it once, however many tasks' orders it is in.

    Args:
        reference: of Ray's.
    """

    reference: Any

    def get(self) -> A:
        """The value, in a task or in the command."""
        import ray

        found: A = ray.get(self.reference)
        return found


def as_here(work: Callable[[A], B], order: A, here: Surroundings, cores: int = 1) -> B:
    """``work(order)`` in a process of Ray's, with so many threads, as if it were the command's."""
    from rookery.sim.cores import limit_cores
    from rookery.sim.threads import limit_threads

    here.take()
    limit_cores(cores)
    limit_threads(cores)
    return work(order)
