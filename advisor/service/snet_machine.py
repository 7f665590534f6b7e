"""This machine's topology, as Linux tells it, of the processors that may be lent."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from advisor.domain.machines import Machine
from advisor.errors import InvalidValue
from advisor.protocol import snet_resources as text

CPUS = Path("/sys/devices/system/cpu")
HOSTNAME_MAX = 64


def this_machine(chosen: Sequence[int] | None = None, cpus: Path = CPUS) -> Machine:
    """Return the shape of this machine, of the processors `chosen`; absent: of the first that this process may run on.

    What the system does not tell is taken as one: one node, one cache. Raises InvalidValue when a processor is chosen that
    this process may not use, or more than clients can number.
    """
    usable = usable_processors()
    most = text.LOGICAL_MAX + 1
    if chosen is None:
        chosen = usable[:most]
    unusable = sorted(set(chosen) - set(usable))
    if unusable or not chosen:
        raise InvalidValue("snet_cores", unusable[:8] or list(chosen), f"some of the processors {_ranges(usable)}")
    if len(set(chosen)) > most:
        raise InvalidValue("snet_cores", len(set(chosen)), f"at most {most} processors: clients number no more")
    places = sorted((_place(cpus, number), number) for number in set(chosen))
    nodes = tuple(
        tuple(
            tuple(tuple(number for _, number in core) for _, core in groupby(cache, lambda each: each[0][2]))
            for _, cache in groupby(node, lambda each: each[0][1])
        )
        for _, node in groupby(places, lambda each: each[0][0])
    )
    return Machine(host_name(socket.gethostname()), nodes)


def usable_processors() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def host_name(name: str) -> str:
    """Return a host's name as clients read it: of letters, digits, dots and dashes, and beginning with no word of theirs."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", name)[:HOSTNAME_MAX]
    first = re.match(r"[A-Za-z]*", plain)
    return f"x-{plain}" if first is None or first[0] in ("", *text.COMMANDS, *text.ANSWERS) else plain


def _place(cpus: Path, number: int) -> tuple[int, int, int]:
    """Return the node, the last-level cache (by the first processor behind it) and the core of a processor."""
    own = cpus / f"cpu{number}"
    node = min((int(found.name[4:]) for found in own.glob("node[0-9]*")), default=0)
    caches = [(_number(index / "level"), _number(index / "shared_cpu_list")) for index in own.glob("cache/index[0-9]*")]
    level = max(caches, default=(0, 0))[0]
    cache = min((first for at, first in caches if at == level), default=0)
    return node, cache, _number(own / "topology" / "thread_siblings_list", number)


def _number(file: Path, default: int = 0) -> int:
    """Return the first number of a file of the system."""
    try:
        found = re.match(r"[0-9]+", file.read_text())
    except OSError:
        return default
    return int(found[0]) if found else default


def parse_cores(key: str, value: object) -> tuple[int, ...]:
    """Return the processors of a text like ``0-3,6``; raises InvalidValue."""
    found: list[int] = []
    for part in str(value).split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        if ends is None or not 0 <= int(ends[2] or ends[1]) - int(ends[1]) < 10**5:
            raise InvalidValue(key, value, "processors like 0-3,6")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(sorted(set(found)))


def _ranges(numbers: Sequence[int]) -> str:
    spans = [[n for _, n in span] for _, span in groupby(enumerate(numbers), lambda each: each[1] - each[0])]
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
