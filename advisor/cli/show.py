"""Answers about components and runs, as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.cli import tables
from advisor.cli.tables import Column, Form, Note, Printed, bold, seconds, several, table
from advisor.domain.job_pools import PoolPlan

POINT = Column("predictor", lambda row: tables.point(row["predictor"]), str)
CORES = Column("cores", "cores", tables.format_number)
FAR = Column("extrapolates", "extrapolates", tables.doublings)
MEASURE_FORMS: Mapping[str, Form] = {"peak_bytes": tables.size, "energy_j": lambda value: f"{value:.4g} J"}


def rows_of(found: Mapping[str, Any], *keys: str) -> list[dict[str, Any]]:
    """Return the rows of a map of columns."""
    return [dict(zip(keys, values, strict=True)) for values in zip(*(found[key] for key in keys), strict=True)]


def prediction(found: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield a prediction at points."""
    measure = found.get("measure")
    form = MEASURE_FORMS.get(str(measure), seconds)
    known = {"predictor": found["predictor"] or [None] * len(found["cores"])}
    times = ((measure or "elapsed", "elapsed_s"), ("low", "low_s"), ("high", "high_s"))
    yield table(
        [POINT, CORES, *(Column(heading, key, form) for heading, key in times), FAR],
        rows_of({**found, **known}, "predictor", "cores", "elapsed_s", "low_s", "high_s", "extrapolates"),
    )  # fmt: skip
    yield from _model(found["component"], found)


def _model(name: str, found: Mapping[str, Any]) -> Iterator[Printed]:
    runs = several(found["observations"], "run")
    yield f"{name}: {found['model']}, {runs}; low to high holds one run in {found['level']:.0%} of cases"
    yield from map(Note, found["notes"])


def choice(found: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield the cores chosen for one run."""
    low, high = seconds(found["low_s"]), seconds(found["high_s"])
    yield bold(f"{several(found['cores'], 'core')} for {found['component']} at {tables.point(found['predictor'])}")
    yield f"expected {seconds(found['elapsed_s'])}, in {found['level']:.0%} of cases from {low} to {high} ({found['model']})"
    yield Note(found["why"])
    yield from (Note(text) for text in found["assumed"] if text not in found["why"])


def pool(found: PoolPlan) -> Iterator[Printed]:
    """Yield the cores of jobs that share a pool."""
    yield table(
        [Column("job", "id"), Column("why", "why"), Column("cores", "cores", str), Column("elapsed", "elapsed_s", seconds)],
        found.jobs,
    )  # fmt: skip
    yield from (Note(f"{component}: {text}") for component, text in found.assumed.items())


def suggestions(component: str, found: Sequence[Mapping[str, Any]]) -> Iterator[Printed]:
    """Yield what to run next."""
    yield table(
        [POINT, CORES, Column("elapsed", "elapsed_s", seconds),
         Column("cost", "cost_core_s", lambda cost: f"{cost:.3g} core-s"),
         Column("narrower", "narrower", tables.small_share)],
        found,
    )  # fmt: skip
    yield f"run next, for {component}: best first; narrower is by how much the predictions' intervals should shrink"
    yield from map(Note, dict.fromkeys(each["why"] for each in found))


def run_prediction(found: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield predictions of runs of a program at points (size, workers)."""
    parts: Mapping[str, Any] = found["parts"]
    columns = {**found, **parts}
    rows = rows_of(columns, "size", "workers", "elapsed_s", "low_s", "high_s", "work_s", "delay_s", "no_work_s",
                   "serial_work_s", "extrapolates")  # fmt: skip
    times = (("elapsed", "elapsed_s"), ("low", "low_s"), ("high", "high_s"), ("work", "work_s"), ("delay", "delay_s"),
             ("no work", "no_work_s"))  # fmt: skip
    yield table(
        [Column("size", "size", tables.format_number), Column("workers", "workers", tables.format_number),
         *(Column(heading, key, seconds) for heading, key in times), Column("speedup", _speedup, tables.three), FAR],
        rows,
    )  # fmt: skip
    yield from _model(found["program"], found)


def _speedup(run: Mapping[str, Any]) -> float:
    return run["serial_work_s"] / run["elapsed_s"] if run["elapsed_s"] else 0.0


def learned(found: Mapping[str, Any], name: str, **words: str) -> str:
    """Return how many runs were learned of a file, by the first key, then what else there was of, and what was refused."""
    (first, learned_of), *others = words.items()
    parts = [
        f"{several(found[first], 'run')} {learned_of}",
        *(f"{found[key]} {of}" for key, of in others if found[key]),
    ]
    refused: Mapping[str, int] = found["refused"]
    if refused:
        parts.append(f"{sum(refused.values())} refused ({', '.join(sorted(refused))})")
    parts += [f"{count} {why}" for why, count in sorted(found.get("passed", {}).items())]
    return f"{name}: {', '.join(parts)}"
