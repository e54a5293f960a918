"""A Go2 that sees the ground by its lidar's map: messages, heights at a policy's scan points, faults, a climb in lock-step."""

from __future__ import annotations

import copy
import math
import os
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from sampled import slow_but

import rookery
from rookery.experiments.runs import open_run
from rookery.sim.errors import RookeryError
from rookery.sim.terms import NoExpression, from_json
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.links import unitree as links
from rookery.sim2real.links.dds import Participant, cyclone
from rookery.sim2real.links.frames import euler, rotation_of_euler
from rookery.sim2real.links.height_map import (
    HEIGHT_MAP,
    MAPS,
    POSES,
    TRUNK_POSE,
    GroundSampler,
    HeightMap,
    TrunkPose,
    ground_scan,
)
from rookery.sim2real.links.link import Identity
from rookery.sim2real.links.ros2_messages import ros_types
from rookery.sim2real.links.simulated import SimulatedJoints
from rookery.sim2real.runtime.checks import check_vehicle
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.controller import check_terms
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.upgrade import described
from rookery.sim2real.vehicles.joints import DRIVE_DT, JointVehicle
from rookery.sim2real.vehicles.lidar_map import CELL_M, HEIGHT_NOISE, LidarMap
from rookery.tasks.locomanip.legged_task import SCAN
from tests.sim2real.runtime import test_unitree_faults
from tests.sim2real.runtime.processes import ROOKERY, patience, prompt, tried_again, vehicle, wait_for
from tests.sim2real.runtime.test_unitree_faults import CONTROL_S, DdsWalk
from tests.sim2real.runtime.walks import TIMEOUT_S, controller

DOCS = Path(__file__).resolve().parents[3] / "docs" / "fly.md"
DOMAIN = 1 + os.getpid() % 99
STEP_M, STEPS = 0.1, 9
TILE = {"terrain_rows": 1, "terrain_columns": 1, "terrain_step_m": STEP_M}


def robot(
    terrain: str = "stairs_up",
    seed: int = 0,
    control_dt: float = 0.002,
    noise: float = 1.0,
    timeout_s: float = TIMEOUT_S,
) -> JointVehicle:
    """A Go2 that lies on terrain."""
    config: dict[str, Any] = {"terrain": terrain, "dt": DRIVE_DT, "control_dt": control_dt} | TILE
    env = rookery.make("go2-velocity", num_envs=1, seed=seed, config=config)
    return JointVehicle(env, seed=seed, noise=noise, timeout_s=timeout_s)


