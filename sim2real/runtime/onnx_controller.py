"""Policies of other people: an ONNX file and a contract, where there is no C. Observation and commands come from the contract
as those of a bundle do, by C that is generated from it; the network runs in ONNX Runtime.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.perceptron import Perceptron
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_json, read_onnx
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.short_contract import is_short, read_short_contract

CONTRACT, NETWORK = "contract.json", "policy.onnx"
PREFIX = "rookery"
MOST_NUMBERS = 1 << 18
"""Observed numbers times those of the action: of the network of zeros that is compiled."""


def read_contract(folder: Path) -> Contract:
    """The contract of a folder, short or whole; one without stages where an ONNX file is all there is of the network.

    Raises:
        RookeryError: there is none, or a line of it is wrong.
    """
    path = folder / CONTRACT
    if not folder.is_dir() or not path.is_file():
        raise RookeryError(
            f"{folder} is no folder with a {CONTRACT}: give one that `rookery export RUN --out DIR` wrote."
        )
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise RookeryError(f"{path} is not a JSON file ({error}): mend that line.") from None
    return read_short_contract(values) if is_short(values) else Contract.from_json(values, stages=False)


class OnnxController(Controller):
    """See the module.

    Args:
        folder: with contract.json and policy.onnx, which has one input [1, O] and one output [1, D], float32.
        group: of the contract; None for the only one.

    Raises:
        RookeryError: see Controller; or the network has other inputs and outputs.
    """

    def _read(self, folder: Path) -> Contract:
        return read_contract(folder)

    def _load(self, folder: Path, run_c: bool) -> None:
        spec = self.spec.spec
        if spec.action.choices or spec.targets or (self.spec.stages is not None and self.spec.stages.events):
            raise RookeryError(
                "policies that choose, estimate or decide at events fly by their bundle's C: `rookery export RUN --out DIR`."
            )
        size, outputs = spec.frame_size * spec.history, spec.action.size
        self._open(folder / NETWORK, size, outputs)
        code, header, whole = observation_c(self.contract, self.group)
        source = Path(self._build.name) / "policy.c"
        source.write_text(code, encoding="ascii")
        source.with_name("policy.h").write_text(header, encoding="ascii")
        self._observation = np.zeros((1, size), np.float32)
        self._compile(source, whole, PREFIX, folder / CONTRACT, {"observe_state": 3})

    def _open(self, path: Path, inputs: int, outputs: int) -> None:
        try:
            import onnxruntime as ort  # type: ignore[import-untyped]
        except ImportError:
            raise RookeryError("policies without C need onnxruntime: pip install onnxruntime.") from None
        try:
            model = read_onnx(path).SerializeToString()
        except (OSError, ValueError) as error:
            raise RookeryError(
                f"{path} is not a readable ONNX file ({error}): a contract without C needs one."
            ) from None
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception:  # its exceptions share no base class
            raise RookeryError(
                f"{path} is not a readable ONNX file (ONNX Runtime refuses it): export it again."
            ) from None
        ends = self._session.get_inputs(), self._session.get_outputs()
        given = [[(end.type, list(end.shape)) for end in side] for side in ends]
        fits = all(
            len(side) == 1 and side[0][0] == "tensor(float)" and len(side[0][1]) == 2 and _fits(side[0][1], size)
            for side, size in zip(given, (inputs, outputs), strict=True)
        )
        if not fits:
            raise RookeryError(
                f"{path} takes {given[0]} and gives {given[1]}, and the contract wants one float32 input [1, {inputs}] and one "
                f"output [1, {outputs}]."
            )
        self._name = ends[0][0].name

    def _act(self, memory: int, state: int) -> None:
        self._calls["observe_state"](memory, state, self._observation.ctypes.data)
        out: Array = self._session.run(None, {self._name: self._observation})[0]
        if out.shape != (1, self.action.size):
            raise RookeryError(f"the network answers with {out.shape} in place of (1, {self.action.size}).")
        self.action[:] = out[0]


def observation_c(contract: Contract, group: str) -> tuple[str, str, Contract]:
    """C and header of a group's observation and commands, with a network of zeros, which is never asked; and the contract that
    has it.

    Raises:
        RookeryError: the observation is too long, or names cannot be C.
    """
    spec = contract.groups[group].spec
    size, outputs = spec.frame_size * spec.history, spec.action.size
    if size * outputs > MOST_NUMBERS:
        raise RookeryError(
            f"the contract asks for {size} observed numbers: at most {MOST_NUMBERS // outputs} are flown."
        )
    chain = StageChain((Perceptron(size, (), outputs),))
    whole = dataclasses.replace(
        contract, groups={**contract.groups, group: dataclasses.replace(contract.groups[group], stages=chain)}
    )
    arrays = {name: np.zeros(w.shape, np.float32) for name, w in chain.weights().items()}
    return *c_source(whole, group, arrays, PREFIX, "policy.h"), whole


def _fits(shape: list[object], size: int) -> bool:
    """True for [1, size], or a text where a side is left open."""
    return all(
        isinstance(given, str) or given is None or given == wanted
        for given, wanted in zip(shape, (1, size), strict=True)
    )


def open_controller(folder: Path | str, group: str | None = None, run_c: bool = False) -> Controller:
    """The policy of a bundle, by its C; by ONNX Runtime where there is none.

    Raises:
        RookeryError: see Controller and OnnxController.
    """
    folder = Path(folder)
    if (folder / CONTRACT).is_file() and (folder / NETWORK).is_file() and not any(folder.glob("policy*.c")):
        return OnnxController(folder, group)
    return Controller(folder, group, run_c)
