"""Intervals, profiles, the score, the page, and the exported C."""

from __future__ import annotations

import copy
import dataclasses
import math
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from sampled import slow_but
from scipy.stats import binomtest

import rookery
from rookery.experiments.runs import open_run
from rookery.policies.policy import layers_of
from rookery.policies.training.evaluate import act_with
from rookery.sim.errors import RookeryError
from rookery.sim2real.gate.combinations import Combinations, Wider
from rookery.sim2real.gate.exported import Compared, NativeAct, compile_policies
from rookery.sim2real.gate.factors import KNOWN, NOT_SWEPT
from rookery.sim2real.gate.intervals import check_episodes, half_width, wilson
from rookery.sim2real.gate.page import number, page
from rookery.sim2real.gate.plots import ticks
from rookery.sim2real.gate.profile import load_profile, profile_of, profiles
from rookery.sim2real.gate.report import Case, Margin, Report
from rookery.sim2real.gate.sweep import Tried, sides_of
from tests.sim2real.gate.toy import ToyOpener


@pytest.mark.parametrize(("k", "n"), [(0, 10), (9, 10), (10, 10), (57, 64), (1, 1000)])
def test_wilson_is_scipys(k, n):
    expected = binomtest(k, n).proportion_ci(0.95, "wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_the_least_number_of_episodes_is_the_least():
    with pytest.raises(RookeryError, match=r"--episodes (\d+)") as e:
        check_episodes(4, 0.1, 0.9)
    least = int(str(e.value).split("--episodes ")[1].split()[0])
    assert half_width(0.9, least) <= 0.1 < half_width(0.9, least - 1)
    check_episodes(least, 0.1, 0.9)
    with pytest.raises(RookeryError, match="between 0 and 1"):
        check_episodes(10, 0.0, 0.9)


def test_profiles_of_the_package():
    assert set(profiles()) == {"crazyflie-indoor", "drone-outdoor", "go2-lab", "panda-bench"}
    for name in profiles():
        p = load_profile(name)
        assert p.factors and p.summary and all(len(r.source) > 10 for r in p.factors.values())
        assert 0.0 < p.worst <= p.combinations <= p.success < 1.0
    assert profile_of("volley-3v3") == "crazyflie-indoor" and profile_of("go2arm-reach") == "go2-lab"
    assert profile_of("panda-lift") == profile_of("dual-panda-handover") == "panda-bench"
    with pytest.raises(RookeryError, match="--profile"):
        profile_of("hand-cube")


PROFILED = ("drone-hover", "go2arm-loco-manipulation", "table-push", "volley-solo-bump")


@pytest.mark.parametrize("task", slow_but([t for t in PROFILED if not t.startswith("go2arm")], PROFILED))
def test_all_factors_of_tasks_are_known(task):
    """A profile may name every factor of every task of the package, and the limits of a factor contain its nominal value."""
    env = rookery.make(task, 1)
    parameters = {k: p for k, p in env.unwrapped.randomization.parameters.items() if not k.startswith(NOT_SWEPT)}
    env.close()
    assert set(parameters) <= KNOWN
    for side in sides_of(parameters, load_profile(profile_of(task)).factors):
        ends = sorted((side.nominal, side.limit))
        assert side.required is None or ends[0] <= side.required <= ends[1]
        assert side.at(0.0) == pytest.approx(side.nominal) and side.at(1.0) == pytest.approx(side.limit)
        assert side.place(side.at(0.3)) == pytest.approx(0.3)


HEAD = "success = 0.9\ncombinations = 0.8\nworst = 0.5\n"
MASS = '[factors.mass]\nlow = 0.9\nhigh = 1.1\nsource = "here"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + MASS.replace("mass", "mas"), r"unknown factor .*'mas': did you mean 'mass'"),
        (HEAD + MASS.replace("mass", "mas") + MASS.replace("mass", "drga"), r"also drga"),
        (HEAD + MASS.replace("low = 0.9", "low = 1.9"), r"low must be at most high"),
        (HEAD + MASS.replace('source = "here"', ""), r"factors\.mass\.source is missing"),
        (HEAD + MASS.replace("here", " "), r"where the range comes from"),
        (HEAD + MASS.replace("1.1", "'x'"), r"factors\.mass\.high needs a number, got 'x'"),
        (HEAD + MASS + "idle = 3\n", r"idle needs true or false"),
        (HEAD, r"names no factors"),
        (HEAD.replace("0.9", "1.9") + MASS, r"success needs a number above 0 and below 1"),
        (HEAD + "color = 3\n" + MASS, r"unknown entry .*'color'"),
        ("[[[", r"not valid TOML"),
        ("figures = 3\n" + HEAD + MASS, r"figures needs values by name"),
        (HEAD + MASS + "[figures.power]\nmost = 3\n", r"figures\.power\.source is missing"),
        (HEAD + MASS + '[figures.power]\nsource = "here"\n', r"takes least or most"),
        (HEAD + MASS + '[figures.power]\nmost = 1\nleast = 2\nsource = "here"\n', r"least must be at most most"),
        (HEAD + MASS + '[figures.power]\nmost = 1\nsource = ""\n', r"where the range comes from"),
    ],
)
def test_bad_profiles_are_errors_in_one_sentence(tmp_path, text, message):
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(RookeryError, match=message):
        load_profile(str(file))


