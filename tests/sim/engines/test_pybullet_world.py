"""What is particular to the pybullet engine: reading MuJoCo models, joints, servos, filters, refusals."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Callable

import mujoco
import numpy as np
import pytest
import torch

from rookery.sim.engines.pybullet import client as pybullet_client
from rookery.sim.engines.pybullet.contact import ContactPair, factors, restitution
from rookery.sim.engines.pybullet.world import PyBulletWorld
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

G = 9.81
Make = Callable[..., PyBulletWorld]


class Zoo:
    """Random trees of bodies with several joints each, offset and turned frames, references, sites and motors."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.bodies = 0
        self.joints = 0
        floating = seed % 2
        inner = self.body(0) + self.body(0)
        if floating:
            own = f'<body name="root" pos="{self.vec(1)}" quat="{self.vec(1, 4)}"><freejoint/>{self.inertia()}'
            inner = own + inner + "</body>"
        else:  # jointed to a body that is welded to the world
            inner = f'<body pos="{self.vec(1)}" quat="{self.vec(1, 4)}"><geom size="0.01"/>{inner}</body>'
        drives = "".join(f'<general site="s{i}" gear="{self.vec(1, 6)}"/>' for i in range(1, self.bodies + 1, 2))
        drives += "".join(
            f'<motor joint="j{i}" gear="{self.rng.uniform(0.5, 2)}"/>' for i in range(1, self.joints + 1, 2)
        )
        self.xml = (
            f'<option><flag contact="disable"/></option><worldbody>{inner}</worldbody><actuator>{drives}</actuator>'
        )

    def vec(self, size: float, n: int = 3) -> str:
        return " ".join(map(str, self.rng.uniform(-size, size, n)))

    def inertia(self) -> str:
        a = np.sort(self.rng.uniform(0.01, 0.02, 3))
        frame = f'pos="{self.vec(0.1)}" quat="{self.vec(1, 4)}"'
        return f'<inertial {frame} mass="{self.rng.uniform(0.5, 2)}" diaginertia="{a[2] * 0.99} {a[1]} {a[0]}"/>'

    def body(self, depth: int) -> str:
        self.bodies += 1
        out = f'<body name="b{self.bodies}" pos="{self.vec(0.3)}" quat="{self.vec(1, 4)}">{self.inertia()}'
        out += f'<site name="s{self.bodies}" pos="{self.vec(0.2)}" quat="{self.vec(1, 4)}"/>'
        for _ in range(self.rng.integers(0 if depth else 1, 4)):
            self.joints += 1
            kind = self.rng.choice(["hinge", "slide"])
            out += f'<joint name="j{self.joints}" type="{kind}" axis="{self.vec(1)}" pos="{self.vec(0.2)}" '
            out += f'damping="{self.rng.uniform(0, 0.1)}" stiffness="{self.rng.uniform(0, 2)}" '
            out += f'ref="{self.rng.uniform(-0.3, 0.3)}"/>'
        if depth < 2:
            out += "".join(self.body(depth + 1) for _ in range(self.rng.integers(0, 3)))
        return out + "</body>"


@pytest.mark.parametrize("seed", range(12))
def test_random_mechanisms_accelerate_as_in_mujoco(make: Make, seed: int) -> None:
    """Kinematics, masses, inertias, gyroscopic terms, actuators, springs, dampers and wrenches, all at once."""
    zoo = Zoo(seed)
    world = make(zoo.xml, dt=1e-5)
    model = world.model
    rng = zoo.rng
    data = mujoco.MjData(model)
    for j in range(model.njnt):
        if model.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE:
            data.qpos[model.jnt_qposadr[j]] += rng.uniform(-1, 1)
    data.qvel[:] = rng.uniform(-1, 1, model.nv)
    data.ctrl[:] = rng.uniform(-1, 1, model.nu)
    data.xfrc_applied[1:] = rng.uniform(-1, 1, (model.nbody - 1, 6))
    world.qpos[0] = data.qpos
    world.qvel[0] = data.qvel
    world.control[0] = data.ctrl
    world.wrench[0] = data.xfrc_applied
    world.written(np.array([0]))
    mujoco.mj_forward(model, data)
    state = world.bodies([model.body(b).name or "" for b in range(1, model.nbody) if model.body(b).name]).state[0]
    named = [b for b in range(1, model.nbody) if model.body(b).name]
    assert np.allclose(state[:, 0:3], data.xpos[named], atol=1e-6)
    before = world.qvel.copy()
    world.step()
    world.read()
    acceleration = (world.qvel - before)[0] / 1e-5
    assert np.abs(acceleration - data.qacc).max() < 1e-5 * np.abs(data.qacc).max()


