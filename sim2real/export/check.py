"""Proves a bundle without torch: ONNX Runtime and the compiled C, each against the golden vectors, and every file
against its contract.

A bundle may come from anyone: its files are read with bounds, its network and its C run in a child process with limits, and
C other than that which Rookery generates from contract and weights runs only where the caller asks for it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages import KINDS
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, onnx_arrays, parse_json, read_npz, read_onnx
from rookery.sim2real.compatibility import differences, short
from rookery.sim2real.contract import Contract, ContractGroup, fingerprint_of
from rookery.sim2real.export.answers import LIBRARY, ask_c, ask_onnx
from rookery.sim2real.export.bundle import bundle_files
from rookery.sim2real.export.differences import row_differences
from rookery.sim2real.export.native import Header, compile_library, read_header
from rookery.sim2real.export.onnx import (
    CONTRACT_KEY,
    EQUAL_KEY,
    EVENTS,
    GROUP_KEY,
    INPUT,
    KNOWN,
    LOGITS,
    MASK,
    OUTPUT,
    STATE,
    STATE_OUTPUT,
)
from rookery.sim2real.export.trust import write_source

if TYPE_CHECKING:
    import onnx

Array = NDArray[np.float32]
AGAIN = "export the bundle again with `rookery export RUN --out DIR`"
LEAST = 1000
"""Fewest golden observations that count as a proof."""
GOLDEN_BYTES = 64 << 20
"""Most bytes of a group's golden vectors."""


@dataclass(frozen=True)
class Golden:
    """Observations [n, O] and the torch policy's actions and logits [n, D + C], float32; with a state estimator the known
    targets [n, M], as `known`; with a memory where it begins anew, `start` [n] bool; with a mask that [n, C] bool; with
    decisions at events those [n, E] bool; with choices their numbers of options."""

    observations: Array
    answers: Array
    known: Array | None = None
    start: NDArray[np.bool_] | None = None
    mask: NDArray[np.bool_] | None = None
    events: NDArray[np.bool_] | None = None
    choice_sizes: tuple[int, ...] = ()

    @property
    def questions(self) -> dict[str, NDArray[Any]]:
        """Inputs of the network, by name."""
        given = {INPUT: self.observations, KNOWN: self.known, "start": self.start, MASK: self.mask, EVENTS: self.events}
        return {name: array for name, array in given.items() if array is not None}


def check_bundle(folder: Path | str, tolerance: float = 1e-5, run_c: bool = False) -> dict[str, float]:
    """Reload a bundle, run it, and compare. torch is not imported.

    Args:
        folder: what `export_bundle` wrote.
        tolerance: largest difference allowed from the torch policy's actions, which lie in [-1, 1], and from its logits, in
            units of the larger of 1 and their size; so much smaller may the logit of another choice be.
        run_c: also run C that Rookery does not generate from the bundle's contract and weights; it has the rights of the
            user.

    Returns:
        `onnx_max_error` and `c_max_error`, the largest differences over all groups, and `observations`, how many were
        tried.

    Raises:
        RookeryError: when a file is missing, broken or of another export, when there is no C compiler, when the C may not
            run, or when a difference exceeds the tolerance.
    """
    folder = Path(folder)
    contract = read_bundle_contract(folder)
    result = {"onnx_max_error": 0.0, "c_max_error": 0.0, "observations": 0}
    for group, files in bundle_files(contract).items():
        model = open_onnx(folder / files["onnx"], contract, group)
        golden = read_golden(folder / files["golden"], contract, group)
        known = read_known(folder / files["golden"], contract, group, golden)
        weights = read_weights(model, folder / files["onnx"])
        with _own_stages(contract.groups[group]), tempfile.TemporaryDirectory(prefix="rookery-check-") as build:
            onnx_error = max(_check_onnx(model, g, tolerance, folder / files["onnx"]) for g in (golden, *known))
            header = check_header(folder / files["h"], contract, group)
            source = write_source(folder, files, contract, group, header, weights, Path(build), run_c)
            c_error = _check_c(source, folder / files["c"], header, contract.groups[group], (golden, *known), tolerance)
        result["onnx_max_error"] = max(result["onnx_max_error"], onnx_error)
        result["c_max_error"] = max(result["c_max_error"], c_error)
        result["observations"] += len(golden.observations)
    return result


