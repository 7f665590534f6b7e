"""One watch: what is known of it, what became of the advice that it gave, and what its runtime lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import numpy as np

from advisor.domain.allocations import Allocation
from advisor.errors import InvalidValue
from advisor.planning.estimates import Setting
from advisor.planning.outcomes import Outcome, outcome
from advisor.planning.stability import ChangePolicy, CostOfChange, Look, Schedule, Verdict
from advisor.protocol import verbs as m
from advisor.service.observed_cores import Ints, Tally

SAME_CORES = 0.02  # of the cores advised: the mean of the latest rows lies so near when all but the oldest have them
REGRET_GAP_S = 3600.0  # no longer span between looks counts towards regret: nothing was known in it


@dataclass(slots=True, eq=False)
class WatchedNetwork:
    """One network that somebody watches."""

    number: int
    owner: Any
    params: m.Watch
    keys: tuple[str, ...]
    components: tuple[str, ...]
    objective: str
    policy: ChangePolicy
    cost: CostOfChange
    shadow: bool
    present: Setting | None  # what the runtime was told to have, or said that it has; None: what its rows show
    schedule: Schedule = field(default_factory=Schedule)
    rows: int = 0
    looking: bool = False
    rest_until: float = 0.0
    again_at: float = 0.0
    advised: Allocation | None = None  # the last advice that is neither applied nor withdrawn
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    best: Allocation | None = None  # of the last look
    verdict: Verdict | None = None
    waiting: str = "no look yet"
    queued: anyio.CancelScope | None = None
    failure: str = ""
    outcome: str = ""
    places: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    changes: int = 0
    changes_seen: int = -1
    advised_values: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    # (ratio, Setting, Setting) or None: of a change that was applied and is not judged yet: the seconds promised as a
    # share of those before, what it is, what was before
    promise: tuple[float, Setting, Setting | None] | None = None
    tally: Tally | None = None
    asked: tuple[Any, Any] = (None, None)  # network and request of the last look
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # what is to be told with the next push
    regret: float = 0.0
    rate_lost: float = 0.0
    regret_s: float = 0.0
    watched_s: float = 0.0
    records_lost: float = 0.0
    looked_at: float | None = None

    def shows_advice(self, actual: Setting | None) -> bool:
        """Return whether rows on the cores that were advised say that the advice was applied, where nobody does."""
        if self.advised is None or actual is None or self.shadow:
            return False
        return all(abs(actual.cores[key] - cores) <= SAME_CORES * cores for key, cores in self.advised.runs_on.items())

    def apply(self, present: Setting, took_s: float | None = None) -> None:
        """Take in that the runtime has changed to `present`, within `took_s` seconds where that is known."""
        before = self.present
        if took_s is not None and before is not None:
            changed = [key for key in self.keys if before.cores[key] != present.cores[key]
                       or before.instances[key] != present.instances[key]]  # fmt: skip
            self.cost = self.cost.learned(changed, took_s)
        # Of a cost no time is promised: it may fall with the cores while records take longer.
        if self.advised is not None and Setting.of(self.advised) == present and self.objective != "cost":
            now, then = self.advised_values["present"], self.advised_values["best"]
            self.promise = (_seconds(self.objective, then) / _seconds(self.objective, now), present, before)
            self.tally = Tally(self.places, np.array([present.cores[key] for key in self.keys]))
        else:
            self.promise = self.tally = None
        self.present, self.advised = present, None
        # Looks come close together again, for the cores are new to some components; their risk is not given out anew.
        self.schedule = self.schedule.again(self.rows)

    def judged(self, look: Look) -> Outcome | None:
        """Return what a change brought against what was promised, once what was measured since can tell."""
        if self.promise is None or self.tally is None or "previous" not in look.values or look.visits is None:
            return None
        ratio, present, _ = self.promise
        before = _seconds(self.objective, look.values["previous"])
        seconds = look.visits * self.tally.mean
        if self.objective != "latency":
            seconds = seconds / np.array([present.instances[key] for key in self.keys])
        found = outcome(
            before, before * ratio, seconds, self.tally.spread(), self.tally.runs, objective=self.objective,
            group=present.rows_of_groups(self.keys),
        )  # fmt: skip
        if found is not None:
            self.promise = self.tally = None
            self.outcome = found.text
        return found

    def account(self, now: float) -> tuple[float, float]:
        """Add up what the runtime lost since the last look by not doing what was best then.

        Returns
        -------
        span, regret
            Seconds since the last look, and the regret over them, in seconds.
        """
        span = 0.0 if self.looked_at is None else min(now - self.looked_at, REGRET_GAP_S)
        lost_s = span * self.regret
        self.watched_s += span
        self.regret_s += lost_s
        self.records_lost += span * self.rate_lost
        if "actual" in self.figures:
            self.looked_at = now
            best, actual = self.figures["best"], self.figures["actual"]
            self.regret = _regret(self.objective, best, actual)
            lost = best["throughput_per_s"] - actual["throughput_per_s"]
            self.rate_lost = max(lost, 0.0) if self.objective == "throughput" else 0.0
        return span, lost_s

    def brief(self) -> dict[str, Any]:
        """Return how it fares, as `status` tells it."""
        return {
            "watch": self.number,
            "components": len(self.keys),
            "objective": self.objective,
            "shadow": self.shadow,
            "rows": self.rows,
            "waiting": self.waiting or None,
            "why": self.verdict.text if self.verdict is not None else None,
            "regret": self.regret if "actual" in self.figures else None,
            "regret_mean": self.regret_s / self.watched_s if self.watched_s else None,
            "records_lost": self.records_lost,
            "outcome": self.outcome or None,
        }


def policy_of(params: Any) -> ChangePolicy:
    """Return the news of a watch when a change is worth it."""
    given = {name: value for name in ("horizon_s", "gain_min") if (value := getattr(params, name)) is not None}
    return ChangePolicy(**given)


def cost_of(given: Any, keys: Sequence[str]) -> CostOfChange:
    """Return what a change costs: of each key, or flat; raises InvalidValue for a key that the network lacks."""
    if isinstance(given, dict):
        by_key = cast("dict[str, float]", given)
        unknown = next((key for key in by_key if key not in set(keys)), None)
        if unknown is not None:
            raise InvalidValue("change_cost_s", unknown, f"a key of the network: {', '.join(keys[:8])}")
        return CostOfChange(by_key=by_key)
    return CostOfChange(flat_s=float(given or 0.0))


def values_told(values: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the figures of a look, as they are sent."""
    return {name: dict(values[name]) for name in ("best", "present", "advised", "actual") if name in values}


