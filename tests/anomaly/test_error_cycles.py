"""What fails leaves nothing behind: an error that is kept holds, by its traceback, all that its callers held."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
from anyio import to_thread
from live import Live, Peer, resident_bytes, running

from advisor.client import AsyncClient, SyncClient
from advisor.domain import limits
from advisor.errors import AdvisorError
from advisor.protocol.connection import ClientConnection, ServerConnection
from advisor.protocol.verbs import METHODS
from advisor.service.connection import Connection

pack = msgpack.packb
DEEP: list[Any] = []
for _ in range(limits.DEPTH_MAX + 2):
    DEEP = [DEEP]
HOSTILE = (
    b"\xc1",
    pack("neither"),
    pack([0, 1]),
    pack([0, 1, 2, []]),
    pack([0, 1, "x" * 65, []]),
    pack([0, 1, "status", {}]),
    pack([0, 1, "status", DEEP]),
    pack([0, 1, "status", [msgpack.ExtType(3, b"x")]]),
    b"\x94\x00\x01\xa2\xff\xfe\x90",
    b"\x94\x00\x01\xa6status\x91\x81\xa1x" + pack("y" * (limits.STRUCTURE_BYTES_MAX + 1)),
    b"\x91" * 1000 + b"\x90",
)
WRONG: tuple[tuple[str, Any], ...] = (
    ("predict", {"component": "never", "predictor": 1.0, "cores": 1}),
    ("predict", {"component": "never", "predictor": [1.0] * 2000, "cores": 1}),
    ("allocate", {"network": "never", "cores": 4}),
    ("allocate", {"network": ["never", "seen"], "cores": 4}),
    ("allocate", {"network": 17, "cores": 4}),
    ("allocate", {"network": "c0 .. (", "cores": 4}),
    ("allocate", {"network": ["c0"], "cores": 4, "objective": "fewest_cores", "target": 1e12}),
    ("allocate_together", {"networks": [{"network": ["never"]}], "cores": 4}),
    ("watch", {"network": ["never"], "cores": 4}),
    ("curves", {"components": ["never"]}),
    ("choose_cores", {"component": "never", "cores_max": 4, "explore": 60}),
    ("suggest", {"component": "never", "cores_max": 4}),
    ("choose_together", {"jobs": "never", "cores": 4}),
    ("simulate", {"dot": "digraph {", "cores": [1]}),
    ("simulate", {"nothing": 1}),
    ("define_network", {"id": 1, "text": "net ("}),
    ("define_network", {"id": 1, "text": "(" * 5000}),
    ("observe_rows", {"producer": "p", "sequence": 9, "rows": []}),
    ("observe_columns", {"index": b"\0\0\0\0", "predictor": b"", "cores": b"", "elapsed_s": b""}),
    ("names", {"first_id": 5, "names": ["x"]}),
    ("task_events", {"records": b"x" * 7}),
    ("pin", {"component": "never", "model": "joint"}),
    ("set_allowed", {"component": "never", "allowed": []}),
    ("forget", {"component": "never"}),
    ("profile", {"producer": "never"}),
    ("predict_run", {"program": "never", "size": 1.0, "workers": 2}),
    ("hello", {"protocol": 99}),
    ("flow", {"network": "never"}),
    ("unwatch", {"watch": 99}),
    ("shards", {"shards": 2}),
    ("export", {"after": "never"}),
)


@contextmanager
def collected() -> Iterator[list[Any]]:
    """Run a block without the collector; fill the list with what only the collector could have freed."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def ours(found: list[Any]) -> list[str]:
    """Return what is left of our own errors and connections, and of others' errors that went through our frames.

    A task that was cancelled is left to the collector by the event loop's own library, whatever ran in it.
    """
    kinds = (AdvisorError, Connection, ServerConnection)
    kept = [each for each in found if isinstance(each, kinds)]
    for error in found:
        if isinstance(error, Exception):
            frames = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
            kept += [error for name in frames if "/advisor/" in name]
    return sorted({repr(each)[:200] for each in kept})


def test_bytes_that_are_no_protocol_leave_nothing_to_collect() -> None:
    with collected() as found:
        for data in HOSTILE:
            ServerConnection().receive_requests(pack([0, 1, "status", [{}]]) + data)
            try:
                ClientConnection().receive_replies(data)
            except Exception as error:  # noqa: BLE001, RUF100 - whatever it is, it must go
                str(error)
    assert ours(found) == []


async def answered(peer: Peer, method: str, *params: Any) -> list[Any]:
    await peer.post(method, *params)
    return await peer.message()


async def ask_wrongly(live: Live) -> None:
    for method, params in WRONG:
        peer = await live.peer()
        message = await answered(peer, method, params)
        assert message[2] is not None, method
        await answered(peer, method, "what", "is", "this")
        peer.close()
        await peer.closed()
    for data in HOSTILE:
        peer = await live.peer()
        await peer.send(data)
        await peer.closed()
        peer.close()


async def test_failed_questions_and_connections_leave_nothing_to_collect(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state") as live:
        await answered(await live.peer(), "observe_rows", {"rows": [["c0", 1.0, 1.0, 1.0 + i] for i in range(20)]})
        await ask_wrongly(live)
        with collected() as found:
            await ask_wrongly(live)
        assert ours(found) == []
        assert {method for method, _ in WRONG} | {"observe", "observe_run", "status"} == set(METHODS)


async def test_a_thousand_hostile_connections_and_failed_questions_cost_bounded_memory(tmp_path: Path) -> None:
    """Each brings half a megabyte that is no message, or asks for a plan that there is not; nobody collects."""
    half_megabyte = pack([0, 1, "status", ["x" * 2**19], "five"])
    async with running(tmp_path) as live:
        await ask_wrongly(live)
        before = resident_bytes()
        with collected():
            for number in range(1000):
                peer = await live.peer()
                if number % 2:
                    await peer.send(half_megabyte)
                else:
                    await answered(peer, "allocate", {"network": ["x" * 200] * 100, "cores": 4})
                    peer.close()
                await peer.closed()
                peer.close()
                live.peers.pop()
            grown = resident_bytes() - before
        assert grown <= 16 * 2**20


async def test_questions_that_fail_in_a_client_leave_nothing_to_collect(tmp_path: Path) -> None:
    """Each on its own connection, as a program does that asks now and then."""

    async def ask() -> None:
        for _ in range(3):
            async with AsyncClient(str(live.bound.socket)) as client:
                with suppress(AdvisorError):
                    await client.predict("never", 1.0, 1)
                with suppress(AdvisorError):
                    await client.allocate(["never"], 4)
            await to_thread.run_sync(ask_synchronously)

    def ask_synchronously() -> None:
        with SyncClient(str(live.bound.socket)) as client:
            for _ in range(3):
                with suppress(AdvisorError):
                    client.predict("never", 1.0, 1)
                with suppress(AdvisorError):
                    client.allocate(["never"], 4)

    async with running(tmp_path) as live:
        await ask()
        with collected() as found:
            await ask()
        assert ours(found) == []
