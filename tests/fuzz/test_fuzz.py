"""Some hundred changed files of the formats that are read, and a hundred thousand by `make test-all`: a sentence or an answer,
never a traceback, a hang or 1 GB."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.run import attempt, fuzz
from tests.fuzz.targets import TARGETS, Target, mutate_stages

SELDOM = ("lerobot info", "lerobot metadata", "lerobot rows", "lerobot episodes")
"""Targets that `make test` leaves out: ten seconds each, to make the good files and to read them in a process of its own."""


@pytest.mark.parametrize(
    ("total", "target"),
    [
        pytest.param(
            total, t, id=f"{total}-{t.name}", marks=[pytest.mark.slow] * (total == 100_000 or t.name in SELDOM)
        )
        for total in (240, 100_000)
        for t in TARGETS
    ],
)
def test_changed_files_are_sentences_or_answers(target: Target, total: int) -> None:
    assert not fuzz(target, -(-total // len(TARGETS)), seed=total)


def _endless(folder: Path) -> None:
    while True:
        pass


def _greedy(folder: Path) -> None:
    assert len(bytearray(2 << 30))


def _broken(folder: Path) -> None:
    raise KeyError("x")


@pytest.mark.parametrize(
    ("read", "words"),
    [pytest.param(_endless, "TooSlow", marks=pytest.mark.slow), (_greedy, "MemoryError"), (_broken, "KeyError")],
)
def test_faults_are_noticed(tmp_path: Path, read, words: str) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    target = Target("broken", lambda folder: None, "a", lambda data, rng: data, read)
    assert words in (attempt(target, tmp_path, 0, 0) or "")


def test_mutations_change_files_and_repeat_themselves(tmp_path: Path) -> None:
    made_by: dict[object, Path] = {}  # folders of good files, which several targets share
    for target in TARGETS:
        if target.make not in made_by:
            made_by[target.make] = tmp_path / target.name
            made_by[target.make].mkdir()
            target.make(made_by[target.make])
        folder = made_by[target.make]
        data = (folder / target.file).read_bytes()
        made = [target.mutate(data, random.Random(i)) for i in range(20)]
        if target.mutate is not mutate_stages:  # safetensors writes metadata in an order of its own
            assert made == [target.mutate(data, random.Random(i)) for i in range(20)]
        assert sum(m != data for m in made) >= 15, target.name
