"""The processes of a ShardedEnv: started together, called together, and ended together."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from socket import socketpair
from typing import Any

from rookery.sim.compiling import add_compiling
from rookery.sim.envs.shard_messages import Failure, ShardChannel
from rookery.sim.errors import ProcessLost, RookeryError
from rookery.sim.idle_watch import IDLE, LOOK_S, IdleWatch, idle_limit, processor_time

PATIENCE_S = 5.0
"""Time that processes have to end once their connections are closed, s, before they are killed."""
Request = tuple[Any, ...]
"""Name of a method of ShardServer, and its arguments."""


class ShardPool:
    """S processes of `rookery.sim.envs.shard_process`.

    Every call has a number, which its replies repeat; the reply to an earlier call, which an exception such as Ctrl-C ended
    before it came, is dropped.

    Args:
        count: S.
        memory: descriptor of the file that holds their `SharedStep`.

    Attributes:
        lost: index of the process that the latest `ProcessLost` tells of.

    Raises:
        RookeryError: the environment variable `IDLE` is no time.
    """

    def __init__(self, count: int, memory: int) -> None:
        self._limit_s = idle_limit()
        self._owner = os.getpid()
        self._number = 0
        self._channels: list[ShardChannel] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self.lost = -1
        self._memory = memory
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        """Start one more process, which imports what it needs while this one goes on."""
        ours, theirs = socketpair()
        # A process can be tied to the thread that starts it, whose end is that of this process only for the main thread.
        parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0
        self._channels.append(ShardChannel(ours))
        with theirs:
            words = [str(n) for n in (theirs.fileno(), self._memory, parent)]
            command = [sys.executable, "-m", "rookery.sim.envs.shard_start", *words]
            env = os.environ | {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            # Ctrl-C, a terminal that closes and what `timeout` sends to a whole group are for this process, which ends the
            # others; they inherit what is blocked, from their first moment on.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
                self._processes.append(subprocess.Popen(command, pass_fds=(theirs.fileno(), self._memory), env=env))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def replace(self) -> int:
        """A new process in place of the lost one, whose index is returned. The others stay; what they still have to say of
        earlier calls is dropped."""
        i = self.lost
        self._channels[i].close()
        self._processes[i].kill()
        self._processes[i].wait()
        self._start()
        self._channels[i] = self._channels.pop()
        self._processes[i] = self._processes.pop()
        return i

    @property
    def pids(self) -> list[int]:
        """Ids of the processes."""
        return [p.pid for p in self._processes]

    def call(self, requests: Sequence[Request | None]) -> list[Any]:
        """Every process's reply to its request; None where it has none.

        Raises:
            ProcessLost: a process is not there any more.
            RookeryError, ValueError, RuntimeError: one says so; all have answered.
        """
        self._number += 1
        for i, request in enumerate(requests):
            if request is not None:
                try:
                    self._channels[i].send(self._number, request)
                except EOFError:
                    raise self._ended(i) from None
        replies = self._replies([i for i, request in enumerate(requests) if request is not None])
        for i, reply in replies.items():
            if isinstance(reply, Failure):
                self.lost = i
                raise _error(i, reply)
        return [replies.get(i) for i in range(len(requests))]

    def _replies(self, wanted: Iterable[int]) -> dict[int, Any]:
        """The replies of processes to the newest call. What one of them compiled for it counts as this process's compiling."""
        replies: dict[int, Any] = {}
        compiled = 0.0
        waiting = {self._channels[i].fileno(): i for i in wanted}
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        watch = IdleWatch(self._limit_s)
        while waiting:
            ready = poll.poll(LOOK_S * 1000)
            for descriptor, _ in ready:
                i = waiting[descriptor]
                try:
                    number, (reply, seconds) = self._channels[i].receive()
                except EOFError:
                    raise self._ended(i) from None
                if number == self._number:
                    replies[i] = reply
                    compiled = max(compiled, seconds)
                    poll.unregister(descriptor)
                    del waiting[descriptor]
                elif number > self._number:
                    raise RuntimeError(f"shard {i} answered call {number}, which is after the last one, {self._number}")
            if not ready:
                for i in waiting.values():
                    pid = self._processes[i].pid
                    if watch.is_idle(pid, processor_time(pid)):
                        raise self._idle(i)
        if compiled:
            add_compiling(compiled)
        return replies

    def _ended(self, i: int) -> ProcessLost:
        """The error that tells how a process ended."""
        self.lost = i
        try:
            status = self._processes[i].wait(PATIENCE_S)
        except subprocess.TimeoutExpired:  # it only closed its connection
            status = 0
        how = f"ended with status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by {signal.Signals(-status).name}"
        return ProcessLost(f"the process of shard {i} {how}: memory may have run out; use fewer shards or worlds.")

    def _idle(self, i: int) -> ProcessLost:
        self.lost = i
        return ProcessLost(
            f"the process of shard {i} has not answered and not computed for {self._limit_s:g} s: it was stopped, or waits for "
            f"something; the environment variable {IDLE} gives it more time."
        )

    def end(self, patience_s: float = PATIENCE_S) -> None:
        """Close the connections, on which the processes end, and wait for them; those that take longer are killed. Safe to call
        twice, and without effect in a forked process."""
        if os.getpid() != self._owner:
            return
        for channel in self._channels:
            channel.close()
        deadline = time.monotonic() + patience_s
        try:
            for process in self._processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for process in self._processes:
                process.kill()
            for process in self._processes:
                process.wait()


def _error(i: int, failure: Failure) -> Exception:
    """The exception that a process's reply tells of."""
    if failure.kind == "MemoryError":
        return ProcessLost(f"the process of shard {i} ran out of memory: use fewer shards or worlds.")
    kinds: dict[str, type[Exception]] = {"RookeryError": RookeryError, "ValueError": ValueError}
    return kinds.get(failure.kind, RuntimeError)(failure.text)
