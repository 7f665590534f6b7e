"""Paper 3, section 5: six programs, trained on 1-8 workers and small sizes, predicted on 30-36 workers and larger sizes.

Usage: python benchmarks/programs.py [--unseen] [--quick] [--save RUNS.csv | --load RUNS.csv]

Runs are computed, not measured: task graphs of the programs (`program_graphs`) are executed under work stealing, seeded, with
the costs below. The table tells the median of |actual - predicted| / actual: of the model as printed, ours, and two regressions
on elapsed time alone: a lasso on products of size and worker terms, and Barnes' log-log form (Eqs. 6 and 7 of the paper); and
what share of test runs lay within our 90 % interval.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from printed_program import PrintedModel, serial_columns
from program_graphs import CASES, Case
from stealing import KERNELS, Costs, StolenRun, run_stealing
from unseen_graphs import UNSEEN

from advisor.domain.runs import ProgramRun
from advisor.kernels import can_compile
from advisor.models.lasso import fitted, rows_into
from advisor.models.program_model import FOLDS, NAME, WORDS, ProgramModel
from advisor.models.program_terms import TRANSFORMS, Point
from advisor.simulation.program import Program

# What the runtime and the machine charge: a light-weight runtime on one node. At 36 workers crowding makes work 16 % longer.
COSTS = Costs(create_ns=80.0, wait_ns=60.0, steal_ns=250.0, crowding=0.004, moved=0.05)
TRAIN_WORKERS = range(1, 9)
TEST_WORKERS = (30, 32, 34, 36)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """A computed run of a program."""

    program: str
    size: int
    test: int
    tasks: int
    workers: int
    serial_work_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: int
    waits: int
    elapsed_s: float
    span_s: float


def row_of(run: Any, case: Any) -> ProgramRun:
    """Return a run as the model takes it, its size as the case transforms it."""
    given: dict[str, Any] = {
        each.name: getattr(run, each.name) for each in fields(ProgramRun) if hasattr(run, each.name)
    }
    return ProgramRun(**given | {"size": TRANSFORMS[case.transform](float(run.size))})


def save_runs(path: Path, kind: Any, runs: Sequence[Any]) -> None:
    """Write runs, which are dataclasses of one kind, as a table."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(kind)])
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def load_runs(path: Path, kind: Any) -> list[Any]:
    """Return the runs of a written table."""
    kinds = {each.name: {"str": str, "int": int, "float": float}[str(each.type)] for each in fields(kind)}
    with path.open() as file:
        return [kind(**{key: kinds[key](value) for key, value in row.items()}) for row in csv.DictReader(file)]


def computed(name: str, case: Case, quick: bool) -> Iterator[Run]:
    """Yield the runs of a program, those of training first."""
    for test, sizes, workers in ((0, case.train, TRAIN_WORKERS), (1, case.test, TEST_WORKERS)):
        for size in sizes[:: 2 if quick and len(sizes) > 4 else 1]:
            graph = case.build(size).graph(seed=size)
            program = Program(graph)
            for p in workers:
                run: StolenRun = run_stealing(program, p, COSTS, seed=1000 * size + p)
                reported = {each.name: getattr(run, each.name) for each in fields(Run) if hasattr(run, each.name)}
                yield Run(program=name, size=size, test=test, tasks=int(run.creates) + 1, **reported)


def learned(case: Any, runs: Sequence[Any]) -> ProgramModel:
    """Return the model of a program's training runs, which came in an order of their own."""
    model = ProgramModel(np.zeros(WORDS))
    order = np.random.default_rng(0).permutation(len(runs))
    for at in order:
        model.learn(row_of(runs[at], case))
    return model


