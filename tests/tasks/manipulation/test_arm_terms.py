"""Observation and reward terms of the tasks with arms, on states set by hand: value, sign, axes, order and unit.

The oracle is NumPy on the numbers that were set, with SciPy's rotations; it reads nothing of the task.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery
from rookery.tasks.registry import TASKS

N = 4
META_WORLD = [name for name, entry in TASKS.items() if name.startswith("table-") and not entry.members]
BASES = {"giver": ((0.0, 0.0, 0.0), 0.0), "receiver": ((1.2, 0.0, 0.0), math.pi), "arm": ((0.0, 0.0, 0.0), 0.0)}
"""m and rad about the vertical, where each arm stands."""


class Scene:
    """A task with its arms drawn once; tests put its objects. Tensors [N, ...] by group: `pos`, `vel`, `opening`, `tool`,
    `rotation` and `goal`."""

    def __init__(self, name: str, **config: Any) -> None:
        self.draw = draw = np.random.default_rng(17)
        self.env = rookery.make(name, N, config=config)
        self.env.reset(seed=0)
        self.task: Any = self.env.task
        self.arms: dict[str, dict[str, np.ndarray]] = {}
        for group in self.task.arms:
            tool = draw.uniform(0.3, 0.6, (N, 3))
            values = {
                "pos": draw.uniform(-1.0, 1.0, (N, 7)), "vel": draw.uniform(-2.0, 2.0, (N, 7)),
                "opening": draw.uniform(0.01, 0.07, N), "tool": tool, "goal": tool + draw.uniform(-0.05, 0.05, (N, 3)),
                "rotation": Rotation.random(N, rng=len(self.arms)).as_matrix(),
            }  # fmt: skip
            self.set_arm(group, **values)

    def set_arm(self, group: str, **values: np.ndarray) -> None:
        self.arms.setdefault(group, {}).update(values)
        for name, value in values.items():
            getattr(self.task.arms[group], name).copy_(torch.from_numpy(np.asarray(value)))

    def put(self, thing: Any, pos: np.ndarray, turn: Rotation, speed: np.ndarray | None = None) -> None:
        state = np.zeros((N, 1, 13))
        state[:, 0, :3] = pos
        state[:, 0, 3:7] = turn.as_quat(scalar_first=True)
        state[:, 0, 7] = 0.0 if speed is None else speed
        thing.body.set_state(None, torch.from_numpy(state).float())
        self.env.world.forward()
        self.task.refresh_observation()

    def base(self, group: str, vector: np.ndarray, place: bool = True) -> np.ndarray:
        """World vectors [N, 3] in the axes of an arm's base; places also from there."""
        at, yaw = BASES[group]
        return Rotation.from_rotvec([0.0, 0.0, -yaw]).apply(vector - np.array(at) * place)

    def own(self, group: str) -> dict[str, np.ndarray]:
        """What every arm sees of itself."""
        a = self.arms[group]
        return {
            "joint_position": a["pos"], "joint_velocity": a["vel"], "opening": a["opening"][:, None],
            "tool": self.base(group, a["tool"]), "command": self.base(group, a["goal"] - a["tool"], place=False),
        }  # fmt: skip

    def check(self, expected: dict[str, np.ndarray], group: str = "arm") -> None:
        got = self.task.observe()[group]
        assert set(got) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name][:, 0], value, rtol=1e-4, atol=2e-5, err_msg=name)

    def judge(self, expected: dict[str, np.ndarray], done: np.ndarray) -> None:
        got, is_done = self.task.evaluate()
        assert set(got) == set(expected) == set(self.task.cfg.reward)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=2e-5, err_msg=name)
            assert np.ptp(np.asarray(value, float)) > 0, f"the states do not tell faults of {name}"
        assert is_done.tolist() == np.asarray(done).tolist()


def norm(v: np.ndarray) -> np.ndarray:
    return np.linalg.norm(v, axis=-1)


def yaws(*angles: float) -> Rotation:
    return Rotation.from_rotvec(np.array(angles)[:, None] * [0.0, 0.0, 1.0])