@pytest.fixture(scope="session")
def stairs_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the stored go2-stairs policy."""
    return export_bundle(*open_run(Path("go2-stairs")), tmp_path_factory.mktemp("stairs") / "bundle")


class Climb(DdsWalk):
    """On the floor of a pit of stairs."""

    def connect(self, seed: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_unitree_faults, "vehicle", robot)
            return super().connect(seed)


# -- messages ------------------------------------------------------------------------------------------------------


def test_messages_are_what_cyclonedds_makes_of_the_same_fields() -> None:
    """Both ways, with a height that nobody has seen and frames of another length."""
    heights = np.float32([[0.1, -0.2, np.nan], [1.5, 0.0, -3.0]])
    kind = HEIGHT_MAP.declare(cyclone())
    cells = [0.1, -0.2, 1e9, 1.5, 0.0, -3.0]
    for frame in ("odom", "o", "another"):
        theirs = kind(12.5, frame, 0.06, 3, 2, [1.0, -2.0], cells).serialize(use_version_2=False)
        back = HEIGHT_MAP.from_wire(theirs[4:])
        assert back is not None
        assert (back.stamp, back.resolution, back.origin) == (12.5, np.float32(0.06), (1.0, -2.0))
        np.testing.assert_array_equal(back.heights, heights)
    ours = HEIGHT_MAP.to_wire(HeightMap(12.5, 0.06, (1.0, -2.0), heights))
    assert ours == bytes(kind(12.5, "odom", 0.06, 3, 2, [1.0, -2.0], cells).serialize(use_version_2=False))[4:]
    k = ros_types()
    pose = k.Pose(k.Point(1.0, 2.0, 3.0), k.Quaternion(0.0, 0.6, 0.0, 0.8))
    theirs = TRUNK_POSE.declare(cyclone())(k.Header(k.Time(7, 250_000_000), "odom"), pose).serialize(
        use_version_2=False
    )
    made = TRUNK_POSE.from_wire(theirs[4:])
    assert made is not None and made.stamp == 7.25
    np.testing.assert_allclose(made.position, (1.0, 2.0, 3.0))
    np.testing.assert_allclose(made.rotation, (0.8, 0.0, 0.6, 0.0))
    assert TRUNK_POSE.to_wire(TrunkPose(7.25, np.array((1.0, 2.0, 3.0)), np.array((0.8, 0.0, 0.6, 0.0)))) == theirs[4:]


def test_only_types_that_unitrees_dds_knows_are_announced() -> None:
    """See test_unitree.py."""
    kinds = [HEIGHT_MAP.declare(cyclone()), TRUNK_POSE.declare(cyclone()), *vars(ros_types()).values()]
    members = " ".join(repr(get_type_hints(kind, include_extras=True)) for kind in kinds)
    assert re.search(r"\buint32\b", members)
    assert not re.search(r"\bu?int8\b", members)


def test_messages_go_over_dds() -> None:
    ends = Participant("lo", DOMAIN), Participant("lo", DOMAIN)
    readers = ends[1].reader(MAPS, HEIGHT_MAP), ends[1].reader(POSES, TRUNK_POSE)
    writers = ends[0].writer(MAPS, HEIGHT_MAP), ends[0].writer(POSES, TRUNK_POSE)
    sent = HeightMap(1.0, 0.06, (0.0, 0.0), np.random.default_rng(0).random((128, 128), np.float32))
    got: tuple[list[HeightMap], list[TrunkPose]] = [], []

    def arrived() -> bool:
        writers[0].write(sent)
        writers[1].write(TrunkPose(1.0, np.zeros(3), np.array((1.0, 0.0, 0.0, 0.0))))
        got[0].extend(readers[0].take())
        got[1].extend(readers[1].take())
        return bool(got[0] and got[1])

    wait_for(arrived, 10.0)
    np.testing.assert_array_equal(got[0][0].heights, sent.heights)


def test_damaged_messages_are_none_or_whole() -> None:
    rng = np.random.default_rng(3)
    good = HEIGHT_MAP.to_wire(HeightMap(1.0, 0.06, (0.0, 0.0), np.zeros((4, 5), np.float32)))
    pose = TRUNK_POSE.to_wire(TrunkPose(1.0, np.zeros(3), np.array((1.0, 0.0, 0.0, 0.0))))
    kept = [0, 0]
    for _ in range(2000):
        for n, (message, whole) in enumerate(((HEIGHT_MAP, good), (TRUNK_POSE, pose))):
            raw = bytearray(whole)
            for _ in range(int(rng.integers(1, 4))):
                raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
            length = int(rng.integers(len(raw))) if rng.random() < 0.2 else len(raw)
            back: Any = message.from_wire(bytes(raw[:length]))
            kept[n] += back is not None
            if isinstance(back, HeightMap):
                assert back.heights.shape == (4, 5) and 0.0 < back.resolution <= 1.0 and np.isfinite(back.origin).all()
                assert not (np.abs(back.heights) > 1e3).any()
            elif back is not None:
                assert np.isfinite(back.position).all()
                assert np.linalg.norm(back.rotation) == pytest.approx(1.0)
    assert min(kept) > 100


# -- heights -------------------------------------------------------------------------------------------------------


class Scene:
    """A robot put anywhere on its terrain, its lidar, and what the task itself observes there."""

    def __init__(self, terrain: str, seed: int) -> None:
        config: dict[str, Any] = {"terrain": terrain} | TILE
        self.env = rookery.make("go2-velocity", num_envs=1, seed=seed, config=config)
        self.robot = JointVehicle(self.env)
        self.lidar = LidarMap(self.robot, noise=0.0)  # its frame begins at some heading
        self.table = self.env.task.terrain
        scan = ground_scan(open_run(Path("go2-stairs"))[1].groups["robot"])
        assert scan is not None
        self.scan = scan
        self.rng = np.random.default_rng(seed)

    def put(self) -> None:
        """At a random place and rotation, on its tile."""
        q = self.robot._data.qpos
        q[:2] = self.rng.uniform(-2.5, 2.5, 2)
        q[2] = float(self.robot.ground(q[:2])) + self.rng.uniform(0.2, 0.35)
        q[3:7] = rotation_of_euler(*self.rng.uniform(-0.2, 0.2, 2), self.rng.uniform(-math.pi, math.pi))

    @property
    def attitude(self) -> np.ndarray:
        return np.array(self.robot._data.qpos[3:7], np.float32)

    def of_task(self) -> np.ndarray:
        """[P] m, what the task observes in the same place."""
        state = torch.zeros(1, 1, 13)
        state[0, 0, :7] = torch.from_numpy(self.robot._data.qpos[:7])
        self.env.task.robot.base.set_state(None, state)
        self.env.world.forward()
        return self.env.task.quantities()[SCAN][0, 0].numpy()

    def between(self, margin_m: float) -> tuple[np.ndarray, np.ndarray]:
        """[P] m each: least and greatest of the raw heights within a margin of each scan point, less the trunk's."""
        x, y, z = self.robot._data.qpos[:3]
        yaw = euler(self.attitude)[2]
        cell, out = self.table.cell_m, []
        for ahead, left in self.scan.points:
            at = x + math.cos(yaw) * ahead - math.sin(yaw) * left, y + math.sin(yaw) * ahead + math.cos(yaw) * left
            low, high = (
                [
                    round(math.floor((v - o + s * margin_m) / cell) + (s > 0))
                    for v, o in zip(at, self.table.origin, strict=True)
                ]
                for s in (-1.0, 1.0)
            )
            part = self.table.heights[low[0] : high[0] + 1, low[1] : high[1] + 1]
            out.append((part.min() - z, part.max() - z))
        return np.array(out).T

    def seen(self) -> GroundSampler:
        """A link's sampler after a map and a place have come over the wire."""
        sampler = GroundSampler(self.scan)
        pose = TRUNK_POSE.from_wire(TRUNK_POSE.to_wire(self.lidar.pose()))
        new = HEIGHT_MAP.from_wire(HEIGHT_MAP.to_wire(self.lidar.map()))
        assert pose is not None and new is not None
        sampler.take_pose(pose, 1.0, self.attitude)
        sampler.take_map(new, 1.0)
        return sampler


