"""What was learned of whole programs: a record each, kept in pages; their runs in, predictions of runs out."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any, Final

import numpy as np

from advisor.domain import limits
from advisor.domain.names import normalised_name
from advisor.domain.runs import TRANSFORMS, VARIANTS, ProgramRun, RunPrediction, checked_number
from advisor.engine.blobs import Paged
from advisor.engine.snapshot import TablePages
from advisor.errors import InvalidValue, Mismatch, NotEnoughData, StateDamaged, TooLarge, UnknownProgram, not_one_of
from advisor.models.lasso import LassoFit
from advisor.models.program_model import WORDS, ProgramModel, RunRow
from advisor.models.program_terms import TRANSFORMS as SIZE_OF
from advisor.models.record_domains import strange_program

LAYOUT: Final = f"program-1-{WORDS}"
RUNS_MIN: Final = 4  # to predict anything from: fewer leave every intermediate model without a fold to test on
FEW_RUNS: Final = 20
NAME_BYTES: Final = 208  # of a record: a name of at most 200 bytes, then its transformation
PARTS: Final = ("serial_work_s", "work_s", "delay_s", "no_work_s", "creates", "waits", "span_s")
# UNACCOUNTED: share of workers times elapsed from which on it is told that the parts of runs do not make it up
UNACCOUNTED: Final = 0.05


class ProgramRecord:
    """One program's record."""

    __slots__ = ("fits", "model", "number", "transform")

    def __init__(self, number: int, transform: str, model: ProgramModel) -> None:
        self.number = number  # of its table
        self.transform = transform
        self.model = model
        self.fits: dict[str, dict[str, LassoFit]] = {}  # solved intermediate models by variant; empty after a run


class Programs:
    """Programs by name.

    Parameters
    ----------
    programs_max : int
        Programs learned; runs of further ones are refused.
    """

    def __init__(self, programs_max: int = limits.PROGRAMS_MAX) -> None:
        self.programs_max = programs_max
        self.programs: dict[str, ProgramRecord] = {}
        self.paged = Paged("program", LAYOUT, self.put_record)
        self.touched: dict[str, None] = {}  # names of those that changed, or went, since somebody took note

    def observe(self, run: ProgramRun) -> dict[str, Any]:
        """Learn a run; the first one of a program fixes its transformation; raises InvalidValue, TooLarge."""
        known = self.programs.get(run.program)
        if known is None:
            if len(self.programs) >= self.programs_max:
                raise TooLarge(
                    "programs", len(self.programs) + 1, self.programs_max, "a program is one name, its inputs are sizes"
                )
        elif run.transform not in (None, known.transform):
            raise InvalidValue("transform", run.transform, f"{known.transform}, as the program's first run had")
        transform = known.transform if known else run.transform or "n"
        row = RunRow(
            _size_of(transform, run.size), run.workers, math.nan if run.serial_work_s is None else run.serial_work_s,
            run.work_s, run.delay_s, run.no_work_s, run.creates, run.waits, run.elapsed_s,
            math.nan if run.span_s is None else run.span_s,
        )  # fmt: skip
        known = known or self._new(transform)
        known.model.learn(row)
        known.fits = {}
        self.paged.touch(known.number)
        self.programs[run.program], self.touched[run.program] = known, None
        return {"program": run.program, "runs": known.model.runs, "transform": known.transform}

    def predict(self, program: str, size: Any, workers: Any, level: float, model: str | None) -> RunPrediction:
        """Predict runs; scalars, or lists that broadcast together.

        Raises UnknownProgram, NotEnoughData, InvalidValue, TooLarge.
        """
        known = self._known(program)
        if known.model.runs < RUNS_MIN:
            raise NotEnoughData(
                f"{known.model.runs} runs of {program!r}: a prediction needs {RUNS_MIN}", field="program", value=program,
                bound=RUNS_MIN,
            )  # fmt: skip
        if model is not None and model not in VARIANTS:
            raise not_one_of("model", model, VARIANTS)
        one = not (hasattr(size, "__len__") or hasattr(workers, "__len__"))
        points = _points(size, workers)
        variant = model or VARIANTS[0]
        if variant not in known.fits:
            known.fits[variant] = known.model.fits(variant)
        fits = known.fits[variant]
        found = [known.model.predict(fits, _size_of(known.transform, n), p, level, variant) for n, p in points]

        def told(name: str) -> Any:
            values = [getattr(each, name) for each in found]
            return values[0] if one else values

        return RunPrediction(
            told("elapsed_s"), told("low_s"), told("high_s"), variant,
            _notes(known.model, any(each.floored for each in found)), known.model.runs, told("distance"),
            {name: told(name) for name in PARTS},
        )  # fmt: skip

    def forget(self, program: str) -> dict[str, Any]:
        """Forget a program as a whole: its runs, and its transformation; return how many runs those were.

        Raises UnknownProgram.
        """
        known = self._known(program)
        del self.programs[program]
        self.touched[program] = None
        self.paged.drop(known.number)
        return {"program": program, "runs": known.model.runs}

    def _known(self, program: str) -> ProgramRecord:
        if program not in self.programs:
            raise UnknownProgram(
                f"no runs of the program {program!r}", field="program", value=program,
                bound=", ".join(sorted(self.programs)[:8]) or "none was observed", hint="observe_run teaches them",
            )  # fmt: skip
        return self.programs[program]

    def status(self) -> list[dict[str, Any]]:
        """Return what is known of each program, by name."""
        return [
            {
                "program": name,
                "runs": known.model.runs,
                "transform": known.transform,
                "workers": [known.model.number("p_low"), known.model.number("p_high")],
            }
            for name, known in sorted(self.programs.items())
        ]

    def check_merge(self, other: Programs) -> None:
        """Refuse a merge that cannot be; raises Mismatch, TooLarge."""
        for name, theirs in other.programs.items():
            mine = self.programs.get(name)
            if mine is not None and mine.transform != theirs.transform:
                raise Mismatch(
                    f"the sizes of {name!r} are {theirs.transform} there and {mine.transform} here", field="transform",
                    value=theirs.transform, bound=mine.transform, hint="learn again with one transformation",
                )  # fmt: skip
        together = len(self.programs.keys() | other.programs.keys())
        if together > self.programs_max:
            raise TooLarge("programs", together, self.programs_max)

    def merge(self, other: Programs) -> None:
        """Add what another one has learned: exact to rounding; raises Mismatch, TooLarge: nothing is changed then."""
        self.check_merge(other)
        for name, theirs in sorted(other.programs.items()):
            mine = self.programs.get(name)
            if mine is None:
                model = ProgramModel(theirs.model.words.copy())
                mine = self.programs[name] = ProgramRecord(self.paged.new(), theirs.transform, model)
            else:
                mine.model.merge(theirs.model)
            mine.fits, self.touched[name] = {}, None
            self.paged.touch(mine.number)

    def _new(self, transform: str) -> ProgramRecord:
        return ProgramRecord(self.paged.new(), transform, ProgramModel(np.zeros(WORDS)))

    # -- as bytes ---------------------------------------------------------------------------------------------------------

    def records(self, names: Container[str] | None = None) -> list[bytes]:
        """Return the record of each program, or of those named, by name."""
        return [
            record_of(name, known) for name, known in sorted(self.programs.items()) if names is None or name in names
        ]

    def put_record(self, data: bytes, number: int | None = None) -> None:
        """Take a program back from its record, under a number that is free; raises ValueError where it is none."""
        length, transform = data[0], data[NAME_BYTES - 1]
        name = data[1 : 1 + length].decode()
        if normalised_name(name) != name or transform >= len(TRANSFORMS) or len(data) < NAME_BYTES + 8 * WORDS:
            raise ValueError("no record of a program")
        words = np.frombuffer(data, "<f8", WORDS, NAME_BYTES).astype(np.float64)
        if (strange := strange_program(words)) is not None:
            raise StateDamaged(
                f"program {name!r}: {strange} is what no runs lead to", components=(name,), hint="restore a backup"
            )
        self.touched[name] = None
        self.programs[name] = ProgramRecord(
            self.paged.new() if number is None else number, TRANSFORMS[transform], ProgramModel(words)
        )

    def pages(self) -> list[TablePages]:
        """Return the changed pages of changed programs, and count them as taken."""
        by_number = {known.number: (name, known) for name, known in self.programs.items()}
        return self.paged.pages(lambda number: record_of(*by_number[number]))


