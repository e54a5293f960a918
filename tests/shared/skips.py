"""Skips that are right on any machine.

All others are for want of something that can be installed, as .ci/run does: there, where CI=true, they are failures, so that a
peer, a compiler or a browser cannot go missing in silence.
"""

from __future__ import annotations

import os

ALLOWED = (
    "its worlds depend on each other",
    "written by a benchmark with a form of its own",
    "needs a checkout with all of its history",
    "the targets are x86-64 processors",
    "this processor lacks instructions of the target",
    "there is a CUDA device",
    "no GPU",
    "this machine makes no network namespaces",
    "this ffmpeg does not write AV1",
    "not run against flight code:",
)
"""Beginnings of reasons that no installation of .ci/run changes."""


def refused(reason: str) -> str | None:
    """Why a test that was skipped for this reason has failed here; None where it may be skipped."""
    reason = reason.removeprefix("Skipped: ")
    if os.environ.get("CI") != "true" or reason.startswith(ALLOWED):
        return None
    return f"skipped where CI=true, which nothing may be for want of what .ci/run installs: {reason}"
