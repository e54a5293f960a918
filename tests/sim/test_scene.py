"""Scenes: parts side by side and on one another under their prefixes, and the same physics with and without looks."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import scenery
from rookery.assets.geometry import without_looks
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.tasks.drones.hover import Hover, HoverConfig
from rookery.tasks.registry import TASKS

ARM = """<mujoco><worldbody><body name="base"><geom size=".1" mass="2"/><site name="mount" pos="0 0 .1" euler="0 0 90"/>
    <body name="link" pos="0 0 .2"><joint name="hinge" axis="0 1 0"/><geom name="rod" type="capsule" size=".02 .1" mass=".3"/>
    <site name="tip" pos="0.5 0 0"/></body></body></worldbody>
    <actuator><motor name="motor" joint="hinge"/></actuator><sensor><jointpos name="angle" joint="hinge"/></sensor></mujoco>"""
TOOL = '<mujoco><worldbody><body name="hand"><geom name="pad" size=".03" mass=".1"/></body></worldbody></mujoco>'

SAME = mujoco.MjSpec()


def xml(text: str):
    return lambda: mujoco.MjSpec.from_string(text)


def body(geoms: str, more: str = ""):
    return xml(f'<mujoco><worldbody><body name="b"><freejoint/>{geoms}</body></worldbody>{more}</mujoco>')


def names(model: mujoco.MjModel, kind: mujoco.mjtObj, count: int) -> list[str]:
    return [mujoco.mj_id2name(model, kind, i) for i in range(count)]


def placed(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data


def test_every_name_carries_its_parts_prefix():
    scene = (
        Scene(scenery.ground).add(xml(ARM), "arm", count=2).add(lambda: scenery.ball(0.1, 0.2), "ball", pos=(0, 0, 3))
    )
    m = scene.compile()
    assert names(m, mujoco.mjtObj.mjOBJ_BODY, m.nbody)[1:] == [
        "arm_0/base",
        "arm_0/link",
        "arm_1/base",
        "arm_1/link",
        "ball/base",
    ]
    assert names(m, mujoco.mjtObj.mjOBJ_JOINT, m.njnt) == ["arm_0/hinge", "arm_1/hinge", "ball/root"]
    assert names(m, mujoco.mjtObj.mjOBJ_ACTUATOR, m.nu) == ["arm_0/motor", "arm_1/motor"]
    assert names(m, mujoco.mjtObj.mjOBJ_SENSOR, m.nsensor) == ["arm_0/angle", "arm_1/angle"]
    assert m.geom("ground").id == 0


def test_places():
    half = np.sqrt(0.5)
    scene = Scene().add(xml(ARM), "arm", count=3, pos=(1, 2, 3), quat=(half, 0, 0, half), spacing=0.5)
    d = placed(scene.compile())
    for i in range(3):
        np.testing.assert_allclose(d.body(f"arm_{i}/base").xpos, [1 + 0.5 * i, 2, 3], atol=1e-12)
        np.testing.assert_allclose(d.site(f"arm_{i}/tip").xpos, [1 + 0.5 * i, 2.5, 3.2], atol=1e-12)


def test_parts_stand_on_sites_of_earlier_parts():
    scene = (
        Scene()
        .add(xml(ARM), "dog", pos=(0, 0, 1))
        .add(xml(ARM), "arm", site="dog/mount")
        .add(xml(TOOL), "tool", site="arm/tip")
    )
    m = scene.compile()
    d = placed(m)
    np.testing.assert_allclose(d.body("arm/base").xpos, [0, 0, 1.1], atol=1e-9)
    np.testing.assert_allclose(d.body("tool/hand").xpos, [0, 0.5, 1.3], atol=1e-9)  # the mount is turned by 90 degrees
    assert m.body("tool/hand").parentid == m.body("arm/link").id
    d.joint("arm/hinge").qpos[0] = np.pi / 2
    mujoco.mj_forward(m, d)
    np.testing.assert_allclose(d.body("tool/hand").xpos, [0, 0, 0.8], atol=1e-9)


def test_options_are_the_scenes_own():
    for name, number in (
        ("euler", "EULER"),
        ("rk4", "RK4"),
        ("implicit", "IMPLICIT"),
        ("implicitfast", "IMPLICITFAST"),
    ):
        m = (
            Scene(xml('<mujoco><option timestep="0.1"/></mujoco>'), dt=0.004, integrator=name)
            .add(xml(TOOL), "t")
            .compile()
        )
        assert m.opt.timestep == 0.004
        assert m.opt.integrator == int(getattr(mujoco.mjtIntegrator, f"mjINT_{number}"))


def test_a_scene_compiles_as_often_as_one_likes():
    scene = Scene(scenery.ground).add(xml(ARM), "arm")
    a, b = scene.compile(), scene.compile()
    assert a is not b
    np.testing.assert_array_equal(a.body_mass, b.body_mass)


def both(scene: Scene) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    physics = scene.compile()
    visual = scene.compile(visual=True)
    assert (physics.nq, physics.nv, physics.nu, physics.nbody, physics.nsensor) == (
        visual.nq, visual.nv, visual.nu, visual.nbody, visual.nsensor,
    )  # fmt: skip
    np.testing.assert_allclose(physics.body_mass, visual.body_mass, rtol=1e-12)
    np.testing.assert_allclose(physics.body_inertia, visual.body_inertia, rtol=1e-9)
    np.testing.assert_allclose(physics.body_ipos, visual.body_ipos, atol=1e-12)
    return physics, visual


@pytest.mark.parametrize("task", [t for t, entry in TASKS.items() if not entry.members])
def test_looks_do_not_change_the_physics(task):
    physics, visual = both(TASKS[task].load()().scene())
    assert visual.ngeom > physics.ngeom
    assert visual.nmesh > physics.nmesh


def test_physics_does_not_make_what_only_looks():
    """Neither meshes nor sky reach the compiler, whoever asked for them before; what paints solid things does."""
    scene = TASKS["table-push"].load()().scene()
    visual = scene.compile(visual=True)
    physics = scene.compile()
    assert visual.ntex > physics.ntex > 0 and visual.nmat > physics.nmat > 0
    assert mujoco.mjtTexture.mjTEXTURE_SKYBOX not in physics.tex_type
    with without_looks():
        assert not scene.spec().meshes
    assert len(list(scene.spec().meshes)) == visual.nmesh


def test_geoms_that_weigh_are_kept():
    """Without an <inertial>, MuJoCo takes a body's mass from all its geoms, the purely visual ones too."""
    shell = '<geom name="v" size=".1" contype="0" conaffinity="0" pos=".1 0 0"/>'
    physics, _ = both(Scene().add(body(shell + '<geom size=".1" mass="1"/>'), "a"))
    assert physics.body_mass[1] == pytest.approx(1 + 1000 * 4 / 3 * np.pi * 0.001)
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    assert both(Scene().add(body(inertial + shell), "a"))[0].ngeom == 0
    assert both(Scene().add(body(inertial + shell.replace("/>", ' mass="0"/>')), "a"))[0].ngeom == 0


