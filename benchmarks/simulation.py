"""Task graph analysis: how fast, how large, how right. Figures stand beside a SimPy execution of the same graph in the same
run.

    python benchmarks/simulation.py [--data FOLDER] [--million] [--repeats 5] [--json FILE] [--skip speed,memory,lock]

`FOLDER` is the folder of public measurements, with `graphs/stg50`; without it that section is skipped with a word.
SimPy is needed for the baseline
(`pip install '.[test]'` in a clone), numba for the compiled rows.

Each figure is the best of `--repeats` runs, all of them in this process: on a machine with other load compare ratios. The
analysis
is timed with the graph's lists made (`Program`), as a sweep over policies and cores has them; making them is a row of its own.
"""

# ruff: noqa: E402 -- the path is set before anything else is imported
from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]

import numpy as np
from paper4_programs import polyroots, psim

from advisor.domain.task_graphs import Task, TaskGraph, graph_of_tasks, task_graph
from advisor.kernels import can_compile
from advisor.simulation import POLICIES, Program, simulate
from advisor.simulation.loops import KERNELS
from advisor.simulation.systems import Bandwidth, Bus, Centre, Lock, Queueing

PROCESSORS = 8
LOCK_RUNS = 10
POLICIES_JUDGED = ("fifo", "lpt", "bottom_level", "heft", "work_stealing", "static_cyclic")

