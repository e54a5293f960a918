"""Keys and gamepads: what they mean, how far commands go, and that stopping always works."""

from __future__ import annotations

import math
import os
import struct
import termios
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.sim.errors import RookeryError
from rookery.sim.specs import CommandRange
from rookery.sim2real.contract import Contract
from rookery.sim2real.runtime.command_limits import CommandLimits
from rookery.sim2real.runtime.controls import Controls, read_controls
from rookery.sim2real.runtime.gamepad import AXIS, BUTTON, EVENT, FIRST, Gamepad
from rookery.sim2real.runtime.keys import KeyDecoder, Keys, press
from rookery.sim2real.runtime.pilot import Commands
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.settings import safety_settings
from rookery.sim2real.runtime.steering import NEAR_M, CommandSteering
from tests.sim2real.runtime.flights import library
from tests.sim2real.runtime.processes import wait_for
from tests.sim2real.runtime.terminals import Terminal

ZOO = Path(__file__).resolve().parents[3] / "policies" / "zoo"
VELOCITY = "commanded velocity forward, velocity left, yaw rate to the left"


def stub(policy: str, values: dict[str, Any], position: Any = (0.0, 0.0, 1.0)) -> Any:
    """As much of a checked pilot as steering asks for."""
    contract = Contract.read(ZOO / policy / "contract.json")
    name, spec = next(iter(contract.groups.items()))
    wanted = {q.name: q for term in spec.spec.observation for q in term.expression.leaves() if not q.initial}
    commands = Commands({k: np.array(v, np.float32) for k, v in values.items()})
    reading = Reading(0.0, 0.0, {"position": np.array(position, np.float32)})
    identity = SimpleNamespace(quantities=("position", "velocity", "rotation", "joint angles"))
    return SimpleNamespace(
        controller=SimpleNamespace(contract=contract, spec=spec, wanted=list(wanted.values())), identity=identity,
        commands=commands, settings=safety_settings(contract, name), armed_at=np.zeros(3),
        link=SimpleNamespace(read=lambda: reading), command_limits=CommandLimits(library(), spec.commands),
    )  # fmt: skip


def walking(**options: Any) -> tuple[Any, CommandSteering]:
    pilot = stub("go2-velocity", {VELOCITY: (0.0, 0.0, 0.0)})
    steering = CommandSteering([pilot], **options)
    steering.learn()
    return pilot, steering


def hovering(count: int = 1) -> tuple[list[Any], CommandSteering]:
    pilots = [stub("drone-hover", {"target": (0.0, 0.0, 1.0)}) for _ in range(count)]
    steering = CommandSteering(pilots)
    steering.learn()
    return pilots, steering


# -- ranges ----------------------------------------------------------------------------------------------------


def test_a_walk_has_the_range_that_its_contract_states() -> None:
    contract = Contract.read(ZOO / "go2-velocity" / "contract.json")
    config = contract.task_config
    stated = contract.groups["robot"].commands[VELOCITY]
    assert stated.high == pytest.approx((config["max_vx"], config["max_vy"], config["max_yaw_rate"]))
    assert stated.low == pytest.approx((-config["max_back"], -config["max_vy"], -config["max_yaw_rate"]))
    _, steering = walking()
    assert steering.labels == {"forward", "left", "turn"}


def test_a_contract_from_before_ranges_bounds_nothing_and_gets_them_from_the_operator() -> None:
    pilot = stub("go2-velocity", {VELOCITY: (5.0, 0.0, 0.0)})
    pilot.command_limits = CommandLimits(library(), {})
    steering = CommandSteering([pilot])
    steering.learn()
    assert not steering.labels
    given = CommandSteering([pilot], {"velocity": ((-1.0, 0.0, 0.0), (1.0, 0.0, 0.0))})
    with pytest.raises(RookeryError, match="out of its range, -1 to 1"):
        given.learn()


