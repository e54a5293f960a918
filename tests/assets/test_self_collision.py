"""Robots do not pass through themselves: which pairs of bodies may touch, and what happens when they are driven together."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from rookery.assets.allegro import allegro
from rookery.assets.arms import airbot_play_spec, arx5_spec
from rookery.assets.go2 import HOME_LEG, JOINTS, LEGS, go2_spec
from rookery.assets.panda import panda_spec
from rookery.robots.arms.models import find_arm
from rookery.robots.quadrupeds.go2 import add_go2
from rookery.sim.scene import Scene


def go2_with_arm() -> mujoco.MjSpec:
    return add_go2(Scene(mujoco.MjSpec, dt=0.005), find_arm("airbot_play")).spec()


ROBOTS: dict[str, Callable[[], mujoco.MjSpec]] = {
    "go2": lambda: go2_spec(visual=False),
    "airbot_play": lambda: airbot_play_spec(visual=False),
    "arx5": lambda: arx5_spec(visual=False),
    "panda": lambda: panda_spec(visual=False),
    "allegro": lambda: allegro(looks=False),
    "go2 with arm": go2_with_arm,
}


def joints_between(m: mujoco.MjModel, a: int, b: int) -> int:
    """Joints on the way from one body to another."""

    def up(body: int) -> list[int]:
        return [body, *up(m.body_parentid[body])] if body else [0]

    return sum(int(m.body_jntnum[x]) for x in set(up(a)) ^ set(up(b)))


def meet(m: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether MuJoCo looks for contacts of two geoms."""
    first, second = sorted((int(m.geom_bodyid[a]), int(m.geom_bodyid[b])))
    if (first << 16) + second in m.exclude_signature:
        return False
    welds = int(m.body_weldid[first]), int(m.body_weldid[second])
    parents = [int(m.body_weldid[m.body_parentid[w]]) for w in welds]
    if welds[0] == welds[1] or (welds[0] == parents[1] and welds[0]) or (welds[1] == parents[0] and welds[1]):
        return False
    return bool(m.geom_contype[a] & m.geom_conaffinity[b] or m.geom_contype[b] & m.geom_conaffinity[a])


@pytest.mark.parametrize("robot", ROBOTS)
def test_only_neighboring_links_pass_through_each_other(robot):
    m = ROBOTS[robot]().compile()
    solid = [g for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g]]
    pairs = [(a, b) for i, a in enumerate(solid) for b in solid[i + 1 :] if m.geom_bodyid[a] != m.geom_bodyid[b]]
    assert len(pairs) > 5
    for a, b in pairs:
        if not meet(m, a, b):
            bodies = int(m.geom_bodyid[a]), int(m.geom_bodyid[b])
            names = [m.body(x).name for x in bodies]
            never = robot == "panda" and "link4" in names  # see panda.SELF_EXCLUDED
            assert never or joints_between(m, *bodies) <= 2, f"{names} pass through each other"


@pytest.mark.parametrize("robot", [r for r in ROBOTS if r != "allegro"])
def test_nothing_touches_at_rest(robot):
    m = ROBOTS[robot]().compile()
    d = mujoco.MjData(m)
    names = [m.joint(j).name for j in range(m.njnt)]
    home = dict(zip(JOINTS, (a for leg in LEGS for a in HOME_LEG[leg]), strict=True))
    home |= dict(
        zip(("joint1", "joint2", "joint3", "joint4", "joint5", "joint6", "joint7"), READY[robot], strict=False)
    )
    for j, name in enumerate(names):
        if m.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE:
            d.qpos[m.jnt_qposadr[j]] = home[name.split("/")[-1]]
    mujoco.mj_forward(m, d)
    assert d.ncon == 0, [[m.geom(g).name for g in c.geom] for c in d.contact]


_ARM = find_arm("airbot_play")
_OTHER = find_arm("arx5")
assert _ARM is not None and _OTHER is not None
READY = {
    "go2": (), "airbot_play": _ARM.ready, "arx5": _OTHER.ready, "go2 with arm": _ARM.ready,
    "panda": (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
}  # fmt: skip


def test_an_arm_driven_into_a_leg_stops_there():
    """Targets at which links of the arm would lie inside legs: without collisions they get there, with them they do not."""
    spec = go2_with_arm()
    m = spec.compile()
    d = mujoco.MjData(m)
    solid = [g for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g]]
    legs = [g for g in solid if m.geom(g).name.endswith(("_thigh", "_calf", "_foot"))]
    arm = [g for g in solid if m.geom(g).name.startswith(("arm/limb", "arm/palm"))]
    rng = np.random.default_rng(3)
    assert _ARM is not None
    start = np.array([a for leg in LEGS for a in HOME_LEG[leg]] + list(_ARM.ready))
    span = np.zeros(6)

    def deepest() -> float:
        return -min(mujoco.mj_geomDistance(m, d, a, b, 0.01, span) for a in legs for b in arm)

    targets = []
    while len(targets) < 4:
        d.qpos[7:25] = start
        d.qpos[19:25] = rng.uniform(_ARM.lower, _ARM.upper)
        mujoco.mj_kinematics(m, d)
        if deepest() > 0.03:
            targets.append(d.qpos[19:25].copy())
    reached = {}
    bits = m.geom_contype.copy(), m.geom_conaffinity.copy()
    m.opt.gravity[:] = 0.0
    for touch in (False, True):
        m.geom_contype[:] = bits[0] if touch else 0
        m.geom_conaffinity[:] = bits[1] if touch else 0
        depth = []
        for target in targets:
            mujoco.mj_resetData(m, d)
            d.qpos[7:25] = start
            for share in np.linspace(0.0, 1.0, 300):
                d.ctrl[:18] = start
                d.ctrl[12:18] = start[12:] + share * (target - start[12:])
                mujoco.mj_step(m, d)
            for _ in range(100):
                mujoco.mj_step(m, d)
                depth.append(deepest())
        reached[touch] = max(depth)
    assert reached[False] > 0.02
    assert reached[True] < 0.004
