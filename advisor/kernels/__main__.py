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
    packages: dict[str, list[str]] = {}  # whose modules share functions, so that one process compiles them all
    for source in missing:
        packages.setdefault(source.module.rpartition(".")[0], []).append(source.module)
    if arguments or len(packages) < 2:
        fill_here(missing)
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            if any(pool.map(fill_beside, sorted(packages.values(), key=len, reverse=True))):
                return 1
    for source in chosen:
        print(source.module, source.library(), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
