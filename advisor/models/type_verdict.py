"""The verdict on a task type (paper 2): regular, input-dependent, several behaviours or contended; which model, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats
from advisor.models.size_clusters import Cluster, chosen_clusters
from advisor.models.size_time import LOG, LOG2, SIZE, TIME, N, SizeTime, within_cells

# REGULAR: relative standard deviation of time up to which one time serves all: the total is then off by as much
REGULAR: Final = 0.10
EXPLAINED: Final = 0.5  # share of the variance of time from which on size is what it depends on
SLOWED: Final = 1.10  # times as long, from the fewest running workers to the most, from which on workers contend
FEW: Final = 1.5  # instances looked at in a cell, below which it says nothing of itself
BUCKET_LEAST: Final = 30  # instances, for its quantiles to be reported
# NOTCH: of a median: 1.57 times the interquartile range over sqrt(n) is its 95 % interval (McGill et al. 1978)
NOTCH: Final = 1.57
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)  # whiskers, box and line of the paper's Figs. 2 and 5
VERDICTS: Final = ("regular", "input-dependent", "several behaviours", "contended", "irregular")
SIZED_MODELS: Final = ("support_points", "clusters")  # those that need sizes
MODELS: Final = ("one_time", *SIZED_MODELS, "rate_by_workers")
KNOTS: Final = 32
SIGNIFICANT: Final = 2.0  # standard errors by which a cell's mean must miss the interpolation to become a knot
TOLERATED: Final = 0.02  # and share of it; the error that paper 2 leaves to clusters
MISSED: Final = 0.1  # of instances: by chance one cell in 20 lies beyond two standard errors
BELIEF: Final = 0.3  # of the standard deviation of log time, worth one instance: one or two say nothing of their spread


@dataclass(frozen=True, slots=True)
class WorkerRates:
    """Quantiles of the rate size / time (1 / time without sizes) of instances that ended while so many workers ran."""

    workers_low: int
    workers_high: int
    count: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TypeReport:
    """What is known of a task type.

    `errors` of the total, |1 - predicted / measured| (Eq. 1): `first`, by the time of the first instance; of those with a
    size by `support_points` and by `clusters`.
    """

    count: int  # instances ended; of a sample, those that it stands for
    sized: int  # of them, those with a size
    seen: int  # instances looked at: fewer than `count` where they are a sample
    total_s: float
    mean_s: float
    deviation: float  # standard deviation of the logarithm of time: the relative one, which outliers do not make
    errors: dict[str, float]
    knots: tuple[tuple[float, float], ...]  # the support points: sizes ascending, and times
    clusters: tuple[Cluster, ...]  # as many as there seem to be
    rates: tuple[WorkerRates, ...]
    slowdown: float  # median rate with the fewest workers over that with the most; 1 where one number of them was seen
    verdict: str  # one of `VERDICTS`; ``irregular``: times vary, and neither sizes nor workers say why
    ask: str  # the model that serves it, one of `MODELS`
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain values."""
        plain = asdict(self)
        plain["knots"] = len(self.knots)
        plain["clusters"] = [asdict(each) for each in self.clusters]
        plain["rates"] = [asdict(each) | {"quantiles": list(each.quantiles)} for each in self.rates]
        return plain


def report_of(learned: SizeTime) -> TypeReport:
    """Return what is known of a task type with one instance or more; cost O(cells^2)."""
    count, total = learned.head_field("count"), learned.head_field("total")
    sized, sized_total = learned.head_field("sized"), learned.head_field("sized_total")
    errors = {"first": abs(1.0 - count * learned.head_field("first") / total)}
    clusters: tuple[Cluster, ...] = ()
    knots: tuple[tuple[float, float], ...] = ()
    split = False
    if sized:
        cells = learned.cells
        knots = support_points(cells, learned.sized_share)
        clusters, split = chosen_clusters(cells)
        by_points: Floats = cells[N] * _by_points(cells[SIZE] / cells[N], knots)
        errors["support_points"] = abs(1.0 - float(by_points.sum()) / sized_total)
        of_clusters = elementary.added(each.count * each.representative_s for each in clusters)
        errors["clusters"] = abs(1.0 - of_clusters / sized_total)
    rates = rates_of(learned)
    slowdown, certain = _slowdown(rates, learned.share)
    mean = total / count
    deviation = float(
        np.sqrt(max(learned.head_field("log_squares") / count - (learned.head_field("logs") / count) ** 2, 0.0))
    )
    verdict, ask, why = _judged(learned, deviation, clusters, split, slowdown if certain else 1.0, errors)
    return TypeReport(
        round(count), round(sized), int(learned.head_field("rows")), total, mean, deviation, errors, knots, clusters, rates,
        slowdown, verdict, ask, why,
    )  # fmt: skip


