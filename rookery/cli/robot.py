"""`rookery robot`: what Rookery makes of a robot's file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import Json, print_json
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.robot_check import Check
    from rookery.robots.own.result import OwnRobot

EXAMPLES = """
  rookery robot my_dog.urdf
  rookery robot check my_dog.urdf --picture my_dog.png
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
    """Read a robot's URDF or MJCF file, and show what was guessed and what was changed; with `check` before it, try the robot
    in the tasks of its family: what it can do, what standing earns beside falling, whether commands are reachable.

    Settings that the file cannot hold stand in a TOML file of the same name beside it, see docs/own_robot.md.
    """

    words: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[check] FILE", help="A URDF or MJCF file.")
    ]
    family: Annotated[str | None, tyro.conf.arg(metavar="NAME", help="What it is; by its joints if left out.")] = None
    picture: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="check: .png file for a picture of the robot at home.")
    ] = None
    json: Json = False


def run(args: Args) -> int:
    """Read, try and print; 2 where something speaks against training it, an error where it cannot be used."""
    from rookery.robots import load

    tried = args.words[:1] == ("check",)
    files = args.words[tried:]
    if len(files) != 1 or (args.picture is not None and not tried):
        raise RookeryError("give one file: `rookery robot FILE`, or `rookery robot check FILE [--picture FILE.png]`.")
    file = Path(files[0])
    robot = load(file, args.family)
    robot.warn()
    check = None
    if tried:
        from rookery.robot_check import check_robot

        check = check_robot(robot, args.picture)
    if args.json:
        print_json(_values(robot) | ({} if check is None else {"check": dataclasses.asdict(check)}))
    else:
        _show(file, robot, check)
    return 2 if check is not None and check.problems else 0


def _values(robot: OwnRobot[Any]) -> dict[str, Any]:
    fields = dataclasses.fields(robot.model)
    model = {f.name: v for f in fields if not callable(v := getattr(robot.model, f.name))}
    return {
        "name": robot.name, "family": robot.family, "guessed": robot.guessed, "notes": robot.notes,
        "warnings": robot.warnings, "model": model,
    }  # fmt: skip


def _show(file: Path, robot: OwnRobot[Any], check: Check | None) -> None:
    article = "an" if robot.family == "arm" else "a"
    print(f"{robot.name}: {article} {robot.family} that tasks can use")
    guessed = f"guessed (set in {file.stem}.toml)"
    told = ((guessed, robot.guessed), ("note", robot.notes))
    for title, texts in told:
        for line in texts:
            print(f"  {title}: {line}")
    if check is not None:
        for name, value in check.facts.items():
            print(f"  {name}: {value}")
        for task, said in check.tasks.items():
            for line in said:
                print(f"  {task}: {line}")
        for problem in check.problems:
            print(f"  PROBLEM: {problem}")
    print(f"Train it with: {USES[robot.family].format(file)}")
