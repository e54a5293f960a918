"""A stored policy teaches one that observes less: what it observes itself, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.experiments.teacher import make_teacher
from rookery.policies.imitation.teacher import _check_term
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import save_policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Term
from rookery.sim2real.build import build_contract


def stored(folder: Path, env: Any, seed: int = 0, predicts: bool = False) -> Path:
    """A policy of random weights for an environment, as a run."""
    torch.manual_seed(seed)
    name, group = next(iter(env.groups.items()))
    more = {"estimator": (8,), "targets": group.target_size, "actor_inputs": group.frame_size} if predicts else {}
    policy = Policy(standard(group.observation_size, group.action.size, (16,), **more))
    contract = build_contract(env)
    save_policy(folder, {name: policy.eval()}, contract.to_json())
    return folder


def same_worlds(task: str, mine: dict[str, Any], theirs: dict[str, Any], n: int = 8) -> tuple[Any, Any, Any, Any]:
    """Two environments with the same episodes, shown by two configs."""
    env = rookery.make(task, n, seed=3, config=mine)
    twin = rookery.make(task, n, seed=3, config=theirs)
    return env, twin, env.reset()[0], twin.reset()[0]


@pytest.mark.parametrize(
    ("task", "mine", "theirs"),
    [
        ("go2-velocity", {"history": 1}, {"history": 3}),
        ("go2arm-reach", {"future": False}, {"future": True}),
        ("go2arm-reach", {"future": False, "history": 2}, {"future": True, "history": 1}),
    ],
)
def test_a_teacher_observes_what_its_own_config_declares(tmp_path: Path, task: str, mine: Any, theirs: Any) -> None:
    """Its actions in the student's worlds are those in its own, which are the same worlds; through new episodes too."""
    short = {"episode_s": 0.1}
    env, twin, obs, its = same_worlds(task, mine | short, theirs | short)
    teacher = make_teacher(stored(tmp_path, twin), env)
    act = act_with(open_run(tmp_path)[0], twin)
    noise = torch.Generator().manual_seed(0)
    for _ in range(12):
        wanted = act(its)["robot"]
        torch.testing.assert_close(teacher.act(obs)["robot"], wanted, rtol=0, atol=1e-5)
        action = (wanted + 0.3 * torch.randn(wanted.shape, generator=noise)).clamp(-1, 1)
        obs, _, terminated, truncated, _ = env.step(action)
        teacher.observe_ends(terminated | truncated)
        its = twin.step(action)[0]
    assert env.task.cfg.episode_s == 0.1 and getattr(env.task.cfg, next(iter(mine))) == next(iter(mine.values()))


def test_a_teacher_with_a_state_estimator_gets_the_true_values(tmp_path: Path) -> None:
    env, twin, obs, its = same_worlds("go2-velocity", {"history": 1}, {"history": 2})
    teacher = make_teacher(stored(tmp_path, twin, predicts=True), env)
    told, guess = (act_with(open_run(tmp_path)[0], twin, privileged=t) for t in (True, False))
    for _ in range(3):
        wanted = told(its)["robot"]
        torch.testing.assert_close(teacher.act(obs)["robot"], wanted, rtol=0, atol=1e-5)
        assert (wanted - guess(its)["robot"]).abs().max() > 1e-3
        obs = env.step(wanted)[0]
        its = twin.step(wanted)[0]


def test_a_teachers_memory_begins_anew_with_an_episode(tmp_path: Path) -> None:
    """In the worlds that ended alone: there it acts as if it had seen nothing before."""
    torch.manual_seed(0)
    env = rookery.make("drone-hover", 3, seed=1)
    group = env.groups["drone"]
    policy = Policy(standard(group.observation_size, group.action.size, (8,), memory_size=5)).eval()
    save_policy(tmp_path, {"drone": policy}, build_contract(env).to_json())
    teacher, fresh = make_teacher(tmp_path, env), make_teacher(tmp_path, env)
    obs = env.reset()[0]
    for _ in range(3):
        obs = env.step(teacher.act(obs)["drone"].clamp(-1, 1))[0]
    teacher.observe_ends(torch.tensor([False, True, False]))
    given, first = teacher.act(obs)["drone"], fresh.act(obs)["drone"]
    torch.testing.assert_close(given[1], first[1], rtol=0, atol=0)
    assert ((given - first).abs().amax((1, 2)) > 1e-4).tolist() == [True, False, True]
    after, second = teacher.act(obs)["drone"], fresh.act(obs)["drone"]
    torch.testing.assert_close(after[1], second[1], rtol=0, atol=0)
    assert not torch.equal(after[1], given[1]), "an end counts once"


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ({"frame": "world"}, {"frame": "body"}, r"observes 'x' in m, body, and the student's worlds give m, world"),
        ({"unit": "cm"}, {}, r"observes 'x' in m, , and the student's worlds give cm, "),
        ({"clip": 1.0}, {"clip": 2.0}, r"observes 'x' up to 2 m, and the student's worlds give it up to 1: train"),
        ({"clip": 1.0, "scale": 2.0}, {"clip": 1.0}, r"up to 1 m, and the student's worlds give it up to 0.5"),
        ({"clip": 1.0}, {}, r"up to inf m, and the student's worlds give it up to 1"),
        ({"value": 3}, {}, r"observes 'x' of size 2, and the student's worlds have 3"),
        ({"clip": 1.0}, {"clip": 1.0}, None),
        ({"clip": 2.0}, {"clip": 1.0}, None),
        ({"clip": 1.0, "scale": 0.5}, {"clip": 2.0}, None),
        ({}, {"clip": 1.0}, None),
        ({}, {}, None),
    ],
)
def test_a_term_fits_where_it_is_the_same_quantity_and_reaches_as_far(mine: Any, theirs: Any, said: str | None) -> None:
    given, term = (Term(**{"name": "x", "value": 2, "unit": "m"} | values) for values in (mine, theirs))
    if said is None:
        _check_term("it", term, given)
        return
    with pytest.raises(RookeryError, match=said):
        _check_term("it", term, given)


