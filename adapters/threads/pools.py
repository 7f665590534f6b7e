"""The thread pools that this process has loaded, and their limits: BLAS, OpenMP, PyTorch and numexpr.

A pool of BLAS has one limit for the process. OpenMP keeps one for each thread that calls, and so do the builds of BLAS that
run on it: theirs is set by the thread that runs the call, and put back by it. PyTorch and numexpr have functions for theirs.

polars fixes its number of threads when it is imported, DuckDB has one for each connection: neither can be set here (`UNSET`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from advisor.errors import InvalidValue

OF_THREADS: Final = "openmp"
UNSET: Final = ("polars", "duckdb")


class OfModule:
    """The pool of a module that has functions for it, as threadpoolctl has pools."""

    def __init__(self, name: str, get: Callable[[], int], put: Callable[[int], Any]) -> None:
        self.filepath = name
        self.get_num_threads = get
        self.set_num_threads = put


def of_module(name: str) -> list[OfModule]:
    """Return the pool of a module, where it is imported."""
    module: Any = sys.modules.get(name)
    if (put := getattr(module, "set_num_threads", None)) is None:  # absent while it is being imported
        return []
    return [OfModule(name, module.get_num_threads, put)]


class Pools:
    """The pools, looked for anew only where modules were imported since: a search takes milliseconds, a limit microseconds."""

    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.of_threads: list[Any] = []
        self.unset: tuple[str, ...] = ()  # modules that are imported, with pools that cannot be set
        self._modules = 0

    def look(self) -> None:
        """Find the pools of libraries that came with modules imported since the last look.

        Raises
        ------
        InvalidValue
            Where threadpoolctl is not installed.
        """
        modules = len(sys.modules)
        if modules == self._modules:
            return
        try:
            from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - of an extra
        except ImportError as error:
            raise InvalidValue("threadpoolctl", "none", "installed", "pip install threadpoolctl") from error
        self.shared, self.of_threads = [*of_module("numexpr")], [*of_module("torch")]  # torch's is OpenMP's
        self.unset = tuple(name for name in UNSET if name in sys.modules)
        found: list[Any] = ThreadpoolController().lib_controllers
        for pool in found:
            layer = getattr(pool, "threading_layer", "")
            (self.of_threads if OF_THREADS in (pool.user_api, layer) else self.shared).append(pool)
        self._modules = len(sys.modules)  # the search itself imports


def set_limits(pools: list[Any], limits: dict[str, int] | int, before: dict[str, int] | None = None) -> bool:
    """Set the limit of each pool that has another one; False where one kept its own.

    `before` is given the limits of pools that are not in it yet. threadpoolctl has a thread control the pools that it sets, and
    sets nothing for others until that thread ends or gives them up: so ours gives them up at once, and a thread of the
    program that holds on to them is left what it chose.
    """
    held = True
    for pool in pools:
        current, path = pool.get_num_threads(), pool.filepath
        if before is not None and path not in before:
            before[path] = current
        limit = limits if isinstance(limits, int) else limits.get(path, current)
        if current != limit:
            pool.set_num_threads(limit)
            if (give_up := getattr(pool, "clear_controlling_thread", None)) is not None:
                give_up()
            held = pool.get_num_threads() == limit and held
    return held
