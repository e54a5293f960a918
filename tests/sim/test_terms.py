"""Expressions: what fits together, what they are worth, what they say, and that JSON and C say the same."""

from __future__ import annotations

import ctypes
import math
import pickle
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from rookery.sim import rotations
from rookery.sim.events import falling_below
from rookery.sim.quantities import (
    ANGULAR_VELOCITY,
    POSITION,
    ROTATION,
    TOOL_ROTATION,
    VELOCITY,
    WORLD_Z,
    axes,
    body,
    command,
    heading,
    last_action,
    own,
    place,
    rotation_vector,
    world,
)
from rookery.sim.specs import Term
from rookery.sim.terms import (
    KINDS,
    Above,
    Below,
    Clipped,
    Clock,
    Components,
    Constant,
    Expression,
    GroundScan,
    Heading,
    Joined,
    Largest,
    Norm,
    Previous,
    Quantity,
    Recorded,
    Sensor,
    Sines,
    Turned,
    Upright,
    Where,
    Yaw,
    from_json,
)
from rookery.sim.terms.c import CWriter, comment, helpers, identifier, member, quantities_of, terms
from tests.sim2real.independent_terms import evaluate as independent

TARGET = place("target")
QUARTER = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])  # x forward looks along the world's y


def one(**values: list[float]) -> dict[str, torch.Tensor]:
    return {name.replace("_", " "): torch.tensor([value]) for name, value in values.items()}


def value(e: Expression, **values: list[float]) -> list[float]:
    return e.evaluate(one(**values))[0].tolist()


COMMAND = command("command", 3)
RUNS = Above(Largest(COMMAND, (1.0, 0.5, 2.0), ("vx", "vy", "yaw rate")), 0.05)
CLOCK = Clock("phase", 1, frequency=2.0, runs=RUNS)
EVERY: list[Expression] = [
    body(TARGET - POSITION),
    world(ANGULAR_VELOCITY) * 0.5,
    heading(VELOCITY),
    axes(ROTATION, "xz"),
    rotation_vector(ROTATION, TOOL_ROTATION),
    Upright(Turned(TOOL_ROTATION, ROTATION)),
    Sines(Yaw(ROTATION), ("cos", "sin")),
    Where(Sines(Quantity("phase angle", 1, "rad")), RUNS, "0 at rest"),
    CLOCK,
    Previous(Joined((TARGET, TOOL_ROTATION))),
    falling_below(Norm(TARGET - POSITION), 0.3),
    Clipped(own("opening", 1, "m") / 0.1, 0.0, 1.0),
    Where(Constant((1.0,)) - Norm(place("others", 2) - POSITION) / 3.0, own("seen", 2), "0 for none in sight"),
    (TARGET + Constant((0.0, 0.0, 0.1), "m", "world"))[:2],
    last_action(4),
    Sensor("pixels", 12, "m", doc="a camera"),
    GroundScan("heights", 2, "m", doc="a map", points=((0.1, 0.0), (0.0, -0.2)), limit=0.5),
    Recorded("x of the cart", 1, "m"),
]


@pytest.mark.parametrize("e", EVERY, ids=lambda e: e.formula)
def test_json_gives_the_same_expression(e: Expression) -> None:
    same = from_json(e.to_json())
    assert same == e
    assert (same.size, same.unit, same.frame, same.formula, same.local) == (e.size, e.unit, e.frame, e.formula, e.local)


def test_sensors_are_pickled_without_their_reader() -> None:
    """Groups go from workers to the process that trains."""
    sensor = Sensor("pixels", 12, "m", doc="a camera", make=lambda world: None)  # type: ignore[arg-type, return-value]
    same = pickle.loads(pickle.dumps(sensor))
    assert same == sensor and same.make is None and sensor.make is not None


def test_every_kind_is_tried() -> None:
    def kinds(e: Expression) -> set[str]:
        return {e.kind}.union(*(kinds(p) for p in e.parts))

    assert set().union(*map(kinds, EVERY)) == set(KINDS)


