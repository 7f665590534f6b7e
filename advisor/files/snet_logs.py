"""Monitor logs and map files of S-Net's stream runtime (format 2.2), read in any pieces.

A file is entries that end with ``#``; its last may still be growing. A log has an entry for each stop of a task,
``[ns]STATE TASK [ns run] [ns made, if it ended] STREAMS MESSAGES`` with spaces after TASK and the times only, and those of its
worker; a map says of each task which box it is and where in the network it stands.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from advisor.errors import InvalidValue, TooLarge

ENTRY_BYTES_MAX = 2**26  # of one dispatch: two million messages
_HEAD = re.compile(rb"(\d*)([A-Za-z])(\d+)")
_MESSAGE = rb"(\d*)([IO])(\d+\.\d+)S(\d+);"
_TRACES = re.compile(rb"(?:\d+[rw][OCIR]\d+[?-][!-][*-]\|?)*((?:%b)*)" % _MESSAGE.replace(b"(", b"(?:"))
_MESSAGES = re.compile(_MESSAGE)
_WORKER = re.compile(rb"\d*([SE])|\d*W\d+|Log format version .*")
_LOAD = re.compile(rb"WC\d+WT\d+\s*")  # stands behind the last entry, where the load is logged
_STEP = re.compile(r":?([A-Z])(-?\d{1,18})?")
_PLACED = re.compile(r"(\d{1,18})((?::?[SPRIF](?:-?\d{1,18})?)*) (\S*)(?: (-?\d+))?\s*")
_OUTSIDE = re.compile(r"(\d{1,18})(\S+)(?: (-?\d+))?\s*")


class Message(NamedTuple):
    """A record that a task took in, or gave out."""

    at_ns: int
    taken: bool
    record: str
    size: int


class Stop(NamedTuple):
    """A dispatch of a task: it ran for `ran_ns` until `end_ns`, and stopped in a state."""

    end_ns: int
    state: str
    task: int
    ran_ns: int
    messages: tuple[Message, ...]


class Place(NamedTuple):
    """What a task is: the name of its box or of what else it is, and the way to it through the network.

    `steps` are pairs of a letter (S, a position in a series; P, a branch; R, a replica of a star; I, the index of a split;
    F, a feedback) and a number, None where there is none. `outside`: it stands beside the network, feeds or drains it.
    """

    name: str
    steps: tuple[tuple[str, int | None], ...] = ()
    outside: bool = False

    @property
    def box(self) -> bool:
        """True for a box; all else has its name in angle brackets, or none."""
        return not self.outside and bool(self.name) and not self.name.startswith("<")

    @property
    def replica(self) -> int | None:
        """The index of the innermost split around it."""
        found = [number for letter, number in self.steps if letter == "I"]
        return found[-1] if found and found[-1] is not None and found[-1] >= 0 else None

    @property
    def first(self) -> bool:
        """True where nothing in the network can have made a record that comes here."""
        most = {"S": 1, "R": 0, "F": -1}
        return all((number or 0) <= most.get(letter, number or 0) for letter, number in self.steps)

    def surely_after(self, other: Place) -> bool:
        """Return whether every record that comes here, or what it was made of, has passed `other`."""
        for at, ((letter, number), (theirs, earlier)) in enumerate(zip(self.steps, other.steps, strict=False)):
            if (letter, number) != (theirs, earlier):
                passed = all(kind in "SI" for kind, _ in other.steps[at + 1 :])
                return letter == theirs == "S" and passed and (earlier or 0) < (number or 0)
        return False


class Entries:
    """Cuts a file into whole entries."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rest = bytearray()  # bytearray: the beginning of an entry that is not whole yet

    def feed(self, data: bytes) -> list[bytes]:
        """Return the entries that are whole now, without their ends. Cost O(bytes); raises TooLarge."""
        seen = len(self.rest)
        self.rest += data
        if self.rest.find(b"#", seen) < 0:
            if len(self.rest) > ENTRY_BYTES_MAX:
                raise TooLarge(f"{self.name}: an entry", len(self.rest), ENTRY_BYTES_MAX, "this is no monitor log")
            return []
        *whole, rest = bytes(self.rest).split(b"#")
        self.rest[:] = rest
        return whole

    @property
    def partial(self) -> bool:
        """True while the file ends in the middle of an entry."""
        return bool(self.rest.strip()) and not _LOAD.fullmatch(self.rest)


def stop_of(entry: bytes, name: str) -> Stop | str:
    """Return the stop that an entry tells, or of its worker ``start``, ``end``, or an empty text.

    Raises InvalidValue when it reads as neither, or has no times.
    """
    entry = entry.strip()
    worker = _WORKER.fullmatch(entry)
    if worker is not None or not entry:
        return {b"S": "start", b"E": "end"}.get(worker[1] or b"", "") if worker else ""
    head, *parts = entry.split(b" ")
    numbers: list[int] = []
    while parts and parts[0].isdigit() and len(numbers) < 2:
        numbers.append(int(parts.pop(0)))
    found, traces = _HEAD.fullmatch(head), _TRACES.fullmatch(b"".join(parts))
    if found is None or traces is None:
        raise InvalidValue(name, entry[:80].decode("ascii", "replace"), "an entry of a monitor log, format 2.2")
    messages = tuple(
        Message(int(at or b"0"), kind == b"I", record.decode(), int(size))
        for at, kind, record, size in _MESSAGES.findall(traces[1])
    )
    if not found[1] or not numbers or any(not at for at, *_ in _MESSAGES.findall(traces[1])):
        raise InvalidValue(name, head.decode(), "an entry with times", "run the program with the flag -m A")
    return Stop(int(found[1]), found[2].decode(), int(found[3]), numbers[0], messages)


def place_of(entry: bytes, name: str) -> tuple[int, Place] | None:
    """Return the task of a map's entry and what it is; None for the header; raises InvalidValue."""
    text = entry.decode("utf-8", "replace").lstrip()
    if not text or text.startswith("Log format version"):
        return None
    placed = _PLACED.fullmatch(text)
    if placed is not None:
        steps = tuple((letter, int(number) if number else None) for letter, number in _STEP.findall(placed[2]))
        return int(placed[1]), Place(placed[3], steps)
    outside = _OUTSIDE.fullmatch(text)
    if outside is None:
        raise InvalidValue(name, text[:80], "a task's number, its way through the network and its name")
    return int(outside[1]), Place(outside[2], outside=True)
