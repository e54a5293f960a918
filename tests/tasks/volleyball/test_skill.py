"""The task of a single skill: what is asked for can be done, is judged by how balls really fly, and the script does it."""

from __future__ import annotations

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.robots.drones.drone import GRAVITY
from rookery.sim.errors import RookeryError
from rookery.tasks.volleyball import rally
from rookery.tasks.volleyball.skill import NAMES, SKILLS


def test_unknown_skills_are_refused():
    with pytest.raises(RookeryError, match=r"skill 'receiv'.*receive"):
        rookery.make("volley-skill", 1, config={"skill": "receiv"})


def test_every_skill_is_drawn_and_told_within_its_spans():
    env = rookery.make("volley-skill", 256, seed=0)
    obs, _ = env.reset()
    task = env.task
    assert set(task.kind.tolist()) == set(range(len(SKILLS)))
    for i, (name, s) in enumerate(SKILLS.items()):
        mine = task.kind == i
        for axis, span in enumerate((s.aim_x, s.aim_y, s.aim_z)):
            assert span[0] - 1e-6 <= task.aim[mine, axis].min() <= task.aim[mine, axis].max() <= span[1] + 1e-6
        assert (task.stroke[mine].sum(-1) == (0.0 if name == "go" else 1.0)).all()
    terms = env.groups["drone"].slices()
    aim = obs["drone"][:, 0, terms["aim"]] / 0.25
    assert torch.allclose(aim, task.aim)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "go"])
def test_the_ball_comes_down_where_it_is_to_be_met(name):
    """By the closed form of a flight, from wherever on its way it starts."""
    env = rookery.make("volley-skill", 64, seed=2, config={"skill": name})
    env.reset()
    task, s = env.task, SKILLS[name]
    ball = task.ball.state[:, 0]
    drop = ball[:, 9].square() + 2.0 * GRAVITY * (ball[:, 2] - s.contact)
    time = (ball[:, 9] + drop.sqrt()) / GRAVITY
    down = ball[:, :2] + time[:, None] * ball[:, 7:9]
    assert 0.3 < time.min() < time.max() < 2.0
    for axis, span in enumerate((s.meet_x, s.meet_y)):
        assert span[0] - 1e-3 <= down[:, axis].min() <= down[:, axis].max() <= span[1] + 1e-3
    start = task.drones.bodies.pos[:, 0, :2]
    assert (start - down).abs().max() <= max(s.run, 0.5) + 1e-3


def outcome(name: str, n: int) -> dict[str, torch.Tensor]:
    """Metrics of the first episodes of the script."""
    env = rookery.make("volley-skill", n, seed=4, config={"skill": name})
    team = env.task.controller()
    obs, _ = env.reset()
    out: dict[str, torch.Tensor] = {}
    seen = torch.zeros(n, dtype=torch.bool)
    while not seen.all():
        obs, *_, info = env.step(team(obs))
        if "episode" in info:
            ids = info["episode"]["ids"]
            for key, value in info["episode"]["metrics"].items():
                out.setdefault(key, torch.zeros(n))
                out[key][ids] = torch.where(seen[ids], out[key][ids], value)
            seen[ids] = True
    return out


@pytest.mark.parametrize("name", slow_but(["serve", "set"], NAMES))
def test_the_script_does_what_it_is_told(name):
    """A serve flies 8 m and more, and misses by half a meter."""
    assert outcome(name, 32)["success"].mean() >= (0.6 if name == "serve" else 0.8)


@pytest.mark.slow
def test_after_its_hit_a_drone_is_told_to_go_elsewhere():
    env = rookery.make("volley-skill", 16, seed=1, config={"skill": "set", "after_s": 2.0, "episode_s": 5.0})
    task = env.task
    team = task.controller()
    obs, _ = env.reset()
    away = torch.full((16,), float("nan"))
    for _ in range(200):
        obs, *_ = env.step(team(obs))
        late = task.hit_at.ge(0) & (task.steps - task.hit_at == 90)
        assert not task.stroke[task.hit_at >= 0].any()
        away = torch.where(late, task.away, away)
    assert (~away.isnan()).sum() >= 8
    assert away.nanmedian() < 0.3


