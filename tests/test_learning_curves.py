"""Learning curves: an evaluated training is the training itself, a stopped one goes on, a figure shows what was measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
import torch
from safetensors.torch import load_file

from rookery.cli.main import main as command_line
from tests.test_docs import ROOT

SVG = "{http://www.w3.org/2000/svg}"
SMALL = (
    "--steps 128 --rollout-steps 4 --num-envs 4 --hidden 8 --learning-starts 16 --batch 8 --n-step 1 --buffer-size 1000 "
    "--checkpoint-every 1"
)


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("learning_curves")


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("curve_plot")


def measure(curves: ModuleType, folder: Path, *words: str, curve: str = f"SAC: sac {SMALL}", name: str = "a") -> int:
    options = ["drone-hover", "--curve", curve, "--seeds", "0", "1", "--points", "4", "--episodes", "2", *words]
    options += ["--figure", "error_m", "--runs", str(folder / "runs"), "--image", str(folder / f"{name}.svg")]
    return int(curves.main([*options, "--out", str(folder / f"{name}.json")]))


def weights(run: Path) -> dict[str, torch.Tensor]:
    newest = max(run.glob("checkpoints/[0-9]*"))
    return {f"{f.name} {name}": x for f in sorted(newest.glob("*.safetensors")) for name, x in load_file(f).items()}


@pytest.mark.slow
def test_a_curve_is_its_training_and_goes_on_after_a_stop(curves, tmp_path, monkeypatch):
    assert measure(curves, tmp_path) == 0
    whole = json.loads((tmp_path / "a.json").read_text())["rows"][0]
    assert [len(points) for points in whole["points"].values()] == [4, 4]
    assert whole["last"] == pytest.approx(sum(points[-1]["error_m"] for points in whole["points"].values()) / 2)

    plain = tmp_path / "plain"
    assert (
        command_line(["train", "drone-hover", "--algorithm", "sac", *SMALL.split(), "--seed", "1", "--out", str(plain)])
        == 0
    )
    wanted, got = weights(plain), weights(tmp_path / "runs" / "drone-hover-sac-1")
    assert wanted.keys() == got.keys()
    assert all(torch.equal(got[name], value) for name, value in wanted.items())

    def stop(self: object, row: dict[str, float]) -> None:
        evaluate(self, row)
        if row["steps"] >= 80:
            raise KeyboardInterrupt

    evaluate = curves.Watch.__call__
    with monkeypatch.context() as patch:
        patch.setattr(curves.Watch, "__call__", stop)
        assert measure(curves, tmp_path / "again") == 130
    assert not (tmp_path / "again" / "a.json").exists()
    assert measure(curves, tmp_path / "again") == 0
    again = json.loads((tmp_path / "again" / "a.json").read_text())["rows"][0]
    for one, other in zip(whole["points"].values(), again["points"].values(), strict=True):
        timeless = [[{k: v for k, v in row.items() if k != "training_s"} for row in rows] for rows in (one, other)]
        assert timeless[0] == timeless[1]


@pytest.mark.slow
def test_the_training_time_is_no_metric_of_the_task(curves, tmp_path):
    """table-reach has a metric called "seconds"."""
    folder = tmp_path / "runs"
    words = ["table-reach", "--curve", f"SAC: sac {SMALL}", "--seeds", "0", "--points", "2", "--episodes", "2"]
    words += ["--runs", str(folder), "--image", str(tmp_path / "a.svg"), "--out", str(tmp_path / "a.json")]
    assert curves.main(words) == 0
    points = json.loads((tmp_path / "a.json").read_text())["rows"][0]["points"]["0"]
    lines = (folder / "table-reach-sac-0" / "progress.csv").read_text().splitlines()
    columns = lines[0].split(",")
    told = {
        int(row[columns.index("steps")]): float(row[columns.index("seconds")])
        for row in map(str.split, lines[1:], [","] * len(lines))
    }
    assert [p["training_s"] for p in points] == pytest.approx([told[p["steps"]] for p in points], abs=1e-3)
    assert all(p["seconds"] == 6.25 for p in points)  # never done


@pytest.mark.slow
def test_what_is_there_is_not_trained_again_and_not_mixed(curves, tmp_path, monkeypatch, capsys):
    assert measure(curves, tmp_path) == 0

    def refuse(*words: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(curves, "start", refuse)
    monkeypatch.setattr(curves, "resume", refuse)
    assert measure(curves, tmp_path, "--target", "100", name="b") == 0
    assert measure(curves, tmp_path, "--target", "100", "--lower", name="c") == 0
    assert json.loads((tmp_path / "c.json").read_text())["rows"][0]["steps_to"] == 32
    row = json.loads((tmp_path / "b.json").read_text())["rows"][0]
    assert row["steps_to"] is None  # no error is 100 m
    for changed in (["--episodes", "3"], ["--points", "2"]):
        assert measure(curves, tmp_path, *changed) == 2
        assert "has a training with other settings, or evaluated at other points" in capsys.readouterr().err
    assert measure(curves, tmp_path, curve=f"SAC: sac {SMALL} --gamma 0.9") == 2
    assert "has a training with other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ("nosuch", "unknown algorithm 'nosuch'"),
        ("--hidden 8", "a curve begins with its algorithm"),
        ("sac --target-success 0.9", "a curve has all of its steps"),
        ("sac --epochs 3", "sac has no option --epochs"),
    ],
)
def test_a_curve_that_cannot_be_is_one_sentence(curves, curve, said, tmp_path, capsys):
    assert measure(curves, tmp_path, curve=curve) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_two_curves_of_one_label_are_refused(curves, tmp_path, capsys):
    assert measure(curves, tmp_path, "--curve", "SAC: td3") == 2
    assert "two curves have the same label" in capsys.readouterr().err


def test_the_time_to_a_target_is_that_of_the_first_point_there(curves):
    rows = [{"steps": 10 * i, "success": s} for i, s in enumerate((0.0, 0.5, 0.9, 0.4))]
    assert curves.first(rows, "steps", "success", 0.5) == 10
    assert curves.first(rows, "steps", "success", 0.8) == 20
    assert curves.first(rows, "steps", "success", 0.95) is None
    assert curves.first(rows[1:], "steps", "success", 0.45, lower=True) == 30
    line = curves.band(
        [rows, [row | {"success": 1.0, "steps": row["steps"] + 2} for row in rows]], "a", "steps", "success"
    )
    assert (line.x[1], line.middle[1], line.low[1], line.high[1]) == (11.0, 0.75, 0.5, 1.0)


@pytest.mark.parametrize("log", [False, True])
def test_a_figure_has_each_point_at_its_place(plot, log):
    lines = [
        plot.Line(label, [1.0, 10.0, 100.0], [0.2, 0.5, 1.0], [0.0, 0.5, 1.0], [0.3, 0.5, 1.0]) for label in ("a<", "b")
    ]
    panels = [plot.Panel("x", "y & z", lines, log, (0.0, 1.0))] * 2
    tree = ElementTree.fromstring(plot.figure("a < b", panels))
    curves = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in tree.iter(f"{SVG}polyline")]
    bands = [e.get("points").split() for e in tree.iter(f"{SVG}polygon")]
    assert len(curves) == len(bands) == 4 and {len(b) for b in bands} == {6}
    left, middle, right = curves[0]
    width = plot.WIDTH - plot.LEFT - plot.RIGHT
    height = plot.HEIGHT - plot.TOP - plot.BOTTOM
    assert right == pytest.approx((plot.WIDTH - plot.RIGHT, plot.TOP), abs=0.06)
    assert left[0] == pytest.approx(plot.LEFT + (0.0 if log else 0.01 * width), abs=0.06)
    assert middle[0] == pytest.approx(plot.LEFT + (0.5 if log else 0.1) * width, abs=0.06)
    assert left[1] == pytest.approx(plot.TOP + 0.8 * height, abs=0.06)
    assert [e.text for e in tree.iter(f"{SVG}text")][-2:] == ["a<", "b"]


def test_ticks_of_a_logarithmic_axis(plot):
    assert plot.log_ticks(3.0, 250.0) == [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
    assert plot.log_ticks(3.0, 2e5) == [10.0, 100.0, 1000.0, 10000.0, 100000.0]
    assert [plot.short(x) for x in (0.25, 20.0, 1500.0, 2e6)] == ["0.25", "20", "1.5k", "2M"]


@pytest.mark.parametrize(
    ("words", "iterations"),
    [
        ("ppo --num-envs 4 --rollout-steps 8 --hidden 8 --minibatches 1", 1),
        ("sac --num-envs 4 --rollout-steps 4 --hidden 8 --updates-per-step 0.01 --learning-starts 5000", 1),
        (
            "td3 --num-envs 4 --rollout-steps 4 --hidden 8 --memory gru --memory-size 4 --memory-burn-in 4 --policy-every 9",
            5,
        ),
        ("dagger --num-envs 4 --rollout-steps 4 --hidden 8", 1),
    ],
)
def test_kernels_are_warm_before_the_clock_starts(curves, words, iterations, monkeypatch):
    """The training that is thrown away makes gradient steps of critics and policy, and as few iterations as that takes."""
    settings = curves.Curve("a", tuple(words.split())).settings("drone-hover", 0)
    figures = []
    start = curves.start

    def noting(*given):
        figures.append(start(*given).runner)
        return type("Training", (), {"runner": figures[0]})

    monkeypatch.setattr(curves, "start", noting)
    assert curves.warm(settings) == iterations
    (runner,) = figures
    assert runner.figures and all(value != 0.0 for name, value in runner.figures.items() if name.endswith("loss"))
    assert not runner.folder.exists()


@pytest.mark.slow
def test_each_curve_is_warmed_once_and_not_where_all_is_there(curves, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(curves, "warm", lambda settings: made.append(settings.seed))
    for name in ("a", "b"):
        assert measure(curves, tmp_path, name=name) == 0
    assert made == [0], "before the first of two seeds"


@pytest.mark.slow
def test_success_against_opponents_is_that_the_learner_wins(curves, tmp_path, capsys):
    """What a curve says is what `rookery match` counts, in the same episodes."""
    file = tmp_path / "evaders.toml"
    file.write_text('team = "pursuers"\nmembers = [{policy = "controller"}]\n')
    curve = f"PPO: ppo --opponents {file} --steps 64 --rollout-steps 4 --num-envs 8 --hidden 8 --minibatches 1"
    words = ["drone-tag", "--curve", curve, "--seeds", "0", "--points", "2", "--episodes", "16"]
    words += ["--beside", "evaders_wins", "--runs", str(tmp_path)]
    words += ["--image", str(tmp_path / "a.svg"), "--out", str(tmp_path / "a.json")]
    assert curves.main(words) == 0
    row = json.loads((tmp_path / "a.json").read_text())["rows"][0]
    last = row["points"]["0"][-1]
    assert row["beside"] == last["evaders_wins"]
    assert last["success"] == last["pursuers_wins"] and last["pursuers_wins"] + last["evaders_wins"] <= 1.0
    capsys.readouterr()
    run = str(tmp_path / "drone-tag-ppo-0")
    match = ["match", "drone-tag", run, "controller", "--episodes", "16", "--num-envs", "16", "--json"]
    assert command_line([*match, "--seed", str(curves.EVALUATION_SEED)]) == 0
    assert json.loads(capsys.readouterr().out)["wins"]["a"] == round(16 * last["success"])
    assert curves.main(words) == 0, "what is there is not trained again"
    file.write_text('team = "evaders"\nmembers = [{policy = "controller"}]\n')
    assert curves.main(words) == 2
    assert "has a training with other settings" in capsys.readouterr().err
