"""What others say of the same program: bounds that hold, and stochastic models, to stand beside each prediction.

Times are in the graph's unit. Phases are the graph's loops where it has them, else the tasks of one depth: the parallel
phases of a fork-join program. A phase of one task is serial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.simulation.divisions import OUTSIDE
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


def bounds(program: Program, cores: int, *, batch: int | None = None) -> dict[str, float]:
    """Return what bounds the time of a program on so many processors, and what comparators estimate.

    Returns
    -------
    dict
        ``work``, T1 / P, and ``span``, the longest path: nothing goes below either. ``graham``, T1 / P + (1 - 1/P) span: no
        schedule goes above it that never lets a processor idle while a task is ready. ``kruskal_weiss``: their estimate with
        the tasks' own variance; ``kruskal_weiss_exponential``: as if task times were exponential.

    Notes
    -----
    They know of no contention: with it ``work`` and ``span`` still hold, and the others may be exceeded. `batch` as
    `kruskal_weiss` has it.
    """
    unit = program.graph.ticks_per_unit
    per_core, span = program.work / cores, program.span
    return {
        "work": per_core / unit,
        "span": span / unit,
        "graham": (per_core + (1 - 1 / cores) * span) / unit,
        "kruskal_weiss": kruskal_weiss(program, cores, batch=batch),
        "kruskal_weiss_exponential": kruskal_weiss(program, cores, exponential=True, batch=batch),
    }


def by_phase(program: Program) -> tuple[Ints, Ints]:
    """Return the tasks phase by phase, (n,), and where each phase starts in them: what Kruskal and Weiss take for alike.

    Loops that can run at the same time are one phase, as those of PSIM between two barriers: they share a depth.
    """
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
    return order, np.flatnonzero(np.diff(depths[order], prepend=-1))


def kruskal_weiss(program: Program, cores: int, *, exponential: bool = False, batch: int | None = None) -> float:
    """Return Kruskal and Weiss's estimate (1985), phase by phase, in the graph's unit.

    Parameters
    ----------
    exponential : bool
        Take the variance of the phase's task times for their squared mean.
    batch : int, optional
        K, tasks that a processor takes at a time; absent, those of a static allocation, N / P.

    Notes
    -----
    T = N mu / P + sigma sqrt(2 K ln P): the mean load, and the expected excess of the last of P processors, whose last batch
    has mean K mu and variance K sigma^2. A phase of fewer tasks than processors counts N processors.
    """
    if not program.count:
        return 0.0
    order, starts = by_phase(program)
    times = program.graph.ticks[order].astype(np.float64)
    number = np.diff(starts, append=len(times))
    mean = np.add.reduceat(times, starts) / number
    used = np.minimum(cores, number)
    sigma = mean
    if not exponential:
        sigma = np.sqrt(np.add.reduceat((times - np.repeat(mean, number)) ** 2, starts) / number)
    size = number / used if batch is None else np.minimum(float(batch), number / used)
    each = number * (mean / used) + sigma * np.sqrt(2.0 * size * elementary.log(used))
    return float(each.sum()) / program.graph.ticks_per_unit
