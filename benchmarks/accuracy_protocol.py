"""Rules of a judgement: tables, splits, errors and intervals. Knows no learner.

A table is a csv with at least the columns component, x, p and t (seconds). Every error is first one of a component (MAPE) and
then of the table: the median over its components, with their mean and their 90th percentile beside it. `far` is the share of
all judged rows that are off by more than 200 %, a row without an answer among them.
"""

from __future__ import annotations

import csv
import hashlib
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("component", "x", "p", "t")
ROWS_MIN = 10  # of a component that is judged
UNSCORED = 5  # first rows of a component in a stream: nobody knows anything yet
SEEN = (8, 12, 20, 40)  # rows of the component seen before: classes of a stream's predictions begin at these
ERROR_MAX = 1000.0  # what one absolute error, relative to the time, counts at most
FAR = 2.0  # a prediction with |f - t|/t above it is far off
FEW_VALUES = 8  # distinct predictors up to which only the largest is judged, above it the top decile
ARRIVAL = "submit"  # the column of true arrival stamps
SPLITS = ("prequential", "ordered", "interpolation", "cores", "predictor")
STREAMS = ("prequential", "ordered")

Array = NDArray[Any]
Answer = tuple[float | None, float | None, float | None]


class Learner(Protocol):
    """What is judged: `predict` gives (t, low, high), None for what it cannot say; then the row is learned.

    A learner may also have `state_bytes() -> int`: the bytes of all that it has learned.
    """

    def predict(self, component: str, x: float, p: float) -> Answer: ...

    def learn(self, component: str, x: float, p: float, t: float) -> None: ...


@dataclass(frozen=True)
class Table:
    """The judged rows of one file; `component` is an index into `names`."""

    name: str
    names: tuple[str, ...]
    component: Array
    x: Array
    p: Array
    t: Array
    arrival: Array | None  # the rows in their true order
    digest: str
    dropped: int = 0  # rows whose numbers are no numbers, or no possible ones

    def __len__(self) -> int:
        return len(self.t)


@dataclass
class Scores:
    """What one learner did on one table, split and seed; lists have one entry a judged component."""

    error: list[float] = field(default_factory=list[float])
    bias: list[float] = field(default_factory=list[float])
    coverage: list[float] = field(default_factory=list[float])
    width: list[float] = field(default_factory=list[float])
    rows: list[int] = field(default_factory=list[int])
    far: list[int] = field(default_factory=list[int])
    by_seen: list[float] = field(default_factory=list[float])  # the median component's error, by class of `SEEN`
    unanswered: int = 0
    microseconds: float = math.nan
    state_bytes: float = math.nan


def read_table(path: Path) -> Table | str:
    """Return the table of a file, or in words why it is none."""
    data = path.read_bytes()
    reader = csv.DictReader(data.decode("utf-8-sig").splitlines())
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        return f"{path.name}: no column {', '.join(missing)}"
    records = list(reader)
    good = [record for record in records if _possible(record)]
    members: dict[str, list[int]] = {}
    for number, record in enumerate(good):
        members.setdefault(record["component"], []).append(number)
    names = tuple(name for name, rows in members.items() if len(rows) >= ROWS_MIN)
    if not names:
        return f"{path.name}: no component with {ROWS_MIN} rows"
    index = {name: number for number, name in enumerate(names)}
    kept = [record for record in good if record["component"] in index]
    x, p, t = (np.array([float(record[column]) for record in kept]) for column in ("x", "p", "t"))
    stamps = [record.get(ARRIVAL) or "" for record in kept]
    component = np.array([index[record["component"]] for record in kept])
    digest = hashlib.sha256(data).hexdigest()
    return Table(path.stem, names, component, x, p, t, _arrival(stamps), digest, len(records) - len(good))


def splits_of(table: Table, splits: Sequence[str]) -> list[str]:
    """Return those of `splits` that the table can be judged by."""
    able = [split for split in splits if split != "ordered" or table.arrival is not None]
    return [split for split in able if split in STREAMS or any(True for _ in parts(table, split, 0))]


def stream(table: Table, split: str, seed: int) -> Array:
    """Return the rows of a stream in their order: shuffled by `seed`, or as they came."""
    if split == "ordered":
        if table.arrival is None:
            raise ValueError(f"{table.name} has no column {ARRIVAL}")
        return table.arrival
    return np.random.default_rng(seed).permutation(len(table))