def test_keys_go_to_the_end_of_the_range_and_not_beyond() -> None:
    pilot, steering = walking()
    config = pilot.controller.contract.task_config
    press(steering, "w")
    np.testing.assert_allclose(pilot.commands.values[VELOCITY], (0.1 * config["max_vx"], 0.0, 0.0), atol=1e-6)
    for _ in range(30):
        press(steering, "up")
        press(steering, "d")
        press(steering, "left")
    np.testing.assert_allclose(
        pilot.commands.values[VELOCITY], (config["max_vx"], -config["max_vy"], config["max_yaw_rate"]), atol=1e-6
    )
    for _ in range(30):
        press(steering, "s")
    assert pilot.commands.values[VELOCITY][0] == pytest.approx(-config["max_back"])
    press(steering, "x")
    np.testing.assert_array_equal(pilot.commands.values[VELOCITY], 0.0)
    assert not pilot.commands.finish


def test_given_ranges_come_first() -> None:
    given = {"velocity": ((0.1, 0.0, -0.2), (0.3, 0.0, 0.2))}
    pilot, steering = walking(ranges=given)
    for key in "wwwwwwwwwwwwaqqqqqqqqqqqqqq":
        press(steering, key)
    np.testing.assert_allclose(pilot.commands.values[VELOCITY], (0.3, 0.0, 0.2), atol=1e-6)
    press(steering, "x")
    np.testing.assert_allclose(pilot.commands.values[VELOCITY], (0.1, 0.0, 0.0), atol=1e-6)  # the nearest to 0


@pytest.mark.parametrize(
    "ranges",
    [
        {"velocity": ((0.0,), (1.0,))},
        {"velocity": ((0.5, 0.0, 0.0), (0.1, 1.0, 1.0))},
        {"velocity": ((0.0, 0.0, 0.0), (math.inf, 1.0, 1.0))},
        {"height": ((0.0,), (1.0,))},
    ],
)
def test_ranges_that_do_not_fit_are_refused(ranges: Any) -> None:
    with pytest.raises(RookeryError, match="range"):
        walking(ranges=ranges)


@pytest.mark.parametrize("share", [1.0, 1.01])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_velocity_that_no_training_asked_for_is_refused(share: float, index: int) -> None:
    stated = Contract.read(ZOO / "go2-velocity" / "contract.json").groups["robot"].commands[VELOCITY]
    for bounds in (stated.low, stated.high):
        asked = np.zeros(3)
        asked[index] = share * bounds[index]
        steering = CommandSteering([stub("go2-velocity", {VELOCITY: asked})])
        if share <= 1.0:
            steering.learn()
            continue
        with pytest.raises(RookeryError, match="out of its range") as refusal:
            steering.learn()
        assert f"{['forward', 'left', 'turn'][index]} {asked[index]:g} " in str(refusal.value)
        CommandSteering(
            [stub("go2-velocity", {VELOCITY: asked})], {"velocity": (-9 * np.ones(3), 9 * np.ones(3))}
        ).learn()


@pytest.mark.parametrize(
    ("target", "fits"),
    [
        ((3.0, -1.0, 2.0), True),  # the policy begins at 2, 0, 2.3
        ((1.0, 1.0, 3.2), True),
        ((3.05, 0.0, 2.3), True),  # the entry is exact to 10 cm
        ((3.15, 0.0, 2.3), False),
        ((0.0, 0.0, 1.0), False),
        ((2.0, 0.0, 3.5), False),
    ],
)
def test_a_target_is_held_against_where_the_policy_begins(target: Any, fits: bool) -> None:
    steering = CommandSteering([stub("drone-hover", {"target": target}, position=(2.0, 0.0, 1.3))])
    if fits:
        steering.learn()
        return
    with pytest.raises(RookeryError, match=r"out of its range.*trained with -1 to 1 from where it begins \(position\)"):
        steering.learn()
    wide = {"target": ((-3.0,) * 3, (3.0,) * 3)}
    CommandSteering([stub("drone-hover", {"target": target}, position=(2.0, 0.0, 1.3))], wide).learn()


