"""Cells of a learner's record: where a run belongs, what it is expected to take, and how it is added. Kernels.

Every function is plain Python over numpy arrays and is compiled as it stands (`advisor.kernels`): the same source, the same
order of operations, the same bytes. A record is given as its words `r` (float64) and the same memory `n` (int64).
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import floor

import numpy as np

from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.domain.vectors import Floats
from advisor.models.drift import score_level
from advisor.models.learner_layout import *
from advisor.models.logarithm import LN2, exp, ln

SEEN, SEEN_RUNS, COUNT = AT["seen"], AT["seen_runs"], AT["cells"]
RELATIVE, ABSOLUTE, COARSENESS, MACHINE = (AT[name] for name in ("relative", "absolute", "coarseness", "machine"))
KEY, RUNS, MEAN, SCATTER, OUTLIER, MODEL, CENTRE = (
    AT[name] for name in ("key", "runs", "mean", "scatter", "outlier", "model", "centre")
)
# Places a unit of z, by coarseness.
PITCHES: Floats = np.array([2.0 ** (FINEST - c / STEPS) / LN2 for c in range(COARSEST + 1)])
NOWHERE = -1
NEAR_BY = 1.0  # of z: a row further from every known cell than a factor e is not judged
UNKNOWN = np.nan
CURVATURE_HALF, CURVATURE_MASK = 1 << (CURVATURE_BITS - 1), (1 << CURVATURE_BITS) - 1
CURVATURE_UNIT = 2.0**-12


LN_ELAPSED_MIN, LN_ELAPSED_MAX = ln(ELAPSED_MIN_S), ln(ELAPSED_MAX_S)


def least_at(axes):
    """Return the first word of "least"."""
    return CENTRE + 2 * axes * CELLS


def log_predictor(x):
    """Return ln x, `ZERO` for a predictor of 0."""
    return ln(x) if x > 0.0 else ZERO


def key_of(n, axes, z, machine):
    """Return the key of a point on a record's lattice: its machine's place, then so many bits an axis."""
    key, bits = machine, key_bits(axes)
    middle = 1 << (bits - 1)
    for axis in range(axes):
        place = 0
        if z[axis] > ZERO:
            place = int(floor(z[axis] * PITCHES[n[COARSENESS + axis]] + 0.5)) + middle
        key = (key << bits) | place
    return key


def cell_with(n, key):
    """Return the cell of a key, NOWHERE where there is none."""
    for cell in range(n[COUNT]):
        if n[KEY + cell] == key:
            return cell
    return NOWHERE


def nearest(r, n, axes, z, machine, reach):
    """Return the nearest cell, of the same machine and within `reach`, that the model knows; NOWHERE where there is none."""
    found, least = NOWHERE, reach * reach
    for cell in range(n[COUNT]):
        if r[MODEL + cell] != r[MODEL + cell] or n[KEY + cell] >> (key_bits(axes) * axes) != machine:
            continue
        distance = 0.0
        for axis in range(axes):
            step = z[axis] - r[CENTRE + axis * CELLS + cell]
            distance += step * step
        if distance < least:
            found, least = cell, distance
    return found


def curvature_of(word):
    """Return the curvature in a word of `slope`: its low `CURVATURE_BITS`."""
    return (((word + CURVATURE_HALF) & CURVATURE_MASK) - CURVATURE_HALF) * CURVATURE_UNIT


def slope_of(word):
    """Return the slope in a word of `slope`: above its low `CURVATURE_BITS`."""
    return ((word + CURVATURE_HALF) >> CURVATURE_BITS) * SLOPE_UNIT


def packed(slope, curvature):
    """Return slope and curvature of ln t along one axis in one word, each bounded."""
    slope = min(max(slope, -STEEPEST), STEEPEST)
    curvature = min(max(curvature, -STEEPEST), STEEPEST)
    return (int(floor(slope / SLOPE_UNIT + 0.5)) << CURVATURE_BITS) + int(floor(curvature / CURVATURE_UNIT + 0.5))


def rise(r, n, axes, cell, z):
    """Return by how much ln t changes from a cell's centre to z: slope and curvature along each axis."""
    found = 0.0
    for axis in range(axes):
        at = CENTRE + axis * CELLS + cell
        step = z[axis] - r[at]
        word = n[at + axes * CELLS]
        found += (slope_of(word) + 0.5 * curvature_of(word) * step) * step
    return min(max(found, -CARRY_MAX), CARRY_MAX)


def standing_for(r, n, axes, z, machine, cell):
    """Return the cell whose model says what a run at z takes: its own, or one within `NEAR_BY`; NOWHERE where none is known."""
    if cell == NOWHERE or r[MODEL + cell] != r[MODEL + cell]:
        return nearest(r, n, axes, z, machine, NEAR_BY)
    return cell


def expected(r, n, axes, z, cell):
    """Return ln t as the last choice of settings left it: the model at a cell that stands for z, and its slope from there."""
    return UNKNOWN if cell == NOWHERE else r[MODEL + cell] + rise(r, n, axes, cell, z)