def test_values_are_those_of_the_definition() -> None:
    ahead = {"target": [1.0, 2.0, 0.0], "position": [1.0, 0.0, 0.0], "rotation": QUARTER.tolist()}
    assert value(body(TARGET - POSITION), **ahead) == pytest.approx([2.0, 0.0, 0.0], abs=1e-6)
    assert value(axes(ROTATION, "x"), rotation=QUARTER.tolist()) == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert value(Yaw(ROTATION), rotation=QUARTER.tolist()) == pytest.approx([0.5 * math.pi])
    assert value(RUNS, command=[0.04, 0.02, 0.0]) == [0.0]
    assert value(RUNS, command=[0.0, -0.03, 0.0]) == [1.0]
    seen = {"others": [3.0, 4.0, 0.0, 0.0, 0.0, 0.0], "position": [0.0, 0.0, 0.0], "seen": [1.0, 0.0]}
    closeness = Where(Constant((1.0,)) - Norm(place("others", 2) - POSITION) / 10.0, own("seen", 2), "0 for none")
    assert value(closeness, **seen) == pytest.approx([0.5, 0.0])
    assert value(Upright(ROTATION), rotation=(-QUARTER).tolist()) == pytest.approx(QUARTER.tolist())
    turn = rotation_vector(ROTATION, TOOL_ROTATION)
    between = {"rotation": [1.0, 0.0, 0.0, 0.0], "tool's rotation": QUARTER.tolist()}
    assert turn.evaluate({k: torch.tensor([v]) for k, v in between.items()})[0].tolist() == pytest.approx(
        [0.0, 0.0, 0.5 * math.pi]
    )


def test_a_step_before() -> None:
    now, before = one(target=[1.0, 0.0, 0.0]), one(target=[2.0, 0.0, 0.0])
    assert Previous(TARGET).evaluate(now, before)[0, 0] == 2.0
    assert Previous(TARGET).evaluate(now)[0, 0] == 1.0


def test_a_value_comes_below_a_limit() -> None:
    away = Norm(TARGET - POSITION)
    at = {d: one(target=[d, 0.0, 0.0], position=[0.0, 0.0, 0.0]) for d in (0.2, 0.29, 0.31, math.nan)}
    assert Below(away, 0.3).formula == "1 where length of (target - position) is below 0.3 m, else 0"
    event = falling_below(away, 0.3)
    happens = {(a, b): float(event.evaluate(at[b], at[a])) for a in at for b in at}
    assert {pair for pair, x in happens.items() if x != 0.0} == {(0.31, 0.29), (0.31, 0.2)}
    assert all(float(event.evaluate(x)) == 0.0 for x in at.values())  # an episode's first step


def test_heading_ignores_the_tilt() -> None:
    tilt = rotations.from_axis_angle(torch.tensor([0.0, 1.0, 0.0]), torch.tensor(0.4))
    level = Heading(ROTATION).evaluate({"rotation": rotations.multiply(QUARTER, tilt)[None]})
    assert torch.allclose(level[0], QUARTER, atol=1e-6)


