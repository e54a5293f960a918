"""`--target px4`: compiled against stand-ins of PX4's headers, flown by its topics, and silent where there is a fault."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from scipy.spatial.transform import Rotation

import rookery
from rookery.experiments.runs import open_run
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.px4_target import FOLDER
from rookery.sim2real.export.px4_text import PUBLISH
from rookery.sim2real.links.frames import rotation_of_euler, rotation_to_ned, to_frd, to_ned
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.settings import Limits
from tests.sim2real.conftest import make_env, make_group, make_policy

STAND_INS = Path(__file__).with_name("px4")
WARNINGS = ["-std=c++14", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-Wno-unused-parameter", "-Wshadow"]
OFFBOARD = 14


def compile_module(bundle: Path, build: Path) -> Path:
    """A shared object of the module with the stand-ins."""
    folder = bundle / FOLDER
    for name in ("policy.c", "safety.c"):
        subprocess.run(
            [
                "gcc",
                "-std=gnu11",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-fPIC",
                "-O1",
                "-c",
                folder / name,
                "-o",
                build / f"{name}.o",
            ],
            check=True,
        )
    library = build / "module.so"
    subprocess.run(
        ["g++", *WARNINGS, "-shared", "-fPIC", "-O1", f"-I{STAND_INS / 'include'}", f"-I{folder}", folder / "Rookery.cpp",
         STAND_INS / "harness.cpp", build / "policy.c.o", build / "safety.c.o", "-o", library],
        check=True,
    )  # fmt: skip
    return library


class Autopilot:
    """The module with the topics that a test fills."""

    def __init__(self, library: Path) -> None:
        self.module = ctypes.CDLL(str(library))
        self.apart = 0.01  # s, from tick to tick
        self.module.aim.argtypes = [ctypes.c_float] * 3
        assert self.module.begin() == 0

    def tick(
        self, values: dict[str, np.ndarray], mode: int = OFFBOARD, armed: bool = True, age: float = 0.0
    ) -> np.ndarray | None:
        """A control step with a state of ours; rates and thrust that it publishes."""
        q = np.asarray(rotation_to_ned(values["rotation"]))
        heading = np.arctan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] ** 2 + q[3] ** 2))
        parts = [
            *to_ned(values["position"]),
            *to_ned(values["velocity"]),
            *q,
            *to_frd(values["angular velocity"]),
            heading,
        ]
        given = (ctypes.c_float * 14)(*map(float, parts))
        self.module.tick(given, round(1e6 * age), round(1e6 * self.apart), armed, mode)
        out = (ctypes.c_float * 4)()
        return np.array(out) if self.module.rates(out) else None

    @property
    def alive(self) -> bool:
        """Whether it offers set-points: without that PX4 leaves Offboard mode."""
        return bool(self.module.said_mode())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_bundle(*open_run(Path("drone-hover")), tmp_path_factory.mktemp("px4") / "hover", target="px4")


@pytest.fixture(scope="module")
def library(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_module(bundle, tmp_path_factory.mktemp("module"))


@pytest.fixture
def autopilot(library: Path) -> Autopilot:
    return Autopilot(library)


FAR = 0.5  # s between states that have nothing to do with each other: nearer ones would be a jump


def state(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A state near the origin."""
    q = np.array([1.0, 0.0, 0.0, 0.0]) + 0.2 * rng.standard_normal(4)
    out = {
        "position": 0.3 * rng.standard_normal(3),
        "velocity": 0.5 * rng.standard_normal(3),
        "rotation": q / np.linalg.norm(q),
    }
    return {k: v.astype(np.float32) for k, v in (out | {"angular velocity": rng.standard_normal(3)}).items()}


@pytest.mark.slow
def test_it_commands_what_the_policy_does(autopilot: Autopilot, bundle: Path) -> None:
    assert autopilot.module.interval() == 10_000
    autopilot.apart = FAR
    autopilot.module.aim(0.5, -0.25, -1.0)
    controller = Controller(bundle)
    rng = np.random.default_rng(0)
    weight = 0.0306 * 9.81
    reached = 0
    for _ in range(50):
        values = state(rng)
        given = autopilot.tick(values)
        assert given is not None and autopilot.alive
        assert autopilot.module.mode_flags() == 8
        far = np.float32([-0.25, 0.5, 1.0]) - values["position"]
        held = values["position"] + np.clip(far, -1.0, 1.0)  # what its training had
        reached += bool((np.abs(far) > 1.0).any())
        command = controller.step({**values, "target": held})
        np.testing.assert_allclose(given[:3], to_frd(command[:3]), atol=1e-4)
        assert given[3] == pytest.approx(-min(1.0, 0.5 * command[3] / weight), abs=1e-4)
    assert 10 < reached < 40  # both are tried


def test_it_hovers_where_offboard_mode_began(autopilot: Autopilot) -> None:
    plant = rookery.make("drone-hover", 1, engine="mujoco", seed=3)
    plant.reset()
    bodies, drones = plant.task.drones.bodies, plant.task.drones
    start = bodies.pos[0, 0].numpy().copy()
    for _ in range(300):
        values = {
            "position": bodies.pos[0, 0].numpy(), "rotation": bodies.quat[0, 0].numpy(),
            "velocity": bodies.lin_vel[0, 0].numpy(), "angular velocity": bodies.ang_vel[0, 0].numpy(),
        }  # fmt: skip
        given = autopilot.tick(values)
        assert given is not None
        newton = -given[3] * drones.drone.mass * 9.81 / 0.5
        command = torch.tensor([*to_frd(given[:3]), newton], dtype=torch.float32)
        plant.step({"drone": drones.normalized(command[None, None])})
    assert np.linalg.norm(bodies.pos[0, 0].numpy() - start) < 0.1
    plant.close()


