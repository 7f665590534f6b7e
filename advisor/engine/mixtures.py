"""The mixtures of components with support points: solved when asked for, kept until rows come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.engine.components import Components
from advisor.engine.supports import DIRECT_ROWS, coordinates, coordinates_of, latest_scores, machine_number
from advisor.models import counts, intervals, prediction, process, shapes
from advisor.models.prediction import Model
from advisor.models.process import LN2, SMOOTH, Grounds, Mean, Posterior
from advisor.models.support import MACHINES_MAX, SupportTable

Floats = NDArray[np.float64]

MIXTURE = "mixture"
FORMS = (SMOOTH, *shapes.SHAPES)  # what can be forced beside the base tier's forms
KEPT = (
    1_024  # mixtures kept for reuse, about 130 KB each at most; the oldest is dropped and solved again when asked for
)
GROUNDS_KEPT = 64  # of components that are asked for again and again, about 100 KB each at most
SKEW_MAX = 0.5  # variance of log time beyond which the mean of a log-normal is a guess about its tail: no more is added
FAR = 650.0  # exp of more is no double, in bytes or joules either
FORMS_TOLD = 3  # of a mixture, in its notes


@dataclass(slots=True)
class Mixture:
    """One component's mixture, ready to be asked.

    Attributes
    ----------
    posterior : Posterior
    scores : float64 array
        Latest scores of earlier predictions, for intervals.
    rows, runs : int
    low, high : float64 arrays (axes,)
        Seen range, in log2.
    machines : dict of int to int
        Machine's number to its place.
    """

    posterior: Posterior
    scores: Floats
    rows: int
    runs: int
    low: Floats
    high: Floats
    machines: dict[int, int]
    running_high: float  # the longest that a run was seen running, where none that ended took so long; else 0
    notes: tuple[str, ...]
    _reach: dict[float, tuple[float, float]]

    @property
    def name(self) -> str:
        """The form that answers: the one that has all the weight, or the mixture."""
        names = self.posterior.names
        return names[0] if len(set(names)) == 1 else MIXTURE

    def reach(self, level: float) -> tuple[float, float]:
        """Return how many standard deviations the interval reaches down and up."""
        found = self._reach.get(level)
        if found is None:
            found = self._reach[level] = intervals.reach(
                self.scores, level, self.posterior.freedom + len(self.posterior.points.y)
            )
        return found

    def predict(
        self, predictors: Floats, cores: Floats, level: float, machine: str | None = None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (elapsed, low, high, extrapolates), each (n,), at predictors (n, d) and cores (n,)."""
        z = coordinates(predictors, cores)
        place = 0 if machine is None else self.machines.get(machine_number(machine), MACHINES_MAX)
        mean, variance, noise = self.posterior.at(z * LN2, place)
        spread = np.sqrt(variance + noise)
        down, up = self.reach(level)
        value = np.exp(np.clip(mean + 0.5 * np.minimum(noise, SKEW_MAX), -FAR, FAR))
        low = np.minimum(np.exp(np.clip(mean + down * spread, -FAR, FAR)), value)
        high = np.maximum(np.exp(np.clip(mean + up * spread, -FAR, FAR)), np.maximum(value, self.running_high))
        outside = (np.maximum(self.low - z, 0.0) + np.maximum(z - self.high, 0.0)).sum(axis=1)
        return value, low, high, outside

    def predict_one(
        self, predictors: tuple[float, ...], cores: float, level: float, place: int
    ) -> tuple[float, float, float, float]:
        """Return `predict` of one point, in plain numbers: a few numpy calls."""
        z = (*(max(log2(x), -62.0) if x > 0 else -62.0 for x in predictors), log2(cores))
        mean, variance, noise = self.posterior.one(tuple(c * LN2 for c in z), place)
        spread = sqrt(variance + noise)
        down, up = self.reach(level)
        value = exp(min(max(mean + 0.5 * min(noise, SKEW_MAX), -FAR), FAR))
        low = min(exp(min(max(mean + down * spread, -FAR), FAR)), value)
        high = max(exp(min(max(mean + up * spread, -FAR), FAR)), value, self.running_high)
        outside = 0.0
        for c, least, most in zip(z, self.low.tolist(), self.high.tolist(), strict=True):
            outside += max(least - c, c - most, 0.0)
        return value, low, high, outside


