"""docs/operations.md says what the configuration has."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.service import SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_every_key_is_on_the_page_and_none_else() -> None:
    table = PAGE.read_text().partition("## Configuration")[2].partition("## Watching it")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [key for row in rows for key in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(SETTINGS)


def test_every_metric_on_the_page_is_exported() -> None:
    source = "".join(file.read_text() for file in (Path(__file__).parents[3] / "advisor" / "service").glob("*.py"))
    for metric in set(re.findall(r"`(advisor_\w+?)(?:_total|_info)?(?:\{[\w,]+\})?`", PAGE.read_text())):
        assert re.search(f'"{metric}(_total)?"', source), metric
