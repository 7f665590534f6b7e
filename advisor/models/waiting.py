"""Rows far from all that is known: cells that wait, behind those in use, for runs that agree with them. Kernels."""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from advisor.models.cells import *
from advisor.models.learner_layout import *
from advisor.models.posterior import predict
from advisor.models.process import SHARE, refresh


def accepts_far_run(r, n, axes, z, t, count, machine, solution, scratch, out):
    """Return whether a run far from all that is known may be learned: else it waits for others that agree with it.

    It may where it lies within what the model holds likely there, one sd (`BELIEVED`) and a factor of ten: it then moves what
    is known well by no more than as many sd of that, for |cov(f, g)| <= sd(f) sd(g). Else it waits for `AGREEING` runs, and
    where it is off by a factor of ten for `AGREEING_OUTLIER`; or, where such rows stand at ever new places, for as much to be
    owed as these are: `OWED_MOST`.
    """
    if n[COUNT] < OUTLIER_CELLS:
        return True
    frame, points, root, alpha = solution
    refresh(r, n, axes, solution, scratch)
    predict(frame, points, root, alpha, r[SHARE : SHARE + LANES], scratch, z, machine, True, out)
    off, variance = ln(t) - out[0], out[1] + r[RELATIVE] + r[ABSOLUTE] / (t * t)
    likely = abs(off) <= TENFOLD
    if likely and off * off <= BELIEVED * variance:
        return True
    beside = find_waiting(r, n, axes, z, t, machine)
    if beside != NOWHERE and freedom_of(r, n, beside) + 2.0 >= (AGREEING if likely else AGREEING_OUTLIER):
        accept_waiting(r, n, axes, beside)
        return True
    if NOWHERE - n[MACHINE] >= OWED_MOST - OWED:
        return True
    n[MACHINE] -= OWED
    if beside == NOWHERE:
        quarantine_run(r, n, axes, z, t, count, machine)
    else:
        add_to_waiting(r, axes, beside, z, t, count)
    return False


def find_waiting(r, n, axes, z, t, machine):
    """Return the cell that waits near z, of the same machine, for a run of time t to agree with it; NOWHERE: there is none."""
    for cell in range(max(n[COUNT], CELLS - WAITING), CELLS):
        if n[KEY + cell] == NOWHERE or n[KEY + cell] >> (key_bits(axes) * axes) != machine:
            continue
        distance = 0.0
        for axis in range(axes):
            step = z[axis] - r[CENTRE + axis * CELLS + cell]
            distance += step * step
        off = ln(t / r[MEAN + cell]) - rise(r, n, axes, cell, z)
        law = r[RELATIVE] + r[ABSOLUTE] / (t * t)
        if distance < NEAR_BY * NEAR_BY and off * off <= AGREED * law + SLOPE_SD * SLOPE_SD * distance:
            return cell
    return NOWHERE


def quarantine_run(r, n, axes, z, t, count, machine):
    """Put a run's cell behind those in use, the latest last; the first of `WAITING` gives way.

    Where all are in use the latest of one run that no choice of settings has seen gives way: cells that are
    known well are not merged for what may be an outlier.
    """
    while n[COUNT] == CELLS:
        unseen = CELLS - 1
        while unseen >= 0 and (r[MODEL + unseen] == r[MODEL + unseen] or freedom_of(r, n, unseen) > 0.0):
            unseen -= 1
        if unseen >= 0:
            close_gap(r, n, axes, unseen)
            n[COUNT] -= 1
        else:
            coarsen(r, n, axes)
    for cell in range(max(n[COUNT], CELLS - WAITING), CELLS - 1):
        move_cell(r, n, axes, cell + 1, cell)
    place_cell(r, n, axes, CELLS - 1, key_of(n, axes, z, machine), z, t, count, machine)


def add_to_waiting(r, axes, cell, z, t, count):
    """Add a run to a cell that waits."""
    r[RUNS + cell] += count
    share, step = count / r[RUNS + cell], t - r[MEAN + cell]
    r[MEAN + cell] += step * share
    r[SCATTER + cell] += count * step * (t - r[MEAN + cell])
    for axis in range(axes):
        r[CENTRE + axis * CELLS + cell] += (z[axis] - r[CENTRE + axis * CELLS + cell]) * share


def accept_waiting(r, n, axes, cell):
    """Take a cell that waits among those in use: in the place of none, or merged where its place is taken."""
    into = n[COUNT]
    if into != cell:
        move_cell(r, n, axes, cell, into)
        close_gap(r, n, axes, cell)
    n[COUNT] = into + 1
    rebuild_cells(r, n, axes)
