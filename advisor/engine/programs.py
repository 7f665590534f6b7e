"""What was learned of whole programs: a record each, kept in pages; their runs in, predictions of runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from advisor.domain import limits
from advisor.domain.names import checked_name
from advisor.domain.rows import number
from advisor.domain.runs import TRANSFORMS, ProgramRun, RunPrediction, checked_run
from advisor.engine.guards import checked_level, taking
from advisor.engine.kinds import RecordKind
from advisor.errors import InvalidValue, Mismatch, NotEnoughData, TooLarge, UnknownProgram
from advisor.models.lasso import LassoFit
from advisor.models.prediction import LEVEL
from advisor.models.program_model import NAME, WORDS, ProgramModel
from advisor.models.program_terms import TRANSFORMS as SIZE_OF

RUNS_MIN: Final = 4  # to predict anything from: fewer leave every intermediate model without a fold to test on
FEW_RUNS: Final = 20
# UNACCOUNTED: share of workers times elapsed from which on it is reported that the parts of runs do not make it up
UNACCOUNTED: Final = 0.05


@dataclass(slots=True)
class ProgramRecord:
    """One program: its transformation of sizes, its model, and this one's fits, none after a run."""

    transform: str
    model: ProgramModel
    fits: dict[str, LassoFit] = field(default_factory=dict[str, LassoFit])


