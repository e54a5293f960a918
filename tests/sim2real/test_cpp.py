"""The C++17 header: compiled with every warning an error and without exceptions, it answers what the C does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.terms import from_json
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.cpp_header import cpp_header
from rookery.sim2real.export.readme import readme
from tests.sim2real.independent_runtime import fill
from tests.sim2real.native import small_policies, write_c

FLAGS = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wshadow",
    "-Wold-style-cast",
    "-O1",
]
QUIET = ["-fno-exceptions", "-fno-rtti"]

POLICY = """
    rookery::Policy policy;
    rookery::Policy::State state{};
    float *members = reinterpret_cast<float *>(&state);
    for (std::size_t i = 0; i < sizeof state / sizeof(float); i++) {
        members[i] = 0.01f * static_cast<float>(i + 1);
    }
    rookery::Policy::Command command{};
    for (int i = 0; i < 3; i++) {
        if (!policy.step(state, command)) {
            return 1;
        }
    }
    print(command);
    policy.reset();
    const auto action = policy.act(state);
    policy.acted(state, action);
    print(rookery::Policy::command(action));
"""
LOOPS = {
    "motors": """
    rookery::Loops loops;
    rookery::Loops::Sensed now{};
    print(loops.motors(now, command));
""",
    "servos": """
    rookery::Loops loops;
    rookery::Loops::Sensed now{};
    loops.start(now);
    loops.take_command(now, command);
    const auto target = loops.targets();
    print(target);
    print(rookery::Loops::torques(now, target));
""",
    "pulled": """
    rookery::Loops loops;
    rookery::Loops::Sensed now{};
    loops.start(now);
    loops.take_command(now, command);
    print(loops.torques());
""",
    "tool": """
    rookery::Loops loops;
    rookery::Loops::Sensed now{};
    auto solve = [](const float *, float *place, float *matrix, float *jacobian) {
        place[0] = place[1] = place[2] = 0.1f;
        for (int i = 0; i < 9; i++) { matrix[i] = i % 4 == 0 ? 1.0f : 0.0f; }
        for (int i = 0; i < 42; i++) { jacobian[i] = 0.1f * static_cast<float>(i % 5); }
    };
    loops.start(now, solve);
    loops.take_command(now, solve, command);
    const auto target = loops.targets();
    print(target);
    print(rookery::Loops::torques(now, target));
""",
    "spring": """
    rookery::Loops loops;
    rookery::Loops::Sensed now{};
    auto solve = [](const float *, float *place, float *matrix, float *jacobian) {
        place[0] = place[1] = place[2] = 0.1f;
        for (int i = 0; i < 9; i++) { matrix[i] = i % 4 == 0 ? 1.0f : 0.0f; }
        for (int i = 0; i < 42; i++) { jacobian[i] = 0.1f * static_cast<float>(i % 5); }
    };
    loops.start(now, solve);
    loops.take_command(now, solve, command);
    print(loops.torques(now, solve));
""",
}
MAIN = """#include <cstdio>
#include "policy.hpp"

template <class A> void print(const A &values)
{
    for (const float value : values) {
        std::printf("%.9g ", static_cast<double>(value));
    }
    std::printf("\\n");
}

