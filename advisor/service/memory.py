"""Memory of the process, and of the machine for learners."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.engine.learners import MODEL_MEMORY_BYTES

STATM = Path("/proc/self/statm")
MODEL_MEMORY_SHARE = 100  # one part in so many of the machine: 64 GiB have room for 180,000 learners


def resident_bytes() -> int | None:
    """Return the bytes of memory that the process takes now; None where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def model_memory_bytes(given: int | None) -> int:
    """Return the bytes for learners: those given, else 1 % of the machine's memory, at least what an `Advisor` takes."""
    if given is not None:
        return given
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(MODEL_MEMORY_BYTES, machine // MODEL_MEMORY_SHARE)
