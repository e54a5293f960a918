"""LeRobot datasets from elsewhere as demonstrations.

Taken are observation.state and observation.environment_state, side by side; action, whose least and greatest values stand for
-1 and 1, with the names of its joints; next.reward, next.done and next.success; videos; and the tasks' words. The observation
after the last action, which such datasets lack, is said to be the one before it. What else a dataset has is named in the
recording's ``left_out``.

The last row says how an episode ended: by next.success where the dataset has it, else by next.done. A success amid an episode
does not end it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.foreign import LEFT_OUT, Describe, Progress, action_spec, episode_of, names_of, spread_of
from rookery.policies.datasets.lerobot_files import LeRobotFiles
from rookery.policies.datasets.lerobot_videos import open_clips
from rookery.policies.datasets.schema import Episode
from rookery.policies.datasets.video import encode
from rookery.policies.datasets.writer import Writer
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import ActionSpec, Group, Term

STATE, ENVIRONMENT, ACTION = "observation.state", "observation.environment_state", "action"
ENDS = ("next.reward", "next.done", "next.success")
COUNTED = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""What the format itself counts with; it follows from the order of the rows."""
CRF = 18
"""Of the videos cut out of others: the second coding then takes no more than the first did (41.2 and 40.6 dB on a film of
table-peg-insert-side, the first being LeRobot's AV1 of crf 30, and 365 kB of 342)."""
MOST_TASKS = 1000


def import_foreign(read: LeRobotFiles, folder: Path, describe: Describe, videos: bool, report: Progress) -> Dataset:
    """Write a dataset from elsewhere as demonstrations.

    Args:
        read: its files.
        folder: of the demonstrations.
        describe: makes the contract.
        videos: False leaves them where they are.
        report: called after each episode with their number so far and in all.

    Raises:
        RookeryError: it is damaged, has no vectors, or the folder cannot be written.
    """
    for name in (STATE, ACTION):
        if name not in read.features:
            raise RookeryError(f"{read.folder} has no feature {name!r}: policies here see vectors and give vectors.")
    observed = [name for name in (STATE, ENVIRONMENT) if name in read.features]
    sizes = {name: read.feature_size(name) for name in (*observed, ACTION)}
    column_sizes = sizes | {n: 1 for n in ENDS if n in read.features}
    clips = open_clips(read.folder, read.info, read.lines, read.features) if videos else []
    try:
        spec = _action(read, sizes[ACTION])
        terms = tuple(Term(n.removeprefix("observation."), own(f"{n} of the dataset", sizes[n])) for n in observed)
        contract = describe(f"lerobot-{read.folder.name}", {"robot": Group(1, terms, spec)}, 1.0 / read.fps)
        recording = _recording(read, column_sizes, videos)
        with Writer(folder, contract, recording, {c.name: c.declaration() for c in clips}) as writer:
            for i, rows in enumerate(read.episodes(column_sizes)):
                for c in clips:
                    encode(writer.video(c.name), c.episode(i), c.fps, c.width, c.height, CRF)
                writer.add(_episode(i, rows, observed, spec))
                report(len(writer), len(read.lines))
    finally:
        for c in clips:
            c.close()
    return Dataset(folder)


def _recording(read: LeRobotFiles, taken: dict[str, int], videos: bool) -> dict[str, Any]:
    """Origin of the demonstrations, names of their numbers, and what was left out."""
    out: dict[str, Any] = {"engine": None, "num_envs": 1, "from": f"LeRobot dataset {read.folder.name}"}
    names = {n: names_of(read.features[n].get("names"), size) for n, size in taken.items()}
    out["names"] = {n: x for n, x in names.items() if x is not None and n not in ENDS}
    words = (word for line in read.lines for word in (line.get("tasks") or ()) if isinstance(word, str))
    out["tasks"] = list(dict.fromkeys(words))[:MOST_TASKS]
    left = []
    for name, feature in read.features.items():
        kind = feature.get("dtype")
        if name in taken or name in COUNTED or (kind == "video" and videos):
            continue
        what = {"video": "videos, by --no-videos", "image": "pictures in the Parquet files"}.get(str(kind), "not read")
        left.append(f"{name:.200} ({what})")
    return out | {LEFT_OUT: left}


def _action(read: LeRobotFiles, size: int) -> ActionSpec:
    """Actions whose least and greatest values in all episodes stand for -1 and 1."""
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    for rows in read.episodes({ACTION: size}):
        low, high = np.minimum(low, rows[ACTION].min(0)), np.maximum(high, rows[ACTION].max(0))
    low, high = spread_of([np.stack((low, high))])
    return action_spec("lerobot", low, high, names_of(read.features[ACTION].get("names"), size))


def _episode(i: int, rows: dict[str, NDArray[Any]], observed: list[str], spec: ActionSpec) -> Episode:
    """Episode i from its rows."""
    state = np.concatenate([rows[n] for n in observed], 1)
    succeeded = rows["next.success"].ravel().astype(bool) if "next.success" in rows else None
    if succeeded is not None:
        terminated, word = bool(succeeded[-1]), "success"
    else:
        terminated, word = bool("next.done" in rows and rows["next.done"].ravel()[-1]), "done"
    return episode_of(
        i, np.concatenate((state, state[-1:])), rows[ACTION], spec,
        reward=rows.get("next.reward"),
        success=None if succeeded is None else bool(succeeded.any()),
        terminated=terminated, cause=word if terminated else "time limit",
    )  # fmt: skip
