"""C99 source of a policy for microcontrollers.

The code needs `<math.h>` and nothing else: no malloc, no stdio, no variable-length arrays, no writable static data. All
scratch is on the caller's stack, so that any number of tasks may call it at once. Weights are `const float` and stay in
flash. The header tells a firmware author what every number is, and two table-driven functions do the scaling, so that
nobody copies a scale by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import fingerprint

Array = NDArray[np.float32]
LIMIT = float(np.finfo(np.float32).max)  # stands for "no clip"


def policy_arrays(policy: Any) -> dict[str, Array]:
    """Weights of a policy as float32 arrays by name: mean, std [O], layers.N.weight [out, in], layers.N.bias [out].

    Raises:
        RookeryError: when a number is not finite or a normaliser's std is not positive.
    """
    arrays = {name: np.asarray(t.detach().cpu().numpy(), np.float32) for name, t in policy.state_dict().items()}
    bad = [name for name, a in arrays.items() if not np.isfinite(a).all()]
    if bad:
        raise RookeryError(f"the policy has numbers that are not finite in {bad[0]}: export an earlier checkpoint.")
    if not (arrays["std"] > 0.0).all():
        raise RookeryError(
            "the policy's normaliser has a standard deviation of zero or below: export another checkpoint."
        )
    return arrays


def c_source(
    contract: Mapping[str, Any], group: str, arrays: Mapping[str, Array], prefix: str, header: str
) -> tuple[str, str]:
    """The texts of the C file and of its header.

    Args:
        contract: a valid contract with networks.
        group: agent group.
        arrays: from `policy_arrays`.
        prefix: C identifier; the functions are ``<prefix>_policy``, ``<prefix>_observe`` and ``<prefix>_command``.
        header: file name of the header.

    Raises:
        RookeryError: when the prefix is not a C identifier.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,40}", prefix):
        raise RookeryError(f"{prefix!r} cannot begin C names: use letters, digits and underscores, a letter first.")
    return _code(contract["groups"][group], arrays, prefix, header), _header(contract, group, prefix)


