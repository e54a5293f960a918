"""Success of hand-grasp's expert, or of a policy, by object and sampler: the five objects of G-PAYN (arXiv 2306.03484).

    python benchmarks/hand_grasp.py --starts 50 [--policy RUN] [--objects tomato_soup_can ...]

The objects lie on the table as the task draws them; each start has a grasp of the sampler's own. Objects of which a sampler
finds no grasp that the hand can reach have no row. A policy may be of hand-grasp or of hand-grasp-objects.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import mujoco
import torch
from result_file import RESULTS, write_result
from torch import Tensor

from rookery.cli.main import guarded
from rookery.experiments.run_env import open_env
from rookery.experiments.runs import find_run
from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import matrix
from rookery.tasks.manipulation.hand_poses import SAMPLERS

OBJECTS = ("bleach_cleanser", "power_drill", "potted_meat_can", "mustard_bottle", "sugar_box")
HELD_S = 1.0  # s, of the hold that is looked at


COLUMNS = [
    {"key": "object", "title": "object"},
    {"key": "sampler", "title": "sampler"},
    {"key": "success", "title": "success rate", "format": ".2f"},
]
WHAT = {"s": "time, s", "dip": "penetration, mm", "slip": "slip, mm", "shake": "shake, mm/s"}
METRICS = {
    "s": "from the start to 10 cm, of the successes: mean and largest",
    "dip": "over the last second of the successes, how deep hand and object are in each other at the deepest contact",
    "slip": "over the last second of the successes, mean and largest; goal for success 0.5",
    "shake": "mean speed of the object over that second",
}
BESIDE = [
    {"key": "success_expert", "title": "success rate, script", "format": ".2f"},
    {"key": "s_expert", "title": "time, s, script", "format": ".1f"},
]


def measured(what: Path, controller: str, starts: int, seed: int, config: dict[str, str]) -> dict[str, float | None]:
    """A row: success rate, and mean and largest of each figure over the successes, None where there are none."""
    task = None if controller == "classical" else "hand-grasp"
    figures = grasp(*open_env(what, starts, controller=controller, task=task, seed=seed, config=dict(config)))
    good = figures.pop("success") > 0
    row: dict[str, float | None] = {"success": float(good.float().mean())}
    for name, values in figures.items():
        row[name] = round(float(values[good].mean()), 2) if good.any() else None
        row[f"{name}_max"] = round(float(values[good].max()), 2) if good.any() else None
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", type=Path, help="run or zoo folder, beside the expert; the expert alone without it")
    parser.add_argument("--objects", nargs="+", default=OBJECTS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    def measure() -> int:
        begin = time.perf_counter()
        policy = None if args.policy is None else find_run(args.policy)
        rows: list[dict[str, Any]] = []
        for name in args.objects:
            for sampler in SAMPLERS:
                config = {"object": name, "sampler": sampler}
                try:
                    row = measured(Path("hand-grasp"), "classical", args.starts, args.seed, config)
                except RookeryError as error:
                    print(f"{name}, {sampler}: {error}")
                    continue
                if policy is not None:
                    expert = {f"{key}_expert": row[key] for key in ("success", "s")}
                    row = measured(policy, "policy", args.starts, args.seed, config) | expert
                rows.append(config | row)
                print(rows[-1], flush=True)
        columns = list(COLUMNS)
        for key, title in WHAT.items():
            columns += [
                {"key": key, "title": title, "format": ".1f"},
                {"key": f"{key}_max", "title": "largest", "format": ".1f"},
            ]
        out = args.out or RESULTS / ("hand-grasp.json" if policy is None else "hand-grasp-policy.json")
        command = f"python benchmarks/hand_grasp.py {shlex.join(sys.argv[1:])}".strip()
        write_result(out, command, begin, columns + (BESIDE if policy else []), rows, METRICS)
        return 0

    return guarded(measure)


@torch.no_grad()
def grasp(env: Env, act: Act) -> dict[str, Tensor]:
    """Figures [N] of one episode in each world, the last control step left out."""
    obs, _ = env.reset()
    task: Any = env.task
    hold = round(HELD_S / env.control_dt)
    places = []
    speed = torch.zeros(env.num_envs)
    dip = torch.zeros(env.num_envs)
    for step in range(1, env.max_episode_steps):
        obs, *_ = env.step(act(obs))
        if step < env.max_episode_steps - hold:
            continue
        axes = matrix(task.hand.grasp.quat[:, 0]).view(-1, 3, 3)
        places.append(torch.einsum("nji,nj->ni", axes, task.thing.pos[:, 0] - task.hand.grasp.pos[:, 0]))
        speed += task.thing.lin_vel[:, 0].norm(dim=1) / hold
        if step % 10 == 0:
            dip = torch.maximum(dip, depth(env))
    metrics = task.metrics()
    slip = (torch.stack(places) - places[0]).norm(dim=2).amax(0)
    return {
        "success": metrics["success"], "s": metrics["seconds"], "dip": 1e3 * dip, "slip": 1e3 * slip,
        "shake": 1e3 * speed,
    }  # fmt: skip


def depth(env: Env) -> Tensor:
    """[N] m: of the deepest contact between hand and object."""
    model = env.world.model
    out = torch.zeros(env.num_envs)
    thing = model.body("thing/object").id
    data = mujoco.MjData(model)
    for i in range(env.num_envs):
        env.world.mj_data(i, data)
        contact = data.contact
        owner = model.geom_bodyid[contact.geom]
        ours = (owner == thing).any(1) & (owner != 0).all(1)
        out[i] = float(-contact.dist[ours].min(initial=0.0))
    return out


if __name__ == "__main__":
    raise SystemExit(main())
