"""Who may do what: tokens with a scope, read at the start; the Unix socket by its mode.

Scopes contain each other: *read* (ask), *write* (also send rows), *admin* (everything). The owner of the Unix socket decides
by its mode who may open it, and who opens it has *admin*; so has everybody on TCP where no file of tokens is given.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import socket
import ssl
import struct
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from msgspec import Meta

from advisor.domain.fields import Further, Name, record, shape_of
from advisor.domain.names import checked_name
from advisor.errors import InvalidValue, Unauthorized
from advisor.protocol.declaring import Scope
from advisor.protocol.verbs import METHODS
from advisor.service.config import Config

SECRET_BYTES_MIN = 16  # a shorter secret can be found by trying over a network
SECRET_BYTES_MAX = 4_096  # as the protocol takes
TOKENS_MAX = 1_000  # each secret shown is compared with all of them
UNIX: Final = getattr(socket, "AF_UNIX", None)
LEVELS: Final[Mapping[Scope, int]] = {"open": 0, "read": 1, "write": 2, "teach": 2, "admin": 3}
SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")  # of a token

Identity = tuple[str, Any]  # what a peer has shown: a kind, and the digest of a secret or the number of a user


@dataclass(frozen=True, slots=True)
class Grant:
    """What a peer may do.

    `name` for logs and errors. `producers`: names that it may send rows as, or their first characters with a `*` behind;
    without any it may send as every producer, and rows without a producer.
    """

    name: str
    scope: Scope
    producers: tuple[str, ...] = ()

    def may_write(self, producer: str | None) -> bool:
        """Return whether it may send rows as a producer; None: as no producer in particular."""
        if LEVELS[self.scope] < LEVELS["write"]:
            return False
        return not self.producers or (producer is not None and any(
            producer.startswith(each[:-1]) if each.endswith("*") else producer == each for each in self.producers
        ))  # fmt: skip

    def refuse_forbidden(self, method: str, params: Any = None) -> None:
        """Check that a request is allowed; without its parameters, that one of its verb may be. Raises Unauthorized."""
        verb = METHODS.get(method)
        needed: Scope = verb.scope if verb else "open" if params is None else "admin"
        producer: str | None = getattr(params, "producer", None)
        if method == "hello" and params is not None and producer is not None:
            needed = "write"
        if LEVELS[self.scope] < LEVELS[needed]:
            needed = "write" if needed == "teach" else needed
            raise Unauthorized(
                f"token {self.name!r} has the scope {self.scope}; {method} needs {needed}", field="method", value=method,
                bound=needed, hint="ask the operator of the service for a token with that scope",
            )  # fmt: skip
        if needed == "write" and params is not None and not self.may_write(producer):
            raise Unauthorized(
                f"token {self.name!r} may not send as this producer", field="producer", value=producer,
                bound=", ".join(self.producers), hint="use one of these names, or ask the operator of the service",
            )  # fmt: skip


OWNER: Final = Grant("owner", "admin")


class Access:
    """The tokens of a service."""

    def __init__(self, config: Config) -> None:
        self.asks_token = config.tokens is not None  # of TCP peers
        self._tokens = {} if config.tokens is None else read_tokens(config.tokens)

    def grant(self, identity: Identity | None) -> Grant | None:
        """Return what a peer that has shown this may do; None: nothing yet. Each secret is compared in constant time."""
        if identity is None:
            return None
        kind, shown = identity
        if kind != "token":
            return None if kind == "open" and self.asks_token else OWNER
        found: Grant | None = None
        for digested, grant in self._tokens.items():
            if hmac.compare_digest(digested, shown):
                found = grant
        return found


def digest(secret: bytes) -> bytes:
    """Return what is stored of a secret: of one length, so that a comparison takes the same time for all."""
    return hashlib.sha256(secret).digest()


def shown_by(transport: asyncio.BaseTransport) -> Identity:
    """Return what a new connection shows by itself: the user of a Unix peer, else that it is open."""
    link = cast("socket.socket", transport.get_extra_info("socket"))
    if link.family != UNIX:
        return "open", None
    if not hasattr(socket, "SO_PEERCRED"):
        return "unix", os.getuid()
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return "unix", struct.unpack("3i", credentials)[1]


def check_private(field: str, file: Path, bits: int = 0o077) -> None:
    """Refuse a file of secrets that others may read; raises InvalidValue."""
    try:
        open_to_others = file.stat().st_mode & bits
    except OSError as error:
        raise InvalidValue(field, str(file), f"readable ({error.strerror})") from error
    if open_to_others:
        raise InvalidValue(field, str(file), "readable by its owner only", f"chmod 600 {file}")


def read_tokens(file: Path) -> dict[bytes, Grant]:
    """Return what each token of a file allows, by the digest of its secret.

    Raises InvalidValue naming the table, the key, its value and its bound; UnknownKey with the nearest key.
    """
    check_private("tokens", file)
    try:
        top = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("tokens", str(file), f"TOML with tables [[token]] ({error})") from error
    tables = top.pop("token", None)
    if top or not isinstance(tables, list) or not 1 <= len(cast("list[Any]", tables)) <= TOKENS_MAX:
        raise InvalidValue("tokens", str(file), f"1 to {TOKENS_MAX} tables [[token]], and nothing else")
    found: dict[bytes, Grant] = {}
    for place, table in enumerate(cast("list[Any]", tables)):
        digested, grant = _token(f"token[{place}]", table)
        if digested in found:
            raise InvalidValue(f"token[{place}]", grant.name, "a secret that no other token has")
        found[digested] = grant
    return found


def _producer(field: str, name: str) -> str:
    if not name.removesuffix("*") or "*" in name[:-1]:
        raise InvalidValue(field, name, "a name, or its first characters with one * at the end")
    return checked_name(field, name)


SCOPE_BOUND: Final = f"one of {', '.join(SCOPES)}"
# A table [[token]]. What is wrong with a secret is looked at apart, for no error repeats it.
TOKEN: Final = shape_of(record(
    name=Name, secret=Any, secret_sha256=Any,
    scope=Annotated[Literal["read", "write", "admin"], Meta(description=SCOPE_BOUND)],
    producers=Annotated[
        list[Annotated[str, Further(_producer)]], Meta(min_length=1, description="a list of one name or more")
    ],
))  # fmt: skip


def _token(where: str, given: Any) -> tuple[bytes, Grant]:
    """Return the digest of a table's secret, and what it allows."""
    if not isinstance(given, dict):
        raise InvalidValue(where, given, "a table [[token]] with a secret and a scope")
    table: dict[str, Any] = TOKEN.check_value(where, given)
    scope, producers = table.get("scope"), table.get("producers", ())
    if scope is None:
        raise InvalidValue(f"{where}.scope", None, SCOPE_BOUND)
    if producers and scope != "write":
        raise InvalidValue(
            f"{where}.producers", producers, f"absent: the scope is {scope}", "only scope = 'write' may name producers"
        )
    return _secret(where, table), Grant(table.get("name", where), scope, tuple(producers))


