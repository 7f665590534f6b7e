"""What was worked out and may be asked for again: a bounded store, the one kept longest gives way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Kept(Generic[V]):
    """At most so many values by key, each with the stamp that it was worked out at: of another stamp it is none."""

    __slots__ = ("_held", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, tuple[Any, V]] = OrderedDict()

    def get(self, key: Hashable, stamp: Any = None) -> V | None:
        """Return the value of a key, None where there is none of this stamp. Cost O(1)."""
        found = self._held.get(key)
        return found[1] if found is not None and found[0] == stamp else None

    def put(self, key: Hashable, value: V, stamp: Any = None) -> V:
        """Keep a value, and return it."""
        self._held[key] = stamp, value
        self._held.move_to_end(key)
        if len(self._held) > self._most:
            self._held.popitem(last=False)
        return value

    def drop(self, where: Callable[[Any], bool] | None = None) -> None:
        """Forget all, or the values of keys that a test is true of."""
        for key in [key for key in self._held if where is None or where(key)]:
            del self._held[key]
