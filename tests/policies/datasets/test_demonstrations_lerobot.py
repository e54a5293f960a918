"""LeRobot's layout: read with plain pyarrow, and back to the bit; datasets from elsewhere as far as they go."""

from __future__ import annotations

import json
import shutil
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rookery.cli.main import main
from rookery.experiments.demonstrations import record
from rookery.policies.datasets import lerobot, parquet
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.foreign import names_of
from rookery.policies.datasets.lerobot import INFO, OWN, export_lerobot
from rookery.policies.datasets.lerobot_import import import_lerobot
from rookery.policies.datasets.lerobot_places import place_of
from rookery.policies.datasets.video import decode
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged
from rookery.sim2real.build import describe_json
from rookery.sim2real.contract import Contract

SHORT = {"episode_s": 0.2, "settled_s": 0.1, "start_box_m": 0.3, "success_m": 0.4, "num_drones": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three episodes of two drones, with pictures."""
    out = tmp_path_factory.mktemp("demos") / "hover"
    record(
        Path("drone-hover"), out, 3, num_envs=2, config=SHORT, seed=3, camera="fixed", size=(32, 24)
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory) -> Path:
    return export_lerobot(Dataset(folder), tmp_path_factory.mktemp("lerobot") / "hover", "hover where you are told")


@pytest.fixture
def copy(exported, tmp_path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def test_plain_pyarrow_reads_every_step(folder, exported):
    data = Dataset(folder)
    table = pq.read_table(exported / "data" / "chunk-000" / "file-000.parquet")
    info = json.loads((exported / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["fps"] == 100
    assert (info["total_episodes"], info["total_frames"]) == (3, table.num_rows) == (3, data.frames)
    assert {n for n, f in info["features"].items() if f["dtype"] != "video"} == set(table.column_names)
    assert table.schema.field("observation.state").type == pa.list_(pa.float32(), 32)
    assert len(set(info["features"]["observation.state"]["names"])) == 32
    assert info["features"]["action"]["names"][4] == "drone_1.roll_rate"
    assert table["index"].to_pylist() == list(range(data.frames))
    episode = np.array(table["episode_index"])
    for i in range(3):
        columns = data.episode(i).columns
        mine = table.filter(pa.array(episode == i))
        length = data.episodes[i].length
        assert mine["frame_index"].to_pylist() == list(range(length))
        assert mine["timestamp"].to_pylist() == [np.float32(t / 100) for t in range(length)]
        for name, ours in (("observation.state", "observation.drone"), ("action", "action.drone")):
            assert np.array_equal(np.array(mine[name].to_pylist(), np.float32), columns[ours][:length].flatten(1))
        assert np.array_equal(mine["next.reward"], columns["reward.drone"].mean(1))
        assert mine["next.done"].to_pylist() == [False] * (length - 1) + [True]
        assert mine["next.success"].to_pylist()[-1] == data.episodes[i].success
        assert (
            mine["rookery.term.drone.position_error"][4].as_py()
            == columns["term.drone.position_error"][4].flatten().tolist()
        )


def test_the_tables_beside_the_data(folder, exported):
    data = Dataset(folder)
    lines = pq.read_table(exported / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    tasks = pq.read_table(exported / "meta" / "tasks.parquet")
    about = json.loads(tasks.schema.metadata[b"pandas"])
    assert tasks.column(about["index_columns"][0]).to_pylist() == ["hover where you are told"]
    key = "observation.images.fixed"
    start = 0
    for i, line in enumerate(lines):
        length = data.episodes[i].length
        assert line["tasks"] == ["hover where you are told"]
        assert (line["episode_index"], line["length"]) == (i, length)
        assert (line["dataset_from_index"], line["dataset_to_index"]) == (start, start + length)
        assert (line[f"videos/{key}/file_index"], line[f"videos/{key}/from_timestamp"]) == (i, 0.0)
        assert line[f"videos/{key}/to_timestamp"] == pytest.approx(length / 100)
        start += length
    stats = json.loads((exported / "meta" / "stats.json").read_text())
    every = torch.cat([data.episode(i).columns["action.drone"] for i in range(3)]).flatten(1).double()
    for name, wanted in (("mean", every.mean(0)), ("std", every.std(0, correction=0)), ("max", every.amax(0))):
        assert stats["action"][name] == pytest.approx(wanted.tolist(), abs=1e-9)
    assert stats["action"]["count"] == [data.frames]
    pictures = np.concatenate([np.stack(list(decode(data.video(i, "fixed")))) for i in range(3)]) / 255.0
    assert pictures.shape == (data.frames, 24, 32, 3)
    assert np.ravel(stats[key]["mean"]) == pytest.approx(pictures.mean((0, 1, 2)))


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_there_and_back_is_the_same_to_the_bit(folder, exported, tmp_path):
    back = import_lerobot(exported, tmp_path / "back")
    assert len(back) == 3 and list(back.cameras) == ["fixed"]
    assert files(tmp_path / "back") == files(folder)


@pytest.mark.slow
def test_many_data_files(folder, exported, tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot, "DATA_MB", 0.001)
    monkeypatch.setattr(lerobot, "CHUNK", 2)
    data = export_lerobot(Dataset(folder), tmp_path / "many") / "data"
    assert sorted(str(f.relative_to(data)) for f in data.rglob("*.parquet")) == [
        "chunk-000/file-000.parquet", "chunk-000/file-001.parquet", "chunk-001/file-000.parquet",
    ]  # fmt: skip
    import_lerobot(tmp_path / "many", tmp_path / "back")
    assert files(tmp_path / "back") == files(folder)


@pytest.mark.slow
def test_one_from_elsewhere(copy, folder, tmp_path):
    """Without our own folder it is anybody's: vectors, limits from the data, ends where they are told."""
    shutil.rmtree(copy / "rookery")
    data = import_lerobot(copy, tmp_path / "foreign", describe_json)
    ours = Dataset(folder)
    Contract.from_json(data.contract, stages=False)
    assert data.groups == ["robot"] and data.control_dt == pytest.approx(0.01)
    spec = data.contract["groups"]["robot"]["action"]
    low, high = (torch.tensor(spec[k]) for k in ("low", "high"))
    for i in range(3):
        got = data.episode(i)
        wanted = ours.episode(i)
        assert torch.equal(
            got.columns["observation.robot"][:-1, 0], wanted.columns["observation.drone"][:-1].flatten(1)
        )
        commanded = low + (got.columns["action.robot"][:, 0] + 1) / 2 * (high - low)
        assert torch.allclose(commanded, wanted.columns["action.drone"].flatten(1), atol=1e-6)
        assert got.facts.success == wanted.facts.success and got.facts.length == wanted.facts.length
        assert int((got.columns["terminated"] | got.columns["truncated"]).sum()) == 1
    actions = torch.cat([data.episode(i).columns["action.robot"] for i in range(3)])
    assert actions.min() == -1.0 and actions.max() == 1.0
    with pytest.raises(RookeryError, match="nothing describes it"):
        import_lerobot(copy, tmp_path / "other")


def without_ours(copy: Path, **changes: object) -> pa.Table:
    """The dataset as anybody's, with other features or columns; gives its rows."""
    shutil.rmtree(copy / "rookery", ignore_errors=True)
    file = copy / "data" / "chunk-000" / "file-000.parquet"
    info = json.loads((copy / INFO).read_text())
    table = pq.read_table(file)
    for name, column in changes.items():
        name = name.replace("__", ".")
        table = table.drop_columns([name]) if name in table.column_names else table
        info["features"].pop(name, None)
        if column is not None:
            values, feature = column
            table = table.append_column(name, values)
            info["features"][name] = feature
    pq.write_table(table, file)
    (copy / INFO).write_text(json.dumps(info))
    return table


BOOL = {"dtype": "bool", "shape": [1], "names": None}


@pytest.mark.parametrize(
    ("success", "done", "terminated", "cause"),
    [
        pytest.param(
            (3, 7), None, False, "time limit", marks=pytest.mark.slow
        ),  # success amid the episode, which goes on
        ((3, 20), None, True, "success"),  # and until its end
        pytest.param(
            (), (19, 20), False, "time limit", marks=pytest.mark.slow
        ),  # next.done stands at every recording's end
        pytest.param(None, (19, 20), True, "done", marks=pytest.mark.slow),  # where it alone tells
        pytest.param(None, (3, 4), False, "time limit", marks=pytest.mark.slow),
        pytest.param(None, None, False, "time limit", marks=pytest.mark.slow),
    ],
)
def test_the_last_row_says_how_an_episode_ended(copy, tmp_path, success, done, terminated, cause):
    episodes = np.array(pq.read_table(copy / "data" / "chunk-000" / "file-000.parquet")["episode_index"])
    assert (np.bincount(episodes) == 20).all()

    def rows(span: tuple[int, int] | tuple[()] | None) -> object:
        if span is None:
            return None
        at = np.arange(len(episodes)) % 20
        return pa.array((at >= span[0]) & (at < span[1]) if span else at < 0), BOOL

    without_ours(copy, next__success=rows(success), next__done=rows(done))
    data = import_lerobot(copy, tmp_path / "out", describe_json, videos=False)
    for i in range(3):
        episode = data.episode(i)
        assert episode.columns["terminated"].tolist() == [False] * 19 + [terminated]
        assert episode.columns["truncated"].tolist() == [False] * 19 + [not terminated]
        assert episode.facts.cause == cause
        assert episode.facts.success == (None if success is None else bool(success))


@pytest.mark.slow
def test_nothing_of_a_dataset_vanishes_silently(copy, exported, tmp_path, capsys):
    """Names of joints and the environment's state are kept; what is not is told, by the command too."""
    count = pq.read_table(copy / "data" / "chunk-000" / "file-000.parquet").num_rows
    around = np.arange(3 * count, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(around), 3)
    pictures = {"dtype": "image", "shape": [4, 4, 3], "names": ["height", "width", "channel"]}
    more = {
        "observation__environment_state": (
            column,
            {"dtype": "float32", "shape": [3], "names": ["cube_x", "cube_y", "cube_z"]},
        ),
        "observation__images__wrist": (pa.array(["x"] * count), pictures),
        "observation__effort": (pa.array(around[:count]), {"dtype": "float32", "shape": [1], "names": None}),
    }
    table = without_ours(copy, **more)
    assert main(["demos", "import", str(copy), "--out", str(tmp_path / "out"), "--no-videos"]) == 0
    data = Dataset(tmp_path / "out")
    terms = data.contract["groups"]["robot"]["observation"]
    assert [(t["name"], t["size"]) for t in terms] == [("state", 32), ("environment_state", 3)]
    features = json.loads((exported / INFO).read_text())["features"]
    assert data.contract["groups"]["robot"]["action"]["names"] == features["action"]["names"]
    assert data.recording["names"]["observation.state"] == features["observation.state"]["names"]
    assert data.recording["names"]["observation.environment_state"] == ["cube_x", "cube_y", "cube_z"]
    assert data.recording["tasks"] == ["hover where you are told"]
    seen = torch.cat([data.episode(i).columns["observation.robot"][:-1, 0] for i in range(3)])
    assert seen[:, 32:].flatten().tolist() == around.tolist()
    assert np.array_equal(seen[:, :32], np.array(table["observation.state"].to_pylist(), np.float32))
    left = [word.split(" (")[0] for word in data.recording["left_out"]]
    ours = [name for name in table.column_names if name.startswith("rookery.")]
    assert set(left) == {"observation.images.wrist", "observation.images.fixed", "observation.effort", *ours}
    said = capsys.readouterr().out
    assert "left out: " in said and "observation.images.wrist (pictures in the Parquet files)" in said
    assert "observation.images.fixed (videos, by --no-videos)" in said
    assert main(["demos", "info", str(tmp_path / "out")]) == 0
    assert "left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a", "b"], ["a", "b"]),
        ({"motors": ["a", "b"]}, ["a", "b"]),
        ({"left": ["a"], "right": ["b"]}, ["a", "b"]),
        (["a"], None), (["a", "a"], None), (["a", 3], None), (None, None), (["a", "b\n"], None), (["a", "x" * 300], None),
        ({"motors": ["a", "b"], "count": 2}, None),
    ],
)  # fmt: skip
def test_names_of_components(given, names):
    assert names_of(given, 2) == names


