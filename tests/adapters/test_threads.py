"""The adapter for threads: limits as they were, one writer of what is learned, and advice that is worth its time."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import threads as bench
from hypothesis import given, settings
from hypothesis import strategies as st
from live import running

from advisor import Advisor, SyncClient
from advisor.adapters.threads import Advised
from advisor.adapters.threads.deciding import FLOOR_S, LOSS_SHARE, UNSEEN_S, Deciding, powers
from advisor.adapters.threads.grants import Grant, Grants
from advisor.adapters.threads.memory import Memory
from advisor.errors import InvalidValue

GOLDEN = Path(__file__).parents[1] / "golden"


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

    def look(self) -> None: ...


@pytest.fixture
def blas(monkeypatch: pytest.MonkeyPatch) -> Pool:
    pool = Pool("blas", 7)
    use(monkeypatch, Found(pool))
    return pool


def use(monkeypatch: pytest.MonkeyPatch, found: Found) -> Grants:
    grants = Grants()
    grants.pools = found  # type: ignore[assignment]
    for module in ("advised", "executor"):
        monkeypatch.setattr(f"advisor.adapters.threads.{module}.GRANTS", grants)
    return grants


@pytest.fixture
def advised(tmp_path: Path) -> Advised:
    return Advised(path=tmp_path / "threads.state", cores_max=4, load=lambda: 0.0)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows_of(path: Path) -> dict[str, int]:
    """Return the runs of each component that a state file holds."""
    with path.open("rb") as file:
        file.readline()
        kept = Advisor.from_bytes(file.read())
    return {entry["component"]: entry["rows"] for entry in kept.status()["components"]}


# -- limits -----------------------------------------------------------------------------------------------------------------


def test_a_block_limits_the_pools_and_leaves_them_as_they_were(advised: Advised, blas: Pool) -> None:
    with advised.cores("fit", predictor=10) as cores:
        assert blas.threads == cores == 1
    assert blas.threads == 7


def test_a_limit_that_holds_already_is_not_set(advised: Advised, blas: Pool) -> None:
    blas.threads = 1
    with advised.cores("fit") as cores:
        assert cores == 1
    assert blas.sets == 0


def test_an_exception_passes_and_leaves_the_limits(advised: Advised, blas: Pool) -> None:
    with pytest.raises(KeyError), advised.cores("fit"):
        raise KeyError
    assert blas.threads == 7


def test_a_call_within_a_call_has_its_cores_at_most(blas: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    grants = use(monkeypatch, Found(blas))
    outer = grants.enter(4, 8)
    assert grants.available(8) == 4
    inner = grants.enter(8, 8)
    assert inner.cores == blas.threads == 4
    grants.leave(inner)
    narrow = grants.enter(2, 8)
    assert blas.threads == 2
    grants.leave(narrow)
    assert blas.threads == 4
    grants.leave(outer)
    assert blas.threads == 7
    assert outer.changed
    assert not narrow.changed


def elsewhere(call: Callable[[], Any]) -> Any:
    """Return what a call gives in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20), st.integers(1, 16), st.booleans(), st.integers(0, 30))))
def test_calls_that_overlap_never_exceed_their_cores_together(steps: list[tuple[bool, int, int, bool, int]]) -> None:
    grants, blas = GRANTS, POOL
    assert blas.threads == 7
    running: list[Grant] = []
    for ends, wish, cores_max, workers, which in steps:
        if ends and running:
            grant = running.pop(which % len(running))
            elsewhere(lambda grant=grant: grants.leave(grant))
        elif not ends:
            running.append(elsewhere(lambda w=wish, c=cores_max, j=workers: grants.enter(min(w, c), c, workers=j)))
        if not running:
            assert blas.threads == 7
            continue
        held = sum(grant.cores for grant in running if grant.workers)
        calls = sum(not grant.workers for grant in running)
        fewest = min(grant.cores_max for grant in running)
        # A call never waits: where there are more of them than cores, each has one; what workers hold is theirs until they end.
        assert calls * blas.threads <= max(calls, fewest - held)
        assert all(1 <= grant.cores <= min(grant.wish, grant.cores_max) for grant in running)
        assert all(grant.changed or grant.workers or grant.cores == blas.threads for grant in running)
    for grant in running:
        elsewhere(lambda grant=grant: grants.leave(grant))
    assert blas.threads == 7


POOL = Pool("blas", 7)
GRANTS = Grants()
GRANTS.pools = Found(POOL)  # type: ignore[assignment]


def test_workers_take_what_calls_leave(monkeypatch: pytest.MonkeyPatch, blas: Pool) -> None:
    grants = use(monkeypatch, Found(blas))
    call = elsewhere(lambda: grants.enter(4, 4))
    workers = grants.enter(4, 4, workers=True)
    assert workers.cores + blas.threads <= 4
    assert blas.threads == 1
    assert call.changed
    assert call.others == workers.cores
    grants.leave(workers)
    assert blas.threads == 4
    elsewhere(lambda: grants.leave(call))


