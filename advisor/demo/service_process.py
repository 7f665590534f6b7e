"""A separate `advisor serve` process on a Unix socket in a temporary folder."""

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

START_S = 20.0  # a service that does not answer by then will not: importing on a slow, busy machine takes 3 s
ANSWER_S = 5.0  # for a first answer, once the socket is there
POLL_S = 0.02
STOP_S = 10.0  # an orderly shutdown takes less than 1 s
LOG_BYTES = 2000  # of what a service said before it died, repeated in the error


@contextmanager
def served(timer_noise_s: float, producer: str) -> Generator[SyncClient]:
    """Start a service, yield a client of it, and stop it by SIGTERM.

    Raises
    ------
    ConnectionFailed
        When the service does not answer within START_S, with what it said.
    """
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        socket, log = Path(folder, "socket"), Path(folder, "log")
        command = [
            sys.executable,
            "-m",
            "advisor.cli",
            "serve",
            "--socket",
            str(socket),
            "--timer-noise",
            str(timer_noise_s),
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
        try:
            client = _connect(process, socket, log, producer)
            try:
                yield client
            finally:
                client.close()
        finally:
            _stop(process)


def _connect(process: subprocess.Popen[bytes], socket: Path, log: Path, producer: str) -> SyncClient:
    deadline = monotonic() + START_S
    while process.poll() is None and monotonic() < deadline:
        if socket.exists():
            client = SyncClient(str(socket), producer=producer)
            try:
                client.hello(timeout_s=ANSWER_S)
            except (ConnectionFailed, Unavailable):
                client.close()
            else:
                return client
        sleep(POLL_S)
    said = log.read_bytes()[-LOG_BYTES:].decode(errors="replace").strip()
    raise ConnectionFailed(f"the service did not start: {said or 'it said nothing'}", field="socket", value=str(socket))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
