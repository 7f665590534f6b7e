"""A service on a real Unix socket, in a thread, that does as it is told: cuts, delays, refuses, forgets."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from advisor.errors import AdvisorError, SequenceGap, Unauthorized, UnknownComponent
from advisor.protocol.connection import RpcRequest, ServerConnection, Violation, encode_error, encode_response
from advisor.protocol.verbs import (
    Forget,
    Hello,
    Names,
    ObserveColumns,
    ObserveRows,
    Predict,
    StatusAsked,
    check_params,
)  # fmt: skip


class ScriptedService:
    """What the tests read and set is plain state; it changes only while no client speaks, or under its own lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = f"unix:{path}"
        self.rows: Counter[tuple] = Counter()  # every row folded
        self.applied: Counter[tuple[str, bytes]] = Counter()
        self.names: list[str] = []
        self.forgotten: list[str] = []
        self.greetings: list[Hello] = []
        self.token: str | None = None
        self.cut_after: list[int] = []  # bytes taken in before a connection is cut, one item a connection
        self.mute_after: list[int] = []  # bytes sent before a connection is cut, one item a connection
        self.errors: list[AdvisorError] = []  # to answer the next batches with
        self.hold_answers = False  # answers wait, and come in reverse order when let go
        self.held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- from the test's thread ------------------------------------------------------------------------------------

    def start(self) -> ScriptedService:
        async def listen() -> None:
            self._server = await asyncio.start_unix_server(self._serve, self.path)

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(120)
        return self

    def stop(self) -> None:
        async def end() -> None:
            if self._server is not None:
                self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(120)
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()

    def let_go(self) -> None:
        def send() -> None:
            self.hold_answers = False
            for writer, data in reversed(self.held):
                writer.write(data)
            self.held.clear()

        self._loop.call_soon_threadsafe(send)

    def forget_everything(self) -> None:
        self.rows.clear()
        self.applied.clear()

    # -- in the service's thread -----------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        connection = ServerConnection()
        budget = self.cut_after.pop(0) if self.cut_after else None
        speech = self.mute_after.pop(0) if self.mute_after else None
        names: list[str] = []
        try:
            while budget != 0 and (data := await reader.read(65536 if budget is None else min(budget, 65536))):
                if budget is not None:
                    budget -= len(data)
                for event in connection.receive_requests(data):
                    assert not isinstance(event, Violation), event
                    answer = self._answer(event, names)
                    if speech is not None and len(answer) > speech:
                        writer.write(answer[:speech])
                        await writer.drain()
                        return
                    speech = None if speech is None else speech - len(answer)
                    if self.hold_answers and event.method != "hello":
                        self.held.append((writer, answer))
                    else:
                        writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, request: RpcRequest, names: list[str]) -> bytes:
        params = check_params(request.method, request.params)
        try:
            return encode_response(request.msgid, self._result(params, names))
        except AdvisorError as error:
            return encode_error(request.msgid, error)

    def _result(self, params: object, names: list[str]) -> object:
        match params:
            case Hello():
                if params.token != self.token:
                    raise Unauthorized("a wrong token")
                self.greetings.append(params)
                return {"version": "test", "sequence": self.applied[params.producer or "", params.incarnation]}
            case Names():
                names[params.first_id :] = params.names
                self.names = list(names)
                return {"known": len(names)}
            case ObserveRows() | ObserveColumns() | Forget():
                return self._fold(params)
            case Predict(component="unknown"):
                raise UnknownComponent("unknown")
            case Predict():
                shape = params.predictor if isinstance(params.predictor, list) else 1.0
                return {
                    "elapsed_s": shape, "low_s": shape, "high_s": shape, "model": "joint", "notes": ["n"],
                    "observations": 3, "extrapolates": 0.0,
                }  # fmt: skip
            case StatusAsked():
                return {"rows": sum(self.rows.values())}
        raise AssertionError(params)

    def _fold(self, params: ObserveRows | ObserveColumns | Forget) -> object:
        producer = params.producer, params.incarnation
        expected = self.applied[producer] + 1
        if params.sequence > expected:
            raise SequenceGap(params.sequence, expected)
        if params.sequence < expected:
            return {"accepted": 0, "refused": {"count": 0}, "sequence": params.sequence, "replayed": True}
        if self.errors:
            raise self.errors.pop(0)
        self.applied[producer] += 1
        if isinstance(params, Forget):
            self.forgotten.append(params.component)
            return {"component": params.component}
        if isinstance(params, ObserveColumns):
            rows = [("column",)] * (len(params.index) // 4)
        else:
            rows = [(row[0], row[3]) for row in params.rows]
        bad = [row for row in rows if row[-1] == -1.0]
        self.rows.update(row for row in rows if row[-1] != -1.0)
        refused = {"count": len(bad), "by_code": {"invalid_elapsed_s": len(bad)}} if bad else {"count": 0}
        first = [[0, "invalid_elapsed_s", -1.0]] if bad else []
        return {"accepted": len(rows) - len(bad), "refused": refused | {"first": first}, "sequence": params.sequence}


@pytest.fixture
def service(tmp_path: Path):
    scripted = ScriptedService(tmp_path / "s").start()
    yield scripted
    scripted.close()
