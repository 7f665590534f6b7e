"""An orderly stop of a real process: SIGTERM, drain, commit, close; and what a second start finds."""

from __future__ import annotations

import fcntl
import json
import select
import signal
from pathlib import Path
from typing import Any

import msgpack
import pytest
from live import rows_of
from served import PATIENCE_S, Closed, Served, Wire


def rest(peer: Wire) -> list[Any]:
    """Return all answers until the service closes."""
    answers = []
    try:
        while True:
            answers.append(peer.message())
    except Closed:
        peer.close()
        return answers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_commits_and_closes(tmp_path: Path, number: signal.Signals) -> None:
    with Served(tmp_path, state=True) as service:
        peer, idle = service.wire(), service.wire()
        for n in range(1, 101):
            peer.post("observe_rows", {"producer": "p", "sequence": n, "rows": rows_of(10)})
        answered = [peer.message()]  # it is at work
        assert service.process is not None
        assert service.process.stderr is not None
        service.process.send_signal(number)
        answered += rest(peer)
        assert rest(idle) == []
        events = [json.loads(line)["event"] for line in service.process.stderr]
        assert service.process.wait(PATIENCE_S) == 0
        assert (events[0], events[-1]) == ("stopping", "stopped")
    assert not service.path.exists()
    acknowledged = max(msgid for _, msgid, error, _ in answered if error is None)
    with Served(tmp_path, state=True) as service:
        peer = service.wire()
        hello, status = peer.call("hello", {"producer": "p"}), peer.call("status", {})
        assert hello["sequence"] >= acknowledged
        assert status["totals"]["rows_accepted"] == 10 * hello["sequence"]
        peer.close()


def test_a_socket_left_by_a_killed_service_is_taken_over(tmp_path: Path) -> None:
    with Served(tmp_path) as service:
        service.kill()
    assert service.path.exists()
    with Served(tmp_path) as service:
        service.wire().close()


def test_a_service_that_cannot_start_says_why_and_fails(tmp_path: Path) -> None:
    service = Served(tmp_path)
    service.path.write_text("something else")
    assert not service.start()
    assert service.process is not None
    assert service.process.returncode != 0
    assert "something else stands there" in service.log.read_text()
    assert service.path.read_text() == "something else"


def test_a_service_whose_log_nobody_reads_answers_and_stops(tmp_path: Path) -> None:
    with Served(tmp_path) as service:
        assert service.process is not None
        assert service.process.stderr is not None
        pipe = service.process.stderr.fileno()
        room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        for _ in range(room // 100):  # a line of the log each, and more: each begins with a time of 29 characters
            peer = service.wire()
            peer.send(b"\xc1")  # no message: the connection is given up on
            rest(peer)
        peer = service.wire()
        peer.send(msgpack.packb([0, 1, "hello", [{"protocol": 2, "wrong": "x" * 400}]]))
        assert peer.message()[2]["code"] == "unknown_key"
        peer.close()
        assert select.select([pipe], [], [], 0)[0]
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(PATIENCE_S) == 0  # though what it had to say is still not read
        assert len(service.process.stderr.read()) >= room // 2  # it was full: a page of a pipe takes whole lines
