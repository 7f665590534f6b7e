"""The demo's arithmetic: what a policy costs, what the hindsight is, which core counts are tried, what a window holds."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from json import dumps, loads
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from advisor import Advisor
from advisor.demo import real
from advisor.demo.kernels import KERNELS
from advisor.demo.paper import WINDOWS, Streamed, run_paper
from advisor.demo.paper_setting import CORES, PIPELINE, mean_elapsed_s
from advisor.demo.real import Invocation, JudgedRuns, candidates, run_real, usable_cores
from advisor.demo.report import draw_paper, draw_real, paper_as_dict, print_paper, print_real, real_as_dict
from advisor.domain.answers import CoreChoice

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


def test_policies_are_added_up_over_the_same_invocations() -> None:
    assert {policy: JUDGED.total_s(policy) for policy in real.POLICIES} == {
        "one core": 6.0, "all cores": 6.0, "advised": pytest.approx(4.04), "hindsight best": 3.0,
    }  # fmt: skip
    assert JUDGED.total_s("advised", "sort") == 3.0
    assert JUDGED.core_s("advised") == pytest.approx(2.0 * 2 + 1.0 + 1.04 * 2)
    assert JUDGED.regret("one core") == pytest.approx(1.0)


def test_a_choice_within_the_tolerance_is_right_and_slowdown_is_geometric() -> None:
    assert JUDGED.right_share("advised") == pytest.approx(2 / 3)
    assert JUDGED.slowdown("one core") == pytest.approx(4 ** (1 / 3))
    assert JUDGED.slowdown("hindsight best") == 1.0


@pytest.mark.parametrize("cores", [1, 2, 3, 5, 16, 48, 64])
def test_the_core_counts_tried_reach_from_one_to_all_and_are_few(cores: int) -> None:
    tried = candidates(cores)
    assert (tried[0], tried[-1]) == (1, cores)
    assert len(tried) <= real.CANDIDATES_MAX
    assert list(tried) == sorted(set(tried))


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


class Listener:
    """Takes what the experiment sends, and advises in turn every core count from 1."""

    def __init__(self) -> None:
        self.observed: list[tuple[str, float, float, float]] = []
        self.asked: list[tuple[str, float]] = []
        self.flushed_at: list[int] = []

    def observe(self, component: str, *, predictor: float, cores: float, elapsed_s: float) -> None:
        self.observed.append((component, predictor, cores, elapsed_s))

    def flush(self) -> None:
        self.flushed_at.append(len(self.observed))

    def choose_cores(self, component: str, *, predictor: float, cores_max: int, tolerance: float) -> CoreChoice:
        self.asked.append((component, predictor))
        cores = len(self.asked) % cores_max + 1
        return CoreChoice(cores, 1.0, 1.0, 1.0, "", cores, 1.0, 0.0, "", (), (), False, (cores,))


@pytest.mark.parametrize("cores", [1, 3])
def test_advice_is_asked_and_followed_for_every_invocation_and_measured_runs_are_sent(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "SIDES", (4, 12))
    listener, ticks = Listener(), Counter[str]()
    judged = run_real(listener, 3, cores=cores, learned=6, judged=4, tick=lambda: ticks.update(["tick"]))
    assert ticks["tick"] == 10
    assert judged.learned == 6 * len(KERNELS)
    assert [(run.component, run.side) for run in judged.invocations] == listener.asked
    assert all(4 <= run.side <= 12 for run in judged.invocations)
    for run in judged.invocations:
        assert {1, cores, run.advised} <= run.elapsed_s.keys()
        assert run.seconds("hindsight best") == min(run.elapsed_s.values())
    learned, followed = listener.observed[: judged.learned], listener.observed[judged.learned :]
    for name in KERNELS:  # each component has met every candidate
        assert {c for component, _, c, _ in learned if component == name} == set(candidates(cores))
    assert [(c, x, p) for c, x, p, _ in followed] == [(r.component, r.side, r.advised) for r in judged.invocations]
    assert all(t > 0 for *_, t in listener.observed)
    # No record is measured while the service still learns the one before: it would take a core from it.
    assert listener.flushed_at == [len(KERNELS) * record for record in range(1, 11)]


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


def test_every_row_is_counted_in_one_window(streamed: Streamed) -> None:
    held = [len(streamed.of(None, window)) for window in range(len(WINDOWS) - 1)]
    assert sum(held) == len(streamed.row) - len(PIPELINE) * (WINDOWS[0] - 1)
    assert streamed.row.max() == WINDOWS[-1] - 1


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


def test_both_parts_are_printed_drawn_and_told_as_plain_values(streamed: Streamed, tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=100)
    print_real(console, JUDGED)
    print_paper(console, streamed)
    text: Any = console.file
    assert "+34.7%" in text.getvalue()  # advised 4.04 s over 3 s
    assert "best possible, throughput" in text.getvalue()
    for drawn in (draw_real(tmp_path / "a.png", JUDGED), draw_paper(tmp_path / "b.png", streamed)):
        assert drawn.read_bytes().startswith(b"\x89PNG")
    told = loads(dumps({"real": real_as_dict(JUDGED), "paper": paper_as_dict(streamed)}, allow_nan=False))
    assert told["real"]["policies"]["advised"]["regret"] == pytest.approx(1.04 / 3)
    assert told["paper"]["allocations"][-1]["label"] == "best possible, latency"
