"""`--target crazyflie`: compiled against stand-ins of the firmware's headers with its warnings, flown, and brought down."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.experiments.runs import open_run
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from tests.sim2real.conftest import make_env, make_group, make_policy

WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wno-unused-parameter"]
STAND_INS = {
    "app.h": "void appMain(void);",
    "FreeRTOS.h": "#include <stdint.h>\n#define M2T(x) ((uint32_t)(x))",
    "task.h": "#include <stdint.h>\nvoid vTaskDelay(uint32_t); uint32_t xTaskGetTickCount(void);",
    "debug.h": "#define DEBUG_PRINT(...)",
    "controller.h": """#include <stdbool.h>
#include <stdint.h>
typedef struct { float x, y, z; } vector;
typedef struct { float x, y, z, w; } quaternion_t;
typedef struct { vector gyro; } sensorData_t;
typedef struct { quaternion_t attitudeQuaternion; vector position; vector velocity; } state_t;
typedef enum { modeDisable = 0, modeAbs, modeVelocity } stab_mode_t;
typedef struct { uint32_t timestamp; vector position; struct { stab_mode_t x, y, z; } mode; } setpoint_t;
typedef enum { controlModeLegacy = 0, controlModeForceTorque = 1, controlModeForce = 2 } control_mode_t;
typedef struct { float normalizedForces[4]; control_mode_t controlMode; } control_t;
""",
}
HARNESS = """
#include "controller.h"
static uint32_t clock_ms;
static control_t control;
void vTaskDelay(uint32_t t) { (void)t; }
uint32_t xTaskGetTickCount(void) { return clock_ms; }
void controllerOutOfTreeInit(void);
bool controllerOutOfTreeTest(void);
void controllerOutOfTree(control_t *, const setpoint_t *, const sensorData_t *, const state_t *, const uint32_t);
void begin_test(void) { clock_ms = 0; controllerOutOfTreeInit(); }
int self_test(void) { return controllerOutOfTreeTest(); }
/* x: target 3, position 3, quaternion w x y z, velocity 3, gyroscope deg/s 3 */
void tick_1ms(const float x[16], int age_ms, int mode, float forces[4])
{
    setpoint_t s = {clock_ms - (uint32_t)age_ms, {x[0], x[1], x[2]}, {(stab_mode_t)mode, (stab_mode_t)mode, (stab_mode_t)mode}};
    state_t state = {{x[7], x[8], x[9], x[6]}, {x[3], x[4], x[5]}, {x[10], x[11], x[12]}};
    sensorData_t sensors = {{x[13], x[14], x[15]}};
    controllerOutOfTree(&control, &s, &sensors, &state, clock_ms);
    clock_ms++;
    for (int i = 0; i < 4; i++) { forces[i] = control.controlMode == controlModeForce ? control.normalizedForces[i] : -1.0f; }
}
"""
ABSOLUTE, DISABLED = 1, 0


def compiled(folder: Path, *flags: str) -> ctypes.CDLL:
    """The controller with the stand-ins as a library."""
    inside = folder / "crazyflie"
    fake = inside / "stand_ins"
    fake.mkdir(exist_ok=True)
    for name, text in STAND_INS.items():
        (fake / name).write_text("#pragma once\n" + text + "\n")
    (fake / "harness.c").write_text(HARNESS)
    sources = [str(p) for p in sorted((inside / "src").glob("*.c"))] + [str(fake / "harness.c")]
    library = folder / f"firmware{len(flags)}.so"
    command = ["gcc", *WARNINGS, *flags, "-O2", "-shared", "-fPIC", f"-I{fake}", *sources, "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_bundle(*open_run(Path("drone-hover")), tmp_path_factory.mktemp("cf") / "hover", target="crazyflie")


class Plant:
    """A simulated drone under motor commands at 500 Hz, with the controller's ticks of 1 ms."""

    def __init__(self, firmware: ctypes.CDLL, compensated: bool = False) -> None:
        config = {"action": "rotor_thrust", "control_dt": 0.002}
        self.env = rookery.make("drone-hover", 1, engine="mujoco", seed=3, config=config)
        self.env.reset()
        self.firmware = firmware
        self.bodies, self.drones = self.env.task.drones.bodies, self.env.task.drones
        self.curve = np.poly1d(CRAZYFLIE_21.thrust_curve[::-1])
        self.full = self.curve(1.0) if compensated else None
        firmware.begin_test()

    def fly(self, seconds: float, target: np.ndarray, age: Callable[[int], int], mode: int = ABSOLUTE) -> np.ndarray:
        """Motor commands or shares of force at the end."""
        forces = (ctypes.c_float * 4)()
        for step in range(round(seconds / 0.002)):
            spin = torch.rad2deg(self.bodies.ang_vel[0, 0])
            parts = (
                torch.tensor(target),
                self.bodies.pos[0, 0],
                self.bodies.quat[0, 0],
                self.bodies.lin_vel[0, 0],
                spin,
            )
            x = torch.cat([p.float() for p in parts]).numpy()
            for k in range(2):
                self.firmware.tick_1ms(x.ctypes.data_as(ctypes.c_void_p), age(2 * step + k), mode, forces)
            share = np.array(list(forces))
            thrust = share * self.full if self.full is not None else self.curve(share)
            self.env.step({"drone": self.drones.normalized(torch.tensor(thrust, dtype=torch.float32))[None, None]})
        return np.array(list(forces))

    @property
    def place(self) -> np.ndarray:
        return self.bodies.pos[0, 0].numpy().copy()


