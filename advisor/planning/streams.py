"""How bursty streams are on their way through a network, at every time scale, and what that does to waits.

A stream is described by its index of dispersion I(t): the variance over the mean of the records in a window of t
seconds; 1 for a Poisson stream. A queue feels it at its own time scale (robust queueing, Whitt and You 2018), so that a
busy box after a regular one still feels how irregular the arrivals were before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from advisor.domain import elementary
from advisor.domain.networks import CHOICE, FEEDBACK, REPLICATION, SERIES
from advisor.planning.requests import Floats, Ints
from advisor.planning.returns import NEVER, busiest_of, in_the_long_run, passes_of, returning
from advisor.planning.structure import Batches, StreamState, Structure

WINDOWS_RATIO = 1.5  # of neighbouring windows: ones of 1.1 change latencies by 0.1 % at the median, by 2 % at most
WINDOWS_MAX = 40  # beyond, the shortest go: they are those of queues that hardly wait
BUSIEST = 0.95  # utilizations beyond feel the longest window, which has no end, or the one before
CELLS = 400_000  # boxes times allocations times windows that are looked at at once: some MB
BUSY = 1 - 1e-6  # utilizations above are taken as this: no window reaches further


@dataclass(frozen=True, slots=True)
class Felt:
    """What the queues of K allocations feel, (K, n) each."""

    streams: Floats  # the dispersion that a queue feels at its own time scale, for c_a^2
    again: Floats  # the share of its visits after which a record comes again before it meets a busier queue
    common: Floats  # the share of a wait's variance that a join's other branches have in common with it


def windows_of(rates_per_s: Floats, shortest_s: Floats, longest_s: Floats) -> Floats:
    """Return windows of time for queues whose services take from `shortest_s` to `longest_s`, (n,) each; the last never ends.

    They are powers of WINDOWS_RATIO, so that the same ones serve every allocation and every machine. A queue feels windows
    about rho s I / (2 (1 - rho)^2): some more on either side.
    """
    visited = rates_per_s > 0
    if not visited.any():
        return np.array([1.0, np.inf])
    ends: list[float] = []
    for seconds_s in (shortest_s[visited], longest_s[visited]):
        rho = np.clip(rates_per_s[visited] * seconds_s, NEVER, BUSIEST)
        ends += [*(rho**2 / rates_per_s[visited] / (1 - rho) ** 2).tolist()]
    low, high = math.log(min(ends) / 4, WINDOWS_RATIO), math.log(max(ends) * 4, WINDOWS_RATIO)
    last = math.ceil(high)
    first = max(math.floor(low), last - WINDOWS_MAX + 1)
    powers: Floats = elementary.power(WINDOWS_RATIO, np.arange(first, last + 1, dtype=np.float64))
    return np.concatenate([powers, [np.inf]])


def edges_of(windows_s: Floats) -> tuple[Floats, Floats]:
    """Return where the times of each window begin and end, (W,) each."""
    between = np.concatenate([np.sqrt(windows_s[1:-1] * windows_s[:-2]), windows_s[-2:-1]])
    return np.concatenate([[0.0], between]), np.concatenate([between, [np.inf]])


def felt(
    structure: Structure,
    seconds_s: Floats,
    variation: Floats,
    instances: Ints,
    arrival_per_s: float,
    entering: float,
    seen: StreamState | None = None,
    windows_s: Floats | None = None,
) -> Felt:
    """Return what queues feel of the streams that reach them.

    `seconds_s`, `instances` are (K, n), `variation` (n,) c_s^2 of services, `entering` c_a^2 of the gaps of the network's
    arrivals. `seen` has the batches in which records leave where order is kept, and how long they are away before they
    come again; absent: one by one, and at once. `windows_s` (W,) are as `windows_of` gives them. Cost O(K nodes W).
    """
    if windows_s is None:
        rates = arrival_per_s * structure.visits.per_record
        windows_s = windows_of(rates, (seconds_s / instances).min(axis=0), seconds_s.max(axis=0))
    flow = _Flow(
        structure, seconds_s, variation, instances, arrival_per_s, seen or StreamState({}, {}), windows_s, entering
    )
    stream = np.tile(renewal(windows_s * arrival_per_s, entering), (1, len(seconds_s), 1))
    flow.walk(len(structure.network.nodes) - 1, stream, Way(1.0, 1.0, None))
    return Felt(flow.streams, flow.again, flow.common)


def renewal(counts: Floats, variation: float | Floats) -> Floats:
    """Return I - 1 of a renewal stream over windows of so many records on average, its gaps of c^2 `variation`.

    I = c^2 + (1 - c^2) (1 - exp(-g x)) / (g x) is that of a stream whose correlation dies exponentially, with g =
    6 / (1 + c^2) from the asymptote of gamma gaps, Var N(x) = c^2 x + (1 - c^4) / 6. Exact for exponential and Erlang-2.
    """
    scaled = 6 * counts / (1 + variation)
    return (1 - variation) * (-elementary.expm1(-scaled) / scaled - 1)


def _kept(scaled: Floats) -> Floats:
    """Return w(t), the share of the arrivals' dispersion in that of departures (Whitt and You 2018, eq. 31).

    Departures are services while a queue lasts and arrivals in the long run; w follows from the autocorrelation of
    reflected Brownian motion, t in units of its relaxation.
    """
    t = np.asarray(scaled)
    root = np.sqrt(t)
    normal = np.array([math.erf(each / math.sqrt(2)) for each in root])  # 2 Phi - 1
    density = elementary.exp(-t / 2) / math.sqrt(2 * math.pi)
    return ((t * t + 2 * t - 1) * normal + 2 * root * density * (1 + t) - t * t) / (2 * t)


_SCALES = np.linspace(math.log(1e-6), math.log(40.0), 400)
_KEPT = _kept(elementary.exp(_SCALES))


def kept_of(scaled: Floats) -> Floats:
    """Return w of times in units of a queue's relaxation; beyond the table its asymptote 1 - 1 / (2 t)."""
    at: Floats = elementary.log(scaled)
    inside = np.interp(at, _SCALES, _KEPT, left=0.0)
    return np.where(scaled > 40.0, 1 - 0.5 / scaled, inside)


