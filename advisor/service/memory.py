"""A budget for the whole service: what would make it grow is refused with words, before the kernel kills it without."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.errors import Unavailable
from advisor.service.logs import event

STATM = Path("/proc/self/statm")
MODEL_MEMORY_SHARE = 100  # one part in so many of the machine: 64 GiB have room for 180,000 learners
LOOKS_EVERY_S = 0.25  # in which the fastest sender of new names brings some 20 MB
SHORT_FROM, WELL_BELOW = 0.9, 0.8  # of the budget: it is short from the one on, until the other


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


def give_back() -> None:
    """Give to the system what nobody uses."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class Memory:
    """Whether the service is short of memory.

    `bytes_max`: the budget; without one it is never short.
    """

    def __init__(self, bytes_max: int | None, resident: Callable[[], int | None] = resident_bytes) -> None:
        self.bytes_max = bytes_max
        self.short = False
        self._resident = resident

    def check_memory(self, *, may_recover: bool) -> bool:
        """Look how much is taken; return whether `short` has changed."""
        taken = self._resident()
        if self.bytes_max is None or taken is None:
            return False
        if not self.short and taken >= SHORT_FROM * self.bytes_max:
            give_back()
            taken = self._resident() or taken
            self.short = taken >= SHORT_FROM * self.bytes_max
            if self.short:
                event(logging.WARNING, "short of memory: nothing new is taken", bytes=taken, memory_max=self.bytes_max)
            return self.short
        if self.short and may_recover and taken < WELL_BELOW * self.bytes_max:
            self.short = False
            event(logging.WARNING, "memory suffices again", bytes=taken, memory_max=self.bytes_max)
            return True
        return False

    def refuse_while_short(self) -> None:
        """Refuse what would make the service grow; raises Unavailable."""
        if self.short:
            raise Unavailable(
                "the service is short of memory", field="memory_max", value=self._resident(), bound=self.bytes_max,
                hint="rows of known components and questions go on; forget what nobody needs, or raise memory_max",
            )  # fmt: skip
