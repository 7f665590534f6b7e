"""What this machine has and does beside this process: cores, the cache folder, and the load of others."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path
from typing import Final

LOAD_S: Final = 1.0  # between two looks at the machine's load: a look takes 30 microseconds, ticks are 10 ms
QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
TICKS: Final = Path("/proc/stat")


def cores_here() -> int:
    """Return how many cores this process may use: its affinity, and the quota of its group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
        return max(1, min(cores, int(float(quota) / float(period))))
    except (OSError, ValueError):  # no such file, or "max": no quota
        return cores


def cache_file() -> Path:
    """Return the file of this machine in the user's cache folder, which several machines may share."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "advisor"
    return folder / f"threads-{re.sub(r'[^A-Za-z0-9-]', '_', platform.node()) or 'machine'}.state"


class MachineLoad:
    """The cores that other processes keep busy, looked at no more often than each `LOAD_S` seconds."""

    def __init__(self) -> None:
        self._at = 0.0
        self._ticks = (0.0, 0.0)
        self._cores = 0.0

    def cores(self) -> float:
        """Return the busy cores of other processes over the last while, to a whole number; 0 where nobody tells."""
        now = time.monotonic()
        if now - self._at < LOAD_S:
            return self._cores
        own = sum(os.times()[:2])
        try:
            with TICKS.open("rb") as file:
                ticks = [int(tick) for tick in file.readline().split()[1:9]]
        except (OSError, ValueError):
            self._at = now + 1e9
            return 0.0
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        elapsed, (busy_before, own_before) = now - self._at, self._ticks
        if busy_before and elapsed < 100 * LOAD_S:  # a look of long ago tells of no load of now
            self._cores = float(max(0, round((busy - busy_before - (own - own_before)) / elapsed)))
        self._at, self._ticks = now, (busy, own)
        return self._cores
