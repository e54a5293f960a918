"""The `mujoco` engine against plain MjData: every view, every parameter, threads, snapshots and copies that diverge."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

# A free box that its rotors push, on a floor; an arm of two hinges with a motor and a servo; a slide with a filtered motor.
XML = """<mujoco><option {option}/><worldbody><geom name="floor" type="plane" size="5 5 1"/>
  <body name="box" pos="0 0 0.3"><freejoint name="free"/><geom name="box" type="box" size=".1 .08 .05" mass="1.2"/>
    <site name="left" pos="0 .1 0"/><site name="right" pos=".02 -.1 0"/></body>
  <body name="other" pos="1 0 0.04"><freejoint/><geom name="other" type="sphere" size=".05" mass=".4"/></body>
  <body name="upper" pos="2 0 2"><joint name="shoulder" axis="0 1 0" damping=".05" armature=".01"/>
    <geom name="upper" type="capsule" size=".03" fromto="0 0 0 .1 0 -.5" mass=".8"/>
    <body name="lower" pos=".1 0 -.5"><joint name="elbow" axis="1 1 0"/><site name="tip" pos="0 0 -.4"/>
      <geom name="lower" type="capsule" size=".02" fromto="0 0 0 0 0 -.4" mass=".3"/></body></body>
  <body name="cart" pos="4 0 1"><joint name="slide" type="slide" axis="1 0 0"/><geom size=".1" mass="2"/></body>
</worldbody><actuator>
  <motor name="left" site="left" gear="0 0 1 0 0 .01"/><motor name="right" site="right" gear="0 0 1 0 0 -.01"/>
  <motor name="shoulder" joint="shoulder"/><position name="elbow" joint="elbow" kp="20" kv="1"/>
  <general name="cart" joint="slide" dyntype="filter" dynprm=".05" gainprm="3"/>
</actuator><sensor>
  <contact name="touching" geom1="box" geom2="floor" num="1" data="found force" reduce="netforce"/>
  <framelinvel name="tip_velocity" objtype="site" objname="tip"/><jointpos name="elbow_angle" joint="elbow"/>
  <frameangvel name="spin" objtype="xbody" objname="lower"/><framepos name="place" objtype="site" objname="left"/>
</sensor></mujoco>"""
ACTUATORS = ("left", "right", "shoulder", "elbow", "cart")


def scene(option: str = "", dt: float = 0.002, integrator: str = "implicitfast") -> Scene:
    return Scene(lambda: mujoco.MjSpec.from_string(XML.format(option=option)), dt=dt, integrator=integrator)


def world(n: int = 3, threads: int = 1, **options) -> MujocoWorld:
    return MujocoWorld(scene(**options), n, threads)


def random_controls(n: int, k: int, seed: int = 0) -> torch.Tensor:
    """[k, n, 5] float32, of a size that makes the box hop and tumble."""
    scale = torch.tensor([9.0, 9.0, 2.0, 1.0, 5.0])
    return (torch.rand(k, n, 5, generator=torch.Generator().manual_seed(seed)) * 2 - 0.7) * scale


def plain(model: mujoco.MjModel, controls: torch.Tensor, i: int) -> list[mujoco.MjData]:
    """World i's data after each row of `controls` [k, n, 5], by mj_step alone."""
    data = mujoco.MjData(model)
    out = []
    for row in controls[:, i].double().numpy():
        data.ctrl[:] = row
        mujoco.mj_step(model, data)
        out.append(mujoco.MjData(model))
        mujoco.mj_copyData(out[-1], model, data)
    return out


def integration(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    out = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, out, mujoco.mjtState.mjSTATE_INTEGRATION)
    return out


def state(w: MujocoWorld) -> np.ndarray:
    return w.snapshot()["state"].numpy()


def test_states_are_those_of_mj_step_bit_for_bit():
    w = world()
    controls = random_controls(3, 200)
    u = w.actuators(ACTUATORS)
    references = [plain(w.model, controls, i) for i in range(3)]
    for k, row in enumerate(controls):
        u.set_control(row)
        w.step()
        assert torch.equal(u.control, row)
        for i in range(3):
            np.testing.assert_array_equal(state(w)[i], integration(w.model, references[i][k]))
    assert not len(w.failed)


