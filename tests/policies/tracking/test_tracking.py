"""Trackers get every figure of a run once, through interruptions and resumes; one that fails or hangs stops no training."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import imageio.v3 as iio
import numpy as np
import pytest
from policies_fake import FakeEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.tracking import trackers
from rookery.policies.tracking.tracker import Opened, RunTracker, TrackedRun, flat, named
from rookery.policies.tracking.trackers import check_trackers, find_tracker, register
from rookery.policies.tracking.tracking import FILE, Tracking
from rookery.policies.training.interruption import Interrupted
from rookery.policies.training.logging import RunLog
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

ITERATION = 8 * 4
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Notebook(RunTracker):
    """Writes down what it is called with."""

    seen: ClassVar[list[tuple[Any, ...]]] = []

    def open(self, run: TrackedRun, state: Mapping[str, str]) -> Opened:
        self.seen.append(("open", run.steps, dict(state), run.task))
        return Opened({"id": state.get("id", "n1")}, "on the desk")

    def log(self, row: Mapping[str, float], steps: int) -> None:
        self.seen.append(("log", steps, row["run/iteration"]))

    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        self.seen.append(("evaluated", steps, dict(figures)))

    def video(self, file: Path, name: str, steps: int) -> None:
        self.seen.append(("video", steps, name))

    def close(self, ended: str) -> None:
        self.seen.append(("close", ended))


def broken_at(call: str) -> type[RunTracker]:
    """A tracker that fails in one of its methods."""

    def fail(self: RunTracker, *_: Any) -> Any:
        raise ConnectionError(f"no route in {call}")

    return type("Broken", (Notebook,), {call: fail})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The registry of trackers, as the test may change it."""
    own = dict(trackers.TRACKERS)
    monkeypatch.setattr(trackers, "TRACKERS", own)
    monkeypatch.setattr(Notebook, "seen", [])
    return own


def runner(folder: Path, *names: str, iterations: int = 3) -> Runner:
    config = PPOConfig(rollout_steps=4, epochs=1, minibatches=1, hidden=(4,))
    stop = RunnerConfig(total_steps=iterations * ITERATION, checkpoint_every=1, trackers=names)
    contract = {"groups": {}, "provenance": {"commit": f"{COMMIT}-dirty", "seed": 5}}
    settings = {"task": "fake", "seed": 5, "ppo": {"gamma": 0.99}}
    return Runner(PPO(FakeEnv(8), config), stop, folder, name="ppo", contract=contract, settings=settings)


def quiet(row: dict[str, Any]) -> None:
    """No line on the terminal."""


def train_twice(folder: Path, *names: str) -> None:
    """Three iterations, then two more by a resume from the second checkpoint, as after a kill within the third iteration."""
    runner(folder, *names).run(quiet)
    again = runner(folder, *names, iterations=4)
    again.load(folder / "checkpoints" / f"{2 * ITERATION:012d}")
    again.run(quiet)


