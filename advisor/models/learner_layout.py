"""The learner's record of a component: what it keeps, and what it believes before it has seen a run.

A run is a point z = (ln x_1, .., ln x_d, ln p) with its elapsed time t. Runs are kept as at most `CELLS` cells of a lattice
over z: a cell has the *arithmetic* mean of its times, which is right under any noise of mean zero. Everything else of a record
is chosen from the cells at geometric counts of rows. All figures below are beliefs about run times in general; none is fitted
to a data set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats
from advisor.models.records import Field, RecordTable, offsets

AXES_MAX = 5  # four predictors and the cores
CELLS = 38  # a solution costs O(CELLS**3); 48 were no better on public tables, and twice as dear
LANES = 4  # settings of the covariance side by side: four doubles are one vector of the processor
MACHINES_MAX = 8  # machines kept apart, in three bits of a key; the last place stands for all further ones

# The lattice: places of 2**(coarseness / STEPS - FINEST) in log2, 13 bits an axis: log2 from -60 to 60 fits.
# Five axes have 12 bits and begin half as fine.
FINEST = 6  # 1 %: 47 and 48 cores are two places
STEPS = 4  # of coarseness a doubling: whole doublings would leave a third of the cells empty
KEY_BITS = 13
COARSEST = STEPS * (FINEST + 8)
ZERO = -42.0  # ln of a predictor of 0: below that of the least positive one, 2**-60
ZERO_BELOW = 1.3862943611198906  # where a predictor of 0 stands: a factor of 4 below the least positive one seen

# The mean of ln t before any run: slopes of 1/2 in each predictor and -1/2 in cores, each give or take 1/2.
LEVEL_VARIANCE = 25.0
SLOPE = 0.5
SLOPE_SD = 0.5
SERIAL_SHARES = (0.03, 0.3)  # f of Amdahl's saturation ln(f + (1 - f) / p): where curves bend
SERIAL_SD = 1.0
# Corrections that no simple form tells: Wendland's functions of these radii (factors of 3.7, 55 and 22,000), variance by lane.
# Jumps from one count of cores to the next are near, a slope that no square tells is middle, and smooth laws are far.
NEAR_RADIUS, MIDDLE_RADIUS, FAR_RADIUS = 1.3, 4.0, 10.0
BENDS = np.array([0.09, 0.09, 0.09, 0.0])  # variance of the squares: a slope that changes by 0.3 a factor e
NEAR = np.array([0.0, 0.06, 0.0, 0.0])
MIDDLE = np.array([0.0, 0.0, 0.0, 0.25])
FAR = np.array([0.01, 0.0, 0.36, 0.0])
# Further relative variance of a run, by lane, where no repeats tell it: an s of 0.3.
NOISY = np.array([0.06, 0.0, 0.0, 0.0])
NOISY_CELLS = 24  # from so many cells on: fewer cannot tell noise from shape
MACHINE_VARIANCE = 0.25  # of a machine's factor: two thirds lie between 0.6 and 1.65

# The noise of one run: variance s**2 f**2 + tau**2.
RUN_SD = 0.1  # s before there are repeats ...
RUN_SD_RUNS = 0.3  # ... which counts as so many runs
# LEFT_OUT_FREEDOM: of a cell without repeats: its leave-one-out error bounds the noise, for it holds the model's, too
LEFT_OUT_FREEDOM = 0.5
RUN_SD_LEAST = 1e-4
RUN_SD_REPORTED = 0.01  # of an interval: no run is promised to less than 1 %, times the width that scores have found
FREEDOM = 4.0  # of the Student weight of a cell's own scatter: one two-valued cell cannot set the noise
NOISE_ROUNDS = 8
NOISE_STEP = (
    1 / 16
)  # tau**2 falls to this share in a round, at most: once it is 0 the shortest cells would keep it there
BELOW_TIMER = 0.16  # a clock of ticks d has tau = 0.4 d: a mean below d / 6, 0.4 tau, is mostly zeros
NUGGET = 1e-8  # of a variance of ln t: rounding

OUTLIER_BEYOND = 16.0  # squared leave-one-out errors beyond, in variances, are of outlying cells
OUTLIER_RUNS = 2.0  # what so many runs agree on is no outlying measurement, whatever their neighbours say
AGREED = 16.0  # squared deviations up to which, in variances of a run, runs of a cell agree
OUTLIER_CELLS = 5  # fewer cannot tell which of them is an outlier
OUTLIER_ROUNDS = 3
# A run far from all others is learned at once where its squared error is below `BELIEVED` variances of what is known there.
# Else when so many runs agree: two, or, where it is off by a factor of ten, `TENFOLD`, more than a burst of outliers has.
BELIEVED, TENFOLD = 1.0, 2.3
AGREEING, AGREEING_OUTLIER = 2.0, 24.0
# Rows far from all others at ever new places agree with none: each is owed as much, and a row near others pays one back. What
# is owed for as many as more than a burst are is no burst, whether they agree or not: so many in 6000 rows.
OWED = 256
OWED_MOST = 24 * OWED
WAITING = 4  # cells that wait at most, of rows far from all others: the latest stay
DOUBT_CELLS = 1.0  # cells that the prior's own variance counts as, when leave-one-out errors correct it; it never grows
DOUBT_LEAST = 0.02
STEEPEST = 4.0  # slope, and curvature, of ln t along which runs are carried inside a cell
# A word of `slope` has the slope of ln t above, its curvature in the low bits: a centre that moves by little still turns it.
CURVATURE_BITS, SLOPE_UNIT = 20, 2.0**-32
CARRY_MAX = 5.0  # of ln t, by one carry

# Beyond what was seen, an answer is at most that at the nearest seen point, changed by these log-slopes. In a predictor it
# grows as over the last `RISE_SEEN` of ln x that was seen, in proportion at least.
RISE_IN_PREDICTOR = 3.0
RISE_SEEN = 1.0
RISE_LEAST = 1.0
RISE_IN_CORES = 0.5  # above the counts seen; below them time falls as 1/p at most
BEYOND_SD = 0.3  # of ln t, a unit of z outside: curves bend, or jump, where nobody has looked
BEYOND = 0.7  # of ln t, above the longest cell

# Interval: half-widths, in standard deviations, tracked at these levels. A little wider than a normal's at first; at 99 % as
# Student's t of `FREEDOM` degrees has it beside its 90 %, for noise is known from few runs.
LEVELS = np.array([0.5, 0.8, 0.9, 0.99])
WIDTHS = np.array([0.74, 1.40, 1.80, 3.90])
# A score moves ln(width) by this times its share: 1 / (q f(q)), of a density f at its quantile q, is 2 to 3 where many runs
# lie and 13 at a normal's 99 %, where few do. A first score moves it by a third.
WIDTH_RATES = np.array([2.0, 2.0, 2.0, 13.0])
WIDTH_ROWS = 3.0 * WIDTH_RATES  # of scores that the first widths are worth
WIDTH_SHARE_LEAST = 0.02
SKEW_SHARE = 0.25  # of a width's step at 90 %: where the runs missed lie below and above alike, the skew stays
SKEW_MOST = 4.0
# Noise beyond the belief was learned from few runs, and most samples of a noise with a long tail show too little of it: after n
# scores its sd reaches up 1 + 16 q**2 / (n + 6) times as far, q being the share of rows that repeat a cell: they showed it.
FURTHER_UP, FURTHER_SCORES = 16.0, 6.0
REACH_SLACK = 1.08  # of an answer's width over the tracked one, two steps: an end that hovers at a common time holds it
WIDTH_MAX = 20.0  # of ln t, up and down: beyond, the interval says "unknown"

# Schedules, by a component's own rows alone: nothing depends on batch, clock, load or what was asked.
SETTLED_EVERY = 64  # rows up to which settings are chosen at 1, 2, 3, 4, 6, 8, 12, ..; beyond, at each power of two
FIRST_SCORED = 6

RETAINED_RUNS = 8.0  # what old cells count together after a change of speed: a shape to lean on, soon outweighed
# A slow drift, see `cells.slow_drift`. Looked for every `SLOW_ROWS` rows, over at most `SLOW_ROWS_MOST`: within these a step of
# 1 % shows at 10 % noise. Errors: false steps are one in 100,000 rows and more; what drifted goes on in the same direction.
SLOW_ROWS, SLOW_ROWS_MOST = 128, 2048
SLOW_ERRORS, SLOW_ERRORS_AGAIN = 4.0, 3.0
SLOW_RUNS = 4.0  # of a cell, before its mean says where the level was
SLOW_NEAR = 0.5  # of z: a run carried further to its cell's centre shows the model's slope as much as the level
SLOW_LEAST = 0.01  # of the level: less is no matter
SLOW_RETAINED = 256.0  # runs that the past counts as after a step: twice the rows between two looks
RUNS_LEAST = 1e-6  # cells that count less than this together are none


def key_bits(axes: int) -> int:
    """Return the bits of one axis in a key: with the machine's three they fit 63."""
    return KEY_BITS if axes < AXES_MAX else KEY_BITS - 1


