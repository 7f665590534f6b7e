"""The adapter for Dask: in a real scheduler, and by scripted transitions where a race cannot be arranged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live import running
from served import Served

from advisor import Advisor
from advisor.adapters.dask.sizes import cleaned
from advisor.client import SyncClient
from advisor.domain.names import normalised_name
from advisor.errors import InvalidValue

distributed = pytest.importorskip("distributed", reason="NO DASK HERE: install the extra `dask` to run this")

from distributed import Client, LocalCluster, Scheduler, SchedulerPlugin, Worker  # noqa: E402

from advisor.adapters.dask import AdvisorPlugin  # noqa: E402

PATIENCE_S = 300.0


# -- what is pure -----------------------------------------------------------------------------------------------------------


@given(st.text(min_size=0, max_size=300))
def test_a_cleaned_prefix_is_a_name(prefix: str) -> None:
    assert normalised_name(cleaned(prefix)) == cleaned(prefix)


# -- scripted transitions ----------------------------------------------------------------------------------------------------


class Reported:
    """A client that keeps what it is told, and answers by an advisor in this process."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.advisor = Advisor()

    def observe(self, component: str, predictor: Any, cores: int, elapsed_s: float, ok: bool = True) -> None:
        self.rows.append((component, predictor, elapsed_s, ok))
        self.advisor.observe(component, predictor=predictor, cores=cores, elapsed_s=elapsed_s, ok=ok)

    def predict(self, component: str, predictor: Any, cores: int) -> Any:
        return self.advisor.predict(component, predictor=predictor, cores=cores)


class Scripted:
    """A plugin in a scheduler of attributes only."""

    def __init__(self) -> None:
        self.plugin, self.client = AdvisorPlugin("/nowhere"), Reported()
        self.tasks: dict[str, Any] = {}
        self.prefixes: dict[str, Any] = {}
        whatever: Any = SimpleNamespace(
            tasks=self.tasks, workers={}, queued=[], unrunnable=[], task_prefixes=self.prefixes
        )
        client: Any = self.client
        self.plugin._scheduler, self.plugin._client = whatever, client

    def begin(self, key: str, prefix: str = "f", nbytes: list[int] | None = None, **annotations: Any) -> Any:
        of = self.prefixes.setdefault(prefix, SimpleNamespace(name=prefix, duration_average=-1.0, states={}))
        deps = [SimpleNamespace(nbytes=each) for each in nbytes or []]
        self.tasks[key] = SimpleNamespace(
            key=key, prefix=of, dependencies=deps, annotations=annotations, resource_restrictions=None
        )
        self.plugin.transition(key, "waiting", "processing", stimulus_id="s")
        return of

    def end(self, key: str, finish: str = "memory", seconds: float = 1.0) -> None:
        reported: dict[str, Any] = {"startstops": [{"action": "transfer", "start": 0.0, "stop": 9.0},
                                               {"action": "compute", "start": 10.0, "stop": 10.0 + seconds}]}  # fmt: skip
        self.plugin.transition(
            key, "processing", finish, stimulus_id="s", **(reported if finish in ("memory", "erred") else {})
        )
        self.plugin.send_rows()

    def ask(self) -> None:
        for known in self.plugin._prefixes.values():
            sizes = known.question()
            bare = self.plugin._ask(known, None)[0] if known.mixed else None
            known.store_predictions(sizes, self.plugin._ask(known, sizes), bare)


def test_each_successful_run_is_a_row_with_the_bytes_of_its_inputs() -> None:
    it = Scripted()
    it.begin("a", nbytes=[100, 50, -1])
    it.end("a", seconds=2.0)
    it.begin("b")
    it.end("b", seconds=3.0)
    it.begin("c", predictor=7)
    it.end("c")
    odd = [float("nan"), float("inf"), -1, 10**400, "7", [7], None]
    for each in odd:
        it.begin("d", nbytes=[9], predictor=each)
        it.end("d")
    it.begin("e", predictor=np.int64(7))
    it.end("e")
    assert it.client.rows == [
        ("f", 150.0, 2.0, True),
        ("f", None, 3.0, True),
        ("f", 7.0, 1.0, True),
        *[("f", None, 1.0, True) for _ in odd],
        ("f", 7.0, 1.0, True),
    ]


def test_tasks_without_inputs_and_sizes_below_one_are_predicted_as_what_they_are() -> None:
    """Of one prefix: tasks without inputs take 5 ms, those with 10^4 to 10^6 bytes 0.1 to 10 s; of another, sizes up to one."""
    it, rng = Scripted(), np.random.default_rng(5)
    for i in range(120):
        size = int(10 ** rng.uniform(4, 6))
        it.begin("a", nbytes=[size] if i % 2 else None)
        it.end("a", seconds=1e-5 * size if i % 2 else 0.005)
        share = float(rng.uniform(0.01, 1.0))
        it.begin("b", "small", predictor=share)
        it.end("b", seconds=share)
    it.ask()
    mixed, small = it.plugin._prefixes["f"], it.plugin._prefixes["small"]
    assert mixed.seconds(None) == pytest.approx(0.005, rel=0.3)
    assert mixed.seconds(1e5) == pytest.approx(1.0, rel=0.3)
    assert small.seconds(0.1) == pytest.approx(0.1, rel=0.2)


