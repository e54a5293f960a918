"""Demonstrations from disk: checked when they are opened, read lazily, given in batches of transitions.

data = Dataset("demos")
for batch in data.transitions(2048, epochs=10, seed=0):
    batch.observation, batch.action, batch.reward, batch.next_observation, batch.terminated
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.policies.datasets.schema import (
    FORMAT,
    MARK,
    META,
    VERSION,
    VIDEOS,
    Column,
    Episode,
    Facts,
    check_meta,
    mark,
    refuse_other,
    required,
)
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.seeding import torch_generator
from rookery.sim.specs import Group
from rookery.sim.untrusted import parse_json, read_json, read_safetensors, safetensors_header

WINDOW = 64
"""Episodes that `transitions` holds in memory and mixes."""


@dataclass(frozen=True)
class DatasetTransitions:
    """B transitions of single agents; tensors on the CPU.

    Args:
        observation, next_observation: [B, O].
        action: [B, D] in [-1, 1].
        reward: [B], or [B, M] for M objectives.
        terminated, truncated: [B] bool.
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    next_observation: Tensor
    terminated: Tensor
    truncated: Tensor

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: Tensor | slice) -> DatasetTransitions:
        """Some of them."""
        return DatasetTransitions(*(getattr(self, f.name)[rows] for f in dataclasses.fields(self)))