def test_steps_are_not_timed():
    w = world()
    data = mujoco.MjData(w.model)
    for _ in range(20):
        mujoco.mj_step(w.model, data)
    assert data.timer[int(mujoco.mjtTimer.mjTIMER_STEP)].number == 20
    assert all(timer.duration == 0.0 for timer in data.timer)


@pytest.mark.parametrize("derived", [False, True])
def test_rows_of_controls_are_single_steps(derived):
    """[N, K, U] controls, in one call and with other actuators held, do what K calls of one step do."""
    rows = world()
    single = world()
    a, b = rows.actuators(["left", "right", "shoulder"]), rows.actuators(["elbow", "cart"])
    u = single.actuators(ACTUATORS)
    if derived:
        rows.sensors("touching")
    controls = random_controls(3, 100)
    controls[..., 3:] = controls.view(20, 5, 3, 5)[:, :1, :, 3:].expand(20, 5, 3, 2).reshape(100, 3, 2)
    for c in controls.split(5):
        a.set_control(c[..., :3].transpose(0, 1))
        b.set_control(c[0, :, 3:])
        rows.step(5)
        for row in c:
            u.set_control(row)
            single.step()
        np.testing.assert_array_equal(state(rows), state(single))
        assert torch.equal(rows.actuators(ACTUATORS).control, c[-1])
        assert torch.equal(rows.actuators(ACTUATORS).force, u.force)


def test_the_last_row_is_held():
    rows = world()
    held = world()
    u, v = rows.actuators(ACTUATORS), held.actuators(ACTUATORS)
    c = random_controls(3, 5)
    u.set_control(c.transpose(0, 1))
    rows.step(5)
    rows.step(3)
    for row in (*c, c[-1], c[-1], c[-1]):
        v.set_control(row)
        held.step()
    np.testing.assert_array_equal(state(rows), state(held))


@pytest.mark.parametrize("rows", [False, True])
def test_everything_derived_is_current_after_a_step(rows):
    """Bodies on joints and sensors equal those of mj_forward on the very same state."""
    w = world()
    names = ["lower", "upper", "box", "cart"]
    bodies = w.bodies(names)
    u = w.actuators(ACTUATORS)
    sensors = {n: w.sensors(n) for n in ("touching", "tip_velocity", "elbow_angle", "spin", "place")}
    c = random_controls(3, 60)
    for part in c.split(6):
        if rows:
            u.set_control(part.transpose(0, 1))
        else:
            u.set_control(part[0])
        w.step(6)
    for i in range(3):
        d = w.mj_data(i)
        for j, name in enumerate(names):
            b = d.body(name)
            np.testing.assert_allclose(bodies.pos[i, j], b.xpos, atol=1e-6)
            np.testing.assert_allclose(bodies.quat[i, j], b.xquat, atol=1e-6)
            velocity = np.empty(6)
            mujoco.mj_objectVelocity(w.model, d, mujoco.mjtObj.mjOBJ_XBODY, b.id, velocity, 0)
            np.testing.assert_allclose(bodies.lin_vel[i, j], velocity[3:], atol=2e-5)
            np.testing.assert_allclose(bodies.ang_vel[i, j], b.xmat.reshape(3, 3).T @ velocity[:3], atol=2e-5)
        for name, sensor in sensors.items():
            if name != "touching":  # contact forces follow from the accelerations, which a new state does not have yet
                np.testing.assert_allclose(sensor.data[i], d.sensor(name).data, atol=1e-6)
    np.testing.assert_allclose(sensors["place"].data[:, 2], w.bodies(["box"]).pos[:, 0, 2], atol=0.15)


def test_free_bodies_read_the_same_either_way():
    """From the state itself, and from MuJoCo's kinematics when bodies on joints are in the same view."""
    w = world()
    w.actuators(ACTUATORS).set_control(random_controls(3, 1)[0])
    direct = w.bodies(["other", "box"])
    derived = w.bodies(["other", "upper", "box"])
    w.step(70)
    assert direct.ang_vel.abs().max() > 0.5
    assert torch.allclose(derived.state[:, [0, 2]], direct.state, atol=1e-5)
    assert torch.equal(w.bodies(["box", "other"]).state, direct.state[:, [1, 0]])