@pytest.mark.slow
def test_damage_is_told_in_a_sentence(copy, tmp_path):
    out = tmp_path / "out"
    info = copy / "meta" / "info.json"
    data = copy / "data" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(data)
    text = info.read_text()

    def refused(sentence: str) -> None:
        shutil.rmtree(out, ignore_errors=True)
        with pytest.raises(RookeryError, match=sentence) as error:
            import_lerobot(copy, out)
        assert "\n" not in str(error.value)
        assert not (out / "meta.json").exists()

    pq.write_table(table.drop_columns(["rookery.reward.drone"]), data)
    refused("no column 'rookery.reward.drone'")
    pq.write_table(table.slice(0, table.num_rows - 5), data)
    refused("of the 20 rows of episode 2")
    whole = pq.write_table(table, data) or data.read_bytes()
    data.write_bytes(whole[:-40])
    refused("file-000.parquet is damaged")
    data.write_bytes(whole)
    (copy / "videos" / "observation.images.fixed" / "chunk-000" / "file-001.mp4").unlink()
    refused("file-001.mp4 is missing")
    shutil.rmtree(copy / "meta" / "episodes")
    info.write_text(text.replace('"total_episodes": 3', '"total_episodes": 0'))
    refused("has no episodes")
    info.write_text(text.replace("v3.0", "v2.1"))
    refused("of version v2.1, and Rookery reads v3.0")
    info.write_text(text[:50])
    refused("info.json is damaged")
    info.unlink()
    refused("is no LeRobot dataset")


