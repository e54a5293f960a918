"""LeRobot datasets, version 3.0, as demonstrations: our own come back to the bit, those of others as far as they go."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.foreign import Describe, Progress
from rookery.policies.datasets.lerobot import IMAGES, LAST, OWN, PREFIX, arrow
from rookery.policies.datasets.lerobot_files import LeRobotFiles, matrix
from rookery.policies.datasets.lerobot_foreign import import_foreign
from rookery.policies.datasets.schema import Column, Episode, Facts, check_meta
from rookery.policies.datasets.writer import Writer, unwritable
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_json


def import_lerobot(
    source: Path | str,
    folder: Path | str,
    describe: Describe | None = None,
    *,
    videos: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Read a LeRobot dataset of version 3.0 and write it as demonstrations.

    One that `export_lerobot` wrote gives back the dataset that it was written from, videos included. Any other is taken as
    far as `rookery.policies.datasets.lerobot_foreign` says.

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
    read = LeRobotFiles(Path(source))
    report = progress or (lambda done, total: None)
    own = (read.folder / OWN).is_file()
    if not own and describe is None:
        raise RookeryError(f"{source} was not written by Rookery and nothing describes it: give `describe`.")
    try:
        if own:
            return _own(read, Path(folder), videos, report)
        assert describe is not None
        return import_foreign(read, Path(folder), describe, videos, report)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        # rows and metadata of any other shape than the format's
        raise read.damaged("", error) from error


def _own(read: LeRobotFiles, folder: Path, videos: bool, report: Progress) -> Dataset:
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
    last = {n: matrix(read.table(read.folder / LAST).column(n), parts.size(n)) for n, c in columns.items() if c.last}
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


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise RookeryError(f"{source} is missing: download or export the dataset again.")
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise unwritable(target.parent, error) from error
