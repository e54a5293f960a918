"""Evaluation counts fairly; logs are complete and consistent."""

from __future__ import annotations

import csv
import json
import pickle

import pytest
import torch
from policies_fake import FakeEnv
from together import at_once, together

from rookery.policies.training.evaluate import evaluate
from rookery.policies.training.logging import EpisodeStatistics, RunLog, Terminal
from rookery.sim.errors import RookeryError


class Lengths(FakeEnv):
    """World i has episodes of i + 1 steps, whose success is 1 in world 0 and 0 elsewhere."""

    def step(self, actions):
        obs, reward, _, _, _ = super().step(actions)
        self.total_steps = getattr(self, "total_steps", torch.zeros(self.num_envs, dtype=torch.int64)) + 1
        ids = (self.total_steps % (torch.arange(self.num_envs) + 1) == 0).nonzero().squeeze(1)
        info = {}
        if len(ids):
            info["episode"] = {
                "ids": ids,
                "return": {"point": ids.float()},
                "length": ids + 1,
                "metrics": {"success": (ids == 0).float()},
                "cause": torch.zeros_like(ids),
            }
        none = torch.zeros(self.num_envs, dtype=torch.bool)
        return obs, reward, none, none, info


def still(obs):
    return {"point": torch.zeros(*obs["point"].shape[:2], 1)}


@pytest.mark.parametrize(
    ("episodes", "success", "length"), [(4, 1 / 4, 2.5), (8, 1 / 4, 2.5), (6, 2 / 6, 13 / 6), (2, 1 / 2, 1.5)]
)
def test_every_world_counts_the_same_however_short_its_episodes(episodes, success, length):
    got = evaluate(Lengths(4), still, episodes)
    assert got["episodes"] == episodes and got["causes"] == {"time limit": episodes}
    assert got["success_rate"] == pytest.approx(success) and got["episode_length_mean"] == pytest.approx(length)
    assert got["return_mean"] == pytest.approx(length - 1)


def test_only_episodes_that_count_are_recorded():
    """World 0 ends four episodes before world 3 ends its first."""
    seen = []
    evaluate(Drawing(4), still, 6, record=seen.append)
    ids = torch.cat([s["ids"] for s in seen])
    assert sorted(ids.tolist()) == [0, 0, 1, 1, 2, 3]
    assert torch.equal(torch.cat([s["parameters"]["mass"] for s in seen]), 10.0 * ids)


class Drawing(Lengths):
    """With a parameter."""

    def step(self, actions):
        *most, info = super().step(actions)
        if info:
            info["episode"]["parameters"] = {"mass": 10.0 * info["episode"]["ids"]}
        return *most, info


def test_evaluation_repeats_itself_and_reports_causes():
    first, second = (evaluate(FakeEnv(5, limit=0.8), still, 13) for _ in range(2))
    assert first == second
    assert sum(first["causes"].values()) == 13 and set(first["causes"]) == {"time limit", "strayed"}
    assert first["metrics"]["success"] == first["success_rate"]
    with pytest.raises(RookeryError, match="at least 1"):
        evaluate(FakeEnv(2), still, 0)


def test_success_is_averaged_over_the_latest_episodes():
    log = EpisodeStatistics(window=10)
    for k, success in enumerate((0.0, 0.0, 1.0, 1.0, 0.5)):
        ids = torch.arange(4)
        log.add(
            {
                "return": {"a": ids.float(), "b": -ids.float()},
                "length": ids,
                "metrics": {"success": torch.full((4,), success)},
            }
        )
        row = log.summarize(k)
        assert row["return"] == 0.0 and row["return/a"] == 1.5 and row["episodes"] == 4
    # The latest three iterations cover the window of 10; the best moment was before.
    assert log.success == pytest.approx(2.5 / 3) and log.best == {"success": pytest.approx(2.5 / 3), "steps": 4}
    assert log.summarize(9) == {}
    copy = EpisodeStatistics(10)
    copy.load_state_dict(log.state_dict())
    assert copy.state_dict() == log.state_dict()


def test_episodes_of_all_processes_count_and_travel_as_one_array():
    """One array for each process: a tensor for each figure and step takes longer to hand over than the steps to make."""
    episodes = [
        {
            "return": {"a": torch.rand(n)},
            "length": torch.randint(1, 9, (n,)),
            "metrics": {"success": torch.rand(n).round()},
        }
        for n in (3, 1, 5, 2)
    ]
    one, *own = (EpisodeStatistics(4) for _ in range(4))
    for i, episode in enumerate(episodes):
        one.add(episode)
        own[i % 2].add(episode)  # and the third process has none
    pair = together(3)
    sent = []
    for process in pair:
        gather = process.gather
        process.gather = lambda value, gather=gather: sent.append(value) or gather(value)
    rows = at_once(*(lambda k=k: own[k].summarize(7, pair[k]) for k in range(3)))
    expected = one.summarize(7)
    assert rows[0] == {name: pytest.approx(value, rel=1e-12) for name, value in expected.items()}
    assert rows[1:] == [{}, {}]
    assert sum(value is None for value in sent) == 1
    assert all(len(pickle.dumps(value)) < 1000 for value in sent)