def test_velocities_of_bodies_on_joints(make: Make) -> None:
    world = make("""<worldbody><body name="a" pos="0 0 1"><joint name="j" axis="0 0 1"/>
        <geom size="0.1" pos="0.5 0 0"/><body name="b" pos="1 0 0" euler="90 0 0"><joint name="k" axis="0 0 1"/>
        <geom size="0.1"/></body></body></worldbody>""")
    world.joints(["j", "k"]).set_state(None, torch.tensor([[math.pi / 2, 0.0]]), torch.tensor([[2.0, 3.0]]))
    world.forward()
    b = world.bodies(["b"])
    assert b.pos[0, 0].tolist() == pytest.approx([0, 1, 1], abs=1e-6)
    assert b.lin_vel[0, 0].tolist() == pytest.approx([-2, 0, 0], abs=1e-6)
    assert b.ang_vel[0, 0].tolist() == pytest.approx([0, 2, 3], abs=1e-6)


HINGE = """<worldbody><body name="rod"><joint name="hinge" axis="0 1 0" {joint}/>
    <inertial pos="0 0 -0.5" mass="0.4" diaginertia="0.02 0.02 0.002"/></body></worldbody>"""
INERTIA = 0.02 + 0.4 * 0.25


def test_joint_limits_hold(make: Make) -> None:
    world = make(HINGE.format(joint='range="-30 20" limited="true" ref="5"'))
    hinge = world.joints(["hinge"])
    for push, end in ((1.0, math.radians(20)), (-1.0, math.radians(-30))):
        hinge.set_state(None, vel=torch.tensor([[push * 5]]))
        world.params.set("gravity", (), torch.tensor([[-push * 5, 0.0, 0.0]]))  # the rod hangs: +x swings it negative
        world.step(600)
        assert hinge.pos.item() == pytest.approx(end, abs=2e-3)


def test_frictionloss_and_armature(make: Make) -> None:
    world = make("<option gravity='0 0 0'/>" + HINGE.format(joint='frictionloss="0.05" armature="0.03"'))
    hinge = world.joints(["hinge"])
    hinge.set_state(None, vel=torch.tensor([[1.0]]))
    world.step(500)
    assert hinge.vel.item() == pytest.approx(1.0 - 0.05 / (INERTIA + 0.03), rel=1e-3)
    world.step(4000)
    assert abs(hinge.vel.item()) < 1e-6
    world.params.set("armature", ["hinge"], torch.tensor([[0.3]]))
    hinge.set_state(None, vel=torch.tensor([[1.0]]))
    world.step(500)
    assert hinge.vel.item() == pytest.approx(1.0 - 0.05 / (INERTIA + 0.3), rel=1e-3)
    world.params.set("frictionloss", ["hinge"], torch.tensor([[0.2]]))
    hinge.set_state(None, vel=torch.tensor([[1.0]]))
    world.step(500)
    assert hinge.vel.item() == pytest.approx(1.0 - 0.2 / (INERTIA + 0.3), rel=1e-3)


def test_armature_of_a_slide_has_inertia_but_no_weight(make: Make) -> None:
    world = make("""<worldbody><body><joint name="lift" type="slide" axis="0 0 1" armature="0.5"/>
        <geom size="0.1" mass="0.3"/></body></worldbody>""")
    world.step(100)
    assert world.joints(["lift"]).vel.item() == pytest.approx(-0.3 * G / 0.8 * 0.2, rel=1e-4)


def test_servo_reaches_its_target_on_as_many_steps_as_it_needs(make: Make) -> None:
    """kp 40, kv 2 on 0.0043 kg m^2 at 2 ms: one explicit step a time would be at the edge of stability."""
    world = make("""<option gravity="0 0 0"/><worldbody><body><joint name="j" axis="0 0 1"/>
        <geom type="capsule" size="0.02 0.1" mass="0.2" euler="0 90 0" pos="0.1 0 0"/></body></worldbody>
        <actuator><position name="servo" joint="j" kp="40" kv="2" forcerange="-3 3"/></actuator>""")
    assert world.substeps > 1
    servo = world.actuators(["servo"])
    joint = world.joints(["j"])
    servo.set_control(torch.tensor([[0.5]]))
    world.step()
    assert servo.force.abs().item() <= 3.0
    world.step(400)
    assert servo.peak.item() == pytest.approx(3.0)  # on the way; at the end it gives nothing
    assert servo.force.abs().item() < 0.1
    assert joint.pos.item() == pytest.approx(0.5, abs=1e-4)
    assert abs(joint.vel.item()) < 1e-4


