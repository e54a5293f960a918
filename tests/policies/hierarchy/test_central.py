"""One high level for a team: it decides for all agents at a time, from what all of them observe."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import collect
from random_policy import random_policy
from skilled import constant, skilled

from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.nn.choices import Choices
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group
from rookery.sim.teams import gathered, team_agents, teamwork
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header
from rookery.sim2real.gate.exported import Compared, NativeAct
from rookery.sim2real.runtime.controller import Controller
from tests.sim2real.independent_runtime import Runtime, fill
from tests.sim2real.readme_program import run_readme

POINTER = ctypes.c_void_p
SKILLS = {
    "gru": {"policy": "gru", "shift": {"state": [0.5, [-0.2, 0.6], 0.1]}, "finished": "norm(state) < 0.8"},
    "plain": {"policy": "plain", "every": 5, "command": {"state": [[-1.0, 1.0], 0.3, 0.0]}},
    "again": {"policy": "plain", "every": 2, "allowed": "state[1] > -0.5"},
}


class Sides(FakeEnv):
    """Two teams whose agents stand alternately."""

    event_names = ("tap",)

    def __init__(self, num_envs: int, agents: int = 6, seed: int = 0, **more: Any) -> None:
        super().__init__(num_envs, agents=agents, horizon=17, limit=1e9, seed=seed, **more)
        self.teams = {"odd": {"point": tuple(range(1, agents, 2))}, "even": {"point": tuple(range(0, agents, 2))}}
        self.latest: dict[str, Any] = {}

    def step(self, actions: Any) -> Any:
        result = super().step(actions)
        self.latest = {"tap": torch.rand(self.x.shape[:2], generator=self.generator) < 0.05}
        result[4]["events"] = self.latest
        return result

    @property
    def latest_events(self) -> Any:
        return self.latest

    @property
    def episode_start(self) -> Any:
        return self.clock == 0


def central(env: FakeEnv, **settings: Any) -> HierarchicalEnv:
    group = env.groups["point"]
    policies = {"gru": random_policy(group, 1, memory=5), "plain": random_policy(group, 2)}
    return skilled(env, policies, central=True, **({"every": 4, "skills": SKILLS} | settings))


def decisions(env: HierarchicalEnv, seed: int) -> torch.Tensor:
    group = env.groups["point"]
    g = torch.Generator().manual_seed(seed)
    out = torch.rand(env.num_envs, group.count, group.action.size, generator=g) * 2.0 - 1.0
    for k, choice in enumerate(group.action.choices):
        out[..., k] = torch.randint(0, len(choice.options), out.shape[:2], generator=g).float()
    return out


def test_a_number_matters_where_the_skill_reads_it_and_nowhere_else() -> None:
    """As `read_by` says it: what an agent's skill does not read changes nothing of what follows, for PPO leaves it out."""
    worlds = 60
    first = central(Sides(worlds))
    (high,) = first.groups.values()
    choices = Choices(high.action)
    action = decisions(first, 3)
    reading = choices.reading(action[..., : choices.count])
    assert reading is not None

    def after(action: torch.Tensor) -> torch.Tensor:
        env = central(Sides(worlds))
        env.reset(1)
        for _ in range(2):  # what was commanded shows in the step after
            obs = env.step({"point": action})[0]["point"]
        return obs

    before = after(action)
    for k in range(len(high.action.names)):
        other = action.clone()
        other[..., choices.count + k] *= -0.5
        differs = (after(other) != before).any(-1)
        read = reading[..., k].bool()
        assert not differs[~read].any(), high.action.names[k]
        assert differs[read].float().mean() > 0.2, high.action.names[k]  # a robot's limits hide some


def test_rows_of_teams_and_back() -> None:
    env = Sides(2)
    x = torch.arange(2 * 6 * 2.0).view(2, 6, 2)
    teams = team_agents(env, "point")
    assert teams.tolist() == [[1, 3, 5], [0, 2, 4]]
    assert gathered(x, teams)[0].tolist() == [[2, 3, 6, 7, 10, 11], [0, 1, 4, 5, 8, 9]]
    assert torch.equal(teamwork(gathered(x, teams), teams), x)


