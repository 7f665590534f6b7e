"""The C client against a real service on a real socket, under sanitizers: rows exactly once, curves since a version."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from c_curves import Curves, compiled
from curve_vectors import BUNDLE
from live import PATIENCE_S, rows_of, running

SUPPORT = Path(__file__).parents[1] / "support"
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def sanitized(output: Path, program: str) -> Path:
    return compiled(output, str(SUPPORT / program), *SANITIZED)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitized(tmp_path_factory.mktemp("c") / "client", "c_client.c")


class Driven:
    """A running C program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, word: str, number: int = 0) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word} {number}\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            return (await self._process.stdout.readline()).decode().strip()

    async def stats(self) -> dict[str, Any]:
        return json.loads(await self.ask("stats"))


@asynccontextmanager
async def driven(
    program: Path, path: Path, *, batch_rows: int = 100, batches: int = 64, watch: bool = False, whole: bool = False,
    one_core: bool = False,
) -> AsyncIterator[Driven]:  # fmt: skip
    more = ["whole", "one core"][: 2 if one_core else whole]
    options = (str(path), "c program", str(batch_rows), str(batches), str(int(watch)), *more)
    process = await asyncio.create_subprocess_exec(
        str(program), *options, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    yield Driven(process)
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == 0  # sanitizers speak on standard error, and by this


async def learned(live: Any) -> int:
    return (await (await live.peer()).call("status", {}))["totals"].get("rows_accepted", 0)


async def test_rows_are_counted_once_through_a_restart_of_the_service(program: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with driven(program, tmp_path / "s") as client:
        assert await client.ask("send", 250) == "250"  # before there is a service
        assert await client.ask("flush", 1) == "0"
        async with running(tmp_path, state=state) as live:
            assert await client.ask("flush", 10_000) == "1"
            assert await client.ask("bad") == "0 -5"
            assert await client.ask("send", 3_000) == "3000"
            assert await client.ask("flush", 10_000) == "1"
            assert await learned(live) == 3_250
            await client.ask("send", 1_000)
            await client.ask("step", 1)  # on its way, perhaps
        await client.ask("send", 500)
        async with running(tmp_path, state=state) as live:
            assert await client.ask("flush", 10_000) == "1"
            assert await learned(live) == 4_750
        stats = await client.stats()
        assert (stats["taken"], stats["acknowledged"], stats["held"]) == (4_751, 4_751, 0)
        assert (stats["connections"], stats["lost"], stats["dropped"]) == (2, 0, 0)
        assert stats["refused"] == 1


async def test_memory_is_bounded_and_what_has_no_room_is_counted(program: Path, tmp_path: Path) -> None:
    async with driven(program, tmp_path / "s", batch_rows=10, batches=4) as client:
        assert await client.ask("send", 100) == "40"
        stats = await client.stats()
        assert (stats["taken"], stats["dropped"], stats["held"]) == (40, 60, 40)
        async with running(tmp_path) as live:
            assert await client.ask("flush", 10_000) == "1"
            assert await learned(live) == 40
            assert await client.ask("send", 30) == "30"
            assert await client.ask("flush", 10_000) == "1"


async def test_a_service_that_lost_its_state_is_told_everything_that_is_held(program: Path, tmp_path: Path) -> None:
    async with driven(program, tmp_path / "s") as client:
        async with running(tmp_path, state=tmp_path / "one"):
            await client.ask("send", 300)
            assert await client.ask("flush", 10_000) == "1"
        await client.ask("send", 200)
        async with running(tmp_path, state=tmp_path / "another") as live:
            assert await client.ask("flush", 10_000) == "1"
            assert await learned(live) == 200
        stats = await client.stats()
        assert (stats["lost"], stats["acknowledged"]) == (1, 500)


async def test_curves_are_pulled_as_they_change_and_answer_as_what_is_sent(program: Path, tmp_path: Path) -> None:
    async with running(tmp_path) as live, driven(program, tmp_path / "s", watch=True) as client:
        peer = await live.peer()
        assert await client.ask("step", 3) in "01"
        await peer.call("observe_rows", {"rows": rows_of(120)})
        value, cores = (await client.ask("curves", 150)).split()
        answer = Curves((await peer.call("curves", {"components": ["c1"]}))["bundle"])
        assert float.fromhex(value) == answer.predict("c1", 4.0, 2.0).elapsed_s
        assert int(cores) == answer.choose_cores("c1", 4.0, cores_max=8) == 8


async def test_rows_tell_networks_records_and_measures(program: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with driven(program, tmp_path / "s", batch_rows=37, whole=True) as client:
        assert await client.ask("define", 1) == "0"
        assert await client.ask("wrong") == "-5 -5 -5"
        assert await client.ask("records", 60) == "132"
        async with running(tmp_path, state=state) as live:
            assert await client.ask("flush", 10_000) == "1"
            peer = await live.peer()
            flow = await peer.call("flow", {"network": "net"})
            assert flow["shares"] == [[0.75, 0.25]]
            assert flow["records"] == 60
            assert flow["fan_outs"] == [pytest.approx([1 / 3] * 3)]
            status = await peer.call("status", {"components": True})
            assert {each["component"]: each["rows"] for each in status["components"]} == {
                "c0": 60, "c1": 45, "c2": 15, "square": 12
            }  # fmt: skip
            assert (await peer.call("predict", {"component": "c1", "predictor": 4.0, "measure": "energy_j"}))[
                "elapsed_s"
            ] == pytest.approx(2.5)
            assert (await peer.call("predict", {"component": "c0", "predictor": 4.0, "measure": "peak_bytes"}))[
                "elapsed_s"
            ] == pytest.approx(4096.0)
            assert (await peer.call("predict", {"component": "square", "predictor": [2.0, 3.0], "cores": 2}))[
                "elapsed_s"
            ] == pytest.approx(0.5)
            assert not status["totals"].get("refused")
        assert (await client.stats())["accepted"] == 132


async def test_allocations_and_advice_are_told(program: Path, tmp_path: Path) -> None:
    async with driven(program, tmp_path / "s", whole=True) as client:
        assert await client.ask("define", 1) == "0"
        async with running(tmp_path) as live:
            assert await client.ask("watch", 4) == "0"  # before anything is known
            assert await client.ask("records", 100) == "220"
            assert await client.ask("flush", 10_000) == "1"
            reported = await client.ask("told", 200)
            assert reported.startswith("2 0 used=")
            assert await client.ask("allocate", 4) == "0 -6"
            reported = await client.ask("told", 200)
            answer = await (await live.peer()).call("allocate", {"network": "net", "cores": 4})
            words = reported.removesuffix(";").split()
            assert words[:3] == ["1", "-1", f"used={answer['cores_used']}"]
            assert words[3:-1] == [f"{key}={answer['cores'][key]}x{n}" for key, n in answer["instances"].items()]
            assert float.fromhex(words[-1]) == answer["throughput_per_s"]
        async with running(tmp_path):  # a service that knows nothing is told the network again, and asked again
            assert await client.ask("allocate", 4) == "0 -6"
            assert (await client.ask("told", 200)).startswith("4 -1 component")
            assert await client.ask("define", 0) == "0"
            assert await client.ask("step", 20) == "1"


async def test_components_of_one_core_are_planned_so(program: Path, tmp_path: Path) -> None:
    async with driven(program, tmp_path / "s", one_core=True) as client:
        assert await client.ask("define", 1) == "0"
        async with running(tmp_path):
            assert await client.ask("watch", 8) == "0"
            assert await client.ask("records", 100) == "220"
            assert await client.ask("flush", 10_000) == "1"
            words = (await client.ask("told", 200)).split()
            assert words[3:-1] == ["c0=1x1", "c1=1x1", "c2=1x1"]


async def test_what_is_told_may_be_cut_anywhere_and_need_not_be_true(program: Path, tmp_path: Path) -> None:
    shares = {"c0": 1, "c1": 2}
    said: list[Any] = [
        [2, "advice", [[{"watch": 7, "kind": "advice", "allocation": {"cores": shares, "instances": shares}}]]],
        [2, "advice", [[{"watch": 3, "kind": "advice", "allocation": {"cores": "x", "instances": [1]}}, 5]]],
        [2, "advice", [{"watch": 7}]],
        [2, "advice", [[{"watch": 7, "kind": "failed", "error": {"message": "no"}}]]],
    ]

    def answer(message: list[Any]) -> list[bytes]:
        _, msgid, method, _ = message
        if method == "watch":
            parts = bytewise([1, msgid, None, {"watch": 7, "allocation": None}])
            return parts + [byte for each in said for byte in bytewise(each)]
        return bytewise([1, msgid, None, {"sequence": 0} if method == "hello" else {}])

    async with scripted(tmp_path / "s", answer), driven(program, tmp_path / "s", whole=True) as client:
        await client.ask("watch", 2)
        heard = ""
        while "4 0" not in heard:
            heard += await client.ask("told", 50)
        assert "2 0 used=0 c0=1x1 c1=2x2" in heard


Answer = Callable[[list[Any]], list[bytes] | None]


@asynccontextmanager
async def scripted(path: Path, answer: Answer) -> AsyncIterator[list[list[Any]]]:
    """Run a service that answers as a script says: bytes to send, or None to cut the connection."""
    heard: list[list[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unpacker = msgpack.Unpacker()
        while data := await reader.read(2**16):
            unpacker.feed(data)
            for message in unpacker:
                heard.append(message)
                said = answer(message)
                if said is None:
                    writer.close()
                    return
                for part in said:  # byte by byte: messages may be cut anywhere
                    writer.write(part)
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path))
    try:
        yield heard
    finally:
        server.close()


def batches(heard: list[list[Any]]) -> list[tuple[int, int]]:
    """Return (sequence, rows) of each batch heard."""
    sent = [message[3][0] for message in heard if message[2] == "observe_columns"]
    return [(batch["sequence"], len(batch["index"]) // 4) for batch in sent]


def bytewise(message: list[Any]) -> list[bytes]:
    return [bytes([byte]) for byte in msgpack.packb(message)]


async def test_a_batch_refused_for_ever_is_replaced_by_an_empty_one_and_counted(program: Path, tmp_path: Path) -> None:
    applied = 0

    def answer(message: list[Any]) -> list[bytes]:
        nonlocal applied
        _, msgid, method, params = message
        if method != "observe_columns":
            return bytewise([1, msgid, None, {"sequence": applied} if method == "hello" else {}])
        sequence = params[0]["sequence"]
        if sequence > applied + 1:
            return bytewise([1, msgid, {"code": "sequence_gap", "bound": applied + 1, "retry": False}, None])
        if sequence == 2 and params[0]["index"]:
            return bytewise(
                [1, msgid, {"code": "invalid", "message": "no", "retry": False, "value": [{"a": [1]}]}, None]
            )
        applied = max(applied, sequence)
        return bytewise([1, msgid, None, {"accepted": len(params[0]["index"]) // 4, "refused": {"count": 0}}])

    async with scripted(tmp_path / "s", answer) as heard, driven(program, tmp_path / "s", batch_rows=10) as client:
        await client.ask("send", 30)
        assert await client.ask("flush", 10_000) == "1"
        stats = await client.stats()
    assert (stats["acknowledged"], stats["rejected"], stats["accepted"], stats["held"]) == (20, 10, 20, 0)
    assert batches(heard)[:3] == [(1, 10), (2, 10), (3, 10)]
    assert batches(heard)[3:] == [(2, 0), (3, 10)]


async def test_after_errors_that_pass_and_cuts_everything_goes_again_in_order(program: Path, tmp_path: Path) -> None:
    applied, troubles = 0, ["unavailable", "unknown_name_id", "cut"]

    def answer(message: list[Any]) -> list[bytes] | None:
        nonlocal applied
        _, msgid, method, params = message
        if method != "observe_columns":
            return bytewise([1, msgid, None, {"sequence": applied} if method == "hello" else {}])
        sequence = params[0]["sequence"]
        if sequence == 2 and applied == 1 and troubles:
            trouble = troubles.pop(0)
            return None if trouble == "cut" else bytewise([1, msgid, {"code": trouble, "retry": True}, None])
        if sequence > applied + 1:
            return bytewise([1, msgid, {"code": "sequence_gap", "bound": applied + 1, "retry": False}, None])
        applied = max(applied, sequence)
        return bytewise([1, msgid, None, {"accepted": 10, "refused": {"count": 0}}])

    async with scripted(tmp_path / "s", answer) as heard, driven(program, tmp_path / "s", batch_rows=10) as client:
        await client.ask("send", 40)
        assert await client.ask("flush", 10_000) == "1"
        stats = await client.stats()
    assert (applied, stats["acknowledged"], stats["rejected"]) == (4, 40, 0)
    assert (stats["connections"], stats["lost"]) == (2, 0)
    assert [message[2] for message in heard].count("names") == 3  # at first, when they were unknown, and after the cut


@pytest.mark.parametrize(
    "said",
    [
        b"\xc1", b"\x94\x01", b"\x93\x02\xa6curves\x91\x81\xa6bundle\xc4\x03abc", b"\xdd\xff\xff\xff\xff\x01",
        b"\x94\x01\xc0\x80\xc0",
    ],
    ids=["no MessagePack", "half a message", "no bundle", "four billion items", "gives up"],
)  # fmt: skip
async def test_whatever_a_service_says_the_client_lives(program: Path, tmp_path: Path, said: bytes) -> None:
    async with scripted(tmp_path / "s", lambda _: [said]), driven(program, tmp_path / "s") as client:
        await client.ask("send", 10)
        assert await client.ask("flush", 200) == "0"
        assert (await client.stats())["held"] == 10


async def test_mutants_of_a_bundle_are_refused_or_answer(tmp_path: Path) -> None:
    fuzzer = sanitized(tmp_path / "fuzz", "fuzz_bundles.c")
    process = await asyncio.create_subprocess_exec(
        str(fuzzer), str(BUNDLE), "5000", stdout=asyncio.subprocess.PIPE, env=os.environ | {"LC_ALL": "C"}
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert int(said.split()[0]) > 500  # mutants of values that nothing forbids
