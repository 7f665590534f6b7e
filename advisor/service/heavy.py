"""Work that would hold the loop up: networks are read and planned in worker processes, on frozen inputs.

A busy Python thread takes the loop's echo from 0.03 to 5 ms, a process does not. Only text, node lists and flat arrays go
there, and plain answers come back; a deadline, or the service's end, kills the process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from advisor.errors import Unavailable, WorkFailed, from_dict
from advisor.network import parse
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.worker import LENGTH_BYTES, READY, WARM_TEXT, WorkerJob, done, framed

START_S = 30.0  # for a worker process to load what it needs, on a machine that is very busy
WARM_AFTER_S = 1.0
KNOWN_MAX, KNOWN_BYTES_MAX = 64, 2**16  # answers that are remembered, and bytes of one: 4 MiB together
P = ParamSpec("P")
Found = TypeVar("Found")

_PIPE_ERRORS = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Worker:
    """One worker process."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._jobs = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls) -> Worker:
        """Start a process that finds the packages this one has found."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", "from advisor.service.worker import main; main()"]
        process: Process | None = None
        with anyio.CancelScope(shield=True):  # a process half begun would be nobody's: milliseconds
            process = await anyio.open_process(command, stderr=None, env=environment)
        assert process is not None
        worker = cls(process)
        try:
            with anyio.fail_after(START_S):
                await worker._answers.receive_exactly(len(READY))
        except BaseException:
            await worker.kill_worker()
            raise
        return worker

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.returncode is None

    async def ask(self, job: bytes) -> bytes:
        """Return the answer to a job; raises one of `_PIPE_ERRORS` when the process dies."""
        await self._jobs.send(framed(job))
        head = await self._answers.receive_exactly(LENGTH_BYTES)
        return await self._answers.receive_exactly(int.from_bytes(head, "little"))

    async def kill_worker(self) -> None:
        """Kill the process and wait for its end."""
        with anyio.CancelScope(shield=True):
            if self.alive:
                self._process.kill()
            await self._process.aclose()


class Heavy:
    """Runs jobs in worker processes: so many at a time, so many waiting, for so long. The same job again is not run again."""

    def __init__(self, measures: ServiceMeasures, *, jobs: int, waiting_max: int, deadline_s: float) -> None:
        self._measures = measures
        self._limiter = anyio.CapacityLimiter(jobs)
        self._waiting_max = waiting_max
        self._deadline_s = deadline_s
        self._idle: list[Worker] = []
        self._known: OrderedDict[bytes, bytes] = (
            OrderedDict()
        )  # answers by their jobs' digests: curves are part of a job
        parse(WARM_TEXT)  # loads the grammar, 0.1 s: before anybody waits
        self.jobs = 0

    async def warm(self) -> None:
        """Start the workers, so that no request waits for one; clients that wait for the service come first."""
        await anyio.sleep(WARM_AFTER_S)
        try:
            while self.jobs + len(self._idle) < self._limiter.total_tokens:
                self._idle.append(await Worker.start())
        except (TimeoutError, *_PIPE_ERRORS) as failure:
            event(logging.WARNING, "no worker process could be started yet", reason=failure)

    async def close(self) -> None:
        """End the workers that wait for jobs; those at work end with the task that asked them."""
        while self._idle:
            await self._idle.pop().kill_worker()

    async def run(self, call: Callable[P, Found], *given: P.args, **none: P.kwargs) -> Found:
        """Return what a function of `advisor.service.worker` answers, called in a worker process, or known already.

        Raises what it raises; Unavailable when too many requests wait already; WorkFailed at the deadline, or when the process
        died.
        """
        data, digest = _packed(WorkerJob(call, given))
        answer = self._remembered(digest)
        return _result(await self._run(data, digest) if answer is None else answer)

    def run_here(self, call: Callable[P, Found], *given: P.args, **none: P.kwargs) -> Found:
        """As `run`, in this process: what is known to take few steps."""
        job = WorkerJob(call, given)
        _, digest = _packed(job)
        return _result(self._remembered(digest) or self._remember(digest, done(job)))

    def _remembered(self, digest: bytes) -> bytes | None:
        found = self._known.get(digest)
        if found is not None:
            self._known.move_to_end(digest)
        return found

    def _remember(self, digest: bytes, answer: bytes) -> bytes:
        if len(answer) <= KNOWN_BYTES_MAX:
            self._known[digest] = answer
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return answer

    async def _run(self, data: bytes, digest: bytes) -> bytes:
        if self.jobs >= self._limiter.total_tokens + self._waiting_max:
            raise Unavailable(
                "too many large requests at a time", field="method", bound=self._waiting_max, hint="send it again later"
            )
        self.jobs += 1
        try:
            async with self._limiter:
                return self._remember(digest, await self._ask(data))
        finally:
            self.jobs -= 1

    async def _ask(self, job: bytes) -> bytes:
        worker = None
        try:
            worker = await self._worker()
            with anyio.fail_after(self._deadline_s):
                answer = await worker.ask(job)
        except TimeoutError as error:
            self._measures.heavy_killed += 1
            raise WorkFailed(
                f"the request took longer than {self._deadline_s:g} s and was killed",
                bound=self._deadline_s,
                hint="ask for a smaller network or fewer analyses, or raise heavy_deadline_s",
            ) from error
        except _PIPE_ERRORS as error:
            self._measures.heavy_killed += 1
            raise WorkFailed("the worker process of the request died", hint="send it again") from error
        else:
            self._idle.append(worker)
            worker = None
            return answer
        finally:
            if worker is not None:
                await worker.kill_worker()

    async def _worker(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await worker.kill_worker()
        return await Worker.start()


def _packed(job: WorkerJob) -> tuple[bytes, bytes]:
    """Return a job as bytes, and what tells it from others."""
    data = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
    return data, hashlib.blake2b(data, digest_size=16).digest()


def _result(answer: bytes) -> Any:
    good, result = pickle.loads(answer)  # noqa: S301 - our own
    if not good:
        raise from_dict(result)
    return result
