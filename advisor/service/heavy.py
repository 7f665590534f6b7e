"""Work that would hold the loop up: networks are read and planned in worker processes, on frozen inputs.

A busy Python thread takes the loop's echo from 0.03 to 5 ms, a process does not. Only text, node lists and flat arrays go
there, and plain answers come back; a deadline, or the end of the loop, kills the process. Processes are anyio's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
from anyio import to_process

from advisor.engine.cache import Cache
from advisor.errors import Unavailable, WorkFailed, from_dict
from advisor.network import parse
from advisor.service.logs import event
from advisor.service.worker import WARM_TEXT, begin, do_packed

WARM_AFTER_S = 1.0
JOBS = 2  # worker processes at a time: one long plan does not hold up a second, and the loop keeps a processor
WAITING_MAX = 64  # requests that may wait for a worker process; at 30 s each nobody waits for more
KNOWN_MAX, KNOWN_BYTES_MAX = 64, 2**16  # answers that are remembered, and bytes of one: 4 MiB together
P = ParamSpec("P")
Found = TypeVar("Found")


class Heavy:
    """Runs jobs in worker processes: so many at a time, so many waiting, for so long. The same job again is not run again."""

    def __init__(self, deadline_s: float) -> None:
        self._limiter = anyio.CapacityLimiter(JOBS)
        self._processes = anyio.CapacityLimiter(2 * JOBS)  # of anyio: what begins a process, and jobs, never wait there
        self._deadline_s = deadline_s
        self._begun = 0  # processes that have loaded what they need, and wait
        self._known = Cache[bytes](KNOWN_MAX)  # answers by their jobs' digests: curves are part of a job
        parse(WARM_TEXT)  # loads the grammar, 0.1 s: before anybody waits
        self.jobs = 0

    async def warm(self) -> None:
        """Start the workers, so that no request waits for one; clients that wait for the service come first."""
        await anyio.sleep(WARM_AFTER_S)
        try:
            async with anyio.create_task_group() as group:
                for _ in range(int(self._limiter.available_tokens)):
                    group.start_soon(self._begin)
        except* (anyio.BrokenWorkerProcess, OSError) as failure:
            event(logging.WARNING, "no worker process could be started yet", reason=failure)

    async def _begin(self) -> None:
        """Have a process load what it needs: that is no part of a job, nor of its deadline."""
        await to_process.run_sync(begin, os.getpid(), cancellable=True, limiter=self._processes)
        self._begun += 1

    async def run(self, call: Callable[P, Found], *given: P.args, **none: P.kwargs) -> Found:
        """Return what a function of `advisor.service.worker` answers, called in a worker process, or known already.

        Raises what it raises; Unavailable when too many requests wait already; WorkFailed at the deadline, or when the process
        died.
        """
        job = pickle.dumps((call, given), pickle.HIGHEST_PROTOCOL)
        digest = hashlib.blake2b(job, digest_size=16).digest()
        answer = self._known.get(digest) or await self._run(job)
        if len(answer) <= KNOWN_BYTES_MAX:
            self._known.store_value(digest, answer)
        good, result = pickle.loads(answer)  # noqa: S301 - our own
        if not good:
            raise from_dict(result)
        return result

    async def _run(self, job: bytes) -> bytes:
        if self.jobs >= self._limiter.total_tokens + WAITING_MAX:
            raise Unavailable(
                "too many large requests at a time", field="method", bound=WAITING_MAX, hint="send it again later"
            )
        self.jobs += 1
        try:
            async with self._limiter:
                return await self._ask(job)
        finally:
            self.jobs -= 1

    async def _ask(self, job: bytes) -> bytes:
        try:
            if not self._begun:
                await self._begin()
            self._begun -= 1
            with anyio.fail_after(self._deadline_s):
                answer = await to_process.run_sync(do_packed, job, cancellable=True, limiter=self._processes)
        except TimeoutError as error:
            raise WorkFailed(
                f"the request took longer than {self._deadline_s:g} s and was killed",
                bound=self._deadline_s,
                hint="ask for a smaller network or fewer analyses, or raise heavy_deadline_s",
            ) from error
        except (anyio.BrokenWorkerProcess, OSError) as error:
            raise WorkFailed("the worker process of the request died", hint="send it again") from error
        self._begun += 1
        return answer
