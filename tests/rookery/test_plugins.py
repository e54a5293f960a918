"""Tasks from outside the package: registered, as entry points, and in files; and the projects of `rookery new`."""

from __future__ import annotations

import json
import subprocess
import sys

import gymnasium
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.scaffold import FILES, TEMPLATES, write_project
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import module_of_file
from rookery.tasks import registry
from rookery.tasks.registry import TASKS


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "TASKS", dict(TASKS))
    before = set(gymnasium.registry)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [n for n in sys.modules if n.startswith("my_")]:
        del sys.modules[name]
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]


@pytest.fixture
def project(in_tmp):
    """A worked project in the current folder, and the name of its task."""
    write_project("task", "my-balance")
    return f"{in_tmp}/my-balance/my_balance/task.py:MyBalance"


def test_a_registered_task_is_made_by_name(project):
    cls = registry.find(project).load()
    rookery.register_task(cls, "balance-it")
    assert "balance-it" in rookery.list_tasks()
    env = rookery.make("balance-it", 3)
    assert env.reset()[0]["cart"].shape == (3, 1, 5)
    single = gymnasium.make("rookery/balance-it-v0")
    observation, _ = single.reset(seed=0)
    assert observation.shape == (5,)
    with pytest.raises(RookeryError, match="there is a task 'balance-it' already"):
        rookery.register_task(cls, "balance-it")
    with pytest.raises(RookeryError, match="cannot name a task"):
        rookery.register_task(cls, "no spaces")
    with pytest.raises(RookeryError, match="derives from"):
        rookery.register_task(dict)  # type: ignore[arg-type]
    with pytest.raises(RookeryError, match="did you mean 'mujoco'"):
        rookery.register_task(type("Other", (cls,), {"engines": ("mujocoo",)}), "other")
    with pytest.raises(RookeryError, match="Nameless has no name"):
        rookery.register_task(type("Nameless", (cls,), {}))
    rookery.register_task(cls)
    assert rookery.make("my-balance", 2).task_id == "my-balance"


def test_what_is_wrong_with_a_file_is_said(in_tmp, capfd):
    (in_tmp / "broken.py").write_text("import nothing_of_this_name\n")
    (in_tmp / "fine.py").write_text("class Balance: ...\n")
    wrong = {
        "absent.py:Land": "there is no file",
        "broken.py:Land": "fails to run",
        "fine.py:Balanse": "did you mean 'Balance'",
        "fine.py:Balance": "derives from",
    }
    for name, why in wrong.items():
        assert main(["train", name]) == 2
        assert why in capfd.readouterr().err, name


@pytest.mark.slow
def test_an_entry_point_is_found_and_a_broken_one_hides_no_other(project, in_tmp, monkeypatch, capfd):
    site = in_tmp / "site"
    info = site / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[rookery.tasks]\nmy-balance = my_balance.task:MyBalance\nmy-broken = my_broken:Task\n"
    )
    (site / "my_broken.py").write_text("1 / 0\n")
    (in_tmp / "my-balance" / "my_balance").rename(site / "my_balance")
    monkeypatch.syspath_prepend(str(site))
    assert {"my-balance", "my-broken"} <= set(rookery.list_tasks())
    assert rookery.make("my-balance", 2).task_id == "my-balance"
    code = "import gymnasium, rookery; print(gymnasium.make('rookery/my-balance-v0').observation_space.shape)"
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.strip() == "(5,)"
    monkeypatch.setattr(registry, "TASKS", {k: registry.TASKS[k] for k in ("drone-hover", "my-balance")})
    assert main(["list", "--json"]) == 2
    out, err = capfd.readouterr()
    assert [t["id"] for t in json.loads(out)] == ["drone-hover", "my-balance"]
    assert "ZeroDivisionError" in err and "my-broken" in err


@pytest.mark.slow
def test_a_task_in_a_file_trains_evaluates_plays_and_exports(project, in_tmp):
    short = ["--steps", "4096", "--num-envs", "64"]
    assert main(["train", project, *short, "--out", "run"]) == 0
    assert json.loads((in_tmp / "run" / "contract.json").read_text())["task_id"] == project
    assert main(["eval", "run", "--episodes", "8", "--randomize", "default"]) == 0
    assert main(["play", "run", "--seconds", "0.5", "--out", "video.mp4"]) == 0
    assert main(["export", "run", "--out", "bundle"]) == 0
    assert main(["eval", project, "--controller", "classical", "--episodes", "8"]) == 0


