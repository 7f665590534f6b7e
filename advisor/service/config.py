"""What a service is told: one table of keys, read from a TOML file and the command line, every value checked."""

from __future__ import annotations

import ipaddress
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, cast

from advisor.domain import limits
from advisor.domain.names import checked_name
from advisor.engine.granting import RETURN_S
from advisor.engine.learners import MODEL_MEMORY_BYTES
from advisor.errors import InvalidValue, UnknownKey, closest, not_one_of
from advisor.service.snet_machine import parse_cores

PORT_MAX = 65_535
TOKEN_BYTES_MIN = 16  # a shorter secret can be tried out over a network
TOKEN_BYTES_MAX = 4_096  # as the protocol takes
SIZE_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LOOPBACK = "127.0.0.1"
SNET_WORTH = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?([eE]-?[0-9]{1,2})?")
SNET_WORTH_MIN, SNET_WORTH_MAX = 1e-9, 1e9  # as the weights of networks that share a machine
EVERY_NETWORK = "*"
RAY = "ray"
TARGETS = ("throughput_per_s", "latency_s")
# What may be asked of a network's advice, and what reads it.
ADVISED: Mapping[str, Callable[[str], Any]] = {
    "cores": int, "objective": str, **dict.fromkeys(TARGETS, float), "arrival_per_s": float, "instances_max": int, "turns": str,
    "level": float,
}  # fmt: skip
SIZE = re.compile(r"([0-9]{1,18}) ?([KMG]iB)?")


class Address(NamedTuple):
    """A TCP address to listen on; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """True when only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class KeyKind(NamedTuple):
    """What a key takes."""

    check: Callable[[str, Any], Any]  # a value to its checked form; raises InvalidValue
    form: str  # of its text, in a help text
    type: type[Any] = str  # of the value that a text stands for, before its check
    # it is a list: an option that may come several times, words with spaces between them in the environment
    many: bool = False