def test_frames_of_velocities():
    """Linear velocity is that of the frame's origin in the world; angular velocity is in the body's frame."""
    w = MujocoWorld(
        Scene(
            lambda: mujoco.MjSpec.from_string(
                """<mujoco><option gravity="0 0 0"/><worldbody><body name="b" pos="0 0 1"><freejoint/>
                <geom size=".1" mass="1" pos=".3 0 0"/></body></worldbody></mujoco>"""
            ),
            dt=1e-4,
        ),
        1,
    )
    b = w.bodies(["b"])
    half = np.sqrt(0.5)
    start = torch.tensor(
        [[[0, 0, 1, half, 0, 0, half, 1, 2, 3, 0.5, 0, 0]]], dtype=torch.float32
    )  # a quarter turn about z
    b.set_state(None, start)
    assert torch.allclose(b.state, start)
    w.step(10)
    moved = (b.pos[0, 0] - start[0, 0, :3]) / (10 * w.dt)
    assert torch.allclose(moved, torch.tensor([1.0, 2.0, 3.0]), atol=2e-3)
    # half a rad/s about body x, which points along world y
    turn = 2 * b.quat[0, 0, 1:] / (10 * w.dt)
    mixed = torch.tensor([0.0, 0.0, 2 * half / (10 * w.dt)])
    np.testing.assert_allclose(turn - mixed, [0.5 * half, 0.5 * half, 0], atol=2e-2)


def test_contact_sensor_carries_the_weight():
    w = world()
    touching = w.sensors("touching")
    w.bodies(["other"])
    assert touching.data.abs().max() == 0
    w.step(1500)
    assert torch.equal(touching.data[:, 0], torch.full((3,), 4.0))  # corners
    force = touching.data[:, 1:4].norm(dim=-1)
    np.testing.assert_allclose(force, 1.2 * 9.81, rtol=0.01)


def test_wrench_gives_f_over_m_and_torque_over_inertia():
    w = world(option='gravity="0 0 0"')
    box = w.bodies(["box"])
    f = torch.zeros(3, 1, 6)
    f[0, 0, :3] = torch.tensor([0.3, -0.6, 1.2])
    f[1, 0, 3] = 0.01
    box.set_wrench(f)
    w.step(50)
    t = 50 * w.dt
    np.testing.assert_allclose(box.lin_vel[0, 0], np.array([0.3, -0.6, 1.2]) / 1.2 * t, rtol=1e-5)
    inertia = w.params.nominal("inertia", ["box"])[0]
    assert inertia.tolist() == pytest.approx(
        [1.2 / 3 * (b * b + c * c) for b, c in ((0.08, 0.05), (0.1, 0.05), (0.1, 0.08))]
    )
    assert box.ang_vel[1, 0, 0].item() == pytest.approx(0.01 / inertia[0].item() * t, rel=1e-4)
    assert box.state[2, 0, 7:].abs().max() == 0
    box.set_wrench(torch.zeros(3, 1, 6))
    before = box.lin_vel.clone()
    w.step(10)
    assert torch.allclose(box.lin_vel, before, atol=1e-6)


def test_joints_write_and_read():
    w = world()
    j = w.joints(["elbow", "slide"])
    j.set_state(torch.tensor([2]), torch.tensor([[0.4, -0.2]]), torch.tensor([[1.5, 2.5]]))
    assert j.pos.tolist() == [[0, 0], [0, 0], pytest.approx([0.4, -0.2])]
    assert j.vel[2].tolist() == [1.5, 2.5]
    j.set_state(torch.tensor([0]), vel=torch.tensor([[3.0, 4.0]]))
    assert j.pos[0].tolist() == [0, 0]
    assert j.vel[0].tolist() == [3, 4]
    w.step()
    assert j.pos[0, 1].item() == pytest.approx(4.0 * w.dt, rel=1e-3)
    backwards = w.joints(["slide", "elbow"])
    assert torch.equal(backwards.pos, j.pos[:, [1, 0]])


