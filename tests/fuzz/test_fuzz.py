"""Some hundred changed files of the formats that are read, and a hundred thousand by `make test-all`: a sentence or an answer,
never a traceback, a hang or 1 GB."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.run import attempt, fuzz
from tests.fuzz.targets import TARGETS, Target, mutate_stages


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("total", [240, pytest.param(100_000, marks=pytest.mark.slow)])
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
    for target in TARGETS:
        folder = tmp_path / target.name
        folder.mkdir()
        target.make(folder)
        data = (folder / target.file).read_bytes()
        made = [target.mutate(data, random.Random(i)) for i in range(20)]
        if target.mutate is not mutate_stages:  # safetensors writes metadata in an order of its own
            assert made == [target.mutate(data, random.Random(i)) for i in range(20)]
        assert sum(m != data for m in made) >= 15, target.name
