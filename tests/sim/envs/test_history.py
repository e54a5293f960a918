"""Observations with a history: what stands where, at an episode's start, with noise and delay, after a resume."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import pytest
import torch

from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.observation import ObservationPipeline, check_terms, target_values
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task

ACTION = ActionSpec("none", ("a",), (-1,), (1,), ("1",), (0,))
TERMS = (Term("a", 2, scale=2.0, noise=0.1), Term("b", 1, delay=0.01))
ALL = torch.arange(3)


def pipeline(history: int) -> ObservationPipeline:
    p = ObservationPipeline(Group(2, TERMS, ACTION, history), 3, 0.01, Streams(3, 0))
    p.noise.fill_(1.0)
    p.bias.fill_(1.0)
    return p


def raw(t: int) -> dict[str, torch.Tensor]:
    return {"a": torch.full((3, 2, 2), float(t)), "b": torch.full((3, 2, 1), 10.0 + t)}


def restart(p: ObservationPipeline, ids: torch.Tensor, terms: dict[str, torch.Tensor]) -> torch.Tensor:
    out = torch.zeros(3, 2, 3 * p.history)
    p.restart(ids, terms, out)
    return out[ids]


def test_the_newest_frame_is_last_and_the_first_one_fills():
    one = pipeline(1)
    four = pipeline(4)
    frames = [restart(one, ALL, raw(0)), *(one.push(raw(t)) for t in range(1, 8))]
    seen = [restart(four, ALL, raw(0)), *(four.push(raw(t)) for t in range(1, 8))]
    for t, got in enumerate(seen):  # all read after the last push: nobody writes into what was given away
        want = [frames[max(0, t - age)] for age in (3, 2, 1, 0)]
        assert got.shape == (3, 2, 12) and torch.equal(got, torch.cat(want, -1))
    assert torch.equal(one.clean(raw(3)), four.clean(raw(3)))


def test_a_new_episode_forgets_the_old_one_and_only_its_own_world():
    p = pipeline(3)
    restart(p, ALL, raw(0))
    for t in range(1, 4):
        before = p.push(raw(t))
    fresh = restart(p, torch.tensor([1]), raw(50))
    assert torch.equal(fresh, fresh[..., :3].repeat(1, 1, 3)) and (fresh[..., 2] == 60.0).all()
    after = p.push(raw(51))
    assert torch.equal(after[[0, 2], :, :6], before[[0, 2], :, 3:])
    assert torch.equal(after[1, :, :6], fresh[0, :, :6])


def test_a_resumed_history_is_exact():
    first = pipeline(3)
    second = pipeline(3)
    restart(first, ALL, raw(0))
    first.push(raw(1))
    second.load_state_dict(first.state_dict())
    second.rng.load_state_dict(first.rng.state_dict())
    assert torch.equal(first.push(raw(2)), second.push(raw(2)))
    assert "frames" not in pipeline(1).state_dict()  # checkpoints made before there was a history still fit
    with pytest.raises(ValueError, match="frames"):
        second.load_state_dict(pipeline(2).state_dict())


def test_sizes_and_places():
    g = Group(1, TERMS, ACTION, 3, (Term("v", 3), Term("path", 2)), ("path",))
    assert (g.frame_size, g.observation_size, g.target_size) == (3, 9, 5)
    assert g.slices() == {"a": slice(6, 8), "b": slice(8, 9)}
    assert g.target_slices() == {"v": slice(0, 3), "path": slice(3, 5)}
    for wrong in ({"history": 0}, {"future": ("way",)}, {"targets": (Term("v", 1), Term("v", 2))}):
        with pytest.raises(ValueError, match=r"history is 0|future names|different names"):
            Group(1, TERMS, ACTION, **wrong)


def test_targets_are_scaled_and_clipped():
    declared = (Term("v", 1, scale=2.0), Term("path", 2, clip=1.5))
    given = {"path": torch.tensor([[[1.0, -9.0]]]), "v": torch.tensor([[[3.0]]])}
    assert target_values(given, declared).tolist() == [[[6.0, 1.0, -1.5]]]
    assert given["v"].item() == 3.0
    with pytest.raises(RookeryError, match="has targets"):
        target_values({"v": given["v"]}, declared)
    with pytest.raises(RookeryError, match=r"declares the target 'path' but observe_privileged\(\) does not give it"):
        check_terms("t", {"v": given["v"]}, declared, (1, 1), "target")


CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""


@dataclass(frozen=True)
class CartConfig:
    history: int = 1
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.2  # s
    reward: Weights = Weights(x=1.0)


class Cart(Task):
    """A cart whose position is measured, and whose speed is a target."""

    Config = CartConfig
    short = False  # whether `truth` forgets a number

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        push = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))
        terms = (Term("x", 1, "m", noise=0.1), Term("twice", 1))
        return {"cart": Group(1, terms, push, self.cfg.history, (Term("speed", 1, "m/s", scale=0.5),))}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])

    def reset(self, ids: torch.Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-1.0, 1.0, (1,)))

    def apply(self, actions: dict[str, torch.Tensor]) -> None:
        self.motor.set_control(10 * actions["cart"].sum(-2))

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        x = self.joint.pos.unsqueeze(1)
        return {"cart": {"x": x, "twice": 2.0 * x}}

    def observe_privileged(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"cart": {"speed": self.joint.vel[:, : 0 if self.short else 1].unsqueeze(1)}}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"cart": {"x": self.joint.pos}}

    def terminated(self) -> torch.Tensor:
        return torch.zeros(self.world.num_envs, dtype=torch.int64)

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": torch.zeros(self.world.num_envs)}


def cart(history: int) -> VecEnv:
    task = Cart(CartConfig(history))
    return VecEnv(task, MujocoWorld(task.scene(), 4), seed=3, ranges={"observation_noise": Range(1.0, 1.0)})


def test_an_environment_with_history_goes_on_exactly_and_tells_the_truth():
    plain = cart(1)
    env = cart(3)
    other = cart(3)
    frames = [plain.reset()[0]["cart"]]
    seen = env.reset()[0]["cart"]
    other.reset()
    assert env.state.shape == plain.state.shape == (4, env.state_size)
    for t in range(15):
        action = torch.full((4, 1, 1), 0.1 * t - 0.4)
        o, _, _, over, wanted = plain.step({"cart": action})
        seen, *_, got = env.step({"cart": action})
        assert torch.equal(env.state, plain.state) and torch.equal(seen["cart"][..., -2:], o["cart"])
        if over.any():
            assert torch.equal(seen["cart"], o["cart"].repeat(1, 1, 3))
            last = torch.cat([*frames[-2:], wanted["final_observation"]["cart"]], -1)
            assert torch.equal(got["final_observation"]["cart"], last)
            frames = [o["cart"]] * 2
        frames.append(o["cart"])
        if t > 0:
            assert torch.equal(seen["cart"], torch.cat(frames[-3:], -1))
        assert (
            torch.equal(env.privileged_targets["cart"], 0.5 * env.task.joint.vel.unsqueeze(1))
            and env.reveal_future_mask is None
        )
    other.load_state_dict(env.state_dict())
    again = other.step(action)[0]["cart"]
    onward = env.step(action)[0]["cart"]
    assert torch.equal(again, onward) and not torch.equal(onward[..., :2], onward[..., 2:4])


def test_truths_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Cart, "short", True)
    with pytest.raises(RookeryError, match=r"target 'speed' is \(4, 1, 0\), declared \(4, 1, 1\)"):
        cart(1)
    monkeypatch.setattr(Cart, "observe_privileged", lambda self: {})
    with pytest.raises(RookeryError, match="declares the target 'speed'"):
        cart(1)