def test_predictions_stand_where_dask_has_its_moving_average_and_are_nearer() -> None:
    """Tasks whose time grows with their inputs, three decades of them, 10 % noise: 40 of them learned, 400 judged."""
    it, rng = Scripted(), np.random.default_rng(3)
    ours, theirs, average = [], [], -1.0
    for i in range(440):
        size = float(10 ** rng.uniform(3, 6))
        seconds = (0.01 + 1e-6 * size) * float(np.exp(0.1 * rng.standard_normal()))
        of = it.begin(f"k{i}", nbytes=[int(size)])
        if i >= 40:
            said = it.plugin.estimate(it.tasks[f"k{i}"])
            assert said is not None
            assert of.duration_average == pytest.approx(said)  # the only one at work
            ours.append(abs(said - seconds) / seconds)
            theirs.append(abs(average - seconds) / seconds)
        it.end(f"k{i}", seconds=seconds)
        average = seconds if average < 0 else 0.5 * average + 0.5 * seconds
        if it.plugin._prefixes["f"].due:
            it.ask()
    assert np.mean(ours) <= 0.7 * np.mean(theirs)
    assert np.mean(ours) < 0.15


def test_a_client_that_would_wait_is_refused() -> None:
    with pytest.raises(InvalidValue, match="when_full"):
        AdvisorPlugin("/nowhere", when_full="block")


# -- a real scheduler --------------------------------------------------------------------------------------------------------


class Counted(SchedulerPlugin):
    """Ends of runs, counted beside the plugin that is judged."""

    name = "counted"

    def __init__(self) -> None:
        self.successes = 0

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        self.successes += (start, finish) == ("processing", "memory")


async def test_a_scheduler_in_this_process_tells_its_successful_runs_and_is_told_what_they_take(tmp_path: Path) -> None:
    """Everything in one loop: no process but this one, no port, no dashboard."""

    def fails(i: int) -> int:
        raise ValueError(i)

    async with (
        asyncio.timeout(PATIENCE_S),
        running(tmp_path) as live,
        Scheduler(protocol="inproc", dashboard=False, dashboard_address=":0") as scheduler,
        Worker(scheduler.address, nthreads=2, dashboard=False, local_directory=str(tmp_path)),
        Client(scheduler.address, asynchronous=True) as client,
    ):
        plugin, counted = AdvisorPlugin(str(tmp_path / "s")), Counted()
        scheduler.add_plugin(counted)
        await plugin.start(scheduler)
        assert plugin._asking is not None
        plugin._asking.cancel()  # it is asked below, when all has run
        scheduler.add_plugin(plugin)
        squares = client.map(pow, range(30), [2] * 30)
        total = client.submit(sum, squares)
        assert await client.gather(total) == 8555
        await distributed.wait(client.map(fails, range(4)))
        assert plugin._client is not None
        plugin.send_rows()
        held = await asyncio.to_thread(plugin._client.flush, PATIENCE_S)
        assert (held.rows_held, plugin.rows_sent, counted.successes) == (0, 31, 31)
        known = plugin._prefixes["pow"]
        assert known.due
        assert known.mean_s is None
        await plugin.ask_now()
        assert known.mean_s is not None
        assert 0.0 < known.mean_s < PATIENCE_S
        assert await client.submit(pow, 3, 5) == 243
        assert scheduler.task_prefixes["pow"].duration_average == pytest.approx(known.mean_s)
        plugin.send_rows()
        await asyncio.to_thread(plugin._client.flush, PATIENCE_S)
        status = await (await live.peer()).call("status", {"components": ["pow", "sum"]})
        assert {each["component"] for each in status["components"]} == {"pow", "sum"}
        assert status["totals"]["rows_failed"] == 4
        assert status["totals"]["rows_accepted"] == 36
        assert [each["rows"] for each in status["components"]] == [31, 1]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, state=True) as found:
        yield found


@pytest.mark.slow
def test_rows_are_the_successful_runs_through_retries_lost_workers_and_a_kill_of_the_service(service: Served) -> None:
    attempts: dict[int, int] = {}

    def flaky(i: int) -> int:
        attempts[i] = attempts.get(i, 0) + 1
        if attempts[i] < 3:
            raise OSError(i)
        return i

    def fails(i: int) -> int:
        raise ValueError(i)

    def work(i: int) -> bytes:
        return bytes(1000 * (i + 1))

    def reads(data: bytes) -> int:
        return len(data)

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        plugin, counted = AdvisorPlugin(str(service.path)), Counted()
        client.register_plugin(plugin)
        client.register_plugin(counted)
        inner = cluster.scheduler.plugins["advisor"]
        counter = cluster.scheduler.plugins["counted"]
        assert client.gather(client.map(reads, client.map(work, range(30)))) == [1000 * (i + 1) for i in range(30)]
        assert client.gather(client.map(flaky, range(5), retries=5)) == list(range(5))
        failed = client.map(fails, range(4))
        distributed.wait(failed, timeout=PATIENCE_S)
        service.kill()
        kept = client.map(work, range(100, 120))
        distributed.wait(kept, timeout=PATIENCE_S)
        assert service.start()
        cluster.scale(1)  # a worker goes, with results that are computed again
        cluster.wait_for_workers(1, timeout=PATIENCE_S)
        assert [len(each) for each in client.gather(kept)] == [1000 * (i + 1) for i in range(100, 120)]
        inner.send_rows()
        held = inner._client.flush(PATIENCE_S)
        assert held.rows_held == 0
        assert inner.rows_sent == counter.successes >= 85
        with SyncClient(str(service.path)) as asked:
            status = asked.status(components=["work", "reads", "flaky", "fails"])
            rows = {each["component"]: each["rows"] for each in status["components"]}
            totals = status["totals"]
            assert totals["rows_accepted"] - totals["rows_failed"] == inner.rows_sent
            assert rows["flaky"] == 5
            assert rows["reads"] == 30
            assert totals["rows_failed"] == 4
