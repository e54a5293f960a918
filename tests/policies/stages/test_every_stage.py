"""Every stage, alone and in chains: torch, C and ONNX against its formula in numpy, JSON, and what it refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from policies_stages import CASES, MODULE, Case, group_of, rows

from rookery.policies.policy import Policy
from rookery.policies.stages import KINDS, stage_class
from rookery.policies.stages.chain import Beside, StageChain
from rookery.policies.stages.estimator import Estimator
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.module import Module
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.select import Select
from rookery.policies.stages.squash import Squash
from rookery.policies.stages.stage import Stage
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header

EPISODE = 9


def contract_of(case: Case, policy: Policy) -> Contract:
    return with_stages(describe("some-task", {"leg": case.group}, 0.01), {"leg": policy})


def wanted(case: Case, policy: Policy, x: Any, start: Any) -> np.ndarray:
    """Outputs [n, out] by the formula, in double precision."""
    weights = {name: value.numpy().astype(float) for name, value in policy.state_dict().items()}
    out = []
    for i, row in enumerate(x.astype(float)):
        state = np.zeros(policy.state_size) if start[i] else state  # noqa: F821
        y, state = case.formula(weights, row, state)
        out.append(y)
    return np.array(out)


def stepped(policy: Policy, x: Any, start: Any) -> np.ndarray:
    """The same by torch."""
    out = []
    with torch.no_grad():
        for i, row in enumerate(torch.from_numpy(x)):
            state = policy.initial_state() if start[i] else state  # noqa: F821
            y, state = policy.step(row, state)
            out.append(y.numpy())
    return np.array(out)


def native_of(case: Case, policy: Policy, folder: Path) -> NativePolicy:
    code, header = c_source(contract_of(case, policy), "leg", policy_arrays(policy), "rookery", "policy.h")
    (folder / "policy.c").write_text(code)
    (folder / "policy.h").write_text(header)
    return NativePolicy(compile_library(folder / "policy.c", folder), read_header(folder / "policy.h"))


def test_every_kind_has_a_case() -> None:
    kinds = {kind for case in CASES.values() for kind in StageChain(case.links).kinds}
    assert kinds | {"module", "controller"} == set(
        KINDS
    )  # these have no C: see test_hierarchical_env for the controller
    assert all(stage_class(kind).kind == kind for kind in KINDS)


@pytest.mark.parametrize("name", CASES)
def test_torch_and_c_compute_the_formula(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    policy = case.policy()
    x = rows(policy)
    start = np.arange(len(x)) % EPISODE == 0
    want = wanted(case, policy, x, start)
    assert np.ptp(want, 0).min() > 0.05, "every output must depend on the input"
    np.testing.assert_allclose(stepped(policy, x, start), want, rtol=1e-6, atol=1e-5)
    native = native_of(case, policy, tmp_path)
    got = native.follow(x, start) if policy.state_size else native.policy(x)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)
    if not policy.state_size:
        with torch.no_grad():
            together = policy(torch.from_numpy(x).view(2, -1, policy.observation_size)).flatten(0, 1)
        np.testing.assert_allclose(together.numpy(), want, rtol=1e-6, atol=1e-5)


WHOLE = ("everything", "attention", "choose", "command")
"""Chains that have all kinds of stages between them."""


def test_whole_chains_have_all_kinds() -> None:
    def kinds(names: Iterable[str]) -> set[str]:
        return {kind for name in names for kind in StageChain(CASES[name].links).kinds}

    assert kinds(WHOLE) == kinds(CASES)


@pytest.mark.parametrize("name", [n if n == WHOLE[0] else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_the_bundle_proves_itself(name: str, tmp_path: Path) -> None:
    """ONNX and C at the golden observations, the weights by their names, and the generated code."""
    case = CASES[name]
    policy = case.policy()
    errors = check_bundle(export_bundle({"leg": policy}, contract_of(case, policy), tmp_path / "bundle"))
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
    x = rows(policy)
    start = np.arange(len(x)) % EPISODE == 0
    session = ort.InferenceSession(tmp_path / "bundle" / "policy.onnx", providers=["CPUExecutionProvider"])
    got = []
    for i, row in enumerate(x):
        state = np.zeros((1, policy.state_size), np.float32) if start[i] else state  # noqa: F821
        given = {"obs": row[None]} | ({"h_in": state} if policy.state_size else {})
        y, *after = session.run(None, given)
        state = after[0] if after else state
        got.append(y[0])
    np.testing.assert_allclose(np.array(got), wanted(case, policy, x, start), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_json_gives_the_same_chain(name: str) -> None:
    case = CASES[name]
    policy = case.policy()
    values = policy.to_json()
    assert StageChain.from_json(values).links == tuple(case.links)
    again = Policy(StageChain.from_json(values).links)
    again.load_state_dict(policy.state_dict())
    x = torch.from_numpy(rows(policy))
    state = torch.randn(len(x), policy.state_size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for a, b in zip(policy.step(x, state), again.step(x, state), strict=True):
            assert torch.equal(a, b)
    assert Contract.from_json(contract_of(case, policy).dumps()).groups["leg"].trained == policy.chain


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_slopes(name: str) -> None:
    """Along a random direction of all weights, by central differences in double precision."""
    case = CASES[name]
    policy = case.policy().double()
    x = torch.from_numpy(rows(policy, 20)).double()
    generator = torch.Generator().manual_seed(2)
    state = torch.randn(20, policy.state_size, generator=generator, dtype=torch.float64)
    pull = torch.randn(20, policy.action_size, generator=generator, dtype=torch.float64)
    parameters = list(policy.parameters())
    if not parameters:
        return
    directions = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
    gradients = torch.autograd.grad((policy.step(x, state)[0] * pull).sum(), parameters)
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
    values = []
    with torch.no_grad():
        for sign in (1e-6, -2e-6):
            for p, d in zip(parameters, directions, strict=True):
                p += sign * d
            values.append((policy.step(x, state)[0] * pull).sum())
    assert isinstance(slope, torch.Tensor)
    assert slope.item() == pytest.approx((values[0] - values[1]).item() / 2e-6, rel=1e-3, abs=1e-5)


def test_known_targets_take_the_place_of_predictions(tmp_path: Path) -> None:
    case = CASES["estimator"]
    policy = case.policy()
    x = rows(policy)
    known = np.random.default_rng(3).standard_normal((len(x), 3)).astype(np.float32) * 3.0
    known[::2, 0] = np.nan
    w = {name: value.numpy().astype(float) for name, value in policy.state_dict().items()}
    limited = np.clip((known - w["estimator.mean"]) / w["estimator.std"], -5.0, 5.0)
    want = np.where(np.isnan(known), wanted(case, policy, x, np.ones(len(x), bool)), limited)
    with torch.no_grad():
        got = policy(torch.from_numpy(x), torch.from_numpy(known)).numpy()
        predicted = policy.predict(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)
    native = native_of(case, policy, tmp_path)
    np.testing.assert_allclose(native.policy_known(x, known), want, rtol=1e-6, atol=1e-5)
    scaled = w["estimator.mean"] + w["estimator.std"] * wanted(case, policy, x, np.ones(len(x), bool))
    np.testing.assert_allclose(predicted, scaled, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(native.predict(x), scaled, rtol=1e-5, atol=1e-5)


def test_an_estimator_in_a_branch_predicts_behind_what_is_before_it(tmp_path: Path) -> None:
    case = CASES["everything"]
    policy = case.policy()
    x = rows(policy)
    with torch.no_grad():
        want = policy.predict(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(native_of(case, policy, tmp_path).predict(x), want, rtol=1e-5, atol=1e-5)
    assert np.ptp(want, 0).min() > 0.05


def test_a_module_has_onnx_and_says_that_it_has_no_c(tmp_path: Path) -> None:
    policy = Policy(MODULE).eval()
    group = group_of(6, 3)
    contract = with_stages(describe("some-task", {"leg": group}, 0.01), {"leg": policy})
    with pytest.raises(
        RookeryError, match=r"the module 'policies_gru:gru', and C export knows the stages .*--target onnx"
    ):
        c_source(contract, "leg", policy_arrays(policy), "rookery", "policy.h")
    from rookery.sim2real.export.onnx import export_onnx

    export_onnx(policy, contract, "leg", tmp_path / "policy.onnx")
    session = ort.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    x = rows(policy)
    with torch.no_grad():
        want = policy(torch.from_numpy(x)).numpy()
    got = np.concatenate([session.run(None, {"obs": row[None]})[0] for row in x])
    np.testing.assert_allclose(got, want, atol=1e-5)


REFUSED = {
    "sizes": (lambda: StageChain((Normalize(3), Squash(4))), "the stage squash takes 4 numbers, and gets 3"),
    "sizes in a branch": (
        lambda: Beside(((Select(5, ((0, 2),)), Squash(3)), (Normalize(5),))), "the stage squash takes 3 numbers, and gets 2",
    ),
    "branches of other rows": (lambda: Beside(((Normalize(5),), (Normalize(4),))), "normalize takes 4 numbers, and gets 5"),
    "one branch": (lambda: Beside(((Normalize(5),),)), "at least two branches"),
    "an empty branch": (lambda: Beside(((Normalize(5),), ())), "at least two branches, each with a stage"),
    "an empty chain": (lambda: StageChain(()), "a chain needs a stage"),
    "two estimators": (
        lambda: StageChain((Beside(((Estimator(4, (), 2),), (Estimator(4, (), 2),))),)), "one state estimator at most",
    ),
    "a slice outside": (lambda: Select(4, ((2, 5),)), r"the slice \[2, 5\] is no part of a row of 4 numbers"),
    "no slice": (lambda: Select(4, ()), "select needs a slice"),
    "no width": (lambda: Perceptron(4, (3, 0), 2), "hidden of the stage perceptron is 0"),
    "no state": (lambda: GRU(4, 0), "size of the stage gru is 0"),
    "no clip": (lambda: Normalize(4, 0.0), "obs_clip must be a number above 0"),
    "no factory": (lambda: Module(4, 2, ""), "needs its factory"),
}  # fmt: skip


def every_stage() -> Iterator[Stage]:
    """One stage of each kind that has a case."""
    kinds: dict[str, Stage] = {}
    links = [link for case in CASES.values() for link in case.links]
    while links:
        link = links.pop()
        if isinstance(link, Beside):
            links += [inner for branch in link.branches for inner in branch]
        else:
            kinds[link.kind] = link
    yield from kinds.values()


@pytest.mark.parametrize("least", [0, -1])
def test_every_size_is_at_least_one(least: int) -> None:
    """Whole numbers of all stages but places in a row: number 0 is one of those."""
    tried = 0
    for stage in every_stage():
        for field in dataclasses.fields(stage):
            value = getattr(stage, field.name)
            size = isinstance(value, int) and not isinstance(value, bool) and field.name != "present"
            sizes = isinstance(value, tuple) and all(isinstance(number, int) for number in value) and bool(value)
            if size or sizes:
                with pytest.raises(RookeryError):
                    dataclasses.replace(stage, **{field.name: least if size else (least, *value[1:])})
                tried += 1
    assert tried > 20


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(RookeryError, match=message):
        make()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"contract line stages is \[\]"),
        ([{"stage": "squish"}], r"unknown stage at contract line stages\[0\]\.stage 'squish': did you mean 'squash'"),
        ([{"size": 3}], r"contract line stages\[0\] is"),
        ([{"stage": "squash", "size": 3, "function": "clip"}], r"stages\[0\]\.formula is None"),
        ([Squash(3).to_json() | {"width": 3}], r"stages\[0\]\.width"),
        ([Squash(3).to_json() | {"size": True}], r"stages\[0\]\.size is True"),
        (
            [Squash(3).to_json() | {"function": "sin"}],
            r"stages\[0\]\.function is 'sin', but it must be one of clip, tanh",
        ),
        ([Squash(3).to_json() | {"size": 0}], r"contract line stages\[0\]: size of the stage squash is 0"),
        ([{"stage": "beside", "branches": [[Squash(3).to_json()], []]}], r"stages\[0\]\.branches\[1\] is \[\]"),
        ([{"stage": "beside", "branches": "x"}], r"stages\[0\] is"),
        (
            [Squash(3).to_json(), Squash(2).to_json()],
            "contract line stages: the stage squash takes 2 numbers, and gets 3",
        ),
    ],
)
def test_a_wrong_line_is_named(values: Any, message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        StageChain.from_json(values)


def test_branches_without_end_are_refused() -> None:
    values: Any = [Squash(3).to_json()]
    for _ in range(30):
        values = [{"stage": "beside", "branches": [values, [Squash(3).to_json()]]}]
    with pytest.raises(RookeryError, match="of at most 8 chains inside of each other"):
        StageChain.from_json(values)


def test_names_tell_stages_of_one_kind_apart() -> None:
    chain = StageChain((Perceptron(3, (), 4), Beside(((Perceptron(4, (), 2),), (Squash(4),))), Perceptron(6, (), 1)))
    assert [leaf.name for leaf in chain.leaves] == ["perceptron", "perceptron_2", "squash", "perceptron_3"]
    assert list(chain.weights())[:3] == ["perceptron.weight_0", "perceptron.bias_0", "perceptron_2.weight_0"]