def support_points(cells: Floats, share: float) -> tuple[tuple[float, float], ...]:
    """Return sizes and times between which others are interpolated: the ends, then the cell whose mean that misses most.

    `share`: instances looked at over those that the cells stand for.
    """
    n: Floats = cells[N]
    x: Floats = cells[SIZE] / n
    y: Floats = cells[TIME] / n
    tolerated = _tolerated(cells, share)
    chosen = np.zeros(len(x), np.bool_)
    chosen[[0, -1]] = True
    while chosen.sum() < min(KNOTS, len(x)):
        missed = np.abs(np.interp(x, x[chosen], y[chosen]) - y)
        missed[chosen | (missed <= tolerated)] = 0.0
        worst = int((missed * n).argmax())
        if missed[worst] <= 0.0:
            break
        chosen[worst] = True
    return tuple(zip(x[chosen].tolist(), y[chosen].tolist(), strict=True))


def _tolerated(cells: Floats, share: float) -> Floats:
    """Return by how much each cell's mean time (c,) may be missed: its noise, or a small share of it."""
    y: Floats = cells[TIME] / cells[N]
    return np.maximum(SIGNIFICANT * within_cells(cells) / np.sqrt(cells[N] * share), TOLERATED) * y


def predicted(learned: SizeTime, report: TypeReport, sizes: Floats, model: str | None = None) -> Floats:
    """Return the times (n,) of instances of sizes (n,), 0 where none is known, among as many workers as there were.

    By ``one_time`` it is the mean time; by ``support_points`` interpolation between them, constant beyond the ends; by
    ``clusters`` the mean of the cell nearest to the centroid of the cluster with the nearest one; by ``rate_by_workers`` size /
    rate, the rate being that of all instances together (1 / mean time where no sizes were sent).

    Absent: the model that the report asks for. Those of `SIZED_MODELS` need instances with a size.
    """
    match model or report.ask:
        case "support_points":
            return _by_points(sizes, report.knots)
        case "clusters":
            return _by_clusters(sizes, report.clusters)
        case "rate_by_workers" if report.sized:
            seconds_a_size = learned.head_field("sized_total") / float(learned.cells[SIZE].sum())
            return np.where(sizes > 0.0, sizes * seconds_a_size, report.mean_s)
        case _:
            return np.full(len(sizes), report.mean_s)


def spread(learned: SizeTime, report: TypeReport, model: str) -> tuple[float, float]:
    """Return the mean and the standard deviation of log(time / predicted) over the instances that were seen.

    Of models that need sizes over the cells, at their mean sizes, of the others over all instances. `BELIEF` counts as one more
    instance.
    """
    if model in SIZED_MODELS or (model == "rate_by_workers" and report.sized):
        cells = learned.cells
        n, logs, squares, rows = cells[N], cells[LOG], cells[LOG2], learned.head_field("sized_rows")
        expected = elementary.log(predicted(learned, report, cells[SIZE] / n, model))
    else:
        n, logs, squares = (np.array([learned.head_field(name)]) for name in ("count", "logs", "log_squares"))
        rows, expected = learned.head_field("rows"), np.array([elementary.log(report.mean_s)])
    total = float(n.sum())
    mean = float((logs - n * expected).sum()) / total
    variance = float((squares - 2.0 * expected * logs + n * expected**2).sum()) / total - mean**2
    return mean, float(np.sqrt((max(variance, 0.0) * rows + BELIEF**2) / (rows + 1.0)))


def rates_of(learned: SizeTime) -> tuple[WorkerRates, ...]:
    """Return the quantiles of the rate by running workers, where enough instances ended."""
    values, counts = learned.rates
    width = learned.rate_width
    found: list[WorkerRates] = []
    for bucket, row in enumerate(counts):
        total = float(row.sum())
        if total * learned.share >= BUCKET_LEAST:
            reached = np.cumsum(row)
            asked = np.array(QUANTILES) * total
            places = np.minimum(np.searchsorted(reached, asked), len(values) - 1)
            within = 0.5 - (reached[places] - asked) / np.where(row[places] > 0.0, row[places], 1.0)
            quantiles: list[float] = (
                values[places] * elementary.exp2(within * width)
            ).tolist()  # cells are full evenly, in logs
            found.append(WorkerRates(2**bucket, 2 ** (bucket + 1) - 1, round(total), tuple(quantiles)))
    return tuple(found)


