"""The one exception whose text is meant for the person at the keyboard, here since all packages raise it."""

from __future__ import annotations

from collections.abc import Iterable

from rookery.assets.near_names import nearest


class RookeryError(Exception):
    """Something the user can put right. The message is one sentence that says what was wrong and the way out.

    The command line prints it without a traceback and exits with 2. What exceeds `LONGEST` characters, such as a value that was
    read from a damaged file, is left out of its middle.
    """

    LONGEST = 2000

    def __init__(self, message: str = "") -> None:
        if len(message) > self.LONGEST:
            message = f"{message[: self.LONGEST - 805]} ... {message[-800:]}"
        super().__init__(message)


def unknown(what: str, given: object, allowed: Iterable[str]) -> RookeryError:
    """An error for a name that does not exist, with one that is near, where there is one. Files may give what is no text.

    >>> str(unknown("task", "drone-hoover", ["drone-hover", "drone-track"]))
    "unknown task 'drone-hoover': did you mean 'drone-hover'? Known: drone-hover, drone-track."
    """
    names = sorted(allowed)
    name = str(given)
    name = name if len(name) <= 200 else name[:197] + "..."
    near = nearest(name, names)
    hint = f": did you mean {near!r}? Known" if near else ". Known"
    return RookeryError(f"unknown {what} {name!r}{hint}: {', '.join(names) or 'none'}.")
