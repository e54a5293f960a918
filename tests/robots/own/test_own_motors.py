"""Motors that the actuators of an MJCF stand for, as its joints have them. The oracle is the torque that MuJoCo finds for the
same file, by differences."""

from __future__ import annotations

import math

import mujoco
import pytest

from rookery.robots.own.parts import motors_of

ACTUATORS = {
    "position": '<position joint="hinge" kp="40" kv="2" forcerange="-9 9"/>',
    "position behind a gear": '<position joint="hinge" kp="40" kv="2" gear="3" forcerange="-9 9"/>',
    "position that turns the other way": '<position joint="hinge" kp="40" kv="2" gear="-2" forcerange="-9 9"/>',
    "damping ratio": '<position joint="hinge" kp="40" dampratio="0.7" gear="2"/>',
    "position and velocity": '<position joint="hinge" kp="40"/><velocity joint="hinge" kv="3" gear="2" ctrlrange="-5 5"/>',
    "velocity alone": '<velocity joint="hinge" kv="3" ctrlrange="-5 5"/>',
    "motor": '<motor joint="hinge" gear="6" ctrlrange="-4 4"/>',
    "motor of two limits": '<motor joint="hinge" gear="6" ctrlrange="-4 4" forcerange="-2 2"/>',
    "motor with a gain": '<general joint="hinge" gainprm="12" gear="2" ctrlrange="-1 1"/>',
    "limit that is switched off": '<position joint="hinge" kp="40" forcerange="-9 9" forcelimited="false"/>',
    "none": "",
}
LIMITED = 'actuatorfrcrange="-7 7"'


def robot(actuators: str, joint: str = "", base: str = "<freejoint/>") -> str:
    home = "0 0 1 1 0 0 0 0.3" if base else "0.3"
    return f"""<mujoco><worldbody><body name="base">{base}<geom size="0.1" mass="3"/>
        <body name="link" pos="0 0.2 0"><joint name="hinge" axis="0 0 1" armature="0.02" {joint}/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" mass="1"/></body></body></worldbody>
        <actuator>{actuators}</actuator><keyframe><key name="home" qpos="{home}"/></keyframe></mujoco>"""


def torque(model: mujoco.MjModel, q: float, v: float, control: float) -> float:
    data = mujoco.MjData(model)
    data.joint("hinge").qpos[0] = q
    data.joint("hinge").qvel[0] = v
    data.ctrl[:] = control
    mujoco.mj_forward(model, data)
    return float(data.joint("hinge").qfrc_actuator[0])


@pytest.mark.parametrize("joint", ["", LIMITED])
@pytest.mark.parametrize("name", ACTUATORS)
def test_gains_and_torque_are_those_at_the_joint(name: str, joint: str) -> None:
    floats = not joint
    text = robot(ACTUATORS[name], joint, "<freejoint/>" if floats else "")
    model = mujoco.MjModel.from_xml_string(text)
    step = 1e-5
    stiffness = (torque(model, 0.0, 0.0, 0.0) - torque(model, step, 0.0, 0.0)) / step
    damping = (torque(model, 0.0, 0.0, 0.0) - torque(model, 0.0, step, 0.0)) / step
    most = max(torque(model, 0.0, 0.0, 1e9), torque(model, 0.0, 0.0, -1e9))
    spec = mujoco.MjSpec.from_string(text)
    if not floats:
        spec.body("base").add_freejoint()  # as the reader does, of which the keyframe knows nothing
    found = motors_of(spec, floats)
    servo = stiffness > 1e-3
    assert found["kp"].get("hinge") == (pytest.approx(stiffness, rel=1e-3) if servo else None)
    assert found["kd"].get("hinge") == (pytest.approx(damping, rel=1e-3) if servo and damping > 1e-3 else None)
    if name == "none":
        most = 7.0 if joint else math.inf
    elif name in ("velocity alone", "position and velocity"):  # a speed's limit is none of the torque
        most = min(most, 7.0) if joint else math.inf
    assert found["torque"].get("hinge") == (pytest.approx(most) if most < 1e6 else None)


def test_a_file_that_cannot_be_compiled_yet_has_no_motors() -> None:
    """Its defect is another check's to tell."""
    spec = mujoco.MjSpec.from_string(robot(ACTUATORS["motor"]).replace('mass="1"', 'mass="0"'))
    assert motors_of(spec, floats=True) == {"torque": {}, "kp": {}, "kd": {}}
