"""The contract: complete, exact through JSON, and refused line by line."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rookery.policies
from rookery.sim.deployment import Deployment
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import CommandRange, Group, Term
from rookery.sim.terms import Quantity
from rookery.sim.values import plain
from rookery.sim2real.build import build_contract
from rookery.sim2real.command_ranges import check_commands, ranges_json, ranges_of
from rookery.sim2real.compatibility import check_compatible, check_groups, differences, with_stages
from rookery.sim2real.contract import Contract, Delay, Latency, Limit, MeasurementErrors
from rookery.sim2real.provenance import gather_provenance
from rookery.tasks.registry import find
from rookery.version import __version__
from tests.sim2real.conftest import Config, make_actuation, make_env, make_group, make_policy

Values = dict[str, Any]
ZOO = Path(rookery.policies.__file__).parent / "zoo"


TARGETS = CommandRange((-1.0, -2.0, -0.5), (1.0, 2.0, 0.5), relative_to="position")


def edited(contract: Values, line: str, value: Any) -> Values:
    """A copy with one line, such as ``groups.drone.observation[2].unit``, replaced."""
    out = copy.deepcopy(contract)
    at: Any = out
    *path, last = [int(p) if p.isdigit() else p for p in line.replace("]", "").replace("[", ".").split(".")]
    for part in path:
        at = at[part]
    at[last] = value
    return out


def test_contract_says_what_the_declarations_say(values: Values) -> None:
    contract = values
    group = contract["groups"]["drone"]
    assert [t["slice"] for t in group["observation"]] == [[0, 3], [3, 12], [12, 15]]
    assert group["observation"][2] == {
        "name": "linear_velocity",
        "size": 3,
        "slice": [12, 15],
        "unit": "m/s",
        "frame": "world",
        "scale": 0.3,
        "clip": 4.0,
        "formula": "linear_velocity, world axes",
        "expression": {"kind": "quantity", "name": "linear_velocity", "count": 3, "unit": "m/s", "frame": "world"},
        "estimated": "linear velocity",
        "noise": 0.0,
        "bias": 0.1,
        "delay": 0.01,
        "history": 1,
    }
    assert group["observation"][0]["clip"] is None
    assert group["observation"][0]["formula"] == "target - position, world axes"
    assert group["observation"][1]["clock"] == {
        "frequency": 2.0,
        "start": [0.0, 1.0],
        "runs": "while speed is above 0.5 m/s",
    }
    assert group["observation"][1]["initial"] == "the identity"
    assert group["actuation"] is None
    assert group["action"]["high"] == [0.6, 6.0, 6.0]
    assert group["safety"]["thrust"] == {"low": 0.0, "high": 0.6, "unit": "N"}
    assert group["stages"] == make_policy().to_json()
    assert (contract["control_dt"], contract["physics_dt"]) == (0.01, 0.002)
    assert contract["latency"]["action"] == {"assumed": 0.0, "randomized": [0.0, 0.0]}
    assert contract["task_config"] == {
        "dt": 0.002,
        "start": [1.0, 2.0],
        "reward": {"distance": -0.5},
    }
    assert contract["provenance"]["steps"] == 1000
    assert contract["provenance"]["commit"] is None


def test_the_deployment_gives_what_the_groups_do_not() -> None:
    deployment = Deployment(
        config=plain(Config()),
        physics_dt=0.002,
        actuation={"drone": make_actuation()},
        safety={"drone": {"tilt": {"low": None, "high": 0.6, "unit": "rad"}}},
        commands={"target": TARGETS, "of another group": CommandRange((0.0,), (1.0,))},
        metrics={"error_m": "m, mean distance"},
        randomized={"observation_delay": (0.0, 0.01), "action_delay": (0.0, 0.02), "observation_noise": (0.5, 1.0)},
    )
    contract = build_contract(make_env(deployment))
    group = contract.groups["drone"]
    assert group.safety == {"tilt": Limit(None, 0.6, "rad")}
    assert group.commands == {"target": TARGETS}
    assert group.actuation == make_actuation()
    assert group.stages is None
    assert contract.latency == Latency(Delay(0.0, (0.0, 0.01)), Delay(0.0, (0.0, 0.02)))
    assert contract.measurement_errors == MeasurementErrors((0.5, 1.0), (0.0, 0.0))
    assert contract.metrics == {"error_m": "m, mean distance"}
    values = contract.to_json()
    joint = values["groups"]["drone"]["actuation"]["joints"][0]
    assert (joint["axis"], joint["no_load_speed"]) == ([0.0, 1.0, 0.0], None)
    assert Contract.from_json(values, stages=False) == contract


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("joints[0].kp", "stiff"),
        ("joints[0].axis", [0.0, 1.0]),
        ("joints[0].axis[1]", None),
        ("gripper.force", math.inf),
        ("actuators[2]", 3),
        ("steps", "target = command"),
        ("multirotor", 4),
    ],
)
def test_wrong_lines_of_the_actuation_are_named(line: str, value: Any) -> None:
    deployment = Deployment(config={}, physics_dt=0.002, actuation={"drone": make_actuation()})
    values = build_contract(make_env(deployment)).to_json()
    place = f"groups.drone.actuation.{line}"
    with pytest.raises(RookeryError) as e:
        Contract.from_json(edited(values, place, value), stages=False)
    assert f"contract line {place} is" in str(e.value)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("references.speed", [1.0] * 6),
        ("references.lead", [1.0] * 8),
        ("references.jerk", [1000.0] * 6 + [0.0]),
        ("tool_goal.home", [0.0]),
        ("chain.start", []),
        ("chain.offsets", [[0.0, 0.0, 0.0]] * 7),
        ("chain.turns", [[1.0, 0.0, 0.0, 0.0]] * 9),
        ("chain.turns[2]", [1.0, 1.0, 0.0, 0.0]),
    ],
)
def test_lines_by_joint_that_do_not_fit_an_arm_are_named(line: str, value: Any) -> None:
    """The C of the loops reads a value for each joint."""
    values = json.loads((ZOO / "table-reach" / "contract.json").read_text())
    place = f"groups.arm.actuation.{line}"
    with pytest.raises(RookeryError) as e:
        Contract.from_json(edited(values, place, value))
    assert f"contract line {place} is" in str(e.value)


@pytest.mark.parametrize(
    ("line", "value", "wrong"),
    [
        ("low", [-1.0, -1.0], "low"),
        ("low", [-1.0, -1.0, math.nan], "low[2]"),
        ("low", [-1.0, 3.0, -1.0], "high[1]"),
        ("low", [0.1, -1.0, -0.5], "low"),
        ("high", "far", "high"),
        ("unit", "cm", "unit"),
        ("unit", None, "unit"),
        ("relative_to", "linear_velocity", "relative_to"),
        ("relative_to", "", "relative_to"),
        ("relative_to", "target", "relative_to"),
        ("relative_to", "nowhere", "relative_to"),
    ],
)
def test_wrong_ranges_of_commands_are_named(line: str, value: Any, wrong: str) -> None:
    values = build_contract(make_env(Deployment(physics_dt=0.002, commands={"target": TARGETS}))).to_json()
    assert Contract.from_json(values, stages=False).groups["drone"].commands == {"target": TARGETS}
    with pytest.raises(RookeryError) as e:
        Contract.from_json(edited(values, f"groups.drone.commands.target.{line}", value), stages=False)
    assert f"contract line groups.drone.commands.target.{wrong} is" in str(e.value)
    for other in ({}, {"no quantity": values["groups"]["drone"]["commands"]["target"]}, None):
        with pytest.raises(RookeryError, match=r"contract line groups\.drone\.commands"):
            Contract.from_json(edited(values, "groups.drone.commands", other), stages=False)


@pytest.mark.parametrize("name", ["position", "velocity"])
def test_a_range_of_what_is_measured_is_refused(name: str) -> None:
    own_state = Quantity(name, 3, "m")
    line = {"low": [-1.0] * 3, "high": [1.0] * 3, "unit": "m"}
    with pytest.raises(RookeryError, match=f"commands.{name} is .* left out: '{name}' is measured"):
        check_commands({name: line}, [Term("own", own_state)], "commands")


def test_a_range_from_where_a_robot_is_not_told_to_be_is_left_out_and_refused() -> None:
    """A flight would hold the place as if it were counted from the world's origin."""
    target, position = Quantity("target", 3, "m", place=True), Quantity("position", 3, "m", place=True)
    told = [Term("target", target), Term("position", position)]
    hidden = [told[0], replace(told[1], hidden=True)]
    assert ranges_of({"target": TARGETS}, told) == {"target": TARGETS}
    assert ranges_of({"target": TARGETS}, hidden) == {}
    assert ranges_of({"target": TARGETS}, [replace(t, hidden=True) for t in told]) == {}
    line = ranges_json({"target": TARGETS}, told)
    check_commands(line, told, "commands")
    with pytest.raises(RookeryError, match=r"commands\.target\.relative_to is 'position'"):
        check_commands(line, hidden, "commands")