def direct_predictions(case: Any, train: Sequence[Any], test: Sequence[Any]) -> dict[str, Floats]:
    """Return the predictions for the test runs by the printed model and two regressions on time."""
    size_of = TRANSFORMS[case.transform]
    order = np.random.default_rng(0).permutation(len(train))
    model = PrintedModel([row_of(train[at], case) for at in order])
    printed = np.array([model.predict(size_of(float(run.size)), run.workers) for run in test])

    def columns(run: Any) -> Floats:
        sizes = np.append(serial_columns(Point(size_of(float(run.size)), 1.0)), 1.0)
        return np.outer(sizes, (1.0, 1.0 / run.workers, run.workers - 1.0)).reshape(-1)

    width = len(columns(train[0]))
    folds = np.zeros((FOLDS, width + 2, width + 2))
    for place, at in enumerate(order):
        rows_into(folds, place % FOLDS, columns(train[at]), train[at].elapsed_s)
    fit = fitted(folds, intercept=True)
    assert fit is not None
    lasso = np.array([fit.weights @ columns(run) + fit.intercept for run in test])

    def logs(run: Any) -> list[float]:
        p = math.log2(run.workers)
        return [1.0, math.log2(size_of(float(run.size))), p, p * p]

    weights = np.linalg.lstsq(np.array([logs(r) for r in train]), np.log2([r.elapsed_s for r in train]), rcond=None)[0]
    barnes = 2.0 ** (np.array([logs(run) for run in test]) @ weights)
    return {"printed": printed, "direct lasso": lasso, "direct log-log": barnes}


def judged(name: str, runs: Sequence[Run], detail: bool) -> dict[str, float]:
    """Return the median error of each model on a program."""
    case = (CASES | UNSEEN)[name]
    test = [run for run in runs if run.test]
    model = learned(case, [run for run in runs if not run.test])
    fits = model.fits()
    actual = np.array([run.elapsed_s for run in test])
    predictions = [model.predict(fits, row_of(run, case).size, run.workers, 0.9) for run in test]
    found: dict[str, Floats] = {NAME: np.array([each.elapsed_s for each in predictions])}
    covered = float(np.mean([each.low_s <= t <= each.high_s for each, t in zip(predictions, actual, strict=True)]))
    for run, each in zip(test, predictions, strict=True):
        if detail and run.workers == TEST_WORKERS[-1]:
            print(
                f"  n={run.size} p={run.workers} t={run.elapsed_s:.4g}/{each.elapsed_s:.4g} "
                f"T1'={run.serial_work_s:.4g}/{each.serial_work_s:.4g} T1={run.work_s:.4g}/{each.work_s:.4g} "
                f"delay={run.delay_s:.4g}/{each.delay_s:.4g} no_work={run.no_work_s:.4g}/{each.no_work_s:.4g} "
                f"span={run.span_s:.4g}/{each.span_s:.4g}"
            )
    found |= direct_predictions(case, [run for run in runs if not run.test], test)
    errors = {key: float(np.median(np.abs(values - actual) / actual)) for key, values in found.items()}
    return errors | {"within 90 %": covered}


def show(table: Sequence[tuple[str, list[int], dict[str, float]]]) -> None:
    """Print the table of median errors."""
    models = list(table[0][2])
    print(f"{'program':10} {'tasks':>17}  " + " ".join(f"{model:>15}" for model in models))
    for name, most, errors in table:
        print(f"{name:10} {most[0]:>8}{most[1]:>9}  " + " ".join(f"{errors[model]:>15.1%}" for model in models))


def main() -> None:
    """Compute or read the runs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--unseen", action="store_true", help="six programs that were not looked at while models were made"
    )
    parser.add_argument("--quick", action="store_true", help="every second size")
    parser.add_argument("--save", type=Path, help="write the runs to this file")
    parser.add_argument("--load", type=Path, help="read the runs from this file, instead of computing them")
    parser.add_argument("--detail", action="store_true", help="what the parts are, against what they were")
    given = parser.parse_args()
    sys.setrecursionlimit(10_000)
    KERNELS.use("compiled" if can_compile() else "interpreted")
    if given.load:
        runs = load_runs(given.load, Run)
    else:
        runs = []
        for name, case in (UNSEEN if given.unseen else CASES).items():
            began = time.perf_counter()
            runs += computed(name, case, given.quick)
            print(f"{name}: {time.perf_counter() - began:.1f} s to compute", file=sys.stderr)
    if given.save:
        save_runs(given.save, Run, runs)
    table: list[tuple[str, list[int], dict[str, float]]] = []
    for name in dict.fromkeys(run.program for run in runs):
        mine = [run for run in runs if run.program == name]
        most = [max(run.tasks for run in mine if run.test == flag) for flag in (0, 1)]
        table.append((name, most, judged(name, mine, given.detail)))
    show(table)


if __name__ == "__main__":
    main()
