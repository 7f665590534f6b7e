"""Who may do what: grants of scopes to tokens, users, groups and certificates; read anew when their files change.

A grant allows to *read* (ask), to *write* as some producers (teach), or everything (*admin*). Who owns the service's
process has every scope; so has everybody on TCP where no file of tokens or grants is given.
"""

from __future__ import annotations

import asyncio
import grp
import hashlib
import hmac
import os
import pwd
import socket
import ssl
import struct
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from advisor.errors import InvalidValue, Unauthorized
from advisor.protocol.declaring import Scope
from advisor.protocol.verbs import METHODS
from advisor.service.config import TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, Config
from advisor.service.rota import Allowance

GRANTS_MAX = 1_000  # each token given is compared with all of them
SO_PEERGROUPS: Final = 59  # Linux: the groups of a Unix socket's peer; Python does not name it
RATE = "rows_per_second"  # of a grant
RATE_MIN, RATE_MAX = 1, 10**9  # below, a grant is of no use; above, nothing is limited
UNIX: Final = getattr(socket, "AF_UNIX", None)

Identity = tuple[str, Any]  # what a peer has shown: a kind, and the digest of a token, a user with groups, or names


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may do."""

    name: str  # for logs and errors
    read: bool = False
    # producers, or their first characters with a * behind: "*" is every one, and rows without a producer
    write: tuple[str, ...] = ()
    admin: bool = False
    # what all who have this grant may send together; None is as many as there is time for
    rows_per_second: float | None = None

    def may_write(self, producer: str | None) -> bool:
        """Return whether it may teach as a producer; None is nobody in particular."""
        if self.admin or "*" in self.write:
            return True
        return producer is not None and any(
            producer.startswith(each[:-1]) if each.endswith("*") else producer == each for each in self.write
        )

    def check(self, method: str, params: Any = None) -> None:
        """Check that a request is allowed; without its parameters, that there is one of its kind that is.

        Raises Unauthorized.
        """
        verb = METHODS.get(method)
        scope: Scope = verb.scope if verb else "open" if params is None else "admin"
        producer = getattr(params, "producer", None)
        if method == "hello" and params is not None and producer is not None:
            scope = "write" if params.resume_at is None else "admin"
        allowed = self.admin or {
            "open": True, "read": self.read, "teach": bool(self.write), "admin": False,
            "write": bool(self.write) if params is None else self.may_write(producer),
        }[scope]  # fmt: skip
        if not allowed:
            told = f"{scope} as {producer!r}" if producer is not None and scope == "write" else scope
            raise Unauthorized(
                f"{self.name!r} may not {method}: it needs the scope {told}", field="method", value=method, bound=scope,
                hint="ask whoever runs the service",
            )  # fmt: skip


OWNER: Final = Grant("owner", read=True, write=("*",), admin=True)


def _joined(grants: list[Grant]) -> Grant | None:
    """Return what several grants of one peer allow together."""
    if len(grants) < 2:
        return grants[0] if grants else None
    return Grant(
        " and ".join(each.name for each in grants), read=any(each.read for each in grants),
        write=tuple(word for each in grants for word in each.write), admin=any(each.admin for each in grants),
        rows_per_second=None if None in (rates := [each.rows_per_second for each in grants]) else max(rates),  # type: ignore[type-var]
    )  # fmt: skip


class Access:
    """The grants of a service."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._files = [each for each in (config.token_file, config.access_file) if each is not None]
        self._seen = self._stamps()
        self._grants = self._read()
        self._allowances: dict[tuple[str, float], Allowance] = {}

    @property
    def asks_token(self) -> bool:
        """True where TCP peers must show who they are."""
        return bool(self._files)

    @property
    def shares_socket(self) -> bool:
        """True where other users than our own may open the Unix socket."""
        return any(kind in ("user", "group") for kind, _ in self._grants)

    def grant(self, identity: Identity | None) -> Grant | None:
        """Return what a peer that has shown this may do; None for a stranger. Tokens are compared in constant time."""
        if identity is None:
            return None
        kind, shown = identity
        if kind == "open":
            return None if self.asks_token else OWNER
        if kind == "unix":
            uid, groups = shown
            if uid in (os.getuid(), 0):  # whoever is root, or us, can read the state file
                return OWNER
            keys = [("user", uid), *(("group", gid) for gid in groups)]
        elif kind == "certificate":
            keys = [("certificate", name) for name in shown]
        else:
            found = [grant for key, grant in self._grants.items() if _same(key, shown)]
            return found[0] if found else None
        return _joined([self._grants[key] for key in keys if key in self._grants])

    def allowance(self, grant: Grant | None) -> Allowance | None:
        """Return what those who have a grant may send together; None where there is no limit."""
        if grant is None or grant.rows_per_second is None:
            return None
        key = grant.name, grant.rows_per_second
        return self._allowances.setdefault(key, Allowance(grant.rows_per_second, time.monotonic))

    def changed(self) -> bool:
        """Read the files again where they have changed; return whether anything else is allowed now.

        Raises InvalidValue when they do not read; what was allowed before is allowed still.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        before, self._grants = self._grants, self._read()
        return before != self._grants

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                stat = file.stat()
                found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError:
                found.append(None)
        return found

    def _read(self) -> dict[tuple[str, Any], Grant]:
        grants: dict[tuple[str, Any], Grant] = {}
        if self._config.token_file is not None:
            grants["token", digest(self._config.token() or b"")] = Grant("token_file", True, ("*",), True)
        if self._config.access_file is not None:
            entries = _entries(self._config.access_file)
            for place, entry in enumerate(entries):
                key, grant = _entry(f"grant[{place}]", entry)
                if key in grants:
                    raise InvalidValue(f"grant[{place}]", grant.name, "somebody whom no other grant is for")
                grants[key] = grant
        return grants


def digest(secret: bytes) -> bytes:
    """Return what is kept of a token: not the token, and of one length, so that a comparison tells nothing."""
    return hashlib.sha256(secret).digest()


def shown_by(transport: asyncio.BaseTransport) -> Identity:
    """Return what a new connection shows by itself: the user of a Unix peer, the names of a certificate."""
    link = cast("socket.socket", transport.get_extra_info("socket"))
    if link.family == UNIX:
        return "unix", _unix_peer(link)
    certificate = cast("Mapping[str, Any] | None", transport.get_extra_info("peercert"))
    if certificate:
        names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
        return "certificate", tuple(
            names + [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
        )
    return "open", None


def _unix_peer(link: socket.socket) -> tuple[int, tuple[int, ...]]:
    """Return a Unix peer's user and groups. Where the system does not tell, only our own user can open the socket."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid(), ()
    _, uid, gid = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        told = link.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 4096)
    except OSError:  # an old kernel, or more groups than fit
        told = b""
    return uid, (gid, *struct.unpack(f"{len(told) // 4}I", told))


