"""Why an allocation is as it is: one table of codes for programs, each with when it is said and its sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from advisor.domain.allocations import Allocation, Evidence, Reason
from advisor.domain.curves import PROMISED
from advisor.domain.vectors import Ints
from advisor.planning.estimates import reaches
from advisor.planning.exact import Plan
from advisor.planning.requests import RATE
from advisor.planning.stability import GAIN_LEAST

REASONS_MAX = 3  # of one code: the rest are counted in the last one's words
GROUPS_MAX = 16  # of workers whose components are listed

Said = Iterator[tuple[str | None, float | None, str]]  # component, value, and the sentence without its full stop


def reasons_of(found: Plan, whole: Allocation) -> tuple[Reason, ...]:
    """Return the reasons of an answer whose tables are known. Cost O(n)."""
    return tuple(Reason(code, *one) for code, say in REASONS.items() for one in say(found, whole))


def amount(value: float) -> str:
    """Return a figure as people read it: four digits, and no exponent where it can be helped."""
    return f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def plural(n: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _first(found: Plan, rows: Ints) -> Iterator[tuple[int, str, str]]:
    """Give the first rows with their keys, the last of them with how many follow, in words."""
    left = len(rows) - REASONS_MAX
    for order, row in enumerate(rows[:REASONS_MAX].tolist()):
        last = left > 0 and order == REASONS_MAX - 1
        yield row, found.demand.keys[row], f" (and {left} more alike)" if last else ""


def _change(found: Plan, whole: Allocation) -> Said:
    """Say whether the current allocation stays."""
    change = found.change
    if change is None:
        return
    if change.kept:
        best = f"the best one known would gain {change.gain:.2%}, less than the {GAIN_LEAST:.0%} that a change takes"
        yield None, change.gain, f"the current allocation is kept: {best if change.gain else 'no better one is known'}"
    elif change.why:
        yield None, None, f"changed, for the current allocation breaks the request: {change.why}"
    else:
        yield None, change.gain, f"changed from the current allocation: that gains {change.gain:.1%}"


def _target(found: Plan, whole: Allocation) -> Said:
    for name, value in (found.demand.request.target or {}).items():
        reached, unit, sure = whole.throughput_per_s, "records/s", ""
        if name != RATE:
            reached, unit = found.latency_s, "s"
        if name == RATE and not found.within_seen:
            sure = f"; {amount(whole.expected_per_s or 0.0)} {unit} are expected, on more cores than were seen"
        elif found.within_seen and found.demand.curves.uncertain:
            sure = f", reached with probability {reaches(found.expected, name, value):.2f}"
        cores = plural(found.cores_used, "core")
        yield None, reached, f"{cores} reach {amount(reached)} {unit}; the target is {amount(value)} {unit}{sure}"


def _sharing(found: Plan, whole: Allocation) -> Said:
    if found.shared:
        n, cores, groups = len(found.demand.keys), plural(found.cores_used, "core"), len(whole.groups)
        takes = "those of a group take turns on all of its cores"
        few = "; there are fewer cores than components" if 0 < (found.demand.request.cores or 0) < n else ""
        yield None, float(groups), f"{n} components share {cores} in {plural(groups, 'group')}: {takes}{few}"


def _workers(found: Plan, whole: Allocation) -> Said:
    """Say what each worker has to run, where no component can use more than one core."""
    demand, placed = found.demand, found.placed
    if demand.cores == 1 or (demand.high > 1).any():
        return
    workers = f"a component runs on one core: {plural(found.cores_used, 'worker')}"
    if not found.shared:
        many = plural(int(placed.instances[0].sum()), "instance")
        few = (placed.instances[0] == demand.most)[found.slowest].all() and found.spare > 0 and not demand.replicas
        more = "; instances_max lets more of the slowest run at a time" if few else ""
        yield None, float(found.cores_used), f"{workers} for {many}{more}"
        return
    first, said = 1, list[str]()
    for cores, components in whole.groups:
        last = first + cores - 1
        said.append(
            f"{f'worker {first} has' if cores == 1 else f'workers {first} to {last} have'} {', '.join(components)}"
        )
        first = last + 1
    more = [f"and {len(said) - GROUPS_MAX} more groups"] if len(said) > GROUPS_MAX else []
    yield None, float(found.cores_used), f"{workers}; {'; '.join([*said[:GROUPS_MAX], *more])}"


def _bottleneck(found: Plan, whole: Allocation) -> Said:
    keys, placed, rate = found.demand.keys, found.placed, whole.throughput_per_s
    bounds = f"bounds the throughput at {amount(rate)} records/s"
    if found.shared and placed.group is not None and placed.widths is not None:
        row = int(found.slowest[0])
        members = plural(int((placed.group[0] == placed.group[0, row]).sum()), "component")
        turns = f"its turns take {amount(1 / rate)} s a record on {plural(int(placed.widths[0, row]), 'core')}"
        yield keys[row], rate, f"the group of {keys[row]} ({members}) {bounds}: {turns}"
        return
    load = found.demand.visits * found.judged.seconds_s[0]
    for row, key, more in _first(found, found.slowest):
        many, cores = int(placed.instances[0, row]), int(placed.cores[0, row])
        on = plural(cores, "core") if many == 1 else f"{many} instances of {plural(cores, 'core')}"
        yield key, rate, f"{key} {bounds}: {amount(load[row])} s a record on {on}{more}"


def _remaining(found: Plan, whole: Allocation) -> Said:
    """What throughput remains where the latency of a lone record is lowest."""
    request, rate = found.demand.request, whole.throughput_per_s
    if request.aim.by_latency and request.arrival_per_s is None:
        how = f'; with target {{"{RATE}": x}} more remain' if found.shared and not request.target else ""
        lone = f"the latency is that of a lone record{how}"
        yield None, rate, f"{amount(rate)} records/s is all that gets through: {lone}"


def _deciding(found: Plan) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which components with cores of their own bound what was asked for, (n,)."""
    n = len(found.demand.keys)
    if found.demand.request.for_latency:
        return np.full(n, not found.shared)
    return np.isin(np.arange(n), found.slowest) & (not found.shared)