def test_an_episode_without_a_figure_does_not_count_in_its_mean():
    """As the time to a goal that was not reached: NaN, or infinite."""
    log = EpisodeStatistics(window=2)
    times = torch.tensor([2.0, torch.nan, 4.0, torch.inf])
    never = torch.full((4,), torch.nan)
    success = torch.tensor([1.0, 0.0, 1.0, 0.0])
    log.add(
        {
            "return": {"a": times.new_ones(4)},
            "length": torch.arange(4),
            "metrics": {"success": success, "time": times, "x": never},
        }
    )
    row = log.summarize(1)
    assert row["metric/time"] == 3.0 and row["success"] == 0.5 and "metric/x" not in row
    json.dumps(log.state_dict(), allow_nan=False)  # as a checkpoint holds it

    class Timed(Lengths):
        def step(self, actions):
            *most, info = super().step(actions)
            for found in info.values():
                found["metrics"]["time"] = torch.where(found["ids"] == 2, 5.0, torch.nan)
            return *most, info

    found = evaluate(Timed(4), still, 8)
    assert found["metrics"]["time"] == 5.0
    assert found["metrics_missing"] == {"time": 6}  # of eight; world 2 has two


def test_episodes_that_began_in_the_middle_do_not_count():
    """Those of worlds whose clocks were set forward: such a one has succeeded by having had no time to fail."""
    log = EpisodeStatistics(window=4)

    def ended(*ids, success, cut):
        rows = torch.tensor(ids)
        log.add(
            {
                "ids": rows,
                "return": {"a": rows.float()},
                "length": rows,
                "metrics": {"success": torch.full((len(ids),), success)},
                "cut": torch.tensor(cut),
            }
        )

    ended(3, success=1.0, cut=[True])
    assert log.summarize(1) == {} and log.success is None
    ended(1, 0, success=1.0, cut=[True, False])
    ended(2, 3, 1, success=0.0, cut=[True, False, False])
    row = log.summarize(2)
    assert (row["episodes"], row["success"], row["return"]) == (3, pytest.approx(1 / 3), pytest.approx(4 / 3))


def rows_of(file):
    with open(file) as f:
        return list(csv.DictReader(f))


def test_rows_past_the_checkpoint_are_forgotten_and_columns_may_come_late(tmp_path):
    with RunLog(tmp_path, 0, 100, lambda row: None) as log:
        log.resume(0)
        log.write({"steps": 10, "a": 1.0})
        log.write({"steps": 20, "a": 2.0, "b": 0.5})
        log.write({"steps": 30, "a": 3.0})
    with open(tmp_path / "progress.csv", "a") as f:
        f.write("40,1")  # cut short by a kill
    with RunLog(tmp_path, 20, 100, lambda row: None) as log:
        log.resume(20)
        log.write({"steps": 30, "a": 7.0, "b": 1.0})
    assert [list(r.values()) for r in rows_of(tmp_path / "progress.csv")] == [
        ["10", "1", ""],
        ["20", "2", "0.5"],
        ["30", "7", "1"],
    ]
    with RunLog(tmp_path, 0, 100, lambda row: None) as log:
        log.resume(0)
        log.write({"steps": 10, "c": 1.0})
    assert rows_of(tmp_path / "progress.csv") == [{"steps": "10", "c": "1"}]


@pytest.mark.parametrize("content", [b"\xff\x00\n1,2\n", b"steps,a\nmany,1\n", b"a,b\n1,2\n"])
def test_a_damaged_log_is_set_aside_and_stops_nothing(tmp_path, content, capsys):
    file = tmp_path / "progress.csv"
    file.write_bytes(content)
    with RunLog(tmp_path, 20, 100, lambda row: None) as log:
        log.resume(20)
        log.write({"steps": 30, "a": 1.0})
    assert rows_of(file) == [{"steps": "30", "a": "1"}]
    (aside,) = tmp_path.glob("progress-damaged-*.csv")
    assert aside.read_bytes() == content
    assert aside.name in capsys.readouterr().err


def test_the_line_says_what_matters(capsys):
    terminal = Terminal(0, 5_000_000)
    terminal.start()
    terminal.show({"steps": 1_234_567, "samples_per_s": 98765.0, "success": 0.876, "return": 12.3456})
    terminal.show({"steps": 2_000_000, "samples_per_s": 98765.0})
    terminal.stop()
    first, last = capsys.readouterr().err.splitlines()
    assert (
        first == "1.23M of 5M steps, 98.8k samples/s, success 87.6%, return 12.35"
    )  # after compiling, no rate is known
    assert last.startswith("2M of 5M steps") and "return 12.35, ETA " in last


def test_the_line_of_an_imitation_says_its_error(capsys):
    """The mean of the groups'."""
    terminal = Terminal(0, 5_000)
    terminal.start()
    terminal.show({"steps": 1_000, "samples_per_s": 1e4, "a/error": 0.02, "b/error": 0.04, "a/loss": 5.0})
    terminal.stop()
    assert capsys.readouterr().err.startswith("1k of 5k steps, 10k samples/s, error 0.03")


def test_hours_are_told_apart_from_minutes(monkeypatch):
    for now, eta in ((59.0, "ETA 0:59"), (3725.0, "ETA 1:02:05")):
        monkeypatch.setattr("time.monotonic", lambda: 0.0)
        terminal = Terminal(0, 110)
        terminal.show({"steps": 10, "samples_per_s": 1.0})
        monkeypatch.setattr("time.monotonic", lambda now=now: now)
        terminal.show({"steps": 60, "samples_per_s": 1.0})
        assert terminal.line().endswith(eta)


def test_the_time_that_is_left_leaves_compiling_out(monkeypatch, capsys):
    """A first iteration of 100 s, others of 1 s."""
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    terminal = Terminal(1000, 2000)
    for iteration in range(1, 5):
        monkeypatch.setattr("time.monotonic", lambda i=iteration: 99.0 + i)
        terminal.show({"steps": 1000 + 10 * iteration, "samples_per_s": 10.0})
    terminal.stop()
    assert capsys.readouterr().err.splitlines()[-1].endswith("ETA 1:36")
