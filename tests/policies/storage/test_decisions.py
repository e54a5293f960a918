"""Storage of decisions: rows and their noise do not depend on how often it has grown."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.storage.decisions import Decisions
from rookery.policies.storage.rollout import ActionDraws
from rookery.sim.specs import ActionSpec, Discrete

WHICH = (Discrete("which", ("x", "y", "z")),)
SPEC = ActionSpec("test", ("a", "b"), (-1.0, -1.0), (1.0, 1.0), ("", ""), (0.0, 0.0), choices=WHICH)
AGENTS = 7


def some(count: int, g: torch.Generator) -> dict[str, Tensor]:
    """Decisions by field."""
    sizes = {"observation": 4, "state": 2, "noise": 2, "action": 3, "choice_log_probs": 3}
    index = torch.randint(0, AGENTS, (count,), generator=g)
    return {f: torch.randn(count, n, generator=g) for f, n in sizes.items()} | {"index": index}


def test_decisions_are_kept_in_their_order_while_the_storage_grows() -> None:
    g, noise = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    kept = Decisions(AGENTS, 4, SPEC, 2, torch.device("cpu"))
    for _ in range(2):  # the second begins in storage that has grown
        kept.begin()
        assert all(not len(x) for x in kept.rows().values())
        given = []
        for count in (3, 0, 7, 7, 1, 7, 7, 7, 5):
            kept.reserve(count, lambda rows: rows.noise.normal_(generator=noise))
            given.append(some(count, g))
            kept.add(given[-1])
        assert kept.end == 44
        for name, x in kept.rows().items():
            assert torch.equal(x, torch.cat([rows[name] for rows in given])), name


def test_the_noise_of_a_decision_does_not_depend_on_the_room_there_was() -> None:
    found = []
    fresh, grown = (Decisions(AGENTS, 4, SPEC, 0, torch.device("cpu")) for _ in "ab")
    for _ in range(9):
        grown.reserve(AGENTS, lambda rows: None)
        grown.end += AGENTS
    for kept in (fresh, grown):
        noise = torch.Generator().manual_seed(5)

        def draw(rows: ActionDraws, noise: torch.Generator = noise) -> None:
            assert rows.gumbel is not None
            rows.noise.normal_(generator=noise)
            rows.gumbel.normal_(generator=noise)

        kept.begin()
        for _ in range(6):
            kept.reserve(5, draw)
            kept.end += 5
        assert kept.drawn.gumbel is not None
        found.append([x[0, : kept.end, 0].clone() for x in (kept.drawn.noise, kept.drawn.gumbel)])
    assert len(grown.index) > len(fresh.index)
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs) and len(ours.flatten().unique()) == ours.numel()
