"""Tasks of a Ray cluster: the command's folder and trust go along, and processors are shared out."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.experiments import ray_cluster
from rookery.experiments.ray_cluster import LOSSES, LOST_S, RETURN_S, Cluster
from rookery.experiments.ray_tasks import TRUST, Surroundings
from rookery.sim import own_files
from rookery.sim.errors import ProcessLost, RookeryError


def test_a_task_has_the_folder_and_the_trust_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TRUST:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(own_files, "_named", {})  # which other tests have imported
    (tmp_path / "command").mkdir()
    monkeypatch.chdir(tmp_path / "command")
    monkeypatch.setenv(TRUST[0], "my_task.py")
    here = Surroundings.now()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(TRUST[0])
    monkeypatch.setenv(TRUST[1], "of_another_command")
    here.take()
    assert Path.cwd() == tmp_path / "command"
    assert os.environ[TRUST[0]] == "my_task.py" and TRUST[1] not in os.environ
    Surroundings("/nowhere/at/all", {}).take()
    assert Path.cwd() == tmp_path / "command" and TRUST[0] not in os.environ


class Lost(Exception):
    """In place of Ray's error for a process that is gone."""


class Failed(Lost):
    """In place of that for a task that has raised an error."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Crashed(Lost):
    """In place of those for a process that directs others."""


class Ray:
    """Of nodes with so many processors, whose tasks end as they are told to."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Failed, ActorDiedError=Crashed, WorkerCrashedError=Crashed)

    def __init__(self, *cpus: float, end: Exception | None = None) -> None:
        self.cpus = cpus
        self.end = end

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": n} if n else {}} for n in self.cpus]

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="127.0.0.1:9")  # nobody listens there

    def wait(self, replies: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return [], replies

    def get(self, reply: Any) -> Any:
        assert self.end is not None
        raise self.end


def connected(ray: Ray) -> Cluster:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_cluster, "_ray", lambda: ray)
        return Cluster("10.0.0.1:6379", 1, 1.0)


@pytest.mark.parametrize(
    ("cpus", "tasks", "cores"),
    [((8.0,), 1, 8), ((8.0,), 3, 2), ((8.0, 4.0), 2, 4), ((8.0, 4.0), 3, 4), ((2.0, 0.0), 5, 1), ((0.0,), 1, 1)],
)
def test_processors_are_shared_out_so_that_all_run_at_once(cpus: tuple[float, ...], tasks: int, cores: int) -> None:
    assert connected(Ray(*cpus)).cores_of_each(tasks) == cores


def test_errors_of_a_task_are_its_own_sentence_and_losses_another() -> None:
    ray = Ray(end=Failed(RookeryError("training diverged.")))
    with pytest.raises(RookeryError, match=r"^training diverged\.$"):
        connected(ray).result(None)
    with pytest.raises(Failed):
        connected(Ray(end=Failed(ValueError("a bug")))).result(None)
    with pytest.raises(ProcessLost, match="a process of the cluster was lost 4 times"):
        connected(Ray(end=Lost())).result(None)


def test_tasks_that_had_to_be_ended_have_their_own_sentence() -> None:
    cluster = connected(Ray(end=Lost()))
    cluster._watch = SimpleNamespace(ended=0, look=lambda: None)
    with pytest.raises(ProcessLost, match=r"lost 4 times: try again\.$"):
        cluster.result(None)
    cluster._watch.ended = 4
    with pytest.raises(
        ProcessLost, match=r"4 were ended that had not computed for 60 s: .* ROOKERY_SHARD_TIMEOUT_S gives"
    ):
        cluster.result(None)


@pytest.mark.parametrize("text", ["soon", "0", "nan"])
def test_a_time_limit_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_SHARD_TIMEOUT_S", text)
    with pytest.raises(RookeryError, match="ROOKERY_SHARD_TIMEOUT_S must be a time in s above 0, or inf"):
        connected(Ray())


def test_a_head_that_does_not_answer_counts_as_gone_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("rookery.experiments.ray_cluster.time.monotonic", lambda: clock[0])
    cluster = connected(Ray())
    for clock[0] in (1001.0, 1002.0, 1001.0 + LOST_S):
        assert not cluster.ended("reply")
    clock[0] = 1003.0 + LOST_S
    with pytest.raises(RookeryError, match=r"the head of the Ray cluster at 127\.0\.0\.1:9 has ended: start it again"):
        cluster.ended("reply")


