"""`advisor learn --socket`, the learner or the service killed in the middle of a message: a rerun teaches what is missing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from click.testing import CliRunner
from service_process import serving

from advisor.cli.learning import learn_command
from advisor.cli.source import stored

ROWS = 1100  # two blocks of 512 rows, and some single ones
PIECE = 1 << 16
PATIENCE_S = 120.0  # for a learner to come: it takes a second
IN_A_BLOCK, AMONG_SINGLE_ROWS = 9, 40  # numbers of messages: the first seven greet, and ask how much is known


def trace_of(path: Path, rows: int) -> Path:
    head = "name\tstatus\trealtime\tpeak_rss\trchar\tcpus\n"
    path.write_text(head + "".join(f"P{i % 3}\tCOMPLETED\t{i + 1}s\t1 MB\t{i} KB\t2\n" for i in range(rows)))
    return path


def passed_on(listener: socket.socket, to: Path, messages: int, then: Callable[[], object]) -> None:
    """Pass on what the first client says until half of a message, by its number; then do something, and pass on no more."""
    client, _ = listener.accept()
    while not client.recv(1, socket.MSG_PEEK):  # a command looks first whether somebody listens
        client.close()
        client, _ = listener.accept()
    with client, socket.socket(socket.AF_UNIX) as service:
        service.connect(str(to))
        answering = threading.Thread(target=answers, args=(service, client), daemon=True)
        answering.start()
        unpacker, ends, sent = msgpack.Unpacker(max_buffer_size=2**30), [0], 0
        while len(ends) <= messages and (said := client.recv(PIECE)):
            unpacker.feed(said)
            ends += [unpacker.tell() for _ in unpacker]
            whole = sent + len(said)
            if len(ends) > messages:
                said = said[: max(0, (ends[messages - 1] + ends[messages]) // 2 - sent)]
            service.sendall(said)
            sent = whole
        assert len(ends) > messages
        then()
        service.shutdown(socket.SHUT_RDWR)
        answering.join()


def answers(service: socket.socket, client: socket.socket) -> None:
    try:
        while said := service.recv(PIECE):
            client.sendall(said)
    except OSError:
        pass  # one of them was killed


def learn(trace: Path, *whom: object) -> Counter[str]:
    done = CliRunner().invoke(learn_command, ["--json", "--from", "nextflow", str(trace), *map(str, whom)])
    assert done.exit_code == 0, done.output
    (reported,) = json.loads(done.stdout)["files"]
    return Counter({key: reported[key] for key in ("runs", "learned_before")})


@pytest.mark.parametrize(("who", "message"), [("learner", IN_A_BLOCK), ("service", AMONG_SINGLE_ROWS)])
def test_each_row_counts_once_after_a_kill(tmp_path: Path, who: str, message: int) -> None:
    trace, state = trace_of(tmp_path / "trace.txt", ROWS), tmp_path / "state"
    with serving(tmp_path, "--state", state) as (service, process), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "by"))
        listener.listen()
        listener.settimeout(PATIENCE_S)
        command = ["learn", "--from", "nextflow", str(trace), "--socket", str(tmp_path / "by")]
        learner = subprocess.Popen(
            [sys.executable, "-m", "advisor.cli", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        killed = learner if who == "learner" else process
        passed_on(listener, service, message, killed.kill)
        killed.wait()
        learner.kill()  # its service is gone: what it would do next, a rerun does
        learner.wait()
        if who == "learner":
            trace_of(trace, ROWS + 600)  # it has grown meanwhile
            reported = learn(trace, "--socket", service)
    if who == "service":
        with serving(tmp_path, "--state", state) as (service, _):
            reported = learn(trace, "--socket", service)
    rows = ROWS + 600 * (who == "learner")
    assert reported.total() == rows
    assert reported["runs"] > 0
    assert reported["learned_before"] > 0 or who == "service"
    assert sum(each["rows"] for each in stored(state).status()["components"]) == rows
    assert learn(trace, "--state", state) == {"runs": 0, "learned_before": rows}