def test_a_controller_teaches_some_actions_and_a_policy_the_others(tmp_path: Path) -> None:
    """Each action is that of the one who teaches it, through new episodes; what it needs after a resume is in its state."""
    env, twin, obs, its = same_worlds("go2arm-reach", {"episode_s": 0.1}, {"episode_s": 0.1})
    teacher = make_teacher(stored(tmp_path, twin), env, ["joint[1-5]"])
    policy, controller = act_with(open_run(tmp_path)[0], twin), twin.controller()
    for _ in range(12):
        wanted = policy(its)["robot"].clamp(-1, 1)
        wanted[..., 12:17] = controller(its)["robot"][..., 12:17].clamp(-1, 1)
        given = teacher.act(obs)["robot"].clamp(-1, 1)
        torch.testing.assert_close(given, wanted, rtol=0, atol=1e-5)
        obs, _, terminated, truncated, _ = env.step(given)
        teacher.observe_ends(terminated | truncated)
        its = twin.step(given)[0]
    again = make_teacher(tmp_path, env, ["joint[1-5]"])
    again.load_state_dict(teacher.state_dict())
    for name, value in teacher.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    (frames,) = (value for name, value in teacher.state_dict().items() if name.endswith("frames/robot"))
    assert frames.abs().max() > 0.1


@pytest.mark.slow
def test_a_policy_of_another_task_teaches_where_its_terms_are(tmp_path: Path) -> None:
    """What it gives is its action for the terms that both tasks have."""
    env = rookery.make("go2arm-loco-manipulation", 4, seed=1)
    stored(tmp_path, rookery.make("go2arm-reach", 2))
    obs = env.reset()[0]
    terms = open_run(tmp_path)[1].groups["robot"].spec.observation
    where = env.groups["robot"].slices()
    values = torch.cat([obs["robot"][..., where[t.name]] for t in terms], -1)
    given = make_teacher(tmp_path, env).act(obs)["robot"]
    torch.testing.assert_close(
        given, open_run(tmp_path)[0]["robot"](values), rtol=0, atol=0.05
    )  # the teacher's has no noise
    assert given.abs().max() > 0.1


def test_actions_that_nobody_has_are_not_taught(tmp_path: Path) -> None:
    env = rookery.make("go2arm-reach", 2)
    run = stored(tmp_path, env)
    with pytest.raises(RookeryError, match="unknown action 'elbow'"):
        make_teacher(run, env, ["elbow"])
    with pytest.raises(RookeryError, match="--classical names actions of the classical controller beside a policy's"):
        make_teacher(None, env, ["joint1"])


