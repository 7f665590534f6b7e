"""Words that a reader must guess at are in no page, and in the code they only become fewer."""

from __future__ import annotations

import re
from collections import Counter
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
# How often they still stand in a folder with what is below it. A folder that is not here has none; a number only falls.
LEFT = {
    "adapters/c": 14,
    "adapters/dask": 7,
    "adapters/openmp": 35,
    "adapters/snet": 6,
    "adapters/threads": 12,
    "advisor": 4,
    "advisor/cli": 152,
    "advisor/client": 90,
    "advisor/cluster": 100,
    "advisor/demo": 5,
    "advisor/domain": 31,
    "advisor/engine": 181,
    "advisor/files": 79,
    "advisor/kernels": 38,
    "advisor/models": 129,
    "advisor/network": 12,
    "advisor/pictures": 79,
    "advisor/planning": 99,
    "advisor/profile": 47,
    "advisor/protocol": 22,
    "advisor/service": 184,
    "advisor/simulation": 20,
    "demos": 9,
    "docs": 3,
}


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


def test_no_folder_has_more_of_the_refused_words_than_are_left() -> None:
    more = {where: count for where, count in found().items() if count > LEFT.get(where, 0)}
    assert not more


def test_the_check_finds_words_and_names() -> None:
    assert WORD.findall("it is told") == ["told"]
    assert WORD.findall("`told_kinds`, TOLD") == ["told", "TOLD"]
    assert not WORD.findall("wildcard, bells, eras, stirred, interrupted, wrong, rotation")
