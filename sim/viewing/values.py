"""Values that a page has sent, which may be anything: a page is a program of whoever opened it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def read(handle: Any, otherwise: Any) -> Any:
    """The value of a control.

    Args:
        handle: of a dropdown, slider or checkbox.
        otherwise: taken in place of a value that the control does not offer.
    """
    value = handle.value
    if hasattr(handle, "options"):
        return value if isinstance(value, str) and value in handle.options else otherwise
    if hasattr(handle, "min"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return value if number and handle.min <= value <= handle.max else otherwise
    return value if isinstance(value, bool) else otherwise


def is_place(values: Any) -> bool:
    """True where values are a place [3], m, within 1,000 km."""
    try:
        place = np.asarray(values, float)
    except (TypeError, ValueError):
        return False
    return place.shape == (3,) and bool((np.abs(place) < 1e6).all())