def test_ranges_that_no_training_had_are_left_out() -> None:
    env = make_env(Deployment(physics_dt=0.002, commands={"target": TARGETS}))
    assert build_contract(env, trained_here=False).groups["drone"].commands == {}


def test_round_trip_is_exact(values: Values, tmp_path: Path) -> None:
    contract = Contract.from_json(edited(values, "groups.drone.observation[0].scale", math.pi / 3.0))
    contract.write(tmp_path / "contract.json")
    assert Contract.read(tmp_path) == contract
    assert Contract.read(tmp_path / "contract.json").fingerprint == contract.fingerprint
    assert Contract.from_json((tmp_path / "contract.json").read_bytes()) == contract
    assert Contract.from_json(edited(values, "control_dt", 0.02)).fingerprint != Contract.from_json(values).fingerprint


def test_the_object_is_typed(contract: Contract) -> None:
    """Terms, action and stages are the same objects as in the environment's and the policy's own declarations."""
    group = contract.groups["drone"]
    assert group.spec == make_group()
    assert group.trained == make_policy().chain
    assert (contract.provenance.steps, contract.provenance.seed, contract.provenance.commit) == (1000, 3, None)


OF_EACH_FAMILY = ("drone-hover-gru", "swarm-surround", "volley-solo-bump", "go2-navigate", "panda-lift", "MT10")


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(f, id=f.parent.name, marks=() if f.parent.name in OF_EACH_FAMILY else pytest.mark.slow)
        for f in sorted(ZOO.glob("*/contract.json"))
    ],
)
def test_zoo_contracts_come_back_value_for_value(folder: Path) -> None:
    values = json.loads(folder.read_text())
    assert Contract.from_json(values).to_json() == values