def test_a_team_observes_decides_and_earns_together() -> None:
    """Against the same skills in a hierarchy without a team, which is given each agent's part of the decision."""
    together = central(Sides(5))
    env = Sides(5)
    group = env.groups["point"]
    policies = {"gru": random_policy(group, 1, memory=5), "plain": random_policy(group, 2)}
    alone = skilled(env, policies, every=1, skills={k: v | {"every": 1} for k, v in SKILLS.items()})
    (high,) = together.groups.values()
    assert (high.count, high.observation_size, high.action.size) == (2, 9, 3 * 5)
    assert together.teams == {"odd": {"point": (0,)}, "even": {"point": (1,)}}
    one, two = together.reset(1)[0]["point"], alone.reset(1)[0]["point"]
    teams = team_agents(env, "point")
    held = torch.zeros(5, 2, 15)
    left = torch.zeros(5, 2)
    steps = torch.tensor([4.0, 5.0, 2.0])
    seen = set()
    for t in range(60):
        torch.testing.assert_close(one, gathered(two, teams), rtol=1e-5, atol=1e-5)
        norm = two[:, teams].norm(dim=-1)
        due = together.deciding["point"]  # type: ignore[index]
        allowed = torch.ones(5, 2, 3, 3, dtype=torch.bool)
        allowed[..., 2] = two[:, teams][..., 1] > -0.5
        assert torch.equal(together.action_mask["point"], allowed.flatten(2))  # type: ignore[index]
        tapped = env.latest.get("tap", torch.zeros(5, 6, dtype=torch.bool))
        wanted = (left <= 0) | ((held[..., :3] == 0) & (norm < 0.8)).any(-1)
        assert torch.equal(due, wanted) and tapped.shape == (5, 6)
        action = decisions(together, t)
        held = torch.where(due.unsqueeze(-1), action, held)
        left = torch.where(due, steps[action[..., :3].long()].amin(-1), left) - 1.0
        own = torch.stack(
            [torch.cat((held[..., i : i + 1], held[..., 3 + 4 * i : 7 + 4 * i]), -1) for i in range(3)], 2
        )
        each = teamwork(own.flatten(2), teams)
        a, b = together.step({"point": action}), alone.step({"point": each})
        one, two = a[0]["point"], b[0]["point"]
        torch.testing.assert_close(a[1]["point"], b[1]["point"][:, teams].mean(-1))
        ended = a[2] | a[3]
        left[ended] = 0.0
        seen.add((bool(due.all()), bool(due.any())))
    assert {(False, True), (True, True)} <= seen


def test_an_event_of_one_agent_is_its_teams() -> None:
    env = central(
        Sides(6), every=50, events=["tap"], skills={"a": SKILLS["plain"] | {"every": 50}, "b": {"policy": "gru"}}
    )
    env.reset(0)
    some = 0
    for t in range(12):
        env.step({"point": decisions(env, t)})
        tapped = env.acting.latest_events["tap"][:, team_agents(env.acting, "point")].any(-1)
        assert torch.equal(env.deciding["point"], tapped)  # type: ignore[index]
        some += int(tapped.sum())
    assert some > 10