def fields_of(axes: int) -> tuple[Field, ...]:
    """Return the fields of a record over `axes` axes."""
    return (
        ("component", 1, "i", -1),  # slot in the base table that the record belongs to; -1: free
        ("seen", 1, "i", 0),  # rows learned since it began: the schedules count these
        ("cells", 1, "i", 0),  # in use
        # Model that answers: 0 the learner, else 1 + its place in the list of pins
        ("pin", 1, "i", 0),
        ("scores", 1, "i", 0),  # rows predicted before they were learned
        ("covered", 1, "i", 0),  # of them, those within the 90 % interval
        ("error", 1, "f", 0),  # sum |t - prediction| / max(t, prediction) over the scored rows
        ("bias", 1, "f", 0),  # sum (prediction - t) / max(t, prediction) over them
        # Runs that the seen rows stand for: more than rows where these have counts
        ("seen_runs", 1, "f", 0),
        ("relative", 1, "f", 0),  # s**2 of the noise; 0: not chosen yet
        ("absolute", 1, "f", 0),  # tau**2 of the noise, seconds squared
        # Mean squared leave-one-out error of cells without repeats; -1: not known
        ("left_out", 1, "f", -1),
        # What the mean's variance is multiplied by: how far cells are from what the others say of them.
        ("doubt", 1, "f", 1),
        # Further relative variance of a run, for intervals: leave-one-out errors beyond model and noise, while few repeat
        ("excess", 1, "f", 0),
        ("share", LANES, "f", 0),  # weights of the settings
        ("width", LANES, "f", 0),  # half-widths at LEVELS, in standard deviations
        # Steps down of an interval are so many times as wide as `width`, steps up as narrow: times lean to one side
        ("skew", 1, "f", 1),
        ("coarseness", AXES_MAX, "i", STEPS * int(axes == AXES_MAX)),
        # Numbers of the machines kept apart; the first place, of none, is -1 less what is owed to rows far from all others
        ("machine", MACHINES_MAX, "i", -1),
        # Slow drift: rows since the search for one began; sums of their scores, of the scores' squares and of their weights
        # (no units); ln of all drift that was followed, and the component's rows at the last step.
        ("slow_sum", 1, "f", 0),
        ("slow_square", 1, "f", 0),
        ("slow_weight", 1, "f", 0),
        ("drifted", 1, "f", 0),
        ("drifted_at", 1, "i", 0),
        # Cells: a run's key on the lattice, runs, mean time, sum of squared deviations from it, variance by which a an outlier
        # one is distrusted, ln of what the model says there (NaN: not since it began), centre and slope of ln t.
        # Behind those in use, at the end, stand up to `WAITING` that wait for a run that agrees; else nothing looks at them.
        ("key", CELLS, "i", -1),
        ("runs", CELLS, "f", 0),
        ("mean", CELLS, "f", 0),
        ("scatter", CELLS, "f", 0),
        ("outlier", CELLS, "f", 0),
        ("model", CELLS, "f", np.nan),
        ("centre", CELLS * axes, "f", 0),
        ("slope", CELLS * axes, "i", 0),  # and curvature, see `cells.packed`
        # Ln of the least positive value of each predictor
        ("least", axes - 1, "f", np.inf),
    )


# First word of each field, equal for all numbers of axes but for "slope", which is axes * CELLS behind "centre", and "least".
AT = {name: at.start for name, at in offsets(fields_of(2)).items()}


class Cells(NamedTuple):
    """The k cells in use of a record: centres (k, axes), `ZERO` for a predictor of 0; predictors (k, d)."""

    z: Floats
    predictors: Floats
    runs: Floats
    mean: Floats
    scatter: Floats


class LearnerTable(RecordTable):
    """Records of `size` components over the same number of axes."""

    __slots__ = ("axes",)

    def __init__(self, axes: int, size: int = 0) -> None:
        self.axes = axes
        super().__init__(fields_of(axes), f"learner-3-{axes}", size)

    def cells(self, place: int) -> Cells:
        """Return copies of a record's cells in use."""
        k = int(self.int_field("cells")[place])
        z = np.ascontiguousarray(self.floats("centre")[place].reshape(-1, CELLS)[: self.axes, :k].T)
        x = z[:, :-1]
        of_each = (self.floats(name)[place][:k].copy() for name in ("runs", "mean", "scatter"))
        return Cells(z, np.where(x <= ZERO, 0.0, elementary.exp(x)), *of_each)
