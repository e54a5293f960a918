"""The contract: complete, exact through JSON, and refused line by line."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rookery.sim.env import Deployment
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group
from rookery.sim2real.contract import (
    build_contract,
    check_compatible,
    differences,
    fingerprint,
    read_contract,
    validate_contract,
    with_networks,
    write_contract,
)
from rookery.sim2real.provenance import gather_provenance
from tests.sim2real.conftest import make_env, make_group, make_policy

Contract = dict[str, Any]


def edited(contract: Contract, line: str, value: Any) -> Contract:
    """A copy with one line, such as ``groups.drone.observation[2].unit``, replaced."""
    out = copy.deepcopy(contract)
    at: Any = out
    *path, last = [int(p) if p.isdigit() else p for p in line.replace("]", "").replace("[", ".").split(".")]
    for part in path:
        at = at[part]
    at[last] = value
    return out


def test_contract_says_what_the_declarations_say(contract: Contract) -> None:
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
        "noise": 0.0,
        "bias": 0.1,
        "delay": 0.01,
        "history": 1,
    }
    assert group["observation"][0]["clip"] is None
    assert group["action"]["high"] == [0.6, 6.0, 6.0]
    assert group["safety"]["thrust"] == {"low": 0.0, "high": 0.6, "unit": "N"}
    assert group["network"] == make_policy().network()
    assert (contract["control_dt"], contract["physics_dt"], contract["assumed_delay"]) == (0.01, 0.002, [0.0, 0.0])
    assert contract["task_config"] == {
        "dt": 0.002,
        "start": [1.0, 2.0],
        "reward": {"distance": -0.5},
    }
    assert contract["provenance"]["steps"] == 1000
    assert contract["provenance"]["commit"] is None


def test_task_may_give_safety_limits_and_actuator_order() -> None:
    env = make_env(
        Deployment(
            physics_dt=0.002,
            safety={"drone": {"tilt": {"low": None, "high": 0.6, "unit": "rad"}}},
            actuators={"drone": ("m1", "m2", "m3", "m4")},
        )
    )
    group = build_contract(env, assumed_delay=(0.0, 0.02))["groups"]["drone"]
    assert group["safety"] == {"tilt": {"low": None, "high": 0.6, "unit": "rad"}}
    assert group["actuators"] == ["m1", "m2", "m3", "m4"]
    assert group["network"] is None


def test_round_trip_is_exact(contract: Contract, tmp_path: Path) -> None:
    contract = edited(contract, "groups.drone.observation[0].scale", math.pi / 3.0)
    write_contract(contract, tmp_path / "contract.json")
    assert read_contract(tmp_path) == contract
    assert fingerprint(read_contract(tmp_path / "contract.json")) == fingerprint(contract)
    assert fingerprint(edited(contract, "control_dt", 0.02)) != fingerprint(contract)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("schema", "mjlab"),
        ("task_id", ""),
        ("control_dt", 0),
        ("control_dt", "fast"),
        ("physics_dt", math.nan),
        ("assumed_delay", [0.02, 0.0]),
        ("assumed_delay", [0.0, 0.0, 0.0]),
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
        ("groups.drone.network", None),
        ("groups.drone.network.observation_size", 16),
        ("groups.drone.network.action_size", 4),
        ("groups.drone.network.activation", "gelu"),
        ("groups.drone.network.obs_clip", 0.0),
        ("groups.drone.safety.thrust.high", "0.6"),
        ("conventions.quaternion", "x, y, z, w"),
        ("provenance", "mine"),
    ],
)
def test_wrong_line_is_named(contract: Contract, line: str, value: Any) -> None:
    with pytest.raises(RookeryError, match="contract line") as e:
        validate_contract(edited(contract, line, value))
    assert f"contract line {line} is {value!r}" in str(e.value)


def test_missing_and_misspelt_lines_are_named(contract: Contract) -> None:
    missing = copy.deepcopy(contract)
    del missing["groups"]["drone"]["observation"][0]["unit"]
    with pytest.raises(RookeryError, match=r"groups\.drone\.observation\[0\]\.unit is missing"):
        validate_contract(missing)
    with pytest.raises(RookeryError, match=r"did you mean 'groups\.drone\.count'"):
        validate_contract(edited(contract, "groups.drone.coutn", 2))
    with pytest.raises(RookeryError, match="names match"):
        validate_contract(edited(contract, "groups", {"../../etc": contract["groups"]["drone"]}))
    for nothing in (None, [], "contract", 3):
        with pytest.raises(RookeryError, match="must be an object"):
            validate_contract(nothing)


def test_newer_schema_is_refused_with_a_way_out(contract: Contract) -> None:
    newer = {"schema_version": 2, "rookery_version": "9.0", "something": "else"}
    with pytest.raises(RookeryError, match=r"schema version 2, written by Rookery 9\.0.*upgrade"):
        validate_contract(newer)
    with pytest.raises(RookeryError, match="contract line schema_version is 0"):
        validate_contract(edited(contract, "schema_version", 0))


def test_unreadable_files_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="cannot read"):
        read_contract(tmp_path)
    for broken in (b'{"schema": ', b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "contract.json").write_bytes(broken)
        with pytest.raises(RookeryError, match="not a JSON file"):
            read_contract(tmp_path)


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
        (with_term(1, size=8), "observation[1].size"),
        (with_term(2, unit="mm/s"), "observation[2].unit"),
        (with_term(2, frame="body"), "observation[2].frame"),
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
    for target in (make_env(drone=group), {"drone": group}):
        with pytest.raises(RookeryError) as e:
            check_compatible(contract, target)
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
        check_compatible(contract, {"keeper": make_group()})


def test_what_the_network_does_not_see_may_differ(contract: Contract) -> None:
    check_compatible(contract, {"drone": replace(with_term(0, noise=0.1, bias=1.0, delay=0.05), count=6)})
    check_compatible(contract, {"drone": with_action(neutral=(0.3, 0.0, 0.0), high=(0.6 * (1 + 1e-12), 6.0, 6.0))})


def test_policies_must_fit_the_contract(contract: Contract) -> None:
    with pytest.raises(RookeryError, match=r"groups.*\['drone'\].*\['keeper'\]"):
        with_networks(contract, {"keeper": make_policy()})
    with pytest.raises(RookeryError, match=r"groups\.drone\.network\.hidden\[1\]"):
        with_networks(contract, {"drone": make_policy((32, 16))})
    with pytest.raises(RookeryError, match=r"groups\.drone\.network\.observation_size is 14"):
        build_contract(make_env(), {"drone": make_policy(inputs=14)})
    bare = build_contract(make_env())
    assert with_networks(bare, {"drone": make_policy()})["groups"]["drone"]["network"]["hidden"] == [32, 32]
    assert bare["groups"]["drone"]["network"] is None


def test_differences_lists_every_line() -> None:
    a, b = {"x": [1, 2, 3], "y": {"z": "m"}}, {"x": [1, 5], "y": {"z": "m", "w": True}}
    assert differences(a, b) == [("x[1]", 2, 5), ("x[2]", 3, None), ("y.w", None, True)]
    assert differences(a, copy.deepcopy(a)) == []
    assert differences({"x": 1}, {"x": "1"}) == [("x", 1, "1")]


def test_provenance_is_json() -> None:
    facts = gather_provenance(steps=5, seed=1, engine="mujoco", randomisation="none")
    assert json.loads(json.dumps(facts)) == facts
    assert set(facts) == {"steps", "seed", "command", "commit", "machine", "date", "engine", "randomisation"}
    validate_contract(build_contract(make_env(), provenance=facts), networks=False)
