"""One process learns from what several do: what one alone learns where all wait, and within a bound where they go on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from policies_device import CASES as DEVICE_CASES
from policies_device import learned
from policies_drive import Drive
from policies_fake import FakeEnv
from pretend_gpu import pretended_gpu
from sampled import slow_but
from together import Together, at_once, together

from rookery.experiments.algorithm import begin
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import runner_of
from rookery.policies.algorithms.off_policy import OffPolicy
from rookery.policies.algorithms.off_policy_exchange import Exchange
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.training import checkpoint
from rookery.policies.training.reduction import ALONE
from rookery.policies.training.roles import Roles
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.envs.device_env import on_device
from rookery.sim.errors import RookeryError

WORLDS = 12
SAC_SMALL = SACConfig(
    rollout_steps=6,
    learning_starts=100,
    batch=32,
    buffer_size=WORLDS * 20,  # which is soon full
    hidden=(16,),
    updates_per_step=0.5,
)
TD3_SMALL = TD3Config(
    rollout_steps=6, learning_starts=100, batch=32, buffer_size=WORLDS * 40, hidden=(16,), exploration_noise_last=0.5
)
CASES: dict[str, Any] = {
    "sac": SAC_SMALL,
    "td3": TD3_SMALL,
    "torch": replace(SAC_SMALL, compiled=False, priority_alpha=0.6, return_limit=3.0, n_step=2),
    "memory": replace(SAC_SMALL, memory="gru", memory_size=8, memory_steps=4),
}


def settings_of(config: Any, task: str = "drone-hover", iterations: int = 8) -> RunSettings:
    """A short training with episodes that end within it."""
    return RunSettings(
        task=task,
        num_envs=WORLDS,
        algorithm="td3" if isinstance(config, TD3Config) else "sac",
        randomize="default",
        runner=RunnerConfig(total_steps=WORLDS * 6 * iterations, checkpoint_every=4, trackers=()),
        task_config={"episode_s": 0.3},
        algorithm_config=config,
    )


def run(settings: RunSettings, folder: Path, size: int, staleness: int = 0, resumed: bool = False) -> list[Any]:
    """Train by so many threads; the rows of the log."""
    made = []
    for reduction in together(size):
        roles = Roles(reduction.rank, size, staleness)
        _, algorithm, worlds = begin(settings, settings.randomize, worker=roles if size > 1 else None)
        runner = runner_of(settings, algorithm, folder, {}, reduction=reduction, worlds=worlds)
        if resumed:
            runner.load(folder)
        made.append(runner)
    rows: list[Any] = []
    at_once(*(lambda r=r: r.run(rows.append if r.rank == 0 else lambda row: None) for r in made))
    for runner in made:
        runner.algorithm.close()
        runner.env.close()
    return rows


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """All of the newest checkpoint."""
    path = checkpoint.newest(folder)
    files = checkpoint.read_tensors(path, checkpoint.read_state(path))
    return {f"{file}/{name}": x for file, found in files.items() for name, x in found.items()}


def require_alike(found: dict[str, torch.Tensor], want: dict[str, torch.Tensor]) -> None:
    assert found.keys() == want.keys()
    for name, value in want.items():
        if value.dtype.is_floating_point:
            torch.testing.assert_close(
                found[name], value, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}", check_stride=False
            )
        else:
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize(
    ("case", "sizes"), [("td3", (2,)), *(pytest.param(case, (2, 4), marks=pytest.mark.slow) for case in CASES)]
)
def test_workers_learn_what_one_process_learns(case: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Networks, normalizer, replay memory, worlds and random numbers, after the memory has come round."""
    settings = settings_of(CASES[case])
    rows = {size: run(settings, tmp_path / str(size), size) for size in (1, *sizes)}
    want = tensors_of(tmp_path / "1")
    group = "drone"
    assert want[f"algorithm/{group}.replay.truncated"].any(), "episodes end"
    assert any(f"{group}/critic_loss" in row for row in rows[1]), "gradient steps are made"
    for size in sizes:
        require_alike(tensors_of(tmp_path / str(size)), want)
        for row, alone in zip(rows[size], rows[1], strict=True):
            assert row.keys() - alone.keys() == {"sent_bytes", "received_bytes", "staleness"}
            assert row["staleness"] == 0
            for name in alone.keys() - {"seconds", "samples_per_s", "collect_s", "learn_s"}:
                assert row[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-4), name


def continued(source: Path, folder: Path) -> None:
    """Begin a run folder with the oldest checkpoint of another."""
    kept = checkpoint.complete(source)[0]
    shutil.copytree(kept, folder / "checkpoints" / kept.name)


