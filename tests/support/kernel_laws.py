"""The law of kernels: a source gives the same bytes with the compiler off and on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from advisor.kernels import Mode, Source
from advisor.kernels.source import mode_reported

MODES: tuple[Mode, Mode] = ("interpreted", "compiled")


@contextmanager
def used(mode: Mode, *sources: Source) -> Iterator[None]:
    """Run a block with sources in a mode; afterwards they are in that of the environment again."""
    for source in sources:
        source.use(mode)
    try:
        yield
    finally:
        for source in sources:
            source.use(mode_reported())


def bytes_of(value: Any) -> Any:
    """Return a value's bytes, numbers of Python and numpy alike; of mappings and sequences, those of their parts."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return [(key, bytes_of(each)) for key, each in cast("Mapping[Any, Any]", value).items()]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [bytes_of(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(value)
    return np.float64(value).tobytes() if isinstance(value, (float, np.floating)) else value


def both_ways(run: Callable[[], Any], *sources: Source) -> Any:
    """Return what ``run()`` returns, the same bytes with the sources interpreted and compiled.

    `run` makes its own arrays, calls entries of the sources (no types but those of their examples) and returns all that they
    wrote and returned: numbers, arrays, bytes, or tuples, lists and mappings of them.
    """
    found: list[Any] = []
    for mode in MODES:
        with used(mode, *sources):
            found.append(run())
    assert bytes_of(found[0]) == bytes_of(found[1])
    return found[0]
