"""Rows that a client took: a signal, a pool of processes or a missing service ends them; none is lost without a word."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live import running, serving
from service_access import SECRET, certified, one_token, tokens_file

from advisor import AsyncClient, SyncClient
from advisor.errors import ConnectionFailed, Unauthorized

ROWS = 40
TEACH = """
import sys, signal, threading
from advisor import SyncClient
client = SyncClient(sys.argv[1], producer=sys.argv[2], linger_s=30.0, close_s=60.0)
for i in range({rows}):
    assert client.observe("work", predictor=float(i + 1), cores=1, elapsed_s=0.5 + i)
print("taught", flush=True)
{then}
"""
POOL = """
import sys, multiprocessing
from advisor import SyncClient
client = SyncClient(sys.argv[1], linger_s=30.0, close_s=60.0)
def work(i):
    return client.observe("work", predictor=float(i + 1), cores=1, elapsed_s=0.5)
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(3) as pool:
        assert all(pool.map(work, range({rows}), chunksize=7))
"""


def learned(path: Path) -> int:
    """Return the rows of component `work` at the service."""
    with SyncClient(str(path)) as client:
        return client.status()["totals"]["rows_accepted"]


@pytest.mark.parametrize("used_in", ["main", "thread"])
def test_sigterm_sends_what_is_held(tmp_path: Path, used_in: str) -> None:
    """Made in the main thread; the rows wait for their batch, for thirty seconds, when the signal comes."""
    with serving(tmp_path) as live:
        then = "threading.Event().wait()" if used_in == "thread" else "signal.pause()"
        program = [sys.executable, "-c", TEACH.format(rows=ROWS, then=then), str(live.bound.socket), "teacher"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as teacher:
            assert teacher.stdout is not None
            assert teacher.stdout.readline() == "taught\n"
            teacher.send_signal(signal.SIGTERM)
            assert teacher.wait(60) == -signal.SIGTERM
        assert learned(live.bound.socket) == ROWS


def test_a_program_with_a_handler_of_its_own_keeps_it(tmp_path: Path) -> None:
    then = "assert signal.getsignal(signal.SIGTERM) is mine"
    text = TEACH.format(rows=1, then=then).replace(
        "client =", "mine = lambda *_: None\nsignal.signal(signal.SIGTERM, mine)\nclient =", 1
    )
    with serving(tmp_path) as live:
        subprocess.run([sys.executable, "-c", text, str(live.bound.socket), "teacher"], check=True, timeout=60)
        assert learned(live.bound.socket) == 1


def test_the_processes_of_a_pool_send_what_they_hold(tmp_path: Path) -> None:
    """`with Pool()` ends its processes by SIGTERM."""
    with serving(tmp_path) as live:
        program = [sys.executable, "-c", POOL.format(rows=ROWS), str(live.bound.socket)]
        subprocess.run(program, check=True, timeout=120, capture_output=True)
        assert learned(live.bound.socket) == ROWS


def nobody(tmp_path: Path) -> str:
    """Return an address at which nobody listens."""
    return str(tmp_path / "nobody")


def a_closed_port(tmp_path: Path) -> str:
    """Return a port that was just closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("address", [nobody, a_closed_port])
def test_a_service_that_cannot_be_reached_is_said_at_once(
    tmp_path: Path, address: Callable[[Path], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Long before the timeout of the question, which is longer than this test may take."""
    with SyncClient(address(tmp_path), timeout_s=3_600.0, close_s=0.1) as client:
        assert client.observe("work", cores=1, elapsed_s=1.0)
        with pytest.raises(ConnectionFailed, match=r"no connection to .*: .*[a-z]"):
            client.predict("work")
        with pytest.raises(ConnectionFailed, match=r"no connection to .*: .*[a-z]"):
            client.flush()
        assert client.stats().rows_held == 1
    assert "1 rows are held" in caplog.text


async def test_tls_and_token_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = certified(tmp_path)
    files = {"tls_certificate": certificate, "tls_key": key, "tokens": one_token(tmp_path)}
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    async with running(tmp_path, tcp="localhost:0", **files) as live:
        assert live.bound.tcp is not None
        where = f"localhost:{live.bound.tcp.port}"
        async with AsyncClient(where, token=SECRET, timeout_s=3_600.0) as plain:
            with pytest.raises(ConnectionFailed, match=r"closed: .*[A-Za-z]") as caught:
                await plain.status()
            assert "--tls-ca" in (caught.value.hint or "")
        monkeypatch.setenv("ADVISOR_TLS_CA", str(certificate))
        monkeypatch.setenv("ADVISOR_TOKEN_FILE", str(secret))
        async with AsyncClient(where) as client:
            assert (await client.status())["components"] == []


async def test_a_token_that_may_only_read_asks_and_cannot_teach(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=tokens_file(tmp_path)) as live:
        assert live.bound.tcp is not None
        async with AsyncClient(f"127.0.0.1:{live.bound.tcp.port}", token="the scraper's own secret") as client:
            assert (await client.status())["components"] == []
            await client.observe("work", cores=1, elapsed_s=1.0)
            with pytest.raises(Unauthorized, match="scope read"):
                await client.flush()