def test_every_row_in_order_and_a_resume_goes_on_with_the_same_run(
    tmp_path: Path, known: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    register("notebook", Notebook)
    train_twice(tmp_path, "notebook")
    rows = [("log", i * ITERATION, float(i)) for i in range(1, 5)]
    assert Notebook.seen == [
        ("open", 0, {}, "fake"), *rows[:3], ("close", "finished"),
        ("open", 2 * ITERATION, {"id": "n1"}, "fake"), *rows[2:], ("close", "finished"),
    ]  # fmt: skip
    assert json.loads((tmp_path / FILE).read_text()) == {"notebook": {"id": "n1"}}
    assert capsys.readouterr().err.count("rookery: notebook: on the desk") == 2


@pytest.mark.parametrize("call", ["open", "log", "close"])
def test_one_that_fails_is_told_once_and_stops_nothing(
    call: str, tmp_path: Path, known: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    known |= {"broken": broken_at(call), "notebook": Notebook}
    assert runner(tmp_path, "broken", "notebook").run(quiet) == "steps"
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert told == (
        f"rookery: the tracker broken failed (ConnectionError: no route in {call}) and gets no more of this run, whose figures "
        "are all in progress.csv."
    )
    assert [entry[0] for entry in Notebook.seen].count("close") == 1


def test_one_that_hangs_holds_up_nothing(tmp_path: Path, known: dict[str, Any]) -> None:
    never = threading.Event()
    known["hanging"] = type("Hanging", (Notebook,), {"log": lambda self, row, steps: never.wait(30.0)})
    said: list[str] = []
    tracking = Tracking(("hanging",), TrackedRun(tmp_path), said.append, close_s=0.1)
    begin = time.monotonic()
    tracking.open()
    for i in range(1000):
        tracking.log({"steps": i, "iteration": i})
    assert time.monotonic() - begin < 5.0
    tracking.close("finished")
    assert time.monotonic() - begin < 10.0
    assert said[-1].startswith("the tracker hanging failed (it did not take the last figures in time)")
    never.set()


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (None, "finished"),
        (Interrupted(Path()), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (RookeryError(), "failed"),
    ],
)
def test_how_a_run_ended_is_said(
    error: BaseException | None, ended: str, tmp_path: Path, known: dict[str, Any]
) -> None:
    known["notebook"] = Notebook
    log = RunLog(tmp_path, 0, 10, quiet, Tracking(("notebook",), TrackedRun(tmp_path)))
    with log:
        log.resume(0)
        kind = None if error is None else type(error)
        log.__exit__(kind, error, None)
        assert Notebook.seen[-1] == ("close", ended)


def test_names_that_cannot_be_used(tmp_path: Path, known: dict[str, Any]) -> None:
    with pytest.raises(RookeryError, match="unknown tracker 'wanb': did you mean 'wandb'"):
        check_trackers(["tensorboard", "wanb"])
    with pytest.raises(RookeryError, match="none is for no tracker at all"):
        check_trackers(["none", "wandb"])
    check_trackers(["none"])
    check_trackers([])
    known["far"] = type("Far", (Notebook,), {"needs": "no_such_library", "extra": "far"})
    with pytest.raises(RookeryError, match=r"far needs no_such_library, .* pip install 'rookery\[far\]'"):
        check_trackers(["far"])
    with pytest.raises(RookeryError, match="already"):
        register("wandb", Notebook)
    with pytest.raises(RookeryError, match="derives from"):
        register("mine", dict)  # type: ignore[arg-type]
    known["gone"] = "rookery_no_such_package:Tracker"
    with pytest.raises(RookeryError, match=r"'gone' of an installed package fails to load .* mend or uninstall"):
        check_trackers(["gone"])
    (tmp_path / "own.py").write_text("class Board: ...\n")
    with pytest.raises(RookeryError, match="did you mean 'Board'"):
        check_trackers([f"{tmp_path}/own.py:Bord"])
    with pytest.raises(RookeryError, match="is no tracker"):
        check_trackers([f"{tmp_path}/own.py:Board"])
    with pytest.raises(RookeryError, match="there is no file"):
        check_trackers([f"{tmp_path}/other.py:Board"])


def test_a_damaged_file_of_trackers_begins_new_runs(tmp_path: Path, known: dict[str, Any]) -> None:
    known["notebook"] = Notebook
    for content in ("{", "[1]", '{"notebook": 3}'):
        (tmp_path / FILE).write_text(content)
        runner(tmp_path / "run", "notebook", iterations=1).run(quiet)
        tracking = Tracking(("notebook",), TrackedRun(tmp_path), lambda line: None)
        tracking.open()
        tracking.close("")
        assert json.loads((tmp_path / FILE).read_text()) == {"notebook": {"id": "n1"}}
        assert ("open", 0, {}, "") in Notebook.seen


def test_flat_names() -> None:
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": [3]}) == {"a.b": 1, "a.c.d": 2, "e": [3]}
    assert named({"steps": 3, "return": 1, "return/a": 2.0, "note": "text"}) == {"run/return": 1.0, "return/a": 2.0}


def test_tensorboard_has_each_row_once_and_small_videos(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train_twice(tmp_path, "tensorboard")
    iio.imwrite(tmp_path / "flight.gif", np.arange(6 * 40 * 80 * 3, dtype=np.uint8).reshape(6, 40, 80, 3), duration=100)
    tracking = Tracking(("tensorboard",), TrackedRun(tmp_path, 4 * ITERATION))
    tracking.open()
    tracking.evaluated({"eval/rotor/success": 0.25}, 4 * ITERATION)
    tracking.video(tmp_path / "flight.gif", "video/flight", 4 * ITERATION)
    tracking.close("")
    assert not tracking.failed
    # Files of one second are ordered by their last number, as text: the tenth writer of a process would come before the ninth.
    for i, file in enumerate(sorted(tmp_path.glob("events.*"), key=lambda f: int(f.name.rpartition(".")[2]))):
        file.rename(tmp_path / f"events.out.tfevents.{i:03d}")
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    made = [(e.step, e.value) for e in found.Scalars("run/iteration")]
    assert made == [(i * ITERATION, i) for i in range(1, 5)]
    assert [(e.step, e.value) for e in found.Scalars("eval/rotor/success")] == [(4 * ITERATION, 0.25)]
    (image,) = found.Images("video/flight")
    assert (image.width, image.height) == (320, 160)
    assert iio.imread(image.encoded_image_string).shape == (6, 160, 320, 3)
    (text,) = found.Tensors("settings/text_summary")
    assert COMMIT in text.tensor_proto.string_val[0].decode()


def _mlflow(store: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row once in one run of MLflow, with settings, commit, evaluation and video."""
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(folder)  # where artifacts go
    run = folder / "run"
    train_twice(run, "mlflow")
    (run / "flight.gif").write_bytes(b"GIF89a")
    tracking = Tracking(("mlflow",), TrackedRun(run, 4 * ITERATION))
    tracking.open()
    tracking.evaluated({"eval/rotor/motor_strength:FL_*": 0.25}, 4 * ITERATION)
    tracking.video(run / "flight.gif", "video/flight", 4 * ITERATION)
    tracking.close("")
    assert not tracking.failed
    client = MlflowClient(store)
    (experiment,) = [e for e in client.search_experiments() if e.name == "rookery"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params == {"seed": "5", "ppo.gamma": "0.99"}
    assert found.data.tags["mlflow.source.git.commit"] == COMMIT
    assert found.data.tags["task"] == "fake"
    made = [m.step for m in client.get_metric_history(found.info.run_id, "run/iteration")]
    assert made == [i * ITERATION for i in range(1, 5)]
    assert found.data.metrics["eval/rotor/motor_strength:FL__"] == 0.25
    assert [f.path for f in client.list_artifacts(found.info.run_id, f"video/flight/{4 * ITERATION}")]


def test_mlflow_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    _mlflow(f"file://{tmp_path}/mlruns", tmp_path, monkeypatch)


@pytest.mark.slow
def test_mlflow_in_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _mlflow(f"sqlite:///{tmp_path}/mlflow.db", tmp_path, monkeypatch)


def test_a_run_folder_sends_nobodys_token_to_a_server_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    said: list[str] = []
    (tmp_path / FILE).write_text('{"mlflow": {"id": "a", "uri": "http://127.0.0.1:9"}}')
    tracking = Tracking(("mlflow",), TrackedRun(tmp_path), said.append)
    tracking.open()
    tracking.close("finished")
    assert "set MLFLOW_TRACKING_URI=http://127.0.0.1:9 to go on with it there" in said[-1]


def _records(data: bytes) -> Iterator[bytes]:
    """Records of a log file of LevelDB's format, after W&B's own 7 bytes: chunks of (crc 4, length 2, kind 1), in blocks of
    32 KiB (github.com/google/leveldb, doc/log_format.md)."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


def _wandb_rows(folder: Path) -> tuple[set[str], list[dict[str, Any]], dict[str, Any]]:
    """Of all offline files of a run folder: the runs' ids, the rows, and the config."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # its service writes on for a moment after the end of a run
    ids, rows, config = set(), [], {}
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for data in _records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                ids.add(record.run.run_id)
                config |= {u.key: json.loads(u.value_json) for u in record.run.config.update}
            elif kind == "config":
                config |= {u.key: json.loads(u.value_json) for u in record.config.update}
            elif kind == "history":
                rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item})
    return ids, rows, config


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_DIR", raising=False)
    runner(tmp_path, "wandb", iterations=2).run(quiet)
    again = runner(tmp_path, "wandb", iterations=3)
    again.load(tmp_path)
    again.run(quiet)
    iio.imwrite(tmp_path / "flight.gif", np.arange(6 * 40 * 80 * 3, dtype=np.uint8).reshape(6, 40, 80, 3), duration=100)
    known = {"ppo": {"gamma": 0.99}}, {"commit": COMMIT}
    tracking = Tracking(("wandb",), TrackedRun(tmp_path, 4 * ITERATION, "fake", "ppo", *known))
    tracking.open()
    tracking.evaluated({"eval/rotor/success": 0.25}, 4 * ITERATION)
    tracking.video(tmp_path / "flight.gif", "video/flight", 4 * ITERATION)
    tracking.close("")
    assert not tracking.failed
    ids, rows, config = _wandb_rows(tmp_path)
    assert len(ids) == 1
    assert json.loads((tmp_path / FILE).read_text())["wandb"]["id"] in ids
    *trained, evaluated, filmed = rows
    assert [(row["_step"], row["run/iteration"]) for row in trained] == [(i * ITERATION, i) for i in range(1, 4)]
    assert evaluated["eval/rotor/success"] == 0.25 and evaluated["eval/steps"] == 4 * ITERATION
    assert filmed["video/flight/_type"] == "video-file" and filmed["eval/steps"] == 4 * ITERATION
    videos = {file.resolve() for file in tmp_path.glob(f"wandb/*/files/{filmed['video/flight/path']}")}
    (video,) = videos  # "latest-run" is a link to the same
    assert video.read_bytes() == (tmp_path / "flight.gif").read_bytes()
    assert config["ppo"] == {"gamma": 0.99}
    assert config["provenance"]["commit"].startswith(COMMIT)
    assert "rookery: wandb: kept in files: send them by `wandb sync" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("key", ["", "0" * 40])
def test_wandb_without_a_login_or_a_network_keeps_files(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    from rookery.policies.tracking import wandb_tracker

    wandb.teardown()  # it reads its variables once
    monkeypatch.setattr(wandb_tracker, "REACHED_S", 3.0)
    for name, value in (
        ("NETRC", str(tmp_path / "none")),
        ("WANDB_BASE_URL", "http://127.0.0.1:9"),
        ("WANDB_API_KEY", key),
    ):
        monkeypatch.setenv(name, value)  # fmt: skip
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert runner(tmp_path, "wandb").run(quiet) == "steps"
    said = capsys.readouterr().err
    assert ("no answer (" if key else "not logged in (`wandb login`), kept in files") in said
    assert len(_wandb_rows(tmp_path)[1]) == 3


def test_a_tracker_in_a_file_and_by_an_entry_point(
    tmp_path: Path, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "board.py").write_text(
        "from rookery.policies.tracking.tensorboard import TensorBoard\n\n\nclass Board(TensorBoard): ...\n"
    )
    assert find_tracker(f"{tmp_path}/board.py:Board").__name__ == "Board"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(trackers, "entry_points", lambda group: {"lab": "board:Board"})
    assert find_tracker("lab").__module__ == "board"
    assert "lab" in trackers.tracker_names()
