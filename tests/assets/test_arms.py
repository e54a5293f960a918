"""The arms compile to what the tables say: masses, inertias, limits, servos, geometry, contacts, names."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import arms
from rookery.assets.scenery import ground
from rookery.sim.scene import Scene

AIRBOT = arms.airbot_play_spec
ARX = arms.arx5_spec
BOTH = pytest.mark.parametrize("make", [AIRBOT, ARX], ids=["airbot_play", "arx5"])
JOINTS = [f"joint{i}" for i in range(1, 7)]
BODIES = ["base", *(f"link{i}" for i in range(1, 7)), "finger_left", "finger_right"]


def compiled(make, **kw):
    return make(visual=False, **kw).compile()


# the Play G2's URDF (airbot_force.urdf) and UniLab; UMI-on-Legs and mujoco_menagerie arx_l5
TABLES = {
    AIRBOT: {
        "mass": 4.39,
        "masses": [0.6735, 0.607, 0.918, 0.700, 0.359, 0.403, 0.110 + 0.019 + 0.488, 0.054, 0.054],
        "lower": [-3.1416, -2.9671, -0.087266, -3.0107, -1.7628, -3.0107],
        "upper": [2.0944, 0.17453, 3.1416, 3.0107, 1.7628, 3.0107],
        "effort": [18, 18, 18, 3, 3, 3],
        "kp": [95, 115, 100, 52, 54, 55],
        "kd": [3.5, 3.8, 2.5, 1.5, 1.5, 1.5],
        "armature": 0.01,
        "stroke": 0.0366,
    },
    ARX: {
        "mass": 3.895,
        "masses": [0.428, 0.0968, 1.1988, 0.84082, 0.12432, 0.63601, 0.44089, 0.0648, 0.0648],
        "lower": [-3.14, 0, 0, -1.7, -1.7, -3.14],
        "upper": [3.14, 3.14, 3.14, 1.7, 1.7, 3.14],
        "effort": [20, 20, 15, 7, 5, 5],
        "kp": [80, 80, 80, 40, 10, 10],
        "kd": [5, 5, 5, 5, 1.5, 1.5],
        "armature": 0.005,
        "stroke": 0.044,
    },
}


@BOTH
def test_tables(make):
    model = compiled(make)
    table = TABLES[make]
    assert [model.body(i).name for i in range(1, model.nbody)] == BODIES
    assert model.body_mass.sum() == pytest.approx(table["mass"], abs=0.006)
    assert np.allclose(model.body_mass[1:], table["masses"], atol=1e-5)
    assert [model.joint(i).name for i in range(model.njnt)] == [*JOINTS, "finger_left", "finger_right"]
    assert [model.actuator(i).name for i in range(model.nu)] == [*JOINTS, "gripper"]
    assert model.jnt_limited.all()
    assert np.allclose(model.jnt_range[:6].T, [table["lower"], table["upper"]])
    assert np.allclose(model.jnt_range[6:], [0, table["stroke"]])
    assert np.allclose(model.actuator_forcerange[:6].T, [np.negative(table["effort"]), table["effort"]])
    assert np.allclose(model.actuator_ctrlrange[:6], model.jnt_range[:6])
    assert np.allclose(model.actuator_ctrlrange[6], [0, 2 * table["stroke"]])
    assert np.allclose(model.dof_armature[:6], table["armature"])
    assert np.allclose(model.dof_damping[:6], [0.2, 0.2, 0.2, 0.1, 0.1, 0.1])
    left = model.body("finger_left")
    right = model.body("finger_right")
    assert np.allclose(left.ipos, right.ipos * [1, -1, 1]) and left.ipos[1] > 0
    assert model.neq == 0 and not model.dof_frictionloss.any()  # neither adds rows to the solver
    assert compiled(make, dry_friction=True).dof_frictionloss[:6].all()


@BOTH
def test_servos_are_springs_and_dampers(make):
    model = compiled(make)
    table = TABLES[make]
    data = mujoco.MjData(model)
    data.qpos[:6] = model.jnt_range[:6].mean(1)
    data.qvel[:6] = 0.01
    data.ctrl[:6] = data.qpos[:6] + 0.02
    mujoco.mj_forward(model, data)
    assert np.allclose(data.qfrc_actuator[:6], 0.02 * np.array(table["kp"]) - 0.01 * np.array(table["kd"]))
    data.ctrl[:6] = model.jnt_range[:6, 1]
    mujoco.mj_forward(model, data)
    assert np.allclose(data.qfrc_actuator[:6], table["effort"])


@BOTH
def test_inertias_are_those_of_bodies_of_that_size(make):
    """Triangle inequality, and a radius of gyration no larger than half the link's length plus 5 cm of thickness."""
    model = compiled(make)
    for i in range(1, model.nbody):
        a, b, c = sorted(model.body_inertia[i])
        assert a > 0 and c <= (a + b) * (1 + 1e-9), model.body(i).name
        after = [model.body_pos[j] for j in range(model.nbody) if model.body_parentid[j] == i]
        length = max((np.linalg.norm(p) for p in after), default=0.08)  # m; the fingers are 8 cm long
        assert np.sqrt(c / model.body_mass[i]) < 0.5 * length + 0.05, model.body(i).name


