"""`rookery list`: the stored sizes of tasks are those of the built tasks."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rookery
import rookery.tasks
from rookery.cli.main import COMMANDS, main
from rookery.experiments.recipes import preset
from rookery.experiments.zoo import zoo, zoo_policies
from rookery.listing import GroupSummary, built_index, declared_tasks, describe
from rookery.sim.task import Task
from rookery.tasks.drones.hover import Hover
from rookery.tasks.registry import INDEX, OWN_TASKS, TASKS, TaskEntry

ROOT = Path(rookery.__file__).resolve().parents[1]


def test_the_index_is_what_the_classes_declare(monkeypatch):
    """Sizes of observations are held against the environments by the common tests of tasks."""
    stored = json.loads(INDEX.read_text())
    monkeypatch.setattr(
        "rookery.listing.built_groups", lambda task: {g: GroupSummary(**v) for g, v in stored[task]["groups"].items()}
    )
    assert stored == built_index(), "renew the file with `python -m rookery.listing`"


@pytest.mark.slow
def test_the_whole_index_is_what_the_classes_declare():
    assert json.loads(INDEX.read_text()) == built_index(), "renew the file with `python -m rookery.listing`"


def test_every_class_is_found_and_says_what_it_is():
    declared = declared_tasks()
    assert set(declared) == {name for name, entry in TASKS.items() if entry.groups is not None}
    assert issubclass(declared["drone-hover"], Task)
    for name, cls in declared.items():
        summary = (cls.__doc__ or "").split("\n")[0]
        assert summary[0].isupper() and summary.endswith(".") and len(summary) > 15, name


def test_list_loads_no_task():
    script = (
        "import sys\n"
        "from rookery.cli.main import main\n"
        "assert main(['list', '--json']) == 0\n"
        "loaded = [n for n in sys.modules if n.split('.')[0] in ('torch', 'mujoco', 'numba') or 'rookery.tasks.' in n]\n"
        "print(sorted(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == str([f"rookery.tasks.{name}" for name in ("plugins", "registry")])
    assert [t["id"] for t in json.loads(done.stdout)] == sorted(OWN_TASKS)


def test_the_zoo_is_listed_with_what_was_measured(capsys):
    """Against the rows of docs/results.md and the contracts of the policies."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "zoo.json").read_text())["rows"]
    columns = {"none": "nominal", "default": "default"}
    measured = {(row["policy"], spread): row[key] for row in rows for spread, key in columns.items()}
    listed = {p.name: p for p in zoo_policies()}
    assert set(listed) == set(zoo())
    for name, policy in listed.items():
        assert policy.task == json.loads((zoo()[name] / "contract.json").read_text())["task_id"]
        for spread in ("none", "default"):
            assert policy.success.get(spread) == pytest.approx(measured.get((name, spread)), abs=1e-4), (
                "run benchmarks/tables.py"
            )
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    (line,) = [x for x in said.splitlines() if x.startswith("go2-velocity ")]
    assert f"go2-velocity {measured['go2-velocity', 'none']:.2f}" in line
    (line,) = [x for x in said.splitlines() if x.startswith("drone-race ")]
    assert not any(character == "." for character in line)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_width_shows_all_in_whole_words(width, capsys, monkeypatch):
    """No name is cut, no word is broken, and no goal stands in a column of single words."""
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("rookery.listing.list_tasks", lambda: sorted(OWN_TASKS))  # other tests name tasks of files
    assert main(["list"]) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    said = {word.strip(",;()") for line in lines for word in line.split()}
    for name in OWN_TASKS:
        task = describe(name)
        sizes = {str(n) for g in task.groups.values() for n in (g.count, g.observation_size, g.action_size)}
        words = {name, *task.engines, *task.groups, *sizes, *(word.strip(",;()") for word in task.summary.split())}
        assert words <= said, name
    first = [i for i, line in enumerate(lines) if not line.startswith(" ")][1:]  # the heading's line is none
    assert len(first) == len(OWN_TASKS)
    assert max(b - a for a, b in itertools.pairwise(first)) <= 6, "lines of a task"


def test_a_part_of_a_name_chooses(capsys, tmp_path, monkeypatch):
    assert main(["list", "swarm", "tag-3v2", "--json"]) == 0
    named = [task["id"] for task in json.loads(capsys.readouterr().out)]
    assert named == ["drone-tag-3v2", "swarm-catch", "swarm-escort", "swarm-surround"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "higher.py").write_text(NEW)
    assert main(["list", "higher.py:HoverHigher", "MT10", "--json"]) == 0
    listed = {task["id"]: task for task in json.loads(capsys.readouterr().out)}
    assert list(listed) == ["MT10", "higher.py:HoverHigher"]
    hover = describe("drone-hover").groups["drone"]
    assert listed["higher.py:HoverHigher"]["groups"]["drone"]["observation_size"] == hover.observation_size


def test_a_part_of_no_name_is_a_sentence(capsys):
    assert main(["list", "drone", "dron-hover"]) == 2
    said = capsys.readouterr()
    assert "no task has 'dron-hover' in its name: `rookery list` shows all" in said.err and not said.out
    assert main(["list", "nowhere.py:Task"]) == 2
    said = capsys.readouterr()
    assert "there is no file" in said.err and not said.out.strip(), "no heading of nothing"


def test_a_task_without_a_policy_says_so(capsys):
    assert "drone-race" not in {p.task for p in zoo_policies()}
    for words in (["eval"], ["play"], ["gate"], ["export", "--out", "bundle"]):
        assert main([words[0], "drone-race", *words[1:]]) == 2
        said = capsys.readouterr().err
        assert "there is no policy for drone-race yet: train one with `rookery train drone-race`" in said


def test_help_names_policies_of_the_zoo_as_they_work_everywhere(capsys, in_tmp):
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert "policies/zoo" not in capsys.readouterr().out, command
    assert main(["eval", "drone-hover", "--episodes", "1", "--num-envs", "1", "--task-config", "episode_s=0.1"]) == 0


def test_a_registered_task_is_built(monkeypatch):
    monkeypatch.setitem(TASKS, "hover-again", TaskEntry.of(Hover, "hover-again"))
    env = rookery.make("drone-hover", 1)
    group = describe("hover-again").groups["drone"]
    assert (group.count, group.observation_size) == (1, env.reset()[0]["drone"].shape[-1])
    assert group.action_size == env.groups["drone"].action.size
    env.close()


NEW = '''"""A task of one file."""

from rookery.tasks.drones.hover import Hover


class HoverHigher(Hover):
    """Each drone stays higher than its target."""

    name = "test-hover-higher"
'''


def test_a_new_file_is_all_that_the_index_needs(tmp_path, monkeypatch):
    """No table names a task: its class is found, with the engines and the training settings of the one it derives from."""
    (tmp_path / "new_task.py").write_text(NEW)
    monkeypatch.setattr(rookery.tasks, "__path__", [*rookery.tasks.__path__, str(tmp_path)])
    cls = declared_tasks()["test-hover-higher"]
    entry = TaskEntry.of(cls)
    assert (entry.summary, entry.engines) == ("Each drone stays higher than its target", TASKS["drone-hover"].engines)
    monkeypatch.setitem(TASKS, entry.id, entry)
    assert rookery.make(entry.id, 2).engine == "rotor"
    assert preset(entry.id).runner == preset("drone-hover").runner
    monkeypatch.delitem(sys.modules, "rookery.tasks.new_task")
