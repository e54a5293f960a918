"""Demonstrations to disk: every episode file whole or not there, meta.json last."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch

from rookery.policies.datasets.schema import (
    EPISODES,
    FORMAT,
    MARK,
    META,
    VERSION,
    VIDEOS,
    Column,
    Episode,
    columns_of,
    mark,
)
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace


class Writer:
    """A new folder of demonstrations; a context manager.

    At its end, after Ctrl-C or SIGTERM too, meta.json makes a dataset of the episodes written so far. A folder without
    meta.json is none.

    Args:
        folder: it must not exist, or be empty.
        contract: what the numbers mean (see rookery.sim2real.contract).
        recording: how they are made, to be kept: engine, num_envs, seed, ...
        cameras: by name, {"width", "height", "fps"} of the videos.

    Raises:
        RookeryError: the folder is in use or cannot be written; so do its methods, also for a full disk.
    """

    def __init__(
        self,
        folder: Path | str,
        contract: Mapping[str, Any],
        recording: Mapping[str, Any],
        cameras: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.contract = contract
        self.recording = dict(recording)
        self.cameras = {name: dict(c) for name, c in (cameras or {}).items()}
        self._mark = mark(contract)
        self._lines: list[dict[str, Any]] = []
        self._columns: dict[str, Column] | None = None
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise RookeryError(f"{self.folder} is not empty: choose another folder for the demonstrations with --out.")
        try:
            make_folder(self.folder / EPISODES)
            for name in self.cameras:
                make_folder(self.folder / VIDEOS / name)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def __len__(self) -> int:
        return len(self._lines)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind in (None, KeyboardInterrupt, SystemExit) and self._lines:  # SIGTERM raises the latter
            self._finish()

    def video(self, camera: str) -> Path:
        """Path of the next episode's video."""
        return self.folder / VIDEOS / camera / f"{len(self):06d}.mp4"

    def add(self, episode: Episode) -> None:
        """Write an episode; its videos must lie in place already."""
        columns = columns_of(episode, self.contract)
        if self._columns is None:
            self._columns = columns
        if columns != self._columns:
            raise RookeryError(f"episode {len(self)} has other columns than those before: record it apart.")
        name = f"{EPISODES}/{len(self):06d}.safetensors"
        tensors = {k: v.detach().cpu().contiguous() for k, v in episode.columns.items()}
        data = safetensors.torch.save(tensors, {MARK: json.dumps(self._mark)})
        try:
            replace(self.folder / name, data)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        digest = hashlib.sha256(data).hexdigest()
        self._lines.append({"file": name, "sha256": digest, **dataclasses.asdict(episode.facts)})

    def _finish(self) -> None:
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "contract": self.contract,
            "recording": self.recording,
            "columns": {name: c.to_json() for name, c in (self._columns or {}).items()},
            "cameras": self.cameras,
            "episodes": self._lines,
        }
        try:
            replace(self.folder / META, (json.dumps(meta, indent=1) + "\n").encode())
        except OSError as error:
            raise unwritable(self.folder, error) from error


def unwritable(folder: Path, error: OSError) -> RookeryError:
    """The error for demonstrations that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RookeryError(f"the disk of {folder} is full: make room, remove the folder and write it again.")
    return RookeryError(f"{folder} cannot be written ({error.strerror}): choose another folder with --out.")
