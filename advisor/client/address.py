"""Where a service listens, as people write it."""

from __future__ import annotations

from dataclasses import dataclass

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


def parse_address(text: str) -> UnixAddress | TcpAddress:
    """Return the address that `text` means.

    Raises
    ------
    InvalidValue
    """
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