PROJECTS = [(k, t) for k, each in TEMPLATES.items() for t in each if k == "task" or t not in FILES]
QUICK = (("task", "worked"),)


@pytest.mark.parametrize(("kind", "template"), PROJECTS)
def test_every_templates_task_is_made_and_stepped(kind, template, in_tmp):
    project = write_project(kind, "my-task", template)
    env = rookery.make(f"{project.folder.resolve()}/my_task/task.py:MyTask", 2, randomize="default")
    env.reset()
    for _ in range(3):
        actions = {g: torch.zeros(2, s.count, s.action.size) for g, s in env.groups.items()}
        obs, reward, *_ = env.step(actions)
        assert all(torch.isfinite(x).all() for x in (*obs.values(), *reward.values()))
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "template"), [p if p in QUICK else pytest.param(*p, marks=pytest.mark.slow) for p in PROJECTS]
)
def test_a_new_project_passes_its_own_tests(kind, template, in_tmp):
    project = write_project(kind, "my-task", template)
    assert {f.name for f in project.files} >= {"pyproject.toml", "README.md", "task.py", "test_my_task.py"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lint = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "--check", "."],
        cwd=project.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert lint.returncode == 0, lint.stdout


def test_names_and_folders_that_cannot_be_used_are_refused(in_tmp):
    (in_tmp / "full").mkdir()
    (in_tmp / "full" / "something").touch()
    for name, why in (("My Task", "cannot name"), ("class", "cannot name"), ("drone-hover", "already")):
        with pytest.raises(RookeryError, match=why):
            write_project("task", name)
    with pytest.raises(RookeryError, match="not empty"):
        write_project("task", "my-task", out=in_tmp / "full")
    with pytest.raises(RookeryError, match="did you mean 'worked'"):
        write_project("task", "my-task", "wroked")
    assert [f.name for f in in_tmp.iterdir()] == ["full"]


@pytest.mark.parametrize("name", ["torch", "rookery", "json", "sys"])
def test_a_name_that_imports_something_else_is_refused(name, in_tmp):
    """Inside of the project its package would hide that one from everything, or be hidden by it."""
    with pytest.raises(RookeryError, match="another package"):
        write_project("task", name)
    assert not list(in_tmp.iterdir())
    write_project("robot", name, FILES[0])  # files alone hide nothing


def test_the_worked_task_has_the_signs_it_says(project):
    """A tilted pole falls further to its side, and a push moves the cart along x."""
    env = rookery.make(project, 2, config={"start_tilt": 0.0, "start_box_m": 0.0})
    env.reset()
    task = env.unwrapped.task
    task.joints.set_state(torch.arange(2), torch.tensor([[0.0, 0.1], [0.0, 0.0]]))
    env.unwrapped.world.forward()
    push = torch.tensor([0.0, 1.0]).view(2, 1, 1)
    for _ in range(10):
        env.step({"cart": push})
    terms = task.observe()["cart"]
    assert terms["tilt"][0, 0, 1] > 0.1 and terms["tilt_rate"][0] > 0
    assert terms["position"][1] > 0 and terms["velocity"][1] > 0 and terms["tilt"][1, 0, 1] < 0


def test_a_file_of_a_package_is_imported_with_the_package(in_tmp):
    """Under its dotted name, so that it finds its neighbors, and so that others that import it have the same classes."""
    inner = in_tmp / "my_lab" / "tasks"
    inner.mkdir(parents=True)
    (in_tmp / "my_lab" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "sizes.py").write_text("SIZE = 7\n")
    (inner / "balance.py").write_text(
        "from .sizes import SIZE\nfrom my_lab.tasks import sizes\n\nassert sizes.SIZE == SIZE\n"
    )
    module = module_of_file(inner / "balance.py")
    assert module.__name__ == "my_lab.tasks.balance" and module.SIZE == 7
    assert module_of_file(inner / "balance.py") is module
    assert sys.modules["my_lab.tasks.balance"] is module


def test_a_package_whose_name_is_taken_is_refused(in_tmp):
    (in_tmp / "json").mkdir()
    (in_tmp / "json" / "__init__.py").write_text("")
    (in_tmp / "json" / "decoder.py").write_text("")
    with pytest.raises(RookeryError, match=r"cannot be imported as json\.decoder: .* has that name already"):
        module_of_file(in_tmp / "json" / "decoder.py")
