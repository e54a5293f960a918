"""C99 source of a policy for microcontrollers.

The code needs `<math.h>` and nothing else: no malloc, no stdio, no variable-length arrays, no writable static data. All
scratch is on the caller's stack, so that any number of tasks may call it at once. Weights are `const float` and stay in
flash. The header documents every input and output for firmware authors, and two table-driven functions do the scaling,
so that no scale is copied by hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.c_text import LIMIT, literal, table
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim.terms.c import comment as _c
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.contract_lines import CONVENTIONS
from rookery.sim2real.export.exporter import C_FILE, HEADER, Export, Exporter
from rookery.sim2real.export.functions import Functions
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.state_c import StateC

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

Array = NDArray[np.float32]


class C(Exporter):
    """C99 source and header."""

    name = "c"
    files = (C_FILE, HEADER)

    def check(self, export: Export) -> None:
        for group in export.policies:
            prefix = export.c_prefix(group)
            _check_prefix(prefix)
            Functions(export.contract.groups[group], prefix).functions()

    def write(self, export: Export, folder: Path) -> None:
        for group, policy, (source, header) in export.parts(folder, *self.files):
            arrays = policy_arrays(policy)
            code, declared = c_source(export.contract, group, arrays, export.c_prefix(group), header.name)
            source.write_text(code, encoding="ascii")
            header.write_text(declared, encoding="ascii")


def policy_arrays(policy: Policy) -> dict[str, Array]:
    """Weights of a policy as float32 arrays by the names of `StageChain.weights`, such as "normalize.mean" and
    "perceptron.weight_0".

    Raises:
        RookeryError: when a number is not finite or a normalizer's std is not positive.
    """
    if fault := policy.fault():
        raise RookeryError(f"the policy holds {fault}: export an earlier checkpoint or another run.")
    return {name: np.asarray(t.detach().cpu().numpy(), np.float32) for name, t in policy.state_dict().items()}


def c_source(contract: Contract, group: str, arrays: Mapping[str, Array], prefix: str, header: str) -> tuple[str, str]:
    """The texts of the C file and of its header.

    Args:
        contract: a valid contract with stages.
        group: agent group.
        arrays: from `policy_arrays`.
        prefix: C identifier; the functions are ``<prefix>_policy``, ``<prefix>_observe`` and ``<prefix>_command``, with a
            history also ``<prefix>_remember``, with a state estimator ``<prefix>_predict`` and ``<prefix>_policy_known``, with
            a memory ``<prefix>_reset``.
        header: file name of the header.

    Raises:
        RookeryError: when the prefix is not a C identifier, or a stage has no C.
    """
    _check_prefix(prefix)
    below = StateC(contract, group, prefix), LoopsC(contract, group, prefix)
    return _code(contract.groups[group], arrays, prefix, header, below), _header(contract, group, prefix, below)


def _check_prefix(prefix: str) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,40}", prefix):
        raise RookeryError(f"{prefix!r} cannot begin C names: use letters, digits and underscores, a letter first.")


def _header(contract: Contract, group: str, prefix: str, below: tuple[StateC, LoopsC]) -> str:
    declared = contract.groups[group]
    spec = declared.spec
    upper = prefix.upper()
    functions = Functions(declared, prefix)
    guard = f"{upper}_POLICY_H"
    allowed = "allowed, " * (below[0].mask > 0)
    world, body, quaternion = (_c(CONVENTIONS[n]) for n in ("world_frame", "body_frame", "quaternion"))
    return f"""/*
 * {_c(contract.task_id)}, agent group {_c(group)}: a policy exported by Rookery {_c(contract.rookery_version)}.
 *
 * Stages: {_c(functions.chain.words)}.
 * C99; needs <math.h> only. Reentrant: no static data is written.{_rounding(declared)}
 * Stack of {prefix}_step: about {below[0].stack(functions.stack)} bytes.
 *
 * Call it every {contract.control_dt:g} s. Delays in training, in steps of {contract.physics_dt:g} s: observation
 * {contract.latency.observation.words}; action {contract.latency.action.words}.
 * World: {world}. Body: {body}. Quaternions: {quaternion}.
 * A NaN in the observation gives NaN actions: {prefix}_step tests for it.
 *
 *     {prefix}_step(&controller, &state, {allowed}command); all of it, from {prefix}_state to commands; or its parts:
{_observe_lines(functions, prefix)}
{_policy_lines(functions, prefix)}
 *     {prefix}_command(action, command); actions -> physical commands in the units below
 *
 * {_observation_title(functions)}[i] = clip(raw[i] * scale, -clip, clip):
{_observation_table(spec.observation)}
{_target_lines(spec, functions)}{_event_lines(below[0])} *
{_action_lines(spec.action)}{_actuator_line(declared)}
 */
#ifndef {guard}
#define {guard}

#define {upper}_POLICY_OBSERVATIONS {functions.inputs}
#define {upper}_POLICY_ACTIONS {functions.outputs}
{_more_sizes(functions, upper)}#define {upper}_POLICY_CONTROL_DT {literal(contract.control_dt)} /* s */
/* SHA-256 of the contract these files were exported with. */
#define {upper}_POLICY_CONTRACT "{contract.fingerprint}"

