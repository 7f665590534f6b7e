"""Where a service listens, as people write it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import InvalidValue

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