@contextlib.contextmanager
def _own_stages(group: ContractGroup) -> Iterator[None]:
    """Errors of a policy with a stage from outside this package name it: a new export would not help."""
    try:
        yield
    except RookeryError as e:
        stages = [leaf.stage for leaf in group.trained.leaves if leaf.stage.kind not in KINDS]
        if not stages:
            raise
        raise RookeryError(
            f"{e} Its stage {stages[0].kind} is none of Rookery's: compare what its code() writes with its forward()."
        ) from e


def read_bundle_contract(folder: Path) -> Contract:
    """The contract of a bundle folder, with a sentence when the folder is none or lacks a file."""
    if not folder.is_dir():
        raise RookeryError(f"{folder} is not a folder: give the folder that `rookery export RUN --out DIR` wrote.")
    contract = Contract.read(folder)
    for group, files in bundle_files(contract).items():
        for name in files.values():
            if not (folder / name).is_file():
                if contract.groups[group].trained.c_refused:
                    raise RookeryError(
                        f"{folder} has no {name}, and its network has stages without C, so there is no whole bundle of it: "
                        "`rookery gate RUN` compares its ONNX with the network."
                    )
                raise RookeryError(
                    f"{folder} has no {name}, so it is no whole bundle: `rookery export RUN --out DIR` without --target writes "
                    "one."
                )
    return contract


def read_golden(path: Path, contract: Contract, group: str) -> Golden:
    """The golden vectors of a group, checked against its contract.

    Raises:
        RookeryError: when the file is broken, of other sizes, too short, or from another export.
    """
    chain = contract.groups[group].trained
    try:
        stored = read_npz(path, GOLDEN_BYTES)
        start = stored["start"] if chain.state_size else None
        flags = {"mask": (MASK, chain.mask_size), "events": (EVENTS, len(chain.events))}
        told = {name: stored[array] for name, (array, size) in flags.items() if size}
        logits = [stored["logits"]] if chain.options else []
        answers = _beside(stored["actions"], *logits)
        golden = Golden(stored["observations"], answers, start=start, **told, choice_sizes=chain.choice_sizes)
        mark = str(stored["fingerprint"])
    except (OSError, ValueError, KeyError) as e:
        raise RookeryError(f"{path} is damaged ({e}): {AGAIN}.") from e
    n = len(golden.observations) if golden.observations.ndim else 0
    wanted = ((n, chain.inputs), (n, chain.outputs + chain.options))
    if (golden.observations.shape, golden.answers.shape) != wanted:
        given = f"{golden.observations.shape} and {golden.answers.shape}"
        raise RookeryError(
            f"{path} holds arrays of {given}, and the contract wants {wanted[0]} and {wanted[1]}: {AGAIN}."
        )
    if n < LEAST or golden.observations.dtype != np.float32 or golden.answers.dtype != np.float32:
        raise RookeryError(f"{path} must hold at least {LEAST} float32 observations and actions: {AGAIN}.")
    for name, array in told.items():
        if array.dtype != np.bool_ or array.shape != (n, flags[name][1]):
            raise RookeryError(f"{path} must hold {flags[name][0]} of {(n, flags[name][1])} booleans: {AGAIN}.")
    if not (np.isfinite(golden.observations).all() and np.isfinite(golden.answers).all()):
        raise RookeryError(f"{path} holds numbers that are not finite: {AGAIN}.")
    if start is not None and not (start.dtype == np.bool_ and start.shape == (n,) and start[0] and start[1:].any()):
        raise RookeryError(
            f"{path} must say at which of its {n} observations, the first among them, episodes start: {AGAIN}."
        )
    if mark != contract.fingerprint:
        raise RookeryError(f"{path} belongs to another contract than the contract.json beside it: {AGAIN}.")
    return golden


def read_known(path: Path, contract: Contract, group: str, golden: Golden) -> list[Golden]:
    """The golden vectors of a policy with a state estimator where some targets are known; none of one without.

    Raises:
        RookeryError: when they are missing or of other sizes.
    """
    chain = contract.groups[group].trained
    targets = chain.targets
    if not targets:
        return []
    try:
        stored = read_npz(path, GOLDEN_BYTES)
        logits = [stored["known_logits"]] if chain.options else []
        answers = _beside(stored["known_actions"], *logits)
        known = replace(golden, answers=answers, known=stored["known_targets"])
    except (OSError, ValueError, KeyError) as e:
        raise RookeryError(f"{path} is damaged ({e}): {AGAIN}.") from e
    assert known.known is not None
    wanted = (golden.answers.shape, (len(golden.observations), targets))
    single = known.answers.dtype == np.float32 and known.known.dtype == np.float32
    if (known.answers.shape, known.known.shape) != wanted or not single:
        raise RookeryError(f"{path} must hold float32 arrays of {wanted} for known targets: {AGAIN}.")
    return [known]


