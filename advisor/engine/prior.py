"""What is said of a component that has learned nothing yet: the typical run of the others, with an interval that admits it."""

from __future__ import annotations

from math import hypot, inf
from typing import Any

import numpy as np

from advisor.domain import elementary
from advisor.domain.answers import Prediction
from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.engine.components import Components
from advisor.engine.learners import KILLED
from advisor.models.student import quantile

OTHERS_MAX = 256  # components that are asked for their level: enough for a median
SD_LEAST = 1.0  # natural log: a factor e either way, however alike the others are
SD_ALONE = 5.0  # without others nothing is known but that a run takes some time
LEVEL_ALONE_S = 1.0
FREEDOM = 4.0
FAR = 50.0  # exp of it is beyond every elapsed time


def prior_of(components: Components, slot: int | None, kind: str, x: Any, p: Any, level: float) -> Prediction:
    """Return the prior prediction at points x, p. Optimistic: the others' shortest runs. Cost O(OTHERS_MAX).

    `slot`: None for a component that was never observed. `kind`: what is asked for: see `Slots.kind`.
    """
    logs = _levels(components, kind)
    middle = float(np.median(logs)) if len(logs) else elementary.log(LEVEL_ALONE_S)
    sd = hypot(SD_LEAST, float(np.std(logs))) if len(logs) > 1 else SD_ALONE
    reach = quantile(level, FREEDOM) * sd
    running = 0.0 if slot is None else float(components.table["running_high"][slot])
    known_low = elementary.log(running) if running > 0.0 else -inf  # a run that has not ended took at least that long
    logs_reported = np.clip([middle, middle - reach, middle + reach], known_low, FAR)
    found = (*np.clip(elementary.exp(logs_reported), ELAPSED_MIN_S, ELAPSED_MAX_S).tolist(), inf)
    shape = np.broadcast_shapes(np.shape(x), np.shape(p))
    value, low, high, outside = (np.full(shape, each) if shape else each for each in found)
    known = (
        f"the shortest runs of {len(logs)} other components" if len(logs) else "nothing: no component has learned a run"
    )
    notes = [f"no run of this component was learned: a guess from {known}"]
    if running > 0.0:
        known = KILLED if kind else f"a run was still running after {running:.3g} s"
        notes.append(f"{known}: less is not believed")
    return Prediction(value, low, high, "prior", tuple(notes), 0, outside)


def _levels(components: Components, kind: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the log of the shortest time of other components of a kind."""
    low = components.table["t_low"][: len(components)]
    # Nothing learned, or all of it forgotten, which leaves the least time at its start, infinite.
    others = [
        i
        for i in np.flatnonzero(np.isfinite(low) & (low > 0))[: 4 * OTHERS_MAX].tolist()
        if components.slots.kind(i) == kind
    ]
    return elementary.log(low[others[:OTHERS_MAX]]) if others else np.zeros(0)