def check_private(field: str, file: Path, bits: int = 0o077) -> None:
    """Refuse a file of secrets that others may read; raises InvalidValue."""
    try:
        open_to_others = file.stat().st_mode & bits
    except OSError as error:
        raise InvalidValue(field, str(file), f"readable ({error.strerror})") from error
    if open_to_others:
        raise InvalidValue(field, str(file), "readable by its owner only", f"chmod 600 {file}")


def _same(key: tuple[str, Any], shown: bytes) -> bool:
    return key[0] == "token" and hmac.compare_digest(key[1], shown)


def _entries(file: Path) -> list[Any]:
    check_private("access_file", file)
    try:
        top = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("access_file", str(file), f"TOML with tables [[grant]] ({error})") from error
    entries = top.pop("grant", [])
    if top or not isinstance(entries, list) or len(cast("list[Any]", entries)) > GRANTS_MAX:
        raise InvalidValue("access_file", str(file), f"at most {GRANTS_MAX} tables [[grant]], and nothing else")
    return cast("list[Any]", entries)


def _number_of(find: Callable[[str], Any]) -> Callable[[str, str], int]:
    def check(field: str, name: str) -> int:
        try:
            return int(name) if name.isdigit() else find(name)[2]
        except KeyError as error:
            raise InvalidValue(field, name, "one that this system knows") from error

    return check


def _token(field: str, value: str) -> bytes:
    if not TOKEN_BYTES_MIN <= len(value.encode()) <= TOKEN_BYTES_MAX:
        raise InvalidValue(field, f"{len(value.encode())} bytes", f"{TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes long")
    return digest(value.encode())


def _sha256(field: str, value: str) -> bytes:
    try:
        found = bytes.fromhex(value)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise InvalidValue(field, f"{len(value)} characters", "64 hexadecimal digits")
    return found


# Whom a grant may be for: the key of the file, the kind of what is shown, how the one is read as the other.
WHOM: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    "token": ("token", _token),
    "token_sha256": ("token", _sha256),
    "user": ("user", _number_of(pwd.getpwnam)),
    "group": ("group", _number_of(grp.getgrnam)),
    "certificate": ("certificate", lambda _, name: name),
}


def _entry(where: str, given: Any) -> tuple[tuple[str, Any], Grant]:
    entry = cast("dict[str, Any]", given if isinstance(given, dict) else {})
    whom = [key for key in WHOM if key in entry]
    unknown = sorted(entry.keys() - {"name", "read", "write", "admin", RATE, *WHOM})
    if unknown or len(whom) != 1:
        raise InvalidValue(
            where, ", ".join(unknown or whom), f"name, read, write, admin, {RATE}, and one of {', '.join(WHOM)}"
        )
    kind, read = WHOM[whom[0]]
    flags = [entry.get(key, False) for key in ("read", "admin")]
    write = entry.get("write", [])
    listed = cast("list[Any]", write if isinstance(write, list) else [None])
    texts: list[Any] = [entry.get("name", where), entry[whom[0]], *listed]
    if not all(isinstance(each, str) and each for each in texts) or not all(isinstance(each, bool) for each in flags):
        raise InvalidValue(
            where, entry.get("name"), "read and admin true or false, write a list of names, the others text"
        )
    rate = entry.get(RATE)
    if rate is not None and not (type(rate) in (int, float) and RATE_MIN <= rate <= RATE_MAX):
        raise InvalidValue(f"{where}.{RATE}", rate, f"a number from {RATE_MIN} to {RATE_MAX}")
    grant = Grant(entry.get("name", where), flags[0], tuple(listed), flags[1], rate)
    return (kind, read(f"{where}.{whom[0]}", entry[whom[0]])), grant


def tls_context(config: Config) -> ssl.SSLContext | None:
    """Return what TLS needs, None where it is not asked for.

    Raises InvalidValue when a file does not load, or others may read the key.
    """
    if config.tls_certificate is None or config.tls_key is None:
        return None
    check_private("tls_key", config.tls_key, 0o007)  # a group of its own, such as ssl-cert, is usual
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidValue(
            "tls_certificate", str(config.tls_certificate), f"a PEM pair that loads ({error})"
        ) from error
    if config.tls_clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(config.tls_clients)
        except (OSError, ssl.SSLError) as error:
            raise InvalidValue(
                "tls_clients", str(config.tls_clients), f"PEM certificates that load ({error})"
            ) from error
    return context
