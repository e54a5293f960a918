"""The layout of LeRobot datasets, version 3.0, and demonstrations written in it.

After the format's description (https://huggingface.co/docs/lerobot/lerobot-dataset-v3) and what lerobot 0.4.4 reads:

    meta/info.json                                   version, fps, features, path templates
    meta/stats.json                                  min, max, mean, std, count of every feature
    meta/tasks.parquet                               the instruction, as the index of column task_index
    meta/episodes/chunk-000/file-000.parquet         one row an episode: length, rows, files, statistics
    data/chunk-000/file-000.parquet                  one row a control step, many episodes in a file
    videos/observation.images.<camera>/chunk-000/file-000.mp4     here one file an episode, which the format allows

What the format has no place for stands beside it, so that `import_lerobot` gives back the same dataset to the bit:
features called ``rookery.<column>``, and in the folder rookery/ the meta.json and the last observation of each episode.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.schema import META, Episode
from rookery.policies.datasets.video import decode
from rookery.policies.datasets.writer import unwritable
from rookery.sim.errors import RookeryError
from rookery.sim.files import replace

CODEBASE = "v3.0"
INFO = "meta/info.json"
STATS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
OWN = "rookery/" + META
LAST = "rookery/last.parquet"
CHUNK = 1000
"""Files in a folder."""
DATA_MB = 100
VIDEO_MB = 200
"""Size of a data file after which the next one begins; that of videos is only declared, as each is one episode's."""
PREFIX = "rookery."
IMAGES = "observation.images."
Stats = dict[str, dict[str, list[Any]]]


def export_lerobot(data: Dataset, folder: Path | str, instruction: str | None = None) -> Path:
    """Write demonstrations as a LeRobot dataset.

    Args:
        data: demonstrations.
        folder: it must not exist, or be empty.
        instruction: what is to be done, in words; the task's name by default.

    Returns:
        The folder.

    Raises:
        RookeryError: pyarrow is missing, the folder is in use or cannot be written, or the disk is full.
    """
    pa, _ = arrow()
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RookeryError(f"{folder} is not empty: choose another folder for the LeRobot dataset with --out.")
    try:
        (folder / "rookery").mkdir(parents=True)
        features = _features(data)
        instruction = instruction or data.task_id
        lines, stats = _write_rows(data, folder, features, instruction)
        for name in data.cameras:
            _copy_videos(data, name, folder, lines, stats)
        _write_parquet(folder / EPISODES_PATH.format(chunk_index=0, file_index=0), pa.Table.from_pylist(lines))
        _write_parquet(folder / TASKS, _tasks(instruction))
        _write_parquet(folder / LAST, _last(data))
        replace(folder / STATS, _text(_merged(stats)))
        replace(folder / OWN, (data.folder / META).read_bytes())
        replace(folder / INFO, _text(_info(data, features)))
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


def arrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet.

    Raises:
        RookeryError: they are not installed.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RookeryError(
            "LeRobot datasets are Parquet files, and pyarrow, which reads and writes them, is not installed: "
            "`pip install pyarrow`."
        ) from error


def joined(data: Dataset, kind: str) -> dict[str, tuple[int, ...]]:
    """The columns that observation.state ("observation") or action ("action") is made of, with shapes of their rows."""
    return {name: data.columns[name].shape for g in data.groups for name in [f"{kind}.{g}"]}


def _info(data: Dataset, features: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "codebase_version": CODEBASE,
        "robot_type": None,
        "total_episodes": len(data),
        "total_frames": data.frames,
        "total_tasks": 1,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": DATA_MB,
        "video_files_size_in_mb": VIDEO_MB,
        "fps": _fps(data),
        "splits": {"train": f"0:{len(data)}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if data.cameras else None,
        "features": features,
    }


def _fps(data: Dataset) -> int | float:
    rate = 1.0 / data.control_dt
    return round(rate) if abs(rate - round(rate)) < 1e-6 else rate


def _features(data: Dataset) -> dict[str, dict[str, Any]]:
    """Features of each column of the data files, videos included."""

    def feature(dtype: str, size: int = 1, names: list[str] | None = None) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [size], "names": names}

    state_names, action_names = _names(data)
    out = {
        "observation.state": feature("float32", len(state_names), state_names),
        "action": feature("float32", len(action_names), action_names),
    }
    out |= {"timestamp": feature("float32")}
    out |= {name: feature("int64") for name in ("frame_index", "episode_index", "index", "task_index")}
    out |= {"next.reward": feature("float32"), "next.done": feature("bool"), "next.success": feature("bool")}
    whole = {*joined(data, "observation"), *joined(data, "action")}
    for name, column in data.columns.items():
        if name not in whole:
            out[PREFIX + name] = feature(column.dtype, int(np.prod(column.shape)))
    for name, camera in data.cameras.items():
        video = {"height": camera["height"], "width": camera["width"], "codec": "h264", "pix_fmt": "yuv420p"}
        video |= {"is_depth_map": False, "fps": _fps(data), "channels": 3}
        out[IMAGES + name] = {
            "dtype": "video",
            "shape": [camera["height"], camera["width"], 3],
            "names": ["height", "width", "channels"],
            "info": {**{f"video.{k}": v for k, v in video.items()}, "has_audio": False},
        }
    return out


