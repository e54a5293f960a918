"""How far things creep in the gripper of a walking Go2: benchmarks/results/contact-carried.json; see contacts.py.

Measured under the policy of go2arm-loco-manipulation, while the trajectory has the gripper closed and the thing is off the
ground, from 0.4 s after it was lifted: the way of the thing's middle in the frame of the tool, in all directions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from machine import commit
from result_file import RESULTS, measured, told, write_result

from rookery.experiments.run_env import open_env
from rookery.sim.rotations import matrix
from rookery.tasks.locomanip.generators import BALL_RADIUS, BOX_HALF
from rookery.tasks.locomanip.tool_pose import tool_in_world

OUT = RESULTS / "contact-carried.json"
CASES = {"carry": 2.0 * BOX_HALF[1], "pick-box": 2.0 * BOX_HALF[1], "pick-ball": 2.0 * BALL_RADIUS}
"""Task of the table: m, the width that the gripper holds."""
STEPS_S = (0.005, 0.0025)  # s, physics steps
LIFTED = 0.1  # m
BEGIN = 20  # control steps off the ground before it is measured
LEAST = 50  # control steps held, of an episode that counts
LOST = 0.1  # m, from the tool centre
SECONDS = 22.0
COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "dt", "title": "physics step, ms", "format": ".1f"},
    {"key": "held", "title": "episodes that hold it", "format": "d"},
    {"key": "lost", "title": "lost", "format": "d"},
    {"key": "median", "title": "creep, median, mm/s", "format": ".2f"},
    {"key": "most", "title": "90 %, mm/s", "format": ".2f"},
    {"key": "greatest", "title": "greatest, mm/s", "format": ".2f"},
    {"key": "away", "title": "farthest, mm", "format": ".2f"},
]
METRICS = {
    "median": "way of the thing's middle in the tool's frame from first to last of the time held, over that time; median, 90 % "
    "and greatest over episodes",
    "away": "greatest distance of the thing's middle from where it was at first, in the tool's frame, of all episodes",
    "lost": f"of these, how many dropped it while the gripper was told to stay closed: farther than {LOST:g} m",
}


@torch.no_grad()
def carry(run: Path, case: str, dt: float, worlds: int) -> dict[str, Any]:
    """A row: one episode of each world."""
    env, act = open_env(run, worlds, seed=5, config={"tasks": case, "dt": dt})
    task: Any = env.task
    obs, _ = env.reset(seed=5)
    frames = []
    for _ in range(round(SECONDS / env.control_dt)):
        obs = env.step(act(obs))[0]
        trunk = matrix(task.robot.base.quat[:, 0]).view(-1, 3, 3)
        tool = matrix(task.pose.quat).view(-1, 3, 3)
        inside = torch.einsum(
            "nkj,njl,nl->nk", tool.mT, trunk.mT, task.stage.thing - tool_in_world(task.robot, task.pose)
        )
        signs = task.stage.signs(tool_in_world(task.robot, task.pose), torch.zeros(worlds), torch.zeros(worlds))
        opening = task.goals.reference(0.0).gripper.flatten()
        frames.append(torch.stack((*inside.T, signs.in_hand, signs.lifted, opening, task.goals.clock.float())))
    env.close()
    x, y, z, away, lifted, opening, clock = torch.stack(frames, dim=1)
    place = 1000.0 * torch.stack((x, y, z), dim=-1)
    creep = []
    farthest = 0.0
    lost = 0
    for w in range(worlds):
        ends = (clock[1:, w] < clock[:-1, w]).nonzero()
        end = int(ends[0]) + 1 if len(ends) else len(clock)
        closed = opening[:end, w] < CASES[case]
        held = (closed & (lifted[:end, w] > LIFTED) & (away[:end, w] < LOST)).nonzero().flatten()[BEGIN:]
        if len(held) < LEAST:
            continue
        first, last = int(held[0]), int(held[-1])
        moved = (place[held, w] - place[first, w]).norm(dim=1)
        farthest = max(farthest, float(moved.max()))
        creep.append(float(moved[-1]) / ((last - first) * env.control_dt))
        lost += bool((closed[last:] & (away[last:end, w] > LOST)).any())
    speeds = torch.tensor(creep)
    row = {"case": case, "dt": 1000.0 * dt, "held": len(creep), "lost": lost, "away": farthest}
    speed = {"median": float(speeds.median()), "most": float(speeds.quantile(0.9)), "greatest": float(speeds.max())}
    return row | speed | {"creep": [round(c, 4) for c in creep]}


def write(run: Path, cases: Sequence[str] = (), worlds: int = 32) -> None:
    """Write contact-carried.json, a row for each task and physics step; rows of tasks not among `cases` stay."""
    start = time.perf_counter()
    rows = {(r["case"], r["dt"]): r for r in json.loads(OUT.read_text())["rows"]} if OUT.exists() else {}
    policy = f"policy {run} of the zoo, as of commit {commit(f'policies/zoo/{run}')}"
    order, only = ([(c, 1000.0 * dt) for c in chosen for dt in STEPS_S] for chosen in (CASES, cases or CASES))
    for own, _ in measured(rows, order, only, lambda key: carry(run, key[0], key[1] / 1000.0, worlds)):
        more = {"notes": f"{policy}."} | told(own)
        write_result(OUT, "python benchmarks/contacts.py --carried", start, COLUMNS, own, METRICS, **more)
