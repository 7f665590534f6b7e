"""Questions about components and runs: each command is its verb's declaration, and how an answer is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import click

from advisor.cli import options, show_status, tables
from advisor.cli.declared import Given, asks
from advisor.cli.tables import Column, Form, Note, Printed, bold, seconds, several, table
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v

COMPONENT = click.argument("component")
PROGRAM = click.argument("program")
FILE = click.argument("file", type=click.File("rb"))
ALLOWED = {"type": options.ALLOWED}
PREDICTOR = {
    "type": options.POINTS,
    "help": "The input's predictor; 64x32 is one of two values. Absent: a run of the observed load.",
}
POINT = Column("predictor", lambda row: tables.point(row["predictor"]), str)
CORES = Column("cores", "cores", tables.format_number)
FAR = Column("extrapolates", "extrapolates", tables.doublings)
MEASURE_FORMS: Mapping[str, Form] = {"peak_bytes": tables.size, "energy_j": lambda value: f"{value:.4g} J"}


def one_point(given: Given) -> Given:
    """Return the one predictor that was given; raises InvalidValue."""
    points: list[Any] | None = given["predictor"]
    if points is not None and len(points) != 1:
        raise InvalidValue("predictor", f"{len(points)} predictors", "one", "one of several values is written 64x32")
    return {"predictor": None if points is None else points[0]}


def grid(outer: str, inner: str) -> Callable[[Given], Given]:
    """Return what makes two keys of equal length: every value of one with every value of the other."""

    def every(given: Given) -> Given:
        many, each = given[outer], given[inner]
        return {} if many is None else {outer: [value for value in many for _ in each], inner: each * len(many)}

    return every


def list_in(key: str, what: str) -> Callable[[Given], Given]:
    """Return what reads a key from the JSON list in a file; it raises InvalidValue."""

    def read(given: Given) -> Given:
        file = given["file"]
        try:
            found = json.load(file)
        except ValueError as error:
            raise InvalidValue("file", file.name, f"JSON: {error}") from error
        if not isinstance(found, list):
            raise InvalidValue("file", file.name, f"a JSON list of {what}")
        return {key: found}

    return read


def rows_of(found: Mapping[str, Any], *keys: str) -> list[dict[str, Any]]:
    """Return the rows of a map of columns."""
    return [dict(zip(keys, values, strict=True)) for values in zip(*(found[key] for key in keys), strict=True)]


def _predicted(asker: Any, request: Given, _: Given) -> Given:
    found = asker.predict(**request)
    if getattr(found.elapsed_s, "ndim", 1) > 1:
        values = f"{len(request['predictor'][0])} values"
        raise InvalidValue("predictor", values, f"one: {request['component']} has one predictor")
    measured = {} if request["measure"] == v.TIME else {"measure": request["measure"]}
    return measured | cast("Given", found.as_dict())


@asks(
    v.Predict, COMPONENT, leave=("component", "dimensions"), keys=grid("predictor", "cores"), answer=_predicted,
    echo=("component", "predictor", "cores", "level"), predictor=PREDICTOR,
    cores={"type": options.NUMBERS, "default": "1", "help": "Core counts."},
    prior={"help": "Answer for a component that was never observed, from the others."},
)  # fmt: skip
def predict_command(found: Given) -> Iterator[Printed]:
    """Predict the elapsed time of COMPONENT for every predictor on every core count, or another measure of its runs."""
    measure = found.get("measure", "elapsed")
    form = MEASURE_FORMS.get(measure, seconds)
    known = {"predictor": found["predictor"] or [None] * len(found["cores"])}
    times = ((measure, "elapsed_s"), ("low", "low_s"), ("high", "high_s"))
    yield table(
        [POINT, CORES, *(Column(heading, key, form) for heading, key in times), FAR],
        rows_of({**found, **known}, "predictor", "cores", "elapsed_s", "low_s", "high_s", "extrapolates"),
    )  # fmt: skip
    yield from _model("component", found)


def _model(of: str, found: Given) -> Iterator[Printed]:
    runs = several(found["observations"], "run")
    yield f"{found[of]}: {found['model']}, {runs}; low to high holds one run in {found['level']:.0%} of cases"
    yield from map(Note, found["notes"])


@asks(
    v.ChooseCores, COMPONENT, leave=("component", "under_way"), keys=one_point, echo=("component", "predictor", "level"),
    predictor=PREDICTOR, allowed=ALLOWED,
    explore={"type": options.EXPLORE, "default": "false", "show_default": True},
)  # fmt: skip
def choose_cores_command(found: Given) -> Iterator[Printed]:
    """Choose the cores for one run of COMPONENT: near the counts seen, the fewest within --tolerance of the best."""
    low, high = seconds(found["low_s"]), seconds(found["high_s"])
    yield bold(f"{several(found['cores'], 'core')} for {found['component']} at {tables.point(found['predictor'])}")
    yield f"expected {seconds(found['elapsed_s'])}, in {found['level']:.0%} of cases from {low} to {high} ({found['model']})"
    yield Note(found["why"])
    yield from (Note(text) for text in found["assumed"] if text not in found["why"])


@asks(
    v.ChooseTogether, FILE, leave=("jobs",), keys=list_in("jobs", 'jobs, [{"id": 1, "component": "blur"}, ...]'),
)  # fmt: skip
def choose_together_command(found: Given) -> Iterator[Printed]:
    """Choose the cores of the jobs in FILE, a JSON list of maps; - reads standard input.

    Each map has an id and a component, and may have predictor, allowed, cores_now, weight, due_s, resizable, restart_s, done,
    waited_s and machine.
    """
    yield table(
        [Column("job", "id"), Column("why", "why"), Column("cores", "cores", str), Column("elapsed", "elapsed_s", seconds)],
        found["jobs"],
    )  # fmt: skip
    yield from (Note(f"{component}: {text}") for component, text in found["assumed"].items())


def _suggested(asker: Any, request: Given, _: Given) -> Given:
    found = asker.suggest(**request)
    basis = {"basis": found.basis.as_dict()} if found.basis else {}
    return {"suggestions": [each.as_dict() for each in found]} | basis


@asks(
    v.Suggest, COMPONENT, leave=("component",), echo=("component",), answer=_suggested, allowed=ALLOWED,
)  # fmt: skip
def suggest_command(found: Given) -> Iterator[Printed]:
    """Suggest which runs of COMPONENT would narrow its predictions most, and what they cost."""
    yield table(
        [POINT, CORES, Column("elapsed", "elapsed_s", seconds),
         Column("cost", "cost_core_s", lambda cost: f"{cost:.3g} core-s"),
         Column("narrower", "narrower", tables.small_share)],
        found["suggestions"],
    )  # fmt: skip
    yield f"run next, for {found['component']}: best first; narrower is by how much the predictions' intervals should shrink"
    yield from map(Note, dict.fromkeys(each["why"] for each in found["suggestions"]))


@asks(
    v.StatusAsked, click.argument("components", nargs=-1), leave=("components",),
    keys=lambda given: {"components": list(given["components"]) or True},
    limit={"default": 20, "help": "Components to show."},
)  # fmt: skip
def status_command(found: Given) -> Iterator[Printed]:
    """Show totals, and of the components (all, or those named) what is known."""
    return show_status.status(found)


@asks(
    v.PredictRun, PROGRAM, leave=("program",), keys=grid("size", "workers"),
    echo=("program", "size", "workers", "level"),
)  # fmt: skip
def predict_run_command(found: Given) -> Iterator[Printed]:
    """Predict a run of PROGRAM for every size on every number of workers, also beyond what was seen."""
    rows = rows_of({**found, **found["parts"]}, "size", "workers", "elapsed_s", "low_s", "high_s", "work_s", "delay_s",
                   "no_work_s", "serial_work_s", "extrapolates")  # fmt: skip
    times = (("elapsed", "elapsed_s"), ("low", "low_s"), ("high", "high_s"), ("work", "work_s"), ("delay", "delay_s"),
             ("no work", "no_work_s"))  # fmt: skip
    yield table(
        [Column("size", "size", tables.format_number), Column("workers", "workers", tables.format_number),
         *(Column(heading, key, seconds) for heading, key in times), Column("speedup", _speedup, tables.three), FAR],
        rows,
    )  # fmt: skip
    yield from _model("program", found)


def _speedup(run: Mapping[str, Any]) -> float:
    return run["serial_work_s"] / run["elapsed_s"] if run["elapsed_s"] else 0.0
