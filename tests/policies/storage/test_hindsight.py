"""Hindsight: what is learned with another goal is what an environment with that goal would have given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_reach import ReachEnv
from policies_toy import assert_resumes, train
from sampled import slow_but

from rookery.policies.algorithms.off_policy_goals import goal_of
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.storage.hindsight import Hindsight
from rookery.policies.storage.replay import Replay
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, Term

OFFSET: dict[str, Any] = {"hindsight_share": 0.8, "goal": "offset", "goal_within": 0.1, "goal_reward": 3.0}
PLACES: dict[str, Any] = OFFSET | {"goal": "goal", "goal_achieved": "place"}
SMALL = SACConfig(rollout_steps=4, learning_starts=16, batch=32, buffer_size=160, hidden=(16,))


def filled(offset: bool, steps: int, kept: int = 25, limit: float = 9.0) -> tuple[Replay, Hindsight, list[Any], Group]:
    """A memory of random actions, and of each control step what happened: place before and after, goal, action, clock."""
    env = ReachEnv(4, horizon=9, limit=limit, offset=offset, weight=3.0, seed=1)
    group = env.groups["point"]
    replay = Replay(kept, 4, 1, group.observation_size, 2, "cpu")
    term = goal_of(replace(SMALL, **(OFFSET if offset else PLACES)), group)
    hindsight = Hindsight(replay, term, 1.0)
    g = torch.Generator().manual_seed(2)
    obs, log = env.reset()[0]["point"], []
    for _ in range(steps):
        before = env.place.clone(), env.goal.clone(), env.clock.clone()
        action = torch.rand(4, 1, 2, generator=g) * 2.0 - 1.0
        after, reward, terminated, truncated, info = env.step({"point": action})
        final = info.get("final_observation", {}).get("point")
        replay.add(obs, action, reward["point"], after["point"], terminated, truncated, final)
        hindsight.note()
        log.append((*before, action[:, 0], terminated, truncated))
        obs = after["point"]
    return replay, hindsight, log, group


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize(("steps", "limit"), [(20, 9.0), (70, 9.0), (70, 0.7)])
def test_it_is_what_an_environment_with_the_achieved_goal_gives(offset: bool, steps: int, limit: float) -> None:
    """Every transition of a memory, before and after the ring is full, and with episodes that terminate: its goal is a place
    that was reached later in its episode, and observations and reward are those of an environment that has it as its goal."""
    replay, hindsight, log, _ = filled(offset, steps, limit=limit)
    g = torch.Generator().manual_seed(3)
    first = steps - replay.size
    numbers = torch.tensor([(t % 26) * 4 + w for t in range(first, steps) for w in range(4)])
    taken = replay.take(numbers, 0.9)
    changed = 0
    for _ in range(4):
        got = hindsight.relabel(numbers, taken, g)
        goals, starts, wanted, actions = [], [], [], []
        for k, number in enumerate(numbers.tolist()):
            world = number % 4
            t = first + k // 4
            place, goal, clock, action, *_ = (x[world] for x in log[t])
            end = next((u for u in range(t, steps) if bool(log[u][4][world] | log[u][5][world])), steps - 1)
            reached = [log[u][0][world] + 0.25 * log[u][3][world] for u in range(t, end + 1)]
            if bool(log[end][4][world]):
                reached.pop()  # what a terminated episode ends at is not kept
            own = 2.0 * got.observation[k, :2] + (place if offset else 0.0)
            if reached:
                assert min((own - p).norm() for p in reached) < 1e-5
                changed += int((own - goal).norm() > 1e-4)
            else:
                assert torch.equal(got.observation[k], taken.observation[k])
            goals.append(own)
            starts.append(log[t][0][world])
            wanted.append(clock)
            actions.append(action)
        other = ReachEnv(
            len(goals),
            horizon=9,
            limit=limit,
            offset=offset,
            weight=3.0,
            goals=torch.stack(goals),
            starts=torch.stack(starts),
        )
        other.reset()
        other.clock[:] = torch.stack(wanted)
        assert torch.allclose(other._obs()["point"][:, 0], got.observation, atol=1e-6)
        after, reward, terminated, _, info = other.step({"point": torch.stack(actions)[:, None]})
        after = info["final_observation"] if info else after
        assert torch.equal(terminated, got.terminated)
        lasts = ~terminated
        torch.testing.assert_close(reward["point"][lasts, 0], got.reward[lasts], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(after["point"][lasts, 0], got.next_observation[lasts], rtol=1e-5, atol=1e-6)
    assert changed > len(numbers)


def test_a_part_of_a_term_is_a_goal() -> None:
    group = ReachEnv().groups["point"]
    terms = (Term("hand", 7, "m, 1"), Term("goal", 3, "m"), Term("rest", 2))
    settings = PLACES | {"goal_achieved": "hand[2:5]"}
    found = goal_of(replace(SMALL, **settings), replace(group, observation=terms))
    assert (found.goal, found.achieved) == (slice(7, 10), slice(2, 5))


def test_goals_are_drawn_evenly_from_what_follows() -> None:
    replay, hindsight, log, _ = filled(True, 25)
    number = torch.full((9000,), 2 * 4 + 1)  # step 2 of world 1, whose first episode is truncated after step 8
    got = hindsight.relabel(number, replay.take(number, 0.9), torch.Generator().manual_seed(0))
    own = 2.0 * got.observation[:, :2] + log[2][0][1]
    reached = torch.stack([log[u][0][1] + 0.25 * log[u][3][1] for u in range(2, 9)])
    counts = torch.cdist(own, reached).argmin(1).bincount(minlength=7)
    assert counts.min() > 1150 and counts.max() < 1420  # 1286 and 33


@pytest.mark.parametrize("places", slow_but([True], [False, True]))
@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_training_resumes_bit_for_bit(places: bool, kind: str) -> None:
    settings = PLACES if places else OFFSET

    def make() -> Any:
        env = ReachEnv(4, horizon=5, offset="goal_achieved" not in settings)
        if kind == "sac":
            return SAC(env, replace(SMALL, **settings))
        return TD3(
            env, TD3Config(rollout_steps=4, learning_starts=16, batch=32, buffer_size=160, hidden=(16,), **settings)
        )

    assert_resumes(make, 12)


@pytest.mark.slow
def test_a_goal_that_chance_does_not_find_is_learned_with_hindsight_alone() -> None:
    """Goals 2 m away, steps of 0.2 m: of two trainings of the same length one reaches them."""
    successes = {}
    for share in (0.0, 0.8):
        env = ReachEnv(8, horizon=20, radius=2.0, step=0.2, cost=0.0, seed=1)
        goal = OFFSET | {"hindsight_share": share, "goal_reward": 1.0} if share else {}
        config = SACConfig(
            rollout_steps=20, learning_starts=1600, batch=128, buffer_size=100_000, hidden=(64, 64), learning_rate=1e-3,
            gamma=0.95, updates_per_step=1.0, target_entropy=-4.0, **goal,
        )  # fmt: skip
        sac = SAC(env, config, seed=1)
        obs, _ = train(sac, env, env.reset()[0], 200)
        policy = sac.policies()["point"]
        test = ReachEnv(64, horizon=20, radius=2.0, step=0.2, seed=5)
        obs, earned = test.reset()[0], torch.zeros(64)
        for _ in range(19):
            with torch.no_grad():
                obs, reward, *_ = test.step({"point": policy(obs["point"])})
            earned = torch.maximum(earned, (reward["point"][:, 0] > 0.5).float())
        successes[share] = earned.mean().item()
    assert successes[0.0] < 0.2 and successes[0.8] > 0.8, successes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hindsight_share": 0.8}, "needs the goal: name the term"),
        ({"goal": "offset"}, "goal is for transitions with other goals: give hindsight_share=0.8 too"),
        (OFFSET | {"n_step": 3}, "give n_step=1"),
        (OFFSET | {"goal_within": 0.0}, "goal_within is 0.0"),
        (OFFSET | {"hindsight_share": 1.5}, "hindsight_share is 1.5"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        replace(SMALL, **settings)


@pytest.mark.parametrize(
    ("term", "achieved", "message"),
    [
        (Term("offset", 2, "m", clip=1.0), "", "clipped at 1 m, so that goals beyond look alike"),
        (Term("offset", 2, "m", frame="body"), "", "in axes of the robot, which turn"),
        (Term("aim", 2, "m"), "", "goal 'offset'"),
        (Term("offset", 2, "m"), "nowhere", "goal_achieved 'nowhere'"),
        (Term("offset", 2, "m", scale=2.0), "age", "differ in size, axes or scale"),
        (Term("offset", 2, "m"), "offset[1:4]", "has the components 0 to 1"),
    ],
)
def test_terms_that_say_no_goal_are_refused(term: Term, achieved: str, message: str) -> None:
    env = ReachEnv()
    env.groups = {"point": replace(env.groups["point"], observation=(term, Term("age", 1)))}
    with pytest.raises(RookeryError, match=message):
        SAC(env, replace(SMALL, **(OFFSET | {"goal_achieved": achieved})))


def test_damaged_ends_of_episodes_are_refused() -> None:
    sac = SAC(ReachEnv(4, horizon=5), replace(SMALL, **OFFSET))
    train(sac, sac.env, sac.env.reset()[0], 6)
    state = {k: v.clone() for k, v in sac.state_dict().items()}
    for name, value, message in (
        ("end", state["point.hindsight.end"][:-1], "no ends of episodes that fit"),
        ("end", state["point.hindsight.end"] + 1000, "contradict the replay memory"),
        ("total", torch.tensor(2), "contradict the replay memory"),
    ):
        with pytest.raises(RookeryError, match=message):
            sac.load_state_dict(state | {f"point.hindsight.{name}": value})