def test_servo_too_stiff_for_bullet_is_refused(make: Make) -> None:
    with pytest.raises(RookeryError, match="joint 'j' is too stiff for Bullet"):
        make("""<worldbody><body><joint name="j"/><geom size="0.01" mass="0.001"/></body></worldbody>
            <actuator><position joint="j" kp="1e5" kv="100"/></actuator>""")


@pytest.mark.parametrize(("kind", "after"), [("filterexact", 1 - math.exp(-0.1 / 0.05)), ("integrator", 0.1)])
def test_actuator_dynamics(make: Make, kind: str, after: float) -> None:
    world = make(f"""<worldbody><body><joint name="j" type="slide"/><geom size="0.1"/></body></worldbody>
        <actuator><general name="a" joint="j" dyntype="{kind}" dynprm="0.05"/></actuator>""")
    world.actuators(["a"]).set_control(torch.tensor([[1.0]]))
    world.step(50)
    assert world.actuation.act[0, 0] == pytest.approx(after, rel=1e-6)
    saved = world.snapshot()
    world.reset()
    assert world.actuation.act[0, 0] == 0
    world.restore(saved)
    assert world.actuation.act[0, 0] == pytest.approx(after, rel=1e-6)


BALLS = """<worldbody><geom name="floor" type="plane" size="1 1 1" {floor}/>
    <body name="ball" pos="0 0 0.3"><freejoint/><geom name="ball" size="0.1" mass="1" {ball}/></body>
    </worldbody>{more}"""


@pytest.mark.parametrize(
    ("floor", "ball", "more", "held"),
    [
        ("", "", "", True),
        ('contype="2" conaffinity="0"', 'contype="0" conaffinity="2"', "", True),  # one side suffices in MuJoCo
        ('contype="2" conaffinity="2"', 'contype="1" conaffinity="1"', "", False),
        ("", "", '<contact><exclude body1="world" body2="ball"/></contact>', False),
    ],
)
def test_collision_filters_are_mujocos(make: Make, floor: str, ball: str, more: str, held: bool) -> None:
    world = make(BALLS.format(floor=floor, ball=ball, more=more))
    world.step(500)
    z = world.bodies(["ball"]).pos[0, 0, 2].item()
    assert z == pytest.approx(0.1, abs=1e-3) if held else z < -1


def test_parent_and_child_pass_through_each_other_and_others_do_not(make: Make) -> None:
    world = make("""<option gravity="0 0 0"/><worldbody><body name="a"><freejoint/><geom size="0.1"/>
        <body name="b" pos="0.1 0 0"><joint name="x" type="slide" axis="-1 0 0"/><geom size="0.1"/></body>
        <body name="c" pos="0.5 0 0"><joint name="y" type="slide" axis="-1 0 0"/><geom size="0.1"/></body></body>
        </worldbody>""")
    assert len(world.plan.touching) == 1  # b with c, not a with either
    world.joints(["x", "y"]).set_state(None, vel=torch.tensor([[0.0, 0.5]]))
    world.step(400)
    assert world.joints(["x"]).vel.item() > 0.1  # c ran into b and took it along


@pytest.mark.parametrize(
    "geom",
    [
        'type="sphere" size="0.05"',
        'type="capsule" size="0.03 0.05"',
        'type="cylinder" size="0.05 0.04"',
        'type="ellipsoid" size="0.05 0.04 0.03"',
        'type="mesh" mesh="block"',
    ],
)
def test_shapes_rest_where_mujoco_rests_them(make: Make, geom: str) -> None:
    corners = " ".join(f"{x} {y} {z}" for x in (-0.05, 0.05) for y in (-0.04, 0.04) for z in (-0.03, 0.03))
    xml = f"""<asset><mesh name="block" vertex="{corners}"/></asset><worldbody><geom type="plane" size="1 1 1"/>
        <body name="thing" pos="0 0 0.1" euler="0 0 30"><freejoint/><geom {geom} mass="0.5"/></body></worldbody>"""
    world = make(xml)
    data = mujoco.MjData(world.model)
    mujoco.mj_step(world.model, data, 700)
    world.step(700)
    thing = world.bodies(["thing"])
    assert thing.pos[0, 0, 2].item() == pytest.approx(data.qpos[2], abs=1e-3)
    assert abs(thing.pos[0, 0, 2].item() - data.qpos[2]) < 1e-3