class Mixtures:
    """The mixtures of one engine's components, by slot and form (None: the evidence's choice)."""

    def __init__(self, components: Components, base: Callable[[int], Model]) -> None:
        self._components = components
        self._base = base
        self._kept: OrderedDict[tuple[int, str | None], Mixture] = OrderedDict()
        self._grounds: OrderedDict[tuple[int, int], tuple[bytes, Grounds]] = OrderedDict()

    def drop(self) -> None:
        """Forget all: components changed otherwise than by new rows."""
        self._kept.clear()
        self._grounds.clear()

    def one(self, slot: int, form: str | None = None) -> Mixture | None:
        """Return a component's mixture, or None when it has no support points. Solved again only when rows came since."""
        rows = int(self._components.table.integers("rows")[slot])
        key = (slot, form)
        found = self._kept.get(key)
        if found is not None and found.rows == rows:
            return found
        record = self._components.supports.find(slot)
        if record is None or not int(record[0].count("points")[record[1]]):
            return None
        found = self._kept[key] = self._solved(slot, form, *record)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _grounds_of(self, table: SupportTable, place: int, timer: float) -> Grounds:
        """Return the grounds of a record's points. Most rows of an old component are not sampled: its points stay."""
        key, words = (
            (id(table), place),
            table.words[place, table.at["coarseness"].start : table.at["score"].start].tobytes(),
        )
        kept = self._grounds.get(key)
        if kept is not None and kept[0] == words:
            return kept[1]
        found = process.grounds_of(process.points_of(table, place, timer, quick=True), quick=True)
        self._grounds[key] = words, found
        if len(self._grounds) > GROUNDS_KEPT:
            self._grounds.popitem(last=False)
        return found

    def _solved(self, slot: int, form: str | None, table: SupportTable, place: int) -> Mixture:
        timer = 0.0 if self._components.kind(slot) else self._components.timer_noise_s
        grounds = self._grounds_of(table, place, timer)
        points = grounds.points
        base = self._components.table
        rows = int(base.integers("rows")[slot])
        known = [] if counts.evidence(base, slot) <= DIRECT_ROWS or table.axes > 2 else [_as_mean(self._base(slot))]
        posterior = process.solve_on(grounds, known, form)
        if table.axes == 2 and counts.evidence(base, slot) > 0:  # a storage may have lost the base words alone
            ranges = [[float(base[f"{axis}_{end}"][slot]) for axis in "xp"] for end in ("low", "high")]
            low, high = (np.array(coordinates_of([x], p)) for x, p in ranges)
        else:
            low, high = points.z.min(axis=0) / LN2, points.z.max(axis=0) / LN2
        known_machines = table.integers("machine")[place]
        machines = {int(known_machines[i]): i for i in range(1, int(table.count("machines")[place]) + 1)}
        running = float(base["running_high"][slot])
        longer = running if running > 2.0 ** float(table.floats("high")[place].max()) else 0.0
        return Mixture(
            posterior, latest_scores(table, place).copy(), rows, int(counts.runs(base, slot)), low, high, machines,
            longer,
            _notes(posterior, longer), {},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _BaseMean:
    """The base tier's model as a mean: log times at points."""

    model: Model

    def __call__(self, z: Floats) -> Floats:
        return prediction.log_values(self.model, z)

    def one(self, z: Sequence[float]) -> float:
        """Return the log time at one point, without numpy."""
        return log(prediction.value_of(self.model, exp(z[0]), exp(z[1])))


def _as_mean(model: Model) -> tuple[str, Mean, int]:
    """Return the base tier's model as a form: its mean, and its number of coefficients."""
    used = sum(1 for c in (*model.serial, *model.parallel) if c)
    return model.name, _BaseMean(model), used


def _notes(posterior: Posterior, longer: float) -> tuple[str, ...]:
    shares: dict[str, float] = {}
    for name, share in zip(posterior.names, posterior.share.tolist(), strict=True):
        shares[name] = shares.get(name, 0.0) + share
    told = sorted(shares.items(), key=lambda item: -item[1])[:FORMS_TOLD]
    notes = ["weights: " + ", ".join(f"{name} {share:.0%}" for name, share in told)]
    if len(posterior.points.y) == 1:
        notes.append("one setting seen: how time depends on predictor and cores is assumed")
    if longer:
        notes.append(f"a run was still running after {longer:.3g} s, longer than any that ended")
    return tuple(notes)


def axes_of(table: SupportTable | None) -> int:
    """Return how many predictors a record's component has; 1 where it has no record."""
    return 1 if table is None else table.axes - 1
