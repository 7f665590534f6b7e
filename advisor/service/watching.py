"""Watches: a watch is `allocate` with the current allocation, asked again as rows come; a change that pays is pushed.

A look costs a plan, made in a worker process. Looks of a watch are spaced by the rows of its network
(`advisor.planning.stability.Schedule`), and take at most a share of the time; a component whose speed was found to have
changed is looked at without that delay. One task takes the looks of all watches, one at a time.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.lowlevel

from advisor.engine import Engine
from advisor.errors import (
    AdvisorError,
    ImpossibleTarget,
    InvalidValue,
    NotEnoughData,
    ServiceError,
    TargetNotReached,
    TooLarge,
    Unavailable,
    UnknownComponent,
)
from advisor.planning.present import in_use_of
from advisor.planning.stability import ChangePolicy, Verdict
from advisor.planning.watches import Look, Schedule, pays
from advisor.protocol.verbs import Watch
from advisor.service import questions
from advisor.service.connection import Connection
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.planner import Planner

WATCHES_MAX = 2_000  # of the service: one a connection at its default limit, and advice for each network
LOOK_COUNTED_S = 1.0  # of a look: a longer one has waited for others, or for a worker process to start
LOOK_SHARE = 0.1  # of the time that looks of one watch may take: after one of a second the next comes 9 seconds later
ROUND_S = 0.05  # between two rounds over all watches: at most so often are their rows counted
SLICE = 32  # watches whose rows are counted at a time, a few microseconds each
WAITS = (UnknownComponent, NotEnoughData, Unavailable)  # a later look may succeed: not reported as a failure
UNMET = (ImpossibleTarget, TargetNotReached)  # rows may show that it can be met


@dataclass(slots=True, eq=False)
class WatchedNetwork:
    """One watch."""

    number: int
    owner: Connection
    params: Watch
    keys: tuple[str, ...]
    components: tuple[str, ...]  # of each key
    present: Any  # what the runtime has; None: nothing was stated or advised yet
    schedule: Schedule = field(default_factory=Schedule)
    again_at: float = 0.0
    looked_at: float = 0.0
    state: dict[str, Any] = field(default_factory=dict[str, Any])  # what the last look found, as it is sent
    failure: str = ""  # the code of the failure that was reported last


@dataclass(eq=False)
class Watching:
    """All watches of a service. One event loop, no locks."""

    engine: Engine
    planner: Planner  # reads networks, makes curves and plans, here or in a worker process
    measures: ServiceMeasures
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._advisor = self.engine.advisor
        self._numbered = 0
        self._watches: dict[int, WatchedNetwork] = {}
        self.engine.followers = self._watches
        self._learned: anyio.Event | None = None  # made by `run`: an event needs its loop

    def __len__(self) -> int:
        return len(self._watches)

    @property
    def components(self) -> set[str]:
        """The components of all watches."""
        return {name for watch in self._watches.values() for name in watch.components}

    # -- verbs

    async def open(self, owner: Connection, params: Watch) -> dict[str, Any]:
        """Begin to watch a network; return the best allocation, as far as enough is known for one.

        Raises NetworkSyntax, InvalidValue, TooLarge, Unsupported, ImpossibleTarget, MissingShares, Unavailable, WorkFailed.
        """
        keys, components = await self._read(params)
        self._refuse_too_many(owner)
        _check_cost(params.change_cost_s, keys)
        if params.current is not None:
            in_use_of("current", params.current, keys)  # refuses what names no allocation
        self._numbered += 1
        watch = self._watches[self._numbered] = WatchedNetwork(
            self._numbered, owner, params, keys, components, params.current
        )  # fmt: skip
        try:
            await self._look(watch)
        except (*WAITS, *UNMET) as error:
            watch.state = _waiting(error)
        except BaseException:
            self._watches.pop(watch.number, None)
            raise
        watch.again_at = 0.0  # the first has waited for a worker process, perhaps
        self.notify()
        return self._reported(watch)

    def apply_current(self, owner: Connection, params: Watch) -> dict[str, Any]:
        """Take in what the runtime has now, where it says so; return what the last look found. Raises InvalidValue."""
        watch = self._find(owner, cast("int", params.watch))
        if params.current is not None:
            in_use_of("current", params.current, watch.keys)
            watch.present = params.current
        return self._reported(watch)

    def close(self, owner: Connection, number: int) -> dict[str, Any]:
        """End a watch; raises InvalidValue."""
        del self._watches[self._find(owner, number).number]
        return {"watch": number}

    def forget_watches(self, owner: Connection) -> None:
        """Forget the watches of a connection that is gone."""
        for watch in [each for each in self._watches.values() if each.owner is owner]:
            del self._watches[watch.number]

    # -- looks

    def notify(self) -> None:
        """Something was learned: see soon which watches are due. Cost O(1)."""
        if self._watches and self._learned is not None:
            self._learned.set()

    async def run(self) -> None:
        """Look until cancelled."""
        self._learned = anyio.Event()
        while True:
            await self._learned.wait()
            self._learned = anyio.Event()
            await self.round()
            await anyio.sleep(ROUND_S)

    async def round(self) -> None:
        """Look again at each watch that is due; those that have to wait for their time are due in a later round."""
        for at, watch in enumerate(list(self._watches.values())):
            if at % SLICE == SLICE - 1:
                await anyio.lowlevel.checkpoint()
            if watch.number not in self._watches or not watch.state:  # ended meanwhile; not answered yet
                continue
            rows, changes = self._learned_of(watch)
            if not watch.schedule.due(rows, changes, len(watch.keys)):
                continue
            rests = self.clock() < watch.again_at and changes == watch.schedule.changes
            if rests or not watch.owner.reads:
                self.notify()
            else:
                await self._look_again(watch)

    async def _look_again(self, watch: WatchedNetwork) -> None:
        try:
            look = await self._look(watch)
        except AdvisorError as error:
            watch.state = _waiting(error)
            if isinstance(error, WAITS):
                return
            if watch.failure != error.code:  # once, until a look succeeds
                watch.failure = error.code
                self._push(watch, "failed", {"error": error.as_dict()})
        except Exception as error:  # a defect of ours must not cost the others their advice
            event(logging.ERROR, "defect in a watch", error=error, watch=watch.number)
        else:
            if look is not None and pays(look[1]):
                self._push(watch, "first" if look[1] is None else "advice", watch.state)

    async def _look(self, watch: WatchedNetwork) -> Look | None:
        """Plan again; None when the runtime has stated another allocation meanwhile. What pays is taken as applied."""
        began, present, before = self.clock(), watch.present, watch.schedule
        watch.schedule = watch.schedule.looked(*self._learned_of(watch))
        asked = watch.params
        policy = ChangePolicy(asked.gain_min, asked.chance, asked.horizon_s)
        found = "failed"
        try:
            network, request = questions.allocation_asked(self._advisor, asked)
            request |= {} if present is None else {"current": present}
            look = await self.planner.reconsider(network, request, asked.change_cost_s, policy, watch.schedule.looks)
            allocation, verdict, values = look
            found = "advice" if pays(verdict) else "nothing"
        except ServiceError:  # it may succeed without another row
            watch.schedule = before
            self.notify()
            raise
        finally:
            took = min(self.clock() - began, LOOK_COUNTED_S)
            watch.again_at = self.clock() + took * (1.0 / LOOK_SHARE - 1.0)
            self.measures.replans[found] += 1
        if watch.present is not present:
            watch.schedule = Schedule()
            return None
        watch.failure = ""
        watch.looked_at = self.clock()
        watch.state = {"allocation": allocation.as_dict(), "waiting": None, **values}
        watch.state |= {} if verdict is None else _judgement(verdict)
        if pays(verdict):
            watch.present = allocation.as_wire()
        return look

    def _push(self, watch: WatchedNetwork, kind: str, found: Mapping[str, Any]) -> None:
        if watch.number in self._watches and not watch.owner.ended:
            self.measures.notifications[kind] += 1
            watch.owner.send_notification({"watch": watch.number, "kind": kind, **found})

    # -- inside

    async def _read(self, params: Watch) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of what is to be watched, and the component of each."""
        network, request = questions.allocation_asked(self._advisor, params)
        read, names = await self.planner.read(network), request.get("components", {})
        return read.keys, tuple(names.get(box, box) for box in read.components)

    def _learned_of(self, watch: WatchedNetwork) -> tuple[int, int]:
        """Return the rows of a watch's components, and how often their speed changed. Cost O(components)."""
        components = self._advisor.components
        known = components.slots.components
        slots = [slot for name in set(watch.components) if name in known for slot in components.kinds(known[name])]
        if not slots:
            return 0, 0
        rows, changes = (int(components.table.int_field(each)[slots].sum()) for each in ("rows", "changes"))
        return rows, changes

    def _reported(self, watch: WatchedNetwork) -> dict[str, Any]:
        objective = watch.params.objective or "throughput"
        rows = watch.schedule.rows
        fresh = {"age_s": self.clock() - watch.looked_at, "rows": rows, "rows_since": self._learned_of(watch)[0] - rows}
        return {
            "watch": watch.number, "components": len(watch.keys), "objective": objective, "fresh": fresh, **watch.state,
        }  # fmt: skip

    def _find(self, owner: Connection, number: int) -> WatchedNetwork:
        watch = self._watches.get(number)
        if watch is None or watch.owner is not owner:
            raise InvalidValue("watch", number, "a watch of this connection", "watches end with their connection")
        return watch

    def _refuse_too_many(self, owner: Connection) -> None:
        if owner.ended:
            raise Unavailable("the connection has ended", field="watch")
        if len(self._watches) >= WATCHES_MAX:
            raise Unavailable("too many watches", field="watch", bound=WATCHES_MAX, hint="unwatch what nobody needs")
        own = sum(watch.owner is owner for watch in self._watches.values())
        if own >= owner.watches_max:
            raise TooLarge("watches of a connection", own + 1, owner.watches_max, "unwatch what is not needed")


def _check_cost(given: Any, keys: Sequence[str]) -> None:
    """Refuse a cost of a key that the network lacks; raises InvalidValue."""
    named: Mapping[str, float] = cast("Any", given) if isinstance(given, Mapping) else {}
    unknown = next((key for key in named if key not in set(keys)), None)
    if unknown is not None:
        raise InvalidValue("change_cost_s", unknown, f"a key of the network: {', '.join(keys[:8])}")


def _waiting(error: AdvisorError) -> dict[str, Any]:
    return {"allocation": None, "waiting": str(error), "error": error.as_dict()}


def _judgement(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict, as it is sent."""
    return {
        "gain": verdict.gain,
        "probability": verdict.probability,
        "cost_s": verdict.cost_s,
        "break_even_s": verdict.break_even_s if math.isfinite(verdict.break_even_s) else None,
        "changed": list(verdict.changed),
        "verdict": verdict.code,
        "why": verdict.text,
    }
