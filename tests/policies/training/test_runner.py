"""The runner against an algorithm whose every number is known: what it calls, when it stops, what it keeps."""

from __future__ import annotations

import csv
import os
import signal
import time
from dataclasses import dataclass, replace

import numba
import pytest
import torch
from policies_fake import FakeEnv

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training import checkpoint, store
from rookery.policies.training.interruption import Interrupted
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.deployment import Deployment
from rookery.sim.errors import RookeryError

WORLDS = 6


@dataclass(frozen=True)
class CountingConfig:
    rollout_steps: int = 4
    gain: float = 0.5


class Counting(Algorithm):
    """Pushes to the origin with noise and counts what it is called with; `mean` depends on everything that came before."""

    Config = CountingConfig

    def __init__(self, env, config=None, seed=0, inputs=None):
        self.env = env
        self.config = config or CountingConfig()
        self.rollout_steps = self.config.rollout_steps
        self.generator = torch.Generator().manual_seed(seed)
        self.mean = torch.zeros(3)
        self.pending = torch.zeros(3)
        self.calls: list[str] = []
        self.progress: list[float] = []
        self.last_obs: torch.Tensor | None = None
        self.nan_at = -1

    @property
    def steps_per_update(self):
        return 100 if self.rollout_steps == 0 else self.rollout_steps * self.env.num_envs

    def act(self, obs):
        self.calls.append("act")
        if self.last_obs is not None:
            assert torch.equal(obs["point"], self.last_obs), "observations are those of the step before"
        noise = torch.randn(obs["point"].shape[:2], generator=self.generator).unsqueeze(-1)
        return {"point": (noise - self.config.gain * obs["point"][..., :1]).clamp(-1, 1)}

    def observe(self, obs, actions, result):
        self.calls.append("observe")
        self.last_obs = result[0]["point"]
        self.pending += obs["point"].mean((0, 1)) + actions["point"].mean() + result[1]["point"].mean()

    def update(self, progress):
        self.calls.append("update")
        self.progress.append(progress)
        self.mean = 0.9 * self.mean + self.pending + torch.randn(3, generator=self.generator)
        self.pending = torch.zeros(3)
        return {"point/loss": float("nan") if len(self.progress) == self.nan_at else self.mean.sum().item()}

    def policies(self):
        policy = Policy(standard(3, 1, (4,)))
        for parameter in policy.parameters():
            parameter.data.fill_(self.mean.sum().item())
        return {"point": policy}

    def state_dict(self):
        return {"mean": self.mean, "pending": self.pending, "generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.mean = state["mean"].clone()
        self.pending = state["pending"].clone()
        self.generator.set_state(state["generator"])


CONFIG = RunnerConfig(total_steps=6 * 4 * WORLDS, checkpoint_every=1)


def make(folder, config=CONFIG, algorithm=CountingConfig(), worlds=WORLDS, **options):
    return Runner(Counting(FakeEnv(worlds, horizon=5), algorithm), config, folder, name="counting", **options)


def quiet(row):
    pass


def state_of(runner):
    return {f"{part}/{k}": v.clone() for part, d in runner._tensors().items() for k, v in d.items()}


def assert_same(a, b):
    one = state_of(a)
    two = state_of(b)
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name
    assert (a.steps, a.iteration, a.episodes.state_dict()) == (b.steps, b.iteration, b.episodes.state_dict())


def test_calls_are_in_the_documented_order(tmp_path):
    runner = make(tmp_path, replace(CONFIG, total_steps=2 * 4 * WORLDS))
    assert runner.run(quiet) == "steps"
    assert runner.algorithm.calls == (["act", "observe"] * 4 + ["update"]) * 2
    assert runner.algorithm.progress == [0.0, 0.5]
    assert (runner.steps, runner.iteration) == (2 * 4 * WORLDS, 2)


def test_the_policy_is_there_before_its_checkpoint(tmp_path, monkeypatch):
    """A kill between the two must not leave a finished run with an older policy than its last checkpoint."""
    steps = []
    write = checkpoint.write

    def noting(folder, at, *rest):
        steps.append((at, store.load_policy(folder)[1]["provenance"]["steps"]))
        return write(folder, at, *rest)

    monkeypatch.setattr(checkpoint, "write", noting)
    contract = {"groups": {"point": {}}, "provenance": {"steps": 0}}
    make(tmp_path, replace(CONFIG, total_steps=3 * 4 * WORLDS), contract=contract).run(quiet)
    assert steps == [(k * 4 * WORLDS, k * 4 * WORLDS) for k in (1, 2, 3)]


def test_inputs_that_have_changed_are_refused(tmp_path):
    made = make(tmp_path, inputs={"data": "abc"})
    made.iterate()
    made.save()
    make(tmp_path, inputs={"data": "abc"}).load(tmp_path)
    with pytest.raises(RookeryError, match="the files that --data names have changed since"):
        make(tmp_path, inputs={"data": "abd"}).load(tmp_path)


def test_total_steps_and_rollout_steps_are_two_numbers(tmp_path):
    """Twice the rollout halves the updates and leaves the total as it is."""
    runner = make(tmp_path, algorithm=CountingConfig(rollout_steps=8))
    runner.run(quiet)
    assert (runner.steps, runner.iteration) == (6 * 4 * WORLDS, 3)


def test_an_algorithm_without_rollouts_never_steps_the_environment(tmp_path):
    config = replace(CONFIG, total_steps=250)
    runner = make(tmp_path, config, CountingConfig(rollout_steps=0))
    assert runner.run(quiet) == "steps"
    assert runner.algorithm.calls == ["update"] * 3
    assert (runner.steps, runner.obs) == (300, None)
    assert not runner.env.clock.any()
    resumed = make(tmp_path, config, CountingConfig(rollout_steps=0))
    resumed.load(checkpoint.complete(tmp_path)[0])
    resumed.run(quiet)
    assert_same(runner, resumed)


@pytest.mark.parametrize("total", [1, 4 * WORLDS - 1, 4 * WORLDS, 4 * WORLDS + 1])
def test_the_terminal_is_told_the_steps_that_will_be_made(tmp_path, total, capsys):
    config = replace(CONFIG, total_steps=total)
    runner = make(tmp_path, config)
    assert runner.run(None) == "steps"
    assert runner.steps == config.end(0, 4 * WORLDS) == config.end(runner.steps, 4 * WORLDS)
    assert f"{runner.steps} of {runner.steps} steps" in capsys.readouterr().err


def test_a_resumed_run_is_bit_equal(tmp_path):
    straight = make(tmp_path / "a")
    straight.run(quiet)
    for folder in checkpoint.complete(tmp_path / "a"):
        resumed = make(tmp_path / "b")
        resumed.load(folder)
        resumed.run(quiet)
        assert_same(straight, resumed)


class Staggered(FakeEnv):
    """Tells which of its episodes began in the middle."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.cut = torch.zeros(self.num_envs, dtype=torch.bool)

    def stagger(self):
        super().stagger()
        self.cut.copy_(self.clock > 0)

    def step(self, actions):
        *result, info = super().step(actions)
        if "episode" in info:
            ids = info["episode"]["ids"]
            info["episode"]["cut"] = self.cut[ids]
            self.cut[ids] = False
        return *result, info

    def state_dict(self):
        return super().state_dict() | {"cut": self.cut.clone()}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.cut.copy_(state["cut"])


def test_a_resumed_run_counts_no_episode_that_began_in_the_middle(tmp_path):
    """World 0 alone begins at its beginning, and within four steps no episode of five ends that did."""

    def made(folder):
        return Runner(Counting(Staggered(5, horizon=5)), CONFIG, folder, name="counting")

    whole, killed = made(tmp_path / "a"), made(tmp_path / "b")
    assert "episodes" not in whole.iterate() and "episodes" not in killed.iterate()
    killed.env.cut[3] = whole.env.cut[3] = True
    killed.save()
    resumed = made(tmp_path / "b")
    resumed.load(tmp_path / "b")
    row = resumed.iterate()
    assert row["episodes"] == whole.iterate()["episodes"] == 3 and row["length"] == 5
    assert_same(resumed, whole)


def test_the_log_has_one_row_an_iteration_also_after_a_resume(tmp_path):
    make(tmp_path, replace(CONFIG, total_steps=3 * 4 * WORLDS)).run(quiet)
    resumed = make(tmp_path)
    resumed.load(checkpoint.complete(tmp_path)[1])
    resumed.run(quiet)
    with open(tmp_path / "progress.csv") as f:
        rows = list(csv.DictReader(f))
    assert [int(r["iteration"]) for r in rows] == [1, 2, 3, 4, 5, 6]
    assert [int(r["steps"]) for r in rows] == [24 * k for k in range(1, 7)]
    assert float(rows[-1]["point/loss"]) == pytest.approx(resumed.algorithm.mean.sum().item(), rel=1e-5)


def test_it_stops_at_the_success_target_and_says_so(tmp_path):
    config = replace(CONFIG, total_steps=10**6, target_success=0.0, success_window=4)
    runner = make(tmp_path, config)
    assert runner.run(quiet) == "success"
    assert 1 <= runner.iteration <= 3
    assert checkpoint.newest(tmp_path).name == f"{runner.steps:012d}"


class Widening(FakeEnv):
    """A curriculum of randomization that draws all of the width from the 40th control step on."""

    def deployment(self):
        self.asked = min(1.0, self.made / 40)
        return Deployment(randomization_share=self.asked)

    made = 0

    def step(self, actions):
        self.made += 1
        return super().step(actions)


def test_success_is_none_while_little_is_randomized(tmp_path):
    config = replace(CONFIG, total_steps=10**6, target_success=0.0, success_window=4)
    told = []
    runner = Runner(
        Counting(Widening(WORLDS)), config, tmp_path, refresh=lambda contract: told.append(runner.randomization_share)
    )
    assert runner.run() == "success"
    assert runner.steps == 40 * WORLDS and told[-1] == 1.0
    with (tmp_path / "progress.csv").open() as file:
        shares = [float(row["randomization_share"]) for row in csv.DictReader(file)]
    assert shares == pytest.approx([0.1 * (i + 1) for i in range(10)])


class Compiling(Counting):
    """Compiles a function in its first update."""

    spent = 0.0

    def update(self, progress):
        if not self.spent:
            begin = time.perf_counter()
            numba.njit(lambda x: x + progress)(1.0)
            self.spent = time.perf_counter() - begin
        return super().update(progress)


def test_compiling_is_no_part_of_the_training(tmp_path):
    """A minute of it, on a machine that has not trained before, used up a time limit of a minute."""
    runner = Runner(Compiling(FakeEnv(WORLDS, horizon=5)), CONFIG, tmp_path, name="counting")
    begin = time.perf_counter()
    row = runner.iterate()
    spent = time.perf_counter() - begin
    assert runner.seconds == row["seconds"] <= spent - 0.9 * runner.algorithm.spent


def test_it_stops_when_the_time_is_over_resumes_included(tmp_path):
    runner = make(tmp_path, replace(CONFIG, total_steps=10**6, time_limit_s=1e-9))
    assert runner.run(quiet) == "time"
    assert runner.iteration == 1
    resumed = make(tmp_path, replace(CONFIG, total_steps=10**6, time_limit_s=1e-9))
    resumed.load(tmp_path)
    assert resumed.run(quiet) == "time"
    assert resumed.iteration == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_finishes_the_iteration_and_saves(tmp_path, number, request):
    straight = make(tmp_path / "straight")
    straight.run(quiet)
    if number == signal.SIGHUP:  # ignored where the tests themselves run under nohup
        original = signal.signal(number, signal.SIG_DFL)
        request.addfinalizer(lambda: signal.signal(number, original))
    before = signal.getsignal(number)

    def press(row):
        if row["iteration"] == 3:
            os.kill(os.getpid(), number)

    seldom = replace(CONFIG, checkpoint_every=100)
    with pytest.raises(Interrupted) as stop:
        make(tmp_path / "run", seldom).run(press)
    assert stop.value.folder.name == f"{3 * 4 * WORLDS:012d}"
    assert signal.getsignal(number) is before
    resumed = make(tmp_path / "run")
    resumed.load(tmp_path / "run")
    resumed.run(quiet)
    assert_same(straight, resumed)


def test_under_nohup_a_hangup_changes_nothing(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert make(tmp_path).run(lambda row: os.kill(os.getpid(), signal.SIGHUP)) == "steps"
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    def try_another(row):
        with pytest.raises(
            RookeryError, match=rf"is being trained by another process \({os.getpid()}\): wait for its end"
        ):
            make(tmp_path).run(quiet)

    make(tmp_path).run(try_another)
    longer = make(tmp_path, replace(CONFIG, total_steps=2 * CONFIG.total_steps))
    longer.load(tmp_path)
    assert longer.run(quiet) == "steps"  # the lock is gone with the run


def test_contract_settings_and_name_travel(tmp_path):
    saved = []
    contract = {"groups": {}, "provenance": {"steps": 0}}
    runner = make(tmp_path, contract=contract, settings={"task": "fake"}, saved=saved.append)
    runner.run(quiet)
    state = checkpoint.read_state(tmp_path)
    assert (state["algorithm"], state["settings"], state["config"]) == (
        "counting",
        {"task": "fake"},
        {"rollout_steps": 4, "gain": 0.5},
    )
    assert store.load_policy(tmp_path)[1]["provenance"]["steps"] == runner.steps
    assert saved[-1] == checkpoint.newest(tmp_path) and len(saved) == 6


def test_what_does_not_fit_is_refused(tmp_path):
    make(tmp_path).run(quiet)
    with pytest.raises(RookeryError, match=r"made with config .*0\.5.* not .*0\.7"):
        make(tmp_path, algorithm=CountingConfig(gain=0.7)).load(tmp_path)
    with pytest.raises(RookeryError, match="num_envs 6, not 7"):
        make(tmp_path, worlds=7).load(tmp_path)
    other = make(tmp_path)
    other.name = "another"
    with pytest.raises(RookeryError, match="algorithm 'counting', not 'another'"):
        other.load(tmp_path)


def test_a_figure_that_is_no_number_is_an_error(tmp_path):
    runner = make(tmp_path)
    runner.algorithm.nan_at = 2
    with pytest.raises(RookeryError, match=r"training diverged: point/loss is not a number after 48 steps"):
        runner.run(quiet)
    assert checkpoint.newest(tmp_path).name == f"{4 * WORLDS:012d}", "the checkpoint before is left"


class Overflowing(Counting):
    """Its weights are NaN after the last gradient step of its third update, of which no figure tells."""

    def policies(self):
        found = super().policies()
        if len(self.progress) == 3:
            for policy in found.values():
                policy.get_parameter("perceptron.bias_0").data.fill_(torch.nan)
        return found


def test_weights_that_are_nan_replace_no_checkpoint(tmp_path):
    """mjlab issue 291: the policy was NaN after an update whose losses were not, and what was saved of it was lost."""
    runner = Runner(Overflowing(FakeEnv(WORLDS, horizon=5)), replace(CONFIG, keep=1), tmp_path, name="counting")
    with pytest.raises(
        RookeryError, match=r"training diverged: the policy of 'point' holds NaN or infinity in perceptron.bias_0"
    ):
        runner.run(quiet)
    assert checkpoint.newest(tmp_path).name == f"{2 * 4 * WORLDS:012d}"
    assert not store.load_policy(tmp_path)[0]["point"].fault()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"total_steps": 0}, "total_steps must be from 1 to 1e"),
        ({"total_steps": 10**99}, "total_steps must be from 1 to 1e"),
        ({"keep": 0}, "keep must be at least 1"),
        ({"time_limit_s": 0.0}, "time_limit_s must be above 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s must be above 0"),
        ({"target_success": 1.5}, "target_success must be from 0 to 1"),
    ],
)
def test_impossible_stop_criteria_are_refused(changes, words):
    with pytest.raises(RookeryError, match=words):
        RunnerConfig(**changes)
