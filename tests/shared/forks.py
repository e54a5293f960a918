"""Processes of their own that begin with the large libraries imported, which is most of a short program's time."""

from __future__ import annotations

import multiprocessing

# They are forked from a process that has imported these and nothing of ours.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "numba", "mujoco", "trimesh.creation", "gymnasium", "tyro", "rich.console"])
