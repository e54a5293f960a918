"""Older contracts and weights: brought to this version bit for bit, refused where that is not possible."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import rookery.policies
from rookery.experiments.runs import open_run
from rookery.policies.training.store import _digest
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.upgrade import commanded, main, upgraded

Values = dict[str, Any]
ZOO = Path(rookery.policies.__file__).parent / "zoo"
NEW_LINES = ("formula", "expression", "local", "initial", "estimated", "clock")


KNOWN = {"normalize", "gru", "perceptron", "squash"}
"""Stages that version 2 had words for."""


def silent(values: Values) -> Values:
    """What version 3 said of the same policy while it stated no ranges of commands."""
    old = copy.deepcopy(values)
    for group in old["groups"].values():
        group.pop("commands", None)
    return old


def version_2(values: Values) -> Values:
    """What version 2 said of the same policy: sizes of a network, by the names that they had."""
    old = silent(values)
    old["schema_version"] = 2
    old["conventions"] |= {name: text.replace("policy ", "network ") for name, text in old["conventions"].items()}
    for group in old["groups"].values():
        first, *more, last = group.pop("stages")
        perceptron = more[-1]
        network = {"observation_size": first["size"], "action_size": last["size"], "hidden": perceptron["hidden"]}
        network |= {"activation": perceptron["activation"], "obs_clip": first["clip"], "squash": last["function"]}
        if len(more) == 2:
            network |= {"memory": "gru", "memory_size": more[0]["size"]}
            group["memory"] = "equations"
        group |= {"network": network, "normalizer": "in words"}
    return old


def version_1(values: Values) -> Values:
    """What version 1 said of the same policy."""
    old = version_2(values)
    old["schema_version"] = 1
    old["assumed_delay"] = old.pop("latency")["action"]["randomized"]
    del old["measurement_errors"], old["metrics"], old["conventions"]["error"]
    for group in old["groups"].values():
        actuation = group.pop("actuation")
        group["actuators"] = actuation["actuators"]
        for term in group["observation"]:
            for line in NEW_LINES:
                term.pop(line, None)
    return old


def stored(task: str) -> Values:
    values: Values = json.loads((ZOO / task / "contract.json").read_text())
    return values


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity", "table-reach", "volley-bump-and-pass"])
def test_an_old_contract_of_the_zoo_becomes_the_new_one(task: str) -> None:
    """Nothing that version 1 said changes, and everything that version 3 asks for is there."""
    new = stored(task)
    if task == "table-reach":
        new["latency"]["observation"]["randomized"] = [0.0, 0.0125]  # its default while contracts were of version 1
    old = version_1(new)
    assert upgraded(old) == silent(new)
    assert upgraded(new) == new
    assert commanded(upgraded(old)) == new
    assert old["schema_version"] == 1  # not changed in place
    assert Contract.from_json(upgraded(old)).to_json()["provenance"] == old["provenance"]


def test_unknown_ranges_stay_unknown() -> None:
    """Noise is known where there was no randomization, or the default one with the delays that it has today."""
    old = version_1(stored("drone-hover"))
    assert upgraded(old)["measurement_errors"] == {"noise": [1.0, 1.0], "bias": [1.0, 1.0]}
    assert upgraded(old | {"assumed_delay": [0.0, 0.015]})["measurement_errors"] == {"noise": None, "bias": None}
    own = upgraded(old | {"provenance": old["provenance"] | {"randomisation": "mine.toml"}})
    assert own["latency"]["observation"]["randomized"] is None
    assert own["latency"]["action"]["randomized"] == [0.0, 0.02]
    none = upgraded(old | {"provenance": old["provenance"] | {"randomisation": "none"}})
    assert none["measurement_errors"] == {"noise": [0.0, 0.0], "bias": [0.0, 0.0]}
    Contract.from_json(own)


def of_version_2() -> list[str]:
    """Policies of the zoo with no other stages than version 2 had."""
    names = sorted(p.name for p in ZOO.iterdir() if (p / "contract.json").exists())
    return [n for n in names if all({s["stage"] for s in g["stages"]} <= KNOWN for g in stored(n)["groups"].values())]


@pytest.mark.parametrize("task", of_version_2())
def test_version_2_of_the_whole_zoo_becomes_the_new_one(task: str) -> None:
    new = stored(task)
    old = version_2(new)
    assert old != new and upgraded(old) == silent(new)


@pytest.mark.parametrize("task", ["drone-hover", "table-reach"])
def test_ranges_of_commands_are_added_to_older_contracts_and_left_as_they_are(task: str) -> None:
    new = stored(task)
    (group,) = new["groups"]
    assert commanded(silent(new)) == new
    narrow = copy.deepcopy(new)
    for span in narrow["groups"][group]["commands"].values():
        span["low"] = [0.5 * low for low in span["low"]]
    assert commanded(narrow) == narrow
    for line in ({"task_id": "no-such-task"}, {"task_id": "task.py"}, {"task_config": {"no_such_value": 1.0}}):
        assert commanded(silent(new) | line) == silent(new) | line  # nobody knows: not refused
    set_of = json.loads((ZOO / "MT10" / "contract.json").read_text())
    assert commanded(set_of) == set_of  # most of its goals are parts of the scene


def test_the_zoo_states_the_ranges_that_its_tasks_draw() -> None:
    for folder in sorted(p.parent for p in ZOO.glob("*/contract.json")):
        assert commanded(silent(stored(folder.name))) == stored(folder.name), folder.name


OLD_NAMES = {
    "normalize.mean": "mean", "normalize.std": "std", "gru.weight_ih": "cell.weight_ih", "gru.weight_hh": "cell.weight_hh",
    "gru.bias_ih": "cell.bias_ih", "gru.bias_hh": "cell.bias_hh", "perceptron.weight_0": "layers.0.weight",
    "perceptron.bias_0": "layers.0.bias", "perceptron.weight_1": "layers.1.weight", "perceptron.bias_1": "layers.1.bias",
}  # fmt: skip


def as_version_2(source: Path, folder: Path) -> Path:
    """A folder of the zoo as it was, its weights under the names that they had."""
    folder.mkdir()
    values = version_2(json.loads((source / "contract.json").read_text()))
    tensors = {OLD_NAMES[name]: x for name, x in load_file(source / "policy.safetensors").items()}
    (group,) = values["groups"].values()
    metadata = {"network": json.dumps(group["network"]), "sha256": _digest(tensors)}
    save_file(tensors, folder / "policy.safetensors", metadata)
    (folder / "contract.json").write_text(json.dumps(values))
    return folder


def test_weights_of_version_2_act_by_the_same_bits_and_are_rewritten(tmp_path: Path) -> None:
    source = ZOO / "drone-hover-gru"
    folder = as_version_2(source, tmp_path / "run")
    obs, state = torch.randn(64, 16), torch.randn(64, 32)
    with torch.no_grad():
        wanted = open_run(source)[0]["drone"].step(obs, state)
        before = open_run(folder)[0]["drone"].step(obs, state)
        assert main([str(folder)]) == 0
        after = open_run(folder)[0]["drone"].step(obs, state)
    assert all(torch.equal(x, y) and torch.equal(x, z) for x, y, z in zip(wanted, before, after, strict=True))
    assert json.loads((folder / "contract.json").read_text()) == json.loads((source / "contract.json").read_text())
    assert load_file(folder / "policy.safetensors").keys() == load_file(source / "policy.safetensors").keys()


@pytest.mark.parametrize(
    "change",
    [{"memory": "lstm", "memory_size": 3}, {"hidden": "wide"}, {"squash": "sigmoid"}, {"obs_clip": None}, {"x": 1}],
)
def test_networks_that_nothing_is_known_of_are_refused(change: Values) -> None:
    old = version_2(stored("drone-hover"))
    old["groups"]["drone"]["network"] |= change
    with pytest.raises(RookeryError, match=r"schema version 2, .* `rookery export RUN --out DIR`"):
        upgraded(old)


def test_open_run_completes_and_a_bundle_is_refused(tmp_path: Path) -> None:
    """A run can be completed, since its files belong together by the network; a bundle's are tied to the old text."""
    folder = Path(shutil.copytree(ZOO / "drone-hover", tmp_path / "run"))
    (folder / "contract.json").write_text(json.dumps(version_1(stored("drone-hover"))))
    _, contract = open_run(folder)
    assert contract.to_json() == silent(stored("drone-hover"))
    with pytest.raises(RookeryError, match=r"schema version 1, .*`rookery export RUN --out DIR`"):
        Contract.read(folder)
    assert main([str(folder)]) == 0
    assert Contract.read(folder).to_json() == stored("drone-hover")
    assert main([]) == 2


