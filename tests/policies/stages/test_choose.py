"""Policies that choose: torch, ONNX and C take the same options, whatever the mask, and say where there is none."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from sampled import slow_but

from rookery.policies.policy import Policy
from rookery.policies.stages.chain import Beside, Link, StageChain
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.select import Select
from rookery.policies.stages.squash import Squash
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.differences import row_differences
from rookery.sim2real.export.mcu import COMPILER, EMULATOR, SIZE, check_mcu
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header

GEAR = Discrete("gear", ("off", "low", "high", "reverse"))
LAMP = Discrete("lamp", ("dark", "lit"))
NUMBERS = ("x", "y"), (-1.0, 0.0), (1.0, 3.0), ("m", "N"), (0.0, 0.0)
ACTIONS = {
    "discrete": ActionSpec("drive", choices=(GEAR,)),
    "mixed": ActionSpec("drive", *NUMBERS, choices=(GEAR, LAMP)),
    "masked": ActionSpec("drive", choices=(GEAR, LAMP), masked=True),
    "mixed, masked": ActionSpec("drive", *NUMBERS, choices=(LAMP, GEAR), masked=True),
}
KINDS = pytest.mark.parametrize("kind", ACTIONS)


def group_of(action: ActionSpec, targets: int = 0) -> Group:
    return Group(1, (Term("o", 6),), action, targets=(Term("t", targets),) if targets else ())


def policy_of(action: ActionSpec, memory: int = 0, targets: int = 0) -> Policy:
    """With weights so large that all options are taken at some observation."""
    torch.manual_seed(0)
    links = standard(
        6, action.outputs, (16,), memory_size=memory, choose=Choose.of(action), targets=targets, estimator=(4,),
    )  # fmt: skip
    policy = Policy(links).eval()
    with torch.no_grad():
        for name, x in policy.state_dict().items():
            if name.endswith("std"):
                x.uniform_(0.3, 2.0)
            else:
                x.normal_(0.0, 2.0 * x.shape[1] ** -0.5 if x.dim() > 1 else 0.05)
    return policy


def contract_of(policy: Policy, group: Group) -> Contract:
    return with_stages(describe("some-task", {"driver": group}, 0.1), {"driver": policy})


Bundles = Callable[..., tuple[Policy, Path]]


@pytest.fixture(scope="module")
def bundle_of(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """``bundle_of(kind, memory, targets)``: a policy and its bundle, exported once; read it, do not change it."""

    @functools.cache
    def made(kind: str, memory: int = 0, targets: int = 0) -> tuple[Policy, Path]:
        policy = policy_of(ACTIONS[kind], memory, targets)
        contract = contract_of(policy, group_of(ACTIONS[kind], targets))
        return policy, export_bundle({"driver": policy}, contract, tmp_path_factory.mktemp("choose") / "bundle")

    return made


def masks(action: ActionSpec, n: int, seed: int = 1) -> np.ndarray:
    """By turns everything, one option of each choice, anything, and nothing of the last choice."""
    rng = np.random.default_rng(seed)
    parts = []
    for choice in action.choices:
        size = len(choice.options)
        part = np.ones((n, size), bool)
        part[1::4] = np.eye(size, dtype=bool)[rng.integers(size, size=len(part[1::4]))]
        part[2::4] = rng.random((len(part[2::4]), size)) < 0.5
        part[2::4, 0] |= ~part[2::4].any(1)
        parts.append(part)
    parts[-1][3::4] = False
    return np.concatenate(parts, 1)


def chosen(action: ActionSpec, logits: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Indices by the definition, option by option."""
    out = np.empty((len(logits), len(action.choices)))
    for i, row in enumerate(logits):
        start = 0
        for k, choice in enumerate(action.choices):
            fine = [j for j in range(len(choice.options)) if allowed[i, start + j]]
            out[i, k] = max(fine, key=lambda j, row=row, start=start: row[start + j]) if fine else -1
            start += len(choice.options)
    return out


def rows(n: int = 200) -> np.ndarray:
    return 2.0 * np.random.default_rng(0).standard_normal((n, 6)).astype(np.float32)


