"""Calls that are advised: a decorator, a block, and executors.

A run is measured, learned with the cores that it had, and the next one of its component is given those that the model thinks
best. Nothing is asked and nothing learned of calls below `FLOOR_S`: a block runs on one core, a function as if nobody advised.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from math import log2
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from advisor.adapters.threads.deciding import PER_DOUBLING, CallTotals, Deciding, checked_predictor
from advisor.adapters.threads.grants import GRANTS, CoreGrant
from advisor.adapters.threads.job_pool import AdvisedPool
from advisor.adapters.threads.jobs import Job
from advisor.adapters.threads.machine import MachineLoad, cache_file, cores_here
from advisor.adapters.threads.memory import FunctionMemory
from advisor.adapters.threads.size import FLOOR_S, Size
from advisor.adapters.threads.waiting import WaitingExecutor
from advisor.domain.limits import CORES_MAX, PREDICTOR_MAX
from advisor.domain.names import checked_name
from advisor.errors import AdvisorError, InvalidValue, NotEnoughData, UnknownComponent

if TYPE_CHECKING:
    from advisor.client import SyncClient

BEYOND: Final = 0.5  # of a core: a call that used so much more than it was given had threads that nobody set
ASK_S: Final = 1.0  # that a call waits for a service, at most; its time is charged to questions

log = logging.getLogger("advisor.threads")

Function = TypeVar("Function", bound=Callable[..., Any])


class Advised:
    """Gives calls of this process the cores that they run best on. Safe to use from all threads, and after a fork.

    Parameters
    ----------
    client : SyncClient, optional
        Of a service that learns and answers. Absent: an advisor of this process does, and keeps what it learned.
    path : Path or str, optional
        Where it is kept; absent: a file for this machine in the user's cache folder.
    cores_max : int, optional
        Of calls that name none; absent: those that this process may use.
    clock : callable
        Seconds, for who replays calls.
    load : callable, optional
        The cores that other processes keep busy; absent: as this machine tells.

    Examples
    --------
    >>> import tempfile
    >>> advised = Advised(path=tempfile.mkdtemp() + "/threads.state")
    >>> @advised("total", predictor=len, cores_max=4)
    ... def total(values):
    ...     return sum(values)
    >>> total([1, 2, 3])
    6
    >>> with advised.cores("fit", predictor=1000, cores_max=4) as cores:
    ...     cores
    1
    """

    def __init__(
        self,
        client: SyncClient | None = None,
        *,
        path: Path | str | None = None,
        cores_max: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        load: Callable[[], float] | None = None,
    ) -> None:
        self.cores_max = cores_here() if cores_max is None else checked_cores(cores_max)
        self.clock = clock
        self._client = client
        self._patience: dict[str, Any] = {} if client is None else {"timeout_s": ASK_S}
        self._path = path
        self._memory: FunctionMemory | None = None
        self._deciding: dict[tuple[str, int], Deciding] = {}
        self._together = CallTotals()
        self._load = MachineLoad().cores if load is None else load
        self._lock = threading.Lock()
        self._reported: set[str] = set()  # what is logged once

    def __call__(
        self, component: str, *, predictor: Callable[..., Any] | None = None, cores_max: int | None = None
    ) -> Callable[[Function], Function]:
        """Return a decorator of a function, or of a coroutine function: its calls are runs of `component`.

        Parameters
        ----------
        predictor : callable, optional
            From the call's arguments to the predictor, a number or up to four. Absent: all calls are alike.
        cores_max : int, optional
            The most that one call is given.
        """
        known, clock = self.deciding(component, cores_max), self.clock
        passing = known.passing

        def decorator(function: Function) -> Function:
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def waiting(*args: Any, **kwargs: Any) -> Any:
                    with _AdvisedRun(self, component, known, 1.0 if predictor is None else predictor(*args, **kwargs)):
                        return await function(*args, **kwargs)

                return waiting  # pyright: ignore[reportReturnType]

            @functools.wraps(function)
            def advised(*args: Any, **kwargs: Any) -> Any:
                x: Any = 1.0 if predictor is None else predictor(*args, **kwargs)
                try:
                    size = passing[int(PER_DOUBLING * log2(x))]  # round() takes a microsecond where caches are cold
                except (KeyError, TypeError, ValueError, OverflowError):  # of other calls, or no one number
                    size = known.size(checked_predictor(x))
                if size.passes:
                    begun = clock()
                    found = function(*args, **kwargs)
                    elapsed_s = clock() - begun
                    if elapsed_s >= FLOOR_S or size.long:
                        size.passed(elapsed_s)
                    return found
                with _AdvisedRun(self, component, known, x):
                    return function(*args, **kwargs)

            return advised  # pyright: ignore[reportReturnType]

        return decorator

    def cores(self, component: str, *, predictor: Any = 1.0, cores_max: int | None = None) -> _AdvisedRun:
        """Return a context whose block is a run of `component`; it is entered with the cores that the run has.

        Raises
        ------
        InvalidValue
        """
        return _AdvisedRun(self, component, self.deciding(component, cores_max), predictor)

    def executor(
        self, component: str, *, predictor: Callable[..., Any] | None = None, cores_max: int | None = None
    ) -> Executor:
        """Return an executor on threads whose calls are runs of `component`, each on one core.

        Parameters
        ----------
        predictor : callable, optional
            From a call's arguments to its predictor.
        cores_max : int, optional
            The most threads. Absent: 64, and up to 1,024 while they wait for a disk, a network or a timer.
        """
        job = Job(checked_name("component", component), predictor=predictor)
        return WaitingExecutor(self, job, self.cores_max, None if cores_max is None else checked_cores(cores_max))

    def pool(self, cores: int | None = None, executor: Executor | None = None) -> AdvisedPool:
        """Return an executor whose jobs share so many cores, each with several where that pays, see `AdvisedPool`."""
        return AdvisedPool(self, self.cores_max if cores is None else checked_cores(cores), executor)

    def register_joblib(self, name: str = "advised") -> None:
        """Register a backend of joblib, see `AdvisedBackend`. Needs joblib, of the extra ``threads``."""
        from advisor.adapters.threads.joblib_backend import register_backend  # noqa: PLC0415 - of an extra

        register_backend(name, self)

    def flush(self) -> None:
        """Write what was learned now."""
        if self._memory is not None:
            self._memory.flush()

    # -- what runs need -------------------------------------------------------------------------------------------------------

    def others(self, grant: CoreGrant) -> float:
        """Return the cores that others had while a call ran: in this process, and outside."""
        return grant.others + self._load()

    def idle(self) -> float:
        """Return the cores that other processes leave to this one."""
        return self.cores_max - self._load()

    def learn_run(
        self, component: str, predictor: Any, cores: int, elapsed_s: float, others: float, *, ok: bool
    ) -> None:
        """Teach a run; what cannot be taught is logged once."""
        try:
            self._learner().observe(
                component, predictor=predictor, cores=cores, elapsed_s=elapsed_s, active_cores=cores + others, ok=ok
            )
        except AdvisorError as error:
            self._tell(error)

    def choose_together(self, jobs: Sequence[Mapping[str, Any]], cores: int) -> Mapping[Any, int] | None:
        """Return the cores of each job by its id, None where nobody answers; see `Advisor.choose_together`."""
        try:
            return self._learner().choose_together(jobs=jobs, cores=cores, **self._patience).cores
        except AdvisorError as error:
            self._tell(error)
            return None

    def deciding(self, component: str, cores_max: int | None) -> Deciding:
        """Return what decides for a component."""
        cores_max = self.cores_max if cores_max is None else cores_max
        found = self._deciding.get((component, cores_max))
        if found is None:
            checked_name("component", component)
            checked_cores(cores_max)
            found = Deciding(cores_max, functools.partial(self._ask, component), self._together)
            with self._lock:
                found = self._deciding.setdefault((component, cores_max), found)
        return found

    def _ask(
        self, component: str, predictors: Sequence[Any], counts: Sequence[int]
    ) -> Sequence[Sequence[float]] | None:
        try:
            answer = self._learner().predict(
                component, predictor=[x for x in predictors for _ in counts], cores=[*counts] * len(predictors),
                **self._patience,
            )  # fmt: skip
        except (UnknownComponent, NotEnoughData):
            return []
        except AdvisorError as error:
            self._tell(error)
            return None
        seconds = [float(each) for each in cast("list[float]", answer.elapsed_s)]
        return [seconds[k : k + len(counts)] for k in range(0, len(seconds), len(counts))]

    def _learner(self) -> SyncClient | FunctionMemory:
        if self._client is not None:
            return self._client
        if self._memory is None:
            with self._lock:
                if self._memory is None:
                    self._memory = FunctionMemory(cache_file() if self._path is None else Path(self._path), self.clock)
        return self._memory

    def unset(self, component: str, cores: int) -> None:
        """Report once that a call is not learned: a pool whose threads cannot be set ran it on more cores than it was given."""
        self._report(
            "%s used more than its %d cores, and such runs are not learned: the threads of %s are not set; "
            "set POLARS_MAX_THREADS before polars is imported, or SET threads of each connection of DuckDB",
            component, cores, " and ".join(GRANTS.pools.unset),
        )  # fmt: skip

    def _tell(self, error: AdvisorError) -> None:
        self._report("calls go on without advice, or without being learned; reported once: %s", error)

    def _report(self, text: str, *values: Any) -> None:
        if text not in self._reported:
            self._reported.add(text)
            log.warning(text, *values)


class _AdvisedRun:
    """One call: entered with its cores, learned when it ends."""

    _begun: float
    _busy_s: float  # of the process, where a pool is loaded that cannot be set
    _grant: CoreGrant
    _size: Size

    def __init__(self, advised: Advised, component: str, deciding: Deciding, predictor: Any) -> None:
        self._advised = advised
        self._component = component
        self._deciding = deciding
        plain = type(predictor) in (float, int) and 0 <= predictor <= PREDICTOR_MAX
        self._predictor = predictor if plain else checked_predictor(predictor)

    def __enter__(self) -> int:
        deciding, clock = self._deciding, self._advised.clock
        self._size = deciding.size(self._predictor)
        available = GRANTS.available(deciding.cores_max)
        cores = deciding.cores(self._size, self._predictor, available, clock, self._advised.idle())
        self._grant = GRANTS.enter(cores, deciding.cores_max)
        self._busy_s = time.process_time() if GRANTS.pools.unset else math.inf
        self._begun = clock()
        return self._grant.cores

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elapsed_s = self._advised.clock() - self._begun
        grant = self._grant
        GRANTS.end_call(grant)
        short = self._size.core_s < FLOOR_S
        if grant.changed or elapsed_s <= 0.0:
            return
        if self._busy_s < math.inf:
            given = grant.cores + grant.others + BEYOND
            if time.process_time() - self._busy_s > given * elapsed_s:
                self._advised.unset(self._component, grant.cores)
                return
        if kind is None:
            self._deciding.ran(self._size, grant.cores, elapsed_s)
        if not short:
            others = self._advised.others(grant)
            self._advised.learn_run(self._component, self._predictor, grant.cores, elapsed_s, others, ok=kind is None)


def checked_cores(cores_max: Any) -> int:
    """Return the most cores of a call.

    Raises
    ------
    InvalidValue
    """
    if isinstance(cores_max, bool) or not isinstance(cores_max, int) or not 1 <= cores_max <= CORES_MAX:
        raise InvalidValue("cores_max", cores_max, f"a whole number from 1 to {CORES_MAX:.0f}")
    return cores_max


advised = Advised()
