"""What a service asks of those who come in: a token, grants, a certificate made for this machine."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from live import Live, Peer

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


def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file


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
