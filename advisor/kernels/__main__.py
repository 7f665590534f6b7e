"""``python -m advisor.kernels [MODULE …]``: compile the kernels of these modules, or all, where they were not yet.

Without modules, some processes compile them side by side. Prints each module and where its library lies.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

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


def fill_here(missing: list[Source]) -> None:
    """Compile sources in this process, one after the other."""
    os.nice(NICENESS)
    gc.disable()  # looking for cycles among numba's objects is a sixth of the time; without, a quarter more memory
    for source in missing:
        source.fill()
        gc.collect()


def fill_beside(modules: list[str]) -> int:
    """Compile the kernels of modules in a process of their own; return its status."""
    command = [sys.executable, "-P", "-m", "advisor.kernels", *modules]
    environment = os.environ | {"ADVISOR_KERNELS": "interpreted"}
    return subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL).returncode  # noqa: S603


def functions_in(chosen: list[Source]) -> int:
    """Return how many functions are compiled for some sources, each once: what the time depends on."""
    return len({function for source in chosen for function in source.functions})


def divided(missing: list[Source], processes: int) -> list[list[str]]:
    """Return the modules of each of some processes: those of a package share functions, so one process has them all."""
    packages: dict[str, list[Source]] = {}
    for source in missing:
        packages.setdefault(source.module.split(".")[1], []).append(source)
    shares: list[list[Source]] = [[] for _ in range(processes)]
    for package in sorted(packages.values(), key=functions_in, reverse=True):
        min(shares, key=functions_in).extend(package)
    return [[source.module for source in share] for share in shares if share]


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
        fill_here(missing)
    else:
        with ThreadPoolExecutor(processes) as pool:
            if any(pool.map(fill_beside, divided(missing, processes))):
                return 1
    for source in chosen:
        print(source.module, source.library(), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
