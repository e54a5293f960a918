"""`rookery match` from the command line: who may play, what is printed, and what is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.cli.main import main

SMALL = ["--steps", "512", "--num-envs", "8", "--task-config", "episode_s=1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained policies: of the match, of the match against a frozen opponent, and one that observes more."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", "volley-1v1", "--out", str(folder / "own"), *SMALL]) == 0
    assert main(["train", "volley-1v1-frozen", "--out", str(folder / "frozen"), *SMALL]) == 0
    more = ["--task-config", "observe_landing=true"]
    assert main(["train", "volley-1v1", "--out", str(folder / "landing"), *SMALL, *more]) == 0
    return folder


def played(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["match", *words, "--json"]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def test_policies_play_each_other_and_figures_are_exchanged_with_them(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, frozen = str(runs / "own"), str(runs / "frozen")
    one = played(["volley-1v1", own, frozen, "--episodes", "20", "--num-envs", "8"], capsys)
    again = played(["volley-1v1", own, frozen, "--episodes", "20", "--num-envs", "8"], capsys)
    assert one == again
    wins, sides = one["wins"], one["a_played"]
    assert wins["episodes"] == 20 == wins["a"] + wins["b"] + wins["nobody"]
    assert {team: tally["episodes"] for team, tally in sides.items()} == {"near": 10, "far": 10}
    assert sum(tally["a"] for tally in sides.values()) == wins["a"]
    assert one["win_rate"] == wins["a"] / 20
    low, high = one["win_interval"]
    assert low <= one["win_rate"] <= high
    for who, count in (("a", wins["a"]), ("b", wins["b"]), ("nobody", wins["nobody"])):
        assert sum(one["causes"][who].values()) == count
    assert {who: t["episodes"] for who, t in one["shares"]["serves"].items()} == {"a": 10, "b": 10}
    other = played(["volley-1v1", frozen, own, "--episodes", "20", "--num-envs", "8"], capsys)
    assert (other["wins"]["a"], other["wins"]["b"]) == (wins["b"], wins["a"])
    assert other["causes"]["a"] == one["causes"]["b"]
    assert other["a_played"]["near"]["a"] == sides["far"]["b"]


def test_the_controller_beats_an_untrained_policy_and_the_table_says_so(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["match", "volley-1v1", "controller", str(runs / "own"), "--episodes", "8"]) == 0
    out = capsys.readouterr().out
    assert f"volley-1v1 on rotor, 8 episodes\nA is controller\nB is {runs / 'own'}\n" in out
    wins = next(line.split() for line in out.splitlines() if line.startswith("A wins"))
    assert wins == ["A", "wins", "100.0%", "(51.0%", "to", "100.0%", "at", "95", "%)"]
    assert "A plays far" in out and "serves by B" in out and "A won by" in out and "B won by" not in out


def test_a_policy_plays_on_its_own_terms_against_the_controller(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = played(["volley-1v1", str(runs / "landing"), "controller", "--episodes", "4"], capsys)
    assert result["judged_by"]["a"]["interface"]["observe_landing"]["value"] is True


@pytest.mark.slow
def test_an_evaluation_says_that_a_policy_played_both_sides(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--episodes", "2", "--num-envs", "2", "--json"]
    capsys.readouterr()
    assert main(["eval", str(runs / "own"), *own]) == 0
    assert json.loads(capsys.readouterr().out)["plays_all_teams"] is True
    assert main(["eval", "volley-1v1", "--controller", "classical", *own]) == 0
    assert "plays_all_teams" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("drone-hover controller controller", "drone-hover has no teams that play against each other"),
        ("volley-1v1-frozen controller controller", "volley-1v1-frozen has no teams that play against each other"),
        ("MT10 controller controller", "MT10 is a set of tasks"),
        ("volley-1v1 drone-hover controller", "drone-hover is a policy of drone-hover, and the match is in volley-1v1"),
        ("volley-3v3 controller {own}", "is a policy of volley-1v1, and the match is in volley-3v3"),
        ("volley-1v1 {own} {landing}", "was trained with observe_landing the registered value and"),
        ("volley-1v1 {own} controler", "unknown player 'controler': did you mean 'controller'?"),
        ("volley-1v4 controller controller", "did you mean 'volley-1v1'"),
        ("volley-1v1 controller controller --episodes 7", "--episodes must be even and at least 2"),
        ("volley-1v1 controller controller --num-envs 3", "--num-envs must be even and at least 2"),
        ("volley-1v1 controller", "`rookery match` needs B"),
        ("volley-1v1 {own} controller --task-config observe_landing=true", "own cannot play: the policy does not fit"),
    ],
)
def test_what_cannot_be_played_is_refused(
    words: str, said: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words.format(own=runs / "own", landing=runs / "landing").split()
    capsys.readouterr()
    assert main(["match", *given]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == "" and captured.err.count("rookery: ") <= 2


@pytest.mark.slow
def test_a_match_is_filmed_and_sides_change(runs: Path, in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--seconds", "2.5", "--size", "64", "48", "--out", "match.mp4", "--task-config", "episode_s=0.5", "--json"]
    assert main(["play", str(runs / "own"), "--against", "controller", *small]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["against"] == "controller" and Path("match.mp4").stat().st_size > 0
    near, far = told["played_as"].values()
    assert near + far >= 5 and abs(near - far) <= 1
    for words, said in (
        (["controller", "--against", "controller"], "play in a task that --task names"),
        ([str(runs / "own"), "--against", "drone-hover"], "is a policy of drone-hover, and the match is in volley-1v1"),
        ([str(runs / "own"), "--against", "controller", "--beside", str(runs / "own")], "leave out --beside"),
    ):
        assert main(["play", *words, "--seconds", "0.1"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_policies_of_one_role_play_that_role(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for team in ("pursuers", "evaders"):
        Path("opponents.toml").write_text(f'team = "{team}"\nmembers = [{{policy = "controller"}}]\n')
        small = ["--steps", "512", "--num-envs", "8", "--rollout-steps", "8", "--opponents", "opponents.toml"]
        assert main(["train", "drone-tag", "--out", team, *small]) == 0
    one = played(["drone-tag", "pursuers", "evaders", "--episodes", "12"], capsys)
    other = played(["drone-tag", "evaders", "pursuers", "--episodes", "12"], capsys)
    assert set(one["a_played"]) == {"pursuers"} and set(other["a_played"]) == {"evaders"}
    assert (one["wins"]["a"], one["wins"]["b"]) == (other["wins"]["b"], other["wins"]["a"])
    assert set(played(["drone-tag", "controller", "evaders", "--episodes", "4"], capsys)["a_played"]) == {"pursuers"}
    assert len(played(["drone-tag", "controller", "controller", "--episodes", "4"], capsys)["a_played"]) == 2
    assert main(["match", "drone-tag", "evaders", "evaders"]) == 2
    assert "evaders and evaders both play the evaders alone" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("randomize", "told"), [("none", True), ("default", False)])
def test_repeated_rallies_are_told(randomize: str, told: bool, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["match", "volley-3v3", "controller", "controller", "--episodes", "8", "--num-envs", "8", "--json"]
    assert main([*words, "--randomize", randomize]) == 0
    out, error = capsys.readouterr()
    assert ("of the 8 episodes differ" in error) is told
    rallies = 2 if told else 4  # a controller against itself plays each twice
    assert json.loads(out)["distinct_episodes"] == rallies