@dataclass(frozen=True, slots=True)
class Way:
    """How records have come to a node."""

    passes: float  # how often each record passes here, once it does
    share: float  # of the records of the innermost join around it
    common: Floats | None  # (K, W): what is left of the join's stream, as dispersion; None where there is no join

    def part(self, share: float, passes: float = 1.0) -> Way:
        """Return the way into a part that so many of the records take, so often."""
        return Way(self.passes * passes, self.share * share, None if self.common is None else self.common * share)

    def after(self, kept: Floats) -> Way:
        """Return the way after parts that keep so much of a stream."""
        return self if self.common is None else Way(self.passes, self.share, self.common * kept)


# A stream, (2, K, W): of the records new to all loops around it, and of all that come; outside loops one, (1, K, W).
# What they have beyond a Poisson stream: I - 1.
Stream = Floats
Passed = tuple[Stream, Floats]  # after a part, and the share of what it was before that is still in it, (K, W)


def _split(into: Stream, ways: list[tuple[float, Passed]]) -> Passed:
    """Return streams of one stream's shares put together again: what is still in two of them they have in common."""
    if not ways:
        return into, np.ones_like(into[0])
    own, common, apart = np.zeros_like(into), np.zeros_like(into[0]), np.zeros_like(into[0])
    for share, (out, kept) in ways:
        own = own + share * (out - share * kept * into)
        common, apart = common + share * kept, apart + share**2 * kept * (1 - kept)
    still = common**2 + apart
    return own + still * into, still


