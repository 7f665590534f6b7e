"""Paper 3, section 5: trained on few workers and small sizes, the model predicts many workers and larger sizes.

The figures of all six programs are the benchmark's (`benchmarks/programs.py`); here two of them, at sizes that a test can have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import printed_program
import program_graphs
import programs

from advisor.models.program_terms import INTERMEDIATE, TRANSFORMS, Point

SMALL = {
    "fib": program_graphs.Case(program_graphs.fib, "2^n", tuple(range(14, 26, 2)), (28,)),
    "sort": program_graphs.Case(program_graphs.sort, "n", (4096, 8192, 16384, 32768), (131072,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_larger_inputs_on_more_workers_are_foreseen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "CASES", SMALL)
    runs = list(programs.computed(name, SMALL[name], quick=False))
    errors = programs.judged(name, runs, detail=False)
    assert errors["extended"] < 0.30
    assert errors["extended"] < errors["direct log-log"]
    assert errors["within 90 %"] >= 0.75


@pytest.mark.slow
def test_the_six_programs() -> None:
    """Median error below 10 % on at least 4 of the six, below 45 % on all."""
    medians = [
        programs.judged(name, list(programs.computed(name, case, quick=False)), detail=False)["extended"]
        for name, case in program_graphs.CASES.items()
    ]
    assert max(medians) < 0.45
    assert sum(each < 0.10 for each in medians) >= 4


def test_the_equations_are_the_papers() -> None:
    at = Point(10.0, 4.0, 3.0, 5.0, 7.0)
    log, loglog = np.log(10.0), np.log(np.log(10.0))
    printed = {name: columns(at) for name, (columns, _) in printed_program.MODELS.items()}
    np.testing.assert_allclose(printed["serial_work"], [10, 10 * log, 100, 100 * log, 1000, 10 * loglog])  # Eq. 11
    for name, expected in (
        ("inflation", [3 * 3 / 4, 3 * 3]),  # Eq. 10
        ("delay", [5, 15, 15 / 4, 7, 21, 21 / 4]),  # Eq. 12
        ("no_work", [9, 90, 90 * log, 900]),  # Eq. 15
    ):
        np.testing.assert_allclose(printed[name], expected)
        np.testing.assert_allclose(INTERMEDIATE[name].columns(at), expected)
    for name in ("creates", "waits"):  # Eqs. 13, 14
        np.testing.assert_allclose(printed[name], [10, 10 * log, 100, 1000, 10 * loglog])
    assert printed_program.serial_columns(Point(2.0, 1.0))[-1] == 0.0  # for n < e
    assert TRANSFORMS["2^n"](10.0) == 1024.0