def record_of(name: str, known: ProgramRecord) -> bytes:
    """Return a program's record: its name and transformation, and the words of its model."""
    text = name.encode()
    head = bytes([len(text)]) + text
    head += b"\0" * (NAME_BYTES - 1 - len(head)) + bytes([TRANSFORMS.index(known.transform)])
    return head + known.model.words.astype("<f8", copy=False).tobytes()


def _size_of(transform: str, size: float) -> float:
    """Return a size as the model takes it; raises InvalidValue where that is beyond its range."""
    try:
        found = SIZE_OF[transform](size)
    except OverflowError:
        found = math.inf
    if not 2.0**-60 <= found <= limits.PROGRAM_SIZE_MAX:
        raise InvalidValue("size", size, f"such that {transform} is at most 2^100")
    return found


def _points(size: Any, workers: Any) -> list[tuple[float, float]]:
    try:
        sizes, counts = np.broadcast_arrays(np.asarray(size, np.float64), np.asarray(workers, np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidValue("size", size, "a number, or a list that goes with that of workers") from error
    if sizes.ndim > 1 or not sizes.size:
        raise InvalidValue("size", size, "a number, or a list of numbers")
    if sizes.size > limits.STATUS_PAGE_MAX:
        raise TooLarge("size", sizes.size, limits.STATUS_PAGE_MAX, "ask in parts")
    return [
        (checked_number("size", n, 2.0**-20, limits.PREDICTOR_MAX), checked_number("workers", p, 1.0, limits.CORES_MAX))
        for n, p in zip(sizes.ravel().tolist(), counts.ravel().tolist(), strict=True)
    ]


def _notes(model: ProgramModel, floored: bool) -> tuple[str, ...]:
    told: list[str] = []
    if model.runs < FEW_RUNS:
        told.append(f"{model.runs} runs only")
    if model.number("p_high") == model.number("p_low"):
        told.append(f"all runs on {model.number('p_low'):g} workers: what more do is a guess")
    if not model.number("spans"):
        told.append("no run told its span: what has no work is taken to grow with (workers - 1)^2, Eq. 15")
    share = model.number("accounted") / max(model.number("elapsed"), 1e-300)
    if abs(1.0 - share) > UNACCOUNTED:
        told.append(f"work, delay and no_work make up {share:.0%} of workers * elapsed: predictions are off by as much")
    if floored:
        told.append("no run is shorter than max(work / workers, span): held there")
    return tuple(told)
