"""The text protocol of S-Net's resource server, sans-IO: bytes to commands, answers to bytes. The server's side.

A message is ``{ verb numbers }``, words parted by white space; it may come in any pieces, and several in one. A client says

    list, access ids, topology id                   what there is; which systems it may use
    local n, remote n                               cores that it could keep busy, here and elsewhere
    accept id cores, return id cores                answers to a grant, core by core; the latter to a revoke, too
    state, quit

and gets ``systems``, ``system`` (its topology), ``state``, ``grant id cores`` and ``revoke id cores``. There
is one system here, of number 0; cores are its logical processors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SYSTEM = 0  # this machine
LOGICAL_MAX = 62  # a client keeps its cores as bits of 64
MESSAGE_BYTES_MAX = 10 * 1024  # no client takes a longer one, nor do we
NUMBER_DIGITS_MAX = 9  # a client reads numbers into 32 bits

# Each command: its fewest and its most numbers.
COMMANDS: Mapping[str, tuple[int, int]] = {
    "list": (0, 0),
    "access": (0, 64),
    "topology": (1, 1),
    "local": (1, 1),
    "remote": (1, 1),
    "accept": (2, 64),
    "return": (2, 64),
    "state": (0, 0),
    "quit": (0, 0),
    "shutdown": (0, 0),
}
# The words of our answers.
ANSWERS = (
    "systems", "system", "grant", "revoke", "hostname", "children", "numa", "cache", "core", "proc", "logical",
    "physical",
)  # fmt: skip
_MESSAGE, _BEGUN = re.compile(rb"\s*\{([^{}]*)\}"), re.compile(rb"\s*(\{[^{}]*)?")
_WORD = re.compile(rb"[A-Za-z]+|[0-9]+")


class ResourceCommand(NamedTuple):
    """One message of a client: a verb of `COMMANDS`, and its numbers."""

    verb: str
    numbers: tuple[int, ...] = ()


class BadCommand(NamedTuple):
    """Bytes that are no message: nothing that follows them can be read."""

    reason: str


class Unknown(NamedTuple):
    """A message that reads, with a verb that is not served here, or numbers that its verb does not take."""

    text: str


class Frames:
    """Cuts a client's bytes into commands."""

    def __init__(self) -> None:
        self._held = b""
        self._broken = False

    def receive(self, data: bytes) -> list[ResourceCommand | Unknown | BadCommand]:
        """Return what is whole now; after a `BadCommand`, which comes last, nothing more. Cost O(bytes) a message."""
        if self._broken:
            return []
        self._held += data
        found: list[ResourceCommand | Unknown | BadCommand] = []
        at = 0
        while (whole := _MESSAGE.match(self._held, at)) is not None and len(whole[1]) + 1 < MESSAGE_BYTES_MAX:
            found.append(_read(whole[1]))
            at = whole.end()
        self._held = self._held[at:].lstrip()
        if len(self._held) >= MESSAGE_BYTES_MAX or _BEGUN.fullmatch(self._held) is None:
            self._broken, self._held = True, b""
            found.append(
                BadCommand(f"a message is in braces, holds no other, and has at most {MESSAGE_BYTES_MAX} bytes")
            )
        return found


def _read(inside: bytes) -> ResourceCommand | Unknown:
    words = inside.split()
    unknown = Unknown(b" ".join(words)[:80].decode("ascii", "backslashreplace"))
    if not words or not all(_WORD.fullmatch(word) for word in words):
        return unknown
    verb, numbers = words[0].decode("ascii"), words[1:]
    low, high = COMMANDS.get(verb, (1, 0))
    if not low <= len(numbers) <= high or not all(n.isdigit() and len(n) <= NUMBER_DIGITS_MAX for n in numbers):
        return unknown
    return ResourceCommand(verb, tuple(map(int, numbers)))


def message(verb: str, *words: object) -> bytes:
    """Return a message of ours."""
    return f"{{ {' '.join(map(str, (verb, *words)))} }}\n".encode("ascii")


def systems() -> bytes:
    """Return which systems there are: this one."""
    return message("systems", SYSTEM)


def grant(cores: Iterable[int]) -> bytes:
    """Return the message that hands cores out, by their logical numbers."""
    return message("grant", SYSTEM, *cores)


def revoke(cores: Iterable[int]) -> bytes:
    """Return the message that asks for cores back."""
    return message("revoke", SYSTEM, *cores)


def state(figures: Mapping[str, int]) -> bytes:
    """Return how a client stands, as names with a number each."""
    pairs = " ".join(f"{name} {number}" for name, number in figures.items())
    return message("state", f"{{ client {pairs} }}")


def system(name: str, processors: Sequence[int]) -> bytes:
    """Return the topology of a machine: one node and cache, a core for each processor, numbered from 0 in their order."""
    cores = " ".join(
        f"{{ core {at} logical {at} physical {at} children 1 {{ proc 0 logical {at} physical {physical} }} }}"
        for at, physical in enumerate(processors)
    )
    cache = f"{{ cache 0 children {len(processors)} {cores} }}"
    return message("system", SYSTEM, "hostname", name, "children", 1, f"{{ numa 0 children 1 {cache} }}")