def test_actuator_forces():
    w = world()
    u = w.actuators(["elbow", "shoulder"])  # not in the model's order
    u.set_control(torch.tensor([[0.1, 0.7]]).repeat(3, 1))
    w.step()
    assert u.force[:, 1].tolist() == pytest.approx([0.7] * 3)
    assert u.force[:, 0].tolist() == pytest.approx([20 * 0.1] * 3)
    cart = w.actuators(["cart"])
    cart.set_control(torch.ones(3, 1))
    w.step(25)
    assert cart.force[0, 0].item() == pytest.approx(3 * (1 - (1 - 0.002 / 0.05) ** 24))


@pytest.mark.parametrize("way", ["held", "rows", "derived", "one by one"])
def test_peaks_are_the_largest_forces_of_all_physics_steps(way):
    """Of each step(k) alone, against k calls of one step."""
    many, single = world(), world()
    u, v = many.actuators(ACTUATORS), single.actuators(ACTUATORS)
    u.keep_peaks()
    if way == "derived":
        many.sensors("touching")
    if way == "one by one":
        many.inner_loops = (lambda i: None,)
    for c in random_controls(3, 60).split(5):
        rows = c if way in ("rows", "derived") else c[:1].expand(5, -1, -1)
        u.set_control(c[0] if way in ("held", "one by one") else rows.transpose(0, 1))
        many.step(5)
        wanted = torch.zeros(3, 5)
        for row in rows:
            v.set_control(row)
            single.step()
            wanted = torch.maximum(wanted, v.force.abs())
        assert torch.equal(u.peak, wanted)
        assert not torch.equal(wanted, v.force.abs())
        np.testing.assert_array_equal(state(many), state(single))


def test_half_the_mass_accelerates_twice_as_hard():
    w = world(option='gravity="0 0 0"')
    w.params.set("mass", ["cart"], torch.tensor([[2.0], [1.0], [4.0]]))
    w.actuators(["cart"]).set_control(torch.ones(3, 1))
    w.step(20)
    v = w.joints(["slide"]).vel[:, 0]
    assert (v[1] / v[0]).item() == pytest.approx(2.0, rel=1e-5)
    assert (v[2] / v[0]).item() == pytest.approx(0.5, rel=1e-5)


FIELDS = {
    "mass": (["upper", "box"], [[0.9, 2.0], [0.4, 1.1], [1.3, 0.7]]),
    "inertia": (["lower"], [[[0.01, 0.01, 0.004]], [[0.02, 0.02, 0.001]], [[0.003, 0.003, 0.003]]]),
    "friction": (["floor", "box"], [[[0.5, 0.01, 0.001]] * 2, [[0.1, 0.0, 0.0]] * 2, [[2.0, 0.2, 0.02]] * 2]),
    "gravity": ([], [[0, 0, -9.0], [1.0, 2.0, -9.81], [0, 0, 3.0]]),
    "damping": (["shoulder", "slide"], [[0.1, 1.0], [0.2, 2.0], [0.0, 3.0]]),
    "armature": (["elbow"], [[0.1], [0.02], [0.0]]),
    "gain": (["elbow", "left"], [[10.0, 2.0], [30.0, 0.5], [20.0, 1.0]]),
    "bias": (["elbow"], [[0.5], [-0.5], [0.0]]),
}


DERIVED = (
    "body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_invweight0", "dof_M0", "actuator_acc0",
    "geom_friction", "dof_damping", "dof_armature", "actuator_gainprm", "actuator_biasprm",
)  # fmt: skip


def compiled(field: str, values: list) -> mujoco.MjModel:
    """The scene's model as MuJoCo makes it when the numbers stand in its spec: the oracle for derived constants."""
    spec = scene().spec()
    names = FIELDS[field][0]
    for name, value in zip(names, values, strict=False):
        if field in ("mass", "inertia"):
            b, m = spec.body(name), scene().compile().body(name)
            b.explicitinertial = True
            b.mass = float(m.mass[0])
            b.inertia = m.inertia
            b.ipos = m.ipos
            b.iquat = m.iquat
            setattr(b, field, value)
        elif field == "friction":
            spec.geom(name).friction = value
        elif field in ("damping", "armature"):
            setattr(spec.joint(name), field, value if field == "armature" else [value, 0, 0])
        else:
            prm = getattr(spec.actuator(name), f"{field}prm")
            prm[0] = value
            setattr(spec.actuator(name), f"{field}prm", prm)
    if field == "gravity":
        spec.option.gravity = values
    return spec.compile()


