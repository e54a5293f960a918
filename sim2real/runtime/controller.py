"""The policy of a bundle as the runtime steps it: measured quantities in, physical commands out, by the bundle's own C.

    controller = Controller("bundle")
    controller.begin(values)                      # an episode
    command = controller.step(values)             # every control_dt

Observation (from the expressions of the contract), network and command are C; this file keeps what belongs to the policy's
computer: the last action, clocks, the quantities of the step before.
"""

from __future__ import annotations

import ctypes
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.quantities import LAST_ACTION
from rookery.sim.terms.c import HELPERS, observe_state, quantities_of
from rookery.sim.terms.expression import Clock, Expression, Quantity, Recorded, Sensor, clocks_of
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.export.bundle import bundle_files
from rookery.sim2real.export.check import open_onnx, read_bundle_contract, read_weights
from rookery.sim2real.export.native import FLAGS, NativePolicy, compile_c, compile_library, find_compiler, read_header
from rookery.sim2real.export.trust import write_source
from rookery.sim2real.runtime.reading import Array

STATE_C = "state.c"
HOME = "home"
"""The quantity that is the home pose of the actuation's joints."""


def group_of(contract: Contract, group: str | None) -> str:
    """The group of a contract that one vehicle flies by.

    Raises:
        RookeryError: there are several and none is named, or there is none of that name.
    """
    names = list(contract.groups)
    if group is None and len(names) > 1:
        raise RookeryError(f"the bundle has the groups {', '.join(names)}: say which one with --group.")
    chosen = names[0] if group is None else group
    if chosen not in names:
        raise unknown("group", chosen, names)
    return chosen


def expressions_of(group: ContractGroup) -> list[Expression]:
    """The expressions of a group's terms, one frame of them.

    Raises:
        RookeryError: a term cannot be computed by a runtime.
    """
    out = []
    for term in group.spec.observation:
        expression = term.expression
        if isinstance(expression, Recorded):
            raise RookeryError(
                f"the contract says the term {term.name} in words alone ({expression.formula}): export the policy again with "
                "`rookery export RUN --out DIR`."
            )
        if isinstance(expression, Sensor):
            raise RookeryError(
                f"the term {term.name} is filled by a sensor ({expression.name}), which no link gives yet."
            )
        out.append(expression)
    return out


