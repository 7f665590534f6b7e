"""Which run of a component would teach most: exploration by the learner's own uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from advisor.domain import elementary, limits
from advisor.domain.allowed_cores import AllowedForm, allowed_in_all
from advisor.domain.answers import Suggestion
from advisor.domain.rows import whole
from advisor.domain.vectors import Floats
from advisor.engine.asking import Asking
from advisor.engine.components import Components
from advisor.engine.guards import checked
from advisor.engine.learners import ANY_MACHINE, Solved
from advisor.errors import InvalidValue, TooLarge
from advisor.models.cells import LN_ELAPSED_MIN
from advisor.models.load_table import points_of
from advisor.models.prediction import LEVEL

CANDIDATES_MAX = 1_024  # settings weighed in one answer: their covariances are a few megabytes
CORES_MOST = 64  # of runs that are suggested where nobody says how many cores there are
PREDICTORS_TRIED = 8  # of the observed load, at its quantiles
UNSEEN_LEVEL = 1.0  # predictor of a component that has learned nothing
LEAST_REPORTED = 5e-4  # by which intervals become narrower: less is reported as hardly any


def suggest(
    asking: Asking, components: Components, component: str, predictor: Any, cores: Any, cores_max: int | None,
    allowed: AllowedForm | None, candidates: Sequence[tuple[Any, float]] | None, limit: int,
) -> list[Suggestion]:  # fmt: skip
    """Return up to `limit` settings to run next, the one that narrows the answers most first.

    A run at c is expected to lower the variance of log time at the target g by cov(g, c)^2 / (var(c) + noise): exact for a
    Gaussian process, and it asks for no measurement. Cost O(candidates targets points).
    """
    limit = whole("limit", limit, 1, CANDIDATES_MAX)
    slot = components.slots.slot_of(component)
    own = asking.allowed_of(component)
    most = CORES_MOST if cores_max is None and allowed is None and own is None else cores_max
    can_run = allowed_in_all(component, most, allowed, own)
    dimensions = components.dimensions(slot)
    found = asking.answering(slot, None)
    counts = [float(p) for p in dict.fromkeys(can_run.nearest(2**k) for k in range(can_run.most.bit_length()))]
    loads = _load(components, slot, dimensions, found)
    targets = _settings(
        list(product(loads, counts)) if predictor is None else _points(predictor, cores, counts), dimensions
    )
    tried = targets if candidates is None and predictor is None else None
    if tried is None:
        pairs = list(candidates) if candidates is not None else list(product(loads, counts))
        tried = _settings(pairs, dimensions)
    if len(tried[1]) > CANDIDATES_MAX:
        raise TooLarge("candidates", len(tried[1]), CANDIDATES_MAX, "offer fewer")
    if not isinstance(found, Solved):
        return _unlearned(asking, component, tried, limit)
    before, gain, run = _gains(found, tried, targets)
    order = np.argsort(-gain, kind="stable")[:limit].tolist()
    answers: list[Suggestion] = []
    times = found.answers(tried[0][order], tried[1][order], LEVEL, ANY_MACHINE)[0].tolist()
    for i, elapsed in zip(order, times, strict=True):
        x, p = tried[0][i], float(tried[1][i])
        narrower = 1.0 - sqrt(max(before - float(gain[i]), 0.0) + run) / sqrt(before + run)
        by = f"{narrower:.1%}" if narrower >= LEAST_REPORTED else "hardly"
        setting = float(x[0]) if dimensions == 1 else tuple(float(v) for v in x)
        answers.append(
            Suggestion(
                setting, p, elapsed, elapsed * p, narrower,
                f"intervals should be {by} narrower; the curve has an error of {elementary.exp(sqrt(before)) - 1.0:.1%}",
            )
        )  # fmt: skip
    return answers


def _gains(found: Solved, tried: tuple[Floats, Floats], targets: tuple[Floats, Floats]) -> tuple[float, Floats, float]:
    """Return the mean variance at the targets, what a run at each candidate takes from it, and the variance of a run."""
    own, variance = (found.curve(*points) for points in (tried, targets))
    noise = float(found.table.column("relative")[found.place])
    runs = noise + float(found.table.column("absolute")[found.place]) * elementary.exp(
        -2.0 * np.maximum(own[:, 0], LN_ELAPSED_MIN)
    )
    gain = np.square(found.covariance(tried, targets)).mean(axis=1) / (own[:, 1] + runs)
    return float(variance[:, 1].mean()), gain, float(runs.mean())


def _unlearned(asking: Asking, component: str, tried: tuple[Floats, Floats], limit: int) -> list[Suggestion]:
    """Return the cheapest settings: where nothing is modelled, any run teaches."""
    answers: list[Suggestion] = []
    for x, p in zip(*tried, strict=True):
        vector = float(x[0]) if len(x) == 1 else tuple(float(v) for v in x)
        elapsed = float(asking.predict(component, vector, float(p), LEVEL, None, None, "elapsed_s").elapsed_s)
        answers.append(Suggestion(vector, float(p), elapsed, elapsed * float(p), None, "no learner: any run teaches"))
    return sorted(answers, key=lambda s: s.cost_core_s)[:limit]


def _load(components: Components, slot: int, dimensions: int, found: object) -> list[Any]:
    """Return predictors of the observed load."""
    if dimensions > 1 and isinstance(found, Solved):
        _, values, runs, *_ = found.table.cells(found.place)
        order = np.argsort(-runs, kind="stable")
        # One input may have a cell on each machine and core count; logarithms and back cost the last digits.
        most = limits.PREDICTOR_MAX
        seen = (tuple(min(float(f"{v:.12g}"), most) for v in values[i].tolist()) for i in order.tolist())
        return list(dict.fromkeys(seen))[:PREDICTORS_TRIED]
    x, share = points_of(components.table, slot)
    if not len(share):  # nothing was learned, or all of it forgotten
        return _each(UNSEEN_LEVEL, dimensions)
    below: Floats = np.cumsum(share)
    wanted = (np.arange(PREDICTORS_TRIED) + 0.5) / PREDICTORS_TRIED
    place = np.minimum(below.searchsorted(wanted * float(below[-1])), len(below) - 1)
    return [v for one in sorted(set(x[place].tolist())) for v in _each(one, dimensions)]


def _each(work: float, dimensions: int) -> list[Any]:
    """Return a predictor whose values are equal and have the product `work`: all that the base tier knows of them."""
    return [work] if dimensions == 1 else [(work ** (1.0 / dimensions),) * dimensions]


def _points(predictor: Any, cores: Any, counts: list[float]) -> list[tuple[Any, float]]:
    if cores is None:
        return [(predictor, p) for p in counts]
    return [(predictor, checked("cores", cores, "invalid_cores"))]


def _settings(pairs: Sequence[tuple[Any, float]], dimensions: int) -> tuple[Floats, Floats]:
    """Return predictors (n, d) and cores (n,), checked."""
    if not pairs:
        raise InvalidValue("candidates", 0, "one or more pairs of predictor and cores")
    try:
        vectors = np.array([np.atleast_1d(np.asarray(x, np.float64)) for x, _ in pairs])
        cores = np.array([float(p) for _, p in pairs])
    except (TypeError, ValueError) as error:
        raise InvalidValue("candidates", str(pairs[0]), "pairs of predictor and cores, all of one length") from error
    if vectors.ndim != 2 or vectors.shape[1] != dimensions:
        raise InvalidValue("predictor", str(vectors.shape[1:]), f"{dimensions} values a point")
    checked("predictor", vectors, "invalid_predictor")
    checked("cores", cores, "invalid_cores")
    return vectors, cores