def test_tasks_of_one_loop_overlap_like_threads(monkeypatch: pytest.MonkeyPatch, blas: Pool, tmp_path: Path) -> None:
    use(monkeypatch, Found(blas))
    advised = Advised(path=tmp_path / "t.state", load=lambda: 0.0)
    seen: list[int] = []

    @advised("task", cores_max=1)
    async def task() -> None:
        seen.append(blas.threads)
        await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task(), task())

    asyncio.run(both())
    assert seen == [1, 1]
    assert blas.threads == 7


# -- deciding ---------------------------------------------------------------------------------------------------------------


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

    def predict(self: Memory, component: str, **more: Any) -> Any:
        asked.append(more)
        return self._learn().predict(component, **more)

    monkeypatch.setattr(Memory, "predict", predict)
    for _ in range(100):
        with advised.cores("short", predictor=9.0, cores_max=8) as cores:
            assert cores == 1
            clock.now += FLOOR_S / 2
    assert len(asked) == 1  # whether the component is known


def played(tmp_path: Path, calls: int, seconds: Callable[[int], float], others: float = 0.0) -> list[int]:
    """Return the cores of calls that take 0.1 s on one core, on two `seconds` of how many there were, by a planted clock."""
    clock, chosen = Clock(), list[int]()
    advised = Advised(path=tmp_path / "t.state", clock=clock, cores_max=2, load=lambda: others)
    for _ in range(calls):
        with advised.cores("fit", predictor=9.0) as cores:
            chosen.append(cores)
            clock.now += seconds(chosen.count(2)) if cores == 2 else 0.1
    advised.close()
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
    before.close()
    again = Clock()
    after = Advised(path=path, clock=again, load=lambda: 0.0)
    assert run(after, again) == 4
    after.close()


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
        elsewhere(lambda: grants.leave(other))
    advised.close()
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
    advised.close()
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


def test_a_service_that_is_away_does_not_stop_a_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SyncClient(str(tmp_path / "nobody.sock")) as client:
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


# -- the file ---------------------------------------------------------------------------------------------------------------


def learned(memory: Memory, runs: int, component: str = "fit") -> None:
    for number in range(runs):
        memory.observe(component, predictor=1.0 + number, cores=1, elapsed_s=1.0)


def test_one_process_writes_and_the_others_leave_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    one, other = Memory(path), Memory(path)
    learned(one, 3)
    one.flush()
    learned(other, 2, "solve")
    other.close()
    assert rows_of(path) == {"fit": 3}
    assert len(list(tmp_path.glob("*.rows"))) == 1
    learned(one, 1)
    one.close()
    assert rows_of(path) == {"fit": 4, "solve": 2}
    assert not list(tmp_path.glob("*.rows"))


def test_who_waits_writes_when_the_writer_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    one, other = Memory(path), Memory(path)
    learned(one, 3)
    one.flush()
    learned(other, 2, "solve")
    other.flush()
    one.close()
    learned(other, 5, "solve")
    other.close()
    assert rows_of(path) == {"fit": 3, "solve": 7}


def test_rows_that_a_state_holds_are_not_learned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.state"
    one, other = Memory(path), Memory(path)
    learned(one, 1)
    one.flush()
    learned(other, 2)
    other.close()
    with monkeypatch.context() as killed:  # between the state's file and the rows'
        killed.setattr(Path, "unlink", lambda *_args, **_more: None)
        learned(one, 1)
        one.close()
    assert rows_of(path) == {"fit": 4}
    assert list(tmp_path.glob("*.rows"))
    last = Memory(path)
    learned(last, 1)
    last.close()
    assert rows_of(path) == {"fit": 5}
    assert not list(tmp_path.glob("*.rows"))


