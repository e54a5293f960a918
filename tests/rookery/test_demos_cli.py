"""`rookery demos` and `rookery train --algorithm bc`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery.sim.viewing.server
from rookery.cli.main import main

TINY = ["--task-config", "episode_s=0.2", "--task-config", "settled_s=0.1", "--seed", "2"]


@pytest.fixture(scope="module")
def demos(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("demos") / "hover"
    assert main(["demos", "record", "drone-hover", "--episodes", "3", "--num-envs", "2", "--out", str(out), *TINY]) == 0
    return out


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(w) for w in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("rookery: ") and captured.err.count("\n") == 1
    return captured.err


def test_info(demos, capsys):
    found = answer(capsys, "demos", "info", demos)
    assert (found["task"], found["episodes"], found["frames"]) == ("drone-hover", 3, 60)
    assert found["recording"]["controller"] == "classical"
    assert main(["demos", "info", str(demos)]) == 0
    assert "term.drone.position_error" in capsys.readouterr().out


def test_replay_shows_demonstrations_in_the_browser_or_writes_a_page(demos, capsys, tmp_path, monkeypatch):
    shown, closed = [], []
    close = rookery.sim.viewing.server.close_server
    monkeypatch.setattr("rookery.sim.viewing.replay.Timeline.run", lambda self: shown.append(self))
    monkeypatch.setattr(
        "rookery.sim.viewing.server.close_server", lambda server: (closed.append(server), close(server))
    )
    page = tmp_path / "second.html"
    assert main(["replay", str(demos), "--episode", "1", "--html", str(page)]) == 0
    assert f"wrote {page}" in capsys.readouterr().out and "<html" in page.read_text()[:2000]
    assert not shown and len(closed) == 1
    assert main(["replay", str(demos), "--viewer-port", "0"]) == 0
    assert len(shown) == 1 and len(shown[0]._episodes) == 3
    assert closed[1] is shown[0].server and list(tmp_path.iterdir()) == [page]


@pytest.mark.slow
def test_replay_compares_and_records_videos(demos, capsys, tmp_path):
    same = {"episodes": 3, "exact": 3, "error": 0.0, "reward_error": 0.0}
    assert answer(capsys, "demos", "replay", demos) == same
    assert main(["demos", "replay", str(demos), "--engine", "pybullet", "--episode", "1"]) == 1
    assert "episode 1 differs from control step 0" in capsys.readouterr().out
    video = tmp_path / "one.gif"
    assert answer(capsys, "demos", "replay", demos, "--episode", 1, "--video", video)["seconds"] == pytest.approx(0.2)
    assert video.stat().st_size > 100


@pytest.mark.slow
def test_there_and_back(demos, capsys, tmp_path):
    assert answer(capsys, "demos", "export", demos, "--out", tmp_path / "lerobot")["episodes"] == 3
    assert answer(capsys, "demos", "import", tmp_path / "lerobot", "--out", tmp_path / "back")["frames"] == 60
    assert (tmp_path / "back" / "meta.json").read_bytes() == (demos / "meta.json").read_bytes()


def test_a_clone_is_a_run(demos, capsys, tmp_path):
    """It can be evaluated, recorded in turn, and PPO goes on from it."""
    out = tmp_path / "clone"
    config = TINY[:4]
    small = ["--hidden", "8", "--out", out, *config]
    made = answer(capsys, "train", "drone-hover", "--algorithm", "bc", "--data", demos, "--steps", 120, *small)
    assert made["steps"] == 120 and 0 < made["figures"]["drone/error"] < 4
    assert answer(capsys, "eval", out, "--episodes", 2)["episodes"] == 2
    again = answer(capsys, "demos", "record", out, "--episodes", 1, "--out", tmp_path / "again")
    assert (again["episodes"], again["frames"]) == (1, 20)
    words = [
        "train",
        "drone-hover",
        "--init",
        out,
        "--steps",
        128,
        "--num-envs",
        8,
        "--rollout-steps",
        "16",
        "--out",
    ]
    answer(capsys, *words, tmp_path / "ppo", "--hidden", "8", *config)


def test_refusals(demos, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clone = ["train", "drone-track", "--algorithm", "bc"]
    for words, way_out in (
        (["demos"], "needs an action and what to act on"),
        (["demos", "recrod", "drone-hover"], "did you mean 'record'?"),
        (["demos", "record", "drone-hover"], "needs --out DIR"),
        (["demos", "record", "drone-hoover", "--out", "x"], "drone-hover"),
        (["demos", "record", "drone-hover", "--episodes", 0, "--out", "x"], "--episodes must be above 0"),
        (["demos", "record", "drone-hover", "--camera", "chas", "--out", "x"], "did you mean 'chase'?"),
        (["demos", "record", "drone-hover", "--out", demos], "is not empty"),
        (["demos", "info", "nowhere"], "holds no demonstrations"),
        (["demos", "info", demos, "--camera", "chase"], "--camera means nothing to `rookery demos info`"),
        (["demos", "replay", demos, "--episode", 7], "there is no episode 7"),
        (["demos", "export", demos, "--out", demos], "is not empty"),
        (["demos", "import", "nowhere", "--out", "x"], "is no LeRobot dataset"),
        (clone, "learns from demonstrations: give them by --data DIR"),
        ([*clone, "--data", demos], "the task is"),
        (["train", "drone-hover", "--algorithm", "bc", "--data", demos, "--action", "rotor_thrust"], "the action of drone"),
    ):  # fmt: skip
        assert way_out in refused(capsys, *words), words
    assert not list(tmp_path.rglob("*")), "a refused command leaves nothing behind"
