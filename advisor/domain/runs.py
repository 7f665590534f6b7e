"""A run of a whole task-parallel program, and what a run that was not made would take (paper 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from advisor.domain import limits
from advisor.domain.names import checked_name
from advisor.domain.rows import number
from advisor.domain.shapes import Answer
from advisor.errors import InvalidValue, not_one_of

# A transformation of sizes: 2^n where work is exponential in n, and so on. What they do is `advisor.models.program_terms`.
TransformWord = Literal["n", "2^n", "n^2", "n^3", "sqrt n", "n!"]
TRANSFORMS: Final[tuple[str, ...]] = get_args(TransformWord)
SLACK: Final = (
    1.1  # the parts of a run may exceed workers times elapsed by that much: clocks and their readers are not perfect
)
SECONDS: Final = ("serial_work_s", "work_s", "delay_s", "no_work_s", "span_s")


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """What one run of a program reports; seconds, summed over workers but for `elapsed_s` and `span_s`.

    Attributes
    ----------
    program : str
    size : float
        Of the input, above 0.
    workers : float
        p, at least 1.
    elapsed_s, work_s, delay_s, no_work_s : float
        work + delay + no_work = workers * elapsed (Eq. 8). Delay: a worker did not work though tasks were ready, or created or
        managed them; no_work: there were none.
    creates, waits : float
        Tasks created, and waits for them.
    serial_work_s : float or None
        Work of the program run in sequence, T1'; None: not known, that of runs on one worker stands for it.
    span_s : float or None
        Of the longest path; None: not measured.
    transform : str
        One of `TRANSFORMS`: fixed by a program's first run.
    """

    program: str
    size: float
    workers: float
    elapsed_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: float
    waits: float
    serial_work_s: float | None = None
    span_s: float | None = None
    transform: str | None = None


def checked_run(**given: Any) -> ProgramRun:
    """Return a run, checked.

    Raises
    ------
    InvalidValue
        For what is missing, no number, outside of its domain, or for parts that exceed workers times elapsed.
    """
    for each in fields(ProgramRun):
        if each.name not in given and each.name not in ("serial_work_s", "span_s", "transform"):
            raise InvalidValue(
                each.name, None, "given, or measured by a profile", "name the producer of its task events"
            )
    checked_name("program", given["program"])
    checked_transform(given.get("transform"))
    bounds: Mapping[str, tuple[float, float]] = {
        "size": (2.0**-20, limits.PREDICTOR_MAX),
        "workers": (1.0, limits.CORES_MAX),
        "elapsed_s": (limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S),
        "creates": (0.0, limits.PREDICTOR_MAX),
        "waits": (0.0, limits.PREDICTOR_MAX),
    } | dict.fromkeys(SECONDS, (0.0, limits.RUN_SECONDS_MAX))
    for name, (least, most) in bounds.items():
        if given.get(name) is not None or name not in ("serial_work_s", "span_s"):
            given[name] = number(name, given[name], least, most)
    run = ProgramRun(**given)
    there = run.workers * run.elapsed_s * SLACK
    for name in ("work_s", "delay_s", "no_work_s"):
        if getattr(run, name) > there:
            raise InvalidValue(name, getattr(run, name), f"at most workers * elapsed_s = {there / SLACK:.6g}")
    if run.work_s + run.delay_s + run.no_work_s > there:
        parts = run.work_s + run.delay_s + run.no_work_s
        raise InvalidValue(
            "work_s", parts, f"with delay_s and no_work_s at most workers * elapsed_s = {there / SLACK:.6g}"
        )
    if run.span_s is not None and run.span_s > run.elapsed_s * SLACK:
        raise InvalidValue(
            "span_s", run.span_s, f"at most elapsed_s = {run.elapsed_s:.6g}: no run is shorter than its span"
        )
    return run


def checked_transform(value: object) -> None:
    """Refuse a transformation that is none."""
    if value is not None and value not in TRANSFORMS:
        raise not_one_of("transform", value, TRANSFORMS)


class RunPrediction(Answer, frozen=True):
    """What runs of a program would take; each number a float, or a list of them where lists were asked for.

    Attributes
    ----------
    elapsed_s, low_s, high_s
        Expected time, and the interval of one run at the level asked for.
    model : str
        ``extended``: paper 3's model, with a span and more size terms.
    notes : tuple of str
        What the caller should know.
    observations : int
        Runs learned.
    extrapolates
        How far outside of the seen sizes (as transformed) and workers, in powers of two together; 0 inside.
    parts : mapping of str
        serial_work_s, work_s, delay_s, no_work_s, creates, waits, span_s: Eq. 9 adds these up.
    """

    elapsed_s: Any
    low_s: Any
    high_s: Any
    model: str
    notes: tuple[str, ...]
    observations: int
    extrapolates: Any
    parts: Mapping[str, Any]
