"""The curriculum: what is drawn widens with success, and goes on exactly after a resume."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.envs.parameters import drawn_now
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.curriculum import BAD, GOOD, STEP, Curriculum
from rookery.sim.randomization.distributions import Choice, LogUniform, Normal, Range
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Randomization

N = 2000


def success(rate: float, episodes: int = 100) -> dict[str, Any]:
    """An ``info["episode"]``."""
    good = (torch.arange(episodes) < rate * episodes).float()
    return {"metrics": {"success": good}, "cut": torch.zeros(episodes, dtype=torch.bool)}


def test_it_widens_with_success_and_narrows_with_failure():
    c = Curriculum(100)
    c.learn(success(0.0))
    assert c.share.item() == 1.0  # not in use
    c.begin()
    shares = []
    for rate in (GOOD + 0.1, GOOD + 0.1, 0.5 * (GOOD + BAD), BAD - 0.1, BAD - 0.1, BAD - 0.1):
        c.learn(success(rate))
        shares.append(c.share.item())
    assert shares == pytest.approx([STEP, 2 * STEP, 2 * STEP, STEP, 0.0, 0.0], abs=1e-6)
    for _ in range(30):
        c.learn(success(1.0))
    assert c.share.item() == 1.0


def test_episodes_that_began_in_the_middle_do_not_count():
    """Nearly all of them are successes, for want of time to fail."""
    c = Curriculum(100)
    c.begin()
    for cut in (100, 50, 20):
        c.learn(success(1.0) | {"cut": torch.arange(100) < cut})
        assert c.share.item() == (0.0 if cut > 20 else pytest.approx(STEP))
    assert c.episodes == 0


def test_a_training_widens_by_whole_episodes_alone():
    """Of four worlds with staggered clocks three end before; window is the number of worlds."""
    env = rookery.make(
        "drone-hover", 4, seed=0, randomize="default", randomize_curriculum=True, config={"episode_s": 0.08}
    )
    env.reset()
    env.stagger()
    counted = []
    for _ in range(9):
        env.step(torch.tensor(env.groups["drone"].action.neutral).expand(4, 1, 4))
        counted.append(int(env.randomization.curriculum.episodes))
    assert env.randomization.curriculum.window >= 8, "the count below begins anew at the window"
    # world 0 ends at step 8 of 8; 1 at 6, 2 at 4, 3 at 2, which began in the middle: their second episodes end 8 later
    assert counted == [0] * 7 + [1, 1]
    env.close()


def test_five_good_turns_are_all_of_the_width():
    """Presets have a dozen turns: drone-hover's 3.2 M steps are 12 episodes in each of its 512 worlds."""
    c = Curriculum(100)
    c.begin()
    for share in (0.2, 0.4, 0.6, 0.8, 1.0, 1.0):
        c.learn(success(1.0))
        assert c.share.item() == pytest.approx(share)
    assert c.share.item() == 1.0


def test_it_decides_after_a_window_of_episodes():
    c = Curriculum(100)
    c.begin()
    for _ in range(9):
        c.learn(success(1.0, 10))
    assert c.share.item() == 0.0
    c.learn(success(1.0, 10))
    assert c.share.item() == pytest.approx(STEP)


def drawn(distribution, share: float) -> torch.Tensor:
    p = {"a": Parameter("", "1", 1.0, 0.1, 10.0, lambda ids, v: None)}
    r = Randomization(p, {"a": distribution}, N, Streams(N, 0))
    r.curriculum.begin()
    r.curriculum.share.fill_(share)
    r.draw(torch.arange(N))
    return r.values[:, 0].clone()


@pytest.mark.parametrize("distribution", [Range(0.5, 2.0), LogUniform(0.5, 2.0), Normal(mean=1.2, std=0.1)])
def test_a_share_is_that_part_of_the_way_from_the_nominal_value(distribution):
    whole = drawn(distribution, 1.0)
    torch.testing.assert_close(drawn(distribution, 0.3), 1.0 + 0.3 * (whole - 1.0))
    assert (drawn(distribution, 0.0) == 1.0).all()


