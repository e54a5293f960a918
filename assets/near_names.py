"""The nearest of the names that exist, for one that does not: the rule behind every "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Letters of a name that is looked at."""
PART = 3
"""Letters that a beginning or a part of a name has at least."""


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name that was likely meant; None where none is near.

    Near is a slip of the pen, at most one letter in three that is wrong, missing, too many or swapped with its neighbor; and
    a name of which `given` is the beginning or one of the parts between dashes or slashes. A name that is merely the least
    unlike is not: it would lead astray. Capital letters, leading dashes, and _ for - make no difference.

    >>> nearest("drone-hoover", ["drone-hover", "drone-track"])
    'drone-hover'
    >>> nearest("hover", ["drone-hover", "drone-track"])
    'drone-hover'
    >>> nearest("a2c", ["ppo", "sac"]) is None
    True
    """
    word = _plain(given)
    if not word or len(word) > LONGEST:
        return None
    near = []
    for name in sorted(names, key=lambda n: (len(n), n)):
        other = _plain(name)
        longest = max(len(word), len(other))
        most = longest // 3
        if abs(len(word) - len(other)) <= most and (d := slips(word, other)) <= most:
            near.append((d / longest, name))
        elif len(word) >= PART and (other.startswith(word) or word in other.replace("/", "-").split("-")):
            near.append((0.5, name))
    return min(near, key=lambda x: x[0])[1] if near else None


def slips(a: str, b: str) -> int:
    """Letters to be replaced, removed, added, or swapped with their neighbor to make `b` of `a` (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            least = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                least = min(least, before[j - 2] + 1)
            current.append(least)
        before, row = row, current
    return row[-1]


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("_", "-")
