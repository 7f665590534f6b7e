"""What each component may be given where shapes are more than turns: (cores per instance, instances), as padded tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.domain.allowed_cores import AllowedCores
from advisor.domain.vectors import Floats, Ints
from advisor.errors import InvalidValue
from advisor.planning.by_key import is_allowed
from advisor.planning.demand import Demand
from advisor.planning.judge import Placed
from advisor.planning.pieces import KERNELS
from advisor.planning.requests import Request
from advisor.planning.thinning import numbers_of, spaced

NOTHING = 2**40  # weight of a padded entry: no machine has it


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

    def pick(self, chosen: Ints) -> Placed:
        """Return the shapes chosen in K allocations with cores of one's own, (K, n)."""
        rows = np.arange(len(self.number))
        return Placed(self.cores[rows, chosen], self.instances[rows, chosen], self.seconds_s[rows, chosen],
                      self.heaviest[rows, chosen], self.weight[rows, chosen].sum(axis=1))  # fmt: skip

    def cores_used(self, chosen: Ints) -> int:
        """Return the cores of one allocation."""
        return int(self.weight[np.arange(len(self.number)), chosen].sum())


def options_of(demand: Demand) -> Options:
    """Return the shapes that limits, rules and pins leave, without those that another beats in every respect.

    No component gets more than what the least of the others leaves of the machine. Raises InvalidValue when the least of
    all is more than its cores.
    """
    request, most = demand.request, demand.cores
    widest = min(most, request.nodes or most, int(demand.high.max()))
    counts = sizes_of(widest, len(demand), (demand.knots, demand.low, demand.high), demand.rules.values())
    possible = (counts >= demand.low[:, None]) & (counts <= demand.high[:, None])
    for row, rule in demand.rules.items():
        possible[row] &= is_allowed(rule, counts)
    least = counts[possible.argmax(axis=1)] * demand.fewest
    if int(least.sum()) > most:
        raise InvalidValue("minimum", int(least.sum()), f"at most {most}, the cores given, in sum")
    seconds, spare = demand.at(counts), most - int(least.sum())
    tables = [
        _shapes(demand, row, counts[possible[row]], seconds[row, possible[row]], int(least[row]) + spare)
        for row in range(len(demand))
    ]
    width = max(len(table[0]) for table in tables)
    fills = (1, 1, NOTHING, np.inf, 1.0)
    padded = [np.full((len(tables), width), fill, np.asarray(tables[0][part]).dtype) for part, fill in enumerate(fills)]
    for row, table in enumerate(tables):
        for part, values in enumerate(table):
            padded[part][row, : len(values)] = values
    cores, instances, weight, times, heaviest = padded
    return Options(cores, instances, weight, times, heaviest, np.array([len(table[0]) for table in tables]))  # type: ignore[arg-type]