#ifdef __cplusplus
extern "C" {{
#endif
{_memory_type(functions, prefix, upper)}
/* The network. */
void {prefix}_policy(const float obs[{functions.inputs}], {functions.parameter}float action[{functions.outputs}]);

/* Raw measurements, in the units and frames above, to the network's input. Both may be the same array. */
void {prefix}_observe(const float raw[{functions.frame}], float {_frame(functions)}[{functions.frame}]);

/* Actions in [-1, 1] to physical commands{_kept(functions)}. action and command may be the same array. */
void {prefix}_command(const float action[{functions.outputs}], float command[{functions.outputs}]);
{functions.declarations()}{"".join(part.declarations() for part in below)}
#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _kept(functions: Functions) -> str:
    return "; indices of options stay as they are" if functions.options else ""


def _frame(functions: Functions) -> str:
    """Words on what `observe` writes: the observation, or one frame of it."""
    return "frame" if functions.history > 1 else "obs"


def _observe_lines(functions: Functions, prefix: str) -> str:
    call = f"{prefix}_observe(raw, {_frame(functions)});"
    text = f" *     {call.ljust(len(prefix) + 27)} raw measurements in the units below -> the network's input"
    if functions.history > 1:
        text += f"\n *     {prefix}_remember(frame, obs);     the latest {functions.history} frames, oldest first"
    return text


def _policy_lines(functions: Functions, prefix: str) -> str:
    if functions.options:
        return _choosing_lines(functions, prefix)
    each = "team" if functions.agents > 1 else "robot"
    if not functions.memory:
        return f" *     {prefix}_policy(obs, action);      the network; actions in [-1, 1]"
    given = functions.argument.replace("memory", "&memory")
    return (
        f" *     {prefix}_reset(&memory);           once at an episode's start; one memory for each {each}\n"
        f" *     {prefix}_policy(obs, {given}action);  the network; actions in [-1, 1]"
    )


def _choosing_lines(functions: Functions, prefix: str) -> str:
    given = functions.argument.replace("memory", "&memory")
    numbers = ", then numbers in [-1, 1]" if functions.outputs > functions.choices else ""
    lines = [
        f"{prefix}_policy(obs, {given}action);",
        f"    the network; indices of options{numbers}, and the logits of all options: the larger, the likelier",
    ]
    if functions.memory:
        lines.insert(0, f"{prefix}_reset(&memory);           once at an episode's start; one memory for each robot")
    if functions.chain.mask_size:
        lines.append("    allowed[i] is 0 where the option of logit i may not be chosen now, else 1")
    return "\n".join(f" *     {line}" for line in lines)


def _memory_type(functions: Functions, prefix: str, upper: str) -> str:
    if not functions.memory:
        return ""
    return f"""
/* What the policy remembers from step to step. */
typedef struct {{
    float h[{upper}_POLICY_MEMORY];
}} {prefix}_memory;
"""


def _observation_title(functions: Functions) -> str:
    if functions.agents > 1 and functions.history == 1:
        return f"Observation of each of {functions.agents} robots, one after the other in obs"
    return (
        "Observation, obs"
        if functions.history == 1
        else f"One of the {functions.history} frames of an observation, frame"
    )


def _target_lines(spec: Group, functions: Functions) -> str:
    if not functions.targets:
        return ""
    table = _observation_table(spec.targets)
    return (
        f" *\n * The state estimator's predictions of these, targets[i] = clip(raw[i] * scale, -clip, clip):\n{table}\n"
    )


def _event_lines(state: StateC) -> str:
    """The events at which decisions are taken, and whence they come."""
    if not state.events:
        return ""
    rows: list[tuple[str, ...]] = [("events", "event", "from", "what it is")]
    rows += [(str(i), e.name, state.flag(e) or "computed", e.meaning) for i, e in enumerate(state.events)]
    return (
        " *\n * Decisions are also taken at these events: 1 in the control step in which one happens, 0 in all others.\n"
        f"{_table(rows)}\n"
    )


def _more_sizes(functions: Functions, upper: str) -> str:
    agents = functions.agents
    frame = f"#define {upper}_POLICY_AGENTS {agents} /* of the team */\n" if agents > 1 else ""
    frame += f"#define {upper}_POLICY_FRAME {functions.frame}\n" if functions.history > 1 or agents > 1 else ""
    memory = f"#define {upper}_POLICY_MEMORY {functions.memory}\n" if functions.memory else ""
    targets = f"#define {upper}_POLICY_TARGETS {functions.targets}\n" if functions.targets else ""
    if functions.events:
        targets += f"#define {upper}_POLICY_EVENTS {len(functions.events)}\n"
    if not functions.options:
        return frame + memory + targets
    choices = f"#define {upper}_POLICY_CHOICES {functions.choices} /* the first of the actions */\n"
    choices += f"#define {upper}_POLICY_OPTIONS {functions.options}\n"
    mask = f"#define {upper}_POLICY_MASK {functions.chain.mask_size}\n" if functions.chain.mask_size else ""
    return frame + memory + targets + choices + mask


def _observation_table(terms: Sequence[Term]) -> str:
    rows: list[tuple[str, ...]] = [("index", "term", "unit", "frame", "scale", "clip", "formula")]
    start = 0
    for t in terms:
        index = f"{start}" if t.size == 1 else f"{start}..{start + t.size - 1}"
        clip = "none" if math.isinf(t.clip) else f"{t.clip:.9g}"
        rows.append((index, t.name, t.unit, t.frame or "-", f"{t.effective_scale:.9g}", clip, t.formula or "-"))
        start += t.size
    return _table(rows)


def _action_lines(action: ActionSpec) -> str:
    if not action.choices:
        return f' * Action, kind "{_c(action.kind)}", -1 for low and +1 for high, in the unit:\n{_action_table(action)}'
    text = f""" * Action, kind "{_c(action.kind)}". First the index of an option for each choice, as a float{_none(action)}:
{_choice_table(action)}"""
    return text + (
        f"\n * Then numbers, -1 for low and +1 for high, in the unit:\n{_action_table(action)}" if action.names else ""
    )


def _none(action: ActionSpec) -> str:
    return "; -1 where allowed forbids all" if action.masked else ""


def _choice_table(action: ActionSpec) -> str:
    """The options with their places in the mask and among the logits."""
    rows: list[tuple[str, ...]] = [("index", "choice", "option", "logit")]
    place = 0
    for i, choice in enumerate(action.choices):
        for k, option in enumerate(choice.options):
            rows.append((str(i) if k == 0 else "", choice.name if k == 0 else "", f"{k} {option}", str(place)))
            place += 1
    return _table(rows)


def _action_table(action: ActionSpec) -> str:
    rows: list[tuple[str, ...]] = [("index", "name", "unit", "low", "high", "at rest")]
    columns = zip(action.names, action.units, action.low, action.high, action.rest_command, strict=True)
    for i, (name, unit, *numbers) in enumerate(columns, len(action.choices)):
        rows.append((str(i), name, unit, *(f"{x:.9g}" for x in numbers)))
    return _table(rows)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    safe = [[_c(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in safe) for i in range(len(safe[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in safe)
    return "\n".join(f" *     {line}" for line in lines)


def _actuator_line(group: ContractGroup) -> str:
    order = ", ".join(_c(name) for name in group.actuation.actuators) if group.actuation else ""
    return f"\n *\n * Motors or joints are numbered in the order {order}." if order else ""


def _rounding(group: ContractGroup) -> str:
    if group.quantization is None:
        return ""
    several = ", each network of the hierarchy by itself" if group.trained.decisions else ""
    return f"""
 * Weights: integers of 8 bits and a scale for each row. An action in [-1, 1] differs from that of the trained network by at
 * most {group.quantization.largest_difference:.3g} over the golden observations{several}."""


def _code(
    group: ContractGroup, arrays: Mapping[str, Array], prefix: str, header: str, below: tuple[StateC, LoopsC]
) -> str:
    terms = group.spec.observation
    action = group.spec.action
    functions = Functions(group, prefix)
    sizes = [t.size for t in terms]
    scale = np.repeat([t.effective_scale for t in terms], sizes)
    clip = np.repeat([min(t.clip, LIMIT) for t in terms], sizes)
    half = [(high - low) / 2.0 for low, high in zip(action.low, action.high, strict=True)]
    tables = [("term_scale", scale), ("term_clip", clip)]
    if action.names:
        tables += [("action_low", np.asarray(action.low)), ("action_half", np.asarray(half))]
    return "\n".join(
        [
            f'/* Written by Rookery; {header} documents it. */\n#include <math.h>\n\n#include "{header}"\n',
            *(table(name, values) for name, values in tables),
            *functions.tables(arrays),
            *functions.helpers(),
            functions.functions(),
            _scaling_functions(functions, prefix),
            *(text for part in below for text in part.code()),
        ]
    )


def _scaling_functions(functions: Functions, prefix: str) -> str:
    inputs = functions.frame
    outputs = functions.outputs
    obs = _frame(functions)
    choices = functions.choices
    bodies = []
    if choices:
        bodies.append(_loop(0, choices, "command[i] = action[i];"))
    if outputs > choices:
        place = "i" if not choices else f"i - {choices}"
        place = f"i % {outputs // functions.agents}" if functions.agents > 1 else place
        scaled = f"action_low[{place}] + (clamp(action[i], 1.0f) + 1.0f) * action_half[{place}]"
        bodies.append(_loop(choices, outputs, f"command[i] = {scaled};"))
    return f"""
void {prefix}_observe(const float raw[{inputs}], float {obs}[{inputs}])
{{
    int i;

    for (i = 0; i < {inputs}; i++) {{
        {obs}[i] = clamp(raw[i] * term_scale[i], term_clip[i]);
    }}
}}

void {prefix}_command(const float action[{outputs}], float command[{outputs}])
{{
    int i;

{"".join(bodies)}}}
"""


def _loop(first: int, end: int, body: str) -> str:
    return f"    for (i = {first}; i < {end}; i++) {{\n        {body}\n    }}\n"