def test_zoo_contracts_have_the_metrics_of_their_tasks() -> None:
    """A metric that a task gains is measured of its policies as well, and their contracts say what it means."""
    for file in sorted(ZOO.glob("*/contract.json")):
        values = json.loads(file.read_text())
        env = rookery.make(values["task_id"], max(1, len(find(values["task_id"]).members)))
        now = dict(env.deployment().metrics)
        env.close()
        assert values["metrics"] == now, file.parent.name


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("schema", "mjlab"),
        ("task_id", ""),
        ("control_dt", 0),
        ("control_dt", "fast"),
        ("physics_dt", math.nan),
        ("latency.action.randomized", [0.02, 0.0]),
        ("latency.observation.randomized", [0.0, 0.0, 0.0]),
        ("latency.action.randomized", [0.0]),
        ("latency.action.randomized[1]", "0.1"),
        ("latency.action.assumed", -0.01),
        ("control_dt", True),
        ("groups.drone.observation[0].present", False),
        ("groups.drone.observation[0].slice", [0, 3, 6]),
        ("groups.drone.safety.thrust.unit", ""),
        ("measurement_errors.noise", [1.0, 0.5]),
        ("groups.drone.observation[0].formula", None),
        ("groups.drone.observation[0].formula", "position - target, world axes"),
        ("groups.drone.observation[0].expression", "target - position"),
        ("groups.drone.observation[0].expression.kind", "ratio"),
        ("groups.drone.observation[0].expression.a.unit", 3),
        ("groups.drone.observation[0].expression.a.count", 2.5),
        ("groups.drone.observation[0].expression.b.kind", None),
        ("groups.drone.observation[0].expression.b.speed", 1.0),
        ("groups.drone.observation[0].local", True),
        ("groups.drone.observation[0].unit", "cm"),
        ("groups.drone.observation[0].frame", "body"),
        ("groups.drone.observation[1].clock.frequency", 0.0),
        ("groups.drone.observation[2].estimated", ""),
        ("groups.drone.actuation", []),
        ("groups", {}),
        ("groups.drone.count", 0),
        ("groups.drone.count", True),
        ("groups.drone.observation", []),
        ("groups.drone.observation[1].name", "position_error"),
        ("groups.drone.observation[1].size", 9.0),
        ("groups.drone.observation[1].slice", [3, 11]),
        ("groups.drone.observation[2].unit", ""),
        ("groups.drone.observation[2].frame", None),
        ("groups.drone.observation[2].scale", math.inf),
        ("groups.drone.observation[2].clip", -1.0),
        ("groups.drone.observation[2].history", 3),
        ("groups.drone.action.low", [0.0, 1.0]),
        ("groups.drone.action.high[1]", -6.0),
        ("groups.drone.action.neutral[0]", 1.5),
        ("groups.drone.stages", None),
        ("groups.drone.stages", []),
        ("groups.drone.stages[1].activation", "gelu"),
        ("groups.drone.stages[1].hidden[0]", 1.5),
        ("groups.drone.stages[0].formula", "x"),
        ("groups.drone.stages[2].function", "sigmoid"),
        ("groups.drone.safety.thrust.high", "0.6"),
        ("conventions.quaternion", "x, y, z, w"),
        ("provenance", "mine"),
    ],
)
def test_wrong_line_is_named(values: Values, line: str, value: Any) -> None:
    with pytest.raises(RookeryError, match="contract line") as e:
        Contract.from_json(edited(values, line, value))
    assert f"contract line {line} is {value!r}" in str(e.value)


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("a.unit", "cm", "cm and m cannot be added or compared"),
        ("a.frame", "body", "one is in body axes, the other in world axes"),
        ("a.count", 2, "2 values and 3 do not fit together"),
    ],
)
def test_an_expression_whose_parts_do_not_fit_is_named(values: Values, part: str, value: Any, reason: str) -> None:
    """Which of the two parts is wrong nobody can tell: the line is of what is made of them."""
    line = "groups.drone.observation[0].expression"
    with pytest.raises(RookeryError) as e:
        Contract.from_json(edited(values, f"{line}.{part}", value))
    assert f"contract line {line} is {{'kind': 'difference', " in str(e.value)
    assert reason in str(e.value)