def gone(values: dict[str, np.ndarray]) -> None:
    values["position"][1] = 5.0


def leaning(values: dict[str, np.ndarray]) -> None:
    values["rotation"][:] = np.cos(0.6), np.sin(0.6), 0.0, 0.0


def not_a_number(values: dict[str, np.ndarray]) -> None:
    values["velocity"][2] = np.nan


@pytest.mark.parametrize("spoil", [gone, leaning, not_a_number, None])
def test_a_fault_silences_it_until_offboard_mode_is_left(
    autopilot: Autopilot, spoil: Callable[[dict[str, np.ndarray]], None] | None
) -> None:
    rng = np.random.default_rng(1)
    autopilot.apart = FAR
    for _ in range(5):
        assert autopilot.tick(state(rng)) is not None
    bad = state(rng)
    if spoil is not None:
        spoil(bad)
    assert autopilot.tick(bad, age=0.0 if spoil else 0.06) is None
    assert not autopilot.alive
    for _ in range(3):  # and a sound state does not bring it back
        assert autopilot.tick(state(rng)) is None
        assert not autopilot.alive
    assert autopilot.tick(state(rng), mode=4) is None
    assert autopilot.alive  # it offers itself again
    assert autopilot.tick(state(rng)) is not None


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("kind", ["place", "heading"])
def test_an_estimators_reset_silences_it(autopilot: Autopilot, kind: str, beyond: bool) -> None:
    """The body moves and turns at constant rates, and then its place or its heading jumps."""
    limits = Limits()
    size = (1.1 if beyond else 0.9) * (limits.jump_m if kind == "place" else math.radians(limits.jump_deg))
    velocity, rate = np.array([0.6, -0.4, 0.3]), np.array([0.5, -0.3, 2.0])
    off, turn = np.zeros(3), np.zeros(3)
    for k in range(40):
        if k == 30:
            off[0], turn[2] = (size, 0.0) if kind == "place" else (0.0, size)
        t = 0.01 * k
        turned = Rotation.from_rotvec(turn) * Rotation.from_rotvec(t * rate)
        values = {
            "position": t * velocity + off, "velocity": velocity, "angular velocity": rate,
            "rotation": np.roll(turned.as_quat(), 1),
        }  # fmt: skip
        given = autopilot.tick({name: v.astype(np.float32) for name, v in values.items()})
        assert (given is None) == (beyond and k >= 30), k


def test_it_publishes_no_set_point_where_another_mode_flies(autopilot: Autopilot) -> None:
    rng = np.random.default_rng(2)
    autopilot.apart = FAR
    for mode, armed in ((4, True), (OFFBOARD, False)):
        assert autopilot.tick(state(rng), mode=mode, armed=armed) is None
        assert autopilot.alive


def test_the_attitude_is_that_of_the_link_in_python(tmp_path: Path) -> None:
    """The C of the set-point against the frames of `mavlink://`."""
    text = PUBLISH["attitude"].replace("@COMMANDS@", "4").replace("Rookery::", "")
    published = tmp_path / "publish.h"
    published.write_text(text)
    library = tmp_path / "attitude.so"
    words = [
        "g++",
        "-std=c++14",
        "-Wall",
        "-shared",
        "-fPIC",
        f'-DPUBLISH="{published}"',
        "-o",
        library,
        STAND_INS / "attitude.cpp",
    ]
    subprocess.run(words, check=True)
    call = ctypes.CDLL(str(library)).attitude
    call.restype = ctypes.POINTER(ctypes.c_float)
    call.argtypes = [ctypes.c_void_p, ctypes.c_float]
    rng = np.random.default_rng(3)
    for _ in range(50):
        roll, pitch, yaw = rng.uniform(-0.6, 0.6, 3)
        command = np.array([roll, pitch, 0.1, 0.2], np.float32)
        q = np.array(call(command.ctypes.data, float(np.pi / 2 - yaw))[:4])
        wanted = rotation_to_ned(rotation_of_euler(roll, pitch, yaw))
        assert abs(float(np.dot(q, wanted))) == pytest.approx(1.0, abs=1e-5)


def test_its_files_are_those_of_an_external_module(bundle: Path) -> None:
    folder = bundle / FOLDER
    named = yaml.safe_load((folder / "module.yaml").read_text())
    parameters = named["parameters"][0]["definitions"]
    assert {name: p["default"] for name, p in parameters.items()} == {"RKY_TILT_MAX": 60, "RKY_FENCE": 3}
    assert all(len(name) <= 16 for name in parameters)
    listed = (folder / "CMakeLists.txt").read_text()
    assert all(name in listed for name in ("Rookery.cpp", "policy.c", "safety.c", "module.yaml"))
    assert "modules/rookery" in (bundle / "px4/src/CMakeLists.txt").read_text()


def test_what_an_autopilot_cannot_fly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="PX4 takes ctbr, attitude"):
        export_bundle(*open_run(Path("go2-velocity")), tmp_path / "out", target="px4")
    policies = {"a": make_policy((8,)), "b": make_policy((6,))}
    with pytest.raises(RookeryError, match="policy of one group"):
        export_bundle(
            policies, build_contract(make_env(a=make_group(), b=make_group())), tmp_path / "out", target="px4"
        )
