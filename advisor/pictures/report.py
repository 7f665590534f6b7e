"""A report: what an advisor has learned, as one HTML file drawn by the same program as the live page."""

from __future__ import annotations

from advisor.engine import Advisor
from advisor.pictures import views
from advisor.pictures.pages import board

VIEWS_MAX = 200  # components with all their charts, those of most runs: 6 KB each
ROWS_MAX = 2_000  # of the table: 1 KB each, so that a file stays below 4 MB


def report(advisor: Advisor, source: str, foot: str) -> str:
    """Return the page.

    `source`: where it learned from: stands in the title. `foot`: last line: by what and when the report was made.
    """
    components = advisor.components
    slots: list[int] = views.found(advisor, "", len(components.slots.names)).tolist()
    names = [components.slots.owner(slot) for slot in slots]
    shown = {name: views.view(advisor, name) for name in names[:VIEWS_MAX]}
    rows = [views.row(advisor, name) for name in names[:ROWS_MAX]]
    data = {
        "about": _about(advisor, len(names)),
        "rows": rows,
        "views": shown,
        "left": _left(len(names)),
        "foot": foot,
    }  # fmt: skip
    return board(f"Advisor: {source}", data).html


def _about(advisor: Advisor, known: int) -> list[list[str]]:
    """Return the figures that a reader sees first: name, value, what it is of."""
    totals, ledger = advisor.components.totals, advisor.ledger()
    scores = ledger["scores"]
    return [
        ["Components", f"{known:,}", ""],
        ["Runs learned", f"{totals['rows_accepted']:,}", f"{totals['rows_refused']:,} rows refused"],
        ["Scored", f"{scores:,}", "predicted before they were learned"],
        ["Coverage", f"{ledger['covered'] / scores:.1%}" if scores else "–", "90 % promised"],
    ]


def _left(known: int) -> str | None:
    if known <= VIEWS_MAX:
        return None
    reported = f"The {VIEWS_MAX:,} components of most runs have their charts here, of {known:,}"
    return f"{reported}; {min(known, ROWS_MAX):,} have a row."
