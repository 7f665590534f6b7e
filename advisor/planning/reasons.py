"""Why an allocation is as it is, or why there is none: tables of code, predicate and words.

Every row of `REASONS` that holds of a plan is said. Of `REFUSALS`, and of `FAR` where a plan lies far beyond what was seen, the
first that holds is the error: `impossible` where that is proved, else `not_reached`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from advisor.domain import elementary
from advisor.domain.allocations import Allocation, Evidence, Reason
from advisor.domain.curves import PROMISED
from advisor.domain.vectors import Ints
from advisor.errors import AdvisorError, ImpossibleTarget, TargetNotReached
from advisor.planning.bounds import bound_s, rigid
from advisor.planning.demand import Demand, Shapes
from advisor.planning.estimates import reaches
from advisor.planning.exact import Plan, judged_plan
from advisor.planning.judge import own_placed
from advisor.planning.pieces import TIE
from advisor.planning.requests import BARE, LATE, RATE
from advisor.planning.stability import GAIN_LEAST
from advisor.planning.structure import through

REASONS_MAX = 3  # of one code: the rest are counted in the last one's words
EVIDENCE_MAX = 64  # components of which is reported what their curves rest on
FAR_DOUBLINGS = 1.0  # of the most cores seen: an answer beyond is no advice, for nothing that was seen supports it
HINT = "raise cores, maximum or instances_max, or ask for less"

Said = tuple[str | None, float | None, str]  # component, value, and the sentence without its full stop


def reasons_of(found: Plan, whole: Allocation) -> tuple[Reason, ...]:
    """Return the reasons of an answer whose tables are known. Cost O(n)."""
    said = ((code, words(found, whole)) for code, holds, words in REASONS if holds(found))
    return tuple(Reason(code, *one) for code, some in said for one in ([some] if isinstance(some, tuple) else some))


def evidence_of(found: Plan) -> dict[str, Evidence]:
    """Return what the curves rest on: those that bound the answer first, then the farthest beyond what was seen."""
    curves, keys = found.demand.curves, found.demand.keys
    if curves.seen is None:
        return {}
    models, runs, least, most, _ = curves.seen
    cores = found.placed.cores[0]
    beyond = np.maximum(elementary.log2(np.maximum(cores / most, least / cores)), 0.0)
    rows = dict.fromkeys([*found.slowest.tolist(), *np.argsort(-beyond, kind="stable").tolist()])
    return {
        keys[row]: Evidence(str(models[row]), int(runs[row]), float(beyond[row]), (float(least[row]), float(most[row])))
        for row in list(rows)[:EVIDENCE_MAX]
    }


def amount(value: float) -> str:
    """Return a figure as people read it: four digits, and no exponent where it can be helped."""
    return f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def plural(n: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def subject(cores: int, one: str, many: str) -> str:
    """Return cores and what they do, in words."""
    return f"{plural(cores, 'core')} {one if cores == 1 else many}"


def spare_words(spare: int, cores: int, because: str) -> str:
    """Return the sentence about cores that stay free."""
    return f"{spare} of {plural(cores, 'core')} stay free: {because}"


# --- why an allocation is as it is -------------------------------------------------------------------------------------------


def _each(found: Plan, rows: Ints, words: Callable[[int, str], tuple[float, str]]) -> Iterator[Said]:
    """Say something of the first rows, by row and key; the last one says how many follow."""
    left, first = len(rows) - REASONS_MAX, list[int](rows[:REASONS_MAX].tolist())
    for order, row in enumerate(first):
        key = found.demand.keys[row]
        value, text = words(row, key)
        yield key, value, text + (f" (and {left} more alike)" if left > 0 and order == REASONS_MAX - 1 else "")


def _change(found: Plan, _: Allocation) -> Said:
    kept, gain, why = found.change or (False, 0.0, "")
    if why:
        return None, None, f"changed, for the current allocation breaks the request: {why}"
    if not kept:
        return None, gain, f"changed from the current allocation: that gains {gain:.1%}"
    best = f"the best one known would gain {gain:.2%}, less than the {GAIN_LEAST:.0%} that a change takes"
    return None, gain, f"the current allocation is kept: {best if gain else 'no better one is known'}"


def _target(found: Plan, whole: Allocation) -> Said:
    ((name, value),) = (found.demand.request.target or {}).items()
    reached, unit = (whole.throughput_per_s, "records/s") if name == RATE else (found.latency_s, "s")
    sure = ""
    if name == RATE and not found.within_seen:
        sure = f"; {amount(whole.expected_per_s or 0.0)} {unit} are expected, on more cores than were seen"
    elif found.within_seen and found.demand.curves.uncertain:
        sure = f", reached with probability {reaches(found.expected, name, value):.2f}"
    cores = subject(found.cores_used, "reaches", "reach")
    return None, reached, f"{cores} {amount(reached)} {unit}; the target is {amount(value)} {unit}{sure}"


def _sharing(found: Plan, whole: Allocation) -> Said:
    n, cores, groups = len(found.demand), plural(found.cores_used, "core"), len(whole.groups)
    few = "; there are fewer cores than components" if 0 < (found.demand.request.cores or 0) < n else ""
    how = f"those of a group take turns on all of its cores{few}"
    return None, float(groups), f"{n} components share {cores} in {plural(groups, 'group')}: {how}"


def _workers(found: Plan, _: Allocation) -> Said:
    """Say how many workers it takes where no component can use more than one core."""
    workers, many = plural(found.cores_used, "worker"), plural(int(found.placed.instances[0].sum()), "instance")
    return None, float(found.cores_used), f"a component runs on one core: {workers} for {many}"


def _bottleneck(found: Plan, whole: Allocation) -> Iterator[Said]:
    placed, rate, group = found.placed, whole.throughput_per_s, found.placed.group
    bounds = f"bounds the throughput at {amount(rate)} records/s"

    def words(row: int, key: str) -> tuple[float, str]:
        many, cores = int(placed.instances[0, row]), plural(int(placed.cores[0, row]), "core")
        load = amount(found.demand.visits[row] * found.promised.judged.seconds_s[0, row])
        return rate, f"{key} {bounds}: {load} s a record on {cores if many == 1 else f'{many} instances of {cores}'}"

    def of_group(row: int, key: str) -> tuple[float, str]:
        members = plural(int((group == group[0, row]).sum()), "component") if group is not None else ""
        width = plural(next(cores for cores, keys in whole.groups if key in keys), "core")
        return rate, f"the group of {key} ({members}) {bounds}: its turns take {amount(1 / rate)} s a record on {width}"

    return _each(found, found.slowest[:1], of_group) if found.shared else _each(found, found.slowest, words)


def _maximum(found: Plan, _: Allocation) -> Iterator[Said]:
    """Name those that decide, and would gain from more than their maximum."""
    demand, bounds, cores = found.demand, found.demand.request.bounds, found.placed.cores[0]
    held = (cores == bounds.high) & (bounds.high < demand.last) & (found.placed.instances[0] == bounds.most)
    held[list(bounds.pins)] = False
    if not demand.request.for_latency:
        held &= np.isin(np.arange(len(demand)), found.slowest)
    rows = np.flatnonzero(held & (demand.seconds(cores + 1) < demand.seconds(cores)))

    def words(row: int, key: str) -> tuple[float, str]:
        most = int(bounds.high[row])
        return float(most), f"{key} is at its maximum of {plural(most, 'core')}; more would help it"

    return _each(found, rows, words)


def _spare(found: Plan, _: Allocation) -> Said:
    because = "no component that decides gains from them"
    if found.demand.request.aim.fewest:
        because = "the target is reached without them"
    if found.change is not None and found.change.kept:
        because = "the current allocation is kept"
    return None, float(found.spare), spare_words(found.spare, found.demand.request.cores or 0, because)


def _turns(found: Plan, whole: Allocation) -> Said:
    aim, own = found.demand.request.aim, found.own_value or 0.0
    value = 1 / own if aim.by_rate else own
    words = f"with dedicated cores {aim.figure.format(amount(value))}"
    if aim.by_rate and whole.expected_per_s is not None:
        words = f"{amount(whole.expected_per_s)} records/s are expected, with dedicated cores {amount(value)}"
    return None, value, f"time sharing wins: {words}"


def _gap(found: Plan, whole: Allocation) -> Said:
    return None, None, "the best that was found; nothing better is excluded"


def _contention(_: Plan, whole: Allocation) -> Said:
    busy, slow = amount(whole.active_cores or 0.0), "components slow each other down, but for those that take turns"
    return None, whole.active_cores, f"times are those with {busy} cores busy at a time: {slow} with each other"


def _overload(found: Plan, whole: Allocation) -> Said:
    rate = amount(found.demand.request.arrival_per_s or 0.0)
    return None, whole.throughput_per_s, f"{rate} records/s are more than it sustains: queues would grow without end"


def _level(found: Plan, whole: Allocation) -> Said:
    level = found.demand.request.level
    if level is not None and found.demand.curves.uncertain:
        return None, level, f"planned for the upper bound of each curve at level {level:g}"
    if level is not None:
        return None, level, f"level {level:g} changes nothing: the curves have no upper bounds"
    keeps = f"promised: each component keeps it up with a probability of {PROMISED:g}"
    beyond = "" if found.within_seen else ", on counts that were not seen"
    return None, whole.expected_per_s, f"{keeps}; {amount(whole.expected_per_s or 0.0)} records/s are expected{beyond}"


def _extrapolates(_: Plan, whole: Allocation) -> Iterator[Said]:
    for key, known in whole.evidence.items():
        if known.extrapolates > 0:
            far = f"asked beyond what was seen by a factor of {2.0**known.extrapolates:.2g}"
            yield key, known.extrapolates, f"{key} is {far}, learned from {plural(known.observations, 'observation')}"


def _always(_: Plan) -> bool:
    return True


Words = Callable[[Plan, Allocation], Said | Iterator[Said]]
REASONS: tuple[tuple[str, Callable[[Plan], bool], Words], ...] = (
    ("current", lambda found: found.change is not None, _change),
    ("target", lambda found: bool(found.demand.request.target), _target),
    ("sharing", lambda found: found.shared, _sharing),
    ("workers", lambda found: found.demand.cores > 1 and not (found.demand.high > 1).any(), _workers),
    ("bottleneck", _always, _bottleneck),
    ("maximum", lambda found: not found.shared, _maximum),
    ("spare", lambda found: found.spare > 0, _spare),
    ("turns", lambda found: found.shared and found.own_value is not None, _turns),
    ("gap", lambda found: found.gap is None and not found.given, _gap),
    ("contention", lambda found: found.demand.contended, _contention),
    ("overload", lambda found: found.demand.queued and not np.isfinite(found.judged.latency_s[0]), _overload),
    ("level", lambda found: found.demand.request.level is not None or bool(
        found.demand.price and found.demand.curves.uncertain), _level),
    ("extrapolates", _always, _extrapolates),
)  # fmt: skip


# --- why there is none -------------------------------------------------------------------------------------------------------

Refusal = tuple[type[ImpossibleTarget | TargetNotReached], Callable[[Any], bool], str, str, str, str]
# The error, when it is said, its words, and what its `field`, `bound` and `hint` are: of the figures of a `_case`.
REFUSALS: tuple[Refusal, ...] = (
    (TargetNotReached, lambda of: of.met,
     "{what} and what else is asked for were not found together: {reached:.6g} {unit} are reached alone",
     "target", "reached", HINT),
    (ImpossibleTarget, lambda of: of.optimal,
     "{what} {is_} impossible: {on} the best of all allocations {verb} {limit:.6g} {unit}; {slowest}", "key", "limit", HINT),
    (ImpossibleTarget, lambda of: of.beyond,
     "{what} {is_} impossible: {on} no more than what {key} and the work allow, {limit:.6g} {unit}", "key", "limit", HINT),
    (TargetNotReached, lambda of: True,
     "{what} {is_} not found: {on} the best found {verb} {reached:.6g} {unit}; {slowest}", "target", "reached", HINT),
)  # fmt: skip
FAR: tuple[Refusal, ...] = (
    (TargetNotReached, lambda of: of.promised <= of.limit * (1 + TIE) < of.value,
     ("target {name} {value:.6g} is not expected on any number of cores: up to {counts} a run of {rigid} kept {fixed:.4g} s"
      " that no core took away, enough for {limit:.6g} records/s; {said}"),
     "target", "limit", "make {rigid} faster, give it instances, or ask for less"),
    (TargetNotReached, lambda of: True,
     ("target {name} {value:.6g} is not promised: {cores} expected to reach {expected:.6g} records/s, {key} on {wanted}"
      " though it was seen on {end}; {said}"),
     "target", "promised", "observe {key} on {others} cores, or ask for less"),
)  # fmt: skip


def _first(table: tuple[Refusal, ...], **case: Any) -> AdvisorError:
    """Return the error of the first row that holds."""
    of = SimpleNamespace(**case)
    error, _, words, field, bound, hint = next(row for row in table if row[1](of))
    return error(words.format(**case), field=case.get(field, field), value=of.value, bound=case[bound],
                 hint=hint.format(**case))  # fmt: skip


def refused(demand: Demand, solved: Callable[[Demand], Plan]) -> AdvisorError:
    """Return the error for a demand that nothing found answers, with the best for its target and who forbids more."""
    request = demand.request
    name, value = next(iter(request.target.items())) if request.target else ("", 0.0)
    asked = value or request.arrival_per_s or 0.0
    if name == LATE:
        try:
            best = solved(demand.asking(objective=BARE[LATE], target=None, cores=demand.cores))
        except ImpossibleTarget as error:
            return error  # the arrivals, or the machine
    elif not asked or (request.objective == BARE[RATE] and not request.arrival_per_s):
        return _unplaced(demand)
    else:
        bare = {"target": None, "arrival_per_s": None, "quantile": None, "cores": demand.cores}
        best = solved(demand.asking(objective=BARE[RATE], **bare))
    what, is_ = (f"target {name} {asked:.6g}", "is") if name else (f"arrivals of {asked:.6g} records/s", "are")
    on = "as many cores as there may be" if request.cores is None else plural(demand.cores, "core")
    return _first(REFUSALS, what=what, is_=is_, on=f"on {on}", value=asked, **_figures(demand, best, name, asked))


def _figures(demand: Demand, best: Plan, name: str, asked: float) -> dict[str, Any]:
    """Return what the best allocation for a target, or for arrivals (without `name`), reaches, and what none can."""
    optimal = best.gap == 0.0
    if name == LATE:
        stay = demand.visits * (best.judged.seconds_s[0] + best.judged.wait_s[0])
        row, reached, verb, unit, met = int(stay.argmax()), best.latency_s, "takes", "s", False
        lone = demand.request.quantile is None
        limit = _lone_bound(demand) if lone and not optimal else reached
        beyond, slowest = lone and asked < limit * (1 - 1e-9), f"{stay[row]:.6g} s of it {demand.keys[row]}"
    else:
        row, reached, verb, unit = int(best.judged.cycle_s[0].argmax()), 1 / best.period_s, "reaches", "records/s"
        limit = reached if optimal else 1 / bound_s(demand, demand.cores)
        met, beyond = reached >= asked * (1 - TIE), asked > limit * (1 + 1e-9)  # met: it is something else that is not
        slowest = f"the slowest is {demand.keys[row]}, on {plural(int(best.placed.cores[0, row]), 'core')}"
    return {"key": demand.keys[row], "reached": reached, "limit": limit, "verb": verb, "unit": unit, "met": met,
            "optimal": optimal, "beyond": beyond, "slowest": slowest}  # fmt: skip


def unsure(demand: Demand, expected: Plan) -> AdvisorError:
    """Return the error for a throughput that is expected to be reached, but not promised."""
    ((_, value),) = (demand.request.target or {RATE: 0.0}).items()
    return TargetNotReached(
        f"target {RATE} {value:.6g} is not promised on {plural(demand.cores, 'core')}: the curves are too uncertain;"
        f" {subject(expected.cores_used, 'is', 'are')} expected to reach it",
        field="target", value=value, bound=expected.cores_used,
        hint="level 0.5 plans for what is expected; more cores, or more observations, promise it",
    )  # fmt: skip


def not_excluded(error: ImpossibleTarget) -> TargetNotReached:
    """Return the error of a target that is not expected to be reached, though what was seen does not exclude it."""
    hint = "observe more runs, on as many cores as it takes; or ask for less"
    words = error.message.replace("impossible: ", "not expected: ")
    return TargetNotReached(words, field=error.field, value=error.value, bound=error.bound, hint=hint)


def misses(found: Plan) -> bool:
    """Return whether a plan of the fewest cores for a throughput promises less, on counts that were not seen."""
    request = found.demand.request
    value = (request.target or {}).get(RATE, 0.0) if request.aim.fewest else 0.0
    return bool(value) and not found.within_seen and 1 / found.promised.period_s < value * (1 - TIE)


def is_far(found: Plan) -> bool:
    """Return whether a plan lies far from what was seen."""
    return max(known.extrapolates for known in evidence_of(found).values()) > FAR_DOUBLINGS


def too_far(found: Plan) -> AdvisorError:
    """Return the error of the fewest cores for a throughput that needs far more than was seen, and is not promised.

    `bound` is what is promised on counts that were seen, or, where what did not fall with cores among these alone takes too
    long, the throughput that it leaves on any number of cores.
    """
    demand, value = found.demand, (found.demand.request.target or {})[RATE]
    key, known = max(evidence_of(found).items(), key=lambda pair: pair[1].extrapolates)
    promised = 1 / found.promised.period_s
    counts, fixed = rigid(demand)
    seen = own_placed(demand, Shapes(demand.fastest(counts), demand.most))
    if int(seen.used[0]) <= demand.cores:
        promised = max(promised, 1 / judged_plan(demand, seen).promised.period_s)
    with np.errstate(divide="ignore"):
        allows = demand.most / (demand.visits * fixed)
    row, wanted = int(allows.argmin()), int(found.placed.cores[0, demand.keys.index(key)])
    least, most = known.cores_range or (1.0, 1.0)
    end, others = (f"{most:g} at most", "more") if wanted > most else (f"{least:g} at least", "fewer")
    return _first(
        FAR, name=RATE, value=value, limit=float(allows[row]), counts=plural(int(counts[row]), "core"), rigid=demand.keys[row],
        fixed=fixed[row], said=f"on counts that were seen {promised:.6g} records/s are promised", promised=promised,
        cores=subject(found.cores_used, "is", "are"), expected=1 / found.expected.period_s, key=key, wanted=wanted, end=end,
        others=others,
    )  # fmt: skip


def _lone_bound(demand: Demand) -> float:
    """Return a latency that no allocation undercuts: of a lone record, each component at its fastest."""
    seconds = demand.seconds(demand.fastest(np.full(len(demand), demand.cores)))[None]
    mean, _ = through(demand.structure, seconds, seconds**2 * demand.variation)
    return float(mean[0])


def _unplaced(demand: Demand) -> AdvisorError:
    """Return the error where nothing was placed on the machine: among several nodes that proves nothing."""
    row = int(demand.low.argmax())
    return (ImpossibleTarget if demand.machine.whole else TargetNotReached)(
        "no allocation was placed on the machine: the nodes, the memory and the minima leave no room",
        field=demand.keys[row], value=demand.request.nodes, bound=demand.cores,
        hint="larger nodes, more memory, or smaller minima",
    )  # fmt: skip