def freedom_of(r, n, cell):
    """Return the degrees of freedom of a cell's scatter: its rows, of which runs are more where rows have counts, less one."""
    rows = r[RUNS + cell]
    if n[SEEN] > 0:
        rows *= n[SEEN] / r[SEEN_RUNS]
    return max(rows - 1.0, 0.0)


def variance_of_run(r, n, cell, time):
    """Return the variance of one run of the given mean time in a cell, from the noise law and the cell's own scatter."""
    law = r[RELATIVE] * time * time + r[ABSOLUTE]
    return (FREEDOM * law + r[SCATTER + cell]) / (FREEDOM + freedom_of(r, n, cell))


def add_run(r, n, axes, z, t, count, machine, cell):
    """Add a run of mean time t, standing for `count` runs, to its cell; a new cell may make all of them coarser.

    A run beside its cell's centre is carried there along the model before it is averaged; so is the cell, to its new centre.
    """
    while cell == NOWHERE:
        if n[COUNT] < CELLS:
            open_cell(r, n, axes, key_of(n, axes, z, machine), z, t, count, machine)
            return
        coarsen(r, n, axes)
        cell = cell_with(n, key_of(n, axes, z, machine))
    share = count / (r[RUNS + cell] + count)
    aside = rise(r, n, axes, cell, z)
    moved, apart = 0.0, 0.0
    for axis in range(axes):
        at = CENTRE + axis * CELLS + cell
        apart = max(apart, abs(z[axis] - r[at]))
        step = (z[axis] - r[at]) * share
        word = n[at + axes * CELLS]
        slope, curvature = slope_of(word), curvature_of(word)
        moved += (slope + 0.5 * curvature * step) * step
        r[at] += step
        if step != 0.0:
            n[at + axes * CELLS] = packed(slope + curvature * step, curvature)
    if aside != 0.0 or moved != 0.0:
        moved = min(max(moved, -CARRY_MAX), CARRY_MAX)
        t *= exp(min(max(moved - aside, -CARRY_MAX), CARRY_MAX))
        scale_cell(r, cell, exp(moved))
        r[MODEL + cell] += moved
    mean = r[MEAN + cell]
    if r[RUNS + cell] >= SLOW_RUNS and r[RELATIVE] > 0.0 and apart <= SLOW_NEAR:
        score_level(r, n, mean, t - mean, variance_of_run(r, n, cell, mean), count * (1.0 - share))
    step = t - mean
    if r[OUTLIER + cell] > 0.0 and step * step <= AGREED * (r[RELATIVE] * mean * mean + r[ABSOLUTE]):
        r[OUTLIER + cell] = 0.0  # two runs agree, against a model that did not heed them
        r[MODEL + cell] = UNKNOWN
    r[RUNS + cell] += count
    r[MEAN + cell] += step * share
    r[SCATTER + cell] += count * step * (t - r[MEAN + cell])


def scale_cell(r, cell, factor):
    """Multiply a cell's times: its mean stays legal, however wide the cell is and however often it was carried."""
    mean = r[MEAN + cell] * factor
    if mean < ELAPSED_MIN_S or mean > ELAPSED_MAX_S:
        factor = min(max(mean, ELAPSED_MIN_S), ELAPSED_MAX_S) / r[MEAN + cell]
        mean = r[MEAN + cell] * factor
    r[MEAN + cell] = mean
    r[SCATTER + cell] *= factor * factor


def open_cell(r, n, axes, key, z, t, count, machine):
    """Begin a cell with one run behind those in use."""
    cell = n[COUNT]
    n[COUNT] = cell + 1
    place_cell(r, n, axes, cell, key, z, t, count, machine)


def place_cell(r, n, axes, cell, key, z, t, count, machine):
    """Make a cell of one run; its slope is that of the nearest cell, its model is not known before the next choice."""
    beside = nearest(r, n, axes, z, machine, np.inf)
    n[KEY + cell] = key
    r[RUNS + cell] = count
    r[MEAN + cell] = t
    r[SCATTER + cell] = 0.0
    r[OUTLIER + cell] = 0.0
    r[MODEL + cell] = UNKNOWN
    for axis in range(axes):
        at = CENTRE + axis * CELLS
        r[at + cell] = z[axis]
        n[at + axes * CELLS + cell] = n[at + axes * CELLS + beside] if beside != NOWHERE else 0


def close_gap(r, n, axes, cell):
    """Write each cell behind one over that before it."""
    for behind in range(cell, CELLS - 1):
        move_cell(r, n, axes, behind + 1, behind)
    n[KEY + CELLS - 1] = NOWHERE


def move_cell(r, n, axes, cell, into):
    """Write a cell over another."""
    n[KEY + into] = n[KEY + cell]
    for field in (RUNS, MEAN, SCATTER, OUTLIER, MODEL):
        r[field + into] = r[field + cell]
    for axis in range(2 * axes):
        r[CENTRE + axis * CELLS + into] = r[CENTRE + axis * CELLS + cell]