def test_inertias_move_between_points():
    rod = arms.about_joint(3.0, (0.5, 0, 0), (0.02, 1.0, 1.0))  # 1 m long, about its end
    assert np.allclose(rod.inertia, [0.02, 0.25, 0.25, 0, 0, 0])
    dumbbell = arms.merge(arms.Mass(2.0, (1, 1, 0), (0,) * 6), arms.Mass(2.0, (0, 0, 0), (0,) * 6))
    assert dumbbell.kg == 4.0 and np.allclose(dumbbell.com, [0.5, 0.5, 0])
    assert np.allclose(dumbbell.inertia, [1, 1, 2, -1, 0, 0])
    turned = arms.principal(1.0, (0, 0, 0), (np.cos(np.pi / 4), 0, 0, np.sin(np.pi / 4)), (1, 2, 3))
    assert np.allclose(turned.inertia, [2, 1, 3, 0, 0, 0])


def test_airbot_play_reaches_as_far_as_its_data_sheet_says():
    model = compiled(AIRBOT)
    data = mujoco.MjData(model)
    data.qpos[1:3] = [-0.2, 2.755]  # elbow straight
    mujoco.mj_forward(model, data)
    shoulder = data.body("link2").xpos
    wrist = data.body("link6").xpos
    tcp = data.site("tcp").xpos
    assert np.linalg.norm(wrist - shoulder) + 0.0955 == pytest.approx(
        0.647, abs=0.01
    )  # to the flange: the data sheet's reach
    assert np.linalg.norm(tcp - shoulder) == pytest.approx(0.7967, abs=1e-3)


@BOTH
def test_tool_frame_lies_between_the_fingers(make):
    model = compiled(make)
    data = mujoco.MjData(model)
    data.qpos[:6] = [0, -0.1, 0, 1.6, 0, -1.6] if make is AIRBOT else [0, 0.251, 0.314, -0.063, 0, 0]
    data.qpos[6:] = 0.03
    mujoco.mj_forward(model, data)
    frame = data.site("tcp").xmat.reshape(3, 3)
    place = {f: frame.T @ (data.body(f).xpos - data.site("tcp").xpos) for f in ("finger_left", "finger_right")}
    assert np.allclose(place["finger_left"], [0, 0.03, 0], atol=1e-9)
    assert np.allclose(place["finger_right"], [0, -0.03, 0], atol=1e-9)
    assert data.tendon("opening").length[0] == pytest.approx(0.06)
    assert frame[0, 0] > 0.99 and frame[1, 1] > 0.99 and frame[2, 2] > 0.99
    # the pads' inner faces meet in the tool frame when closed
    pads = [model.geom(f) for f in ("finger_left", "finger_right")]
    assert all(abs(p.pos[1]) == pytest.approx(p.size[1]) for p in pads)
    assert all(p.pos[0] + p.size[0] == pytest.approx(0.025, abs=0.006) for p in pads)


