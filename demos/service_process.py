"""A separate `advisor serve` process on a Unix socket, for as long as a block."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from advisor.client import SyncClient
from advisor.errors import ConnectionFailed, Unavailable

START_S = (
    60.0  # it takes 1 s, and was seen to take 20 where others want the processor; one that has died is reported at once
)
LOOK_S = 0.01  # between looks for its socket
ANSWER_S = 1.0  # waited at a time, the client trying again; then the process is looked at
STOP_S = 15.0  # beyond the 10 s that an orderly stop may take
LOG_BYTES = 2000  # of what a service said before it died, repeated in the error


@contextmanager
def serving(folder: Path, *options: str | Path) -> Generator[tuple[Path, subprocess.Popen[bytes]]]:
    """Run `advisor serve` with the options, its socket and its log in `folder`; yield socket and process once it answers.

    At the end the process is stopped by SIGTERM. Raises ConnectionFailed when the service does not answer within START_S,
    with what it said.
    """
    socket, log = folder / "socket", folder / "log"
    command = [sys.executable, "-m", "advisor.cli", "serve", "--socket", str(socket), *map(str, options)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _await_answer(process, socket, log)
        yield socket, process
    finally:
        _stop(process)


@contextmanager
def served(producer: str) -> Generator[SyncClient]:
    """Run a service in a temporary folder and yield a client of it; the errors of `serving`."""
    with (
        tempfile.TemporaryDirectory(prefix="advisor-") as folder,
        serving(Path(folder)) as (socket, _),
        SyncClient(str(socket), producer=producer) as client,
    ):
        yield client


def _await_answer(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = monotonic() + START_S
    while not socket.exists() and process.poll() is None and monotonic() < deadline:
        sleep(LOOK_S)  # a client that finds nobody waits longer and longer
    with SyncClient(str(socket)) as client:
        while process.poll() is None and monotonic() < deadline:
            try:
                client.hello(timeout_s=ANSWER_S)
            except (ConnectionFailed, Unavailable):
                continue
            return
    said = log.read_bytes()[-LOG_BYTES:].decode(errors="replace").strip()
    raise ConnectionFailed(f"the service did not start: {said or 'it said nothing'}", field="socket", value=str(socket))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