@pytest.mark.parametrize("name", META_WORLD)
def test_meta_world_sees_the_hand_two_objects_and_the_goal_now_and_before(name):
    """The hand is 4.5 cm over the tool, its opening a share of 8 cm; objects stand in the frame that the task wrote."""
    scene = Scene(name, observation="full")
    task, arm = scene.task, scene.arms["arm"]
    opening = arm["opening"] = np.array([0.02, 0.04, 0.09, -0.01])
    scene.set_arm("arm", opening=opening)
    task.refresh(arms=False)
    hand = arm["tool"] + [0.0, 0.0, 0.045]
    things, before = scene.draw.uniform(-1.0, 1.0, (N, 14)), scene.draw.uniform(-1.0, 1.0, (N, 18))
    goal = scene.draw.uniform(-1.0, 1.0, (N, 3))
    task.frame[:, 4:] = torch.from_numpy(things)
    task.before.copy_(torch.from_numpy(before))
    task.target.copy_(torch.from_numpy(goal))
    scene.check({
        "hand": hand, "opening": np.array([[0.25], [0.5], [1.0], [0.0]]), "object_1": things[:, :7], "object_2": things[:, 7:],
        "hand_before": before[:, :3], "opening_before": before[:, 3:4], "object_1_before": before[:, 4:11],
        "object_2_before": before[:, 11:], "goal": goal, "joint_position": arm["pos"], "joint_velocity": arm["vel"],
        "command": arm["goal"] - arm["tool"],
    })  # fmt: skip


def test_metrics_of_meta_world_and_of_the_others():
    """Success there: done at any step; here: for a quarter of a second, of 10 control steps, at the end."""
    for name, success, last in (
        ("table-reach", [0, 1, 1, 1], "success_at_end"),
        ("panda-lift", [0, 0, 0, 1], "done_at_any_time"),
    ):
        task = Scene(name).task
        task.done.copy_(torch.tensor([False, False, True, True]))
        task.ever_done.copy_(torch.tensor([False, True, True, True]))
        task.done_steps.copy_(torch.tensor([0, 0, 9, 10]))
        task.steps_to_done.copy_(torch.tensor([100.0, 40.0, 60.0, 20.0]))
        dt = 0.0125 if name == "table-reach" else 0.025  # s
        got = {key: value.tolist() for key, value in task.metrics().items()}
        assert got["success"] == success
        assert got["seconds"] == pytest.approx([100 * dt, 40 * dt, 60 * dt, 20 * dt])
        assert got[last] == ([0, 0, 1, 1] if last == "success_at_end" else [0, 1, 1, 1])


def test_lift():
    scene = Scene("panda-lift")
    task, tool = scene.task, scene.arms["arm"]["tool"]
    tool[3, 2] = 0.012  # in the table
    cube = tool + np.array([[0.011, 0, 0], [0.0, 0.013, 0], [0.0, 0.05, 0.1], [0.02, 0.0, 0.0]])
    goal = cube + np.array([[0.1, 0.05, 0.2], [0.0, 0.029, 0.0], [0.031, 0.0, 0.0], [-0.1, 0.1, 0.0]])
    turn = (0.3, -0.6, 1.2, 2.0)
    scene.set_arm("arm", tool=tool)
    task.target.copy_(torch.from_numpy(goal))
    scene.put(task.cube, cube, yaws(*turn))
    angle = 4.0 * np.array(turn)
    heading = np.stack((np.cos(angle), np.sin(angle)), 1)
    scene.check(scene.own("arm") | {"cube": cube - tool, "cube_heading": heading, "goal": goal - cube})
    home = task.robot.home.numpy()
    task.reached.copy_(torch.tensor([False, False, True, False]))  # world 2 has held it before
    reached = np.array([1, 0, 1, 0])
    scene.judge(
        {
            "reach": 1.0 - np.tanh(5.0 * norm(tool - cube)),
            "target": (1.0 - np.tanh(5.0 * norm(goal - cube))) * reached,
            "off_table": np.array([1.0, 1.0, 1.0, 0.0]),
            "posture": 1.0 - np.tanh(norm(scene.arms["arm"]["pos"] - home)),
        },
        [False, True, False, False],
    )


