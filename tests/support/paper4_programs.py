"""The five programs of paper 4 as generators of graphs, and what the paper does with them alone: policies, models, metrics.

The paper prints no table of task times. What it says of them is kept (shares, spreads, the means of PSIM's loops, what is
large and where it stands), and the rest is drawn from `seed`. Times are in microseconds. START and END take no time, and
neither do the barriers between phases, which stand for the N^2 edges of a full one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.task_graphs import TaskGraph, task_graph
from advisor.simulation import Execution, Program
from advisor.simulation.bounds import by_phase
from advisor.simulation.divisions import OUTSIDE, cyclic
from advisor.simulation.policies import Ordered, Static, arrival

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# PSIM's second phase: mean times of its six loops in microseconds (paper 4, footnote 4), by who executes them: all
# processors, one group of them, or the other.
PSIM_LOOPS = ((44.0, OUTSIDE), (677.0, 0), (7.0, 0), (473.0, 1), (7.0, OUTSIDE), (42.0, 1))
PSIM_ALL, PSIM_FIRST, PSIM_SECOND = (
    4096,
    2640,
    3504,
)  # tasks of such loops: 20,480 a phase; the two groups get equal work


def uniforms(seed: int, count: int) -> Floats:
    """Return numbers in (0, 1), (count,), by splitmix64: the same on every machine."""
    with np.errstate(over="ignore"):
        start = np.uint64((seed * 0x94D049BB133111EB) & (2**64 - 1))
        z = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def normals(seed: int, count: int) -> Floats:
    """Return standard normal numbers, (count,), by Box and Muller."""
    u, v = uniforms(2 * seed, count), uniforms(2 * seed + 1, count)
    return np.sqrt(-2.0 * elementary.log(u)) * np.cos(2.0 * np.pi * v)


def fork_join(
    phases: Sequence[Sequence[Floats]], columns: Mapping[str, Sequence[Sequence[Any]]] | None = None
) -> TaskGraph:
    """Return the graph of phases one after the other, each of loops whose tasks are all independent.

    Parameters
    ----------
    phases : sequence of phases, each a sequence of loops, each an array of task times (microseconds)
    columns : mapping, optional
        Further columns, with a value or an array for each loop of each phase; tasks outside of loops have -1.

    Notes
    -----
    START, a barrier between phases and END: ``sum of tasks + number of phases + 1`` tasks. Column ``loop`` numbers the loops.
    """
    times: list[Floats] = [np.zeros(1)]
    loops: list[Ints] = [np.full(1, OUTSIDE)]
    more: dict[str, list[NDArray[Any]]] = {name: [np.full(1, -1.0)] for name in columns or {}}
    edges: list[Ints] = []
    at, before, loop = 1, 0, 0
    for number, phase in enumerate(phases):
        first = at
        for place, tasks in enumerate(phase):
            times.append(tasks)
            loops.append(np.full(len(tasks), loop))
            for name, values in (columns or {}).items():
                more[name].append(np.broadcast_to(np.asarray(values[number][place], np.float64), len(tasks)))
            at += len(tasks)
            loop += 1
        inner = np.arange(first, at)
        edges.append(np.column_stack([np.full(len(inner), before), inner]))
        edges.append(np.column_stack([inner, np.full(len(inner), at)]))
        times.append(np.zeros(1))
        loops.append(np.full(1, OUTSIDE))
        for values in more.values():
            values.append(np.full(1, -1.0))
        before = at
        at += 1
    found = {"loop": np.concatenate(loops)} | {name: np.concatenate(values) for name, values in more.items()}
    return task_graph(np.concatenate(times), np.concatenate(edges), unit="us", columns=found)


def mp3d(particles: int = 20_000, seed: int = 1) -> TaskGraph:
    """MP3D-like: five parallel loops an iteration, statically scheduled in chunks of 8; one loop has over 90 % of the tasks.

    Task times differ by 10 % about a mean that is the same for all tasks of a loop.
    """
    chunks = particles // 8
    sizes = (chunks // 45, chunks, chunks // 45, chunks // 45, chunks // 45)
    means = (300.0, 1200.0, 250.0, 400.0, 200.0)
    loops = [
        mean * np.maximum(0.2, 1.0 + 0.1 * normals(seed + 10 * place, size))
        for place, (size, mean) in enumerate(zip(sizes, means, strict=True))
    ]
    return fork_join([[loop] for loop in loops])


def psim(seed: int = 1) -> TaskGraph:
    """PSIM-like, 40,963 tasks: two phases of six loops; four of them are split between the even and the odd processors.

    The two groups have the same work, so that an even number of processors is balanced and an odd one is not. Little variation
    within a loop (2 %). Column ``group`` says which processors execute a loop, under `SPLIT`.
    """
    sizes = {OUTSIDE: PSIM_ALL, 0: PSIM_FIRST, 1: PSIM_SECOND}
    phases: list[list[Floats]] = []
    for phase in range(2):
        phases.append([])
        for place, (mean, group) in enumerate(PSIM_LOOPS):
            jitter = 0.02 * normals(seed + 100 * phase + 10 * place, sizes[group])
            phases[-1].append(mean * np.maximum(0.2, 1.0 + jitter))
    groups = [[group for _, group in PSIM_LOOPS]] * 2
    return fork_join(phases, {"group": groups})


def locusroute(wires: int = 420, seed: int = 1) -> TaskGraph:
    """LocusRoute-like: two iterations over the wires of circuit bnrE; times vary more than exponentially, a giant comes late.

    Most wires take less than 10 ms, a few 100 ms or more; all together about 6.75 s. Wires lie more densely to one side of
    the chip (columns ``x``, ``y``), and the area of the rectangle that holds one (``area``) is a fair guess of its work.
    """
    spread = elementary.exp(1.15 * normals(seed, wires))
    spread *= 7.0e3 / spread.mean()
    giant = wires - wires // 20
    spread[giant] = 3.3e5
    x = uniforms(seed + 5, wires) ** 2.5
    y = uniforms(seed + 6, wires) ** 1.5
    area = spread * elementary.exp(0.25 * normals(seed + 7, wires))
    phases = [[spread], [spread * elementary.exp(0.05 * normals(seed + 8, wires))]]
    return fork_join(phases, {"x": [[x], [x]], "y": [[y], [y]], "area": [[area], [area]]})


def polyroots(degree: int = 24, seed: int = 1) -> TaskGraph:
    """Polyroots-like, 348 tasks at degree 24: a triangle of remainders, in which parallelism falls, then a loop of large tasks.

    Task (k, j) of the triangle waits for (k - 1, j) and (k - 1, j + 1): not series-parallel. The final loop of 70 tasks
    takes more than half the time on 24 processors, its times vary widely, and its two largest tasks are among the last.
    """
    starts = np.concatenate([[1], 1 + np.cumsum(np.arange(degree - 1, 0, -1))])
    triangle = int(starts[-1]) - 1
    final = 70
    edges = [(0, 1 + j) for j in range(degree - 1)]
    times = [0.0]
    for k in range(1, degree):
        width = degree - k
        row = 2.0e4 * (1 + 0.5 * k) * elementary.exp(0.4 * normals(seed + k, width))
        times += row.tolist()
        if k > 1:
            edges += [(int(starts[k - 2]) + j + side, int(starts[k - 1]) + j) for j in range(width) for side in (0, 1)]
    large = 9.0e5 * elementary.exp(0.45 * normals(seed + 500, final))
    large[[final - 6, final - 2]] = large.max() * np.array([1.15, 1.3])
    times += [*large.tolist(), 0.0]
    leaves = range(triangle + 1, triangle + 1 + final)
    edges += [(triangle, leaf) for leaf in leaves] + [(leaf, triangle + 1 + final) for leaf in leaves]
    loop = np.full(len(times), OUTSIDE)
    loop[1 : triangle + 1] = np.repeat(np.arange(degree - 1), np.arange(degree - 1, 0, -1))  # a group of tasks a row
    loop[leaves.start : leaves.stop] = degree - 1
    return task_graph(times, edges, unit="us", columns={"loop": loop})


def dynprog(rows: int = 500, columns: int = 64, seed: int = 1) -> TaskGraph:
    """DynProg-like, 32,003 tasks at 500 rows: a pipelined wavefront of small, uniform tasks.

    Task (i, j) waits for (i - 1, j) and (i, j - 1); rows are assigned to the processes round robin (column ``queue``, policies
    ``enumerated`` and ``own_queue``).
    """
    count = rows * columns
    number = np.arange(count) + 2
    row = np.repeat(np.arange(rows), columns)
    down = np.column_stack([number[:-columns], number[columns:]])
    right = np.column_stack([number[:-1], number[1:]])[(np.arange(count - 1) + 1) % columns != 0]
    edges = np.concatenate([[(0, 1), (1, 2)], down, right, [(count + 1, count + 2)]])
    times = np.concatenate([[0.0, 50.0], 100.0 * (1.0 + 0.02 * normals(seed, count)), [0.0]])
    queue = np.concatenate([[0, 0], row, [0]])
    return task_graph(times, edges, unit="us", columns={"queue": queue})


SHAPES: Mapping[str, Callable[[], TaskGraph]] = {
    "mp3d": mp3d,
    "psim": psim,
    "locusroute": locusroute,
    "polyroots": polyroots,
    "dynprog": dynprog,
}


# -- how the paper divides them among processors ------------------------------------------------------------------------------


def split_processors(program: Program, cores: int) -> Ints:
    """PSIM: with column ``group``, the loops of group g go cyclically to processors p with p mod G = g.

    G is the number of groups. Tasks of no group (-1) go cyclically to all processors, and so does everything where P < G.
    """
    groups = program.graph.column("group", "processor splitting needs to know which loops share processors")
    total = int(groups.max(initial=-1)) + 1
    place = cyclic(program, program.count)
    if total == 0 or cores < total:
        return place % cores
    members = (cores - groups + total - 1) // total  # processors p < P with p mod G = g
    return np.where(groups == OUTSIDE, place % cores, groups + total * (place % np.maximum(members, 1)))


def equal_area(program: Program, cores: int) -> Ints:
    """LocusRoute: the rectangle that holds all positions ``x``, ``y``, cut into P rectangles of equal area."""
    x, y = (program.graph.columns[name] for name in "xy")
    found = np.zeros(program.count, np.int64)

    def cut(tasks: Ints, box: list[tuple[float, float]], base: int, parts: int) -> None:
        """Cut a box, (low, span) of each axis, across its longer side in the ratio of the halves of `parts`, and so on."""
        if parts == 1:
            found[tasks] = base
            return
        half, axis = parts // 2, 0 if box[0][1] >= box[1][1] else 1
        low, span = box[axis]
        at = low + span * half / parts
        here = (x, y)[axis][tasks] < at
        first, second = box[:], box[:]
        first[axis], second[axis] = (low, at - low), (at, low + span - at)
        cut(tasks[here], first, base, half)
        cut(tasks[~here], second, base + half, parts - half)

    cut(np.arange(program.count), [(float(v.min()), float(np.ptp(v))) for v in (x, y)], 0, cores)
    return found


def equal_work(program: Program, cores: int) -> Ints:
    """The same rectangle cut into P of about equal work, as the column ``area`` guesses it (paper 4, 5.3)."""
    x, y, area = (program.graph.columns[name] for name in ("x", "y", "area"))
    found = np.zeros(program.count, np.int64)

    def cut(tasks: Ints, base: int, parts: int) -> None:
        """Cut a set of tasks across its longer side where the work to either side is in the ratio of the halves of `parts`."""
        if parts == 1 or len(tasks) == 0:
            found[tasks] = base
            return
        half = parts // 2
        axis = x if np.ptp(x[tasks]) >= np.ptp(y[tasks]) else y
        ordered = tasks[np.argsort(axis[tasks], kind="stable")]
        work: Floats = np.cumsum(area[ordered])
        at = int((work < work[-1] * half / parts).sum())
        cut(ordered[:at], base, half)
        cut(ordered[at:], base + half, parts - half)

    cut(np.arange(program.count), 0, cores)
    return found


def longest(program: Program) -> Callable[[int, int], int]:
    """Longest processing time first."""
    ticks = program.ticks
    return lambda task, _: -ticks[task]


SPLIT = Static("split", split_processors)
EQUAL_AREA, EQUAL_WORK, EQUAL_WORK_LPT = (
    Ordered(name, keys, divide, move=True)
    for name, keys, divide in (
        ("equal_area", arrival, equal_area), ("equal_work", arrival, equal_work), ("equal_work_lpt", longest, equal_work),
    )
)  # fmt: skip


# -- what it compares and measures ------------------------------------------------------------------------------------------


def exponential_processes(program: Program, owner: Ints, cores: int) -> float:
    """Return the time of the condensed graph with one exponential per process and phase: the stand-in for Mak and Lundstrom.

    Per phase the expected maximum of independent exponentials whose means are the processes' loads. A heuristic for
    series-parallel graphs reduces to this on fork-join programs whose processes each run one condensed task a phase (paper 4,
    6.2).
    """
    ticks, total = program.graph.ticks.astype(np.float64), 0.0
    order, starts = by_phase(program)
    for phase in np.split(order, starts[1:]):
        loads = np.bincount(owner[phase], ticks[phase], cores)
        total += expected_maximum(loads[loads > 0])
    return total / program.graph.ticks_per_unit


def expected_maximum(means: Floats) -> float:
    """Return E[max] of independent exponentials of these means: the integral of 1 - prod(1 - exp(-t / mean)) over t."""
    if len(means) <= 1:
        return float(means.sum())
    end = float(means.max()) * (np.log(len(means)) + 40.0)  # beyond, less than e^-40 of a mean is left
    grid = np.linspace(0.0, 1.0, 20_001) ** 2 * end
    left = 1.0 - np.exp(np.log1p(-np.exp(-grid[1:, None] / means)).sum(axis=1))
    values = np.concatenate([[1.0], left])
    return float(((values[1:] + values[:-1]) * np.diff(grid)).sum() / 2.0)


def running(execution: Execution, tasks: Any = slice(None)) -> tuple[Ints, Ints]:
    """Return times, and how many of some tasks run from each of them on."""
    assert execution.trace is not None
    starts, finishes, _ = execution.trace
    times = np.unique(np.concatenate([[0], starts, finishes]))
    begun, ended = (np.searchsorted(np.sort(each[tasks]), times, "right") for each in (starts, finishes))
    return times, begun - ended


def processes_per_queue(execution: Execution, policy: Ordered) -> tuple[Ints, Floats]:
    """Return times, and the mean number of active processes per active queue from each on (5.3); 0 while nobody runs."""
    assert policy.divide is not None
    queue = policy.divide(execution.program, execution.cores)
    times, total = running(execution)
    active = sum((running(execution, queue == one)[1] > 0).astype(float) for one in np.unique(queue))
    return times, np.divide(total, active, out=np.zeros(len(times)), where=active > 0)
