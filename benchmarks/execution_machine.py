"""The machine that boxes run on: service times, the clock, and cores on which boxes slow each other down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log1p, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import simpy
    from execution_points import Station

Floats = NDArray[np.float64]
Record = list[Any]  # [time of entry, frames of the regions it is in, number, its replica in each split around it]
Observer = Callable[[str, int, float, float, float], None]  # key, record, its entry, elapsed, active cores at the start

DRAWN = 4096  # random numbers made at a time: numpy's cost a number vanishes


def _lognormal(rng: np.random.Generator, n: int, variation: float) -> Floats:
    log_variance = log1p(variation)
    return rng.lognormal(-log_variance / 2, sqrt(log_variance), n)


# Shapes of service times with mean 1 and the given squared coefficient of variation.
SHAPES: Mapping[str, Callable[[np.random.Generator, int, float], Floats]] = {
    "deterministic": lambda _rng, n, _variation: np.ones(n),
    "exponential": lambda rng, n, _variation: rng.exponential(1.0, n),
    "gamma": lambda rng, n, variation: rng.gamma(1 / variation, variation, n),
    "lognormal": _lognormal,
}


@dataclass(frozen=True, slots=True)
class Box:
    """How a box runs under an allocation.

    Attributes
    ----------
    mean_s : float
        Seconds of a run on its cores, on average, with nothing else on the machine.
    shape, variation
        A key of `SHAPES`, and the squared coefficient of variation.
    cores, instances : int
        Cores of each instance, and instances.
    contention : float
        kappa: with a active cores on the machine a run advances at the rate 1 / (1 + kappa max(a - cores, 0)).
    """

    mean_s: float
    shape: str = "exponential"
    variation: float = 1.0
    cores: int = 1
    instances: int = 1
    contention: float = 0.0


def uniforms(seed: int) -> Callable[[], float]:
    rng = np.random.default_rng(seed)
    drawn: list[float] = []

    def draw() -> float:
        if not drawn:
            drawn.extend(rng.random(DRAWN).tolist())
        return drawn.pop()

    return draw


def exponential_gaps(rate_per_s: float, seed: int) -> Callable[[], float]:
    rng = np.random.default_rng(seed)
    drawn: list[float] = []

    def draw() -> float:
        if not drawn:
            drawn.extend(rng.exponential(1 / rate_per_s, DRAWN).tolist())
        return drawn.pop()

    return draw


class Machine:
    """The clock, and the cores on which boxes slow each other down."""

    def __init__(self, observe: Observer | None) -> None:
        import simpy  # noqa: PLC0415 - the runtime of the demos has a clock of its own

        self.clock = simpy.Environment()
        self.active = 0
        self._observe = observe

    def start(self, station: Station, record: Record, seconds: float) -> None:
        """Run a record for so many seconds."""
        timeout = self.clock.timeout(seconds, record)
        if self._observe is None:
            timeout.callbacks.append(lambda event: station.finish(event._value))
            return
        self.active += station.box.cores
        observe, active = self._observe, self.active

        def done(_event: simpy.Event) -> None:
            self.active -= station.box.cores
            observe(station.key, record[2], record[0], seconds, active)
            station.finish(record)

        timeout.callbacks.append(done)


class _Run:
    """One run on a contended machine: what is left of it, and how fast it goes."""

    __slots__ = ("active", "began_s", "left_s", "record", "slowdown", "station", "version")

    def __init__(self, station: Station, record: Record, left_s: float, began_s: float) -> None:
        self.station, self.record, self.left_s, self.began_s = station, record, left_s, began_s
        self.slowdown, self.version, self.active = 0.0, 0, 0


class ContendedMachine(Machine):
    """Cores where each run advances at the rate 1 / (1 + kappa max(active - p, 0)), whenever who is active changes.

    Cost O(runs at a time) an event.
    """

    def __init__(self, observe: Observer | None) -> None:
        super().__init__(observe)
        self._runs: dict[_Run, None] = {}
        self._since_s = 0.0

    def start(self, station: Station, record: Record, seconds: float) -> None:
        """Run a record for so many seconds of an empty machine."""
        run = _Run(station, record, seconds, self.clock.now)
        self._change(station.box.cores, run)
        run.active = self.active

    def _change(self, cores: int, added: _Run | None) -> None:
        now = self.clock.now
        passed, self._since_s = now - self._since_s, now
        for run in self._runs:
            run.left_s -= passed / run.slowdown
        if added is not None:
            self._runs[added] = None
        self.active += cores
        for run in self._runs:
            box = run.station.box
            slowdown = 1 + box.contention * max(self.active - box.cores, 0)
            if slowdown != run.slowdown:
                run.slowdown, run.version = slowdown, run.version + 1
                timeout = self.clock.timeout(max(run.left_s, 0.0) * slowdown, (run, run.version))
                timeout.callbacks.append(self._due)

    def _due(self, event: simpy.Event) -> None:
        run, version = event._value
        if version != run.version:
            return  # it was given another speed since
        del self._runs[run]
        self._change(-run.station.box.cores, None)
        if self._observe is not None:
            elapsed = self.clock.now - run.began_s
            self._observe(run.station.key, run.record[2], run.record[0], elapsed, run.active)
        run.station.finish(run.record)
