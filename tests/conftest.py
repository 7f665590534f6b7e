"""What every test stands on."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

# Tests answer by compiled kernels and refuse a call with types that no example has. Processes that they start give the same
# bytes interpreted. Who sets ADVISOR_KERNELS sets both. It is set before a source is made; pytest's workers have the
# environment of the process that started them.
os.environ.setdefault(
    "TESTED_KERNELS", os.environ.get("ADVISOR_KERNELS") or ("compiled" if find_spec("numba") else "interpreted")
)
os.environ.setdefault("ADVISOR_KERNELS", "interpreted")

# Requests run in other processes as long as a busy machine takes; tests of the deadline name their own.
os.environ.setdefault("ADVISOR_HEAVY_DEADLINE_S", "300")

import pytest
from hypothesis import HealthCheck, settings

from advisor.client import AsyncClient, SyncClient
from advisor.kernels import source

# So do answers; tests of a silent service name their own time-outs.
for client in (AsyncClient, SyncClient):
    defaults = client.__init__.__kwdefaults__
    assert defaults is not None
    defaults |= {"timeout_s": 300.0}

KERNELS = os.environ["TESTED_KERNELS"]
KERNELS = os.environ["TESTED_KERNELS"]
source.mode_reported = lambda: KERNELS

# What a commit's tests say depends on the commit alone, not on how busy the machine is. `pytest --hypothesis-profile=search`
# draws new examples at each run. Nor do they fail because a busy machine draws examples slowly.
SLOW = [HealthCheck.too_slow]
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=SLOW)
settings.register_profile("search", print_blob=True, deadline=None, suppress_health_check=SLOW)
settings.load_profile("repeatable")


# Tests with real processes, sockets, terminals and browsers. What the machine does to those is not the commit's: one that fails
# is run again, at most twice, and the summary names it as RERUN: a test to mend. All others say the same each time.
ROOMS = ("cli", "client", "cluster", "kernels", "service")
REAL = ("adapters", "anomaly", "browser", "integration", *(f"unit/{room}" for room in ROOMS))
REAL_ROOMS = tuple(Path(__file__).parent / room for room in REAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(room) for room in REAL_ROOMS):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build the libraries of kernels that were edited since the installation, before any worker begins."""
    if not hasattr(session.config, "workerinput") and KERNELS == "compiled":
        subprocess.run([sys.executable, "-P", "-m", "advisor.kernels"], check=True)