def test_a_far_set_point_is_held_within_the_training(folder: Path) -> None:
    firmware = compiled(folder)
    runs = {}
    for target in ((4.0, -1.5, 2.2), (3.0, -1.0, 2.2), (2.9, -1.0, 2.2)):
        firmware.begin_test()
        runs[target] = []
        for _ in range(40):
            x = np.zeros(16, np.float32)
            x[:7] = (*target, 2.0, 0.0, 2.0, 1.0)
            forces = (ctypes.c_float * 4)()
            firmware.tick_1ms(x.ctypes.data_as(ctypes.c_void_p), 0, ABSOLUTE, forces)
            runs[target].append(list(forces))
    far, edge, near = map(np.array, runs.values())
    np.testing.assert_array_equal(far, edge)
    assert np.abs(near - edge).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("compensated", [False, True])
def test_it_flies_to_set_points(folder: Path, compensated: bool) -> None:
    firmware = compiled(folder, *["-DCONFIG_ENABLE_THRUST_BAT_COMPENSATED"] * compensated)
    assert firmware.self_test() == 1
    plant = Plant(firmware, compensated)
    target = plant.env.task.target[0, 0].numpy()
    plant.fly(3.0, target, lambda ms: ms % 100)
    assert np.linalg.norm(plant.place - target) < 0.05
    aside = target + np.array([0.4, -0.3, 0.2], np.float32)
    plant.fly(3.0, aside, lambda ms: ms % 100)
    assert np.linalg.norm(plant.place - aside) < 0.08
    plant.env.close()


@pytest.mark.slow
def test_silence_brings_it_down_slowly_and_switches_it_off(folder: Path) -> None:
    plant = Plant(compiled(folder))
    target = plant.env.task.target[0, 0].numpy()
    plant.fly(2.0, target, lambda ms: ms % 100)
    height = plant.place[2]
    sunk = []
    for second in range(3):
        plant.fly(1.0, target, lambda ms, second=second: 201 + 1000 * second + ms)
        sunk.append(height - plant.place[2])
    assert sunk[0] < 0.45 and 0.5 < sunk[2] < 1.1, "it falls, or stays"
    assert np.abs(plant.place[:2] - target[:2]).max() < 0.15
    plant.env.close()
    forces = (ctypes.c_float * 4)()
    lying = np.zeros(16, np.float32)
    lying[5], lying[6] = 0.02, 1.0
    for ms in range(12000):
        plant.firmware.tick_1ms(lying.ctypes.data_as(ctypes.c_void_p), 4000 + ms, ABSOLUTE, forces)
    assert list(forces) == [0.0] * 4


def test_a_stop_and_a_number_that_is_none_switch_off_at_once(folder: Path) -> None:
    firmware = compiled(folder)
    forces = (ctypes.c_float * 4)()
    level = np.zeros(16, np.float32)
    level[2] = level[5] = level[6] = 1.0
    bad = level.copy()
    bad[4] = np.nan

    def run(x: np.ndarray, mode: int = ABSOLUTE, ticks: int = 20, age: int = 0) -> list[float]:
        for _ in range(ticks):
            firmware.tick_1ms(x.ctypes.data_as(ctypes.c_void_p), age, mode, forces)
        return list(forces)

    firmware.begin_test()
    assert run(level, DISABLED) == [0.0] * 4, "it waits on the ground"
    assert run(level, age=300) == [0.0] * 4, "an old set-point does not begin a flight"
    assert min(run(level)) > 0.3
    assert run(level, DISABLED, 2) == [0.0] * 4
    assert min(run(level)) > 0.3, "and a new set-point begins anew"
    assert run(bad, ticks=12) == [0.0] * 4


def test_the_self_test_fails_where_the_network_does(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "edited"))
    source = copy / "policy.c"
    text = source.read_text()
    start = text.index("{", text.index("perceptron_bias_0"))
    source.write_text(text[: start + 1] + "7.0f + " + text[start + 1 :])
    assert compiled(copy).self_test() == 0


def refused(contract: Contract, policies: Any, folder: Path) -> str:
    with pytest.raises(RookeryError) as caught:
        export_bundle(policies, contract, folder / "out", target="crazyflie")
    assert not (folder / "out").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("go2-velocity", "commands no rotors"),
        ("drone-navigate", "does not give the quantity 'goal'"),
        ("volley-hit", "does not give the quantity"),
    ],
)
def test_what_does_not_fit_the_firmware_is_refused(task: str, why: str, tmp_path: Path) -> None:
    policies, contract = open_run(Path(task))
    assert why in refused(contract, policies, tmp_path)


def test_other_drones_and_large_networks_are_refused(tmp_path: Path) -> None:
    policies, contract = open_run(Path("drone-hover"))
    group = contract.groups["drone"]
    craft = group.actuation.multirotor
    turned = dataclasses.replace(
        craft, rotors=tuple(dataclasses.replace(r, direction=-r.direction) for r in craft.rotors)
    )
    other = dataclasses.replace(group, actuation=dataclasses.replace(group.actuation, multirotor=turned))
    assert "turn as a Crazyflie's" in refused(
        dataclasses.replace(contract, groups={"drone": other}), policies, tmp_path
    )
    env = rookery.make("drone-hover", 1)
    wide = {"drone": Policy(standard(16, 4, (512, 512), "tanh", obs_clip=5.0, squash="clip"))}
    assert "bytes of stack" in refused(build_contract(env, wide), wide, tmp_path)
    env.close()
    several = {"a": make_policy((8,)), "b": make_policy((8,))}
    assert "one group" in refused(build_contract(make_env(a=make_group(), b=make_group()), several), several, tmp_path)
