"""Numba's cache forgets what was compiled from sources that have changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import rookery
from rookery.sim.numba_cache import forget_stale


def test_what_is_older_than_any_source_goes_and_the_rest_stays(tmp_path):
    folder = tmp_path / "here"
    other = tmp_path / "there"
    for place in (folder, other):
        (place / "__pycache__").mkdir(parents=True)
        for name, time in (("old.nbi", 100), ("new.nbi", 300), ("old.nbc", 100), ("old.pyc", 100)):
            (place / "__pycache__" / name).touch()
            os.utime(place / "__pycache__" / name, (time, time))
        (place / "module.py").touch()
    os.utime(folder / "module.py", (50, 50))
    os.utime(other / "module.py", (200, 200))

    def left(place):
        return sorted(f.name for f in (place / "__pycache__").iterdir())

    forget_stale(folder)
    assert left(folder) == ["new.nbi", "old.nbc", "old.nbi", "old.pyc"]
    forget_stale(folder, other)  # the code there is called from here
    assert left(folder) == ["new.nbi", "old.nbc", "old.pyc"]
    assert "old.nbi" in left(other)
    os.utime(folder / "module.py", (400, 400))
    forget_stale(folder)
    assert left(folder) == ["old.nbc", "old.pyc"]


def test_a_folder_without_a_cache_is_no_error(tmp_path):
    forget_stale(tmp_path)
    forget_stale(tmp_path / "missing", tmp_path)
    assert list(tmp_path.iterdir()) == []


def kernel_modules() -> dict[str, Path]:
    """Modules whose functions Numba keeps, by name: `sim.engines.rotor.step`."""
    root = Path(rookery.__file__).resolve().parents[1]
    out = {}
    for top in ("sim", "robots", "tasks", "policies"):
        for file in (root / top).rglob("*.py"):
            text = file.read_text()
            if "cache=True" in text or re.search(r"^@(_?kernel|scalar|inlined|_loop|_k\.\w+)\b", text, re.MULTILINE):
                out[".".join(file.relative_to(root).with_suffix("").parts)] = file
    return out


def test_each_folder_of_kernels_names_the_folders_that_its_kernels_call():
    """Every import between modules with kernels, read from their sources, is in the folder's call of forget_stale."""
    modules = kernel_modules()
    assert len(modules) > 40
    missing = []
    for name, file in modules.items():
        code = (file.parent / "__init__.py").read_text()
        if "forget_stale(" not in code:
            missing.append(f"{file.parent}: no forget_stale")
            continue
        for called in re.findall(r"^from rookery\.([\w.]+) import", file.read_text(), re.MULTILINE):
            other = called.rpartition(".")[0]
            if (
                called in modules
                and other != name.rpartition(".")[0]
                and other.split(".")[-1] not in _named(code, file)
            ):
                missing.append(f"{name} calls {called}")
    assert missing == []


def _named(code: str, file: Path) -> set[str]:
    """Last parts of the folders named in a call of forget_stale; `_here.parent` is the folder above."""
    call = code[code.index("forget_stale(", code.index("import forget_stale") + 20) :]
    names = set(re.findall(r'"(\w+)"', call.partition("\n")[0]))
    return names | ({file.parent.parent.name} if "_here.parent)" in call else set())
