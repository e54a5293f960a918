"""Tasks whose agents choose, from `rookery train FILE:Task` to hardware: every command, and what stops them."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import shifting
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.run_env import open_env
from rookery.experiments.runs import open_run
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim2real.gate.exported import Compared, NativeAct, compile_policies

FILE = shifting.__file__
KINDS = ("Shift", "ShiftMixed", "ShiftMasked")


class Runs:
    """`runs / kind` is the folder of a run of that kind, of some 40 iterations, trained when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __truediv__(self, kind: str) -> Path:
        run = self.folder / kind
        if not run.exists():
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = main(["train", f"{FILE}:{kind}", "--steps", "40000", "--num-envs", "64", "--out", str(run)])
            assert code == 0, said.getvalue()
        return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_and_every_command_takes_it(
    kind: str, runs: Runs, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(runs / kind)
    assert main(["eval", run, "--episodes", "32", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["success_rate"] > 0.9
    assert figures["metrics"]["fouls"] == 0.0, "what is not allowed is never taken"
    assert main(["play", run, "--seconds", "0.3", "--draft", "--out", "video.mp4"]) == 0
    assert main(["export", run, "--out", "bundle"]) == 0
    capsys.readouterr()
    assert main(["export", "--check", "bundle", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["onnx_max_error"] <= 1e-5 and checked["c_max_error"] <= 1e-5
    assert checked["observations"] >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_and_c_choose_as_torch_does_in_the_task(kind: str, runs: Runs, in_tmp: Path) -> None:
    """At all that is observed in 40 episodes, with the masks of that moment."""
    policies, contract = open_run(runs / kind)
    env, act = open_env(runs / kind, 20, seed=3)
    spec = env.groups["driver"].action
    assert main(["export", str(runs / kind), "--out", "bundle"]) == 0
    session = ort.InferenceSession(in_tmp / "bundle" / "policy.onnx", providers=["CPUExecutionProvider"])
    native = Compared(NativeAct(compile_policies(policies, contract, in_tmp), env), act, env)
    obs, _ = env.reset()
    taken = []
    for _ in range(40):
        actions = native(obs)
        for world, agent in ((0, 0), (7, 1), (19, 0)):
            given = {"obs": obs["driver"][world, agent][None].numpy()}
            if spec.masked:
                given["action_mask"] = env.action_mask["driver"][world, agent][None].numpy()
            action, logits = session.run(None, given)
            count = len(spec.choices)
            np.testing.assert_array_equal(action[0, :count], actions["driver"][world, agent, :count].numpy())
            np.testing.assert_allclose(action[0], actions["driver"][world, agent].numpy(), atol=1e-5)
            np.testing.assert_allclose(logits[0], native._acting.logits["driver"][world, agent], atol=1e-5, rtol=1e-5)
        taken.append(actions["driver"][..., 0])
        obs = env.step(actions)[0]
    env.close()
    assert native.difference <= 1e-5
    assert len(torch.stack(taken).unique()) > 1, "it chooses by what it observes"


@pytest.mark.slow
def test_a_run_goes_on_and_is_a_start(runs: Runs, in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = f"{FILE}:ShiftMasked"
    short = ["--num-envs", "64", "--steps"]
    assert main(["train", task, *short, "4096", "--out", "half"]) == 0
    assert main(["train", "--resume", "half", "--steps", "8192"]) == 0
    start = ["--init", str(runs / "ShiftMasked")]
    # with a rate of nearly 0 the policy stays what it was
    assert main(["train", task, *short, "4096", *start, "--learning-rate", "1e-9", "--out", "more"]) == 0
    capsys.readouterr()
    assert main(["eval", "more", "--episodes", "16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["success_rate"] > 0.9
    assert main(["train", f"{FILE}:Shift", *short, "4096", *start, "--out", "other"]) == 2
    assert "the policy to start from" in capsys.readouterr().err
    assert main(["train", task, *short, "4096", "--no-share", "--out", "apart"]) == 0
    assert main(["eval", "apart", "--episodes", "8"]) == 0
    assert main(["train", task, *short, "4096", "--memory", "gru", "--out", "remembering"]) == 0
    assert main(["eval", "remembering", "--episodes", "8"]) == 0
    assert main(["export", "remembering", "--out", "bundle"]) == 0
    assert main(["export", "--check", "bundle"]) == 0


@pytest.mark.slow
def test_the_gate_compares_the_c_and_delays_the_choices(runs: Runs, in_tmp: Path) -> None:
    factor = "[factors.action_delay]\nlow = 0.0\nhigh = 0.05\nsource = 'a test'\nidle = true\n"
    figure = "[figures.action_change]\nmost = 1.0\nsource = 'a test'\n"
    (in_tmp / "rail.toml").write_text(
        f"summary = 'A rail.'\nsuccess = 0.8\ncombinations = 0.5\nworst = 0.3\n{factor}{figure}"
    )
    small = ["--episodes", "20", "--interval", "0.3", "--rounds", "0", "--combinations", "1", "--required-only"]
    assert main(["gate", str(runs / "ShiftMasked"), "--profile", "rail.toml", *small, "--out", "gate"]) == 0
    report = json.loads((in_tmp / "gate" / "gate.json").read_text())
    (exported,) = [case for case in report["cases"] if case["name"] == "exported C"]
    assert exported["verdict"] == "pass"
    (change,) = report["figures"]
    assert 0.0 < change["value"] < 1.0


def test_a_mask_that_forbids_everything_is_one_sentence(in_tmp: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", f"{FILE}:Stuck", "--steps", "4096", "--num-envs", "16", "--out", "run"]) == 2
    said = capfd.readouterr().err
    assert "no option of 'direction' is allowed to group 'driver' in world" in said and "Traceback" not in said


def test_it_is_one_sentence_for_a_finished_policy_too_but_not_for_who_takes_no_part(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, _ = open_run(runs / "ShiftMasked")
    env = rookery.make(f"{FILE}:Stuck", 2, seed=0)
    act = act_with(policies, env)
    obs, _ = env.reset()
    with pytest.raises(rookery.RookeryError, match="no option of 'direction' is allowed to group 'driver' in world 0"):
        act(obs)
    monkeypatch.setattr(env.task, "active", lambda: {"driver": torch.zeros(2, 2, dtype=torch.bool)})
    env.step(act(obs))  # indices of options, which nobody looks at
    env.close()


@pytest.mark.slow
def test_sampling_takes_options_as_likely_as_they_are(runs: Runs) -> None:
    env, _ = open_env(runs / "ShiftMasked", 16, seed=0)
    policies, _ = open_run(runs / "ShiftMasked")
    with torch.no_grad():
        policies["driver"].part("perceptron").weight_2.mul_(0.2)  # less sure of itself
        policies["driver"].part("perceptron").bias_2.mul_(0.2)
    obs, _ = env.reset()
    drawing = act_with(policies, env, sampling=torch.Generator().manual_seed(5))
    drawn = torch.stack([drawing(obs)["driver"] for _ in range(4000)])
    logits, mask = drawing.logits["driver"], env.action_mask["driver"]
    env.close()
    for part, k in ((slice(0, 3), 0), (slice(3, 5), 1)):
        wanted = logits[..., part].masked_fill(~mask[..., part], -torch.inf).softmax(-1)
        found = torch.stack([(drawn[..., k] == i).float().mean(0) for i in range(part.stop - part.start)], -1)
        assert (wanted.max(-1).values < 0.99).any()
        assert (found - wanted).abs().max() < 0.03


def test_eval_samples_where_it_is_asked_to(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    returns = []
    for more in ([], ["--sample"], ["--sample"]):
        assert main(["eval", str(runs / "ShiftMasked"), "--episodes", "16", "--json", *more]) == 0
        returns.append(json.loads(capsys.readouterr().out)["return_mean"])
    assert returns[0] != returns[1] == returns[2]
    assert main(["eval", "drone-hover", "--sample", "--episodes", "1"]) == 2
    assert "no choices" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_bench_takes_options_of_choices(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "env", f"{FILE}:{kind}", "--num-envs", "8", "--seconds", "0.2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env_steps_per_s"] > 0.0


def test_untrained_policies_are_judged_alike() -> None:
    """An evaluation of the classical kind still takes no masks: only policies choose by them."""
    env = rookery.make(f"{FILE}:Shift", 4, seed=0)
    still = torch.tensor(env.groups["driver"].action.rest).expand(4, 2, -1)
    assert evaluate(env, lambda _: {"driver": still}, 4)["metrics"]["fouls"] == 0.0
    env.close()
