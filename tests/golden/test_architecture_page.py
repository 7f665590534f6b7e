"""docs/architecture.md names functions behind their file: each stands there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/]+\.py)`:((?:\s*`[\w.]+`,?(?: and)?)+)")


def test_what_the_page_names_stands_in_the_file_it_names() -> None:
    found, lost = 0, list[str]()
    for file, names in NAMED.findall((ROOT / "docs/architecture.md").read_text()):
        source = (ROOT / "advisor" / file).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            found += 1
            last = re.escape(name.rpartition(".")[2])
            if not re.search(rf"^\s*(?:(?:async )?def|class) {last}\b|^\s*{last}\b.*=", source, re.MULTILINE):
                lost.append(f"{file}: {name}")
    assert not lost
    assert found > 60, found
