"""Jobs of one pool against closed forms: the price rule, and heSRPT (Berg, Vesilo, Harchol-Balter 2020) for power laws."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from advisor.domain.vectors import Floats
from advisor.planning.job_pool import JobCurve, PoolJob, share_pool

CORES = 1024
COUNTS = np.arange(1, CORES + 1)


def power_law(size: float, k: float) -> JobCurve:
    seconds: Floats = size * np.power(COUNTS, -k, dtype=np.float64)
    return JobCurve(COUNTS, seconds, seconds)


def waiting(curve: JobCurve, **given: Any) -> PoolJob:
    return PoolJob(lambda: curve, 1, **given)


@pytest.mark.parametrize(("k", "behind"), list(product((0.2, 0.5, 0.8), (5, 20, 100))))
def test_the_price_rule_gives_the_count_of_the_closed_form(k: float, behind: int) -> None:
    first, *_ = share_pool([waiting(power_law(10.0, k))] * (behind + 1), CORES)
    assert first.cores == pytest.approx(min(k * CORES / ((1.0 - k) * behind), CORES), abs=0.51)


@pytest.mark.parametrize("weight", [0.25, 4.0])
def test_a_weight_counts_like_so_many_jobs(weight: float) -> None:
    jobs = [waiting(power_law(10.0, 0.5), weight=weight), *[waiting(power_law(10.0, 0.5))] * 40]
    assert share_pool(jobs, CORES)[0].cores == pytest.approx(CORES * weight / 40, abs=0.51)


def hesrpt(sizes: list[float], k: float) -> tuple[np.ndarray, float]:
    """Return the shares (m,) of jobs of sizes (m,), the largest first, and the least total flow time."""
    e, m = 1.0 / (1.0 - k), len(sizes)
    i = np.arange(1, m + 1)
    steps = i**e - (i - 1) ** e
    return steps / m**e, float(CORES**-k * (np.sort(sizes)[::-1] * steps ** (1.0 - k)).sum())


def total_flow(sizes: list[float], k: float, restart_s: float = 0.0) -> float:
    """Return the sum of the response times of resizable jobs that are all there at first, asked anew when one ends."""
    done, now, cores = np.zeros(len(sizes)), 0.0, np.zeros(len(sizes), int)
    left, flow, curves = list(range(len(sizes))), 0.0, [power_law(size, k) for size in sizes]
    while left:
        jobs = [
            waiting(curves[i], cores_now=int(cores[i]), resizable=True, done=float(done[i]), restart_s=restart_s)
            for i in left
        ]
        given = share_pool(jobs, CORES)
        assert sum(each.cores for each in given) <= CORES
        rate, lost = np.zeros(len(sizes)), np.zeros(len(sizes))
        for i, each in zip(left, given, strict=True):
            assert each.cores or not cores[i], "a running job was stopped"
            lost[i] = restart_s if cores[i] not in (0, each.cores) else 0.0
            cores[i] = each.cores
            rate[i] = each.cores**k / sizes[i]
        ends = {i: lost[i] + (1.0 - done[i]) / rate[i] for i in left if rate[i]}
        first = min(ends, key=lambda i: ends[i])
        now += ends[first]
        done += rate * np.maximum(ends[first] - lost, 0.0)
        done = np.minimum(done, 0.999999)
        left.remove(first)
        flow += now
    return flow


@pytest.mark.parametrize(("k", "seed"), list(product((0.3, 0.5, 0.8), (1, 2))))
def test_resizable_jobs_that_are_all_there_get_hesrpts_shares_and_its_total_flow(k: float, seed: int) -> None:
    sizes = sorted(np.random.default_rng(seed).lognormal(3.0, 1.0, 12), reverse=True)
    shares, least = hesrpt(sizes, k)
    given = share_pool([waiting(power_law(size, k), resizable=True) for size in sizes], CORES)
    assert [each.cores for each in given] == pytest.approx(shares * CORES, abs=0.02 * CORES)
    assert least * (1.0 - 1e-9) <= total_flow(sizes, k) <= 1.02 * least


def test_a_restart_that_costs_more_than_it_gains_is_not_made() -> None:
    sizes, now = [100.0, 50.0, 20.0, 5.0], [100, 200, 300, 400]

    def counts(restart_s: float) -> list[int]:
        jobs = [
            waiting(power_law(size, 0.5), cores_now=count, resizable=True, restart_s=restart_s)
            for size, count in zip(sizes, now, strict=True)
        ]
        return [each.cores for each in share_pool(jobs, CORES)]

    assert counts(1e6) == now
    assert counts(0.0) != now
    assert total_flow(sizes, 0.5, restart_s=0.05) < 1.05 * total_flow(sizes, 0.5)
