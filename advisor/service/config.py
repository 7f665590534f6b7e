"""The configuration of a service: one table of keys, read from a TOML file and the command line, every value checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from advisor.domain import limits
from advisor.domain.fields import unknown_key
from advisor.errors import InvalidValue
from advisor.service import key_kinds as kinds
from advisor.service.key_kinds import Address, Advise, KeyKind, SnetPort, integer, number, one_of, size


def _key(default: Any, kind: KeyKind, about: str) -> Any:
    return field(default=default, metadata={"kind": kind, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a service. Each field is a key of the TOML file; the command line gives the usual ones."""

    socket: Path | None = _key(None, kinds.PATH, "path of the Unix socket to listen on")
    socket_mode: str = _key(
        "0600", one_of("0600", "0660", "0666"), "mode of that socket: who may open it may do everything"
    )
    tcp: Address | None = _key(None, kinds.ADDRESS, "HOST:PORT to listen on")
    http: Address | None = _key(None, kinds.ADDRESS, "HOST:PORT of /metrics, /advice, /healthz and /readyz")
    http_hosts: tuple[str, ...] = _key(
        (), kinds.HOSTS, "names that a Host header may have, beside loopback and addresses"
    )
    state: Path | None = _key(None, kinds.PATH, "state file; without one nothing survives the service")
    engine: str = _key(
        "here",
        kinds.ENGINE,
        "where the state is: here; or in shards on Ray, one of its own, or the one of which this machine is a node",
    )
    shards: int = _key(2, integer(1, limits.SHARDS_MAX), "shards of a new state on Ray; later see `advisor shards`")
    stale_s: float = _key(0.5, number(0.01, 3600, "SECONDS"), "on Ray: seconds that an answer may lack rows")
    accept_damage: bool = _key(False, kinds.FLAG, "start without what is damaged in the state file")
    tokens: Path | None = _key(None, kinds.PATH, "TOML file of tokens, each with its scope: read, write or admin")
    tls_certificate: Path | None = _key(None, kinds.PATH, "PEM file with the certificate chain, for TLS on TCP")
    tls_key: Path | None = _key(None, kinds.PATH, "PEM file with the private key")
    tls_clients: Path | None = _key(
        None, kinds.PATH, "PEM file with the authorities whose certificates TCP clients must show"
    )
    allow_plaintext: bool = _key(False, kinds.FLAG, "let TCP beyond loopback do without TLS")
    allow_open_http: bool = _key(False, kinds.FLAG, "let HTTP beyond loopback do without TLS and token")
    components_max: int = _key(limits.COMPONENTS_MAX, integer(1, 10**7), "components known; new ones are then refused")
    model_memory: int | None = _key(
        None,
        size(0, 2**44),
        "bytes for the learners of components, e.g. 64MiB; by default 1 % of the machine's memory, 64 MiB at least",
    )
    producers_max: int = _key(limits.PRODUCERS_MAX, integer(1, 10**6), "producers remembered for exactly-once")
    connections_max: int = _key(limits.CONNECTIONS_MAX, integer(1, 10**5), "connections open at a time")
    memory_max: int | None = _key(
        None, size(2**26, 2**44), "bytes that the service may take, its worker processes apart; e.g. 1GiB"
    )
    stall_s: float = _key(
        30.0, number(0.01, 3600, "SECONDS"), "seconds a peer may take to finish a message or to read answers"
    )
    shutdown_s: float = _key(10.0, number(0.1, 3600, "SECONDS"), "seconds an orderly stop may take")
    compiled: bool = _key(
        True, kinds.FLAG, "compile the kernels, in a process beside the service, where numba is; answers are the same"
    )
    heavy_jobs: int = _key(2, integer(1, 64), "requests that may run in worker processes at a time")
    heavy_deadline_s: float = _key(30.0, number(0.1, 3600, "SECONDS"), "seconds after which such a request is killed")
    log_level: str = _key("info", one_of("debug", "info", "warning", "error"), "least level that is logged")
    advise: tuple[Advise, ...] = _key(
        (),
        kinds.ADVICE,
        "what to plan for in the background and tell by HTTP of a network, or of all others (*), e.g. film=throughput_per_s:20",
    )
    snet_resources: tuple[SnetPort, ...] = _key(
        (),
        kinds.SNET_PORTS,
        "[HOST:]PORT[=NETWORK[*WORTH]] where S-Net's runtime comes for cores, one a network",
    )
    snet_cores: tuple[int, ...] | None = _key(
        None,
        kinds.CPUS,
        "processors to lend there, like 0-3,6; absent: those that the service may run on",
    )
    snet_beyond_loopback: bool = _key(
        False, kinds.FLAG, "let that protocol, which knows no token, be reached from other machines"
    )

    def __post_init__(self) -> None:
        if self.socket is None and self.tcp is None and not self.snet_resources:
            raise InvalidValue("socket", None, "given, or tcp", "advisor serve --socket PATH")
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise InvalidValue(missing, None, "given: TLS needs certificate and key")
        if self.tls_clients is not None and self.tls_key is None:
            raise InvalidValue("tls_key", None, "given: certificates of clients need TLS")
        checks_peers = self.tokens is not None or self.tls_clients is not None
        if self.http_guarded and not (checks_peers and self.tls_key):
            raise InvalidValue(
                "http", str(self.http), "on loopback, or with TLS and tokens", "or say allow_open_http = true"
            )
        if self.tcp is not None and not self.tcp.loopback:
            if not checks_peers:
                raise InvalidValue("tokens", None, "given: TCP beyond loopback needs tokens, or tls_clients")
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

    @property
    def sharded(self) -> bool:
        """True where the state is in shards on Ray."""
        return self.engine != "here"

    @property
    def http_guarded(self) -> bool:
        """True where HTTP goes beyond this machine, and needs TLS, and tokens where there are some."""
        return self.http is not None and not self.http.loopback and not self.allow_open_http


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
        raise unknown_key("the configuration", unknown[0], KEYS, "config")
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
