"""Benchmarks are scripts beside the package: their folder is on the path here, as it is where they run. Pools for threads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from thread_pools import Found, Pool, use

from advisor.adapters.threads import Advised

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.fixture
def blas(monkeypatch: pytest.MonkeyPatch) -> Pool:
    pool = Pool("blas", 7)
    use(monkeypatch, Found(pool))
    return pool


@pytest.fixture
def advised(tmp_path: Path) -> Advised:
    return Advised(path=tmp_path / "threads.state", cores_max=4, load=lambda: 0.0)
