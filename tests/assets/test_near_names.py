"""What "did you mean" says: slips of the pen are found, and nothing is suggested that is not near."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rookery.assets.near_names import nearest, slips

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"
NAME = st.text(LETTERS, min_size=4, max_size=20).filter(lambda s: s[0] not in "-" and s[-1] != "-")
NAMES = st.lists(NAME, min_size=1, max_size=12, unique=True)


@st.composite
def slipped(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """A name with one slip, the name, and all names."""
    names = draw(NAMES)
    name = draw(st.sampled_from(names))
    at = draw(st.integers(0, len(name) - 2))
    letter = draw(st.sampled_from("xyz"))
    kinds = (
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at:],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    )
    return draw(st.sampled_from(kinds)), name, names


@given(slipped())
def test_one_slip_is_found(case):
    word, name, names = case
    assume(not word.startswith("-"))
    found = nearest(word, names)
    assert found is not None
    longest = max(len(word), len(name))
    assert slips(word, found) / max(len(word), len(found)) <= slips(word, name) / longest  # that name, or a nearer one


@given(st.text(LETTERS, max_size=20), NAMES)
def test_what_is_suggested_is_near(word, names):
    found = nearest(word, names)
    plain = word.lstrip("-")
    for name in names if found is None else [found]:
        within = 3 * slips(plain, name) <= max(len(plain), len(name))
        part = len(plain) >= 3 and (name.startswith(plain) or plain in name.split("-"))
        assert (within or part) == (found is not None) or not plain


@given(st.text(LETTERS, max_size=12), st.text(LETTERS, max_size=12), st.text(LETTERS, max_size=12))
def test_slips_are_counted_as_a_distance(a, b, c):
    assert slips(a, b) == slips(b, a)
    assert (slips(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= slips(a, b) <= max(len(a), len(b))
    assert slips(a + c, b + c) <= slips(a, b)


OPTIONS = ("--out", "--seconds", "--camera", "--engine", "--seed", "--viewer", "--viewer-port", "--viewer-worlds")
ALGORITHMS = (
    "bc",
    "dagger",
    "ddpg",
    "droq",
    "fastsac",
    "fasttd3",
    "ppo",
    "redq",
    "rlpd",
    "sac",
    "simbav2",
    "td3",
    "xqc",
)


@pytest.mark.parametrize(
    ("word", "names", "found"),
    [
        ("--device", OPTIONS, None), ("a2c", ALGORITHMS, None), ("trpo", ALGORITHMS, None), ("", ALGORITHMS, None),
        ("--sed", OPTIONS, "--seed"), ("--veiwer", OPTIONS, "--viewer"), ("--Camera", OPTIONS, "--camera"),
        ("--viewer_port", OPTIONS, "--viewer-port"), ("PPO", ALGORITHMS, "ppo"), ("td4", ALGORITHMS, "td3"),
        ("hover", ("drone-hover", "drone-hover-gru", "drone-land"), "drone-hover"), ("x" * 10_000, ALGORITHMS, None),
        ("real", ("none", "realistic"), "realistic"), ("no", ("none", "realistic"), None),
    ],
)  # fmt: skip
def test_what_users_typed(word, names, found):
    assert nearest(word, names) == found
