"""Thread pools that tests can look into, and clocks that they move: the adapter for threads without libraries and waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor import Advisor
from advisor.adapters.threads.grants import Grants


class Pool:
    """A thread pool that counts how often it is set."""

    def __init__(self, name: str, threads: int) -> None:
        self.filepath = name
        self.threads = threads
        self.sets = 0

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads
        self.sets += 1


class Found:
    """Pools that are there without a search."""

    def __init__(self, *shared: Pool) -> None:
        self.shared = list(shared)
        self.of_threads: list[Pool] = []
        self.unset: tuple[str, ...] = ()

    def look(self) -> None: ...


def use(monkeypatch: pytest.MonkeyPatch, found: Found) -> Grants:
    grants = Grants()
    grants.pools = found  # type: ignore[assignment]
    for module in ("advised", "job_pool", "jobs"):
        monkeypatch.setattr(f"advisor.adapters.threads.{module}.GRANTS", grants)
    return grants


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows_of(path: Path) -> dict[str, int]:
    """Return the runs of each component that a state file holds."""
    kept = Advisor.from_bytes(path.read_bytes())
    return {entry["component"]: entry["rows"] for entry in kept.status()["components"]}


def elsewhere(call: Callable[[], Any]) -> Any:
    """Return what a call gives in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]
