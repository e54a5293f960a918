"""`rookery new`: a project of your own, ready to run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rookery.sim.errors import unknown

EXAMPLES = """
  rookery new task my-balance
  rookery new task my-balance --template blank --out work/my-balance
  rookery new robot my-drone
  rookery new robot my-dog --template quadruped
"""
KINDS = ("task", "robot")


@dataclass(frozen=True)
class Args:
    """Write a project with a task or a robot of your own, its tests, and a pyproject.toml that registers it."""

    kind: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="KIND", help="task or robot.")]
    name: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help="Lower-case letters, digits and '-': my-balance.")
    ]
    template: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help=(
                "Of a task: worked (a complete example), drone, quadruped, arm or match (on this package's bases), "
                "stubbed (every part explained) or blank; worked if left out. Of a robot: drone (a package with one), "
                "quadruped, quadrotor or arm (a URDF file, its settings); drone if left out."
            ),
        ),
    ] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help="New folder; NAME if left out.")] = None


def run(args: Args) -> int:
    """Write the project."""
    from rookery.scaffold import write_project

    if args.kind not in KINDS:
        raise unknown("kind", args.kind, KINDS)
    project = write_project(args.kind, args.name, args.template, args.out)
    print(f"wrote {len(project.files)} files to {project.folder}")
    print(f"  cd {project.folder}")
    for command in project.commands:
        print(f"  {command}")
    return 0
