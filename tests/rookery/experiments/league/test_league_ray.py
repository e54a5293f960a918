"""`rookery league --ray`: matches and trainings elsewhere give the league of one process, to the last bit."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
from pathlib import Path

import pytest
from ray_nodes import begun, two_nodes, wait_for, works

from rookery.cli.main import main
from rookery.experiments import ray_cluster
from rookery.experiments.league import remote
from rookery.experiments.league.mixtures import CandidatePlan, independent
from rookery.experiments.league.remote import files_of, keep_sent
from rookery.experiments.league.state import FILE, LeagueSettings, LeagueState, Round, digest_of, load, save
from rookery.policies.training import checkpoint

SMALL = """num_envs = 16
randomize = "none"
task_config = {episode_s = 2.0}
runner = {checkpoint_every = 10}
ppo = {hidden = [8], rollout_steps = 8, epochs = 1, minibatches = 1}
"""


def words(task: str, out: str, *more: str) -> list[str]:
    Path("small.toml").write_text(SMALL)
    own = ["--config", "small.toml", "--accept", "-1", "--out", out, "--solver", "pfsp", "--iterations", "1"]
    return ["league", task, *own, *more]


def policies(folder: Path) -> dict[str, str]:
    """Digests of all policies in a league, by folder."""
    return {str(p.parent.relative_to(folder)): digest_of(p.parent) for p in folder.glob("*/*/policy.safetensors")}


def same(folder: str, other: str) -> bool:
    """True where two leagues have the same bits in what is known of them, and in all policies."""
    a, b = Path(folder), Path(other)
    assert len(policies(a)) > 1 and all(policies(a).values())
    return (a / FILE).read_bytes() == (b / FILE).read_bytes() and policies(a) == policies(b)


def test_candidates_that_do_not_depend_on_each_other() -> None:
    """In a league of two roles a population's exploiter beside its main candidate; nobody else."""
    main_round = Round(1, "pursuers", "main", "pursuers-01", {})
    for solver, populations, rounds, want in (
        ("pfsp", ("pursuers", "evaders"), (), ["pursuers-01", "pursuers-01-exploiter"]),
        ("pfsp", ("pursuers", "evaders"), (main_round,), ["pursuers-01-exploiter"]),
        ("pfsp", ("pursuers", "evaders"), (main_round,) * 2, ["evaders-01", "evaders-01-exploiter"]),
        ("pfsp", ("either",), (), ["member-01"]),
        ("psro-nash", ("pursuers", "evaders"), (), ["pursuers-01"]),
    ):
        state = LeagueState(LeagueSettings("drone-tag", solver), populations, rounds=rounds)
        assert [plan.name for plan in independent(state)] == want
    done = LeagueState(LeagueSettings("drone-tag", "pfsp", iterations=1), ("either",), rounds=(main_round,) * 2)
    assert independent(done) == []
    assert CandidatePlan(1, "either", "exploiter").name == "member-01-exploiter"


