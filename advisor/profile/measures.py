"""Live measures of a run: work, span, what was lost and to what, and how far more cores would carry (paper 3, Cilkview)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from advisor.errors import InvalidValue

# Cilkview (He, Leiserson, Leiserson 2010): a work-stealing run takes at most about T1/p + 1.7 times the burdened span.
BURDEN_FACTOR: Final = 1.7


@dataclass(frozen=True, slots=True)
class SpeedupBound:
    """What a run on so many cores can take."""

    cores: int
    least_s: float  # max(T1/p, span): no prediction may beat it
    most_s: float  # T1/p + 1.7 · burdened span
    # speedup_low, speedup_high: T1 over these
    speedup_low: float
    speedup_high: float


@dataclass(frozen=True, slots=True)
class Measures:
    """Sums over a run, seconds unless named otherwise.

    T1 + overhead + delay + no_work + unaccounted = p · time. Work comes from exclusive times, overhead from the regions that
    create and manage, delay and no_work from the integrals of waiting workers and ready tasks, p · time from the workers'
    coming and going; what remains is unaccounted: time outside every region, and what lost events would have shown.
    """

    elapsed_s: float = 0.0  # from the first event to the last
    workers_s: float = 0.0  # p · time: the time that workers were there
    # workers, workers_max: now, and at most
    workers: int = 0
    workers_max: int = 0
    work_s: float = 0.0  # T1: time inside tasks, regions and parallel regions that neither creates, manages nor waits
    # creation_s, management_s: overhead
    creation_s: float = 0.0
    management_s: float = 0.0
    waiting_s: float = 0.0  # in synchronisations and idle, by exclusive times: delay_s + no_work_s, but for lost events
    # delay_s, no_work_s: ∫ min(ready, waiting) dt: workers wait though tasks are ready; ∫ waiting - min(ready, waiting)
    # dt
    delay_s: float = 0.0
    no_work_s: float = 0.0
    unaccounted_s: float = 0.0
    # span_s, burdened_span_s: the longest path through the tasks; with the burden of handing each over
    span_s: float = 0.0
    burdened_span_s: float = 0.0
    ready: int = 0  # tasks that could run now
    # active, active_max: task instances begun and not ended, now and at most
    active: int = 0
    active_max: int = 0
    creates: int = 0
    begins: int = 0
    ends: int = 0
    cancels: int = 0
    fragments: int = 0
    dependences: int = 0
    # tasks that ran within their creation only because their team had one thread: the spans take them as deferred
    at_once: int = 0
    # tasks with dependences that were not reported: the spans take them as run in the order of their creation. With any,
    # the spans are at most what they say, the parallelism is at least.
    in_order: int = 0
    # tasks reported as sums. No path through them is known: with any, the spans are at least what they say, the parallelism
    # is at most.
    summed: int = 0
    cpu_s: float = 0.0  # processor time that the program took, where its tool or whoever started it tells; 0 else

    @property
    def parallelism(self) -> float:
        """T1 over the span: the most cores that can be kept busy; 0 without work."""
        return self.work_s / self.span_s if self.span_s > 0.0 else 0.0

    @property
    def burdened_parallelism(self) -> float:
        """T1 over the burdened span."""
        return self.work_s / self.burdened_span_s if self.burdened_span_s > 0.0 else 0.0

    @property
    def overhead_s(self) -> float:
        """Creation and management."""
        return self.creation_s + self.management_s

    def bounds(self, cores: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)) -> tuple[SpeedupBound, ...]:
        """Return Cilkview's bounds for numbers of cores; raises InvalidValue for less than one core."""
        found: list[SpeedupBound] = []
        for p in cores:
            if p < 1:
                raise InvalidValue("cores", p, "at least 1")
            least = max(self.work_s / p, self.span_s)
            most = self.work_s / p + BURDEN_FACTOR * self.burdened_span_s
            low, high = (self.work_s / each if each > 0.0 else 0.0 for each in (most, least))
            found.append(SpeedupBound(p, least, most, low, high))
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Return the measures, and those that follow from them, by name."""
        return asdict(self) | {
            "overhead_s": self.overhead_s,
            "parallelism": self.parallelism,
            "burdened_parallelism": self.burdened_parallelism,
            "bounds": [asdict(bound) for bound in self.bounds()],
        }