def test_places_and_a_missing_pyarrow(folder, exported, tmp_path, monkeypatch):
    with pytest.raises(RookeryError, match="is not empty"):
        export_lerobot(Dataset(folder), exported)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RookeryError, match="`pip install pyarrow`"):
        export_lerobot(Dataset(folder), tmp_path / "x")
    with pytest.raises(RookeryError, match="`pip install pyarrow`"):
        import_lerobot(exported, tmp_path / "y")
    assert not (tmp_path / "x").exists() and not (tmp_path / "y").exists()


@pytest.mark.slow
def test_files_outside_of_the_dataset_are_not_read(folder, tmp_path):
    exported = export_lerobot(Dataset(folder), tmp_path / "exported")
    info = json.loads((exported / "meta/info.json").read_text())
    (tmp_path / "file-000.parquet").write_bytes((exported / "data/chunk-000/file-000.parquet").read_bytes())
    info["data_path"] = "../file-{file_index:03d}.parquet"
    (exported / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(RookeryError, match="data_path: a template of paths leads out of the folder"):
        import_lerobot(exported, tmp_path / "back")


PLAIN = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{chunk_index:2500000000d}", "writes 'chunk_index' as '2500000000d'"),
        ("{chunk_index:03x}", "writes 'chunk_index'"),
        ("{chunk_index:{file_index}d}", "writes 'chunk_index'"),
        ("{chunk_index!r}", "template is wrong"),
        ("{chunk_index.__class__}", "names 'chunk_index.__class__'"),
        ("{0}", "names '0'"),
        ("{secret}", "names 'secret'"),
        ("{", "template of paths is wrong"),
        ("/etc/{chunk_index}", "leads out"),
        ("data/../../{chunk_index}", "leads out"),
        ("out/{chunk_index}", "leads out"),  # a link
        ("a\0{chunk_index}", "names no file"),
        (3, "no short text"),
        ("x" * 5000, "no short text"),
    ],
)
def test_templates_of_paths(tmp_path, template, words):
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    at = {"chunk_index": 1, "file_index": 2}
    assert place_of(folder, PLAIN, **at) == folder / "data/chunk-001/file-002.parquet"
    with pytest.raises(Damaged, match=words):
        place_of(folder, template, **at)


