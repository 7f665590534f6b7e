"""Who may come in: the Unix socket's mode, tokens and TLS on TCP."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import ssl
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import httpx
import msgpack
import pytest
from live import PATIENCE_S, Closed, Live, Peer, refused, rows_of, running

from advisor.errors import AdvisorError, InvalidValue, Unavailable
from advisor.protocol.declaring import Scope
from advisor.protocol.page import with_tables
from advisor.protocol.verbs import METHODS
from advisor.service import http, hub, page
from advisor.service.access import OWNER, Access, tls_context
from advisor.service.config import load_config
from advisor.service.connection import STRANGER_BYTES_MAX
from advisor.service.listeners import HANDSHAKES_MAX

pack = msgpack.packb
AT_ONCE = 120  # connections, fewer than any system holds back for a listener
SECRET = "correct horse battery staple"
GRANTS = """
[[grant]]
name = "scraper"
token = "the scraper's own secret"
read = true

[[grant]]
name = "renderers"
token_sha256 = "{}"
write = ["render.*", "exact"]

[[grant]]
name = "operator"
token = "the operator's own secret"
admin = true

[[grant]]
name = "farm"
certificate = "localhost"
write = ["*"]

[[grant]]
name = "people"
group = "4711"
read = true

[[grant]]
name = "anna"
user = "4712"
write = ["anna"]
""".format(hashlib.sha256(b"the renderers' own secret").hexdigest())
ALLOWED = {
    "scraper": {"open", "read"},
    "renderers": {"open", "teach"},
    "operator": {"open", "read", "write", "teach", "admin"},
}


def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file


async def test_the_socket_is_for_its_owner_only_and_goes_with_the_service(tmp_path: Path) -> None:
    async with running(tmp_path):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    assert not (tmp_path / "s").exists()


async def test_a_second_service_on_the_same_socket_is_refused_with_words(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        with pytest.RaisesGroup(Unavailable, flatten_subgroups=True):
            async with running(tmp_path):
                pass
        await (await live.peer()).call("status", {})


async def test_tcp_asks_for_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        peer = await live.peer()
        await refused("unauthorized", peer.call("status", {}))
        await refused("unauthorized", peer.call("hello", {}))
        guess = await live.peer()
        error = await refused("unauthorized", guess.call("hello", {"token": SECRET + "r"}))
        assert SECRET not in str(error.as_dict())
        assert await guess.closed() == []
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        await peer.call("hello", {"token": SECRET})
        assert (await peer.call("observe_rows", {"rows": rows_of(3)}))["accepted"] == 3
    assert SECRET not in caplog.text


@pytest.mark.parametrize("wrong", [[SECRET], {SECRET: 1}, SECRET.encode(), SECRET * 200])
async def test_no_error_repeats_a_token(tmp_path: Path, wrong: Any) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        with pytest.raises(AdvisorError, match="token") as caught:
            await (await live.peer()).call("hello", {"token": wrong})
        assert SECRET not in str(caught.value.as_dict())


async def test_whoever_gives_no_token_is_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path), stall_s=0.1) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        stranger = await live.peer()
        await refused("unauthorized", stranger.call("status", {}))
        assert await stranger.closed() == []
        await friend.call("status", {})


async def test_the_unix_socket_asks_no_token(tmp_path: Path) -> None:
    async with running(tmp_path, socket=tmp_path / "s", tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        await (await live.peer()).call("status", {})


def certified(tmp_path: Path) -> tuple[Path, Path]:
    """Make a certificate for this machine, and its key."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o600)
    return certificate, key


