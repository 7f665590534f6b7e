"""Work that would hold the loop up: networks are read and planned in worker processes, on frozen inputs.

A busy Python thread takes the loop's echo from 0.03 to 5 ms, a process does not. Only text, node lists and flat arrays go
there, and plain answers come back; a deadline, or the service's end, kills the process.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from advisor.domain.curves import AmdahlCurves
from advisor.engine import Advisor
from advisor.errors import InvalidValue, Unavailable, Unsupported, WorkFailed, from_dict
from advisor.network import parse
from advisor.service.logs import event
from advisor.service.measures import Measures
from advisor.service.worker import LENGTH_BYTES, Frozen, Job, Plan, Read, Simulate, framed

WARM_TEXT = "warm .. up"
WARM_AFTER_S = 1.0
SOLVE_SLICE = 64  # components solved at a time, within 2 ms, before others have their turn
Spec = str | Sequence[Mapping[str, Any]]

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
        return cls(await anyio.open_process(command, stderr=None, env=environment))

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.returncode is None

    async def ask(self, job: Job) -> tuple[bool, Any]:
        """Return the answer to a job; raises one of `_PIPE_ERRORS` when the process dies."""
        await self._jobs.send(framed(job))
        head = await self._answers.receive_exactly(LENGTH_BYTES)
        return pickle.loads(await self._answers.receive_exactly(int.from_bytes(head, "little")))  # noqa: S301 - our own

    async def end(self) -> None:
        """Kill the process and wait for its end."""
        with anyio.CancelScope(shield=True):
            if self.alive:
                self._process.kill()
            await self._process.aclose()


class Heavy:
    """Runs jobs in worker processes: so many at a time, so many waiting, for so long."""

    def __init__(self, measures: Measures, *, jobs: int, waiting_max: int, deadline_s: float) -> None:
        self._measures = measures
        self._limiter = anyio.CapacityLimiter(jobs)
        self._waiting_max = waiting_max
        self._deadline_s = deadline_s
        self._idle: list[Worker] = []
        parse(WARM_TEXT)  # loads the grammar, 0.1 s: before anybody waits
        self.jobs = 0

    async def warm(self) -> None:
        """Start a worker, so that the first request does not wait for it; clients that wait for the service come first."""
        await anyio.sleep(WARM_AFTER_S)
        if self.jobs or self._idle:
            return  # somebody was faster
        try:
            await self.components_of(WARM_TEXT)
        except (WorkFailed, Unavailable) as failure:
            event(logging.WARNING, "no worker process could be started yet", reason=failure)

    async def close(self) -> None:
        """End the workers that wait for jobs; those at work end with the task that asked them."""
        while self._idle:
            await self._idle.pop().end()

    async def components_of(self, network: Spec) -> tuple[str, ...]:
        """Return the component name of each key of a network, in text order.

        Raises
        ------
        NetworkSyntax, Unsupported, TooLarge, InvalidValue
            When it does not read.
        Unavailable
            When too many requests wait already.
        WorkFailed
            At the deadline, or when the process died.
        """
        return await self._run(Read(_frozen(network)))

    async def plan(self, network: Spec, curves: AmdahlCurves, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the allocation for a network; raises as `components_of` and `advisor.planning.plan`."""
        return await self._run(Plan(_frozen(network), curves.serial_s, curves.parallel_s, dict(request)))

    async def simulate(self, job: Simulate) -> dict[str, Any]:
        """Return the analyses of a task graph; raises as `components_of` and `advisor.simulation.answer`."""
        return await self._run(job)

    async def _run(self, job: Job) -> Any:
        if self.jobs >= self._limiter.total_tokens + self._waiting_max:
            raise Unavailable(
                "too many large requests at a time", field="method", bound=self._waiting_max, hint="send it again later"
            )
        self.jobs += 1
        try:
            async with self._limiter:
                good, result = await self._ask(job)
        finally:
            self.jobs -= 1
        if not good:
            raise from_dict(result)
        return result

    async def _ask(self, job: Job) -> tuple[bool, Any]:
        worker = None
        try:
            with anyio.fail_after(self._deadline_s):
                worker = await self._worker()
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
                await worker.end()

    async def _worker(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            await worker.end()
        return await Worker.start()


async def planned_apart(advisor: Advisor, heavy: Heavy, network: Spec, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the allocation for a large network: read and planned in a worker, its curves solved here in slices.

    Raises
    ------
    NetworkSyntax, MissingShares, ImpossibleTarget, UnknownComponent, NotEnoughData, InvalidValue, TooLarge, Unsupported
        As `Advisor.allocate`.
    Unavailable, WorkFailed
        As `Heavy`.
    """
    rest = dict(request)
    if "level" in rest:
        raise Unsupported("planning for an upper bound is not in this version", field="level", hint="leave level out")
    names, load = rest.pop("components", {}), rest.pop("load", {})
    boxes = await heavy.components_of(network)
    unknown = sorted((set(names) | set(load)) - set(boxes))
    if unknown:
        raise InvalidValue("components" if unknown[0] in names else "load", unknown[0], "a box of the network")
    parts: list[AmdahlCurves] = []
    for start in range(0, len(boxes), SOLVE_SLICE):
        part = boxes[start : start + SOLVE_SLICE]
        chosen = ({key: given[key] for key in part if key in given} for given in (names, load))
        parts.append(advisor.curves_of(part, *chosen))
        await anyio.lowlevel.checkpoint()
    serial, parallel = ([getattr(part, side) for part in parts] for side in ("serial_s", "parallel_s"))
    return await heavy.plan(network, AmdahlCurves(np.concatenate(serial), np.concatenate(parallel)), rest)


def _frozen(network: Spec) -> Frozen:
    return Frozen(network, nodes=False) if isinstance(network, str) else Frozen(json.dumps(network), nodes=True)