def test_a_part_deep_in_an_expression_is_named_by_its_line(values: Values) -> None:
    line = "groups.drone.observation[0].expression"
    whole = values["groups"]["drone"]["observation"][0]["expression"]
    for part, deeper in (
        ("of", {"kind": "scaled", "of": whole}),
        ("of[1]", {"kind": "joined", "of": [whole, copy.deepcopy(whole)]}),
    ):
        broken = edited(edited(values, line, deeper), f"{line}.{part}.a.unit", "cm")
        with pytest.raises(RookeryError) as e:
            Contract.from_json(broken)
        assert f"contract line {line}.{part} is {{'kind': 'difference', " in str(e.value)


def test_missing_and_misspelt_lines_are_named(values: Values) -> None:
    missing = copy.deepcopy(values)
    del missing["groups"]["drone"]["observation"][0]["unit"]
    with pytest.raises(RookeryError, match=r"groups\.drone\.observation\[0\]\.unit is missing"):
        Contract.from_json(missing)
    with pytest.raises(RookeryError, match=r"did you mean 'groups\.drone\.count'"):
        Contract.from_json(edited(values, "groups.drone.coutn", 2))
    with pytest.raises(RookeryError, match="names match"):
        Contract.from_json(edited(values, "groups", {"../../etc": values["groups"]["drone"]}))
    for nothing in (b"null", "[]", "3", [], 3):
        with pytest.raises(RookeryError, match="must be an object"):
            Contract.from_json(nothing)


