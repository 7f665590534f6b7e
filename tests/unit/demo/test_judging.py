"""The demo's arithmetic: what a policy costs, what the hindsight is, which core counts are tried."""

from __future__ import annotations

from io import StringIO
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from advisor.demo import real
from advisor.demo.real import Invocation, JudgedRuns, usable_cores
from advisor.demo.report import print_real, real_as_dict

JUDGED = JudgedRuns(
    4,
    10,
    (
        Invocation("sort", 100, 2, {1: 4.0, 2: 2.0, 4: 1.0}),
        Invocation("sort", 10, 1, {1: 1.0, 2: 2.0, 4: 2.0}),
        Invocation("reduce", 10, 2, {1: 1.0, 2: 1.04, 4: 3.0}),
    ),
    np.array([1e-3]),
)


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", 10**6), ("150000 100000", 1), ("50000 100000", 1), ("garbage", 10**6)]
)
def test_a_quota_of_the_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, most: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "cpu.max")
    assert 1 <= usable_cores() <= most
    monkeypatch.setattr(real, "CGROUP_QUOTA", tmp_path / "none")
    assert usable_cores() >= 1


def test_the_demo_is_printed_and_given_as_plain_values() -> None:
    console = Console(file=StringIO(), width=100)
    print_real(console, JUDGED)
    text: Any = console.file
    assert "+34.7%" in text.getvalue()  # advised 4.04 s over 3 s
    reported = loads(dumps(real_as_dict(JUDGED), allow_nan=False))
    assert reported["policies"]["advised"]["regret"] == pytest.approx(1.04 / 3)