def parts(table: Table, split: str, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield of each component the rows to learn, shuffled, and the rows to judge; a component without both is left out."""
    rng = np.random.default_rng(seed)
    for number in range(len(table.names)):
        rows = rng.permutation(np.flatnonzero(table.component == number))
        if split == "interpolation":
            cut = len(rows) - max(1, len(rows) // 5)
            learned, judged = rows[:cut], rows[cut:]
        else:
            values = table.p[rows] if split == "cores" else table.x[rows]
            low, high = outer_bounds(values, deciles=split == "predictor")
            learned, judged = rows[values <= low], rows[values >= high]
            if low >= high:
                continue
        if len(learned) and len(judged):
            yield learned, judged


def outer_bounds(values: Array, *, deciles: bool) -> tuple[float, float]:
    """Return (a, b): learn from values ≤ a, the smaller half of the distinct ones, and judge on values ≥ b.

    b is the largest value, or with `deciles` the least of the top decile where there are more than 8; one distinct value
    gives a = b. The middle one of an odd number belongs to the smaller half.
    """
    distinct = np.unique(values)
    count = len(distinct)
    top = math.ceil(count / 10) if deciles and count > FEW_VALUES else 1
    return float(distinct[(count + 1) // 2 - 1]), float(distinct[count - top])


def judge(learner: Learner, table: Table, split: str, seed: int) -> Scores:
    """Run one learner through one split of one table."""
    answers: list[tuple[int, Answer]] = []
    seen_before: list[int] = []
    seconds, steps = 0.0, 0
    rows_of = list(zip(table.component.tolist(), table.x.tolist(), table.p.tolist(), table.t.tolist(), strict=True))
    clock: Callable[[], float] = time.perf_counter
    if split in STREAMS:
        seen = [0] * len(table.names)
        for row in stream(table, split, seed).tolist():
            number, x, p, t = rows_of[row]
            name = table.names[number]
            begun = clock()
            answer = learner.predict(name, x, p)
            learner.learn(name, x, p, t)
            seconds += clock() - begun
            seen[number] += 1
            if seen[number] > UNSCORED:
                answers.append((row, answer))
                seen_before.append(seen[number] - 1)
        steps = len(table)
    else:
        for learned, judged in parts(table, split, seed):
            name = table.names[table.component[judged[0]]]
            begun = clock()
            for row in learned.tolist():
                learner.learn(name, *rows_of[row][1:])
            answers += [(row, learner.predict(name, *rows_of[row][1:3])) for row in judged.tolist()]
            seconds += clock() - begun
            steps += len(learned) + len(judged)
    scores = scored(table, answers)
    scores.by_seen = errors_by_seen(table, answers, seen_before)
    scores.microseconds = 1e6 * seconds / max(steps, 1)
    state_bytes = getattr(learner, "state_bytes", None)
    if state_bytes is not None:
        scores.state_bytes = state_bytes() / max(len(scores.rows), 1)
    return scores


def scored(table: Table, answers: Sequence[tuple[int, Answer]]) -> Scores:
    """Return the figures of each component that was judged.

    Error is mean |f − t|/t, bias mean (f − t)/t, each term at most `ERROR_MAX`; no answer, or none finite, counts that much
    in the error and nothing in the bias. Far is the number of rows with an error above `FAR`. Coverage is the share
    low ≤ t ≤ high. Width is the mean of (high − low)/f over the 5 % to 95 % range of t/f in hindsight, not a number where
    that range is empty.
    """
    scores = Scores()
    by_component: dict[int, list[int]] = {}
    for place, (row, _) in enumerate(answers):
        by_component.setdefault(int(table.component[row]), []).append(place)
    actual = table.t[[row for row, _ in answers]] if answers else np.empty(0)
    values = np.array([[math.nan if v is None else v for v in answer] for _, answer in answers], float).reshape(-1, 3)
    for places in by_component.values():
        t, (f, low, high) = actual[places], values[places].T
        known = np.isfinite(f)
        signed = np.where(known, np.clip((np.where(known, f, 0.0) - t) / t, -ERROR_MAX, ERROR_MAX), ERROR_MAX)
        scores.error.append(float(np.mean(np.abs(signed))))
        scores.bias.append(float(np.mean(signed[known])) if known.any() else math.nan)
        scores.rows.append(len(places))
        scores.far.append(int(np.sum(np.abs(signed) > FAR)))
        scores.unanswered += int(np.sum(~known))
        held = known & (f > 0) & ~np.isnan(low) & ~np.isnan(high)
        if not held.any():
            scores.coverage.append(math.nan)
            scores.width.append(math.nan)
            continue
        t, f, low, high = t[held], f[held], low[held], high[held]
        scores.coverage.append(float(np.mean((low <= t) & (t <= high))))
        least, most = np.quantile(t / f, (0.05, 0.95))
        width = float(np.mean((high - low) / f))
        scores.width.append(width / float(most - least) if most > least else math.nan)
    return scores


def errors_by_seen(table: Table, answers: Sequence[tuple[int, Answer]], seen: Sequence[int]) -> list[float]:
    """Return the median over components of their mean |f − t|/t, by class of `SEEN`; not a number where none has such rows."""
    classes: list[dict[int, list[float]]] = [{} for _ in SEEN]
    for (row, (found, _, _)), before in zip(answers, seen, strict=False):
        if before >= SEEN[0]:
            known = found is not None and math.isfinite(found)
            error = min(abs(found - table.t[row]) / table.t[row], ERROR_MAX) if known else ERROR_MAX
            members = classes[bisect_right(SEEN, before) - 1]
            members.setdefault(int(table.component[row]), []).append(float(error))
    return [float(np.median([np.mean(each) for each in one.values()])) if one else math.nan for one in classes]


def geometric_mean(values: Sequence[float]) -> float:
    """Return exp(mean(log v)); an error of zero counts as 1e-12, so that one perfect table does not hide the others."""
    return math.exp(math.fsum(math.log(max(value, 1e-12)) for value in values) / len(values)) if values else math.nan


def _possible(record: dict[str, str]) -> bool:
    try:
        x, p, t = float(record["x"]), float(record["p"]), float(record["t"])
    except (TypeError, ValueError):
        return False
    return bool(record["component"]) and 0 <= x < math.inf and 0 < p < math.inf and 0 < t < math.inf


def _arrival(stamps: Sequence[str]) -> Array | None:
    """Return the order of the stamps, equal ones as in the file; by number where all are numbers, else as text (ISO dates)."""
    if not all(stamps):
        return None
    try:
        return np.argsort(np.array([float(stamp) for stamp in stamps]), kind="stable")
    except ValueError:
        return np.argsort(np.array(stamps), kind="stable")
