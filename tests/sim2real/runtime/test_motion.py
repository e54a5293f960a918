"""A motion in a policy's place: what is refused, and a log from which `rookery sysid` finds what the simulated robot has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.links.joints import KINDS, JointTargets
from rookery.sim2real.links.link import Identity, Link
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.flight_log import FlightLog
from rookery.sim2real.runtime.loop import ControlLoop
from rookery.sim2real.runtime.motion import MotionController, motion_contract, read_motion
from rookery.sim2real.runtime.pilot import Pilot
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.settings import safety_settings
from rookery.sim2real.sysid.jointed.robot import find_robot
from rookery.sim2real.sysid.readers.reading import read_table
from rookery.sim2real.sysid.settings import LogSettings, joint_log
from rookery.sim2real.vehicles import dry_run
from rookery.sim2real.vehicles.joints import DRIVE_DT, JointVehicle
from tests.sim2real.runtime.flights import library

ZOO = Path(__file__).resolve().parents[3] / "policies" / "zoo"


def motion(path: Path, samples: int = 200, **changes: Any) -> Path:
    """A motion of a Go2 about its home, at 200 Hz, the joints in another order than the contract's; None leaves one out."""
    robot = find_robot("go2")
    time = np.arange(samples) / 200.0
    wave = 0.1 * np.sin(2.0 * np.pi * time)[:, None]
    order = list(reversed(range(12)))
    given: dict[str, Any] = {
        "time": time, "target": (robot.home + wave)[:, order], "joints": np.array(robot.joints)[order],
        "kp": robot.kp[order], "kd": robot.kd[order], "robot": np.array("go2"),
    } | changes  # fmt: skip
    with path.open("wb") as file:
        np.savez(file, **{k: v for k, v in given.items() if v is not None})
    return path


def contract(policy: str = "go2-velocity") -> tuple[Contract, str]:
    found = Contract.read(ZOO / policy / "contract.json")
    return found, next(iter(found.groups))


def test_it_is_played_sample_by_sample(tmp_path: Path) -> None:
    found = read_motion(motion(tmp_path / "m.npz", kp=np.full(12, 31.0)))
    assert found.seconds == pytest.approx(1.0)
    controller = MotionController(ZOO / "go2-velocity", None, found)
    assert controller.control_dt == 0.005
    controller.begin()
    played = np.array([controller.step({}) for _ in range(203)])
    np.testing.assert_allclose(played[:200], found.target, atol=1e-6)
    np.testing.assert_array_equal(played[200:], played[199][None].repeat(3, 0))
    controller.begin()
    np.testing.assert_allclose(controller.step({}), found.target[0], atol=1e-6)
    assert controller.spec.actuation is not None
    assert {j.name: j.kp for j in controller.spec.actuation.joints} == dict.fromkeys(found.joints, 31.0)
    action = controller.spec.spec.action
    assert action.names == found.joints
    for joint, low, high in zip(controller.spec.actuation.joints, action.low, action.high, strict=True):
        assert (low, high) == (joint.lower, joint.upper)
    read = Contract.from_json(controller.contract.to_json(), stages=False)  # as a log has it
    assert read.groups[controller.group].spec.action.names == found.joints


