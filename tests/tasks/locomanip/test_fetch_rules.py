"""go2arm-fetch against slow references: grips, rewards and ends world by world, goals and the critic's state in world axes, and
states that are saved while a ball is in the hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import rookery
from rookery.sim.env import Env
from rookery.sim.rotations import matrix
from rookery.tasks.locomanip.fetch import ABOVE_M, CARRIED_M, FUNNEL, GRASP_PITCH, LEVEL_M, LIFTED_M, STOW, STOW_PITCH
from rookery.tasks.locomanip.generators import TIPS_UP
from rookery.tasks.locomanip.reach import AHEAD_S
from rookery.tasks.locomanip.tool_leads import GAIN, LEAD_M, LEAD_RAD, RATE, SPEED

WORLDS = 12


def make(seed: int = 5, worlds: int = WORLDS, **options: Any) -> Env:
    return rookery.make("go2arm-fetch", worlds, seed=seed, **options)


def task_of(env: Env) -> Any:
    return env.unwrapped.task  # type: ignore[attr-defined]


def random_actions(env: Env, g: torch.Generator, size: float = 1.0) -> Tensor:
    shape = env.num_envs, 1, env.groups["robot"].action.size
    return size * (2.0 * torch.rand(shape, generator=g) - 1.0)


def put(task: Any, world: int, place: Tensor) -> None:
    """Put a world's ball at a place [3] m, at rest."""
    state = task.ball.state[world : world + 1].clone()
    state[0, 0, :3] = place
    state[0, 0, 7:] = 0.0
    task.ball.set_state(torch.tensor([world]), state)


def moments(task: Any) -> dict[str, Tensor]:
    """What rules are about, from the quantities in world axes."""
    q = {name: value[:, 0].clone() for name, value in task.quantities().items()}
    return {"ball": q["ball"], "tool": q["tool's position"], "trunk": q["position"], "start": task.start.clone()}


class Reference:
    """One world's episode, step by step in plain Python."""

    def __init__(self, cfg: Any, now: dict[str, list[float]]) -> None:
        self.cfg = cfg
        self.closed = self.lifted = False
        self.drops = 0
        self.delivered_s: float | None = None
        self.steps = 0
        self.away = False
        self.reach, self.carry = self.ways(now)

    def ways(self, now: dict[str, list[float]]) -> tuple[float, float]:
        return math.dist(now["ball"], now["tool"]), math.dist(now["ball"][:2], now["start"][:2])

    def step(self, now: dict[str, list[float]], fallen: bool) -> tuple[dict[str, float], str]:
        """Terms of the reward, and why the episode ends."""
        self.steps += 1
        reach, carry = self.ways(now)
        dropped = self.closed and reach > CARRIED_M
        if dropped:
            self.closed = False
        elif reach < self.cfg.grip_m:
            self.closed = True
        drop = dropped and self.lifted
        self.drops += drop
        carried = self.closed and now["ball"][2] > LIFTED_M
        first = carried and not self.lifted
        self.lifted |= carried
        delivered = carried and carry < self.cfg.goal_m and not fallen
        if delivered and self.delivered_s is None:
            self.delivered_s = self.steps * self.cfg.control_dt
        self.away = away = math.dist(now["trunk"][:2], now["start"][:2]) > self.cfg.bounds_m
        cause = "fallen" if fallen else "out_of_bounds" if away else "delivered" if delivered else ""
        terms = {
            "reaching": 0.0 if self.closed else self.reach - reach,
            "lifted": float(first),
            "progress": self.carry - carry if carried else 0.0,
            "delivered": float(delivered),
            "dropped": float(drop),
            "termination": float(cause != "" and not delivered),
        }
        self.reach, self.carry = reach, carry
        return terms, cause

    def metrics(self, fallen: bool) -> dict[str, float]:
        there = self.delivered_s is not None
        return {
            "success": float(there and not fallen),
            "time_s": self.delivered_s if self.delivered_s is not None else self.cfg.episode_s,
            "gripped": float(self.lifted),
            "dropped": float(self.drops),
            "distance_m": self.carry,
            "fell": float(fallen),
        }


def of_world(values: dict[str, Tensor], world: int) -> dict[str, list[float]]:
    return {name: value[world].tolist() for name, value in values.items()}