def test_stack():
    """The small cube: in the hand, off its place, on it and let go, on it and moving. Halves of edges are 25 and 35 mm."""
    scene = Scene("panda-stack")
    task, arm = scene.task, scene.arms["arm"]
    large = scene.draw.uniform(0.4, 0.6, (N, 3)) * [1, 1, 0] + [0, 0, 0.035]
    small = large + np.array([[0.1, 0.1, 0.04], [0.021, 0.0, 0.06], [0.01, 0.01, 0.065], [0.0, 0.0, 0.06]])
    tool = small + np.array([[0.01, 0.0, 0.0], [0.0, 0.03, 0.0], [0.0, 0.0, 0.05], [0.0, 0.0, 0.041]])
    scene.set_arm("arm", tool=tool)
    scene.put(task.large, large, yaws(0.1, 0.2, 0.3, 0.4))
    scene.put(task.small, small, yaws(-0.5, 0.7, 0.9, 1.1), speed=np.array([0.0, 0.0, 0.01, 0.03]))
    four = [4.0 * np.array(a) for a in ((-0.5, 0.7, 0.9, 1.1), (0.1, 0.2, 0.3, 0.4))]
    headings = [np.stack((np.cos(a), np.sin(a)), 1) for a in four]
    axes = arm["rotation"]
    expected = scene.own("arm") | {
        "tool_axes": np.concatenate((axes[:, :, 0], axes[:, :, 1]), axis=1),
        "small": small - tool, "small_heading": headings[0], "large": large - tool, "large_heading": headings[1],
    }  # fmt: skip
    scene.check(expected)
    side = 0.5 * arm["opening"][:, None] * axes[:, :, 1]
    near = (norm(tool - small) + norm(tool + side - small) + norm(tool - side - small)) / 3.0
    error = norm(small - large - [0.0, 0.0, 0.06])
    lifted = (small[:, 2] > 0.025 + 0.04).astype(float)
    align = (1.0 - np.tanh(10.0 * error)) * lifted
    stacked = np.array([0, 0, 1, 1])
    scene.judge(
        {
            "reach": np.maximum(1.0 - np.tanh(10.0 * near), align) * (1 - stacked),
            "lift": lifted * (1 - stacked), "align": align * (1 - stacked), "stack": stacked,
        },
        [False, False, True, False],
    )  # fmt: skip


def test_push_t():
    scene = Scene("panda-push-t")
    task, tool = scene.task, scene.arms["arm"]["tool"]
    at = np.array([[0.5, 0.0, 0.015], [0.55, 0.1, 0.015], [0.45, -0.05, 0.015], [0.3, 0.3, 0.015]])
    turn = np.array([math.pi / 4, 1.2, -0.4, -2.0])
    scene.put(task.tee, at, yaws(*turn))
    left = math.pi / 4 - turn
    goal = np.array([0.5, 0.0])
    scene.check(scene.own("arm") | {
        "tee": (at - tool)[:, :2], "tee_heading": np.stack((np.cos(turn), np.sin(turn)), 1),
        "goal": goal - at[:, :2], "goal_heading": np.stack((np.cos(left), np.sin(left)), 1),
    })  # fmt: skip
    task.coverage.copy_(torch.tensor([0.95, 0.475, 0.1, 0.0]))
    task.most.copy_(torch.tensor([0.2, 0.6, 0.0, 0.3]))
    scene.judge(
        {
            "coverage": np.array([1.0, 0.5, 0.1 / 0.95, 0.0]),
            "pose": 1.0 - np.tanh(4.0 * norm(at[:, :2] - goal) + 0.5 * (1.0 - np.cos(left))),
            "reach": 1.0 - np.tanh(5.0 * norm(tool - at)),
        },
        [True, False, False, False],
    )
    metrics = task.metrics()
    assert metrics["coverage"].tolist() == pytest.approx([0.95, 0.6, 0.1, 0.3])
    assert metrics["coverage_at_end"].tolist() == pytest.approx([0.95, 0.475, 0.1, 0.0])


def test_cabinet():
    """Fingers around the handle in worlds 0 and 2, above it in 1, and too far away in 3."""
    scene = Scene("panda-cabinet")
    task = scene.task
    out, speed = np.array([0.25, 0.05, 0.4, 0.005]), np.array([0.1, -0.2, 0.3, 0.0])
    origin = task.origin.double().numpy()
    assert (origin > [1.03 - 1e-6, -0.08 - 1e-6, -1e-6]).all() and (origin < [1.07 + 1e-6, 0.08 + 1e-6, 1e-6]).all()
    task.slide.set_state(None, torch.from_numpy(out).float()[:, None], torch.from_numpy(speed).float()[:, None])
    scene.env.world.forward()
    task.refresh_observation()
    handle = origin + np.array([-0.25, 0.0, 0.5]) - np.outer(out, [1.0, 0.0, 0.0])
    tool = handle + np.array([[0.005, 0.0, 0.01], [0.0, 0.0, 0.05], [0.03, 0.02, -0.005], [0.0, 0.12, 0.0]])
    opening = np.array([0.06, 0.06, 0.05, 0.08])
    turn = Rotation.from_euler(
        "yx", [[80.0, 85.0], [-60.0, -70.0], [110.0, 100.0], [75.0, 90.0]], degrees=True
    ).as_matrix()
    action = scene.draw.uniform(-1.0, 1.0, (N, 1, 4))
    scene.set_arm("arm", tool=tool, opening=opening, rotation=turn)
    task.given = {"arm": torch.from_numpy(action).float()}
    scene.check(scene.own("arm") | {"handle": handle - tool, "drawer": out[:, None], "drawer_speed": speed[:, None]})
    away = norm(tool - handle)
    into, upright = turn[:, 0, 2], np.abs(turn[:, 2, 1])
    side = 0.5 * opening * upright
    upper, lower = tool[:, 2] + side - handle[:, 2], handle[:, 2] - (tool[:, 2] - side)
    around = 0.5 * ((upper > 0) & (lower > 0) & (away < 0.1))
    assert around.tolist() == [0.5, 0.0, 0.5, 0.0]
    scene.judge(
        {
            "distance": np.where(away <= 0.02, 2.0, 1.0) / (1.0 + away**2) ** 2,
            "attitude": 0.5 * (np.sign(into) * into**2 + upright**2),
            "around": around,
            "open": out * (1.0 + 2.0 * around),
            "fingers": 2.0 * around * np.maximum(0.08 - np.abs(upper) - np.abs(lower), 0.0),
            "bonus": np.array([0.5 + 1.0, 0.5, 0.5 + 2.0, 0.0]),
            "effort": (action[:, 0, :3] ** 2).sum(1),
        },
        [False, False, True, False],
    )


