"""Where the boxes of the small real runtime run: processors by setting, and the worker processes that are held to them."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from advisor.domain.allocations import Allocation
from advisor.domain.networks import Network

if TYPE_CHECKING:
    from execution_machine import Record
    from execution_points import Station

STOP_S = 5.0  # a worker gets so long for its last run
Fields = dict[str, Any]
BoxFunction = Callable[[Fields, int], Fields]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a box runs.

    Attributes
    ----------
    cores : int
        Threads of an instance.
    processors : tuple of frozenset of int
        The processors of each instance.
    group : int, optional
        Boxes of one group share its processors in turns: one box at a time, so that what is measured is the run and not
        the wait for a processor.
    """

    cores: int
    processors: tuple[frozenset[int], ...]
    group: int | None = None

    @property
    def instances(self) -> int:
        """How many processes it has."""
        return len(self.processors)


def settings_of(allocation: Allocation, processors: Sequence[int]) -> dict[str, Setting]:
    """Return where each box runs under an allocation: groups share their processors, the others have their own."""
    free = deque(processors)
    found: dict[str, Setting] = {}
    for number, (cores, keys) in enumerate(allocation.groups):
        mine = frozenset(free.popleft() for _ in range(cores))
        for key in keys:
            found[key] = Setting(allocation.cores[key], (mine,) * allocation.instances[key], number)
    for key, cores in allocation.cores.items():
        if key not in found:
            each = [frozenset(free.popleft() for _ in range(cores)) for _ in range(allocation.instances[key])]
            found[key] = Setting(cores, tuple(each))
    return found


def equal_shares(network: Network, processors: Sequence[int]) -> dict[str, Setting]:
    """Return the setting without advice: the same cores for each box; where they are too few, boxes in text order."""
    keys, n = network.keys, len(processors)
    if n >= len(keys):
        each, rest = divmod(n, len(keys))
        free = iter(processors)
        sizes = [each + (row < rest) for row in range(len(keys))]
        return {key: Setting(size, (frozenset(next(free) for _ in range(size)),))
                for key, size in zip(keys, sizes, strict=True)}  # fmt: skip
    places = [row * n // len(keys) for row in range(len(keys))]
    return {key: Setting(1, (frozenset({processors[place]}),), place) for key, place in zip(keys, places, strict=True)}


def _work(pipe: Connection, boxes: Mapping[str, BoxFunction]) -> None:
    """Run boxes on request, in a process of its own; None ends it."""
    held: frozenset[int] = frozenset()
    while (request := pipe.recv()) is not None:
        name, fields, cores, processors = request
        if processors != held and hasattr(os, "sched_setaffinity"):
            for thread in Path("/proc/self/task").iterdir():  # threads that were started keep what they had
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), processors)
            held = processors
        start = perf_counter()
        try:
            made = boxes[name](fields, cores)
        except Exception as error:
            pipe.send((0.0, error))
        else:
            pipe.send((perf_counter() - start, made))


class Workers:
    """The processes of the machine, one a running instance, and what runs on them."""

    def __init__(self, boxes: Mapping[str, BoxFunction]) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._boxes = dict(boxes)
        self.running: dict[Connection, tuple[Station, Record, Setting, frozenset[int], int]] = {}
        self._all: list[tuple[Any, Connection]] = []
        self.now = 0.0  # of the last event; stations count with it
        self.active = 0
        self._turns: dict[int, deque[tuple[Station, Record, Connection, Setting, frozenset[int]]]] = {}
        self._taken: dict[int, tuple[str, int]] = {}  # group -> the box whose turn it is, and its runs

    @property
    def clock(self) -> Workers:
        """Stations ask their machine's clock for `now`."""
        return self

    def new(self) -> Connection:
        """Start a process."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._boxes), daemon=True)
        process.start()
        theirs.close()
        self._all.append((process, ours))
        return ours

    def start(self, *run: Any) -> None:
        """Run (station, record, pipe, setting, processors), in its group's turn."""
        setting = run[3]
        if setting.group is None:
            self._send(*run)
            return
        self._turns.setdefault(setting.group, deque()).append(run)
        self._next_turn(setting.group)

    def _next_turn(self, group: int) -> None:
        """Let the first that waits go, and with it other instances of its box."""
        waiting = self._turns[group]
        whose, runs = self._taken.get(group, ("", 0))
        while waiting and (not runs or waiting[0][0].key == whose):
            run = waiting.popleft()
            whose, runs = run[0].key, runs + 1
            self._send(*run)
        self._taken[group] = whose, runs

    def _send(
        self, station: Station, record: Record, pipe: Connection, setting: Setting, place: frozenset[int]
    ) -> None:
        self.active += setting.cores
        self.running[pipe] = (station, record, setting, place, self.active)
        pipe.send((station.name, record[4], setting.cores, place))

    def ended(self, setting: Setting) -> None:
        """Take note that a run has ended."""
        self.active -= setting.cores
        if setting.group is not None:
            whose, runs = self._taken[setting.group]
            self._taken[setting.group] = whose, runs - 1
            self._next_turn(setting.group)

    def stop(self) -> None:
        """End all processes."""
        for _, pipe in self._all:
            with suppress(OSError):
                pipe.send(None)
        for process, _ in self._all:
            process.join(STOP_S)
            if process.is_alive():
                process.kill()
