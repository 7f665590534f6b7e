"""What others say of the same program: bounds that hold, and stochastic models, to stand beside each prediction.

Times are in the graph's unit. Phases are the graph's loops where it has them, else the tasks of one depth: the parallel
phases of a fork-join program. A phase of one task is serial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.errors import InvalidValue
from advisor.simulation.divisions import OUTSIDE
from advisor.simulation.program import Program

Ints = NDArray[np.int64]
BURDEN_FACTOR = 1.7  # of the burdened span in Cilkview's estimate (He, Leiserson and Leiserson 2010, section 4)
BURDEN_NS_MAX = 1e9  # a second: no task's creation costs more
MAXIMA_MAX = 2_000  # exponentials in all whose maxima are integrated: half a second
QUADRATURE_POINTS = 20_000  # of the expected maximum of exponentials: 1e-6 relative, against the harmonic sum


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds and comparators of one program on P processors, in the graph's unit of time.

    They know of no contention: with it `work` and `span` still hold, and the others may be exceeded. Where processors differ in
    speed, `work` is T1 over the sum of the speeds, `span` that of the fastest, and the others are absent.
    """

    work: float  # T1 / P: below it nothing can go
    span: float  # the longest path: below it nothing can go either
    # T1 / P + (1 - 1/P) span: above it no schedule goes that never lets a processor idle while a task is ready
    graham: float | None
    burdened: float | None  # T1 / P + 1.7 times the burdened span: Cilkview's estimate from above for work stealing
    kruskal_weiss: float | None  # Kruskal and Weiss with the tasks' own variance
    kruskal_weiss_exponential: float | None  # the same, as if task times were exponential
    # as a heuristic after Mak and Lundstrom (1990) has it, with one exponential a process and phase: where tasks are
    # divided beforehand, and phases times processors are few
    exponential_processes: float | None = None

    @property
    def least(self) -> float:
        """What no schedule is below: max(work, span)."""
        return max(self.work, self.span)


def bounds(
    program: Program,
    cores: int,
    *,
    burden_ns: float = 0.0,
    batch: int | None = None,
    speeds: Sequence[float] | None = None,
    owner: Ints | None = None,
) -> Bounds:
    """Return the bounds and comparators.

    `burden_ns` is the cost of a create or a steal, `batch` as `kruskal_weiss` has it, `owner` each task's processor where tasks
    are divided beforehand.
    """
    unit = program.graph.ticks_per_unit
    if speeds is not None and any(speed != 1.0 for speed in speeds):
        return Bounds(program.work / sum(speeds) / unit, program.span / max(speeds) / unit, None, None, None, None)
    per_core, span = program.work / cores, program.span
    return Bounds(
        per_core / unit,
        span / unit,
        (per_core + (1 - 1 / cores) * span) / unit,
        per_core / unit + BURDEN_FACTOR * burdened_span(program, burden_ns),
        kruskal_weiss(program, cores, batch=batch),
        kruskal_weiss(program, cores, "exponential", batch=batch),
        None if owner is None else exponential_processes(program, owner, cores),
    )


def burdened_span(program: Program, burden_ns: float) -> float:
    """Return the longest path with `burden_ns` for each precedence on it; a unit of no name counts `burden_ns` in
    millionths."""
    if not 0.0 <= burden_ns <= BURDEN_NS_MAX:
        raise InvalidValue("burden_ns", burden_ns, f"a number from 0 to {BURDEN_NS_MAX:g}")
    seconds = {"s": 1e-9, "ms": 1e-6, "us": 1e-3, "ns": 1.0, "unit": 1e-6}[program.graph.unit]
    ticks = round(burden_ns * seconds * program.graph.ticks_per_unit)
    levels = program.levels(program.graph.ticks, ticks) if ticks else program.bottom_levels
    return int(levels.max(initial=0)) / program.graph.ticks_per_unit


def phases(program: Program) -> list[Ints]:
    """Return the tasks of each phase, in order of depth: the sets that Kruskal and Weiss take for independent and alike.

    Loops that can run at the same time are one phase, as those of PSIM between two barriers: they share a depth.
    """
    order, starts = _by_phase(program)
    return np.split(order, starts[1:]) if len(order) else []