class Controller:
    """See the module.

    Args:
        folder: a bundle.
        group: of its contract; None for the only one.
        run_c: also run C that Rookery does not generate from the bundle's contract and weights, with the user's rights.

    Attributes:
        contract, group, spec: the contract, the group's name and its entry.
        quantities: all that the terms read.
        wanted: of them, what a link or a command must give.
        observation, action: the last ones.

    Raises:
        RookeryError: no bundle, damaged, of another version; there is no compiler; a term cannot be computed.
    """

    def __init__(self, folder: Path | str, group: str | None = None, run_c: bool = False) -> None:
        folder = Path(folder)
        self._run_c = run_c
        self.contract = read_bundle_contract(folder)
        self.group = group_of(self.contract, group)
        self.spec = self.contract.groups[self.group]
        terms = expressions_of(self.spec)
        self._clocks = clocks_of(terms)
        conditions = [clock.runs for clock in self._clocks if clock.runs is not None]
        expressions = [*terms, *conditions]
        self.quantities = quantities_of(expressions)
        self._frame = sum(e.size for e in terms)
        self._raw = np.zeros(self._frame + len(conditions), np.float32)
        self._build = tempfile.TemporaryDirectory(prefix="rookery-fly-")
        weakref.finalize(self, self._build.cleanup)
        self._load(folder, expressions)
        self._place()
        action = self.spec.spec.action
        self._neutral = np.array(action.neutral, np.float32)
        self.observation = np.zeros(self.policy.observations, np.float32)
        self.action = self._neutral.copy()
        self._memory = np.zeros((1, self.policy.memory), np.float32)
        self._phases = np.zeros(len(self._clocks), np.float64)
        self._fresh = True

    def _load(self, folder: Path, expressions: list[Expression]) -> None:
        files = bundle_files(self.contract)[self.group]
        build = Path(self._build.name)
        header = read_header(folder / files["h"])
        if header.fingerprint != self.contract.fingerprint:
            raise RookeryError(
                f"{folder / files['h']} was made with another contract than {folder / 'contract.json'}: export the bundle "
                "again."
            )
        weights = read_weights(open_onnx(folder / files["onnx"], self.contract, self.group), folder / files["onnx"])
        source = write_source(folder, files, self.contract, self.group, header, weights, build, self._run_c)
        self.policy = NativePolicy(compile_library(source, build, folder / files["c"]), header)
        source = build / STATE_C
        source.write_text(f"{HELPERS}\n{observe_state('runtime', expressions)}")
        library = build / "state.so"
        flags = [f for f in FLAGS if f not in ("-Wall", "-Wextra", "-Wpedantic", "-Werror")]
        compile_c([*find_compiler(), *flags, "-shared", "-fPIC", "-o", str(library), str(source), "-lm"], source, build)
        self._observe_state = ctypes.CDLL(str(library)).runtime_observe_state
        self._observe_state.argtypes = [ctypes.c_void_p] * 3
        self._observe_state.restype = None

    def _place(self) -> None:
        """Where each quantity stands in the state's struct, whose fields are all arrays of floats."""
        self._at: dict[str, slice] = {}
        at = 0
        for q in self.quantities:
            self._at[q.name] = slice(at, at + q.size)
            at += q.size
        self._now = np.zeros(at, np.float32)
        self._before = np.zeros(at, np.float32)

    @property
    def control_dt(self) -> float:
        """s."""
        return self.contract.control_dt

    @property
    def wanted(self) -> list[Quantity]:
        """Quantities that a link or a command must give."""
        own = {LAST_ACTION, HOME}
        return [q for q in self.quantities if q.name not in own and not isinstance(q, Clock)]

    def begin(self, seed: int | None = None) -> None:
        """Begin an episode: clear memories, and start the clocks anywhere that training did."""
        self._fresh = True
        self.action = self._neutral.copy()
        self.observation[:] = 0.0
        if self.policy.memory:
            self.policy.reset(self._memory)
        rng = np.random.default_rng(seed)
        for i, clock in enumerate(self._clocks):
            self._phases[i] = rng.uniform(*clock.start)

    def step(self, values: Mapping[str, Array]) -> Array:
        """Physical commands [D] for the quantities in `wanted`, in the units of the contract's action.

        Raises:
            RookeryError: a quantity is missing or of another size.
        """
        self._now, self._before = self._before, self._now
        now = self._now
        for q in self.wanted:
            try:
                now[self._at[q.name]] = values[q.name]
            except (KeyError, ValueError):
                given = np.shape(values[q.name]) if q.name in values else "nothing"
                raise RookeryError(f"the policy needs {q.name!r} ({q.size} values, {q.unit}), got {given}.") from None
        if LAST_ACTION in self._at:
            now[self._at[LAST_ACTION]] = np.clip(self.action, -1.0, 1.0)
        if HOME in self._at and self.spec.actuation is not None:
            now[self._at[HOME]] = [joint.home for joint in self.spec.actuation.joints]
        for clock, phase in zip(self._clocks, self._phases, strict=True):
            now[self._at[clock.name]] = phase
        before = now if self._fresh else self._before
        self._observe_state(now.ctypes.data, before.ctypes.data, self._raw.ctypes.data)
        self._advance_clocks()
        return self._act()

    def _advance_clocks(self) -> None:
        at = self._frame
        for i, clock in enumerate(self._clocks):
            runs = 1.0
            if clock.runs is not None:
                runs = float(self._raw[at])
                at += 1
            if runs != 0.0:
                self._phases[i] = (self._phases[i] + clock.frequency * self.control_dt) % 1.0

    def _act(self) -> Array:
        frame = self.policy.observe(self._raw[None, : self._frame])[0]
        if self.policy.frame < self.policy.observations:
            # an episode's first frame stands for those before it
            for _ in range(self.policy.observations // self.policy.frame if self._fresh else 1):
                self.policy.push(frame, self.observation)
        else:
            self.observation = frame
        self._fresh = False
        memory = self._memory if self.policy.memory else None
        self.action = self.policy.policy(self.observation[None], memory)[0]
        return self.policy.command(self.action[None])[0]
