"""drone-race: passing gates, hitting them, laps and their times."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy.spatial.transform import Rotation

import rookery
from rookery.assets.gates import BAR, COURSES, DEPTH, OPENING, gate
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.sensors.cameras import CLASSES, Cameras
from rookery.tasks.swarm import race_kernels

HALF = 0.5 * OPENING


def make(n: int = 4, **config: Any) -> VecEnv:
    env = rookery.make("drone-race", n, config=config)
    env.reset(seed=0)
    return env


def neutral(env: VecEnv) -> torch.Tensor:
    g = env.groups["drone"]
    return torch.tensor(g.action.neutral, dtype=torch.float32).expand(env.num_envs, g.count, 4)


def carry(env: VecEnv, a: torch.Tensor, b: torch.Tensor) -> tuple:
    """A step in which all drones go from a to b [N, A, 3] (m), as if by themselves."""
    state = torch.zeros(*b.shape[:2], 13)
    state[..., :3] = b
    state[..., 3] = 1.0
    env.task.drones.bodies.set_state(torch.arange(env.num_envs), state)
    env.task.before.copy_(a)
    return env.step(neutral(env))


@pytest.mark.parametrize(
    ("p", "q", "share"),
    [
        ((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0), 0.5),
        ((-0.3, 0.2, 0.1), (0.1, -0.2, 0.3), 0.75),
        ((-1.0, 0.9, 0.0), (1.0, 0.0, 0.0), 0.5),  # from beside, through at y = 0.45
        ((-1.0, 1.1, 0.0), (1.0, 0.0, 0.0), -1),  # at y = 0.55
        ((-1.0, 0.0, 0.51), (1.0, 0.0, 0.51), -1),
        ((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), -1),  # backwards
        ((-1.0, 0.0, 0.0), (-0.01, 0.0, 0.0), -1),
        ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), -1),  # was counted when it came to the plane
        ((-0.5, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0),
    ],
)
def test_crossings(p, q, share):
    assert race_kernels.crossing(np.array(p), np.array(q), HALF) == pytest.approx(share)


def test_distance_to_the_frame_against_mujoco():
    spec = gate()
    probe = spec.worldbody.add_body(name="probe")
    probe.add_freejoint()
    probe.add_geom(name="probe", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0])
    model = spec.compile()
    data = mujoco.MjData(model)
    bars = [model.geom(name).id for name in ("top", "bottom", "left", "right")]
    for place in np.random.default_rng(0).uniform(-1, 1, (300, 3)):
        data.qpos[:3] = place
        mujoco.mj_kinematics(model, data)
        least = min(mujoco.mj_geomDistance(model, data, g, model.geom("probe").id, 5.0, None) for g in bars) + 0.01
        mine = race_kernels.frame_distance(*place, HALF, BAR, 0.5 * DEPTH)
        assert mine == pytest.approx(max(least, 0.0), abs=1e-3 if least > 0 else 0.011)


def test_touches_along_the_way_against_many_moments():
    rng = np.random.default_rng(1)
    body = 0.06
    outcomes = set()
    for _ in range(150):
        p, q = rng.uniform(-1, 1, (2, 3))
        ways = p + np.linspace(0, 1, 500)[:, None] * (q - p)
        least = min(race_kernels.frame_distance(*x, HALF, BAR, 0.5 * DEPTH) for x in ways) - body
        if abs(least) > 4e-3:
            outcome = race_kernels.touches(p, q, HALF, BAR, 0.5 * DEPTH, body)
            assert outcome == (least < 0)
            outcomes.add(outcome)
    assert outcomes == {True, False}
    still = np.array([0.0, 0.0, 0.4])
    assert not race_kernels.touches(still, still, HALF, BAR, 0.5 * DEPTH, 0.09)
    assert race_kernels.touches(still, still, HALF, BAR, 0.5 * DEPTH, 0.11)
    assert not race_kernels.touches(still, still * np.nan, HALF, BAR, 0.5 * DEPTH, 0.09)  # and it returns


def test_laps_and_their_times():
    """A drone carried from gate to gate: every gate takes 10 steps, and is crossed a quarter into one."""
    env = make(2, num_drones=1, laps=1, episode_s=2.0, course="oval")
    t = env.task
    count = len(COURSES["oval"])
    middle = t.gates
    way = t.gate_directions
    rests = torch.stack([middle[0] - 0.5 * way[0]] * 2)[:, None]
    for k in range(1, 131):
        g = (k - 1) // 10 % count
        if k % 10 == 0:
            a, b = (middle[g] - 0.1 * way[g]).expand(2, 1, 3), (middle[g] + 0.3 * way[g]).expand(2, 1, 3)
        else:
            a = b = rests[:1].expand(2, 1, 3) if k < 10 else (middle[g] - 0.5 * way[g]).expand(2, 1, 3)
        _, _, terminated, _, _ = carry(env, a, b)
        assert not terminated.any()
        assert t.passed[0, 0] == k // 10
        assert (t.when[0, 0] >= 0) == (k % 10 == 0)
        assert t.metrics()["success"].tolist() == [float(k >= 10 * count + 10)] * 2
    m = t.metrics()
    assert m["lap_s"].tolist() == pytest.approx([0.1 * count] * 2, abs=1e-4)
    assert m["gates"].tolist() == [13.0] * 2
    now = (130 - 1 + 0.25) * t.cfg.control_dt
    assert t.passed_at[0, 0, 0] == pytest.approx(now, abs=2e-4)


def test_only_the_next_gate_counts():
    env = make(1, num_drones=1)
    t = env.task
    for g, counted in ((1, 0), (0, 1), (0, 1), (1, 2)):
        carry(
            env,
            (t.gates[g] - 0.1 * t.gate_directions[g])[None, None],
            (t.gates[g] + 0.1 * t.gate_directions[g])[None, None],
        )
        assert t.passed[0, 0] == counted
        assert t.following[0, 0] == counted
        assert torch.allclose(t.target[0, 0], t.gates[counted])


def test_progress_is_distance_to_the_gate_that_was_next():
    env = make(1, num_drones=1)
    t = env.task
    a, b = t.gates[0] - 0.9 * t.gate_directions[0], t.gates[0] - 0.7 * t.gate_directions[0]
    carry(env, a[None, None], b[None, None])
    after = t.drones.bodies.pos[0, 0]
    assert t.progress[0, 0] == pytest.approx(0.9 - float((after - t.gates[0]).norm()), abs=1e-5)
    assert t.progress[0, 0] == pytest.approx(0.2, abs=5e-3)


def test_touching_a_frame_is_a_crash():
    env = make(2, num_drones=1)
    t = env.task
    beside = torch.tensor([0.0, 0.0, HALF])
    where = torch.stack((t.gates[2] + 0.8 * beside, t.gates[2] + beside))[:, None]
    _, _, terminated, _, info = carry(env, where, where)
    assert terminated.tolist() == [False, True]
    assert t.causes[int(info["episode"]["cause"][0]) - 1] == "gate"
    assert info["episode"]["metrics"]["crash"].tolist() == [1]


def test_two_racers_can_collide():
    env = make(2, num_drones=2)
    t = env.task
    pos = t.drones.bodies.pos.clone()
    pos[1, 1] = pos[1, 0] + torch.tensor([0.0, 0.1, 0.0])
    _, _, terminated, _, info = carry(env, pos, pos)
    assert terminated.tolist() == [False, True]
    assert info["episode"]["metrics"]["collision"].tolist() == [1]


def test_the_observation_has_the_next_two_gates():
    env = make(3, num_drones=2, start_tilt=0.0)
    t = env.task
    t.following[:, 1] = len(t.gates) - 1
    obs = t.observe()["drone"]
    w, z = t.drones.bodies.quat[..., 0], t.drones.bodies.quat[..., 3]
    yaw = 2 * torch.atan2(z, w)
    for drone, gates in ((0, (0, 1)), (1, (len(t.gates) - 1, 0))):
        for slot, g in enumerate(gates):
            offset = t.gates[g] - t.drones.bodies.pos[:, drone]
            way = t.gate_directions[g].expand(3, 3)
            for name, world in (("gate_offset", offset), ("gate_direction", way)):
                seen = obs[name][:, drone, 3 * slot : 3 * slot + 3]
                c, s = yaw[:, drone].cos(), yaw[:, drone].sin()
                body = torch.stack(
                    (c * world[:, 0] + s * world[:, 1], c * world[:, 1] - s * world[:, 0], world[:, 2]), -1
                )
                assert torch.allclose(seen, body, atol=1e-4)


def cameras_of(env):
    (reader,) = env.sensors.readers["drone"].values()
    return reader.cameras


def test_with_a_camera_every_start_has_the_next_gate_in_view():
    """All of the ball in its middle."""
    for course in COURSES:
        for drones, start in ((1, "grid"), (3, "grid"), (3, "anywhere")):
            env = make(20, obs="segmentation", course=course, num_drones=drones, start=start, start_tilt=0.0)
            edge = cameras_of(env).read() == CLASSES.index("target")
            assert edge.flatten(2).any(-1).all()
            edge[:, :, 1:-1, 1:-1] = False
            assert not edge.any()


@pytest.mark.parametrize("course", ["oval", "figure-eight"])  # in split-s other gates stand beside the first
def test_the_camera_shows_the_gate_ahead_where_it_is_and_as_large_as_it_is(course):
    """A square through a pinhole: in the middle for who is before its middle, to the left or up for who is right or below."""
    height, width = 97, 129
    env = make(3, obs="segmentation", image_height=height, image_width=width, course=course, num_drones=1)
    task = env.task
    depths = Cameras(env.world, ["drone_0/onboard"], width, height, "depth")
    way = task.gate_directions[0]
    turn = Rotation.from_euler(
        "ZY", [COURSES[course][0].yaw, -math.atan(0.1)]
    )  # nose up: the lens looks down by that much
    lens = torch.from_numpy(turn.apply([1.05 * task.drone.body_radius, 0.0, 0.0])).float()  # m, from the drone's centre
    left = torch.stack((-way[1], way[0], torch.tensor(0.0)))
    shifts = ((0.0, 0.0), (0.25, 0.0), (0.0, 0.25))  # m, of the gate to the left and up, as the lens sees it
    state = torch.zeros(3, 1, 13)
    for w, (aside, up) in enumerate(shifts):
        state[w, 0, :3] = task.gates[0] - 1.5 * way - aside * left - lens
        state[w, 0, 2] -= up
    state[..., 3:7] = torch.from_numpy(turn.as_quat(scalar_first=True))
    task.drones.bodies.set_state(None, state)
    env.world.forward()
    classes, depth = cameras_of(env).read()[:, 0], depths.read()[:, 0]
    front = 1.5 - 0.5 * DEPTH  # m, from the lens to the frame
    scale = 0.5 * height / math.tan(0.5 * float(depths.fovy[0])) / front  # pixels per m, there
    frames = (classes == CLASSES.index("gate")) & (depth < front + DEPTH + 1e-3)
    for frame, (aside, up) in zip(frames, shifts, strict=True):
        row, column = 0.5 * (height - 1) - scale * up, 0.5 * (width - 1) - scale * aside
        rows, columns = frame.nonzero(as_tuple=True)
        reach = scale * (HALF + BAR)
        assert (int(rows.min()), int(rows.max())) == (math.ceil(row - reach), math.floor(row + reach))
        assert (int(columns.min()), int(columns.max())) == (math.ceil(column - reach), math.floor(column + reach))
        hole = round(0.9 * scale * HALF)  # the frame's far edge is nearer to the middle than its front
        assert not frame[round(row) - hole : round(row) + hole, round(column) - hole : round(column) + hole].any()
    assert not (classes == CLASSES.index("drone")).any()


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize(("drones", "start"), [(1, "grid"), (6, "grid"), (3, "anywhere"), (8, "anywhere")])
def test_no_start_is_a_crash_or_behind_its_gate(course, drones, start):
    env = make(50, course=course, num_drones=drones, start=start)
    t = env.task
    ahead = ((t.target - t.drones.bodies.pos) * t.gate_directions[t.following]).sum(-1)
    assert ahead.min() > 0.5
    if start == "grid":
        assert (t.following == 0).all()
    else:
        assert len(t.following[:, 0].unique()) == len(t.gates)
    assert not env.step(neutral(env))[2].any()


@pytest.mark.parametrize("course", slow_but(["figure-eight"], COURSES))
def test_the_baseline_flies_laps(course):
    env = rookery.make("drone-race", 4, engine="rotor", config={"course": course, "num_drones": 2})
    controller = env.task.controller()
    obs, _ = env.reset(seed=1)
    for _ in range(1500):
        obs, *_ = env.step(controller(obs))
    m = env.task.metrics()
    assert m["success"].tolist() == [1] * 4
    assert (m["lap_s"] > 5).all()
    assert (m["lap_s"] < 14).all()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"course": "figure-nine"}, "unknown course 'figure-nine': did you mean 'figure-eight'"),
        ({"start": "gird"}, "unknown start 'gird': did you mean 'grid'"),
        ({"laps": 0}, "at least 1 lap"),
        ({"opening_m": 0.2}, "opening_m must exceed"),
        ({"spacing_m": 0.5}, "start in collision: places 0.5 m apart"),
        ({"num_drones": 60}, "drones would start"),
        ({"bounds_m": 2.0}, "too small an arena"),
        ({"start_box_m": 1.0, "num_drones": 1}, "above the ground|in a gate"),
    ],
)
def test_races_that_cannot_be(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)


def test_the_sphere_that_must_not_touch_holds_the_body():
    t = make(1).task
    assert t.body == pytest.approx(math.hypot(t.drone.body_radius, t.drone.body_height / 2))
