"""Figures of a table from the scores of its runs, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from accuracy_decisions import Decisions, print_decisions, summed
from accuracy_peers import OURS
from accuracy_protocol import SEEN, Scores, geometric_mean

PROTOTYPE = "prototype"  # name of the learner of --learner-from


@dataclass(frozen=True)
class Figures:
    """One cell of the printed table: what a learner did on a table, over all seeds."""

    error: float
    error_mean: float
    error_p90: float
    bias: float
    far: float
    coverage: float
    coverage_median: float
    width: float
    microseconds: float
    state_bytes: float
    components: int
    unanswered: int


def tell_split(
    split: str, names: Sequence[str], by_table: dict[tuple[str, str], list[Scores]]
) -> dict[str, dict[str, Any]]:
    """Print a split's figures and return them by table and learner."""
    found = {key: figures(runs) for key, runs in by_table.items() if runs[0].error}
    if found:
        print_split(split, names, found)
        print_by_seen(names, by_table)
    return nested({key: asdict(one) for key, one in found.items()})


def print_by_seen(names: Sequence[str], by_table: dict[tuple[str, str], list[Scores]]) -> None:
    """Print errors by rows seen before, and over the tables that have such rows their geometric mean; of streams alone."""
    means = {key: np.mean([one.by_seen for one in runs], axis=0) for key, runs in by_table.items() if runs[0].by_seen}
    if not any(np.isfinite(one).any() for one in means.values()):
        return
    print(f"{'MAPE %':<24}" + "".join(f"{f'from {rows} rows':>14}" for rows in SEEN))
    for (learner, table), values in means.items():
        print(
            f"{learner + ' ' + table:<24}" + "".join(f"{100 * value:14.2f}" for value in values).replace("nan", "  -")
        )
    for learner in dict.fromkeys(learner for learner, _ in means):
        of = [means[learner, table] for table in names if (learner, table) in means]
        whole = [geometric_mean([100 * one[k] for one in of if np.isfinite(one[k])]) for k in range(len(SEEN))]
        print(f"{learner + ' geo. mean':<24}" + "".join(f"{value:14.2f}" for value in whole))


def tell_decisions(names: Sequence[str], by_table: dict[tuple[str, str], list[Decisions]]) -> dict[str, dict[str, Any]]:
    """Print the regrets and return them by table and learner."""
    found = {key: summed(runs) for key, runs in by_table.items()}
    print_decisions(names, found)
    return nested(
        {key: {rule: [asdict(one) for one in row] for rule, row in one.items()} for key, one in found.items()}
    )


