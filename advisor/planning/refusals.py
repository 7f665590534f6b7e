"""What is said where no allocation reaches what is asked for: impossible where that is proved, else the best found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.domain import limits
from advisor.errors import AdvisorError, ImpossibleTarget, TargetNotReached
from advisor.planning.answers import evidence_of
from advisor.planning.bounds import bound_s, rigid
from advisor.planning.demand import Demand, Shapes
from advisor.planning.exact import Plan, judged_plan
from advisor.planning.judge import own_placed
from advisor.planning.pieces import TIE
from advisor.planning.reasons import plural
from advisor.planning.requests import BARE, LATE, RATE
from advisor.planning.structure import through

FAR_DOUBLINGS = 1.0  # of the most cores seen: an answer beyond is no advice, for nothing that was seen supports it
HINT = "raise cores, maximum or instances_max, or ask for less"


def refused(demand: Demand, solved: Callable[[Demand], Plan]) -> AdvisorError:
    """Return the error for a demand that nothing found answers, with the best for its target and who forbids more."""
    request = demand.request
    name, value = next(iter(request.target.items())) if request.target else ("", 0.0)
    if name and name != RATE:
        try:
            best = solved(demand.asking(objective=BARE[LATE], target=None, cores=demand.cores))
        except ImpossibleTarget as error:
            return error  # the arrivals, or the machine
        return _not_reached(demand, best, name, value)
    asked = value or request.arrival_per_s or 0.0
    bare = {"target": None, "arrival_per_s": None, "quantile": None, "cores": demand.cores}
    if not asked or (request.objective == BARE[RATE] and not request.arrival_per_s):
        return _unplaced(demand)
    return _not_reached(demand, solved(demand.asking(objective=BARE[RATE], **bare)), name, asked)


def unsure(demand: Demand, expected: Plan) -> AdvisorError:
    """Return the error for a throughput that is expected to be reached, but not promised."""
    ((_, value),) = (demand.request.target or {RATE: 0.0}).items()
    return TargetNotReached(
        f"target {RATE} {value:.6g} is not promised on {plural(demand.cores, 'core')}: the curves are too uncertain;"
        f" {plural(expected.cores_used, 'core')} are expected to reach it",
        field="target", value=value, bound=expected.cores_used,
        hint="level 0.5 plans for what is expected; more cores, or more observations, promise it",
    )  # fmt: skip


def not_excluded(error: ImpossibleTarget) -> TargetNotReached:
    """Return the error of a target that is not expected to be reached, though what was seen does not exclude it."""
    message = error.message.replace(" is impossible: ", " is not expected: ").replace(
        " are impossible: ", " are not expected: "
    )
    return TargetNotReached(
        message, field=error.field, value=error.value, bound=error.bound,
        hint="observe more runs, on as many cores as it takes; or ask for less",
    )  # fmt: skip


def too_far(found: Plan) -> TargetNotReached | None:
    """Return the error of the fewest cores for a throughput where that needs far more than was seen, else None.

    `bound` is what is promised on counts that were seen, or, where what did not fall with cores among these alone takes too
    long, the throughput that it leaves on any number of cores.
    """
    demand, request = found.demand, found.demand.request
    target = (request.target or {}).get(RATE, 0.0)
    if not request.aim.fewest or not target or found.within_seen:
        return None
    known = evidence_of(found)
    key, far = max(((key, one.extrapolates) for key, one in known.items()), key=lambda pair: pair[1])
    promised = 1 / found.promised.period_s
    if promised >= target * (1 - TIE) or far <= FAR_DOUBLINGS:
        return None
    counts, fixed = rigid(demand)
    seen = own_placed(demand, Shapes(demand.fastest(counts), demand.most))
    if int(seen.used[0]) <= demand.cores:
        promised = max(promised, 1 / judged_plan(demand, seen).promised.period_s)
    with np.errstate(divide="ignore"):
        limits_ = demand.most / (demand.visits * fixed)
    row = int(limits_.argmin())
    said = f"on counts that were seen {promised:.6g} records/s are promised"
    if target > limits_[row] * (1 + TIE):
        key, limit = demand.keys[row], float(limits_[row])
        return TargetNotReached(
            f"target {RATE} {target:.6g} is not expected on any number of cores: up to {plural(int(counts[row]), 'core')} a"
            f" run of {key} kept {fixed[row]:.4g} s that no core took away, enough for {limit:.6g} records/s; {said}",
            field="target", value=target, bound=limit, hint=f"make {key} faster, give it instances, or ask for less",
        )  # fmt: skip
    wanted, (least, most) = int(found.placed.cores[0, demand.keys.index(key)]), known[key].cores_range or (1.0, 1.0)
    end, others = (f"{most:g} at most", "more") if wanted > most else (f"{least:g} at least", "fewer")
    return TargetNotReached(
        f"target {RATE} {target:.6g} is not promised: {plural(found.cores_used, 'core')} are expected to reach"
        f" {1 / found.expected.period_s:.6g} records/s, {key} on {wanted} though it was seen on"
        f" {end}; {said}", field="target", value=target, bound=promised,
        hint=f"observe {key} on {others} cores, or ask for less",
    )  # fmt: skip


def _not_reached(demand: Demand, best: Plan, name: str, asked: float) -> AdvisorError:
    """Return the error of a throughput, of arrivals (without `name`) or of a latency that is not reached."""
    what, is_ = (f"target {name} {asked:.6g}", "is") if name else (f"arrivals of {asked:.6g} records/s", "are")
    late, optimal, on, beyond = name == LATE, best.gap == 0.0, _on(demand, best), _beyond(best)
    if late:
        stay = demand.visits * (best.judged.seconds_s[0] + best.judged.wait_s[0])
        row, reached, verb, unit = int(stay.argmax()), best.latency_s, "takes", "s"
        lone = not optimal and demand.request.quantile is None
        bound = _lone_bound(demand) if lone else reached
        proved = optimal or (lone and asked < bound * (1 - 1e-9))
        proof = "each component at its fastest takes"
        where = f", {stay[row]:.6g} s of it {demand.keys[row]}" if optimal else ""
        possible = ""
    else:
        row, reached, verb, unit = int(best.slowest[0]), 1 / best.period_s, "reaches", "records/s"
        bound = reached if optimal else 1 / bound_s(demand, demand.cores)
        proved = optimal or asked > bound * (1 + 1e-9)
        proof, where = "their work allows no more than", f"; {_slowest_words(demand, best, row)}"
        possible = f", and no more than {bound:.6g} is possible"
        if reached >= asked * (1 - TIE):  # the throughput is there: it is something else that is not
            return TargetNotReached(
                f"{what} and what else is asked for were not found together: {reached:.6g} records/s are reached alone",
                field="target", value=asked, bound=reached, hint=HINT,
            )  # fmt: skip
    if proved:
        proof = f"the best of all allocations {verb}" if optimal else proof
        return ImpossibleTarget(f"{what} {is_} impossible: {on} {proof} {bound:.6g} {unit}{where}{beyond}",
                                field=demand.keys[row], value=asked, bound=bound, hint=HINT)  # fmt: skip
    return TargetNotReached(f"{what} {is_} not found: {on} the best found {verb} {reached:.6g} {unit}{possible}{beyond}",
                            field="target", value=asked, bound=reached, hint=HINT)  # fmt: skip


def _on(demand: Demand, best: Plan) -> str:
    if demand.request.cores is None:
        return "on as many cores as there may be"
    return f"{'in turns ' if best.shared else ''}on {plural(demand.cores, 'core')}"


def _slowest_words(demand: Demand, best: Plan, row: int) -> str:
    key, cores, many = demand.keys[row], int(best.placed.cores[0, row]), int(best.placed.instances[0, row])
    if best.shared:
        return f"{key} is in the slowest group"
    most = plural(cores, "core") if cores < limits.ALLOCATE_CORES_MAX else "as many cores as there may be"
    return f"the slowest is {key}, with {plural(many, 'instance')} on {most}"


def _beyond(best: Plan) -> str:
    """Say how far what was found lies beyond what was seen."""
    far = max((known.extrapolates for known in evidence_of(best).values()), default=0.0)
    return f"; its curves are asked beyond what was seen by a factor of up to {2.0**far:.2g}" if far > 0 else ""


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
