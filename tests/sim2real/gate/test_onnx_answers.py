"""The gate's comparison of ONNX with torch at what a policy saw."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.policies.policy import Policy
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.module import Module
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.sim.trust import remember
from rookery.sim2real.build import build_contract
from rookery.sim2real.gate import onnx_answers
from rookery.sim2real.gate.onnx_answers import onnx_difference

NET = """import torch


def make(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.SiLU(), torch.nn.Linear(8, outputs))
"""
COUNTING = (
    NET
    + """

class Counting(torch.nn.Linear):
    def forward(self, x):
        CALLS.append(0)
        return super().forward(x) + 1e-3 * len(CALLS)


CALLS = []
make = Counting
"""
)


def of_module(folder: Path, inputs: int) -> Policy:
    """A network that has no C."""
    (folder / "net.py").write_text(NET)
    remember(f"{folder / 'net.py'}:make")
    first, last = standard(inputs, 4, (8,))[0], standard(inputs, 4, (8,))[-1]
    return Policy((first, Module(inputs, 4, f"{folder / 'net.py'}:make"), last)).eval()


def of_memory(folder: Path, inputs: int) -> Policy:
    """A network whose answers depend on what it saw before, since the episode began."""
    rest = standard(8, 4, (8,))[1:]
    return Policy((standard(inputs, 4, (8,))[0], GRU(inputs, 8), *rest)).eval()


@pytest.mark.slow
@pytest.mark.parametrize("make", [of_module, of_memory])
def test_the_exported_network_is_compared_and_a_planted_difference_found(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = rookery.make(
        "drone-hover", 3, seed=1, config={"episode_s": 0.5, "settled_s": 0.1}
    )  # episodes begin anew meanwhile
    torch.manual_seed(0)
    policies = {"drone": make(tmp_path, env.groups["drone"].observation_size)}
    contract = build_contract(env, policies)
    act = act_with(policies, env)
    assert 0.0 < onnx_difference(policies, contract, env, act, tmp_path) < 1e-5
    export = onnx_answers.export_onnx

    def wrong(policy: Policy, *rest: Any) -> None:
        planted = copy.deepcopy(policy)
        with torch.no_grad():
            next(p for p in planted.parameters() if p.dim() > 1).mul_(1.5)
        export(planted, *rest)

    monkeypatch.setattr(onnx_answers, "export_onnx", wrong)
    assert onnx_difference(policies, contract, env, act, tmp_path) > 1e-3
    env.close()


@pytest.mark.slow
def test_what_a_network_knows_beside_its_input_is_found(tmp_path: Path) -> None:
    """Such as the simulation's true state, or here the number of its calls: in its ONNX is what it was at the export."""
    (tmp_path / "net.py").write_text(COUNTING)
    remember(f"{tmp_path / 'net.py'}:make")
    env = rookery.make("drone-hover", 3, seed=1, config={"episode_s": 0.5, "settled_s": 0.1})
    size = env.groups["drone"].observation_size
    first, *_, last = standard(size, 4, (8,))
    policies = {"drone": Policy((first, Module(size, 4, f"{tmp_path / 'net.py'}:make"), last)).eval()}
    contract = build_contract(env, policies)
    assert onnx_difference(policies, contract, env, act_with(policies, env), tmp_path) > 1e-3
    env.close()