def nested(found: dict[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    """Return what is kept by (learner, table) by table and then by learner."""
    report: dict[str, dict[str, Any]] = {}
    for (learner, table), one in found.items():
        report.setdefault(table, {})[learner] = one
    return report


def figures(runs: Sequence[Scores]) -> Figures:
    """Return the figures of a table: each over its components and then the mean over seeds."""

    def mean(values: Iterator[float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return math.fsum(known) / len(known) if known else math.nan

    def over(values: Sequence[float], reduce: Callable[[Sequence[float]], float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return float(reduce(known)) if known else math.nan

    return Figures(
        error=100 * mean(over(one.error, np.median) for one in runs),
        error_mean=100 * mean(over(one.error, np.mean) for one in runs),
        error_p90=100 * mean(over(one.error, lambda values: np.percentile(values, 90)) for one in runs),
        bias=100 * mean(over(one.bias, np.median) for one in runs),
        far=100 * mean(sum(one.far) / sum(one.rows) for one in runs),
        coverage=100 * mean(pooled(one) for one in runs),
        coverage_median=100 * mean(over(one.coverage, np.median) for one in runs),
        width=mean(over(one.width, np.median) for one in runs),
        microseconds=mean(one.microseconds for one in runs),
        state_bytes=mean(one.state_bytes for one in runs),
        components=len(runs[0].error),
        unanswered=sum(one.unanswered for one in runs),
    )


def pooled(scores: Scores) -> float:
    """Return the share of all judged rows that their interval held."""
    pairs = [(c, n) for c, n in zip(scores.coverage, scores.rows, strict=True) if not math.isnan(c)]
    return sum(c * n for c, n in pairs) / sum(n for _, n in pairs) if pairs else math.nan


def print_split(split: str, tables: Sequence[str], found: dict[tuple[str, str], Figures]) -> None:
    """Print a line a learner and table, the geometric means, and ours over the best peer."""
    learners = list(dict.fromkeys(learner for learner, _ in found))
    print(f"\n== {split} ==")
    width = max(len(learner) for learner in learners)
    head = (
        "MAPE %",
        "mean %",
        "p90 %",
        "bias %",
        "far %",
        "cover %",
        "median",
        "width",
        "us/row",
        "bytes",
        "comp.",
        "no answer",
    )
    for table in tables:
        print(f"{table:<{width}}" + "".join(f"{text:>10}" for text in head))
        for learner in learners:
            one = found.get((learner, table))
            if one is None:
                continue
            cells = [f"{value:10.2f}" for value in (one.error, one.error_mean, one.error_p90, one.bias, one.far)]
            cells += [f"{value:10.1f}" for value in (one.coverage, one.coverage_median)]
            cells += [f"{one.width:10.2f}", f"{one.microseconds:10.0f}", f"{one.state_bytes:10.0f}"]
            cells += [f"{one.components:10d}", f"{one.unanswered:10d}"]
            print(f"{learner:<{width}}" + "".join(cells).replace("nan", "  -"))
    for title, figure in (("MAPE %", "error"), ("mean %", "error_mean")):
        print(f"{title:<{width}}" + "".join(f"{table:>14}" for table in tables) + f"{'geo. mean':>14}")
        means = geometric_means(tables, found, figure)
        for learner in learners:
            cells = [
                getattr(found[learner, table], figure) if (learner, table) in found else math.nan for table in tables
            ]
            line = "".join(f"{value:14.2f}" for value in (*cells, means.get(learner, math.nan)))
            print(f"{learner:<{width}}" + line.replace("nan", "  -"))
    print_ratios(tables, found, geometric_means(tables, found, "error"))


def geometric_means(tables: Sequence[str], found: dict[tuple[str, str], Figures], figure: str) -> dict[str, float]:
    """Return the geometric mean of a figure over the tables of each learner that has all of them."""
    learners = dict.fromkeys(learner for learner, _ in found)
    return {
        learner: geometric_mean([getattr(found[learner, table], figure) for table in tables])
        for learner in learners
        if all((learner, table) in found for table in tables)
    }


def print_ratios(tables: Sequence[str], found: dict[tuple[str, str], Figures], means: dict[str, float]) -> None:
    """Print the best peer of each table and of the geometric mean, and ours over it."""
    best: dict[str, tuple[float, str]] = {}
    for table in tables:
        errors = [(one.error, learner) for (learner, of), one in found.items() if of == table and is_peer(learner)]
        if errors:
            best[table] = min(errors)
    single = min(((mean, learner) for learner, mean in means.items() if is_peer(learner)), default=None)
    if not best:
        return
    print("best peer: " + ", ".join(f"{table} {learner} {error:.2f}" for table, (error, learner) in best.items()))
    if single:
        print(f"best single peer: {single[1]}, geometric mean {single[0]:.2f}")
    for learner in dict.fromkeys(learner for learner, _ in found):
        if is_peer(learner):
            continue
        shares = [
            f"{table} {found[learner, table].error / error:.3f}"
            for table, (error, _) in best.items()
            if error > 0 and (learner, table) in found
        ]
        total = (
            f"; geometric mean / best single peer's {means[learner] / single[0]:.3f}"
            if single and learner in means
            else ""
        )
        print(f"{learner} / best peer: {', '.join(shares)}{total}")


def is_peer(learner: str) -> bool:
    """Return whether a learner is another's: neither ours nor a prototype of it."""
    return learner not in OURS and learner != PROTOTYPE