def test_a_goal_of_an_arm_is_held_within_the_box_of_the_training() -> None:
    for goal, fits in (((0.1, 0.8, 0.3), True), ((0.0, 0.7, 0.2), False), ((0.0, 0.85, 0.0), False)):
        steering = CommandSteering([stub("table-reach", {"goal's position": goal})])
        if fits:
            steering.learn()
            continue
        with pytest.raises(RookeryError, match="out of its range"):
            steering.learn()


def test_a_zero_is_a_command_like_others_where_it_is_no_motion() -> None:
    """As the C++ program has it: 0 of a velocity is to stay, 0 of a height is a height."""
    name = "height up to which a lob rises, else 0"
    for asked, fits in ((0.5, True), (0.0, False)):
        pilot = stub("volley-skill", {name: (asked,)})
        pilot.command_limits.replace(name, CommandRange((0.5,), (3.0,)))
        steering = CommandSteering([pilot])
        if fits:
            steering.learn()
            continue
        with pytest.raises(RookeryError, match=r"0 m of the command .* is out of its range, 0\.5 to 3"):
            steering.learn()


def test_commands_are_held_and_told_by_name() -> None:
    spec = Contract.read(ZOO / "drone-hover" / "contract.json").groups["drone"]
    limits = CommandLimits(library(), spec.commands)
    asked = np.array((5.0, 0.5, -9.0), np.float32)
    values = {"target": asked, "position": np.array((1.0, 0.0, 2.0), np.float32)}
    assert limits.hold(values) == ["target"]
    np.testing.assert_array_equal(values["target"], (2.0, 0.5, 1.0))
    np.testing.assert_array_equal(asked, (5.0, 0.5, -9.0))  # the operator's own stays
    assert limits.hold(values) == []
    assert limits.hold({"target": asked}) == []  # nobody tells where it is
    assert limits.hold({"position": asked}) == []
    for wrong in (np.zeros(2, np.float32), np.full(9, 5.0, np.float32), np.float32(7.0)):
        assert (
            limits.hold({"target": wrong, "position": asked}) == limits.hold({"target": asked, "position": wrong}) == []
        )
    walk = CommandLimits(library(), {VELOCITY: CommandRange((-1.0, 0.0, 0.2), (1.0, 0.0, 0.3))})
    values = {VELOCITY: np.array((math.inf, -1e-9, 0.0), np.float32)}
    assert walk.hold(values) == [VELOCITY]
    np.testing.assert_array_equal(values[VELOCITY], np.array((1.0, 0.0, 0.2), np.float32))
    none = {VELOCITY: np.array((math.nan, 0.0, 0.2), np.float32)}
    assert walk.hold(none) == [] and math.isnan(none[VELOCITY][0])  # of which the filter tells


def test_a_target_stays_near_the_vehicle_and_over_the_ground() -> None:
    (pilot,), steering = hovering()
    before = pilot.commands.values["target"]
    for _ in range(30):
        press(steering, "w")
        press(steering, "right")  # there is nothing to turn: it goes to the right
        press(steering, "f")
    np.testing.assert_allclose(pilot.commands.values["target"], (NEAR_M, -NEAR_M, 0.3), atol=1e-6)
    np.testing.assert_array_equal(before, (0.0, 0.0, 1.0))  # the loop may be reading the old one
    press(steering, "x")
    np.testing.assert_allclose(pilot.commands.values["target"], (0.0, 0.0, 1.0), atol=1e-6)


def test_what_a_tracker_measures_is_not_steered() -> None:
    pilot = stub("drone-hover", {})
    pilot.identity.quantities += ("target",)
    steering = CommandSteering([pilot])
    steering.learn()
    press(steering, "w")
    assert not steering.labels
    assert not pilot.commands.values