def coarsen(r, n, axes):
    """Make the axis with the most places (of equals the first) coarser by a step, and merge the cells that become one."""
    widest, most, bits = 0, 0, key_bits(axes)
    places = (1 << bits) - 1
    for axis in range(axes):
        if n[COARSENESS + axis] == COARSEST:
            continue
        shift = bits * (axes - 1 - axis)
        different = 0
        for cell in range(n[COUNT]):
            place = (n[KEY + cell] >> shift) & places
            first = True
            for before in range(cell):
                if (n[KEY + before] >> shift) & places == place:
                    first = False
                    break
            if first:
                different += 1
        if different > most:
            widest, most = axis, different
    if (
        most == 0
    ):  # predictors of 0 and machines alone tell more cells apart than there is room for: the least known gives way
        least = 0
        for cell in range(n[COUNT]):
            if r[RUNS + cell] <= r[RUNS + least]:
                least = cell
        close_gap(r, n, axes, least)
        n[COUNT] -= 1
        return
    n[COARSENESS + widest] += 1
    rebuild_cells(r, n, axes)


def rebuild_cells(r, n, axes):
    """Make all keys again from the cells' centres, in the order of the cells, and merge cells of one key."""
    z = np.empty(axes)
    kept = 0
    for cell in range(n[COUNT]):
        for axis in range(axes):
            z[axis] = r[CENTRE + axis * CELLS + cell]
        key = key_of(n, axes, z, n[KEY + cell] >> (key_bits(axes) * axes))
        into = NOWHERE
        for before in range(kept):
            if n[KEY + before] == key:
                into = before
                break
        if into != NOWHERE:
            merge_cells(r, n, axes, into, cell)
            continue
        if kept != cell:
            move_cell(r, n, axes, cell, kept)
        n[KEY + kept] = key
        kept += 1
    for cell in range(kept, n[COUNT]):
        n[KEY + cell] = NOWHERE
        for field in (RUNS, MEAN, SCATTER, OUTLIER):
            r[field + cell] = 0.0
        r[MODEL + cell] = UNKNOWN
        for axis in range(2 * axes):
            r[CENTRE + axis * CELLS + cell] = 0.0
    n[COUNT] = kept


def merge_cells(r, n, axes, into, cell):
    """Merge a cell into another: both are carried to the common centre along the model."""
    runs = r[RUNS + into] + r[RUNS + cell]
    share = r[RUNS + cell] / runs
    one, two = 0.0, 0.0
    for axis in range(axes):
        a, b = CENTRE + axis * CELLS + into, CENTRE + axis * CELLS + cell
        gap = r[b] - r[a]
        step, back = gap * share, gap * (share - 1.0)
        mine, theirs = n[a + axes * CELLS], n[b + axes * CELLS]
        first, bend = slope_of(mine), curvature_of(mine)
        second, other = slope_of(theirs), curvature_of(theirs)
        one += (first + 0.5 * bend * step) * step
        two += (second + 0.5 * other * back) * back
        r[a] += step
        first, second = first + bend * step, second + other * back
        n[a + axes * CELLS] = packed(first + (second - first) * share, bend + (other - bend) * share)
    one, two = min(max(one, -CARRY_MAX), CARRY_MAX), min(max(two, -CARRY_MAX), CARRY_MAX)
    first, second = exp(one), exp(two)
    mean, other = r[MEAN + into] * first, r[MEAN + cell] * second
    gap = other - mean
    scatter = r[SCATTER + into] * first * first + r[SCATTER + cell] * second * second
    r[SCATTER + into] = scatter + gap * gap * r[RUNS + into] * share
    r[MEAN + into] = min(max(mean + gap * share, ELAPSED_MIN_S), ELAPSED_MAX_S)
    r[RUNS + into] = runs
    r[OUTLIER + into] = 0.0
    model, beside = r[MODEL + into] + one, r[MODEL + cell] + two
    if model != model:
        r[MODEL + into] = beside
    elif beside == beside:
        r[MODEL + into] = model + (beside - model) * share
    else:
        r[MODEL + into] = model


def place_of_machine(n, number):
    """Return the place of machine `number`, giving it one: 0 where none is named, the last is shared when all are taken."""
    if number < 0:
        return 0
    for place in range(1, MACHINES_MAX):
        if n[MACHINE + place] < 0:
            n[MACHINE + place] = number
        if n[MACHINE + place] == number:
            return place
    return MACHINES_MAX - 1


def carry_level(r, n, log_ratio, kept):
    """Carry all cells to a new level, t becoming t e**log_ratio, and let them count `kept` runs together at most."""
    factor = exp(log_ratio)
    total = 0.0
    n[MACHINE] = NOWHERE  # what waited was of before
    for cell in range(n[COUNT], CELLS):
        n[KEY + cell] = NOWHERE
    for cell in range(n[COUNT]):
        scale_cell(r, cell, factor)
        r[MODEL + cell] = min(max(r[MODEL + cell] + log_ratio, LN_ELAPSED_MIN), LN_ELAPSED_MAX)
        total += r[RUNS + cell]
    if total > kept:
        fade(r, n, kept / total)


def fade(r, n, keep):
    """Let all cells count the share `keep` of what they did."""
    for cell in range(n[COUNT]):
        r[RUNS + cell] *= keep
        r[SCATTER + cell] *= keep
