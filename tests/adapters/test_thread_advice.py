"""Which cores a call is given, what is learned of it, and that advice is worth its time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import threads as bench
from live import running
from thread_pools import Clock, Found, Pool, elsewhere, rows_of, use

from advisor import SyncClient
from advisor.adapters.threads import Advised
from advisor.adapters.threads.deciding import LOSS_SHARE, UNSEEN_S, powers
from advisor.adapters.threads.memory import FunctionMemory
from advisor.adapters.threads.size import FLOOR_S, LONG
from advisor.errors import InvalidValue

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_first_calls_try_powers_of_two(advised: Advised, tmp_path: Path) -> None:
    clock = Clock()
    advised = Advised(path=tmp_path / "t.state", clock=clock, load=lambda: 0.0)
    tried: list[int] = []
    for _ in range(5):
        with advised.cores("fit", predictor=9.0, cores_max=12) as cores:
            tried.append(cores)
            clock.now += 1.0 / cores
    assert tried == powers(12) == [1, 2, 4, 8, 12]


def test_calls_below_the_floor_ask_nothing(advised: Advised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    advised = Advised(path=tmp_path / "t.state", clock=clock, load=lambda: 0.0)
    asked: list[Any] = []

    def predict(self: FunctionMemory, component: str, **more: Any) -> Any:
        asked.append(more)
        return self._learn().predict(component, **more)

    monkeypatch.setattr(FunctionMemory, "predict", predict)
    for _ in range(100):
        with advised.cores("short", predictor=9.0, cores_max=8) as cores:
            assert cores == 1
            clock.now += FLOOR_S / 2
    assert len(asked) == 1  # whether the component is known


def test_short_calls_of_a_function_pass_until_one_takes_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pool = Clock(), Pool("blas", 7)
    use(monkeypatch, Found(pool))
    advised = Advised(path=tmp_path / "t.state", clock=clock, load=lambda: 0.0)
    limits: list[int] = []

    @advised("short", predictor=lambda n, _seconds: n, cores_max=2)
    def call(n: int, seconds: float) -> int:
        limits.append(pool.threads)
        clock.now += seconds
        return n

    short, longer = FLOOR_S / 4, 2.0 * FLOOR_S
    assert [call(n, seconds) for n, seconds in ((9, short), (9, short), (900, longer), (9, short))] == [9, 9, 900, 9]
    assert limits == [1, 7, 2, 7]  # the first of each size is measured
    long = (longer,) * LONG
    for seconds in (*long[1:], short, *long, short, short, short):  # fewer in a row change nothing
        call(9, seconds)
    assert limits[4:] == [*[7] * (2 * LONG), 1, 1, 7]  # measured until two in a row are short


def played(tmp_path: Path, calls: int, seconds: Callable[[int], float], others: float = 0.0) -> list[int]:
    """Return the cores of calls that take 0.1 s on one core, on two `seconds` of how many there were, by a planted clock."""
    clock, chosen = Clock(), list[int]()
    advised = Advised(path=tmp_path / "t.state", clock=clock, cores_max=2, load=lambda: others)
    for _ in range(calls):
        with advised.cores("fit", predictor=9.0) as cores:
            chosen.append(cores)
            clock.now += seconds(chosen.count(2)) if cores == 2 else 0.1
    advised.flush()
    return chosen


def test_threads_that_stall_are_left_until_a_hundredth_of_the_time_would_pay_for_it(tmp_path: Path) -> None:
    """Two cores are faster but for each fifth run, which takes a second; after ten runs they never stall again."""
    chosen = played(tmp_path, 2_000, lambda n: 1.0 if n in (5, 10) else 0.06)
    at = [number for number, cores in enumerate(chosen) if cores == 2]
    pauses = [
        later - before for before, later in itertools.pairwise(at) if later > before + 2
    ]  # else a look at one core
    assert len(pauses) == 2
    assert min(pauses) >= 0.9 / LOSS_SHARE / 0.1
    assert chosen[-100:].count(2) >= 95


def test_where_others_have_the_cores_a_stall_is_reckoned_with_until_it_can_be_afforded(tmp_path: Path) -> None:
    alone, beside = (played(tmp_path / str(others), 100, lambda _: 0.095, others) for others in (0.0, 1.0))
    assert alone[3:].count(2) >= 90  # the others look at one core
    first = beside.index(2, 3)
    assert UNSEEN_S / LOSS_SHARE <= 0.1 * first <= UNSEEN_S / LOSS_SHARE * 1.2
    assert beside[first:].count(2) >= 0.9 * len(beside[first:])


def test_cores_that_others_keep_busy_are_not_looked_at(tmp_path: Path) -> None:
    alone, beside = (played(tmp_path / str(others), 1_000, lambda _: 0.1001, others) for others in (0.0, 1.0))
    assert 2 in alone[100:]
    assert 2 not in beside[2:]


def test_runs_much_longer_than_those_on_many_cores_try_them_again(tmp_path: Path) -> None:
    """Short runs are three times slower on two cores: of them nobody can tell what two are worth to runs of 20 ms."""
    clock, chosen = Clock(), list[int]()
    advised = Advised(path=tmp_path / "t.state", clock=clock, cores_max=2, load=lambda: 0.0)
    for number in range(200):
        long = number >= 60 and number % 2 == 0
        work_s = (0.02 if long else 1e-3) * 1.1 ** (number % 7)
        with advised.cores("fit", predictor=1e6 * work_s) as cores:
            clock.now += work_s if cores == 1 else work_s * (0.55 if long else 3.0)
        if long:
            chosen.append(cores)
    advised.flush()
    assert chosen[-40:].count(2) >= 36


def test_what_was_learned_is_used_at_once_by_the_next_process(tmp_path: Path) -> None:
    first = Clock()
    path = tmp_path / "t.state"

    def run(advised: Advised, clock: Clock) -> int:
        with advised.cores("fit", predictor=9.0, cores_max=8) as cores:
            clock.now += 1.0 + abs(cores - 4)
        return cores

    before = Advised(path=path, clock=first, load=lambda: 0.0)
    for _ in range(40):
        run(before, first)
    before.flush()
    again = Clock()
    after = Advised(path=path, clock=again, load=lambda: 0.0)
    assert run(after, again) == 4
    after.flush()


def test_a_run_whose_limit_changed_is_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blas: Pool) -> None:
    grants = use(monkeypatch, Found(blas))
    clock = Clock()
    path = tmp_path / "t.state"
    advised = Advised(path=path, clock=clock, load=lambda: 0.0)
    for _ in range(4):
        with advised.cores("fit", predictor=9.0, cores_max=4) as cores:
            clock.now += 1.0 / cores
    with advised.cores("fit", predictor=9.0, cores_max=4) as cores:
        assert cores == 4
        other = elsewhere(lambda: grants.enter(4, 4))
        assert blas.threads == 2
        clock.now += 1.0
        elsewhere(lambda: grants.end_call(other))
    advised.flush()
    assert rows_of(path) == {"fit": 4}


def test_failed_runs_are_counted_and_not_learned(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "t.state"
    advised = Advised(path=path, clock=clock, load=lambda: 0.0)
    for number in range(3):
        with failing(number == 1), advised.cores("fit", predictor=9.0, cores_max=1):
            clock.now += 1.0
            if number == 1:
                raise KeyError
    advised.flush()
    assert rows_of(path) == {"fit": 2}


@contextmanager
def failing(fails: bool) -> Any:
    if fails:
        with pytest.raises(KeyError):
            yield
    else:
        yield


@pytest.mark.parametrize("predictor", [-1.0, float("nan"), "many", (1, 2, 3, 4, 5), 2.0**61])
def test_a_predictor_that_is_none_is_told(advised: Advised, predictor: Any) -> None:
    with pytest.raises(InvalidValue, match="predictor"), advised.cores("fit", predictor=predictor):
        pass


@pytest.mark.parametrize("cores_max", [0, -1, True, 1.5, "all"])
def test_cores_that_are_none_are_told(advised: Advised, cores_max: Any) -> None:
    with pytest.raises(InvalidValue, match="cores_max"):
        advised.cores("fit", cores_max=cores_max)


def test_a_service_that_is_away_does_not_stop_a_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.adapters.threads.advised.ASK_S", 0.1)
    with SyncClient(str(tmp_path / "nobody.sock"), close_s=0.0) as client:  # nobody takes what is held
        advised = Advised(client, load=lambda: 0.0)

        @advised("sum", predictor=len, cores_max=2)
        def total(values: list[int]) -> int:
            return sum(values)

        assert [total([1, 2]) for _ in range(5)] == [3] * 5
    assert "without advice" in caplog.text


async def test_a_service_learns_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a planted clock two cores are best: a second process asks nothing of its own, and has them from its first call on."""
    monkeypatch.setattr("advisor.adapters.threads.advised.ASK_S", 60.0)
    seconds = {1: 1.0, 2: 0.6, 3: 0.9, 4: 1.5}

    def calls(address: Path, n: int) -> tuple[list[int], int]:
        now = [0.0]
        chosen: list[int] = []
        with SyncClient(str(address)) as client:
            advised = Advised(client, clock=lambda: now[0], load=lambda: 0.0)
            for _ in range(n):
                with advised.cores("fit", predictor=1000.0, cores_max=4) as cores:
                    now[0] += seconds[cores]
                chosen.append(cores)
                client.flush(60.0)  # what is asked next has seen it
            (status,) = client.status(components=["fit"])["components"]
        return chosen, status["rows"]

    async with running(tmp_path) as live:
        assert live.bound.socket is not None
        chosen, rows = await asyncio.to_thread(calls, live.bound.socket, 60)
        assert rows == 60
        assert Counter(chosen[-20:])[2] >= 18
        chosen, rows = await asyncio.to_thread(calls, live.bound.socket, 5)
        assert rows == 65
        assert 2 in chosen


def test_recorded_calls_take_little_more_than_on_the_best_constant_number_of_threads() -> None:
    reported = bench.replay(GOLDEN / "thread_calls.csv")
    assert reported["best"] <= 1.05
    assert reported["all_to_best"] >= 3.0
    assert reported["all"] <= 0.5


def test_on_a_machine_whose_best_number_grows_with_size_calls_are_near_hindsight() -> None:
    for name, reported in bench.planted(1500, 7).items():
        assert reported["hindsight"] <= 1.10, name
