"""``python -m advisor.kernels [MODULE …]``: compile the kernels of these modules, or all, where they were not yet.

Without modules, some processes compile them side by side. Prints each module and where its library lies.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import FunctionType

import advisor
from advisor.kernels.source import NICENESS, Source, can_compile, sources

PACKAGE = Path(advisor.__file__).parent


def modules() -> list[str]:
    """Return the modules of this package that have a source, that of the learner first."""
    return [
        ".".join(("advisor", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "\nKERNELS = kernels.Source(" in path.read_text(encoding="utf-8")
    ]


def fill_here(missing: list[Source]) -> int:
    """Compile sources in this process, one after the other; return 1 where one cannot be."""
    os.nice(NICENESS)
    gc.disable()  # looking for cycles among numba's objects is a sixth of the time; without, a quarter more memory
    failed = 0
    for source in missing:
        try:
            source.fill()
        except Exception:
            traceback.print_exc()
            failed = 1
        gc.collect()
    return failed


def fill_beside(modules: list[str]) -> int:
    """Compile the kernels of modules in a process of their own; return its status."""
    command = [sys.executable, "-P", "-m", "advisor.kernels", *modules]
    environment = os.environ | {"ADVISOR_KERNELS": "interpreted"}
    return subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL).returncode  # noqa: S603


def divided(missing: list[Source], processes: int) -> list[list[str]]:
    """Return the modules of each of some processes: those that share functions together, and as many functions in each."""
    groups: list[tuple[set[FunctionType], list[str]]] = []
    for source in missing:
        functions, names = set(source.functions), [source.module]
        for group in [each for each in groups if not functions.isdisjoint(each[0])]:
            groups.remove(group)
            functions, names = functions | group[0], names + group[1]
        groups.append((functions, names))
    shares: list[tuple[int, list[str]]] = [(0, []) for _ in range(processes)]
    for functions, names in sorted(groups, key=lambda group: -len(group[0])):
        shares.sort(key=lambda share: share[0])
        shares[0] = (shares[0][0] + len(functions), shares[0][1] + names)
    return [names for _, names in shares if names]


def main(arguments: list[str]) -> int:
    """Compile the given modules here, or all by a process for each core; return 1 where something could not be compiled."""
    names = arguments or modules()
    os.environ["ADVISOR_KERNELS"] = "interpreted"
    for name in names:
        import_module(name)
    chosen = [source for source in sources() if source.module in names]
    missing = [source for source in chosen if source.library() is None]
    if missing and not can_compile():
        print("numba or a C compiler is not installed: kernels stay interpreted", file=sys.stderr)
        return 1
    processes = min(os.cpu_count() or 1, len(missing))
    if arguments or processes < 2:
        failed = fill_here(missing)
    else:
        with ThreadPoolExecutor(processes) as pool:
            failed = any(pool.map(fill_beside, divided(missing, processes)))
    if failed:
        return 1
    for source in chosen:
        print(source.module, source.library(), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
