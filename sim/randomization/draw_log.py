"""A log of what was drawn for episodes, from which they can be played again: the same starts, noise and factors."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace
from rookery.sim.randomization.distributions import Range
from rookery.sim.untrusted import parse_json, read_json, read_npz

SUFFIXES = (".npz", ".json")
MOST_WORLDS = 2**24
"""Beyond any environment; memory for a row of each world stays small."""


def refuse_log(randomize: str) -> None:
    """Refuse a log of draws as the randomization of a training.

    Raises:
        RookeryError: the name is that of a log.
    """
    if Path(randomize).suffix in SUFFIXES:
        raise RookeryError(
            f"{randomize} is a log of draws, which `rookery eval` plays again: a training has a file of ranges."
        )


@dataclass
class DrawLog:
    """Log of what was drawn for E episodes of N worlds that began with one `reset(seed)`.

    The k-th episode of a world begins with the same numbers of its random streams whatever was done in those before it. So
    the seed, the world and k give the start and the noise, and the log adds the values drawn.

    Args:
        task: the environment's name.
        seed: of the reset.
        num_envs: N.
        names: of the P draws.
        world: [E] of each episode.
        episode: [E] its number in its world, from 0.
        values: [E, P] float32.
    """

    task: str
    seed: int
    num_envs: int
    names: tuple[str, ...] = ()
    world: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    episode: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    values: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    def add(self, finished: dict[str, Any]) -> None:
        """Take an ``info["episode"]`` of a step; call it for every step since the reset that has one."""
        drawn = finished["parameters"]
        if not len(self.world):
            self.names = tuple(drawn)
            self.values = np.zeros((0, len(drawn)), np.float32)
        ids = finished["ids"].cpu().numpy()
        before = np.bincount(self.world, minlength=self.num_envs)
        rows = np.array([drawn[name].cpu().numpy() for name in self.names], np.float32).reshape(
            len(self.names), len(ids)
        )
        self.world = np.concatenate((self.world, ids))
        self.episode = np.concatenate((self.episode, before[ids]))
        self.values = np.concatenate((self.values, rows.T))

    def ranges(self) -> dict[str, Range]:
        """Ranges that hold all values of the log, by draw: what an environment needs to play it again."""
        low, high = self.values.min(0).tolist(), self.values.max(0).tolist()
        return {name: Range(low[p], high[p]) for p, name in enumerate(self.names)}

    def by_world(self, first: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Values [count, K, P] of up to K episodes of the worlds from `first` on, and [count] how many each has, at least one:
        a world that finished none in the log gets the log's first values, for episodes that nobody counts."""
        lengths = np.bincount(self.world, minlength=first + count)[first : first + count]
        out = np.zeros((count, int(lengths.max(initial=1)), len(self.names)), np.float32)
        out[lengths == 0, 0] = self.values[0]
        lengths = lengths.clip(1)
        mine = (self.world >= first) & (self.world < first + count)
        out[self.world[mine] - first, self.episode[mine]] = self.values[mine]
        return out, lengths

    def write(self, path: Path) -> None:
        """Write it as .npz, or as .json; an older one in its place is replaced when all is on the disk.

        Raises:
            RookeryError: another suffix, or the file cannot be written.
        """
        check_suffix(path)
        about = {"task": self.task, "seed": self.seed, "num_envs": self.num_envs}
        arrays: dict[str, Any] = {"world": self.world, "episode": self.episode, "values": self.values}
        if path.suffix == ".json":
            lists = {k: v.tolist() for k, v in arrays.items()}
            data = (json.dumps({**about, "names": self.names, **lists}) + "\n").encode()
        else:
            text = np.frombuffer(json.dumps({**about, "names": self.names}).encode(), np.uint8)
            packed = io.BytesIO()
            np.savez_compressed(packed, about=text, **arrays)
            data = packed.getvalue()
        try:
            make_folder(path.parent)
            replace(path, data)
        except OSError as e:
            raise RookeryError(
                f"cannot write the log of draws {path} ({e.strerror}): make room there, or choose another file."
            ) from e

    @classmethod
    def read(cls, path: Path) -> DrawLog:
        """The log in a file.

        Raises:
            RookeryError: it cannot be read, or is no such log.
        """
        check_suffix(path)
        try:
            if path.suffix == ".json":
                stored: dict[str, Any] = read_json(path)
            else:
                arrays = read_npz(path)
                stored = {**parse_json(arrays.pop("about").tobytes()), **arrays}
            world, episode = (_whole(stored[name]) for name in ("world", "episode"))
            names = tuple(map(str, stored["names"]))
            values = np.array(stored["values"], np.float32).reshape(len(world), len(names))
            seed, num_envs = (int(_whole(stored[name])) for name in ("seed", "num_envs"))
            log = cls(str(stored["task"]), seed, num_envs, names, world, episode, values)
        except OSError as e:
            raise RookeryError(f"cannot read the log of draws {path}: {e.strerror}.") from e
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as e:
            raise RookeryError(
                f"{path} is no log of draws as `rookery eval --log-draws` writes it ({e!s:.120})."
            ) from e
        log.check(path)
        return log

    def check(self, path: Path) -> None:
        """Refuse a log whose numbers cannot be played again.

        Raises:
            RookeryError: it has no episodes, numbers that are not finite, or episodes that are not those of its worlds.
        """
        count = len(self.world)
        good = (
            count > 0
            and 0 < self.num_envs <= MOST_WORLDS
            and self.seed >= 0
            and self.episode.shape == self.world.shape == (count,)
        )
        good = good and bool(np.isfinite(self.values).all() and (self.world >= 0).all())
        if good and (self.world < self.num_envs).all():
            order = np.lexsort((self.episode, self.world))
            world, episode = self.world[order], self.episode[order]
            starts = np.flatnonzero(np.r_[True, world[1:] != world[:-1]])
            lengths = np.diff(np.r_[starts, count])
            if np.array_equal(episode, np.arange(count) - np.repeat(starts, lengths)):
                return
        raise RookeryError(
            f"{path} is no log of draws that can be played again: it must hold the first episodes of each of its worlds, with "
            "finite values."
        )


def _whole(values: Any) -> NDArray[np.int64]:
    """Whole numbers as they stand in a file; ValueError where there are others."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{array.dtype} where whole numbers of 64 bits should be")
    return array.astype(np.int64)


def check_suffix(path: Path) -> None:
    """Refuse a file that is named neither .npz nor .json."""
    if path.suffix not in SUFFIXES:
        raise RookeryError(f"a log of draws is a file .npz or .json, got {path}.")