def test_newer_schema_is_refused_with_a_way_out(values: Values) -> None:
    newer = {"schema_version": 4, "rookery_version": "9.0", "something": "else"}
    with pytest.raises(RookeryError, match=r"schema version 4, written by Rookery 9\.0.*upgrade"):
        Contract.from_json(newer)
    with pytest.raises(
        RookeryError, match=rf"schema version 1, written by Rookery {re.escape(__version__)}, .*`rookery export"
    ):
        Contract.from_json(edited(values, "schema_version", 1))
    with pytest.raises(RookeryError, match=r"schema version 2, .*does not list the stages.*`rookery export"):
        Contract.from_json(edited(values, "schema_version", 2))
    with pytest.raises(RookeryError, match="contract line schema_version is 0"):
        Contract.from_json(edited(values, "schema_version", 0))


def test_unreadable_files_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="cannot read"):
        Contract.read(tmp_path)
    for broken in (b'{"schema": ', b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "contract.json").write_bytes(broken)
        with pytest.raises(RookeryError, match="not a JSON file"):
            Contract.read(tmp_path)


def with_term(i: int, **changes: Any) -> Group:
    group = make_group()
    terms = list(group.observation)
    terms[i] = replace(terms[i], **changes)
    return replace(group, observation=tuple(terms))


def with_action(**changes: Any) -> Group:
    return replace(make_group(), action=replace(make_group().action, **changes))


@pytest.mark.parametrize(
    ("group", "line"),
    [
        (with_term(0, name="position"), "observation[0].name"),
        (with_term(1, value=8, unit="", frame=""), "observation[1].size"),
        (with_term(2, value=own("linear_velocity", 3, "mm/s", "world"), unit="mm/s"), "observation[2].unit"),
        (with_term(2, value=own("linear_velocity", 3, "m/s", "body"), frame="body"), "observation[2].frame"),
        (with_term(2, scale=0.30001), "observation[2].scale"),
        (with_term(0, clip=10.0), "observation[0].clip"),
        (with_action(kind="attitude"), "action.kind"),
        (with_action(names=("thrust", "pitch_rate", "roll_rate")), "action.names[1]"),
        (with_action(low=(0.0, -6.0, -5.0)), "action.low[2]"),
        (with_action(high=(0.5, 6.0, 6.0)), "action.high[0]"),
        (with_action(units=("g", "rad/s", "rad/s")), "action.units[0]"),
        (replace(make_group(), observation=make_group().observation[:2]), "observation[2]"),
    ],
)
def test_check_compatible_names_the_line(contract: Contract, group: Group, line: str) -> None:
    with pytest.raises(RookeryError) as e:
        check_compatible(contract, make_env(drone=group))
    assert f"groups.drone.{line} " in str(e.value)
    with pytest.raises(RookeryError) as e:
        check_groups(contract, {"drone": group})
    assert f"groups.drone.{line} " in str(e.value)


def test_check_compatible_task_rate_and_groups(contract: Contract) -> None:
    env = make_env()
    check_compatible(contract, env)
    env.control_dt = 0.02
    with pytest.raises(RookeryError, match=r"control_dt the contract says 0\.01 and the environment 0\.02"):
        check_compatible(contract, env)
    env.task_id = "drone-track"
    with pytest.raises(RookeryError, match=r"task_id \(and at 1 more\)"):
        check_compatible(contract, env)
    with pytest.raises(RookeryError, match=r"groups\.drone"):
        check_groups(contract, {"keeper": make_group()})


