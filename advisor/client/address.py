"""Where a service listens, as people write it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import InvalidValue

TOKEN_BYTES_MAX = 4_096  # as the protocol takes
_BOUND = "unix:/path, a path, tcp://host:port or host:port"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def default_socket() -> Path:
    """Return where a service listens, and a command asks, when nobody says where: in a folder of the user alone."""
    home = os.environ.get("XDG_RUNTIME_DIR") or ("/run" if os.geteuid() == 0 else Path.home() / ".cache")
    return Path(home) / "advisor" / "socket"


def usual_address() -> str:
    """Return the address of a client without one: ADVISOR_SOCKET, else ADVISOR_TCP, else `default_socket`."""
    return os.environ.get("ADVISOR_SOCKET") or os.environ.get("ADVISOR_TCP") or str(default_socket())


def usual_token() -> str | None:
    """Return the token in the file that ADVISOR_TOKEN_FILE names; None where it names none. Raises InvalidValue."""
    path = os.environ.get("ADVISOR_TOKEN_FILE")
    return token_in(Path(path)) if path else None


def token_in(path: Path) -> str:
    """Return the token that a file holds; raises InvalidValue."""
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_BYTES_MAX + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue("token-file", str(path), "a text file that can be read") from error
    if not 0 < len(text) <= TOKEN_BYTES_MAX:
        raise InvalidValue("token-file", str(path), f"a file that holds 1 to {TOKEN_BYTES_MAX} bytes")
    return text


def usual_tls() -> ssl.SSLContext | None:
    """Return how TCP is encrypted by ADVISOR_TLS_CA and ADVISOR_TLS_CERTIFICATE; None where neither is set."""
    authority, certificate = os.environ.get("ADVISOR_TLS_CA"), os.environ.get("ADVISOR_TLS_CERTIFICATE")
    return tls_by(authority, certificate) if authority or certificate else None


def tls_by(authority: str | None, certificate: str | None = None) -> ssl.SSLContext:
    """Return a context that checks the service's certificate, and shows one of its own where the service asks for it.

    Parameters
    ----------
    authority : str, optional
        PEM file with the certificates to trust; ``system`` and None stand for those of this machine.
    certificate : str, optional
        PEM file with a certificate chain and its private key.

    Raises
    ------
    InvalidValue
        For a file that is none, or holds none.
    """
    name, path = "tls_ca", authority
    try:
        context = ssl.create_default_context(cafile=None if authority in (None, "system") else authority)
        if certificate:
            name, path = "tls_certificate", certificate
            context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue(name, path, "a PEM file that can be read", error.strerror or str(error)) from error
    return context


def parse_address(text: str) -> UnixAddress | TcpAddress:
    """Return the address that `text` means; raises InvalidValue."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if path:
            return UnixAddress(path)
        raise InvalidValue("address", text, _BOUND)
    rest = text.removeprefix("tcp://")
    host, colon, port = rest.rpartition(":")
    if colon and host and port.isdecimal() and port.isascii() and "/" not in rest:
        if not 0 < int(port) < 2**16:
            raise InvalidValue("address", text, "a port from 1 to 65535")
        return TcpAddress(host.removeprefix("[").removesuffix("]"), int(port))
    if text and not text.startswith("tcp://") and "\0" not in text:
        return UnixAddress(text)
    raise InvalidValue("address", text, _BOUND)
