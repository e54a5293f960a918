"""Margins of a task whose success is known in closed form, and planted faults that the gate must find."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.sim.env import Act
from rookery.sim.errors import RookeryError
from rookery.sim2real.gate.gate import Gate, GateSettings
from rookery.sim2real.gate.report import Margin, Report
from rookery.sim2real.gate.trials import Trials, _means
from tests.sim2real.gate import toy
from tests.sim2real.gate.toy import ToyOpener, body_axes, one_step_late, swapped, world_axes

REQUIRED = {
    "offset": (0.0, 0.05),
    "friction": (0.4, 1.2),
    "heading": (-1.0, 1.0),
    "action_delay": (0.0, 0.06),
    "observation_delay": (0.0, 0.06),
}


def profile(folder: Path, ranges: dict[str, tuple[float, float]] = REQUIRED, also: str = "") -> str:
    text = 'success = 0.9\ncombinations = 0.8\nworst = 0.5\nsummary = "toy"\n'
    for name, (low, high) in ranges.items():
        text += f'[factors.{name}]\nlow = {low}\nhigh = {high}\nsource = "a test"\n'
    file = folder / "toy.toml"
    file.write_text(text + also)
    return str(file)


def report(folder: Path, act: Act = body_axes, episodes: int = 100, ranges: Any = REQUIRED, **config: Any) -> Report:
    settings = GateSettings(episodes, 0.2, rounds=4, combinations=0, cases=False)
    return Gate(ToyOpener(act, **config), profile(folder, ranges), settings).run()


def margin(found: Report, factor: str, direction: str = "up") -> Margin:
    return next(m for m in found.margins if (m.factor, m.direction) == (factor, direction))


@pytest.mark.slow
def test_the_margin_of_a_known_success_rate(tmp_path):
    """Success is 1 - offset: 0.9 at 0.1. Of 400 episodes the 10 % quantile has a standard deviation of 0.015."""
    found = margin(report(tmp_path, episodes=400), "offset")
    assert found.verdict == "pass" and found.coverage == 1.0
    assert found.beyond is not None and found.value < 0.1 + 0.045 and found.beyond > 0.1 - 0.045
    assert found.beyond - found.value < 0.002
    for t in found.tried:
        assert abs(t.success - (1.0 - t.value)) < 0.075  # 3 standard deviations at the worst rate
        assert t.low <= t.success <= t.high
    rates = [t.success for t in found.tried]
    assert rates == sorted(rates, reverse=True)  # paired: not one episode comes back


def test_margins_of_thresholds(tmp_path):
    found = report(tmp_path)
    down = margin(found, "friction", "down")
    assert down.verdict == "pass" and down.beyond is not None and down.beyond < 0.3 <= down.value < 0.31
    assert margin(found, "friction").beyond is None  # more of it is always good
    assert margin(found, "heading").beyond is None and margin(found, "heading", "down").beyond is None
    # 3 control steps of 20 ms are stood; actions and observations come late by physics steps of 10 ms
    for factor in ("action_delay", "observation_delay"):
        m = margin(found, factor)
        assert (m.value, m.beyond) == pytest.approx((0.06, 0.07))
    assert found.failures == [] and found.verdict == "incomplete" and not found.passed, "combinations were left out"
    assert found.without_effect == ["gravity_tilt"]  # not of this task
    assert not {"observation_bias", "observation_drift"} & {m.factor for m in found.margins}  # no term declares any


@pytest.mark.slow
def test_success_under_noise_is_that_of_its_distribution(tmp_path):
    """The angle has a standard deviation of NOISE times the factor, and may not exceed acos(STRAIGHT) in 10 steps."""
    found = margin(report(tmp_path, episodes=400), "observation_noise")
    limit = math.acos(toy.STRAIGHT)
    for t in found.tried:
        inside = math.erf(limit / (t.value * toy.NOISE) / math.sqrt(2.0)) ** toy.STEPS
        assert t.success == pytest.approx(inside, abs=0.075)
    assert found.beyond is not None and found.value < 2.6 and found.beyond > 2.3


@pytest.mark.slow
def test_success_under_packet_loss_is_that_of_its_distribution(tmp_path):
    """Commands get lost with a probability each; the age of what acts grows by a step with each in a row."""
    found = margin(report(tmp_path, episodes=400, ranges={"action_dropout": (0.0, 0.6)}), "action_dropout")
    for t in found.tried:
        ages = [1.0] + [0.0] * toy.OLDEST  # probabilities; older than that fails
        for _ in range(toy.STEPS - 1):
            ages = [(1.0 - t.value) * sum(ages)] + [t.value * p for p in ages[:-1]]
        assert t.success == pytest.approx(sum(ages), abs=0.075)
    assert found.verdict == "fail" and found.beyond is not None and 0.2 < found.value < found.beyond < 0.5


def test_a_delay_below_what_a_task_resolves_is_skipped_and_not_without_effect(tmp_path):
    """4 ms are less than half a physics step of 10 ms: observations would come as before."""
    found = report(tmp_path, ranges={**REQUIRED, "observation_delay": (0.0, 0.004)}, episodes=50)
    assert found.lacking == ["observation_delay"] and not found.failures
    assert "observation_delay" not in {m.factor for m in found.margins}


def test_sweeping_no_farther_than_required_gives_the_same_verdict_and_score(tmp_path):
    path = profile(tmp_path)
    few, all_of_it = (
        Gate(ToyOpener(one_step_late), path, GateSettings(50, 0.2, 2, 4, cases=False, beyond=b)).run()
        for b in (False, True)
    )
    assert few.failures == all_of_it.failures != [] and few.score == pytest.approx(all_of_it.score, abs=0.02)
    assert few.episodes_run < all_of_it.episodes_run and all(m.required is not None for m in few.margins)


def test_a_delay_off_by_one_costs_one_control_step(tmp_path):
    late = report(tmp_path, one_step_late)
    found = margin(late, "action_delay")
    assert (found.value, found.beyond) == pytest.approx((0.04, 0.05))
    assert found.verdict == "fail" and found.coverage == pytest.approx(0.041 / 0.06, abs=1e-3)  # 0.9 between 1 and 0
    assert margin(late, "observation_delay").verdict == "fail"
    assert not late.passed


def test_a_wrong_frame_is_found_where_it_shows(tmp_path):
    """World axes for body axes: right at the nominal heading, and wrong by the heading elsewhere."""
    found = report(tmp_path, world_axes)
    assert found.cases[0].verdict == "pass"
    limit = math.acos(toy.STRAIGHT)
    for direction, sign in (("up", 1.0), ("down", -1.0)):
        m = margin(found, "heading", direction)
        assert m.verdict == "fail" and m.beyond is not None
        assert sign * m.value <= limit < sign * m.beyond < limit + 0.02
        assert m.coverage == pytest.approx(limit, abs=0.02)
    assert {"heading up", "heading down"} <= set(found.failures)


def test_pitch_for_roll_fails_at_once(tmp_path):
    found = report(tmp_path, swapped)
    assert found.cases[0].verdict == "fail" and "nominal" in found.failures
    assert all(m.coverage == 0.0 for m in found.margins if m.required is not None)
    assert found.score < 0.5


def test_friction_that_is_not_applied_is_no_pass(tmp_path):
    found = report(tmp_path, friction_applied=False)
    assert "friction" in found.without_effect
    assert margin(found, "friction", "down").verdict == "no effect"
    assert "friction down (no effect)" in found.failures and not found.passed


def test_a_factor_may_be_idle_where_the_profile_says_so(tmp_path):
    also = '[factors.friction]\nlow = 0.4\nhigh = 1.2\nsource = "a test"\nidle = true\n'
    path = profile(tmp_path, {"offset": (0.0, 0.05)}, also)
    settings = GateSettings(50, 0.2, rounds=0, combinations=0, cases=False)
    found = Gate(ToyOpener(friction_applied=False), path, settings).run()
    assert "friction" in found.without_effect and not found.failures


def test_factors_that_the_task_lacks_are_named_and_counted(tmp_path):
    found = report(tmp_path, ranges={**REQUIRED, "payload": (0.0, 1.0), "kp": (0.9, 1.1)}, episodes=50)
    assert found.lacking == ["payload", "kp"]
    assert not found.failures


def test_points_do_not_depend_on_what_else_is_in_the_batch(tmp_path):
    """In small batches and large ones, and alone, a point gives the same episodes."""
    names = {"offset": 0.0, "friction": 0.8, "action_delay": 0.0}
    points = [{"offset": 0.3}, {"friction": 0.2}, {}, {"action_delay": 0.08}, {"offset": 0.7, "friction": 0.9}]
    together, few, alone = (Trials(*ToyOpener()(20 * n, starts=20, fixed=names), 20) for n in (5, 2, 1))
    expected = [trials.run(points) for trials in (together, few, alone)]
    for a, b, c in zip(*expected, strict=True):
        assert a.same(b) and a.same(c)
    assert expected[0][2].rate == 1.0 and expected[0][1].rate == 0.0
    assert not expected[0][0].same(expected[0][2])


def test_other_physics_steps_and_engines(tmp_path):
    """The toy fails on one engine, and with steps above 15 ms: nominal is 10 ms."""
    settings = GateSettings(50, 0.2, rounds=0, combinations=0, engines=("good", "bad"))
    path = profile(tmp_path, {"offset": (0.0, 0.05)})
    found = Gate(ToyOpener(broken={"bad": swapped}, coarsest=0.015), path, settings).run()
    verdicts = {c.name: c.verdict for c in found.cases}
    assert verdicts == {
        "nominal": "pass", "engine good": "pass", "engine bad": "fail", "physics step halved": "pass",
        "physics step doubled": "fail", "exported C": "not applicable",
    }  # fmt: skip
    assert found.failures == ["engine bad", "physics step doubled"] and found.skipped == []


def test_what_cannot_be_run_here_is_no_pass_and_where_there_is_no_c_onnx_answers(tmp_path, monkeypatch):
    def no_compiler(*_: Any) -> None:
        raise RookeryError("there is no C compiler.")

    monkeypatch.setattr("rookery.sim2real.gate.gate.compile_policies", no_compiler)
    monkeypatch.setattr("rookery.sim2real.gate.gate.onnx_difference", lambda *_: differences.pop())
    path = profile(tmp_path, {"offset": (0.0, 0.05)})
    settings = GateSettings(50, 0.2, rounds=0, combinations=2)
    contract: Any = SimpleNamespace()
    differences = [2e-4, 5e-5]
    cases = (
        ("", "C", "skipped", "incomplete"),
        ("a.b:net", "ONNX", "pass", "pass"),
        ("a.b:net", "ONNX", "fail", "fail"),
    )
    for module, form, verdict, whole in cases:
        policies: Any = {"agent": SimpleNamespace(targets=0, chain=SimpleNamespace(c_refused=module))}
        found = Gate(ToyOpener(), path, settings, policies, contract).run()
        assert (found.cases[-1].name, found.cases[-1].verdict) == (f"exported {form}", verdict)
        assert found.verdict == found.to_json()["verdict"] == whole
        assert found.failures == [f"exported {form}"] * (verdict == "fail")
        assert found.skipped == found.to_json()["skipped"] == ["exported C"] * (verdict == "skipped")
        assert found.passed == (whole == "pass")


def test_means_are_over_the_episodes_that_have_a_figure():
    figures = np.array([[2.0, np.nan, 7.0], [np.nan, np.nan, 7.0], [4.0, np.inf, 7.0]])
    assert _means(["time", "never"], figures) == {"time": 3.0}


def test_an_odd_number_of_physics_steps_is_divided_as_it_can(tmp_path):
    """5 physics steps in a control step become 3, each 5 / 3 times as long: nearer to doubled than 2 of them."""
    settings = GateSettings(50, 0.2, rounds=0, combinations=0)
    path = profile(tmp_path, {"offset": (0.0, 0.05)})
    found = Gate(ToyOpener(dt=0.004, coarsest=0.0066), path, settings).run()
    assert [(c.name, c.verdict) for c in found.cases][1:3] == [
        ("physics step halved", "pass"),
        ("physics step times 1.67", "fail"),
    ]


@pytest.mark.slow
def test_combinations_find_the_corner(tmp_path):
    """Success is 1 - offset - other: 0.85 on average over [0, 0.15] each, 0.7 at the worst corner."""
    path = profile(tmp_path, {"offset": (0.0, 0.15), "other": (0.0, 0.15)})
    found = Gate(ToyOpener(), path, GateSettings(200, 0.2, rounds=0, combinations=40, cases=False)).run().combinations
    assert found is not None
    assert abs(found.success - 0.85) < 0.06 and found.low < found.success < found.high
    assert min(found.worst.values()) > 0.12
    assert abs(found.worst_success - 0.7) < 0.12


def test_the_settings_say_how_many_combinations_are_drawn_and_by_which_seed(tmp_path, monkeypatch):
    """Within the ranges and at both wider widths: the last five batches are these, two rounds of the search, and the worst."""
    path = profile(tmp_path, {"offset": (0.0, 0.3), "other": (0.0, 0.3)})
    run, batches = Trials.run, []

    def noted(trials: Trials, points: Any, seed: int | None = None) -> Any:
        batches.append(list(points))
        return run(trials, points, seed)

    monkeypatch.setattr(Trials, "run", noted)
    drawn = {}
    for seed in (1, 2):
        settings = GateSettings(50, 0.2, rounds=0, combinations=6, cases=False, seed=seed)
        found = Gate(ToyOpener(), path, settings).run()
        assert found.combinations is not None and found.combinations.drawn == 6
        assert [(w.width, w.drawn) for w in found.wider] == [(1.5, 6), (2.0, 6)]
        within, *_, wider, widest = batches[-6:]
        assert [len(points) for points in batches[-6:]] == [6, 3, 3, 1, 6, 6]
        drawn[seed] = [[p["offset"] for p in points] for points in (within, wider, widest)]
    for one, other in zip(drawn[1], drawn[2], strict=True):
        assert not set(one) & set(other)


@pytest.mark.parametrize(("episodes", "message"), [(10, "give --episodes"), (0, "too few")])
def test_too_few_episodes_are_refused(tmp_path, episodes, message):
    with pytest.raises(RookeryError, match=message):
        Gate(ToyOpener(), profile(tmp_path), GateSettings(episodes, 0.05))


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"payload": (0.0, 1.0)}, r"has none of the factors of the profile \S*toy\.toml: "),
        ({"offset": (0.0, 1.5)}, r"asks for offset from 0 to 1.5, and toy can be tested from 0 to 1 \(m\)"),
        (
            {"offset": (0.0, 0.0), "friction": (0.8, 0.8)},
            r"holds all factors at their nominal values: widen \[factors\.friction",
        ),
        ({"friction": (0.01, 1.0)}, "friction from 0.01 to 1, and toy can be tested from 0.05 to 3"),
    ],
)
def test_a_profile_by_which_less_would_be_tested_is_refused(tmp_path, ranges, message):
    with pytest.raises(RookeryError, match=message):
        Gate(ToyOpener(), profile(tmp_path, ranges), GateSettings(50, 0.2))


def test_a_factor_that_shows_in_observations_alone_has_an_effect(tmp_path):
    """Noise too small to change any metric of the toy: the episodes are not the same all the same."""
    names = {"observation_noise": 0.0, "friction": 0.8}
    trials = Trials(*ToyOpener(friction_applied=False)(30, starts=10, fixed=names), 10)
    nominal, noisy, other = trials.run([{}, {"observation_noise": 1e-6}, {"friction": 0.9}])
    assert not noisy.same(nominal) and other.same(nominal)
