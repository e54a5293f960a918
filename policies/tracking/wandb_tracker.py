"""Weights & Biases, online or offline."""

from __future__ import annotations

import netrc
import os
import secrets
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.policies.tracking.tracker import Opened, RunTracker, TrackedRun

PROJECT = "rookery"
"""Where WANDB_PROJECT names none."""
REACHED_S = 30.0
"""s within which the service must answer."""


class WandB(RunTracker):
    """A run of Weights & Biases. Its own environment variables hold: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, WANDB_DIR.

    Without a login or a network the rows are kept in files, as with WANDB_MODE=offline, and `wandb sync` sends them later.
    """

    needs = "wandb"
    extra = "wandb"

    def open(self, run: TrackedRun, state: Mapping[str, str]) -> Opened:
        import wandb

        self._wandb: Any = wandb
        found = {"id": secrets.token_hex(5), "project": os.environ.get("WANDB_PROJECT", PROJECT)} | dict(state)
        kept = run.folder if "WANDB_DIR" not in os.environ else Path(os.environ["WANDB_DIR"])
        options: dict[str, Any] = {
            "project": found["project"],
            "entity": found.get("entity"),
            "id": found["id"],
            "resume": "allow",
            "name": run.title,
            "dir": str(kept),
            "tags": [t for t in (run.task, run.algorithm) if 0 < len(t) <= 64],
        }
        values = {**run.settings, "algorithm": run.algorithm, "provenance": dict(run.provenance)}
        self._run, why = self._begin(options)
        self._run.config.update(values, allow_val_change=True)
        self._run.define_metric("eval/*", step_metric="eval/steps")
        folder = Path(self._run.dir).parent
        offline = f"{why}kept in files: send them by `wandb sync {folder}`"
        if getattr(self._run, "entity", None):
            found["entity"] = str(self._run.entity)
        return Opened(found, offline if self._run.offline else self._run.url or "")

    def _begin(self, options: dict[str, Any]) -> tuple[Any, str]:
        """The run, and why it is not online though it was to be."""
        begun = self._wandb.setup().settings
        options |= {"settings": self._wandb.Settings(silent=True, console="off", init_timeout=REACHED_S)}
        mode = os.environ.get("WANDB_MODE") or begun.mode
        if mode in ("offline", "disabled"):
            return self._wandb.init(**options, mode=mode), ""
        why = "not logged in (`wandb login`), "
        if _login(begun):  # without, `wandb.init` asks for one on a terminal
            try:
                return self._wandb.init(**options, mode=mode), ""
            except Exception as error:
                why = f"no answer ({_first_line(error)}), "
                self._wandb.teardown()  # its service holds the id of the run that failed
        return self._wandb.init(**options, mode="offline"), why

    def log(self, row: Mapping[str, float], steps: int) -> None:
        self._run.log(dict(row), step=steps)  # steps that it has already are left out

    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        self._run.log({**figures, "eval/steps": steps})

    def video(self, file: Path, name: str, steps: int) -> None:
        self._run.log({name: self._wandb.Video(str(file), format=file.suffix.lstrip(".")), "eval/steps": steps})

    def close(self, ended: str) -> None:
        self._run.finish(exit_code={"failed": 1, "interrupted": 130}.get(ended, 0))


def _login(settings: Any) -> bool:
    """True where there is a key for the service."""
    if settings.api_key or os.environ.get("WANDB_API_KEY") or settings.identity_token_file:
        return True
    try:
        known = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return known.authenticators(urllib.parse.urlsplit(settings.base_url).hostname or "") is not None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