@pytest.mark.parametrize(
    "more",
    [
        '<contact><pair geom1="v" geom2="c"/></contact>',
        '<sensor><framepos name="s" objtype="geom" objname="v"/></sensor>',
        '<sensor><distance name="s" geom1="c" geom2="v" cutoff="1"/></sensor>',
        '<tendon><spatial><site site="s1"/><geom geom="v"/><site site="s2"/></spatial></tendon>',
    ],
)
def test_geoms_that_something_names_are_kept(more):
    geoms = """<geom name="c" size=".1"/><geom name="v" size=".1" contype="0" conaffinity="0" mass="0"/>
        <geom name="w" size=".1" contype="0" conaffinity="0" mass="0"/>
        <site name="s1" pos="1 0 0"/><site name="s2" pos="-1 0 0"/>"""
    physics, _ = both(Scene().add(body(geoms, more), "a"))
    assert names(physics, mujoco.mjtObj.mjOBJ_GEOM, physics.ngeom) == ["a/c", "a/v"]


def test_published_inertia_that_no_rigid_body_has():
    """The Iris' moments break the triangle inequality: they are written after compiling, and the derived constants follow."""
    task = Hover(HoverConfig(drone="iris"))
    m = task.scene().compile()
    np.testing.assert_allclose(m.body("drone_0/base").inertia, task.drone.inertia)
    np.testing.assert_allclose(m.dof_invweight0[3:6], np.mean(1 / np.array(task.drone.inertia)), rtol=1e-9)
    np.testing.assert_allclose(m.dof_invweight0[:3], 1 / task.drone.mass, rtol=1e-9)
    plain = Hover().scene().compile()
    np.testing.assert_allclose(plain.body("drone_0/base").inertia, CRAZYFLIE_21.inertia)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Scene(dt=0.0), "physics step must be positive"),
        (lambda: Scene(integrator="implicitfats").compile(), "did you mean 'implicitfast'"),
        (lambda: Scene().add(xml(TOOL), "t", count=0), "at least one 't'"),
        (lambda: Scene().add(xml(TOOL), "t").add(xml(ARM), "t"), "already has a part 't'"),
        (lambda: Scene().add(xml(TOOL), "t_1").add(xml(ARM), "t", count=2), "already has a part 't_1'"),
        (lambda: Scene().add(xml(ARM), "a").add(xml(TOOL), "t", site="a/tpi").spec(), "did you mean 'a/tip'"),
        (lambda: Scene().add(xml(TOOL), "t", site="t/tip").compile(), "unknown site"),
        (lambda: Scene().add(body(""), "a").compile(), "MuJoCo refuses the scene.*mass and inertia"),
        (lambda: Scene().add(xml("<mujoco><wordlbody/></mujoco>"), "a").compile(), "MuJoCo refuses the scene.*unrecognized"),
        (lambda: Scene().add(lambda: SAME, "a", count=2).compile(), "MuJoCo refuses the scene.*attached"),
    ],
)  # fmt: skip
def test_refusals(build, message):
    with pytest.raises(RookeryError, match=f"(?s){message}"):
        build()


def test_parts_stand_at_a_place_in_the_frame_of_a_site():
    """The mount is turned by 90 degrees about z: what lies ahead of it lies to its left."""
    scene = Scene().add(xml(ARM), "dog", pos=(0, 0, 1)).add(xml(ARM), "arm", site="dog/mount")
    plain = placed(scene.compile()).body("arm/base").xpos.copy()
    half = np.sqrt(0.5)
    moved = Scene().add(xml(ARM), "dog", pos=(0, 0, 1))
    moved.add(xml(ARM), "arm", site="dog/mount", pos=(0.3, 0.0, 0.2), quat=(half, 0, 0, half))
    d = placed(moved.compile())
    turn = placed(scene.compile()).body("arm/base").xmat.reshape(3, 3)
    np.testing.assert_allclose(d.body("arm/base").xpos, plain + turn @ [0.3, 0.0, 0.2], atol=1e-9)
    np.testing.assert_allclose(
        d.body("arm/base").xmat.reshape(3, 3), turn @ [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9
    )
