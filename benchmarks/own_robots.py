"""Public robots by their URDFs: which are read and pass the checks, and how still they stand for 10 s.

    python benchmarks/own_robots.py

The files come with pybullet. Each quadruped stands in go2-velocity at its own guessed stance and gains, without commands and
pushes; what is refused is written down with its sentence.
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
from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

FILES = (
    "a1/a1.urdf", "aliengo/aliengo.urdf", "laikago/laikago_toes_zup.urdf", "quadruped/spirit40.urdf", "quadruped/vision60.urdf",
    "mini_cheetah/mini_cheetah.urdf", "laikago/laikago_toes_limits.urdf", "quadruped/minitaur.urdf", "kuka_iiwa/model.urdf",
)  # fmt: skip
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "own-robots.json")
    args = parser.parse_args()
    start = time.perf_counter()
    found = list(rows())
    for row in found:
        print({k: v for k, v in row.items() if k not in ("guessed", "notes")}, flush=True)
    write_result(args.out, "python benchmarks/own_robots.py", start, COLUMNS, found, METRICS)


if __name__ == "__main__":
    main()
