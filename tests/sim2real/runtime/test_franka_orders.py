"""Orders to the process that moves a Franka arm: what is new about each, and when they stay away. No arm is needed."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rookery.sim2real.links import franka_servo as servo
from rookery.sim2real.links.franka_servo import COMMAND, GO, IDLE, MOST, ORDER, QUIT, Order, Shared


@pytest.fixture
def shared() -> Shared:
    return Shared.make()


def put(shared: Shared, kind: int, first: float = 0.0, **numbers: float) -> np.ndarray:
    """Write an order; its values."""
    head = dict.fromkeys(ORDER, 0.0) | {"kind": float(kind)} | numbers
    values = first + np.arange(MOST, dtype=float)
    shared.orders.write(np.concatenate(([head[name] for name in ORDER], values)))
    return values


def test_before_the_first_order_there_is_nothing_to_do(shared):
    order = Order(shared)
    assert order.take() == IDLE and order.fresh == set()
    assert order.silent


def test_an_order_is_read_whole_and_is_new_once(shared):
    order = Order(shared)
    values = put(shared, GO, 0.25, number=1, arm=1)
    assert order.take() == GO
    assert order.fresh == {"number", "arm"}
    np.testing.assert_array_equal(order.values, values)
    assert order.take() == GO and order.fresh == set()  # the same again
    values = put(shared, COMMAND, -3.0, number=2, arm=1, begin=1)
    assert order.take() == COMMAND and order.fresh == {"number", "begin"}
    np.testing.assert_array_equal(order.values, values)


def test_silence_begins_where_the_newest_stamp_is_too_old(shared, monkeypatch):
    now = 100.0
    monkeypatch.setattr(servo.time, "monotonic", lambda: now)
    order = Order(shared)
    put(shared, COMMAND, stamp=now)
    order.take()
    assert not order.silent
    now += 0.9 * servo.SILENT_S
    assert not order.silent
    now += 0.2 * servo.SILENT_S
    assert order.silent
    put(shared, COMMAND, stamp=now)
    assert order.silent  # it has not been read
    order.take()
    assert not order.silent


def test_without_its_parent_it_quits_whatever_the_order(shared, monkeypatch):
    order = Order(shared)
    put(shared, COMMAND, number=1)
    assert order.take() == COMMAND
    parent = os.getppid()
    monkeypatch.setattr(servo.os, "getppid", lambda: parent + 1)
    assert order.take() == QUIT


def test_errors_are_said_in_one_line_of_ascii_each_of_its_own(shared):
    shared.say("libfranka: the arm stopped.\n")
    shared.say("Griff verloren – zu früh", hand=True)
    assert shared.said() == "the arm stopped"
    assert shared.said(hand=True) == "Griff verloren ? zu fr?h"
    shared.say("x" * 1000)
    assert shared.said() == "x" * 255
    shared.say("")
    assert shared.said() == ""
