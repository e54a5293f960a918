"""Attention over neighbors: their order and the places for them do not matter, and who is absent counts for nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from policies_stages import ATTENTION, CASES, FLOCK_TERMS, group_of

from rookery.policies.algorithms.chains import encoder_links, observation_norm
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.attention import Attention
from rookery.policies.stages.chain import Beside, StageChain
from rookery.policies.stages.select import Select
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, Term

GENERATOR = torch.Generator().manual_seed(5)
CONFIG = PPOConfig(encoder="attention", encoder_options=("size=6", "heads=2"), hidden=(8,))


def observed(count: int, rows: int = 40) -> torch.Tensor:
    """Rows of ATTENTION with the first `count` of five neighbors present."""
    x = torch.randn(rows, 36, generator=GENERATOR)
    x[:, 29:34] = (torch.arange(5) < count).float()
    return x


def permuted(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """The neighbors in another order."""
    out = x.clone()
    for start, each in (*ATTENTION.parts, (ATTENTION.present, 1)):
        block = x[:, start : start + 5 * each].unflatten(1, (5, each))
        out[:, start : start + 5 * each] = block[:, order].flatten(1)
    return out


@torch.no_grad()
@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_order_of_neighbors_does_not_matter(count: int) -> None:
    policy = CASES["attention"].policy()
    x = observed(count)
    assert not torch.equal(x, permuted(x, torch.tensor([4, 3, 2, 1, 0])))
    for _ in range(5):
        order = torch.randperm(5, generator=GENERATOR)
        torch.testing.assert_close(policy(permuted(x, order)), policy(x), rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("count", [0, 2, 4])
def test_what_stands_in_the_place_of_the_absent_does_not_matter(count: int) -> None:
    policy = CASES["attention"].policy()
    x = observed(count)
    other = x.clone()
    for start, each in ATTENTION.parts:
        other[:, start + count * each : start + 5 * each] = 100.0
    assert torch.equal(policy(other), policy(x))
    present = x.clone()
    present[:, 29 + count] = 1.0
    assert (policy(present) - policy(x)).abs().max() > 0.01


@torch.no_grad()
@pytest.mark.parametrize("count", [0, 2, 3])
def test_places_for_more_neighbors_change_nothing(count: int) -> None:
    """The same weights with places for eight in place of five: the same features, but for the share of the places."""
    wide = Attention(57, ((0, 4), (55, 57)), 8, ((4, 3), (28, 2)), 45, 6, 2, "tanh")
    policy, more = CASES["attention"].policy(), Policy((wide,)).eval()
    more.load_state_dict(policy.state_dict())
    x = observed(count)
    y = torch.zeros(len(x), 57)
    y[:, :4], y[:, 55:] = x[:, :4], x[:, 34:]
    y[:, 4 : 4 + 3 * count], y[:, 28 : 28 + 2 * count] = x[:, 4 : 4 + 3 * count], x[:, 19 : 19 + 2 * count]
    y[:, 45 : 45 + count] = 1.0
    torch.testing.assert_close(more(y)[:, :-1], policy(x)[:, :-1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(8 * more(y)[:, -1], 5 * policy(x)[:, -1])


@torch.no_grad()
def test_nobody_there_gives_zeros() -> None:
    assert not CASES["attention"].policy()(observed(0)).any()


@torch.no_grad()
@pytest.mark.parametrize("place", [0, 4, 29, 33])
def test_nan_goes_on(place: int) -> None:
    policy = CASES["attention"].policy()
    x = observed(5)
    x[:, place] = torch.nan
    assert policy(x).isnan().any(1).all()


def test_the_normalizer_treats_neighbors_alike_and_leaves_presence_alone() -> None:
    group = group_of(36, 2, FLOCK_TERMS)
    norm = observation_norm(CONFIG, group)
    norm.record(observed(3, 500) * torch.linspace(0.5, 3.0, 36) + 1.0)
    norm.commit()
    for start, each in ATTENTION.parts:
        block = norm.std[start : start + 5 * each].view(5, each)
        assert torch.equal(block, block[:1].expand_as(block)) and len(block[0].unique()) == each
    assert not norm.mean[29:34].any() and (norm.std[29:34] == 1.0).all()
    assert len(norm.std[:4].unique()) == 4


def test_the_links_are_of_the_terms() -> None:
    group = group_of(36, 2, FLOCK_TERMS)
    (link,) = encoder_links(CONFIG, group, 1)
    assert link == Beside(((Select(36, ((0, 4), (34, 36))),), (ATTENTION,)))
    (link,) = encoder_links(CONFIG, dataclasses.replace(group, history=2), 2)
    assert link.inputs == 72 and link.outputs == 2 * 6 + ATTENTION.outputs
    chain = StageChain((link,))
    newest, older = torch.randn(3, 36, generator=GENERATOR), torch.randn(3, 36, generator=GENERATOR)
    policy = Policy((link,))
    with torch.no_grad():
        changed = older.clone()
        changed[:, 4:34] += 1.0  # neighbors of a frame before
        assert torch.equal(policy(torch.cat((older, newest), 1)), policy(torch.cat((changed, newest), 1)))
    assert chain.kinds == ["select", "select", "attention"]


def test_terms_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(RookeryError, match="0 of them saying so"):
        encoder_links(CONFIG, group_of(9, 2, (Term("own", 3), Term("offset", 6, neighbors=2))), 1)
    terms = (Term("own", 3), Term("offset", 6, neighbors=2), Term("seen", 3, neighbors=3, present=True))
    with pytest.raises(RookeryError, match=r"these are of \[2, 3\] neighbors"):
        encoder_links(CONFIG, group_of(12, 2, terms), 1)
    with pytest.raises(RookeryError, match="made for no terms of neighbors"):
        StageChain((ATTENTION,)).check(group_of(36, ATTENTION.outputs), "stages")
    with pytest.raises(ValueError, match="cannot have values of 4 neighbors"):
        Group(1, (Term("offset", 6, neighbors=4),), group_of(1, 1).action)
    with pytest.raises(ValueError, match="as many of each"):
        Group(1, (Term("seen", 6, neighbors=3, present=True),), group_of(1, 1).action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("size",), "give name=value, such as size=32"),
        (("width=3",), "unknown option of encoder=attention 'width'"),
        (("size=wide",), "the encoder option size is 'wide': give a whole number"),
    ],
)
def test_options_that_are_none_are_refused(options: tuple[str, ...], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        dataclasses.replace(CONFIG, encoder_options=options)


def test_options_without_their_encoder_are_refused() -> None:
    for encoder in ("none", "cnn"):
        with pytest.raises(RookeryError, match=f"other encoders than {encoder}"):
            PPOConfig(encoder=encoder, encoder_options=("size=6",))


@pytest.mark.parametrize(
    "wrong", [{"own": ((0, 2), (30, 37))}, {"own": ((4, 4),)}, {"parts": ((30, 3),)}, {"present": 34}, {"present": -1}]
)
def test_places_outside_of_the_row_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RookeryError, match="is no part of a row of 36 numbers"):
        dataclasses.replace(ATTENTION, **wrong)
