"""How many workers Dask's cluster is to have: by due times, against the fewest of hindsight, without flapping."""

from __future__ import annotations

import heapq
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import Advisor
from advisor.adapters.dask.needed import Backlog, fewest, makespan

GOLDEN = Path(__file__).parents[1] / "golden"

TIMES = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=30)


@given(TIMES, st.floats(0.5, 20.0), st.integers(1, 4))
def test_the_fewest_workers_meet_the_target_where_any_number_does(
    times: list[float], within: float, threads: int
) -> None:
    found = fewest(times, within, threads)
    most = -(-len(times) // threads)
    assert 1 <= found <= most
    if makespan(times, most * threads) <= within:
        assert makespan(times, found * threads) <= within
        assert (
            found == 1 or sum(times) > within * threads * (found - 1) or makespan(times, (found - 1) * threads) > within
        )
    else:
        assert found == most


class Replay:
    """A cluster that starts and stops workers at once, takes tasks as they come, and asks for its target each second."""

    def __init__(self, target_s: float, error: float, seed: int) -> None:
        self.backlog, self.rng, self.error = Backlog(target_s), np.random.default_rng(seed), error

    def run(self, batches: dict[int, list[float]], said: list[float] | None = None) -> list[int]:
        """Return the target at each second until all is done; a prediction is off by a factor of its own, or is `said`."""
        waiting: list[tuple[float, float]] = []  # true, predicted
        busy: list[tuple[float, float, float]] = []  # end, begin, predicted
        targets: list[int] = []
        now = came = 0
        while waiting or busy or now <= max(batches):
            factor = np.exp(self.error * self.rng.standard_normal(len(batches.get(now, []))))
            found = (
                [t * f for t, f in zip(batches.get(now, []), factor.tolist(), strict=True)]
                if said is None or now
                else said
            )
            waiting += zip(batches.get(now, []), found, strict=True)
            left = [max(begin + said - now, 0.0) for _, begin, said in busy] + [said for _, said in waiting]
            came += len(found)
            targets.append(self.backlog.target(float(now), left, came=came))
            at = float(now)
            while at < now + 1:
                while waiting and len(busy) < targets[-1]:
                    true, said = waiting.pop(0)
                    heapq.heappush(busy, (at + true, at, said))
                if not busy or busy[0][0] >= now + 1:
                    break
                at = heapq.heappop(busy)[0]
            now += 1
        return targets


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("error", [0.0, 0.2])
def test_the_target_is_that_of_hindsight_and_does_not_flap(seed: int, error: float) -> None:
    """Recorded tasks: a batch of log-normal times. Hindsight is the fewest workers whose list schedule meets the target."""
    rng = np.random.default_rng(100 + seed)
    times = np.exp(0.6 * rng.standard_normal(int(rng.integers(40, 400)))).tolist()
    target_s = float(rng.uniform(15.0, 40.0))
    hindsight = next(n for n in range(1, 500) if makespan(times, n) <= target_s)
    targets = Replay(target_s, error, seed).run({0: times})
    assert all(abs(each - hindsight) <= 1 for each in targets[: int(target_s * 0.4)]), (hindsight, targets)
    assert max(targets) <= hindsight + 1
    assert all(b <= a for a, b in itertools.pairwise(targets)), targets  # only as the work runs out
    assert len(targets) <= target_s + 1  # and it is done in time


def turns(targets: list[int]) -> int:
    """How often a target rose after it had fallen, or fell after it had risen."""
    changes = [b - a for a, b in itertools.pairwise(targets) if b != a]
    return sum(a * b < 0 for a, b in itertools.pairwise(changes))


@pytest.mark.parametrize("target_s", [2.0, 3.0, 4.5])
def test_the_target_of_recorded_tasks_is_that_of_hindsight(target_s: float) -> None:
    """Sorts of 10^3 to 10^6 numbers on a busy cluster, three rounds of 300: each is judged by what those before it taught."""
    with (GOLDEN / "dask_sorts.csv").open() as file:
        tasks = [tuple(map(float, line.split(","))) for line in list(file)[1:]]
    advisor = Advisor()
    for begin in (0, 300, 600):
        sizes, times = zip(*tasks[begin : begin + 300], strict=True)
        if begin:
            said = advisor.predict("sort", predictor=sizes, cores=1).elapsed_s
            # A target is set anew each second: ten of these seconds are one of theirs.
            true, expected = ((10.0 * np.asarray(each)).tolist() for each in (times, said))
            hindsight = next(n for n in range(1, 500) if makespan(true, n) <= 10.0 * target_s)
            targets = Replay(10.0 * target_s, 0.0, 0).run({0: true}, expected)
            assert all(abs(each - hindsight) <= 1 for each in targets[: int(4.0 * target_s)]), (hindsight, targets)
            assert max(targets) <= hindsight + 1
            assert turns(targets) <= 2, targets
        for size, seconds in zip(sizes, times, strict=True):
            advisor.observe("sort", predictor=size, cores=1, elapsed_s=seconds)


def test_work_that_comes_later_is_due_later() -> None:
    targets = Replay(20.0, 0.1, 7).run({0: [1.0] * 100, 10: [1.0] * 200})
    assert targets[0] in (5, 6)
    assert max(targets[:10]) <= 6
    assert 12 <= targets[10] <= 14  # 50 that are left and 200 in 20 s
    assert turns(targets) <= 2, targets
    assert len(targets) <= 31


@pytest.mark.parametrize("seed", range(4))
def test_the_target_of_a_stream_is_what_does_as_much_as_comes(seed: int) -> None:
    """Eight tasks of a second come each second: eight workers do them, however many of them wait."""
    rng = np.random.default_rng(seed)
    come = {second: np.exp(0.3 * rng.standard_normal(n)).tolist() for second, n in enumerate(rng.poisson(8.0, 240))}
    work = sum(map(sum, come.values())) / len(come)
    targets = Replay(30.0, 0.2, seed).run(come)
    assert all(abs(each - work) <= 2.0 for each in targets[15:240]), (work, targets)
    assert len(targets) <= 240 + 30


def test_three_batches_sent_one_after_another_are_no_stream() -> None:
    targets = Replay(30.0, 0.0, 1).run({0: [1.0] * 60, 1: [1.0] * 60, 3: [1.0] * 60})
    assert max(targets) <= 180 / 30 + 2
