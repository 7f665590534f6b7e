"""What is fed with any bytes: every verb of the service, what a client reads, state bytes, the readers of every file.

A target takes bytes and raises what is a defect. An `AdvisorError` is none: it is how bad input is told.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgpack
from fuzz_questions import QUESTIONS, TEXTS
from lives_events import NETWORK, Stream
from snet_runs import write_run
from task_program import Program, recursive

from advisor.cli.learning import READERS as RUN_READERS
from advisor.domain.task_events import TaskEvents
from advisor.engine import Engine
from advisor.engine.journal import decode
from advisor.engine.state_bytes import Stored
from advisor.errors import AdvisorError
from advisor.files.events import read_events, write_events
from advisor.files.graphs import read_graph
from advisor.files.profiles import read_profile
from advisor.files.run_files import RunFile
from advisor.files.snet_runs import SnetRun
from advisor.files.tables import TableReader
from advisor.network import parse
from advisor.network.json_text import parse_json
from advisor.protocol.connection import ClientConnection, ServerConnection
from advisor.protocol.snet_resources import Frames
from advisor.protocol.verbs import METHODS
from advisor.service import load_config, worker
from advisor.service.access import Access
from advisor.service.connection import Connection
from advisor.service.hub import Hub
from advisor.service.local_backend import LocalBackend

Target = Callable[[bytes], object]
TESTS = Path(__file__).parents[1]
CORPUS, GOLDEN = TESTS / "fuzz" / "corpus", TESTS / "golden"
VERBS = sorted(METHODS)
TURNS = 400  # of the loop, for what one input set going
EVENTS = 60
INPUTS_A_SERVICE = 64  # then a new one begins, for a restart must not be needed to bring a defect out
RECORDS_MAX = 64  # batches of a file that are read: a few bytes may stand for many


@cache
def taught() -> bytes:
    """Return the state of an engine that has seen some of everything."""
    engine = Engine()
    for _ in taught_by(engine, 3):
        pass
    engine.advisor.define_network(NETWORK, id="net")
    return engine.to_bytes()


def taught_by(engine: Engine, seed: int) -> Iterator[bytes]:
    """Teach an engine events of every verb that changes what is known, by a service; yield each message when it is answered."""
    service = _Service(engine)
    for message in messages(seed):
        _loop().run_until_complete(service.serve([message]))
        yield message


def messages(seed: int) -> list[bytes]:
    """Return so many numbered events as they are sent."""
    stream = Stream(seed)
    return [msgpack.packb([0, n, verb, [given]]) for n in range(1, EVENTS + 1) for verb, given in (stream.event(n),)]


# -- verbs -----------------------------------------------------------------------------------------------------------------


class _Socket:
    family = socket.AF_INET

    def setsockopt(self, *_: int) -> None: ...


class _Wire(asyncio.Transport):
    """A peer that takes in all that it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.reported, self.closed = bytearray(), False

    def write(self, data: Any) -> None:
        self.reported += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "socket": _Socket()}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def _nothing(self, *_: Any) -> None: ...

    pause_reading = resume_reading = set_write_buffer_limits = cast("Any", _nothing)


@cache
def _config() -> Any:
    return load_config(tcp="127.0.0.1:1")