def _by_phase(program: Program) -> tuple[Ints, Ints]:
    """Return the tasks phase by phase, (n,), and where each phase starts in them."""
    loops = program.graph.columns.get("loop")
    depths = program.depths
    if loops is not None:
        inside = loops != OUTSIDE
        present, of = np.unique(loops[inside], return_inverse=True)
        least = np.full(len(present), np.iinfo(np.int64).max)
        np.minimum.at(least, of, depths[inside])
        depths = depths.copy()
        depths[inside] = least[of]
    order = np.argsort(depths, kind="stable")
    leads = np.ones(len(order), bool)
    leads[1:] = np.diff(depths[order]) != 0
    return order, np.flatnonzero(leads)


def kruskal_weiss(
    program: Program,
    cores: int,
    variance: Literal["actual", "exponential"] = "actual",
    *,
    batch: int | None = None,
    overhead: float = 0.0,
) -> float:
    """Return Kruskal and Weiss's estimate (1985), phase by phase, in the graph's unit.

    Parameters
    ----------
    variance : str
        ``actual``: of the phase's task times; ``exponential``: as if it were their squared mean.
    batch : int, optional
        K, tasks that a processor takes at a time; absent, those of a static allocation, N / P.
    overhead : float
        h, time that taking a batch costs.

    Notes
    -----
    T = N mu / P + N h / (K P) + sigma sqrt(2 K ln P): the mean load, and the expected excess of the last of P processors, whose
    last batch has mean K mu and variance K sigma^2. A phase of fewer tasks than processors counts N processors.
    """
    if not program.count:
        return 0.0
    order, starts = _by_phase(program)
    times = program.graph.ticks[order].astype(np.float64)
    number = np.diff(starts, append=len(times))
    mean = np.add.reduceat(times, starts) / number
    used = np.minimum(cores, number)
    sigma = mean
    if variance == "actual":
        sigma = np.sqrt(np.add.reduceat((times - np.repeat(mean, number)) ** 2, starts) / number)
    size = number / used if batch is None else np.minimum(float(batch), number / used)
    batches = overhead * program.graph.ticks_per_unit / (size * used)
    each = number * (mean / used + batches) + sigma * np.sqrt(2.0 * size * elementary.log(used))
    return float(each.sum()) / program.graph.ticks_per_unit


def exponential_processes(program: Program, owner: Ints, cores: int) -> float | None:
    """Return the time of the condensed graph with one exponential per process and phase: the stand-in for Mak and Lundstrom.

    Per phase the expected maximum of independent exponentials whose means are the processes' loads. A heuristic for
    series-parallel graphs reduces to this on fork-join programs whose processes each run one condensed task a phase (paper 4,
    6.2). None where phases times processors are more than MAXIMA_MAX.
    """
    ticks, some = program.graph.ticks.astype(np.float64), phases(program)
    total = 0.0
    if len(some) * cores > MAXIMA_MAX:
        return None
    for phase in some:
        loads = np.bincount(owner[phase], ticks[phase], cores)
        total += expected_maximum(np.asarray(loads[loads > 0], np.float64))
    return total / program.graph.ticks_per_unit


def expected_maximum(means: NDArray[np.float64]) -> float:
    """Return E[max] of independent exponentials of these means: the integral of 1 - prod(1 - exp(-t / mean)) over t."""
    if len(means) <= 1:
        return float(means.sum())
    end = float(means.max()) * (math.log(len(means)) + 40.0)  # beyond, less than e^-40 of a mean is left
    grid = np.linspace(0.0, 1.0, QUADRATURE_POINTS + 1) ** 2 * end
    left = 1.0 - elementary.exp(elementary.log1p(-elementary.exp(-grid[1:, None] / means)).sum(axis=1))
    values = np.concatenate([[1.0], left])
    return float(((values[1:] + values[:-1]) * np.diff(grid)).sum() / 2.0)
