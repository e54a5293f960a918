"""Users' own tasks in the style of isaacgymenvs: tensors against MuJoCo, the order of a step, missing parts, learning."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import mujoco
import pytest
import torch

from rookery import isaacgym
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "examples"))

import isaacgym_ant
import isaacgym_cartpole

XML = """<mujoco><option gravity="0 0 0"/><worldbody>
<body name="box" pos="0 0 1"><freejoint/><geom name="box" type="box" size=".1 .2 .3" mass="2"/></body>
<body name="arm" pos="2 0 1"><joint name="elbow"/><geom name="arm" type="capsule" size=".05" fromto="0 0 0 0 0 1" mass="1"/>
  <body name="hand" pos="0 0 1"><joint name="wrist" type="slide"/><geom name="hand" size=".1" mass="1"/></body></body>
</worldbody><actuator>
<motor name="elbow" joint="elbow" gear="5"/><position name="wrist" joint="wrist" kp="100"/></actuator></mujoco>"""
GYM = isaacgym.TensorApi()


def simulation(xml: str = XML, n: int = 3) -> isaacgym.Simulation:
    scene = Scene(lambda: mujoco.MjSpec.from_string(xml), integrator="euler")
    return isaacgym.Simulation(scene, n, isaacgym.SimParams(dt=0.01, substeps=2, gravity=(0.0, 0.0, 0.0)))


def test_states_are_in_isaac_gyms_order_and_axes():
    sim = simulation()
    assert (sim.actor_names, sim.dof_names) == (("box", "arm"), ("elbow", "wrist"))
    roots = GYM.acquire_actor_root_state_tensor(sim)
    torch.manual_seed(0)
    quat = torch.nn.functional.normalize(torch.randn(3, 4), dim=1)
    roots.view(3, 2, 13)[:, 0] = torch.cat((torch.randn(3, 3), quat, torch.randn(3, 6)), dim=1)
    want = roots.clone()
    GYM.set_actor_root_state_tensor(sim, roots)
    GYM.refresh_actor_root_state_tensor(sim)
    torch.testing.assert_close(roots, want)
    bodies = GYM.acquire_rigid_body_state_tensor(sim).view(3, 3, 13)
    torch.testing.assert_close(bodies[:, :2], want.view(3, 2, 13))
    for i in range(3):  # MuJoCo itself, in world axes
        data, model = sim.world.mj_data(i), sim.world.model
        spatial = torch.empty(6, dtype=torch.float64).numpy()
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body("box").id, spatial, 0)
        box = want.view(3, 2, 13)[i, 0]
        assert spatial[:3] == pytest.approx(box[10:13].numpy(), abs=1e-5)
        assert data.body("box").xquat[[1, 2, 3, 0]] == pytest.approx(box[3:7].numpy(), abs=1e-6)
    sim.close()


def test_some_environments_are_written():
    sim = simulation()
    dofs = GYM.acquire_dof_state_tensor(sim)
    assert dofs.shape == (6, 2)
    dofs[:] = torch.arange(12.0).view(6, 2) / 10
    GYM.set_dof_state_tensor_indexed(
        sim, dofs, torch.tensor([5, 4], dtype=torch.int32), 2
    )  # both actors of environment 2
    kept = GYM.acquire_dof_state_tensor(sim)
    assert kept is dofs
    torch.testing.assert_close(dofs.view(3, 4), torch.tensor([[0.0] * 4, [0.0] * 4, [0.8, 0.9, 1.0, 1.1]]))
    assert sim.world.mj_data(2).joint("wrist").qpos[0] == pytest.approx(1.0)
    sim.close()


@pytest.mark.parametrize(
    ("function", "values", "rest", "said"),
    [
        ("set_dof_state_tensor_indexed", torch.zeros(6, 2), (torch.tensor([6]), 1), "indices from 0 to 5, got 6"),
        ("set_dof_state_tensor_indexed", torch.zeros(6, 2), (torch.tensor([0, -1]), 2), "indices from 0 to 5, got -1"),
        (
            "set_dof_state_tensor_indexed",
            torch.zeros(5, 2),
            (torch.tensor([0]), 1),
            r"takes a tensor \[6, 2\], got \[5, 2\]",
        ),
        ("set_dof_state_tensor", torch.full((6, 2), torch.nan), (), "given NaN or infinity"),
        (
            "set_actor_root_state_tensor_indexed",
            torch.zeros(6, 13),
            (torch.tensor([7]), 1),
            "indices from 0 to 5, got 7",
        ),
        ("set_actor_root_state_tensor", torch.zeros(4, 13), (), r"takes a tensor \[6, 13\], got \[4, 13\]"),
        ("set_actor_root_state_tensor", torch.full((6, 13), torch.inf), (), "given NaN or infinity"),
        ("set_dof_actuation_force_tensor", torch.full((6,), torch.nan), (), "given NaN or infinity"),
        ("set_dof_position_target_tensor", torch.zeros(5), (), r"takes a tensor \[3, 2\], got \[5\]"),
        ("apply_rigid_body_force_tensors", torch.zeros(9, 2), (), r"takes a tensor \[9, 3\], got \[9, 2\]"),
        (
            "apply_rigid_body_force_tensors",
            torch.zeros(9, 3),
            (torch.full((9, 3), torch.nan),),
            "given NaN or infinity",
        ),
    ],
)
def test_what_cannot_be_written_is_one_sentence(function, values, rest, said):
    """And nothing is written."""
    sim = simulation()
    before = [(sim.world.mj_data(i).qpos.copy(), sim.world.mj_data(i).ctrl.copy()) for i in range(3)]
    with pytest.raises(RookeryError, match=said):
        getattr(GYM, function)(sim, values, *rest)
    for i, (places, controls) in enumerate(before):
        assert sim.world.mj_data(i).qpos.tolist() == places.tolist()
        assert sim.world.mj_data(i).ctrl.tolist() == controls.tolist()
    sim.close()


def test_rows_that_are_not_chosen_may_hold_nan():
    sim = simulation()
    states = torch.zeros(6, 2)
    states[:2] = torch.nan
    GYM.set_dof_state_tensor_indexed(sim, states, torch.tensor([4]), 1)
    assert GYM.acquire_dof_state_tensor(sim).isfinite().all()
    sim.close()


def test_forces_and_targets():
    sim = simulation(
        XML.replace('<position name="wrist" joint="wrist" kp="100"/>', '<motor name="wrist" joint="wrist"/>')
    )
    GYM.set_dof_actuation_force_tensor(sim, torch.tensor([0.5, 2.0] * 3))
    GYM.simulate(sim)
    GYM.refresh_dof_force_tensor(sim)
    torch.testing.assert_close(GYM.acquire_dof_force_tensor(sim), torch.tensor([0.5, 2.0] * 3))  # whatever the gear is
    with pytest.raises(RookeryError, match="position or velocity actuators"):
        GYM.set_dof_position_target_tensor(sim, torch.zeros(6))
    sim.close()
    sim = simulation(XML.replace('<motor name="elbow" joint="elbow" gear="5"/>', ""))
    with pytest.raises(RookeryError, match="needs motor"):
        GYM.set_dof_actuation_force_tensor(sim, torch.zeros(6))
    GYM.set_dof_position_target_tensor(sim, torch.full((6,), 0.1))
    GYM.simulate(sim)
    GYM.refresh_dof_force_tensor(sim)
    assert (sim.dof_forces.view(3, 2)[:, 1] > 9.0).all()  # 100 N/m times 0.1 m
    sim.close()


def test_motors_and_servos_side_by_side_take_what_is_theirs():
    sim = simulation()
    GYM.set_dof_actuation_force_tensor(sim, torch.tensor([0.5, 77.0] * 3))
    GYM.set_dof_position_target_tensor(sim, torch.tensor([77.0, 0.1] * 3))
    GYM.simulate(sim)
    GYM.refresh_dof_force_tensor(sim)
    torch.testing.assert_close(sim.dof_forces.view(3, 2)[:, 0], torch.full((3,), 0.5))
    assert (sim.dof_forces.view(3, 2)[:, 1] > 9.0).all() and (sim.dof_forces.view(3, 2)[:, 1] < 10.5).all()
    sim.close()
    twice = XML.replace("</actuator>", '<velocity name="again" joint="wrist" kv="1"/></actuator>')
    with pytest.raises(RookeryError, match=r"joint '[^']*wrist' has two actuators"):
        simulation(twice)


def test_as_env_needs_the_observations_of_new_episodes():
    class Whole(isaacgym_cartpole.Cartpole):
        compute_observations = isaacgym.VecTask.compute_observations

        def post_physics_step(self):
            pass

    task = Whole({"env": isaacgym_cartpole.CFG["env"] | {"numEnvs": 2}})
    with pytest.raises(RookeryError, match="Whole lacks compute_observations, which as_env calls"):
        isaacgym.as_env(task)
    task.close()


@pytest.mark.parametrize("section", [{"gravity": [0.0, 0.0]}, {"dt": "fast"}, {"substeps": None}])
def test_physics_that_no_simulation_can_have_is_one_sentence(section):
    with pytest.raises(RookeryError, match=r'cfg\["sim"\] must have numbers'):
        isaacgym.make(task="Cartpole", num_envs=1, cfg={"sim": section})


def test_parts_of_mjcf_without_names_get_some():
    inner = '<body><joint type="slide"/><geom size="1"/></body>'
    sim = simulation(f'<mujoco><worldbody><body><joint/><geom size="1"/>{inner}</body></worldbody></mujoco>')
    assert [n.split("_")[0] for n in sim.body_names + sim.dof_names] == ["body", "body", "joint", "joint"]
    sim.close()


def test_a_push_lasts_for_one_simulation_step():
    sim = simulation()
    push = torch.zeros(9, 3)
    push[0, 0] = 4.0  # N on a box of 2 kg, in environment 0
    GYM.apply_rigid_body_force_tensors(sim, push)
    GYM.simulate(sim)
    GYM.simulate(sim)
    GYM.refresh_actor_root_state_tensor(sim)
    speed = sim.root_states.view(3, 2, 13)[:, 0, 7]
    assert speed.tolist() == pytest.approx([0.02, 0.0, 0.0], abs=1e-6)  # 2 m/s^2 for 0.01 s
    sim.close()


def test_torques_turn_a_body_about_world_axes():
    """A box of 2 kg and 0.2 x 0.4 x 0.6 m from rest, for one step of 0.01 s: torque times time over its moment of inertia."""
    sim = simulation(n=2)
    forces, torques = (torch.zeros(2, len(sim.body_names), 3) for _ in range(2))
    box = sim.body_names.index("box")
    torques[1, box] = torch.tensor([0.0, 0.0, 0.3])
    GYM.apply_rigid_body_force_tensors(sim, forces, torques)
    GYM.simulate(sim)
    GYM.refresh_rigid_body_state_tensor(sim)
    spin = GYM.acquire_rigid_body_state_tensor(sim).view(2, -1, 13)[:, box, 10:13]
    inertia = 2.0 / 12.0 * (0.2**2 + 0.4**2)
    wanted = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3 * 0.01 / inertia]])
    torch.testing.assert_close(spin, wanted, rtol=1e-3, atol=1e-6)
    sim.close()


def test_unknown_functions_say_what_there_is():
    with pytest.raises(RookeryError, match=r"gym\.create_actor has no counterpart here: .*Scene"):
        GYM.create_actor()
    assert not hasattr(GYM, "create_actor")


def cartpole(n: int = 4, **env: object) -> isaacgym.VecTask:
    made = isaacgym.make(seed=1, task="Cartpole", num_envs=n, cfg={"env": env})
    assert isinstance(made, isaacgym.VecTask)
    return made


def test_an_episode_begins_one_step_after_its_end():
    task = cartpole(maxEpisodeLength=6)
    progress, late = [], []
    for _ in range(13):
        obs, _, reset, extras = task.step(task.zero_actions())
        assert obs["obs"].shape == (4, 4)
        assert torch.equal(extras["time_outs"], reset.bool())
        progress.append(int(task.progress_buf[0]))
        late.append(int(reset[0]))
    assert progress == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0]
    assert late == [0, 0, 0, 0, 0, 1] * 2 + [0]
    task.close()


class Ended(isaacgym_cartpole.Cartpole):
    """Its first environment ends when it is told to."""

    ending = False

    def compute_reward(self, actions):
        super().compute_reward(actions)
        self.reset_buf[0] = int(self.ending)


@pytest.mark.parametrize(("at", "late"), [(3, False), (4, False), (5, True)])
def test_an_end_counts_as_late_in_the_last_step_alone(at, late):
    """Of an episode of 6, whose last step is number 5; and every control step is counted once."""
    isaacgym.register("Ended", Ended, isaacgym_cartpole.CFG)
    task = isaacgym.make(task="Ended", num_envs=2, cfg=isaacgym_cartpole.CFG)
    task.max_episode_length = 6
    task.step(task.zero_actions())  # in which episodes begin
    assert (task.control_steps, task.randomize_buf.tolist()) == (1, [1, 1])
    for step in range(1, at + 1):
        task.ending = step == at
        _, _, reset, extras = task.step(task.zero_actions())
        assert bool(reset[0]) == task.ending
        assert bool(extras["time_outs"][0]) == (task.ending and late)
    assert task.control_steps == at + 1 and task.randomize_buf.tolist() == [at + 1] * 2
    task.close()


def test_source_keeps_the_last_observation():
    env = isaacgym.as_env(cartpole(maxEpisodeLength=6), seed=3)
    env.reset()
    for i in range(5):
        obs, _, terminated, truncated, info = env.step({"agent": torch.full((4, 1, 1), 0.1)})
        assert truncated.all() == (i == 4)
    assert not terminated.any()
    assert info["episode"]["length"].tolist() == [5] * 4
    assert info["episode"]["cause"].tolist() == [0] * 4
    assert (info["final_observation"]["agent"] - obs["agent"]).abs().max() > 0.01
    assert env.episode_start.all()
    env.close()
    with pytest.raises(RookeryError, match="Rookery's tasks"):
        isaacgym.as_env(isaacgym.make(task="drone-hover"))


@pytest.mark.parametrize(
    "method", ["create_sim", "pre_physics_step", "reset_idx", "compute_observations", "compute_reward"]
)
@pytest.mark.parametrize("none", [False, True], ids=["absent", "none"])
def test_a_forgotten_method_is_named(method, none):
    parts = {k: v for k, v in vars(isaacgym_cartpole.Cartpole).items() if k != method and not k.startswith("__")}
    if none:
        parts[method] = None
    cls = type("Mine", (isaacgym.VecTask,), parts)
    with pytest.raises(RookeryError, match=f"^Mine lacks the method {method}:"):
        isaacgym.register("Mine", cls)


BUFFERS = ["obs_buf", "states_buf", "rew_buf", "reset_buf", "timeout_buf", "progress_buf", "randomize_buf"]


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_forgotten_buffer_is_named(buffer):
    class Mine(isaacgym_cartpole.Cartpole):
        def allocate_buffers(self) -> None:
            super().allocate_buffers()
            del self.__dict__[buffer]

    isaacgym.register("Mine", Mine, isaacgym_cartpole.CFG)
    with pytest.raises(RookeryError, match=f"^Mine lacks the buffer {buffer}:"):
        isaacgym.make(task="Mine", num_envs=2)


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_buffer_of_another_shape_is_named(buffer):
    class Mine(isaacgym_cartpole.Cartpole):
        def compute_reward(self, actions: torch.Tensor) -> None:
            super().compute_reward(actions)
            setattr(self, buffer, torch.zeros(7, 7, 7))

    isaacgym.register("Mine", Mine, isaacgym_cartpole.CFG)
    task = isaacgym.make(task="Mine", num_envs=2)
    with pytest.raises(RookeryError, match=rf"^Mine\.{buffer} must be"):
        task.step(task.zero_actions())
    task.close()


class NoLength(isaacgym_cartpole.Cartpole):
    def __init__(self, cfg, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        del self.max_episode_length


class NoSim(isaacgym_cartpole.Cartpole):
    def create_sim(self) -> None:
        pass


class NoScene(isaacgym_cartpole.Cartpole):
    def create_sim(self) -> None:
        self.sim = isaacgym.VecTask.create_sim(self)


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (NoLength, "lacks max_episode_length"),
        (NoSim, "create_sim made no simulation"),
        (NoScene, "with a rookery.sim.scene"),
    ],
)
def test_other_forgotten_parts(cls, message):
    isaacgym.register("Mine", cls, isaacgym_cartpole.CFG)
    with pytest.raises(RookeryError, match=message):
        isaacgym.make(task="Mine", num_envs=2)


def test_refused_registrations_and_configs():
    with pytest.raises(RookeryError, match="takes a subclass"):
        isaacgym.register("Mine", dict)
    with pytest.raises(RookeryError, match="choose another name"):
        isaacgym.register("drone-hover", isaacgym_cartpole.Cartpole)
    isaacgym.register("Mine", isaacgym_cartpole.Cartpole, isaacgym_cartpole.CFG | {"sim": {"dt": -1.0}})
    with pytest.raises(RookeryError, match="dt > 0"):
        isaacgym.make(task="Mine", num_envs=2)
    with pytest.raises(RookeryError, match=r'lacks cfg\["env"\]\["numActions"\]'):
        isaacgym_cartpole.Cartpole({"env": {"numEnvs": 1, "maxEpisodeLength": 5, "resetDist": 1.0, "maxEffort": 1.0}})


def test_diverged_physics_begin_a_new_episode():
    task = cartpole()
    task.step(task.zero_actions())
    task.dof_vel[2] = 1e12
    task.gym.set_dof_state_tensor_indexed(task.sim, task.dof_state, torch.tensor([2]), 1)
    obs, reward, reset, extras = task.step(task.zero_actions())
    assert torch.isfinite(obs["obs"]).all()
    assert reset.tolist() == [0, 0, 1, 0] and float(reward[2]) == 0.0 and not extras["time_outs"].any()
    task.step(task.zero_actions())
    assert task.progress_buf.tolist() == [2, 2, 0, 2]
    task.close()


def test_ant_stands_and_sees_what_it_declares():
    task = isaacgym.make(task="Ant", num_envs=2)
    assert isinstance(task, isaacgym_ant.Ant)
    for _ in range(60):
        obs, reward, reset, _ = task.step(task.zero_actions())
    assert obs["obs"].shape == (2, 60)
    assert not reset.any()
    assert (task.root_states[:, 2] - 0.55).abs().max() < 0.15
    weight = 9.81 * float(task.sim.world.model.body_mass.sum())
    upwards = task.sensors.view(2, 4, 6)[..., :3].norm(dim=-1).sum(1)
    assert (upwards > 0.5 * weight).all()  # the shins carry it
    stood = reward.clone()
    task.root_states[:, 0] += 1.0
    task.gym.set_actor_root_state_tensor(task.sim, task.root_states)
    _, jumped, *_ = task.step(task.zero_actions())
    assert (jumped - stood).tolist() == pytest.approx([60.0, 60.0], abs=2.0)  # 1 m towards the goal, at 60 Hz
    task.close()


@pytest.mark.slow
def test_cartpole_learns():
    """A cart without control lets the pole fall within a second, 60 steps."""
    torch.manual_seed(0)
    report = isaacgym_cartpole.train(steps=130_000)
    assert report["episode_length_mean"] > 300


def test_who_closes_the_env_closes_the_task(monkeypatch):
    """Its engine, and its renderer where there is one."""
    task = cartpole(maxEpisodeLength=6)
    env = isaacgym.as_env(task, seed=3)
    closed = []
    monkeypatch.setattr(task.sim.world, "close", lambda: closed.append("world"))
    task._renderer = SimpleNamespace(close=lambda: closed.append("renderer"))
    env.close()
    assert sorted(closed) == ["renderer", "world"]
