"""The scheduler's plugin: what ran becomes rows, and what was learned stands where Dask has its moving average.

The scheduler's loop never waits: rows go to the thread of a `SyncClient`, and the model is asked in another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from distributed.diagnostics.plugin import SchedulerPlugin

from advisor.adapters.dask.pool import RESOURCE
from advisor.adapters.dask.sizes import Sizes
from advisor.client import SyncClient
from advisor.domain.limits import PREDICTOR_MAX
from advisor.errors import AdvisorError, InvalidValue

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler, TaskState

REFRESH_S: Final = 0.5  # between two looks at what the model is to be asked
PREFIXES_MAX: Final = 10_000  # of one scheduler: what comes beyond is sent, and not predicted
PREDICTOR: Final = "predictor"  # the annotation with a task's size, where its inputs do not tell it

log = logging.getLogger("advisor.dask")


class AdvisorPlugin(SchedulerPlugin):
    """Tells a service what a scheduler's tasks took, and the scheduler what they will take.

    Register it by ``client.register_plugin(plugin)``, or by ``distributed.scheduler.preload``: `Scheduler.add_plugin` does not
    start it.

    Parameters
    ----------
    address : str
        Of the service, as `advisor.client.SyncClient` takes it.
    predict : bool
        Set `TaskPrefix.duration_average` to what was learned, where enough is known. False only tells.
    **options
        As `SyncClient` takes them: `token`, `producer`, `buffer_rows` and more, but for ``when_full="block"``.

    Raises
    ------
    InvalidValue

    Attributes
    ----------
    rows_sent : int
        Rows of successful runs.
    """

    name = "advisor"
    idempotent = True

    def __init__(self, address: str, *, predict: bool = True, **options: Any) -> None:
        if options.get("when_full") == "block":
            raise InvalidValue("when_full", "block", "drop_newest", "the scheduler's loop never waits")
        self._address, self._predict, self._options = address, predict, options
        self.rows_sent = 0
        self._client: SyncClient | None = None
        self._scheduler: Scheduler | None = None
        self._asking: asyncio.Task[None] | None = None
        self._prefixes: dict[str, Sizes] = {}
        self._running: dict[Any, tuple[Sizes, float | None, float | None]] = {}  # known, size, seconds
        self._rows: deque[tuple[str, float | None, int, float, bool]] = deque()  # since the last tick

    async def start(self, scheduler: Scheduler) -> None:
        """Begin: the client and its thread, and the questions beside the loop."""
        self._scheduler = scheduler
        self._client = SyncClient(self._address, **self._options)
        self._asking = asyncio.create_task(self._ask_again())

    async def close(self) -> None:
        """Send what is held, beside the loop."""
        if self._asking is not None:
            self._asking.cancel()
        if self._client is not None:
            self.send_rows()
            await asyncio.to_thread(self._client.close)

    # -- what ran ---------------------------------------------------------------------------------------------------

    def transition(
        self, key: Any, start: str, finish: str, *_: Any,
        startstops: Sequence[Mapping[str, Any]] = (), **__: Any,
    ) -> None:  # fmt: skip
        """Take in that a task has changed its state: to work, to its end, or to nothing. It costs 5 transitions a task."""
        if self._scheduler is None:
            return
        if finish == "processing":
            ts = self._scheduler.tasks[key]
            known, size = self._known(ts), size_of(ts)
            known.cores = cores_of(ts)
            self._running[key] = known, size, known.begin_task(size)
            self._average(ts, known)
        elif start == "processing":
            self._ended(key, finish, [each for each in startstops or () if each["action"] == "compute"])

    def _ended(self, key: Any, finish: str, runs: Sequence[Mapping[str, Any]]) -> None:
        known, size, seconds = self._running.pop(key, (None, None, None))
        if known is None or self._scheduler is None:
            return
        elapsed_s = sum(each["stop"] - each["start"] for each in runs)
        known.end_task(seconds)
        ts = self._scheduler.tasks[key]
        self._average(ts, known)
        if finish not in ("memory", "erred") or elapsed_s <= 0.0:
            return  # released, cancelled, or lost with its worker: it runs again, or not at all
        ok = finish == "memory"
        known.runs += ok
        self.rows_sent += ok
        self._rows.append((known.name, size, cores_of(ts), elapsed_s, ok))

    def _known(self, ts: TaskState) -> Sizes:
        prefix = ts.prefix.name
        found = self._prefixes.get(prefix)
        if found is None:
            found = Sizes(prefix)
            if len(self._prefixes) < PREFIXES_MAX:
                self._prefixes[prefix] = found
        return found

    # -- what will ---------------------------------------------------------------------------------------------------

    def _average(self, ts: TaskState, known: Sizes) -> None:
        """Put the mean of what is predicted where Dask has its moving average, which each end of a task moves."""
        if self._predict and (mean := known.mean_s) is not None:
            ts.prefix.duration_average = mean

    async def _ask_again(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                self.send_rows()
                await self.ask_now()
            except (AdvisorError, OSError) as error:  # what is known stays: it is asked again with later rows
                log.info("the service does not answer: %s", error)
            except Exception:
                log.exception("no more predictions until tasks of this kind have run again")

    def send_rows(self) -> None:
        """Hand over the rows: for each alone the client's thread would be woken, which takes as long as all else here."""
        while self._rows and self._client is not None:
            name, size, cores, elapsed_s, ok = self._rows.popleft()
            self._client.observe(name, size, cores, elapsed_s, ok=ok)

    async def ask_now(self) -> None:
        """Ask the service, beside the loop, about each prefix of which enough has run since it was last asked."""
        for known in [each for each in self._prefixes.values() if each.due]:
            sizes = known.question()
            seconds = await asyncio.to_thread(self._ask, known, sizes)
            bare = await asyncio.to_thread(self._ask, known, None) if known.mixed and sizes else [None]
            known.store_predictions(sizes, seconds, bare[0])

    def _ask(self, known: Sizes, sizes: list[float] | None) -> list[float]:
        assert self._client is not None
        found: Any = self._client.predict(known.name, sizes, known.cores).elapsed_s
        return [float(each) for each in found] if sizes is not None else [float(found)]

    def estimate(self, ts: TaskState) -> float | None:
        """Return the seconds that a task will take; None where nothing is known of its kind."""
        return self._known(ts).seconds(size_of(ts))


def cores_of(ts: TaskState) -> int:
    """Return the cores that a task takes of its worker: what its annotation says, see `annotate_cores`, else 1."""
    return int((ts.resource_restrictions or {}).get(RESOURCE, 1))


def size_of(ts: TaskState) -> float | None:
    """Return the bytes of a task's inputs, or what its annotation says; None where it has neither."""
    annotations: Any = ts.annotations or {}
    if PREDICTOR in annotations:
        said: Any = annotations[PREDICTOR]
        return float(said) if isinstance(annotations[PREDICTOR], Real) and 0 <= said <= PREDICTOR_MAX else None
    if not ts.dependencies:
        return None
    return float(sum([max(each.nbytes, 0) for each in ts.dependencies]))
