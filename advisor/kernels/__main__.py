"""``python -m advisor.kernels [MODULE…]``: compile the sources of these modules, or of all, into the cache.

What is there already is kept. Run it where an image or an installation is made, and no process needs to compile later.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib import import_module

import advisor
from advisor.kernels.source import NICENESS, can_compile, sources


def import_all() -> None:
    """Import every module of the package, but those that run when they are imported or want an extra that is not there."""
    for module in pkgutil.walk_packages(advisor.__path__, "advisor."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ImportError as error:
                if (error.name or "").startswith("advisor"):
                    raise


def main(names: list[str]) -> None:
    """Fill the cache."""
    if not can_compile():
        sys.exit("numba is not installed for this Python: kernels stay interpreted")
    os.nice(NICENESS)
    for name in names:
        import_module(name)
    if not names:
        import_all()
    for source in sources():
        if source.module in names or not names:
            source.fill()


if __name__ == "__main__":
    main(sys.argv[1:])
