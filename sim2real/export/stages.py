"""The forward pass in C, stage by stage, and what a history of observations or a state estimator adds to it (see export/c.py).

obs --normalize--> z --------------------------------------> act --> action         plain
obs --normalize--> z --predict--> targets, or known values ----+
                   +--> the newest frames of z ----------------+--> act --> action  with a state estimator

With a memory, what goes to act goes to the GRU first, and its new state to act. An encoder of pictures comes before both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.export import encoder


class Stages:
    """Sizes of a group's network.

    Args:
        group: in a valid contract.

    Raises:
        RookeryError: the network is no perceptron.

    Attributes:
        frame, history: F and H; the observation has O = H F components.
        inputs, outputs: O and D.
        actor_inputs: components at the end of the observation that the perceptron itself gets.
        targets: M, 0 without a state estimator.
        memory: numbers in the state of the GRU, 0 without one.
        encoder: of the pictures, or None.
        network_inputs: inputs of the memory, or without one of the perceptron.
        squash: C expression of the last stage.
        layers, estimator: widths from input to output of the perceptron and the estimator.
    """

    def __init__(self, group: ContractGroup) -> None:
        network = group.trained
        if network.module:
            raise RookeryError(
                f"the policy's network is the module {network.module!r}, and C export knows perceptrons: export_onnx writes it."
            )
        self.frame = group.spec.frame_size
        self.history = group.spec.history
        self.inputs = network.observation_size
        self.outputs = network.action_size
        self.actor_inputs = network.actor_inputs or self.inputs
        self.targets = network.targets or 0
        self.memory = group.memory_size
        self.encoder = network.encoder
        self.network_inputs = self.actor_inputs + self.targets
        if self.encoder is not None:
            self.network_inputs = self.encoder.outputs(self.actor_inputs)
        self.layers = [self.memory or self.network_inputs, *network.hidden, self.outputs]
        self.squash = "tanhf(action[i])" if network.squash == "tanh" else "clamp(action[i], 1.0f)"
        self.estimator = [self.inputs, *(network.estimator or ()), self.targets]

    @property
    def shape(self) -> str:
        """The networks in words."""
        out = "multilayer perceptron " + " -> ".join(map(str, self.layers))
        if self.memory:
            out = f"GRU {self.network_inputs} -> {self.memory} and {out}"
        if self.encoder is not None:
            pictures = " and ".join(f"{p.rows} x {p.columns} x {p.channels}" for p in self.encoder.pictures)
            out = f"convolutions of pictures {pictures} to {self.encoder.features} features, {out}"
        if self.targets:
            out = f"state estimator {' -> '.join(map(str, self.estimator))} and {out}"
        return out[0].upper() + out[1:]

    @property
    def stack(self) -> int:
        """Bytes of the caller's stack, about."""
        scratch = max(6 * self.memory, *(sum(_memory(sizes)) for sizes in (self.layers, self.estimator)))
        if self.encoder is not None:
            scratch = max(scratch, sum(encoder.scratch(self.encoder, self.actor_inputs)))
        joined = self.network_inputs if self.targets or self.encoder else 0
        return 4 * (self.inputs + scratch + joined) + 160

    def declarations(self, prefix: str) -> str:
        """What the header declares beyond a plain policy's functions."""
        out = ""
        if self.memory:
            out += f"""
/* Forget everything. Call it at an episode's start, and when an observation was NaN, which the memory would keep. */
void {prefix}_reset({prefix}_memory *memory);
"""
        if self.history > 1:
            out += f"""
/* Drop the oldest of the {self.history} frames in obs and append a new one. Call it at every step; at an episode's start
   {self.history} times with the first frame. */
void {prefix}_remember(const float frame[{self.frame}], float obs[{self.inputs}]);
"""
        if self.targets:
            out += f"""
/* The state estimator's predictions of the targets above. */
void {prefix}_predict(const float obs[{self.inputs}], float targets[{self.targets}]);

/* The network where some targets are known: known[i] replaces a prediction unless it is NaN. */
void {prefix}_policy_known(const float obs[{self.inputs}], const float known[{self.targets}], \
{self.parameter(prefix)}float action[{self.outputs}]);
"""
        return out

    def functions(self, prefix: str, clip: str) -> str:
        """C of ``<prefix>_policy`` and whatever `declarations` announces; `clip` is the literal of obs_clip."""
        parts = [_NORMALIZE.format(n=self.inputs, clip=clip), _network("act", "", self.layers)]
        parameter = self.parameter(prefix)
        if self.encoder is not None:
            parts.append(encoder.function(self.encoder, self.actor_inputs))
        if self.memory:
            parts.append(
                _GRU.format(prefix=prefix, n=self.network_inputs, h=self.memory, h2=2 * self.memory, h3=3 * self.memory)
            )
        if self.targets:
            parts.append(_network("predict", "estimator_", self.estimator))
            parts.append(_ESTIMATOR.format(prefix=prefix, clip=clip, first=self.inputs - self.actor_inputs,
                                           n=self.inputs, k=self.actor_inputs, t=self.targets, m=self.outputs,
                                           nothing=", ".join(["NAN"] * self.targets), squash=self.squash,
                                           parameter=parameter, argument="memory, " * (self.memory > 0),
                                           act=self._act("input"), inputs=self.network_inputs))  # fmt: skip
        else:
            z = f"&z[{self.inputs - self.actor_inputs}]" if self.actor_inputs < self.inputs else "z"
            act = self._act(z)
            joined = ""
            if self.encoder is not None:
                act = f"encode({z}, input);\n    {self._act('input')}"
                joined = f"    float input[{self.network_inputs}];\n"
            parts.append(_POLICY.format(prefix=prefix, n=self.inputs, m=self.outputs, act=act, squash=self.squash,
                                        parameter=parameter, joined=joined))  # fmt: skip
        if self.history > 1:
            parts.append(_REMEMBER.format(prefix=prefix, n=self.inputs, f=self.frame, old=self.inputs - self.frame))
        return "\n".join(parts)

    def parameter(self, prefix: str) -> str:
        """The memory among the parameters of the policy's functions."""
        return f"{prefix}_memory *memory, " if self.memory else ""

    def _act(self, source: str) -> str:
        """C statements from the normalised input to the perceptron's output."""
        return f"gru({source}, memory->h);\n    act(memory->h, action);" if self.memory else f"act({source}, action);"


