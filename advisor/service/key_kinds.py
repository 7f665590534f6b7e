"""What keys of a configuration take: addresses, sizes, numbers, lists, each with its check and the form of its text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from msgspec import Meta

from advisor.domain.fields import shape_of
from advisor.domain.names import checked_name
from advisor.errors import InvalidValue, closest, not_one_of
from advisor.service.snet_machine import parse_cores

PORT_MAX = 65_535
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


def number(low: float, high: float, form: str = "N") -> KeyKind:
    """A finite number within bounds."""
    return KeyKind(shape_of(Annotated[float, Meta(ge=low, le=high)]).take, form, float)


def integer(low: int, high: int) -> KeyKind:
    """A whole number within bounds."""
    return KeyKind(shape_of(Annotated[int, Meta(ge=low, le=high)]).take, "N", int)


def size(low: int, high: int) -> KeyKind:
    """A size in bytes: an integer, or text such as 64MiB."""

    def check(key: str, value: Any) -> int:
        taken = value
        if isinstance(value, str):
            found = SIZE.fullmatch(value)
            taken = int(found[1]) * SIZE_UNITS[found[2] or ""] if found else None
        if not isinstance(taken, int) or isinstance(taken, bool) or not low <= taken <= high:
            raise InvalidValue(key, value, f"bytes from {low} to {high}, as an integer or like 64MiB")
        return taken

    return KeyKind(check, "SIZE")


def _hosts(key: str, value: Any) -> tuple[str, ...]:
    hosts = tuple(cast("list[Any]", value)) if type(value) in (list, tuple) else (None,)
    if not all(isinstance(host, str) and host for host in hosts):
        raise InvalidValue(key, value, "a list of host names")
    return tuple(str(host).lower() for host in hosts)


def one_of(*words: str) -> KeyKind:
    """One of some words."""

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


PATH, ADDRESS = KeyKind(_path, "PATH"), KeyKind(parse_address, "HOST:PORT")
FLAG, CPUS, HOSTS = (
    KeyKind(shape_of(bool).take, "", bool),
    KeyKind(parse_cores, "CPUS"),
    KeyKind(_hosts, "NAME", many=True),
)
ENGINE = KeyKind(checked_engine, "here|ray[://HOST:PORT]")
ADVICE = KeyKind(_advice, "NETWORK=NAME:VALUE,…", many=True)
SNET_PORTS = KeyKind(_snet_ports, "[HOST:]PORT[=NETWORK[*WORTH]]", many=True)
