"""Work that is answered later: what takes turns of the loop, or a worker process, does not hold up who asked for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from advisor.errors import AdvisorError, ServiceError, Unavailable
from advisor.service.connection import Connection
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.turns import WorkTurns

HEAVY_JOBS_CONNECTION_MAX = 16

LATER = None  # a handler's result: the answer comes when it is durable, or worked out
# What answers a verb: its connection, its parameters, the number of the request. It returns the answer; work that makes it, in
# turns of the loop, as a function; or LATER.
Handler = Callable[[Connection, Any, int | None], Any]
Work = Callable[[], Awaitable[Any]]


def _nothing_runs(*_: object) -> None:
    raise Unavailable("the service is starting")


class Background:
    """Starts work, and answers for it when it has ended.

    `turns`: in which this work, too, is done.
    """

    def __init__(self, measures: ServiceMeasures, turns: WorkTurns) -> None:
        self._measures = measures
        self._turns = turns
        self.spawn: Callable[..., object] = _nothing_runs  # starts a coroutine; set by whoever runs the service
        self.stopping = False  # True from when the service takes nothing new

    def later(self, verb: str, connection: Connection, msgid: int | None, work: Work, *, heavy: bool) -> None:
        """Answer by `work` that lets others have their turn.

        Raises Unavailable when it is heavy, and the connection has too much under way.
        """
        if heavy and connection.heavy_jobs >= HEAVY_JOBS_CONNECTION_MAX:
            raise Unavailable(
                "too many large requests of one connection at a time", field="method",
                bound=HEAVY_JOBS_CONNECTION_MAX, hint="wait for their answers",
            )  # fmt: skip
        connection.heavy_jobs += 1
        self.spawn(self._later, verb, connection, msgid, work)

    async def _later(self, verb: str, connection: Connection, msgid: int | None, work: Work) -> None:
        """Do `work`, and send what it returns, or raises; None is not sent: that answer comes when it is durable."""
        began = time.perf_counter()
        result: Any
        try:
            await self._turns.await_turn(connection.path)
            result = await work() if connection.here else None
        except AdvisorError as error:
            result = error.detached()
        except Exception as error:
            result = self.defect(verb, connection, error)
        finally:
            connection.heavy_jobs -= 1
        self._measures.count_requests(verb, time.perf_counter() - began)
        if result is not None and msgid is not None:
            connection.answer(msgid, result)

    def defect(self, method: str, connection: Connection, error: Exception) -> AdvisorError:
        """Log and count a defect of ours; return the error for the peer."""
        event(logging.ERROR, "defect in a request", error=error, verb=method, connection=connection.number)
        self._measures.errors["defect"] += 1
        reported = ServiceError("the service failed on this request; it has logged why", field="method", value=method)
        reported.retry = False
        return reported
