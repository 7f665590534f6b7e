"""What status tells of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.engine.components import Components
from advisor.models import counts
from advisor.models.prediction import Model


def component_status(components: Components, slots: Sequence[int], models: Mapping[int, Model]) -> list[dict[str, Any]]:
    """Return one plain map a slot: exact counts, ranges, the model with its notes, bias and prediction error."""
    table = components.table
    rows: list[dict[str, Any]] = []
    for slot in slots:
        entry: dict[str, Any] = {"component": components.names[slot]}
        entry |= {name: int(table.integers(name)[slot]) for name in ("rows", "failed", "unfinished")}
        entry["runs"] = int(counts.runs(table, slot))
        scored = int(counts.scored(table, slot))
        entry["prediction_error"] = float(table["error"][slot]) / scored if scored else None
        model = models.get(slot)
        if model is not None:
            entry |= {
                "model": model.name,
                "notes": list(model.notes),
                "parallel_fraction": None if model.fraction != model.fraction else model.fraction,
                "noise": model.deviation,
                "bias": model.bias,
                "predictor_range": list(model.x_range),
                "cores_range": list(model.p_range),
                "elapsed_least_s": float(table["t_low"][slot]),
            }
        rows.append(entry)
    return rows
