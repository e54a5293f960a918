"""`rookery scene`: a task's scene as an MJCF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rookery.cli.options import Json, Seed, Task, TaskConfig, print_json, values

EXAMPLES = """
  rookery scene go2-velocity --out scenes/go2
  python -m mujoco.viewer --mjcf=scenes/go2/scene.xml
"""


@dataclass(frozen=True)
class Args:
    """Write a task's scene as scene.xml, an MJCF that plain MuJoCo opens, with the files that it names.

    Masses, geoms, joints and actuators are the task's own. The keyframe `start` is the start of an episode.
    """

    task: Task
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="Folder of scene.xml; files of that name are replaced.")]
    task_config: TaskConfig = ()
    seed: Seed = 0
    json: Json = False


def run(args: Args) -> int:
    """Write and say what was written."""
    from rookery.making import make
    from rookery.sim.envs.vec_env import VecEnv
    from rookery.tasks.registry import find

    entry = find(args.task)
    entry.load()  # a set of tasks has no scene and says so
    entry.check("mujoco")
    env = make(args.task, engine="mujoco", seed=args.seed, config=values(args.task_config, "--task-config"))
    try:
        inner = env.unwrapped
        assert isinstance(inner, VecEnv)
        env.reset()
        written = inner.world.scene.save(args.out / "scene.xml", inner.world.mj_data(0))
    finally:
        env.close()
    if args.json:
        print_json({"task": args.task, "files": [str(file) for file in written]})
        return 0
    print(f"wrote the scene of {args.task} to {written[0]}" + (f" and {len(written) - 1} files" if written[1:] else ""))
    print(f"Open it with: python -m mujoco.viewer --mjcf={written[0]}")
    return 0
