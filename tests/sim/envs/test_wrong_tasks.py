"""Mistakes of whoever writes a task: each is one sentence that names what is wrong."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

import rookery
from rookery.sim.config import from_dict
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.clock import clock
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import POSITION, VELOCITY, body, place
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task
from rookery.sim.terms import Sensor
from rookery.sim.world import World
from rookery.tasks.plugins import check_class
from tests.sim.envs.test_vec_env import Cart, CartConfig, idle

PUSH = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))


class Range:
    """A reader of a sensor, without cameras."""

    def __init__(self, world: World) -> None:
        self.joint = world.joints(["x"])

    def read(self) -> torch.Tensor:
        return 2.0 - self.joint.pos[:, None]


def cart_of(first: int = 0, **members: Any) -> VecEnv:
    """A cart task with other members, of a whole in which its first world has that number."""
    task: Task = type("Wrong", (Cart,), members)(CartConfig())
    return VecEnv(task, MujocoWorld(task.scene(), 3, 1), seed=1, task_id="wrong", first=first, total=first + 3)


def seeing(*terms: Any) -> dict[str, Any]:
    """A cart of which one agent pushes, and observes these terms."""

    def groups(self: Cart) -> dict[str, Group]:
        return {"push": Group(1, tuple(t() if callable(t) else t for t in terms), PUSH)}

    return {
        "groups": groups,
        "observe": lambda self: {"push": {"x": self.joint.pos[:, None]}},
        "apply": lambda self, actions: self.motor.set_control(10 * actions["push"][:, 0]),
        "rewards": lambda self: {"push": {"x": self.joint.pos, "one": 0.0 * self.joint.pos}},
    }


WRONG_TERMS: dict[str, tuple[Callable[[], Term], str]] = {
    "units": (lambda: Term("x", body(place("goal") - POSITION) + body(VELOCITY)), "m and m/s cannot be added"),
    "unit": (
        lambda: Term("x", 1, "m", noise=0.1) and Term("x", body(VELOCITY), "m"),
        "has the unit 'm', its expression 'm/s'",
    ),
    "scale": (lambda: Term("x", 1, scale=0.0), "scale of the term 'x' is 0.0: give a number other than 0: hidden=True"),
    "noise": (lambda: Term("x", 1, noise="small"), "noise of the term 'x' is 'small': give a number"),  # type: ignore[arg-type]
    "replaced": (lambda: replace(Term("x", 1), scale=0.0), "scale of the term 'x' is 0.0"),
    "nan": (lambda: Term("x", 1, bias=float("nan")), "bias of the term 'x' is nan: give a number"),
}


@pytest.mark.parametrize("name", WRONG_TERMS)
def test_a_term_that_cannot_be_names_its_line(name: str) -> None:
    term, message = WRONG_TERMS[name]
    line = inspect.getsourcelines(term)[1]
    with pytest.raises(
        RookeryError, match=rf"'wrong' declares what cannot be \(test_wrong_tasks.py, line {line}\): .*{message}"
    ):
        cart_of(**seeing(term))


def test_groups_are_those_declared() -> None:
    with pytest.raises(RookeryError, match=r"declares the groups \['push'\], but observe\(\) gives \['pusher'\]"):
        cart_of(**seeing(Term("x", 1)) | {"observe": lambda self: {"pusher": {"x": self.joint.pos[:, None]}}})


def test_a_sensor_needs_no_cameras_but_its_reader() -> None:
    env = cart_of(**seeing(Term("x", 1), Term("range", Sensor("range", 1, "m", make=Range))))
    obs, _ = env.reset()
    assert torch.equal(obs["push"][..., 1], 2.0 - obs["push"][..., 0])
    with pytest.raises(RookeryError, match="sensor of the term 'range' has no `make`: give it a function from a world"):
        cart_of(**seeing(Term("x", 1), Term("range", Sensor("range", 1, "m"))))


def test_a_nan_that_is_observed_is_named_before_the_policy() -> None:
    env = cart_of(**seeing(Term("x", 1)))
    env.reset()
    bad = env.task.observe

    def broken() -> Mapping[str, dict[str, torch.Tensor]]:
        values = bad()
        values["push"]["x"] = values["push"]["x"] / torch.tensor([1.0, 0.0, 1.0])[:, None, None]
        return values

    env.task.observe = broken  # type: ignore[method-assign, assignment]
    obs, *_ = env.step({"push": torch.zeros(3, 1, 1)})
    with pytest.raises(RookeryError, match="the observation 'x' of 'push' is NaN or infinite, first in world 1"):
        env.step({"push": obs["push"] * torch.inf})


def test_worlds_are_counted_as_those_of_the_whole_environment() -> None:
    """Those of a shard, and those of a task of several."""
    zero = torch.tensor([[1.0], [0.0], [1.0]])
    env = cart_of(first=4, **seeing(Term("x", 1)) | {"state": lambda self: self.joint.pos / zero})
    env.reset()
    with pytest.raises(RookeryError, match="the state for a central critic is NaN or infinite, first in world 5"):
        env.state  # noqa: B018
    with pytest.raises(RookeryError, match="actions of 'push' contain NaN or infinity, first in world 6"):
        env.step({"push": torch.tensor([0.0, 0.0, torch.nan]).view(3, 1, 1)})
    env = rewarding(in_world(2, torch.nan), first=4)
    with pytest.raises(RookeryError, match="the reward term 'x' of 'push' is NaN or infinite, first in world 6"):
        push(env)
    env = rewarding(in_world(2, torch.nan))
    env.told_first = 10
    with pytest.raises(RookeryError, match="the reward term 'x' of 'push' is NaN or infinite, first in world 12"):
        push(env)


def test_a_weight_that_no_term_uses_is_refused() -> None:
    env = cart_of(**seeing(Term("x", 1)))
    env.task.cfg = replace(env.task.cfg, reward=Weights(x=2.0, one=0.5, ones=1.0, off=0.0))
    env.reset()
    with pytest.raises(
        RookeryError, match=r"unknown reward term of Wrong with a weight 'ones': did you mean 'one'\? Known: one, x\."
    ):
        push(env)


def broken_at(env: VecEnv, world: int, step: int, value: float = torch.nan) -> Callable[[torch.Tensor], torch.Tensor]:
    """Values [N, ...] with NaN in a world from a step of its episode on."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[world] = torch.where(env.steps[world] >= step, value, x[world])
        return x

    return broken


