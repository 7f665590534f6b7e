"""All shards of a state: which process serves which, what they have acknowledged, and how buckets move between them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from advisor.cluster.connections import PLACE_S, START_S, Answer, Gone, Handle, ShardConnection
from advisor.cluster.gate import Gate
from advisor.cluster.layout import Layout, Move, moves
from advisor.cluster.routing import BatchPart, joined, split_by_shard
from advisor.cluster.shard import EVICTED
from advisor.domain.limits import SHARDS_MAX
from advisor.engine.exactly_once import Producer
from advisor.errors import InvalidValue, StateLocked, Unavailable, from_dict

CLOSE_S = 5.0  # that shards are waited for at the end: a process that is half gone may never answer
UNEVEN_LOOK_S = 0.05
NAMES_A_CALL = 32  # components fetched at a time: some 2 ms of the front, before others have their turn
LOCKED_LOOK_S = 0.05  # until a process that is being killed lets go of the state
OPENINGS_MAX = (
    3  # of a new shard whose process ends meanwhile: one may be killed by chance, several in a row have a reason
)


class Runtime(Protocol):
    """What runs the processes of shards. They end with it, and with the front's process, however that ends."""

    async def start(self) -> None:
        """Be ready to start them. Raises Unavailable."""
        ...

    async def spawn(self) -> Handle:
        """Start a process; return when it is ready to open a shard. Cancelled, it leaves none."""
        ...

    def places(self) -> int | None:
        """Return for how many processes there is room where nothing else runs; None: for any number."""
        ...

    async def stop(self) -> None:
        """End all processes."""
        ...


