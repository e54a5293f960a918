"""Success of hand-grasp's expert, or of a policy, by object and sampler: the five objects of G-PAYN (arXiv 2306.03484).

    python benchmarks/hand_grasp.py --starts 50 [--policy RUN] [--objects tomato_soup_can ...]

Seconds: from the start to 10 cm. Over the last second of the successful episodes: `dip`, how deep hand and object are in each
other at the deepest contact, `slip`, how far the object moves in the hand, and `shake`, the object's mean speed; of each
the mean over episodes and the largest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mujoco
import torch
from machine import machine
from torch import Tensor

from rookery.run_env import open_env
from rookery.runs import find_run
from rookery.sim.env import Act, Env
from rookery.sim.rotations import matrix
from rookery.tasks.manipulation.hand_poses import SAMPLERS

OBJECTS = ("bleach_cleanser", "power_drill", "potted_meat_can", "mustard_bottle", "sugar_box")
HELD_S = 1.0  # s, of the hold that is looked at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", type=Path, help="run or zoo folder; the expert without it")
    parser.add_argument("--objects", nargs="+", default=OBJECTS)
    args = parser.parse_args()
    print(machine())
    print("\n| object | sampler | success | seconds | dip, mm | slip, mm | shake, mm/s |")
    print("|---|---|---|---|---|---|---|")
    what = Path("hand-grasp") if args.policy is None else find_run(args.policy)
    controller = "classical" if args.policy is None else "policy"
    won = 0.0
    all_of_them = 0
    for name in args.objects:
        for sampler in SAMPLERS:
            config = {"object": name, "sampler": sampler}
            figures = grasp(*open_env(what, args.starts, controller=controller, seed=args.seed, config=config))
            good = figures.pop("success") > 0
            won = won + float(good.sum())
            all_of_them = all_of_them + args.starts
            cells = [f"{v[good].mean():.1f} ({v[good].max():.1f})" if good.any() else "-" for v in figures.values()]
            print(f"| {name} | {sampler} | {good.float().mean():.2f} | " + " | ".join(cells) + " |", flush=True)
    print(f"\noverall {won / all_of_them:.2f} of {all_of_them} starts")


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
        "success": metrics["success"], "seconds": metrics["seconds"], "dip": 1e3 * dip, "slip": 1e3 * slip,
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
    main()