def _memory(sizes: Sequence[int]) -> tuple[int, int]:
    """Lengths of the two arrays that hold hidden layers by turns."""
    hidden = sizes[1:-1]
    return max(hidden[::2], default=0), max(hidden[1::2], default=0)


def _network(name: str, tables: str, sizes: Sequence[int]) -> str:
    """A perceptron: each layer from one scratch array into the other."""
    arrays = [f"    float {a}[{size}];" for a, size in zip("xy", _memory(sizes), strict=True) if size]
    steps = []
    here = "in"
    for i, (n, m) in enumerate(pairwise(sizes)):
        there = "out" if i == len(sizes) - 2 else "xy"[i % 2]
        steps.append(f"    dense({tables}weight_{i}, {tables}bias_{i}, {here}, {there}, {n}, {m});")
        if there != "out":
            steps.append(f"    activate({there}, {m});")
        here = there
    body = "\n".join([*arrays, "", *steps] if arrays else steps)
    return f"""
static void {name}(const float in[{sizes[0]}], float out[{sizes[-1]}])
{{
{body}
}}"""


_NORMALIZE = """
static void normalize(const float obs[{n}], float z[{n}])
{{
    int i;

    for (i = 0; i < {n}; i++) {{
        z[i] = clamp((obs[i] - mean[i]) / std_dev[i], {clip});
    }}
}}"""

_POLICY = """
void {prefix}_policy(const float obs[{n}], {parameter}float action[{m}])
{{
    float z[{n}];
{joined}    int i;

    normalize(obs, z);
    {act}
    for (i = 0; i < {m}; i++) {{
        action[i] = {squash};
    }}
}}"""

_ESTIMATOR = """
void {prefix}_policy_known(const float obs[{n}], const float known[{t}], {parameter}float action[{m}])
{{
    float z[{n}];
    float input[{inputs}];
    int i;

    normalize(obs, z);
    for (i = 0; i < {k}; i++) {{
        input[i] = z[{first} + i];
    }}
    predict(z, &input[{k}]);
    for (i = 0; i < {t}; i++) {{
        if (!isnan(known[i])) {{
            input[{k} + i] = clamp((known[i] - target_mean[i]) / target_std[i], {clip});
        }}
    }}
    {act}
    for (i = 0; i < {m}; i++) {{
        action[i] = {squash};
    }}
}}

void {prefix}_policy(const float obs[{n}], {parameter}float action[{m}])
{{
    static const float nothing[{t}] = {{{nothing}}};

    {prefix}_policy_known(obs, nothing, {argument}action);
}}

void {prefix}_predict(const float obs[{n}], float targets[{t}])
{{
    float z[{n}];
    int i;

    normalize(obs, z);
    predict(z, targets);
    for (i = 0; i < {t}; i++) {{
        targets[i] = target_mean[i] + (target_std[i] * targets[i]);
    }}
}}"""

_GRU = """
static float sigmoid(float x)
{{
    return 1.0f / (1.0f + expf(-x));
}}

static void gru(const float in[{n}], float h[{h}])
{{
    float x[{h3}];
    float u[{h3}];
    int i;

    dense(gru_weight_ih, gru_bias_ih, in, x, {n}, {h3});
    dense(gru_weight_hh, gru_bias_hh, h, u, {h}, {h3});
    for (i = 0; i < {h}; i++) {{
        const float r = sigmoid(x[i] + u[i]);
        const float z = sigmoid(x[{h} + i] + u[{h} + i]);
        const float n = tanhf(x[{h2} + i] + (r * u[{h2} + i]));

        h[i] = n + (z * (h[i] - n));
    }}
}}

void {prefix}_reset({prefix}_memory *memory)
{{
    int i;

    for (i = 0; i < {h}; i++) {{
        memory->h[i] = 0.0f;
    }}
}}"""

_REMEMBER = """
void {prefix}_remember(const float frame[{f}], float obs[{n}])
{{
    int i;

    for (i = 0; i < {old}; i++) {{
        obs[i] = obs[i + {f}];
    }}
    for (i = 0; i < {f}; i++) {{
        obs[{old} + i] = frame[i];
    }}
}}"""
