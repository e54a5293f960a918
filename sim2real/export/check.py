"""Proves a bundle without torch: ONNX Runtime and the compiled C, each against the golden vectors, and every file
against its contract.

The C of the bundle is compiled and run in this process, so check only bundles that you would also fly.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.compatibility import differences
from rookery.sim2real.contract import Contract, ContractGroup, fingerprint_of
from rookery.sim2real.export.bundle import bundle_files
from rookery.sim2real.export.native import NativePolicy, read_header
from rookery.sim2real.export.onnx import CONTRACT_KEY, GROUP_KEY, INPUT, KNOWN, OUTPUT

Array = NDArray[np.float32]
AGAIN = "export the bundle again with `rookery export RUN --out DIR`"
LEAST = 1000
"""Fewest golden observations that count as a proof."""


@dataclass(frozen=True)
class Golden:
    """Observations [n, O] and the torch policy's actions [n, D], float32; with a state estimator the known targets
    [n, M], as `known`."""

    observations: Array
    actions: Array
    known: Array | None = None


def check_bundle(folder: Path | str, tolerance: float = 1e-5) -> dict[str, float]:
    """Reload a bundle, run it, and compare. torch is not imported.

    Args:
        folder: what `export_bundle` wrote.
        tolerance: largest difference allowed from the torch policy's actions, which lie in [-1, 1].

    Returns:
        `onnx_max_error` and `c_max_error`, the largest differences over all groups, and `observations`, how many were
        tried.

    Raises:
        RookeryError: when a file is missing, broken or of another export, when there is no C compiler, or when a
            difference exceeds the tolerance.
    """
    folder = Path(folder)
    contract = read_bundle_contract(folder)
    result = {"onnx_max_error": 0.0, "c_max_error": 0.0, "observations": 0}
    for group, files in bundle_files(contract).items():
        session = _open_onnx(folder / files["onnx"], contract, group)
        golden = read_golden(folder / files["golden"], contract, group)
        known = read_known(folder / files["golden"], contract, group, golden)
        onnx_error = max(_check_onnx(session, g, tolerance, folder / files["onnx"]) for g in (golden, *known))
        c_error = _check_c(folder, files, contract, group, (golden, *known), tolerance)
        result["onnx_max_error"] = max(result["onnx_max_error"], onnx_error)
        result["c_max_error"] = max(result["c_max_error"], c_error)
        result["observations"] += len(golden.observations)
    return result


def read_bundle_contract(folder: Path) -> Contract:
    """The contract of a bundle folder, with a sentence when the folder is none or lacks a file."""
    if not folder.is_dir():
        raise RookeryError(f"{folder} is not a folder: give the folder that `rookery export RUN --out DIR` wrote.")
    contract = Contract.read(folder)
    for files in bundle_files(contract).values():
        for name in files.values():
            if not (folder / name).is_file():
                raise RookeryError(f"the bundle {folder} has no {name}: {AGAIN}.")
    return contract


def read_golden(path: Path, contract: Contract, group: str) -> Golden:
    """The golden vectors of a group, checked against its contract.

    Raises:
        RookeryError: when the file is broken, of other sizes, too short, or from another export.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            golden = Golden(stored["observations"], stored["actions"])
            mark = str(stored["fingerprint"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
        raise RookeryError(f"{path} is damaged ({e}): {AGAIN}.") from e
    network = contract.groups[group].trained
    n = len(golden.observations)
    wanted = ((n, network.observation_size), (n, network.action_size))
    if (golden.observations.shape, golden.actions.shape) != wanted:
        given = f"{golden.observations.shape} and {golden.actions.shape}"
        raise RookeryError(
            f"{path} holds arrays of {given}, and the contract wants {wanted[0]} and {wanted[1]}: {AGAIN}."
        )
    if n < LEAST or golden.observations.dtype != np.float32 or golden.actions.dtype != np.float32:
        raise RookeryError(f"{path} must hold at least {LEAST} float32 observations and actions: {AGAIN}.")
    if not (np.isfinite(golden.observations).all() and np.isfinite(golden.actions).all()):
        raise RookeryError(f"{path} holds numbers that are not finite: {AGAIN}.")
    if mark != contract.fingerprint:
        raise RookeryError(f"{path} belongs to another contract than the contract.json beside it: {AGAIN}.")
    return golden


def read_known(path: Path, contract: Contract, group: str, golden: Golden) -> list[Golden]:
    """The golden vectors of a policy with a state estimator where some targets are known; none of one without.

    Raises:
        RookeryError: when they are missing or of other sizes.
    """
    targets = contract.groups[group].trained.targets
    if not targets:
        return []
    try:
        with np.load(path, allow_pickle=False) as stored:
            known = Golden(golden.observations, stored["known_actions"], stored["known_targets"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
        raise RookeryError(f"{path} is damaged ({e}): {AGAIN}.") from e
    assert known.known is not None
    wanted = (golden.actions.shape, (len(golden.observations), targets))
    if (known.actions.shape, known.known.shape) != wanted or known.known.dtype != np.float32:
        raise RookeryError(f"{path} must hold float32 arrays of {wanted} for known targets: {AGAIN}.")
    return [known]


def compare(answer: Array, golden: Golden, tolerance: float, path: Path) -> float:
    """Largest difference from the golden actions.

    Raises:
        RookeryError: when it exceeds the tolerance, or an answer is NaN.
    """
    error = np.abs(answer.astype(np.float64) - golden.actions)
    worst = float(error.max())
    if not worst <= tolerance:  # also catches NaN
        row = int(np.nan_to_num(error, nan=np.inf).max(axis=1).argmax())
        raise RookeryError(
            f"{path} differs from the torch policy by {worst:.3g} at golden observation {row}, "
            f"and {tolerance:g} is allowed: {AGAIN}."
        )
    return worst


def _open_onnx(path: Path, contract: Contract, group: str) -> Any:
    """An ONNX Runtime session whose sizes and metadata agree with the contract."""
    try:
        import onnxruntime as ort  # type: ignore[import-untyped]
    except ImportError as e:
        raise RookeryError(f"checking {path} needs ONNX Runtime: `pip install onnxruntime`.") from e
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # its exceptions share no base class
        raise RookeryError(f"{path} is not a readable ONNX file ({str(e).splitlines()[0]}): {AGAIN}.") from e
    meta = session.get_modelmeta().custom_metadata_map
    try:
        inner = json.loads(meta[CONTRACT_KEY])
    except (KeyError, ValueError) as e:
        raise RookeryError(f"{path} carries no Rookery contract in its metadata: {AGAIN}.") from e
    if meta.get(GROUP_KEY) != group:
        raise RookeryError(f"{path} is the policy of group {meta.get(GROUP_KEY)!r}, not of {group!r}: {AGAIN}.")
    found = differences(contract.to_json(), inner)
    if found or contract.fingerprint != fingerprint_of(inner):
        line, ours, theirs = found[0] if found else ("(some line)", "one thing", "another")
        raise RookeryError(f"contract line {line} is {ours!r} in contract.json and {theirs!r} in {path}: {AGAIN}.")
    network = contract.groups[group].trained
    wanted = [(INPUT, [1, network.observation_size]), (OUTPUT, [1, network.action_size])]
    given = [(t.name, list(t.shape)) for t in (*session.get_inputs(), *session.get_outputs())]
    if given != wanted:
        raise RookeryError(f"{path} takes and gives {given}, and the contract wants {wanted}: {AGAIN}.")
    return session


def _check_onnx(session: Any, golden: Golden, tolerance: float, path: Path) -> float:
    """The largest difference of ONNX Runtime's answers."""
    feeds = [{INPUT: row[None]} for row in golden.observations]
    if golden.known is not None:
        feeds = [feed | {KNOWN: row[None]} for feed, row in zip(feeds, golden.known, strict=True)]
    answer = np.concatenate([session.run([OUTPUT], feed)[0] for feed in feeds])
    return compare(answer, golden, tolerance, path)


def check_header(path: Path, contract: Contract, group: str) -> Any:
    """The facts of a header that agree with the contract.

    Raises:
        RookeryError: when they do not.
    """
    header = read_header(path)
    network = contract.groups[group].trained
    given = (header.observations, header.actions, header.frame, header.targets)
    frame = contract.groups[group].spec.frame_size
    wanted = (network.observation_size, network.action_size, frame, network.targets or 0)
    if given != wanted:
        raise RookeryError(
            f"{path} is for {given} observations, actions, components of a frame and targets, and the contract for "
            f"{wanted}: {AGAIN}."
        )
    if header.fingerprint != contract.fingerprint:
        raise RookeryError(f"{path} belongs to another contract than the contract.json beside it: {AGAIN}.")
    return header


def _check_c(
    folder: Path, files: Mapping[str, str], contract: Contract, group: str, golden: Sequence[Golden],
    tolerance: float,
) -> float:  # fmt: skip
    """Compile the C, compare the network with the golden actions and the scaling functions with the contract."""
    header = check_header(folder / files["h"], contract, group)
    source = folder / files["c"]
    with tempfile.TemporaryDirectory(prefix="rookery-check-") as build:
        native = NativePolicy(source, header, Path(build))
        worst = 0.0
        for g in golden:
            obs = g.observations
            answer = native.policy(obs) if g.known is None else native.policy_known(obs, g.known)
            worst = max(worst, compare(answer, g, tolerance, source))
        _check_scaling(native, contract.groups[group], source)
    return worst


def _check_scaling(native: NativePolicy, group: ContractGroup, source: Path) -> None:
    """`observe` and `command` of the C against the contract's scales, clips and limits."""
    rng = np.random.default_rng(0)
    terms = group.spec.observation
    sizes = [t.size for t in terms]
    scale = np.repeat([t.effective_scale for t in terms], sizes)
    clip = np.repeat([t.clip for t in terms], sizes)
    raw = (rng.standard_normal((100, scale.size)) * 10.0).astype(np.float32)
    seen = np.clip(raw * scale, -clip, clip)
    action = rng.uniform(-1.5, 1.5, (100, native.actions)).astype(np.float32)
    low = np.array(group.spec.action.low)
    high = np.array(group.spec.action.high)
    command = low + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
    span = np.maximum(np.abs(low), np.abs(high))
    same = np.allclose(native.observe(raw), seen, rtol=1e-5, atol=0.0)
    if not (same and (np.abs(native.command(action) - command) <= 1e-5 * span).all()):
        raise RookeryError(f"{source} scales observations or actions otherwise than the contract: {AGAIN}.")
    history = group.spec.history
    if history > 1 and not np.array_equal(native.remember(raw), raw[-history:].ravel()):
        raise RookeryError(f"{source} stacks frames otherwise than the contract: {AGAIN}.")
