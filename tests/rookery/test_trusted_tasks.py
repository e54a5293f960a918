"""A stored file that names a task in a file: whose program is run, and when somebody is asked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from ray_nodes import two_nodes
from sampled import slow_but

from rookery.cli.main import main
from rookery.scaffold import write_project
from rookery.sim import trust
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import object_in_file
from rookery.tasks import registry
from rookery.tasks.registry import TASKS

RAN = Path("ran")


@pytest.fixture(autouse=True)
def own_registry(monkeypatch, tmp_path):
    """What a test registers, imports, trusts and remembers is gone after it."""
    monkeypatch.setattr(registry, "TASKS", dict(TASKS))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(trust.TRUSTED, "")
    path = list(sys.path)
    yield
    sys.path[:] = path
    _forget_modules()


def _forget_modules() -> None:
    for name in [n for n in sys.modules if n.startswith("my_balance")]:
        del sys.modules[name]


@pytest.fixture
def run(in_tmp, monkeypatch):
    """A run of a task whose file notes that it was run; as another process finds it."""
    write_project("task", "my-balance")
    file = in_tmp / "my-balance" / "my_balance" / "task.py"
    file.write_text(file.read_text() + f"\nopen({str(in_tmp / RAN)!r}, 'w').close()\n")
    words = ["--num-envs", "2", "--rollout-steps", "2", "--minibatches", "1", "--epochs", "1", "--steps", "4"]
    assert main(["train", "my-balance/my_balance/task.py:MyBalance", "--out", "run", *words]) == 0
    assert RAN.exists()
    RAN.unlink()
    _forget_modules()
    monkeypatch.setattr(registry, "TASKS", dict(TASKS))
    return Path("run")


USES = {
    "eval": ["eval", "run", "--episodes", "1"],
    "play": ["play", "run", "--out", "film.mp4"],
    "gate": ["gate", "run", "--episodes", "2"],
    "replay": ["replay", "run", "--html", "page.html"],
    "resume": ["train", "--resume", "run", "--steps", "8"],
}


@pytest.mark.parametrize("use", slow_but(["eval", "resume"], USES))
def test_a_strangers_task_is_not_run_without_a_word(use, run, capsys):
    trust._record().unlink()
    assert main(USES[use]) == 2
    assert not RAN.exists()
    said = capsys.readouterr().err
    assert "add --trust-task" in said and str(Path("my-balance/my_balance/task.py").resolve()) in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_export_and_import_as_a_start_need_no_task(run, capsys):
    """They read weights and contract alone."""
    trust._record().unlink()
    assert main(["export", "run", "--out", "bundle"]) == 0
    assert not RAN.exists()


def test_with_the_users_word_it_is_run(run, monkeypatch):
    trust._record().unlink()
    assert main([*USES["eval"], "--trust-task"]) == 0
    assert RAN.exists()
    monkeypatch.setenv(trust.TRUSTED, "/nowhere.py")
    with pytest.raises(RookeryError, match="trust-task"):
        trust.refuse_untrusted("my-balance/my_balance/task.py:MyBalance")
    monkeypatch.setenv(trust.TRUSTED, os.pathsep.join(["/nowhere.py", "my-balance/my_balance/task.py"]))
    trust.refuse_untrusted("my-balance/my_balance/task.py:MyBalance")


def test_a_run_made_here_is_used_without_a_question(run):
    assert main(USES["eval"]) == 0
    assert RAN.exists()


def test_another_file_of_the_same_name_is_not_the_same(run, tmp_path, monkeypatch):
    """A path in a contract starts where the command is called."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "my-balance" / "my_balance").mkdir(parents=True)
    (elsewhere / "my-balance" / "my_balance" / "task.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(elsewhere)
    assert main(["eval", str(tmp_path / "run"), "--episodes", "1"]) == 2


@pytest.mark.parametrize("task", [None, 3, "drone-hover", "MT10", "", ["x.py:T"]])
def test_tasks_that_are_no_files_are_not_asked_about(task):
    trust.refuse_untrusted(task)


def test_a_record_that_cannot_be_kept_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(trust, "_here", set())
    task = str(tmp_path / "task.py:T")
    (tmp_path / "task.py").touch()
    trust.remember(task)
    trust.refuse_untrusted(task)  # in this process it is trusted
    trust._here.clear()
    with pytest.raises(RookeryError, match="no training with it was begun here"):
        trust.refuse_untrusted(task)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(RookeryError, match=r"there is no file .*gone.py: go to the folder where it begins"):
        trust.refuse_untrusted(str(tmp_path / "gone.py:T"))


@pytest.mark.parametrize("path", ["a\0", "loop", "a" * 300, "folder"])
@pytest.mark.parametrize("everybody", [False, True])
def test_a_path_that_cannot_be_is_no_file(path, everybody, in_tmp, monkeypatch):
    """A stranger writes it into a contract; it is looked for whether it is trusted or not."""
    Path("loop.py").symlink_to("loop.py")
    Path("folder.py").mkdir()
    monkeypatch.setenv(trust.TRUSTED, "*" if everybody else "")
    for look in (*([] if everybody else [trust.refuse_untrusted]), object_in_file):
        with pytest.raises(RookeryError, match="there is no file"):
            look(f"{path}.py:T")


@pytest.mark.parametrize("code", [0, 3, 142])
def test_a_file_that_exits_as_it_is_imported_is_told(code, in_tmp):
    """A script without ``if __name__ == "__main__"``."""
    Path("script.py").write_text(f"import sys\nsys.exit({code})\n")
    with pytest.raises(RookeryError, match=f"script.py fails to run \\(SystemExit: {code}\\)"):
        object_in_file("script.py:T")


@pytest.mark.parametrize("code", [143, 129])
def test_a_signal_while_a_file_is_imported_ends_the_command(code, in_tmp):
    Path("slow.py").write_text(f"raise SystemExit({code})\n")  # as the handler of SIGTERM and SIGHUP raises it
    with pytest.raises(SystemExit):
        object_in_file("slow.py:T")


def test_the_record_has_each_file_once_and_nothing_else(tmp_path):
    for name in ("drone-hover", "MT10", str(tmp_path / "a\nb.py:T")):
        trust.remember(name)
    assert not trust._record().exists()
    for name in ("task.py:T", "task.py:U", "other.py:T", "folder/../task.py:T"):
        trust.remember(str(tmp_path / name))
    assert trust._record().read_text().splitlines() == [str(tmp_path / "task.py"), str(tmp_path / "other.py")]


def test_a_damaged_record_trusts_nothing(tmp_path, monkeypatch):
    (tmp_path / "task.py").touch()
    name = str(tmp_path / "task.py:T")
    trust.remember(name)
    trust.refuse_untrusted(name)
    trust._record().write_bytes(b"\xff\n" + trust._record().read_bytes())
    with pytest.raises(RookeryError, match="--trust-task"):
        trust.refuse_untrusted(name)


def test_the_record_is_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert trust._record() == tmp_path / ".local" / "state" / "rookery" / "trained_tasks"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert trust._record() == tmp_path / ".local" / "state" / "rookery" / "trained_tasks"


def test_a_file_that_is_trusted_by_its_link_is_trusted_by_its_name(tmp_path, monkeypatch):
    """The same program, whatever it is called; and a link that later leads elsewhere is another one."""
    for name in ("task.py", "evil.py"):
        (tmp_path / name).touch()
    (tmp_path / "link.py").symlink_to("task.py")
    trust.remember(str(tmp_path / "link.py:T"))
    trust.refuse_untrusted(str(tmp_path / "task.py:T"))
    (tmp_path / "link.py").unlink()
    (tmp_path / "link.py").symlink_to("evil.py")
    with pytest.raises(RookeryError, match=r"look at .*evil\.py"):
        trust.refuse_untrusted(str(tmp_path / "link.py:T"))


@pytest.mark.slow
def test_a_task_that_is_trusted_here_is_played_on_a_cluster(run, in_tmp, capsys, monkeypatch):
    """Nodes that know of no training with it, as those of another machine; they are not asked where it is not trusted here."""
    words = ["eval", "run", "--episodes", "2", "--num-envs", "2", "--json"]
    assert main(words) == 0
    want = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "of-the-nodes"))
    with two_nodes() as (nodes, _):
        there = [*words, "--ray", nodes.address]
        _forget_modules()
        assert main(there) == 2
        assert "add --trust-task" in capsys.readouterr().err
        monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
        for trust_it in ([], ["--trust-task"]):
            assert main([*there, *trust_it]) == 0
            assert json.loads(capsys.readouterr().out) == want
