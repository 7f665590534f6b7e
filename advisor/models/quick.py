"""Quick answers: the compiled kernels of the extra ``fast``, taken into use once they are found to agree with numpy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models import fold, process
from advisor.models.posterior import COMPILED, TRIED
from advisor.models.prediction import Model, log_values
from advisor.models.support import SupportTable, add_row

AGREEMENT = 1e-6  # of answers, in logs: what a stale kernel gets wrong is more, what rounding does to them is less


def use_compiled() -> bool:
    """Fold and answer with compiled code from now on, in the whole process; False where the extra ``fast`` is not installed.

    States are the same to the byte: what is stored is never reckoned by the kernels for answers. Those answer as numpy does
    but for their last digits. The first call of a machine compiles for half a minute, later processes load a cache.
    """
    return fold.use_compiled() and (_answers() or True)


def _answers() -> bool:
    """Take the kernels for answers into use, where they agree with numpy."""
    try:
        kernels = import_module("advisor.models.compiled_process")
    except ImportError:
        return False
    for _ in range(2):
        if agrees(kernels):
            COMPILED[:] = [kernels]
            return True
        kernels.recompile()  # numba's cache on disk may hold what was compiled for another version
    return False


def agrees(kernels: Any) -> bool:
    """Return whether kernels answer as numpy does, on rows that try all of them. On tables of its own."""
    answers: list[list[NDArray[np.float64]]] = []
    before = TRIED.set([])  # for this thread: others answer as before
    try:
        for quick in (False, True):
            TRIED.set([kernels] if quick else [])
            answers.append(_asked(quick))
    finally:
        TRIED.reset(before)
    return all(
        one.shape == two.shape and np.allclose(one, two, rtol=AGREEMENT, atol=AGREEMENT)
        for one, two in zip(*answers, strict=True)
    )


def _asked(quick: bool) -> list[NDArray[np.float64]]:
    model = Model(
        "joint degree 1", (), "joint", 1, (0.2, 1.0, 0.0, 0.0), (1.8, 9.0, 0.0, 0.0), 0.9, 0.1, 9.0, 30, 30, 0.0, 64.0,
        (1.0, 64.0), (1.0, 16.0), 1e-6, 1e-6, 0.0, (1.0,) * 21,
    )  # fmt: skip
    found: list[NDArray[np.float64]] = []
    for axes, machines in ((2, 0), (3, 2)):
        table = SupportTable(axes, 1)
        for row in range(160):
            z = [(row * (5.0 + axis)) % 11.0 * 0.61 for axis in range(axes)]
            y = sum(z[:-1]) + np.log2(0.1 + 0.9 * 2.0 ** -z[-1]) + 0.1 * np.sin(7.0 * row) + 9.0 * (row == 31)
            add_row(table, 0, z, float(y), 1.0 + row % 3, row % (machines + 1))
        points = process.points_of(table, 0, 1e-6, quick=quick)
        means: list[tuple[str, process.Mean, int]] = [("base", lambda z: log_values(model, z), 4)] if axes == 2 else []
        at = points.z[::7] + 0.3
        for only in (None, process.SMOOTH):
            posterior = process.solve(points, means, only, quick=quick)
            found += [*posterior.at(at, machines), posterior.share]
            found.append(np.array([posterior.one(z, machines) for z in at.tolist()]))
    found.append(log_values(model, np.linspace(-1.0, 6.0, 24).reshape(12, 2)))
    return found
