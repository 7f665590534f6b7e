"""What a client says of rows given to it: they are taken when `observe` returns, whether that is awaited or not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Value = TypeVar("Value", bool, int)


class Taken(Generic[Value]):
    """How many rows were taken, or whether one was. Awaiting it gives the same, and waits only for room in a full buffer.

    Attributes
    ----------
    value : bool or int
        What was taken so far.

    Notes
    -----
    With ``when_full="block"`` and a full buffer the rows that found no room are taken when this is awaited. Where nobody
    awaits it they are dropped, and counted.
    """

    __slots__ = ("_drop", "_rest", "value")

    def __init__(
        self, value: Value, rest: Callable[[], Coroutine[Any, Any, Value]] | None = None,
        drop: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.value = value
        self._rest = rest
        self._drop = drop

    def __await__(self) -> Generator[Any, Any, Value]:
        rest, self._rest, self._drop = self._rest, None, None
        if rest is not None:
            self.value = yield from rest().__await__()
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __repr__(self) -> str:
        return f"Taken({self.value!r}{'' if self._rest is None else ', await it for the rest'})"

    def __del__(self) -> None:
        if self._drop is not None:
            self._drop()


TAKEN, LEFT = Taken(True), Taken(False)