def test_a_miss_is_judged_by_where_the_ball_really_comes_down():
    """The judgement at the hit, against the ball's flight afterwards."""
    env = rookery.make("volley-skill", 16, seed=1, config={"skill": "receive", "after_s": 3.0, "episode_s": 6.0})
    task = env.task
    team = task.controller()
    obs, _ = env.reset()
    down = torch.full((16,), float("nan"))
    off = torch.full((16,), float("nan"))
    before = task.ball.state[:, 0].clone()
    aim = task.aim.clone()
    for _ in range(200):
        aim = torch.where((task.hit_at < 0)[:, None], task.aim, aim)  # after the hit it is told to go elsewhere
        obs, *_, info = env.step(team(obs))
        if "episode" in info:
            before[info["episode"]["ids"]] = float("nan")
        now = task.ball.state[:, 0]
        falls = (before[:, 2] > 2.3) & (now[:, 2] <= 2.3) & (task.hit_at >= 0) & down.isnan()
        share = (before[:, 2] - 2.3) / (before[:, 2] - now[:, 2])
        at = before[:, :2] + share[:, None] * (now[:, :2] - before[:, :2])
        down = torch.where(falls, (at - aim[:, :2]).norm(dim=-1), down)
        off = torch.where(falls, task.off, off)
        before = now.clone()
    known = ~down.isnan()
    assert known.sum() >= 8
    assert (down - off)[known].abs().max() < 0.03


def test_a_ball_that_lands_costs_only_who_was_to_play_it():
    """Not a drone that goes somewhere, and not one that has hit."""
    env = rookery.make("volley-skill", 4, seed=0)
    env.reset()
    task = env.task
    going, hit = torch.tensor([False, True, False, True]), torch.tensor([-1, -1, 3, 3])
    task.kind[:] = torch.where(going, NAMES.index("go"), NAMES.index("set"))
    task.hit_at[:] = hit
    task.referee.fault[:] = rally.BALL_LANDED
    assert task.going.tolist() == going.tolist()
    assert task.rewards()["drone"]["ball_fault"].flatten().tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_high_level_chooses_among_the_skills_of_who_may_play():
    """Second touches are for those alone who may hit, first ones for those to whom the ball flies."""
    config = {"history": 4, "observe_landing": True}
    env = rookery.make("volley-3v3", 8, seed=0, skills="volley-3v3", config=config)
    env.reset()
    spec = env.groups["drone"].action
    options = spec.choices[0].options
    strokes = [i for i, name in enumerate(options) if not name.startswith("go-")]
    assert {options[i] for i in strokes} == set(NAMES) - {"go"}
    serves = torch.nn.functional.one_hot(env.acting.task.referee.server.long(), 6).bool()
    mask = env.action_mask["drone"]
    assert mask[:, :, [i for i in range(len(options)) if i not in strokes]].all()
    first = [options.index(name) for name in ("receive", "pass", "block")]
    second = [options.index(name) for name in ("set", "attack")]
    assert mask[serves][:, [options.index("serve"), *second]].all()
    assert not mask[~serves][:, second].any()
    assert not mask[:, :, first].any(), "the ball falls onto its server"
    action = torch.zeros(8, 6, spec.size)
    action[..., 0] = torch.where(serves, float(options.index("serve")), 0.0)
    hits = 0
    for _ in range(60):
        *_, info = env.step({"drone": action})
        hit = info["events"]["hit"]
        hits += int(hit.sum())
        assert env.deciding["drone"][hit.any(1)].all(), "all learn of a touch"
        if hits:
            break
    assert hits
    for _ in range(3):
        env.step({"drone": action})
    served = env.acting.task.referee.total > 0
    receivers = torch.arange(6) // 3 != env.acting.task.referee.server[:, None] // 3
    mask = env.action_mask["drone"][:, :, first]
    assert mask[receivers & served[:, None]].all()
    assert not mask[~receivers & served[:, None]].any()
