"""Policies whose numbers are not finite, or whose actions are not: each command says so in one sentence and ends with exit code
2; no video, bundle or report is left behind, and nothing counts as a success.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from sampled import slow_but

from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.experiments.zoo import zoo
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim2real.export.bundle import export_bundle


def nan(policy: Policy) -> None:
    layers_of(policy)[1].weight.data[3, 2] = torch.nan


def infinite(policy: Policy) -> None:
    layers_of(policy)[0].bias.data[0] = torch.inf


def no_spread(policy: Policy) -> None:
    policy.get_buffer("normalize.std")[0] = 0.0


def overflowing(policy: Policy) -> Policy:
    """A policy of finite weights that acts by infinity minus infinity at every observation."""
    memory = 8 if policy.state_size else 0
    out = Policy(standard(policy.observation_size, policy.action_size, (64, 64), "relu", memory_size=memory))
    first, second, last = layers_of(out)
    with torch.no_grad():
        first.bias[0] = 3e38
        second.weight[:2, 0] = 3e38
        last.weight[:, 0] = 1.0
        last.weight[:, 1] = -1.0
    return out


LOADED = {
    nan: "policy.safetensors holds NaN or infinity in perceptron.weight_1: take an earlier checkpoint or another run.",
    infinite: "policy.safetensors holds NaN or infinity in perceptron.bias_0: take",
    no_spread: "policy.safetensors holds a standard deviation of zero or below in normalize.std: take",
}
COMMANDS = {
    "eval": ("RUN", "--episodes", "2"),
    "gate": ("RUN", "--episodes", "2", "--interval", "0.9", "--rounds", "0", "--combinations", "1", "--out", "OUT"),
    "play": ("RUN", "--seconds", "0.2", "--size", "64", "64", "--out", "OUT.mp4"),
    "export": ("RUN", "--out", "OUT"),
    "train": (
        "drone-hover",
        "--init",
        "RUN",
        "--num-envs",
        "4",
        "--steps",
        "1000",
        "--hidden",
        "64",
        "64",
        "--activation",
        "relu",
        "--out",
        "OUT",
    ),
}


def broken(folder: Path, name: str, change: Callable[[Policy], Policy | None]) -> Path:
    """A policy of the zoo with a fault, or another one in its place, the checksum being right."""
    policies, contract = load_policy(zoo()[name])
    policies["drone"] = change(policies["drone"]) or policies["drone"]
    save_policy(folder / "run", policies, contract)
    return folder / "run"


def refused(folder: Path, run: Path, command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that ends with exit code 2 and leaves nothing but perhaps a run without a policy."""
    words = {"RUN": str(run), "OUT": str(folder / "out"), "OUT.mp4": str(folder / "out.mp4")}
    assert main([command, *(words.get(word, word) for word in COMMANDS[command])]) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "success" not in out
    left = {path.name for path in folder.rglob("*") if run not in path.parents and path != run}
    assert not left & {"out.mp4", "gate.json", "policy.onnx", "policy.c", "policy.safetensors", "golden.npz"}
    return err.splitlines()[-1]


EVERY_LOAD = [(change, command) for change in LOADED for command in COMMANDS]


@pytest.mark.parametrize(
    ("change", "command"),
    slow_but([*((nan, command) for command in COMMANDS), (infinite, "eval"), (no_spread, "eval")], EVERY_LOAD),
)
def test_weights_that_are_not_finite_are_not_loaded(tmp_path, capsys, change, command):
    assert LOADED[change] in refused(tmp_path, broken(tmp_path, "drone-hover", change), command, capsys)


ACTING = [*((c, "drone-hover") for c in COMMANDS), *((c, "drone-hover-gru") for c in COMMANDS if c != "train")]


@pytest.mark.parametrize(
    ("command", "name"),
    slow_but([("eval", "drone-hover-gru"), ("export", "drone-hover-gru"), *ACTING[:3], ACTING[4]], ACTING),
)
def test_actions_that_are_not_finite_end_the_command(tmp_path, capsys, command, name):
    said = refused(tmp_path, broken(tmp_path, name, overflowing), command, capsys)
    acts = (
        "the policy acts by NaN"
        if command == "export"
        else "actions of 'drone' contain NaN or infinity, first in world"
    )
    assert said.startswith(f"rookery: {acts}")


@pytest.mark.slow
def test_a_bundle_whose_network_gives_nan_fails_its_check(tmp_path, capsys):
    export_bundle(*open_run(Path("drone-hover")), tmp_path / "bundle")
    model = onnx.load(tmp_path / "bundle" / "policy.onnx")
    weights = next(t for t in model.graph.initializer if len(t.dims) == 2)
    changed = np.full(tuple(weights.dims), np.nan, np.float32)
    weights.CopyFrom(onnx.numpy_helper.from_array(changed, weights.name))
    onnx.save(model, tmp_path / "bundle" / "policy.onnx")
    capsys.readouterr()
    assert main(["export", "--check", str(tmp_path / "bundle")]) == 2
    out, err = capsys.readouterr()
    assert not out and "policy.onnx differs from the torch policy by nan at golden observation 0" in err
    assert "Traceback" not in err
