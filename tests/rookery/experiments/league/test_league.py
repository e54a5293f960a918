"""Leagues from begin to end: complete matrices, the same bits after any stop, and folders that are not what they were."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rookery.cli.main import main
from rookery.experiments.league import run as loop
from rookery.experiments.league.mixtures import CandidatePlan, parent_of
from rookery.experiments.league.report import report, write_report
from rookery.experiments.league.run import League, new_league, open_league
from rookery.experiments.league.state import FILE, Cell, LeagueSettings, LeagueState, digest_of, load, save
from rookery.experiments.runs import open_run
from rookery.policies.training import checkpoint
from rookery.policies.training.lock import RunLock
from rookery.sim.errors import RookeryError

TRAINING = {
    "num_envs": 16, "randomize": "none", "task_config": {"episode_s": 4.0},
    "runner": {"checkpoint_every": 2}, "ppo": {"hidden": [8], "rollout_steps": 8, "epochs": 1, "minibatches": 1},
}  # fmt: skip


def quiet(line: str) -> None:
    """Nothing is told."""


def made(folder: Path, solver: str, **changes: Any) -> League:
    values = {
        "iterations": 2,
        "steps": 640,
        "attempts": 2,
        "accept": -1.0,
        "episodes": 8,
        "training": TRAINING,
    } | changes
    path, state = new_league(LeagueSettings("volley-1v1", solver, **values), folder)
    return League(path, state, quiet)


class Killed(BaseException):
    """In place of SIGKILL: nobody catches it."""


def killing(at: int, monkeypatch: pytest.MonkeyPatch, what: list[tuple[Any, str]]) -> None:
    """End the process, as it were, before or after the n-th write of these."""
    count = 0

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            result = write(*args, **kwargs)
            count += 1
            if count == at:
                raise Killed
            return result

        return call

    for owner, name in what:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league that ran through."""
    folder = tmp_path_factory.mktemp("league") / "whole"
    league = made(folder, "pfsp", first=("untrained", "controller"))
    league.run()
    league.exploit(640)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, 9, 21, 34])
def test_stopped_anywhere_it_goes_on_to_the_same_bits(at: int, whole: Path, in_tmp: Path, monkeypatch) -> None:
    folder = Path("killed")

    def through(league: League) -> League:
        league.run()
        league.exploit(640)
        return league

    with monkeypatch.context() as patch:
        killing(at, patch, [(loop, "save"), (checkpoint, "write")])
        with pytest.raises(Killed):
            through(made(folder, "pfsp", first=("untrained", "controller")))
    league = through(open_league(folder, quiet))
    assert (folder / FILE).read_bytes() == (whole / FILE).read_bytes()
    assert not league.state.holes() and league.state.current is None
    runs = [sorted(p.parent.relative_to(f) for p in f.glob("*/*/policy.safetensors")) for f in (folder, whole)]
    assert runs[0] == runs[1] and len(runs[0]) == 6
    assert all(digest_of(folder / run) == digest_of(whole / run) != "" for run in runs[0])


@pytest.mark.slow
def test_the_matrix_is_complete_and_so_is_the_report(whole: Path) -> None:
    state = load(whole)
    names = [m.name for m in state.members]
    assert names == [
        "member-00-untrained", "member-00-controller", "member-01", "member-01-exploiter", "member-02", "member-02-exploiter",
    ]  # fmt: skip
    assert len(state.cells) == 15 and all(c.episodes == 8 for c in state.cells)
    payoffs, _ = state.payoffs()
    np.testing.assert_array_equal(payoffs, -payoffs.T)
    assert (payoffs[1, [0, 2, 3, 4, 5]] == 1.0).all(), "the controller beats whoever is hardly trained"
    main_round, exploiter = state.rounds[2:]
    assert list(exploiter.mixture) == ["member-02"] and list(main_round.mixture)[-1] == "member-01"
    assert main_round.mixture["member-01"] > 0.35 and main_round.init == "members/member-01" and not exploiter.init
    found = write_report(whole, state)
    assert json.loads((whole / "report.json").read_text()) == json.loads(json.dumps(found))
    rated = {m["name"]: m for m in found["members"]}
    assert max(rated, key=lambda name: rated[name]["elo"]) == "member-00-controller"
    assert rated["member-00-controller"]["probability"] == pytest.approx(1.0)
    (last,) = found["exploitability"][-1]["best_responses"]
    assert last["exploitability"] == pytest.approx(0.0), "nobody who has hardly trained exploits the controller"
    assert found["exploitability"][0]["by_members"] == pytest.approx(0.0, abs=1e-12)
    for picture in ("cross_play", "ratings", "exploitability"):
        text = (whole / f"{picture}.svg").read_text()
        assert text.startswith("<svg") and text.count("<text") > 8
    page = (whole / "report.md").read_text()
    assert all(name in page for name in names) and "Exploitability" in page