async def test_tls(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    async with running(tmp_path, tcp="localhost:0", tls_certificate=certificate, tls_key=key) as live:
        context = ssl.create_default_context(cafile=certificate)
        assert live.bound.tcp is not None
        streams = await asyncio.open_connection("localhost", live.bound.tcp.port, ssl=context)
        peer = Peer(*streams)
        live.peers.append(peer)
        big = {"rows": rows_of(20_000)}
        assert (await peer.call("observe_rows", big))["accepted"] == 20_000
        plain = Peer(*await asyncio.open_connection("localhost", live.bound.tcp.port))
        live.peers.append(plain)
        await plain.send(b"\x94\x00\x01\xa6status\x91\x80" * 2000)
        assert [m for m in await plain.closed() if isinstance(m, list) and m[0] == 1] == []


async def test_handshakes_that_do_not_end_keep_nobody_out(tmp_path: Path) -> None:
    """Three times as many peers connect as may shake hands, and say nothing, or half a word of TLS."""
    certificate, key = certified(tmp_path)
    async with running(tmp_path, tcp="localhost:0", tls_certificate=certificate, tls_key=key) as live:
        assert live.bound.tcp is not None
        silent = []
        for number in range(3 * HANDSHAKES_MAX):
            _, writer = await asyncio.open_connection("localhost", live.bound.tcp.port)
            writer.write(b"\x16\x03\x01" if number % 2 else b"")
            silent.append(writer)
        context = ssl.create_default_context(cafile=certificate)
        peer = Peer(*await asyncio.open_connection("localhost", live.bound.tcp.port, ssl=context))
        await peer.call("status", {})
        peer.close()
        for writer in silent:
            writer.transport.abort()


async def test_what_comes_with_the_end_of_the_handshake_is_answered(tmp_path: Path) -> None:
    """With TLS 1.3 a client may send its first requests in the flight that ends its handshake."""
    certificate, key = certified(tmp_path)
    async with running(tmp_path, tcp="localhost:0", tls_certificate=certificate, tls_key=key) as live:
        assert live.bound.tcp is not None
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=certificate)
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("localhost", live.bound.tcp.port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(2**16))
        client.write(pack([0, 1, "observe_rows", [{"rows": rows_of(20_000)}]]))
        client.write(pack([0, 2, "status", [{}]]))
        writer.write(outgoing.read())
        unpacker = msgpack.Unpacker()
        answers: list[Any] = []
        while len(answers) < 2:
            incoming.write(await reader.read(2**16))
            with suppress(ssl.SSLWantReadError):
                while True:
                    unpacker.feed(client.read(2**16))
            answers += list(unpacker)
        assert [answer[1:3] for answer in answers] == [[1, None], [2, None]]
        writer.transport.abort()


def access_file(tmp_path: Path, text: str = GRANTS) -> Path:
    file = tmp_path / "access.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


async def greeted(live: Live, name: str, **hello: Any) -> Peer:
    peer = await live.peer()
    await peer.call(
        "hello", {"token": f"the {name}' own secret" if name[-1] == "s" else f"the {name}'s own secret", **hello}
    )
    return peer


def test_the_page_has_the_verbs_of_each_scope() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    assert page == with_tables(page)
    assert all(f"<!-- verbs of {scope} -->" in page for scope in get_args(Scope))


@pytest.mark.parametrize("name", ALLOWED)
async def test_each_verb_is_for_those_who_have_its_scope(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=access_file(tmp_path)) as live:
        peer = await greeted(live, name)
        for method, verb in METHODS.items():
            if method == "observe":
                continue  # of nobody in particular: below
            _, _, error, _ = await asked(peer, method)
            code = None if error is None else error["code"]
            assert (code == "unauthorized") == (verb.scope not in ALLOWED[name]), (method, error)


async def asked(peer: Peer, method: str) -> list[Any]:
    """Return the answer to a request that is well formed."""
    rows = {"rows": []}
    params: dict[str, Any] = {
        "names": [0, ["a"]], "predict": ["c", 1.0, 1], "observe_rows": [rows], "watch": [{"network": "c", "cores": 2}],
        "observe_columns": [{"components": [], "index": b"", "cores": b"", "elapsed_s": b""}],
        "define_network": [{"text": "c", "id": "n"}], "allocate": [{"network": "c", "cores": 2}], "explain": [{"id": "x"}],
        "pin": [{"component": "c", "model": "joint"}], "choose_cores": [{"component": "c", "cores_max": 2}],
        "suggest": [{"component": "c", "cores_max": 2}], "allocate_together": [{"networks": [{"network": "c"}], "cores": 2}],
        "unwatch": [{"watch": 1}], "forget": [{"component": "c"}], "flow": [{"network": "n"}], "profile": [{"producer": "p"}],
        "simulate": [{"graph": {"times": b"\0" * 8}, "cores": [1]}],
        "predict_run": [{"program": "p", "size": 1.0, "workers": 1}],
        "observe_run": [{"program": "p", "size": 1.0, "workers": 1, "elapsed_s": 1.0}], "task_events": [{"records": b""}],
    }  # fmt: skip
    msgid = await peer.post(method, *params.get(method, [{}]))
    while (message := await peer.message())[:2] != [1, msgid]:
        pass
    return message