def test_what_the_network_does_not_see_may_differ(contract: Contract) -> None:
    check_groups(contract, {"drone": replace(with_term(0, noise=0.1, bias=1.0, delay=0.05), count=6)})
    check_groups(contract, {"drone": with_action(neutral=(0.3, 0.0, 0.0), high=(0.6 * (1 + 1e-12), 6.0, 6.0))})


def test_a_hidden_term_is_recorded_and_no_other_line_changes(contract: Contract, values: Values) -> None:
    hidden = replace(contract.groups["drone"], spec=with_term(1, hidden=True))
    written = replace(contract, groups={"drone": hidden}).to_json()
    assert written == edited(
        values, "groups.drone.observation[1]", values["groups"]["drone"]["observation"][1] | {"hidden": True}
    )
    assert [t.hidden for t in Contract.from_json(written).groups["drone"].spec.observation] == [False, True, False]
    check_groups(contract, {"drone": hidden.spec})  # the network's interface is the same
    with pytest.raises(RookeryError, match=r"observation\[1\]\.hidden is 1, but it must be true, or left out"):
        Contract.from_json(edited(written, "groups.drone.observation[1].hidden", 1))


def test_policies_must_fit_the_contract(contract: Contract) -> None:
    with pytest.raises(RookeryError, match=r"groups.*\['drone'\].*\['keeper'\]"):
        with_stages(contract, {"keeper": make_policy()})
    with pytest.raises(RookeryError, match=r"groups\.drone\.stages\[1\]\.hidden\[1\]"):
        with_stages(contract, {"drone": make_policy((32, 16))})
    with pytest.raises(RookeryError, match=r"groups\.drone\.stages\[0\] is 14, but it must be for 15 inputs"):
        build_contract(make_env(), {"drone": make_policy(inputs=14)})
    bare = build_contract(make_env())
    assert with_stages(bare, {"drone": make_policy()}).groups["drone"].trained == make_policy().chain
    assert bare.groups["drone"].stages is None
    with pytest.raises(RookeryError, match="no stages yet"):
        _ = bare.groups["drone"].trained


def test_differences_lists_every_line() -> None:
    a, b = {"x": [1, 2, 3], "y": {"z": "m"}}, {"x": [1, 5], "y": {"z": "m", "w": True}}
    assert differences(a, b) == [("x[1]", 2, 5), ("x[2]", 3, None), ("y.w", None, True)]
    assert differences(a, copy.deepcopy(a)) == []
    assert differences({"x": 1}, {"x": "1"}) == [("x", 1, "1")]


def test_provenance_is_json() -> None:
    facts = gather_provenance(steps=5, seed=1, engine="mujoco", randomisation="none")
    assert json.loads(json.dumps(facts)) == facts
    assert set(facts) == {"steps", "seed", "command", "commit", "machine", "date", "engine", "randomisation", "files"}
    assert build_contract(make_env(), provenance=facts).provenance.to_json() == facts


def test_provenance_has_the_digests_of_the_files_that_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, ranges = tmp_path / "own.toml", tmp_path / "ranges.toml"
    recipe.write_text("task = 'drone-hover'")
    ranges.write_text("[mass]\nlow = 0.9\nhigh = 1.1\n")
    words = ["reproduce", str(recipe), "--out", str(tmp_path), "--note", "x" * 300, "y" * 5000, "a\0b", ""]
    monkeypatch.setattr("sys.argv", ["rookery", *words])
    facts = gather_provenance(steps=0, seed=0, engine="rotor", randomisation=str(ranges))
    wanted = {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in (recipe, ranges)}
    assert facts["files"] == wanted


@pytest.mark.parametrize(
    ("assumed", "randomized", "words"),
    [
        (0.0, (0.0, 0.0), "0 s"),
        (0.01, (0.0, 0.0), "0.01 s"),
        (0.01, (0.0, 0.02), "0.01 s, randomized 0 to 0.02 s"),
        (0.0, (0.005, 0.005), "0 s, randomized 0.005 to 0.005 s"),
        (0.01, None, "not known"),
    ],
)
def test_a_delay_says_what_was_trained_with(assumed, randomized, words):
    assert Delay(assumed, randomized).words == words
