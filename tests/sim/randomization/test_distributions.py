"""Distributions: their statistics, their limits, and which components of a parameter they reach."""

from __future__ import annotations

import math
import re
from statistics import NormalDist

import numpy as np
import pytest
import torch

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.random_kernels import kernel
from rookery.sim.randomization.distributions import Choice, LogUniform, Normal, Range, from_table
from rookery.sim.randomization.kernels import normal_quantile
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Randomization, load

N = 20_000
JOINTS = ("FL_hip", "FL_calf", "FR_hip", "FR_calf")


class World:
    """What was written, by parameter: [N] or [N, 4]."""

    def __init__(self, n: int = N) -> None:
        self.n = n
        self.got: dict[str, torch.Tensor] = {}

    def parameters(self) -> dict[str, Parameter]:
        def write(name: str, *size: int):
            self.got[name] = torch.full((self.n, *size), math.nan)
            return lambda ids, v: self.got[name].__setitem__(ids, v)

        return {
            "mass": Parameter("", "1", 1.0, 0.01, 100.0, write("mass")),
            "kp": Parameter("", "1", 1.0, 0.1, 10.0, write("kp", 4), JOINTS, (0.8, 1.2)),
        }

    def draw(self, ranges, times: int = 1, seed: int = 0) -> Randomization:
        r = Randomization(self.parameters(), ranges, self.n, Streams(self.n, seed))
        for _ in range(times):
            r.draw(torch.arange(self.n))
        return r


def drawn(distribution) -> np.ndarray:
    w = World()
    w.draw({"mass": distribution})
    return np.sort(w.got["mass"].double().numpy())


def distance(sample: np.ndarray, cdf) -> float:
    """Kolmogorov and Smirnov's."""
    want = np.array([cdf(x) for x in sample])
    at = np.arange(1, len(sample) + 1) / len(sample)
    return max(np.abs(want - at).max(), np.abs(want - at + 1 / len(sample)).max())


CUT = NormalDist(1.0, 0.3)
BELOW, ABOVE = CUT.cdf(0.8), CUT.cdf(1.9)
CASES = {
    "uniform": (Range(0.5, 2.0), lambda x: (x - 0.5) / 1.5),
    "log_uniform": (LogUniform(0.2, 5.0), lambda x: math.log(x / 0.2) / math.log(25.0)),
    "normal": (Normal(mean=3.0, std=0.5), NormalDist(3.0, 0.5).cdf),
    "truncated": (Normal(mean=1.0, std=0.3, low=0.8, high=1.9), lambda x: (CUT.cdf(x) - BELOW) / (ABOVE - BELOW)),
}


@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_distribution(case):
    distribution, cdf = CASES[case]
    # 1.95 / sqrt(N) is exceeded by one sample in a thousand
    assert distance(drawn(distribution), cdf) < 1.95 / math.sqrt(N)


def test_bounds_hold_exactly():
    sample = drawn(Normal(mean=1.0, std=0.3, low=0.8, high=1.9))
    assert np.float32(0.8) <= sample.min() < 0.801
    assert 1.85 < sample.max() <= np.float32(1.9)
    sample = drawn(LogUniform(0.2, 5.0))
    assert np.float32(0.2) <= sample.min()
    assert sample.max() <= 5.0


def test_a_normal_without_bounds_keeps_to_what_the_parameter_accepts():
    w = World()
    r = w.draw({"mass": Normal(mean=0.02, std=1.0)})
    assert w.got["mass"].min() >= 0.01
    assert (r.ranges["mass"].low, r.ranges["mass"].high) == (0.01, 100.0)


def test_a_normal_without_spread_is_its_mean():
    assert set(drawn(Normal(mean=1.25, std=0.0))) == {1.25}


def test_choices_come_as_often_as_their_weights_say():
    sample = drawn(Choice(values=(0.5, 1.0, 4.0), weights=(1.0, 0.0, 3.0)))
    values, counts = np.unique(sample, return_counts=True)
    assert values.tolist() == [0.5, 4.0]
    assert counts[0] / N == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / N))
    even = np.unique(drawn(Choice(values=(1.0, 2.0, 3.0, 4.0))), return_counts=True)[1] / N
    assert even == pytest.approx([0.25] * 4, abs=4 * math.sqrt(0.25 * 0.75 / N))


@kernel
def normal_quantiles(p):
    return np.array([normal_quantile(x) for x in p])


def test_quantiles_of_the_normal_distribution():
    p = np.array([1e-7, 1e-4, 0.02, 0.0749, 0.0751, 0.3, 0.5, 0.7, 0.93, 0.999, 1 - 1e-6], np.float32)
    assert normal_quantiles(p) == pytest.approx([NormalDist().inv_cdf(float(x)) for x in p], rel=2e-6, abs=1e-6)


def test_one_factor_for_all_components_or_one_for_each():
    w = World(64)
    r = w.draw({"kp": Range(0.5, 2.0)})
    assert r.names == ("kp",)
    assert torch.equal(w.got["kp"], r.values.expand(64, 4))
    r = w.draw({"kp": Range(0.5, 2.0, each=True)})
    assert r.names == tuple(f"kp:{j}" for j in JOINTS)
    assert torch.equal(w.got["kp"], r.values)
    assert abs(np.corrcoef(w.got["kp"].T.numpy()) - np.eye(4)).max() < 0.5


def test_a_pattern_selects_components_and_the_others_stay_nominal():
    w = World(64)
    r = w.draw({"kp:FL_*": Range(0.5, 0.9), "kp:*_calf": Range(2.0, 3.0, each=True)})
    assert r.names == ("kp:FL_*", "kp:FL_calf", "kp:FR_calf")
    fl_hip, fl_calf, fr_hip, fr_calf = w.got["kp"].T
    assert (fl_hip < 0.9).all()
    assert (fr_hip == 1.0).all()
    assert (fl_calf >= 2.0).all()  # the later entry counts
    assert (fr_calf >= 2.0).all()
    assert not torch.equal(fl_calf, fr_calf)


