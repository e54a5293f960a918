"""`rookery list`: the registered tasks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import Json, print_json
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rich.table import Table

    from rookery.experiments.zoo import ZooPolicy
    from rookery.listing import TaskSummary

EXAMPLES = """
  rookery list
  rookery list swarm volley
  rookery list my_task.py:MyTask
  rookery list --json | jq -r '.[].id'
"""
LINES_WIDTH = 180  # characters; in fewer the goals of `_lines` would wrap at every word


@dataclass(frozen=True)
class Args:
    """Every task: agents, observation and action sizes, engines (the default first), and policies that come with the package.

    Beside a policy's name, which every command takes in place of a run, stands how often it succeeds in nominal physics.
    """

    tasks: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(
            metavar="PART", help="Only tasks with this in their names, or the class of a file, FILE.py:CLASS."
        ),
    ] = ()
    json: Json = False


def run(args: Args) -> int:
    """Print the tasks."""
    from rookery.experiments.zoo import zoo_policies
    from rookery.listing import describe

    policies = zoo_policies()
    tasks: list[tuple[TaskSummary, list[ZooPolicy]]] = []
    broken = 0
    for name in _chosen(args.tasks):
        try:
            task = describe(name)
        except RookeryError as e:  # a task of another package that fails to load: the others are still shown
            broken += 1
            print(f"rookery: {e}", file=sys.stderr)
            continue
        mine = [p for p in policies if p.task == task.id]
        tasks.append((task, sorted(mine, key=lambda p: p.name != p.task)))  # its own first
    if args.json:
        print_json([task.to_json() | {"policies": {p.name: p.success for p in mine}} for task, mine in tasks])
        return 2 if broken else 0
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no width: a line for each task, to search in
    if tasks:
        console.print((_lines if console.width >= LINES_WIDTH else _paragraphs)(tasks))
    return 2 if broken else 0


def _chosen(parts: tuple[str, ...]) -> list[str]:
    """Names of the tasks to show, sorted; files in the order in which they were given, after them.

    Raises:
        RookeryError: no task has one of `parts` in its name.
    """
    from rookery.listing import list_tasks

    names = list_tasks()
    if not parts:
        return names
    files = [part for part in parts if ":" in part]
    words = [part for part in parts if ":" not in part]
    for word in words:
        if not any(word in name for name in names):
            raise RookeryError(
                f"no task has {word!r} in its name: `rookery list` shows all; a task in a file is FILE.py:CLASS."
            )
    return [name for name in names if any(word in name for word in words)] + files


def _said(policy: ZooPolicy) -> str:
    return f"{policy.name} {policy.success['none']:.2f}" if "none" in policy.success else policy.name


def _lines(tasks: list[tuple[TaskSummary, list[ZooPolicy]]]) -> Table:
    """A line for each task, of 170 characters and more."""
    from rich.table import Column, Table

    table = Table(
        Column("task", no_wrap=True, min_width=max((len(task.id) for task, _ in tasks), default=0)),
        "goal",
        "agents",
        "observation",
        "action",
        "engines",
        Column("policy, success", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    for task, mine in tasks:
        groups = task.groups.items()
        table.add_row(
            f"[cyan]{task.id}[/]",
            task.summary,
            "\n".join(f"{g.count} {name}" for name, g in groups),
            "\n".join(str(g.observation_size) for _, g in groups),
            "\n".join(str(g.action_size) for _, g in groups),
            ", ".join(task.engines),
            "\n".join(_said(p) for p in mine),
        )
    return table


def _paragraphs(tasks: list[tuple[TaskSummary, list[ZooPolicy]]]) -> Table:
    """The same in two columns, for a terminal that is not wide enough for `_lines`."""
    from rich.table import Column, Table

    table = Table(Column("task", no_wrap=True), "goal; agents, sizes, engines; policies", box=None, pad_edge=False)
    for task, mine in tasks:
        agents = ", ".join(
            f"{g.count} {name} (observation {g.observation_size}, action {g.action_size})"
            for name, g in task.groups.items()
        )
        policies = f"\n[green]{', '.join(_said(p) for p in mine)}[/]" if mine else ""
        table.add_row(f"[cyan]{task.id}[/]", f"{task.summary}\n[dim]{agents}; {', '.join(task.engines)}[/]{policies}")
    return table