@pytest.mark.parametrize("at", range(1, 9))
def test_what_is_sent_is_kept_whole_or_not_at_all(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any write, the run has the checkpoint of before, or the new one with all that belongs to it."""

    class Killed(BaseException):
        pass

    run = tmp_path / "run"
    old = {"progress.csv": b"1", "policy.safetensors": b"1", "checkpoints/000000000001/state.json": b"1"}
    new = {"progress.csv": b"2", "policy.safetensors": b"2"}
    new |= {
        f"checkpoints/000000000002/{name}": b"2" for name in ("algorithm.safetensors", "env.safetensors", "state.json")
    }
    keep_sent(run, old)
    assert files_of(run) == old
    count = 0

    def dying(write):
        def call(*args):
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return write(*args)

        return call

    monkeypatch.setattr(remote, "replace", dying(remote.replace))
    monkeypatch.setattr(checkpoint, "write_file", dying(checkpoint.write_file))
    monkeypatch.setattr(checkpoint, "flush", dying(checkpoint.flush))
    with contextlib.suppress(Killed):
        keep_sent(run, new)
    assert count >= at
    newest = checkpoint.newest(run)
    if newest.name == "000000000002":
        assert files_of(run) == new
    else:
        assert files_of(run).items() >= {("checkpoints/000000000001/state.json", b"1")}
    monkeypatch.undo()
    keep_sent(run, new)
    assert files_of(run) == new
    assert len(checkpoint.complete(run)) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--ray", "127.0.0.1:9"], "no Ray cluster answers at 127.0.0.1:9"),
        (["--ray", "local", "--report"], "--report plays and trains nothing: leave out --ray."),
    ],
)
def test_what_cannot_be_is_one_sentence_and_makes_no_league(
    more: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_ray", lambda: None)  # it is imported in seconds, and not asked
    assert main(words("volley-1v1", "league", *more)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not Path("league").exists()


@pytest.mark.slow
def test_ray_gives_the_same_league_and_what_was_trained_elsewhere_goes_on_here(in_tmp: Path) -> None:
    own = ["--steps", "1280", "--episodes", "8", "--first", "untrained", "controller"]
    for out, ray in (("one", []), ("two", ["--ray", "local"])):
        assert main([*words("volley-1v1", out, *own), *ray]) == 0
    assert same("one", "two")
    assert {r.kind for r in load(Path("two")).rounds} == {"main", "exploiter"}
    assert not list(Path("two").rglob(".writing*"))
    for out in ("one", "two"):
        assert main(["league", out, "--iterations", "2", "--exploitability", "640"]) == 0
        assert main(["league", out]) == 0
    assert same("one", "two")


@pytest.mark.slow
def test_two_roles_are_trained_beside_each_other_with_the_same_results(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, ray in (("one", []), ("two", ["--ray", "local"])):
        assert main([*words("drone-tag", out, "--steps", "640", "--episodes", "8"), *ray]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "training to" in line or "is a member" in line]
    assert [line.split()[1].rstrip(":") for line in said[8:10]] == ["pursuers-01", "pursuers-01-exploiter"]
    assert all("training to" in line for line in said[8:10])
    assert same("one", "two")


@pytest.mark.slow
def test_a_node_that_is_lost_amid_matches_changes_nothing(in_tmp: Path) -> None:
    """All pairs of a league are played again, half of them on a node that is lost."""
    own = ["--steps", "640", "--episodes", "64", "--first", "untrained", "controller"]
    assert main(words("volley-1v1", "one", *own)) == 0
    state = load(Path("one"))
    save(Path("one"), dataclasses.replace(state, cells=()))
    shutil.copytree("one", "two")
    assert main(["league", "one"]) == 0
    with two_nodes() as (nodes, second):
        process = begun(["league", "two", "--ray", nodes.address], Path("said"))
        wait_for(lambda: works(second), process)
        assert Path("said").read_text().endswith("rookery: 6 pairs to play\n")
        nodes.remove_node(second, allow_graceful=False)
        assert len(load(Path("two")).cells) < 6
        assert process.wait(300) == 0
    assert same("one", "two")
    assert len(load(Path("two")).cells) == 6
    assert "Traceback" not in Path("said").read_text()


@pytest.mark.slow
def test_a_node_that_is_lost_amid_trainings_and_ctrl_c_change_nothing(in_tmp: Path) -> None:
    """Two trainings, one on each node; the other node goes on with that of the lost one, and this process after Ctrl-C."""
    steps = str(16 * 8 * 120)
    assert main(words("drone-tag", "one", "--steps", "640", "--episodes", "8", "--solver", "self-play")) == 0
    shutil.copytree("one", "two")
    assert main(["league", "one", "--exploitability", steps]) == 0

    def made() -> int:
        found = [checkpoint.complete(run) for run in Path("two/exploiters").glob("*")]
        return min((int(f[-1].name) for f in found if f), default=0) if len(found) == 2 else 0

    with two_nodes() as (nodes, second):
        command = ["league", "two", "--exploitability", steps, "--ray", nodes.address]
        process = begun(command, Path("said"))
        wait_for(lambda: made() > 0, process)
        nodes.remove_node(second, allow_graceful=False)
        wait_for(lambda: "its process was lost, and another one goes on" in Path("said").read_text(), process)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    said = Path("said").read_text()
    assert said.splitlines()[-1] == "rookery: interrupted and saved; go on with: rookery league two"
    assert "Traceback" not in said
    assert not load(Path("two")).best_responses and made() > 0
    assert main(["league", "two", "--exploitability", steps]) == 0
    assert same("one", "two")
