"""Pictures of all tasks for their pages: some time into an episode, flown by the zoo's policy or the task's controller.

python docs/site/task_images.py [TASK ...]      # writes docs/images/tasks/<task>.jpg
"""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
import torch
from PIL import Image

import rookery
from rookery.experiments.run_env import open_env
from rookery.experiments.zoo import zoo as zoo_policies
from rookery.sim.env import Env
from rookery.sim.rendering.renderer import Renderer
from rookery.tasks.registry import find

OUT = Path(__file__).resolve().parents[1] / "images" / "tasks"
WIDTH = 480
HEIGHT = 270
SECONDS = 1.5


def picture(task: str) -> Image.Image:
    """One frame of a task."""
    if task in zoo_policies():
        env, act = open_env(Path(task), 1)
    else:
        env = rookery.make(task, 1)
        act = env.controller()
    if act is None:

        def act(obs):  # type: ignore[no-untyped-def]
            return {g: torch.tensor(s.action.neutral).expand(1, s.count, -1) for g, s in env.groups.items()}

    obs, _ = env.reset(seed=1)
    for _ in range(min(round(SECONDS / env.control_dt), env.max_episode_steps - 1)):
        obs, *_ = env.step(act(obs))
    camera = _around_drones(env) if task.startswith(("swarm-", "uav-")) else env.camera
    renderer = Renderer(env.visual_model(), width=2 * WIDTH, height=2 * HEIGHT, camera=camera)
    with renderer:
        frame = renderer.render(env.mj_data(0), env.markers(0))
    env.close()
    return Image.fromarray(frame).resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def _around_drones(env: Env) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Eye and target (m) from which all drones are as large as they can be: theirs are the smallest robots."""
    data = env.mj_data(0)
    model = env.visual_model()
    bases = [i for i in range(model.nbody) if model.body(i).name.endswith("/base")]
    mujoco.mj_kinematics(model, data)
    places = data.xpos[bases]
    middle = places.mean(0)
    radius = float(np.linalg.norm(places - middle, axis=1).max())
    eye = middle + (1.1 * radius + 0.3) * np.array([0.5, -1.0, 0.45])
    return tuple(eye.tolist()), tuple(middle.tolist())


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or [t for t in rookery.list_tasks() if not find(t).members]:
        picture(name).save(OUT / f"{name}.jpg", quality=80, optimize=True)
        print(name, flush=True)
