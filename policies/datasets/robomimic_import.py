"""HDF5 files of robomimic as demonstrations.

The layout is that of https://robomimic.github.io/docs/datasets/overview.html: ``data`` with the environment's arguments as JSON
in its attribute ``env_args``, and one group ``demo_N`` an episode with ``actions`` [T, D], ``rewards`` [T], ``dones`` [T],
``states`` (the simulator's), ``obs/<key>`` and ``next_obs/<key>`` [T, d].

Taken are all keys of ``obs`` whose rows are vectors, in the order of their names, each as a term of the observation, and the
last row of ``next_obs`` behind them. An episode has terminated where the last row of ``dones`` says so. Actions are in
[-1, 1] as they are, or else their least and greatest values stand for -1 and 1. What else a file has is named in the
recording's ``left_out``.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.foreign import (
    LEFT_OUT,
    Array,
    Describe,
    Progress,
    action_spec,
    episode_of,
    spread_of,
)
from rookery.policies.datasets.hdf5 import Contents, read_hdf5
from rookery.policies.datasets.schema import Episode
from rookery.policies.datasets.writer import Writer
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim.untrusted import Damaged, parse_json

DEMO = re.compile(r"data/(demo_?(\d{1,9}))/actions")
FREQUENCY = "control_freq"
HIGHEST_HZ = 100_000.0


def import_robomimic(
    source: Path | str, folder: Path | str, describe: Describe, *, progress: Progress | None = None
) -> Dataset:
    """Read an HDF5 file of robomimic and write it as demonstrations.

    Args:
        source: the file.
        folder: of the demonstrations; it must not exist, or be empty.
        describe: makes the contract.
        progress: called after each episode with their number so far and in all.

    Raises:
        RookeryError: h5py is missing; the file is missing, damaged, of another layout, or refers to others; or the folder
            cannot be written.
    """
    source = Path(source)
    if importlib.util.find_spec("h5py") is None:
        raise RookeryError("HDF5 files need h5py: `pip install h5py`.")
    try:
        tree = read_hdf5(source)
        demos = _Demos(tree)
        terms = tuple(Term(key, own(f"obs/{key} of the dataset", size)) for key, size in demos.sizes.items())
        group = Group(1, terms, demos.spec)
        contract = describe(f"robomimic-{source.stem}", {"robot": group}, demos.period)
        recording = {
            "engine": None,
            "num_envs": 1,
            "from": f"robomimic dataset {source.name}",
            "environment": demos.environment,
        }
        with Writer(folder, contract, recording | {LEFT_OUT: demos.left_out()}) as writer:
            for i in range(len(demos.names)):
                writer.add(demos.episode(i))
                if progress:
                    progress(len(writer), len(demos.names))
    except OSError as error:
        raise RookeryError(f"{source} cannot be read ({error.strerror}): give an HDF5 file of robomimic.") from error
    except Damaged as error:
        raise RookeryError(f"{source} is no dataset of robomimic that can be read: {error}.") from error
    return Dataset(folder)


class _Demos:
    """The episodes of a file.

    Raises:
        Damaged: the file has another layout.
    """

    def __init__(self, tree: Contents) -> None:
        self._tree = tree
        found = [(int(m.group(2)), m.group(1)) for name in tree.arrays if (m := DEMO.fullmatch(name))]
        self.names = [name for _, name in sorted(found)]
        if not self.names:
            raise Damaged("it has no data/demo_N/actions")
        first = f"data/{self.names[0]}/obs/"
        inside = sorted(name for name in tree.arrays if name.startswith(first))
        self.sizes = {name.removeprefix(first): self._rows(name).shape[1] for name in inside}
        if not self.sizes:
            raise Damaged("its episodes have no observations of vectors")
        arguments = self._arguments()
        self.environment = str(arguments.get("env_name", ""))[:200]
        self.period = self._period(arguments)
        self._check()
        self.spec = self._action()

    def _arguments(self) -> dict[str, Any]:
        text = self._tree.attributes.get("data", {}).get("env_args", "{}")
        try:
            values = parse_json(text) if isinstance(text, str) else {}
        except ValueError as error:
            raise Damaged(f"env_args: {error}") from error
        return values if isinstance(values, dict) else {}

    @staticmethod
    def _period(arguments: dict[str, Any]) -> float:
        """s, of a control step."""
        inner = arguments.get("env_kwargs")
        rate = inner.get(FREQUENCY) if isinstance(inner, dict) else None
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 < rate < HIGHEST_HZ:
            raise Damaged(
                f"it does not tell its control rate: write it into data's env_args, as env_kwargs.{FREQUENCY}"
            )
        return 1.0 / float(rate)

    def _rows(self, name: str, size: int | None = None) -> Array:
        """An array as rows [T, d] of finite numbers."""
        if name not in self._tree.arrays:
            raise Damaged(f"it lacks {name:.80}")
        x = self._tree.arrays[name].astype(np.float64)
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or not x.size or not np.isfinite(x).all() or (size is not None and x.shape[1] != size):
            raise Damaged(f"{name:.80} has the shape {x.shape}, or numbers that are not finite")
        if np.abs(x).max() > np.finfo(np.float32).max:
            raise Damaged(f"{name:.80} has numbers beyond 32 bits")
        return x

    def _check(self) -> None:
        """All episodes have the same keys and as many rows in each."""
        for demo in self.names:
            steps = len(self._rows(f"data/{demo}/actions"))
            prefix = f"data/{demo}/obs/"
            if {n.removeprefix(prefix) for n in self._tree.arrays if n.startswith(prefix)} != set(self.sizes):
                raise Damaged(f"{demo} has other observations than {self.names[0]}")
            named = [f"{prefix}{key}" for key in self.sizes] + [f"data/{demo}/{key}" for key in ("rewards", "dones")]
            for name in named:
                if name in self._tree.arrays and len(self._tree.arrays[name]) != steps:
                    raise Damaged(f"{name:.80} has {len(self._tree.arrays[name])} rows, and there are {steps} actions")

    def _action(self) -> ActionSpec:
        size = self._rows(f"data/{self.names[0]}/actions").shape[1]
        actions = [self._rows(f"data/{demo}/actions", size) for demo in self.names]
        low, high = spread_of(actions)
        if all((np.abs(x) <= 1.0).all() for x in actions):
            low, high = -np.ones(size), np.ones(size)
        return action_spec("robomimic", low, high, None)

    def episode(self, i: int) -> Episode:
        """Episode i."""
        at = f"data/{self.names[i]}"
        observed = [self._rows(f"{at}/obs/{key}", size) for key, size in self.sizes.items()]
        after = [f"{at}/next_obs/{key}" for key in self.sizes]
        last = [x[-1:] for x in observed]
        if all(name in self._tree.arrays for name in after):
            last = [self._rows(name, size)[-1:] for name, size in zip(after, self.sizes.values(), strict=True)]
        observation = np.concatenate((np.concatenate(observed, 1), np.concatenate(last, 1)))
        done = f"{at}/dones" in self._tree.arrays and bool(self._rows(f"{at}/dones", 1)[-1, 0])
        return episode_of(
            i, observation, self._rows(f"{at}/actions", self.spec.size), self.spec,
            reward=self._rows(f"{at}/rewards", 1) if f"{at}/rewards" in self._tree.arrays else None,
            terminated=done, cause="done" if done else "time limit",
        )  # fmt: skip

    def left_out(self) -> list[str]:
        """Parts of the file that are not in the demonstrations, each kind once."""
        words = {"states": "the simulator's own", "mask": "names of parts of the dataset"}
        out: dict[str, str] = {}
        for name in (*self._tree.left, *self._tree.arrays):
            kind = re.sub(r"^data/demo_?\d+/", "", name)
            key = kind.split("/")[-1]
            taken = kind in ("actions", "rewards", "dones") or (
                kind.startswith(("obs/", "next_obs/")) and key in self.sizes
            )
            if not taken:
                kind = kind.split("/")[0] if kind.startswith("mask/") else kind
                out.setdefault(kind, words.get(kind, self._tree.left.get(name, "not read")))
        return [f"{kind:.200} ({why:.80})" for kind, why in out.items()][:100]
