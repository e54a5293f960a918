"""Steps of all worlds after a journey in messages of some worlds each fill a replay memory as they would have directly."""

from __future__ import annotations

import pytest
import torch

from rookery.policies.algorithms.off_policy_exchange import Exchange
from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.replay import Replay
from rookery.policies.storage.rollout_messages import BEFORE_AND_AFTER, EACH, FINAL, Row, pack, unpack

WORLDS, AGENTS, STEPS = 7, 2, 5
PARTS = (slice(0, 2), slice(2, 7))
SCALE = torch.tensor([0.0, 0.5, 0.5, 0.0])


def journey(seed: int, full: bool) -> list[Row]:
    """Control steps in a row, of which those after an end of an episode begin anew."""
    g = torch.Generator().manual_seed(seed)

    def observed() -> torch.Tensor:
        numbers = torch.randn(WORLDS, AGENTS, 4, generator=g)
        pictures = torch.randint(256, (WORLDS, AGENTS, 4), generator=g) * 0.5
        return torch.where(SCALE > 0.0, pictures, numbers)

    def chance(share: float, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=g) < share

    rows = []
    before = observed(), chance(0.8, WORLDS, AGENTS), torch.randn(WORLDS, 3, generator=g)
    for k in range(STEPS):
        after = observed(), chance(0.8, WORLDS, AGENTS), torch.randn(WORLDS, 3, generator=g)
        ends = chance(0.3, WORLDS) & (k != 2)  # in one step nothing ends
        terminated = ends & chance(0.4, WORLDS)
        row: Row = {
            "action": torch.randn(WORLDS, AGENTS, 2, generator=g),
            "reward": torch.randn(WORLDS, AGENTS, generator=g),
            "terminated": terminated,
            "truncated": ends,  # also where both hold
            "final_observation": observed() if ends.any() else None,
            "final_state": torch.randn(WORLDS, 3, generator=g) if ends.any() else None,
            "final_active": chance(0.5, WORLDS, AGENTS) if full and ends.any() else None,
            "memory": torch.randn(WORLDS, AGENTS, 6, generator=g) if full else None,
            # some steps alone stand for more than one, and in some worlds alone
            "elapsed": 1 + (torch.arange(WORLDS) == 6).long()[:, None] if full and k > 2 else None,
        }
        for name, was, then in zip(BEFORE_AND_AFTER, before, after, strict=True):
            kept = full or name == "observation"
            row[name] = was if kept else None
            row[BEFORE_AND_AFTER[name]] = then if kept else None
        if not full:
            row["final_state"] = None
        rows.append(row)
        before = after
    return rows


def part_of(row: Row, at: slice) -> Row:
    """As an actor of some worlds keeps it."""
    exchange = Exchange({"group": None}, None, None, None)
    exchange.note("group", {name: None if x is None else x[at] for name, x in row.items()})
    (out,) = exchange._rows["group"]
    if out["elapsed"] is not None and bool((out["elapsed"] == 1).all()):
        out["elapsed"] = None  # as `rookery.sim.elapsed` has it
    return out


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("pictures", [False, True])
def test_a_memory_is_filled_as_if_nothing_had_been_sent(full: bool, pictures: bool) -> None:
    codec = Pixels(SCALE) if pictures else None
    sizes = {"state_size": 3 if full else 0, "alpha": 0.5, "memories": 6 if full else 0, "codec": codec}
    direct, sent = (Replay(8, WORLDS, AGENTS, 4, 2, "cpu", **sizes) for _ in range(2))
    for rollout in range(3):  # the ring comes round
        rows = journey(rollout, full)
        for row in rows:
            direct.add(**row)
        messages = [pack([part_of(row, at) for row in rows], codec) for at in PARTS]
        if pictures:
            assert all(m["observation"].shape[-1] == 2 and m["pixels"].dtype is torch.uint8 for m in messages)
        for row in unpack(messages, codec):
            sent.add(**row)
        found, want = sent.state_dict(), direct.state_dict()
        assert found.keys() == want.keys()
        for name in want:
            assert torch.equal(found[name], want[name]), name
    assert len(want["finals"]) > 3
    assert not full or ((want["elapsed"] == 2).any() and want["left"].any())


def test_what_no_step_has_is_not_sent() -> None:
    rows = [part_of(row, slice(None)) for row in journey(0, False)]
    names = {"observation", "action", "reward", "terminated", "truncated", "final_observation"}
    assert pack(rows).keys() == names
    assert {*names} < {*BEFORE_AND_AFTER, *EACH, *FINAL}
