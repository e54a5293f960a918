"""Rooms import only what the design lets them: assets <- sim <- robots <- tasks, sim <- policies, sim2real on top."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from trees import modules, nodes

ROOT = Path(__file__).resolve().parent.parent
# By room, what may follow "rookery." in its imports. Of the front door, sim2real needs only the version.
MAY_IMPORT = {
    "assets": {"assets"},
    "sim": {"sim", "assets"},
    "robots": {"robots", "sim", "assets"},
    "tasks": {"tasks", "robots", "sim", "assets"},
    "policies": {"policies", "sim", "assets"},
    "sim2real": {"sim2real", "policies", "tasks", "robots", "sim", "assets", "version"},
}
ROOMS = [*MAY_IMPORT, "rookery"]


def imports(file: Path) -> list[tuple[int, str]]:
    """Line and full name of every import in a file, also of those inside functions."""
    found = []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import; say `from rookery.<room>...`"
            # `from rookery import sim` is an import of rookery.sim
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_imports_no_higher_room(room):
    wrong = []
    for file in modules(room):
        for line, name in imports(file):
            parts = name.split(".")
            if parts[0] == "rookery" and (len(parts) < 2 or parts[1] not in MAY_IMPORT[room]):
                wrong.append(f"{file.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_a_room_by_its_bare_name():
    """`import sim` works in the root of a checkout and nowhere else."""
    named = re.compile(rf"\bimport\s+({'|'.join(MAY_IMPORT)})\b|\bfrom\s+({'|'.join(MAY_IMPORT)})\b")
    files = [f for top in [*ROOMS, "tests", "benchmarks"] for f in modules(top) if named.search(f.read_text())]
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name.split(".")[0] in MAY_IMPORT
    ]
    assert not wrong, "\n".join(wrong)


def test_only_engines_import_engines():
    """The others ask `find_engine` what an engine can do, and its World what it has; the doctor looks at packages."""
    engines = {f.parent.name for f in (ROOT / "sim" / "engines").glob("*/world.py")}
    assert engines == {"mujoco", "pybullet", "rotor"}
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in (
            f
            for room in ROOMS
            for f in modules(room)
            if ROOT / "sim" / "engines" not in f.parents and f.name != "doctor.py"
        )
        for line, name in imports(file)
        if name.startswith("rookery.sim.engines.") and name.split(".")[3] in engines
    ]
    assert not wrong, "\n".join(wrong)


def test_walk_finds_imports(tmp_path):
    """The walker itself: nested, aliased, from-imports."""
    file = tmp_path / "m.py"
    file.write_text("import rookery.tasks as t\ndef f():\n    from rookery import sim, make\n    import sim.world\n")
    assert imports(file) == [(1, "rookery.tasks"), (3, "rookery.sim"), (3, "rookery.make"), (4, "sim.world")]


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `code`."""
    script = f"{code}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
    return set(done.stdout.split())


HEAVY = {
    "torch",
    "mujoco",
    "pybullet",
    "numba",
    "tensorboard",
    "onnx",
    "onnxruntime",
    "scipy",
    "trimesh",
    "imageio",
    "pyarrow",
}


@pytest.mark.parametrize(
    "code",
    [
        "import rookery; rookery.__version__; rookery.list_tasks()",
        "from rookery.cli import main, options, list, train, play, eval, export, bench, robot, scene, demos, doctor",
        "import rookery.tasks.registry, rookery.sim.engines, rookery.sim.errors",
    ],
)
def test_heavy_packages_come_only_when_needed(code):
    assert not loaded_by(code) & HEAVY


def test_import_takes_less_than_half_a_second():
    """Of processor time, best of several, as a busy machine makes any one slow."""
    script = "import time; t = time.process_time(); import rookery; print(time.process_time() - t)"
    times = []
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
        times.append(float(done.stdout))
        if times[-1] < 0.5:
            break
    assert min(times) < 0.5