def test_what_cannot_teach_is_refused(tmp_path: Path) -> None:
    env = rookery.make("go2-velocity", 2)
    other = stored(tmp_path / "arm", rookery.make("go2-velocity", 2, config={"arm": "airbot_play"}))
    rough = stored(tmp_path / "rough", rookery.make("go2-velocity", 2, config={"terrain": "rough", "terrain_rows": 2}))
    hover = stored(tmp_path / "hover", rookery.make("drone-hover", 2))
    with pytest.raises(
        RookeryError,
        match=r"of drone-hover, has policies \['drone'\], and the student's groups in go2-velocity are \['robot'\]",
    ):
        make_teacher(hover, env)
    with pytest.raises(RookeryError, match=r"observes 'joint_position' of size 18, and the student's worlds have 12"):
        make_teacher(other, env)
    with pytest.raises(RookeryError, match=r"observes 'heights' of size 35, and the student's worlds lack it: give"):
        make_teacher(rough, env)
    with pytest.raises(RookeryError, match="there is no folder 'nowhere'"):
        make_teacher(Path("nowhere"), env)
    parts = rookery.make("drone-hover", 2, config={"action": "rotor_thrust"})
    with pytest.raises(RookeryError, match=r"give the student the teacher's --action"):
        make_teacher(hover, parts)
    fast = rookery.make("go2-velocity", 2, config={"control_dt": 0.01})
    walker = stored(tmp_path / "walker", rookery.make("go2-velocity", 2))
    with pytest.raises(RookeryError, match=r"acts every 0.02 s, and the student every 0.01 s"):
        make_teacher(walker, fast)
    contract = json.loads((walker / "contract.json").read_text())
    rates = contract["groups"]["robot"]["observation"][0]
    rates["unit"] = rates["expression"]["unit"] = "deg/s"
    (walker / "contract.json").write_text(json.dumps(contract))
    with pytest.raises(
        RookeryError, match=r"observes 'angular_velocity' in deg/s, .* and the student's worlds give rad/s"
    ):
        make_teacher(walker, env)
    env.controller = lambda: None
    with pytest.raises(RookeryError, match="no classical controller to imitate"):
        make_teacher(None, env)


@pytest.mark.slow
def test_the_command_line_teaches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "student"
    small = ["--num-envs", "8", "--steps", "4096", "--hidden", "16", "--rollout-steps", "16"]
    wanted = ["--algorithm", "dagger", "--teacher", "go2-velocity", "--task-config", "history=2", "--out", str(out)]
    assert main(["train", "go2-velocity", *wanted, "--json", *small]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == str(out)
    assert json.loads((out / "run.json").read_text())["settings"]["teacher"] == "go2-velocity"
    with open(out / "progress.csv") as f:
        losses = [float(row["robot/loss"]) for row in csv.DictReader(f)]
    assert losses[-1] < losses[0]
    assert main(["eval", str(out), "--episodes", "1", "--json"]) == 0
    capsys.readouterr()
    assert main(["train", "go2-velocity", "--teacher", "go2-velocity"]) == 2
    assert "--teacher RUN is for --algorithm dagger" in capsys.readouterr().err


def test_corrections_of_a_teacher(tmp_path: Path) -> None:
    """The corrected actions are those that the task makes of the teacher's."""
    env, twin, obs, its = same_worlds("go2arm-reach", {"history": 2}, {"history": 2})
    run = stored(tmp_path, twin)
    corrected, plain, correct = make_teacher(run, env, corrected=True), make_teacher(run, twin), twin.correction()
    for _ in range(4):
        wanted = correct(plain.act(its))["robot"].clamp(-1.0, 1.0)
        torch.testing.assert_close(corrected.act(obs)["robot"], wanted, rtol=0, atol=1e-6)
        obs, _, terminated, truncated, _ = env.step(wanted)
        its = twin.step(wanted)[0]
        for teacher in (corrected, plain):
            teacher.observe_ends(terminated | truncated)


def test_corrections_that_are_not_there(tmp_path: Path) -> None:
    env = rookery.make("drone-hover", 2)
    with pytest.raises(RookeryError, match="drone-hover knows no correction"):
        make_teacher(stored(tmp_path, env), env, corrected=True)
    with pytest.raises(RookeryError, match="--corrected is for the actions of a policy"):
        make_teacher(None, env, corrected=True)


def test_a_student_goes_on_with_the_teacher_that_it_began_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = rookery.make("drone-hover", 2)
    teacher, out = stored(tmp_path / "teacher", env), tmp_path / "student"
    small = ["--num-envs", "4", "--hidden", "8", "--rollout-steps", "8", "--checkpoint-every", "1", "--out", str(out)]
    train = ["train", "drone-hover", "--algorithm", "dagger", "--teacher", str(teacher), "--steps", "64", *small]
    assert main(train) == 0
    assert main(["train", "--resume", str(out), "--steps", "96"]) == 0
    stored(teacher, env, seed=1)
    capsys.readouterr()
    assert main(["train", "--resume", str(out), "--steps", "160"]) == 2
    assert "the files that --teacher names have changed since" in capsys.readouterr().err


def test_a_student_of_a_relative_path_goes_on_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path / "teacher", rookery.make("drone-hover", 2))
    small = ["--num-envs", "4", "--hidden", "8", "--rollout-steps", "8", "--steps", "64", "--out", "student"]
    monkeypatch.chdir(tmp_path)
    assert main(["train", "drone-hover", "--algorithm", "dagger", "--teacher", "teacher", *small]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--resume", str(tmp_path / "student"), "--steps", "96"]) == 0