def test_one_of_several_is_chosen_and_a_stop_is_for_all() -> None:
    pilots, steering = hovering(3)
    for key in "2w9a0r":  # there is no ninth
        press(steering, key)
    targets = [pilot.commands.values["target"] for pilot in pilots]
    np.testing.assert_allclose(targets, [(0.0, 0.0, 1.1), (0.1, 0.1, 1.1), (0.0, 0.0, 1.1)], atol=1e-6)
    press(steering, "1")
    press(steering, "l")
    assert all(p.commands.finish and not p.commands.stop for p in pilots)
    press(steering, " ")
    assert all(p.commands.stop for p in pilots)


# -- keys ------------------------------------------------------------------------------------------------------


def test_keys_are_told_from_any_pieces_of_bytes() -> None:
    data = b"w\x1b[A\x1bOB\x1b[1;5C\x1b[5~\x1b[Z l\xff"
    whole = KeyDecoder().feed(data)
    assert whole == ["w", "up", "down", "page up", " ", "l", "\xff"]
    decoder = KeyDecoder()
    assert [key for i in range(len(data)) for key in decoder.feed(data[i : i + 1])] == whole
    for beginning in (b"\x1b", b"\x1b[", b"\x1bO", b"\x1b[1;", b"\x1b[" + b"1" * 40):
        assert KeyDecoder().feed(beginning + b" ")[-1] == " "  # a stop is never lost


def test_bytes_of_any_kind_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    decoder = KeyDecoder()
    pilot, steering = walking()
    for _ in range(300):
        for key in decoder.feed(rng.bytes(40)):
            press(steering, key)
    assert np.isfinite(pilot.commands.values[VELOCITY]).all()


def test_a_terminal_drives_keys_and_is_left_as_it_was() -> None:
    terminal = Terminal()
    before = termios.tcgetattr(terminal.theirs)
    pilot, steering = walking()
    with Keys(steering, terminal.theirs):
        assert not termios.tcgetattr(terminal.theirs)[3] & termios.ECHO
        terminal.type(b"ww\x1b[D\x1a\x13")  # Ctrl-Z and Ctrl-S are keys without a meaning
        wait_for(lambda: pilot.commands.values[VELOCITY][2] > 0.0)
        assert pilot.commands.values[VELOCITY][0] == pytest.approx(
            0.2 * pilot.controller.contract.task_config["max_vx"]
        )
        assert not pilot.commands.finish
        terminal.type(b" ")
        wait_for(lambda: pilot.commands.stop)
    assert termios.tcgetattr(terminal.theirs) == before
    terminal.close()


# -- gamepad ---------------------------------------------------------------------------------------------------