@pytest.mark.parametrize("value", ["'123'", "true", "nan", "inf", "-inf", "[1.0]"])
@pytest.mark.parametrize("place", ["success = 0.9", "low = 0.9", "most = 3.0"])
def test_numbers_of_a_profile_are_finite_numbers(tmp_path, place, value):
    text = HEAD + MASS + '[figures.power]\nmost = 3.0\nsource = "here"\n'
    file = tmp_path / "p.toml"
    file.write_text(text)
    assert load_profile(str(file)).figures["power"].least == -math.inf
    name = place.split()[0]
    file.write_text(text.replace(place, f"{name} = {value}"))
    with pytest.raises(RookeryError, match=rf"{name} needs a (finite )?number"):
        load_profile(str(file))


@pytest.mark.parametrize("place", ["[factors.mass]", "[figures.power]"])
def test_unknown_lines_of_a_profile_are_refused(tmp_path, place):
    file = tmp_path / "p.toml"
    text = HEAD + MASS + '[figures.power]\nmost = 3.0\nsource = "here"\n'
    file.write_text(text.replace(place, f"{place}\nsorce = 1"))
    with pytest.raises(RookeryError, match=r"unknown entry .*'sorce': did you mean 'source'"):
        load_profile(str(file))


def test_profiles_that_are_not_there(tmp_path):
    with pytest.raises(RookeryError, match="did you mean 'go2-lab'"):
        load_profile("go2-labs")
    with pytest.raises(RookeryError, match="cannot read"):
        load_profile(str(tmp_path / "none.toml"))
    file = tmp_path / "own.toml"
    file.write_text(HEAD + MASS.replace("mass", "tail_length"))
    assert set(load_profile(str(file), ["tail_length"]).factors) == {"tail_length"}


def made(margins: list[Margin], combinations: Combinations | None, nominal: float = 1.0) -> Report:
    cases = [Case("nominal", "pass" if nominal >= 0.9 else "fail", nominal, 0.8, 1.0, 0.9)]
    return Report(
        "toy <1>", "runs/x", "mujoco", "p", "s", 64, 0.1, 0, 0.9, cases, margins, combinations, 0.8, 0.5, ["kp"], []
    )


def side(coverage: float, verdict: str, required: float | None = 2.0, factor: str = "mass", unit: str = "1") -> Margin:
    tried = [Tried(1.5, 1.0, 0.9, 1.0), Tried(2.0, 0.5, 0.4, 0.6)]
    return Margin(factor, "up", unit, 1.0, required, 1.5, 2.0, 1.0, 0.9, 1.0, coverage, verdict, "src", tried)


