"""How long does an honest client wait for acknowledgements while others flood the service, and while an image is written?

    python benchmarks/floods.py [--seconds 10] [--components 1000000]
        [--only rows columns questions scrapes names image restart]

The honest client sends ten rows, numbered, waits for the acknowledgement, rests for 5 ms and sends the next. Beside it, each
from one process of lowest priority that never waits for an answer before it sends the next:

- rows, columns: 60 connections of another identity, each with batches of as many rows as a message may have
- questions: 60 connections of another identity that ask for status, predictions and plans
- scrapes: 60 connections that pipeline `GET /metrics` and never read
- names: one producer that brings 1,000,000 components which were never seen
- image: rows of all components until the service has written an image of them
- restart: no flood; how long stop and start take, without and with rows in the log

The longest wait counts (<= 100 ms), and how many times the quiet median that is. Where other programs want the processors
they are waited for too: `worked` is what the service's loop alone worked while the honest client waited, in processor
milliseconds, and `others` the processor seconds of all that is not of this run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from latency import Wire, service

from advisor.domain.limits import NAME_IDS_MAX, NAMES_BATCH_MAX, ROWS_BATCH_MAX

CONNECTIONS = 60
KNOWN = 1_000  # components of floods of rows
PAUSE_S = 0.005
BOUND_MS = 100.0


def packed(method: str, params: Any, msgid: int = 1) -> bytes:
    return msgpack.packb([0, msgid, method, [params]])


def columns(rng: np.random.Generator, index: np.ndarray) -> dict[str, Any]:
    n = len(index)
    return {
        "index": index.astype("<u4").tobytes(), "predictor": rng.uniform(1, 100, n).tobytes(),
        "cores": rng.choice([1.0, 2.0, 4.0, 8.0], n).tobytes(), "elapsed_s": rng.uniform(0.1, 1.0, n).tobytes(),
    }  # fmt: skip


class Place:
    """Where a service is, and how another identity than the honest client comes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(16)
        self.tcp, self.http = (_free_port() for _ in range(2))
        (folder / "tokens").write_text(f'[[token]]\nsecret = "{self.token}"\nscope = "write"\n')
        (folder / "tokens").chmod(0o600)

    def options(self, components: int) -> dict[str, Any]:
        return {
            "tcp": f"127.0.0.1:{self.tcp}", "http": f"127.0.0.1:{self.http}", "tokens": str(self.folder / "tokens"),
            "components_max": 3 * components,
        }  # fmt: skip

    def stranger(self, producer: str | None = None) -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.tcp))
        hello = {"protocol": 2, "token": self.token} | ({"producer": producer} if producer else {})
        found.sendall(packed("hello", hello))
        found.recv(2**16)
        return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


def pump(sockets: list[socket.socket], data: Callable[[int, int], bytes], until: float, *, reads: bool = True) -> None:
    """Send without an end on all sockets; what is answered is read and forgotten, or not even read."""
    rest, sent = [b""] * len(sockets), [0] * len(sockets)
    for each in sockets:
        each.setblocking(False)
    while time.monotonic() < until:
        idle = True
        for at, each in enumerate(sockets):
            with suppress(BlockingIOError):
                if not rest[at]:
                    rest[at] = data(at, sent[at])
                    sent[at] += 1
                rest[at] = rest[at][each.send(rest[at]) :]
                idle = False
            if reads:
                with suppress(BlockingIOError):
                    each.recv(2**18)
        if idle:
            time.sleep(0.0005)


def flood_rows(place: Place, until: float) -> None:
    rng = np.random.default_rng(1)
    rows = [[f"k{i % KNOWN}", float(x), 4.0, 0.5] for i, x in enumerate(rng.integers(1, 99, ROWS_BATCH_MAX))]
    body = msgpack.packb(rows)
    sockets = [place.stranger(f"rows-{at}") for at in range(CONNECTIONS)]

    def data(at: int, number: int) -> bytes:
        numbered = packed("observe_rows", {"producer": f"rows-{at}", "sequence": number + 1, "rows": None})
        return numbered.removesuffix(b"\xc0") + body

    pump(sockets, data, until)