def test_entries_that_reach_nothing_are_not_drawn():
    r = World(4).draw({"kp:FL_hip": Range(0.5, 0.9), "kp": Range(1.1, 1.2)})
    assert r.names == ("kp",)


def test_startup_and_reset_may_share_a_parameter():
    w = World(16)
    r = w.draw({"kp:FL_*": Range(0.5, 0.9, "startup"), "kp:FR_*": Range(0.5, 0.9)})
    first = w.got["kp"].clone()
    r.draw(torch.arange(16))
    assert torch.equal(first[:, :2], w.got["kp"][:, :2])
    assert (first[:, 2:] != w.got["kp"][:, 2:]).all()


def test_a_draw_does_not_depend_on_the_others():
    alone, both = World(32), World(32)
    alone.draw({"mass": LogUniform(0.5, 2.0)})
    both.draw({"kp": Range(0.5, 2.0, each=True), "mass": LogUniform(0.5, 2.0)})
    assert torch.equal(alone.got["mass"], both.got["mass"])


@pytest.mark.parametrize(
    ("entry", "distribution", "message"),
    [
        ("masss", Range(1.0, 1.0), "unknown parameter 'masss': did you mean 'mass'"),
        ("kp:FX_*", Range(1.0, 1.0), "no component of kp matches 'FX_*'. Known: FL_hip"),
        ("mass:FL_*", Range(1.0, 1.0), "mass is one number for the whole world, without components: leave out ':FL_*'"),
        ("mass", Range(1.0, 1.0, each=True), "without components: leave out each"),
        ("mass", Range(2.0, 1.0), "low must be at most high, got 2 and 1"),
        ("mass", LogUniform(-1.0, 1.0), "low must be above 0"),
        ("mass", Normal(mean=1.0, std=-0.1), "std must be 0 or more"),
        ("mass", Normal(mean=1.0, std=math.nan), "std must be 0 or more"),
        ("mass", Normal(mean=5.0, std=1.0, low=0.5, high=2.0), "the mean 5 must lie between"),
        ("mass", Choice(), "at least one number"),
        ("mass", Choice(values=(1.0, 200.0)), "within [0.01, 100.0]"),
        ("mass", Choice(values=(1.0, 2.0), weights=(1.0,)), "as many as values"),
        ("mass", Choice(values=(1.0, 2.0), weights=(1.0, -1.0)), "weights must be 0 or more"),
    ],
)
def test_bad_distributions(entry, distribution, message):
    with pytest.raises(RookeryError, match=re.escape(message)):
        World(4).draw({entry: distribution})


def test_distributions_in_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[mass]\ndistribution = "log_uniform"\nlow = 0.5\nhigh = 2\n'
        '["kp:FL_*"]\ndistribution = "normal"\nmean = 1\nstd = 0.1\neach = true\n'
        '[drag]\ndistribution = "normal"\nmean = 1\nstd = 0.1\nlow = 0.5\n'
        '[delay]\ndistribution = "choice"\nvalues = [0, 0.02]\nweights = [3, 1]\non = "startup"\n'
    )
    assert load(str(path)).ranges == {
        "mass": LogUniform(0.5, 2.0),
        "kp:FL_*": Normal(mean=1.0, std=0.1, each=True),
        "drag": Normal(mean=1.0, std=0.1, low=0.5),
        "delay": Choice(values=(0.0, 0.02), weights=(3.0, 1.0), on="startup"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('distribution = "gauss"', "unknown distribution of .*mass.*uniform"),
        ('distribution = "normal"\nmean = 1', r"takes .*mean, std, on = .*may have low, high"),
        ('distribution = "normal"\nmean = 1\nstd = -1', "std must be 0 or more"),
        ('distribution = "choice"\nvalues = 3', "values needs a list such as"),
        ('distribution = "choice"\nvalues = []', "at least one number"),
        ('distribution = "choice"\nvalues = ["a"]', r"values\[0\] needs a number, got 'a'"),
        ('distribution = "choice"\nvalues = [1, 2]\nweights = [1, true]', r"weights\[1\] needs a number, got True"),
        ("low = 1\nhigh = inf", "high needs a finite number"),
        ("low = 2\nhigh = 1", "low must be at most high"),
        ('low = 1\nhigh = 2\neach = "yes"', "each needs true or false"),
        ("low = 1\nhigh = true", "high needs a number"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(f"[mass]\n{text}\n")
    with pytest.raises(RookeryError, match=message):
        load(str(path))


def test_all_draws_everything_that_has_a_typical_spread():
    env = rookery.make("drone-hover", num_envs=4, randomize="all")
    drawn_names = {name.partition(":")[0] for name in env.randomization.names}
    for name, p in env.randomization.parameters.items():
        assert (name in drawn_names) == (p.typical is not None or name in rookery_default()), name
    env.reset()
    env.step(torch.zeros(4, 1, 4))


def rookery_default() -> set[str]:
    from rookery.sim.randomization.ranges import DEFAULT

    return set(DEFAULT)


def test_the_ends_of_choices_follow_from_the_values():
    assert (Choice(values=(0.5, 4.0, 1.0)).low, Choice(values=(0.5, 4.0, 1.0)).high) == (0.5, 4.0)
    for end in ("low", "high"):
        with pytest.raises(RookeryError, match="mass takes values"):
            from_table("mass", {"distribution": "choice", "values": [1.0, 2.0], end: 0.5})
