"""Code of the user's own on a Ray cluster: machines without it are refused before anything starts, and it is trusted there."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rookery.experiments import ray_machines
from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.ray_machines import digests
from rookery.experiments.ray_tasks import TRUST, Surroundings
from rookery.sim import own_files
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import imported_files, named_files, object_in_file


@pytest.fixture(autouse=True)
def own(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with a sibling that it imports, and one that it does not; what is imported is forgotten."""
    monkeypatch.setattr(own_files, "_named", {})
    before, path = set(sys.modules), list(sys.path)
    Path("code").mkdir()
    Path("code/lent.py").write_text("import numpy\nimport beside_lent\nWORD = beside_lent.WORD\n")
    Path("code/beside_lent.py").write_text("WORD = 7\n")
    Path("code/unused.py").write_text("")
    yield in_tmp / "code"
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name == "beside_lent" or name.startswith(("rookery_file_", "kit")):
            del sys.modules[name]


def test_files_that_were_imported_are_known_with_those_beside_them(own: Path) -> None:
    assert imported_files() == named_files() == []
    assert object_in_file("code/lent.py:WORD") == 7
    assert named_files() == [own / "lent.py"]
    assert set(imported_files()) == {own / "lent.py", own / "beside_lent.py"}


def test_modules_of_a_package_are_known_and_installed_ones_beside_it_are_not(own: Path) -> None:
    (own / "kit" / "tasks").mkdir(parents=True)
    for name in ("kit/__init__.py", "kit/tasks/__init__.py", "kit/tools.py"):
        (own / name).write_text("")
    (own / "site-packages").mkdir()
    (own / "site-packages" / "kit_installed.py").write_text("")
    sys.path.append(str(own / "site-packages"))
    (own / "kit" / "tasks" / "one.py").write_text("import kit.tools\nimport kit_installed\nclass Task: pass\n")
    object_in_file("code/kit/tasks/one.py:Task")
    names = ("kit/__init__.py", "kit/tasks/__init__.py", "kit/tools.py", "kit/tasks/one.py")
    assert set(imported_files()) == {own / name for name in names}


def test_a_file_that_fails_is_not_known(own: Path) -> None:
    (own / "bad.py").write_text("1 / 0\n")
    with pytest.raises(RookeryError, match="fails to run"):
        object_in_file("code/bad.py:Task")
    assert named_files() == []


class Far:
    """In place of Ray: one machine, with its folder and files; no task is begun on it."""

    def __init__(self, folder: str, files: dict[str, str]) -> None:
        self.found = {folder: "", **files}
        self.asked = 0

    def remote(self, **options: Any) -> Any:
        def asked(work: Any) -> Any:
            assert work is digests
            self.asked += 1
            return self

        return asked

    def options(self, **options: Any) -> Any:
        return type("Call", (), {"remote": lambda self, *a: None})()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "00", "NodeManagerHostname": "far", "Alive": True}]

    def get(self, reply: None) -> Any:
        return self.found


def connected(far: Far, monkeypatch: pytest.MonkeyPatch, address: str = "10.0.0.1:6379") -> Cluster:
    monkeypatch.setattr("rookery.experiments.ray_cluster._ray", lambda: far)
    monkeypatch.setattr(ray_machines, "on_node", lambda node: None)
    return Cluster(address, 1, 1.0)


def sums(*files: Path) -> dict[str, str]:
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("lacking", ["folder", "task", "beside", "changed"])
def test_machines_without_them_are_refused_before_anything_starts(
    lacking: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_in_file("code/lent.py:WORD")
    there = sums(own / "lent.py", own / "beside_lent.py")
    what = {"folder": own.parent, "task": own / "lent.py", "beside": own / "beside_lent.py", "changed": own / "lent.py"}
    if lacking == "changed":
        there[str(own / "lent.py")] = sums(own / "unused.py").popitem()[1]
    else:
        there.pop(str(what[lacking]), None)
    far = Far("/elsewhere" if lacking == "folder" else str(own.parent), there)
    verb = "has another" if lacking == "changed" else "does not see"
    with pytest.raises(
        RookeryError, match=rf"^far {verb} {what[lacking]}, which code of your own needs: put the same at"
    ):
        connected(far, monkeypatch).begin(print, "order")
    assert far.asked == 1


def test_each_file_is_asked_for_once_and_none_where_all_is_on_this_machine(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Far(os.getcwd(), sums(own / "lent.py", own / "beside_lent.py"))
    cluster = connected(far, monkeypatch)
    cluster.check_own_files()
    assert far.asked == 0, "there are none"
    object_in_file("code/lent.py:WORD")
    for _ in range(2):
        cluster.check_own_files()
    assert far.asked == 1
    object_in_file("code/unused.py:__name__")
    with pytest.raises(RookeryError, match=r"far does not see .*unused\.py"):
        cluster.check_own_files()
    connected(far, monkeypatch, "local").check_own_files()
    assert far.asked == 2


def test_what_is_trusted_here_is_trusted_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRUST[0], raising=False)
    assert TRUST[0] not in Surroundings.now().trust
    object_in_file("code/lent.py:WORD")
    assert Surroundings.now().trust[TRUST[0]] == str(own / "lent.py")
    monkeypatch.setenv(TRUST[0], "*")
    assert Surroundings.now().trust[TRUST[0]].split(os.pathsep) == ["*", str(own / "lent.py")]
