"""`rookery list`: the registered tasks."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rookery.cli.options import Json, print_json
from rookery.sim.errors import RookeryError

EXAMPLES = """
  rookery list
  rookery list --json | jq -r '.[].id'
"""


@dataclass(frozen=True)
class Args:
    """Every task: agents, observation and action sizes, engines (the default first), and policies that come with the package.

    Beside a policy's name, which every command takes in place of a run, stands how often it succeeds in nominal physics.
    """

    json: Json = False


def run(args: Args) -> int:
    """Print the tasks."""
    from rookery.experiments.zoo import zoo_policies
    from rookery.listing import describe, list_tasks

    policies = zoo_policies()
    tasks = []
    broken = 0
    for name in list_tasks():
        try:
            tasks.append(describe(name))
        except RookeryError as e:  # a task of another package that fails to load: the others are still shown
            broken += 1
            print(f"rookery: {e}", file=sys.stderr)
    if args.json:
        print_json(
            [
                task.to_json() | {"policies": {p.name: p.success for p in policies if p.task == task.id}}
                for task in tasks
            ]
        )
        return 2 if broken else 0
    from rich.console import Console
    from rich.table import Column, Table

    console = Console()
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no width: no name is cut or broken
    table = Table(
        Column("task", no_wrap=True, min_width=max((len(task.id) for task in tasks), default=0)),
        "goal",
        "agents",
        "observation",
        "action",
        "engines",
        Column("policy, success", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for task in tasks:
        groups = task.groups.items()
        mine = sorted((p for p in policies if p.task == task.id), key=lambda p: p.name != task.id)  # its own first
        table.add_row(
            f"[cyan]{task.id}[/]",
            task.summary,
            "\n".join(f"{g.count} {name}" for name, g in groups),
            "\n".join(str(g.observation_size) for _, g in groups),
            "\n".join(str(g.action_size) for _, g in groups),
            ", ".join(task.engines),
            "\n".join(f"{p.name} {p.success['none']:.2f}" if "none" in p.success else p.name for p in mine),
        )
    console.print(table)
    return 2 if broken else 0
