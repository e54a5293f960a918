"""Legged robots on the pybullet engine: dcmotors, tendons, armature, parameters of servos, a Go2 that stands."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest
import torch

from rookery.assets.scenery import ground
from rookery.robots.quadrupeds.go2 import GO2, STAND_HEIGHT, add_go2
from rookery.robots.quadrupeds.quadruped import Quadruped
from rookery.sim.engines import make_world
from rookery.sim.engines.pybullet import model as pybullet_model
from rookery.sim.engines.pybullet.actuation import BulletActuation
from rookery.sim.engines.pybullet.world import PyBulletWorld
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

Make = Callable[..., PyBulletWorld]
MOTOR = '<dcmotor name="{name}" joint="{joint}" motorconst="0.05" resistance="0.7" {more}/>'
CHAIN = """<worldbody><body><joint name="a" axis="0 1 0" armature="0.004" damping="0.1"/>
    <inertial pos="0 0 -0.05" mass="1.1" diaginertia="0.006 0.006 0.001"/>
    <body pos="0 0 -0.213"><joint name="b" axis="0 1 0" armature="0.0148" damping="0.2"/>
    <inertial pos="0 0 -0.14" mass="0.24" diaginertia="0.0015 0.0015 0.0001"/></body></body></worldbody>"""
GRIPPER = """<worldbody>
    <body><joint name="l" type="slide" axis="0 1 0" armature="0.3"/><geom size="0.02" mass="0.06" contype="0"/></body>
    <body><joint name="r" type="slide" axis="0 -1 0" armature="0.3"/>
    <geom size="0.02" mass="0.05" contype="0" conaffinity="0"/></body></worldbody>
    <tendon><fixed name="opening"><joint joint="l" coef="1"/><joint joint="r" coef="1"/></fixed>
    <fixed name="rack" stiffness="400" damping="8" springlength="-0.01 0"><joint joint="l" coef="1"/>
    <joint joint="r" coef="-1"/></fixed></tendon>
    <actuator><position name="grip" tendon="opening" kp="100" kv="4" gear="1.5" forcerange="-2 2"/></actuator>"""


@pytest.mark.parametrize("drive", ["pos", "vel", "ff", "tendon"])
def test_forces_are_those_of_mj_forward(drive: str) -> None:
    motor = MOTOR.format(
        name="m", joint="b", more=f'input="{drive}" controller="4 0 1 0 0 30" gear="1.7" saturation="1.5"'
    )
    xml = GRIPPER if drive == "tendon" else CHAIN + f"<actuator>{motor}</actuator>"
    model = mujoco.MjModel.from_xml_string(f"<mujoco>{xml}</mujoco>")
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    n = 100
    actuation = BulletActuation(pybullet_model.read(model), n)
    qpos = rng.uniform(-1, 1, (n, 2))
    qvel = rng.uniform(-3, 3, (n, 2))
    u = rng.uniform(-2, 2, (n, 1))
    if drive == "tendon":
        qpos = 0.02 * qpos
        qvel = 0.02 * qvel
        u *= 0.02
    tau = actuation.forces(u, qpos, qvel, 0.001)
    limited = 0
    for i in range(n):
        data.qpos[:] = qpos[i]
        data.qvel[:] = qvel[i]
        data.ctrl[:] = u[i]
        mujoco.mj_forward(model, data)
        damper = -model.dof_damping * data.qvel  # Bullet has those of joints itself
        assert actuation.force[i] == pytest.approx(data.actuator_force, abs=1e-12)
        assert tau[i] == pytest.approx(data.qfrc_actuator + data.qfrc_passive - damper, abs=1e-12)
        limited += int(abs(data.actuator_force[0]) >= model.actuator_forcerange[0, 1])
    assert 0 < limited < n


@pytest.mark.parametrize(
    "more",
    [
        'input="pos" controller="4 1 1 0 0 30"', 'input="pos" controller="4 0 1 5 0 30"',
        'input="pos" controller="4 0 1 0 0 30" inductance="0.1 0"', 'input="voltage"',
        'input="pos vel" controller="4 0 1 0 0 0"',
        'input="pos" controller="4 0 1 0 0 30" cogging="0.1 4 0"',
        'input="pos" controller="4 0 1 0 0 30" thermal="1 1 0 0.1 20 25"',
        'input="pos" controller="4 0 1 0 0 30" lugre="100 1 0.1 0.2 1"',
    ],
)  # fmt: skip
def test_what_a_dcmotor_has_besides_is_refused(make: Make, more: str) -> None:
    with pytest.raises(RookeryError, match="cannot drive actuator 'm': it has a dcmotor's"):
        make(CHAIN + f"<actuator>{MOTOR.format(name='m', joint='b', more=more)}</actuator>")


@pytest.mark.parametrize("control", [0.0, 1.5])
def test_legs_swing_as_on_mujoco(make: Make, control: float) -> None:
    """Two links with armature, free (torque limit 0 N m) and under a servo that its torque and its voltage limit."""
    limit = "3" if control else "1e-9"
    more = f'input="pos" controller="20 0 0.5 0 0 80" saturation="{limit}"'
    motors = "".join(MOTOR.format(name=j, joint=j, more=more) for j in "ab")
    world = make(CHAIN + f"<actuator>{motors}</actuator>", dt=0.0005)
    data = mujoco.MjData(world.model)
    n = 600
    data.qpos[:] = [0.8, -1.5]
    data.ctrl[:] = control
    world.joints(["a", "b"]).set_state(None, torch.tensor([[0.8, -1.5]]))
    world.actuators(["a", "b"]).set_control(torch.full((1, 2), control))
    saw = np.zeros((n, 2, 2))
    for i in range(n):
        mujoco.mj_step(world.model, data)
        world.step()
        world.read()
        saw[i] = data.qpos, world.qpos[0]
    assert np.ptp(saw[:, 0], axis=0).min() > 0.25
    # the rotors are geared by 100: one percent of the armature's coupling is left
    assert np.abs(saw[:, 0] - saw[:, 1]).max() < 0.015


def test_gripper_closes_as_on_mujoco(make: Make) -> None:
    world = make("<option gravity='0 0 0'/>" + GRIPPER, dt=0.001)
    data = mujoco.MjData(world.model)
    world.control[:] = 0.06
    data.ctrl[:] = 0.06
    for _ in range(5):
        mujoco.mj_step(world.model, data, 80)
        world.step(80)
        world.read()
        assert world.qpos[0] == pytest.approx(data.qpos, abs=3e-4)
    assert data.qpos.min() > 0.01


def test_servo_and_body_parameters_mean_what_they_mean_on_mujoco(make: Make) -> None:
    motors = MOTOR.format(name="m", joint="b", more='input="pos" controller="4 0 1 0 0 30" saturation="1.5"')
    scene = Scene(lambda: mujoco.MjSpec.from_string(f"<mujoco>{CHAIN}<actuator>{motors}</actuator></mujoco>"), dt=0.001)
    found = []
    for engine in ("mujoco", "pybullet"):
        world = make_world(engine, scene, 2)
        one = torch.tensor([1])
        for field, value in (("kp", 9.0), ("kd", 0.2), ("gain", 1.1)):
            world.params.set(field, ["m"], torch.tensor([[value]]), one)
        world.params.set("force_range", ["m"], torch.tensor([[[-0.4, 0.3]]]), one)
        world.joints(["b"]).set_state(None, torch.tensor([[0.1], [0.1]]))
        world.actuators(["m"]).set_control(torch.tensor([[0.11], [0.11]]))
        world.forward()
        world.step()
        small = world.actuators(["m"]).force.clone()
        world.actuators(["m"]).set_control(torch.ones(2, 1))
        world.step()
        found.append(torch.cat((small, world.actuators(["m"]).force)))
        assert world.params.get("kp", ["m"]).tolist() == [[4.0], [9.0]]
        world.close()
    assert found[0].flatten().tolist() == pytest.approx(found[1].flatten().tolist(), abs=2e-3)
    assert found[0].flatten().tolist() == pytest.approx([0.04, 0.09, 1.5, 0.3], abs=1e-3)


def test_centre_of_mass_can_be_moved(make: Make) -> None:
    """A plank with one jet falls and turns about the centre of mass that it was given, and keeps its place when written."""
    world = make(
        """<worldbody><body name="plank" pos="0 0 1"><freejoint/>
        <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/><site name="jet"/></body></worldbody>
        <actuator><general name="jet" site="jet" gear="0 0 1 0 0 0"/></actuator>""",
        n=2,
    )
    world.params.set("com", ["plank"], torch.tensor([[[0.05, 0.0, 0.0]]]), torch.tensor([1]))
    world.actuators(["jet"]).set_control(torch.full((2, 1), 4.0))
    world.step(10)
    plank = world.bodies(["plank"])
    t = 10 * world.dt
    assert plank.ang_vel[:, 0, 1].tolist() == pytest.approx([0.0, 4.0 * 0.05 / 0.1 * t], rel=1e-3, abs=1e-6)
    assert plank.lin_vel[0, 0, 2].item() == pytest.approx((2.0 - 9.81) * t, rel=1e-4)
    before = plank.pos[1].clone()
    world.params.set("com", ["plank"], torch.tensor([[[0.2, 0.0, 0.0]]]), torch.tensor([1]))
    world.forward()
    assert plank.pos[1].tolist()[0] == pytest.approx(before.tolist()[0], abs=1e-6)


def _floor() -> mujoco.MjSpec:
    """Friction on MuJoCo as hard as it gets: with softer one its feet creep apart, Bullet's do not."""
    spec = ground()
    spec.option.impratio = 100.0
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return spec


def test_go2_stands_as_on_mujoco() -> None:
    height = []
    angles = []
    torques = []
    for engine in ("mujoco", "pybullet"):
        world = make_world(engine, add_go2(Scene(_floor, dt=0.005)), 1)
        robot = Quadruped(world, GO2)
        state = torch.zeros(1, 13)
        state[0, 2] = STAND_HEIGHT + 0.01
        state[0, 3] = 1.0
        robot.reset(torch.tensor([0]), state, robot.home[None].clone())
        world.forward()
        world.step(500)
        robot.refresh()
        height.append(robot.base.pos[0, 0, 2].item())
        angles.append(robot.pos[0])
        torques.append(robot.actuators.force[0])
        assert robot.foot_vel.abs().max() < 5e-3
        world.close()
    assert height[1] == pytest.approx(height[0], abs=3e-3)
    assert (angles[1] - angles[0]).abs().max() < 0.02
    assert (torques[1] - torques[0]).abs().max() < 0.5