def _secret(where: str, table: Mapping[str, Any]) -> bytes:
    if ("secret" in table) == ("secret_sha256" in table):
        raise InvalidValue(where, None, "one of secret and secret_sha256")
    key = "secret" if "secret" in table else "secret_sha256"
    value = table[key]
    if not isinstance(value, str):
        raise InvalidValue(f"{where}.{key}", type(value).__name__, "text")  # the value itself may be secret
    if key == "secret":
        size = len(value.encode())
        if not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
            raise InvalidValue(f"{where}.{key}", f"{size} bytes", f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")
        return digest(value.encode())
    try:
        found = bytes.fromhex(value)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise InvalidValue(f"{where}.{key}", f"{len(value)} characters", "64 hexadecimal digits")
    return found


def tls_context(config: Config) -> ssl.SSLContext | None:
    """Return what TLS needs, None where it is not asked for.

    Raises InvalidValue when a file does not load, or others may read the key.
    """
    if config.tls_certificate is None or config.tls_key is None:
        return None
    check_private("tls_key", config.tls_key, 0o007)  # a group of its own, such as ssl-cert, is usual
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    field, file = "tls_certificate", config.tls_certificate
    try:
        context.load_cert_chain(file, config.tls_key)
        if config.tls_clients is not None:
            field, file = "tls_clients", config.tls_clients
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue(field, str(file), f"PEM that loads ({error})") from error
    return context