def test_a_nan_in_an_episodes_last_observation_is_named_in_its_step() -> None:
    """No action answers it: it would be learned from, and the loss would be NaN (mjlab issue 520)."""
    env = cart_of(**seeing(Term("x", 1)))
    env.reset()
    broken = broken_at(env, 2, env.max_episode_steps)
    env.task.observe = lambda: {"push": {"x": broken(env.task.joint.pos)[:, None]}}  # type: ignore[method-assign, attr-defined]
    for _ in range(env.max_episode_steps - 1):
        env.step({"push": torch.zeros(3, 1, 1)})
    with pytest.raises(
        RookeryError, match="observation 'x' of 'push' is NaN or infinite in an episode's last step, first in world 2"
    ):
        env.step({"push": torch.zeros(3, 1, 1)})


def test_a_nan_in_the_state_or_a_target_is_named() -> None:
    zeros = torch.zeros(3, 1, 1)
    target = {
        "observe_privileged": lambda self: {"push": {"wind": zeros / torch.tensor([1.0, 0.0, 1.0])[:, None, None]}}
    }

    def groups(self: Cart) -> dict[str, Group]:
        return {"push": Group(1, (Term("x", 1),), PUSH, targets=(Term("wind", 1, "m/s"),))}

    env = cart_of(**seeing(Term("x", 1)) | target | {"groups": groups, "state": lambda self: self.joint.pos / 0.0})
    env.reset()
    with pytest.raises(RookeryError, match="the state for a central critic is NaN or infinite, first in world 0"):
        env.state  # noqa: B018
    with pytest.raises(RookeryError, match="the target 'wind' is NaN or infinite, first in world 1"):
        env.privileged_targets  # noqa: B018