def disturb(task: Any, g: torch.Generator) -> list[int]:
    """Put robots on their backs, balls in hands, beside and below them, and starts near and far, by chance; the worlds whose
    hand has closed besides, on nothing."""
    chance = torch.rand(WORLDS, 4, generator=g).tolist()
    for world in range(WORLDS):
        if chance[world][0] < 0.04:
            state = task.robot.base.state[world : world + 1].clone()
            state[0, 0, 2] = 1.0
            state[0, 0, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])
            task.robot.base.set_state(torch.tensor([world]), state)
    tool = moments(task)["tool"]
    for world, (fallen, ball, start, _) in enumerate(chance):
        if ball < 0.5 or fallen < 0.04:
            way = torch.nn.functional.normalize(torch.randn(3, generator=g), dim=0)
            far = 0.2 if 0.3 < ball < 0.5 else 0.02
            put(task, world, tool[world] + way * far * float(torch.rand(1, generator=g)))
        elif ball < 0.6:  # on the floor
            put(task, world, torch.tensor([*tool[world, :2].tolist(), 0.03]))
        if start < 0.08:
            near = 0.7 * task.cfg.goal_m * torch.randn(2, generator=g)
            task.start[world, :2] = task.ball.pos[world, 0, :2] + near * (fallen > 0.04)
        elif start < 0.1 or (fallen < 0.04 and start < 0.5):
            task.start[world, 0] += 2.0 * task.cfg.bounds_m
        elif fallen < 0.04:
            task.start[world, :2] = task.ball.pos[world, 0, :2]
    forced = [world for world in range(WORLDS) if chance[world][3] < 0.05]
    task.closed[forced] = True
    return forced


@pytest.mark.slow
def test_grips_rewards_and_ends_are_those_of_a_slow_reference() -> None:
    env = make(config={"history": 1})
    task = task_of(env)
    g = torch.Generator().manual_seed(0)
    env.reset(5)
    seen: dict[str, Any] = {}
    advance = task.advance

    def watched() -> None:
        advance()
        seen["now"], seen["fallen"] = moments(task), task.fallen.clone()
        seen["terms"], seen["cause"] = task.rewards()["robot"], task.terminated().clone()
        seen["metrics"] = {k: v.clone() for k, v in task.metrics().items()}
        seen["events"] = task.events()

    task.advance = watched
    now = moments(task)
    worlds = [Reference(task.cfg, of_world(now, i)) for i in range(WORLDS)]
    kinds = ("gripped", "dropped", "lifted", "drops", "delivered", "fallen", "out_of_bounds", "lost unlifted")
    met = dict.fromkeys((*kinds, "fallen with the ball there", "fallen outside"), 0)
    for _ in range(150):
        for i in disturb(task, g):
            worlds[i].closed = True
        *_, info = env.step(random_actions(env, g, 0.5))
        for i, who in enumerate(worlds):
            fallen, was = bool(seen["fallen"][i]), who.closed
            terms, cause = who.step(of_world(seen["now"], i), fallen)
            for name, value in terms.items():
                assert float(seen["terms"][name][i, 0]) == pytest.approx(value, abs=2e-5), name
            assert int(seen["cause"][i]) == (1 + task.causes.index(cause) if cause else 0)
            for name, value in who.metrics(fallen).items():
                assert float(seen["metrics"][name][i]) == pytest.approx(value, abs=2e-5), name
            assert bool(seen["events"]["gripped"][i]) == (who.closed and not was)
            assert bool(seen["events"]["dropped"][i]) == (was and not who.closed)
            met["gripped"] += who.closed and not was
            met["lost unlifted"] += was and not who.closed and not who.lifted
            carried = who.closed and seen["now"]["ball"][i, 2] > LIFTED_M
            met["fallen with the ball there"] += fallen and carried and who.carry < task.cfg.goal_m
            met["fallen outside"] += fallen and bool(terms["termination"]) and who.away
            met["dropped"] += was and not who.closed
            met["lifted"] += terms["lifted"] > 0.0
            met["drops"] += terms["dropped"] > 0.0
            if cause:
                met[cause] += 1
        if "episode" in info:
            now = moments(task)
            for i in info["episode"]["ids"].tolist():
                worlds[i] = Reference(task.cfg, of_world(now, i))
        assert not task.command.any()  # nobody commands it: the gait's clock and the critic see none
    assert min(met.values()) > 3, met
    env.close()


def test_balls_lie_everywhere_within_their_bounds_and_the_start_is_at_standing_height() -> None:
    env = make()
    task, c = task_of(env), task_of(env).cfg
    aside, shares = [], []
    for seed in range(8):
        env.reset(seed)
        off = task.ball.pos[:, 0] - task.robot.base.pos[:, 0]
        turn = torch.atan2(off[:, 1], off[:, 0]) - task.robot.yaw
        aside.append(torch.atan2(turn.sin(), turn.cos()) / c.side_rad)
        shares.append((off[:, :2].norm(dim=1) - c.near_m) / (c.far_m - c.near_m))
        assert torch.allclose(task.start[:, 2], torch.tensor(task.model.stand_height))
    for x, low, high in ((torch.cat(aside), -1.0, 1.0), (torch.cat(shares), 0.0, 1.0)):
        quarters = ((x - low) / (high - low) * 4.0).long().clamp(0, 3)
        assert (torch.bincount(quarters, minlength=4) > len(x) / 16).all()  # a fourth each, within chance
    env.close()


