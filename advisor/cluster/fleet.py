"""All shards of a state: who serves which, what they have acknowledged, and how buckets move between them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from advisor.cluster.lanes import Answer, Gone, Handle, Lane, NoPlace, ShardCall
from advisor.cluster.layout import Layout, Move, bucket_of_producer, moves
from advisor.cluster.objects import beside, objects_at
from advisor.cluster.routing import Piece, Router, joined
from advisor.cluster.spares import Runtime, Spares, no_place
from advisor.domain.limits import SHARDS_MAX
from advisor.domain.task_events import TaskEvents
from advisor.engine.events import Profiled
from advisor.engine.exactly_once import Producer
from advisor.errors import InvalidValue, from_dict
from advisor.service.logs import event

Work = dict[int, tuple[Any, ...]]  # events by shard
Works = Sequence[Work]  # one after the other
PLACE_S = 9.0  # that a process may take to start: whoever waits for more of them is refused within 10 s
START_S = 60.0  # as above, when nothing serves yet: all start at once, on a machine that is just beginning
CLOSE_S = 5.0  # that shards are waited for at the end: a process that is gone half may never answer


class Fleet:
    """The shards.

    `places`: where shards are kept, each below each of these: a folder, and of each copy another one or the URL of a store.
    `shards`: how many a new state has. `limits`: as `Engine` takes them, of each shard. `spares`: processes that are kept
    ready.
    """

    def __init__(
        self, runtime: Runtime, places: Sequence[str], shards: int, limits: Mapping[str, Any], spares: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._places, self._objects = places, [objects_at(place) for place in places]
        self._limits = dict(limits)
        self._spares = Spares(runtime, spares)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._session = uuid.uuid4().hex
        self._clock = clock
        self._held: deque[Callable[[], None]] | None = None  # while buckets move: what is to be sent then
        self._moving = asyncio.Lock()
        self._unnumbered = asyncio.Lock()  # task events without a number: what ends in them depends on those before
        self.layout = Layout.load(self._objects) or Layout.even(shards)
        self.router = Router(self.layout)
        self.lanes: list[Lane] = []
        self.durable: dict[Producer, int] = {}  # the number that every shard has committed
        # whose last batch some shards have, and others lack: until it comes again, buckets do not move
        self.uneven: set[Producer] = set()
        self.moves_done, self.moves_left = 0, 0
        self.moved_bytes = 0
        self.pauses: deque[float] = deque(maxlen=1024)  # seconds that rows have waited for each move
        self.rejoins: Callable[[], object] = lambda: None  # called before lanes count anew

    # -- start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open all shards, finish what a front was killed in, and learn what was acknowledged.

        Raises AdvisorError when a shard cannot be opened, or has no place.
        """
        self._spares.refuse_beyond_places(self.layout.shards)
        left = dict[int, Handle]()
        for handle, number in await self._runtime.found():
            if number is not None and number < self.layout.shards and number not in left:
                left[number] = handle
            else:
                handle.kill()
        self._spares.start(self.layout.shards - len(left))
        self.lanes = [Lane(number, self, self._clock) for number in range(self.layout.shards)]
        joined_now = await asyncio.gather(*(self._begin(lane, left.get(lane.number)) for lane in self.lanes))
        await self._settle_moves()
        if not self.layout.begun:
            await self._save(self.layout.after(begun=True))
            await self._rejoin()
        numbers = [told["producers"] for told in joined_now]
        for key in dict.fromkeys(key for each in numbers for key in each):
            known = [each.get(key, 0) for each in numbers]
            self.durable[key] = min(known)
            if min(known) != max(known):
                self.uneven.add(key)

    async def _begin(self, lane: Lane, left: Handle | None) -> Answer:
        try:
            lane.handle = left or await self.open(lane.number, 0, within_s=START_S)
        except NoPlace as error:
            raise no_place(self.layout.shards, error) from None
        told = await lane.join(self.layout.version, self._session, self.router.numbered[lane.number])
        lane.told, lane.level = told, told["level"]
        for what in told["mended"]:
            event(logging.WARNING, "a shard's state was mended", shard=lane.number, mended=what)
        self._run(lane.run())
        return told

    def _run(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """End all processes; what was acknowledged is kept."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._spares.stop(), *self._tasks, return_exceptions=True)
        handles = [lane.handle for lane in self.lanes if lane.handle is not None]
        closing = asyncio.gather(*(handle.call("close") for handle in handles), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closing, CLOSE_S)
        await self._runtime.stop()

    # -- processes --------------------------------------------------------------------------------------------------------

    async def open(self, number: int, least: int, *, anew: bool = False, within_s: float = PLACE_S) -> Handle:
        """Return a process that has opened the state of a shard: a spare, in whose place another one is started.

        Raises NoPlace where none has started within so many seconds, Gone where it has ended.

        `anew`: what stands in its places is of a shard that is no more.
        """
        handle = await self._spares.take(within_s)
        places = [beside(place, f"shard-{number}") for place in self._places]
        least = max(least, 1) if self.layout.begun and number < self.layout.shards else least
        try:
            await handle.call("open", number, places, self._limits, least, anew)
        except BaseException:
            handle.kill()
            raise
        return handle

    # -- rows -------------------------------------------------------------------------------------------------------------

    @property
    def rows_waiting(self) -> int:
        """Rows that are not acknowledged."""
        return sum(lane.rows for lane in self.lanes)

    @property
    def age_s(self) -> float:
        """Seconds that the oldest item has waited."""
        return max((lane.age_s for lane in self.lanes), default=0.0)

    def _whenever(self, work: Callable[[], None]) -> None:
        """Do it now, or when the buckets that move have moved."""
        if self._held is None:
            work()
        else:
            self._held.append(work)

    def send(self, key: Producer | None, sequence: int | None, columns: Any, done: Callable[[Answer], object]) -> None:
        """Have a batch applied by the shards of its rows, and its number taken by all; `done` has the answer once all have."""
        self._whenever(lambda: self._send(key, sequence, columns, done))

    def _send(self, key: Producer | None, sequence: int | None, columns: Any, done: Callable[[Answer], object]) -> None:
        pieces = self.router.split(columns)
        there = range(len(self.lanes)) if key is not None else sorted(pieces)
        answers: list[tuple[Answer, Any]] = []
        left = len(there)

        def one(piece: Piece, answer: Answer) -> None:
            nonlocal left
            left -= 1
            answers.append((answer, piece.rows))
            if not left:
                self._acknowledge(key, sequence)
                wrong = [each["error"] for each, _ in answers if "error" in each]
                done({"error": wrong[0]} if wrong else joined(answers, sequence))

        if not left:
            done(joined([], sequence))
        for number in there:
            piece = pieces.get(number, Piece(()))
            rows = max((len(each) for each in piece.events), default=0)
            self.lanes[number].put(
                ShardCall(key, sequence, piece.events, rows, lambda answer, piece=piece: one(piece, answer))
            )

    async def apply(self, bucket: int, key: Producer | None, sequence: int | None, what: Any) -> Answer:
        """Have an event happen at the shard of a bucket, and then its number taken by the others; raises what is wrong with it.

        An error takes no number anywhere. Nothing else of the producer may be sent meanwhile.
        """
        return await self._in_turn(key, sequence, bucket, lambda home: ({home: (what,)}, self._others(key, home)))

    def _others(self, key: Producer | None, home: int) -> Work:
        return {} if key is None else {lane.number: () for lane in self.lanes if lane.number != home}

    async def fold_events(self, key: Producer | None, sequence: int | None, events: TaskEvents) -> Answer:
        """Have task events folded into the profile of their producer's run, and what ended learned where its types are.

        The shards of the types come first: what ended follows from the profile and the batch alone, so a batch that was
        cut off gives the same again, and the profile's shard takes the number last. Otherwise as `apply`.
        """

        def works(home: int) -> Works:
            of = dict[int, set[str]]()
            for name in () if ended is None else ended.types:
                of.setdefault(self.layout.shard_of(name), set()).add(name)
            learned: Work = {} if ended is None else {number: (ended.of(types),) for number, types in of.items()}
            own = Profiled(events), *learned.pop(home, ())
            return self._others(key, home) | learned, {home: own}

        async with self._unnumbered if key is None else contextlib.nullcontext():
            bucket = bucket_of_producer("" if key is None else key[0])
            ended = await self.lanes[self.layout.owner[bucket]].ask("foretold", key, sequence, events)
            return await self._in_turn(key, sequence, bucket, works)

    async def _in_turn(
        self, key: Producer | None, sequence: int | None, bucket: int, works: Callable[[int], Works]
    ) -> Answer:  # fmt: skip
        """Have events happen at some shards, then at others; return the answer of that of a bucket; raises what is wrong."""
        told: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def end(answer: Answer) -> None:
            if "error" not in answer:
                self._acknowledge(key, sequence)
            if not told.done():  # nobody waits any more
                told.set_result(answer)

        def begin(answer: Answer, left: Works) -> None:
            if not left:
                end(answer)
                return
            now, *later = left
            answers: dict[int, Answer] = {}

            def one(number: int, found: Answer) -> None:
                answers[number] = found
                if len(answers) == len(now):
                    wrong = next((each for each in answers.values() if "error" in each), None)
                    end(wrong) if wrong else begin(answers.get(self.layout.owner[bucket], answer), later)

            for number, events in now.items():
                self.lanes[number].put(ShardCall(key, sequence, events, len(events), partial(one, number)))
            if not now:
                begin(answer, later)

        self._whenever(lambda: begin({}, works(self.layout.owner[bucket])))
        answer = await told
        if "error" in answer:
            raise from_dict(answer["error"])
        return answer

    def tell(self, what: str, key: Producer, number: int | None = None) -> None:
        """Have every shard forget a producer (``evict``), or go on from a number (``resume``)."""
        if what == "evict":
            self.durable.pop(key, None)
            self.uneven.discard(key)

        def begin() -> None:
            for lane in self.lanes:
                lane.put(ShardCall(key, number, (what,), 0, lambda _: None))
            if number is not None:
                self.durable[key] = max(number, self.durable.get(key, 0))

        self._whenever(begin)

    def _acknowledge(self, key: Producer | None, sequence: int | None) -> None:
        if key is not None and sequence is not None:
            self.durable[key] = max(sequence, self.durable.get(key, 0))
            self.uneven.discard(key)

    # -- questions --------------------------------------------------------------------------------------------------------

    async def part(
        self, names: Collection[str], networks: Collection[str] = (), programs: Collection[str] = ()
    ) -> list[bytes]:
        """Return what the shards know of them, see `Engine.part`."""
        wanted: dict[int, tuple[list[str], list[str], list[str]]] = {}
        for kind, some in enumerate((names, networks, programs)):
            for name in some:
                wanted.setdefault(self.layout.shard_of(name), ([], [], []))[kind].append(name)

        async def one(number: int) -> bytes:
            lane = self.lanes[number]
            found, lane.told = await lane.ask("part", *wanted[number])
            return found

        return list(await asyncio.gather(*map(one, sorted(wanted))))

    async def each(self, method: str, *args: Any) -> list[Any]:
        """Return the answers of all shards, in their order."""
        return list(await asyncio.gather(*(lane.ask(method, *args) for lane in self.lanes)))

    def lane_of(self, name: str) -> Lane:
        """Return the lane to the shard of a name; raises InvalidValue."""
        return self.lanes[self.layout.shard_of(name)]

    def lane_of_producer(self, name: str) -> Lane:
        """Return the lane to the shard that has the profiles of a producer's runs; raises InvalidValue."""
        return self.lanes[self.layout.owner[bucket_of_producer(name)]]

    def totals(self) -> Counter[str]:
        """Return the exact counters of all shards together, lost ones included, as they last reported them."""
        found = Counter(self.layout.retired)
        for lane in self.lanes:
            found.update(lane.told.get("totals", {}))
        return found

    def of_all(self, key: str) -> int:
        """Return the sum of what the shards have reported."""
        return sum(lane.told.get(key, 0) for lane in self.lanes)

    # -- moves ------------------------------------------------------------------------------------------------------------

    async def scale(self, shards: int) -> Answer:
        """Have so many shards, rows coming and going meanwhile; return what has moved.

        Raises InvalidValue; Unavailable where a new shard has no place: then nothing has changed.
        """
        if not 1 <= shards <= SHARDS_MAX:
            raise InvalidValue("shards", shards, f"from 1 to {SHARDS_MAX}")
        async with self._moving:
            before = self.moved_bytes
            if shards > len(self.lanes):
                new = await self._begun(shards)
                await self._quietly(lambda: self._grow(new))
            due = moves(self.layout.owner, shards)
            self.moves_left = len(due)
            for move in due:
                await self._quietly(lambda move=move: self._move(move))
                self.moves_left -= 1
                self.moves_done += 1
            if shards < len(self.lanes):
                await self._quietly(lambda: self._shrink(shards))
            return {"shards": shards, "moves": len(due), "bytes": self.moved_bytes - before}

    async def _quietly(self, work: Callable[[], Any]) -> None:
        """Do work when all shards have all that was sent, and the same numbers; what comes meanwhile waits."""
        while True:
            self._held = deque()
            began = self._clock()
            while busy := [lane for lane in self.lanes if not lane.idle.is_set()]:
                await busy[0].idle.wait()
            try:
                if not self.uneven:
                    await work()
                    return
            finally:
                self.pauses.append(self._clock() - began)
                held, self._held = self._held, None
                for each in held:
                    each()
            await asyncio.sleep(0.05)  # until whose batch was cut off has sent it again

    async def _rejoin(self) -> None:
        """Begin the layout that was saved, at every shard."""
        self.rejoins()
        self.router = Router(self.layout)
        await asyncio.gather(*(
            lane.join(self.layout.version, self._session, self.router.numbered[lane.number]) for lane in self.lanes
        ))  # fmt: skip

    async def _save(self, layout: Layout) -> None:
        await asyncio.to_thread(layout.save, self._objects)
        self.layout = layout

    async def _begun(self, shards: int) -> list[Lane]:
        """Return the lanes of new shards, whose processes have opened empty states, while rows come and go."""
        self._spares.refuse_beyond_places(shards)
        new = [Lane(number, self, self._clock) for number in range(len(self.lanes), shards)]
        self._spares.start(len(new))
        try:
            for lane in new:
                while lane.handle is None:
                    try:
                        lane.handle = await self.open(lane.number, 0, anew=True)
                    except NoPlace as error:
                        raise no_place(shards, error) from None
                    except Gone:  # while it opened: what it left is put away by the next one
                        continue
        except BaseException:
            for lane in new:
                if lane.handle is not None:
                    lane.handle.kill()
            raise
        finally:
            self._spares.want_no_more()
        return new

    async def _grow(self, new: list[Lane]) -> None:
        for lane in new:
            empty = await lane.ask("receive", None, self.durable)
            lane.told, lane.level = empty, empty["level"]
            self._run(lane.run())
        await self._save(self.layout.after(shards=len(self.lanes) + len(new)))
        self.lanes += new
        await self._rejoin()

    async def _shrink(self, shards: int) -> None:
        gone, self.lanes = self.lanes[shards:], self.lanes[:shards]
        counted = Counter(self.layout.retired)
        for lane in gone:
            counted.update((await lane.ask("told"))["totals"])
        await self._save(self.layout.after(shards=shards, retired=dict(counted)))
        await self._rejoin()
        for lane in gone:
            if lane.handle is not None:
                lane.handle.kill()

    async def _move(self, move: Move) -> None:
        source, target = self.lanes[move.source], self.lanes[move.target]
        await self._save(self.layout.after(moving=move))
        part: bytes = await source.ask("give", move.buckets)
        self.moved_bytes += len(part)
        target.told = await target.ask("receive", part, {})
        target.level = target.told["level"]
        await self._save(self.layout.moved(move))
        source.told = await source.ask("let_go", move.buckets)
        source.level = source.told["level"]
        await self._save(replace(self.layout.after(), leaving=None))
        await self._rejoin()

    async def _settle_moves(self) -> None:
        """Finish, or undo, the move that a front was killed in."""
        move, left = self.layout.moving, self.layout.leaving
        if move is not None:
            await self.lanes[move.target].ask("let_go", move.buckets)
            await self._save(self.layout.after(moving=None))
        if left is not None:
            await self.lanes[left.source].ask("let_go", left.buckets)
            await self._save(self.layout.after(leaving=None))
        if move or left:
            await self._rejoin()
