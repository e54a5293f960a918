"""Policies of other people: the example of the docs flies, computes what the bundle of the same network does, and what is wrong
in a hand-written contract is said by its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rookery.cli.main import main
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.onnx_controller import OnnxController, open_controller
from rookery.sim2real.runtime.pilot import HALT_S
from rookery.sim2real.short_contract import read_short_contract

DOCS = Path(__file__).resolve().parents[3] / "docs" / "fly.md"


def example() -> str:
    """The contract of the docs."""
    (found,) = re.findall(r"```json\n(\{\n  \"schema\": \"rookery-short-contract\".*?)```", DOCS.read_text(), re.S)
    return str(found)


def write_network(bundle: Path, path: Path) -> None:
    """A bundle's network as another library would write it: other names, nothing of ours in its metadata."""
    model = onnx.load(bundle / "policy.onnx")
    del model.metadata_props[:]
    names = {"obs": "observation_in", "action": "mean_out"}
    for node in model.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    for end in (*model.graph.input, *model.graph.output):
        end.name = names[end.name]
    onnx.save(model, path)


@pytest.fixture
def own(hover_bundle: Path, tmp_path: Path) -> Path:
    """The folder of the docs' example, with the network of the stored drone-hover policy."""
    (tmp_path / "contract.json").write_text(example())
    write_network(hover_bundle, tmp_path / "policy.onnx")
    return tmp_path


