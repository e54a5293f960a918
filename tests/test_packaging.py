"""One top-level name, in a wheel and in an editable install; every room, module and data file in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = SETUP["tool"]["setuptools"]["package-dir"]


def run(*command: object, **kwargs: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def source_of(package: str) -> Path:
    """Folder of an installed package's name in the checkout."""
    parts = package.split(".")
    cut = next(i for i in range(len(parts), 0, -1) if ".".join(parts[:i]) in ROOMS)
    return ROOT.joinpath(ROOMS[".".join(parts[:cut])], *parts[cut:])


def tracked_files() -> list[Path]:
    """Files of the rooms that git knows or would add."""
    listed = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *ROOMS.values())
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of what git knows, so that nothing left over gets in."""
    copy = tmp_path_factory.mktemp("source")
    out = tmp_path_factory.mktemp("wheel")
    for file in [*tracked_files(), *(ROOT / n for n in ("pyproject.toml", "README.md", "LICENSE"))]:
        target = copy / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, copy)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Python of an environment with the wheel and this environment's other packages, without this checkout."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    # A plain path line makes the dependencies importable but does not process the editable install's own .pth there.
    deps = [p for p in sys.path if p.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(deps) + "\n")
    return python


def test_package_list_is_complete():
    folders = {f.parent for room in ROOMS.values() for f in (ROOT / room).rglob("__init__.py")}
    assert {source_of(p) for p in SETUP["tool"]["setuptools"]["packages"]} == folders
    for room in ROOMS.values():
        for file in (ROOT / room).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), f"{file.parent} lacks __init__.py"


@pytest.mark.slow
def test_wheel_has_one_top_level_name_and_every_file(wheel):
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert {n.split("/")[0] for n in names} == {"rookery"}
    expected = set()
    by_room = {folder: name.replace(".", "/") for name, folder in ROOMS.items()}
    for file in tracked_files():
        room, *rest = file.relative_to(ROOT).parts
        expected.add("/".join([by_room[room], *rest]))
    assert set(names) == expected


@pytest.mark.slow
def test_wheel_imports_every_module_and_has_the_command(wheel, installed, tmp_path):
    names = [n[:-3].replace("/", ".") for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".py")]
    names = sorted(n.removesuffix(".__init__") for n in names if not n.endswith("__main__"))
    script = (
        "import importlib, sys, rookery\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(rookery.__file__)\n"
    )
    where = run(installed, "-c", script, cwd=tmp_path).strip()
    assert Path(where).is_relative_to(installed.parent.parent)
    version = SETUP["project"]["version"]
    assert run(installed.parent / "rookery", "--version", cwd=tmp_path) == f"rookery {version}\n"
    assert run(installed, "-m", "rookery", "--version", cwd=tmp_path) == f"rookery {version}\n"
    listed = json.loads(run(installed.parent / "rookery", "list", "--json", cwd=tmp_path))
    assert "drone-hover" in [task["id"] for task in listed]
    # builds every task from the wheel's files; to compile the same code again in another place would take twenty seconds
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run(installed, "-c", "from rookery.listing import built_index; built_index()", cwd=tmp_path, env=env)


def test_editable_install_maps_rooms_to_this_checkout(tmp_path):
    """Edits are live, and outside the checkout there is no `sim`."""
    rooms = [name for name in ROOMS if name != "rookery"]
    script = (
        "import importlib, importlib.util, json\n"
        f"files = {{n: importlib.import_module(n).__file__ for n in {rooms!r}}}\n"
        f"bare = [n for n in {list(ROOMS.values())!r} if n != 'rookery' and importlib.util.find_spec(n)]\n"
        "print(json.dumps([files, bare]))"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    files, bare = json.loads(run(sys.executable, "-c", script, cwd=tmp_path, env=env))
    assert {n: Path(f).parent for n, f in files.items()} == {n: ROOT / ROOMS[n] for n in rooms}
    assert bare == []


def test_constraints_pin_every_dependency():
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"
    )
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    extras = SETUP["project"]["optional-dependencies"]
    wanted = [*SETUP["project"]["dependencies"], *extras["dev"], *extras["trainers"], *extras["viewer"]]
    assert {"rookery[trainers]", "rookery[viewer]"} <= set(wanted), "make install brings the peers of the tests"
    assert not [w for w in wanted if re.split(r"\[|>=", w)[0] not in {*pins, "rookery"}]
    assert pins["torch"] == "2.13.0"


def test_type_check_covers_every_package():
    """`make types` proves at each run that mypy sees a deliberate error in every package; this is its bookkeeping."""
    makefile = (ROOT / "Makefile").read_text()
    assert "tests/check_types.py" in makefile
    assert "make types" in (ROOT / ".ci" / "run").read_text()