Row = dict[str, Any]


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the least seconds of some runs, and the last result."""
    least, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - start)
    return least, result


def layered(tasks: int, width: int = 1000, parents: int = 2) -> TaskGraph:
    """Layers of `width` tasks with uniform times; each task waits for `parents` of the layer before."""
    rng = np.random.default_rng(1)
    child = np.repeat(np.arange(width, tasks), parents)
    parent = (child // width - 1) * width + rng.integers(0, width, len(child))
    return task_graph(rng.integers(1, 1000, tasks), np.column_stack([parent, child]), unit="us")


def simpy_fifo(graph: TaskGraph, cores: int) -> float:
    """Execute in SimPy as one would write it: a process a core, a store of ready tasks."""
    import simpy  # noqa: PLC0415 - the baseline's only

    env = simpy.Environment()
    ticks, first, children, left = (x.tolist() for x in (graph.ticks, graph.first, graph.children, graph.waits))
    ready = simpy.Store(env)
    for task in np.flatnonzero(graph.waits == 0).tolist():
        ready.put(task)
    todo = [len(graph)]
    end = env.event()

    def core() -> Iterator[Any]:
        while True:
            task = yield ready.get()
            yield env.timeout(ticks[task])
            for child in children[first[task] : first[task + 1]]:
                left[child] -= 1
                if not left[child]:
                    ready.put(child)
            todo[0] -= 1
            if not todo[0]:
                end.succeed()

    for _ in range(cores):
        env.process(core())
    env.run(end)
    return env.now / graph.ticks_per_unit


def speed(repeats: int, *, million: bool) -> Iterator[Row]:
    """Yield a row for each loop: seconds, tasks a second, ratio to SimPy."""
    graph = psim()
    count = len(graph)
    baseline, _ = best(lambda: simpy_fifo(graph, PROCESSORS), max(2, repeats // 2))
    rng = np.random.default_rng(2)
    graph = replace(
        graph,
        columns={**graph.columns, "rate": rng.uniform(0.01, 0.02, count), "three": rng.integers(1, 4, count) * 0.01},
    )

    def reported(name: str, seconds: float, tasks: int = count, **asked: Any) -> Row:
        return {
            "what": name, "tasks": tasks, "ms": seconds * 1e3, "tasks_per_s": tasks / seconds,
            "simpy_ratio": (tasks / seconds) / (count / baseline), **asked,
        }  # fmt: skip

    def made(graph: TaskGraph) -> Program:
        program = Program(graph)
        for lists in ("ticks", "first", "children", "waits", "roots", "order", "bottom_levels"):
            getattr(program, lists)
        return program

    yield reported("SimPy, fifo", baseline)
    seconds, program = best(lambda: made(replace(graph)), repeats)
    yield reported("the graph's lists, once", seconds)
    KERNELS.use("interpreted")
    for policy in (
        "fifo",
        "lifo",
        "lpt",
        "bottom_level",
        "static_cyclic",
        "semi_static",
        "work_stealing",
        "heft",
    ):
        seconds, _ = best(
            lambda policy=policy: simulate(program, PROCESSORS, policy), repeats if policy != "heft" else 1
        )
        asked = {"asked_ms": 60.0} if policy == "fifo" else {}
        yield reported(f"plain, {policy}", seconds, **asked)
    seconds, _ = best(lambda: simulate(program, PROCESSORS, "fifo", trace=True), repeats)
    yield reported("plain, fifo with its timeline", seconds)
    models = {
        "one class, common parameters": (Queueing([Centre(1.0)], 0.01), 300_000),
        "bandwidth, common demand": (Bandwidth(0.2), 300_000),
        "bus, common parameters": (Bus(0.1, 0.1, 0.1, 0.1, cycle=0.1), 300_000),
        "one class, a rate a task": (Queueing([Centre(1.0)], "rate"), 60_000),
        "one class, queue and delay, a rate a task": (Queueing([Centre(1.0), Centre(1.0, "delay")], "rate"), 60_000),
        "one class, two queues, a rate a task": (Queueing([Centre(1.0), Centre(0.5)], "rate"), 60_000),
        "bus, a rate a task": (Bus("rate", 0.1, 0.1, 0.1, cycle=0.1), 60_000),
        "bandwidth, a demand a task": (Bandwidth("rate"), 60_000),
        "three classes, Bard-Schweitzer": (Queueing([Centre(1.0)], "three", "bard_schweitzer"), None),
    }
    for name, (system, asked_rate) in models.items():
        seconds, _ = best(
            lambda system=system: simulate(program, PROCESSORS, "fifo", contention=system), max(2, repeats // 2)
        )
        yield reported(f"contention: {name}", seconds, **({"asked_per_s": asked_rate} if asked_rate else {}))
    if can_compile():
        KERNELS.use("compiled")
        for policy in ("fifo", "lifo", "static_cyclic", "bottom_level"):
            simulate(program, PROCESSORS, policy)
            seconds, ticks = best(lambda policy=policy: simulate(program, PROCESSORS, policy).ticks, 4 * repeats)
            assert ticks == simulate(program, PROCESSORS, policy, trace=True).ticks
            asked = {"asked_per_s": 10_000_000} if policy in ("fifo", "static_cyclic") else {}
            yield reported(f"compiled, {policy}", seconds, **asked)
        KERNELS.use("interpreted")
    if million:
        large = made(layered(1_000_000))
        for policy, asked_s in (("fifo", 3.0), ("lpt", 6.0), ("bottom_level", 6.0), ("static_cyclic", None)):
            seconds, _ = best(lambda policy=policy: simulate(large, PROCESSORS, policy), 2)
            yield reported(
                f"a million tasks, {policy}", seconds, 1_000_000, **({"asked_ms": asked_s * 1e3} if asked_s else {})
            )


def memory() -> Iterator[Row]:
    """Yield bytes a task and an edge: the peak of making the lists of a graph that stands, and of one analysis, its arrays
    included."""
    peaks: dict[int, float] = {}
    for parents in (1, 4):
        graph = layered(100_000, parents=parents)
        held = graph.ticks.nbytes + graph.first.nbytes + graph.children.nbytes
        for policy in ("fifo", "bottom_level"):
            tracemalloc.start()
            simulate(Program(graph), PROCESSORS, policy)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            peaks[parents] = max(peaks.get(parents, 0.0), peak + held)
    edges = {parents: layered(100_000, parents=parents).edges for parents in (1, 4)}
    an_edge = (peaks[4] - peaks[1]) / (edges[4] - edges[1])
    yield {"what": "bytes an edge", "bytes": an_edge, "asked": 100}
    yield {"what": "bytes a task", "bytes": (peaks[1] - an_edge * edges[1]) / 100_000, "asked": 500}


def standard_graph(path: Path) -> TaskGraph:
    """Return a graph of the set: the number of tasks, then a line each (id, time, number of predecessors, these)."""
    rows: list[list[str]] = []
    for words in (line.split("#", 1)[0].split() for line in path.read_text().splitlines()[1:]):
        if rows and len(rows[-1]) < 3 + int(rows[-1][2]):  # a long list of predecessors, folded
            rows[-1] += words
        elif words:
            rows.append(words)
    return graph_of_tasks((Task(row[0], float(row[1]), row[3:]) for row in rows), unit="unit")


def standard_graphs(folder: Path) -> Iterator[Row]:
    """Yield the mean ratio to the listed optimum of each policy and number of processors; an optimum beaten is an error."""
    optimum: dict[tuple[str, int], float] = {}
    for cores in (2, 4, 8, 16):
        for name, processors, least, *_ in csv.reader((folder / f"Case50_{cores}_OPT.csv").open()):
            optimum[Path(name).name, int(processors)] = float(least)
    found: dict[tuple[str, int], list[float]] = {}
    for path in sorted(folder.glob("*.stg")):
        program = Program(standard_graph(path))
        for (name, cores), least in optimum.items():
            if name == path.name:
                for policy in POLICIES_JUDGED:
                    ratio = simulate(program, cores, policy).makespan / least
                    if ratio < 1:
                        raise SystemExit(f"{policy} beats the listed optimum of {name} on {cores}: {ratio}")
                    found.setdefault((policy, cores), []).append(ratio)
    for (policy, cores), ratios in sorted(found.items()):
        met = sum(ratio == 1 for ratio in ratios) / len(ratios)
        row: Row = {"what": f"{policy} on {cores}", "graphs": len(ratios), "mean_ratio": mean(ratios), "met": met}
        yield row | ({"asked": 1.02} if (policy, cores) == ("bottom_level", 4) else {})


def locks(repeats: int) -> Iterator[Row]:
    """Yield the error of the lock model against an event simulation with exponential holding times."""
    sys.path.insert(0, str(HERE.parent / "tests" / "oracle"))
    from test_lock_events import locked_makespan  # noqa: PLC0415 - one event simulation, in the tests

    graph = polyroots()
    for hold in (1, 10, 50):
        row: Row = {"what": f"lock held {hold} ms", **({"asked": 0.05} if hold == 1 else {})}
        for cores in (2, 4, 8, 16, 24):
            measured = mean(locked_makespan(graph, cores, hold * 1e3, seed) for seed in range(repeats))
            row[f"P{cores}"] = simulate(graph, cores, "fifo", lock=Lock(hold * 1e3)).makespan / measured - 1.0
        yield row


def reported(title: str, rows: Iterator[Row], into: dict[str, Any]) -> None:
    """Print a section's rows as they come, and keep them."""
    print(f"\n{title}")
    kept: list[Row] = []
    for row in rows:
        kept.append(row)
        parts = [f"{row['what']:<48}"]
        for key, value in row.items():
            if key != "what":
                parts.append(f"{key}={value:,.4g}" if isinstance(value, float) else f"{key}={value:,}")
        print("  " + "  ".join(parts), flush=True)
    into[title] = kept


def main() -> None:
    """Run the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of public measurements")
    parser.add_argument("--million", action="store_true", help="also graphs of a million tasks")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skip", default="", help="sections to leave out: speed, memory, lock")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    skip = set(filter(None, given.skip.split(",")))
    kept: dict[str, Any] = {"load": os.getloadavg(), "processors": os.cpu_count(), "policies": list(POLICIES)}
    print(f"load of the machine before: {kept['load'][0]:.2f}")
    if "speed" not in skip:
        reported(f"speed, PSIM-like graph, {PROCESSORS} processors", speed(given.repeats, million=given.million), kept)
    if "memory" not in skip:
        reported("memory, peak of graph, lists and analysis", memory(), kept)
    if "lock" not in skip:
        reported("lock model against an event simulation, relative error", locks(LOCK_RUNS), kept)
    folder = given.data / "graphs" / "stg50" if given.data else None
    if folder is None or not folder.is_dir():
        print("\nstandard task graphs: skipped, no folder graphs/stg50 under --data")
    else:
        reported("standard task graphs, ratio to the optimum", standard_graphs(folder), kept)
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