int main()
{
@BODY@
    return 0;
}
"""
CASES = [
    ("drone-hover", {}, "motors"),
    ("volley-hit", {}, "motors"),
    ("go2-velocity", {"history": 3}, "servos"),
    ("hand-reorient", {}, "servos"),
    ("table-reach", {}, "tool"),
    ("panda-lift", {"action": "joint_velocity"}, "servos"),
    ("panda-lift", {"action": "joint_torque"}, "pulled"),
    ("panda-lift", {"action": "impedance"}, "spring"),
]


QUICK = [CASES[0], CASES[2], CASES[4], CASES[6], CASES[7]]  # every kind of loops once


@pytest.mark.parametrize(("task", "config", "loops"), slow_but(QUICK, CASES), ids=[f"{t}-{k}" for t, _, k in CASES])
def test_the_header_answers_what_the_c_does(task: str, config: dict[str, Any], loops: str, tmp_path: Path) -> None:
    env = rookery.make(task, 1, config=config)
    policies = small_policies(env)
    contract = build_contract(env, policies)
    env.close()
    (group,) = contract.groups
    robot = write_c(contract, policies, group, tmp_path)
    (tmp_path / "policy.hpp").write_text(cpp_header(contract, group, "rookery", "policy.h"), encoding="ascii")
    (tmp_path / "main.cpp").write_text(MAIN.replace("@BODY@", POLICY + LOOPS[loops]))
    subprocess.run(["gcc", "-std=c99", "-c", "policy.c", "-o", "policy.o"], check=True, cwd=tmp_path)
    subprocess.run(["g++", *FLAGS, *QUIET, "main.cpp", "policy.o", "-o", "main", "-lm"], check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    said = [np.array([float(x) for x in line.split()]) for line in done.stdout.splitlines()]
    at = 0
    state = {}
    for name, kind in robot.state._fields_:
        state[name] = np.float32(0.01) * np.arange(at + 1, at + 1 + kind._length_, dtype=np.float32)
        at += kind._length_
    third = [robot.step(**state) for _ in range(3)][-1]
    robot.start()
    first = robot.step(**state)
    np.testing.assert_allclose(said[0], third, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(said[1], first, rtol=1e-6, atol=1e-7)
    assert all(np.isfinite(line).all() and line.size == robot.sizes["POLICY_ACTIONS"] for line in said[:2])
    if loops == "motors":
        robot.call("start_loops", robot.loops)
        wanted = robot.call("motors", robot.loops, robot.sensed, third, out=4)
        np.testing.assert_allclose(said[2], wanted, rtol=1e-6)
    elif loops in ("servos", "pulled"):
        robot.call("start_loops", robot.loops, robot.sensed)
        robot.call("take_command", robot.loops, robot.sensed, third)
        name = "targets" if loops == "servos" else "torques"
        np.testing.assert_allclose(said[2], robot.call(name, robot.loops, out=said[2].size), rtol=1e-5, atol=1e-6)
    assert all(np.isfinite(line).all() and line.size for line in said)


@pytest.mark.slow
def test_an_edited_cpp_header_is_noticed(bundle: Path) -> None:
    assert check_bundle(bundle)["c_max_error"] <= 1e-5
    header = bundle / "policy.hpp"
    header.write_text(header.read_text().replace("return out;", "return Action{};", 1))
    with pytest.raises(RookeryError, match=r"policy\.hpp is not run"):
        check_bundle(bundle)


def test_names_break_out_of_no_comment_and_no_cell(contract: Contract) -> None:
    """Of a stranger's contract whose texts are C and Markdown."""
    values = json.loads(json.dumps(contract.to_json()))
    evil = "*\\/ int evil; /\\* | <script>"
    values["task_id"] = evil
    values["groups"]["drone"]["action"]["names"][0] = evil
    term = values["groups"]["drone"]["observation"][2]
    term["expression"]["name"] = evil
    term.update(name=evil, formula=from_json(term["expression"]).formula)
    bad = Contract.from_json(values)
    (group,) = bad.groups
    text = cpp_header(bad, group, "rookery", "policy.h")
    for part in text.split("/*")[1:]:
        assert "evil" not in part.partition("*/")[2]
    page = readme(bad, {group: "rookery"})
    assert "<script>" not in page
    assert all(line.count("|") - line.count("\\|") in (0, 3, 7, 5) for line in page.splitlines())


def test_fill_notices_a_wrong_size(contract: Contract) -> None:
    """The tests' own reader of the structs refuses what does not fit, otherwise they would prove nothing."""
    import ctypes

    class Two(ctypes.Structure):
        _fields_ = (("x", ctypes.c_float * 2),)

    with pytest.raises(ValueError, match="reshape"):
        fill(Two(), {"x": [1.0, 2.0, 3.0]})