async def test_only_who_may_speak_for_a_producer_can(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=access_file(tmp_path)) as live:
        peer = await greeted(live, "renderers", producer="render.one")
        for producer in ("render.two", "exact"):
            await peer.call("observe_rows", {"producer": producer, "sequence": 1, "rows": rows_of(3)})
        for producer in ("other", "exactly", "render"):
            numbered = {"producer": producer, "sequence": 1, "rows": rows_of(3)}
            await refused("unauthorized", peer.call("observe_rows", numbered))
            await refused("unauthorized", peer.call("hello", {"producer": producer}))
        await peer.send(pack([2, "observe", ["c0", 1.0, 1.0, 1.0]]))
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        await refused("unauthorized", peer.call("hello", {"producer": "render.one", "resume_at": 7}))
        operator = await greeted(live, "operator")
        status = await operator.call("status", {})
        assert status["totals"]["rows_accepted"] == 6
        await operator.call("hello", {"producer": "lost", "resume_at": 7})


async def test_nobody_resumes_for_a_producer_that_another_connection_speaks_for(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        victim, foreign = await live.peer(), await live.peer()
        await victim.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(3)})
        await refused("unavailable", foreign.call("hello", {"producer": "p", "resume_at": 9}))
        receipt = await victim.call("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(3)})
        assert (receipt["accepted"], receipt.get("replayed")) == (3, None)


async def test_who_is_granted_something_else_is_ended_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    file = access_file(tmp_path)
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=file, stall_s=2.0) as live:
        scraper, operator = await greeted(live, "scraper"), await greeted(live, "operator")
        file.write_text("[[grant]]\nname = 7")
        file.write_text(GRANTS.replace("the scraper's own secret", "the scraper's new secret"))
        assert await scraper.closed() == []
        await operator.call("status", {})
        newcomer = await live.peer()
        await newcomer.call("hello", {"token": "the scraper's new secret"})
        await newcomer.call("status", {})
        await refused("unauthorized", greeted(live, "scraper"))


def test_grants_that_do_not_read_leave_the_former_ones(tmp_path: Path) -> None:
    access = Access(load_config(socket="/s", access_file=(file := access_file(tmp_path))))
    for broken in ("[[grant]]\nname = 7", "[[", None):
        file.unlink() if broken is None else file.write_text(broken)
        with pytest.raises(InvalidValue, match=r"grant|access_file"):
            access.changed()
        assert not access.changed()  # told once
        assert access.grant(("unix", (4712, ()))) is not None
    rated = GRANTS.replace('name = "anna"', 'name = "anna"\nrows_per_second = 5')
    access_file(tmp_path, rated)
    assert access.changed()
    allowance = access.allowance(access.grant(("unix", (4712, ()))))
    access_file(tmp_path, rated.replace("4711", "4799"))
    assert access.changed()
    assert access.allowance(access.grant(("unix", (4712, ())))) is allowance  # who was there sends with who comes now
    assert access.grant(("unix", (1, (4711,)))) is None


async def test_who_is_granted_nothing_any_more_reads_no_more_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "TICK_S", 0.01)
    certificate, key = certified(tmp_path)
    file = access_file(tmp_path)
    options = {"tls_certificate": certificate, "tls_key": key, "access_file": file, "stall_s": 2.0}
    async with running(tmp_path, http="0.0.0.0:0", **options) as live:
        assert live.bound.http is not None
        context = ssl.create_default_context(cafile=certificate)
        url = f"https://localhost:{live.bound.http.port}{page.STREAM}"
        headers = {"authorization": "Bearer the scraper's own secret"}
        async with httpx.AsyncClient(verify=context, timeout=PATIENCE_S) as client, client.stream(
            "GET", url, headers=headers
        ) as stream:  # fmt: skip
            assert stream.status_code == 200
            file.write_text(GRANTS.replace("the scraper's own secret", "the scraper's new secret"))
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(httpx.TransportError):
                    async for _ in stream.aiter_raw():
                        pass


