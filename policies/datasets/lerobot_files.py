"""The files of LeRobot datasets, version 3.0: metadata, tables of episodes, rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.policies.datasets.lerobot import CODEBASE, INFO
from rookery.policies.datasets.lerobot_places import place_of
from rookery.policies.datasets.parquet import read_parquet
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, read_json

MOST_NUMBERS = 100_000
"""Numbers of a feature in a row; pictures, which have more, are not among those that are read."""
MOST_ENTRIES = 20_000_000
"""Entries of a table of episodes, each an object in memory."""


class LeRobotFiles:
    """The files of a LeRobot dataset."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._at: Path | None = None
        self._table: Any = None
        try:
            self.info = read_json(folder / INFO)
            version = str(self.info["codebase_version"])
            self.features: dict[str, dict[str, Any]] = self.info["features"]
            self.fps = float(self.info["fps"])
        except OSError as error:
            raise RookeryError(f"{folder} is no LeRobot dataset ({INFO}: {error.strerror}).") from error
        except (ValueError, KeyError, TypeError) as error:
            raise self.damaged(INFO, error) from error
        if not version.startswith("v3."):
            raise RookeryError(
                f"{folder} is a LeRobot dataset of version {version}, and Rookery reads {CODEBASE}: convert it with "
                "lerobot's convert_dataset_v21_to_v30."
            )
        files = sorted((folder / "meta" / "episodes").glob("*/*.parquet"))
        self.lines = [line for f in files for line in self._episode_lines(f)]
        if len(self.lines) != self.info.get("total_episodes"):
            raise self.damaged("meta/episodes", f"{len(self.lines)} of {self.info.get('total_episodes')} episodes")
        if not self.lines:
            raise RookeryError(f"{folder} has no episodes: record some, or give another LeRobot dataset.")

    def _episode_lines(self, path: Path) -> list[dict[str, Any]]:
        """The rows of a table of episodes, without the statistics of their columns."""
        table = self.table(path)
        wanted = [n for n in table.column_names if not n.startswith("stats/")]
        if table.num_rows * len(wanted) > MOST_ENTRIES:
            raise self.damaged(str(path.relative_to(self.folder)), f"{table.num_rows:,} episodes in one file")
        lines: list[dict[str, Any]] = table.select(wanted).to_pylist()
        return lines

    def feature_size(self, name: str) -> int:
        """Numbers of a feature in a row."""
        shape = self.features[name]["shape"]
        whole = isinstance(shape, list) and all(isinstance(n, int) and 0 < n <= MOST_NUMBERS for n in shape)
        size = math.prod(shape) if whole else 0
        if not 0 < size <= MOST_NUMBERS:
            raise self.damaged(INFO, f"the feature {name!r:.60} has the shape {shape!s:.60}")
        return size

    def table(self, path: Path) -> Any:
        """A Parquet file; the latest one is kept."""
        if path != self._at:
            if not path.resolve().is_relative_to(self.folder.resolve()):
                raise self.damaged(str(path.relative_to(self.folder)), "it is a link out of the folder")
            try:
                self._table = read_parquet(path)
                self._at = path
            except Damaged as error:
                raise self.damaged(str(path.relative_to(self.folder)), str(error)) from error
        return self._table

    def place(self, template: str, **at: object) -> Path:
        """A file that info.json names; one outside of the dataset's folder is refused."""
        try:
            return place_of(self.folder, self.info.get(template), **at)
        except Damaged as error:
            raise self.damaged(INFO, f"{template}: {error}") from error

    def episodes(self, columns: dict[str, int]) -> Iterator[dict[str, NDArray[Any]]]:
        """For each episode the named columns, [T, size] each."""
        for i, line in enumerate(self.lines):
            at = {"chunk_index": line["data/chunk_index"], "file_index": line["data/file_index"]}
            path = self.place("data_path", **at)
            name = str(path.relative_to(self.folder))
            table = self.table(path)
            missing = [c for c in (*columns, "episode_index") if c not in table.column_names]
            if missing:
                raise self.damaged(name, f"no column {missing[0]!r}")
            mine = np.flatnonzero(table.column("episode_index").to_numpy() == line["episode_index"])
            if len(mine) != line["length"] or (len(mine) and mine[-1] - mine[0] != len(mine) - 1):
                raise self.damaged(name, f"{len(mine)} of the {line['length']} rows of episode {i}")
            rows = table.slice(int(mine[0]), len(mine)).combine_chunks() if len(mine) else table.slice(0, 0)
            yield {c: matrix(rows.column(c), size) for c, size in columns.items()}

    def damaged(self, where: str, why: object) -> RookeryError:
        """The error for a file that is not as it must be."""
        first = next(iter(str(why).splitlines()), "")
        reason = f"{type(why).__name__}: {first:.200}" if isinstance(why, Exception) else first
        return RookeryError(f"{self.folder / where} is damaged ({reason}): download or export the dataset again.")


def matrix(column: Any, size: int) -> NDArray[Any]:
    """A column of numbers or of lists of numbers as [rows, size]."""
    values = column.combine_chunks()
    if hasattr(values, "flatten") and values.type.num_fields:
        values = values.flatten()
    return np.array(values.to_numpy(zero_copy_only=False)).reshape(len(column), size)
