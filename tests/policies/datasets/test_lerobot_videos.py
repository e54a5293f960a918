"""Videos of LeRobot datasets from elsewhere. The datasets are laid out here by pyarrow and imageio alone, pictures carry their
episode and control step as black and white blocks, and what comes in is read by imageio."""

from __future__ import annotations

import json
import shutil
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from sampled import slow_but

from rookery.cli.main import main
from rookery.policies.datasets import lerobot_videos
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.lerobot import export_lerobot
from rookery.policies.datasets.lerobot_import import import_lerobot
from rookery.policies.datasets.video import EpisodeVideo
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import describe_json

FPS = 20
LENGTHS = (7, 12, 5, 9, 4)
FILES = {"observation.images.front": ((0, 1, 2), (3, 4)), "observation.wrist": ((0, 1), (2, 3, 4))}
"""Of each video, the episodes in each of its files."""
SIZES = {"observation.images.front": (64, 48), "observation.wrist": (48, 32)}
BITS = 12
BLUE = {"observation.images.front": 40, "observation.wrist": 220}


def picture(key: str, episode: int, step: int) -> NDArray[np.uint8]:
    """[H, W, 3]: twelve blocks in red and green that spell the number, the camera's blue, a slope in brightness."""
    width, height = SIZES[key]
    number = episode * 100 + step
    bits = np.array([number >> i & 1 for i in range(BITS)]).reshape(3, 4)
    blocks = np.kron(bits, np.ones((-(-height // 3), width // 4)))[:height] * 150
    slope = np.linspace(0, 60, width)[None]
    seen = np.stack((blocks + slope, blocks + slope, np.full((height, width), float(BLUE[key]))), -1)
    return seen.astype(np.uint8)


def number(seen: NDArray[np.uint8]) -> tuple[int, int]:
    """(episode, step) that a picture spells."""
    height, width = seen.shape[:2]
    rows, columns = ((np.arange(n) + 0.5) * size / n for n, size in ((3, height - 2), (4, width)))
    slope = np.linspace(0, 60, width)[columns.astype(int)]
    bits = seen[..., 1][np.ix_(rows.astype(int), columns.astype(int))] - slope > 75
    return divmod(int((bits.ravel() * 2 ** np.arange(BITS)).sum()), 100)


@dataclass(frozen=True)
class Layout:
    """What is written; what a test makes wrong."""

    codec: str = "libx264"
    video_fps: int = FPS
    missing: int = 0
    """Pictures that the last file of the front camera lacks."""
    shift: float = 0.0
    """s, of all from_timestamps."""
    files: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = tuple(FILES.items())


def lay_out(folder: Path, layout: Layout = Layout()) -> Path:
    """A dataset of version 3.0 as the format's description has it."""
    lines: list[dict[str, Any]] = [
        {"episode_index": i, "tasks": ["push"], "length": n, "data/chunk_index": 0, "data/file_index": 0,
         "dataset_from_index": sum(LENGTHS[:i]), "dataset_to_index": sum(LENGTHS[: i + 1])}
        for i, n in enumerate(LENGTHS)
    ]  # fmt: skip
    for key, files in layout.files:
        for file, episodes in enumerate(files):
            pictures = []
            at = 0.0
            for e in episodes:
                pictures += [picture(key, e, t) for t in range(LENGTHS[e])]
                where = {"chunk_index": 0, "file_index": file, "from_timestamp": at + layout.shift}
                where["to_timestamp"] = at = at + LENGTHS[e] / FPS
                lines[e] |= {f"videos/{key}/{k}": v for k, v in where.items()}
            if key == "observation.images.front" and file == len(files) - 1:
                pictures = pictures[: len(pictures) - layout.missing]
            path = folder / "videos" / key / "chunk-000" / f"file-{file:03d}.mp4"
            write_video(path, pictures, layout.video_fps, layout.codec)
    video = {"dtype": "video", "names": ["height", "width", "channels"]}
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": None},
        "action": {"dtype": "float32", "shape": [1], "names": None},
        **{key: {**video, "shape": [height, width, 3]} for key, (width, height) in SIZES.items()},
    }
    info = {
        "codebase_version": "v3.0", "fps": FPS, "total_episodes": len(LENGTHS), "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }  # fmt: skip
    steps = [(e, t) for e, n in enumerate(LENGTHS) for t in range(n)]
    rows = {
        "observation.state": [[float(e), float(t)] for e, t in steps],
        "action": [[float(t)] for _, t in steps],
        "episode_index": [e for e, _ in steps],
    }
    for where, table in (("meta/episodes", pa.Table.from_pylist(lines)), ("data", pa.table(rows))):
        (folder / where / "chunk-000").mkdir(parents=True)
        pq.write_table(table, folder / where / "chunk-000" / "file-000.parquet")
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


def write_video(path: Path, pictures: list[NDArray[np.uint8]], fps: int = FPS, codec: str = "libx264") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"macro_block_size": 1, "quality": None, "output_params": ["-crf", "12"]}
    with imageio.get_writer(path, fps=fps, codec=codec, ffmpeg_log_level="error", **options) as writer:
        for seen in pictures:
            writer.append_data(seen)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("elsewhere") / "push")


def check(data: Dataset) -> None:
    """Every episode has its own pictures, all of them, in order, and they look alike."""
    assert [e.length for e in data.episodes] == list(LENGTHS)
    names = {"front": "observation.images.front", "wrist": "observation.wrist"}
    assert set(data.cameras) == set(names)
    for camera, key in names.items():
        width, height = SIZES[key]
        assert data.cameras[camera] == {"width": width, "height": height, "fps": FPS}
        for e, length in enumerate(LENGTHS):
            with imageio.get_reader(data.video(e, camera)) as reader:
                assert reader.get_meta_data()["fps"] == FPS
                got = [np.asarray(seen) for seen in reader]
            assert [number(seen) for seen in got] == [(e, t) for t in range(length)]
            wanted = np.stack([picture(key, e, t) for t in range(length)])
            # of 255; edges blur, as colors have half the resolution; the picture of another step is 8 away
            assert np.abs(np.stack(got).astype(float) - wanted).mean() < 5.0


@pytest.mark.slow
def test_every_episode_gets_its_own_pictures(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    data = import_lerobot(source, tmp_path / "ours", describe_json, progress=lambda *at: seen.append(at))
    check(data)
    assert seen == [(i + 1, len(LENGTHS)) for i in range(len(LENGTHS))]
    state = data.read(3, ["observation.robot"])["observation.robot"]
    assert state[:, 0, 1].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]


@pytest.mark.slow
def test_of_lerobots_own_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AV1, whose pictures need not stand in the order in which they are shown."""
    monkeypatch.setenv("SVT_LOG", "1")
    try:
        folder = lay_out(tmp_path / "av1", Layout(codec="libsvtav1"))
    except OSError:
        pytest.skip("this ffmpeg does not write AV1")
    check(import_lerobot(folder, tmp_path / "ours", describe_json))


@pytest.mark.slow
def test_episodes_in_any_order_of_the_files(tmp_path: Path) -> None:
    mixed = (("observation.images.front", ((4, 1, 0), (2, 3))), ("observation.wrist", ((3, 1), (4, 0, 2))))
    folder = lay_out(tmp_path / "mixed", Layout(files=mixed))
    check(import_lerobot(folder, tmp_path / "ours", describe_json))


@pytest.mark.slow
def test_it_goes_on_to_lerobot_and_back_to_the_byte(source: Path, tmp_path: Path) -> None:
    ours = import_lerobot(source, tmp_path / "ours", describe_json)
    back = import_lerobot(export_lerobot(ours, tmp_path / "out"), tmp_path / "back")
    for e in range(len(LENGTHS)):
        for camera in ours.cameras:
            assert back.video(e, camera).read_bytes() == ours.video(e, camera).read_bytes()


@pytest.mark.slow
def test_files_are_decoded_once_and_pictures_not_kept(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    opened: list[Path] = []
    kept: list[Any] = []
    most = 0

    class Watched(EpisodeVideo):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            opened.append(path)

        def __next__(self) -> NDArray[np.uint8]:
            nonlocal most
            seen = super().__next__()
            kept.append(weakref.ref(seen))
            kept[:] = [r for r in kept if r() is not None]
            most = max(most, len(kept))
            return seen

    monkeypatch.setattr(lerobot_videos, "EpisodeVideo", Watched)
    check(import_lerobot(source, tmp_path / "ours", describe_json))
    assert len(opened) == len(set(opened)) == 4
    assert most <= 2 * len(SIZES)


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        pytest.param(
            Layout(missing=2),
            "file-001.mp4 is too short: episode 4 has its pictures 9 to 12, and it ends after 11",
            marks=SLOW,
        ),
        pytest.param(
            Layout(video_fps=25), "file-000.mp4 has 25 pictures a second and the dataset 20 control steps", marks=SLOW
        ),
        (Layout(shift=0.02), "episode 0 begins at picture 0.40 by its time stamp"),
    ],
)
def test_videos_that_do_not_fit_are_refused(layout: Layout, sentence: str, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "bad", layout)
    with pytest.raises(RookeryError, match=sentence) as error:
        import_lerobot(folder, tmp_path / "ours", describe_json)
    assert "\n" not in str(error.value) and "--no-videos" in str(error.value)
    assert not (tmp_path / "ours" / "meta.json").exists()
    data = import_lerobot(folder, tmp_path / "without", describe_json, videos=False)
    assert not data.cameras and data.frames == sum(LENGTHS)


@pytest.mark.parametrize("how", slow_but(["above", "link"], ["absolute", "above", "link", "format"]))
def test_videos_outside_of_the_dataset_are_not_read(source: Path, tmp_path: Path, how: str) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "copy"))
    info = json.loads((folder / "meta" / "info.json").read_text())
    template = info["video_path"]
    if how == "link":
        (folder / "videos").rename(tmp_path / "videos")
        (folder / "videos").symlink_to(tmp_path / "videos")
    else:
        start = {"absolute": f"{source}/", "above": f"../{source.name}/", "format": "{chunk_index:99999999999d}"}[how]
        info["video_path"] = start + template
        (folder / "meta" / "info.json").write_text(json.dumps(info))
    words = "writes 'chunk_index'" if how == "format" else "leads out of the folder"
    with pytest.raises(RookeryError, match=words):
        import_lerobot(folder, tmp_path / "ours", describe_json)


@pytest.mark.slow
def test_files_that_are_missing_or_damaged(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    folder = lay_out(tmp_path / "bad")
    out = tmp_path / "ours"

    def refused(sentence: str) -> None:
        assert main(["demos", "import", str(folder), "--out", str(out)]) == 2
        told = capsys.readouterr().err
        assert sentence in told and told.count("\n") == 1
        assert not out.exists()

    video = folder / "videos" / "observation.wrist" / "chunk-000" / "file-000.mp4"
    whole = video.read_bytes()
    video.write_bytes(whole[: len(whole) // 2])
    refused("file-000.mp4 cannot be read as a video")
    video.unlink()
    refused("file-000.mp4 is missing: download the dataset again")
    write_video(video, [np.zeros((32, 47, 3), np.uint8)] * 19, codec="libx264rgb")
    refused("has pictures of 47 x 32, and videos here are even in width and height")
    write_video(video, [np.zeros((32, 48, 3), np.uint8)] * 19)
    table = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    lines = pq.read_table(table)
    key = "videos/observation.wrist/from_timestamp"
    pq.write_table(lines.drop_columns([key]), table)
    refused("does not say where the pictures of 'observation.wrist' of episode 0 are")
    short = [0.5 * t for t in lines["videos/observation.wrist/to_timestamp"].to_pylist()]
    at = lines.column_names.index("videos/observation.wrist/to_timestamp")
    pq.write_table(lines.set_column(at, lines.column_names[at], pa.array(short)), table)
    refused(
        "the video 'observation.wrist' of episode 0 is too short: 3.5 pictures by its time stamps, and 7 control steps"
    )
    pq.write_table(lines, table)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    refused("`pip install imageio-ffmpeg`")
    assert main(["demos", "import", str(folder), "--out", str(out), "--no-videos"]) == 0
    assert "5 of 5 episodes" in capsys.readouterr().out
    assert main(["demos", "info", str(out), "--no-videos"]) == 2
    assert "--no-videos means nothing to `rookery demos info`" in capsys.readouterr().err


def test_two_cameras_of_one_name(source: Path) -> None:
    info = json.loads((source / "meta" / "info.json").read_text())
    features = {"observation.images.top": {"dtype": "video"}, "observation.top": {"dtype": "video"}}
    with pytest.raises(
        RookeryError, match=r"'observation.images.top' and 'observation.top' would both be of camera 'top'"
    ):
        lerobot_videos.open_clips(source, info, [{}], features)
    assert lerobot_videos.camera_name("observation.images.../../up") == "_.._up"