class Pad:
    """A gamepad's file: a FIFO to which a test writes events."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "js0"
        os.mkfifo(self.path)
        self._out = os.open(self.path, os.O_RDWR)

    def send(self, kind: int, number: int, value: int) -> None:
        os.write(self._out, EVENT.pack(0, value, kind, number))

    def raw(self, data: bytes) -> None:
        os.write(self._out, data)

    def unplug(self) -> None:
        os.close(self._out)


@pytest.fixture
def pad(tmp_path: Path) -> Pad:
    return Pad(tmp_path)


def test_sticks_move_a_velocity_within_its_range(pad: Pad) -> None:
    pilot, steering = walking()
    config = pilot.controller.contract.task_config
    pilot.commands.values[VELOCITY] = np.float32((0.2, 0.0, 0.0))
    velocity = lambda: pilot.commands.values[VELOCITY]  # noqa: E731
    with Gamepad(steering, pad.path, Controls(), print):
        for i in range(6):
            pad.send(AXIS | FIRST, i, 0)  # how things are: that takes nothing back
            pad.send(BUTTON | FIRST, i, 1)
        pad.send(AXIS, 3, -32767)
        wait_for(lambda: velocity()[2] > 0.0)
        np.testing.assert_allclose(velocity(), (0.2, 0.0, config["max_yaw_rate"]), atol=1e-6)
        pad.send(AXIS, 1, 32767)
        wait_for(lambda: velocity()[0] < 0.0)
        assert velocity()[0] == pytest.approx(-config["max_back"])
        event = EVENT.pack(0, -18022, AXIS, 1)  # 0.55 of the way, of which 0.1 is dead: half
        pad.raw(event[:3])
        pad.raw(event[3:])
        wait_for(lambda: velocity()[0] > 0.0)
        assert velocity()[0] == pytest.approx(0.5 * config["max_vx"], abs=1e-3)
        pad.send(AXIS, 1, -3000)
        wait_for(lambda: velocity()[0] == 0.0)
        assert not pilot.commands.finish
        pad.send(BUTTON, 1, 1)
        wait_for(lambda: pilot.commands.stop)


def test_a_stick_moves_a_target_on_and_on(pad: Pad) -> None:
    (pilot,), steering = hovering()
    with Gamepad(steering, pad.path, Controls(), print) as gamepad:
        pad.send(AXIS, 4, -32767)
        wait_for(lambda: pilot.commands.values["target"][2] > 1.05)
        pad.send(AXIS, 4, 0)
        wait_for(lambda: not gamepad._shares["up"])
        there = pilot.commands.values["target"][2]
        time.sleep(0.1)
        assert pilot.commands.values["target"][2] == there
        pad.send(BUTTON, 0, 1)
        wait_for(lambda: pilot.commands.finish)
        assert not pilot.commands.stop


def test_a_gamepad_that_is_gone_ends_the_policy(pad: Pad) -> None:
    pilot, steering = walking()
    said: list[str] = []
    with Gamepad(steering, pad.path, Controls(), said.append):
        pad.send(AXIS, 1, -32767)
        wait_for(lambda: pilot.commands.values[VELOCITY][0] > 0.0)
        pad.unplug()
        wait_for(lambda: bool(said))
    assert pilot.commands.finish
    assert "gone" in said[0]


def test_a_gamepad_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match=r"cannot read the gamepad .*js7 \(No such file or directory\): plug it in"):
        Gamepad(walking()[1], tmp_path / "js7", Controls(), print)


# -- settings --------------------------------------------------------------------------------------------------


def test_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "controls.toml"
    file.write_text(
        "dead_zone = 0.2\n[axes]\nforward = { axis = 5 }\n[buttons]\nstop = 7\n"
        "[ranges]\nvelocity = [[0.0, 0.0, 0.0], [0.5, 0.1, 0.2]]\n"
    )
    found = read_controls(file)
    assert (found.dead_zone, found.stop, found.land) == (0.2, 7, 0)
    assert {k: (a.axis, a.reversed) for k, a in found.axes.items()} == {"forward": (5, False)}
    assert found.ranges["velocity"][1] == (0.5, 0.1, 0.2)
    assert found.share(1.0, False) == 1.0
    assert found.share(0.2, False) == 0.0
    assert found.share(-0.6, True) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dead_zone = 1.5", "dead_zone"),
        ("dead_zone = true", "dead_zone"),
        ("[buttons]\nstop = 0", "both number 0"),
        ("[buttons]\nstop = -1", "stop"),
        ("[button]\nstop = 2", "button"),
        ("[axes]\nforward = 1", "forward"),
        ("[ranges]\nvelocity = [0, 1]", "velocity"),
        ("= 3", "TOML"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "controls.toml"
    file.write_text(text)
    with pytest.raises(RookeryError, match=said) as caught:
        read_controls(file)
    assert "\n" not in str(caught.value)


def test_events_are_as_linux_has_them() -> None:
    """struct js_event: __u32 time, __s16 value, __u8 type, __u8 number."""
    assert EVENT.size == 8
    assert EVENT.unpack(struct.pack("<I", 5) + struct.pack("<h", -2) + b"\x82\x03") == (5, -2, 0x82, 3)
