"""Regret of the core counts that predictions choose: what a scheduler loses that believes a learner.

Rules. A component takes part with those predictors that were measured at two or more core counts; one without any is left
out, and so is a table without any such component. The component's rows come shuffled by the seed. After 10, 30 and 100 of
them (a component of fewer rows is left out of that stage) each such predictor x is decided, whether or not x was among the
learned rows:

- `best predicted`: of the counts measured for x, the one with the least predicted time, the fewest cores of equals. A count
  without an answer, or with none finite, is not taken; where no count has one, the slowest is: silence counts most.
- `choose`: of all whole counts up to the largest measured for x (beyond 256 of every second per cent), the fewest whose
  predicted time is within 5 % of the least: what `choose_cores` does by default. A learner that has `choose(component, x,
  cores_max) -> cores or None` (ours) says it itself. The answer may be a count that nobody measured;
  it is judged at the measured count nearest by ratio, the fewer of two equally near: at or below would charge a choice
  of 7 with the time of 4 where 8 was measured, at or above would hand it cores that it did not ask for. None counts as above.

Regret at x is (mean measured time at the chosen count) / (least mean measured time over the counts measured for x) − 1. The
means are over all rows of the component, learned or not. A component's regret is the mean over its predictors; a
table's is the median and the mean over components, averaged over seeds. `cores` is the chosen count over the count of the
least mean time, geometric mean over all decisions: a tolerance trades regret for it. So a line is compared with the simple
peers' by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from accuracy_protocol import Array, Learner, Table

STAGES = (10, 30, 100)  # learned rows of a component before it is judged
BEST, CHOOSE = "best predicted", "choose"
TOLERANCE = 0.05  # that of choose_cores by default
ALL_COUNTS = 256  # counts that are all tried; beyond, those 2 % apart
SIMPLE = ("log_quadratic", "nearest_cell")  # no learner may decide worse than the better of these


@dataclass(frozen=True)
class Case:
    """What was measured for one predictor: the core counts, rising, and the mean time at each."""

    x: float
    counts: Array
    times: Array


@dataclass
class Decisions:
    """Regrets by rule and stage, one entry a component; `cores` are mean logarithms of chosen over best count."""

    regret: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    cores: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])


@dataclass(frozen=True)
class Regret:
    """One cell of the printed table; medians and means are over components, percent."""

    median: float
    mean: float
    cores: float
    components: int


def cases(table: Table, component: int) -> list[Case]:
    """Return the predictors of a component that were measured at two or more counts."""
    rows = np.flatnonzero(table.component == component)
    found: list[Case] = []
    for x in np.unique(table.x[rows]):
        at = rows[table.x[rows] == x]
        counts, which = np.unique(table.p[at], return_inverse=True)
        if len(counts) > 1:
            times = np.bincount(which, weights=table.t[at]) / np.bincount(which)
            found.append(Case(float(x), counts, times))
    return found


def decidable(table: Table) -> bool:
    """Return whether any component has something to decide."""
    return any(cases(table, number) for number in range(len(table.names)))


def judge_decisions(learner: Learner, table: Table, seed: int) -> Decisions:
    """Return one learner's regrets on one table."""
    found = Decisions()
    rng = np.random.default_rng(seed)
    for number, name in enumerate(table.names):
        rows = rng.permutation(np.flatnonzero(table.component == number))
        asked = cases(table, number)
        if not asked:
            continue
        learned = 0
        for stage, end in enumerate(STAGES):
            if len(rows) < end:
                break
            for row in rows[learned:end].tolist():
                learner.learn(name, float(table.x[row]), float(table.p[row]), float(table.t[row]))
            learned = end
            for rule, chosen in choices(learner, name, asked):
                best = [int(np.argmin(case.times)) for case in asked]
                pairs = list(zip(asked, chosen, best, strict=True))
                regret = [float(case.times[took] / case.times[least]) - 1.0 for case, took, least in pairs]
                cores = [math.log(case.counts[took] / case.counts[least]) for case, took, least in pairs]
                found.regret.setdefault(rule, [[] for _ in STAGES])[stage].append(float(np.mean(regret)))
                found.cores.setdefault(rule, [[] for _ in STAGES])[stage].append(float(np.mean(cores)))
    return found