def test_metrics_have_the_same_names_always_and_success_is_a_number() -> None:
    """rsl_rl's log takes the names of the first episode: what the others had besides was lost (mjlab issue 957)."""

    def ending(metrics: Callable[[Cart], dict[str, torch.Tensor]]) -> None:
        env = cart_of(metrics=metrics)
        env.reset()
        for _ in range(3 * env.max_episode_steps):
            env.step(idle(env))

    calls = iter(range(9))

    def late(self: Cart) -> dict[str, torch.Tensor]:
        return {"success": torch.ones(3)} | ({"late": torch.ones(3)} if next(calls) > 1 else {})

    with pytest.raises(
        RookeryError, match=r"Wrong.metrics\(\) gives \['success', 'late'\], and gave \['success'\] before"
    ):
        ending(late)
    with pytest.raises(RookeryError, match="metric 'success' of Wrong is NaN or infinite in world 1: let it be 0 or 1"):
        ending(lambda self: {"success": torch.tensor([1.0, torch.nan, 0.0])})
    ending(lambda self: {"success": torch.ones(3), "time": torch.tensor([1.0, torch.nan, 0.0])})


def test_a_setup_that_leaves_out_its_base_is_named() -> None:
    """In a property, too; what no setup makes, or what is asked for before any, stays Python's own error."""
    env = cart_of(setup=lambda self: Cart.setup(self))
    task = type(env.task)(CartConfig())
    assert not hasattr(task, "joint") and not hasattr(env.task, "absent")
    with pytest.raises(AttributeError, match="no attribute 'joint'") as found:
        task.joint  # type: ignore[attr-defined]  # noqa: B018
    assert not isinstance(found.value, RookeryError)
    message = r"Wrong has no 'joint', which Cart.setup\(\) makes: begin Wrong.setup\(\) with super\(\).setup\(\)"
    with pytest.raises(RookeryError, match=message):
        cart_of(setup=lambda self: None)
    with pytest.raises(RookeryError, match=message):
        cart_of(setup=lambda self: None, headline=property(lambda self: self.joint.name))


def test_a_headline_is_a_metric() -> None:
    env = cart_of(headline="succes")
    env.reset()
    for _ in range(9):
        env.step(idle(env))
    with pytest.raises(RookeryError, match="headline of Wrong, 'succes': did you mean 'success'"):
        env.step(idle(env))  # in which the episodes end


def test_a_class_that_lacks_something_says_so() -> None:
    with pytest.raises(RookeryError, match=r"t lacks metrics\(\), reset\(\): write it into the class"):
        check_class(type("T", (Cart,), {"__module__": __name__, "metrics": Task.metrics, "reset": Task.reset}), "t")
    with pytest.raises(RookeryError, match="t has no Config: name the frozen dataclass of its values"):
        check_class(type("T", (Cart,), {"Config": None}), "t")


def test_crashes_of_a_tasks_own_come_after_the_detection() -> None:
    task: Any = rookery.make("drone-land", 2, seed=0).unwrapped.task  # type: ignore[attr-defined]
    mask = torch.tensor([[True], [False]])
    with pytest.raises(RookeryError, match=r"crash_where\('hard_landing'\) before detect_crashes\(\)"):
        task.crash_where(mask, "hard_landing")
    task.detect_crashes(torch.zeros(2, 1, dtype=torch.bool))
    with pytest.raises(RookeryError, match="unknown cause of a crash 'hardlanding': did you mean 'hard_landing'"):
        task.crash_where(mask, "hardlanding")
    task.crash_where(mask, "hard_landing")
    assert task.crashed.tolist() == mask.tolist()


Change = Callable[[torch.Tensor], Any]


