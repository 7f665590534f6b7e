"""The tables of `docs/protocol.md` and `docs/security.md`, from the declarations of the verbs.

``python -m advisor.protocol.page docs/protocol.md docs/security.md`` makes them anew.
"""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING, fields
from pathlib import Path

from advisor.protocol.declaring import meanings
from advisor.protocol.verbs import METHODS

NUMBERING = ("producer", "incarnation", "sequence")  # the page says once what they are
_TABLE = re.compile(r"(<!-- keys of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VERBS = re.compile(r"(<!-- verbs of (\w+) -->).*?(<!-- end -->)")


def table(name: str) -> str:
    """Return the table of a verb's keys."""
    spec, said = METHODS[name], meanings(name)
    defaults = {each.name: each.default for each in fields(spec.into)}
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, what in spec.keys.items():
        if key in NUMBERING and name != "hello":
            continue
        default = "needed" if defaults[key] is MISSING else _word(defaults[key])
        lines.append(f"| `{key}` | {what.check.words.replace('|', '/')} | {default} | {said[key]} |")
    return "\n".join(lines) + "\n"


def with_tables(page: str) -> str:
    """Return the page with its tables made anew."""
    page = _TABLE.sub(lambda found: found[1] + table(found[2]) + found[3], page)
    return _VERBS.sub(lambda found: found[1] + verbs_of(found[2]) + found[3], page)


def verbs_of(scope: str) -> str:
    """Return the verbs of a scope."""
    return ", ".join(f"`{name}`" for name, spec in METHODS.items() if spec.scope == scope)


def _word(default: object) -> str:
    if default is None:
        return "nil"
    if isinstance(default, bool):
        return str(default).lower()
    return f"`{default}`" if isinstance(default, str) else f"{default}" if not isinstance(default, bytes) else "zeros"


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
