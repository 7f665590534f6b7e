"""Virtual time: an event loop that never waits, the `time` that modules see under it, the writer's thread as steps of it."""

from __future__ import annotations

import asyncio
import random
import selectors
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALL_S = 2e-5  # that pass between two looks at a clock: work takes time, and slices of it end
WALL_S = 1.8e9  # by the wall clock, when a world begins


Told = Callable[[BaseException | None, float], None]


class StandsStill(AssertionError):
    """Nobody will ever do anything again, and the world has not ended: somebody waits for what was forgotten."""


class _Leap(selectors.SelectSelector):
    """Waits for nothing: where all sleep, time leaps to the first that wakes."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StandsStill
        self.loop.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. What connects to a service by TCP comes to `network`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.network: Any = None
        leap = _Leap()
        leap.loop = self
        super().__init__(leap)

    def time(self) -> float:
        return self.now

    def _write_to_self(self) -> None:
        """There is no other thread to be woken by."""

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.network.connect(protocol_factory, port)


class VirtualTime:
    """What stands for the module `time`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.wall_s = WALL_S  # jumps, forwards and backwards

    def monotonic(self) -> float:
        return self._loop.now

    def perf_counter(self) -> float:
        self._loop.now += CALL_S
        return self._loop.now

    def time(self) -> float:
        return self.wall_s + self._loop.now


@contextmanager
def replaced(package: str, name: str, original: object, stand_in: object) -> Iterator[None]:
    """Let all modules of a package see `stand_in` where they have imported `original` by this name."""
    modules = [
        module
        for known, module in sys.modules.items()
        if known.startswith(package + ".") and vars(module).get(name) is original
    ]
    for module in modules:
        setattr(module, name, stand_in)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, original)


@contextmanager
def virtual_time(loop: VirtualLoop) -> Iterator[VirtualTime]:
    """Let the project see the time of a loop."""
    given = VirtualTime(loop)
    clocks: dict[Any, Any] = {
        getattr(time, name): getattr(given, name) for name in ("monotonic", "perf_counter", "time")
    }
    made = [each.__init__ for each in _classes() if {*_defaults(each.__init__)} & clocks.keys()]
    before = [(each, each.__defaults__, each.__kwdefaults__) for each in made]
    for each in made:  # clocks that are given to whoever asks for none
        each.__defaults__ = tuple(clocks.get(value, value) for value in each.__defaults__ or ())
        each.__kwdefaults__ = {key: clocks.get(value, value) for key, value in (each.__kwdefaults__ or {}).items()}
    try:
        with replaced("advisor", "time", time, given):
            yield given
    finally:
        for each, plain, named in before:
            each.__defaults__, each.__kwdefaults__ = plain, named


def _classes() -> list[Any]:
    modules = [module for name, module in sys.modules.items() if name.startswith("advisor.service.")]
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and "__init__" in vars(each)
    ]


def _defaults(function: Any) -> list[Any]:
    given = [
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).values(),
    ]
    return [value for value in given if callable(value)]


class VirtualWriter:
    """In the place of `advisor.service.writer.Writer`: work is one step of the loop, some time after it was given.

    Between its giving and its end other things happen, as beside a thread; what the disk has lost is not told.
    """

    def __init__(self, loop: VirtualLoop, rng: random.Random, over: Callable[[], bool], mean_s: float) -> None:
        self._loop, self._rng, self._over, self._mean_s = loop, rng, over, mean_s

    def begin(self, work: Callable[[], object], told: Told, behind: Callable[[], object]) -> None:
        self._loop.call_later(self._rng.expovariate(1 / self._mean_s), self._work, work, told, behind)

    def _work(self, work: Callable[[], object], told: Told, behind: Callable[[], object]) -> None:
        if self._over():
            return
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        if not self._over():
            self._loop.call_later(self._rng.expovariate(1 / self._mean_s), self._tell, told, error)
            behind()

    def _tell(self, told: Told, error: BaseException | None) -> None:
        if not self._over():
            told(error, self._mean_s)

    def close(self) -> None:
        """There is no thread."""
