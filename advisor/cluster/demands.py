"""What plans need of components of many shards: their curves by cores, and nothing else of what was learned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from advisor.cluster.copies import Copies
from advisor.cluster.fleet import Fleet
from advisor.domain.curves import Demands, TabulatedCurves
from advisor.engine.kept import Kept

PLANS_KEPT = 256  # whose curves are kept: some 1.5 KB a component


class _Known(NamedTuple):
    """Curves of boxes, when their shards were asked, and how many rows of each box's component were acknowledged then."""

    demands: Demands
    asked: Mapping[str, tuple[float, int]]


class Gathered:
    """Curves from the shards, as `advisor.service.tables.tables_of` makes them of one advisor; kept as long as copies are."""

    def __init__(self, fleet: Fleet, copies: Copies, clock: Callable[[], float] = time.monotonic) -> None:
        self._fleet, self._copies, self._clock = fleet, copies, clock
        self._kept = Kept[_Known](PLANS_KEPT)
        self.asked = 0  # boxes that shards were asked for

    def drop(self) -> None:
        """Ask again for whatever is wanted next."""
        self._kept.drop()

    async def tables_of(
        self, boxes: Sequence[str], names: Mapping[str, str], load: Mapping[str, float], cores_max: int, level: float
    ) -> TabulatedCurves:
        """Return the table of each box, see `Advisor.tables_of`; raises as that. One question to each shard that has some.

        A box whose component has more rows acknowledged than a copy may lack is asked for again, the others are not.
        """
        copies, now = self._copies, self._clock()
        key = tuple(boxes), tuple(names.items()), tuple(load.items()), cores_max, level, copies.era
        known = self._kept.get(key)
        asked = dict(known.asked) if known is not None else {}
        due: dict[int, list[str]] = {}
        for box in dict.fromkeys(boxes):
            component = names.get(box, box)
            acknowledged = copies.acknowledged(component)
            taken, seen = asked.get(box, (now, -1))
            if seen < 0 or copies.stale(acknowledged - seen, now - taken):
                due.setdefault(self._fleet.layout.shard_of(component), []).append(box)
                asked[box] = now, acknowledged
        if not due and known is not None:
            return known.demands.of(boxes)

        async def one(shard: int) -> Demands:
            own = due[shard]
            called = {box: names[box] for box in own if box in names}
            loaded = {box: load[box] for box in own if box in load}
            lane = self._fleet.lanes[shard]
            return Demands(tuple(own), await lane.ask("tables", own, called, loaded, cores_max, level))

        found: list[Demands] = list(await asyncio.gather(*map(one, due)))
        self.asked += sum(map(len, due.values()))
        again = {box for own in due.values() for box in own}
        if known is not None and (kept := [box for box in known.demands.names if box not in again]):
            found.append(Demands(tuple(kept), known.demands.of(kept)))
        whole, *others = found
        for other in others:
            whole = whole.and_also(other)
        self._kept.put(key, _Known(whole, asked))
        return whole.of(boxes)
