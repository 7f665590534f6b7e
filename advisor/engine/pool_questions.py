"""Cores of one pool for several jobs: from what a scheduler says of its jobs to `advisor.planning.job_pool`, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any, cast

import numpy as np

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedCores, allowed_range, intersect_allowed, parse_allowed
from advisor.domain.fields import unknown_key
from advisor.domain.job_pools import JOB_KEYS, PoolChoice, PoolPlan
from advisor.domain.names import checked_name
from advisor.domain.rows import number, whole
from advisor.domain.vectors import Ints
from advisor.engine.asking import Asking
from advisor.engine.components import Components
from advisor.engine.guards import checked, checked_cores
from advisor.engine.prior import prior_of
from advisor.engine.slots import TIME
from advisor.errors import InvalidValue, TooLarge, not_one_of
from advisor.planning.job_pool import ORDERS, JobCurve, PoolJob, share_pool

LEVEL = 0.9  # of the interval whose upper end is held against a due time: 19 of 20 such runs end before it
# BELOW_SEEN, BEYOND_SEEN: a learned curve is believed down to a quarter of the fewest cores seen, where a mistake costs few
# core-seconds, and up to twice the most
BELOW_SEEN, BEYOND_SEEN = 4.0, 2.0
NAMES_SOUGHT = 4  # components never observed for which names like theirs are sought, at some milliseconds each
Predictor = tuple[float, ...]  # empty: none was given
Key = tuple[str, Predictor, str | None]


class PoolQuestion:
    """One call of `choose_together`."""

    def __init__(self, asking: Asking, components: Components, jobs: Any, cores: int) -> None:
        self._asking, self._components, self.cores = asking, components, cores
        self._curves: dict[tuple[Key, AllowedCores, int], JobCurve] = {}
        self._asked: dict[str, None] = {}  # the components of all jobs
        self._unseen: dict[str, int | None] = {}  # slots by component without rows; None: never observed
        if not isinstance(jobs, (list, tuple)):
            raise InvalidValue("jobs", jobs, "a list of jobs, each a map")
        given = cast("Sequence[Any]", jobs)
        if len(given) > limits.JOBS_TOGETHER_MAX:
            raise TooLarge("jobs", len(given), limits.JOBS_TOGETHER_MAX)
        self.ids = dict[Any, int]()
        self.jobs = [self._job(f"jobs[{i}]", job) for i, job in enumerate(given)]
        running = sum(job.cores_now for job in self.jobs)
        if running > cores:
            raise InvalidValue("cores", cores, f"{running} or more: so many are used by the running jobs")

    def answer(self, order: str, wait_max_s: float | None) -> PoolPlan:
        """Return the plan."""
        given = share_pool(self.jobs, self.cores, order, wait_max_s)
        found = tuple(PoolChoice(name, *each) for name, each in zip(self.ids, given, strict=True))
        assumed = {name: self._assumed_of(name, at) for at, name in enumerate(self._unseen)}
        for component in self._asked:
            slot = self._components.slots.find_slot(component)
            for note in () if slot is None else self._asking.assumed_of(slot):
                assumed[component] = note
        return PoolPlan(found, assumed)

    def _assumed_of(self, component: str, at: int) -> str:
        text = "no run was learned: its time is taken to fall with the root of the cores"
        if at >= NAMES_SOUGHT or self._unseen[component] is not None:
            return text
        near = self._components.slots.nearest(component)
        return f"{text}; did you mean {' or '.join(map(repr, near))}?" if near else text

    # -- jobs -------------------------------------------------------------------------------------------------------------

    def _job(self, name: str, job: Any) -> PoolJob:
        if not isinstance(job, Mapping):
            raise InvalidValue(name, job, f"a map with {', '.join(JOB_KEYS)}")
        given = cast("Mapping[Any, Any]", job)
        for key in given:
            if key not in JOB_KEYS:
                raise unknown_key(name, key, JOB_KEYS, name)
        self._take_id(name, given.get("id"))
        component = checked_name(f"{name}.component", given.get("component"))
        known = {
            key: each.default if given.get(key) is None else each.check(f"{name}.{key}", given[key])
            for key, each in JOB_KEYS.items()
            if each.check is not None
        }
        now = whole(f"{name}.cores_now", known["cores_now"], 0, self.cores)
        x, resizable = given.get("predictor"), known["resizable"]
        values: list[float] = (
            [] if x is None else np.ravel(checked(f"{name}.predictor", x, "invalid_predictor")).tolist()
        )
        allowed = self._allowed(f"{name}.allowed", given.get("allowed"))
        own = self._asking.allowed_of(component)
        if own is not None:
            allowed = intersect_allowed(f"{name}.allowed", allowed, own, f"component {component!r}")
        self._asked[component] = None
        if not now or resizable:
            slot = self._components.slots.find_slot(component)
            if slot is None or not self._asking.learned(slot):
                self._unseen[component] = slot
        curve = self._curve_of(name, (component, tuple(values), known["machine"]), allowed, now)
        more = (known[key] for key in ("weight", "due_s", "resizable", "restart_s", "done", "waited_s"))
        return PoolJob(curve, allowed.least, now, *more)

    def _take_id(self, name: str, given: Any) -> None:
        try:
            known = given is None or given in self.ids
        except TypeError as error:
            raise InvalidValue(f"{name}.id", given, "a value that can be hashed") from error
        if known:
            raise InvalidValue(f"{name}.id", given, "given, and different from that of each other job")
        self.ids[given] = len(self.ids)

    def _allowed(self, field: str, given: Any) -> AllowedCores:
        """Return the counts that a job may use: those of the pool, where it has one of them."""
        allowed = allowed_range(1, self.cores) if given is None else parse_allowed(field, given)
        return allowed.between(1, self.cores) or allowed

    # -- curves -----------------------------------------------------------------------------------------------------------

    def _curve_of(self, name: str, key: Key, allowed: AllowedCores, now: int) -> Callable[[], JobCurve]:
        def curve() -> JobCurve:
            found = self._curves.get((key, allowed, now))
            if found is None:
                found = self._curves[key, allowed, now] = self._curve(name, key, allowed, now)
            return found

        return curve

    def _curve(self, name: str, key: Key, allowed: AllowedCores, now: int) -> JobCurve:
        component, predictor, machine = key
        counts = np.array(sorted({*allowed.compared, now} - {0}), np.int64)
        if component in self._unseen:
            return self._assumed(self._unseen[component], counts, allowed)
        slot = self._components.slots.slot_of(component)
        base = self._components.table
        fewest, most = float(base["p_low"][slot]) / BELOW_SEEN, float(base["p_high"][slot]) * BEYOND_SEEN
        trusted = ((counts >= fewest) & (counts <= most)) | (counts == now)
        if not trusted.any():
            trusted[0 if counts[0] > most else -1] = True
        counts = counts[trusted]
        x = self._point(name, slot, predictor, len(counts))
        answer = self._asking.predict(component, x, counts.astype(np.float64), LEVEL, None, machine, TIME)
        return JobCurve(counts, answer.elapsed_s, answer.high_s)

    def _point(self, name: str, slot: int, predictor: Predictor, counts: int) -> Any:
        """Return one predictor as it is asked on several counts."""
        dimensions = self._components.dimensions(slot)
        if predictor and len(predictor) != dimensions:
            bound = f"one point: {dimensions} number{'s' * (dimensions > 1)}, as the component's first row had"
            raise InvalidValue(f"{name}.predictor", list(predictor), bound)
        if dimensions > 1 and predictor:
            return np.broadcast_to(np.array(predictor), (counts, dimensions))
        return predictor[0] if predictor else None

    def _assumed(self, slot: int | None, counts: Ints, allowed: AllowedCores) -> JobCurve:
        """Return the curve of a component without rows: T ~ 1 / sqrt(p), up to the count of a first run.

        That is the allowed count nearest the least times (most / least)^(3/4). By the price rule it is then the pool's cores
        over the jobs behind it, or less.
        """
        ratio = sqrt(allowed.most / allowed.least)
        counts = counts[counts <= max(allowed.nearest(allowed.least * ratio * sqrt(ratio)), int(counts[0]))]
        guess = prior_of(self._components, slot, "", 1.0, 1.0, LEVEL)
        falls = 1.0 / np.sqrt(counts.astype(np.float64))
        return JobCurve(counts, guess.elapsed_s * falls, guess.high_s * falls)


def choose_together(
    asking: Asking, components: Components, jobs: Any, cores: Any, order: Any, wait_max_s: Any
) -> PoolPlan:
    """Return how jobs share a pool; see `ComponentQuestions.choose_together`."""
    if order not in ORDERS:
        raise not_one_of("order", order, ORDERS)
    if wait_max_s is not None:
        wait_max_s = number("wait_max_s", wait_max_s, 0.0, limits.ELAPSED_MAX_S)
    elif order == "work":
        raise InvalidValue("wait_max_s", None, "a number of seconds: jobs that waited so long come first")
    return PoolQuestion(asking, components, jobs, checked_cores("cores", cores)).answer(order, wait_max_s)