@pytest.mark.parametrize("terrain", slow_but(["stairs_up"], ["stairs_up", "stairs_down", "rough"]))
def test_heights_are_the_terrains_within_a_cell(terrain: str) -> None:
    """At random places, headings and tilts; and beside the task's own. Without noise, and within five deviations of it."""
    scene = Scene(terrain, 4)
    for noise in (0.0, 1.0):
        scene.lidar = LidarMap(scene.robot, noise)
        slack = 5.0 * noise * HEIGHT_NOISE + 1e-5
        for _ in range(10):
            scene.put()
            got = scene.seen().heights(scene.attitude)
            assert got is not None
            low, high = scene.between(2.0 * CELL_M + noise * 0.03)
            own = np.abs(np.array(scene.scan.points)).max(1) < 0.5  # below its body, as the nearest cell that is seen
            assert (got[~own] >= low[~own] - slack).all()
            assert (got[~own] <= high[~own] + slack).all()
            off = np.abs(got - scene.of_task())
            assert off[~own].mean() < 0.02 + slack
            assert off.max() < 0.3


def test_a_slope_is_seen_as_it_is() -> None:
    """What is between cells is no rounding: on a plane that leans, heights are the task's within a millimeter."""
    scene = Scene("slope_up", 5)
    scene.lidar._seen[:] = True
    q = scene.robot._data.qpos
    q[:2] = 2.2, 0.1
    q[2] = float(scene.robot.ground(q[:2])) + 0.3
    for yaw in (0.0, 1.0, -2.5):
        q[3:7] = rotation_of_euler(0.0, 0.0, yaw)
        got = scene.seen().heights(scene.attitude)
        assert got is not None
        np.testing.assert_allclose(got, scene.of_task(), atol=1e-3)
        assert np.ptp(got) > 0.2


