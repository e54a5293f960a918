"""Public robots by their URDFs: which are read and pass the checks, and how still they stand for 10 s.

    python benchmarks/own_robots.py

The files come with pybullet. Each quadruped stands in go2-velocity at its own guessed stance and gains, without commands and
pushes; each arm is held at its guessed home by its servos, let go 0.02 rad off, and its scripted expert does the table-top
tasks. What is refused is written down with its sentence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pybullet_data
import torch
from result_file import RESULTS, write_result

import rookery
from rookery.robots import load
from rookery.robots.manipulators.model import ManipulatorModel
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.own.arm_drives import hold
from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

FILES = (
    "a1/a1.urdf", "aliengo/aliengo.urdf", "laikago/laikago_toes_zup.urdf", "quadruped/spirit40.urdf", "quadruped/vision60.urdf",
    "mini_cheetah/mini_cheetah.urdf", "laikago/laikago_toes_limits.urdf", "quadruped/minitaur.urdf",
)  # fmt: skip
ARMS: dict[str, dict[str, Any]] = {
    "franka_panda/panda.urdf": {}, "kuka_iiwa/model.urdf": {}, "xarm/xarm6_robot.urdf": {"mend_inertia": True},
    "xarm/xarm6_with_gripper.urdf": {"mend_inertia": True},
}  # fmt: skip
"""Files of arms, and settings."""
TASKS = {"reach": "table-reach", "push": "table-push", "pick": "table-pick-place"}
EPISODES = 100
SECONDS = 10.0
COLUMNS = (
    {"key": "file", "title": "file", "format": ""},
    {"key": "mass", "title": "kg", "format": ".1f"},
    {"key": "height", "title": "stands at, m", "format": ".3f"},
    {"key": "tilt", "title": "tilt, degrees", "format": ".1f"},
    {"key": "drift", "title": "drift, mm", "format": ".1f"},
    {"key": "result", "title": "result", "format": ""},
)
METRICS = {
    "mass": "of all links, kg",
    "height": "of the trunk's frame over the ground at the end, m",
    "tilt": "largest angle between the trunk's and the world's up, degrees",
    "drift": "horizontal distance of the trunk at the end from where it was after 1 s, mm",
    "result": "stands: no fall in 10 s; refused: by a sentence, which the JSON file has",
}


def rows() -> Iterator[dict[str, Any]]:
    """One row for each file."""
    for name in FILES:
        try:
            yield {"file": name, **stand(Path(pybullet_data.getDataPath()) / name)}
        except RookeryError as error:
            sentence = str(error).replace(pybullet_data.getDataPath() + "/", "")
            nothing = {"mass": None, "height": None, "tilt": None, "drift": None}
            yield {"file": name, **nothing, "result": "refused", "sentence": sentence}


def stand(file: Path) -> dict[str, Any]:
    """How a robot stands."""
    robot = load_quadruped(file)
    config = {"robot": str(file), "push_s": 0.0, "stand_share": 1.0, "start_joints": 0.0, "episode_s": SECONDS + 1.0}
    env = rookery.make("go2-velocity", config=config)
    env.reset(seed=0)
    still = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(1, 1, -1)}
    task = env.unwrapped.task
    least, begin, fell = 1.0, torch.zeros(2), False
    for step in range(round(SECONDS / env.control_dt)):
        _, _, terminated, _, _ = env.step(still)
        fell |= bool(terminated.any())
        least = min(least, float(task.robot.up[0, 2]))
        if step == round(1.0 / env.control_dt):
            begin = task.robot.base.pos[0, 0, :2].clone()
    drift = 1e3 * float((task.robot.base.pos[0, 0, :2] - begin).norm())
    tilt = float(torch.rad2deg(torch.acos(torch.tensor(min(1.0, least)))))
    mass = float(env.unwrapped.world.model.body_mass.sum())
    height = float(task.height[0])
    env.close()
    return {
        "mass": mass, "height": height, "tilt": tilt, "drift": drift, "result": "falls" if fell else "stands",
        "guessed": list(robot.guessed), "notes": list(robot.notes),
    }  # fmt: skip


ARM_COLUMNS = (
    {"key": "file", "title": "file", "format": ""},
    {"key": "joints", "title": "joints", "format": "d"},
    {"key": "mass", "title": "kg", "format": ".1f"},
    {"key": "drift", "title": "drift, mrad", "format": ".1e"},
    {"key": "nearer", "title": "nearer, m", "format": ".2f"},
    *({"key": key, "title": task, "format": ".2f"} for key, task in TASKS.items()),
)
ARM_METRICS = {
    "joints": "of the arm",
    "mass": "of all links, kg",
    "drift": "largest angle of a joint from home between 1 s and 10 s, mrad",
    "nearer": "how much nearer to the table's things it stands than our Panda, m",
    **{
        key: f"share of {EPISODES} episodes of {task} in which the scripted expert succeeds; empty: no fingers"
        for key, task in TASKS.items()
    },
}


def arm_rows() -> Iterator[dict[str, Any]]:
    """One row for our Panda and for each file of an arm."""
    yield {"file": "our Panda", **arm_row(PANDA)}
    for name, settings in ARMS.items():
        robot = load(
            Path(pybullet_data.getDataPath()) / name, **settings, name=f"own_{Path(name).parent.name}_{Path(name).stem}"
        )
        yield {"file": name, **arm_row(robot.model), "guessed": list(robot.guessed), "notes": list(robot.notes)}


def arm_row(model: ManipulatorModel) -> dict[str, Any]:
    """How an arm holds still, and what it does."""
    shares = {key: done(model.name, task) if model.fingers or key == "reach" else None for key, task in TASKS.items()}
    mass = float(model.spec().compile().body_mass.sum())
    return {
        "joints": len(model.joints),
        "mass": mass,
        "drift": 1e3 * hold(model, SECONDS),
        "nearer": model.nearer,
        **shares,
    }


def done(robot: str, task: str) -> float:
    """Share of episodes in which the scripted expert does a task."""
    env = rookery.make(task, num_envs=EPISODES, config={"robot": robot})
    act = env.controller()
    obs, _ = env.reset(seed=0)
    for _ in range(env.max_episode_steps - 1):
        obs, *_ = env.step(act(obs))
    share = float(env.unwrapped.task.metrics()["success"].mean())
    env.close()
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "own-robots.json")
    parser.add_argument("--arms-out", type=Path, default=RESULTS / "own-arms.json")
    args = parser.parse_args()
    start = time.perf_counter()
    found = list(rows())
    for row in found:
        print({k: v for k, v in row.items() if k not in ("guessed", "notes")}, flush=True)
    write_result(args.out, "python benchmarks/own_robots.py", start, COLUMNS, found, METRICS)
    start = time.perf_counter()
    arms = list(arm_rows())
    for row in arms:
        print({k: v for k, v in row.items() if k not in ("guessed", "notes")}, flush=True)
    write_result(args.arms_out, "python benchmarks/own_robots.py", start, ARM_COLUMNS, arms, ARM_METRICS)


if __name__ == "__main__":
    main()
