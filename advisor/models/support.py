"""Support points: what a component's rows looked like, in a bounded number of cells of log predictors and log cores.

A row is a point z = (log2 x_1, .., log2 x_d, log2 p) with the value y = log2 t. The space of z is cut into cells of a
lattice; a cell keeps sums of its rows, so it stands for them at their centroid. When more than `POINTS` cells are taken,
the axis that is cut into most pieces is cut half as finely and cells merge: few settings are remembered exactly, many of
them coarsely, in the same space. All forms of `advisor.models.process` are fitted to these points; nothing else of a row is
kept.

A record is one row of `words`: unlike the base table's, one fold touches most of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, ldexp

import numpy as np
from numpy.typing import NDArray

from advisor.models.records import RecordTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A solve costs O(POINTS**3) a form. 64 took 1.5 % off the error on the public table that fills them, and nearly twice the time.
POINTS = 48
AXES_MAX = 5  # four predictors and the cores
SCORES = 64  # latest scores kept, for intervals: at 90 % six of them lie outside
KEY_BITS = 12  # of an axis in a cell's key: five axes and a machine fit 63 bits
FINEST = 5  # cells are 2**-5 wide in log2 at first: 2 %, so that 15 and 16 cores are two cells
LOWEST = -64.0  # below every log2 of a predictor or of cores: keys are positive. 128 / 2**-5 fit KEY_BITS
MACHINES_MAX = 8  # machines a component tells apart: three bits of a key; the last stands for all further ones
RUNS_LEAST = 1e-6  # points that count less than this together are none: their sums would fade into rounding
KEPT_RUNS = (
    8  # what old points count together after a change of level: a shape to lean on, outweighed within a few rows
)


def fields_of(axes: int) -> tuple[tuple[str, int, str, float], ...]:
    """Return (field, words, kind, empty value) of a record over `axes` axes; kinds "f" float64 and "i" int64."""
    return (
        ("component", 1, "i", -1),  # slot in the base table that the record belongs to; -1: free
        ("seen", 1, "i", 0),  # rows since the points began, by which rows are sampled
        ("points", 1, "i", 0),  # cells in use
        ("scores", 1, "i", 0),  # rows predicted before they were learned
        ("covered", 1, "i", 0),  # of them, those within the 90 % interval
        ("pin", 1, "i", 0),  # form that answers: 0 the evidence's choice, else 1 + its place in `process.PINS`
        ("machines", 1, "i", 0),  # machines told apart
        ("error", 1, "f", 0),  # sum |t - prediction| / t over the scored rows
        ("bias", 1, "f", 0),  # sum (prediction - t) / t over them
        ("coarseness", axes, "i", 0),  # an axis' cells are 2**(coarseness - FINEST) wide
        ("machine", MACHINES_MAX, "i", -1),  # numbers of the machines told apart
        ("key", POINTS, "i", -1),  # of a cell: its place on the lattice and its machine
        ("runs", POINTS, "f", 0),
        ("y", POINTS, "f", 0),  # sum of y
        ("yy", POINTS, "f", 0),  # sum of y**2
        ("low", POINTS, "f", np.inf),  # least y
        ("high", POINTS, "f", -np.inf),
        ("z", POINTS * axes, "f", 0),  # sums of z, axis by axis
        # Over all sampled rows: with the cells' own sums they tell how y leans on z inside cells, see `process.points_of`.
        ("zz", axes * (axes + 1) // 2, "f", 0),  # sums of z_i z_j, i <= j, row by row of the triangle
        ("zy", axes, "f", 0),  # sums of z_i y
        ("score", SCORES, "f", 0),  # the latest scores (y - prediction) / sd, a ring by `scores`
    )


class SupportTable(RecordTable):
    """Records of `size` components over the same number of axes."""

    __slots__ = ("axes",)

    def __init__(self, axes: int, size: int = 0) -> None:
        self.axes = axes
        super().__init__(fields_of(axes), f"support-1-{axes}", size)


def keys_of(z: Floats, coarseness: Ints, machine: Ints) -> Ints:
    """Return the cells (n,) of points z (n, axes) on lattices of the given coarseness (n, axes), for machines (n,)."""
    place = np.floor(np.ldexp(z - LOWEST, (FINEST - coarseness).astype(np.int32))).astype(np.int64)
    key = machine.copy()
    for axis in range(z.shape[1]):
        key = (key << KEY_BITS) | place[:, axis]
    return key


def key_of(z: Sequence[float], coarseness: Sequence[int], machine: int) -> int:
    """Return what `keys_of` gives for one point, in plain numbers."""
    key = machine
    for value, by in zip(z, coarseness, strict=True):
        key = (key << KEY_BITS) | floor(ldexp(value - LOWEST, FINEST - by))
    return key


def add_row(table: SupportTable, slot: int, z: Sequence[float], y: float, count: float, machine: int) -> None:
    """Add one row to its cell; a cell that is new may make all of them coarser. Cost O(POINTS)."""
    record, at = table.words[slot], table.at
    whole = record.view(np.int64)
    keys = whole[at["key"]].tolist()
    coarseness = whole[at["coarseness"]].tolist()
    while (key := key_of(z, coarseness, machine)) not in keys:
        used = int(whole[at["points"].start])
        if used < POINTS:
            whole[at["key"].start + used] = keys[used] = key
            whole[at["points"].start] = used + 1
            break
        coarsen(table, slot)
        keys = whole[at["key"]].tolist()
        coarseness = whole[at["coarseness"]].tolist()
    cell = keys.index(key)
    weighted = count * y
    record[at["runs"].start + cell] += count
    record[at["y"].start + cell] += weighted
    record[at["yy"].start + cell] += weighted * y
    for axis, value in enumerate(z):
        record[at["z"].start + POINTS * axis + cell] += count * value
    pair = at["zz"].start
    for axis, value in enumerate(z):
        weighted = count * value
        record[at["zy"].start + axis] += weighted * y
        for other in z[axis:]:
            record[pair] += weighted * other
            pair += 1
    low, high = at["low"].start + cell, at["high"].start + cell
    record[low] = min(record[low], y)
    record[high] = max(record[high], y)


def coarsen(table: SupportTable, slot: int) -> None:
    """Cut the axis that is cut into most pieces half as finely, and merge the cells that become one. Cost O(POINTS).

    Sums are added in the order of the cells, so that the bytes do not depend on how rows were batched.
    """
    axes, used = table.axes, int(table.count("points")[slot])
    keys = table.integers("key")[slot]
    shifts = [KEY_BITS * (axes - 1 - axis) for axis in range(axes)]
    mask = (1 << KEY_BITS) - 1
    pieces = [len(set(((keys[:used] >> shift) & mask).tolist())) for shift in shifts]
    axis = int(np.argmax(pieces))
    table.integers("coarseness")[slot, axis] += 1
    place = (keys[:used] >> shifts[axis]) & mask
    keys[:used] += ((place >> 1) - place) << shifts[axis]
    _merge_equal(table, slot)


def _merge_equal(table: SupportTable, slot: int) -> None:
    used = int(table.count("points")[slot])
    keys = table.integers("key")[slot]
    into: dict[int, int] = {}
    home = np.array([into.setdefault(key, len(into)) for key in keys[:used].tolist()], np.int64)
    left = len(into)
    _, first = np.unique(home, return_index=True)
    keys[:left] = keys[:used][first]
    keys[left:used] = -1
    z = table.floats("z")[slot].reshape(table.axes, POINTS)
    for sums in (table.floats("runs")[slot], table.floats("y")[slot], table.floats("yy")[slot], *z):
        merged = np.zeros(POINTS)
        np.add.at(merged, home, sums[:used])
        sums[:] = merged
    for field, keep, empty in (("low", np.minimum, np.inf), ("high", np.maximum, -np.inf)):
        values = table.floats(field)[slot]
        merged = np.full(POINTS, empty)
        keep.at(merged, home, values[:used])
        values[:] = merged
    table.count("points")[slot] = left


def shift_level(table: SupportTable, slot: int, log2_ratio: float) -> None:
    """Carry the points of a component to a new level, t becoming t * 2**log2_ratio, and let them count `KEPT_RUNS` together.

    The shape that was learned stays as long as nothing speaks against it; the next rows are all sampled.
    """
    runs, y, yy = (table.floats(field)[slot] for field in ("runs", "y", "yy"))
    table.floats("zy")[slot] += log2_ratio * table.floats("z")[slot].reshape(table.axes, POINTS).sum(axis=1)
    yy += log2_ratio * (2.0 * y + log2_ratio * runs)
    y += log2_ratio * runs
    table.floats("low")[slot] += log2_ratio
    table.floats("high")[slot] += log2_ratio
    total = float(runs.sum())
    if total > KEPT_RUNS:
        _weigh(table, slot, KEPT_RUNS / total)
    table.count("seen")[slot] = 0
    table.changed[slot] = True


def forget(table: SupportTable, slot: int, keep: float) -> None:
    """Keep the share `keep` of what was learned; at 0 the record begins anew, but for its pin."""
    if keep > 0.0:
        _weigh(table, slot, keep)
        table.count("seen")[slot] = 0
    else:
        _empty(table, slot)
    table.changed[slot] = True


def _empty(table: SupportTable, slot: int) -> None:
    kept = {field: int(table.count(field)[slot]) for field in ("component", "pin")}
    table.words[slot] = table.empty_record()
    for field, value in kept.items():
        table.count(field)[slot] = value


def _weigh(table: SupportTable, slot: int, share: float) -> None:
    if float(table.floats("runs")[slot].sum()) * share < RUNS_LEAST:
        _empty(table, slot)
        return
    for field in ("runs", "y", "yy", "z", "zz", "zy"):
        table.floats(field)[slot] *= share


def merge(table: SupportTable, slot: int, other: SupportTable, there: int) -> None:
    """Add the points of another table's record: exact where both lattices are equally fine, else to the coarser one's cells.

    Scores and pins stay this table's; a record that has none takes the other's.
    """
    if not int(table.count("points")[slot]):
        component, pin = (int(table.count(field)[slot]) for field in ("component", "pin"))
        table.words[slot] = other.words[there]
        table.count("component")[slot] = component
        table.count("pin")[slot] = pin or int(other.count("pin")[there])
        table.changed[slot] = True
        return
    axes = table.axes
    target = np.maximum(table.integers("coarseness")[slot], other.integers("coarseness")[there])
    _coarsen_to(table, slot, target)
    used = int(other.count("points")[there])
    sums = {field: other.floats(field)[there][:used] for field in ("runs", "y", "yy", "low", "high")}
    z = other.floats("z")[there].reshape(axes, POINTS)[:, :used]
    for field in ("zz", "zy"):
        table.floats(field)[slot] += other.floats(field)[there]
    machines = _machines_met(table, slot, other, there, used)
    for point in range(used):
        centre = (z[:, point] / sums["runs"][point])[None]
        _add_point(
            table, slot, centre, {k: float(v[point]) for k, v in sums.items()}, z[:, point], int(machines[point])
        )
    table.count("seen")[slot] += other.count("seen")[there]
    table.changed[slot] = True


def _coarsen_to(table: SupportTable, slot: int, target: Ints) -> None:
    axes = table.axes
    keys = table.integers("key")[slot]
    used = int(table.count("points")[slot])
    mask = (1 << KEY_BITS) - 1
    for axis in range(axes):
        by = int(target[axis] - table.integers("coarseness")[slot, axis])
        shift = KEY_BITS * (axes - 1 - axis)
        place = (keys[:used] >> shift) & mask
        keys[:used] += ((place >> by) - place) << shift
    table.integers("coarseness")[slot] = target
    _merge_equal(table, slot)


def _machines_met(table: SupportTable, slot: int, other: SupportTable, there: int, used: int) -> Ints:
    """Return this record's numbers for the machines of the other's points."""
    index = other.integers("key")[there][:used] >> (KEY_BITS * table.axes)
    known = other.integers("machine")[there]
    return np.array([0 if i == 0 else machine_index(table, slot, int(known[i])) for i in index.tolist()], np.int64)


def machine_index(table: SupportTable, slot: int, number: int) -> int:
    """Return the place of machine `number` in a record, 1 .. MACHINES_MAX - 1, giving it one; the last is shared when full."""
    row = table.integers("machine")[slot]
    used = int(table.count("machines")[slot])
    for place in range(1, used + 1):
        if row[place] == number:
            return place
    if used + 1 < MACHINES_MAX:
        row[used + 1] = number
        table.count("machines")[slot] = used + 1
        return used + 1
    return MACHINES_MAX - 1


def _add_point(
    table: SupportTable, slot: int, centre: Floats, sums: Mapping[str, float], z: Floats, machine: int
) -> None:
    while True:
        key = int(keys_of(centre, table.integers("coarseness")[slot][None], np.array([machine], np.int64))[0])
        used = int(table.count("points")[slot])
        keys = table.integers("key")[slot]
        at = np.flatnonzero(keys[:used] == key)
        if len(at):
            place = int(at[0])
            break
        if used < POINTS:
            place = used
            keys[place] = key
            table.count("points")[slot] += 1
            break
        coarsen(table, slot)
    for field in ("runs", "y", "yy"):
        table.floats(field)[slot, place] += sums[field]
    table.floats("low")[slot, place] = min(table.floats("low")[slot, place], sums["low"])
    table.floats("high")[slot, place] = max(table.floats("high")[slot, place], sums["high"])
    table.floats("z")[slot].reshape(table.axes, POINTS)[:, place] += z
