"""Each source of kernels gives the same bytes with the compiler off and on, on the same streams.

A source that has no stream here, and no entry that says where its law is, fails.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_laws import both_ways
from profile_laws import state_bytes
from task_program import Program, recursive

from advisor import kernels
from advisor.domain.networks import network_from_nodes
from advisor.domain.task_events import TaskEvents
from advisor.domain.task_graphs import task_graph
from advisor.engine import Advisor
from advisor.kernels.__main__ import modules
from advisor.models.fold import KERNELS
from advisor.planning import Request, judge, moves, packing, partitions, pieces, record_runs
from advisor.planning.structure import structure_of
from advisor.planning.visits import visits_of
from advisor.profile.checkpoint import to_bytes
from advisor.profile.profiler import Profiler
from advisor.simulation import simulate

pytestmark = pytest.mark.skipif(not kernels.can_compile(), reason="numba is not installed")


def events() -> TaskEvents:
    made = Program(3, recursive(5, 2, 300), contention=1.0).run()
    return TaskEvents(made.records[made.records["time"].argsort(kind="stable")], made.strings)


def profiled() -> Any:
    """A recursive program in three batches; what was open is lost at the end."""
    profiler, given = Profiler(window_ns=0), events()
    reported: list[Any] = []
    for number, part in enumerate(np.array_split(given.records, 3)):
        folded = profiler.fold_batch(TaskEvents(part, given.strings if number == 0 else ()))
        reported.append((folded.accepted, folded.ended, folded.sizes))
    return reported, state_bytes(profiler), to_bytes(profiler)


def drawn(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    count = 60
    edges = sorted({(int(i), j) for j in range(1, count) for i in rng.integers(0, j, rng.integers(0, 3))})
    columns = {"creates": rng.integers(0, 4, count), "waits": rng.integers(0, 2, count)}
    return task_graph(rng.integers(0, 9, count).astype(float), edges, unit="ns", columns=columns)


def analysed() -> Any:
    policies = ("fifo", "lifo", "lpt", "bottom_level", "static_cyclic", "heft")
    found: list[Any] = []
    for seed in range(5):
        for cores in (1, 3, 100):
            for policy in policies:
                execution = simulate(drawn(seed), cores, policy, trace=policy == "heft")
                found.append((execution.ticks, execution.trace))
    return found


def rows_of(rng: np.random.Generator, n: int, predictors: int) -> dict[str, Any]:
    """Return rows of one component that becomes four times slower, some of them wild, on machines, with counts."""
    x, p = 10.0 ** rng.uniform(0.0, 4.0, (n, predictors)), rng.choice([0.5, 1.0, 4.0, 47.0], n)
    x[rng.random(n) < 0.1, 0] = 0.0
    t = (1e-3 + 1e-5 * x.sum(axis=1)) * (0.1 + 0.9 / p) * rng.lognormal(0.0, 0.1, n)
    t *= np.where(np.arange(n) < 2 * n // 3, 1.0, 4.0) * np.where(rng.random(n) < 0.03, 1e4, 1.0)
    machine = [None if i < 0 else f"m{i}" for i in rng.integers(-1, 9, n).tolist()]  # more than are told apart
    return {
        "components": ["c"], "index": np.zeros(n, np.int64), "predictor": x[:, 0] if predictors == 1 else x, "cores": p,
        "elapsed_s": t, "count": rng.integers(1, 5, n), "machine": machine,
    }  # fmt: skip


def asked(advisor: Advisor, predictors: int) -> list[Any]:
    """Return what an advisor answers of its component: points, curves, machines, suggestions, contention."""
    x = np.array([0.0, 3.0, 200.0, 1e7])
    at = x if predictors == 1 else np.stack([x] * predictors, axis=1)
    answers = [
        advisor.predict("c", predictor=where, cores=3.0, machine=machine, level=0.8)
        for machine in (None, "m1", "never seen")
        for where in (at, at[2])
    ]
    found: list[Any] = [(each.elapsed_s, each.low_s, each.high_s, each.extrapolates) for each in answers]
    found.append(advisor.choose_cores("c", predictor=at[2], cores_max=64).cores)
    found += [(s.predictor, s.cores) for s in advisor.suggest("c", limit=2)]
    return [*found, advisor.contention("c").kappa, advisor.to_bytes()]


def taught() -> Any:
    """Components of one and two predictors that learn by batches and rows, are asked, merged and forgotten."""
    found: list[Any] = []
    for predictors in (1, 2):
        rng = np.random.default_rng(predictors)
        one, other = Advisor(), Advisor()
        one.observe_columns(**rows_of(rng, 120, predictors))
        other.observe_columns(**rows_of(rng, 40, predictors))
        for i in range(6):
            one.observe("c", predictor=[2.0 + i, 3.0][:predictors], cores=2, elapsed_s=1e-2 * (1 + i))
        if predictors == 1:  # contention is found, and what was learned before is carried
            rows = rows_of(rng, 40, 1)
            busy = rng.integers(0, 9, 40)
            rows["elapsed_s"] *= 1.0 + 0.5 * busy
            other.observe_columns(**rows, active_cores=rows["cores"] + busy)
        found += [asked(one, predictors), asked(other, predictors)]
        one.merge(other)
        found.append(asked(one, predictors))
        one.forget("c")
        found.append(one.to_bytes())
        one.observe_columns(**rows_of(rng, 10, predictors))
        found.append(asked(one, predictors))
        found.append(
            one.predict("c", predictor=3.0 if predictors == 1 else [3.0, 2.0], cores=3.0, model="amdahl").elapsed_s
        )
    return found


def tabled() -> list[Any]:
    """Learn three components, one of two predictors, and make their tables: of their own load and of a given one."""
    rng, found = np.random.default_rng(5), list[Any]()
    for predictors in (1, 2):
        one = Advisor()
        one.observe_columns(**rows_of(rng, 300, predictors))
        names = sorted(one.components.slots.components)
        loads: list[dict[str, float]] = [{}, {names[0]: 3.0}] if predictors == 1 else [{}]
        for load in loads:
            curves = one.curve_tables.curves(names, load=load, cores_max=40)
            found += [curves.elapsed_s, curves.upper_s, curves.variation]
    return found


def leaned() -> list[Any]:
    """Predict a component of one to four rows among siblings, over one predictor and over two."""
    found: list[Any] = []
    for predictors in (1, 2):
        advisor, rng = Advisor(), np.random.default_rng(8)
        advisor.observe_columns(**rows_of(rng, 60, predictors))
        for _ in range(4):
            point = rng.uniform(1.0, 50.0, predictors).tolist()
            x = point[0] if predictors == 1 else point
            advisor.observe(
                "young", predictor=x, cores=float(rng.integers(1, 9)), elapsed_s=float(rng.uniform(1.0, 2.0))
            )
            answer = advisor.predict("young", predictor=x, cores=16)
            found += [answer.elapsed_s, answer.low_s, answer.high_s]
            assert "other component" in answer.notes[0]
    return found


def chosen() -> list[Any]:
    """Choose cores of three components, two with many seen counts: by time and core-seconds, with a risk, of all loads."""
    found: list[Any] = []
    for predictors in (1, 2):
        advisor, rng = Advisor(), np.random.default_rng(6 + predictors)
        for n in (3, 40, 300):
            rows = rows_of(rng, n, predictors)
            advisor.observe_columns(**(rows | {"cores": rng.integers(1, 40, n).astype(float)}))
            for x in (3.0, 1e5, None) if predictors == 1 else ([3.0, 20.0],):
                for asked in ({}, {"risk": 0.5}, {"objective": "core_seconds"}, {"tolerance": 0.0}, {"explore": True}):
                    choice = advisor.choose_cores("c", predictor=x, cores_max=100, **asked)
                    found.append((choice.cores, choice.elapsed_s, choice.low_s, choice.high_s, choice.fastest_s))
    return found


def drawn_pieces(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    knots = np.cumsum(np.append(1, rng.integers(1, 4, m - 1))).astype(np.float64)
    low = rng.integers(1, 3, n)
    return [rng.random((n, m)), rng.random((n, m)) * 3 - 0.3, knots, low, low + rng.integers(0, 2 * m, n)]


def searched() -> list[Any]:
    """Fewest cores for some seconds, shapes and shortest periods, on curves that rise and fall, under rules, with instances."""
    found: list[Any] = []
    elapsed, upper = np.random.default_rng(1).random((2, 3, 4)) + np.array([0.5, 1.0])[:, None, None]
    for price in (0.0, 1.5):
        level, fall = np.zeros((2, 3, 4))
        seen = np.array([1.0, 2.0, 9.0]), np.array([2.0, 6.0, 9.0])
        pieces.KERNELS.pieces_of(np.array([1.0, 2.0, 4.0, 6.0]), elapsed, upper, *seen, price, level, fall)
        seconds = np.zeros((2, 3))
        pieces.KERNELS.all_seconds(
            level, fall, np.array([1.0, 2.0, 4.0, 6.0]), np.array([[1.0, 3.5, 9.0]] * 2), seconds
        )
        found += [level, fall, seconds]
    for n, m, instances in ((1, 1, 1), (3, 6, 3), (200, 9, 1), (50, 9, 4)):
        drawn, visits = drawn_pieces(n, m), np.linspace(0, 1, n)
        rules = np.tile([1, 0, 2], (n, 1))
        rules[::3, 0], rules[1::5, 0], rules[2::7, 0] = 2, 0, -1
        low, high = 2 * np.ones(n, np.int64), drawn[4] + 8
        firsts = np.where(np.arange(n) % 4 == 3, 0, -1)
        shares = np.array([1.0, 0.6, 0.4, 0.3])
        limits = low, high, np.ones(n, np.int64), np.full(n, instances), rules, np.array([2, 5]), firsts, shares
        (taken, other), turns = np.zeros((2, 2, n), np.int64), np.zeros(n)
        sizes, numbers = np.array([1, 2, 3, 5, 8, 12, 40]), np.arange(1, instances + 1)
        for by_stay in (False, True):
            (a, b), (c, d) = np.zeros((2, n, 7)), np.zeros((2, n, 7), np.int64)
            pieces.KERNELS.best_places(tuple(drawn[:3]), limits, visits, sizes, numbers, by_stay, a, b, c, d)
            found += [a, b, c, d]
        for share in (0.0, 0.3, 1.0):
            cores = int(low.sum() + share * (high - low).sum())
            times, shapes = np.zeros((2, n, 4)), np.zeros((2, n, 4), np.int64)
            few = np.arange(1, 5 if n < 10 else 1), numbers
            group, widths, periods = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(2)
            for target in (0.0, 0.7):
                partitions.KERNELS.best_period(
                    tuple(drawn[:3]), limits, visits, cores, target, taken, turns, few, times, shapes, group,
                    widths, periods,
                )  # fmt: skip
                found += [periods.copy(), taken.copy(), group.copy()]
            period = float(periods[0])
            found += [
                *pieces.KERNELS.shapes_within(tuple(drawn[:3]), limits, visits, 1.3 * period, other, turns),
            ]
            found += [other.copy()]
    return found


def partitioned() -> list[Any]:
    """Shortest cycles, fewest cores and partitions of few components."""
    found: list[Any] = []
    for n in (1, 3, 6):
        turns = np.minimum.accumulate(np.random.default_rng(n).random((n, 9)), axis=1)
        shortest = partitions.best_partition_of(turns, turns, 9)
        assert shortest is not None
        some = partitions.best_partition_of(turns, turns, 9, target_s=1.1 * shortest[0])
        assert some is not None
        assert partitions.best_partition_of(turns, turns, 9, 0.9 * shortest[0]) is None
        found += [*shortest, *some]
    return found


def packed() -> list[Any]:
    """What is packed of more components: with exchanges, without any, and where nothing is better."""
    found: list[Any] = []
    for n, cores in ((4, 3), (12, 20), (packing.EXCHANGED_MAX + 1, 40)):
        turns = np.minimum.accumulate(np.random.default_rng(n).random((n, 9)), axis=1)
        turns[0, 0] = np.inf
        sizes = np.array([1, 2, 3, 5, 8, 12, 16, 30, 40])
        for enough in (np.inf, 0.01):
            found += packing.shortest_packing_of(turns, sizes, cores, enough) or [None]
    return found


def judged() -> list[Any]:
    """Figures of allocations with cores of one's own and in turns, with and without contention; one without any visit."""
    rng, found = np.random.default_rng(7), list[Any]()
    for visits in (np.array([1.0, 0.5, 0.0, 2.0]), np.zeros(4)):
        seconds, cores = rng.random((3, 4)), rng.integers(1, 9, (3, 4)).astype(np.float64)
        for group in (judge.NO_GROUP, rng.integers(0, 3, (3, 4))):
            cycle, busy, figures = np.zeros((3, 4)), np.zeros((3, 4)), np.zeros((3, 3))
            given = visits, seconds, seconds * 1.2, np.full((3, 4), 0.5), cores, group
            judge.KERNELS.figures_of(*given, cycle, busy, figures)
            found += [cycle, busy, figures]
            wait, spread, servers = np.zeros((3, 4)), np.zeros((3, 4)), rng.integers(1, 4, (3, 4))
            judge.KERNELS.queue_waits(visits, seconds, rng.random(4), servers, 0.7, group, wait, spread)
            found += [wait, spread]
    return found


