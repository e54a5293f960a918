"""Machines of a Ray cluster: placing work on one of them, and refusing those that would compute something else."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rookery.sim.errors import RookeryError

A = TypeVar("A")
LIBRARIES = ("rookery", "torch", "numpy", "numba", "mujoco", "pybullet")
"""Whose versions must be the same everywhere: results depend on them."""


def on_node(node: str) -> Any:
    """The wish to be placed on a node, and nowhere else."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def of_each_machine(ray: Any, asked: Callable[..., A], *args: object) -> Iterator[tuple[str, A]]:
    """Each machine's name with what a function returns there. One that was lost is left out: for some seconds the cluster
    counts it all the same."""
    task = ray.remote(num_cpus=0)(asked)
    nodes = {n["NodeID"]: n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]}
    replies = {node: task.options(scheduling_strategy=on_node(node)).remote(*args) for node in nodes}
    for node, reply in replies.items():
        try:
            answer = ray.get(reply)
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError:
            continue
        yield nodes[node], answer


def versions() -> dict[str, str]:
    """Versions of LIBRARIES here."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def check_versions(ray: Any) -> None:
    """Refuse machines that would compute something else.

    Raises:
        RookeryError: naming both versions.
    """
    mine = versions()
    for host, theirs in of_each_machine(ray, versions):
        for name, version in mine.items():
            if theirs[name] != version:
                raise RookeryError(
                    f"{host} has {name} {theirs[name]} and this machine {version}: install the same on all machines of the "
                    "cluster."
                )


def check_folder(ray: Any, folder: Path) -> None:
    """Refuse machines that cannot read the folder of a run.

    Raises:
        RookeryError: naming the machine.
    """
    token = folder / f".seen-{uuid.uuid4().hex}"
    token.touch()
    try:
        for host, sees in of_each_machine(ray, os.path.exists, str(token)):
            if not sees:
                raise RookeryError(
                    f"{host} does not see {folder}: give --out a folder that all machines of the cluster share."
                )
    finally:
        with contextlib.suppress(OSError):
            token.unlink()


def check_own_files(ray: Any, files: Sequence[Path]) -> None:
    """Refuse machines that lack files of the user's own or the folder in which relative paths begin, or have other files.

    Raises:
        RookeryError: naming the machine and the file.
    """
    asked = os.getcwd(), [str(file) for file in files]
    mine = digests(*asked)
    for host, theirs in of_each_machine(ray, digests, *asked):
        for path, digest in mine.items():
            if theirs.get(path) != digest:
                lacks = "has another" if path in theirs else "does not see"
                raise RookeryError(
                    f"{host} {lacks} {path}, which code of your own needs: put the same at that place on all machines of the "
                    "cluster, or on a disk that they share, and begin there."
                )


def digests(folder: str, files: Sequence[str]) -> dict[str, str]:
    """SHA-256 of files on this machine, in hexadecimal, by path; without what is not there.

    Args:
        folder: which counts as a file without content.
        files: paths in full.
    """
    found = {folder: ""} if os.path.isdir(folder) else {}
    for file in files:
        with contextlib.suppress(OSError):
            found[file] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return found
