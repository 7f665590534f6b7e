"""Questions of the wire put to the advisor: parameters of the protocol to its arguments, and its answers back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.engine import Advisor
from advisor.engine.components import TIME
from advisor.errors import InvalidValue
from advisor.protocol import messages as m


def predict(advisor: Advisor, params: m.Predict) -> dict[str, Any]:
    """Answer `predict`; raises as `Advisor.predict`."""
    return advisor.predict(
        params.component,
        predictor=_predictors(advisor, params),
        cores=params.cores,
        level=params.level,
        model=params.model,
        machine=params.machine,
        measure=params.measure,
    ).as_dict()


def choose_cores(advisor: Advisor, params: m.ChooseCores) -> dict[str, Any]:
    """Answer `choose_cores`; raises as `Advisor.choose_cores`."""
    return advisor.choose_cores(
        params.component,
        predictor=_one_point(advisor, params.component, params.predictor),
        cores_max=params.cores_max,
        tolerance=params.tolerance,
        level=params.level,
        machine=params.machine,
    ).as_dict()


def suggest(advisor: Advisor, params: m.Suggest) -> list[dict[str, Any]]:
    """Answer `suggest`; raises as `Advisor.suggest`."""
    found = advisor.suggest(
        params.component,
        predictor=None if params.predictor is None else _one_point(advisor, params.component, params.predictor),
        cores=params.cores,
        cores_max=params.cores_max,
        candidates=None if params.candidates is None else [(x, p) for x, p in params.candidates],
        limit=params.limit,
    )
    return [each.as_dict() for each in found]


def status(advisor: Advisor, params: m.Status) -> dict[str, Any]:
    """Answer `status`, but for what the service adds; raises as `Advisor.status`."""
    chosen = {True: None, False: ()}[params.components] if isinstance(params.components, bool) else params.components
    return advisor.status(components=chosen, offset=params.offset, limit=params.limit)


def _predictors(advisor: Advisor, params: m.Predict) -> Any:
    """Return what `predict` asks for: a number, an array (n,) of them, or points (d,) or (n, d) of a component with d.

    A flat list without `dimensions` is read as points of as many values as the component has.
    """
    known, given, d = _dimensions(advisor, params.component, params.measure), params.asked, params.dimensions
    if d > 1 and known is None:  # the base tier knows a predictor of several values by their product
        return np.minimum(np.asarray(given, np.float64).prod(axis=-1), limits.PREDICTOR_MAX)
    if d not in (1, known):
        raise InvalidValue("dimensions", d, f"{known}, as the component's first row had")
    if d == 1 and known is not None and known > 1 and isinstance(given, list):
        if not given or len(given) % known:
            raise InvalidValue(
                "predictor", len(given), f"a list of {known} values a point, as the component's first row had"
            )
        return given if len(given) == known else np.reshape(np.array(given, np.float64), (-1, known))
    return given


def _one_point(advisor: Advisor, component: str, given: float | list[float] | None) -> Any:
    """Return the one predictor asked for: a number, or the d values of a component with several."""
    if not isinstance(given, list):
        return 1.0 if given is None else given
    known = _dimensions(advisor, component, TIME)
    if known is None:
        return min(float(prod(given)), limits.PREDICTOR_MAX)
    if len(given) != known:
        raise InvalidValue("predictor", f"{len(given)} values", f"{known}, as the component's first row had")
    return given[0] if known == 1 else given


def _dimensions(advisor: Advisor, component: str, measure: str) -> int | None:
    """Return how many predictors a component has; None where nobody knows, for it has no support points."""
    advisor.flush()
    components = advisor.components
    found = components.supports.find(components.slot(component, measure))
    return None if found is None else found[0].axes - 1