def given_away() -> list[Any]:
    """Cores given step by step, by the largest gain a core and to the largest value; some values are infinite."""
    rng, found = np.random.default_rng(11), list[Any]()
    weight = np.cumsum(rng.integers(1, 4, (6, 7)), axis=1)
    values = np.minimum.accumulate(rng.random((6, 7)), axis=1)
    values[2, :2] = np.inf
    for by_sum in (False, True):
        keys = np.zeros((6, 7))
        moves.KERNELS.step_keys(
            values, weight, np.array([7, 7, 7, 3, 1, 7]), np.array([0, 0, 0, 1, 0, 0]), by_sum, keys
        )
        found += [keys]
    return found


def executed() -> list[Any]:
    """Records through every kind of point, with queues that share cores and without, and an overload."""
    nodes = [{"kind": "box", "name": name} for name in "abcde"]
    nodes += [
        {"kind": "join", "children": [0, 1]}, {"kind": "feedback", "children": [2]},
        {"kind": "choice", "children": [5, 6], "ordered": True}, {"kind": "split", "children": [3], "tag": "t"},
        {"kind": "replication", "children": [4], "ordered": True}, {"kind": "series", "children": [7, 8, 9]},
    ]  # fmt: skip
    network = network_from_nodes(nodes)
    request = Request(
        cores=9,
        shares=[[0.4, 0.6]],
        returns=[0.3],
        fan_outs=[[0.5, 0.3, 0.2]],
        depths=[[0.2, 0.5, 0.3]],
        visits={"a": 0.6},
    )
    structure = structure_of(network, visits_of(network, request))
    found: list[Any] = []
    for group in (None, np.array([0, 1, 0, 2, 1])):
        for rate in (0.2, 0.4, 4.0):
            runs = record_runs.RecordRuns(structure, np.array([0.0, 0.3, 1.0, 2.0, 0.5]), rate, 1.0)
            many = np.ones(5, np.int64) if group is not None else np.array([1, 2, 1, 2, 1])
            found += runs.run_records(np.array([1.0, 0.8, 0.5, 1.2, 0.7]), many, group, 0.9, 20) or [None]
    return found


