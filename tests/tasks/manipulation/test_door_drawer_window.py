"""Door, drawers and windows: rewards and success by hand, and experts that do them without forcing anything."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.door_open import DoorOpen
from rookery.tasks.manipulation.drawer import DrawerClose, DrawerOpen
from rookery.tasks.manipulation.window import WindowClose, WindowOpen

TASKS = {"door": DoorOpen, "drawer_open": DrawerOpen, "drawer_close": DrawerClose,
         "window_open": WindowOpen, "window_close": WindowClose}  # fmt: skip
STEPS = {"door": 420, "drawer_open": 160, "drawer_close": 130, "window_open": 180, "window_close": 180}
every_task = pytest.mark.parametrize("name", TASKS)


def make(name, n=4):
    task = TASKS[name]()
    env = VecEnv(task, make_world("mujoco", task.scene(), n))
    obs, _ = env.reset()
    return env, obs


def judged(env, opened, tool=None, effort=0.0):
    """Score and success of world 0 with its furniture opened so far and the tool somewhere."""
    t = env.task
    t.handle.set_state(None, torch.full((env.num_envs, 1), opened), torch.zeros(env.num_envs, 1))
    t.refresh()
    if tool is not None:
        t.robot.tool[0] = tool(t)
        t.frame[0, :3] = t.robot.tool[0] + torch.tensor([0.0, 0.0, 0.045])
    t.closing.fill_(effort)
    terms, done = t.evaluate()
    return float(terms["score"][0]), bool(done[0])


@pytest.mark.parametrize(
    ("name", "short", "enough"),
    [
        ("door", 1.36, 1.42), ("drawer_open", 0.159, 0.161), ("drawer_close", 0.033, 0.030),
        ("window_open", 0.189, 0.191), ("window_close", 0.041, 0.039),
    ],
)  # fmt: skip
def test_success_begins_where_meta_world_says(name, short, enough):
    env, _ = make(name)
    assert not judged(env, short)[1]
    assert judged(env, enough)[1]
    assert not judged(env, env.task.begin)[1]


def test_the_handle_of_the_door_as_seen():
    env, _ = make("door")
    t = env.task
    judged(env, 0.0)
    torch.testing.assert_close(t.first[0, :3] - t.origin[0], torch.tensor([0.1907, -0.2072, 0.0]))
    judged(env, 0.5 * math.pi)
    torch.testing.assert_close(t.first[0, :3] - t.origin[0], torch.tensor([-0.2922, -0.4757, 0.0]))
    torch.testing.assert_close(t.first[0, 3:], torch.tensor([math.sqrt(0.5), 0.0, 0.0, -math.sqrt(0.5)]))


def test_rewards_by_hand():
    env, _ = make("door")
    wide = 0.8 / (1 + 9 * ((2 * math.pi / 3 - 1.0 - 0.5) / (math.pi / 3)) ** 2) + 0.2
    here = lambda t: t.first[0, :3] + torch.tensor([0.0, 0.03, -0.055])  # noqa: E731
    assert judged(env, 1.0, here, effort=1.0)[0] == pytest.approx(2.0 + 8.0 * wide, abs=1e-3)
    assert judged(env, 1.0, here, effort=-1.0)[0] == pytest.approx(8.0 * wide, abs=1e-3)
    assert judged(env, 1.45)[0] == 10.0

    env, _ = make("drawer_open")
    here = lambda t: t.first[0, :3] - torch.tensor([0.0, 0.0, 0.045])  # noqa: E731
    assert judged(env, 0.17, here)[0] == pytest.approx(10.0, abs=1e-3)  # 2 cm from the goal
    assert judged(env, 0.0, here)[0] == pytest.approx(5.0 + 5.0 / (1 + 9 * (0.17 / 0.2) ** 2), abs=1e-3)

    env, _ = make("drawer_close")
    here = lambda t: t.first[0, :3]  # noqa: E731
    assert judged(env, 0.15, here, effort=-1.0)[0] == 0.0
    assert judged(env, 0.15, here, effort=1.0)[0] == pytest.approx(1.0, abs=1e-3)  # a tenth, at the margin
    assert judged(env, 0.02)[0] == 10.0

    for name, end in (("window_open", 0.2), ("window_close", 0.03)):
        env, _ = make(name)
        assert judged(env, end, here)[0] == pytest.approx(10.0, abs=1e-3)
    env, _ = make("window_open")
    assert judged(env, 0.0, here)[0] == pytest.approx(10.0 / (1 + 9 * (0.19 / 0.15) ** 2), abs=1e-3)


@every_task
def test_random_actions_earn_between_nothing_and_ten(name):
    env, _ = make(name, 8)
    rng = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(60):
        _, reward, *_ = env.step({"arm": torch.rand(8, 1, 4, generator=rng) * 2 - 1})
        seen.append(reward["arm"])
    seen = torch.stack(seen)
    assert torch.isfinite(seen).all()
    assert seen.min() >= 0.0
    assert seen.max() <= 10.0
    assert seen.std() > 1e-3


class Contacts:
    """Deepest contact of the hand with the furniture, worked out anew from the state of a few worlds."""

    def __init__(self, env, worlds):
        self.model = env.world.model
        self.worlds = worlds
        self.deepest = 0.0
        self.data = mujoco.MjData(self.model)
        self.state = [(f, env.world.batch.bind(f)) for f in ("qpos", "mocap_pos", "mocap_quat")]

    def look(self):
        for i in self.worlds:
            for field, values in self.state:
                getattr(self.data, field)[:] = values[i]
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_comPos(self.model, self.data)
            mujoco.mj_collision(self.model, self.data)
            for c in self.data.contact:
                if self.model.geom(c.geom1).name.startswith(("furniture/", "panda/")):
                    self.deepest = max(self.deepest, -c.dist)


@pytest.mark.parametrize("name", slow_but(["drawer_close", "window_open"], TASKS))
def test_the_expert_does_it_and_forces_nothing(name):
    env, obs = make(name, 40)
    act = env.task.controller()
    contacts = Contacts(env, range(3))
    for _ in range(STEPS[name]):
        obs, *_ = env.step(act(obs))
        contacts.look()
    assert env.task.ever_done.float().mean() >= 0.95
    assert env.task.done.float().mean() >= 0.95  # and it stays done
    low, high = env.world.model.joint(env.task.handle.names[0]).range
    assert env.task.opened.min() > low - 2e-3
    assert env.task.opened.max() < high + 2e-3
    assert 0.0 < contacts.deepest < 2e-3


def test_drawers_are_harder_to_move_as_randomized():
    env, _ = make("drawer_open")
    env.task.parameters()["handle_damping"].write(torch.tensor([1]), torch.tensor([3.0]))
    assert env.world.params.get("damping", env.task.handle.names)[:, 0].tolist() == [2.0, 6.0, 2.0, 2.0]