def flood_columns(place: Place, until: float) -> None:
    rng = np.random.default_rng(2)
    given = columns(rng, rng.integers(0, NAMES_BATCH_MAX, ROWS_BATCH_MAX))
    given["components"] = [f"k{i}" for i in range(NAMES_BATCH_MAX)]
    sockets = [place.stranger(f"columns-{at}") for at in range(CONNECTIONS)]
    pump(
        sockets,
        lambda at, n: packed("observe_columns", given | {"producer": f"columns-{at}", "sequence": n + 1}),
        until,
    )


def flood_questions(place: Place, until: float) -> None:
    asked = (
        packed("status", {"components": True, "limit": 1000}),
        packed("predict", {"component": "k1", "predictor": [float(x) for x in range(1, 100)], "cores": [4.0] * 99}),
        packed("allocate", {"network": " .. ".join(f"k{i}" for i in range(16)), "cores": 32}),
    )
    pump([place.stranger() for _ in range(CONNECTIONS)], lambda at, n: asked[(at + n) % len(asked)], until)


def flood_scrapes(place: Place, until: float) -> None:
    request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{place.http}\r\n\r\n".encode() * 100
    found = []
    for _ in range(CONNECTIONS):
        found.append(socket.socket())
        found[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
        found[-1].connect(("127.0.0.1", place.http))
    with suppress(ConnectionError):
        pump(found, lambda *_: request, until, reads=False)


def flood_names(place: Place, components: int, until: float) -> None:
    """Bring so many components, one row each, as fast as they are taken; a connection may number NAME_IDS_MAX of them."""
    rng, part = np.random.default_rng(3), NAME_IDS_MAX - NAME_IDS_MAX % ROWS_BATCH_MAX
    for before in range(0, components, part):
        wire, unpacker, waiting = place.stranger(f"names-{before}"), msgpack.Unpacker(), 0
        here = min(part, components - before)
        for sequence, first in enumerate(range(0, here, ROWS_BATCH_MAX), 1):
            ids = np.arange(first, min(first + ROWS_BATCH_MAX, here))
            for start in range(first, int(ids[-1]) + 1, NAMES_BATCH_MAX):
                names = [f"new-{before + i}" for i in range(start, min(start + NAMES_BATCH_MAX, int(ids[-1]) + 1))]
                wire.sendall(msgpack.packb([0, 1, "names", [start, names]]))
                waiting += 1
            numbered = {"producer": f"names-{before}", "sequence": sequence}
            wire.sendall(packed("observe_columns", columns(rng, ids) | numbered))
            waiting += 1
            while waiting > (40 if first + ROWS_BATCH_MAX < here else 0):
                unpacker.feed(wire.recv(2**18))
                for _, _, error, _ in unpacker:
                    assert error is None, error
                    waiting -= 1


def flood_until_image(place: Place, components: int, until: float) -> None:
    """Send rows of known components until an image of all has taken its place."""
    state, rng, wire = place.folder / "state", np.random.default_rng(4), place.stranger("image")
    unpacker, began, sequence, waiting = msgpack.Unpacker(), state.stat().st_ino, 0, 0
    named = min(components, NAME_IDS_MAX - NAME_IDS_MAX % NAMES_BATCH_MAX)
    for start in range(0, named, NAMES_BATCH_MAX):
        wire.sendall(
            msgpack.packb([0, 1, "names", [start, [f"new-{i}" for i in range(start, start + NAMES_BATCH_MAX)]]])
        )
        waiting += 1
    ready = [columns(rng, rng.integers(0, named, ROWS_BATCH_MAX)) for _ in range(64)]
    while state.stat().st_ino == began and time.monotonic() < until:
        sequence += 1
        wire.sendall(packed("observe_columns", ready[sequence % 64] | {"producer": "image", "sequence": sequence}))
        waiting += 1
        while waiting > 8:
            unpacker.feed(wire.recv(2**18))
            for _, _, error, _ in unpacker:
                assert error is None, error
                waiting -= 1


class Honest:
    """A client that sends some rows and waits for their acknowledgement."""

    def __init__(self, path: Path, pid: int) -> None:
        self.wire, self.sequence = Wire(path), 0
        self._loop = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self.quiet_ms = 1.0

    def _worked(self) -> float:
        return int(self._loop.read_text().split()[0]) * 1e-9

    def waits(self, going: Callable[[], bool]) -> np.ndarray:
        """Return milliseconds by wait: those of the clock, and those that the service's loop worked."""
        found: list[tuple[float, float]] = []
        rows = [[f"honest-{i}", 1.0 + i, 2.0, 0.5] for i in range(10)]
        while going():
            self.sequence += 1
            worked, began = self._worked(), time.perf_counter()
            self.wire.call("observe_rows", {"producer": "honest", "sequence": self.sequence, "rows": rows})
            found.append((time.perf_counter() - began, self._worked() - worked))
            time.sleep(PAUSE_S)
        return np.array(found) * 1e3


def cpu_s(pid: int | None = None) -> float:
    """Return the processor seconds of a process, or of the whole machine."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13] if pid else ()
    ticks = sum(
        map(int, parts or (n for at, n in enumerate(Path("/proc/stat").read_text().split()[1:9]) if at not in (3, 4)))
    )
    return ticks / os.sysconf("SC_CLK_TCK")


def beside(
    what: str, honest: Honest, pid: int, flood: Callable[..., None], *given: Any, seconds: float, whole: bool
) -> float:
    """Tell how long the honest client waited while a flood went on; `whole`: until the flood has done what it has to do."""

    def lowest() -> None:
        os.nice(10)
        flood(*given, time.monotonic() + (1e6 if whole else seconds))

    process = multiprocessing.get_context("fork").Process(target=lowest, daemon=True)
    before = cpu_s(), cpu_s(pid), os.times()
    began = time.monotonic()
    process.start()
    waits = honest.waits(process.is_alive)
    process.join()
    took, times = time.monotonic() - began, os.times()
    ours = cpu_s(pid) - before[1]
    flooding = times.children_user + times.children_system - before[2].children_user - before[2].children_system
    others = cpu_s() - before[0] - ours - flooding
    reported(what, waits, honest.quiet_ms)
    print(
        f"{'':10s} {took:.1f} s; processor: service {ours:.1f}, flood {flooding:.1f}, others {others:.1f} s", flush=True
    )
    return float(waits[:, 0].max())


def reported(what: str, waits: np.ndarray, quiet_ms: float) -> None:
    by_clock, worked = (
        "  ".join(f"{name} {np.quantile(column, q):7.2f}" for name, q in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)))
        for column in waits.T
    )
    longest = waits[:, 0].max()
    print(
        f"{what:10s} {len(waits):6d} acknowledgements: {by_clock} ms ({longest / quiet_ms:.1f} x quiet)   worked {worked} ms"
        f"{'   LONG' if longest > BOUND_MS else ''}", flush=True,
    )  # fmt: skip


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--components", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*")
    asked = parser.parse_args()
    n = asked.components - asked.components % NAMES_BATCH_MAX
    short = {"rows": flood_rows, "columns": flood_columns, "questions": flood_questions, "scrapes": flood_scrapes}
    wanted = asked.only or [*short, "names", "image", "restart"]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        running = service(place.folder, state=True, **place.options(n))
        path, pid = running.__enter__()
        honest = Honest(path, pid)
        honest.waits(iter([True] * 200 + [False]).__next__)
        quiet = honest.waits(iter([True] * 400 + [False]).__next__)
        honest.quiet_ms = float(np.median(quiet[:, 0]))
        reported("quiet", quiet, honest.quiet_ms)
        for what, flood in short.items():
            if what in wanted:
                beside(what, honest, pid, flood, place, seconds=asked.seconds, whole=False)
        for what, flood in {"names": flood_names, "image": flood_until_image}.items():
            if what in wanted:
                beside(what, honest, pid, flood, place, n, seconds=0.0, whole=True)
        if "names" in wanted and "scrapes" in wanted:
            beside("scrapes", honest, pid, flood_scrapes, place, seconds=asked.seconds, whole=False)
        with timed("stop"):
            running.__exit__(None, None, None)
        if "restart" in wanted:
            with timed("start and stop"), service(place.folder, state=True, **place.options(n)):
                pass


if __name__ == "__main__":
    main()
