"""Contracts of version 1: completed from the task, refused where that is not possible."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rookery.policies
from rookery.experiments.runs import open_run
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.upgrade import main, upgraded

Values = dict[str, Any]
ZOO = Path(rookery.policies.__file__).parent / "zoo"
NEW_LINES = ("formula", "expression", "local", "initial", "estimated", "clock")


def version_1(values: Values) -> Values:
    """What version 1 said of the same policy."""
    old = copy.deepcopy(values)
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


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity", "table-reach", "volley-hit"])
def test_an_old_contract_of_the_zoo_becomes_the_new_one(task: str) -> None:
    """Nothing that version 1 said changes, and everything that version 2 asks for is there."""
    new = stored(task)
    if task == "table-reach":
        new["latency"]["observation"]["randomized"] = [0.0, 0.0125]  # its default while contracts were of version 1
    old = version_1(new)
    assert upgraded(old) == new
    assert upgraded(new) == new
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


def test_open_run_completes_and_a_bundle_is_refused(tmp_path: Path) -> None:
    """A run can be completed, since its files belong together by the network; a bundle's are tied to the old text."""
    folder = Path(shutil.copytree(ZOO / "drone-hover", tmp_path / "run"))
    (folder / "contract.json").write_text(json.dumps(version_1(stored("drone-hover"))))
    _, contract = open_run(folder)
    assert contract.to_json() == stored("drone-hover")
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
