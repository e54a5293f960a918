"""Classes and functions from outside this package: tasks, stages, trackers, exporters and estimators.

They stand in Python files of the user's own, as ``path/to/my_task.py:Land`` names them, or in installed packages, whose entry
points name them as "module:Class".
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from rookery.sim.errors import RookeryError, unknown

_named: dict[Path, Path] = {}
"""Files that `module_of_file` has imported, and the folders from which they import others."""

_NOT_OWN = {"__main__", "rookery", *sys.stdlib_module_names}
"""Modules, by the first part of their names, that are none of the user's own."""

SIGNALLED = (128 + signal.SIGTERM, 128 + signal.SIGHUP)
"""Codes with which a command ends by a signal; a file that is imported may exit with any other."""


def is_in_file(name: str) -> bool:
    """True for a name such as ``my_task.py:Land``."""
    return ".py:" in name


def resolved(path: Path) -> Path:
    """The absolute path, with links followed where that can be done."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL: there is no such file
        return path.absolute()


def is_there(file: Path) -> bool:
    """True where there is such a file; a name that is too long is none of any."""
    try:
        return file.is_file()
    except OSError:
        return False


def object_in_file(name: str) -> object:
    """The class or function that ``path/to/my_task.py:Land`` names.

    Raises:
        RookeryError: no such file, nothing of that name in it, or it fails to run (its traceback goes to stderr).
    """
    path, _, inner = name.rpartition(":")
    module = module_of_file(Path(path))
    found = vars(module).get(inner)
    if found is None:
        own = [k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise unknown(f"class in {path}", inner, own)
    return found


def entry_points(group: str) -> dict[str, str]:
    """ "module:Class" of what installed packages add to a group, by name. Nothing of them is imported."""
    return {e.name: e.value for e in importlib.metadata.entry_points(group=group)}


def object_at(value: str, what: str, name: str) -> object:
    """The class or function at "module:Class".

    Args:
        value: "module:Class".
        what: it is, in words.
        name: of its entry point.

    Raises:
        RookeryError: it cannot be imported; its traceback goes to stderr.
    """
    module, _, inner = value.partition(":")
    try:
        return getattr(importlib.import_module(module), inner)  # type: ignore[no-any-return]
    except Exception as e:
        traceback.print_exc()
        raise RookeryError(
            f"the {what} {name!r} of an installed package fails to load from {value} ({type(e).__name__}: {e}): see the "
            "traceback above; mend or uninstall that package."
        ) from e


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> RookeryError:
    """`unknown` for names that may stand in a file: says what a path without a class lacks."""
    if given.endswith(".py"):
        return RookeryError(f"{given!r} is a file: name the class in it, too, as {given}:MyClass.")
    return unknown(what, given, allowed)


def module_of_file(file: Path) -> ModuleType:
    """The module of a Python file, imported once.

    A file of a package (its folder has an __init__.py) is imported under its dotted name, so that it can import the package's
    other modules; for any other file its folder can be imported from, as with ``python file.py``.

    Raises:
        RookeryError: there is no such file, or it fails to run.
    """
    file = resolved(file)
    if not is_there(file):
        raise RookeryError(
            f"there is no file {file}: give the path of a Python file and a class in it, such as my_task.py:Land, from the "
            "folder that the path starts in."
        )
    root = file.parent
    parts = [file.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.append(str(root))
    try:
        module = _import_package_module(".".join(parts), file) if len(parts) > 1 else _import_file(file)
        _named[file] = root
        return module
    except RookeryError:
        raise
    except (Exception, SystemExit) as e:
        if isinstance(e, SystemExit) and e.code in SIGNALLED:
            raise
        traceback.print_exc()
        raise RookeryError(f"{file} fails to run ({type(e).__name__}: {e}): see the traceback above.") from e


def named_files() -> list[Path]:
    """Files of the user's own that this process has imported by their names, such as that of ``my_task.py:Land``."""
    return list(_named)


def imported_files() -> list[Path]:
    """`named_files`, and the modules of their folders that have been imported with them; none of installed packages."""
    found = dict.fromkeys(_named)
    roots = set(_named.values())
    for name, module in list(sys.modules.items()) if roots else ():
        file = getattr(module, "__file__", None)
        if (
            not isinstance(file, str)
            or not file.endswith(".py")
            or name.partition(".")[0] in _NOT_OWN
            or _installed(file)
        ):
            continue
        path = resolved(Path(file))
        if not roots.isdisjoint(path.parents):
            found[path] = None
    return list(found)


def _installed(file: str) -> bool:
    return file.startswith(f"{sys.prefix}{os.sep}") or "site-packages" in file or "dist-packages" in file


def _import_package_module(name: str, file: Path) -> ModuleType:
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != file:
        raise RookeryError(
            f"{file} cannot be imported as {name}: {module.__file__} has that name already; rename the folder."
        )
    return module


def _import_file(file: Path) -> ModuleType:
    name = f"rookery_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
