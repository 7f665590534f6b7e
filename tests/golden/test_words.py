"""Words that a reader must guess at are in no page, and not in the code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".c", ".h", ".js", ".css", ".html", ".md"}
# The field's word instead: reported or status; outlier; scheduler; wake-up; notify; trim; commit marker; effective; padded;
# round robin; generation; reordered; unsubscribe; unregister; sink; wake-up.
REFUSED = (
    "told", "wild", "rota", "bell", "stir", "bury", "testimony", "felt", "eased", "dealt", "era", "overtaken", "unstand",
    "farewell", "pupil", "rung",
)  # fmt: skip
WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(REFUSED)})(?![a-z])", re.IGNORECASE)


def folder(path: Path) -> str:
    """Return the folder that a file counts for: a room of the package, an adapter, or the top folder."""
    inside = path.relative_to(ROOT).parts
    return "/".join(inside[: 2 if inside[0] in ("advisor", "adapters") and len(inside) > 2 else 1])


def found() -> Counter[str]:
    """Return the number of refused words by folder. Links are not followed: `advisor/adapters` is `adapters`."""
    counts = Counter[str]()
    for top in ("advisor", "adapters", "demos", "docs", "README.md", "CHANGELOG.md"):
        place = ROOT / top
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.suffix in SUFFIXES and path.is_file() and "adapters" not in path.relative_to(ROOT).parts[1:2]:
                counts[folder(path)] += len(WORD.findall(path.read_text(encoding="utf-8")))
    return counts


def test_no_folder_has_refused_words() -> None:
    assert not {where: count for where, count in found().items() if count}


def sentences(source: str) -> Iterator[str]:
    """Yield the strings of a module, docstrings among them, that are sentences: names in backquotes are left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield re.sub(r"`[^`]*`", "", node.value)


def test_messages_help_and_docstrings_have_none_of_them() -> None:
    modules = [path for top in ("advisor", "adapters") for path in (ROOT / top).rglob("*.py") if not path.is_symlink()]
    refused = {
        str(path.relative_to(ROOT))
        for path in modules
        if WORD.search(source := path.read_text(encoding="utf-8"))
        for text in sentences(source)
        if WORD.search(text)
    }
    assert not refused


def test_the_check_finds_words_and_names() -> None:
    assert WORD.findall("it is told") == ["told"]
    assert WORD.findall("`told_kinds`, TOLD") == ["told", "TOLD"]
    assert not WORD.findall("wildcard, bells, eras, stirred, interrupted, wrong, rotation")