def choices(learner: Learner, name: str, asked: Sequence[Case]) -> Iterator[tuple[str, list[int]]]:
    """Yield each rule and the places of the counts that the learner takes by it."""
    yield BEST, [fewest(case, case.counts, predicted(learner, name, case.x, case.counts), 0.0) for case in asked]
    choose: Any = getattr(learner, "choose", None)
    if choose is not None:
        yield CHOOSE, [nearest(case, choose(name, case.x, int(case.counts[-1]))) for case in asked]
        return
    tried = [counts_to(int(case.counts[-1])) for case in asked]
    pairs = list(zip(asked, tried, strict=True))
    yield CHOOSE, [fewest(case, counts, predicted(learner, name, case.x, counts), TOLERANCE) for case, counts in pairs]


def counts_to(last: int) -> Array:
    """Return the counts that are tried."""
    further = np.rint(np.geomspace(ALL_COUNTS, last, max(int(math.log(max(last / ALL_COUNTS, 1.0)) * 50), 2)))
    return np.unique(np.concatenate([np.arange(1.0, min(last, ALL_COUNTS) + 1), further[further <= last]]))


def predicted(learner: Learner, name: str, x: float, counts: Array) -> Array:
    """Return the predicted times of some counts, infinite where there is no answer."""
    reported = [learner.predict(name, x, float(count))[0] for count in counts]
    return np.array([math.inf if t is None or not math.isfinite(t) else t for t in reported])


def fewest(case: Case, counts: Array, times: Array, tolerance: float) -> int:
    """Return the place among those measured of the fewest count with a predicted time within `tolerance` of the least."""
    if not np.isfinite(times).any():
        return nearest(case, None)
    return nearest(case, float(counts[np.argmax(times <= times.min() * (1.0 + tolerance))]))


def nearest(case: Case, cores: float | None) -> int:
    """Return the place of the measured count nearest to `cores` by ratio."""
    if cores is None:
        return int(np.argmax(case.times))
    return int(np.argmin(np.abs(np.log(case.counts / cores))))


def summed(runs: Sequence[Decisions]) -> dict[str, list[Regret]]:
    """Return of each rule the figures of each stage that has components, over all seeds."""
    found: dict[str, list[Regret]] = {}
    for rule in runs[0].regret:
        for stage in range(len(STAGES)):
            of = [100 * np.array(run.regret[rule][stage]) for run in runs]
            if not len(of[0]):
                break
            cores = math.exp(float(np.mean([np.mean(run.cores[rule][stage]) for run in runs])))
            median = float(np.mean([np.median(one) for one in of]))
            mean = float(np.mean([np.mean(one) for one in of]))
            found.setdefault(rule, []).append(Regret(median, mean, cores, len(of[0])))
    return found


def label(learner: str, rule: str) -> str:
    """Return the name of a line."""
    return learner if rule == BEST else f"{learner} {rule}"


def print_decisions(tables: Sequence[str], found: dict[tuple[str, str], dict[str, list[Regret]]]) -> None:
    """Print of each table a line a learner and rule: median, mean and cores a stage, and how far the simple ones are."""
    print("\n== decisions: regret %, of the best predicted count and of choose ==")
    learners = list(dict.fromkeys(learner for learner, _ in found))
    width = max(len(label(learner, CHOOSE)) for learner in learners)
    for table in tables:
        here = {learner: found[learner, table] for learner in learners if (learner, table) in found}
        lines = {(learner, rule): row for learner, rules in here.items() for rule, row in rules.items()}
        stages = max(len(row) for row in lines.values())
        head = "".join(f"{f'median@{rows}':>12}{f'mean@{rows}':>10}{'cores':>7}" for rows in STAGES[:stages])
        print(f"{table:<{width}}{head}")
        for key, row in lines.items():
            cells = "".join(f"{one.median:12.2f}{one.mean:10.2f}{one.cores:7.2f}" for one in row)
            print(f"{label(*key):<{width}}{cells}")
        taken = next(iter(lines.values()))
        print(f"{'components':<{width}}" + "".join(f"{one.components:12d}{'':17}" for one in taken).rstrip())
        print_differences(lines, width)


def print_differences(lines: dict[tuple[str, str], list[Regret]], width: int) -> None:
    """Print each line less the better of the simple peers by the same rule, in points; nothing where these were not judged."""
    judged = [name for name in SIMPLE if (name, BEST) in lines]
    if not judged:
        return
    print(f"points above the better of {' and '.join(judged)}:")
    for (name, rule), row in lines.items():
        simple = [lines[peer, rule] for peer in judged if (peer, rule) in lines]
        if name in SIMPLE or not simple:
            continue
        cells = [
            f"{one.median - min(peer.median for peer in peers):+12.2f}"
            f"{one.mean - min(peer.mean for peer in peers):+10.2f}{'':7}"
            for one, *peers in zip(row, *simple, strict=True)
        ]
        print(f"{label(name, rule):<{width}}" + "".join(cells).rstrip())