@pytest.mark.slow
def test_candidates_that_are_no_better_are_not_accepted(in_tmp: Path) -> None:
    league = made(Path("league"), "psro-nash", accept=0.45, attempts=2, iterations=1)
    league.run()
    assert [m.kind for m in league.state.members] == ["first"]
    (done,) = league.state.rounds
    assert [a.steps for a in done.attempts] == [640, 1280] and not done.accepted
    assert done.attempts[0].needed == pytest.approx(0.95)
    assert Path("league/members/member-01/contract.json").is_file(), "what was trained is kept"
    assert open_league(Path("league"), quiet, iterations=2).run().rounds[:1] == league.state.rounds


def test_nobody_is_trained_who_could_not_win_enough(in_tmp: Path) -> None:
    league = made(Path("league"), "psro-nash", accept=0.5, iterations=2)
    state = league.run()
    assert [(r.attempts, r.accepted) for r in state.rounds] == [((), False)] * 2
    assert [m.kind for m in state.members] == ["first"]
    assert {p.name for p in Path("league/members").iterdir()} == {Path(state.members[0].policy).name}
    found = write_report(league.folder, state)
    assert [(r["steps"], r["score"]) for r in found["rounds"]] == [(0, None)] * 2
    assert open_league(Path("league"), quiet).run() == state
    with pytest.raises(RookeryError, match="has made 2 iterations: give at least as many"):
        open_league(Path("league"), quiet, iterations=1)
    assert load(Path("league")).settings.iterations == 2


def changed_file(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads((folder / FILE).read_text())
    change(values)
    (folder / FILE).write_text(json.dumps(values))


@pytest.mark.slow
def test_folders_that_are_not_what_they_were_are_one_sentence(whole: Path, in_tmp: Path, monkeypatch) -> None:
    folder = Path("copy")
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("checkpoints"))
    before = (folder / FILE).read_bytes()
    member = folder / "members" / "member-01" / "policy.safetensors"
    kept = member.read_bytes()

    def refused(said: str, **changes: Any) -> None:
        now = (folder / FILE).read_bytes() if (folder / FILE).exists() else None
        for more in (changes, changes | {"iterations": 9}):  # which are not kept either
            with pytest.raises(RookeryError, match=said):
                open_league(folder, quiet, **more).run()
        assert ((folder / FILE).read_bytes() if (folder / FILE).exists() else None) == now

    member.write_bytes(kept[:-4])
    refused("the member member-01 of the league, .*, is damaged or another policy than the one that played")
    member.unlink()
    refused("member-01.* is damaged or another")
    shutil.rmtree(member.parent)
    refused("member-01.* is missing: put it back")
    member.parent.mkdir()
    shutil.copy(whole / "members" / "member-02" / "policy.safetensors", member)
    refused("another policy than the one that played")
    member.write_bytes(kept)
    (folder / FILE).write_bytes(before[:300])
    refused("is cut short or is no league's: put back a copy")
    (folder / FILE).write_bytes(before)
    changed_file(folder, lambda v: v["state"]["cells"].pop())
    refused("was edited or damaged")
    (folder / FILE).write_bytes(before)
    changed_file(folder, lambda v: v.update(version=99))
    refused("is of version 99, this Rookery reads 1")
    (folder / FILE).unlink()
    refused("holds no league: give the folder of one, or a task with teams")
    state = load(whole)
    save(folder, dataclasses.replace(state, source={"sha256": {"rookery.tasks.volleyball.base": "0" * 64}}))
    refused("was made with another version of volley-1v1, which has changed in ")
    save(folder, dataclasses.replace(state, settings=dataclasses.replace(state.settings, task="volley-9v9")))
    refused("unknown task 'volley-9v9'")


