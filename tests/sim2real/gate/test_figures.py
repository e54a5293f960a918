"""What a policy does beside succeeding: figures whose values are known in closed form, and the verdict on them."""

from __future__ import annotations

import json

import pytest
import torch

from rookery.sim.specs import ActionSpec, Discrete, Group, Term
from rookery.sim2real.gate.gate import Gate, GateSettings
from rookery.sim2real.gate.page import page
from rookery.sim2real.gate.profile import load_profile, profiles
from rookery.sim2real.gate.trials import _Changes
from tests.sim2real.gate.test_margins import profile
from tests.sim2real.gate.toy import STEPS, Toy, ToyOpener

CLOCK = 1.0 / STEPS / 3.0
"""The toy's action changes in one of its three components, by a tenth a step."""


def bound(name: str, **limits: float) -> str:
    values = "".join(f"{side} = {value}\n" for side, value in limits.items())
    return f'[figures.{name}]\n{values}source = "a test"\n'


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (bound("action_change", most=1.01 * CLOCK), "pass"),
        (bound("action_change", most=0.99 * CLOCK), "fail"),
        (bound("action_change", least=1.01 * CLOCK), "fail"),
        (bound("grip", least=0.79, most=0.81), "pass"),  # the friction, a metric of the task
        (bound("grip", least=0.81), "fail"),
    ],
)
def test_a_figure_beyond_its_bound_is_no_pass(tmp_path, asked, verdict):
    settings = GateSettings(20, 0.5, rounds=0, combinations=0, cases=False, beyond=False)
    ranges = {"offset": (0.0, 0.0001)}
    report = Gate(ToyOpener(), profile(tmp_path, ranges, asked + bound("power", most=1.0)), settings).run()
    (figure,) = report.figures
    assert figure.value == pytest.approx(0.8 if figure.name == "grip" else CLOCK, rel=1e-5)
    assert figure.passes == (verdict == "pass") and (figure.name in report.failures) == (verdict == "fail")
    assert report.verdict == ("fail" if verdict == "fail" else "incomplete") and report.lacking == ["power"]
    assert report.to_json()["figures"][0]["value"] == figure.value and f"<td>{figure.name}</td>" in page(report)


@pytest.mark.parametrize(
    ("late", "missing", "verdict"), [(0.5, True, "pass"), (2.0, True, "fail"), (-1.0, False, "pass")]
)
def test_episodes_without_a_figure_are_left_out_and_counted(tmp_path, monkeypatch, late, missing, verdict):
    """`u`, uniform in [0, 1), is a metric of the episodes in which it is at least `late`."""
    whole = Toy.metrics
    monkeypatch.setattr(Toy, "metrics", lambda t: whole(t) | {"u": t.u.where(t.u >= late, torch.nan)})
    settings = GateSettings(20, 0.5, rounds=0, combinations=0, cases=False, beyond=False)
    asked = bound("u", least=max(late, 0.0))
    report = Gate(ToyOpener(), profile(tmp_path, {"offset": (0.0, 0.0001)}, asked), settings).run()
    (figure,) = report.figures
    assert (figure.missing > 0) == missing and (figure.value is None) == (figure.missing == 20)
    assert bool(report.failures) == (verdict == "fail") and not report.lacking
    json.dumps(report.to_json(), allow_nan=False)
    said = f"without {figure.missing} episodes" if 0 < figure.missing < 20 else "no episode has it"
    assert (said in page(report)) == missing


def test_changes_are_counted_within_episodes():
    """Of two agents with two actions in two worlds; the jump between episodes is none."""
    push = ActionSpec("push", ("x", "y"), (-1.0,) * 2, (1.0,) * 2, ("N",) * 2, (0.0,) * 2)
    changes = _Changes(2, {"a": Group(2, (Term("o", 1),), push)})
    for value in (0.0, 0.5, -0.5):
        changes.add({"a": torch.full((2, 2, 2), value)})
    assert changes.end(torch.tensor([1])).tolist() == [0.75]
    changes.add({"a": torch.full((2, 2, 2), 9.0)})  # acts as 1
    changes.add({"a": torch.full((2, 2, 2), 1.0)})
    assert changes.end(torch.tensor([0, 1])).tolist() == [pytest.approx(3.0 / 4.0), 0.0]


def test_another_option_of_a_choice_counts_one_whatever_its_index():
    gear = Discrete("gear", ("off", "low", "high", "top"))
    drive = ActionSpec("drive", ("x",), (-1.0,), (1.0,), ("m",), (0.0,), (gear,))
    changes = _Changes(1, {"a": Group(1, (Term("o", 1),), drive)})
    for index, number in ((0.0, 0.0), (3.0, 0.5), (3.0, 0.5), (2.0, 0.5)):
        changes.add({"a": torch.tensor([[[index, number]]])})
    assert changes.end(torch.tensor([0])).tolist() == [pytest.approx((1.0 + 0.5 + 1.0) / 2.0 / 3.0)]


def test_every_bound_of_the_package_has_a_reason():
    for name in profiles():
        for bounds in load_profile(name).figures.values():
            assert bounds.source and bounds.least < bounds.most