def test_geoms_of_one_body_keep_their_own_contact_parameters(make: Make) -> None:
    """Only the sled's slippery skids touch the floor, not its rough top; contact sensors tell them apart."""
    world = make("""<worldbody><geom name="floor" type="plane" size="3 3 1" friction="0.1 0.005 0.0001"/>
        <body name="sled" pos="0 0 0.1"><freejoint/>
        <geom name="top" type="box" size="0.1 0.1 0.02" pos="0 0 0.05" friction="1 0.005 0.0001"/>
        <geom name="left" type="box" size="0.1 0.01 0.02" pos="0 0.08 0" friction="0.2 0.005 0.0001"/>
        <geom name="right" type="box" size="0.1 0.01 0.02" pos="0 -0.08 0" friction="0.2 0.005 0.0001"/></body>
        </worldbody><sensor><contact name="skid" geom1="left" data="found"/>
        <contact name="hull" geom1="top" data="found"/></sensor>""")
    sled = world.bodies(["sled"])
    world.step(500)
    assert world.sensors("skid").data.item() >= 1
    assert world.sensors("hull").data.item() == 0
    start = sled.state.clone()
    start[..., 7] = 1.0
    sled.set_state(None, start)
    world.step(1000)
    assert (sled.pos - start[..., :3])[0, 0, 0].item() == pytest.approx(1 / (2 * 0.2 * G), rel=0.03)


def test_free_body_damping_and_gravity_compensation(make: Make) -> None:
    world = make("""<worldbody><body name="a" gravcomp="1"><joint type="free" damping="0.5"/>
        <inertial pos="0.1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody>""")
    a = world.bodies(["a"])
    data = mujoco.MjData(world.model)
    state = a.state.clone()
    state[0, 0, 7:13] = torch.tensor([1.0, 0.5, -0.3, 0.4, 1.0, 2.0])
    a.set_state(None, state)
    data.qvel[:] = state[0, 0, 7:13].double().numpy()
    mujoco.mj_step(world.model, data, 250)
    world.step(250)
    assert a.lin_vel[0, 0].tolist() == pytest.approx(data.qvel[:3].tolist(), abs=0.01)
    assert a.ang_vel[0, 0].tolist() == pytest.approx(data.qvel[3:].tolist(), abs=0.01)


@pytest.mark.parametrize(
    ("xml", "named"),
    [
        (
            '<worldbody><body><joint name="wrist" type="ball"/><geom size="0.1"/></body></worldbody>',
            "ball joints .'wrist'",
        ),
        (
            '<worldbody><body name="a"><freejoint/><geom size="0.1"/></body></worldbody>'
            '<equality><weld body1="a"/></equality>',
            "equality constraints",
        ),
        (
            '<worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody>'
            '<tendon><fixed name="t" limited="true" range="0 1"><joint joint="j" coef="1"/></fixed></tendon>',
            "limits of tendons .tendon 't'",
        ),
        (
            '<worldbody><body><joint name="j"/><geom size="0.1"/></body></worldbody>'
            '<actuator><muscle name="biceps" joint="j" lengthrange="0 1"/></actuator>',
            "actuator 'biceps'",
        ),
        ('<option density="1.2"/><worldbody><body><freejoint/><geom size="0.1"/></body></worldbody>', "fluid"),
    ],
)
def test_what_bullet_lacks_is_refused_by_name(make: Make, xml: str, named: str) -> None:
    with pytest.raises(RookeryError, match=named):
        make(xml)


def test_sensor_that_bullet_lacks_is_refused_by_name(make: Make) -> None:
    world = make("""<worldbody><body><joint/><geom size="0.1"/><site name="s"/></body></worldbody>
        <sensor><torque name="ft" site="s"/></sensor>""")
    with pytest.raises(RookeryError, match=r"sensor 'ft'.*TORQUE"):
        world.sensors("ft")