def _path(key: str, value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise InvalidValue(key, value, "a path")
    return Path(value).expanduser()


def _place(key: str, value: Any) -> str:
    """Return a folder, absolute, or the URL of a store as it is."""
    if isinstance(value, str) and "://" in value and "\0" not in value:
        return value
    return str(_path(key, value).absolute())


def parse_address(key: str, value: Any) -> Address:
    """Return HOST:PORT (or [HOST]:PORT for IPv6) as an address; raises InvalidValue."""
    if isinstance(value, Address):
        return value
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    good = host and (bracketed or ":" not in host) and port.isascii() and port.isdigit() and int(port) <= PORT_MAX
    if not good:
        raise InvalidValue(key, value, f"HOST:PORT with a port from 0 to {PORT_MAX}, e.g. 127.0.0.1:7117")
    return Address(host, int(port))


class SnetPort(NamedTuple):
    """Where applications of S-Net's runtime come for cores, and the network that those who come there run.

    `worth` is what one of its records is worth to one of another network.
    """

    address: Address
    network: str | None = None
    worth: float = 1.0


def parse_snet_port(key: str, value: Any) -> SnetPort:
    """Return what [HOST:]PORT[=NETWORK[*WORTH]] says; without a host it is loopback; raises InvalidValue."""
    where, named, network = str(value).partition("=")
    address = parse_address(key, where if ":" in where else f"{LOOPBACK}:{where}")
    name, weighed, worth = network.rpartition("*")
    if not weighed or not SNET_WORTH.fullmatch(worth):
        name, worth = network, "1"
    if named and not name:
        raise InvalidValue(key, value, "HOST:PORT=NETWORK with the id of a network after the sign", "or leave = out")
    within = SNET_WORTH_MIN <= float(worth) <= SNET_WORTH_MAX
    if not within:
        raise InvalidValue(key, value, f"HOST:PORT=NETWORK*WORTH, worth from {SNET_WORTH_MIN:g} to {SNET_WORTH_MAX:g}")
    return SnetPort(address, checked_name("network", name) if named else None, float(worth))


def _snet_ports(key: str, value: Any) -> tuple[SnetPort, ...]:
    return tuple(parse_snet_port(key, each) for each in _listed(value))


class Advise(NamedTuple):
    """What is planned in the background for one defined network, or for all others: options of `allocate`."""

    network: str
    options: Mapping[str, Any]


def parse_advise(key: str, value: Any) -> Advise:
    """Return what NETWORK=NAME:VALUE,… says; NETWORK is an id of `define_network`, or * for all others.

    Raises InvalidValue naming the option, as `advisor.planning.requests.Request`.
    """
    from advisor.planning.requests import Request  # noqa: PLC0415 - a command that advises nothing needs no planner

    network, named, words = str(value).rpartition("=")
    if not named or not network:
        raise InvalidValue(key, value, "NETWORK=NAME:VALUE,…", "e.g. film=throughput_per_s:20,cores:64")
    found: dict[str, Any] = {}
    for word in words.split(","):
        name, said, text = word.partition(":")
        if name not in ADVISED or not said:
            raise InvalidValue(key, word, f"NAME:VALUE with one of {', '.join(ADVISED)}", closest(name, tuple(ADVISED)))
        try:
            found[name] = ADVISED[name](text)
        except ValueError:
            raise InvalidValue(
                f"{key}: {name}", text, "a whole number" if ADVISED[name] is int else "a number"
            ) from None
    target = {name: found.pop(name) for name in TARGETS if name in found}
    if target:
        found = {"objective": "fewest_cores", **found, "target": target}
    try:
        Request(**cast("dict[str, Any]", {"cores": 1, **found}))  # processors of this machine, where none are given
    except InvalidValue as error:
        raise InvalidValue(f"{key}: {error.field}", error.value, str(error.bound), error.hint or "") from error
    return Advise(network if network == EVERY_NETWORK else checked_name("network", network), found)


def _advice(key: str, value: Any) -> tuple[Advise, ...]:
    found = tuple(parse_advise(key, each) for each in _listed(value))
    if len({each.network for each in found}) < len(found):
        raise InvalidValue(key, value, "each network once")
    return found


def _listed(value: Any) -> list[Any]:
    return (
        [value]
        if isinstance(value, str)
        else list(cast("list[Any]", value))
        if type(value) in (list, tuple)
        else [None]
    )


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(key, value, "true or false")
    return value


def _number(low: float, high: float, form: str = "N") -> KeyKind:
    def check(key: str, value: Any) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not low <= value <= high:
            raise InvalidValue(key, value, f"a number from {low:g} to {high:g}")
        return float(value)

    return KeyKind(check, form, float)


def _integer(low: int, high: int) -> KeyKind:
    def check(key: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValue(key, value, f"an integer from {low} to {high}")
        return value

    return KeyKind(check, "N", int)


def _size(low: int, high: int) -> KeyKind:
    """A size in bytes: an integer, or text such as 64MiB."""

    def check(key: str, value: Any) -> int:
        size = value
        if isinstance(value, str):
            found = SIZE.fullmatch(value)
            size = int(found[1]) * SIZE_UNITS[found[2] or ""] if found else None
        if not isinstance(size, int) or isinstance(size, bool) or not low <= size <= high:
            raise InvalidValue(key, value, f"bytes from {low} to {high}, as an integer or like 64MiB")
        return size

    return KeyKind(check, "SIZE")


def _hosts(key: str, value: Any) -> tuple[str, ...]:
    hosts = tuple(cast("list[Any]", value)) if type(value) in (list, tuple) else (None,)
    if not all(isinstance(host, str) and host for host in hosts):
        raise InvalidValue(key, value, "a list of host names")
    return tuple(str(host).lower() for host in hosts)


def _one_of(*words: str) -> KeyKind:
    def check(key: str, value: Any) -> str:
        if value not in words:
            raise not_one_of(key, value, words)
        return value

    return KeyKind(check, "|".join(words))


def checked_engine(key: str, value: Any) -> str:
    """Return where something runs, a key of this name; raises InvalidValue."""
    if not isinstance(value, str) or not (value in ("here", RAY) or value.startswith(f"{RAY}://")):
        raise InvalidValue(key, value, "here, ray, or ray://HOST:PORT", "HOST:PORT is where the head of a Ray listens")
    if "://" in value:
        parse_address(key, value.removeprefix(f"{RAY}://"))
    return value


PATH, ADDRESS, FLAG = KeyKind(_path, "PATH"), KeyKind(parse_address, "HOST:PORT"), KeyKind(_flag, "", bool)


def _key(default: Any, kind: KeyKind, about: str) -> Any:
    return field(default=default, metadata={"kind": kind, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a service is told. Each field is a key of the TOML file; the command line gives the usual ones."""

    socket: Path | None = _key(None, PATH, "path of the Unix socket to listen on, made with mode 0600")
    tcp: Address | None = _key(None, ADDRESS, "HOST:PORT to listen on")
    http: Address | None = _key(None, ADDRESS, "HOST:PORT of /metrics, /advice, /healthz and /readyz")
    http_hosts: tuple[str, ...] = _key(
        (), KeyKind(_hosts, "NAME", many=True), "names that a Host header may have, beside loopback and addresses"
    )
    state: Path | None = _key(None, PATH, "state file; without one nothing survives the service")
    engine: str = _key(
        "here",
        KeyKind(checked_engine, "here|ray[://HOST:PORT]"),
        "where the state is: here; or in shards on Ray, one of its own, or the one of which this machine is a node",
    )
    shards: int = _key(2, _integer(1, limits.SHARDS_MAX), "shards of a new state on Ray; later see `advisor shards`")
    copy: str | None = _key(
        None,
        KeyKind(_place, "PATH|URL"),
        "where shards on Ray keep a copy of their states: a folder, or s3://BUCKET/PREFIX",
    )
    spares: int = _key(1, _integer(0, 64), "processes on Ray kept ready to take over from one that is lost")
    stale_rows: int = _key(64, _integer(0, 10**9), "on Ray: rows of a component that an answer may lack")
    stale_s: float = _key(0.5, _number(0.01, 3600, "SECONDS"), "on Ray: seconds that an answer may lack rows")
    accept_damage: bool = _key(False, FLAG, "start without what is damaged in the state file")
    token_file: Path | None = _key(None, PATH, "file with a secret that allows TCP clients everything")
    access_file: Path | None = _key(
        None, PATH, "TOML file that grants scopes to tokens, users, groups and certificates"
    )
    tls_certificate: Path | None = _key(None, PATH, "PEM file with the certificate chain, for TLS on TCP")
    tls_key: Path | None = _key(None, PATH, "PEM file with the private key")
    tls_clients: Path | None = _key(
        None, PATH, "PEM file with the authorities whose certificates TCP clients must show"
    )
    allow_plaintext: bool = _key(False, FLAG, "let TCP beyond loopback do without TLS")
    allow_open_http: bool = _key(False, FLAG, "let HTTP beyond loopback do without TLS and token")
    components_max: int = _key(limits.COMPONENTS_MAX, _integer(1, 10**7), "components known; new ones are then refused")
    model_memory: int = _key(
        MODEL_MEMORY_BYTES,
        _size(0, 2**44),
        "bytes for the support points of components, e.g. 64MiB; later ones go without",
    )
    producers_max: int = _key(limits.PRODUCERS_MAX, _integer(1, 10**6), "producers remembered for exactly-once")
    connections_max: int = _key(limits.CONNECTIONS_MAX, _integer(1, 10**5), "connections open at a time")
    peer_memory: int = _key(
        2**28,
        _size(limits.MESSAGE_BYTES_MAX, 2**40),
        "bytes kept for peers: half-received messages, numbered names, producers spoken for; a quarter for each",
    )
    memory_max: int | None = _key(
        None, _size(2**26, 2**44), "bytes that the service may take, its worker processes apart; e.g. 1GiB"
    )
    stall_s: float = _key(
        30.0, _number(0.01, 3600, "SECONDS"), "seconds a peer may take to finish a message or to read answers"
    )
    shutdown_s: float = _key(10.0, _number(0.1, 3600, "SECONDS"), "seconds an orderly stop may take")
    commit_rows: int = _key(200_000, _integer(1, 10**9), "rows after which a commit begins at once")
    compiled: bool = _key(
        True, FLAG, "compile the kernels, in a process beside the service, where numba is; answers are the same"
    )
    commit_share: float = _key(0.25, _number(0.01, 1.0), "part of a core's time that may go into commits")
    producer_idle_s: float = _key(
        7 * 86_400.0, _number(1.0, 10**9, "SECONDS"), "seconds after which a producer without connection is forgotten"
    )
    heavy_jobs: int = _key(2, _integer(1, 64), "requests that may run in worker processes at a time")
    heavy_jobs_waiting: int = _key(64, _integer(0, 10**4), "requests that may wait for a worker process")
    heavy_deadline_s: float = _key(30.0, _number(0.1, 3600, "SECONDS"), "seconds after which such a request is killed")
    worst_components: int = _key(10, _integer(0, 1000), "components with the largest error shown in the metrics")
    log_level: str = _key("info", _one_of("debug", "info", "warning", "error"), "least level that is logged")
    advise: tuple[Advise, ...] = _key(
        (),
        KeyKind(_advice, "NETWORK=NAME:VALUE,…", many=True),
        "what to plan for in the background and tell by HTTP of a network, or of all others (*), e.g. film=throughput_per_s:20",
    )
    snet_resources: tuple[SnetPort, ...] = _key(
        (),
        KeyKind(_snet_ports, "[HOST:]PORT[=NETWORK[*WORTH]]", many=True),
        "[HOST:]PORT[=NETWORK[*WORTH]] where S-Net's runtime comes for cores, one a network",
    )
    snet_cores: tuple[int, ...] | None = _key(
        None,
        KeyKind(parse_cores, "CPUS"),
        "processors to lend there, like 0-3,6; absent: those that the service may run on",
    )
    snet_return_s: float = _key(
        RETURN_S,
        _number(1.0, 10**6, "SECONDS"),
        "seconds a client there may keep a core asked back; then it is disconnected",
    )
    snet_beyond_loopback: bool = _key(
        False, FLAG, "let that protocol, which knows no token, be reached from other machines"
    )

    def __post_init__(self) -> None:
        if self.socket is None and self.tcp is None and not self.snet_resources:
            raise InvalidValue("socket", None, "given, or tcp", "advisor serve --socket PATH")
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise InvalidValue(missing, None, "given: TLS needs certificate and key")
        if self.tls_clients is not None and self.tls_key is None:
            raise InvalidValue("tls_key", None, "given: certificates of clients need TLS")
        if self.http_guarded and ((self.token_file or self.access_file) is None or self.tls_key is None):
            raise InvalidValue(
                "http", str(self.http), "on loopback, or with TLS and a token", "or say allow_open_http = true"
            )
        if self.tcp is not None and not self.tcp.loopback:
            if (self.token_file or self.access_file) is None:
                raise InvalidValue("token_file", None, "given, or access_file: TCP beyond loopback needs a token")
            if self.tls_key is None and not self.allow_plaintext:
                raise InvalidValue(
                    "tls_key", None, "given: TCP beyond loopback needs TLS", "or say allow_plaintext = true"
                )

        for port in self.snet_resources:
            if not (port.address.loopback or self.snet_beyond_loopback):
                raise InvalidValue(
                    "snet_resources", str(port.address), "a loopback address: its protocol has no token",
                    "or say snet_beyond_loopback = true",
                )  # fmt: skip

        if self.sharded and self.state is None:
            raise InvalidValue("state", None, "given: the folder where shards keep their states")
        if not self.sharded and self.copy is not None:
            raise InvalidValue(
                "copy", self.copy, "absent: only shards on Ray keep one", "copy a state file by `advisor export`"
            )

    @property
    def sharded(self) -> bool:
        """True where the state is in shards on Ray."""
        return self.engine != "here"

    @property
    def http_guarded(self) -> bool:
        """True where HTTP goes beyond this machine, and needs TLS and a token that may read."""
        return self.http is not None and not self.http.loopback and not self.allow_open_http

    def token(self) -> bytes | None:
        """Return the secret of TCP clients, None where there is none.

        Raises InvalidValue when the file cannot be read, others may read it, or its secret is too short.
        """
        if self.token_file is None:
            return None
        try:
            open_to_others = self.token_file.stat().st_mode & 0o077
            secret = self.token_file.read_bytes().strip()
        except OSError as error:
            raise InvalidValue("token_file", str(self.token_file), f"readable ({error.strerror})") from error
        if open_to_others:
            raise InvalidValue("token_file", str(self.token_file), "readable by its owner only", "chmod 600")
        if not TOKEN_BYTES_MIN <= len(secret) <= TOKEN_BYTES_MAX:
            raise InvalidValue(
                "token_file", f"{len(secret)} bytes", f"{TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes long"
            )
        return secret


KEYS: Mapping[str, str] = {each.name: str(each.metadata["about"]) for each in fields(Config)}


def load_config(file: Path | str | None = None, *, socket_else: Path | None = None, **options: Any) -> Config:
    """Return the configuration of a TOML file, overruled by `options`; an option of None is not given.

    `socket_else` is listened on where neither names a place to listen. Raises UnknownKey naming a key that there is not;
    InvalidValue naming the key, its value and its bound; or the file, where it cannot be read.
    """
    given = _from_file(Path(file)) if file is not None else {}
    given |= {key: value for key, value in options.items() if value is not None}
    unknown = sorted(given.keys() - KEYS.keys())
    if unknown:
        raise UnknownKey(
            f"the configuration has no key {unknown[0]!r}", field="config", value=unknown[0], bound=", ".join(KEYS),
            hint=closest(unknown[0], tuple(KEYS)),
        )  # fmt: skip
    if not given.keys() & {"socket", "tcp", "snet_resources"} and socket_else is not None:
        given["socket"] = socket_else
    checked = {
        each.name: each.metadata["kind"].check(each.name, given[each.name])
        for each in fields(Config)
        if each.name in given
    }
    return Config(**checked)


def _from_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("config", str(file), "a file that can be read", error.strerror or "") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("config", str(file), f"TOML ({error})") from error