class _Service:
    """A service that answers one input after the other, each on a connection of its own: what one teaches the next finds."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.given: list[list[bytes]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._hub = Hub(_config(), engine or Engine.from_bytes(taught()), partial(LocalBackend, None))
        self._hub.heavy._ask = _done
        self._measures = self._hub.measures
        self._hub.background.spawn = self._spawn

    def _spawn(self, work: Callable[..., Any], *args: Any) -> None:
        self._tasks.append(_loop().create_task(work(*args)))

    async def serve(self, messages: list[bytes]) -> None:
        """Answer messages of one connection as the service does; raise where one met a defect."""
        self.given.append(messages)
        connection, wire = Connection(self._hub), _Wire()
        connection.connection_made(wire)
        try:
            for message in messages:
                for start in range(0, len(message), 2**16):
                    part = message[start : start + 2**16]
                    if not wire.closed:
                        connection.get_buffer(-1)[: len(part)] = part
                        connection.buffer_updated(len(part))
            for _ in range(TURNS):
                await asyncio.sleep(0)
                if not getattr(_loop(), "_ready", True):
                    break  # nothing more comes of it, but by a clock
            answers = msgpack.Unpacker(strict_map_key=False)
            answers.feed(wire.reported)
            for answer in answers:
                assert answer[0] in (1, 2), answer
            for task in self._tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise cast("BaseException", task.exception())
            assert not self._measures.errors["defect"], "a request met a defect: its log has it"
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()
            connection.connection_lost(None)


_services: list[_Service] = []  # the one at work


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _served(messages: list[bytes]) -> None:
    """Answer messages by the service at work, or by a new one; tell what it was given before where that matters."""
    if not _services or len(_services[0].given) >= INPUTS_A_SERVICE:
        _services[:] = [_Service()]
    try:
        _loop().run_until_complete(_services[0].serve(messages))
    except BaseException as defect:
        before = _services.pop().given[:-1]
        _loop().run_until_complete(_Service().serve(messages))  # raises, where it is of these messages alone
        defect.add_note(f"behind {before!r}")
        raise


async def _done(job: bytes) -> bytes:
    """Do in this process what a worker's would, so that a defect of it is seen."""
    return worker.do_packed(job)