def _header(contract: Mapping[str, Any], group: str, prefix: str) -> str:
    spec, upper = contract["groups"][group], prefix.upper()
    network = spec["network"]
    scratch = max([network["observation_size"], *network["hidden"]]) + max([0, *network["hidden"]])
    low, high = (f"{s:g}" for s in contract["assumed_delay"])
    delay = low if low == high else f"{low} to {high}"
    guard = f"{upper}_POLICY_H"
    world, body, quaternion = (_c(contract["conventions"][n]) for n in ("world_frame", "body_frame", "quaternion"))
    return f"""/*
 * {_c(contract["task_id"])}, agent group {_c(group)}: a policy exported by Rookery {_c(contract["rookery_version"])}.
 *
 * {_shape(network)}, {network["activation"]}; observation normaliser and final clip included.
 * C99; needs <math.h> only. Reentrant: no static data is written. Stack: about {4 * scratch + 160} bytes.
 *
 * Call it every {contract["control_dt"]:g} s. Assumed delay from measurement to actuation: {delay} s.
 * World: {world}. Body: {body}. Quaternions: {quaternion}.
 * A NaN in the observation gives NaN actions: test for it before you use them.
 *
 *     {prefix}_observe(raw, obs);        raw measurements in the units below -> what the network sees
 *     {prefix}_policy(obs, action);      the network; actions in [-1, 1]
 *     {prefix}_command(action, command); actions -> physical commands in the units below
 *
 * Observation, obs[i] = clip(raw[i] * scale, -clip, clip):
{_observation_table(spec)}
 *
 * Action, kind "{_c(spec["action"]["kind"])}", -1 stands for low and +1 for high:
{_action_table(spec)}{_actuator_line(spec)}
 */
#ifndef {guard}
#define {guard}

#define {upper}_POLICY_OBSERVATIONS {network["observation_size"]}
#define {upper}_POLICY_ACTIONS {network["action_size"]}
#define {upper}_POLICY_CONTROL_DT {literal(contract["control_dt"])} /* s */
/* SHA-256 of the contract these files were exported with. */
#define {upper}_POLICY_CONTRACT "{fingerprint(contract)}"

#ifdef __cplusplus
extern "C" {{
#endif

/* The network. */
void {prefix}_policy(const float obs[{network["observation_size"]}], float action[{network["action_size"]}]);

/* Raw measurements, in the units and frames above, to what the network sees. raw and obs may be the same array. */
void {prefix}_observe(const float raw[{network["observation_size"]}], float obs[{network["observation_size"]}]);

/* Actions in [-1, 1] to physical commands. action and command may be the same array. */
void {prefix}_command(const float action[{network["action_size"]}], float command[{network["action_size"]}]);

#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _observation_table(spec: Mapping[str, Any]) -> str:
    rows = [("index", "term", "unit", "frame", "scale", "clip")]
    for t in spec["observation"]:
        start, stop = t["slice"]
        index = f"{start}" if t["size"] == 1 else f"{start}..{stop - 1}"
        clip = "none" if t["clip"] is None else f"{t['clip']:.9g}"
        rows.append((index, t["name"], t["unit"], t["frame"] or "-", f"{t['scale']:.9g}", clip))
    return _table(rows)


def _action_table(spec: Mapping[str, Any]) -> str:
    a = spec["action"]
    rows = [("index", "name", "unit", "low", "high", "neutral")]
    for i, name in enumerate(a["names"]):
        rows.append((str(i), name, a["units"][i], *(f"{a[k][i]:.9g}" for k in ("low", "high", "neutral"))))
    return _table(rows)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    safe = [[_c(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in safe) for i in range(len(safe[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in safe)
    return "\n".join(f" *     {line}" for line in lines)


def _actuator_line(spec: Mapping[str, Any]) -> str:
    order = ", ".join(_c(name) for name in spec["actuators"])
    return f"\n *\n * Motors or joints are numbered in the order {order}." if order else ""


def _shape(network: Mapping[str, Any]) -> str:
    sizes = [network["observation_size"], *network["hidden"], network["action_size"]]
    return "Multilayer perceptron " + " -> ".join(map(str, sizes))


def _code(spec: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str, header: str) -> str:
    network, terms, action = spec["network"], spec["observation"], spec["action"]
    sizes = [network["observation_size"], *network["hidden"], network["action_size"]]
    scale = np.repeat([t["scale"] for t in terms], [t["size"] for t in terms])
    clip = np.repeat([LIMIT if t["clip"] is None else t["clip"] for t in terms], [t["size"] for t in terms])
    half = [(h - w) / 2.0 for w, h in zip(action["low"], action["high"], strict=True)]
    tables = [("mean", arrays["mean"]), ("std_dev", arrays["std"]), ("term_scale", scale), ("term_clip", clip)]
    tables += [("action_low", np.asarray(action["low"])), ("action_half", np.asarray(half))]
    for i in range(len(sizes) - 1):
        tables += [(f"weight_{i}", arrays[f"layers.{i}.weight"]), (f"bias_{i}", arrays[f"layers.{i}.bias"])]
    return "\n".join(
        [
            f'/* Written by Rookery; {header} says what it is. */\n#include <math.h>\n\n#include "{header}"\n',
            *(_const(name, values) for name, values in tables),
            _HELPERS,
            _ACTIVATION[network["activation"]] if network["hidden"] else "",
            _policy_function(network, sizes, prefix),
            _scaling_functions(sizes, prefix),
        ]
    )


def _policy_function(network: Mapping[str, Any], sizes: list[int], prefix: str) -> str:
    """The forward pass: two scratch arrays, each layer from one into the other."""
    inputs, outputs = sizes[0], sizes[-1]
    widest = max(sizes[:-1])
    second = f"\n    float y[{max(network['hidden'])}];" if network["hidden"] else ""
    here, there, steps = "x", "y", []
    for i, (n, m) in enumerate(pairwise(sizes[:-1])):
        steps.append(f"    dense(weight_{i}, bias_{i}, {here}, {there}, {n}, {m});\n    activate({there}, {m});")
        here, there = there, here
    last = len(sizes) - 2
    steps.append(f"    dense(weight_{last}, bias_{last}, {here}, action, {sizes[-2]}, {outputs});")
    clip = literal(network["obs_clip"])
    return f"""
