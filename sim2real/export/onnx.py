"""One ONNX file per policy: float32, batch 1, with all stages and weights; the contract is in its metadata.

A policy with a state estimator has a second, optional input, "known_targets" [1, M]. Its default is NaN for every target:
all are predicted. A number replaces the prediction.

A policy with memory has an input "h_in" [1, H] and an output "h_out" [1, H]: zeros at an episode's start, then "h_out" of the
step before.

One that decides at events has an input "events" [1, E] bool: which of the contract's `events` have happened since the control
step before.

A policy that chooses among options has an output "logits" [1, C], and, where not all are allowed at all times, "action_mask"
[1, C] bool as its second input.
"""

from __future__ import annotations

import copy
import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import ONNX, Export, Exporter

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

INPUT = "obs"
STATE = "h_in"
OUTPUT = "action"
STATE_OUTPUT = "h_out"
KNOWN = "known_targets"
MASK = "action_mask"
EVENTS = "events"
LOGITS = "logits"
CONTRACT_KEY = "rookery_contract"
GROUP_KEY = "rookery_group"
EQUAL_KEY = "rookery_equal_weights"
"""Metadata: by weight that the exporter has merged with an equal one, that one's name, as JSON."""


class Onnx(Exporter):
    """ONNX, one file with all weights."""

    name = "onnx"
    files = (ONNX,)

    def check(self, export: Export) -> None:
        for policy in export.policies.values():
            if policy.chain.controlled:  # from outside, whence no input comes
                raise RookeryError(f"{policy.chain.c_refused}.")

    def write(self, export: Export, folder: Path) -> None:
        for group, policy, (path,) in export.parts(folder, *self.files):
            export_onnx(policy, export.contract, group, path)


def export_onnx(policy: Policy, contract: Contract, group: str, path: Path) -> None:
    """Write a policy as ONNX; input "obs" [1, O], output "action" [1, D], and others, see above.

    Args:
        policy: torch policy; it is copied, not changed.
        contract: a valid contract, stored whole under the metadata key "rookery_contract".
        group: agent group, stored under "rookery_group".
        path: file to write; no second file appears beside it.
    """
    import numpy as np
    import onnx
    import torch

    plain = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    inputs = {INPUT: torch.zeros(1, plain.observation_size)}
    if plain.mask_size:
        inputs[MASK] = torch.ones(1, plain.mask_size, dtype=torch.bool)
    if plain.events:
        inputs[EVENTS] = torch.zeros(1, len(plain.events), dtype=torch.bool)
    if plain.state_size:
        inputs[STATE] = plain.initial_state(1)
    if plain.targets:
        inputs[KNOWN] = torch.full((1, plain.targets), torch.nan)
    outputs = [OUTPUT, *[LOGITS] * (plain.options > 0), *[STATE_OUTPUT] * (plain.state_size > 0)]
    plain = _with_ends(plain, tuple(inputs), tuple(outputs))
    # The exporter reports its own progress and the optional operators it did not find; neither is the user's business.
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                plain,
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=outputs,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    finally:
        log.setLevel(level)
    assert program is not None  # dynamo=True always returns one
    model = program.model_proto
    _strip_traces(model)
    if plain.targets:
        nothing = np.full((1, plain.targets), np.nan, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(nothing, KNOWN))
    props = {CONTRACT_KEY: contract.dumps(), GROUP_KEY: group}
    if merged := _merged(model, policy):
        props[EQUAL_KEY] = json.dumps(merged)
    onnx.helper.set_model_props(model, props)
    model.doc_string = f"{contract.task_id}, group {group}, exported by Rookery {contract.rookery_version}"
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, str(path), save_as_external_data=False)


def _with_ends(policy: Policy, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Policy:
    """The same policy, whose `forward`, which is what the exporter writes down, takes and gives tensors by these names."""
    from rookery.policies.policy import Policy

    class Exported(Policy):
        def forward(self, *rows):  # type: ignore[no-untyped-def, override]
            given = dict(zip(inputs, rows, strict=True))
            state = given.get(STATE, self.initial_state(1))
            more = given.get(KNOWN), given.get(MASK), given.get(EVENTS)
            action, after, logits = self.step_with_logits(given[INPUT], state, *more)
            found = {OUTPUT: action, LOGITS: logits, STATE_OUTPUT: after}
            return tuple(found[name] for name in outputs)

    made = Exported(policy.chain.links)
    made.load_state_dict(policy.state_dict())
    return made.eval()


def _merged(model: Any, policy: Policy) -> dict[str, str]:
    """By weight that is no initializer, one that is, with the same numbers: as skills of a hierarchy may have."""
    import torch

    weights = {name: x.detach().cpu() for name, x in policy.state_dict().items()}
    there = [i.name for i in model.graph.initializer if i.name in weights]
    out = {}
    for name in weights.keys() - set(there):
        same = [other for other in there if torch.equal(weights[other], weights[name])]
        if same:
            out[name] = same[0]
    return dict(sorted(out.items()))


def _strip_traces(model: Any) -> None:
    """Remove the exporter's stack traces: they name folders of the machine that trained, and change from run to run."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
