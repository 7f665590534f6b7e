"""One row as columns: what `Advisor.observe` takes beside plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.domain import vectors
from advisor.domain.names import checked_name
from advisor.domain.observations import Columns, ComponentNames
from advisor.domain.rows import measures_of, travel_of

# Fields that say where a row ran among others: (what stands for none, type) of their columns.
TRAVEL: Mapping[str, tuple[Any, Any]] = {
    "network": (vectors.NONE_NAMED, np.int64),
    "record": (vectors.ABSENT_U64, np.uint64),
    "entered": (False, np.bool_),
    "replica": (vectors.ABSENT_U64, np.uint64),
    "active_cores": (np.nan, np.float64),
    "at_risk_s": (np.nan, np.float64),
}


def columns_of_row(
    component: str, point: tuple[float, ...], cores: float, elapsed_s: float, count: int, ok: bool, running: bool,
    machine: Any, measures: Any, travel: Mapping[str, Any],
) -> Columns:  # fmt: skip
    """Return one checked row as columns: one that names more than a predictor, cores and a time, or a component that is new.

    Raises InvalidValue.
    """
    machine = None if machine is None else checked_name("machine", machine)
    measured = {} if measures is None else measures_of(measures)
    found: dict[str, Any] = {}
    for name, value in travel_of(travel).items():
        if name == "network":
            found["networks"], value = (value,), 0  # noqa: PLW2901 - the column numbers the names beside it
        found[name] = np.array([value], TRAVEL[name][1])
    return Columns(
        ComponentNames([component]),
        np.zeros(1, np.int64),
        np.array([point[0]]),
        np.array([cores]),
        np.array([elapsed_s]),
        count=None if count == 1 else np.array([count], np.int64),
        ok=None if ok else np.zeros(1, np.bool_),
        running=np.ones(1, np.bool_) if running else None,
        further=vectors.further_of({0: point[1:]}, 1) if len(point) > 1 else None,
        machine=None if machine is None else np.zeros(1, np.int64),
        machines=() if machine is None else (machine,),
        measures=vectors.measured({name: np.array([value]) for name, value in measured.items()}),
        **found,
    )
