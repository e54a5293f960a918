"""Who goes up, who goes down, and where they start."""

from __future__ import annotations

import pytest
import torch

from rookery.assets.terrain import KINDS, TerrainConfig, build
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.tasks.locomanip.terrain_curriculum import TerrainCurriculum

ROWS = 4
COLUMNS = 7
EPISODE_S = 10.0
DT = 0.02
HALF_TILE = 4.0


@pytest.fixture(scope="module")
def terrain():
    return build(TerrainConfig(rows=ROWS, columns=COLUMNS, shares=(1.0,) * 7, cell_m=0.1))


def curriculum(terrain, num_envs=14, seed=0, **more):
    return TerrainCurriculum(terrain, Streams(num_envs, seed), episode_s=EPISODE_S, control_dt=DT, **more)


def everyone(c):
    return torch.arange(len(c.level))


def live(c, walked, speed, steps=100):
    """An episode: robots at `walked` m from their start, told to walk at `speed` m/s for that many steps."""
    away = torch.tensor([0.6, 0.8]) * torch.as_tensor(walked, dtype=torch.float32).view(-1, 1)
    for _ in range(steps):
        c.track(c.start[:, :2] + away, torch.as_tensor(speed, dtype=torch.float32).expand(len(c.level)))


@pytest.mark.parametrize(
    ("walked", "speed", "steps", "change"),
    [
        (HALF_TILE + 0.1, 0.5, 500, 1),  # got far
        (HALF_TILE + 0.1, 1.0, 500, 1),  # far enough, though less than half of the 10 m it was told
        (HALF_TILE - 0.1, 0.5, 500, 0),  # more than half of 5 m, less than half a tile
        (2.6, 0.5, 500, 0),
        (2.4, 0.5, 500, -1),  # less than half of 5 m
        (0.0, 0.0, 500, 0),  # told to stand
        (0.9, 1.0, 50, -1),  # kept up for a second, then fell
        (0.0, 1.0, 0, 0),  # the episode never began
    ],
)
def test_promotion_and_demotion(terrain, walked, speed, steps, change):
    c = curriculum(terrain, 3)
    c.reset(everyone(c))
    c.level.fill_(2)
    live(c, [walked] * 3, speed, steps)
    c.reset(everyone(c))
    assert c.level.tolist() == [2 + change] * 3


def test_ends_of_the_scale(terrain):
    c = curriculum(terrain, 400)
    c.reset(everyone(c))
    c.level.fill_(0)
    live(c, [0.0] * 400, 1.0, 10)
    c.reset(everyone(c))
    assert not c.level.any()
    c.level.fill_(ROWS - 1)
    live(c, [5.0] * 400, 1.0, 10)
    c.reset(everyone(c))
    share = torch.bincount(c.level, minlength=ROWS) / 400
    assert len(share) == ROWS
    assert (share - 1 / ROWS).abs().max() < 0.1  # past the hardest: any row


def test_only_the_worlds_that_are_reset_move(terrain):
    c = curriculum(terrain)
    c.reset(everyone(c))
    c.level.fill_(1)
    live(c, [5.0] * 14, 1.0)
    start = c.start.clone()
    ids = torch.tensor([3, 8])
    out = c.reset(ids)
    others = [i for i in range(14) if i not in (3, 8)]
    assert c.level[ids].tolist() == [2, 2]
    assert c.level[others].eq(1).all()
    assert torch.equal(c.start[others], start[others])
    assert torch.equal(c.start[ids], out)
    # the distances of the old episode are forgotten
    c.reset(ids)
    assert c.level[ids].tolist() == [2, 2]


def test_a_task_may_judge_by_itself(terrain):
    c = curriculum(terrain, 4)
    c.reset(everyone(c))
    c.level.fill_(1)
    live(c, [0.0] * 4, 1.0)
    up = torch.tensor([True, False, False, True])
    down = torch.tensor([False, True, False, True])
    c.reset(everyone(c), up=up, down=down)
    assert c.level.tolist() == [2, 0, 1, 2]


def test_starts_are_on_the_platforms(terrain):
    c = curriculum(terrain, 140, spread_m=0.5)
    out = c.reset(everyone(c))
    away = out - torch.tensor(terrain.centres, dtype=torch.float32)[c.level, c.column]
    assert not away[:, 2].any()
    assert away[:, :2].abs().max() <= 0.5
    assert (away[:, :2].std(dim=0) > 0.2).all()


def test_worlds_begin_on_easy_rows_of_every_column(terrain):
    c = curriculum(terrain, 280, start_rows=2)
    pairs = torch.bincount(c.level * COLUMNS + c.column, minlength=ROWS * COLUMNS).view(ROWS, COLUMNS)
    assert pairs[:2].eq(20).all()
    assert not pairs[2:].any()
    few = curriculum(terrain, 3)
    assert few.column.tolist() == [0, 2, 4]


def test_without_adapting_worlds_see_the_whole_grid(terrain):
    c = curriculum(terrain, 2000, adapt=False)
    c.reset(everyone(c))
    pairs = torch.bincount(c.level * COLUMNS + c.column, minlength=ROWS * COLUMNS)
    assert pairs.min() > 40
    assert pairs.max() < 110


def test_it_goes_on_exactly_after_a_resume(terrain):
    def run(c, rounds):
        out = []
        for k in range(rounds):
            live(c, torch.linspace(0, 6, 14), 0.8, 5 + k)
            out.append(c.reset(torch.arange(k % 2, 14, 2)))
        return torch.cat(out)

    c = curriculum(terrain)
    c.reset(everyone(c))
    run(c, 4)
    live(c, [3.0] * 14, 0.5, 7)  # in the middle of episodes
    saved = c.state_dict()
    streams = c.rng.state_dict()
    rest = run(c, 6)
    again = curriculum(terrain, seed=9)
    again.load_state_dict(saved)
    again.rng.load_state_dict(streams)
    assert torch.equal(run(again, 6), rest)
    assert torch.equal(again.level, c.level)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start_rows": 0}, "at least one row"),
        ({"spread_m": 0.8}, "do not fit on a platform"),
        ({"spread_m": -1}, "fit"),
    ],
)
def test_bad_values_are_refused(terrain, change, words):
    with pytest.raises(RookeryError, match=words):
        curriculum(terrain, **change)
    with pytest.raises(RookeryError, match="cannot be made of control steps"):
        TerrainCurriculum(terrain, Streams(2, 0), episode_s=1.0, control_dt=0.0)


def test_terrain_of_users_is_refused_in_a_sentence():
    with pytest.raises(RookeryError, match="at least one row"):
        build(TerrainConfig(rows=0))
    assert set(build(TerrainConfig(rows=1, cell_m=0.1)).kinds) == set(KINDS)


def test_an_episode_begins_with_nothing_walked_and_nothing_commanded(terrain):
    c = curriculum(terrain, 3)
    c.reset(everyone(c))
    live(c, [HALF_TILE + 1.0] * 3, 1.0)
    c.reset(torch.tensor([0, 2]))
    for noted, before in ((c.walked, HALF_TILE + 1.0), (c.commanded, 100 * DT), (c.ticks, 100)):
        assert noted.tolist() == pytest.approx([0.0, before, 0.0])
    up, down = c.verdict(everyone(c))
    assert up.tolist() == [False, True, False] and down.tolist() == [False] * 3