def test_the_deployed_policy_acts_as_the_hierarchy_did() -> None:
    env, task = central(Sides(6), events=["tap"]), Sides(6)
    high = random_policy(env.groups["point"], 3)
    act = act_with({"point": high}, env)
    (deployed,) = env.deployed({"point": high}).values()
    assert (deployed.agents, deployed.observation_size, deployed.action_size) == (3, 9, 3)
    alone = act_with({"point": deployed}, task)
    one, two = env.reset(5)[0], task.reset(5)[0]
    used = set()
    for _ in range(60):
        action = act(one)
        used |= set(action["point"][..., :3].flatten().tolist())
        held = env.levels["point"].decided
        one, two = env.step(action)[0], task.step(alone(two))[0]
        torch.testing.assert_close(
            one["point"], gathered(two["point"], team_agents(task, "point")), rtol=1e-5, atol=1e-5
        )
        for world in range(2):
            names = [["gru", "plain", "again"][int(held[world, 1 - i % 2, i // 2])] for i in range(6)]
            assert alone.notes(world) == [("point", i, name) for i, name in enumerate(names)]
    assert used == {0.0, 1.0, 2.0}


def test_a_team_with_one_high_level_plays_against_opponents() -> None:
    """The learner's team alone has skills: its opponents act as they are."""
    match = Sides(6)
    env = central(FrozenOpponentEnv(match, lambda obs: {"point": torch.full((6, 6, 1), 0.25)}, "odd"))
    assert (env.groups["point"].count, env.groups["point"].observation_size) == (1, 9)
    given: list[torch.Tensor] = []
    step = match.step
    match.step = lambda actions: given.append(actions["point"].clone()) or step(actions)  # type: ignore[func-returns-value, method-assign]
    ppo = PPO(env, PPOConfig(rollout_steps=20, minibatches=1, hidden=(8,)))
    obs = env.reset(0)[0]
    collect(ppo, env, obs, 20)
    assert ppo.update(0.0)["point/value_loss"] > 0.0
    assert all(torch.equal(a[:, ::2], torch.full((6, 3, 1), 0.25)) for a in given)
    assert len({float(x) for a in given for x in a[:, 1::2].flatten()}) > 50


@pytest.mark.slow
def test_c_and_onnx_answer_as_torch_does(tmp_path: Path) -> None:
    env = central(Sides(2), events=["tap"])
    policy = env.deployed({"point": random_policy(env.groups["point"], 3, memory=4)})["point"]
    contract = with_stages(describe("fake", {"point": env.acting.groups["point"]}, 0.01), {"point": policy})
    folder = export_bundle({"point": policy}, contract, tmp_path / "bundle")
    errors = check_bundle(folder)
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
    assert Contract.read(folder) == contract
    library = compile_library(folder / "policy.c", tmp_path)
    native = NativePolicy(library, read_header(folder / "policy.h"))
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((400, 9)) * rng.choice([0.3, 1.0, 3.0], (400, 1))).astype(np.float32)
    start = np.arange(400) % 50 == 0
    tapped = rng.random((400, 1)) < 0.1
    got = native.follow(x, start, events=tapped)
    state, used = policy.initial_state(1), set()
    with torch.no_grad():
        for i in range(400):
            state = policy.initial_state(1) if start[i] else state
            action, state = policy.step(
                torch.from_numpy(x[i : i + 1]), state, events=torch.from_numpy(tapped[i : i + 1])
            )
            used.add(tuple(policy.skills(state[0])))
            np.testing.assert_allclose(got[i], action[0].numpy(), rtol=1e-5, atol=1e-5)
    assert len(used) > 8
    with pytest.raises(RookeryError, match="acts for a team of 3 robots together, and here is one"):
        Controller(folder)
    check_events(Runtime(folder), policy, x)
    task = Sides(3)
    act = act_with({"point": policy}, task)
    exported = Compared(NativeAct({"point": native}, task, {"point": ("tap",)}), act, task)
    obs = task.reset(0)[0]
    for _ in range(60):
        obs = task.step(exported(obs))[0]
    assert exported.difference < 1e-5


def check_events(runtime: Runtime, policy: Policy, x: np.ndarray) -> None:
    """An event that one robot is told of is its team's, and one that is no number makes the action none."""
    state, rng = policy.initial_state(1), np.random.default_rng(2)
    with torch.no_grad():
        for row in x[:60]:
            told = rng.random(3) < 0.05
            for robot, own, bell in zip(runtime.state.robot, row.reshape(3, 3), told, strict=True):
                fill(robot, {"state": own, "event_tap": np.float32([bell])})
            got = runtime.call("act", runtime.controller, runtime.state, out=3)
            events = torch.tensor([[bool(told.any())]])
            action, state = policy.step(torch.from_numpy(row[None]), state, events=events)
            np.testing.assert_allclose(got, action[0].numpy(), rtol=1e-5, atol=1e-5)
    fill(runtime.state.robot[1], {"event_tap": np.float32([np.nan])})
    assert np.isnan(runtime.call("act", runtime.controller, runtime.state, out=3)).all()


@pytest.mark.parametrize(
    ("teams", "agents", "message"),
    [
        ({}, 1, "has one agent, which decides for itself"),
        ({"a": {"point": (0, 1)}, "b": {"point": (2,)}}, 3, "have 1 and 2 of the 3 agents"),
        ({"a": {"point": (0, 1)}}, 4, "have 2 of the 4 agents"),
        ({"a": {"point": (0, 1), "ball": (0,)}}, 2, "has agents of the groups point and ball"),
    ],
)
def test_what_is_no_team_is_refused(teams: Any, agents: int, message: str) -> None:
    env = FakeEnv(2, agents=agents)
    env.teams = teams
    group = env.groups["point"]
    with pytest.raises(RookeryError, match=message):
        skilled(env, {"a": constant(group, 0.1), "b": constant(group, -0.1)}, central=True)


def test_a_policy_of_another_team_is_refused() -> None:
    env = central(Sides(2))
    deployed = env.deployed({"point": random_policy(env.groups["point"], 3)})
    with pytest.raises(RookeryError, match="acts for a team of 3 agents, and the task has others"):
        act_with(deployed, Sides(2, agents=4))


SWARM = """
central = true
every = 5
observe = ["target_offset", "middle_offset"]
[skills.own]
policy = "swarm-surround"
shift.target_offset = 0.1
[skills.up]
policy = "swarm-surround"
shift.target_offset = [0.05, 0.05, [0.0, 0.2]]
"""
TRAIN = ["train", "swarm-surround", "--skills", "skills.toml", "--num-envs", "8", "--rollout-steps", "40", "--json"]


@pytest.mark.slow
def test_a_swarm_has_one_high_level_from_training_to_c(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (in_tmp / "skills.toml").write_text(SWARM)
    few = ["--task-config", "num_drones=4", "--minibatches", "2", "--hidden", "8"]
    assert main([*TRAIN, *few, "--steps", "640", "--critic", "central", "--out", "run"]) == 0
    assert main(["eval", "run", "--episodes", "2", "--json"]) == 0
    assert main(["export", "run", "--out", "team"]) == 0
    assert main(["export", "--check", "team"]) == 0
    command, motor = run_readme(in_tmp / "team", (in_tmp / "team" / "README.md").read_text())
    assert (command.size, motor.size) == (16, 4)
    assert main(["export", "run", "--out", "cf", "--target", "crazyflie"]) == 2
    assert "acts for a team of 4 robots together" in capsys.readouterr().err
    policies, contract = open_run(in_tmp / "run")
    assert policies["drone"].agents == 4
    alone = Policy(standard(contract.groups["drone"].spec.observation_size, 4, (8,)))
    own = replace(contract, groups={"drone": replace(contract.groups["drone"], stages=None)})
    export_bundle({"drone": alone}, own, in_tmp / "alone", prefix="one")
    check_c(in_tmp, contract.groups["drone"].spec)


def check_c(folder: Path, group: Group) -> None:
    """A team's controller observes for each robot what that of one robot does, and acts by its network on all of that."""
    size = group.observation_size
    team = ctypes.CDLL(str(compile_library(folder / "team" / "policy.c", folder / "team")))
    one = ctypes.CDLL(str(compile_library(folder / "alone" / "policy.c", folder / "alone")))
    text = (folder / "alone" / "policy.h").read_text()
    struct = re.search(r"typedef struct \{([^}]*)\} one_state;", text)
    assert struct is not None
    numbers = sum(map(int, re.findall(r"float \w+\[(\d+)\]", struct[1])))
    keeps = [ctypes.create_string_buffer(4096) for _ in range(5)]
    rng, memory = np.random.default_rng(0), ctypes.create_string_buffer(4096)
    team.rookery_start(keeps[4])
    team.rookery_reset(memory)
    for keep in keeps[:4]:
        one.one_start(keep)
    for _ in range(3):
        states = rng.standard_normal((4, numbers)).astype(np.float32)
        wanted, obs, answer = (np.zeros(n, np.float32) for n in (4 * size, 16, 16))
        for i, keep in enumerate(keeps[:4]):
            one.one_observe_state(keep, states[i].ctypes.data_as(POINTER), wanted[i * size :].ctypes.data_as(POINTER))
        assert team.rookery_step(keeps[4], states.ctypes.data_as(POINTER), obs.ctypes.data_as(POINTER)) == 1
        team.rookery_policy(wanted.ctypes.data_as(POINTER), memory, answer.ctypes.data_as(POINTER))
        command = np.zeros(16, np.float32)
        team.rookery_command(answer.ctypes.data_as(POINTER), command.ctypes.data_as(POINTER))
        assert np.array_equal(command, obs)
        low, high = np.array(group.action.low), np.array(group.action.high)
        scaled = low + 0.5 * (np.clip(answer.reshape(4, 4), -1.0, 1.0) + 1.0) * (high - low)
        np.testing.assert_allclose(command.reshape(4, 4), scaled, rtol=1e-5, atol=1e-5)
        for i, keep in enumerate(keeps[:4]):
            one.one_acted(keep, states[i].ctypes.data_as(POINTER), answer[4 * i :].ctypes.data_as(POINTER))
