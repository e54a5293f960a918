"""Answers of ONNX Runtime and of a bundle's compiled C, found in a child process with limits.

The parent writes policy.onnx, policy.so, header.json and questions.npz into a temporary folder, and reads the answers:

    python -m rookery.sim2real.export.answers FOLDER

Whatever a network or foreign C does to its process, the parent goes on.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.limited import run_limited
from rookery.sim.untrusted import parse_json, read_npz
from rookery.sim2real.export.native import Header, NativePolicy

Array = NDArray[np.float32]
RUN_S = 30
"""s, most time for all answers."""
MODULE = "rookery.sim2real.export.answers"
MODEL, LIBRARY, HEADER, QUESTIONS, ANSWERS = "policy.onnx", "policy.so", "header.json", "questions.npz", "answers.npz"
NO_SESSION = 11
NO_LIBRARY = 12
INPUTS = ("obs", "known_targets", "action_mask", "events")
STATE = "h_in"
OUTPUTS = ("action", "logits")
STATE_OUTPUT = "h_out"


def ask_onnx(model: bytes, questions: Mapping[str, NDArray[Any]], source: Path, build: Path, again: str) -> Array:
    """Actions and logits [n, D + C] of ONNX Runtime for the rows of questions `obs` [n, O] and perhaps `known_targets` [n, M]
    and `action_mask` [n, C] and `events` [n, E]; of a policy with memory one after the other, anew at each `start` [n].

    Args:
        model: bytes of an ONNX file.
        questions: arrays by name.
        source: the file, for errors.
        build: temporary folder.
        again: the way out of an error.

    Raises:
        RookeryError: it cannot be loaded, or gives no answers within the limits.
    """
    (build / MODEL).write_bytes(model)
    return _ask(questions, build, source, again)["answers"]


def ask_c(
    header: Header, questions: Mapping[str, NDArray[Any]], source: Path, build: Path, again: str
) -> dict[str, Array]:
    """Answers of the functions of `build`/policy.so: by function's name, `known` being that of policy_known.

    Args:
        header: of the library.
        questions: as of `ask_onnx`, `raw` [k, F] and `action` [k, D].
        source: the C file, for errors.
        build: temporary folder with the library.
        again: the way out of an error.

    Raises:
        RookeryError: it lacks a function, or gives no answers within the limits.
    """
    (build / HEADER).write_text(json.dumps(dataclasses.asdict(header)))
    return _ask(questions, build, source, again)


def _ask(questions: Mapping[str, NDArray[Any]], build: Path, source: Path, again: str) -> dict[str, Any]:
    np.savez(build / QUESTIONS, **questions)  # type: ignore[arg-type]  # its stubs take the names for options
    done = run_limited([sys.executable, "-P", "-m", MODULE, str(build)], build, RUN_S)
    if done.status == NO_SESSION:
        raise RookeryError(f"{source} is not a readable ONNX file (ONNX Runtime refuses it): {again}.")
    if done.status == NO_LIBRARY:
        raise RookeryError(f"cannot load what {source} compiled to (it lacks a function): {again}.")
    try:
        if done.status == 0:
            return read_npz(build / ANSWERS)
        reason = done.reason
    except (OSError, ValueError) as error:
        reason = str(error)
    raise RookeryError(f"{source} gave no answers ({reason}): {again}.")


def _onnx(build: Path, questions: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    import onnxruntime as ort  # type: ignore[import-untyped]

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession((build / MODEL).read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its exceptions share no base class
        sys.exit(NO_SESSION)
    names = [n for n in INPUTS if n in questions]
    given = [end.name for end in session.get_outputs()]
    wanted = [n for n in OUTPUTS if n in given]
    answers = []
    state: Array | None = None
    for i in range(len(questions["obs"])):
        row = {n: questions[n][i : i + 1] for n in names}
        if "start" not in questions:
            answers.append(np.concatenate(session.run(wanted, row), 1))
            continue
        if questions["start"][i]:
            size = next(end.shape for end in session.get_inputs() if end.name == STATE)
            state = np.zeros(size, np.float32)
        *parts, state = session.run([*wanted, STATE_OUTPUT], row | {STATE: state})
        answers.append(np.concatenate(parts, 1))
    return {"answers": np.concatenate(answers)}


def _native(build: Path, questions: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    header = Header(**parse_json((build / HEADER).read_bytes()))
    try:
        native = NativePolicy(build / LIBRARY, header)
    except RookeryError:
        sys.exit(NO_LIBRARY)
    known = questions.get("known_targets")
    answers = {
        "policy": _answers(native, questions, None),
        "observe": native.observe(questions["raw"]),
        "command": native.command(questions["action"]),
    }
    if known is not None:
        answers["known"] = _answers(native, questions, known)
    if native.frame < native.own:
        answers["remember"] = native.remember(questions["raw"])
    return answers


def _answers(native: NativePolicy, questions: Mapping[str, NDArray[Any]], known: Array | None) -> Array:
    """Actions and logits [n, D + C] of the C."""
    start, mask, events = (questions.get(name) for name in ("start", "action_mask", "events"))
    if start is None:
        return native.answers(questions["obs"], known, allowed=mask, events=events)
    return native.follow(questions["obs"], start, known, mask, events)


def main(folder: Path) -> int:
    """Answer the questions in a folder."""
    questions = read_npz(folder / QUESTIONS)
    answers = (_native if (folder / HEADER).exists() else _onnx)(folder, questions)
    np.savez(folder / ANSWERS, **answers)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