class ShardSet:
    """The shards below a folder.

    `shards`: how many a new state has. `limits`: as `Engine` takes them, of each shard.
    """

    def __init__(
        self, runtime: Runtime, folder: Path, shards: int, limits: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._runtime, self._folder, self._limits, self._clock = runtime, folder, dict(limits), clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.layout = Layout.load(folder) or Layout.even(shards)
        self.shards: list[ShardConnection] = []
        self.durable: dict[Producer, int] = {}  # the number that every shard has committed
        # producers whose last batch some shards have, and others lack: until it comes again, buckets do not move
        self.uneven: set[Producer] = set()
        self.moves_left = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._gate = Gate()
        self._moving = asyncio.Lock()

    # -- start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open all shards, and learn what was acknowledged.

        Raises AdvisorError when a shard cannot be opened, or has no place.
        """
        new = not self.layout.version
        if new:
            self.layout.save(self._folder)
        self.shards = await self._open_all(range(self.layout.shards), "any" if new else "required", START_S)
        if new:
            self._save(self.layout.after())
        await asyncio.gather(*map(self._keep_own, range(len(self.shards))))  # a move may have been cut off
        numbers: list[dict[Producer, int]] = await self.each("producers")
        for key in dict.fromkeys(key for each in numbers for key in each):
            known = [each.get(key, 0) for each in numbers]
            self.durable[key] = min(known)
            if min(known) != max(known):
                self.uneven.add(key)
        for shard in self.shards:
            self._run(shard)

    def _run(self, shard: ShardConnection) -> None:
        task = asyncio.get_running_loop().create_task(shard.send_items())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End all processes; what was acknowledged stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closing = asyncio.gather(*(shard.handle.call("close") for shard in self.shards), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(closing, CLOSE_S)
        await self._runtime.stop()

    # -- processes --------------------------------------------------------------------------------------------------------

    async def _open(self, number: int, within_s: float = START_S, state: str = "required", openings: int = 1) -> Handle:
        """Return a process that has opened a shard, see `Shard`; one that ends meanwhile is started again, so often.

        Raises Gone where none starts in that time.
        """
        now = asyncio.get_running_loop().time
        end = now() + within_s
        while True:
            handle: Handle | None = None
            try:
                handle = await asyncio.wait_for(self._runtime.spawn(), end - now())
                await handle.call("open", number, str(self._folder.absolute() / f"shard-{number}"), self._limits, state)
                return handle
            except BaseException as error:
                if handle is not None:
                    handle.kill()
                elif isinstance(error, TimeoutError):
                    raise Gone(f"no process has started within {within_s:g} s") from None
                openings -= isinstance(error, Gone)
                if not (isinstance(error, (Gone, StateLocked)) and openings and now() < end):
                    raise
            await asyncio.sleep(LOCKED_LOOK_S)

    async def _open_all(self, numbers: range, state: str, within_s: float) -> list[ShardConnection]:
        """Open shards at the same time. Raises Unavailable where one has no place, and what is wrong with a state."""
        places = self._runtime.places()
        if places is not None and numbers.stop > places:
            raise _no_place(numbers.stop, f"there are cores for {places}")
        opening = (self._open(number, within_s, state, OPENINGS_MAX) for number in numbers)
        found = await asyncio.gather(*opening, return_exceptions=True)
        handles = [each for each in found if not isinstance(each, BaseException)]
        if len(handles) == len(found):
            return [ShardConnection(*each, self._open, self._clock) for each in zip(numbers, handles, strict=True)]
        for handle in handles:
            handle.kill()
        wrong = next(each for each in found if isinstance(each, BaseException))
        raise _no_place(numbers.stop, wrong) if isinstance(wrong, Gone) else wrong

    # -- changes ----------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True while something is not acknowledged."""
        return self._gate.inside > 0

    def send(
        self, key: Producer | None, sequence: int | None, event: Any, done: Callable[[Answer], object]
    ) -> None:  # fmt: skip
        """Have rows, or another event, applied by the shards of what they are about, and the number by all.

        `done` has the answer once all have. Where a shard refuses an event, that shard alone lacks the number: the empty batch
        that a producer sends under it then completes it.
        """
        self._gate.enter(lambda: self._send(key, sequence, event, done))

    def _send(
        self, key: Producer | None, sequence: int | None, event: Any, done: Callable[[Answer], object]
    ) -> None:  # fmt: skip
        parts = split_by_shard(event, self.layout)
        receivers = range(len(self.shards)) if key is not None or not parts else sorted(parts)
        answers: list[tuple[Answer, BatchPart]] = []

        def one(part: BatchPart, answer: Answer) -> None:
            answers.append((answer, part))
            if len(answers) < len(receivers):
                return
            self._gate.finish_work()
            wrong = [each for each, _ in answers if "error" in each]
            self._note(key, sequence, whole=not wrong, some=len(wrong) < len(answers))
            done(wrong[0] if wrong else joined(answers, sequence))

        for number in receivers:
            part = parts.get(number, BatchPart())
            rows = max(map(_rows, part.events), default=0)
            self.shards[number].queue_item((key, sequence, part.events), rows, partial(one, part))

    def _note(self, key: Producer | None, sequence: int | None, *, whole: bool, some: bool) -> None:
        """Note whether all shards, or some, have a number."""
        if key is None or sequence is None:
            return
        if whole:
            self.durable[key] = max(sequence, self.durable.get(key, 0))
            self.uneven.discard(key)
        elif some:
            self.uneven.add(key)

    async def apply(self, event: Any) -> Answer:
        """Have an event without a number applied; raises what is wrong with it."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.send(None, None, event, lambda found: answer.done() or answer.set_result(found))  # or it was cancelled
        found = await answer
        if "error" in found:
            raise from_dict(found["error"])
        return found

    def evict(self, key: Producer) -> None:
        """Have every shard forget a producer."""
        self.durable.pop(key, None)
        self.uneven.discard(key)
        for shard in self.shards:
            self._gate.enter(
                lambda shard=shard: shard.queue_item((key, None, (EVICTED,)), 0, lambda _: self._gate.finish_work())
            )

    # -- questions --------------------------------------------------------------------------------------------------------

    async def extract_part(
        self, names: Collection[str], networks: Collection[str] = (), programs: Collection[str] = ()
    ) -> list[bytes]:  # fmt: skip
        """Return what the shards know of them, see `Engine.extract`."""
        wanted: dict[int, tuple[list[str], list[str], list[str]]] = {}
        for kind, some in enumerate((names, networks, programs)):
            for name in some:
                wanted.setdefault(self.layout.shard_of(name), ([], [], []))[kind].append(name)
        calls = [
            self.shards[number].ask(
                "extract_part", each[start : start + NAMES_A_CALL], *(([], []) if start else further)
            )
            for number, (each, *further) in wanted.items()
            for start in range(0, len(each) or 1, NAMES_A_CALL)
        ]
        return await asyncio.gather(*calls)

    async def each(self, method: str, *args: Any) -> list[Any]:
        """Return the answers of all shards, in their order."""
        return await asyncio.gather(*(shard.ask(method, *args) for shard in self.shards))

    def shard_of(self, name: str) -> ShardConnection:
        """Return the shard of a name; raises InvalidValue."""
        return self.shards[self.layout.shard_of(name)]

    def totals(self) -> Counter[str]:
        """Return the exact counters of all shards together, removed ones included, as they last reported them."""
        return self.summed("totals") + Counter(self.layout.removed)

    def summed(self, key: str) -> Counter[str]:
        """Return the sums of counters in the reports of the shards."""
        found = Counter[str]()
        for shard in self.shards:
            found.update(shard.report.get(key, {}))
        return found

    # -- moves ------------------------------------------------------------------------------------------------------------

    async def scale(self, shards: int) -> Answer:
        """Have so many shards, rows coming and going meanwhile; return what has moved.

        Raises InvalidValue; Unavailable where a new shard has no place: then nothing has changed.
        """
        if not 1 <= shards <= SHARDS_MAX:
            raise InvalidValue("shards", shards, f"from 1 to {SHARDS_MAX}")
        async with self._moving:
            if shards > len(self.shards):
                new = await self._open_all(range(len(self.shards), shards), "none", PLACE_S)
                await self._while_even(lambda: self._grow(new))
            due = moves(self.layout.owner, shards)
            self.moves_left = len(due)
            for move in due:
                await self._while_even(partial(self._move, move))
                self.moves_left -= 1
            if shards < len(self.shards):
                await self._while_even(lambda: self._shrink(shards))
            return {"shards": shards, "moves": len(due)}

    async def _while_even(self, work: Callable[[], Any]) -> None:
        """Do work when all shards have all that was sent, and the same numbers; what comes meanwhile waits."""
        while True:
            async with self._gate.closed():
                if not self.uneven:
                    await work()
                    return
            await asyncio.sleep(UNEVEN_LOOK_S)  # until a batch that was cut off has come again

    async def _grow(self, new: list[ShardConnection]) -> None:
        for shard in new:
            shard.report = await shard.ask("receive_part", None, self.durable)
        self._save(self.layout.after(shards=len(self.shards) + len(new)))
        self.shards += new
        for shard in new:
            self._run(shard)

    async def _shrink(self, shards: int) -> None:
        gone, self.shards = self.shards[shards:], self.shards[:shards]
        removed = Counter(self.layout.removed)
        for shard in gone:
            removed.update((await shard.ask("report"))["totals"])
        self._save(self.layout.after(shards=shards, removed=dict(removed)))
        for shard in gone:
            shard.handle.kill()

    async def _move(self, move: Move) -> None:
        """Move buckets. Cut off at any point, each shard drops at the next start what the layout gives to another."""
        source, target = self.shards[move.source], self.shards[move.target]
        part: bytes = await source.ask("give", move.buckets)
        target.report = await target.ask("receive_part", part, {})
        self._save(self.layout.moved(move))
        await self._keep_own(move.source)

    async def _keep_own(self, number: int) -> None:
        shard = self.shards[number]
        shard.report = await shard.ask("keep", self.layout.buckets_of(number))

    def _save(self, layout: Layout) -> None:
        layout.save(self._folder)
        self.layout = layout


def _rows(what: Any) -> int:
    return len(what) if hasattr(what, "__len__") else 1


def _no_place(shards: int, why: object) -> Unavailable:
    return Unavailable(
        f"not every shard has a place: {why}", field="shards", value=shards,
        hint="each takes a core of a node: have fewer shards, add nodes, or end what else runs there",
    )  # fmt: skip
