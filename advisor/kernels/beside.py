"""Half a second of imports and machine code beside threads that have to answer: who waits for them waits a few milliseconds."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

SWITCH_S = 0.001  # a thread that wants to run waits so long for one that loads, in place of Python's 5 ms


@contextmanager
def beside_others() -> Generator[None]:
    """Load what a block loads without a long stop of other threads.

    Looking for cycles among some 300,000 new objects took 30 ms at a time, with all threads stopped: it waits until the block
    is done, and then what was loaded is old at once and not looked through. If the program has frozen what it has, it is frozen
    too.
    """
    collects, interval = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(interval, SWITCH_S))
    try:
        with suppress(OSError, AttributeError, ValueError):
            _map_llvm()
        yield
    finally:
        sys.setswitchinterval(interval)
        if collects:
            frozen = gc.get_freeze_count()
            gc.freeze()
            if not frozen:
                gc.unfreeze()  # into the oldest generation
            gc.enable()


def _map_llvm() -> None:
    """Map the library of llvmlite, 100 MB, by a call that lets other threads run; importing it would stop them meanwhile."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return
    [library] = (Path(spec.origin).parent / "binding").glob("libllvmlite.*")
    mapped = ctypes.CDLL(None).dlopen
    mapped.restype, mapped.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
    mapped(os.fsencode(library), os.RTLD_NOW | os.RTLD_LOCAL)