def turns(pitch: float, azimuth: Tensor) -> Tensor:
    """Matrices [N, 3, 3] of a tool that points down by `pitch` and to an azimuth: about z, and before that about y."""
    zero, one = torch.zeros_like(azimuth), torch.ones_like(azimuth)
    z = (azimuth.cos(), -azimuth.sin(), zero, azimuth.sin(), azimuth.cos(), zero, zero, zero, one)
    c, s = torch.full_like(zero, math.cos(pitch)), torch.full_like(zero, math.sin(pitch))
    y = (c, zero, s, zero, one, zero, -s, zero, c)
    return torch.stack(z, 1).view(-1, 3, 3) @ torch.stack(y, 1).view(-1, 3, 3)


def between(a: Tensor, b: Tensor) -> Tensor:
    """[N] rad, between matrices [N, 3, 3]."""
    a, b = a.double(), b.double()
    return (((a.transpose(1, 2) @ b).diagonal(dim1=1, dim2=2).sum(1) - 1.0) / 2.0).clamp(-1.0, 1.0).acos().float()


def swayed(env: Env, task: Any) -> dict[str, Tensor]:
    """Quantities of robots that lean, some of whose balls are near the tool."""
    g = torch.Generator().manual_seed(3)
    for _ in range(12):
        env.step(random_actions(env, g))
    tool = moments(task)["tool"]
    for world in range(0, WORLDS, 2):  # from right below it to beyond the funnel
        aside = 0.09 * world / WORLDS
        put(task, world, tool[world] + torch.tensor([aside * math.cos(world), aside * math.sin(world), -0.1]))
    return {name: value[:, 0].clone() for name, value in task.quantities().items()}


def test_goals_lead_from_the_tool_to_their_targets_in_the_world() -> None:
    env = make()
    task = task_of(env)
    env.reset(2)
    q = swayed(env, task)
    trunk, tool, ball = q["position"], q["tool's position"], q["ball"]
    axes = matrix(q["rotation"]).view(-1, 3, 3)
    assert float((1.0 - axes[:, 2, 2]).max()) > 0.002  # they lean
    heading = torch.atan2(axes[:, 1, 0], axes[:, 0, 0])
    aside = (ball - tool)[:, :2].norm(dim=1)
    up = (FUNNEL * (aside - LEVEL_M)).clamp(0.0, ABOVE_M)
    assert bool((up == 0.0).any()) and bool((up == ABOVE_M).any()) and bool(((up > 0.0) & (up < ABOVE_M)).any())
    grasp = ball + torch.stack((torch.zeros_like(up), torch.zeros_like(up), TIPS_UP + up), 1)
    ahead = torch.stack((heading.cos(), heading.sin()), 1)
    left = torch.stack((-heading.sin(), heading.cos()), 1)
    stow = torch.cat((trunk[:, :2] + STOW[0] * ahead + STOW[1] * left, torch.full((WORLDS, 1), STOW[2])), 1)
    off = ball - trunk
    targets = {
        "grasp": (grasp, turns(GRASP_PITCH, torch.atan2(off[:, 1], off[:, 0]))),
        "stow": (stow, turns(STOW_PITCH, heading)),
    }
    own = matrix(q["tool's rotation"]).view(-1, 3, 3)
    for what, (place, turned) in targets.items():
        for seconds in (0.0, AHEAD_S):
            name = f"{what} in {seconds:g} s" if seconds else what
            way, lead = place - tool, q[name] - tool
            length = (GAIN * way.norm(dim=1)).clamp_max(LEAD_M + SPEED * seconds)
            wanted = torch.nn.functional.normalize(way, dim=1) * length[:, None]
            assert torch.allclose(lead, wanted, atol=2e-5), name
            goal = matrix(q[f"rotation of the {name}"]).view(-1, 3, 3)
            whole = between(own, turned)
            angle = (GAIN * whole).clamp_max(LEAD_RAD + RATE * seconds)
            assert torch.allclose(between(own, goal), angle, atol=2e-3), name
            assert torch.allclose(between(goal, turned), (whole - angle).abs(), atol=2e-3), name
    env.close()