@BOTH
def test_looks_and_colliders_can_be_left_out(make):
    full = make().compile()
    bare = compiled(make, collide=False)
    assert bare.ngeom == bare.nmesh == 0
    for field in ("nq", "nv", "nu", "nbody", "nsite"):
        assert getattr(full, field) == getattr(bare, field), field
    for field in ("body_mass", "body_inertia", "body_ipos"):
        assert np.array_equal(getattr(full, field), getattr(bare, field)), field
    looks = full.geom_group == 2
    assert looks.sum() > 12
    assert not full.geom_contype[looks].any() and not full.geom_conaffinity[looks].any()
    assert compiled(make).ngeom <= 6


@BOTH
@pytest.mark.parametrize(("bits", "touching"), [(1, {"finger_left", "palm"}), (2, {"limb2", "limb3", "limb5"})])
def test_who_touches_whom(make, bits, touching):
    """Balls of contype 1 and 3 in the middle of every collider: only the hand meets the first, the limbs the second too."""
    model = compiled(make)
    data = mujoco.MjData(model)
    data.qpos[:6] = [0, -1.0, 1.4, 1.57, -0.4, -1.57] if make is AIRBOT else [0, 1.2, 1.0, 0.2, 0, 0]
    data.qpos[6:] = 0.02
    mujoco.mj_forward(model, data)
    assert data.ncon == 0  # the arm never meets itself
    spec = make(visual=False)
    for name in sorted(touching):
        ball = spec.worldbody.add_body(name=f"ball_{name}", pos=data.geom(name).xpos)
        ball.add_freejoint()
        geom = ball.add_geom(name=f"ball_{name}", size=[0.005, 0, 0])
        geom.contype = bits
        geom.conaffinity = 0 if bits == 2 else 1
    model = spec.compile()
    with_balls = mujoco.MjData(model)
    with_balls.qpos[:8] = data.qpos
    mujoco.mj_forward(model, with_balls)
    met = {model.geom(g).name for pair in with_balls.contact.geom for g in pair}
    assert {n for n in met if not n.startswith("ball")} == touching


def test_links_do_not_meet_ordinary_things():
    model = Scene(ground).add(AIRBOT, "arm").compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = [0, -2.9, 2.8, 0, 0, 0]  # upper arm and hand deep in the floor, behind and in front
    mujoco.mj_forward(model, data)
    met = {model.geom(g).name for pair in data.contact.geom for g in pair}
    assert met <= {"ground", "arm/palm", "arm/finger_left", "arm/finger_right"}


def _trunk():
    spec = mujoco.MjSpec()
    trunk = spec.worldbody.add_body(name="base", pos=[0, 0, 0.3])
    trunk.add_freejoint(name="root")
    trunk.add_geom(name="trunk", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.19, 0.05, 0.06])
    trunk.add_site(name="arm_mount", pos=[0.0045, 0, 0.0945])
    return spec


@BOTH
def test_rides_on_another_robot(make):
    model = Scene(ground).add(_trunk, "dog").add(make, "arm", site="dog/arm_mount").compile(visual=True)
    alone = compiled(make)
    assert model.body("arm/base").parentid[0] == model.body("dog/base").id
    assert np.allclose(model.body("arm/base").pos, [0.0045, 0, 0.0945])
    for name in (*JOINTS, "finger_left", "finger_right"):
        assert np.allclose(model.joint(f"arm/{name}").range, alone.joint(name).range)
    assert [model.actuator(i).name for i in range(model.nu)] == [f"arm/{n}" for n in (*JOINTS, "gripper")]
    assert model.site("arm/tcp").bodyid[0] == model.body("arm/link6").id
    assert np.array_equal(model.body("arm/link2").inertia, alone.body("link2").inertia)
