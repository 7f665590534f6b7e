"""What each component may be given: shapes of (cores per instance, instances), as padded tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.curves import AmdahlCurves, TabulatedCurves
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.requests import Request, allowed_of, check_curves, is_allowed, limits_of, pins_of, scales_of
from advisor.planning.asked.visits import Visits

CELLS_MAX = 2_000_000  # of all components' counts: beyond, counts are thinned
ALL_COUNTS = 64  # counts up to here are never thinned
THINNED = 1.04  # ratio of neighbouring counts beyond
INSTANCES_ALL = 32  # numbers of instances up to here are never thinned
SHAPES_MAX = 4096  # shapes of one component that are kept: beyond, the dominated ones must go first
NOTHING = 2**40  # weight of a padded entry: no machine has it


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves as the planner uses them, at the counts it may choose.

    Attributes
    ----------
    counts : int64 array (m,)
    seconds_s, expected_s : float64 arrays (n, m)
        Of one run: what is planned with (the upper bound where a level was given), and the expectation.
    spread : float64 array (n, m)
        log(upper / expected): how uncertain the curve is.
    variation, contention, peak_bytes : float64 arrays (n,)
    last : int64 array (n,)
        Counts beyond were not measured: nobody gets more.
    thinned : bool
        Not every count is among `counts`.
    """

    counts: Ints
    seconds_s: Floats
    expected_s: Floats
    spread: Floats
    variation: Floats
    contention: Floats
    peak_bytes: Floats
    last: Ints
    thinned: bool