@pytest.mark.slow
@pytest.mark.parametrize("other", [None, "member-00-untrained"])
def test_a_candidate_that_has_played_is_a_member_as_it_was_then(other: str | None, in_tmp: Path, monkeypatch) -> None:
    """Killed between its matches and its acceptance, and then removed or replaced."""
    folder = Path("league")
    with monkeypatch.context() as patch:
        killing(1, patch, [(League, "_close")])
        with pytest.raises(Killed):
            made(folder, "psro-nash", iterations=1, attempts=1).run()
    candidate, before = folder / "members" / "member-01", (folder / FILE).read_bytes()
    candidate.rename("kept")
    if other is not None:
        shutil.copytree(folder / "members" / other, candidate)
    with pytest.raises(RookeryError, match=r"the candidate member-01 of the league, .*put it back as it was"):
        open_league(folder, quiet).run()
    assert (folder / FILE).read_bytes() == before
    shutil.rmtree(candidate, ignore_errors=True)
    Path("kept").rename(candidate)
    assert open_league(folder, quiet).run().members[-1].digest == digest_of(candidate)


@pytest.mark.slow
def test_holes_are_filled_and_until_then_no_report_is_made(whole: Path, in_tmp: Path) -> None:
    folder = Path("copy")
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("checkpoints"))
    state = load(whole)
    save(folder, dataclasses.replace(state, cells=(*state.cells[:4], *state.cells[6:])))
    with pytest.raises(RookeryError, match="of the league have not played yet: go on with it first"):
        report(load(folder))
    again = open_league(folder, quiet).run()
    key = lambda c: (c.a, c.b)  # noqa: E731
    assert sorted(again.cells, key=key) == sorted(state.cells, key=key)


