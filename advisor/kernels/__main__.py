"""``python -m advisor.kernels MODULE…``: compile the sources of these modules into the cache, what is there already is kept."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from advisor.kernels.source import NICENESS, sources

if __name__ == "__main__":
    os.nice(NICENESS)
    for name in sys.argv[1:]:
        import_module(name)
    for source in sources():
        if source.module in sys.argv[1:]:
            source.fill()