@dataclass(frozen=True, slots=True)
class Options:
    """Shapes by component, by weight then time; each array (n, shapes), padded with the weight NOTHING.

    `heaviest` is the share of a component's records that its busiest instance serves: 1/instances, more under splits.
    """

    cores: Ints
    instances: Ints
    weight: Ints
    seconds_s: Floats
    heaviest: Floats
    number: Ints

    def pick(self, chosen: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """Return cores, instances, seconds and heaviest share of chosen shapes, (K, n) each."""
        rows = np.arange(len(self.number))
        return (self.cores[rows, chosen], self.instances[rows, chosen],
                self.seconds_s[rows, chosen], self.heaviest[rows, chosen])  # fmt: skip

    @property
    def least(self) -> Ints:
        """The fewest cores of each component."""
        return self.weight[:, 0]


def counts_of(most: int, components: int, extra: Ints) -> tuple[Ints, bool]:
    """Return the counts to consider up to `most`: all of them while tables stay small, else ever wider apart."""
    if most * components <= CELLS_MAX:
        return np.arange(1, most + 1), False
    wide = ALL_COUNTS * THINNED ** np.arange(int(np.log(most / ALL_COUNTS) / np.log(THINNED)) + 1)
    powers = 2 ** np.arange(int(np.log2(most)) + 1)
    parts = [np.arange(1, ALL_COUNTS + 1), wide.astype(np.int64), powers, extra[extra <= most], [most]]
    return np.unique(np.concatenate(parts)).astype(np.int64), True


def curves_for(network: Network, curves: AmdahlCurves | TabulatedCurves, request: Request, most: int) -> Curves:
    """Return the curves at the counts up to `most`. Cost O(n counts)."""
    check_curves(network, curves)
    n, scale = len(curves), scales_of(network, request)[:, None]
    low, high, _ = limits_of(network, request)
    named = [np.array([p for p, _ in pins_of(network, request).values() if p], np.int64)]
    named += [cast("Ints", counts) for rule, counts in allowed_of(network, request).values() if rule == "list"]
    if isinstance(curves, AmdahlCurves):
        counts, thinned = counts_of(most, n, np.concatenate([low, high, *named]))
        seconds = scale * (curves.serial_s[:, None] + curves.parallel_s[:, None] / counts)
        zero = np.zeros(n)
        last = np.full(n, limits.ALLOCATE_CORES_MAX)
        return Curves(counts, seconds, seconds, np.zeros_like(seconds), zero, zero, zero, last, thinned)
    counts, thinned = counts_of(most, n, np.concatenate([low, high, curves.cores, *named]))
    expected, upper = scale * curves.at(counts), scale * curves.at(counts, upper=True)
    spread = np.log(np.maximum(upper / expected, 1.0))
    seconds = expected if request.level is None else np.maximum(upper, expected)
    last = np.full(n, int(curves.cores[-1]))
    return Curves(
        counts, seconds, expected, spread, curves.variation, curves.contention, curves.peak_bytes, last, thinned
    )


def heaviest_share(replicas: Sequence[float], instances: int) -> tuple[float, list[float]]:
    """Return the heaviest instance's share, and all instances' shares, when replicas are dealt longest first.

    All records of one replica (one tag value) go to one instance; more instances than replicas are of no use. Cost
    O(replicas log instances).
    """
    loads = [0.0] * instances
    heapify(loads)
    for share in replicas:
        heapreplace(loads, loads[0] + share)
    return max(loads), sorted(loads, reverse=True)


def options_of(
    network: Network, request: Request, curves: Curves, visits: Visits, most: int, *, keep_instances: bool,
    apart: bool = True,
) -> Options:  # fmt: skip
    """Return the shapes that limits, rules and pins leave, without those that another beats in every respect.

    Parameters
    ----------
    most : int
        Cores of the machine: no component gets more than what the least of the others leaves.
    keep_instances : bool
        A shape of more instances is not beaten by one of fewer: where records queue.
    apart : bool
        Each component has cores of its own; else they may take turns, and each may have all of `most`.

    Raises
    ------
    InvalidValue
        When nothing is left for a component, or the least of all is more than `most`.
    ImpossibleTarget
        When one instance needs more memory than there is.
    """
    low, high, instances_max = limits_of(network, request)
    pins, rules = pins_of(network, request), allowed_of(network, request)
    _check_memory(network, request, curves)
    widest = min(most, request.nodes or most)
    possible: list[NDArray[np.bool_]] = []
    for row in range(len(network.keys)):
        fits = (curves.counts >= low[row]) & (
            curves.counts <= min(int(high[row]), widest, max(int(curves.last[row]), int(low[row])))
        )
        if row in rules:
            fits &= is_allowed(rules[row], curves.counts)
        pin = pins.get(row, (None, None))[0]
        if pin is not None:
            fits &= curves.counts == pin
        if not fits.any():
            raise _nothing(network.keys[row], int(low[row]), int(high[row]), widest, pin, row in rules)
        possible.append(fits)
    fewest = [pins.get(row, (None, None))[1] or 1 for row in range(len(possible))]
    least = np.array([int(curves.counts[fits][0]) * n for fits, n in zip(possible, fewest, strict=True)])
    needed, what = (int(least.sum()), " in sum") if apart else (int(least.max()), "")
    if needed > most:
        raise InvalidValue("minimum", needed, f"at most the {most} cores given{what}")
    others = least.sum() - least if apart else np.zeros_like(least)
    tables = [
        _shapes(curves, row, possible[row], most - int(others[row]),
                pins.get(row, (None, None))[1], int(instances_max[row]), visits.replicas.get(row),
                _Rules(keep_instances, request.memory_bytes is not None, request.nodes is not None))
        for row in range(len(possible))
    ]  # fmt: skip
    width = max(len(table[0]) for table in tables)
    fills = (1, 1, NOTHING, np.inf, 1.0)
    padded = [np.full((len(tables), width), fill, np.asarray(tables[0][part]).dtype) for part, fill in enumerate(fills)]
    for row, table in enumerate(tables):
        for part, values in enumerate(table):
            padded[part][row, : len(values)] = values
    cores, instances, weight, seconds, heaviest = padded
    return Options(cores, instances, weight, seconds, heaviest, np.array([len(table[0]) for table in tables]))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Rules:
    keep_instances: bool
    memory: bool
    nodes: bool


def _check_memory(network: Network, request: Request, curves: Curves) -> None:
    if request.memory_bytes is None:
        return
    worst = int(curves.peak_bytes.argmax())
    if curves.peak_bytes[worst] > request.memory_bytes:
        raise ImpossibleTarget(
            f"one instance of {network.keys[worst]} may need {curves.peak_bytes[worst]:.6g} bytes;"
            f" there are {request.memory_bytes:.6g}",
            field=network.keys[worst], value=request.memory_bytes, bound=float(curves.peak_bytes[worst]),
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip


def _nothing(key: str, low: int, high: int, widest: int, pin: int | None, ruled: bool) -> InvalidValue:
    bound = f"a count from {low} to {min(high, widest)}" + (" that is allowed" if ruled else "")
    return InvalidValue(f"allowed.{key}" if ruled else f"minimum.{key}", pin or low, bound, "no count is left for it")


def _shapes(
    curves: Curves, row: int, fits: NDArray[np.bool_], most: int, pinned: int | None, instances_max: int,
    replicas: Sequence[float] | None, rules: _Rules,
) -> tuple[Ints, Ints, Ints, Floats, Floats]:  # fmt: skip
    counts, seconds = curves.counts[fits], curves.seconds_s[row, fits]
    numbers = np.array([pinned]) if pinned else _numbers(min(instances_max, most // int(counts[0])), replicas)
    cores, instances = (some.ravel() for some in np.meshgrid(counts, numbers, indexing="ij"))
    times = np.repeat(seconds, len(numbers))
    share = {int(n): heaviest_share(replicas, int(n))[0] if replicas else 1 / int(n) for n in numbers}
    heaviest = np.array([share[int(n)] for n in numbers])
    heavy = np.tile(heaviest, len(counts))
    within = cores * instances <= most
    shapes = (cores[within], instances[within], (cores * instances)[within], times[within], heavy[within])
    order = np.lexsort((shapes[1], shapes[3], shapes[2]))
    shapes = tuple(part[order] for part in shapes)
    if len(numbers) == 1:  # one number of instances: of equal or more cores only the faster are of use
        kept = np.concatenate([[True], shapes[3][1:] < np.minimum.accumulate(shapes[3])[:-1]])
    else:
        kept = _undominated(shapes, curves.contention[row] > 0, rules)
    return tuple(part[kept] for part in shapes)  # type: ignore[return-value]


def _numbers(most: int, replicas: Sequence[float] | None) -> Ints:
    """Return the numbers of instances to consider: all while few, then ever wider apart."""
    most = max(1, min(most, len(replicas)) if replicas else most)
    if most <= INSTANCES_ALL:
        return np.arange(1, most + 1)
    wide = INSTANCES_ALL * THINNED ** np.arange(int(np.log(most / INSTANCES_ALL) / np.log(THINNED)) + 1)
    return np.unique(np.concatenate([np.arange(1, INSTANCES_ALL + 1), wide.astype(np.int64), [most]]))


def _undominated(shapes: tuple[Ints | Floats, ...], contended: bool, rules: _Rules) -> NDArray[np.bool_]:
    """Return which shapes no other beats: in cores, time, load and what else counts here. Cost O(shapes^2)."""
    cores, instances, weight, seconds, heaviest = shapes
    criteria = [weight, seconds, seconds * heaviest]
    if contended:
        criteria.append(seconds * cores)  # core-seconds: what it takes from the others
    if rules.memory:
        criteria.append(instances)
    if rules.nodes:
        criteria += [cores, instances]
    if rules.keep_instances:
        criteria.append(-instances)
    table = np.stack([np.asarray(one, np.float64) for one in criteria])
    kept = np.ones(table.shape[1], np.bool_)
    for place in range(table.shape[1]):
        # In order of weight: whoever beats it stands before it, or is equal to it in all and stands before it.
        before = table[:, :place][:, kept[:place]]
        kept[place] = not (before <= table[:, place : place + 1]).all(axis=0).any()
    return kept


def keyed(keys: Sequence[str], values: Ints | Floats) -> Mapping[str, int | float]:
    """Return a mapping by key of plain numbers."""
    return dict(zip(keys, values.tolist(), strict=True))