def test_a_choice_is_nominal_but_for_that_share_of_the_draws():
    some = drawn(Choice(values=(0.5, 3.0)), 0.3)
    assert set(some.tolist()) == {0.5, 1.0, 3.0}
    assert (some != 1.0).float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert (some == 0.5).float().mean().item() == pytest.approx(0.15, abs=0.04)


def test_values_of_startup_and_those_held_are_not_part_of_it():
    assert (drawn(Range(0.5, 2.0, "startup"), 0.0) != 1.0).any()
    env = rookery.make("drone-hover", num_envs=4, randomize="default", randomize_curriculum=True, fixed={"mass": 1.3})
    env.reset()
    values = dict(zip(env.randomization.names, env.randomization.values.T, strict=True))
    assert torch.allclose(values["mass"], torch.tensor(1.3))
    assert (values["inertia"] == 1.0).all()


@pytest.mark.parametrize(
    ("share", "delay", "noise"), [(0.0, 0.0, 0.0), (0.3125, 0.006, 0.3125), (0.28125, 0.006, 0.28125), (1.0, 0.02, 1.0)]
)
def test_the_contract_says_what_is_drawn_now(share, delay, noise):
    """Default ranges: action delays of 0 to 20 ms, in physics steps of 2 ms, declared noise; nominally there is neither."""
    env = rookery.make("drone-hover", num_envs=2, randomize="default", randomize_curriculum=True)
    env.randomization.curriculum.share.fill_(share)
    known = env.deployment()
    assert known.randomization_share == share
    assert known.randomized["action_delay"] == pytest.approx((0.0, delay))
    assert known.randomized["observation_noise"] == pytest.approx((noise, noise))
    assert rookery.make("drone-hover", num_envs=2, randomize="default").deployment().randomization_share is None


def test_what_is_drawn_now_of_startup_and_choices():
    ranges = {
        "action_delay": Range(0.01, 0.02, "startup"), "observation_delay": Choice(values=(0.01, 0.03)),
        "observation_noise": Range(2.0, 2.0),
    }  # fmt: skip
    env = rookery.make("drone-hover", num_envs=2)
    parameters = {name: env.randomization.parameters[name] for name in ranges}
    drawing = Randomization(parameters, ranges, 2, Streams(2, 0))
    drawing.curriculum.begin()
    for share, choices in ((0.0, (0.0, 0.0)), (0.5, (0.0, 0.03)), (1.0, (0.01, 0.03))):
        drawing.curriculum.share.fill_(share)
        assert drawn_now(drawing)["randomized"] == {
            "action_delay": (0.01, 0.02), "observation_delay": choices, "observation_noise": (2 * share, 2 * share),
        }  # fmt: skip


def test_a_curriculum_of_nothing_is_refused():
    with pytest.raises(RookeryError, match="give randomize"):
        rookery.make("drone-hover", num_envs=2, randomize_curriculum=True)


def make():
    config = {"episode_s": 0.05, "settled_s": 0.02}
    env = rookery.make("drone-hover", num_envs=8, randomize="default", randomize_curriculum=True, config=config, seed=4)
    env.randomization.curriculum.window = 16
    env.reset()
    return env


def test_it_goes_on_exactly_after_a_resume():
    def play(env, steps: int) -> list[torch.Tensor]:
        out = []
        for _ in range(steps):
            obs, *_ = env.step(torch.zeros(8, 1, 4))
            env.randomization.curriculum.learn(success(1.0, 5))
            out += [obs["drone"].clone(), env.randomization.values.clone(), env.randomization.curriculum.share.clone()]
        return out

    a = make()
    play(a, 13)
    assert 0.0 < a.randomization.curriculum.share.item() < 1.0
    b = make()
    b.load_state_dict(a.state_dict())
    assert all(torch.equal(x, y) for x, y in zip(play(a, 20), play(b, 20), strict=True))
    assert a.randomization.values[:, 0].unique().numel() > 1


def test_shards_and_tasks_without_success_are_refused():
    with pytest.raises(RookeryError, match="leave out shards"):
        rookery.make("table-push", num_envs=4, randomize="default", randomize_curriculum=True, shards=2)
    c = Curriculum(10)
    c.begin()
    with pytest.raises(RookeryError, match="follows the metric 'success'"):
        c.learn({"metrics": {"error": torch.zeros(3)}, "cut": torch.zeros(3, dtype=torch.bool)})