def test_a_long_folder_for_temporary_files_is_none_for_rays_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of a cluster have folders of their own, with long names; an address of a socket has 107 letters."""
    begun: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "rookery.experiments.ray_cluster._ray", lambda: SimpleNamespace(init=lambda **how: begun.append(how))
    )
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    for folder, given in ((tmp_path / ("x" * 90), "/tmp/ray"), (Path("/tmp"), None)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        Cluster("local", 1, 1.0).__enter__()
        assert begun.pop().get("_temp_dir") == given


def test_ray_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**how: Any) -> None:
        raise OSError("no room for sockets\nand more")

    monkeypatch.setattr("rookery.experiments.ray_cluster._ray", lambda: SimpleNamespace(init=fail))
    with pytest.raises(
        RookeryError, match=r"Ray does not start on this machine \(no room for sockets\): put that right"
    ):
        Cluster("local", 1, 1.0).__enter__()


def clock_and_head(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[bool]]:
    """The clock, s, and whether a cluster's head answers, for the test to set."""
    clock = [1000.0]
    answers = [True]

    def connect(*at: object) -> Any:
        if not answers[0]:
            raise ConnectionRefusedError
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr("rookery.experiments.ray_cluster.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("rookery.experiments.ray_cluster.socket.create_connection", connect)
    return clock, answers


def test_each_answer_of_the_head_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = clock_and_head(monkeypatch)
    cluster = connected(Ray())
    for _ in range(3):
        answers[0] = True
        assert not cluster.ended("reply")
        answers[0] = False
        clock[0] += LOST_S
        assert not cluster.ended("reply")
        clock[0] += 2.0
    with pytest.raises(RookeryError, match="the head of the Ray cluster"):
        cluster.ended("reply")


class Trained(Ray):
    """With a training that goes on, and ends as told."""

    def __init__(self, ended: bool, end: Exception | None = None) -> None:
        super().__init__(end=end)
        self.ended = ended

    def wait(self, replies: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return (replies, []) if self.ended else ([], replies)

    def get(self, reply: Any) -> Any:
        if self.end is not None:
            raise self.end


def test_a_training_goes_on_or_is_done_or_has_failed_with_the_cause() -> None:
    """Ray's errors are tracebacks, whose last line has the cause."""
    assert connected(Trained(False, Lost("cause"))).failure("reply") is None
    assert connected(Trained(True)).failure("reply") == ""
    failed = connected(Trained(True, Lost("ray::fit()\n  File of Ray, line 1\nValueError: cause\n")))
    assert failed.failure("reply") == "the workers were lost too often and are not started again (ValueError: cause)"
    assert "that directs the workers was lost" in str(connected(Trained(True, Crashed("cause"))).failure("reply"))
    assert connected(Trained(True, Lost())).failure("reply"), "an error without words is none the less one"


def test_machines_have_places_for_whole_workers() -> None:
    cluster = connected(Ray(8.0, 3.0, 0.0))
    for cpus, places in ((1.0, 11), (2.0, 5), (4.0, 2), (9.0, 0), (0.3, 36), (0.1, 110)):
        cluster.cpus = cpus
        assert cluster.places() == places
    for size, shares in itertools.product((1.0, 3.0, 8.0), range(1, 100)):
        cluster = connected(Ray(size))
        cluster.cpus = size / shares
        assert cluster.places() == shares, "rounding of the shares takes no place away"


def test_a_lost_machine_may_come_back_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = clock_and_head(monkeypatch)
    ray = Ray(4.0, 4.0)
    cluster = connected(ray)
    cluster.workers, cluster.cpus = 3, 2.0
    assert cluster.check_places("go on")
    ray.cpus = (4.0,)
    for clock[0] in (1001.0, 1001.0 + RETURN_S):
        assert not cluster.check_places("go on")
    ray.cpus = (4.0, 2.0)
    clock[0] += 5.0
    assert cluster.check_places("go on")
    ray.cpus = (2.0, 2.0)
    clock[0] += 5.0
    assert not cluster.check_places("go on"), "the time begins anew"
    clock[0] += RETURN_S + 1.0
    with pytest.raises(
        RookeryError, match=r"has places for 2 of the 3 workers, and for 300 s no other one has come: go on, "
    ):
        cluster.check_places("go on")
    answers[0] = False
    ray.cpus = ()  # to ask for them would take Ray a minute
    assert cluster.check_places("go on"), "without an answer of the head its nodes are not known"


def test_ray_is_asked_for_nothing_once_the_head_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head ends right after it has answered, within the second in which `check_head` does not look again."""
    clock = [1000.0]
    monkeypatch.setattr("rookery.experiments.ray_cluster.time.monotonic", lambda: clock[0])
    cluster = connected(Ray())
    cluster._looked = cluster._answered = clock[0]

    def look() -> None:
        raise AssertionError("it would wait for the head")

    cluster._watch = SimpleNamespace(due=lambda: True, look=look)  # type: ignore[assignment]
    for clock[0] in (1000.5, 1001.5, 1000.0 + LOST_S):
        assert not cluster.ended("reply")


def test_tasks_are_done_again_after_a_loss_and_a_training_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training begins again from its own checkpoints."""
    asked: list[tuple[dict[str, Any], tuple[Any, ...]]] = []

    class Asked(Ray):
        def remote(self, **options: Any) -> Any:
            def task(work: Any) -> Any:
                return SimpleNamespace(remote=lambda *args: asked.append((options, args)) or len(asked))

            return task

    monkeypatch.setenv("ROOKERY_SHARD_TIMEOUT_S", "inf")
    cluster = connected(Asked(4.0))
    cluster.address = "local"  # whose machine has all files
    cluster.map(len, ["one", "two"])
    assert [options for options, _ in asked] == [{"num_cpus": 1, "max_retries": LOSSES}] * 2
    assert [args[:2] for _, args in asked] == [(len, "one"), (len, "two")]
    cluster.begin(len, "three", cores=3)
    assert asked[-1][0] == {"num_cpus": 3, "max_retries": 0} and asked[-1][1][3] == 3
