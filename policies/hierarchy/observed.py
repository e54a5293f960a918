"""The part of an agent's observation that its high level gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rookery.policies.stages.select import Span
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group, Term

_NAMED = re.compile(r"([^\[\]]+)(?:\[(\d+):(\d+)\])?")


def observed(group: Group, names: Sequence[str], task: str) -> tuple[Group, tuple[Span, ...]]:
    """A group that observes the newest values of some terms, and their places in the whole observation.

    Args:
        group: as the task declares it.
        names: of terms; "positions[0:9]" are the first nine components of a term.
        task: for messages.

    Raises:
        RookeryError: no such term, components that it does not have, or some named twice.
    """
    terms = {t.name: t for t in group.observation}
    places = group.slices()
    kept: list[Term] = []
    spans: list[Span] = []
    for text in names:
        found = _NAMED.fullmatch(text.strip())
        name = text if found is None else found[1]
        if name not in terms:
            raise unknown(f"term of {task} to observe", name, terms)
        term, start, end = terms[name], 0, terms[name].size
        if found is not None and found[2] is not None:
            start, end = int(found[2]), int(found[3])
            if not 0 <= start < end <= term.size:
                raise RookeryError(
                    f"observe has {text!r}, and {name!r} of {task} has the components 0 to {term.size - 1}: write "
                    f"{name}[0:{term.size}] or a part of it."
                )
            term = Term(text, end - start, term.unit, term.frame, term.scale, term.clip)
        span = (places[name].start + start, places[name].start + end)
        if any(span[0] < b and a < span[1] for a, b in spans):
            raise RookeryError(f"observe has {text!r}, and components of {name!r} before it already: name each once.")
        kept.append(term)
        spans.append(span)
    return replace(group, observation=tuple(kept), history=1), tuple(spans)