def _names(data: Dataset) -> tuple[list[str], list[str]]:
    """A name for each number of observation.state and of action: <group>_<agent>.<term>_<i>, with a history followed by
    how many control steps ago it was."""
    state_names = []
    action_names = []
    for g, group in data.contract["groups"].items():
        terms = group["observation"]
        history = group["observation"][0]["history"]
        for agent in range(group["count"]):
            for age in reversed(range(history)):
                past = f"@-{age}" if age else ""
                state_names += [f"{g}_{agent}.{t['name']}_{i}{past}" for t in terms for i in range(t["size"])]
            action_names += [f"{g}_{agent}.{name}" for name in group["action"]["names"]]
    return state_names, action_names


def _write_rows(
    data: Dataset, folder: Path, features: dict[str, dict[str, Any]], instruction: str
) -> tuple[list[dict[str, Any]], list[Stats]]:
    """The data files. Returns one line and the statistics for each episode."""
    pa, pq = arrow()
    schema = pa.schema([(n, _type(f)) for n, f in features.items() if f["dtype"] != "video"])
    lines = []
    stats = []
    writer = None
    file = -1
    held = 0
    index = 0
    try:
        for i in range(len(data)):
            rows = _rows(data, i, index)
            table = pa.Table.from_arrays([_array(rows[n], features[n]) for n in schema.names], schema=schema)
            if writer is None or held + table.nbytes > DATA_MB * 2**20:
                if writer is not None:
                    writer.close()
                file = file + 1
                held = 0
                path = folder / DATA_PATH.format(chunk_index=file // CHUNK, file_index=file % CHUNK)
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(path, schema)
            writer.write_table(table)
            held += table.nbytes
            length = table.num_rows
            lines.append(
                {"episode_index": i, "tasks": [instruction], "length": length, "data/chunk_index": file // CHUNK,
                 "data/file_index": file % CHUNK, "dataset_from_index": index, "dataset_to_index": index + length,
                 "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
            )  # fmt: skip
            stats.append({name: _figures(rows[name].reshape(length, -1)) for name in schema.names})
            lines[-1] |= {f"stats/{n}/{k}": v for n, figures in stats[-1].items() for k, v in figures.items()}
            index += length
    finally:
        if writer is not None:
            writer.close()
    return lines, stats


def _rows(data: Dataset, i: int, start: int) -> dict[str, NDArray[Any]]:
    """The data files' columns for episode i, [T, size]; `start` is the number of control steps before it."""
    episode = data.episode(i)
    facts = episode.facts
    length = episode.facts.length
    parts = {kind: [_flat(episode, name)[:length] for name in joined(data, kind)] for kind in ("observation", "action")}
    done = (episode.columns["terminated"] | episode.columns["truncated"]).numpy()
    rewards = [_flat(episode, n).mean(1) for g in data.groups if (n := f"reward.{g}") in data.columns]
    frame = np.arange(length, dtype=np.int64)
    out: dict[str, NDArray[Any]] = {
        "observation.state": np.concatenate(parts["observation"], 1),
        "action": np.concatenate(parts["action"], 1),
        "timestamp": (frame / _fps(data)).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.full(length, i),
        "index": start + frame,
        "task_index": np.zeros(length, np.int64),
        "next.reward": np.mean(rewards, 0) if rewards else np.zeros(length, np.float32),
        "next.done": done,
        "next.success": done & bool(facts.success),
    }
    return out | {PREFIX + name: _flat(episode, name)[:length] for name in data.columns}


def _flat(episode: Episode, name: str) -> NDArray[Any]:
    values: Tensor = episode.columns[name]
    return values.reshape(len(values), -1).numpy()


def _type(feature: dict[str, Any]) -> Any:
    pa, _ = arrow()
    one = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}[feature["dtype"]]
    return one if feature["shape"] == [1] else pa.list_(one, feature["shape"][0])


def _array(values: NDArray[Any], feature: dict[str, Any]) -> Any:
    pa, _ = arrow()
    flat = pa.array(values.ravel(), type=_type(feature | {"shape": [1]}))
    return flat if feature["shape"] == [1] else pa.FixedSizeListArray.from_arrays(flat, feature["shape"][0])


def _last(data: Dataset) -> Any:
    """The rows that columns have beyond the last control step, one row an episode."""
    pa, _ = arrow()
    names = [name for name, column in data.columns.items() if column.last]
    ends = [data.read(i, names) for i in range(len(data))]
    arrays = []
    for name in names:
        values = torch.stack([e[name][-1].flatten() for e in ends]).numpy()
        arrays.append(_array(values, {"dtype": data.columns[name].dtype, "shape": [values.shape[1]]}))
    return pa.Table.from_arrays(arrays, names=names)


def _tasks(instruction: str) -> Any:
    """One instruction, as pandas stores a table whose index it is."""
    pa, _ = arrow()
    index = "__index_level_0__"
    columns: list[dict[str, Any]] = [
        {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"},
        {"name": None, "field_name": index, "pandas_type": "unicode", "numpy_type": "object"},
    ]
    about = {"index_columns": [index], "column_indexes": [], "columns": [c | {"metadata": None} for c in columns]}
    table = pa.table({"task_index": pa.array([0], pa.int64()), index: pa.array([instruction], pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(about | {"pandas_version": "2.0.0"})})


def _copy_videos(data: Dataset, camera: str, folder: Path, lines: list[dict[str, Any]], stats: list[Stats]) -> None:
    key = IMAGES + camera
    for i, line in enumerate(lines):
        source = data.video(i, camera)
        at = {"chunk_index": i // CHUNK, "file_index": i % CHUNK}
        path = folder / VIDEO_PATH.format(video_key=key, **at)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        seconds = {"from_timestamp": 0.0, "to_timestamp": data.episodes[i].length / _fps(data)}
        line |= {f"videos/{key}/{k}": v for k, v in (at | seconds).items()}
        stats[i][key] = _colors(decode(source))
        line |= {f"stats/{key}/{k}": v for k, v in stats[i][key].items()}


def _figures(values: NDArray[Any]) -> dict[str, list[Any]]:
    """Statistics of [rows, size]."""
    x = values.astype(np.float64)
    out = {"min": x.min(0), "max": x.max(0), "mean": x.mean(0), "std": x.std(0)}
    return {name: v.tolist() for name, v in out.items()} | {"count": [len(x)]}


def _colors(pictures: Iterator[NDArray[np.uint8]]) -> dict[str, list[Any]]:
    """Statistics of a video by color, [3, 1, 1] in [0, 1] as LeRobot gives pictures to policies."""
    each = [_figures(p.reshape(-1, 3) / 255.0) for p in pictures]
    merged = _merged([{"": f} for f in each])[""]
    return {k: [[[v]] for v in values] if k != "count" else [len(each)] for k, values in merged.items()}


def _merged(stats: list[Stats]) -> Stats:
    """Statistics of all episodes together, from those of each."""
    out: Stats = {}
    for name in stats[0]:
        parts = {k: np.array([s[name][k] for s in stats]) for k in stats[0][name]}
        n = parts["count"].reshape(-1, *[1] * (parts["mean"].ndim - 1))
        mean = (parts["mean"] * n).sum(0) / n.sum()
        square = ((parts["std"] ** 2 + parts["mean"] ** 2) * n).sum(0) / n.sum()
        std = np.sqrt(np.maximum(square - mean**2, 0.0))
        figures = {"min": parts["min"].min(0), "max": parts["max"].max(0), "mean": mean, "std": std}
        out[name] = {k: v.tolist() for k, v in figures.items()} | {"count": [int(n.sum())]}
    return out


def _write_parquet(path: Path, table: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrow()[1].write_table(table, path)


def _text(value: Any) -> bytes:
    return (json.dumps(value, indent=4) + "\n").encode()
