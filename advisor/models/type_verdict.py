"""What is told of a task type (paper 2): regular, input-dependent, several behaviours or contended; which model, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.models.size_time import LOG, LOG2, NEAR_SIZE, NEAR_TIME, SIZE, TIME, N, SizeTime

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLUSTERS_MAX: Final = 4
APART: Final = 0.05  # share of the squares of size that may be left within clusters: even sizes leave 1/16 within four
REGULAR: Final = (
    0.10  # relative standard deviation of time up to which one time serves all: the total is then off by as much
)
EXPLAINED: Final = 0.5  # share of the variance of time from which on size is what it depends on
SLOWED: Final = 1.10  # times as long, from the fewest running workers to the most, from which on workers contend
FEW: Final = 1.5  # instances looked at in a cell, below which it says nothing of itself
BUCKET_LEAST: Final = 30  # instances, for its quantiles to be told
NOTCH: Final = (
    1.57  # of a median: 1.57 times the interquartile range over sqrt(n) is its 95 % interval (McGill et al. 1978)
)
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)  # whiskers, box and line of the paper's Figs. 2 and 5
VERDICTS: Final = ("regular", "input-dependent", "several behaviours", "contended", "irregular")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Instances of like size: how many, their mean size, and what stands for all: the instance nearest to it, as the paper has
    it, or the mean of the cell nearest to it, which no single measurement can spoil."""

    count: int
    size: float
    representative_s: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Rate size / time (1 / time where no sizes are known) of instances that ended while so many workers ran: quantiles."""

    workers_low: int
    workers_high: int
    count: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TypeReport:
    """What is known of a task type.

    Attributes
    ----------
    count, sized : int
        Instances ended, and those with a size; of a sample, those that it stands for.
    seen : int
        Instances looked at: fewer than `count` where they are a sample.
    total_s, mean_s, deviation : float
        Sum and mean of their times; standard deviation of the logarithm: the relative one, which outliers do not make.
    errors : mapping of str to float
        Of the total, |1 - predicted / measured| (Eq. 1): by the time of the first and of the second instance, and, of those
        with a size, by support points as printed and refined, by two clusters as printed, and by as many as there seem to be.
    points, knots : int
        Support points as printed, refined.
    clusters : tuple of Cluster
        As many as there seem to be.
    rates : tuple of Rates
    slowdown : float
        Median rate with the fewest workers over that with the most; 1 where only one number of workers was seen.
    verdict : str
        One of `VERDICTS`; ``irregular``: times vary, and neither sizes nor workers say why.
    model : str
        ``one time``, ``support points``, ``clusters`` or ``rate by workers``.
    why : str
    """

    count: int
    sized: int
    seen: int
    total_s: float
    mean_s: float
    deviation: float
    errors: dict[str, float]
    points: int
    knots: int
    clusters: tuple[Cluster, ...]
    rates: tuple[Rates, ...]
    slowdown: float
    verdict: str
    model: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the report in plain values."""
        plain = asdict(self)
        plain["clusters"] = [asdict(each) for each in self.clusters]
        plain["rates"] = [asdict(each) | {"quantiles": list(each.quantiles)} for each in self.rates]
        return plain


def report_of(learned: SizeTime) -> TypeReport:
    """Return what is known of a task type with one instance or more; cost O(cells^2)."""
    count, total = int(learned.number("count")), learned.number("total")
    sized, sized_total = int(learned.number("sized")), learned.number("sized_total")
    guesses = {"first": learned.number("first"), "second": learned.number("second") if count > 1 else None}
    errors = {name: abs(1.0 - count * time / total) for name, time in guesses.items() if time}
    clusters: tuple[Cluster, ...] = ()
    if sized:
        errors["support_points"] = abs(1.0 - learned.number("predicted_printed") / sized_total)
        errors["refined_points"] = abs(1.0 - learned.number("predicted_refined") / sized_total)
        errors["two_clusters"] = abs(1.0 - _total(clustered(learned.cells, 2, single=True)) / sized_total)
        clusters, _ = chosen_clusters(learned.cells)
        errors["clusters"] = abs(1.0 - _total(clusters) / sized_total)
    rates = rates_of(learned)
    slowdown, certain = _slowdown(rates, learned.share)
    mean = total / count
    deviation = float(np.sqrt(max(learned.number("log_squares") / count - (learned.number("logs") / count) ** 2, 0.0)))
    verdict, model, why = _judged(learned, deviation, clusters, slowdown if certain else 1.0, errors)
    return TypeReport(
        count, sized, int(learned.number("rows")), total, mean, deviation, errors, int(learned.number("points")),
        int(learned.number("knots")), clusters, rates, slowdown, verdict, model, why,
    )  # fmt: skip