def _beside(actions: Array, *logits: Array) -> Array:
    """Actions and logits, if there are any, side by side."""
    return np.concatenate((actions, *logits), 1) if logits else actions


def compare(answer: Array, golden: Golden, tolerance: float, path: Path) -> float:
    """Largest difference from the golden actions and logits.

    Raises:
        RookeryError: when it exceeds the tolerance, or an answer is NaN.
    """
    if answer.shape != golden.answers.shape or answer.dtype != np.float32:
        raise RookeryError(f"{path} answers with {answer.dtype} numbers {answer.shape}: {AGAIN}.")
    error = row_differences(answer, golden.answers, golden.choice_sizes, golden.mask)
    worst = float(error.max())
    if not worst <= tolerance:  # also catches NaN
        row = int(np.nan_to_num(error, nan=np.inf).argmax())
        raise RookeryError(
            f"{path} differs from the torch policy by {worst:.3g} at golden observation {row}, "
            f"and {tolerance:g} is allowed: {AGAIN}."
        )
    return worst


def open_onnx(path: Path, contract: Contract, group: str) -> onnx.ModelProto:
    """An ONNX model whose sizes and metadata agree with the contract; it does not run.

    Raises:
        RookeryError: it is damaged, or of another contract or group.
    """
    try:
        model = read_onnx(path)
    except (OSError, ValueError) as e:
        raise RookeryError(f"{path} is not a readable ONNX file ({e}): {AGAIN}.") from e
    meta = {line.key: line.value for line in model.metadata_props}
    try:
        inner = parse_json(meta[CONTRACT_KEY])
        if not isinstance(inner, Mapping):
            raise Damaged("no object")
    except (KeyError, ValueError) as e:
        raise RookeryError(f"{path} carries no Rookery contract in its metadata: {AGAIN}.") from e
    if meta.get(GROUP_KEY) != group:
        raise RookeryError(f"{path} is the policy of group {short(meta.get(GROUP_KEY))}, not of {group!r}: {AGAIN}.")
    found = differences(contract.to_json(), inner)
    if found or contract.fingerprint != fingerprint_of(inner):
        line, ours, theirs = found[0] if found else ("(some line)", "one thing", "another")
        raise RookeryError(
            f"contract line {line:.200} is {short(ours)} in contract.json and {short(theirs)} in {path}: {AGAIN}."
        )
    chain = contract.groups[group].trained
    memory = [1, chain.state_size]
    wanted = [(INPUT, [1, chain.inputs]), *[(MASK, [1, chain.mask_size])] * (chain.mask_size > 0)]
    wanted += [*[(EVENTS, [1, len(chain.events)])] * bool(chain.events)]
    wanted += [*[(STATE, memory)] * (chain.state_size > 0)]
    wanted += [(OUTPUT, [1, chain.outputs]), *[(LOGITS, [1, chain.options])] * (chain.options > 0)]
    wanted += [*[(STATE_OUTPUT, memory)] * (chain.state_size > 0)]
    defaults = {tensor.name for tensor in model.graph.initializer}
    ends = [*(i for i in model.graph.input if i.name not in defaults), *model.graph.output]
    given = [(t.name, [d.dim_value for d in t.type.tensor_type.shape.dim]) for t in ends]
    if given != wanted:
        raise RookeryError(f"{path} takes and gives {given}, and the contract wants {wanted}: {AGAIN}.")
    return model


def read_weights(model: onnx.ModelProto, path: Path) -> dict[str, Array]:
    """The float32 arrays of a model by name.

    Raises:
        RookeryError: they are damaged.
    """
    try:
        arrays = onnx_arrays(model)
        merged = parse_json(next((p.value for p in model.metadata_props if p.key == EQUAL_KEY), "{}"))
        if not isinstance(merged, dict):
            raise Damaged(f"its {EQUAL_KEY} is no object")
        return arrays | {
            name: arrays[other] for name, other in merged.items() if isinstance(other, str) and other in arrays
        }
    except ValueError as e:
        raise RookeryError(f"{path} is damaged ({e}): {AGAIN}.") from e