@pytest.mark.slow
def test_the_example_of_the_docs_flies(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(example().splitlines()) <= 40
    log = tmp_path / "flight.mcap"
    assert main(["fly", str(own), "--dry-run", "--seconds", "3", "--json", "--log", str(log)]) == 0
    (vehicle,) = json.loads(capsys.readouterr().out)["vehicles"]
    assert vehicle["fault"] is None
    assert vehicle["policy_s"] == pytest.approx(3.0, abs=0.02)
    assert vehicle["largest_distance_m"] < 0.1
    assert log.stat().st_size > 10_000


def test_the_range_of_the_docs_example_is_kept(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_short_contract(json.loads(example())).groups["robot"].commands["target"].high == (1.0, 1.0, 1.0)
    assert main(["fly", str(own), "--dry-run", "--json", "--command", "target=0,0,3"]) == 2
    said = capsys.readouterr().err
    assert "up 3 m of the command 'target' is out of its range" in said and said.count("\n") == 1


def drawn(controller: Controller, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random values of all that a policy wants."""
    out = {q.name: rng.standard_normal(q.size).astype(np.float32) for q in controller.wanted}
    if "rotation" in out:
        out["rotation"] /= np.linalg.norm(out["rotation"])
    return out


def test_it_computes_what_the_bundle_of_the_same_network_does(own: Path, hover_bundle: Path) -> None:
    theirs, ours = open_controller(own), open_controller(hover_bundle)
    assert isinstance(theirs, OnnxController) and not isinstance(ours, OnnxController)
    assert theirs.control_dt == ours.control_dt
    rng = np.random.default_rng(1)
    ours.action[:] = 0.0
    for episode in range(2):
        theirs.begin(), ours.begin()
        for step in range(50):
            values = drawn(ours, rng)
            np.testing.assert_allclose(theirs.step(values), ours.step(values), atol=2e-5, err_msg=f"{episode}, {step}")


def legs(contract: Contract) -> dict[str, Any]:
    """The stored go2-velocity policy's contract, written as by hand."""
    group = contract.groups["robot"]
    assert group.actuation is not None
    joints = group.actuation.joints
    of = {"angular_velocity": "angular velocity", "joint_velocity": "joint velocities", "last_action": "last action"}
    terms = []
    for term in group.spec.observation:
        line: dict[str, Any] = {
            "name": term.name,
            "scale": term.scale,
            "of": of.get(term.name, term.expression.to_json()),
        }
        terms.append(line)
    return {
        "schema": "rookery-short-contract",
        "control_dt": contract.control_dt,
        "observation": terms,
        "action": {"kind": "joint_position"} | {k: list(getattr(group.spec.action, k)) for k in ("low", "high", "neutral")},
        "joints": [
            {k: getattr(j, k) for k in ("name", "home", "lower", "upper", "kp", "kd", "torque")}
            for j in sorted(joints, key=lambda j: group.spec.action.names.index(j.name))
        ],
        "history": group.spec.history,
    }  # fmt: skip


@pytest.mark.slow
def test_legs_too(walk_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = legs(Contract.read(walk_bundle))
    (tmp_path / "contract.json").write_text(json.dumps(values))
    write_network(walk_bundle, tmp_path / "policy.onnx")
    words = ["fly", str(tmp_path), "--dry-run", "--seconds", "2", "--json", "--command", "velocity=0.3,0,0"]
    assert main(words) == 0
    (vehicle,) = json.loads(capsys.readouterr().out)["vehicles"]
    assert (vehicle["fault"], vehicle["policy_s"]) == (None, pytest.approx(2.0 + HALT_S, abs=0.05))


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of JSON values."""

    def edit(values: Any) -> None:
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "line", "why"),
    [
        (put("control_dt", value=0), "control_dt", "above 0"),
        (put("control_dt", value="0.01"), "control_dt", "number"),
        (put("contorl_dt", value=1), "contorl_dt", ""),
        (put("observation", value=[]), "observation", ""),
        (put("observation", 0, "of", value="target - positoin"), "observation[0].of", "made of target, position"),
        (put("observation", 0, "of", value="position"), "observation[0].axes", "differences of places"),
        (put("observation", 0, "of", value="velocity - position"), "observation[0].of", "fit together"),
        (put("observation", 0, "of", value=""), "observation[0].of", "made of"),
        (put("observation", 3, "axes", value="body"), "observation[3].axes", "vectors in world axes"),
        (put("observation", 3, "of", value={"kind": "nothing"}), "observation[3].of.kind", "one of"),
        (put("observation", 1, "name", value="position_error"), "observation", "different names"),
        (put("action", "kind", value="ctbt"), "action.kind", "ctbr"),
        (put("action", "kind", value="joint_position"), "action.kind", "for a multirotor"),
        (put("action", "low", value=[0.0]), "action.low", "4 numbers (roll_rate"),
        (put("action", "low", 3, value=1.0), "action.low", "below action.high"),
        (put("multirotor", "mass", value=-1.0), "multirotor.mass", ""),
        (put("multirotor", value=None), "multirotor", "one of them"),
        (put("joints", value=[{"name": "hip"}]), "joints[0]", ""),
        (put("commands", "target", "low", value=[0.0]), "commands.target.low", "a list of 3"),
        (put("commands", "target", "low", value=[1.5, 0.0, 0.0]), "commands.target.high[0]", "at least"),
        (put("commands", "target", "low", 0, value=0.5), "commands.target.low", "around 0"),
        (put("commands", "target", "relative_to", value="velocity"), "commands.target.relative_to", "place"),
        (put("commands", "goal", value={"low": [0.0], "high": [1.0]}), "commands.goal", "no quantity"),
    ],
)
def test_a_wrong_line_is_said(edit: Callable[[dict[str, Any]], None], line: str, why: str) -> None:
    values = json.loads(example())
    edit(values)
    with pytest.raises(RookeryError) as error:
        read_short_contract(values)
    said = str(error.value)
    assert line in said
    assert why in said
    assert "\n" not in said and "export" not in said


def test_networks_that_do_not_fit_are_refused(own: Path) -> None:
    values = json.loads(example())
    del values["observation"][4]
    (own / "contract.json").write_text(json.dumps(values))
    with pytest.raises(RookeryError, match=r"the contract wants one float32 input \[1, 12\]"):
        OnnxController(own)
    (own / "contract.json").write_text(example())
    (own / "policy.onnx").write_bytes(b"no network")
    with pytest.raises(RookeryError, match="not a readable ONNX file"):
        OnnxController(own)
    (own / "contract.json").write_text("{")
    with pytest.raises(RookeryError, match="not a JSON file"):
        OnnxController(own)
