"""`rookery list`: the stored sizes of tasks are those of the built tasks."""

from __future__ import annotations

import json
import subprocess
import sys

import rookery
from rookery.listing import SIZES, built_sizes, describe, list_tasks
from rookery.tasks import registry
from rookery.tasks.registry import TaskEntry


def test_stored_sizes_are_those_of_the_tasks():
    assert json.loads(SIZES.read_text()) == built_sizes(), "renew the file with `python -m rookery.listing`"


def test_list_loads_no_task():
    script = (
        "import sys\n"
        "from rookery.cli.main import main\n"
        "assert main(['list', '--json']) == 0\n"
        "loaded = [n for n in sys.modules if n.split('.')[0] in ('torch', 'mujoco', 'numba') or 'rookery.tasks.' in n]\n"
        "print(sorted(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == str(["rookery.tasks.plugins", "rookery.tasks.registry"])
    assert [t["id"] for t in json.loads(done.stdout)] == list_tasks()


def test_a_registered_task_is_built(monkeypatch):
    entry = TaskEntry("hover-again", "rookery.tasks.drones.hover:Hover", "hover", engines=("rotor",))
    monkeypatch.setitem(registry.TASKS, entry.id, entry)
    env = rookery.make("drone-hover", 1)
    group = describe("hover-again").groups["drone"]
    assert (group.count, group.observation_size) == (1, env.reset()[0]["drone"].shape[-1])
    assert group.action_size == env.groups["drone"].action.size
    env.close()
