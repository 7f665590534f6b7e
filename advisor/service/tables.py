"""The curves of a network's components as tables, made a few at a time, so that others have their turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.domain.curves import TabulatedCurves
from advisor.engine import Advisor
from advisor.service.turns import others_first

SLICE = 1  # components whose tables are made at a time: about 2 ms each where they have support points
AT_ONCE_MAX = 2  # tables that may have to be made for an answer that is given at once


async def tables_of(
    advisor: Advisor,
    boxes: Sequence[str],
    names: Mapping[str, str],
    load: Mapping[str, float],
    cores_max: int,
    level: float,
) -> TabulatedCurves:
    """Return `Advisor.tables_of` of all boxes; rows that come meanwhile are in the later ones.

    Raises UnknownComponent, NotEnoughData, InvalidValue.
    """
    if advisor.tables_missing(boxes, names, load, cores_max=cores_max, level=level) > AT_ONCE_MAX:
        for start in range(0, len(boxes), SLICE):
            part = boxes[start : start + SLICE]
            called = {box: names[box] for box in part if box in names}
            loaded = {box: load[box] for box in part if box in load}
            advisor.tables_of(part, called, loaded, cores_max=cores_max, level=level)
            await others_first()
    return advisor.tables_of(boxes, names, load, cores_max=cores_max, level=level)