def judgement(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict, as it is sent."""
    return {
        "gain": verdict.gain,
        "probability": verdict.probability,
        "cost_s": verdict.cost_s,
        "break_even_s": verdict.break_even_s if math.isfinite(verdict.break_even_s) else None,
        "changed": list(verdict.changed),
        "verdict": verdict.code,
        "why": verdict.text,
    }


def _seconds(objective: str, figures: Mapping[str, float]) -> float:
    return figures["work_s"] if objective == "latency" else 1.0 / figures["throughput_per_s"]


def _regret(objective: str, best: Mapping[str, float], actual: Mapping[str, float]) -> float:
    """Return the share of the objective that is lost against the best known; 0 where there is nothing to gain."""
    if objective == "latency":
        share = 1.0 - best["latency_s"] / actual["latency_s"]
    elif objective == "cost":
        endless = not math.isfinite(actual["cost_per_s"])  # records come faster than they leave
        share = 1.0 if endless else (actual["cost_per_s"] - best["cost_per_s"]) / actual["turnover_per_s"]
    elif objective == "fewest_cores":
        share = 1.0 - best["cores"] / actual["cores"]
    else:
        share = 1.0 - actual["throughput_per_s"] / best["throughput_per_s"]
    return min(max(share, 0.0), 1.0)
