"""What status tells of components."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from advisor.engine.asking import Asking
from advisor.engine.components import Components
from advisor.engine.rows import SEPARATOR
from advisor.engine.slots import MEASURE_SCALES
from advisor.models.logarithm import LN2

PEAK = "peak_bytes"


def component_status(components: Components, slots: Sequence[int], asking: Asking) -> list[dict[str, Any]]:
    """Return one plain map a slot: exact counts, ranges, the model with its notes, bias and prediction error."""
    table = components.table
    rows: list[dict[str, Any]] = []
    for slot in slots:
        entry: dict[str, Any] = {"component": components.slots.owner(slot)}
        kinds = components.kinds(slot)
        entry |= {name: int(table.int_field(name)[kinds].sum()) for name in ("rows", "failed", "unfinished")}
        entry["runs"] = int(table.runs(kinds).sum())
        scored = int(table.scored(slot))
        entry["prediction_error"] = float(table["error"][slot]) / scored if scored else None
        if asking.learned(slot):
            model = asking.model(slot)
            entry |= {
                "model": model.name,
                "notes": list(model.notes),
                "parallel_fraction": None if model.fraction != model.fraction else model.fraction,
                "noise": model.deviation,
                "bias": model.bias,
                "predictor_range": list(model.x_range),
                "cores_range": list(model.p_range),
                "elapsed_least_s": float(table["t_low"][slot]),
                "elapsed_most_s": float(table["t_high"][slot]),
            }
            peak = components.slots.of_measure(slot, PEAK)
            for name, field in (("peak_most_bytes", "t_high"), ("peak_killed_bytes", "running_high")):
                if peak is not None and (largest := float(table[field][peak])) > 0.0:
                    entry[name] = largest / MEASURE_SCALES[PEAK]
        if (allowed := asking.allowed_of(entry["component"])) is not None:
            entry["allowed"] = allowed.as_wire()
        entry |= {name: int(table.int_field(name)[slot]) for name in ("changes", "outliers")}
        if entry["changes"]:
            entry |= {
                "changed_at": int(table.int_field("changed_at")[slot]),
                "changed_by": float(table["changed_by"][slot]),
            }
        busy = components.contention(slot)
        if busy.rows:
            error = busy.error if isfinite(busy.error) else None
            entry["contention"] = {"kappa": busy.kappa, "error": error, "rows": busy.rows, "contended": busy.contended}
        rows.append(entry | _rich(components, slot, asking))
    return rows


def _rich(components: Components, slot: int, asking: Asking) -> dict[str, Any]:
    """Return what the learner holds of a component, and how its predictions have fared."""
    measures = [m for m in MEASURE_SCALES if components.slots.names[slot] + SEPARATOR + m in components.slots.by_name]
    record = components.learners.find_record(slot)
    if record is None:
        return {"tier": "base", "model_bytes": 0, "pinned": None, "measures": measures}
    table, place = record
    sums = {name: table.column(name)[place].item() for name in ("scores", "covered", "error", "bias")}
    drifted, at = (table.column(name)[place].item() for name in ("drifted", "drifted_at"))
    drift = {"drifted_at": at, "drifted_by": drifted / LN2} if at else {}
    return {
        "tier": "rich", "model_bytes": table.words_a_record * 8, "cells": int(table.int_field("cells")[place]),
        "noise_relative": float(table.column("relative")[place]) ** 0.5,
        "noise_absolute_s": float(table.column("absolute")[place]) ** 0.5,
        "predictors": table.axes - 1, "machines": int((table.integers("machine")[place][1:] >= 0).sum()),
        "pinned": asking.pinned(slot),
        "measures": measures, **fate(**sums),
    } | drift  # fmt: skip


def fate(scores: int, covered: int, error: float, bias: float) -> dict[str, Any]:
    """Return the means of a ledger's sums, None before there is a score."""
    means = (("coverage", covered), ("score_error", error), ("score_bias", bias))
    return {"scores": scores} | {name: total / scores if scores else None for name, total in means}
