"""One page a task: picture, observation and action spaces with units, rewards, randomization, settings, figures, commands.

Everything is read from the task itself and from the results in benchmarks/results; nothing is written twice.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import rookery
from rookery.experiments.judging import interface_of
from rookery.tasks.registry import TaskEntry, find

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images" / "tasks"
ZOO = ROOT / "policies" / "zoo"


def pages() -> dict[str, str]:
    """Markdown by uri."""
    out = {}
    rows = ["# Tasks\n", "| task | what the agents do | engines | zoo |", "|---|---|---|---|"]
    for name in sorted(t for t in rookery.list_tasks() if find(t).id == t):
        entry = find(name)
        out[f"tasks/{name}.md"] = _set_page(entry) if entry.members else _page(entry)
        zoo = "policy" if (ZOO / name).is_dir() else ""
        rows.append(f"| [`{name}`]({name}.md) | {entry.summary} | {', '.join(entry.engines)} | {zoo} |")
    return out | {"tasks/index.md": "\n".join(rows) + "\n"}


def _page(entry: TaskEntry) -> str:
    env = rookery.make(entry.id, 1)
    cls = entry.load()
    base = env.unwrapped
    parts = [
        _head(entry),
        inspect.cleandoc(cls.__doc__ or "") + "\n",
        f"Control period {env.control_dt * 1000:g} ms, at most {env.max_episode_steps} steps an episode; engines "
        f"{', '.join(entry.engines)}.\n",
        *(_group(name, group) for name, group in env.groups.items()),
        _rewards(base.task),
        _ends(env),
        _randomization(base),
        _config(cls.Config, interface_of(entry)),
        _figures(entry.id),
        _commands(entry.id),
    ]
    env.close()
    return "\n".join(p for p in parts if p)


def _set_page(entry: TaskEntry) -> str:
    members = "\n".join(f"- [`{m}`]({entry.task_of(m)}.md)" for m in entry.members)
    what = f"{entry.summary}.\n\nOne environment whose worlds hold different tasks:"
    return f"{_head(entry)}\n{what}\n\n{members}\n\n{_commands(entry.id)}"


def _head(entry: TaskEntry) -> str:
    image = IMAGES / f"{entry.id}.jpg"
    picture = f"\n![{entry.id}](../images/tasks/{entry.id}.jpg)\n" if image.exists() else ""
    return f"# {entry.id}\n{picture}"


def _table(title: str, columns: list[str], rows: list[list[object]]) -> str:
    if not rows:
        return ""
    body = "\n".join("| " + " | ".join(_cell(c) for c in row) + " |" for row in rows)
    return f"## {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n{body}\n"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isinf(value) else f"{value:g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _group(name: str, group: Any) -> str:
    observation = [
        [f"`{t.name}`", t.size, t.unit, t.frame, t.scale, t.clip, t.noise or "", t.bias or ""]
        for t in group.observation
    ]
    a = group.action
    action = [[f"`{n}`", low, high, unit] for n, low, high, unit in zip(a.names, a.low, a.high, a.units, strict=True)]
    history = f", {group.history} frames" if group.history > 1 else ""
    return (
        f"Group `{name}`: {group.count} agent{'s' * (group.count > 1)}, observation of {group.observation_size} values"
        f"{history}, action `{a.kind}` of {a.size}.\n\n"
        + _table(
            f"Observation of `{name}`", ["term", "size", "unit", "frame", "scale", "clip", "noise", "bias"], observation
        )
        + "\n"
        + _table(f"Action of `{name}`", ["component", "at -1", "at +1", "unit"], action)
    )


def _rewards(task: Any) -> str:
    weights = dict(task.cfg.reward)
    of = {term: [o for o, terms in task.objectives.items() if term in terms] for term in weights}
    rows: list[list[object]] = [[f"`{t}`", w, ", ".join(of[t])] for t, w in weights.items()]
    if not task.objectives:
        rows = [row[:2] for row in rows]
    return _table("Reward", ["term", "weight", "objective"][: 3 if task.objectives else 2], rows)


def _ends(env: Any) -> str:
    causes = ", ".join(f"`{c}`" for c in env.causes)
    return f"An episode terminates by: {causes}.\n" if causes else ""


def _randomization(env: Any) -> str:
    ranges = env.task.default_randomization
    if ranges is None:
        from rookery.sim.randomization.ranges import DEFAULT

        ranges = DEFAULT
    rows: list[list[object]] = []
    for name, p in env.randomization.parameters.items():
        r = ranges.get(name)
        default = f"{r.low:g} to {r.high:g}" if r else ""
        rows.append([f"`{name}`", p.summary, p.unit, default, f"{p.low:g} to {p.high:g}"])
    return _table("Randomization", ["parameter", "what it is", "unit", "`--randomize default`", "accepted"], rows)


def _config(cls: type, interface: Collection[str]) -> str:
    rows: list[list[object]] = []
    notes = _notes(cls)
    for f in dataclasses.fields(cls):
        if f.name == "reward":
            continue
        value = f.default if f.default is not dataclasses.MISSING else f.default_factory()  # type: ignore[misc]
        owner = "policy" if f.name in interface else "task"
        rows.append([f"`{f.name}`", f"`{value}`", owner, notes.get(f.name, "")])
    return _table("Config", ["field", "default", "[belongs to](../gate.md#what-judges)", "unit and meaning"], rows)


def _notes(cls: type) -> dict[str, str]:
    """The comment behind each field of a dataclass and its bases."""
    out: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        for line in inspect.getsource(base).splitlines():
            found = re.match(r"    (\w+): [^#]*#\s*(.*)", line)
            if found:
                out[found[1]] = found[2]
    return out


def _figures(task: str) -> str:
    """The row of benchmarks/results/zoo.json on the policy of the zoo."""
    file = ROOT / "benchmarks" / "results" / "zoo.json"
    if not file.exists():
        return ""
    data = json.loads(file.read_text())
    columns = data["columns"][1:]
    rows = [[_round(r[c["key"]]) for c in columns] for r in data["rows"] if r["policy"] == task]
    return _table("Policy of the zoo", [c["title"] for c in columns], rows) if rows else ""


def _round(value: object) -> object:
    return "" if value is None else float(f"{value:.4g}") if isinstance(value, float) else value


def _commands(task: str) -> str:
    run = task if (ZOO / task).is_dir() else f"runs/{task}/latest"
    lines = [f"rookery train {task}", f"rookery eval {run} --randomize default", f"rookery play {run} --out {task}.mp4"]
    return "## Commands\n\n```console\n" + "\n".join(f"$ {line}" for line in lines) + "\n```\n"
