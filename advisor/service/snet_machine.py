"""What S-Net's runtime reads of this machine: its name, and the processors that may be lent."""

from __future__ import annotations

import os
import re

from advisor.protocol import snet_resources as text

HOSTNAME_MAX = 64


def usable_processors() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def host_name(name: str) -> str:
    """Return a host's name as clients read it: of letters, digits, dots and dashes, and beginning with no word of theirs."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", name)[:HOSTNAME_MAX]
    first = re.match(r"[A-Za-z]*", plain)
    return f"x-{plain}" if first is None or first[0] in ("", *text.COMMANDS, *text.ANSWERS) else plain
