"""Rows a second into a service process, against a per-row Python service that is sent the same bytes in the same run.

    python benchmarks/ingest.py [--repeats 7] [--rows 200000] [--address PATH]

Each line sends the same rows (10,000 named components, random predictors and cores) in one form, over a Unix socket, and
stops the clock at the last answer: with a state file that is when the rows are durable. A round runs the per-row service,
then ours in memory, then ours with a state file; columns, which are fast, go through the rows ten times, so that a run
holds many commits. Every component has a hundred rows before the first round. The messages are packed before the clock
starts. `--address` measures a service that runs already, instead of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from advisor.domain.limits import NAMES_BATCH_MAX, ROWS_BATCH_MAX

COMPONENTS = 10_000
WINDOW = 64  # numbered batches on their way, as the clients have
COLUMN_ROUNDS = 10  # of columns through the same rows
COALESCED_BYTES = 2**16  # of singles in one send
OURS = "import sys, json; from advisor.service import load_config, run; run(load_config(**json.loads(sys.argv[1])))"
BASELINE = str(Path(__file__).with_name("per_row_service.py"))
NAMES = [f"component-{number:05d}" for number in range(COMPONENTS)]


class Rows:
    """The same rows in every form."""

    def __init__(self, count: int, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.index = rng.integers(0, COMPONENTS, count)
        self.predictor = rng.uniform(1, 1000, count)
        self.cores = rng.choice([1.0, 2.0, 4.0, 8.0, 16.0, 47.0], count)
        self.elapsed_s = 1e-3 * self.predictor * (0.1 + 0.9 / self.cores) * rng.lognormal(0, 0.1, count)
        columns = (self.predictor.tolist(), self.cores.tolist(), self.elapsed_s.tolist())
        self.rows = [list(row) for row in zip([NAMES[i] for i in self.index], *columns, strict=True)]

    def singles(self, _: str) -> list[bytes]:
        return [msgpack.packb([2, "observe", row]) for row in self.rows]

    def coalesced(self, _: str) -> list[bytes]:
        data = b"".join(self.singles(""))
        return [data[start : start + COALESCED_BYTES] for start in range(0, len(data), COALESCED_BYTES)]

    def batches(self, size: int) -> Callable[[str], list[bytes]]:
        return lambda producer: [
            msgpack.packb([0, number, "observe_rows", [
                {"producer": producer, "sequence": number, "rows": self.rows[start : start + size]}
            ]])
            for number, start in enumerate(range(0, len(self.rows), size), 1)
        ]  # fmt: skip

    def columns(self, size: int) -> Callable[[str], list[bytes]]:
        def pack(producer: str) -> list[bytes]:
            found: list[bytes] = []
            starts = [*range(0, len(self.index), size)] * COLUMN_ROUNDS
            for number, start in enumerate(starts, 1):
                part = slice(start, start + size)
                batch = {
                    "producer": producer, "sequence": number,
                    "index": self.index[part].astype("<u4").tobytes(),
                    "predictor": self.predictor[part].tobytes(), "cores": self.cores[part].tobytes(),
                    "elapsed_s": self.elapsed_s[part].tobytes(),
                }  # fmt: skip
                found.append(msgpack.packb([0, number, "observe_columns", [batch]]))
            return found

        return pack


class Sender:
    """A client with as little of its own as can be."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.unpacker = msgpack.Unpacker(max_buffer_size=2**28)
        for first in range(0, len(NAMES), NAMES_BATCH_MAX):
            self.call("names", first, NAMES[first : first + NAMES_BATCH_MAX])

    def answer(self) -> Any:
        while True:
            for _, _, error, result in self.unpacker:
                if error is not None:
                    raise RuntimeError(error)
                return result
            data = self.socket.recv(2**18)
            if not data:
                raise ConnectionError("the service has closed the connection")
            self.unpacker.feed(data)

    def call(self, method: str, *params: Any) -> Any:
        self.socket.sendall(msgpack.packb([0, 0, method, list(params)]))
        return self.answer()

    def send(self, messages: Sequence[bytes], *, answered: bool) -> float:
        """Return the seconds until the service has answered everything."""
        begun = time.perf_counter()
        if answered:
            waiting: deque[None] = deque()
            for message in messages:
                if len(waiting) == WINDOW:
                    self.answer()
                    waiting.popleft()
                self.socket.sendall(message)
                waiting.append(None)
            for _ in waiting:
                self.answer()
        else:
            for message in messages:
                self.socket.sendall(message)
            self.call("status", {})
        return time.perf_counter() - begun

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def running(command: list[str], address: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as process:
        try:
            while not Path(address).exists():
                if process.poll() is not None:
                    raise SystemExit(f"{command} did not start")
                time.sleep(0.01)
            yield
        finally:
            process.terminate()


def spread(rates: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(rates, n=4) if len(rates) > 1 else (rates[0],) * 3
    return f"{statistics.median(rates):7.2f} [{low:.2f} – {high:.2f}]"


def measure(addresses: dict[str, str], rows: Rows, repeats: int) -> None:
    lines: dict[str, tuple[Callable[[str], list[bytes]], bool, int]] = {
        "singles, one send each": (rows.singles, False, 1),
        "singles, coalesced": (rows.coalesced, False, 1),
        "rows of 1, acknowledged": (rows.batches(1), True, 1),
        "rows of 1,000": (rows.batches(1000), True, 1),
        f"columns of {ROWS_BATCH_MAX:,}": (rows.columns(ROWS_BATCH_MAX), True, COLUMN_ROUNDS),
    }
    for name, address in addresses.items():  # young components solve their weighting models often
        sender = Sender(address)
        warm = rows.columns(ROWS_BATCH_MAX)(f"warm-{os.getpid()}")
        sender.send(warm if name != "per row" else warm[: len(warm) // COLUMN_ROUNDS], answered=True)
        sender.close()
    print(f"{'million rows/s, median [quartiles]':<34}" + "".join(f"{title:>27}" for title in addresses))
    for title, (pack, answered, rounds) in lines.items():
        rates: dict[str, list[float]] = {name: [] for name in addresses}
        for repeat in range(repeats + 1):
            for name, address in addresses.items():
                messages = pack(f"{title}-{repeat}-{os.getpid()}")
                if name == "per row":  # as fast for one round as for ten
                    messages = messages[: len(messages) // rounds]
                sender = Sender(address)
                seconds = sender.send(messages, answered=answered)
                sender.close()
                if repeat:  # the first warms: names, pages, caches
                    sent = len(rows.rows) * (1 if name == "per row" else rounds)
                    rates[name].append(sent / seconds / 1e6)
        print(f"{title:<34}" + "".join(f"{spread(rates[name]):>27}" for name in addresses), end="")
        base, *others = (statistics.median(found) for found in rates.values())
        print("   " + ", ".join(f"{other / base:.1f} x" for other in others))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--rows", type=int, default=200_000)
    arguments.add_argument("--address", help="path of a running service's socket")
    given = arguments.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        addresses = {"per row": f"{place}/baseline"}
        stack.enter_context(running([BASELINE, addresses["per row"]], addresses["per row"]))
        if given.address:
            addresses["given"] = given.address
        else:
            for name, options in {"in memory": {}, "with a state file": {"state": f"{place}/state"}}.items():
                addresses[name] = f"{place}/{name.replace(' ', '-')}"
                config = json.dumps({"socket": addresses[name], **options})
                stack.enter_context(running(["-c", OURS, config], addresses[name]))
        measure(addresses, Rows(given.rows), given.repeats)


if __name__ == "__main__":
    main()