class Dataset:
    """A folder of demonstrations.

    Args:
        folder: one that `rookery demos record` or `import` made.
        check: read every file once and look for damage and values that are not finite; without it only the headers
            are looked at.

    Attributes:
        contract: what the numbers mean.
        recording: how they were made.
        columns: by name (see schema).
        cameras: by name, {"width", "height", "fps"}.
        episodes: facts of each episode.

    Raises:
        RookeryError: there is no such folder, or anything in it is missing, damaged, from elsewhere or not finite.
    """

    def __init__(self, folder: Path | str, check: bool = True) -> None:
        self.folder = Path(folder)
        meta = self._meta()
        try:
            self.contract: dict[str, Any] = meta["contract"]
            self.recording: dict[str, Any] = meta["recording"]
            self.cameras: dict[str, dict[str, Any]] = meta["cameras"]
            check_meta(meta)
            self.columns = {name: Column.from_json(line) for name, line in meta["columns"].items()}
            names = [f.name for f in dataclasses.fields(Facts)]
            self.episodes = [Facts(**{k: line[k] for k in names}) for line in meta["episodes"]]
            self._files = [self.folder / line["file"] for line in meta["episodes"]]
            self._digests = [str(line["sha256"]) for line in meta["episodes"]]
            self.control_dt = float(self.contract["control_dt"])
            self.task_id = str(self.contract["task_id"])
            needed = required(self.contract)
            self._mark = mark(self.contract)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise RookeryError(
                f"{self.folder / META} is damaged ({type(error).__name__}: {error}): copy or record it again."
            ) from error
        for name, shape in needed.items():
            if name not in self.columns:
                raise RookeryError(f"{self.folder / META} lacks the column {name!r}: copy or record it again.")
            if self.columns[name].shape != shape:
                raise RookeryError(
                    f"{self.folder / META} says that a row of {name!r} is {self.columns[name].shape}, its contract "
                    f"{shape}: copy or record it again."
                )
        for i in range(len(self)):
            self._check_header(i)
            if check:
                self._check_values(i)

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def groups(self) -> list[str]:
        """Names of the agent groups."""
        return list(self.contract["groups"])

    @property
    def frames(self) -> int:
        """Control steps in all episodes together."""
        return sum(e.length for e in self.episodes)

    def episode(self, i: int) -> Episode:
        """Episode i, all of its columns."""
        return Episode(self.episodes[i], self.read(i, list(self.columns)))

    def read(self, i: int, names: Sequence[str]) -> dict[str, Tensor]:
        """Some columns of episode i.

        Raises:
            RookeryError: an unknown column.
        """
        for name in names:
            if name not in self.columns:
                raise unknown("column", name, self.columns)
        try:
            return read_safetensors(self._files[i], names)[0]
        except (OSError, ValueError) as error:
            raise RookeryError(
                f"{self._files[i]} is damaged ({error}): copy or record the demonstrations again."
            ) from error

    def video(self, i: int, camera: str) -> Path:
        """The video of episode i.

        Raises:
            RookeryError: there is no such camera or file.
        """
        if camera not in self.cameras:
            raise unknown("camera", camera, self.cameras)
        path = self.folder / VIDEOS / camera / f"{i:06d}.mp4"
        if not path.is_file():
            raise RookeryError(f"{path} is missing: copy or record the demonstrations again.")
        return path

    def transitions(
        self,
        batch: int,
        *,
        group: str | None = None,
        episodes: Sequence[int] | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        window: int = WINDOW,
    ) -> Iterator[DatasetTransitions]:
        """Batches of transitions, streamed: at most `window` episodes are in memory.

        Shuffled, episodes come in random order and the transitions of `window` of them at random. Every transition of
        every agent that took part comes exactly once an epoch; only the last batch of an epoch may be smaller.

        Args:
            batch: transitions in a batch.
            group: whose; may be left out where there is one.
            episodes: which; all by default.
            epochs: how often through all of them.
            shuffle: False gives them in the order of the files.
            seed: of the order.
            window: episodes that are mixed.

        Raises:
            RookeryError: an unknown group, or none given where there are several.
        """
        group = self.group(group)
        chosen = torch.tensor(range(len(self)) if episodes is None else list(episodes), dtype=torch.int64)
        generator = torch_generator(seed)
        for _ in range(epochs):
            order = chosen[torch.randperm(len(chosen), generator=generator)] if shuffle else chosen
            left: list[DatasetTransitions] = []
            for ids in order.split(window):
                pool = _joined([*left, *(self._transitions(int(i), group) for i in ids)])
                if shuffle:
                    pool = pool.take(torch.randperm(len(pool), generator=generator))
                whole = len(pool) - len(pool) % batch
                for start in range(0, whole, batch):
                    yield pool.take(slice(start, start + batch))
                left = [pool.take(slice(whole, len(pool)))]
            if left and len(left[0]):
                yield left[0]

    def group(self, name: str | None) -> str:
        """A group's name checked; None stands for the only one."""
        if name is None and len(self.groups) > 1:
            raise RookeryError(f"these demonstrations have the groups {', '.join(self.groups)}: say which.")
        if name is not None and name not in self.groups:
            raise unknown("group", name, self.groups)
        return name or self.groups[0]

    def check_group(self, name: str, group: Group) -> None:
        """Compare the recorded observations with those that an environment declares.

        Raises:
            RookeryError: no such group, or observations of another shape.
        """
        self.group(name)
        shape = self.columns[f"observation.{name}"].shape
        if shape != (group.count, group.observation_size):
            raise RookeryError(
                f"the demonstrations have observations {list(shape)} of group {name!r}, and the environment "
                f"{[group.count, group.observation_size]}: train with the config that they were recorded with."
            )

    def require(self, contract: Mapping[str, Any], what: str = "the environment") -> None:
        """Refuse a contract under which these numbers mean something else (see `schema.refuse_other`)."""
        refuse_other(self.contract, contract, what)

    def _transitions(self, i: int, group: str) -> DatasetTransitions:
        """The transitions of episode i, agents of a step side by side."""
        names = [f"{kind}.{group}" for kind in ("observation", "action", "reward", "active")]
        got = self.read(i, [n for n in [*names, "terminated", "truncated"] if n in self.columns])
        observation = got[f"observation.{group}"]
        action = got[f"action.{group}"]
        agents = action.shape[1]
        steps = len(action)
        reward = got.get(f"reward.{group}", torch.zeros(steps, agents))
        ends = (got[n].repeat_interleave(agents) for n in ("terminated", "truncated"))
        made = DatasetTransitions(
            observation[:-1].flatten(0, 1),
            action.flatten(0, 1),
            reward.flatten(0, 1),
            observation[1:].flatten(0, 1),
            *ends,
        )
        active = got.get(f"active.{group}")
        return made if active is None else made.take(active.flatten().nonzero().squeeze(1))

    def _meta(self) -> dict[str, Any]:
        path = self.folder / META
        try:
            meta = read_json(path)
            known = meta["format"] == FORMAT
            version = int(meta["version"])
        except OSError as error:
            unfinished = " the recording was cut off," if (self.folder / "episodes").is_dir() else ""
            raise RookeryError(
                f"{self.folder} holds no demonstrations ({META}: {error.strerror}):{unfinished} give a folder that "
                "`rookery demos record` finished."
            ) from error
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise RookeryError(f"{path} is damaged: copy or record it again.") from error
        if not known or version > VERSION:
            raise RookeryError(
                f"{path} is {meta['format']} version {version}, and this Rookery reads {FORMAT} up to version {VERSION}: "
                "upgrade Rookery."
            )
        return dict(meta)

    def _check_header(self, i: int) -> None:
        """Is the file whole, of this dataset, and as its columns say?"""
        file = self._files[i]
        length = self.episodes[i].length
        try:
            header, metadata = safetensors_header(file)
            stored = dict(parse_json(metadata.get(MARK, "{}")))
            shapes = {name: shape for name, (_, shape) in header.items()}
        except (OSError, ValueError, TypeError) as error:
            state = "is missing" if not file.exists() else "is cut short or damaged"
            raise RookeryError(f"{file} {state}: copy or record the demonstrations again.") from error
        if stored.get("control_dt") != self._mark["control_dt"]:
            raise RookeryError(
                f"{file} was recorded with a control period of {stored.get('control_dt')} s and the dataset with "
                f"{self._mark['control_dt']} s: keep recordings of different rates in folders of their own."
            )
        if stored != self._mark:
            raise RookeryError(
                f"{file} is of task {stored.get('task_id')!r} or of other observations or actions than the dataset's "
                f"contract of {self.task_id!r}: keep different recordings in folders of their own."
            )
        for name, column in self.columns.items():
            if name not in shapes:
                raise RookeryError(f"{file} lacks the column {name!r}: copy or record the demonstrations again.")
            expected = (length + column.last, *column.shape)
            if shapes[name] != expected:
                raise RookeryError(
                    f"{file}: the column {name!r} is {shapes[name]} and must be {expected}: copy or record the "
                    "demonstrations again."
                )

    def _check_values(self, i: int) -> None:
        """Are the bytes those that were written, and all numbers finite?"""
        file = self._files[i]
        for name, values in self.read(i, list(self.columns)).items():
            dtype = str(values.dtype).removeprefix("torch.")
            if dtype != self.columns[name].dtype:
                raise RookeryError(f"{file}: the column {name!r} is {dtype} and must be {self.columns[name].dtype}.")
            if values.is_floating_point() and not torch.isfinite(values).all():
                row = int((~torch.isfinite(values)).reshape(len(values), -1).any(1).nonzero()[0])
                raise RookeryError(
                    f"{file}: the column {name!r} has NaN or infinity, first in row {row}: record the episode again."
                )
        if hashlib.sha256(file.read_bytes()).hexdigest() != self._digests[i]:
            raise RookeryError(f"{file} was changed after it was recorded: copy or record the demonstrations again.")


def _joined(parts: Sequence[DatasetTransitions]) -> DatasetTransitions:
    names = [f.name for f in dataclasses.fields(DatasetTransitions)]
    return DatasetTransitions(*(torch.cat([getattr(p, name) for p in parts]) for name in names))