class _Flow:
    """Streams on their way through the structure of K allocations."""

    def __init__(
        self, structure: Structure, seconds_s: Floats, variation: Floats, instances: Ints, arrival_per_s: float,
        seen: StreamState, windows_s: Floats, entering: float,
    ) -> None:  # fmt: skip
        self.structure, self.instances, self.seen = structure, instances, seen
        self.seconds_s = seconds_s
        self.rates = arrival_per_s * structure.visits.per_record
        rho: Floats = np.clip(self.rates * seconds_s / instances, NEVER, BUSY)
        self.rho = rho
        self.busiest = busiest_of(structure, self.rho)
        # The window in which a queue feels its stream, of M/G/n: rho s (1 + c_s^2) / (2 (1 - rho)^2).
        feels = self.rho * seconds_s / instances * (1 + variation) / 2 / (1 - self.rho) ** 2
        self.again = returning(structure, self.rho, self.busiest, feels, seen)
        self.single = variation
        self.variation = self.again + (1 - self.again) * variation
        self.streams, self.common = np.ones(self.rho.shape), np.zeros(self.rho.shape)
        self.windows_s = windows_s
        self.lowest, self.highest = edges_of(windows_s)
        self.ever = in_the_long_run(structure, float(entering))
        self.slab, self.linked = slice(0, 0), (rho, rho, rho, rho)

    def walk(self, index: int, into: Stream, way: Way) -> Passed:
        """Return what leaves a node: as `inside`, and where order is kept in batches."""
        out, kept = self.inside(index, into, way)
        if index in self.seen.batches:
            batches = in_batches(self.seen.batches[index], self.busiest[index], self.windows_s)
            out = out + np.stack([batches / way.passes, batches][-len(out) :])
        return out, kept

    def inside(self, index: int, into: Stream, way: Way) -> Passed:
        """Return what leaves a node that a stream enters, before it is put in order."""
        structure = self.structure
        node = structure.network.nodes[index]
        if index in structure.rows:
            return self.box(structure.rows[index], into, way)
        children = node.children
        if index in structure.joins:
            way = Way(way.passes, 1.0, 1 + into[0])
        if node.kind == CHOICE:
            shares = structure.shares(index)
            return _split(into, [(share, self.walk(child, share * into, way.part(share)))
                                 for child, share in zip(children, shares, strict=True) if share > 0])  # fmt: skip
        if node.kind in (REPLICATION, FEEDBACK):
            enters, times = passes_of(structure, index)
            past = 1 - enters
            ways = [(past, (past * into, np.ones_like(into[0])))] if past > 0 else []
            if enters > 0:
                # What comes again is taken as Poisson on its way in.
                inner = np.stack([enters * into[0], enters * into[-1] / times])
                (fresh, _), kept = self.walk(children[0], inner, way.part(enters, times))
                ways.append((enters, (fresh + kept * enters * (into - into[0]), kept)))
            return _split(into, ways)
        if node.kind == SERIES or len(children) < 2:
            kept = np.ones_like(into[0])
            for child in children:
                into, more = self.walk(child, into, way.after(kept))
                kept = kept * more
            return into, kept
        parts = [self.walk(child, into, way) for child in children]
        return np.mean([out for out, _ in parts], axis=0), np.mean([kept for _, kept in parts], axis=0)

    def box(self, row: int, stream: Stream, way: Way) -> Passed:
        """Note what a box feels, and return the stream after it."""
        if self.rates[row] <= 0:
            return stream, np.ones_like(stream[0])
        rho, variation, again = (some[:, row][:, None] for some in (self.rho, self.variation, self.again))
        share, fresh, gone, services = self._links(row)
        into = stream[0] if len(stream) == 1 else fresh * stream[0] + (1 - fresh) * stream[1]
        rate = self.rates[row] * (1 - again)
        felt, at = feels(rho, variation, into, rate, self.lowest, self.highest)
        self.streams[:, row] = felt
        if way.common is not None:
            left = way.common[np.arange(len(at)), at] * share[:, 0]
            left = np.minimum(left / np.maximum(felt + variation[:, 0], NEVER), 1.0)
            self.common[:, row] = in_common(rho[:, 0], variation[:, 0], way.share, left)
        lost = share * gone
        out = (1 - lost) * stream[0] + lost * services
        if way.passes == 1:
            return np.stack([out] * len(stream)), 1 - lost
        every = renewal(self.rates[row] / rho * self.windows_s, self.single[row])
        return np.stack([out, (1 - gone) * stream[1] + gone * every]), 1 - lost

    def _links(self, row: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what a box does to streams: of what queues there the share that is new to all loops, and how much of that
        it feels, (K, 1); what departures lose, and the dispersion of services, (K, W). Done for many boxes at once.
        """
        if not self.slab.start <= row < self.slab.stop:
            count = max(1, CELLS // (len(self.rho) * len(self.windows_s)))
            self.slab = slice(row, min(row + count, self.rho.shape[1]))
            some = self.slab
            rho, variation, again = (part[:, some].T[:, :, None] for part in (self.rho, self.variation, self.again))
            servers: Ints = self.instances[:, some].T[:, :, None]
            passes, first, last = (part[some, None, None] for part in self.ever)
            # Of what queues here, the share that is new to all loops: 1 where all that comes again counts as one service.
            share = np.minimum(1.0, 1 / (passes * (1 - again)))
            with np.errstate(divide="ignore", invalid="ignore"):
                fresh = np.where(passes > 1, (share - 1 / passes) / (1 - 1 / passes), 1.0)
            rate = np.maximum(self.rates[some, None, None], NEVER) * (1 - again)  # of those without records nobody asks
            ever = fresh * first + (1 - fresh) * last
            self.linked = share, fresh, *behind(rho, variation, rate, servers, ever, self.windows_s)
        share, fresh, gone, services = (part[row - self.slab.start] for part in self.linked)
        return share, fresh, gone, services


def behind(
    rho: Floats, variation: Floats, rate: Floats, servers: Ints, ever: Floats, windows_s: Floats
) -> tuple[Floats, Floats]:
    """Return the share of its arrivals' dispersion that departures from a queue lose, and that of its services, (K, W).

    `ever` is what the arrivals have beyond a Poisson stream in the long run; it sets the pace of the queue. (K, 1) each.
    """
    relaxed = (1 - rho) ** 2 * rate * windows_s / np.maximum(rho * (1 + ever + variation), NEVER)
    return (1 - kept_of(relaxed)) / np.sqrt(servers), renewal(rate / rho * windows_s, variation)


def feels(
    rho: Floats, variation: Floats, into: Floats, rate: Floats, lowest: Floats, highest: Floats
) -> tuple[Floats, Ints]:
    """Return the dispersion that a queue feels, and the window in which it does, (K,) each.

    Work waits for sup_t { rho sqrt(2 t (I(t) + c_s^2) / L) - (1 - rho) t } on average, by robust queueing (Whitt and You
    2018), exact for Poisson streams: `felt` is the constant I for which that comes out the same. I is constant in each
    window, from `lowest` to `highest`, (W,) each; all else is (K, 1) or (K, W).
    """
    mixed = 1 + into + variation
    best = rho**2 * mixed / (2 * (1 - rho) ** 2 * rate)
    at = np.clip(best, lowest, highest)
    work = rho * np.sqrt(2 * at * mixed / rate) - (1 - rho) * at
    dispersion = work.max(axis=1) * (2 * (1 - rho) * rate / rho**2)[:, 0]
    return dispersion - np.broadcast_to(variation, rho.shape)[:, 0], work.argmax(axis=1)


def in_batches(held: Batches, rho: Floats, windows_s: Floats) -> Floats:
    """Return what waiting for order adds to the dispersion of a stream, (K, W).

    I(0) - 1 is twice the records behind one in its batch. In the long run as many leave as enter; between, the correlation
    dies exponentially with the time for which somebody is late: among records that overtake each other as long as those
    who wait do, w; of a branch that keeps order, as long as its queue needs to be w shorter, w / (1 - rho).
    """
    total = np.zeros((len(rho), len(windows_s)))
    for batches, drains in ((held[0], 1.0), (held[1], 1 - rho)):
        lasts = np.maximum((batches.lasts_s / drains)[:, None], NEVER * windows_s[0])
        total += 2 * batches.behind[:, None] * -elementary.expm1(-windows_s / lasts) / (windows_s / lasts)
    return total


def in_common(rho: Floats, variation: Floats, share: float | Floats, left: Floats) -> Floats:
    """Return the share of a wait's variance that it has in common with those in other branches of a join.

    `share` of the join's records come here; `left` is r, the share of what varies in this queue, arrivals and services,
    that the join's own stream brought. At low load two waits both come from the record before: for services d + X, E[W
    W'] / E[W^2] = (1 + c^3 / 2) / (1 + 3 c^2 + 2 c^3). At full load they are Brownian motions of correlation r: 3 r / 4 +
    r^2 / 4 makes the maximum of two right for r = 0, for two M/M/1 (r = 1/2, Flatto and Hahn 1984), and for r = 1.
    Between, rho / (2 - rho) of the way: two M/M/1 are then Nelson and Tantawi's (1988) (12 - rho) / 8 of one at every
    load.
    """
    c = np.sqrt(np.minimum(variation, 1.0))
    low = (1 + c**3 / 2) / (1 + 3 * c**2 + 2 * c**3)
    high = left * (3 + left) / 4
    return np.where(left > 0, share * low + (high - share * low) * rho / (2 - rho), 0.0)
