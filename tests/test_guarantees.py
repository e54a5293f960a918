"""What docs/guarantees.md promises."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

TASKS = ("drone-hover", "swarm-surround", "volley-1v1", "go2-velocity", "table-push")
"""One of each kind."""


def actions(env: Env, steps: int, worlds: int) -> list[dict[str, torch.Tensor]]:
    """Near neutral; those of the first worlds do not depend on how many there are."""
    chance = torch.Generator().manual_seed(1)
    out = []
    for _ in range(steps):
        step = {}
        for name, group in env.groups.items():
            noise = torch.randn(worlds, group.count, group.action.size, generator=chance)
            step[name] = (torch.tensor(group.action.neutral) + 0.2 * noise)[: env.num_envs]
        out.append(step)
    return out


def flat(result: tuple) -> list[torch.Tensor]:
    obs, reward, terminated, truncated, _ = result
    return [*obs.values(), *reward.values(), terminated, truncated]


def trace(env: Env, steps: int = 12, worlds: int = 11) -> list[list[torch.Tensor]]:
    """Everything that a reset and some steps return, copied."""
    out = [[x.clone() for x in env.reset()[0].values()]]
    out += [[x.clone() for x in flat(env.step(a))] for a in actions(env, steps, worlds)]
    return out


def equal(a: list[list[torch.Tensor]], b: list[list[torch.Tensor]], worlds: int) -> bool:
    return all(
        torch.equal(x[:worlds], y[:worlds]) for xs, ys in zip(a, b, strict=True) for x, y in zip(xs, ys, strict=True)
    )


@pytest.mark.parametrize("task", TASKS)
def test_a_world_is_the_same_among_any_number(task):
    """Observations, rewards and ends, to the bit."""
    few, many = (rookery.make(task, n, seed=3, randomize="default") for n in (3, 11))
    assert equal(trace(few), trace(many), worlds=3)


@pytest.mark.parametrize("task", TASKS)
def test_threads_change_nothing(task):
    before = torch.get_num_threads()
    traces = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            traces.append(trace(rookery.make(task, 11, seed=3, randomize="default")))
    finally:
        torch.set_num_threads(before)
    assert equal(*traces, worlds=11)


@pytest.mark.parametrize("task", TASKS)
def test_a_restored_environment_goes_on_to_the_bit(task):
    one, two = (rookery.make(task, 3, seed=s, randomize="default") for s in (3, 4))
    trace(one)
    two.load_state_dict(one.state_dict())
    for a in actions(one, 10, 3):
        assert equal([flat(one.step(a))], [flat(two.step(a))], worlds=3)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_returned_belongs_to_the_caller(task):
    """Later steps do not write it, and writing it changes nothing."""
    mine, untouched = (rookery.make(task, 3, seed=3, randomize="default") for _ in range(2))
    wanted = trace(untouched, worlds=3)
    kept = [list(mine.reset()[0].values())]
    for a in actions(mine, 12, 3):
        given = {name: x.clone() for name, x in a.items()}
        kept.append(flat(mine.step(given)))
        assert all(torch.equal(given[name], a[name]) for name in a), "actions were written"
    assert equal(kept, wanted, worlds=3)
    state = mine.state_dict()
    before = {name: x.clone() for name, x in state.items()}
    for x in [*kept[-1], *state.values()]:
        x.zero_()
    assert all(torch.equal(x, before[name]) for name, x in mine.state_dict().items())


def in_child(task: str, queue: multiprocessing.Queue) -> None:
    torch.set_num_threads(1)
    queue.put([[x.tolist() for x in xs] for xs in trace(rookery.make(task, 2, seed=3), 4, 2)])


@pytest.mark.slow  # processes of a sharded environment are compared with one process in every run
@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity"])
def test_an_environment_made_in_a_spawned_process_is_the_same(task):
    wanted = [[x.tolist() for x in xs] for xs in trace(rookery.make(task, 2, seed=3), 4, 2)]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(task, queue))
    child.start()
    try:
        assert queue.get(timeout=120) == wanted
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity"])
def test_after_a_fork_the_parents_environment_is_refused(task):
    """At once: its threads are not there, and waiting for them would never end."""
    env = rookery.make(task, 2)
    env.reset()
    some = actions(env, 1, 2)[0]
    child = os.fork()
    if not child:
        signal.alarm(20)
        refused = 0
        for use in (env.reset, lambda: env.step(some)):
            try:
                use()
            except RookeryError as error:
                refused += "before a fork" in str(error)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    env.step(some)


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity"])
def test_a_closed_environment_says_so(task):
    env = rookery.make(task, 2)
    env.reset()
    env.close()
    env.close()
    for use in (env.reset, lambda: env.step(actions(env, 1, 2)[0])):
        with pytest.raises(RookeryError, match="closed"):
            use()