void {prefix}_policy(const float obs[{inputs}], float action[{outputs}])
{{
    float x[{widest}];{second}
    int i;

    for (i = 0; i < {inputs}; i++) {{
        x[i] = clamp((obs[i] - mean[i]) / std_dev[i], {clip});
    }}
{chr(10).join(steps)}
    for (i = 0; i < {outputs}; i++) {{
        action[i] = clamp(action[i], 1.0f);
    }}
}}"""


def _scaling_functions(sizes: list[int], prefix: str) -> str:
    inputs, outputs = sizes[0], sizes[-1]
    return f"""
void {prefix}_observe(const float raw[{inputs}], float obs[{inputs}])
{{
    int i;

    for (i = 0; i < {inputs}; i++) {{
        obs[i] = clamp(raw[i] * term_scale[i], term_clip[i]);
    }}
}}

void {prefix}_command(const float action[{outputs}], float command[{outputs}])
{{
    int i;

    for (i = 0; i < {outputs}; i++) {{
        command[i] = action_low[i] + (clamp(action[i], 1.0f) + 1.0f) * action_half[i];
    }}
}}
"""


# Comparisons are written so that a NaN passes through, as it does in torch.
_HELPERS = """
static float clamp(float x, float limit)
{
    float y = x;

    if (x > limit) {
        y = limit;
    } else if (x < -limit) {
        y = -limit;
    } else {
        /* within the limits, or NaN */
    }
    return y;
}

/* y = weight * x + bias, weight stored row by row. Four sums: shorter rounding chains, and work for the pipeline. */
static void dense(const float weight[], const float bias[], const float x[], float y[], int inputs, int outputs)
{
    int i;
    int o;

    for (o = 0; o < outputs; o++) {
        const float *row = &weight[o * inputs];
        float s0 = 0.0f;
        float s1 = 0.0f;
        float s2 = 0.0f;
        float s3 = 0.0f;

        for (i = 0; (i + 3) < inputs; i += 4) {
            s0 += row[i] * x[i];
            s1 += row[i + 1] * x[i + 1];
            s2 += row[i + 2] * x[i + 2];
            s3 += row[i + 3] * x[i + 3];
        }
        for (; i < inputs; i++) {
            s0 += row[i] * x[i];
        }
        y[o] = ((s0 + s1) + (s2 + s3)) + bias[o];
    }
}
"""


def _loop(body: str) -> str:
    return f"""static void activate(float x[], int n)
{{
    int i;

    for (i = 0; i < n; i++) {{
        {body}
    }}
}}
"""


_ACTIVATION = {
    "tanh": _loop("x[i] = tanhf(x[i]);"),
    "elu": _loop("x[i] = (x[i] > 0.0f) ? x[i] : expm1f(x[i]);"),
    "relu": _loop("x[i] = (x[i] < 0.0f) ? 0.0f : x[i];"),
}


def _const(name: str, values: Any) -> str:
    words = [literal(float(v)) for v in np.asarray(values).ravel()]
    lines = [", ".join(words[i : i + 8]) for i in range(0, len(words), 8)]
    return f"static const float {name}[{len(words)}] = {{\n    " + ",\n    ".join(lines) + "\n};"


def literal(value: float) -> str:
    """A C float literal that gives the same float32 back.

    Raises:
        RookeryError: when the value does not fit into a float32.
    """
    if not abs(value) <= LIMIT:
        raise RookeryError(f"{value:g} does not fit into a 32-bit float: correct that limit or scale in the task.")
    word = f"{np.float32(value):.9g}"
    return word + ("f" if "." in word or "e" in word else ".0f")


def _c(words: object) -> str:
    """Text that cannot end or nest a C comment, nor form a trigraph."""
    line = " ".join(str(words).encode("ascii", "replace").decode().split())
    for bad, good in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?"), ("\\", "/"), ('"', "'")):
        line = line.replace(bad, good)
    return line
