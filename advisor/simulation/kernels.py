"""The compiled loops, once `advisor.simulation.analysis.use_compiled` has put them here; those who loop look here first."""

from __future__ import annotations

from typing import Any

COMPILED: list[Any] = []  # the module `advisor.simulation.compiled`, or nothing
