"""Paper 2, Figs. 1 and 4: the error of a task type's total time, by one time, support points and clusters.

Run ``python benchmarks/task_sizes.py``. First generated mixes (`tests/support/task_mixes`), then the OpenMP programs of
the tests that tell sizes, measured under the tool of `adapters/openmp` where clang and libomp are there: of ten runs the
fastest, as in the paper's section 4.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent.parent / "tests" / "support"), str(Path(__file__).parent.parent)]

import omp_programs  # noqa: E402 - beside the tests
import task_mixes  # noqa: E402
from printed_task_models import by_clusters, by_support_points, error_of  # noqa: E402

from advisor.models.size_time import WORDS, SizeTime  # noqa: E402
from advisor.models.type_verdict import report_of  # noqa: E402

MIXES = {
    "merges": task_mixes.merges,
    "sorts": task_mixes.sorts,
    "forces": task_mixes.forces,
    "regular": task_mixes.regular,
    "contended": task_mixes.contended,
}
MEASURED = (("sort", (2_000_000, 9)), ("sort", (500_000, 12)), ("nqueens", (10, 3)), ("nqueens", (9, 9)))
RUNS = 10
ERRORS = ("first", "printed_points", "support_points", "two_clusters", "clusters")


def generated() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mix's name and report; the worst of four seeds for each error."""
    for name, make in MIXES.items():
        reports = []
        for seed in range(4):
            mix = make(seed=seed)
            model = SizeTime(np.zeros(WORDS))
            model.learn_instances(mix.sizes, mix.times, mix.running)
            found = report_of(model).as_dict()
            printed = {"printed_points": by_support_points(mix), "two_clusters": by_clusters(mix, 2)}
            errors = {name: error_of(mix, total) for name, total in printed.items()}
            reports.append(found | {"errors": found["errors"] | errors})
        worst = {error: max(report["errors"][error] for report in reports) for error in ERRORS}
        yield name, reports[0] | {"errors": worst}


def measured(programs: omp_programs.Programs, threads: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each measured task type's name and report, of the fastest of some runs."""
    for name, arguments in MEASURED:
        profiles = [
            programs.run(name, *arguments, threads=threads, buffer=omp_programs.BUFFER).profile() for _ in range(RUNS)
        ]
        fastest = min(profiles, key=lambda profile: profile.measures.work_s)
        for kind, report in fastest.types.items():
            yield f"{name} {' '.join(map(str, arguments))}: {kind}"[:44], dict(report)


def show(name: str, report: dict[str, Any]) -> None:
    """Print a line of the table."""
    reported = " ".join(f"{report['errors'].get(error, float('nan')):>8.2%}" for error in ERRORS)
    print(f"{name:44} {report['count']:>8} {reported}  {report['verdict']}")


def speed() -> None:
    """Print what an instance costs."""
    mix = task_mixes.forces(200_000)
    model = SizeTime(np.zeros(WORDS))
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for start in range(0, 200_000, 32_768):
            part = slice(start, start + 32_768)
            model.learn_instances(mix.sizes[part], mix.times[part], mix.running[part])
        best = min(best, time.process_time() - began)
    print(f"{best / 200_000 * 1e9:.0f} ns of CPU an instance, {8 * WORDS / 1024:.0f} KB a type")


def main() -> None:
    """Print the tables."""
    print(f"{'task type':44} {'tasks':>8} " + " ".join(f"{error[:8]:>8}" for error in ERRORS))
    for name, report in generated():
        show(name, report)
    if omp_programs.MISSING:
        print(omp_programs.MISSING)
    else:
        with tempfile.TemporaryDirectory() as folder:
            programs = omp_programs.compiled_programs(Path(folder))
            for threads in (1, 2):
                print(f"measured on {threads} threads")
                for name, report in measured(programs, threads):
                    show(name, report)
    speed()


if __name__ == "__main__":
    main()
