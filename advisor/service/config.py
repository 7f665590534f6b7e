"""The configuration of a service: one table of keys, read from a TOML file and the command line, every value checked."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args, get_type_hints

from msgspec import Meta

from advisor.domain import limits
from advisor.domain.fields import shape_of, taken_apart, unknown_key
from advisor.errors import InvalidValue
from advisor.service import option_types as kinds
from advisor.service.option_types import Address, Advise, Option, SnetPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a service. Each field is a key of the TOML file; the command line gives the usual ones.

    socket: path of the Unix socket to listen on
    socket_mode: mode of that socket: who may open it may do everything
    tcp: HOST:PORT to listen on
    http: HOST:PORT of /metrics, /advice, /healthz and /readyz
    http_hosts: names that a Host header may have, beside loopback and addresses
    state: state file; without one nothing survives the service
    engine: where the state is: here; or in shards on Ray, one of its own, or the one of which this machine is a node
    shards: shards of a new state on Ray; later see `advisor shards`
    accept_damage: start without what is damaged in the state file
    tokens: TOML file of tokens, each with its scope: read, write or admin
    tls_certificate: PEM file with the certificate chain, for TLS on TCP
    tls_key: PEM file with the private key
    tls_clients: PEM file with the authorities whose certificates TCP clients must show
    open_beyond_loopback: let tcp do without TLS, http without TLS and token, snet, which knows no token, be reached by others
    components_max: components known; new ones are then refused
    model_memory: bytes for the learners of components; by default 1 % of the machine's memory, 64 MiB at least
    connections_max: connections open at a time
    stall_s: seconds a peer may take to finish a message or to read answers
    compiled: compile the kernels, in a process beside the service, where numba is; answers are the same
    heavy_deadline_s: seconds after which a request in a worker process, of two at a time, is killed
    log_level: least level that is logged
    advise: what to plan for in the background, reported by HTTP, of a network, or of all others (*), as film=cores:9
    snet_resources: [HOST:]PORT[=NETWORK] where S-Net's runtime comes for cores, those of the service, one a network
    """

    socket: Annotated[Path | None, kinds.PATH] = None
    socket_mode: Literal["0600", "0660", "0666"] = "0600"
    tcp: Annotated[Address | None, kinds.ADDRESS] = None
    http: Annotated[Address | None, kinds.ADDRESS] = None
    http_hosts: Annotated[tuple[str, ...], kinds.HOSTS] = ()
    state: Annotated[Path | None, kinds.PATH] = None
    engine: Annotated[str, kinds.ENGINE] = "here"
    shards: Annotated[int, Meta(ge=1, le=limits.SHARDS_MAX)] = 2
    accept_damage: bool = False
    tokens: Annotated[Path | None, kinds.PATH] = None
    tls_certificate: Annotated[Path | None, kinds.PATH] = None
    tls_key: Annotated[Path | None, kinds.PATH] = None
    tls_clients: Annotated[Path | None, kinds.PATH] = None
    open_beyond_loopback: Annotated[tuple[str, ...], kinds.BEYOND_LOOPBACK] = ()
    components_max: Annotated[int, Meta(ge=1, le=10**7)] = limits.COMPONENTS_MAX
    model_memory: Annotated[int, Meta(ge=0, le=2**44)] | None = None
    connections_max: Annotated[int, Meta(ge=1, le=10**5)] = limits.CONNECTIONS_MAX
    stall_s: Annotated[float, Meta(ge=0.01, le=3600)] = 30.0
    compiled: bool = True
    heavy_deadline_s: Annotated[float, Meta(ge=0.1, le=3600)] = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    advise: Annotated[tuple[Advise, ...], kinds.ADVICE] = ()
    snet_resources: Annotated[tuple[SnetPort, ...], kinds.SNET_PORTS] = ()

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
                "http", str(self.http), "on loopback, or with TLS and tokens", "or say open_beyond_loopback = 'http'"
            )
        if self.tcp is not None and not self.tcp.loopback:
            if not checks_peers:
                raise InvalidValue("tokens", None, "given: TCP beyond loopback needs tokens, or tls_clients")
            if self.tls_key is None and "tcp" not in self.open_beyond_loopback:
                raise InvalidValue(
                    "tls_key", None, "given: TCP beyond loopback needs TLS", "or say open_beyond_loopback = 'tcp'"
                )

        for port in self.snet_resources:
            if not (port.address.loopback or "snet" in self.open_beyond_loopback):
                raise InvalidValue(
                    "snet_resources", str(port.address), "a loopback address: its protocol has no token",
                    "or say open_beyond_loopback = 'snet'",
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
        return self.http is not None and not self.http.loopback and "http" not in self.open_beyond_loopback


class ConfigKey(NamedTuple):
    """One key of the configuration, as its declaration has it."""

    about: str
    default: Any
    option: Option

    @property
    def many(self) -> bool:
        """True for a list: an option that may come several times, words with spaces between them in the environment."""
        return self.default == ()


def _declared() -> dict[str, ConfigKey]:
    said = get_type_hints(Config, include_extras=True)
    abouts = dict(re.findall(r"^(\w+): (.+)$", inspect.getdoc(Config) or "", re.MULTILINE))
    return {each.name: ConfigKey(abouts[each.name], each.default, _option(said[each.name])) for each in fields(Config)}


def _option(said: Any) -> Option:
    said = get_args(said)[0] if NoneType in get_args(said) else said
    of, parts, notes = taken_apart(said)
    own = next((note for note in notes if isinstance(note, Option)), None)
    if own is not None:
        return own
    form = "|".join(parts) if of is Literal else {bool: "", float: "SECONDS"}.get(of, "N")
    return Option(shape_of(said).check_value, form, cast("type[Any]", str if of is Literal else of))


SETTINGS: Mapping[str, ConfigKey] = _declared()


def load_config(file: Path | str | None = None, *, socket_else: Path | None = None, **options: Any) -> Config:
    """Return the configuration of a TOML file, overruled by `options`; an option of None is not given.

    `socket_else` is listened on where neither names a place to listen. Raises UnknownKey naming a key that there is not;
    InvalidValue naming the key, its value and its bound; or the file, where it cannot be read.
    """
    given = _from_file(Path(file)) if file is not None else {}
    given |= {key: value for key, value in options.items() if value is not None}
    unknown = sorted(given.keys() - SETTINGS.keys())
    if unknown:
        raise unknown_key("the configuration", unknown[0], SETTINGS, "config")
    if not given.keys() & {"socket", "tcp", "snet_resources"} and socket_else is not None:
        given["socket"] = socket_else
    return Config(**{key: setting.option.check(key, given[key]) for key, setting in SETTINGS.items() if key in given})


def _from_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue("config", str(file), "a file that can be read", error.strerror or "") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("config", str(file), f"TOML ({error})") from error
