"""Who may come in: the Unix socket's mode, tokens and TLS on TCP."""

from __future__ import annotations

import asyncio
import logging
import ssl
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import pytest
from live import Peer, refused, rows_of, running

from advisor.errors import Unavailable
from advisor.service.listeners import HANDSHAKES_MAX

pack = msgpack.packb
SECRET = "correct horse battery staple"


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
        error = await refused("unauthorized", peer.call("hello", {"token": SECRET + "r"}))
        assert SECRET not in str(error.as_dict())
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        await peer.call("hello", {"token": SECRET})
        assert (await peer.call("observe_rows", {"rows": rows_of(3)}))["accepted"] == 3
    assert SECRET not in caplog.text


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