def predicted(learned: SizeTime, report: TypeReport, sizes: Floats) -> Floats:
    """Return the times (n,) of instances of sizes (n,) by the model that the report names."""
    if report.model == "support points":
        return np.interp(sizes, *learned.knots)
    if report.model == "clusters":
        centres = np.array([each.size for each in report.clusters])
        times = np.array([each.representative_s for each in report.clusters])
        return times[np.abs(sizes[:, None] - centres).argmin(axis=1)]
    return np.full(len(sizes), report.mean_s)


def clustered(cells: Floats, k: int, *, single: bool = False) -> tuple[Cluster, ...]:
    """Return the best k clusters of size: k-means on the cells' means, exact in one dimension. Cost O(k c^2).

    Against k-means on the instances themselves only the border may move, by less than a cell.

    Parameters
    ----------
    single : bool
        One instance stands for a cluster, as the paper has it.
    """
    n, x = cells[N], cells[SIZE] / cells[N]
    found: list[Cluster] = []
    for first, last in _parts(n, x, min(k, len(x)))[0]:
        part = slice(first, last)
        centroid = float(cells[SIZE, part].sum() / n[part].sum())
        nearest = first + int(np.abs((cells[NEAR_SIZE, part] if single else x[part]) - centroid).argmin())
        time = cells[NEAR_TIME, nearest] if single else cells[TIME, nearest] / n[nearest]
        found.append(Cluster(int(n[part].sum()), centroid, float(time)))
    return tuple(found)


def chosen_clusters(cells: Floats) -> tuple[tuple[Cluster, ...], bool]:
    """Return the fewest clusters, up to four, that hold all but a little of the squares of size; whether there are such."""
    n, x = cells[N], cells[SIZE] / cells[N]
    whole = float((n * (x - np.average(x, weights=n)) ** 2).sum())
    for k in range(1, CLUSTERS_MAX + 1):
        if _parts(n, x, min(k, len(x)))[1] <= APART * whole:
            return clustered(cells, k), True
    return clustered(cells, CLUSTERS_MAX), False


def _parts(n: Floats, x: Floats, k: int) -> tuple[list[tuple[int, int]], float]:
    """Return how k parts of neighbours leave the least squares within, as (first, behind the last), and these squares."""
    m = len(x)
    x = x - x[0]
    counts, sums, squares = (np.append(0.0, np.cumsum(each)) for each in (n, n * x, n * x * x))
    weight = counts[None, :] - counts[:, None]
    cost = (
        squares[None, :] - squares[:, None] - (sums[None, :] - sums[:, None]) ** 2 / np.where(weight > 0.0, weight, 1.0)
    )
    cost = np.where(weight > 0.0, np.maximum(cost, 0.0), np.inf)
    best: Floats = cost[0].copy()
    cuts: list[Ints] = []
    for _ in range(k - 1):
        through = best[:, None] + cost
        cuts.append(through.argmin(axis=0))
        best = through.min(axis=0)
    last = m
    parts: list[tuple[int, int]] = []
    for cut in reversed(cuts):
        parts.append((int(cut[last]), last))
        last = int(cut[last])
    return [(0, last), *reversed(parts)], float(best[m])


def rates_of(learned: SizeTime) -> tuple[Rates, ...]:
    """Return the quantiles of the rate by running workers, where enough instances ended."""
    values, counts = learned.rates
    found: list[Rates] = []
    for bucket, row in enumerate(counts):
        total = float(row.sum())
        if total * learned.share >= BUCKET_LEAST:
            places = np.searchsorted(np.cumsum(row), np.array(QUANTILES) * total)
            quantiles = tuple(values[np.minimum(places, len(values) - 1)].tolist())
            found.append(Rates(2**bucket, 2 ** (bucket + 1) - 1, int(total), quantiles))
    return tuple(found)


