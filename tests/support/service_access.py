"""What a service asks of those who come in: tokens, a certificate made for this machine."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from live import Live, Peer, running

SECRET = "correct horse battery staple"
TOKENS = """
[[token]]
name = "scraper"
secret = "the scraper's own secret"
scope = "read"

[[token]]
name = "renderers"
secret_sha256 = "{}"
scope = "write"
producers = ["render.*", "exact"]

[[token]]
name = "writer"
secret = "the writer's own secret"
scope = "write"

[[token]]
name = "operator"
secret = "the operator's own secret"
scope = "admin"
""".format(hashlib.sha256(b"the renderers' own secret").hexdigest())


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


@asynccontextmanager
async def encrypted(
    tmp_path: Path, place: str = "tcp", **options: Any
) -> AsyncIterator[tuple[Live, int, ssl.SSLContext]]:
    """Run a service behind TLS on TCP, or with `place` "http" beyond loopback with tokens; give its port and who trusts it."""
    certificate, key = certified(tmp_path)
    options |= {"tls_certificate": certificate, "tls_key": key}
    options |= {"tcp": "localhost:0"} if place == "tcp" else {"http": "0.0.0.0:0", "tokens": tokens_file(tmp_path)}
    async with running(tmp_path, **options) as live:
        bound = getattr(live.bound, place)
        assert bound is not None
        yield live, bound.port, ssl.create_default_context(cafile=certificate)


def tokens_file(tmp_path: Path, text: str = TOKENS) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def one_token(tmp_path: Path) -> Path:
    """Make a file with one token, that allows everything."""
    return tokens_file(tmp_path, f"[[token]]\nsecret = '{SECRET}'\nscope = 'admin'\n")


async def greeted(live: Live, name: str, **hello: Any) -> Peer:
    peer = await live.peer()
    await peer.call(
        "hello", {"token": f"the {name}' own secret" if name[-1] == "s" else f"the {name}'s own secret", **hello}
    )
    return peer
