"""Processes of a ShardedEnv that are killed, stopped or starved, calls that are interrupted, and a parent that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.sim.envs import shard_pool, shard_process
from rookery.sim.envs.shard_messages import HEAD, REPLY, REQUEST, ShardChannel
from rookery.sim.envs.sharded_env import ShardedEnv
from rookery.sim.errors import ProcessLost, RookeryError
from rookery.sim.idle_watch import LOOK_S, IdleWatch

OPTIONS: dict[str, Any] = {"seed": 3, "randomize": "default", "config": {"episode_s": 0.25}}
WORLDS = 4


def sharded() -> ShardedEnv:
    env = rookery.make("table-push", WORLDS, shards=2, **OPTIONS)
    assert isinstance(env, ShardedEnv)
    return env


def actions(seed: int) -> Tensor:
    return torch.rand(WORLDS, 1, 4, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def ended(pid: int) -> bool:
    """Whether a process does nothing any more; one that nobody waits for stays as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(done: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def left_in_memory() -> set[str]:
    """Names in shared memory but those that belong to other programs, which come and go."""
    names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return {name for name in names if name.startswith(("rookery", "tmp", "torch"))}


def same_steps(one: Any, other: Any, count: int = 30) -> None:
    """Both environments go on alike, bit for bit."""
    for seed in range(count):
        a, b = one.step(actions(seed)), other.step(actions(seed))
        assert torch.equal(a[0]["arm"], b[0]["arm"]), f"step {seed}"
        assert torch.equal(a[1]["arm"], b[1]["arm"]), f"step {seed}"
        assert torch.equal(a[2], b[2]) and torch.equal(a[3], b[3]), f"step {seed}"
    saved = one.state_dict()
    other.load_state_dict(saved)
    for seed in range(3):
        assert torch.equal(one.step(actions(seed))[0]["arm"], other.step(actions(seed))[0]["arm"]), (
            f"loaded, step {seed}"
        )
    for name, value in one.state_dict().items():
        assert torch.equal(value.nan_to_num(9e9), other.state_dict()[name].nan_to_num(9e9)), name


@pytest.fixture(scope="module")
def env() -> Iterator[ShardedEnv]:
    """Two processes, which tests may have replaced but leave whole."""
    before = left_in_memory()
    made = sharded()
    yield made
    pids = made._pool.pids
    made.close()
    assert all(ended(pid) for pid in pids)
    assert left_in_memory() == before


@pytest.fixture
def reference() -> Any:
    return rookery.make("table-push", WORLDS, **OPTIONS)


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``hooks(env, shard, "send" or "receive", before=, after=)``: called once around the shard's next message."""

    def place(env: ShardedEnv, shard: int, kind: str, before: Any = None, after: Any = None) -> None:
        channel = env._pool._channels[shard]
        real = getattr(channel, kind)

        def hooked(*args: Any) -> Any:
            setattr(channel, kind, real)
            if before is not None:
                before()
            out = real(*args)
            if after is not None:
                after()
            return out

        setattr(channel, kind, hooked)

    return place


# Interrupted calls. None of them costs a process.


def interrupt() -> None:
    raise KeyboardInterrupt


def real_interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("raising", slow_but([real_interrupt], [interrupt, real_interrupt]))
@pytest.mark.parametrize(
    ("shard", "kind", "when"),
    [(0, "send", "before"), (0, "send", "after"), (1, "send", "after"), (0, "receive", "before"), (0, "receive", "after"),
     (1, "receive", "after")],
)  # fmt: skip
def test_after_an_interrupted_step_no_reply_comes_late(env, reference, hooks, raising, shard, kind, when):
    env.reset(1)
    env.step(actions(0))
    hooks(env, shard, kind, **{when: raising})
    with pytest.raises(KeyboardInterrupt):
        env.step(actions(1))
    for use in (lambda: env.step(actions(2)), env.state_dict, lambda: env.state, lambda: env.mj_data(0)):
        with pytest.raises(RookeryError, match=r"step\(\) was interrupted or failed"):
            use()
    assert torch.equal(env.reset(7)[0]["arm"], reference.reset(7)[0]["arm"])
    same_steps(env, reference)


def test_after_an_interrupted_step_a_saved_state_is_right(env, reference, hooks):
    env.reset(2)
    reference.reset(2)
    saved = env.state_dict()
    hooks(env, 1, "send", before=interrupt)
    with pytest.raises(KeyboardInterrupt):
        env.step(actions(1))
    env.load_state_dict(saved)
    same_steps(env, reference, 5)


def test_an_interrupted_question_changes_nothing(env, reference, hooks):
    """Whose reply comes late, and is not taken for that of the next question."""
    env.reset(4)
    reference.reset(4)
    for shard, kind in ((0, "receive"), (1, "receive"), (0, "send")):
        hooks(env, shard, kind, before=interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.metrics()
        assert torch.equal(env.state, reference.state)
    same_steps(env, reference, 5)


def test_a_reply_from_the_future_is_refused(env, hooks):
    env.reset(0)
    env._pool._number -= 1
    hooks(env, 0, "send", before=lambda: setattr(env._pool, "_number", env._pool._number - 1))
    with pytest.raises(RuntimeError, match="which is after the last one"):
        env.metrics()
    env._pool._number += 2
    env.reset(0)


def test_a_step_that_fails_in_one_shard_is_not_gone_on_from(env, reference):
    """Worlds of the other shard have made it."""
    env.reset(0)
    env._shared.actions["arm"][WORLDS - 1] = torch.nan  # as a program does that writes to shared memory itself
    with pytest.raises(RookeryError, match="NaN"):
        env._call("step")
    with pytest.raises(RookeryError, match="interrupted or failed"):
        env.step(actions(0))
    assert torch.equal(env.reset(5)[0]["arm"], reference.reset(5)[0]["arm"])
    same_steps(env, reference, 3)


# Lost processes. Each case costs a new one.


def kill(env: ShardedEnv, shard: int) -> None:
    pid = env._pool.pids[shard]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: ended(pid))


def stop(env: ShardedEnv, shard: int) -> None:
    os.kill(env._pool.pids[shard], signal.SIGSTOP)


def before_reset(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    lose(env, 1)
    env.reset(6)


def in_reset(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    """Of shard 1, after shard 0 was asked."""
    hooks(env, 0, "send", after=lambda: lose(env, 1))
    env.reset(6)


def half_in_a_step(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    """Shard 0 has made it, shard 1 had just received it."""
    env.reset(6)
    stop(env, 1)
    hooks(env, 0, "receive", after=lambda: lose(env, 1))
    env.step(actions(99))


def after_a_step(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    """Its reply lies there already."""
    env.reset(6)
    hooks(env, 1, "receive", before=lambda: lose(env, 1))
    env.step(actions(99))


def between_steps(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    """Far into an episode, past several of its states."""
    env.reset(6)
    for seed in range(7):
        env.step(actions(seed))
    lose(env, 0)
    env.step(actions(99))


def in_its_state(env: ShardedEnv, hooks: Any, lose: Any) -> None:
    env.reset(6)
    env.step(actions(99))
    lose(env, 1)
    env.state_dict()


PHASES = [before_reset, in_reset, half_in_a_step, after_a_step, between_steps, in_its_state]


@pytest.mark.parametrize("phase", slow_but([half_in_a_step], PHASES))
def test_a_lost_process_is_replaced_where_that_is_wanted(env, reference, hooks, monkeypatch, phase):
    """And the environment goes on as if nothing had been."""
    monkeypatch.setattr("rookery.sim.envs.shard_history.MOST_CALLS", 3)
    env.survive_loss()
    env._loss = ""
    old = env._pool.pids
    phase(env, hooks, kill)
    undisturbed = after_a_step if phase is half_in_a_step else phase
    undisturbed(reference, lambda *args, **more: None, lambda *args: None)
    same_steps(env, reference, 10)
    assert "the process of shard" in env.loss and "was ended by SIGKILL" in env.loss
    replaced = [a != b for a, b in zip(old, env._pool.pids, strict=True)]
    assert sum(replaced) == 1 and [ended(pid) for pid in old] == replaced


@pytest.mark.slow
def test_one_that_is_stopped_is_replaced_too(env, reference, hooks, monkeypatch):
    monkeypatch.setattr(env._pool, "_limit_s", 1.0)
    env.survive_loss()
    env._loss = ""
    between_steps(env, hooks, stop)
    between_steps(reference, hooks, lambda *args: None)
    same_steps(env, reference, 5)
    assert env.loss.startswith("the process of shard 0 has not answered and not computed for 1 s")
    assert "ROOKERY_SHARD_TIMEOUT_S" in env.loss


@pytest.mark.parametrize("allocate", [lambda: torch.empty(1 << 60), lambda: np.empty(1 << 56)])
def test_one_that_runs_out_of_memory_is_lost(allocate):
    with pytest.raises((RuntimeError, MemoryError)) as raised:
        allocate()
    error = shard_pool._error(3, shard_process._described(raised.value))
    assert isinstance(error, ProcessLost) and "shard 3 ran out of memory" in str(error)


@pytest.mark.slow
def test_a_loss_that_nobody_wants_to_survive_is_a_sentence_and_ends_all(hooks):
    before = left_in_memory()
    env = sharded()
    pids = env._pool.pids
    env.reset(0)
    with pytest.raises(ProcessLost, match="shard 1 was ended by SIGKILL: memory may have run out") as told:
        half_in_a_step(env, hooks, kill)
    assert "\n" not in str(told.value)
    assert all(ended(pid) for pid in pids)
    for use in (env.metrics, env.reset):
        with pytest.raises(RookeryError, match="closed"):
            use()
    env.close()
    assert left_in_memory() == before


@pytest.mark.slow
def test_a_second_loss_is_told_too(hooks, monkeypatch):
    env = sharded()
    env.survive_loss()
    env.reset(0)
    make = env._make_shards

    def fails(only: int) -> None:
        kill(env, 0)
        make(only)

    monkeypatch.setattr(env, "_make_shards", fails)
    with pytest.raises(
        ProcessLost, match=r"shard 1 was ended by SIGKILL.* It was replaced, and then the process of shard 0"
    ):
        half_in_a_step(env, hooks, kill)
    assert all(ended(pid) for pid in env._pool.pids)


@pytest.mark.slow
def test_signals_while_they_start_are_not_for_them_and_close_ends_a_stopped_one(monkeypatch):
    start = shard_pool.ShardPool._start

    def interrupted(pool: shard_pool.ShardPool) -> None:
        start(pool)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pool.pids[-1], number)

    monkeypatch.setattr(shard_pool.ShardPool, "_start", interrupted)
    monkeypatch.setattr(shard_pool.ShardPool.end, "__defaults__", (0.2,))
    env = sharded()
    pids = env._pool.pids
    stop(env, 0)
    env.close()
    assert all(ended(pid) for pid in pids)
    env.close()


DIES = """
import os, signal, sys
import rookery
env = rookery.make("table-push", 4, shards=2)
print(*env._pool.pids, flush=True)
if "stopped" in sys.argv:
    os.kill(env._pool.pids[1], signal.SIGSTOP)
if os.fork() == 0:  # a child, as data loaders have them, which holds all descriptors
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["running", "stopped"])
def test_processes_end_with_their_parent(how):
    before = left_in_memory()
    with subprocess.Popen(
        [sys.executable, "-c", DIES, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert parent.wait(60) == -signal.SIGKILL
        wait_for(lambda: all(ended(pid) for pid in pids))
    assert left_in_memory() == before


def test_a_process_is_tied_to_its_parent_before_it_loads_torch():
    """Loading takes seconds on a busy machine, in which the parent may be killed."""
    program = """
import sys
from rookery.sim.envs import shard_start
loaded = "torch" in sys.modules
shard_start.end_with = lambda parent: print(parent, loaded or "torch" in sys.modules, flush=True)
sys.argv = ["", "0", "0", "17"]
sys.modules["rookery.sim.envs.shard_process"] = None  # not to be reached
try:
    shard_start.main()
except ImportError:
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["17", "False"]


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan"])
def test_a_time_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("ROOKERY_SHARD_TIMEOUT_S", text)
    with pytest.raises(RookeryError, match="ROOKERY_SHARD_TIMEOUT_S must be a time in s above 0, or inf"):
        rookery.make("table-push", 4, shards=2)


def test_a_process_that_computes_is_never_idle():
    """However long it takes; nor is one of which the system does not tell."""
    times = (1.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 4.0)
    watch = IdleWatch(3 * LOOK_S)
    assert [watch.is_idle(5, computed) for computed in times] == [False] * 8 + [True]
    assert not any(watch.is_idle(6, None) for _ in range(9))
    watch.forget(5)
    assert [watch.is_idle(5, 4.0) for _ in range(4)] == [False] * 3 + [True]


def test_messages_of_any_size_come_whole():
    import socket

    ends = [ShardChannel(end) for end in socket.socketpair()]
    rows = torch.randn(50_000, 3)
    values = [("step",), {"a": rows}, "x" * 1000, "x" * (REQUEST - 100), "x" * (REQUEST + 1), None]
    for number, value in enumerate(values):
        ends[0].send(number + (1 << 40), value)
    got = [ends[1].receive() for _ in values]
    assert [number - (1 << 40) for number, _ in got] == list(range(len(values)))
    assert torch.equal(got[1][1]["a"], rows)
    assert [value for _, value in got[2:]] == values[2:] and got[0][1] == values[0]
    wide = ShardChannel(ends[1]._end, REPLY)
    wide.send(4, "y" * (REPLY - 100))
    assert ends[0].receive() == (4, "y" * (REPLY - 100))
    ends[1].send(5, "last words")
    whole = HEAD.pack(6, 100, 0) + b"x" * 99
    ends[1]._end.send(whole)  # its sender was killed within the last message
    ends[1].close()
    assert ends[0].receive() == (5, "last words")
    for use in (ends[0].receive, lambda: ends[0].send(6, "anybody?"), lambda: ends[0].send(6, rows)):
        with pytest.raises(EOFError):
            use()