def test_between_two_places_the_trunk_moves_on() -> None:
    """The velocity is in the IMU's world, whose heading is not the odometry's."""
    scene = Scene("slope_up", 5)
    scene.lidar._seen[:] = True
    q = scene.robot._data.qpos
    q[:2] = 2.0, 0.0
    q[2] = float(scene.robot.ground(q[:2])) + 0.3
    q[3:7] = rotation_of_euler(0.0, 0.0, 0.4)
    sampler = scene.seen()
    assert abs(sampler._turn) > 0.1
    q[:3] += (0.1, -0.05, 0.02)
    q[3:7] = rotation_of_euler(0.0, 0.0, 0.9)
    for _ in range(10):
        sampler.move((1.0, -0.5, 0.2), 0.01)
    got = sampler.heights(scene.attitude)
    assert got is not None
    np.testing.assert_allclose(got, scene.of_task(), atol=1e-3)


def flat(points: tuple[tuple[float, float], ...]) -> GroundSampler:
    return GroundSampler(SimpleNamespace(name="ground", points=points, limit=1.0))  # type: ignore[arg-type]


def test_what_nobody_has_seen_is_like_its_neighbor_and_no_map_is_none() -> None:
    upright = np.array((1.0, 0.0, 0.0, 0.0))
    heights = np.full((40, 40), np.nan, np.float32)
    sampler = flat(((0.0, 0.0), (0.3, 0.0), (-0.3, 0.0)))
    pose = TrunkPose(1.0, np.array((2.0, 2.0, 0.5)), upright)
    sampler.take_map(HeightMap(1.0, 0.1, (0.0, 0.0), np.zeros((40, 40), np.float32)), 1.0)
    assert sampler.heights(upright) is None, "a map without a place in it"
    sampler.take_pose(pose, 1.0, upright)
    sampler.take_map(HeightMap(2.0, 0.1, (0.0, 0.0), heights), 2.0)
    assert sampler.heights(upright) is None, "a map that shows nothing"
    heights[:, :19], heights[:, 22:] = -0.2, 0.1  # by x: lower behind it
    sampler.take_map(HeightMap(3.0, 0.1, (0.0, 0.0), heights), 3.0)
    np.testing.assert_allclose(sampler.heights(upright), (-0.7, -0.4, -0.7), atol=0.3)
    np.testing.assert_allclose(np.float32(sampler.heights(upright))[1:], (-0.4, -0.7), atol=1e-6)
    assert sampler.received == 1.0
    sampler.take_map(HeightMap(3.0, 0.1, (0.0, 0.0), heights), 9.0)
    sampler.take_pose(TrunkPose(1.0, pose.position, upright), 9.0, upright)
    assert sampler.received == 1.0, "the same ones again are no newer"
    sampler.take_pose(TrunkPose(1.1, np.array((30.0, 2.0, 0.5)), upright), 9.0, upright)
    assert sampler.heights(upright) is None, "beside the map"
    assert sampler.received == 3.0


def test_a_scan_is_written_with_its_points() -> None:
    values = {
        "kind": "ground_scan",
        "name": "h",
        "count": 2,
        "unit": "m",
        "points": [[0.1, 0.2], [0.3, 0.4]],
        "limit": 0.5,
    }
    assert from_json(values).to_json() == values
    for wrong in ({"count": 3}, {"limit": 0.0}, {"points": [[0.1, 0.2], [0.3]]}, {"points": []}):
        with pytest.raises(NoExpression):
            from_json(values | wrong)


@pytest.mark.slow
def test_an_older_contract_gets_the_points() -> None:
    """Once they were prose, which no link can read; another sensor stays what it is."""
    values = open_run(Path("go2-stairs"))[1].to_json()
    values["task_config"] |= {"terrain_rows": 1, "terrain_columns": 2, "terrain_start_rows": 1}
    old = copy.deepcopy(values)
    term = old["groups"]["robot"]["observation"][-1]
    scan = term["expression"]["a"]
    del scan["points"]
    scan["kind"] = "sensor"
    assert described(values) == values
    assert described(old) == values
    with pytest.raises(RookeryError, match="filled by a sensor"):
        check_terms(Contract.from_json(old).groups["robot"])