STREAMS: dict[str, Callable[[], Any]] = {
    "advisor.models.fold": lambda: [taught(), leaned(), chosen()],
    "advisor.models.load_table": tabled,
    "advisor.planning.judge": judged,
    "advisor.planning.moves": given_away,
    "advisor.planning.packing": packed,
    "advisor.planning.partitions": partitioned,
    "advisor.planning.pieces": searched,
    "advisor.planning.record_kernels": executed,
    "advisor.profile.kernels": profiled,
    "advisor.simulation.loops": analysed,
}


def ours() -> dict[str, kernels.Source]:
    return {each.module: each for each in kernels.sources() if each.module.startswith("advisor.")}


@pytest.mark.parametrize("module", STREAMS)
def test_the_same_bytes_interpreted_and_compiled(module):
    both_ways(STREAMS[module], ours()[module])


def test_the_stream_of_the_learner_calls_every_entry(monkeypatch: pytest.MonkeyPatch):
    called: set[str] = set()

    def counted(name: str, entry: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            called.add(name)
            return entry(*given)

        return call

    for name, entry in KERNELS.entries.items():
        monkeypatch.setattr(KERNELS, name, counted(name, entry))
    states = [part for part in taught() if isinstance(part, list)]
    assert leaned()
    assert chosen()
    assert called == set(KERNELS.plain)
    assert states


def test_every_source_has_a_stream():
    assert set(modules()) == set(STREAMS)


def test_all_sources_are_filled_by_one_command():
    ran = subprocess.run([sys.executable, "-m", "advisor.kernels"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(source.library() for source in ours().values())