@pytest.mark.parametrize(
    ("line", "value", "reason"),
    [
        ("task_id", "my-own-task", "my-own-task"),
        ("task_id", "evil.py:Task", "it is a file, which is not run"),
        ("task_config", {"wings": 2}, "wings"),
        ("task_config", {}, ""),
        ("groups", {"bird": {}}, "bird"),
    ],
)
def test_what_cannot_be_rebuilt_is_one_sentence_with_the_way_out(line: str, value: Any, reason: str) -> None:
    old = version_1(stored("drone-hover"))
    if value == {}:  # the task's default has another action kind than the contract
        old["groups"]["drone"]["action"]["kind"] = "velocity"
    else:
        old[line] = value
    with pytest.raises(RookeryError) as e:
        upgraded(old)
    text = str(e.value)
    assert "schema version 1" in text and "export" in text and reason in text
    assert "\n" not in text


def test_a_term_that_has_changed_since_is_refused() -> None:
    old = version_1(stored("drone-hover"))
    old["groups"]["drone"]["observation"][0]["frame"] = "world"
    with pytest.raises(RookeryError, match="'position_error' of drone is another today"):
        upgraded(old)


def test_a_bundle_is_left_as_it_is(tmp_path: Path) -> None:
    """Its header, ONNX and golden vectors have the fingerprint of its contract."""
    values = stored("drone-hover")
    del values["groups"]["drone"]["commands"]
    text = json.dumps(values)
    (tmp_path / "contract.json").write_text(text)
    (tmp_path / "policy.onnx").write_bytes(b"")
    with pytest.raises(RookeryError, match=r"is a bundle, .* export it again"):
        main([str(tmp_path)])
    assert (tmp_path / "contract.json").read_text() == text


def test_a_policy_of_an_unknown_training_gets_no_ranges() -> None:
    values = stored("drone-hover")
    del values["groups"]["drone"]["commands"]
    assert "commands" in commanded(values)["groups"]["drone"]
    for delay in values["latency"].values():
        delay["randomized"] = None
    assert commanded(values) == values