def verbs(data: bytes) -> None:
    """Requests: pairs of a verb, by its place or its name, and its parameters; what does not read goes out as it is."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(data)
    messages: list[bytes] = []
    try:
        for number, (verb, params) in enumerate(zip(unpacker, unpacker, strict=False)):
            name = VERBS[verb % len(VERBS)] if isinstance(verb, int) else verb
            messages.append(msgpack.packb([0, number, name, params]))
    except (ValueError, msgpack.UnpackException, OverflowError, TypeError):
        messages.append(data)
    _served(messages)


def frames_of_a_client(data: bytes) -> None:
    """Bytes that come to the service: events, or one violation; never an error."""
    connection = ServerConnection()
    for start in range(0, len(data), 7):
        connection.receive_requests(data[start : start + 7])


def answers(data: bytes) -> None:
    """Bytes that come to a client: answers, or an error of ours."""
    ClientConnection().receive_replies(data)


def snet(data: bytes) -> None:
    """Bytes of a runtime that asks for cores."""
    connection = Frames()
    list(connection.receive(data))


# -- state -----------------------------------------------------------------------------------------------------------------


def state(data: bytes) -> None:
    """State bytes: refused, or of use."""
    _use(Engine.from_bytes(data))


def journal(data: bytes) -> None:
    """An entry of the journal, which a start folds."""
    decode(data)
    _use(Engine.restore(Stored(deque(), (data,))), words_looked_through=False)


def _use(engine: Engine, *, words_looked_through: bool = True) -> None:
    """Ask, teach and write: what comes is an answer or an error of ours.

    An entry of the log lies below a digest. So words of records in it that no rows lead to are not looked for.
    """
    advisor = engine.advisor
    asked: list[Callable[[], object]] = [advisor.status, advisor.programs.status, advisor.task_types.status]
    for name in list(advisor.components.slots.components)[:4]:
        asked.append(lambda name=name: advisor.predict(name, predictor=3.0, cores=2))
        asked.append(lambda name=name: advisor.observe(name, predictor=3.0, cores=2, elapsed_s=1.0))
        asked.append(lambda name=name: advisor.choose_cores(name, predictor=3.0, cores_max=8))
    asked += [
        lambda name=name: advisor.predict_run(name, size=3, workers=2) for name in list(advisor.programs.known)[:2]
    ]
    asked += [
        lambda key=key: engine.profiles.answer(*key, nodes=True, diagnosis=True)
        for key in list(engine.profiles.runs)[: 2 if words_looked_through else 0]
    ]
    asked.append(lambda: Engine.from_bytes(engine.to_bytes()))
    for ask in asked:
        with contextlib.suppress(AdvisorError):
            ask()


# -- files -----------------------------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    place = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="advisor-fuzz-", dir=place if os.access(place, os.W_OK) else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file(data: bytes, suffix: str) -> Path:
    path = _folder() / f"input{suffix}"
    path.write_bytes(data)
    return path


def _reader(suffix: str, read: Callable[[Path], Iterable[Any] | None]) -> Target:
    def target(data: bytes) -> None:
        for number, _ in enumerate(read(_file(data, suffix)) or ()):
            if number > RECORDS_MAX:
                break

    return target


def _runs_of(kind: str) -> Callable[[Path], Iterator[Any]]:
    return lambda path: RunFile(path, kind, import_module(RUN_READERS[kind]).runs).read()


def _table(path: Path) -> Iterator[Any]:
    yield from TableReader(path).chunks()


def snet_logs(data: bytes) -> None:
    """A map and a log of a run, cut anywhere by NUL bytes."""
    tasks, *parts = data.split(b"\0")
    logs = {f"mon_n00_worker{first:02}.log": parts[first::2] for first in range(2)}
    run = SnetRun({"n00_tasks.map": [tasks]} | logs, "net")
    for _ in zip(range(1000), run.rows(ended=True), strict=False):
        pass


def network(data: bytes) -> None:
    """The text of a network, or its JSON."""
    text = data.decode("utf-8", "replace")
    for read in (parse, parse_json):
        with contextlib.suppress(AdvisorError):
            read(text)


def configuration(data: bytes) -> None:
    """A file of keys, and a file of tokens."""
    with contextlib.suppress(AdvisorError):
        load_config(_file(data, ".toml"))
    tokens = _file(data, ".tokens")
    tokens.chmod(0o600)
    Access(load_config(tcp="127.0.0.1:1", tokens=tokens))


TARGETS: Mapping[str, Target] = {
    "verbs": verbs, "frames": frames_of_a_client, "answers": answers, "snet": snet, "state": state,
    "journal": journal, "snet_logs": snet_logs, "network": network, "configuration": configuration,
    "table": _reader(".csv", _table), "events": _reader(".events", read_events),
    "profile": _reader(".events", lambda path: read_profile(path) and None),
    **{kind: _reader(".txt", _runs_of(kind)) for kind in RUN_READERS},
    "graph.json": _reader(".json", lambda path: read_graph(path) and None),
}  # fmt: skip


def fed(target: str, data: bytes) -> None:
    """Feed a target; raise what is a defect."""
    with contextlib.suppress(AdvisorError):
        TARGETS[target](data)


# -- what mutation begins with ---------------------------------------------------------------------------------------------


def seeds(target: str) -> list[bytes]:
    """Return legal inputs of a target: made here, for what is made here, or lying in `corpus` and among the golden files."""
    kept = sorted((CORPUS / target).glob("*"))
    return [*_made(target), *(path.read_bytes() for path in kept)]


def _made(target: str) -> list[bytes]:
    match target:
        case "verbs":
            asked = [
                *((verb, params if isinstance(params, list) else [params]) for verb, params in QUESTIONS),
                *(tuple(msgpack.unpackb(message)[2:]) for message in messages(5)),
            ]
            return [msgpack.packb(VERBS.index(verb)) + msgpack.packb(params) for verb, params in asked]
        case "frames":
            return messages(5)
        case "answers":
            return [msgpack.packb([1, 7, None, {"accepted": 3}]), msgpack.packb([1, 7, {"code": "invalid"}, None]),
                    msgpack.packb([2, "reported", [{"watch": 1}]])]  # fmt: skip
        case "snet":
            return [b"{message 1 hello}", b"{topology}", b"{local 4}{remote 0}{state}{quit}"]
        case "state":
            return [taught()]
        case "journal":
            engine = Engine()
            engine.journal.keep()
            found = list[bytes]()
            for _ in taught_by(engine, 5):
                entry = engine.take_entry()
                found += [entry.encode()] if entry is not None else []
            return found
        case "events" | "profile":
            path = _folder() / "seed.events"
            run = Program(2, recursive(2, 2, 500)).run()
            write_events(path, [TaskEvents(run.records, tuple(run.strings), ended=True)])
            return [path.read_bytes()]
        case "snet_logs":
            files = write_run(4, 3).files
            return ["\0".join(files[name] for name in sorted(files, reverse=True)).encode()]
        case "nextflow" | "sacct" | "wfformat" | "snakemake":
            names = {"nextflow": "trace*.txt", "sacct": "sacct.txt", "wfformat": "*.json", "snakemake": "*.tsv"}
            return [path.read_bytes() for path in sorted((GOLDEN / "run_files").glob(names[target]))]
        case _:
            return [text.encode() for text in TEXTS.get(target, ())]
