"""The base tier's state: 149 words of 8 bytes a component, one line a field.

The same words serve the fold, the solver, storage, merge and the flat state bytes. A change of meaning changes `LAYOUT`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from advisor.domain.vectors import Floats
from advisor.models.records import Field, empty_words, offsets

DEGREE_MAX = 3  # of the sequential time in the predictor: cubic algorithms are the steepest that occur in practice
MOMENTS = 2 * DEGREE_MAX + 1  # powers u**0 .. u**6 of a Gram matrix
COEFFICIENTS = DEGREE_MAX + 1
CELLS = 16  # of the load sketch
COUNTS_SEEN = 16  # core counts remembered with their runs: more than most machines offer; 128 bytes
# t0 of the weights of the exact sums, seconds: a microsecond is what common timers tell apart, and a weight stays finite. The
# learner finds out about a timer's error by itself.
NOISE_S = 1e-6
NOISE = NOISE_S * NOISE_S
FIRST_SOLVE = 16  # rows a component folds with their own elapsed time as weight; then the weighting model takes over

FIELDS: tuple[Field, ...] = (
    # Exact counts; forgetting never lowers them.
    ("rows", 1, "i", 0),  # learned rows
    ("extra_runs", 1, "i", 0),  # learned runs beyond one a row: a row with count c is c runs
    ("failed", 1, "i", 0),  # rows with ok = false
    ("unfinished", 1, "i", 0),  # rows with running = true
    # Values of a predictor, those of the first accepted row; 0: not known, as 1
    ("dimensions", 1, "i", 0),
    # Offsets to `rows`, see `counts`.
    ("start", 1, "i", 0),  # rows when the component was last wholly forgotten
    # Rows at which the weighting model is solved next: at ages 16, 32, 64, ...
    ("solve_at", 1, "i", FIRST_SOLVE),
    ("unscored", 1, "i", 0),  # rows that came before there was a weighting model to predict them
    ("forgotten", 1, "f", 0),  # rows that the sums no longer stand for
    # The cores of the last row, 0: none; counts of cores with their runs, see `cores_seen`.
    ("cores_last", 1, "f", 0),
    ("cores_seen", COUNTS_SEEN, "i", 0),
    # Ranges seen.
    ("x_low", 1, "f", np.inf),
    ("x_high", 1, "f", -np.inf),
    ("p_low", 1, "f", np.inf),
    ("p_high", 1, "f", -np.inf),
    ("t_low", 1, "f", np.inf),
    ("t_high", 1, "f", 0),  # exactly, of runs that ended, whatever else ran beside them
    ("running_high", 1, "f", 0),  # longest that a run was seen running without an end, seconds
    # Weighted sums over u = (x - origin) / scale, w = count / (m**2 + t0**2).
    ("origin", 1, "f", np.inf),
    ("scale", 1, "f", 0),
    ("gram", 3 * MOMENTS, "f", 0),  # sum w u**m p**-q at [7 q + m], m <= 6, q <= 2
    ("right", 2 * COEFFICIENTS, "f", 0),  # sum w t u**m p**-q at [4 q + m], m <= 3, q <= 1
    ("square", 1, "f", 0),  # sum w t**2
    # The weighting model m(x, p) = A(v) + B(v) / p, v = (x - w_low) / (w_high - w_low), for w_low <= x <= w_high;
    # A and B as cubic Bernstein polynomials, see `weighting.short`.
    ("w_coefficients", COEFFICIENTS, "i", 0),
    ("w_low", 1, "f", 0),
    ("w_high", 1, "f", 0),
    ("w_floor", 1, "f", 0),  # half the smallest elapsed time seen when it was solved
    ("w_cores", 1, "i", 0),  # the cores it was solved on, see `weighting.packed_cores`
    # Drift: z = (log2(t / m) - centre) rate of each row within what the weighting model knows; see `drift`.
    ("drift_centre", 1, "f", 0),
    ("drift_rate", 1, "f", 0),  # 256 over the scale of log2(t / m); 0: not known, and no row is tested
    # rise << 48 | fall << 32 | caution << 28 | rows scored since the last solve
    ("drift_levels", 1, "i", 0),
    ("drift_rise", 1, "i", 0),  # since the rise left 0: sum of log2(t / m) << 20 | rows
    ("drift_fall", 1, "i", 0),
    ("drift_sum", 1, "i", 0),  # sum of z since the last solve
    ("drift_square", 1, "i", 0),
    ("changes", 1, "i", 0),  # exact counts: changes of speed found,
    ("outliers", 1, "i", 0),  # and rows learned at a bounded time
    ("changed_at", 1, "i", 0),  # rows at the last change
    ("changed_by", 1, "f", 0),  # its log2 ratio
    # How well the weighting model predicted each row before learning it.
    ("error", 1, "f", 0),  # sum |t - m| / max(t, m)
    # Load sketch: cells [c 2**e, (c + 1) 2**e) of the predictor, unweighted.
    ("cell_exponent", 1, "f", -np.inf),
    ("cell_runs", CELLS, "f", 0),
    ("cell_sum", CELLS, "f", 0),  # sum of x - c 2**e
    ("cell_square", CELLS, "f", 0),  # sum of (x - c 2**e)**2
    # Paper 1's two-step model: unweighted sums of the rows at p_low; the mean at p_high and there the highest predictor.
    ("least_gram", MOMENTS, "f", 0),
    ("least_right", COEFFICIENTS, "f", 0),
    ("least_square", 1, "f", 0),
    ("top_predictor", 1, "f", -np.inf),
    ("top_runs", 1, "f", 0),
    ("top_sum", 1, "f", 0),
)

LAYOUT = "base-9"
AT: Mapping[str, slice] = offsets(FIELDS)
WORDS = sum(words for _, words, *_ in FIELDS)
INTEGERS = frozenset(name for name, _, kind, *_ in FIELDS if kind == "i")


def empty_record() -> Floats:
    """Return the words (WORDS,) of a component that has seen nothing."""
    return empty_words(FIELDS)