def test_numbers_of_worlds_are_checked() -> None:
    for n in (0, 257):
        with pytest.raises(RookeryError, match=f"got num_envs={n}"):
            PyBulletWorld(Scene(lambda: mujoco.MjSpec.from_string("<mujoco/>")), n)


def test_friction_of_like_geoms_must_stay_alike(make: Make) -> None:
    world = make("""<worldbody><body name="sled"><freejoint/><geom name="l" size="0.1" pos="0 1 0"/>
        <geom name="r" size="0.1"/></body></worldbody>""")
    with pytest.raises(RookeryError, match="all 2 of 'sled'"):
        world.params.set("friction", ["l"], torch.full((1, 1, 3), 0.5))


def test_restitution_is_that_of_mujocos_contact() -> None:
    """MuJoCo itself, at a time step so small that only its contact model is left."""
    for solref in ((0.02, 0.3), (0.02, 1.0), (-10000.0, -20.0)):
        text = f'solref="{solref[0]} {solref[1]}"'
        model = mujoco.MjModel.from_xml_string(f"""<mujoco><option timestep="0.0001"/><worldbody>
            <geom type="plane" size="1 1 1" {text}/><body pos="0 0 0.35"><freejoint/><geom size="0.05" {text}/></body>
            </worldbody></mujoco>""")
        data = mujoco.MjData(model)
        speeds = []
        for _ in range(5000):
            mujoco.mj_step(model, data)
            speeds.append(data.qvel[2])
        assert max(speeds) / -min(speeds) == pytest.approx(restitution(solref), rel=0.02)


def test_factors_multiply_to_the_pairs() -> None:
    pairs = [ContactPair(0, 1, 0.6, 0.5), ContactPair(0, 2, 0.9, 0.5), ContactPair(1, 2, 0.3, 0.5)]
    friction, error = factors(4, pairs, "friction")
    assert error < 1e-9
    assert [friction[p.first] * friction[p.second] for p in pairs] == pytest.approx([0.6, 0.9, 0.3])
    assert factors(2, [], "friction")[0].tolist() == [1, 1]


def test_loading_bullet_prints_nothing() -> None:
    code = "from rookery.sim.engines.pybullet.client import load; load()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_worlds_share_clients_one_after_the_other(make: Make) -> None:
    falling = "<worldbody><body name='a'><freejoint/><geom size='0.1'/></body></worldbody>"
    first = make("<option gravity='0 0 -3'/>" + falling, n=2)
    first.step(10)
    used = set(first._clients)
    first.close()
    first.close()
    second = make(falling, n=2)
    assert set(second._clients) <= used
    second.step(10)
    assert second.bodies(["a"]).lin_vel[:, 0, 2].tolist() == pytest.approx([-G * 0.02] * 2, rel=1e-5)


def test_forgotten_world_gives_its_clients_back() -> None:
    world = PyBulletWorld(Scene(lambda: mujoco.MjSpec.from_string("<mujoco/>")), 2)
    used = set(world._clients)
    del world
    gc.collect()
    assert used <= set(pybullet_client._idle)


def test_where_factors_cannot_fit_the_ground_comes_first() -> None:
    ground = [ContactPair(0, 1, 1.0, 0.5, 30.0), ContactPair(0, 2, 0.2, 0.5, 30.0), ContactPair(0, 3, 1.0, 0.5, 30.0)]
    friction, error = factors(
        4, [*ground, *(ContactPair(i, j, 1.0, 0.5) for i, j in ((1, 2), (1, 3), (2, 3)))], "friction"
    )
    assert [friction[0] * friction[i] for i in (1, 2, 3)] == pytest.approx([1.0, 0.2, 1.0], rel=0.01)
    assert error > 0.5


def test_friction_that_bullet_cannot_multiply_is_told(make: Make) -> None:
    """Rough on rough 1, rough on slippery 1, slippery on slippery 0.1: no two factors multiply to all three."""
    bodies = "".join(
        f'<body pos="{i} 0 1"><freejoint/><geom size="0.1" friction="{mu} 0.005 0.0001"/></body>'
        for i, mu in enumerate((1.0, 1.0, 0.1, 0.1))
    )
    with pytest.warns(UserWarning, match="the worst is off by"):
        make(f"<worldbody>{bodies}</worldbody>")