def test_the_critic_gets_ball_and_start_in_the_trunks_axes_and_the_hand() -> None:
    env = make()
    task = task_of(env)
    env.reset(2)
    task.closed[::3] = True
    q = swayed(env, task)
    task.measure()
    back = matrix(q["rotation"]).view(-1, 3, 3).transpose(1, 2)
    in_trunk = lambda x: (back @ x[:, :, None])[:, :, 0]  # noqa: E731
    trunk, ball = q["position"], q["ball"]
    parts = (0.5 * (ball - trunk), ball - q["tool's position"], 0.5 * (q["start"] - trunk))
    wanted = torch.cat((*(in_trunk(x) for x in parts), q["hand closed"]), 1)
    state = task.state()
    assert torch.allclose(state[:, -wanted.shape[1] :], wanted, atol=2e-6)
    assert state.shape[1] == env.state_size
    env.close()


def test_the_clock_runs_as_fast_as_it_is_declared() -> None:
    env = make()
    task = task_of(env)
    env.reset(2)
    step = task.clock.frequency * task.cfg.control_dt
    before = task.phase.clone()
    env.step(torch.zeros(WORLDS, 1, env.groups["robot"].action.size))
    assert torch.allclose((task.phase - before) % 1.0, torch.full((WORLDS,), step), atol=1e-5)
    env.close()


def grip(env: Env) -> Tensor:
    """Put balls in the hands of half of the worlds, and close them; the action that keeps them."""
    task = task_of(env)
    rest = torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1)
    for _ in range(25):  # until hands are open
        env.step(rest)
    task.start[:, 0] -= 2.0  # not delivered at once
    tool = moments(task)["tool"]
    for world in range(0, env.num_envs, 2):
        put(task, world, tool[world])
    for _ in range(15):
        env.step(rest)
    assert task.closed.any() and not task.closed.all() and task.lifted.any()
    return rest


def same_steps(one: Env, other: Env, act: Any, steps: int) -> None:
    """Both make the same bits."""
    for _ in range(steps):
        action = act()
        a, b = one.step(action), other.step(action)
        assert torch.equal(a[0]["robot"], b[0]["robot"]) and torch.equal(a[1]["robot"], b[1]["robot"])
        assert torch.equal(a[2], b[2]) and torch.equal(a[3], b[3])
        for name, event in a[4]["events"].items():
            assert torch.equal(event, b[4]["events"][name]), name
    last = other.state_dict()
    for name, value in one.state_dict().items():
        assert torch.equal(value, last[name]), name


def test_a_state_saved_with_a_ball_in_the_hand_continues_exactly() -> None:
    one, other = make(1, 6, randomize="default"), make(2, 6, randomize="default")
    one.reset()
    other.reset()
    rest = grip(one)
    for _ in range(3):
        other.step(rest)
    other.load_state_dict(one.state_dict())
    assert torch.equal(task_of(one).closed, task_of(other).closed)
    g = torch.Generator().manual_seed(4)
    same_steps(one, other, lambda: (rest + random_actions(one, g, 0.2)).clamp(-1.0, 1.0), 40)
    one.close()
    other.close()


def test_the_script_goes_on_from_a_saved_state_without_its_observation() -> None:
    """It reads the task, not the observation: what it reads is measured anew."""
    one, other = make(1, 4, randomize="default"), make(2, 4, randomize="default")
    acts = [env.controller() for env in (one, other)]
    for env, act in zip((one, other), acts, strict=True):
        assert act is not None
        obs, _ = env.reset()
        for _ in range(20):
            obs = env.step(act(obs))[0]
    other.load_state_dict(one.state_dict())
    a, b = (act({}) for act in acts)  # type: ignore[misc]
    assert torch.equal(a["robot"], b["robot"])
    one.close()
    other.close()


@pytest.mark.slow
def test_shards_grip_with_the_same_bits() -> None:
    envs = [make(1, 4, randomize="default", shards=shards) for shards in (1, 2)]
    first = [env.reset()[0]["robot"] for env in envs]
    assert torch.equal(*first)
    script = envs[0].controller()
    assert script is not None
    obs = {"robot": first[0]}
    closed = False
    for _ in range(500):
        action = script(obs)
        a, b = (env.step(action) for env in envs)
        obs = a[0]
        closed |= bool(a[4]["events"]["gripped"].any())
        assert torch.equal(a[0]["robot"], b[0]["robot"]) and torch.equal(a[1]["robot"], b[1]["robot"])
        assert torch.equal(a[2], b[2]) and torch.equal(a[3], b[3])
    assert closed
    for env in envs:
        env.close()