def test_the_command_line_begins_goes_on_judges_and_reports(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("small.toml").write_text(
        'num_envs = 16\nrandomize = "none"\ntask_config = {episode_s = 1.0}\n'
        "ppo = {hidden = [8], rollout_steps = 8, epochs = 1, minibatches = 1}\n"
    )
    words = ["--config", "small.toml", "--steps", "640", "--episodes", "8", "--accept", "-1", "--out", "league"]
    assert main(["league", "volley-1v1", "--solver", "fictitious", "--iterations", "1", *words]) == 0
    assert "member-01" in capsys.readouterr().out
    assert main(["league", "league", "--iterations", "2", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["rows"] == ["member-00-untrained", "member-01", "member-02"] and first["folder"] == "league"
    assert main(["league", "league", "--exploitability", "640", "--at", "0", "2", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["exploitability"]
    assert [len(row.get("best_responses", [])) for row in judged] == [1, 0, 1]
    assert main(["league", "league", "--report"]) == 0
    said = capsys.readouterr()
    assert "exploitability" in said.out and not said.err
    shutil.rmtree("league/members/member-01")
    assert main(["league", "league", "--report"]) == 0  # of what was played, which stands in league.json
    said = capsys.readouterr()
    assert (
        "exploitability" in said.out
        and "cannot go on" in said.err
        and "league/members/member-01, is missing" in said.err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("volley-1v1 --solver nsh", "unknown solver 'nsh'"),
        ("drone-hover", "drone-hover has no teams that play against each other"),
        ("MT10", "is a set of tasks"),
        ("volley-1v1 --episodes 5", "episodes must be even"),
        ("volley-1v1 --steps 0.5", "--steps must be a whole number"),
        ("volley-1v1 --accept 2", "accept is a share"),
        ("volley-1v1 --first controller controller", "none of them twice"),
        ("volley-1v1 --first drone-hover", "is a policy of drone-hover"),
        ("volley-1v1 --at 3", "--at names iterations that --exploitability"),
        ("volley-1v1 --exploitability 100", "judge a league that is there"),
        ("nowhere", "nowhere holds no league: give the folder of one, or a task with teams"),
    ],
)  # fmt: skip
def test_words_that_make_no_league_are_one_sentence(
    words: str, said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["league", *words.split(), "--iterations", "1"]) == 2
    assert said in capsys.readouterr().err
    assert not list(in_tmp.rglob(FILE))


def test_settings_that_a_league_sets_itself_are_refused() -> None:
    for own in ({"seed": 3}, {"opponents": "x"}, {"runner": {"total_steps": 5}}):
        with pytest.raises(RookeryError, match=r"a league sets .* of its trainings itself"):
            new_league(LeagueSettings("volley-1v1", training=own), None)
    with pytest.raises(RookeryError, match="a league trains with ppo, and the settings have sac"):
        new_league(LeagueSettings("volley-1v1", training={"algorithm": "sac"}), None)


def test_a_state_without_members_has_no_report() -> None:
    with pytest.raises(RookeryError, match="the league has no members yet"):
        report(LeagueState(LeagueSettings("volley-1v1"), ("either",)))


def test_a_league_that_another_process_has_gone_on_with_is_read_again(in_tmp: Path) -> None:
    """It was opened while the other still trained, and got the folder when that was done."""
    league = made(Path("league"), "psro-nash", iterations=1, attempts=1, episodes=2)
    late = open_league(Path("league"), quiet)
    league.run()
    before = (Path("league") / FILE).read_bytes()
    assert len(late.run().rounds) == 1
    assert (Path("league") / FILE).read_bytes() == before
    with RunLock(Path("league")), pytest.raises(RookeryError, match="another process"):
        open_league(Path("league"), quiet, iterations=2)
    assert (Path("league") / FILE).read_bytes() == before


@pytest.mark.slow
def test_candidates_and_best_responses_begin_from_a_policy_of_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing learned they are that policy; the league goes on from elsewhere."""
    base = made(tmp_path / "base", "self-play", iterations=1)
    base.run()
    run = base.folder / base.state.members[-1].policy
    monkeypatch.chdir(tmp_path)
    frozen = TRAINING | {"ppo": TRAINING["ppo"] | {"learning_rate": 1e-12, "schedule": "fixed"}}
    league = made(tmp_path / "league", "self-play", iterations=1, training=frozen, init=str(run.relative_to(tmp_path)))
    monkeypatch.chdir(tmp_path / "base")
    league.run()
    league.exploit(640)
    want = open_run(run)[0]["drone"].state_dict()
    (fresh,) = (league.folder / "exploiters").iterdir()
    for folder in (league.folder / league.state.members[-1].policy, fresh):
        found = open_run(folder)[0]["drone"].state_dict()
        assert all(torch.allclose(found[k], want[k], atol=1e-5) for k in want)


def test_a_league_begins_from_no_policy_that_is_not_there(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", "volley-1v1", "--init", "nobody", "--out", "league"]) == 2
    assert "there is no folder 'nobody'" in capsys.readouterr().err
    assert not Path("league").exists()


def test_a_league_says_once_that_its_episodes_repeat_others(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    league = made(Path("league"), "psro-nash")
    told: list[str] = []
    league.tell = told.append
    cells = [Cell("a", "b", 8, 0, 0, 1.0, 0.0, starts) for starts in (0, 4, 2, 1, 1)]
    monkeypatch.setattr(league, "_results", lambda pairs: iter(cells))
    assert list(league._played([])) == cells
    (line,) = told
    assert line.startswith("only 1 of the 4 starts of a against b differ") and 'randomize = "default"' in line


def test_members_of_two_leagues_have_names_of_their_own(in_tmp: Path) -> None:
    for k in (1, 2):
        other = made(Path(f"l{k}"), "self-play", seed=k)
        other._begin()
    runs = tuple(f"l{k}/members/member-00-untrained" for k in (1, 2))
    league = made(Path("league"), "psro-nash", first=(*runs, "untrained"))
    league._begin()
    assert [m.name for m in league.state.members] == [f"member-00-{name}" for name in (
        "member-00-untrained", "member-00-untrained-2", "untrained")]  # fmt: skip
    os.symlink(Path(runs[0]).resolve(), "latest")
    twice = made(Path("twice"), "psro-nash", first=(runs[0], "latest"))
    with pytest.raises(RookeryError, match="--first has the policy of latest twice"):
        twice._begin()
    assert not Path("twice").exists()


@pytest.mark.slow
def test_a_policy_to_begin_from_is_of_one_role_at_least_and_fits(in_tmp: Path) -> None:
    """What no candidate can begin from is refused before anything is trained; of a role it has no policy of, none begins."""
    training = {"num_envs": 8, "ppo": {"hidden": [8], "rollout_steps": 8, "minibatches": 1}}
    short = {"iterations": 1, "steps": 64, "attempts": 1, "episodes": 4, "accept": -1.0}
    League(*new_league(LeagueSettings("drone-tag", training=training, **short), Path("first")), quiet).run()
    init = "first/members/pursuers-01"
    for name, said in (("drone-hover", "needs those of pursuer or evader"), (init, "hidden")):
        wide = training | {"ppo": training["ppo"] | {"hidden": [16]}}
        settings = LeagueSettings("drone-tag", training=wide, init=name)
        with pytest.raises(RookeryError, match=said):
            League(*new_league(settings, Path("refused")), quiet)._begin()
        assert not Path("refused").exists()
    league = League(*new_league(LeagueSettings("drone-tag", training=training, init=init), Path("league")), quiet)
    league._begin()
    assert league.state.without_init == ("evaders",)
    assert load(Path("league")).without_init == ("evaders",)
    assert parent_of(league.state, CandidatePlan(1, "evaders", "main")) == ""
    assert parent_of(league.state, CandidatePlan(1, "pursuers", "main")) == str(Path(init).resolve())
