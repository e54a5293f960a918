"""A policy in another task than its own: which one, with which config, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.cli.main import main
from rookery.experiments.run_env import make_env, open_env
from rookery.experiments.runs import open_run
from rookery.making import full_config
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.store import save_policy
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.sim2real.build import build_contract
from rookery.tasks.registry import TASKS


def stored(folder: Path, task: str, config: dict[str, Any], worlds: int = 1) -> Path:
    """A policy of random weights for a task, as a run."""
    env = rookery.make(task, worlds, config=config)
    torch.manual_seed(0)
    policies = {n: Policy(standard(g.observation_size, g.action.size, (8,))).eval() for n, g in env.groups.items()}
    save_policy(folder, policies, build_contract(env, config=full_config(task, config)).to_json())
    env.close()
    return folder


@pytest.fixture(scope="module")
def ml10(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("runs") / "ml10", "ML10-train", {"episode_s": 0.1}, 10)


def test_a_policy_of_ml10_train_is_judged_on_ml10_test(ml10: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", str(ml10), "--task", "ML10-test", "--episodes", "5", "--task-config", "episode_s=0.1", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    five = ["drawer-open", "door-close", "shelf-place", "sweep-into", "lever-pull"]
    assert told["task"] == "ML10-test" and list(told["tasks"]) == [f"table-{name}" for name in five]
    assert told["episodes"] == 5 and told["episode_length_mean"] == 8


def test_it_acts_on_what_it_sees_there(ml10: Path) -> None:
    """The same numbers come out as from the network and the five tasks' own observations."""
    env, act = open_env(ml10, 5, task="ML10-test", config={"episode_s": 0.1}, seed=4)
    plain = rookery.make("ML10-test", 5, config={"episode_s": 0.1}, seed=4)
    seen = env.reset(seed=4)[0]
    wanted = plain.reset(seed=4)[0]
    assert torch.equal(seen["arm"], wanted["arm"]) and seen["arm"].shape == (5, 1, 39)
    policy = open_run(ml10)[0]["arm"]
    with torch.no_grad():
        assert torch.equal(act(seen)["arm"], policy(wanted["arm"]))


def test_what_the_set_hides_stays_hidden_in_a_single_task(ml10: Path) -> None:
    """A policy that never saw a goal would take one for nonsense."""
    contract = open_run(ml10)[1]
    single = make_env(contract, 2, task="table-drawer-open")
    assert single.task.cfg.hide_goal and single.task.cfg.episode_s == 6.25
    assert not make_env(contract, 2, {"hide_goal": False}, task="table-drawer-open").task.cfg.hide_goal
    goal = single.groups["arm"].slices()["goal"]
    assert not single.reset(seed=0)[0]["arm"][..., goal].any()


def test_tasks_that_do_not_fit_are_refused(ml10: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert main(["eval", *words, "--episodes", "10"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    told = refused(str(ml10), "--task", "MT10")
    assert "MT10 (with its own config, which --task-config changes) cannot take a policy of ML10-train" in told
    assert "'name': 'task'" in told
    assert "control_dt" in refused(str(ml10), "--task", "drone-hover")
    assert "'cartesian' and the environment 'pose'" in refused(
        str(ml10), "--task", "ML10-test", "--task-config", "action=pose"
    )
    assert "did you mean 'ML10-test'?" in refused(str(ml10), "--task", "ML10-tset")
    assert "write table-push in place of the run" in refused(
        "table-reach", "--task", "table-push", "--controller", "classical"
    )
    full = stored(tmp_path / "full", "table-reach", {"observation": "full"})
    assert "joint_position" in refused(str(full), "--task", "table-push")
    env, _ = open_env(full, 1, task="table-push", config={"observation": "full"})
    assert env.task_id == "table-push"


@pytest.mark.slow
def test_a_set_of_one_task_with_other_values_gives_each_member_its_own() -> None:
    """Values of a member go before those for all, and these before what the set says of the member."""
    config = {"tasks": ["ball", "mug"], "goal_height": 0.2, "mug": {"goal_height": 0.3}}
    env = rookery.make("hand-grasp-objects", 3, config=config)
    assert {name: part.task.cfg.object for name, part in env.parts.items()} == {"ball": "ball", "mug": "mug"}
    assert {name: part.task.cfg.goal_height for name, part in env.parts.items()} == {"ball": 0.2, "mug": 0.3}
    assert [part.num_envs for part in env.parts.values()] == [2, 1]
    assert env.groups == rookery.make("hand-grasp", 1).groups  # no one-hot term: it must not be told which object it is
    lifted = env.reset(seed=0)[0]["hand"][..., env.groups["hand"].slices()["lifted"]]
    assert (lifted.abs() < 0.02).all()  # 2 mm: each object's height counts from its own rest
    whole = full_config("hand-grasp-objects", {"goal_height": 0.2})
    assert whole["banana"]["object"] == "banana" and whole["banana"]["goal_height"] == 0.2


SETS = [n for n, entry in TASKS.items() if entry.members]


@pytest.mark.parametrize("name", slow_but([n for n in SETS if n != "hand-grasp-objects"], SETS))
def test_members_of_a_set_have_the_same_terms(name: str) -> None:
    """Its contract has the expressions of the first one."""
    env = rookery.make(name, len(TASKS[name].members))
    assert isinstance(env, ConcatEnv)
    first, *others = [part.groups for part in env.parts.values()]
    for other in others:
        for group, spec in first.items():
            assert [t.expression for t in other[group].observation] == [t.expression for t in spec.observation]
    env.close()


@pytest.mark.slow
def test_a_policy_of_such_a_set_acts_on_an_object_that_is_not_in_it(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", "hand-grasp-objects", {"episode_s": 0.1}, 14)
    env, act = open_env(run, 2, task="hand-grasp", config={"object": "gelatin_box", "sampler": "antipodal"})
    assert act(env.reset(seed=0)[0])["hand"].shape == (2, 1, 22)