def _shapes(
    demand: Demand, row: int, counts: Ints, seconds: Floats, most: int
) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    fewest = int(demand.fewest[row])
    numbers = numbers_of(fewest, max(min(int(demand.most[row]), most // int(counts[0])), fewest))
    cores, instances = (some.ravel() for some in np.meshgrid(counts, numbers, indexing="ij"))
    heaviest = np.tile([demand.heaviest(row, number) for number in numbers], len(counts))
    within = cores * instances <= most
    shapes = (cores[within], instances[within], (cores * instances)[within], np.repeat(seconds, len(numbers))[within],
              heaviest[within])  # fmt: skip
    order = np.lexsort((shapes[1], shapes[3], shapes[2]))
    shapes = tuple(part[order] for part in shapes)
    if len(numbers) == 1:  # of equal or more cores only the faster are of use
        kept = np.concatenate([[True], shapes[3][1:] < np.minimum.accumulate(shapes[3])[:-1]])
    else:
        kept = _undominated(shapes, demand.contention[row] > 0, demand.request)
    return tuple(part[kept] for part in shapes)  # type: ignore[return-value]


def _undominated(shapes: tuple[Ints | Floats, ...], contended: bool, request: Request) -> NDArray[np.bool_]:
    """Return which shapes no other beats: in cores, time, load and what else counts here. Cost O(shapes^2)."""
    cores, instances, weight, seconds, heaviest = shapes
    criteria = [weight, seconds, seconds * heaviest]
    if contended:
        criteria.append(seconds * cores)  # core-seconds: what it takes from the others
    if request.memory_bytes is not None:
        criteria.append(instances)
    if request.nodes is not None:
        criteria += [cores, instances]
    if request.arrival_per_s is not None:
        criteria.append(-instances)  # more of them queue less
    table = np.stack([np.asarray(one, np.float64) for one in criteria])
    kept = np.ones(table.shape[1], np.bool_)
    for place in range(table.shape[1]):
        # In order of weight: whoever beats it stands before it, or is equal to it in all and stands before it.
        before = table[:, :place][:, kept[:place]]
        kept[place] = not (before <= table[:, place : place + 1]).all(axis=0).any()
    return kept


# ----------------------------------------------------------------------------------------------------------------------------
# The best shape of each component on at most so many cores, as tables.


CELLS_MAX = 2_000_000  # components times sizes of a table: 16 MB an array; beyond, sizes are thinned
ALL_SIZES = 64  # sizes up to here are never thinned


def sizes_of(
    most: int, components: int, extra: Iterable[Ints | Floats] = (), rules: Iterable[AllowedCores] = ()
) -> Ints:
    """Return the sizes to consider up to `most`: all of them while tables stay small, else ever wider apart and `extra`.

    Of `rules` the counts next to these, so that each component has some.
    """
    if most * components <= CELLS_MAX:
        return np.arange(1, most + 1)
    some = spaced(most, ALL_SIZES)
    near = [[rule.nearest(size) for size in some] for rule in set(rules)]
    sizes = np.concatenate([[*some, most], *extra, *near]).astype(np.int64)
    return np.unique(sizes[sizes <= most])


@dataclass(frozen=True, slots=True)
class Places:
    """The best shape of each component on at most so many cores, its own or a group's for the time of its turn."""

    sizes: Ints  # (M,)
    # (n, M): v_c T_c(p) times the share of the busiest instance: the shortest on at most so many cores; infinite where no
    # shape fits, and never rising
    turn_s: Floats
    stay_s: Floats  # (n, M): v_c T_c(p) of that shape: what it adds to a record's latency
    # (n, M): the shape
    cores: Ints
    instances: Ints

    def at(self, sizes: Ints) -> tuple[Floats, Floats, Ints, Ints]:
        """Return turns, stays, cores and instances on `sizes_c` cores, (n,) each, or (K, n) for sizes (K, n)."""
        rows, place = np.arange(len(self.turn_s)), np.searchsorted(self.sizes, sizes, side="right") - 1
        return self.turn_s[rows, place], self.stay_s[rows, place], self.cores[rows, place], self.instances[rows, place]

    @property
    def least(self) -> Ints:
        """The fewest cores that each component may have, (n,)."""
        return self.sizes[np.isfinite(self.turn_s).argmax(axis=1)]


def places_of(demand: Demand, most: int, *, by_stay: bool = False) -> Places:
    """Return the best shapes on 1 .. `most` cores: of equal turns the shortest stay, then the fewest cores; `by_stay` swaps.

    Cost O(n M), with instances that many times.
    """
    sizes = sizes_of(most, len(demand), (demand.knots, demand.low, demand.high), demand.rules.values())
    numbers = np.array([1] if demand.single else numbers_of(1, min(int(demand.most.max()), most)))
    shape = len(demand), len(sizes)
    (turn, stay), (cores, instances) = np.empty((2, *shape)), np.empty((2, *shape), np.int64)
    curves = demand.level, demand.fall, demand.knots
    KERNELS.best_places(
        curves, demand.limits, demand.visits, sizes, numbers, by_stay, turn, stay, cores, instances
    )  # fmt: skip
    return Places(sizes, turn, stay, cores, instances)