def _check_onnx(model: onnx.ModelProto, golden: Golden, tolerance: float, path: Path) -> float:
    """The largest difference of ONNX Runtime's answers."""
    with tempfile.TemporaryDirectory(prefix="rookery-check-") as build:
        answer = ask_onnx(model.SerializeToString(), golden.questions, path, Path(build), AGAIN)
    return compare(answer, golden, tolerance, path)


def check_header(path: Path, contract: Contract, group: str) -> Header:
    """The facts of a header that agree with the contract.

    Raises:
        RookeryError: when they do not.
    """
    header = read_header(path)
    chain = contract.groups[group].trained
    wanted = {
        "observations": chain.inputs,
        "actions": chain.outputs,
        "frame": contract.groups[group].spec.frame_size,
        "targets": chain.targets,
        "memory": chain.state_size,
        "choices": len(chain.choice_sizes),
        "options": chain.options,
        "mask": chain.mask_size,
        "events": len(chain.events),
        "agents": chain.agents,
    }
    for size, number in wanted.items():
        if (given := getattr(header, size)) != number:
            raise RookeryError(f"{path} has {given} as the size {size}, and the contract {number}: {AGAIN}.")
    if header.fingerprint != contract.fingerprint:
        raise RookeryError(f"{path} belongs to another contract than the contract.json beside it: {AGAIN}.")
    return header


def _check_c(
    source: Path, shown: Path, header: Header, group: ContractGroup, golden: Sequence[Golden], tolerance: float
) -> float:
    """Compile the C, compare the network with the golden actions and the scaling functions with the contract.

    Args:
        source: the C in a temporary folder, where it may run.
        shown: the bundle's file, for errors.
        header: of the C.
        group: in the contract.
        golden: with unknown targets, and perhaps with known ones.
        tolerance: largest difference allowed.
    """
    compile_library(source, source.parent, shown).replace(source.parent / LIBRARY)
    rng = np.random.default_rng(0)
    questions = golden[-1].questions | {
        "raw": (rng.standard_normal((100, group.spec.frame_size)) * 10.0).astype(np.float32),
        "action": rng.uniform(-1.5, 1.5, (100, header.actions)).astype(np.float32),
    }
    answers = ask_c(header, questions, shown, source.parent, AGAIN)
    names = ("policy", "known")[: len(golden)]
    missing = {*names, "observe", "command", *["remember"] * (group.spec.history > 1)} - answers.keys()
    if missing:
        raise RookeryError(f"{shown} gave no answers of {sorted(missing)[0]}: {AGAIN}.")
    worst = max(compare(answers[name], g, tolerance, shown) for name, g in zip(names, golden, strict=True))
    _check_scaling(answers, questions, group, shown)
    return worst


def _check_scaling(
    answers: Mapping[str, Array], questions: Mapping[str, Array], group: ContractGroup, source: Path
) -> None:
    """`observe` and `command` of the C against the contract's scales, clips and limits."""
    terms = group.spec.observation
    sizes = [t.size for t in terms]
    scale = np.repeat([t.effective_scale for t in terms], sizes)
    clip = np.repeat([t.clip for t in terms], sizes)
    raw = questions["raw"]
    seen = np.clip(raw * scale, -clip, clip)
    low, high = (np.tile(x, group.trained.agents) for x in (group.spec.action.low, group.spec.action.high))
    count = len(group.spec.action.choices)
    command = questions["action"].astype(np.float64)
    command[:, count:] = low + (np.clip(command[:, count:], -1.0, 1.0) + 1.0) / 2.0 * (high - low)
    span = np.concatenate((np.zeros(count), np.maximum(np.abs(low), np.abs(high))))
    shapes = (answers["observe"].shape, answers["command"].shape) == (seen.shape, command.shape)
    same = shapes and np.allclose(answers["observe"], seen, rtol=1e-5, atol=0.0)
    if not (same and (np.abs(answers["command"] - command) <= 1e-5 * span).all()):
        raise RookeryError(f"{source} scales observations or actions otherwise than the contract: {AGAIN}.")
    history = group.spec.history
    if history > 1 and not np.array_equal(answers["remember"], raw[-history:].ravel()):
        raise RookeryError(f"{source} stacks frames otherwise than the contract: {AGAIN}.")