def test_the_score_is_what_the_docs_say():
    found = Combinations(8, 0.6, 0.5, 0.7, {"mass": 1.2}, 0.4, 0.3, 0.5)
    margins = [side(0.5, "fail"), side(1.0, "pass"), side(1.0, "no effect"), side(1.0, "", None)]
    report = made(margins, found)
    assert report.score == pytest.approx(0.5 * ((0.5 + 1.0 + 0.0) / 3 + 0.6))
    assert made([*margins, side(1.0, "")], found).score == report.score, (
        "a factor that may be idle, and is, counts for nothing"
    )
    assert made([*margins, side(0.0, "")], found).score < report.score, (
        "nominal physics fails: nothing of it is covered"
    )
    assert report.failures == ["mass up", "mass up (no effect)", "combinations", "worst combination"]
    assert not report.passed
    good = made([side(1.0, "pass")], dataclasses.replace(found, success=0.8, worst_success=0.5))
    assert good.passed and good.score == pytest.approx(0.9)
    wider = [Wider(1.5, 8, 0.7, 0.6, 0.8), Wider(2.0, 8, 0.1, 0.0, 0.2)]
    more = dataclasses.replace(good, wider=wider)
    assert more.passed and more.score == pytest.approx((1.0 + 0.8 + 0.4) / 3), "they count, and nothing requires them"
    assert not made([side(1.0, "pass")], None, nominal=0.89).passed
    values = report.to_json()
    assert (values["format"], values["verdict"], values["lacking"]) == ("rookery-gate", "fail", ["kp"])
    assert values["margins"][0]["tried"][1] == {"value": 2.0, "success": 0.5, "low": 0.4, "high": 0.6}


def test_a_skipped_case_makes_the_verdict_incomplete_and_a_failure_makes_it_fail():
    report = made([side(1.0, "pass")], None)
    assert report.verdict == "pass"
    report.cases.append(Case("exported C", "skipped", note="no compiler"))
    assert report.verdict == "incomplete" and not report.passed
    text = page(report)
    assert 'class="badge incomplete"' in text and "Not run, and so not known: exported C." in text
    failed = made([side(0.5, "fail")], None)
    failed.cases.append(Case("exported C", "skipped"))
    assert failed.verdict == "fail" and "Does not pass: mass up." in page(failed)


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone():
    found = Combinations(8, 0.6, 0.5, 0.7, {"mass": 1.2}, 0.4, 0.3, 0.5)
    delay = side(1.0, "pass", 1.9, "action_delay", "s")
    text = page(made([side(0.5, "fail"), delay], found))
    parser = Balanced()
    parser.feed(text)
    assert not parser.open
    assert "http" not in text and "<script" not in text and "toy <1>" not in text
    shown = " ".join(parser.text)
    assert "toy <1>" in shown and "mass" in shown and "1 skipped, which the task lacks: kp" in shown
    assert text.count("<svg") == 2


def test_numbers_have_units():
    assert (number(0.0425, "s"), number(1.25, "1"), number(0.0312, "rad")) == ("42.5 ms", "1.25", "0.0312 rad")
    assert ticks(0.0, 10.0) == pytest.approx([0, 2, 4, 6, 8, 10])
    assert ticks(-0.9, 1.1) == pytest.approx([-0.5, 0, 0.5, 1.0])


def test_exported_c_that_differs_is_found(tmp_path):
    """Planted: the exported weights have roll for pitch."""
    policies, contract = open_run(Path("drone-hover"))
    env = rookery.make("drone-hover", 4, config=dict(contract.task_config))
    torch_act = act_with(policies, env)
    wrong = copy.deepcopy(policies)
    last = layers_of(wrong["drone"])[-1]
    with torch.no_grad():
        last.weight[[1, 2]] = last.weight[[2, 1]]
    errors = []
    for name, exported in (("right", policies), ("wrong", wrong)):
        folder = tmp_path / name
        folder.mkdir()
        compared = Compared(NativeAct(compile_policies(exported, contract, folder), env), torch_act, env)
        obs, _ = env.reset(0)
        for _ in range(20):
            obs = env.step(compared(obs))[0]
        errors.append(compared.difference)
    env.close()
    assert errors[0] < 1e-5 and errors[1] > 0.05


def test_nan_is_the_largest_difference():
    env, act = ToyOpener()(1)
    obs, _ = env.reset()
    compared = Compared(act, lambda o: {"agent": torch.full((1, 1, 3), torch.nan)}, env)
    compared(obs)
    assert compared.difference == float("inf")
