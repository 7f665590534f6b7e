"""A real `advisor serve` process and a raw MessagePack-RPC peer, for tests that use public faces only."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgpack

PATIENCE_S = 120.0  # what hangs fails after this; long enough for a busy machine
ADVISOR = (sys.executable, "-m", "advisor")


class Refused(Exception):
    """The service answered with an error; `error` is its map."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = error


class Closed(Exception):
    """The service closed the connection."""


class Wire:
    """A blocking peer that speaks bytes: no client of the project is between the test and the socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        self.unpacker = msgpack.Unpacker(max_buffer_size=2**30)
        self.msgid = 0
        self.pushed: list[list[Any]] = []

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except ConnectionError as error:
            raise Closed from error

    def post(self, method: str, *params: Any) -> int:
        self.msgid += 1
        self.send(msgpack.packb([0, self.msgid, method, list(params)]))
        return self.msgid

    def message(self) -> list[Any]:
        """Return the next answer as `[1, msgid, error, result]`; notifications are collected in `pushed`."""
        while True:
            for message in self.unpacker:
                if message[0] == 1:
                    return message
                self.pushed.append(message)
            try:
                data = self.socket.recv(2**16)
            except ConnectionError as error:
                raise Closed from error
            if not data:
                raise Closed
            self.unpacker.feed(data)

    def call(self, method: str, *params: Any) -> Any:
        """Return the result of one request that nothing is sent beside; raise `Refused` for an error."""
        msgid = self.post(method, *params)
        _, answered, error, result = self.message()
        assert answered in (msgid, None), f"{method}: an answer to {answered} came for {msgid}"
        if error is not None:
            raise Refused(error)
        return result

    def close(self) -> None:
        self.socket.close()


class Served:
    """`advisor serve` in a process of its own, on a Unix socket in `folder`."""

    def __init__(
        self, folder: Path, *options: str, state: bool = False, environment: dict[str, str] | None = None
    ) -> None:
        self.folder, self.path = folder, folder / "socket"
        self.environment = os.environ | {"ADVISOR_KERNELS": "interpreted"} | (environment or {})
        kept = ("--state", str(folder / "state")) if state else ()
        few = ("--no-compiled",)  # what no test asks for takes longer than most tests
        self.command = (*ADVISOR, "serve", "--socket", str(self.path), *few, *kept, *options)
        self.process: subprocess.Popen[bytes] | None = None
        self.log: Path = folder / "log"
        self.start_words: dict[str, Any] = {}

    def start(self) -> bool:
        """Start the process; return whether it serves, False where it refused to start."""
        self.start_words = {}
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, stdout=out, env=self.environment)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with open(self.log, "ab") as log:
                log.write(line)
            if b'"serving"' in line:
                self.start_words = json.loads(line)
                return True
        self.process.stderr.close()
        self.process.wait(PATIENCE_S)
        return False

    def wire(self) -> Wire:
        return Wire(self.path)

    def kill(self) -> None:
        """End the process by SIGKILL, as a crash of the machine's owner would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        """End the process in order; return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        assert self.process is not None
        _, said = self.process.communicate(timeout=PATIENCE_S)
        with open(self.log, "ab") as log:
            log.write(said or b"")
        return self.process.returncode

    def __enter__(self) -> Self:
        assert self.start(), self.log.read_text()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.process is not None and self.process.stderr is not None:
            self.process.stderr.close()


def command(*words: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `advisor WORDS` in `folder`, with nothing of this user's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ADVISOR_")}
    clean |= {"ADVISOR_KERNELS": "interpreted", "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "COLUMNS": "200"}
    return run((*ADVISOR, *words), folder, clean | (environment or {}))


def run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
