"""README of a bundle: the program that it shows compiles with every warning an error, and does what its calls do one by one."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

import rookery
from rookery.experiments.runs import open_run
from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim2real.build import build_contract, describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.exporter import Export
from rookery.sim2real.export.exporters import EXPORTERS, exporter
from rookery.sim2real.export.readme import readme
from tests.sim2real.conftest import make_policy
from tests.sim2real.independent_runtime import Runtime
from tests.sim2real.native import small_policies, write_c
from tests.sim2real.readme_program import STEPS, run_readme

CASES: list[tuple[str, dict[str, Any]]] = [
    ("drone-hover", {}),
    ("drone-hover", {"action": "rotor_thrust"}),
    ("drone-hover", {"action": "position"}),
    ("go2-velocity", {"history": 3}),
    ("hand-reorient", {}),
    ("table-reach", {}),
    ("panda-lift", {"action": "joint_torque"}),
    ("panda-lift", {"action": "impedance"}),
]


@pytest.mark.parametrize(
    ("task", "config"), slow_but([CASES[0], CASES[3], CASES[5]], CASES), ids=[f"{t}-{'-'.join(c)}" for t, c in CASES]
)
def test_the_program_does_what_its_calls_do_one_by_one(task: str, config: dict[str, Any], tmp_path: Path) -> None:
    env = rookery.make(task, 1, config=config)
    policies = small_policies(env)
    contract = build_contract(env, policies)
    env.close()
    (group,) = contract.groups
    robot = write_c(contract, policies, group, tmp_path)
    command, *filled = run_readme(tmp_path, readme(contract, {group: "rookery"}))
    wanted = by_calls(robot)
    np.testing.assert_allclose(command, wanted[0], rtol=1e-6, atol=1e-7)
    assert filled and len(filled) == len(wanted) - 1
    for array, each in zip(filled, wanted[1:], strict=True):
        np.testing.assert_allclose(array, each, rtol=1e-4, atol=1e-5)


def by_calls(robot: Runtime) -> list[np.ndarray]:
    """Command and outputs of the loops after some control steps, by the functions of the header."""
    library, loops, now, size = robot.library, robot.loops, robot.sensed, robot.sizes
    solve = [ctypes.cast(library.rookery_forward, ctypes.c_void_p), None] if hasattr(loops, "goal") else []
    rotors = hasattr(library, "rookery_motors")
    state: dict[str, Any] = {}
    at = 1
    for name, kind in robot.state._fields_:
        state[name] = np.float32(0.01) * np.arange(at, at + kind._length_, dtype=np.float32)
        at += kind._length_
    robot.call("start_loops", loops, *([] if rotors else [now, *solve]))
    for _ in range(STEPS):
        command = robot.step(**state)
        if not rotors:
            robot.call("take_command", loops, now, *solve, command)
        for _ in range(size["LOOP_STEPS"]):
            if rotors:
                out = [robot.call("motors", loops, now, command, out=4)]
            elif hasattr(library, "rookery_targets"):
                target = robot.call("targets", loops, out=len(now.angle))
                out = [target, robot.call("torques", now, target, out=len(now.angle))]
            else:
                out = [robot.call("torques", loops, *([now, *solve] if solve else []), out=len(now.angle))]
    return [command, *out]


@pytest.mark.parametrize("kind", ["memory", "masked"])
def test_a_policy_without_loops_is_called_too(kind: str, tmp_path: Path) -> None:
    """One with a memory, and one that is told which options it may choose."""
    action = (
        ActionSpec("drive", choices=(Discrete("gear", ("off", "low", "high")),), masked=True)
        if kind == "masked"
        else ActionSpec("drive", ("x", "y"), (-1.0, 0.0), (1.0, 3.0), ("m", "N"), (0.0, 0.0))
    )
    choose = Choose.of(action) if action.choices else None
    policy = Policy(standard(6, action.outputs, (4,), memory_size=5 * (kind == "memory"), choose=choose))
    contract = describe("some-task", {"driver": Group(1, (Term("o", 6),), action)}, 0.1)
    contract = with_stages(contract, {"driver": policy})
    robot = write_c(contract, {"driver": policy}, "driver", tmp_path)
    (command,) = run_readme(tmp_path, readme(contract, {"driver": "rookery"}))
    if kind == "masked":
        np.testing.assert_array_equal(command, [-1.0])  # allowed stays 0: none may be chosen
    else:
        np.testing.assert_allclose(command, [robot.step(o=0.01 * np.arange(1, 7)) for _ in range(STEPS)][-1], rtol=1e-6)


def test_header_readme_and_c_agree_on_the_command_at_rest(contract: Contract, tmp_path: Path) -> None:
    """The C's command for the contract's neutral action is what both tables give, in the unit of their ends."""
    action = contract.groups["drone"].spec.action
    robot = write_c(contract, {"drone": make_policy()}, "drone", tmp_path)
    rest, low, high = (robot.call("command", values, out=3) for values in (action.neutral, [-1.0] * 3, [1.0] * 3))
    comment = (tmp_path / "policy.h").read_text().partition("#ifndef")[0]
    rows = [line.split()[2:] for line in comment.partition("* Action, kind")[2].splitlines()]
    shown = {row[0]: row[-3:] for row in rows if row and row[0] in action.names}
    page = [line.split(" | ") for line in readme(contract, {"drone": "rookery"}).splitlines()]
    told = {row[1].strip("`"): [x.strip(" |") for x in row[3:6]] for row in page if len(row) == 6}
    for i, name in enumerate(action.names):
        for numbers in (shown[name], told[name]):
            np.testing.assert_allclose([float(x) for x in numbers], [low[i], high[i], rest[i]], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["drone-hover-gru", "go2-velocity", "table-reach"])
def test_a_bundle_names_its_files_and_units(task: str, tmp_path: Path) -> None:
    folder = export_bundle(*open_run(Path(task)), tmp_path / task)
    text = (folder / "README.md").read_text()
    contract = Contract.read(folder)
    ((group, declared),) = contract.groups.items()
    assert text == readme(contract, {group: "rookery"})
    for name in {p.name for p in folder.iterdir()} - {"README.md"}:
        assert f"`{name}`" in text
    for unit in (*declared.spec.action.names, *declared.actuation.actuators):  # type: ignore[union-attr]
        assert f"`{unit}`" in text
    assert f"every {contract.control_dt:g} s" in text
    assert all(np.isfinite(array).all() for array in run_readme(folder, text))


def test_targets_say_what_they_were_tried_against_as_the_page_does(contract: Contract) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hardware_tried.md").read_text()
    export = Export({}, contract)
    guides = {name: guide for name in EXPORTERS if (guide := exporter(name).guide(export)) is not None}
    assert {"linux", "crazyflie", "px4", "mcu"} <= set(guides)
    for name, guide in guides.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `--target {name}`")]
        assert tuple(row.split(" | ")[1:]) == (guide.tried[0], f"{guide.tried[1]} |")
        text = readme(contract, {"drone": "rookery"}, [guide])
        assert text.count(f"## `{guide.place}`") == 1
        assert all(file.startswith(guide.place) for file in exporter(name).files)
    assert not any(guide.place in readme(contract, {"drone": "rookery"}) for guide in guides.values())


STUBS = {
    "crazyflie-firmware/tools/make/oot.mk": "all cload:\n\t@test -f $(OOT_CONFIG) && echo made $@\n.PHONY: all cload\n",
    "PX4-Autopilot/Makefile": "px4_sitl_default:\n\t@test -f $(EXTERNAL_MODULES_LOCATION)/src/CMakeLists.txt && echo made $@\n",
}
"""The build of a firmware, as far as a command of a README reaches: it looks for the files that it is told of."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "said"),
    [("linux", "target"), ("crazyflie", "made cload"), ("px4", "made px4_sitl_default"), ("mcu", "Cortex-M4")],
)
def test_the_commands_of_a_target_run_from_the_folder(target: str, said: str, tmp_path: Path) -> None:
    """Those that build and describe; what flies is the matter of other tests."""
    folder = export_bundle(*open_run(Path("drone-hover")), tmp_path / "out", target=target)
    for name, text in STUBS.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (commands,) = re.findall(r"```bash\n(.*?)```", (folder / "README.md").read_text(), re.S)
    run = "\n".join(line for line in commands.splitlines() if "mavlink://" not in line)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(tmp_path), "PATH": path}
    done = subprocess.run(["bash", "-e", "-c", run], cwd=folder, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_quantity_is_estimated_by_what_most_of_its_terms_say() -> None:
    """Two terms of three say that the position is of the base's pose; the first alone that it is of the ball's place."""
    env = rookery.make("go2arm-fetch", 1)
    policies = small_policies(env)
    contract = build_contract(env, policies)
    env.close()
    page = [line.split("|") for line in readme(contract, {"robot": "rookery"}).splitlines() if line.startswith("| `")]
    source = {row[1].strip(" `"): row[6].strip() for row in page if len(row) == 8}
    assert source["ball"] == "estimate of ball's place"
    assert source["start"] == "estimate of position"
    assert (
        source["position"]
        == source["rotation"]
        == source["tools_position"]
        == source["grasp"]
        == "estimate of base pose"
    )
    assert source["joint_angles"] == source["hand_closed"] == "measured"