def test_users_and_groups_of_unix_peers_have_their_grants_together(tmp_path: Path) -> None:
    access = Access(load_config(socket="/s", access_file=access_file(tmp_path)))
    assert access.shares_socket
    assert access.grant(("unix", (os.getuid(), ()))) == OWNER
    assert access.grant(("unix", (4713, (1, 2)))) is None
    reader, anna = access.grant(("unix", (4713, (4711,)))), access.grant(("unix", (4712, (4711,))))
    assert reader is not None
    assert (reader.read, reader.write, reader.admin) == (True, (), False)
    assert anna is not None
    assert (anna.read, anna.write, anna.admin) == (True, ("anna",), False)


@pytest.mark.parametrize(
    "text",
    [
        "[[grant]]\nread = true",
        "[[grant]]\ntoken = 'short'",
        "[[grant]]\ntoken_sha256 = 'abc'",
        "[[grant]]\ntoken = 'long enough to be one'\nuser = 'root'",
        "[[grant]]\nuser = 'nobody-of-this-name'",
        "[[grant]]\nuser = 'root'\nreads = true",
        "[[grant]]\nuser = 'root'\nread = 1",
        "[[grant]]\nuser = 'root'\nrows_per_second = 0",
        "[[grant]]\nuser = 'root'\nrows_per_second = true",
        "[[grant]]\nuser = 'root'\nwrite = '*'",
        "[[grant]]\nuser = 'root'\n[[grant]]\nuser = '0'",
        "grant = 5",
        "[[grants]]",
        "grant",
    ],
)
def test_a_wrong_grant_is_refused_with_words(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidValue, match=r"grant|access_file"):
        Access(load_config(socket="/s", access_file=access_file(tmp_path, text)))


