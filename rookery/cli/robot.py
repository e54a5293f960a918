"""`rookery robot`: what Rookery makes of a robot's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rookery.cli.options import Json, print_json

EXAMPLES = """
  rookery robot my_dog.urdf
  rookery robot mujoco_menagerie/unitree_go2/go2.xml --json
"""
USES = {
    "quadruped": "rookery train go2-velocity --task-config robot={}",
    "drone": "rookery train drone-hover --task-config drone={}",
    "arm": "rookery train table-reach --task-config robot={}",
}
"""By family, a training with the robot."""


@dataclass(frozen=True)
class Args:
    """Read a robot's URDF or MJCF file, check it, and show what was guessed and what was changed.

    Settings that the file cannot hold stand in a TOML file of the same name beside it, see docs/own_robot.md.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE", help="URDF or MJCF file.")]
    family: Annotated[str | None, tyro.conf.arg(metavar="NAME", help="What it is; by its joints if left out.")] = None
    json: Json = False


def run(args: Args) -> int:
    """Check and print; an error where the robot cannot be used."""
    import dataclasses

    from rookery.robots import load

    robot = load(args.file, args.family)
    if args.json:
        fields = dataclasses.fields(robot.model)
        model = {f.name: v for f in fields if not callable(v := getattr(robot.model, f.name))}
        print_json(
            {
                "name": robot.name,
                "family": robot.family,
                "guessed": robot.guessed,
                "notes": robot.notes,
                "warnings": robot.warnings,
                "model": model,
            }
        )
        return 0
    article = "an" if robot.family == "arm" else "a"
    print(f"{robot.name}: {article} {robot.family} that tasks can use")
    for title, lines in (
        ("warning", robot.warnings),
        ("guessed (set in " + args.file.stem + ".toml)", robot.guessed),
        ("note", robot.notes),
    ):
        for line in lines:
            print(f"  {title}: {line}")
    print(f"Train it with: {USES[robot.family].format(args.file)}")
    return 0
