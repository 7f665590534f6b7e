"""Task events: decoded to columns, profiled with and without numba, and the memory of it over ten million tasks.

Run ``python -m benchmarks.profiling [--tasks N] [--quick]``. Each speed stands beside a baseline of the same run: a profiler of
the usual kind, one object an event and a dictionary a node. Times are CPU times: the machine may have other work to do.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from task_program import Program, recursive

from advisor.domain.task_events import TaskEvents, decode
from advisor.kernels import can_compile
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.view import profile_of

REPEATS = 7


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least CPU seconds of several runs."""
    found: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


class Baseline:
    """Objects and dictionaries: an event an object, a node a dictionary's entry. Exclusive times only, tasks as regions."""

    class Event:
        __slots__ = ("instance", "kind", "name", "thread", "time")

        def __init__(self, row: tuple[int, ...]) -> None:
            self.time, self.instance, _, self.name, self.thread, self.kind, _ = row

    def __init__(self) -> None:
        self.nodes: dict[tuple[object, ...], list[int]] = {}
        self.stacks: dict[int, list[tuple[int, int]]] = {}

    def fold(self, records: np.ndarray) -> None:
        for row in records.tolist():
            event = self.Event(row)
            stack = self.stacks.setdefault(event.thread if not event.instance else -event.instance, [])
            if event.kind in (1, 5, 8):
                stack.append((event.name, event.time))
            elif event.kind in (3, 6, 9) and stack:
                path = tuple(name for name, _ in stack)
                _, began = stack.pop()
                node = self.nodes.setdefault(path, [0, 0])
                node[0] += 1
                node[1] += event.time - began


def stream(threads: int, depth: int) -> TaskEvents:
    """Return the events of a recursive program in order of time."""
    events = Program(threads, recursive(depth, 3, 300), contention=1.0).run()
    return TaskEvents(events.records[events.records["time"].argsort(kind="stable")], events.strings)


def columns_of(data: bytes, strings: tuple[str, ...]) -> int:
    """Decode records and copy every field into a column of its own."""
    records = decode(data, strings).records
    return sum(len(np.ascontiguousarray(records[name])) for name in records.dtype.names or ())


def speeds(events: TaskEvents) -> None:
    """Print events a second."""
    n, data = len(events), events.records.tobytes()
    baseline = best(lambda: Baseline().fold(events.records), 3)
    print(f"{n:,} events of {int((events.records['kind'] == 3).sum()):,} tasks on 4 threads")
    rows: list[tuple[str, float]] = [("baseline: an object an event", baseline)]
    decoded = best(lambda: decode(data, events.strings))
    print(f"  decoded in place: {decoded * 1e6:.1f} µs a batch, whatever its length")
    rows.append(("decoded to contiguous columns", best(lambda: columns_of(data, events.strings))))

    def profiled(compiled: bool, window_ns: int) -> None:
        profiler = Profiler(compiled=compiled, window_ns=window_ns)
        folded = profiler.fold_batch(events)
        assert not folded.refused
        profiler.flush()

    if can_compile():
        profiled(True, 0)
        rows.append(("profiled, numba", best(lambda: profiled(True, 0))))
        rows.append(("profiled, numba, through the window", best(lambda: profiled(True, 10**8))))
    rows.append(("profiled, plain Python", best(lambda: profiled(False, 0), 3)))
    for name, seconds in rows:
        print(f"  {name}: {n / seconds / 1e6:.2f} million events/s, {baseline / seconds:.1f} times the baseline")


def memory(tasks: int) -> None:
    """Print the bytes of the tables while one program runs again and again."""
    events = stream(4, 6)
    each = int((events.records["kind"] == 3).sum())
    span = int(events.records["time"].max()) + 1
    profiler = Profiler(window_ns=0, compiled=can_compile())
    reported: list[tuple[int, int, int]] = []
    tracemalloc.start()
    done, rounds = 0, 0
    began = time.process_time()
    while done < tasks:
        records = events.records.copy()
        records["time"] += rounds * span
        records["instance"] += (records["instance"] > 0) * np.uint64(rounds * each)
        profiler.fold_batch(TaskEvents(records, events.strings if rounds == 0 else ()))
        done, rounds = done + each, rounds + 1
        if rounds in (1, 2) or done >= tasks * len(reported) // 4:
            reported.append((done, profiler.tables.bytes, tracemalloc.get_traced_memory()[0]))
    spent = time.process_time() - began
    tracemalloc.stop()
    for count, tables, traced in reported:
        print(f"  after {count:>12,} tasks: {tables / 2**20:.2f} MiB of tables, {traced / 2**20:.2f} MiB traced")
    measures = profile_of(profiler).measures
    print(
        f"  {measures.ends:,} tasks ended, {int(profiler.tables.g[at.NODES])} nodes, {spent:.0f} s of CPU under tracemalloc"
    )
    assert reported[-1][1] == reported[1][1], "the tables grew with the tasks"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="speeds only")
    arguments = parser.parse_args()
    speeds(stream(4, 8))
    if not arguments.quick:
        memory(arguments.tasks)


if __name__ == "__main__":
    main()