@pytest.mark.parametrize("field", FIELDS)
def test_parameters_are_those_of_a_model_compiled_with_them(field):
    """Every field of the world's model, derived constants included, and then the motion itself."""
    names, values = FIELDS[field]
    w = world()
    controls = random_controls(3, 40)
    u = w.actuators(ACTUATORS)
    w.params.set(field, names, torch.tensor(values))
    assert torch.equal(w.params.get(field, names), torch.tensor(values))
    for row in controls:
        u.set_control(row)
        w.step()
    for i in range(3):
        wanted = compiled(field, torch.tensor(values[i]).double().tolist())
        got = w.batch.get_model(i)
        for array in DERIVED:
            np.testing.assert_allclose(
                getattr(got, array), getattr(wanted, array), rtol=1e-9, atol=1e-12, err_msg=array
            )
        np.testing.assert_allclose(got.opt.gravity, wanted.opt.gravity)
        end = plain(wanted, controls, i)[-1]
        np.testing.assert_allclose(w.mj_data(i).qpos, end.qpos, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("field", FIELDS)
def test_parameters_of_one_world_leave_the_others_alone(field):
    names, values = FIELDS[field]
    w = world()
    untouched = world()
    u = random_controls(3, 1)[0]
    nominal = w.params.nominal(field, names)
    assert torch.equal(w.params.get(field, names), nominal.expand(3, *nominal.shape))
    w.params.set(field, names, torch.tensor(values)[1:2], torch.tensor([1]))
    assert torch.equal(w.params.get(field, names)[1], torch.tensor(values)[1])
    assert torch.equal(w.params.get(field, names)[[0, 2]], nominal.expand(2, *nominal.shape))
    assert torch.equal(w.params.nominal(field, names), nominal)
    for each in (w, untouched):
        each.actuators(ACTUATORS).set_control(u)
        each.step(300)
    same = (state(w) == state(untouched)).all(1)
    assert same.tolist() == [True, False, True]


def test_writing_parameters_does_not_disturb_the_state():
    w = world()
    w.actuators(ACTUATORS).set_control(random_controls(3, 1)[0])
    w.step(60)
    before = state(w)
    for field in ("mass", "armature"):
        names, values = FIELDS[field]
        w.params.set(field, names, torch.tensor(values))
        w.forward()
    np.testing.assert_array_equal(state(w), before)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(threads):
    out = []
    for t in (1, threads):
        w = world(n=7, threads=t)
        w.params.set("mass", ["box"], torch.linspace(0.5, 2.0, 7)[:, None])
        u = w.actuators(ACTUATORS)
        for c in random_controls(7, 150).split(5):
            u.set_control(c.transpose(0, 1))
            w.step(5)
        out.append(state(w))
    np.testing.assert_array_equal(*out)


def test_bodies_on_joints_cost_nothing_until_they_are_read():
    """Pushing a link asks for no kinematics; the first read is of the state of that moment, and so is every later one."""
    w = world()
    u = w.actuators(ACTUATORS)
    bodies = w.bodies(["lower"])
    u.set_control(random_controls(3, 1)[0])
    bodies.set_wrench(torch.full((3, 1, 6), 0.2))
    w.step(40)
    assert not w.needs_derived
    for _ in range(3):
        for i in range(3):
            np.testing.assert_allclose(bodies.pos[i, 0], w.mj_data(i).body("lower").xpos, atol=1e-6)
        assert w.needs_derived
        w.step(10)


def test_a_restored_world_goes_on_bit_for_bit():
    """In another object, with parameters, contacts (warm starts), activations and wrenches."""
    w = world()
    other = world()
    controls = random_controls(3, 120)
    u, v = w.actuators(ACTUATORS), other.actuators(ACTUATORS)
    w.params.set("mass", ["box"], torch.tensor([[0.5], [1.0], [2.0]]))
    w.params.set("gravity", (), torch.tensor([[0, 0, -9.0], [0, 1, -9.0], [0, 0, -10.0]]))
    w.bodies(["other"]).set_wrench(torch.full((3, 1, 6), 0.1))
    for row in controls[:60]:
        u.set_control(row)
        w.step()
    saved = w.snapshot()
    other.params.set("damping", ["slide"], torch.full((3, 1), 9.0))  # to be undone: the snapshot shares this field
    other.step(7)
    other.restore(saved)
    for row in controls[60:]:
        for view, each in ((u, w), (v, other)):
            view.set_control(row)
            each.step()
        np.testing.assert_array_equal(state(other), state(w))


def test_restoring_undoes_parameters_with_what_follows_from_them():
    w = world()
    clean = w.snapshot()
    nominal = w.batch.get_model(0)
    w.params.set("mass", ["box"], torch.full((3, 1), 0.1))
    w.step()
    assert not np.allclose(w.batch.get_model(0).body_invweight0, nominal.body_invweight0)
    w.restore(clean)
    for i in range(3):
        np.testing.assert_allclose(w.batch.get_model(i).body_mass, nominal.body_mass, rtol=1e-7)
        np.testing.assert_allclose(w.batch.get_model(i).body_invweight0, nominal.body_invweight0, rtol=1e-6)


def test_snapshots_are_copies():
    w = world()
    w.params.set("mass", ["box"], torch.full((3, 1), 0.7))
    shot = w.snapshot()
    saved = {k: v.clone() for k, v in shot.items()}
    w.step(10)
    w.params.set("mass", ["box"], torch.full((3, 1), 0.2))
    assert all(torch.equal(shot[k], saved[k]) for k in saved)


def test_reset_is_the_initial_state_of_those_worlds_only():
    w = world()
    fresh = world()
    place = w.sensors("place")
    w.forward()
    start = place.data.clone()
    w.actuators(ACTUATORS).set_control(random_controls(3, 1)[0])
    w.bodies(["box"]).set_wrench(torch.ones(3, 1, 6))
    w.step(60)
    moved = place.data.clone()
    before = state(w)
    w.reset(torch.tensor([0, 2]))
    np.testing.assert_array_equal(state(w)[[0, 2]], state(fresh)[[0, 2]])
    np.testing.assert_array_equal(state(w)[1], before[1])
    assert torch.equal(place.data[[0, 2]], start[[0, 2]])  # sensors are current after a reset
    assert torch.equal(place.data[1], moved[1])


def test_reset_forgets_rows_of_controls_that_were_still_to_come():
    w = world()
    u = w.actuators(ACTUATORS)
    u.set_control(torch.full((3, 4, 5), 8.0))
    w.reset(torch.tensor([1]))
    w.step(4)
    assert u.control[1].abs().max() == 0
    assert torch.equal(u.control[0], torch.full((5,), 8.0))


BAD = [float("nan"), float("inf"), 1e12]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("where", ["pos", "vel", "wrench", "control", "rows"])
@pytest.mark.parametrize("derived", [False, True])
def test_a_diverged_world_is_counted_reset_and_unnoticed_by_the_others(bad, where, derived, capfd):
    out = []
    for broken in (False, True):
        w = world(threads=2)
        box = w.bodies(["box"])
        u = w.actuators(ACTUATORS)
        place = w.sensors("place") if derived else None
        w.step(3)
        start = w.mj_data(1).qpos * 0 + w.model.qpos0
        s, f = box.state.clone(), torch.zeros(3, 1, 6)
        c = random_controls(3, 5).transpose(0, 1)
        if broken:
            (s[1, 0, 0:1] if where == "pos" else s[1, 0, 7:8] if where == "vel" else s[:0]).fill_(bad)
            (f[1, 0, 2:3] if where == "wrench" else f[:0]).fill_(bad)
            (c[1, 2, 1:2] if where == "rows" else c[1, 0, 1:2] if where == "control" else c[:0]).fill_(bad)
        box.set_state(None, s)
        box.set_wrench(f)
        u.set_control(c if where == "rows" else c[:, 0])
        w.step(5)
        assert w.failed.tolist() == ([1] if broken else [])
        assert w.failures == int(broken)
        assert torch.isfinite(box.state).all()
        if broken:
            np.testing.assert_array_equal(w.mj_data(1).qpos, start)
            assert u.control[1].abs().max() == 0
        if place is not None:
            assert torch.isfinite(place.data).all()
            if broken:
                np.testing.assert_allclose(place.data[1], w.mj_data(1).sensor("place").data, atol=1e-6)
        for _ in range(20):
            w.step(5)
            assert not len(w.failed)
        out.append(state(w)[[0, 2]])
    np.testing.assert_array_equal(*out)
    printed = capfd.readouterr()
    assert len(printed.out + printed.err) < 1000


def test_worlds_that_diverge_all_the_time_do_not_flood(in_tmp, capfd):
    """Neither the terminal nor MuJoCo's log file in the working folder."""
    w = world(n=8, threads=2)
    box = w.bodies(["box"])
    s = torch.zeros(8, 1, 13)
    s[..., 3] = 1.0
    s[..., 7] = float("nan")
    for _ in range(50):
        box.set_state(None, s)
        w.step(5)
        assert len(w.failed) == 8
    assert w.failures == 400
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""
    assert list(in_tmp.iterdir()) == []


def test_inner_loop_runs_before_every_physics_step():
    w = world()
    plain_world = world()
    u = w.actuators(ACTUATORS)
    v = plain_world.actuators(ACTUATORS)
    seen = []
    box = w.bodies(["box"])
    place = w.sensors("place")
    c = random_controls(3, 5)

    def inner(i: int) -> None:
        seen.append(box.pos[0, 0, 2].item())
        u.set_control(c[i])

    w.inner_loops = (inner,)
    w.step(5)
    for i, row in enumerate(c):
        assert seen[i] == plain_world.bodies(["box"]).pos[0, 0, 2].item()
        v.set_control(row)
        plain_world.step()
    np.testing.assert_array_equal(state(w), state(plain_world))
    np.testing.assert_allclose(place.data[1], w.mj_data(1).sensor("place").data, atol=1e-6)


def test_mj_data_is_a_copy_with_the_worlds_parameters():
    w = world()
    w.params.set("mass", ["box"], torch.tensor([[1.0], [3.0], [2.0]]))
    w.step(5)
    d = w.mj_data(1)
    np.testing.assert_allclose(d.time, 5 * w.dt)
    # a falling box has no acceleration to feel: qfrc_bias is its weight
    assert d.qfrc_bias[2] == pytest.approx(3.0 * 9.81, rel=1e-6)
    d.qpos[:] = 0
    assert w.mj_data(1, d) is d
    assert d.qpos[2] > 0.1


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda w: w.bodies(["boxx"]), "unknown body 'boxx': did you mean 'box'"),
        (lambda w: w.joints(["elbw"]), "unknown joint 'elbw': did you mean 'elbow'"),
        (lambda w: w.joints(["free"]), "not a hinge or slide"),
        (lambda w: w.actuators(["lft"]), "unknown actuator 'lft': did you mean 'left'"),
        (lambda w: w.sensors("spinn"), "unknown sensor 'spinn': did you mean 'spin'"),
        (lambda w: w.params.get("masss", ["box"]), "unknown parameter field 'masss': did you mean 'mass'"),
        (lambda w: w.params.set("mass", ["bux"], torch.ones(3, 1)), "unknown body 'bux': did you mean 'box'"),
        (lambda w: w.params.nominal("friction", ["flor"]), "unknown geom 'flor': did you mean 'floor'"),
        (lambda w: w.bodies(["box", "lower"]).set_state(None, torch.zeros(3, 2, 13)), "not all free"),
        (lambda w: w.actuators(["left"]).set_control(torch.zeros(3, 2)), r"\[3, 1\] or \[3, K, 1\], got \(3, 2\)"),
        (lambda w: w.actuators(["left"]).set_control(torch.zeros(2, 1)), r"got \(2, 1\)"),
        (lambda w: w.actuators(["left"]).set_control(torch.zeros(3, 4, 2)), r"got \(3, 4, 2\)"),
        (lambda w: (w.actuators(["left"]).set_control(torch.zeros(3, 4, 1)), w.step(5)), r"given for 4 .*step\(5\)"),
        (lambda w: w.restore(world(2).snapshot()), "2 worlds .* has 3"),
    ],
)
def test_refusals(act, message):
    with pytest.raises(RookeryError, match=message):
        act(world())