def rewarding(change: Change, **members: Any) -> VecEnv:
    """A cart whose reward is changed, after its first step."""
    rewards = {"rewards": lambda self: {"push": {"x": change(self.joint.pos.clone()), "one": self.joint.pos}}}
    env = cart_of(**seeing(Term("x", 1)) | rewards | members)
    env.reset()
    return env


def push(env: VecEnv) -> Any:
    return env.step({"push": torch.zeros(3, 1, 1)})


def in_world(i: int, value: float) -> Change:
    def change(x: torch.Tensor) -> torch.Tensor:
        x[i] = value
        return x

    return change


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_reward_that_is_not_finite_is_named_in_its_step(value: float, kind: torch.dtype) -> None:
    env = rewarding(lambda x: in_world(2, value)(x).to(kind))
    with pytest.raises(
        RookeryError, match="the reward term 'x' of 'push' is NaN or infinite, first in world 2: look for"
    ):
        push(env)


def test_rewards_that_are_too_large_together_are_told() -> None:
    env = rewarding(in_world(1, 3e38))
    env.task.rewards = lambda: {"push": {"x": (x := torch.full((3, 1), 3e38)), "one": x}}  # type: ignore[method-assign]
    with pytest.raises(
        RookeryError, match="the sum of the weighted reward terms of 'push' is NaN or infinite, first in world 0"
    ):
        push(env)


def test_a_world_whose_physics_diverged_may_have_any_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put back, its episode ends, and its reward is zero."""
    env = rewarding(in_world(1, float("nan")))
    monkeypatch.setattr(MujocoWorld, "failed", property(lambda self: torch.tensor([1])))
    assert push(env)[1]["push"][1] == 0.0


@pytest.mark.parametrize(
    ("change", "given"),
    [
        (lambda x: 1.0, "a float, which is no tensor"),
        (lambda x: x.numpy(), "a ndarray, which is no tensor"),
        (lambda x: None, "nothing"),
        (lambda x: x[:1], r"shape \(1, 1\)"),
        (lambda x: x.to("meta"), r"shape \(3, 1\) on device meta"),
    ],
)
def test_what_is_no_tensor_of_the_worlds_is_told(change: Change, given: str) -> None:
    with pytest.raises(RookeryError, match=rf"the task rewards 'x' with {given}, not \(3, 1\)"):
        push(rewarding(change))


@pytest.mark.parametrize("method", ["groups", "observe", "rewards", "metrics"])
@pytest.mark.parametrize(("value", "given"), [(None, "nothing"), ([], "a list")])
def test_a_method_without_a_result_is_named(method: str, value: Any, given: str) -> None:
    def episode() -> None:
        env = cart_of(**{method: lambda self: value})
        env.reset()
        for _ in range(10):
            env.step(idle(env))

    with pytest.raises(RookeryError, match=rf"Wrong.{method}\(\) gives {given}: let it return a dict by name"):
        episode()


def test_a_group_that_is_not_declared_gets_no_reward() -> None:
    with pytest.raises(RookeryError, match=r"unknown group of Wrong.rewards\(\) 'puhs': did you mean 'push'"):
        push(rewarding(lambda x: x, rewards=lambda self: {"puhs": {"x": self.joint.pos}}))


def test_numbers_of_a_task_are_numbers() -> None:
    with pytest.raises(RookeryError, match="a group has at least one agent in each world, got 0"):
        cart_of(groups=lambda self: {"push": Group(0, (Term("x", 1),), PUSH)})
    with pytest.raises(ValueError, match="the weight of the reward term 'x' must be a finite number, got nan"):
        Weights(x=float("nan"))
    for weight in (float("nan"), float("inf")):
        with pytest.raises(RookeryError, match=r"config value reward.*finite"):
            from_dict(CartConfig, {"reward": {"x": weight}})
    for episode_s in (float("nan"), float("inf"), 0.0):
        with pytest.raises(RookeryError, match="an episode must last for at least one control step"):
            clock(Cart(dataclasses.replace(CartConfig(), episode_s=episode_s)), cart_of().world)
