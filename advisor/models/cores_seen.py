"""Which core counts a component's runs were on, and how many runs each: up to 16 counts, ascending. Kernels.

A word is a count: cores in units of 2**-10 in its upper half, runs in its lower half, 0 where there is none. Exact up to 16
different counts; a further one merges the two that are nearest by ratio: the one of more runs stands for both.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from typing import NamedTuple

from advisor.models.layout import AT, COUNTS_SEEN
from advisor.models.table import Table

UNIT = 1024.0  # per core: the smallest legal count is one unit
RUNS_BITS = 32
RUNS_MOST = (1 << RUNS_BITS) - 1  # beyond, runs are counted no further
FIRST, LAST, LEAST, MOST, EXTRA_RUNS = (
    AT[name].start for name in ("cores_seen", "cores_last", "p_low", "p_high", "extra_runs")
)
END = FIRST + COUNTS_SEEN
NAMED_MOST = 6  # counts that words list one by one


class CoresSeen(NamedTuple):
    """Which core counts runs were on: least, most, the last one (0: not known), and (cores, runs), ascending."""

    least: float = 0.0
    most: float = 0.0
    last: float = 0.0
    counts: tuple[tuple[float, int], ...] = ()

    @property
    def runs(self) -> int:
        """All runs, of each count at most 2**32 - 1."""
        return sum([runs for _, runs in self.counts])

    @property
    def words(self) -> str:
        """What was seen, for `why`."""
        if not self.counts:
            return "nothing was seen"
        total = self.runs
        runs = f"{total} run{'' if total == 1 else 's'}"
        if len(self.counts) > NAMED_MOST:
            return f"seen on {len(self.counts)} counts from {self.least:g} to {self.most:g} cores, {runs}"
        *before, last = [f"{cores:g}" for cores, _ in self.counts]
        listed = f"{', '.join(before)} and {last}" if before else last
        return f"seen on {listed} core{'' if listed == '1' else 's'}, {runs}"


def seen_of(table: Table, slot: int) -> CoresSeen:
    """Return which core counts the runs of a slot were on."""
    words = [word for word in table.records_whole[slot, FIRST:END].tolist() if word]
    counts = tuple([((word >> RUNS_BITS) / UNIT, word & RUNS_MOST) for word in words])
    record = table.records[slot]
    return CoresSeen(float(record[LEAST]), float(record[MOST]), float(record[LAST]), counts)


def note_run(w, n, p, count):
    """Note that `count` runs, one row, were on p cores, the last ones of a component with words w, whole ones n."""
    n[EXTRA_RUNS] += int(count) - 1
    w[LAST] = p
    add_seen(n, int(p * UNIT + 0.5), int(min(count, float(RUNS_MOST))))


def add_seen(n, units, runs):
    """Add runs on a count of cores, in units."""
    at = FIRST
    while at < END and n[at] != 0 and n[at] >> RUNS_BITS < units:
        at += 1
    if at < END and n[at] >> RUNS_BITS == units:
        n[at] = (units << RUNS_BITS) | min((n[at] & RUNS_MOST) + runs, RUNS_MOST)
        return
    if n[END - 1] != 0:
        merge_nearest(n)
        at = FIRST
        while n[at] != 0 and n[at] >> RUNS_BITS < units:
            at += 1
    for later in range(END - 1, at, -1):
        n[later] = n[later - 1]
    n[at] = (units << RUNS_BITS) | runs


def merge_nearest(n):
    """Merge the two neighbours of 16 counts that are nearest by ratio; the first of equals."""
    best = FIRST
    for at in range(FIRST + 1, END - 1):
        # b / a of this pair below that of the best: products of two 31-bit numbers are exact
        if (n[at + 1] >> RUNS_BITS) * (n[best] >> RUNS_BITS) < (n[best + 1] >> RUNS_BITS) * (n[at] >> RUNS_BITS):
            best = at
    low, high = n[best] & RUNS_MOST, n[best + 1] & RUNS_MOST
    units = n[best] >> RUNS_BITS if low >= high else n[best + 1] >> RUNS_BITS
    n[best] = (units << RUNS_BITS) | min(low + high, RUNS_MOST)
    for at in range(best + 1, END - 1):
        n[at] = n[at + 1]
    n[END - 1] = 0


def merge_seen(w, n, v, m, more):
    """Add another record's counts; its last count stands where it has `more` rows, the fewer where both have as many."""
    for at in range(FIRST, END):
        if m[at] != 0:
            add_seen(n, m[at] >> RUNS_BITS, m[at] & RUNS_MOST)
    if more > 0 or (more == 0 and v[LAST] < w[LAST]):
        w[LAST] = v[LAST]