def stepped(policy: Policy, x: np.ndarray, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Actions and logits by torch, one row after the other."""
    state, out = policy.initial_state(1), []
    with torch.no_grad():
        for i in range(len(x)):
            mask = None if allowed is None else torch.from_numpy(allowed[i : i + 1])
            action, state, logits = policy.step_with_logits(torch.from_numpy(x[i : i + 1]), state, None, mask)
            out.append((action[0].numpy(), logits[0].numpy()))
    actions, logits = (np.stack(part) for part in zip(*out, strict=True))
    return actions, logits


MOST = "mixed, masked"
"""The kind that has everything."""
WITH_MEMORY = [(kind, memory) for kind in ACTIONS for memory in (0, 5)]


@pytest.mark.parametrize(
    "mask", [None, np.ones((4, 5), bool), np.ones((3, 6), bool), np.ones((4, 6), np.uint8), np.ones((4, 6))], ids=repr
)
def test_c_refuses_what_is_no_mask(mask: Any, bundle_of: Bundles, tmp_path: Path) -> None:
    """Anything else would be read beyond its end, or as other numbers."""
    _, bundle = bundle_of("masked")
    native = NativePolicy(compile_library(bundle / "policy.c", tmp_path), read_header(bundle / "policy.h"))
    with pytest.raises(ValueError, match="allowed must be a bool array"):
        native.answers(rows(4), allowed=mask)
    native.answers(rows(4), allowed=np.ones((4, 6), bool))


@pytest.mark.parametrize(("kind", "memory"), slow_but([(MOST, 5)], WITH_MEMORY))
def test_torch_onnx_and_c_choose_alike(kind: str, memory: int, bundle_of: Bundles, tmp_path: Path) -> None:
    action = ACTIONS[kind]
    policy, folder = bundle_of(kind, memory)
    x, count = rows(), len(action.choices)
    mask = masks(action, len(x)) if action.masked else None
    wanted, logits = stepped(policy, x, mask)
    everything = np.ones_like(logits, bool)
    np.testing.assert_array_equal(wanted[:, :count], chosen(action, logits, everything if mask is None else mask))
    for k, choice in enumerate(action.choices):
        assert set(range(len(choice.options))) <= set(wanted[:, k]), "every option is taken"
    assert (np.abs(wanted[:, count:]) <= 1.0).all()

    session = ort.InferenceSession(folder / "policy.onnx", providers=["CPUExecutionProvider"])
    names = [end.name for end in session.get_inputs()]
    assert names == ["obs", *["action_mask"] * action.masked, *["h_in"] * (memory > 0)]
    state, found = np.zeros((1, memory), np.float32), []
    for i in range(len(x)):
        given: dict[str, Any] = {"obs": x[i : i + 1], "h_in": state}
        given |= {} if mask is None else {"action_mask": mask[i : i + 1]}
        y, own, *after = session.run(None, {name: given[name] for name in names})
        state = after[0] if after else state
        found.append(np.concatenate((y, own), 1)[0])
    np.testing.assert_array_equal(np.array(found)[:, :count], wanted[:, :count])
    np.testing.assert_allclose(np.array(found)[:, count:], np.concatenate((wanted, logits), 1)[:, count:], atol=1e-5)

    native = NativePolicy(compile_library(folder / "policy.c", tmp_path), read_header(folder / "policy.h"))
    start = np.arange(len(x)) == 0
    answers = native.follow(x, start, None, mask) if memory else native.answers(x, allowed=mask)
    np.testing.assert_array_equal(answers[:, :count], wanted[:, :count])
    np.testing.assert_allclose(answers[:, count:], np.concatenate((wanted, logits), 1)[:, count:], atol=1e-5)
    commands = native.command(answers[:, : action.size])
    np.testing.assert_array_equal(commands[:, :count], wanted[:, :count])
    low, high = np.array(action.low), np.array(action.high)
    np.testing.assert_allclose(commands[:, count:], low + (wanted[:, count:] + 1.0) / 2.0 * (high - low), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "memory"), slow_but([(MOST, 5)], WITH_MEMORY))
def test_the_bundle_proves_itself(kind: str, memory: int, bundle_of: Bundles) -> None:
    _, folder = bundle_of(kind, memory, targets=3)
    errors = check_bundle(folder)
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
    golden = np.load(folder / "golden.npz")
    assert golden["logits"].shape == (len(golden["observations"]), ACTIONS[kind].options)
    if not ACTIONS[kind].masked:
        assert "action_mask" not in golden
        return
    mask = golden["action_mask"]
    start = 0
    for k, choice in enumerate(ACTIONS[kind].choices):
        part = mask[:, start : start + len(choice.options)]
        alone = part[part.sum(1) == 1].argmax(1)
        assert set(alone) == set(range(len(choice.options))), "each option is once the only one"
        nothing = ~part.any(1)
        assert nothing.any() and (golden["actions"][nothing, k] == -1.0).all()
        assert (golden["actions"][~nothing, k] >= 0.0).all()
        start += len(choice.options)
    assert mask.all(1).any()


@pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in (COMPILER, SIZE, EMULATOR)),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize(("kind", "memory"), slow_but([(MOST, 5)], [("discrete", 0), (MOST, 5)]))
def test_the_microcontroller_chooses_alike(kind: str, memory: int, bundle_of: Bundles) -> None:
    _, folder = bundle_of(kind, memory)
    assert check_mcu(folder)["mcu_max_error"] <= 1e-5


OTHER_C = [
    ("(allowed[i] != 0u) && ", ""),
    ("(best < 0) || (in[i] > in[best])", "(best < 0) || (in[i] < in[best])"),
    ("? -1.0f", "? 0.0f"),
    ("copy(r1, logits, 6);", "copy(r1, logits, 5); logits[5] = 0.0f;"),
    ("best - first[k]", "best"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), slow_but(OTHER_C[:1], OTHER_C))
def test_c_that_chooses_otherwise_is_found(old: str, new: str, bundle_of: Bundles, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle_of("masked")[1], tmp_path / "bundle"))
    text = (folder / "policy.c").read_text()
    assert old in text
    (folder / "policy.c").write_text(text.replace(old, new))
    with pytest.raises(RookeryError, match="is not run"):
        check_bundle(folder)
    with pytest.raises(RookeryError, match=r"does not compile|differs from the torch policy"):
        check_bundle(folder, run_c=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but([MOST], ACTIONS))
def test_nan_comes_out_as_nan(kind: str, bundle_of: Bundles, tmp_path: Path) -> None:
    policy, folder = bundle_of(kind)
    x = rows(4)
    x[1:3, 2] = np.nan, np.inf
    mask = None if not policy.mask_size else np.ones((4, policy.mask_size), bool)
    native = NativePolicy(compile_library(folder / "policy.c", tmp_path), read_header(folder / "policy.h"))
    given = {"obs": x[1:2]} | ({} if mask is None else {"action_mask": mask[1:2]})
    session = ort.InferenceSession(folder / "policy.onnx", providers=["CPUExecutionProvider"])
    assert np.isnan(session.run(["action"], given)[0]).all()
    for found in (native.policy(x, allowed=mask), stepped(policy, x, mask)[0]):
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2, 3]]).all(), "infinity is cut off by the normalizer"


def test_a_mask_that_is_none_is_a_sentence() -> None:
    policy = policy_of(ACTIONS["masked"])
    obs = torch.zeros(2, 3, 6)
    fine = torch.ones(2, 3, 6, dtype=torch.bool)
    assert policy(obs, action_mask=fine).shape == (2, 3, 2)
    for mask in (None, fine.float(), fine[..., :5], fine[:1]):
        with pytest.raises(RookeryError, match=r"give action_mask, torch.bool \[2, 3, 6\], got"):
            policy(obs, action_mask=mask)
    with pytest.raises(RookeryError, match="leave action_mask out"):
        policy_of(ACTIONS["mixed"])(obs, action_mask=fine)


Chain = tuple[Link, ...]
CHOOSE = Choose((2, 2))
WRONG: dict[str, tuple[Chain, str]] = {
    "twice": ((Beside(((CHOOSE,), (CHOOSE,))),), "a chain chooses once"),
    "then a network": ((CHOOSE, Perceptron(2, (), 3)), "its first outputs are the choices"),
    "behind the numbers": (
        (Beside(((Select(6, ((0, 2),)), Squash(2)), (Select(6, ((2, 6),)), CHOOSE))),), "the first of the last branches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_chains_whose_choices_are_not_their_first_outputs_are_refused(name: str) -> None:
    links, message = WRONG[name]
    with pytest.raises(RookeryError, match=message):
        StageChain(links)
    with pytest.raises(RookeryError, match=r"(sizes|choices) of the stage choose is 0"):
        Choose((2, 0) if name == "twice" else ())


def test_a_chain_that_is_not_the_groups_is_refused_by_the_line() -> None:
    action = ACTIONS["masked"]
    policy = policy_of(action)
    others = {
        r"stages\[2\]\.masked is True, but it must be False": replace(action, masked=False),
        r"stages\[2\]\.sizes is \[4, 2\], but it must be \[2, 4\]": replace(action, choices=(LAMP, GEAR)),
        r"must be \[\], the numbers of options": ActionSpec("push", *NUMBERS),
    }
    for message, other in others.items():
        with pytest.raises(RookeryError, match=message):
            contract_of(policy, group_of(other))
    plain = Policy(standard(6, 2, (4,)))
    with pytest.raises(RookeryError, match=r"stages is .* with the stage choose, as the action chooses its gear, lamp"):
        contract_of(plain, group_of(replace(action, masked=False)))


def test_differences_of_choices_count_by_how_much_less_likely_they_are() -> None:
    sizes = (3, 2)
    logits = np.array([[1.0, 1.0 + 1e-6, -3.0, 50.0, 20.0]])
    allowed = np.array([[True, True, False, True, True]])

    def difference(indices: list[float], mask: np.ndarray = allowed, wanted: list[float] | None = None) -> float:
        given, right = (np.concatenate(([x], logits), 1) for x in (indices, wanted or [1.0, 0.0]))
        return float(row_differences(given, right, sizes, mask)[0])

    assert difference([1.0, 0.0]) == 0.0
    assert difference([0.0, 0.0]) == pytest.approx(1e-6, rel=1e-3), "as likely as the other one"
    assert difference([1.0, 1.0]) == pytest.approx(30.0 / 50.0), "in units of the logit"
    assert difference([0.0, 0.0], ~allowed) == np.inf, "not allowed"
    for wrong in (2.0, -1.0, 3.0, 0.5):
        assert difference([wrong, 0.0]) == np.inf
    assert difference([0.0, 0.0], wanted=[-1.0, 0.0]) == np.inf, "none is allowed"
    for stored in (7.0, -2.0, 1e30):  # of a file from elsewhere
        assert difference([0.0, 0.0], wanted=[stored, 0.0]) == np.inf
    assert np.isnan(difference([np.nan, 0.0]))
    off = np.array([[1.0, 0.0, 1.0, 1.0, -3.0, 50.0, 20.0]])
    near = off + np.array([[0, 0, 0, 0, 3e-4, 0, 1e-3]])
    assert row_differences(near, off, sizes)[0] == pytest.approx(1e-4), "3e-4 of 3, not 1e-3 of 20"


@pytest.mark.parametrize("kind", ["masked", "mixed, masked"])
def test_golden_masks_have_all_kinds_of_rows(kind: str) -> None:
    """All options; one alone of each choice, each in its turn; and now and then none of one choice."""
    stage = Choose.of(ACTIONS[kind])
    assert stage is not None
    found = stage.golden_masks(400, np.random.default_rng(0))
    assert found.shape == (400, stage.options)
    parts = np.split(found, np.cumsum(stage.sizes)[:-1], axis=1)
    assert found.all(1).sum() >= 100
    for part in parts:
        alone = part[part.sum(1) == 1]
        assert alone.any(0).all(), "each option is at some time the only one"
        assert 0 < (~part.any(1)).sum() < 40
        assert ((part.sum(1) > 1) & ~part.all(1)).any() or part.shape[1] == 2
