"""LeRobot datasets, version 3.0, as demonstrations: our own come back to the bit, those of others as far as they go."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.lerobot import CODEBASE, IMAGES, INFO, LAST, OWN, PREFIX, arrow
from rookery.policies.datasets.lerobot_places import place_of
from rookery.policies.datasets.lerobot_videos import open_clips
from rookery.policies.datasets.parquet import read_parquet
from rookery.policies.datasets.schema import Column, Episode, Facts, check_meta
from rookery.policies.datasets.video import encode
from rookery.policies.datasets.writer import Writer, unwritable
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim.untrusted import Damaged, read_json

Describe = Callable[[str, Mapping[str, Group], float], dict[str, Any]]
"""From task id, groups and control period (s) to the contract as JSON values (`rookery.sim2real.build.describe_json`)."""

CRF = 18
"""Of the videos cut out of others: the second coding then takes no more than the first did (41.2 and 40.6 dB on a film of
table-peg-insert-side, the first being LeRobot's AV1 of crf 30, and 365 kB of 342)."""
MOST_NUMBERS = 100_000
"""Numbers of a feature in a row; pictures, which have more, are not among those that are read."""
MOST_ENTRIES = 20_000_000
"""Entries of a table of episodes, each an object in memory."""
Progress = Callable[[int, int], None]


def import_lerobot(
    source: Path | str,
    folder: Path | str,
    describe: Describe | None = None,
    *,
    videos: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Read a LeRobot dataset of version 3.0 and write it as demonstrations.

    One that `export_lerobot` wrote gives back the dataset that it was written from, videos included. Of any other are
    taken: observation.state as the one observation, action with its least and greatest values as the limits that stand
    for -1 and 1, next.reward, next.done and next.success where there are any. The state after the last action, which
    such datasets lack, is taken to be the one before it; videos are left where they are.

    Args:
        source: folder of the LeRobot dataset.
        folder: of the demonstrations; it must not exist, or be empty.
        describe: makes the contract of a dataset from elsewhere; without it only our own are read.
        videos: False leaves them where they are.
        progress: called after each episode with their number so far and in all.

    Raises:
        RookeryError: pyarrow or imageio-ffmpeg is missing; the dataset is missing, damaged or of another version, a video
            shorter or of another rate than its metadata say; or the folder cannot be written.
    """
    arrow()
    read = _Reader(Path(source))
    report = progress or (lambda done, total: None)
    own = (read.folder / OWN).is_file()
    if not own and describe is None:
        raise RookeryError(f"{source} was not written by Rookery and nothing describes it: give `describe`.")
    try:
        if own:
            return _own(read, Path(folder), videos, report)
        assert describe is not None
        return _foreign(read, Path(folder), describe, videos, report)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        # rows and metadata of any other shape than the format's
        raise read.damaged("", error) from error


class _Reader:
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
            yield {c: _matrix(rows.column(c), size) for c, size in columns.items()}

    def damaged(self, where: str, why: object) -> RookeryError:
        """The error for a file that is not as it must be."""
        first = next(iter(str(why).splitlines()), "")
        reason = f"{type(why).__name__}: {first:.200}" if isinstance(why, Exception) else first
        return RookeryError(f"{self.folder / where} is damaged ({reason}): download or export the dataset again.")


def _matrix(column: Any, size: int) -> NDArray[Any]:
    """A column of numbers or of lists of numbers as [rows, size]."""
    values = column.combine_chunks()
    if hasattr(values, "flatten") and values.type.num_fields:
        values = values.flatten()
    return np.array(values.to_numpy(zero_copy_only=False)).reshape(len(column), size)


def _own(read: _Reader, folder: Path, videos: bool, report: Progress) -> Dataset:
    """One that we wrote."""
    try:
        meta = read_json(read.folder / OWN)
        check_meta(meta)
        columns = {name: Column.from_json(line) for name, line in meta["columns"].items()}
        names = [f.name for f in fields(Facts)]
        facts = [Facts(**{k: line[k] for k in names}) for line in meta["episodes"]]
        groups = list(meta["contract"]["groups"])
        cameras = meta["cameras"] if videos else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise read.damaged(OWN, error) from error
    if len(facts) != len(read.lines):
        raise read.damaged(OWN, f"{len(facts)} episodes, the dataset has {len(read.lines)}")
    parts = _Parts(columns, groups)
    last = {n: _matrix(read.table(read.folder / LAST).column(n), parts.size(n)) for n, c in columns.items() if c.last}
    with Writer(folder, meta["contract"], meta["recording"], cameras) as writer:
        for i, rows in enumerate(read.episodes(parts.column_sizes())):
            for camera in cameras:
                at = {k: read.lines[i][f"videos/{IMAGES}{camera}/{k}"] for k in ("chunk_index", "file_index")}
                _copy(read.place("video_path", video_key=IMAGES + camera, **at), writer.video(camera))
            writer.add(Episode(facts[i], parts.columns(rows, {n: v[i] for n, v in last.items()})))
            report(len(writer), len(read.lines))
    return Dataset(folder)


@dataclass(frozen=True)
class _Parts:
    """Places of our columns in the data files."""

    ours: dict[str, Column]
    groups: list[str]

    def size(self, name: str) -> int:
        return int(np.prod(self.ours[name].shape))

    def joined(self) -> dict[str, list[str]]:
        return {
            "observation.state": [f"observation.{g}" for g in self.groups],
            "action": [f"action.{g}" for g in self.groups],
        }

    def column_sizes(self) -> dict[str, int]:
        """Columns of the data files and their sizes."""
        whole = self.joined()
        out = {theirs: sum(self.size(n) for n in names) for theirs, names in whole.items()}
        inside = {n for names in whole.values() for n in names}
        return out | {PREFIX + n: self.size(n) for n in self.ours if n not in inside}

    def columns(self, rows: dict[str, NDArray[Any]], last: dict[str, NDArray[Any]]) -> dict[str, Tensor]:
        """Our columns of an episode, from its rows and what comes after the last one."""
        found = {n.removeprefix(PREFIX): v for n, v in rows.items() if n.startswith(PREFIX)}
        for theirs, names in self.joined().items():
            ends = np.cumsum([self.size(n) for n in names])[:-1]
            found |= dict(zip(names, np.split(rows[theirs], ends, 1), strict=True))
        out = {}
        for name, column in self.ours.items():
            values = np.concatenate((found[name], last[name][None])) if column.last else found[name]
            out[name] = torch.from_numpy(np.ascontiguousarray(values)).reshape(-1, *column.shape)
        return out


def _foreign(read: _Reader, folder: Path, describe: Describe, videos: bool, report: Progress) -> Dataset:
    """One from elsewhere."""
    sizes: dict[str, int] = {}
    for name in ("observation.state", "action"):
        if name not in read.features:
            raise RookeryError(f"{read.folder} has no feature {name!r}: policies here see vectors and give vectors.")
        sizes[name] = read.feature_size(name)
    more: list[str] = [n for n in ("next.reward", "next.done", "next.success") if n in read.features]
    column_sizes = sizes | dict.fromkeys(more, 1)
    clips = open_clips(read.folder, read.info, read.lines, read.features) if videos else []
    try:
        spec = _action(read, sizes["action"])
        group = Group(1, (Term("state", own("observation.state of the dataset", sizes["observation.state"])),), spec)
        contract = describe(f"lerobot-{read.folder.name}", {"robot": group}, 1.0 / read.fps)
        recording = {"engine": None, "num_envs": 1, "from": f"LeRobot dataset {read.folder.name}"}
        with Writer(folder, contract, recording, {c.name: c.declaration() for c in clips}) as writer:
            for i, rows in enumerate(read.episodes(column_sizes)):
                for c in clips:
                    encode(writer.video(c.name), c.episode(i), c.fps, c.width, c.height, CRF)
                writer.add(_foreign_episode(i, rows, spec))
                report(len(writer), len(read.lines))
    finally:
        for c in clips:
            c.close()
    return Dataset(folder)


def _action(read: _Reader, size: int) -> ActionSpec:
    """Actions whose least and greatest values in all episodes stand for -1 and 1."""
    low = np.full(size, np.inf)
    high = np.full(size, -np.inf)
    for rows in read.episodes({"action": size}):
        low = np.minimum(low, rows["action"].min(0))
        high = np.maximum(high, rows["action"].max(0))
    still = high - low < 1e-9
    low = low - still
    high = high + still
    names = tuple(f"action_{i}" for i in range(size))
    return ActionSpec("lerobot", names, tuple(low.tolist()), tuple(high.tolist()), ("1",) * size, (0.0,) * size)


def _foreign_episode(i: int, rows: dict[str, NDArray[Any]], spec: ActionSpec) -> Episode:
    """Episode i from its rows."""
    low = np.array(spec.low)
    high = np.array(spec.high)
    state = rows["observation.state"].astype(np.float32)
    action = ((rows["action"] - low) / (high - low) * 2.0 - 1.0).clip(-1.0, 1.0).astype(np.float32)
    reward = rows.get("next.reward", np.zeros((len(state), 1))).astype(np.float32)
    success = bool(rows["next.success"].any()) if "next.success" in rows else None
    ended = torch.zeros(2, len(state), dtype=torch.bool)
    # A recorded success ends the task; every other end of a recording is only where it was cut.
    ended[0 if success else 1, -1] = True
    columns = {
        "observation.robot": torch.from_numpy(np.concatenate((state, state[-1:]))).unsqueeze(1),
        "action.robot": torch.from_numpy(action).unsqueeze(1),
        "reward.robot": torch.from_numpy(reward),
        "terminated": ended[0],
        "truncated": ended[1],
    }
    cause = "success" if success else "time limit"
    return Episode(Facts(i, 0, len(state), success, cause, {"robot": float(reward.sum())}, {}), columns)


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise RookeryError(f"{source} is missing: download or export the dataset again.")
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise unwritable(target.parent, error) from error