WRONG = {
    "m and m/s": (lambda: TARGET - VELOCITY, "m and m/s cannot be added"),
    "two frames": (lambda: VELOCITY - body(VELOCITY), "one is in world axes, the other in body axes"),
    "a place in other axes": (lambda: body(POSITION), "is a place: subtract another one"),
    "two places": (lambda: TARGET + POSITION, "two places have no sum"),
    "already in body axes": (lambda: Turned(body(VELOCITY), TOOL_ROTATION), "turns between tool and world axes"),
    "no rotation": (lambda: Turned(VELOCITY, TARGET), "is no rotation"),
    "rotations subtracted": (lambda: ROTATION - TOOL_ROTATION, "take `rotation_vector`"),
    "sizes": (lambda: own("a", 2) - own("b", 3), "2 values and 3 do not fit"),
    "no vectors": (lambda: Turned(own("a", 4, "1", "world"), ROTATION), "4 values, which are no vectors"),
    "sine of a length": (lambda: Sines(own("a", 1, "m")), "one angle in rad"),
    "a component that is not there": (lambda: Components(VELOCITY, (3,)), "components 0 to 2"),
    "a mask that does not fit": (lambda: Where(VELOCITY, own("a", 2), ""), "3 values for the 2"),
    "two axes side by side": (lambda: Joined((VELOCITY, body(VELOCITY))), "in the same axes"),
    "a rotation of 3 numbers": (lambda: Quantity("q", 3, axes="body"), "quaternion of 4"),
    "no size": (lambda: own("a", 0), "positive size"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "values",
    [
        None, 3, [], {}, {"kind": "magic"}, {"kind": []}, {"kind": {}},
        {"kind": "quantity"}, {"kind": "quantity", "name": "a", "count": "3"},
        {"kind": "quantity", "name": "a", "count": True}, {"kind": "quantity", "name": "", "count": 3},
        {"kind": "quantity", "name": "a", "count": 3, "more": 1}, {"kind": "constant", "values": [math.nan]},
        {"kind": "sum", "a": {"kind": "quantity", "name": "a", "count": 3}}, {"kind": "joined", "of": []},
        {"kind": "previous", "of": "position"}, {"kind": "scaled", "of": TARGET.to_json(), "factor": "2"},
        {"kind": "components", "of": TARGET.to_json(), "which": [7]}, {"kind": "axes", "of": ROTATION.to_json(), "which": ""},
        {"kind": "sines", "of": own("a", 1, "rad").to_json(), "order": ["sin", "exit"]},
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused(values: object) -> None:
    with pytest.raises(ValueError):
        from_json(values)


def test_local_follows_from_what_is_read() -> None:
    assert last_action(4).local and CLOCK.local and COMMAND.local
    assert Where(Sines(Quantity("angle", 1, "rad", own_memory=True)), RUNS, "").local
    assert not body(TARGET - POSITION).local
    assert not (own("joint angles", 3) - COMMAND).local
    assert not WORLD_Z.local  # nothing that could be late


def test_formulas() -> None:
    said = {e.formula for e in EVERY}
    assert "target - position, body axes" in said
    assert "rotation vector that takes the body's orientation to the tool's, world axes" in said
    assert "the same a step before: target, then tool's rotation, world axes" in said
    assert Term("gait", Where(Sines(Quantity("2 pi phase", 1, "rad")), RUNS, "0, 0 at rest")).formula == (
        "sin, cos of 2 pi phase; 0, 0 at rest"
    )
    assert CLOCK.when == "while the largest of |vx| / 1, |vy| / 0.5, |yaw rate| / 2 is above 0.05"


def test_terms_take_unit_and_frame_from_the_expression() -> None:
    t = Term("error", body(TARGET - POSITION), noise=0.1)
    assert (t.size, t.unit, t.frame, t.local) == (3, "m", "body", False)
    assert Term("a", 2, "m", "world") == Term("a", Quantity("a", 2, "m", "world"))
    assert Term("last_action", last_action(4)).initial == "the neutral action"
    assert Term("old", Previous(TARGET)).initial == "the value now"


def test_one_name_is_one_quantity() -> None:
    with pytest.raises(ValueError, match="stands for two quantities"):
        quantities_of([own("a b", 2), own("a-b", 3)])


@pytest.mark.parametrize("text", ["*/ evil \\", "/* evil", "a\nb\u2028*\u200b/ ??/", "*\\/", "*/*/*/", "//*//*"])
def test_no_text_ends_a_comment(text: str) -> None:
    for line in (f"/* {comment(text)} */", member(own(text, 1), "x").partition("; ")[2]):
        inside = line[2:-2]
        assert line.startswith("/*") and line.endswith("*/") and line.isascii() and line.isprintable()
        assert not any(bad in inside for bad in ("*/", "/*", "??", "\\"))


def compiled(e: Expression, folder: Path) -> Callable[[Sequence[float], Sequence[float]], list[float]]:
    """An expression's C, of the numbers of its quantities now and a step before."""
    body = "\n".join(terms([e], CWriter()))
    members = "".join(member(q, identifier(q.name)) + "\n" for q in quantities_of([e]))
    head = f"#include <math.h>\ntypedef struct {{ {members} }} state;\n" + "\n".join(helpers(body))
    (folder / "e.c").write_text(
        f"{head}\nvoid e(const state *now, const state *before, float *raw) {{ int i; {body} }}\n"
    )
    file = folder / f"e{len(list(folder.iterdir()))}.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", file, folder / "e.c", "-lm"], check=True)
    function = ctypes.CDLL(str(file)).e

    def run(now: Sequence[float], before: Sequence[float]) -> list[float]:
        got = (ctypes.c_float * e.size)()
        function((ctypes.c_float * len(now))(*now), (ctypes.c_float * len(now))(*before), got)
        return list(got)

    return run


def test_c_and_torch_compute_what_an_independent_reader_does(tmp_path: Path) -> None:
    """Random numbers, so that a place that is mistaken for another one shows."""
    pairs = Where(Quantity("four", 4), own("seen", 2), "0 for none in sight")
    every = [*(e for e in EVERY if not isinstance(e, (Clock, Recorded))), pairs]
    numbers = torch.Generator().manual_seed(6)
    for e in every:
        quantities = quantities_of([e])
        run = compiled(e, tmp_path)
        for seen in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]):
            drawn = []
            for _ in range(2):
                at = {q.name: torch.randn(1, q.count, generator=numbers) for q in quantities}
                at |= {q.name: torch.nn.functional.normalize(at[q.name], dim=-1) for q in quantities if q.axes}
                at |= {"seen": torch.tensor([seen])} if "seen" in at else {}
                drawn.append(at)
            now, before = drawn
            flat = [[x for q in quantities for x in at[q.name][0].tolist()] for at in drawn]
            judged = independent(e.to_json(), *({k: v[0].numpy() for k, v in at.items()} for at in drawn))
            assert e.evaluate(now, before)[0].tolist() == pytest.approx(judged.tolist(), abs=1e-5), e.formula
            assert run(*flat) == pytest.approx(judged.tolist(), abs=1e-5), e.formula