TIME = np.arange(200) / 200.0
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no times": ({"time": None}, "it lacks time"),
    "no gains": ({"kp": None, "kd": None}, "it lacks kp, kd"),
    "another length": ({"time": TIME[:-1]}, "target must be finite numbers of the shape"),
    "not finite": ({"time": np.where(TIME > 0.5, np.nan, TIME)}, "time must be finite"),
    "words": ({"kp": np.array(["a"] * 12)}, "must be numbers"),
    "backwards": ({"time": TIME[::-1]}, "equal steps"),
    "a gap": ({"time": TIME + (TIME > 0.5)}, "equal steps"),
    "too slow": ({"time": 20.0 * TIME}, "20 to 1000 Hz"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_what_is_no_motion_is_refused(tmp_path: Path, case: str) -> None:
    changes, said = WRONG[case]
    with pytest.raises(RookeryError, match=said) as caught:
        read_motion(motion(tmp_path / "m.npz", **changes))
    assert "\n" not in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="there is no motion"):
        read_motion(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("time")
    with pytest.raises(RookeryError, match="is no motion"):
        read_motion(tmp_path / "text.npz")


def far(by: float) -> Any:
    robot = find_robot("go2")
    target = np.repeat(robot.home[::-1][None], 200, 0)
    target[50:150] += by * np.sin(np.linspace(0.0, np.pi, 100))[:, None]
    return target


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "beyond the joints' limits": ({"target": far(2.5)}, "and its limits are"),
    "faster than the motors": ({"target": far(0.3) + 0.3 * (np.arange(200) == 77)[:, None]}, "rad/s, and its motor makes"),
    "away from home": ({"target": far(0.0) + 0.2}, "rad from where"),
    "strong": ({"kp": np.full(12, 1e4)}, "a gain of 10000 N m/rad"),
    "negative": ({"kd": np.full(12, -1.0)}, "a gain of -1 N m s/rad"),
    "other joints": ({"joints": np.array([f"joint{i}" for i in range(12)])}, "with the joints joint0"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(UNFIT))
def test_what_leaves_the_robots_limits_is_refused(tmp_path: Path, case: str) -> None:
    changes, said = UNFIT[case]
    with pytest.raises(RookeryError, match=said):
        motion_contract(*contract(), read_motion(motion(tmp_path / "m.npz", **changes)))


@pytest.mark.parametrize("policy", ["drone-hover", "table-reach"])
def test_other_families_play_none(tmp_path: Path, policy: str) -> None:
    with pytest.raises(RookeryError, match="motions are for robots whose drives take angles and gains"):
        motion_contract(*contract(policy), read_motion(motion(tmp_path / "m.npz")))


def test_it_has_a_length_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fly", "bundle", "--dry-run", "--motion", "m.npz", "--seconds", "3"]) == 2
    assert "--motion has a length of its own" in capsys.readouterr().err


class Ideal(Link):
    """Joints that are at once where they are told to be, in another order than the contract's."""

    def __init__(self, controller: MotionController, clock: ManualClock) -> None:
        self.url = "ideal://0"
        self._clock = clock
        self._joints = JointTargets(controller.spec)
        self._angles = self._joints.home.copy()
        self._armed = False
        self.gains: list[tuple[Any, Any]] = []

    def open(self, timeout_s: float = 10.0) -> Identity:
        quantities = ("joint angles", "joint velocities", "rotation")
        return Identity("joints", "go2", KINDS, quantities, 500.0, self._joints.names[::-1])

    def read(self) -> Reading:
        self.heard = now = self._clock.now()
        values = {
            "joint angles": self._angles.copy(), "joint velocities": np.full(12, np.float32(1e-3 * (now % 1.0))),
            "rotation": np.float32((1.0, 0.0, 0.0, 0.0)),
        }  # fmt: skip
        return Reading(now, now, values, armed=self._armed)

    def arm(self) -> None:
        self._armed = True

    def disarm(self) -> None:
        self._armed = False

    def engage(self) -> None:
        pass

    engaged = True

    def write(self, kind: str, command: Any) -> None:
        self.hold_joints(self._joints.targets(command), self._joints.kp, self._joints.kd)

    def hold_joints(self, position: Any, stiffness: Any, damping: Any) -> None:
        self.gains.append((np.array(stiffness), np.array(damping)))
        self._angles = np.array(position, np.float32)

    def react(self, reaction: str) -> None:
        self.disarm()

    def close(self) -> None:
        pass


def test_its_log_is_what_sysid_reads(tmp_path: Path) -> None:
    """Through checks, entry, motion, filter and exit: joints that follow at once are a step behind their targets."""
    played = read_motion(motion(tmp_path / "m.npz", samples=600, kp=np.full(12, 31.0)))
    clock = ManualClock()
    controller = MotionController(ZOO / "go2-velocity", None, played)
    link = Ideal(controller, clock)
    settings = safety_settings(controller.contract, controller.group)
    pilot = Pilot(controller, link, library(), settings, clock, seconds=played.seconds)
    pilot.check()
    pilot.start()
    with FlightLog(tmp_path / "log.mcap", controller.contract.to_json()) as log:
        loop = ControlLoop([pilot], clock, log.write)
        loop.run()
    assert pilot.fault is None
    assert {tuple(kp) for kp, _ in link.gains[500:550]} == {(31.0,) * 12}  # stiff, on its way to home
    table = read_table(tmp_path / "log.mcap")
    assert table.robot == "go2"
    read = joint_log(table, LogSettings(), find_robot("go2"))
    assert read.kp.tolist() == [31.0] * 12
    order = [played.joints.index(name) for name in read.joints]
    assert abs(len(read.time) - len(played.target)) <= 1
    count = len(read.time)
    np.testing.assert_allclose(read.target, played.target[:count, order], atol=1e-5)
    np.testing.assert_allclose(read.position[1:], read.target[:-1], atol=1e-5)
    np.testing.assert_allclose(np.diff(read.time), 0.005, atol=1e-6)


HEAVIER = 1.6


class Heavier(JointVehicle):
    """With more rotor inertia than its model says."""

    steepest = 0.0  # of its trunk, as a quaternion's x, y or z; its base class steps it before it is made

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._model.dof_armature[self._v] *= HEAVIER

    def step(self) -> None:
        super().step()
        self.steepest = max(self.steepest, float(np.abs(self.truth()["rotation"][1:]).max()))


@pytest.mark.slow
def test_from_a_design_through_a_flight_to_a_parameter(
    walk_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Heavier] = []

    def vehicle(*args: Any, **options: Any) -> Heavier:
        made.append(Heavier(*args, **options))
        return made[-1]

    monkeypatch.setattr(dry_run, "JointVehicle", vehicle)
    path, log, report = tmp_path / "motion.npz", tmp_path / "log.mcap", tmp_path / "report.json"
    fit = ["--fit", "armature,damping,friction,delay"]
    assert main(["sysid", "--design", "go2", "--motion", str(path), "--seconds", "6", *fit]) == 0
    assert main(["fly", str(walk_bundle), "--dry-run", "--motion", str(path), "--log", str(log)]) == 0
    assert "sim://go2: lies" in capsys.readouterr().out
    assert made[0].steepest < 1e-3  # it was held
    assert main(["sysid", str(log), *fit, "--report", str(report)]) == 0
    values = json.loads(report.read_text())
    assert values["robot"] == "go2"
    robot = find_robot("go2")
    armature, damping = (dict(zip(robot.kinds, robot.nominal(name), strict=True)) for name in ("armature", "damping"))
    found = {p["name"]: p for p in values["parameters"]}
    for kind in ("hip", "thigh", "calf"):
        kp, kd = robot.kp[0], robot.kd[0]
        # Identified parameters are those of continuous time. The vehicle's (q[n+1] - 2 q[n] + q[n-1]) / h^2 is the
        # acceleration in the middle, so that a target that is held acts h / 2 early, and its backward (q[n] - q[n-1]) / h a
        # velocity h / 2 late: (I - h kd / 2) q'' + (kd + d) q' + kp q = kp u(t + h / 2). Divided by 1 + h s / 2:
        inertia = HEAVIER * armature[kind] - 0.5 * DRIVE_DT * kd - 0.5 * DRIVE_DT * (kd + damping[kind])
        viscous = damping[kind] - 0.5 * DRIVE_DT * kp
        for name, true, nominal in (("armature", inertia, armature[kind]), ("damping", viscous, None)):
            p = found[f"{name}:{kind}"]
            assert p["low"] <= true <= p["high"], p
            assert p["high"] - p["low"] < 0.25 * true, p
            assert nominal is None or nominal < p["low"], p
