"""TLS on TCP and HTTP: handshakes, certificates of clients, and tokens behind them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest
from live import PATIENCE_S, Closed, Peer, refused, rows_of
from service_access import certified, encrypted, tokens_file

from advisor.errors import InvalidValue
from advisor.service import http, hub
from advisor.service.access import tls_context
from advisor.service.config import load_config
from advisor.service.listeners import HANDSHAKES_MAX

pack = msgpack.packb


async def test_tls(tmp_path: Path) -> None:
    async with encrypted(tmp_path) as (live, port, context):
        peer = Peer(*await asyncio.open_connection("localhost", port, ssl=context))
        live.peers.append(peer)
        big = {"rows": rows_of(2_000)}
        assert (await peer.call("observe_rows", big))["accepted"] == 2_000
        plain = Peer(*await asyncio.open_connection("localhost", port))
        live.peers.append(plain)
        await plain.send(b"\x94\x00\x01\xa6status\x91\x80" * 2000)
        assert [m for m in await plain.closed() if isinstance(m, list) and m[0] == 1] == []


async def test_handshakes_that_do_not_end_keep_nobody_out(tmp_path: Path) -> None:
    """Three times as many peers connect as may shake hands, and say nothing, or half a word of TLS."""
    async with encrypted(tmp_path) as (_, port, context):
        silent = []
        for number in range(3 * HANDSHAKES_MAX):
            _, writer = await asyncio.open_connection("localhost", port)
            writer.write(b"\x16\x03\x01" if number % 2 else b"")
            silent.append(writer)
        peer = Peer(*await asyncio.open_connection("localhost", port, ssl=context))
        await peer.call("status", {})
        peer.close()
        for writer in silent:
            writer.transport.abort()


async def test_what_comes_with_the_end_of_the_handshake_is_answered(tmp_path: Path) -> None:
    """With TLS 1.3 a client may send its first requests in the flight that ends its handshake."""
    async with encrypted(tmp_path) as (_, port, context):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("localhost", port)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(2**16))
        client.write(pack([0, 1, "observe_rows", [{"rows": rows_of(2_000)}]]))
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


@pytest.mark.parametrize("tokens", [False, True])
async def test_a_client_needs_a_certificate_that_tls_accepts_and_a_token_where_there_are_some(
    tmp_path: Path, tokens: bool
) -> None:
    options = {"tokens": tokens_file(tmp_path)} if tokens else {}
    certificate = tmp_path / "cert.pem"
    async with encrypted(tmp_path, tls_clients=certificate, **options) as (_, port, context):
        bare = Peer(*await asyncio.open_connection("localhost", port, ssl=context))
        with pytest.raises((ssl.SSLError, Closed)):  # TLS 1.3 refuses after the handshake
            await bare.call("status", {})
        context.load_cert_chain(certificate, tmp_path / "key.pem")
        peer = Peer(*await asyncio.open_connection("localhost", port, ssl=context))
        if tokens:
            await refused("unauthorized", peer.call("status", {}))
            await peer.call("hello", {"token": "the scraper's own secret"})
        await peer.call("status", {})
        peer.close()


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    key.chmod(0o644)
    with pytest.raises(InvalidValue, match="tls_key"):
        tls_context(load_config(tcp="127.0.0.1:0", tls_certificate=certificate, tls_key=key))


async def test_http_beyond_loopback_asks_for_tls_and_a_token(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    for missing in ({}, {"tokens": tokens_file(tmp_path)}, {"tls_certificate": certificate, "tls_key": key}):
        with pytest.raises(InvalidValue, match="http"):
            load_config(socket="/s", http="0.0.0.0:0", **missing)
    load_config(socket="/s", http="0.0.0.0:0", open_beyond_loopback=["http"])
    async with (
        encrypted(tmp_path, "http") as (_, port, context),
        httpx.AsyncClient(verify=context, base_url=f"https://localhost:{port}") as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        for token, status in (
            (None, 401),
            ("the renderers' own secret", 200),
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
    async with encrypted(tmp_path, "http") as (_, port, context):
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
    async with encrypted(tmp_path, "http") as (_, port, context):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong\r\n\r\n" * 2)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).count(b"HTTP/1.1 401") == 1
        writer.transport.abort()