@pytest.mark.parametrize("case", ["td3", pytest.param("memory", marks=pytest.mark.slow)])
def test_a_checkpoint_goes_on_with_another_number_of_workers(case: str, tmp_path: Path) -> None:
    settings = settings_of(CASES[case])
    for size in (1, 2):
        run(settings, tmp_path / str(size), size)
    for source, size in ((2, 1), (1, 3), (2, 2)):
        folder = tmp_path / f"{source} and then {size}"
        continued(tmp_path / str(source), folder)
        run(settings, folder, size, resumed=True)
        require_alike(tensors_of(folder), tensors_of(tmp_path / "1"))


def learners(size: int, staleness: int, config: Any = SAC_SMALL) -> list[tuple[OffPolicy, Together]]:
    """Algorithms of processes with six worlds each."""
    kind = TD3 if isinstance(config, TD3Config) else SAC
    made = []
    for reduction in together(size):
        roles = Roles(reduction.rank, size, staleness)
        made.append((kind(FakeEnv(6, seed=reduction.rank), config, seed=1, roles=roles), reduction))
    return made


class Watched:
    """Notes the weights of each rollout and of the learner before each update."""

    def __init__(self, algorithm: OffPolicy) -> None:
        self.acted: list[torch.Tensor] = []
        self.learned: list[torch.Tensor] = []
        act, update = algorithm.act, algorithm.update

        def weights() -> torch.Tensor:
            return torch.cat([x.detach().flatten() for x in algorithm.learners["point"].acting()]).clone()

        def acting(obs: Any) -> Any:
            if algorithm.steps % algorithm.rollout_steps == 0:
                self.acted.append(weights())
            return act(obs)

        def updating(progress: float) -> Any:
            self.learned.append(weights())
            return update(progress)

        algorithm.act, algorithm.update = acting, updating  # type: ignore[method-assign]


@pytest.mark.parametrize("staleness", slow_but([2], [1, 2, 3]))
def test_weights_that_act_are_no_older_than_allowed_and_the_log_says_how_old(staleness: int, tmp_path: Path) -> None:
    config = replace(SAC_SMALL, learning_starts=0, buffer_size=1000, compiled=False)
    made = learners(3, staleness, config)
    watched = [Watched(algorithm) for algorithm, _ in made]
    settings = RunnerConfig(total_steps=12 * 6 * 11, checkpoint_every=5, trackers=())
    runners = [Runner(a, settings, tmp_path, reduction=r, worlds=Joined(2)) for a, r in made]  # type: ignore[arg-type]
    rows: list[Any] = []
    at_once(*(lambda r=r: r.run(rows.append if r.rank == 0 else lambda row: None) for r in runners))
    learned = watched[0].learned
    assert not watched[0].acted, "the first process steps no world"
    assert len(rows) == len(learned) == len(watched[1].acted) == len(watched[2].acted) == 11
    assert all(not torch.equal(x, y) for x, y in zip(learned, learned[1:], strict=False)), "each update changes weights"
    ages = []
    for i, (mine, other) in enumerate(zip(watched[1].acted, watched[2].acted, strict=True)):
        assert torch.equal(mine, other)
        ages.append(next(age for age in range(i + 1) if torch.equal(mine, learned[i - age])))
    assert [row["staleness"] for row in rows] == ages
    assert max(ages) == staleness, "it is made use of"
    assert [ages[i] for i in (0, 5, 10)] == [0, 0, 0], "all begin with the weights of a checkpoint"
    assert [row["steps"] for row in rows] == [72 * (i + 1) for i in range(11)]
    assert made[0][0].learners["point"].replay.size == 66, "the learner has all worlds' steps"
    assert made[0][0].learners["point"].replay.reward.shape[1] == 12


