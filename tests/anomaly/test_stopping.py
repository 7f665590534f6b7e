"""An orderly stop of a real process: SIGTERM, drain, commit, close; and what a second start finds."""

from __future__ import annotations

import fcntl
import json
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from live import PATIENCE_S, rows_of

PROGRAM = "import sys, json; from advisor.service import load_config, run; run(load_config(**json.loads(sys.argv[1])))"


@contextmanager
def process(tmp_path: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A service as its own process, up when this yields."""
    options = {"socket": str(tmp_path / "s"), "state": str(tmp_path / "state")} | options
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(options)], stderr=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stderr is not None
            line = json.loads(service.stderr.readline())
            assert line["event"] == "serving", line
            yield service
        finally:
            if service.poll() is None:
                service.kill()


def connect(tmp_path: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_S)
    peer.connect(str(tmp_path / "s"))
    return peer


def messages(peer: socket.socket) -> list[Any]:
    """All messages until the service closes."""
    unpacker = msgpack.Unpacker()
    while data := peer.recv(2**16):
        unpacker.feed(data)
    return list(unpacker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_commits_and_closes(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path) as service, connect(tmp_path) as peer, connect(tmp_path) as idle:
        frames = [
            msgpack.packb([0, n, "observe_rows", [{"producer": "p", "sequence": n, "rows": rows_of(10)}]])
            for n in range(1, 101)
        ]
        peer.sendall(b"".join(frames))
        unpacker = msgpack.Unpacker()
        unpacker.feed(peer.recv(2**16))  # it is at work
        service.send_signal(number)
        answered = [*unpacker, *messages(peer)]
        assert messages(idle) == []
        assert service.wait(PATIENCE_S) == 0
        assert service.stderr is not None
        events = [json.loads(line)["event"] for line in service.stderr]
        assert events[0] == "stopping"
        assert events[-1] == "stopped"
    assert not (tmp_path / "s").exists()
    acknowledged = max(message[1] for message in answered if message[0] == 1 and message[2] is None)
    with process(tmp_path), connect(tmp_path) as peer:
        peer.sendall(msgpack.packb([0, 1, "hello", [{"producer": "p"}]]))
        peer.sendall(msgpack.packb([0, 2, "status", [{}]]))
        peer.shutdown(socket.SHUT_WR)
        hello, status = messages(peer)
        assert hello[3]["sequence"] >= acknowledged
        assert status[3]["totals"]["rows_accepted"] == 10 * hello[3]["sequence"]


def test_a_socket_left_by_a_killed_service_is_taken_over(tmp_path: Path) -> None:
    with process(tmp_path) as service:
        service.kill()
        service.wait(PATIENCE_S)
    assert (tmp_path / "s").exists()
    with process(tmp_path):
        connect(tmp_path).close()


def test_a_service_that_cannot_start_says_why_and_fails(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("something else")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps({"socket": str(tmp_path / "s")})],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "something else stands there" in done.stderr
    assert (tmp_path / "s").read_text() == "something else"


def test_a_service_whose_log_nobody_reads_answers_and_stops(tmp_path: Path) -> None:
    with process(tmp_path) as service:
        assert service.stderr is not None
        pipe = service.stderr.fileno()
        room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        reported = msgpack.packb([0, 1, "hello", [{"protocol": 2, "wrong": "x" * 400}]])
        for _ in range(room // 100):  # a line of the log each, and more: each begins with a time of 29 characters
            with connect(tmp_path) as peer:
                peer.sendall(b"\xc1")  # no message: the connection is given up on
                messages(peer)
        with connect(tmp_path) as peer:
            peer.sendall(reported)
            peer.shutdown(socket.SHUT_WR)
            assert messages(peer)[0][2]["code"] == "unknown_key"
        assert select.select([pipe], [], [], 0)[0]
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE_S) == 0  # though what it had to say is still not read
        assert len(service.stderr.read()) >= room // 2  # it was full: a page of a pipe takes whole lines