@pytest.mark.slow
def test_tables_and_shapes_that_take_all_memory_are_refused(copy, tmp_path, monkeypatch):
    """15 million rows of few kinds are 51 kB; a shape is a few digits."""
    table = copy / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    few = pq.read_table(table)
    many = {n: pa.repeat(few.column(n)[0].as_py() or 0, 15_000_000) for n in ("episode_index", "length")}
    pq.write_table(pa.table(many), table)
    assert table.stat().st_size < 200_000
    tracemalloc.start()
    with pytest.raises(RookeryError, match="15,000,000 episodes in one file"):
        import_lerobot(copy, tmp_path / "back")
    assert tracemalloc.get_traced_memory()[1] < 300 << 20
    tracemalloc.stop()
    pq.write_table(few, table)
    (copy / OWN).unlink()
    info = json.loads((copy / INFO).read_text())
    for shape in ([300_000_000], [20_000, 20_000], [-1], [0], ["x"], 3, [True, None]):
        info["features"]["action"]["shape"] = shape
        (copy / INFO).write_text(json.dumps(info))
        with pytest.raises(RookeryError, match="the feature 'action' has the shape"):
            import_lerobot(copy, tmp_path / "back", describe=lambda *_: {})


def test_links_out_of_the_dataset_are_not_followed(copy, tmp_path):
    table = copy / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table.rename(tmp_path / "elsewhere.parquet")
    table.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(RookeryError, match="a link out of the folder"):
        import_lerobot(copy, tmp_path / "back")


def test_a_parquet_file_that_aborts_its_reader_is_a_sentence(folder, tmp_path, monkeypatch):
    exported = export_lerobot(Dataset(folder), tmp_path / "exported")
    monkeypatch.setattr(parquet, "_READ", "import os; os.abort()")
    with pytest.raises(RookeryError, match=r"is damaged \(it was ended by SIGABRT\)"):
        import_lerobot(exported, tmp_path / "back")
    monkeypatch.setattr(parquet, "_READ", "x = bytearray(8 << 30)")
    with pytest.raises(
        RookeryError, match=r"is damaged \(.*MemoryError|is damaged \(Traceback|is damaged \(it ended with"
    ):
        import_lerobot(exported, tmp_path / "back")