def test_nan_passes_through_the_c_as_through_torch(tmp_path: Path) -> None:
    """A measurement that is none must not look like a limit of the term."""
    e = Joined((Clipped(own("a", 1), -1.0, 1.0), Largest(own("b", 2), (1.0, 2.0), ("x", "y"))))
    run = compiled(e, tmp_path)
    for a, x, y in ((0.5, 3.0, -8.0), (math.nan, 1.0, 1.0), (2.0, math.nan, 1.0), (-2.0, 1.0, math.nan)):
        wanted = e.evaluate({"a": torch.tensor([[a]]), "b": torch.tensor([[x, y]])})[0].tolist()
        assert run([a, x, y], [a, x, y]) == pytest.approx(wanted, nan_ok=True)


def test_quaternions_of_matrices() -> None:
    q = torch.nn.functional.normalize(torch.randn(200, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    back = rotations.quaternion(rotations.matrix(q).view(-1, 3, 3))
    assert torch.allclose(rotations.matrix(back), rotations.matrix(q), atol=1e-6)
    v = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    turned = rotations.multiply(
        rotations.multiply(q, torch.nn.functional.pad(v, (1, 0))), q * torch.tensor([1.0, -1, -1, -1])
    )
    assert torch.allclose(rotations.rotate(q, v), turned[:, 1:], atol=1e-5)