# -- link and vehicle ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("missing", [MAPS, POSES])
def test_a_robot_without_a_map_is_refused(stairs_bundle: Path, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "GROUND_S", 0.0)
    climb = Climb(stairs_bundle)
    climb.bus.cut = {missing}
    with pytest.raises(
        RookeryError, match=r"the robot sends no map of it \(rt/utlidar/height_map_array\) or not its place"
    ):
        climb.pilot.check()
    assert climb.link._commands is None


@pytest.mark.slow
def test_a_robot_that_sees_nothing_does_not_fit(stairs_bundle: Path) -> None:
    blind = Identity("joints", "Go2", ("leg_position",), ("joint angles",), 500.0, links.MOTORS)
    policy = controller(stairs_bundle)
    wanted = {q.name: np.zeros(q.size, np.float32) for q in policy.wanted if q.name != SCAN}
    with pytest.raises(
        RookeryError, match="wants \"ground's height - trunk's height at points of a grid\", which a sensor sees"
    ):
        check_vehicle(policy, blind, "here", wanted)


@pytest.mark.slow
@pytest.mark.parametrize("topic", [MAPS, POSES])
def test_an_old_map_is_a_fault(stairs_bundle: Path, topic: str) -> None:
    """300 ms after the last one, which may be 67 ms old; then joints are damped in the next control step."""
    climb = Climb(stairs_bundle)
    climb.begin()
    assert climb.pilot.phase is Phase.POLICY, climb.said
    climb.bus.cut = {topic}
    assert 0.3 - 0.067 <= climb.seconds_to_safety() <= 0.3 + 2 * CONTROL_S
    climb.run(1)
    assert climb.pilot.fault is not None
    assert climb.pilot.fault.name == "ground"


def test_on_the_flat_nobody_asks_for_a_map(walk_bundle: Path) -> None:
    walk = DdsWalk(walk_bundle)
    walk.bus.cut = {MAPS, POSES}
    walk.pilot.check()
    walk.run(1)
    reading = walk.link.read()
    assert walk.link._maps is None
    assert reading is not None and reading.ground is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_climbs_steps_of_10_cm(stairs_bundle: Path, seed: int) -> None:
    """All nine of them, from the floor of a pit, straight ahead from whatever heading it lies in."""
    climb = Climb(stairs_bundle, seed=seed, seconds=14.0)
    climb.pilot.commands.values = {"velocity": np.float32((0.5, 0.0, 0.0))}
    climb.begin()
    walker = climb.vehicle
    assert walker.ground(walker.truth()["position"][:2]) == pytest.approx(-STEP_M * STEPS)
    while climb.pilot.phase is Phase.POLICY:
        climb.run(1)
    assert climb.pilot.fault is None, climb.said
    assert walker.ground(walker.truth()["position"][:2]) == 0.0
    assert climb.height > 0.2
    assert climb.pilot.phase is Phase.EXIT


@pytest.mark.slow
def test_the_dry_run_climbs_too(stairs_bundle: Path) -> None:
    clock = ManualClock()
    link = SimulatedJoints(robot(control_dt=CONTROL_S), clock, controller(stairs_bundle).spec)
    assert SCAN in link.open().quantities
    link.receive()
    reading = link.read()
    assert reading is not None and reading.ground == clock.now()
    low, high = reading.estimates[SCAN].min(), reading.estimates[SCAN].max()
    assert -0.2 < low < high < 0.15


@pytest.mark.slow
@tried_again
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """In real time, over DDS: it climbs out of the pit and lies down."""
    section = re.search(r"^## A Go2 on stairs\n(.*?)^## ", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    (block,) = re.findall(r"```console\n(.*?)```", section[1], re.DOTALL)
    serve, export, walk = map(shlex.split, block.splitlines())
    assert serve[:3] == ["rookery", "vehicle", "go2-velocity"]
    assert subprocess.run([*ROOKERY, *export[1:]], cwd=tmp_path, capture_output=True, timeout=120).returncode == 0
    patient = [] if prompt() else ["--silence-ms", "1000"]
    with vehicle(*serve[3:], *patient, task=serve[2]):
        words = [*ROOKERY, *walk[1:], *patience(tmp_path / "stairs")]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lies" in done.stdout