def _maximum(found: Plan, whole: Allocation) -> Said:
    bounds, demand, cores = found.demand.request.bounds, found.demand, found.placed.cores[0]
    if not (bounds.high < demand.last).any():
        return
    at_end = (cores == bounds.high) & (found.placed.instances[0] == bounds.most) & _deciding(found)
    at_end &= demand.seconds(cores + 1) < demand.seconds(cores)
    at_end[list(bounds.pins)] = False
    for row, key, more in _first(found, np.flatnonzero(at_end)):
        most = int(bounds.high[row])
        yield key, float(most), f"{key} is at its maximum of {plural(most, 'core')}; more would help it{more}"


def _unvisited(found: Plan, whole: Allocation) -> Said:
    visits = found.demand.visits
    for _, key, more in () if visits.all() else _first(found, np.flatnonzero(visits == 0)):
        yield key, 0.0, f"no record visits {key}: it has its minimum{more}"


def _spare(found: Plan, whole: Allocation) -> Said:
    request = found.demand.request
    if found.spare > 0:
        because = "no component gains from them"
        if found.change is not None and found.change.kept:
            because = "the current allocation is kept"
        elif request.aim.fewest:
            because = "the target is reached without them"
        elif not found.shared and request.aim.by_rate:
            because = f"they cannot speed up {whole.bottleneck[0]}, or are too few for the next step"
        yield None, float(found.spare), spare_words(found.spare, request.cores or 0, because)


def spare_words(spare: int, cores: int, because: str) -> str:
    """Return the sentence about cores that stay free."""
    return f"{spare} of {plural(cores, 'core')} stay free: {because}"


def _turns(found: Plan, whole: Allocation) -> Said:
    if found.shared and found.own_value is not None:
        aim = found.demand.request.aim
        value = 1 / found.own_value if aim.by_rate else found.own_value
        words = f"with dedicated cores {aim.figure.format(amount(value))}"
        if aim.by_rate and whole.expected_per_s is not None:
            words = f"{amount(whole.expected_per_s)} records/s are expected, with dedicated cores {amount(value)}"
        yield None, value, f"time sharing wins: {words}"


def _gap(found: Plan, whole: Allocation) -> Said:
    if whole.gap is None and not found.given:
        yield None, None, "the best that was found; nothing better is excluded"


def _contention(found: Plan, whole: Allocation) -> Said:
    if found.demand.contended:
        busy, slow = amount(whole.active_cores or 0.0), "components slow each other down, but for those that take turns"
        yield None, whole.active_cores, f"times are those with {busy} cores busy at a time: {slow} with each other"


def _overload(found: Plan, whole: Allocation) -> Said:
    rate = found.demand.request.arrival_per_s
    if rate is not None and whole.latency_queued_s is None:
        more = f"{amount(rate)} records/s are more than it sustains: queues would grow without end"
        yield None, whole.throughput_per_s, more


def _level(found: Plan, whole: Allocation) -> Said:
    demand, level = found.demand, found.demand.request.level
    if level is not None and demand.curves.uncertain:
        yield None, level, f"planned for the upper bound of each curve at level {level:g}"
    elif level is not None:
        yield None, level, f"level {level:g} changes nothing: the curves have no upper bounds"
    elif demand.price and demand.curves.uncertain:
        keeps = f"promised: each component keeps it up with a probability of {PROMISED:g}"
        beyond = "" if found.within_seen else ", on counts that were not seen"
        expected = f"{amount(whole.expected_per_s or 0.0)} records/s are expected{beyond}"
        yield None, whole.expected_per_s, f"{keeps}; {expected}"


def _extrapolates(found: Plan, whole: Allocation) -> Said:
    for key, known in whole.evidence.items():
        if known.extrapolates > 0:
            learned = f"learned from {known.observations} observations"
            yield key, known.extrapolates, f"{key} is {far_words(known)}, {learned}"


def far_words(known: Evidence) -> str:
    """Return how far a curve is asked beyond what was seen."""
    return f"asked beyond what was seen by a factor of {2.0**known.extrapolates:.2g}"


REASONS: Mapping[str, Callable[[Plan, Allocation], Said]] = {
    "current": _change,
    "target": _target, "sharing": _sharing, "workers": _workers, "bottleneck": _bottleneck, "remaining": _remaining,
    "maximum": _maximum, "unvisited": _unvisited, "spare": _spare, "turns": _turns, "gap": _gap,
    "contention": _contention, "overload": _overload, "level": _level,
    "extrapolates": _extrapolates,
}  # fmt: skip
