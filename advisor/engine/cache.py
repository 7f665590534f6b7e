"""What was worked out and may be asked for again: a bounded cache, the oldest gives way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Cache(OrderedDict[Hashable, V], Generic[V]):
    """At most so many values by key."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def store_value(self, key: Hashable, value: V) -> V:
        """Store a value, and return it."""
        self[key] = value
        self.move_to_end(key)
        self.trim()
        return value

    def trim(self) -> None:
        """Forget the values stored longest ago, down to the bound."""
        while len(self) > self._most:
            self.popitem(last=False)

    def discard_where(self, where: Callable[[Any], bool] | None = None) -> None:
        """Forget all, or the values of keys that a test is true of."""
        for key in [key for key in self if where is None or where(key)]:
            del self[key]