def _slowdown(rates: tuple[Rates, ...], share: float) -> tuple[float, bool]:
    """Return how many times as long it takes with the most workers as with the fewest, and whether that is certain."""
    if len(rates) < 2:
        return 1.0, False
    few, many = rates[0], rates[-1]
    ratio = few.quantiles[2] / many.quantiles[2]
    notches = [
        NOTCH * np.log(each.quantiles[3] / each.quantiles[1]) / np.sqrt(each.count * share) for each in (few, many)
    ]
    return ratio, abs(float(np.log(ratio))) > sum(notches)


def _total(clusters: tuple[Cluster, ...]) -> float:
    return sum(each.count * each.representative_s for each in clusters)


def _by_size(learned: SizeTime) -> float:
    """Return the share of the variance of log time that sizes explain: of each instance by the others, of its cell where there
    are some, else of the neighbouring cells."""
    cells = learned.cells
    n = cells[N].sum()
    variance = float(cells[LOG2].sum() - cells[LOG].sum() ** 2 / n)
    if variance <= 0.0 or cells.shape[1] < 2:
        return 0.0
    counts, sizes, means = cells[N], np.log(cells[SIZE] / cells[N]), cells[LOG] / cells[N]
    rows = counts * learned.sized_share  # of a sample, about so many were looked at
    several = rows >= FEW
    single = np.flatnonzero(~several)
    within = np.maximum(cells[LOG2] - counts * means**2, 0.0)[several]
    lost = float((within * (rows[several] / (rows[several] - 1.0)) ** 2).sum())
    if len(single):
        below, above = np.maximum(single - 1, 0), np.minimum(single + 1, len(sizes) - 1)
        below, above = np.where(single == 0, above, below), np.where(single == len(sizes) - 1, below, above)
        width = sizes[above] - sizes[below]
        share = np.where(width > 0.0, (sizes[single] - sizes[below]) / np.where(width > 0.0, width, 1.0), 0.0)
        missed = means[below] + share * (means[above] - means[below]) - means[single]
        lost += float((counts[single] * missed**2).sum())
    return max(0.0, 1.0 - lost / variance)


def _judged(
    learned: SizeTime, deviation: float, clusters: tuple[Cluster, ...], slowdown: float, errors: dict[str, float]
) -> tuple[str, str, str]:
    """Return the verdict, the model and why."""
    guess = f"one time is off by {errors['first']:.1%} of the total"
    if deviation <= REGULAR:
        return "regular", "one time", f"times vary by {deviation:.1%}; {guess}"
    sized = learned.number("sized")
    explained = _by_size(learned) if sized else 0.0
    if explained >= EXPLAINED:
        if len(clusters) >= 2 and chosen_clusters(learned.cells)[1]:
            return "several behaviours", "clusters", (
                f"sizes come in {len(clusters)} clusters and explain {explained:.0%} of the variance of time; clusters are off "
                f"by {errors['clusters']:.1%} of the total, {guess}"
            )  # fmt: skip
        return "input-dependent", "support points", (
            f"sizes explain {explained:.0%} of the variance of time; support points are off by {errors['refined_points']:.1%} "
            f"of the total, {guess}"
        )  # fmt: skip
    what = f"sizes explain {explained:.0%} of the variance of time" if sized else "no sizes were sent"
    if slowdown >= SLOWED:
        return "contended", "rate by workers", (
            f"an instance takes {slowdown:.2f} times as long while many workers run as while few do; {what}"
        )  # fmt: skip
    if _two_humps(learned):
        return (
            "several behaviours",
            "one time",
            f"times come in two groups, and {what}: send sizes that tell them apart",
        )
    return "irregular", "one time", f"times vary by {deviation:.0%}, and {what}, nor do running workers"


def _two_humps(learned: SizeTime) -> bool:
    """Return whether rates come in two groups with a gap between: two parts that leave a little of the squares of log rate."""
    values, counts = learned.rates
    n = counts.sum(axis=0)
    used = n > 0.0
    if used.sum() < 2:
        return False
    n, x = n[used], np.log2(values[used])
    whole = float((n * (x - np.average(x, weights=n)) ** 2).sum())
    return _parts(n, x, 2)[1] <= 2.0 * APART * whole