def test_handover():
    """World 0: the giver brings the bar up. 1: the receiver has it alone. 2: had it, and put it down at its goal. 3: both."""
    scene = Scene("dual-panda-handover")
    task = scene.task
    bar = np.array([[0.5, 0.1, 0.08], [0.65, -0.1, 0.2], [0.7, 0.1, 0.016], [0.6, 0.02, 0.24]])
    turn = yaws(0.1, -0.2, 0.3, 0.0)
    along = turn.apply(np.tile([1.0, 0.0, 0.0], (N, 1)))
    grips = {"giver": bar - 0.065 * along, "receiver": bar + 0.065 * along}
    goal = bar + np.array([[0.2, 0.0, -0.1], [0.1, 0.1, -0.18], [0.02, 0.01, 0.0], [0.1, 0.1, -0.2]])
    tools = {
        "giver": grips["giver"] + np.array([[0.01, 0.0, 0.0], [-0.06, 0.0, 0.0], [-0.3, 0.0, 0.2], [0.0, 0.005, 0.0]]),
        "receiver": grips["receiver"]
        + np.array([[0.2, 0.1, 0.1], [0.0, 0.01, 0.0], [0.0, 0.0, 0.051], [0.0, -0.01, 0.0]]),
    }
    openings = {"giver": np.array([0.03, 0.08, 0.08, 0.03]), "receiver": np.array([0.08, 0.03, 0.08, 0.035])}
    for group in tools:
        scene.set_arm(group, tool=tools[group], opening=openings[group])
    task.target.copy_(torch.from_numpy(goal))
    task.passed.copy_(torch.tensor([False, False, True, False]))
    scene.put(task.bar, bar, turn, speed=np.array([0.0, 0.0, 0.01, 0.0]))
    for group, other in (("giver", "receiver"), ("receiver", "giver")):
        expected = scene.own(group) | {
            "bar": scene.base(group, grips[group] - tools[group], place=False),
            "bar_heading": scene.base(group, along, place=False)[:, :2],
            "partner": scene.base(group, tools[other] - tools[group], place=False),
            "partner_opening": openings[other][:, None],
        }
        if group == "receiver":
            expected["goal"] = scene.base(group, goal - tools[group], place=False)
        scene.check(expected, group)
    passed = np.array([False, True, True, False])
    height = np.clip((bar[:, 2] - 0.015) / 0.1, 0.0, 1.0)
    give, take = norm(tools["giver"] - grips["giver"]), norm(tools["receiver"] - grips["receiver"])
    held, gripped = np.array([1, 0, 0, 1]), np.array([0, 1, 0, 1])  # within 2 cm, fingers nearer than 3.6 cm
    meet = 1.0 - np.tanh(4.0 * norm(bar - [0.6, 0.0, 0.25]))
    done = np.array([False, False, True, False])
    scene.judge(
        {
            "reach": np.where(passed, 1.0, 1.0 - np.tanh(5.0 * give)),
            "lift": np.where(passed, 1.0, height * np.maximum(held, gripped)),
            "offer": np.where(passed, 1.0, height * meet),
            "take": np.where(passed, 1.0, height * (1.0 - np.tanh(5.0 * take)) * (0.5 + 0.5 * gripped)),
            "passed": passed,
            "goal": (1.0 - np.tanh(4.0 * norm(bar - goal))) * passed,
            "done": done,
        },
        done,
    )
