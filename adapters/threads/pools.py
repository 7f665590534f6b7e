"""The thread pools of BLAS and OpenMP that this process has loaded, and their limits.

A pool of BLAS has one limit for the process. OpenMP keeps one for each thread that calls, and so do the builds of BLAS that
run on it: theirs is set by the thread that runs the call, and put back by it.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from advisor.errors import InvalidValue

OF_THREADS: Final = "openmp"


class Pools:
    """The pools, looked for anew only where modules were imported since: a search takes milliseconds, a limit microseconds."""

    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.of_threads: list[Any] = []
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
        self.shared, self.of_threads = [], []
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
