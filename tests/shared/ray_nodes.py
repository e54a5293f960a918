"""A cluster of two nodes on this machine, of which one is killed while it works for a command."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil


@contextlib.contextmanager
def two_nodes(head_cpus: int = 1, cpus: int = 1) -> Iterator[tuple[Any, Any]]:
    """The cluster, and its second node."""
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": head_cpus, "include_dashboard": False})
    second = nodes.add_node(num_cpus=cpus)
    try:
        yield nodes, second
    finally:
        nodes.shutdown()


def begun(words: list[str], said: Path) -> subprocess.Popen[bytes]:
    """A command in a process of its own, whose standard error goes to a file."""
    with open(said, "wb") as file:
        return subprocess.Popen([sys.executable, "-m", "rookery", *words], stderr=file, stdout=subprocess.DEVNULL)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 180.0) -> None:
    """Wait for a condition while a command runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the command ended before"
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def works(node: Any, task: str = "ray::as_here") -> bool:
    """True while a process of the node does a task."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        return any(task in " ".join(p.cmdline()) for p in raylet.children(recursive=True))
    return False
