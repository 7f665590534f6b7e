"""Plans for a latency under arrivals: a search by formula finds candidates, executed records rank the best of them.

The formula is then scaled to what a run has found, and the search repeated: near the best plan it agrees with the runs, so that
a target of latency is neither missed nor met with more cores than it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor.planning.exact import Solution
from advisor.planning.judge import PLAIN, Judged, Placed, PlanModel, Scales
from advisor.planning.questions import PlanQuestion
from advisor.planning.record_runs import VISITS_MAX, records_of
from advisor.planning.requests import LATE
from advisor.planning.scores import latency_of, score
from advisor.planning.search import WORST, AllocationKey

ROUNDS_MAX = 3  # searches, each by the formula scaled to the run of the plan found before
RUNS_MAX = 6  # plans executed in all: of a network of ten boxes some 50 ms
LOOK_PART = 8  # one of so many records is executed to choose them
LOOK_NEAR = 0.03  # relative: differences of such short runs beyond are no noise
FEW, ALL = 2, 4  # plans executed in one round where rounds follow, and where they do not

Searching = Callable[[Scales, Scales], tuple[Solution, list[Placed]] | None]


def verified(question: PlanQuestion, search: Searching) -> Solution | None:
    """Return the best allocation by its run; None where the search finds none, or no run reaches the target.

    `search` returns what it finds by formulas scaled for cores of one's own and in turns, and allocations from the best on.
    """
    request, visits = question.request, question.demand.visits
    repeats = bool((request.weights or {}).get(LATE)) or LATE in (request.target or {})
    many = FEW if repeats else ALL if request.for_latency else 1
    runs = max(1, int(RUNS_MAX * VISITS_MAX / max(records_of(visits) * float(visits.sum()), 1.0)))
    best, least, seen = None, WORST, set[bytes]()
    scales = {False: PLAIN, True: PLAIN}
    for _ in range(ROUNDS_MAX):
        found, fresh = search(scales[False], scales[True]), set[bool]()
        if found is None:
            break
        for placed in _first_look(question.model, found[1], many):
            mark = b"".join(part.tobytes() for part in placed if part is not None)
            if mark in seen or len(seen) == runs:
                continue
            seen.add(mark)
            near, judged = question.model.executed(placed)
            key = _key(question.model, placed, judged)
            if key.before(least):
                best, least = found[0]._replace(model=near, placed=placed, judged=judged), key
            turned = placed.group is not None
            if turned not in fresh:
                fresh.add(turned)
                scales[turned] = near.scales
        if not fresh or not repeats:
            break
    return best


def _first_look(model: PlanModel, some: list[Placed], many: int) -> list[Placed]:
    """Return the best of some allocations by short runs with the same random numbers, as far as these cannot tell them apart."""
    if many == 1 or len(some) == 1:
        return some[:1]
    keys = list[AllocationKey]()
    for placed in some:
        judged = model.judge(placed)
        run = model.run(placed, judged, LOOK_PART)
        if run is not None:
            quantile = None if run.quantile_s is None else np.array([run.quantile_s])
            judged = replace(judged, latency_s=np.array([run.latency_s]), quantile_s=quantile)
        keys.append(_key(model, placed, judged))
    order = sorted(range(len(some)), key=lambda place: keys[place])
    best = keys[order[0]].score
    close = [place for place in order if not keys[place].score > best + LOOK_NEAR * abs(best)]
    return [some[place] for place in close[:many]]


def _key(model: PlanModel, placed: Placed, judged: Judged) -> AllocationKey:
    late = latency_of(judged) if model.request.for_latency else judged.unloaded_s
    value = score(model.request, judged, placed.used)
    return AllocationKey(float(value[0]), float(placed.used[0]), float(late[0]))
