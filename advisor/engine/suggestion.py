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
from advisor.engine.learners import ANY_MACHINE, Solved
from advisor.engine.load import load_of
from advisor.engine.slots import TIME
from advisor.models.cells import LN_ELAPSED_MIN
from advisor.models.prediction import LEVEL, Model

CORES_MOST = 64  # of runs that are suggested where nobody says how many cores there are
PREDICTORS_TRIED = 8  # of the observed load, at its quantiles
UNSEEN_LEVEL = 1.0  # predictor of a component that has learned nothing
LEAST_REPORTED = 5e-4  # by which intervals become narrower: less is reported as hardly any


def suggest(
    asking: Asking,
    components: Components,
    component: str,
    cores_max: int | None,
    allowed: AllowedForm | None,
    limit: int,
) -> list[Suggestion]:
    """Return up to `limit` settings to run next, the one that narrows the answers over the observed load most first.

    A run at c is expected to lower the variance of log time at a setting g by cov(g, c)^2 / (var(c) + noise): exact for a
    Gaussian process, and it asks for no measurement. Cost O(settings^2 cells).
    """
    limit = whole("limit", limit, 1, limits.CANDIDATES_MAX)
    slot = components.slots.slot_of(component)
    own = asking.allowed_of(component)
    most = CORES_MOST if cores_max is None and allowed is None and own is None else cores_max
    can_run = allowed_in_all(component, most, allowed, own)
    found = asking.answering(slot, None)
    counts = [float(p) for p in dict.fromkeys(can_run.nearest(2**k) for k in range(can_run.most.bit_length()))]
    settings: list[tuple[Any, float]] = list(product(_load(components, slot, found), counts))
    if not isinstance(found, Solved):
        return _unlearned(asking, component, settings, limit)
    points = np.array([np.atleast_1d(x) for x, _ in settings]), np.array([p for _, p in settings])
    known = found.curve(*points)
    before = float(known[:, 1].mean())
    relative, absolute = (float(found.table.column(name)[found.place]) for name in ("relative", "absolute"))
    runs = relative + absolute * elementary.exp(-2.0 * np.maximum(known[:, 0], LN_ELAPSED_MIN))
    gain, run = np.square(found.covariance(points, points)).mean(axis=1) / (known[:, 1] + runs), float(runs.mean())
    order: list[int] = np.argsort(-gain, kind="stable")[:limit].tolist()
    answers: list[Suggestion] = []
    times = found.answers(points[0][order], points[1][order], LEVEL, ANY_MACHINE)[0].tolist()
    for i, elapsed in zip(order, times, strict=True):
        narrower = 1.0 - sqrt(max(before - float(gain[i]), 0.0) + run) / sqrt(before + run)
        by = f"{narrower:.1%}" if narrower >= LEAST_REPORTED else "hardly"
        why = f"intervals should be {by} narrower; the curve has an error of {elementary.exp(sqrt(before)) - 1.0:.1%}"
        x, p = settings[i]
        answers.append(Suggestion(x, p, elapsed, elapsed * p, narrower, why))
    return answers


def _unlearned(asking: Asking, component: str, settings: Sequence[tuple[Any, float]], limit: int) -> list[Suggestion]:
    """Return the cheapest settings: where nothing is modelled, any run teaches."""
    answers: list[Suggestion] = []
    for x, p in settings:
        elapsed = float(asking.predict(component, x, p, LEVEL, None, None, TIME).elapsed_s)
        answers.append(Suggestion(x, p, elapsed, elapsed * p, None, "no learner: any run teaches"))
    return sorted(answers, key=lambda s: s.cost_core_s)[:limit]


def _load(components: Components, slot: int, found: Solved | Model | None) -> list[Any]:
    """Return predictors of the observed load: of one value at its quantiles, of several the most frequent."""
    dimensions, given = components.dimensions(slot), load_of(components, slot, found)
    x, share = given.predictors, given.share
    if x.shape[1] > 1:  # cells of a learner
        often = x[np.argsort(-share, kind="stable")].tolist()
        # Logarithms and back cost the last digits.
        seen = (tuple(min(float(f"{v:.12g}"), limits.PREDICTOR_MAX) for v in point) for point in often)
        return list(dict.fromkeys(seen))[:PREDICTORS_TRIED]
    works = [UNSEEN_LEVEL]  # nothing was learned, or all of it forgotten
    if len(share):
        below: Floats = np.cumsum(share)
        wanted = (np.arange(PREDICTORS_TRIED) + 0.5) / PREDICTORS_TRIED
        works = sorted(set(x[np.minimum(below.searchsorted(wanted * float(below[-1])), len(below) - 1), 0].tolist()))
    # Values of several predictors that are equal and have the product: all that the exact sums know of them.
    return works if dimensions == 1 else [(work ** (1.0 / dimensions),) * dimensions for work in works]
