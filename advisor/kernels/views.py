"""Interpreted kernels on arrays. Python reads a memoryview of an array several times as fast as the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np


def on_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an interpreted kernel that takes arrays, alone or in tuples, as compiled ones do."""
    return lambda *given: function(*map(_viewed, given))


def _viewed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return memoryview(cast("Any", value))
    return tuple(map(_viewed, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else value