@pytest.mark.parametrize("data", [b"", b"no header\n", b'{"taken": []}\nno state', b'["taken"]\n'])
def test_a_damaged_file_is_put_aside(tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.state"
    path.write_bytes(data)
    memory = Memory(path)
    learned(memory, 2)
    memory.close()
    assert rows_of(path) == {"fit": 2}
    assert path.with_suffix(".damaged").read_bytes() == data
    assert "put aside" in caplog.text


def test_rows_that_cannot_be_read_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.state"
    (tmp_path / "t.1-1-1.rows").write_text('[["fit"')
    (tmp_path / "t.1-1-2.rows").write_text('[["fit", 1.0, 1, 1.0, NaN, true], ["fit", 1.0, 1, -1.0, NaN, true]]')
    memory = Memory(path)
    learned(memory, 1)
    memory.close()
    assert rows_of(path) == {"fit": 2}
    assert "are lost" in caplog.text
    assert "1 of 2 runs are not learned" in caplog.text


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    memory = Memory(tmp_path / "file" / "t.state")
    learned(memory, 2)
    assert float(memory.predict("fit", predictor=1.0, cores=1).elapsed_s) == pytest.approx(1.0, rel=0.1)
    memory.close()
    assert caplog.text


FORKING = """
import os, sys
from pathlib import Path
from advisor.adapters.threads import Advised
from advisor.adapters.threads.grants import GRANTS

path = Path(sys.argv[1])
now = [0.0]
advised = Advised(path=path, clock=lambda: now[0], load=lambda: 0.0, cores_max=2)

def run(name):
    with advised.cores(name, predictor=5.0):
        now[0] += 1.0

for _ in range(3):
    run("parent")
advised.flush()
before = path.read_bytes()
limits = [pool.get_num_threads() for pool in GRANTS.pools.shared]
for _ in range(4):
    run("parent")  # learned by the parent, and not written yet
with advised.cores("parent", predictor=5.0):
    if (child := os.fork()) == 0:
        now[0] += 1.0
if not child:
    assert [pool.get_num_threads() for pool in GRANTS.pools.shared] == limits
    for _ in range(2):
        run("child")
    advised.close()
    assert path.read_bytes() == before
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
now[0] += 1.0
assert [pool.get_num_threads() for pool in GRANTS.pools.shared] == limits
assert len(list(path.parent.glob(f"*.{child}-*.rows"))) == 1
run("parent")
advised.close()
"""


def test_a_forked_child_never_writes_its_parents_state(tmp_path: Path) -> None:
    path = tmp_path / "t.state"
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The fork took no time of its block, on the clock of the parent, which had three, four and one runs beside.
    assert rows_of(path) == {"parent": 8, "child": 2}


# -- what advice is worth ---------------------------------------------------------------------------------------------------


def test_recorded_calls_take_little_more_than_on_the_best_constant_number_of_threads() -> None:
    told = bench.replay(GOLDEN / "thread_calls.csv")
    assert told["best"] <= 1.05
    assert told["all_to_best"] >= 3.0
    assert told["all"] <= 0.5


def test_on_a_machine_whose_best_number_grows_with_size_calls_are_near_hindsight() -> None:
    for name, told in bench.planted(1500, 7).items():
        assert told["hindsight"] <= 1.10, name


# -- joblib and futures -----------------------------------------------------------------------------------------------------


def test_joblib_runs_on_the_cores_that_are_advised(advised: Advised) -> None:
    joblib = pytest.importorskip("joblib")
    squares = advised.parallel("squares", backend="threading")
    for _ in range(4):
        assert squares(joblib.delayed(pow)(n, 2) for n in range(10)) == [n * n for n in range(10)]


def test_an_executor_runs_what_it_is_given(advised: Advised) -> None:
    with advised.executor("task", predictor=lambda n, _two: n) as executor:
        futures = [executor.submit(pow, n, 2) for n in range(100)]
        failed = executor.submit(pow, 1, "two")
        assert [future.result() for future in futures] == [n * n for n in range(100)]
        with pytest.raises(TypeError):
            failed.result()
    with pytest.raises(RuntimeError):
        executor.submit(pow, 1, 2)


class ByHand(Executor):
    """Workers that begin when the test says so."""

    def __init__(self, grants: Grants) -> None:
        self.given: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.more_than_granted: list[int] = []
        self._grants = grants

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.given.append((Future(), lambda: fn(*args, **kwargs)))
        self.more_than_granted.append(len(self.given) - sum(grant.cores for grant in self._grants._roots))
        return self.given[-1][0]

    def run(self) -> None:
        future, call = self.given.popleft()
        future.set_result(call())


@pytest.mark.parametrize("numbers", [(4, 1, 3, 2), (1, 4), (2,)])
def test_an_executor_runs_no_more_at_once_than_advised(
    numbers: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the number falls from one stretch to the next, while tasks of the one before still run."""
    advice = itertools.cycle(numbers)
    monkeypatch.setattr(Deciding, "cores", lambda *_: next(advice))
    inner = ByHand(use(monkeypatch, Found(Pool("blas", 7))))
    executor = Advised(path=tmp_path / "t.state", load=lambda: 0.0).executor("task", cores_max=4, executor=inner)
    futures = [executor.submit(pow, n, 2) for n in range(200)]
    while inner.given:
        inner.run()
    executor.shutdown()
    assert [future.result() for future in futures] == [n * n for n in range(200)]
    assert max(inner.more_than_granted) == 0


def test_tasks_that_are_cancelled_do_not_run(advised: Advised) -> None:
    gate = threading.Event()
    executor = advised.executor("task", cores_max=1)
    first = executor.submit(gate.wait)
    others = [executor.submit(pow, n, 2) for n in range(5)]
    assert others[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert first.result()
    assert all(other.cancelled() for other in others)
