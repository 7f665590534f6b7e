"""The demo's arithmetic: what a policy costs, what the hindsight is, which core counts are tried, what a window holds."""

from __future__ import annotations

from io import StringIO
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from advisor import Advisor
from advisor.demo import real
from advisor.demo.paper import WINDOWS, Streamed, run_paper
from advisor.demo.paper_setting import CORES, PIPELINE, mean_elapsed_s
from advisor.demo.real import Invocation, JudgedRuns, usable_cores
from advisor.demo.report import paper_as_dict, print_paper, print_real, real_as_dict

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


@pytest.fixture(scope="module")
def streamed() -> Streamed:
    """Part (b) against an advisor in this process: the service adds the wire and nothing else."""
    return run_paper(Advisor(), 1)


def test_the_online_error_reaches_its_goals(streamed: Streamed) -> None:
    by_first_row = {WINDOWS[window]: window for window in range(len(WINDOWS) - 1)}
    assert streamed.quantile(None, 0.5, by_first_row[31]) < 0.05
    assert streamed.quantile(None, 0.5, by_first_row[1001]) < 0.03
    assert streamed.quantile("two_step", 0.5, by_first_row[1001], above=500) < 0.10
    assert streamed.within("two_step", 0.10, by_first_row[1001], above=500) > 0.9


def test_the_advised_allocation_is_nearly_the_best_there_is(streamed: Streamed) -> None:
    shares = {each.label: each for each in streamed.shares}
    assert all(sum(each.cores) <= CORES for each in streamed.shares)
    best = shares["best possible, throughput"]
    assert shares["advised, throughput"].throughput_per_s > 0.97 * best.throughput_per_s
    assert shares["advised, throughput"].throughput_per_s > shares["proportional shares"].throughput_per_s
    assert shares["advised, latency"].latency_s < 1.03 * shares["best possible, latency"].latency_s
    for each in streamed.shares:
        assert each.throughput_per_s <= best.throughput_per_s * (1 + 1e-12)
        assert each.latency_s == pytest.approx(mean_elapsed_s(PIPELINE, each.cores).sum())


def test_both_parts_are_printed_and_given_as_plain_values(streamed: Streamed) -> None:
    console = Console(file=StringIO(), width=100)
    print_real(console, JUDGED)
    print_paper(console, streamed)
    text: Any = console.file
    assert "+34.7%" in text.getvalue()  # advised 4.04 s over 3 s
    assert "best possible, throughput" in text.getvalue()
    reported = loads(dumps({"real": real_as_dict(JUDGED), "paper": paper_as_dict(streamed)}, allow_nan=False))
    assert reported["real"]["policies"]["advised"]["regret"] == pytest.approx(1.04 / 3)
    assert reported["paper"]["allocations"][-1]["label"] == "best possible, latency"