def _slowdown(rates: tuple[WorkerRates, ...], share: float) -> tuple[float, bool]:
    """Return how many times as long it takes with the most workers as with the fewest, and whether that is certain."""
    if len(rates) < 2:
        return 1.0, False
    few, many = rates[0], rates[-1]
    ratio = few.quantiles[2] / many.quantiles[2]
    notches = [
        NOTCH * elementary.log(each.quantiles[3] / each.quantiles[1]) / np.sqrt(each.count * share)
        for each in (few, many)
    ]
    return ratio, abs(float(elementary.log(ratio))) > sum(notches)


def _by_size(learned: SizeTime) -> float:
    """Return the share of the variance of log time that sizes explain: of each instance by the others of its cell, of one that
    is alone by its neighbour, half the square of their difference (von Neumann 1941)."""
    cells = learned.cells
    n, rows, means = cells[N], cells[N] * learned.sized_share, cells[LOG] / cells[N]
    variance = float(cells[LOG2].sum() / n.sum() - (cells[LOG].sum() / n.sum()) ** 2)
    if variance <= 0.0 or len(n) < 2:
        return 0.0
    several: Floats = np.where(rows >= FEW, rows, 2.0)
    within: Floats = np.maximum(cells[LOG2] - n * means**2, 0.0) * (several / (several - 1.0)) ** 2
    steps: Floats = np.diff(means)
    lost: Floats = np.where(rows >= FEW, within, 0.5 * n * np.append(steps[:1], steps) ** 2)
    return max(0.0, 1.0 - float(lost.sum() / n.sum()) / variance)


def _by_points(sizes: Floats, knots: tuple[tuple[float, float], ...]) -> Floats:
    """Return the times of instances of sizes (n,): interpolated between support points."""
    at: Floats = np.array(knots)
    return np.interp(sizes, at[:, 0], at[:, 1])


def _by_clusters(sizes: Floats, clusters: tuple[Cluster, ...]) -> Floats:
    """Return the times of instances of sizes (n,): of each the representative of the cluster with the nearest centroid."""
    centres = np.array([each.size for each in clusters])
    times = np.array([each.representative_s for each in clusters])
    return times[np.abs(sizes[:, None] - centres).argmin(axis=1)]


def _clusters_serve(learned: SizeTime, clusters: tuple[Cluster, ...], errors: dict[str, float]) -> bool:
    """Return whether clusters are as good as support points: then they serve, being simpler.

    They are where they err by at most `TOLERATED` more of the total, and next to no instance is of a cell that they miss.
    """
    cells = learned.cells
    off = np.abs(_by_clusters(cells[SIZE] / cells[N], clusters) - cells[TIME] / cells[N])
    missed = cells[N, off > _tolerated(cells, learned.sized_share)].sum() / cells[N].sum()
    return missed <= MISSED and errors["clusters"] - errors["support_points"] <= TOLERATED


def _judged(
    learned: SizeTime,
    deviation: float,
    clusters: tuple[Cluster, ...],
    split: bool,
    slowdown: float,
    errors: dict[str, float],
) -> tuple[str, str, str]:
    """Return the verdict, the model and why."""
    first = f"{errors['first']:.1%}"
    if deviation <= REGULAR:
        return "regular", "one_time", f"times vary by {deviation:.1%}; one time is off by {first} of the total"
    sized = learned.head_field("sized")
    explained = _by_size(learned) if sized else 0.0
    if explained >= EXPLAINED:
        split = split and len(clusters) >= 2
        ask = "clusters" if split and _clusters_serve(learned, clusters, errors) else "support_points"
        come = f"come in {len(clusters)} clusters and " if split else ""
        off = f"support points by {errors['support_points']:.1%}, one time by {first}"
        return "several behaviours" if split else "input-dependent", ask, (
            f"sizes {come}explain {explained:.0%} of the variance of time; of the total clusters are off by "
            f"{errors['clusters']:.1%}, {off}"
        )  # fmt: skip
    what = f"sizes explain {explained:.0%} of the variance of time" if sized else "no sizes were sent"
    if slowdown >= SLOWED:
        return "contended", "rate_by_workers", (
            f"an instance takes {slowdown:.2f} times as long while many workers run as while few do; {what}"
        )  # fmt: skip
    return "irregular", "one_time", f"times vary by {deviation:.0%}, and {what}, nor do running workers"