async def test_a_wrong_token_is_told_late_logged_counted_and_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    async with running(tmp_path, tcp="127.0.0.1:0", http="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        for number in range(30):
            peer = await live.peer()
            await refused("unauthorized", peer.call("hello", {"token": f"{SECRET} {number}"}))
            assert await peer.closed() == []
        assert live.bound.http is not None
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{live.bound.http.port}") as client:
            headers = {"authorization": f"Bearer {SECRET}"}
            assert "advisor_wrong_tokens_total 30.0\n" in (await client.get("/metrics", headers=headers)).text
    told = [record for record in caplog.records if "wrong token" in record.getMessage()]
    assert 1 <= len(told) <= 2 * hub.GUESSES_TOLD_A_MINUTE


async def test_a_guess_waits_for_its_answer_and_holds_a_strangers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer never comes here: so whoever guesses gives way to newcomers with nothing said, and others are served."""
    monkeypatch.setattr(hub, "GUESS_S", 1e9)
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        guessers = [await live.peer() for _ in range(hub.STRANGERS_MAX)]
        for number, guesser in enumerate(guessers):
            await guesser.post("hello", {"token": f"{SECRET} {number}"})
            await guesser.post("hello", {"token": SECRET})  # the second guess of one connection is not looked at
        await friend.call("status", {})
        newcomers = [await live.peer() for _ in guessers]
        for newcomer in newcomers:
            await newcomer.call("hello", {"token": SECRET})
            for guesser in guessers[:1]:
                assert await guesser.closed() == []
            del guessers[:1]


async def test_strangers_cost_no_more_than_a_hello(tmp_path: Path) -> None:
    """Many come and say nothing, one sends megabytes: those who are known are served, newcomers find a place."""
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        loud = await live.peer()
        loud.writer.write(pack([0, 1, "status", ["x" * 2 * STRANGER_BYTES_MAX]]))
        await loud.closed()
        strangers = [await live.peer() for _ in range(2 * hub.STRANGERS_MAX)]
        assert (await friend.call("status", {}))["service"]["connections"] <= hub.STRANGERS_MAX + 1
        newcomer = await live.peer()
        await newcomer.call("hello", {"token": SECRET})
        assert len(strangers) == 2 * hub.STRANGERS_MAX


async def test_strangers_who_come_in_one_turn_have_no_more_places(tmp_path: Path) -> None:
    """They have all connected before the service accepts the first."""
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        assert live.bound.tcp is not None
        many = [socket.create_connection(("127.0.0.1", live.bound.tcp.port)) for _ in range(AT_ONCE)]
        for _ in many:  # turns of the loop in which they are accepted
            status = await friend.call("status", {})
        assert status["service"]["connections"] <= hub.STRANGERS_MAX + 1
        for each in many:
            each.close()


async def test_a_certificate_of_a_client_is_who_it_is(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    options = {"tls_certificate": certificate, "tls_key": key, "tls_clients": certificate}
    async with running(tmp_path, tcp="localhost:0", access_file=access_file(tmp_path), **options) as live:
        assert live.bound.tcp is not None
        context = ssl.create_default_context(cafile=certificate)
        bare = Peer(*await asyncio.open_connection("localhost", live.bound.tcp.port, ssl=context))
        with pytest.raises((ssl.SSLError, Closed)):  # TLS 1.3 tells after the handshake
            await bare.call("status", {})
        context.load_cert_chain(certificate, key)
        peer = Peer(*await asyncio.open_connection("localhost", live.bound.tcp.port, ssl=context))
        await peer.call("observe_rows", {"rows": rows_of(3)})
        await refused("unauthorized", peer.call("status", {}))
        peer.close()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    key.chmod(0o644)
    with pytest.raises(InvalidValue, match="tls_key"):
        tls_context(load_config(tcp="127.0.0.1:0", tls_certificate=certificate, tls_key=key))


async def test_http_beyond_loopback_asks_for_tls_and_a_token_that_may_read(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    for missing in ({}, {"access_file": access_file(tmp_path)}, {"tls_certificate": certificate, "tls_key": key}):
        with pytest.raises(InvalidValue, match="http"):
            load_config(socket="/s", http="0.0.0.0:0", **missing)
    load_config(socket="/s", http="0.0.0.0:0", allow_open_http=True)
    options = {"tls_certificate": certificate, "tls_key": key, "access_file": access_file(tmp_path)}
    async with running(tmp_path, http="0.0.0.0:0", **options) as live:
        assert live.bound.http is not None
        context = ssl.create_default_context(cafile=certificate)
        async with httpx.AsyncClient(verify=context, base_url=f"https://localhost:{live.bound.http.port}") as client:
            assert (await client.get("/healthz")).status_code == 200
            for token, status in (
                (None, 401),
                ("the renderers' own secret", 403),
                ("the scraper's own secret", 200),
                ("the operator's own secret", 200),
                ("nobody's own secret at all", 401),
            ):
                headers = {} if token is None else {"authorization": f"Bearer {token}"}
                assert (await client.get("/metrics", headers=headers)).status_code == status, token
                if token is not None:  # a browser asks its user for a password
                    for path in ("/", "/page/components"):
                        assert (await client.get(path, auth=("anyone", token))).status_code == status, token
            asked = (await client.get("/")).headers["www-authenticate"]
            assert asked.startswith("Basic")
            assert (await client.get("/metrics")).headers["www-authenticate"] == "Bearer"


async def test_who_guesses_by_http_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers never come here."""
    monkeypatch.setattr(hub, "GUESS_S", 1e9)
    monkeypatch.setattr(http, "CLOSE_S", 0)
    certificate, key = certified(tmp_path)
    options = {"tls_certificate": certificate, "tls_key": key, "access_file": access_file(tmp_path)}
    async with running(tmp_path, http="0.0.0.0:0", **options) as live:
        assert live.bound.http is not None
        port, context = live.bound.http.port, ssl.create_default_context(cafile=certificate)
        guessers = []
        for _ in range(2 * http.CONNECTIONS_MAX):
            _, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n")
            guessers.append(writer)
        headers = {"authorization": "Bearer the scraper's own secret"}
        for path in ("/healthz", "/metrics"):
            async with httpx.AsyncClient(verify=context, base_url=f"https://localhost:{port}") as client:
                assert (await client.get(path, headers=headers)).status_code == 200
        for writer in guessers:
            writer.transport.abort()


async def test_a_wrong_token_by_http_ends_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    certificate, key = certified(tmp_path)
    options = {"tls_certificate": certificate, "tls_key": key, "access_file": access_file(tmp_path)}
    async with running(tmp_path, http="0.0.0.0:0", **options) as live:
        assert live.bound.http is not None
        context = ssl.create_default_context(cafile=certificate)
        reader, writer = await asyncio.open_connection("localhost", live.bound.http.port, ssl=context)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n" * 2)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).count(b"HTTP/1.1 401") == 1
        writer.transport.abort()