class Programs(RecordKind[str, ProgramRecord]):
    """Programs by name, at most `records_max`: runs of further ones are refused."""

    name, merges = "programs", {"transform": "equal", "model": "rounding"}
    records_max = limits.PROGRAMS_MAX

    @taking(ProgramRun)
    def observe_run(self, program: str, **run: Any) -> dict[str, Any]:
        """Learn one run of a whole program, for an input of `size` on `workers`; see `advisor.domain.runs.ProgramRun`.

        What a profile tells of a run is `advisor.profile.measures.Measures.as_run()`.

        Parameters
        ----------
        transform : str, optional
            What work grows with: ``n``, ``2^n``, ``n^2``, ``n^3``, ``sqrt n`` or ``n!``. A program's first run fixes it; absent
            there: ``n``.

        Returns
        -------
        dict
            program, runs, transform.

        Raises
        ------
        InvalidValue
            For a value outside of its domain, or parts that exceed workers times elapsed; nothing is learned then.
        TooLarge
            When the program is new and there is no room for it.
        """
        return self.learn_run(checked_run(program=program, **run))

    def learn_run(self, run: ProgramRun) -> dict[str, Any]:
        """Learn a checked run, see `observe_run`."""
        known = self.known.get(run.program)
        if known is None:
            if len(self.known) >= self.records_max:
                raise TooLarge(
                    "programs", len(self.known) + 1, self.records_max, "a program is one name, its inputs are sizes"
                )
        elif run.transform not in (None, known.transform):
            raise InvalidValue("transform", run.transform, f"{known.transform}, as the program's first run had")
        known = known or ProgramRecord(run.transform or "n", ProgramModel(np.zeros(WORDS)))
        known.model.learn(replace(run, size=_size_of(known.transform, run.size)))
        known.fits = {}
        self.known[run.program] = known
        return {"program": run.program, "runs": known.model.runs, "transform": known.transform}

    def predict_run(
        self,
        program: str,
        *,
        size: float | Sequence[float],
        workers: float | Sequence[float],
        level: float = LEVEL,
    ) -> RunPrediction:
        """Predict a run of a whole program, of larger inputs and on more workers than were seen; scalars, or lists.

        Raises
        ------
        UnknownProgram, NotEnoughData, InvalidValue, TooLarge
        """
        known, level = self._known(program), checked_level(level)
        if known.model.runs < RUNS_MIN:
            raise NotEnoughData(
                f"{known.model.runs} runs of {program!r}: a prediction needs {RUNS_MIN}", field="program", value=program,
                bound=RUNS_MIN,
            )  # fmt: skip
        one = not (hasattr(size, "__len__") or hasattr(workers, "__len__"))
        points = _points(size, workers)
        known.fits = known.fits or known.model.fits()
        found = [asdict(known.model.predict(known.fits, _size_of(known.transform, n), p, level)) for n, p in points]
        reported: dict[str, Any] = {
            name: found[0][name] if one else [each[name] for each in found] for name in found[0]
        }
        notes = _notes(known.model, any(each["floored"] for each in found))
        del reported["floored"]
        return RunPrediction(
            reported.pop("elapsed_s"), reported.pop("low_s"), reported.pop("high_s"), NAME, notes, known.model.runs,
            reported.pop("distance"), reported,
        )  # fmt: skip

    def forget_program(self, program: str) -> dict[str, Any]:
        """Forget a program as a whole: its runs, and its transformation; the next run begins anew.

        Returns
        -------
        dict
            program, runs: how many are forgotten.

        Raises
        ------
        UnknownProgram
        """
        known = self._known(program)
        self.remove_record(program)
        return {"program": program, "runs": known.model.runs}

    def _known(self, program: str) -> ProgramRecord:
        program = checked_name("program", program)
        if program not in self.known:
            raise UnknownProgram(
                f"no runs of the program {program!r}", field="program", value=program,
                bound=", ".join(sorted(self.known)[:8]) or "none was observed", hint="observe_run teaches them",
            )  # fmt: skip
        return self.known[program]

    def status(self) -> list[dict[str, Any]]:
        """Return what is known of each program, by name."""
        return [
            {"program": name, "runs": known.model.runs, "transform": known.transform,
             "workers": [known.model.head_field("p_low"), known.model.head_field("p_high")]}
            for name, known in sorted(self.known.items())
        ]  # fmt: skip

    def leave_out(self, record: ProgramRecord) -> None:
        """Raise TooLarge."""
        raise TooLarge("programs", len(self.known) + 1, self.records_max)

    def merged_record(self, key: str, mine: ProgramRecord, theirs: ProgramRecord) -> ProgramRecord:
        """Return the runs of both, exact to rounding; raises Mismatch."""
        if mine.transform != theirs.transform:
            raise Mismatch(
                f"the sizes of {key!r} are {theirs.transform} there and {mine.transform} here", field="transform",
                value=theirs.transform, bound=mine.transform, hint="learn again with one transformation",
            )  # fmt: skip
        both = self.copy_record(key, mine)
        both.model.merge(theirs.model)
        return both

    def encode_record(self, record: ProgramRecord) -> bytes:
        """Return a program's bytes."""
        return bytes([TRANSFORMS.index(record.transform)]) + record.model.words.astype("<f8", copy=False).tobytes()

    def decode_record(self, key: str, data: bytes) -> ProgramRecord:
        """Return a program of its record; raises ValueError, IndexError where it is none, StateDamaged."""
        words = np.frombuffer(data, "<f8", offset=1).astype(np.float64)
        if len(words) != WORDS:
            raise ValueError(f"{len(words)} words a program")
        return ProgramRecord(TRANSFORMS[data[0]], ProgramModel(words))


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
        (number("size", n, 2.0**-20, limits.PREDICTOR_MAX), number("workers", p, 1.0, limits.CORES_MAX))
        for n, p in zip(sizes.ravel().tolist(), counts.ravel().tolist(), strict=True)
    ]


def _notes(model: ProgramModel, floored: bool) -> tuple[str, ...]:
    reported: list[str] = []
    if model.runs < FEW_RUNS:
        reported.append(f"{model.runs} runs only")
    if model.head_field("p_high") == model.head_field("p_low"):
        reported.append(f"all runs on {model.head_field('p_low'):g} workers: what more do is a guess")
    if not model.head_field("spans"):
        reported.append("no run has a span: what has no work is taken to grow with (workers - 1)^2, Eq. 15")
    share = model.head_field("accounted") / max(model.head_field("elapsed"), 1e-300)
    if abs(1.0 - share) > UNACCOUNTED:
        reported.append(
            f"work, delay and no_work make up {share:.0%} of workers * elapsed: predictions are off by as much"
        )
    if floored:
        reported.append("no run is shorter than max(work / workers, span): held there")
    return tuple(reported)
