"""The installed version; `pyproject.toml` is where it is written."""

from __future__ import annotations

import importlib.metadata

try:
    __version__ = importlib.metadata.version("rookery")
except importlib.metadata.PackageNotFoundError:  # a folder of links without an installation
    __version__ = "unknown"