class Joined:
    """In place of a task's ShardStates: nothing of an environment is joined."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def join(self, parts: Any) -> dict[str, torch.Tensor]:
        return {}


def test_a_run_with_older_weights_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    settings = settings_of(CASES["memory"])
    rows = run(settings, tmp_path / "whole", 3, staleness=1)
    assert {row["staleness"] for row in rows} == {0.0, 1.0}
    continued(tmp_path / "whole", tmp_path / "again")
    run(settings, tmp_path / "again", 3, staleness=1, resumed=True)
    found, want = (tensors_of(tmp_path / name) for name in ("again", "whole"))
    assert found.keys() == want.keys()
    assert all(torch.equal(found[name], want[name]) for name in want)
    # and one process alone goes on from it
    run(
        replace(settings, runner=replace(settings.runner, total_steps=WORLDS * 60)), tmp_path / "whole", 1, resumed=True
    )
    assert int(checkpoint.newest(tmp_path / "whole").name) == WORLDS * 60


@pytest.mark.parametrize("old", [1, 2])
def test_a_worker_with_too_old_weights_ends_the_training(old: int) -> None:
    """Whichever it is: the oldest weights count."""
    made = learners(3, 1)
    for algorithm, reduction in made:
        algorithm.share(reduction)
    at_once(*(algorithm.begin_rollout for algorithm, _ in made))
    for actor, _ in made[1:]:
        obs = actor.env.reset()[0]
        for _ in range(actor.rollout_steps):
            actions = actor.act(obs)
            actor.observe(obs, actions, actor.env.step(actions))
    assert made[old][0].exchange is not None
    made[old][0].exchange.version = -2

    def learn() -> None:
        with pytest.raises(RookeryError, match="a worker acted with weights that are 2 updates old, and 1 are allowed"):
            made[0][0].exchange.transitions(0)  # type: ignore[union-attr]

    at_once(learn, *(lambda a=a: a.exchange.transitions(0) for a, _ in made[1:]))


def test_processes_that_are_not_those_of_the_roles_are_refused() -> None:
    algorithm = SAC(FakeEnv(6), SAC_SMALL, roles=Roles(0, 2))
    with pytest.raises(ValueError, match="shared as 0 of 3"):
        algorithm.share(together(3)[0])


def test_what_is_random_differs_between_those_that_act_and_the_learner() -> None:
    """With older weights the learner draws batches while others explore, and they do not draw the same numbers; nor do those
    that explore draw those of an earlier rollout again."""
    made = learners(3, 1)
    for algorithm, reduction in made:
        algorithm.share(reduction)
    before = made[1][0]._generator.get_state()
    for _ in range(2):
        at_once(*(lambda a=a: a.exchange.send_weights(0) for a, _ in made))  # type: ignore[union-attr]
        states = [algorithm._generator.get_state() for algorithm, _ in made]
        assert torch.equal(states[1], states[2])
        assert not torch.equal(states[0], states[1])
        assert not torch.equal(states[1], before)
        before = states[1]
    obs = {"point": torch.zeros(6, 1, 3)}
    first, second = (algorithm.act(obs)["point"] for algorithm, _ in made[1:])
    assert not torch.equal(first, second), "each has its part of the noise"


@pytest.mark.parametrize(
    ("algorithm", "staleness", "said"),
    [
        ("ppo", 1, "--staleness is for sac and td3, and ppo learns from what its weights of now did: leave it out"),
        ("dagger", 0, "--workers is for ppo, sac and td3, not for dagger: leave it out"),
        ("sac", 2, "15 worlds cannot be divided evenly among 2 workers that step at least 2 each: give --num-envs 16"),
    ],
)
def test_what_workers_cannot_learn_is_refused(algorithm: str, staleness: int, said: str) -> None:
    settings = RunSettings("drone-hover", num_envs=15, algorithm=algorithm)
    with pytest.raises(RookeryError, match=said):
        begin(settings, "none", worker=Roles(0, 3, staleness))


def through_messages(name: str, device: torch.device) -> tuple[OffPolicy, list[dict[str, float]]]:
    """`learned`, with rollouts that reach the learner as the messages of a process."""
    algorithm: Any = DEVICE_CASES[name](lambda env: on_device(env, device))
    algorithm.exchange = Exchange(algorithm.learners, algorithm._generator, algorithm.roles, ALONE)
    drive = Drive(algorithm)
    return algorithm, [drive.iterate(1, i / 3) for i in range(3)]


@pytest.mark.parametrize("name", [case for case in DEVICE_CASES if not case.startswith(("ppo", "dagger"))])
def test_what_came_in_messages_is_learned_from_as_what_was_done_here(name: str) -> None:
    """To the last bit, for every option of off-policy algorithms."""
    here, wanted = learned(name, torch.device("cpu"))
    there, figures = through_messages(name, torch.device("cpu"))
    for mine, its in zip(wanted, figures, strict=True):
        assert its.pop("staleness") == 0.0
        assert its == mine
    state, kept = here.state_dict(), there.state_dict()
    assert state.keys() == kept.keys()
    assert all(torch.equal(kept[k], x) for k, x in state.items())


@pytest.mark.parametrize("name", ["sac-pictures", "sac-gru"])
def test_rollouts_and_weights_of_a_gpu_go_by_way_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted = learned(name, torch.device("cpu"))
    with pretended_gpu(monkeypatch) as gpu:
        there, figures = through_messages(name, gpu)
        there.begin_rollout()
    for mine, its in zip(wanted, figures, strict=True):
        assert its.pop("staleness") == 0.0
        assert its == pytest.approx(mine, rel=1e-4, abs=1e-5, nan_ok=True)
