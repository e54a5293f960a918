"""Further observation sets of a group: what a critic or teacher gets beside the policy's observation."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import pytest
import torch

import rookery
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, ObservationSet, Term, Weights
from rookery.sim.task import Task

CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""
PUSH = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))


@dataclass(frozen=True)
class CartConfig:
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.2  # s
    reward: Weights = Weights(x=1.0)


class Cart(Task):
    """The policy gets a noisy position, the critic position and speed, the teacher three frames of them."""

    Config = CartConfig

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        x = Term("x", 1, "m", scale=2.0, noise=0.1)
        speed = Term("speed", 1, "m/s", clip=0.3)
        sets = {
            "critic": ObservationSet((x, speed)),
            "teacher": ObservationSet((speed, Term("x", 1, "m")), history=3),
            "blind": ObservationSet((Term("x", 1, "m", hidden=True), speed)),
        }
        return {"cart": Group(1, (x,), PUSH, observation_sets=sets)}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.asked = 0

    def reset(self, ids: torch.Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-1.0, 1.0, (1,)))

    def apply(self, actions: dict[str, torch.Tensor]) -> None:
        self.motor.set_control(10 * actions["cart"].sum(-2))

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"cart": {"x": self.joint.pos.unsqueeze(1).clone()}}

    def observe_privileged(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"cart": {"speed": self.joint.vel.unsqueeze(1).clone()}}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"cart": {"x": self.joint.pos}}

    def terminated(self) -> torch.Tensor:
        return (self.joint.pos[:, 0] > 0.8).long()

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": torch.zeros(self.world.num_envs)}


def cart(n: int = 4, seed: int = 3) -> VecEnv:
    task = Cart()
    ranges = {"observation_noise": Range(1.0, 1.0), "observation_delay": Range(0.02, 0.02)}
    return VecEnv(task, MujocoWorld(task.scene(), n), seed=seed, ranges=ranges)


def expected(env: VecEnv) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = env.task.joint.pos
    v = env.task.joint.vel.clamp(-0.3, 0.3)
    return torch.cat((2.0 * x, v), 1)[:, None], torch.cat((v, x), 1), torch.cat((torch.zeros_like(x), v), 1)[:, None]


def test_sets_are_scaled_clipped_and_free_of_noise_and_delay() -> None:
    env = cart()
    obs, _ = env.reset()
    frames: list[torch.Tensor] = []
    fast = False
    for t in range(25):
        critic, frame, blind = expected(env)
        assert torch.equal(env.observation_set("critic")["cart"], critic)
        assert torch.equal(env.observation_set("blind")["cart"], blind)
        new = env.steps == 0
        frames = [torch.where(new[:, None], frame, f) for f in frames] if frames else [frame] * 3
        frames = [*frames[1:], frame]
        assert torch.equal(env.observation_set("teacher")["cart"][:, 0], torch.cat(frames, 1))
        assert not torch.equal(obs["cart"], critic[..., :1])
        fast |= bool((env.task.joint.vel.abs() > 0.3).any())
        obs, *_ = env.step(torch.full((4, 1, 1), 0.5 if t % 4 else -0.2))
    assert fast


def test_a_saved_state_keeps_the_frames_of_sets() -> None:
    env = cart()
    other = cart(seed=8)
    for e in (env, other):
        e.reset()
        e.step(torch.full((4, 1, 1), 0.3))
    other.load_state_dict(env.state_dict())
    for e in (env, other):
        e.step(torch.full((4, 1, 1), 0.3))
    assert torch.equal(env.observation_set("teacher")["cart"], other.observation_set("teacher")["cart"])


def test_sets_of_several_tasks_have_the_one_hot_in_every_frame() -> None:
    env = ConcatEnv([("a", cart(2)), ("b", cart(3))])
    env.reset()
    env.step(torch.full((5, 1, 1), 0.3))
    for name, history in (("critic", 1), ("teacher", 3)):
        wanted = env.groups["cart"].observation_sets[name]
        x = env.observation_set(name)["cart"]
        assert x.shape == (5, 1, wanted.size) == (5, 1, 4 * history)
        frames = x.view(5, history, 4)
        assert torch.equal(frames[:, :, 2:], env._one_hot[:, None].expand(5, history, 2))
        own = torch.cat([e.observation_set(name)["cart"] for e in env.parts.values()])
        assert torch.equal(frames[:, :, :2].flatten(1), own[:, 0])


def test_wrong_sets_are_refused() -> None:
    with pytest.raises(
        RookeryError, match="unknown observation set of group 'cart' of task 'critik': did you mean 'critic'"
    ):
        cart().observation_set("critik")
    x = Term("x", 1)
    with pytest.raises(ValueError, match="'x' has two sizes, 1 and 2"):
        Group(1, (x,), PUSH, observation_sets={"critic": ObservationSet((Term("x", 2),))})
    with pytest.raises(ValueError, match='the set "policy" is `observation`'):
        Group(1, (x,), PUSH, observation_sets={"policy": ObservationSet((x,))})
    with pytest.raises(ValueError, match="different names"):
        ObservationSet((x, x))


@pytest.mark.parametrize(
    ("task", "config", "hidden"),
    [
        ("go2-velocity", {}, ()),
        ("go2arm-reach", {"future": False, "history": 2}, ("to_goal_soon", "rotation_to_goal_soon")),
    ],
)
def test_a_teacher_of_a_walking_robot_gets_what_the_policy_does_not(task, config, hidden) -> None:
    env = rookery.make(task, 3, config=config)
    env.reset()
    obs = env.step(torch.zeros(3, 1, env.groups["robot"].action.size))[0]["robot"]
    group = env.groups["robot"]
    teacher = env.observation_set("teacher")["robot"]
    names = [t.name for t in group.observation_sets["teacher"].terms]
    assert "base_velocity" in names
    at = 0
    for term in group.observation_sets["teacher"].terms:
        values = teacher[..., at : at + term.size]
        at += term.size
        if term.name in hidden:
            assert not obs[..., group.slices()[term.name]].any()
            assert values.all()
        elif term.name in group.slices():
            assert torch.equal(values, obs[..., group.slices()[term.name]]), term.name
        elif term.name == "base_velocity":
            assert torch.equal(values[:, 0], env.task.robot.velocity)
    assert at == teacher.shape[-1]
