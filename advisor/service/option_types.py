"""What the keys of a configuration take: addresses, sizes, lists, each a type with what reads its text."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from advisor.domain.names import checked_name
from advisor.domain.rows import is_number
from advisor.errors import InvalidValue, closest, not_one_of

PORT_MAX = 65_535
LOOPBACK = "127.0.0.1"
EVERY_NETWORK = "*"
RAY = "ray"
BEYOND = ("tcp", "http", "snet")  # what may be let out of this machine without its guards
TARGETS = ("throughput_per_s", "latency_s")
FOLLOWED = ("follow", "wait_s", "change_s")  # of a load that is read, and not of a plan
ADVISED = ("cores", "objective", *TARGETS, "arrival_per_s", "instances_max", "turns", "level", *FOLLOWED)
SECONDS_MAX = 86_400.0  # of a wait or a change: a load of a day ago is another load


class Option(NamedTuple):
    """What a key takes that is no plain type: stands in its annotation."""

    check: Callable[[str, Any], Any]  # (key, value) to its checked form; raises InvalidValue
    form: str  # of its text, in a help text
    type: type[Any] = str  # of the value that a text stands for, before it is taken


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


def parse_address(key: str, value: Any) -> Address:
    """Return HOST:PORT (or [HOST]:PORT for IPv6) as an address; raises InvalidValue."""
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    good = host and (bracketed or ":" not in host) and port.isascii() and port.isdigit() and int(port) <= PORT_MAX
    if not good:
        raise InvalidValue(key, value, f"HOST:PORT with a port from 0 to {PORT_MAX}, e.g. 127.0.0.1:7117")
    return Address(host, int(port))


class SnetPort(NamedTuple):
    """Where applications of S-Net's runtime come for cores, and the network that those who come there run."""

    address: Address
    network: str | None = None


def parse_snet_port(key: str, value: Any) -> SnetPort:
    """Return what [HOST:]PORT[=NETWORK] says; without a host it is loopback; raises InvalidValue."""
    where, named, network = str(value).partition("=")
    address = parse_address(key, where if ":" in where else f"{LOOPBACK}:{where}")
    if named and not network:
        raise InvalidValue(key, value, "HOST:PORT=NETWORK with the id of a network after the sign", "or leave = out")
    return SnetPort(address, checked_name("network", network) if named else None)


class Advise(NamedTuple):
    """What is planned in the background for one defined network, or for all others.

    Attributes
    ----------
    options : mapping
        Of `allocate`.
    follow : FollowedLoad, optional
        Where the load is read that the network has to keep up with.
    """

    network: str
    options: Mapping[str, Any]
    follow: FollowedLoad | None = None


class FollowedLoad(NamedTuple):
    """A Prometheus whose queries report a network's load, the longest wait of a record, and the seconds a change takes."""

    url: Any = ""
    wait_s: float = 60.0
    change_s: float = 30.0


def _followed(key: str, found: dict[str, Any]) -> FollowedLoad | None:
    """Take the keys of a load from those of a network's advice."""
    given = {name: found.pop(each) for each, name in zip(FOLLOWED, FollowedLoad._fields, strict=True) if each in found}
    if not given:
        return None
    follow = FollowedLoad(**given)
    if not str(follow.url).startswith(("http://", "https://")):
        raise InvalidValue(f"{key}: follow", follow.url, "the address of a Prometheus", "e.g. http://127.0.0.1:9090")
    for name in FOLLOWED[1:]:
        if not is_number(getattr(follow, name)) or not 0.0 <= getattr(follow, name) <= SECONDS_MAX:
            raise InvalidValue(f"{key}: {name}", getattr(follow, name), f"seconds from 0 to {SECONDS_MAX:g}")
    if set(found) & {"objective", *TARGETS}:
        raise InvalidValue(f"{key}: follow", follow.url, "no objective or target beside it", "the load is the target")
    return follow


def parse_advise(key: str, value: Any) -> Advise:
    """Return what NETWORK=NAME:VALUE,… says; NETWORK is an id of `define_network`, or * for all others.

    Raises InvalidValue naming the option, as `advisor.planning.requests.request_of`.
    """
    from advisor.planning.requests import request_of  # noqa: PLC0415 - a command that advises nothing needs no planner

    network, named, words = str(value).rpartition("=")
    if not named or not network:
        raise InvalidValue(key, value, "NETWORK=NAME:VALUE,…", "e.g. film=throughput_per_s:20,cores:64")
    found: dict[str, Any] = {}
    for word in words.split(","):
        name, said, text = word.partition(":")
        if name not in ADVISED or not said:
            raise InvalidValue(key, word, f"NAME:VALUE with one of {', '.join(ADVISED)}", closest(name, ADVISED))
        found[name] = _number_or_text(text)
    follow = _followed(key, found)
    target = {name: found.pop(name) for name in TARGETS if name in found}
    if target:
        found = {"objective": "fewest_cores", **found, "target": target}
    try:
        request_of({"cores": 1, **found})  # processors of this machine, where none are given
    except InvalidValue as error:
        raise InvalidValue(f"{key}: {error.field}", error.value, str(error.bound), error.hint or "") from error
    return Advise(network if network == EVERY_NETWORK else checked_name("network", network), found, follow)


def _number_or_text(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _advice(key: str, value: Any) -> tuple[Advise, ...]:
    found = _each(parse_advise, key, value)
    if len({each.network for each in found}) < len(found):
        raise InvalidValue(key, value, "each network once")
    return found


def _path(key: str, value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
        raise InvalidValue(key, value, "a path")
    return Path(value).expanduser()


def _host(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValue(key, value, "the name of a host")
    return value.lower()


def _each(parse: Callable[[str, Any], Any], key: str, value: Any) -> tuple[Any, ...]:
    """Return what each item of a list says; a text stands for a list of one."""
    listed = [value] if isinstance(value, str) else value if type(value) in (list, tuple) else [None]
    return tuple(parse(key, each) for each in cast("list[Any]", listed))


def checked_engine(key: str, value: Any) -> str:
    """Return where something runs, a key of this name; raises InvalidValue."""
    if not isinstance(value, str) or not (value in ("here", RAY) or value.startswith(f"{RAY}://")):
        raise InvalidValue(key, value, "here, ray, or ray://HOST:PORT", "HOST:PORT is where the head of a Ray listens")
    if "://" in value:
        parse_address(key, value.removeprefix(f"{RAY}://"))
    return value


def _kind(key: str, value: Any) -> str:
    if value not in BEYOND:
        raise not_one_of(key, value, BEYOND)
    return value


PATH, ADDRESS = Option(_path, "PATH"), Option(parse_address, "HOST:PORT")
ENGINE = Option(checked_engine, "here|ray[://HOST:PORT]")
HOSTS, BEYOND_LOOPBACK = Option(partial(_each, _host), "NAME"), Option(partial(_each, _kind), "|".join(BEYOND))
ADVICE = Option(_advice, "NETWORK=NAME:VALUE,…")
SNET_PORTS = Option(partial(_each, parse_snet_port), "[HOST:]PORT[=NETWORK]")
